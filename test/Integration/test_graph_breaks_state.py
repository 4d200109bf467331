# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Graph breaks inside nested calls, `with`, `try`, loops and branches."""

from __future__ import annotations

import contextlib
import contextvars
import ctypes
import random
import threading
import time
from collections.abc import Iterator
from typing import Any, Self

import pyjit
import pytest
import torch
from Integration.graph_breaks import graph_break_scenario, printed
from Integration.harness import (
    ANY,
    Compile,
    Steps,
    attempt,
    difference,
    module_of,
    scenario,
    snapshot,
    tell,
    values,
)
from torch import nn

libc = ctypes.CDLL(None)


@graph_break_scenario(hits=4)
def test_nested_calls(compile: Compile) -> Steps:
    def inner(x: torch.Tensor, k: float) -> torch.Tensor:
        y = x * k
        print("inner", tuple(y.shape))
        return y + 1

    def middle(x: torch.Tensor) -> torch.Tensor:
        a = x.relu()
        b = inner(a, 2.0) - a
        return b * b

    def g(x: torch.Tensor) -> Any:
        c = x + 1
        return [middle(c), c]

    f = compile(g)
    for seed in range(5):
        yield printed(f, values(4, seed=seed))


@graph_break_scenario(hits=4)
def test_same_function_from_two_places(compile: Compile) -> Steps:
    def note(x: torch.Tensor, name: str) -> torch.Tensor:
        print(name, end=" ")
        return x + 1

    def g(x: torch.Tensor) -> torch.Tensor:
        y = note(x * 2, "a")
        return note(y * 3, "b") - x

    f = compile(g)
    for seed in range(6):
        yield printed(f, values(4, seed=seed))


@graph_break_scenario
def test_recursion(compile: Compile) -> Steps:
    def down(x: torch.Tensor, n: int) -> torch.Tensor:
        if n == 0:
            print("bottom")
            return x
        return down(x + n, n - 1) * 2

    f = compile(down)
    for seed in range(4):
        yield printed(f, values(4, seed=seed), 3)


@graph_break_scenario
def test_modules_in_modules(compile: Compile) -> Steps:
    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(4, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = self.layer(x)
            print("block")
            return torch.relu(y)

    net = nn.Sequential(Block(), Block(), nn.Linear(4, 2)).eval()
    f = compile(net)
    for seed in range(6):
        yield printed(f, values(2, 4, seed=seed))
    net[1].layer.bias.add_(1)
    yield printed(f, values(2, 4))


@graph_break_scenario(hits=2, grad=True)
def test_no_grad_block(compile: Compile) -> Steps:
    def g(x: torch.Tensor) -> Any:
        with torch.no_grad():
            y = x * 2
            print("grad", torch.is_grad_enabled())
            z = y + 1
        return z * 2, torch.is_grad_enabled()

    f = compile(g)
    for seed in range(5):
        yield printed(f, values(4, seed=seed))
        yield torch.is_grad_enabled()


@graph_break_scenario(grad=True)
def test_exception_leaves_no_grad_block(compile: Compile) -> Steps:
    def g(x: torch.Tensor, n: int) -> Any:
        with torch.no_grad():
            y = x * 2
            k = int.from_bytes(bytes([n]), "big")
            if k > 3:
                raise ValueError(k)
            z = y + k
        return z * 2

    f = compile(g)
    for n in (1, 1, 1, 5, 1, 5, 300, 1):
        yield attempt(f, values(4), n)
        yield torch.is_grad_enabled()


class Block:
    def __init__(self, log: list[Any]) -> None:
        self.log = log

    def __enter__(self) -> Self:
        self.log.append("in")
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> bool:
        self.log.append(kind)
        return kind is KeyError


@graph_break_scenario
def test_own_context_manager(compile: Compile) -> Steps:
    log: list[Any] = []

    def g(x: torch.Tensor, d: dict[str, int]) -> Any:
        y = x + 1
        with Block(log):
            y = y * 2
            libc.abs(1)
            y = y + d["k"]
        return y * 3

    f = compile(g)
    for d in ({"k": 1}, {"k": 1}, {"k": 1}, {}, {"k": 2}, {}):
        yield attempt(f, values(4), d)
        yield list(log)


@graph_break_scenario
def test_lock(compile: Compile) -> Steps:
    lock = threading.Lock()

    def g(x: torch.Tensor) -> Any:
        y = x + 1
        with lock:
            y = y * 2
            held = lock.locked()
        return y * 3, held

    f = compile(g)
    for seed in range(5):
        yield f(values(4, seed=seed))
        yield lock.locked()


@graph_break_scenario
def test_generator_context_manager(compile: Compile) -> Steps:
    log: list[str] = []

    @contextlib.contextmanager
    def block(name: str) -> Iterator[str]:
        log.append("in " + name)
        try:
            yield name
        finally:
            log.append("out " + name)

    def g(x: torch.Tensor) -> Any:
        y = x + 1
        with block("a") as name:
            y = y * 2
            print(name)
            y = y - 1
        return y * 3

    f = compile(g)
    for seed in range(8):
        yield printed(f, values(4, seed=seed))
        yield list(log)


@graph_break_scenario
def test_try_and_finally(compile: Compile) -> Steps:
    log: list[Any] = []

    def g(x: torch.Tensor, n: float) -> Any:
        y = x + 1
        try:
            y = y * 2
            time.sleep(n)
            y = y * n
        except ValueError:
            log.append("bad")
            y = y - 1
        finally:
            log.append(n)
        return y + 3

    f = compile(g)
    for n in (0.0, 0.0, 0.0, -1.0, 0.0, -1.0, 1e-9, -1.0, 0.0):
        yield attempt(f, values(4), n)
        yield list(log)


@graph_break_scenario
def test_exception_of_an_inner_frame(compile: Compile) -> Steps:
    def inner(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        time.sleep(state["n"])
        return y

    state = {"n": 0.0}

    def g(x: torch.Tensor) -> Any:
        y = x + 1
        try:
            y = inner(y)
        except ValueError as error:
            return y, str(error)
        return y * 2, None

    f = compile(g)
    for n in (0.0, 0.0, 0.0, -1.0, 0.0, -1.0, 0.0, 0.0):
        state["n"] = n
        yield attempt(f, values(4))


@graph_break_scenario(hits=0)
def test_graph_break_while_handling_an_exception(compile: Compile) -> Steps:
    def g(x: torch.Tensor, d: dict[str, int]) -> Any:
        try:
            y = x * d["k"]
        except KeyError as error:
            print("no", error)
            y = x * 5
        return y + 1

    f = compile(g)
    for d in ({"k": 1}, {}, {}, {"k": 1}, {}):
        yield printed(f, values(4), d)


@graph_break_scenario(hits=0)
def test_branch_on_data(compile: Compile) -> Steps:
    def g(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        if y.sum() > 0:
            return y.relu() + 1
        return y.abs() - 1

    f = compile(g)
    for sign in (1, 1, 1, -1, -1, -1, 1, -1):
        yield f(torch.ones(4) * sign)


def test_both_sides_are_compiled_as_they_are_taken() -> None:
    def g(x: torch.Tensor) -> torch.Tensor:
        if x.sum() > 0:
            return x * 2
        return x - 1

    f = pyjit.compile(g)
    up, down = torch.ones(4), -torch.ones(4)
    for x in (up, up):
        f(x)
    assert pyjit.stats(f)["graphs"] == 1
    for x in (down, down, up, down):
        torch.testing.assert_close(f(x), g(x))
    stats = pyjit.stats(f)
    # From then on, one specialization answers for both.
    assert stats["branches"] == 1
    assert stats["graphs"] == 1
    assert stats["graph_breaks"] == 0
    assert stats["hits"] == 4
    assert stats["continuation_hits"] == 0
    assert stats["eager_calls"] == 0


@graph_break_scenario
def test_conditions_on_data(compile: Compile) -> Steps:
    def g(x: torch.Tensor, y: torch.Tensor) -> Any:
        a = x * 2
        b = a if a.max() > 1 and not (y < 0).all() else y
        return b + 1, not a.any()

    f = compile(g)
    for a in (1.0, 0.0, 1.0):
        for b in (1.0, -1.0):
            for _ in range(2):
                yield f(torch.ones(3) * a, torch.ones(3) * b)


@graph_break_scenario
def test_while_on_data(compile: Compile) -> Steps:
    def g(x: torch.Tensor) -> Any:
        steps = 0
        while x.norm() > 1:
            x = x * 0.5
            steps += 1
        return x + 1, steps

    f = compile(g)
    for size in (4.0, 4.0, 4.0, 9.0, 0.1, 100.0):
        yield f(torch.ones(4) * size)


@graph_break_scenario
def test_for_over_a_list(compile: Compile) -> Steps:
    def g(xs: list[torch.Tensor]) -> torch.Tensor:
        total = torch.zeros(4)
        for x in xs:
            total = total + x * 2
            print("one")
            total = total.relu()
        return total * 3

    f = compile(g)
    for n in (3, 3, 3, 3, 5, 0, 1, 3):
        yield printed(f, [values(4, seed=n + i) for i in range(n)])


@graph_break_scenario
def test_for_over_a_range(compile: Compile) -> Steps:
    def g(x: torch.Tensor, n: int) -> torch.Tensor:
        for i in range(n):
            x = x * 1.5 + 1
            print(i, end=",")
        return x

    f = compile(g)
    for n in (3, 3, 3, 3, 40, 40):
        yield printed(f, values(4), n)


@graph_break_scenario
def test_long_loop_needs_no_stack(compile: Compile) -> Steps:
    def g(x: torch.Tensor, n: int) -> torch.Tensor:
        i = 0
        while i < n:
            x = x + 1
            libc.abs(1)
            i += 1
        return x

    f = compile(g)
    for n in (3, 3, 3, 3, 3000):
        yield f(values(4), n)


@graph_break_scenario
def test_enumerate_zip_and_items(compile: Compile) -> Steps:
    def g(d: dict[str, torch.Tensor], ys: list[torch.Tensor]) -> Any:
        out = []
        for i, (name, x) in enumerate(d.items()):
            out.append(x * 2)
            print(i, name)
        for a, b in zip(out, ys):
            out[0] = a + b
            print("pair")
        return out

    f = compile(g)
    for seed in range(8):
        d = {"a": values(4, seed=seed), "b": values(4, seed=9)}
        yield printed(f, d, [values(4), values(4)])


@graph_break_scenario
def test_comprehension(compile: Compile) -> Steps:
    def g(xs: list[torch.Tensor]) -> Any:
        ys = [x * libc.abs(-2) for x in xs]
        return ys, sum(ys) + 1

    f = compile(g)
    for seed in range(6):
        yield f([values(4, seed=seed), values(4)])


@scenario(captured="late", graph_breaks=ANY)
def test_break_continue_else(compile: Compile) -> Steps:
    def g(xs: list[torch.Tensor]) -> Any:
        total = torch.zeros(2)
        for x in xs:
            if x[0] > 5:
                break
            if x[0] < 0:
                continue
            total = total + x
        else:
            total = total * 10
        return total

    f = compile(g)
    rows = [[1.0, 2, 3], [1.0, -2, 3], [1.0, 9, 3], [9.0], []]
    for row in rows * 3:
        yield f([torch.tensor([v, v]) for v in row])


@graph_break_scenario(hits=0)
def test_graph_break_in_a_generator(compile: Compile) -> Steps:
    def parts(x: torch.Tensor) -> Iterator[torch.Tensor]:
        for i in range(3):
            print(i, end=" ")
            yield x * i

    def g(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        return sum(parts(y)) + y

    f = compile(g)
    for seed in range(4):
        yield printed(f, values(4, seed=seed))


@graph_break_scenario
def test_graph_break_under_a_native_caller(compile: Compile) -> Steps:
    def key(n: int) -> int:
        print("key", n)
        return -n

    def g(x: torch.Tensor, ns: list[int]) -> Any:
        y = x * 2
        order = sorted(ns, key=key)
        return y + 1, order

    f = compile(g)
    for seed in range(5):
        yield printed(f, values(4, seed=seed), [3, 1, 2])


@graph_break_scenario
def test_variable_of_a_nested_function(compile: Compile) -> Steps:
    def g(x: torch.Tensor) -> Any:
        n = 1

        def count() -> int:
            nonlocal n
            n += 1
            return n

        y = x * count()
        print("n is", n)
        return y * count(), n

    f = compile(g)
    for seed in range(6):
        yield printed(f, values(4, seed=seed))


@graph_break_scenario(hits=3)
def test_variable_of_a_generator_expression(compile: Compile) -> Steps:
    def g(x: torch.Tensor, xs: list[torch.Tensor], k: float) -> Any:
        y = x + k
        print("k", k)
        y = y + sum(v * k for v in xs)
        k = k + 1
        print("k", k)
        return y * k, list(k + i for i in range(2))  # noqa: C400

    f = compile(g)
    for seed in range(3):
        for k in (2.0, 3.0):
            yield printed(f, values(4, seed=seed), [values(4), values(4)], k)


@graph_break_scenario
def test_nested_function_that_prints(compile: Compile) -> Steps:
    def g(x: torch.Tensor, k: int) -> Any:
        def scaled(v: torch.Tensor, by: int = 2) -> torch.Tensor:
            print("scaled by", by * k)
            return v * by * k

        y = scaled(x + 1)
        return scaled(y, by=3) - 1

    f = compile(g)
    for seed in range(6):
        yield printed(f, values(4, seed=seed), 1 + seed % 2)


def test_loop_needs_few_specializations() -> None:
    libc.abs(0)  # found by name once

    def g(x: torch.Tensor, n: int) -> torch.Tensor:
        for i in range(n):
            x = x * 0.5 + 1
            libc.abs(i)
        return x * 2

    f = pyjit.compile(g)
    for seed in range(4):
        x = values(4, seed=seed)
        torch.testing.assert_close(f(x, 50), g(x, 50))
    stats = pyjit.stats(f)
    assert stats["specializations"] < 12
    assert stats["hits"] >= 1
    misses = stats["misses"]
    f(values(4), 50)
    assert pyjit.stats(f)["misses"] == misses
    assert pyjit.stats(f)["eager_calls"] <= 2


@graph_break_scenario
def test_closure_variable_from_outside(compile: Compile) -> Steps:
    k = 2.0

    def g(x: torch.Tensor) -> torch.Tensor:
        y = x * k
        time.sleep(0)
        return y + k

    f = compile(g)
    for value in (2.0, 2.0, 2.0, 3.0, 3.0):
        k = value
        yield f(values(4))


@graph_break_scenario
def test_default_and_keyword_arguments(compile: Compile) -> Steps:
    def g(x: torch.Tensor, *rest: Any, k: float = 2.0, **more: Any) -> Any:
        y = x * k
        time.sleep(0)
        for r in rest:
            y = y + r
        return y, more

    f = compile(g)
    for seed in range(4):
        x = values(4, seed=seed)
        yield f(x, x, 1, k=3.0, a=1)
        yield f(x)


@graph_break_scenario(hits=0)
def test_objects_of_extension_classes_are_not_rebuilt(compile: Compile) -> Steps:
    """The handle of a profiler's range is live at a graph break; only C++ can make one."""

    def g(x: torch.Tensor) -> torch.Tensor:
        with torch.profiler.record_function("part"):
            y = x * 2
        return y + 1

    f = compile(g)
    for seed in range(5):
        yield f(values(4, seed=seed))


@graph_break_scenario(hits=3)
def test_graph_break_while_a_context_variable_is_set(compile: Compile) -> Steps:
    """transformers' models: set, run, reset; a mask that data decides on in between."""
    variable = contextvars.ContextVar[Any]("collected", default=None)

    def collect(x: torch.Tensor) -> None:
        found = variable.get()
        if found is not None:
            found.append(x)

    def body(x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        y = x * 2
        collect(y)
        if not mask.all():
            y = y.masked_fill(mask.logical_not(), 0)
        collect(y)
        return y + 1

    def g(x: torch.Tensor, mask: torch.Tensor) -> Any:
        collected: list[torch.Tensor] = []
        token = variable.set(collected)
        try:
            y = body(x, mask)
        finally:
            variable.reset(token)
        return y, collected

    f = compile(g)
    for seed in range(8):
        mask = values(4, seed=seed) > (-9 if seed % 2 else 0)
        yield f(values(4, seed=seed), mask), variable.get()


SUPER = {
    "plain": ["{cut}", "return super().h(x)"],
    "bound": ["s = super()", "{cut}", "return s.h(x)"],
    "called": ["{cut}", "s = super()", "return s.h(x)"],
    "explicit": ["{cut}", "return super(Child, self).h(x)"],
    "in a cell": ["{cut}", "up = lambda: self", "return super().h(x) + up().k"],
    "in a nested function": [
        "def up(self):",
        "    {cut}",
        "    return super().h(x)",
        "return up(self)",
    ],
    "in a comprehension": ["{cut}", "return sum([super().h(x) for _ in range(2)])"],
    "in a loop": [
        "for i in range(2):",
        "    {cut}",
        "    x = super().h(x)",
        "return x",
    ],
    "after": ["y = super().h(x)", "{cut}", "return y + super().h(x)"],
    "with self gone": [
        "me = self",
        "{cut}",
        "y = super().h(x)",
        "del self",
        "{cut}",
        "return y * me.k",
    ],
    "class": ["{cut}", "return __class__.k * super().h(x)"],
}


@pytest.mark.parametrize("way", SUPER)
@pytest.mark.parametrize("cut", ["time.time()", "print(end='')", "free = id(x)"])
def test_super_after_a_graph_break(way: str, cut: str) -> None:
    body = "".join(f"        {line}\n" for line in SUPER[way]).replace("{cut}", cut)

    def story(compile: Compile) -> Steps:
        module = module_of(
            "import time\n"
            "class Parent:\n    k = 2.0\n    def h(self, x):\n        return x * self.k\n"
            f"class Child(Parent):\n    k = 3.0\n    def h(self, x):\n{body}"
            "    def other(self):\n        return __class__\n"
        )
        child = module.Child()
        f = compile(child.h)
        for seed in range(4):
            yield attempt(f, values(4, seed=seed))

    # A function that shares a variable with the frame cannot be carried over the graph break.
    captured = False if way == "in a nested function" else "late"
    tell(story, captured=captured, graph_breaks=ANY)


@scenario(captured="late", graph_breaks=ANY, grad=True)
def test_super_of_a_network_that_writes_its_weights(compile: Compile) -> Steps:
    class Clipped(nn.LSTM):
        def forward(self, x: torch.Tensor) -> Any:  # type: ignore[override]
            for parameter in self.parameters():
                parameter.data = parameter.data.clamp(-0.1, 0.1)
            return super().forward(x)[0]

    torch.manual_seed(0)
    net = Clipped(3, 4)
    f = compile(net)
    for seed in range(4):
        yield attempt(f, values(5, 2, 3, seed=seed))


@scenario(captured="late", graph_breaks=ANY)
def test_first_parameter_deleted_before_a_graph_break(compile: Compile) -> Steps:
    def g(a: torch.Tensor, x: torch.Tensor) -> Any:
        y = a + x
        del a
        time.time()
        try:
            return y, a  # noqa: F821
        except UnboundLocalError as error:
            return y, str(error)

    f = compile(g)
    for seed in range(4):
        yield attempt(f, values(4, seed=seed), values(4))


def _settles(f: Any, calls: int, *make: Any) -> None:
    """The last half of the calls, and what follows graph breaks in them, is compiled code's."""
    fast = pyjit.compile(f)
    for call in range(calls):
        if call == calls // 2:
            before = pyjit.stats(fast)
        torch.manual_seed(call)
        random.seed(call)
        arguments = [one() for one in make]
        states = torch.get_rng_state(), random.getstate()
        want = attempt(f, *arguments)
        torch.set_rng_state(states[0])
        random.setstate(states[1])
        have = attempt(fast, *arguments)
        found = difference(snapshot(want), snapshot(have))
        assert not found, found
    after = pyjit.stats(fast)
    assert after["hits"] - before["hits"] >= calls - calls // 2 - 1, after
    assert after["eager_calls"] - before["eager_calls"] <= 1, after
    assert after["specializations"] <= 24, after


@pytest.mark.filterwarnings("ignore")
def test_nested_tensors_settle() -> None:
    """The encoder's fast path packs what the padding mask leaves into a nested tensor."""
    layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
    net = nn.TransformerEncoder(layer, 2).eval()
    mask = torch.tensor([[False] * 5, [False] * 3 + [True] * 2])
    with torch.no_grad():
        _settles(
            lambda x, m: net(x, src_key_padding_mask=m),
            20,
            lambda: torch.randn(2, 5, 16),
            lambda: mask,
        )


def test_new_generators_settle() -> None:
    def made(x: torch.Tensor) -> torch.Tensor:
        return x * torch.rand(4, generator=torch.Generator().manual_seed(3)) + x.sin()

    def given(x: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        y = x.sin() * 2
        return y * torch.rand(4, generator=generator.manual_seed(5)) + x.cos()

    def given_last(x: torch.Tensor, *, generator: torch.Generator) -> torch.Tensor:
        return torch.randn(4, generator=generator) + x

    with torch.no_grad():
        _settles(made, 20, lambda: torch.randn(4))
        _settles(given, 20, lambda: torch.randn(4), torch.Generator)
        _settles(
            lambda x, g: given_last(x, generator=g.manual_seed(1)),
            20,
            lambda: torch.randn(4),
            torch.Generator,
        )


RANDOM_INTS = [
    "return x * dice(1, 9) + dice(1, 9)",
    "return x[dice(0, 3):dice(4, 8)] * 2",
    "h, w = dice(0, 4), dice(0, 4)\n    return x[h:h + 4, w:w + 4].mean()",
    "return torch.zeros(dice(1, 5), dice(1, 5)) + x[0, 0]",
    "return torch.roll(x, (dice(-3, 3), dice(-3, 3)), (0, 1)) * 2",
    "i, j = dice(0, 8), dice(0, 8)\n    return x[i, j] * 2",
    "i, j = dice(0, 8), dice(0, 8)\n    x = x.clone()\n    x[i], x[:, j] = 0, 1\n    return x * 2",
    "for _ in range(dice(1, 4)):\n        x = x * 2\n    return x + dice(0, 5)",
]


@pytest.mark.parametrize("body", RANDOM_INTS)
def test_random_ints_settle(body: str) -> None:
    module = module_of(
        f"import torch\nfrom random import randint as dice\ndef f(x):\n    {body}\n"
    )
    with torch.no_grad():
        _settles(module.f, 60, lambda: torch.randn(9, 9))
