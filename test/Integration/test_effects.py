# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a call changes outside itself is changed on every call, in order."""

from __future__ import annotations

import collections
import traceback
from collections.abc import Callable
from typing import Any

import pytest
import torch
from Integration.harness import (
    ANY,
    Compile,
    Plain,
    Steps,
    attempt,
    module_of,
    scenario,
    tell,
    values,
)
from torch import nn


@scenario
def test_list_append(compile: Compile) -> Steps:
    log: list[torch.Tensor] = []

    def g(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        log.append(y)
        return y + 1

    f = compile(g)
    for seed in range(4):
        yield [f(values(4, seed=seed)), list(log)]
    yield len({id(t) for t in log})


#: What becomes of a list: some of it ends a recording, behind what has read the list's contents for it.
USES: list[Callable[[list[Any]], Any]] = [
    torch.tensor, list.sort, list.reverse, list.pop, list.copy, list.clear, max, sorted, str, torch.stack,
    lambda log: log.insert(1, log[0] + 1), lambda log: log.sort(key=float), lambda log: log.__delitem__(0),
    lambda log: log.extend(log[:1]), lambda log: log.index(log[-1]), lambda log: [t.item() for t in log],
]  # fmt: skip


@scenario(captured="late", graph_breaks=ANY)
def test_uses_of_what_was_appended_to(compile: Compile) -> Steps:
    """Appended elements are known as such, or as a part of the contents, whether or not the use is recorded."""
    for use in USES:

        def g(log: list[Any], x: torch.Tensor, use: Any = use) -> Any:
            log.append(x[0] * 2)
            log.append(x[1])
            return use(log), x + 1

        f = compile(g)
        for seed in range(3):
            log: list[Any] = [torch.ones(())] * (seed + 1)
            yield [attempt(f, log, values(4, seed=seed)), log]


@scenario
def test_list_append_to_cleared(compile: Compile) -> Steps:
    log: list[int] = []

    def g(x: torch.Tensor) -> torch.Tensor:
        log.append(len(log))
        return x * len(log)

    f = compile(g)
    for _ in range(3):
        yield [f(values(4)), list(log)]
        log.clear()
    yield [f(values(4)), list(log)]
    yield [f(values(4)), list(log)]


@scenario
def test_list_methods(compile: Compile) -> Steps:
    def g(x: torch.Tensor, xs: list[Any]) -> torch.Tensor:
        xs.extend([1, 2])
        xs.insert(0, x)
        last = xs.pop()
        xs[1] = x + 1
        xs.reverse()
        del xs[0]
        xs += [last]
        return x * last

    f = compile(g)
    for _ in range(3):
        xs: list[Any] = [5, 6, 7]
        yield [f(values(4), xs), xs]


@scenario
def test_dict_methods(compile: Compile) -> Steps:
    def g(x: torch.Tensor, d: dict[str, Any]) -> torch.Tensor:
        d["a"] = x * 2
        d.update(b=3, c=x)
        k = d.pop("old")
        d.setdefault("b", 100)
        d.setdefault("z", k)
        del d["c"]
        return x * k

    f = compile(g)
    for k in (2.0, 2.0, 3.0):
        d: dict[str, Any] = {"old": k, "keep": 1}
        yield [f(values(4), d), d]


@scenario(captured="late")
def test_set_and_deque(compile: Compile) -> Steps:
    seen: set[int] = set()
    queue: collections.deque[torch.Tensor] = collections.deque(maxlen=2)

    def g(x: torch.Tensor, n: int) -> torch.Tensor:
        seen.add(n)
        queue.append(x + n)
        return x * len(seen)

    f = compile(g)
    for n in (1, 1, 2, 1, 2, 1, 2):
        yield [f(values(4), n), seen, list(queue)]


# A counter is a new value on each call: until scalars are lifted, each is a miss.
@scenario(captured="late")
def test_attribute_counter(compile: Compile) -> Steps:
    c = Plain(calls=0, last=None)

    def g(x: torch.Tensor) -> torch.Tensor:
        c.calls += 1
        c.last = x * 3
        return x + 1

    f = compile(g)
    for seed in range(5):
        yield [f(values(4, seed=seed)), c.calls, c.last]
    c.calls = 100
    yield [f(values(4)), c.calls]


@scenario
def test_attribute_written_value_is_fresh(compile: Compile) -> Steps:
    c = Plain(last=values(4))

    def g(x: torch.Tensor) -> torch.Tensor:
        c.last = c.last * 0.5 + x
        return c.last * 1

    f = compile(g)
    held = []
    for seed in range(4):
        yield f(values(4, seed=seed))
        held.append(c.last)
    yield held


@scenario
def test_attribute_deleted(compile: Compile) -> Steps:
    def g(x: torch.Tensor, c: Plain) -> torch.Tensor:
        y = x * c.k
        del c.k
        return y

    f = compile(g)
    for k in (2.0, 2.0, 3.0):
        c = Plain(k=k, other=1)
        yield [f(values(4), c), c]
    yield attempt(f, values(4), c)


@scenario(captured="late")
def test_global_write(compile: Compile) -> Steps:
    m = module_of(
        "TOTAL = 0\nLAST = None\ndef g(x):\n"
        "    global TOTAL, LAST\n    TOTAL = TOTAL + 1\n    LAST = x * TOTAL\n"
        "    return x + 1\n"
    )
    f = compile(m.g)
    for _ in range(4):
        yield [f(values(4)), m.TOTAL, m.LAST]
    m.TOTAL = 10
    yield [f(values(4)), m.TOTAL, m.LAST]


@scenario(captured="late")
def test_nonlocal_write(compile: Compile) -> Steps:
    count = 0

    def g(x: torch.Tensor) -> torch.Tensor:
        nonlocal count
        count = count + 2
        return x * 2

    f = compile(g)
    for _ in range(4):
        yield [f(values(4)), count]


@scenario
def test_nonlocal_tensor_state(compile: Compile) -> Steps:
    state = torch.zeros(4)

    def g(x: torch.Tensor) -> torch.Tensor:
        nonlocal state
        state = torch.tanh(state + x)
        return state * 2

    f = compile(g)
    for seed in range(4):
        yield [f(values(4, seed=seed)), state]


@scenario
def test_input_written_in_place(compile: Compile) -> Steps:
    def g(x: torch.Tensor) -> torch.Tensor:
        x.add_(1)
        y = x * 2
        x.mul_(3)
        return y + x

    f = compile(g)
    for seed in range(3):
        a = values(4, 4, seed=seed)
        yield [f(a), a]
    a = values(4, 4).t()
    yield [f(a), a]
    a = values(8, 8)
    yield [f(a[::2, 1::2]), a]


@scenario
def test_input_written_through_views(compile: Compile) -> Steps:
    def g(x: torch.Tensor) -> torch.Tensor:
        x[0] = 0
        x[:, 1] += 5
        x.t()[2].mul_(2)
        x.view(-1)[3::4] = x.sum()
        x.diagonal().zero_()
        return x[1:, 1:] * 2

    f = compile(g)
    for seed in range(3):
        a = values(4, 4, seed=seed)
        yield [f(a), a]


@scenario
def test_input_written_and_returned(compile: Compile) -> Steps:
    f = compile(lambda x: x.add_(1))
    for _ in range(3):
        a = values(4)
        out = f(a)
        yield [out is a, out, a._version > 0]


@scenario
def test_version_counter_of_written_input(compile: Compile) -> Steps:
    """Autograd relies on it to notice writes to saved tensors."""
    f = compile(lambda x: x.mul_(2).sum() * 1)
    for _ in range(3):
        a = values(4)
        f(a)
        yield a._version >= 1


@scenario
def test_write_to_saved_tensor_is_noticed(compile: Compile) -> Steps:
    def g(x: torch.Tensor) -> torch.Tensor:
        x.mul_(2)
        return x + 1

    f = compile(g)
    yield f(values(4))
    yield f(values(4))
    with torch.enable_grad():
        w = values(4).requires_grad_()
        a = values(4, seed=1)
        loss = (w * a).sum()
    f(a)
    out = attempt(loss.backward)
    yield type(out).__name__


@scenario
def test_copy_into_other_dtype(compile: Compile) -> Steps:
    def g(x: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
        out.copy_(x * 3)
        return out + 1

    f = compile(g)
    for dtype in (torch.float32, torch.float32, torch.int32, torch.float64):
        out = torch.zeros(4, dtype=dtype)
        yield [f(values(4), out), out]
    out = torch.zeros(3, 4)
    yield [f(values(4), out), out]


@scenario
def test_out_argument(compile: Compile) -> Steps:
    def g(x: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
        torch.add(x, 1, out=out)
        return out * 2

    f = compile(g)
    for _ in range(3):
        out = torch.zeros(4)
        yield [f(values(4), out), out]


@scenario(
    captured="late",
    graph_breaks="operator aten::add.out: it changes the shape of a tensor in place",
)
def test_out_argument_resized(compile: Compile) -> Steps:
    def g(x: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
        torch.add(x, 1, out=out)
        return out * 2

    f = compile(g)
    for _ in range(3):
        out = torch.empty(0)
        yield [f(values(4), out), out]


@scenario(captured="late")
def test_buffer_update(compile: Compile) -> Steps:
    class Running(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("mean", torch.zeros(4))
            self.steps = 0

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.steps += 1
            self.mean.mul_(0.9).add_(x.mean(0) * 0.1)
            return x - self.mean / self.steps

    m = Running()
    f = compile(m)
    for seed in range(5):
        yield [f(values(3, 4, seed=seed)), m.mean, m.steps]


@scenario
def test_buffer_reassigned(compile: Compile) -> Steps:
    class Running(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("mean", torch.zeros(4))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.mean = self.mean * 0.9 + x.mean(0) * 0.1
            return x - self.mean

    m = Running()
    f = compile(m)
    for seed in range(4):
        yield [f(values(3, 4, seed=seed)), m.mean, "mean" in m._buffers]


@scenario(captured="late")
def test_cache_filled_once(compile: Compile) -> Steps:
    c = Plain(cache=None)

    def g(x: torch.Tensor) -> torch.Tensor:
        if c.cache is None:
            c.cache = x * 10
        return x + c.cache

    f = compile(g)
    for seed in range(4):
        yield [f(values(4, seed=seed)), c.cache]
    c.cache = None
    yield [f(values(4, seed=9)), c.cache]


@scenario(captured="late")
def test_growing_cache(compile: Compile) -> Steps:
    """The key/value cache pattern: shapes grow on each call."""
    c = Plain(k=torch.zeros(0, 4))

    def g(x: torch.Tensor) -> torch.Tensor:
        c.k = torch.cat([c.k, x])
        return c.k.sum(0)

    f = compile(g)
    for seed in range(4):
        yield [f(values(1, 4, seed=seed)), c.k]
    c.k = torch.zeros(0, 4)
    for seed in range(4):
        yield [f(values(1, 4, seed=seed)), c.k]


@scenario
def test_order_of_writes(compile: Compile) -> Steps:
    class Watched:
        def __init__(self) -> None:
            object.__setattr__(self, "order", [])

        def __setattr__(self, name: str, value: object) -> None:
            self.order.append(name)  # type: ignore[attr-defined]
            object.__setattr__(self, name, value)

    def g(x: torch.Tensor, w: Watched) -> torch.Tensor:
        w.a = 1  # type: ignore[attr-defined]
        w.b = x * 2  # type: ignore[attr-defined]
        w.a = 3  # type: ignore[attr-defined]
        return x + 1

    f = compile(g)
    for _ in range(3):
        w = Watched()
        yield [f(values(4), w), w]


@scenario
def test_key_order_of_new_dict_entries(compile: Compile) -> Steps:
    def g(x: torch.Tensor, d: dict[str, Any]) -> torch.Tensor:
        d["b"] = x
        d["a"] = x * 2
        d["b"] = x * 3
        return x + 1

    f = compile(g)
    for _ in range(3):
        d: dict[str, Any] = {}
        yield [f(values(4), d), d]
    d = {"a": 0}
    yield [f(values(4), d), d]


@scenario
def test_fresh_containers_each_call(compile: Compile) -> Steps:
    f = compile(lambda x: {"out": [x * 2, (x + 1, 3)], "n": 4, "s": "t", "none": None})
    first = f(values(4))
    second = f(values(4))
    third = f(values(4))
    yield [first, second, third]
    yield [second is third, second["out"] is third["out"]]
    third["out"].append(5)
    yield f(values(4))


@scenario
def test_shared_structure_of_results(compile: Compile) -> Steps:
    def g(x: torch.Tensor) -> dict[str, Any]:
        inner = [x * 2]
        return {"a": inner, "b": inner, "t": (inner, inner[0])}

    f = compile(g)
    for _ in range(3):
        out = f(values(4))
        yield [
            out["a"] is out["b"],
            out["t"][0] is out["a"],
            out["t"][1] is out["a"][0],
        ]


@scenario
def test_external_object_returned(compile: Compile) -> Steps:
    c = Plain(items=[1, 2])
    f = compile(lambda x: (x * 2, c, c.items))
    for _ in range(3):
        out = f(values(4))
        yield [out[0], out[1] is c, out[2] is c.items]
    c.items = [3]
    yield f(values(4))[2]


@scenario
def test_instance_created(compile: Compile) -> Steps:
    class Output:
        def __init__(self, logits: torch.Tensor, n: int) -> None:
            self.logits = logits
            self.n = n

    f = compile(lambda x: Output(x * 2, 3))
    made = [f(values(4, seed=seed)) for seed in range(3)]
    yield [[type(o).__name__, o.logits, o.n] for o in made]
    yield made[0] is not made[1] and made[1] is not made[2]


@scenario
def test_cyclic_result(compile: Compile) -> Steps:
    def g(x: torch.Tensor) -> list[Any]:
        out: list[Any] = [x * 2]
        out.append(out)
        return out

    f = compile(g)
    for _ in range(3):
        out = f(values(4))
        yield [out[0], out[1] is out, len(out)]


@scenario
def test_cyclic_dict_and_list(compile: Compile) -> Steps:
    def g(x: torch.Tensor) -> dict[str, Any]:
        inner: list[Any] = []
        out: dict[str, Any] = {"x": x + 1, "inner": inner, "pair": (inner, 3)}
        inner.append({"back": out, "y": x * 2})
        return out

    f = compile(g)
    for seed in range(3):
        out = f(values(4, seed=seed))
        back = out["inner"][0]["back"]
        yield [out["x"], out["inner"][0]["y"], list(out), len(out["pair"])]
        assert back is out
        assert out["pair"][0] is out["inner"]


@scenario
def test_callee_writes_callers_list(compile: Compile) -> Steps:
    def record(log: list[Any], x: torch.Tensor) -> torch.Tensor:
        log.append(("seen", x.shape[0]))
        return x * 2

    f = compile(lambda x, log: record(log, record(log, x)))
    for _ in range(3):
        log: list[Any] = []
        yield [f(values(4), log), log]


@scenario
def test_swap_attributes(compile: Compile) -> Steps:
    c = Plain(a=values(4), b=values(4, seed=1))

    def g(x: torch.Tensor) -> torch.Tensor:
        c.a, c.b = c.b, c.a
        return x + c.a

    f = compile(g)
    for _ in range(5):
        yield [f(values(4)), c.a, c.b]


@scenario(graph_breaks="print")
def test_print_each_time(compile: Compile) -> Steps:
    import contextlib
    import io

    def g(x: torch.Tensor) -> torch.Tensor:
        print("step", x.shape[0])
        return x * 2

    f = compile(g)
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        results = [f(values(4)) for _ in range(4)]
    yield results
    yield out.getvalue()


@scenario(graph_breaks="a warning that is shown")
def test_warning_each_time(compile: Compile) -> Steps:
    import warnings

    def g(x: torch.Tensor) -> torch.Tensor:
        warnings.warn("careful", stacklevel=1)
        return x * 2

    f = compile(g)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        results = [f(values(4)) for _ in range(3)]
    yield results
    yield len([w for w in caught if str(w.message) == "careful"])


# Exceptions ----------------------------------------------------------------------


@scenario
def test_exception_after_effects(compile: Compile) -> Steps:
    def g(x: torch.Tensor, log: list[Any]) -> torch.Tensor:
        log.append(1)
        x.add_(1)
        if len(log) % 2 == 0:
            raise ValueError(f"even {len(log)}")
        log.append(2)
        return x

    f = compile(g)
    a = values(4)
    for start in ([], [], [0], [], [0], [0, 0]):
        log = list(start)
        yield [attempt(f, a, log), a, log]


@scenario
def test_exception_text_and_lines(compile: Compile) -> Steps:
    m = module_of(
        "def h(x, n):\n    return x.view(n, n)\n\ndef g(x, n):\n    return h(x * 2, n)\n"
    )
    f = compile(m.g)
    for n in (2, 2, 3):
        try:
            yield f(values(4), n)
        except RuntimeError as error:
            frames = traceback.extract_tb(error.__traceback__)
            lines = [e.lineno for e in frames if e.filename == m.__file__]
            yield [str(error), lines]


@scenario
def test_shape_error(compile: Compile) -> Steps:
    f = compile(lambda x, y: torch.relu(x @ y))
    yield f(values(3, 4), values(4, 5))
    yield f(values(3, 4), values(4, 5))
    yield attempt(f, values(3, 4), values(3, 5))
    yield f(values(3, 4), values(4, 5))


@scenario
def test_wrong_arguments(compile: Compile) -> Steps:
    def g(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    f = compile(g)
    yield f(values(4))
    yield f(values(4))
    yield attempt(f)
    yield attempt(f, values(4), values(4))
    yield attempt(f, y=values(4))
    yield f(x=values(4))


@scenario
def test_exception_chain_and_type(compile: Compile) -> Steps:
    class Odd(Exception):
        pass

    def g(x: torch.Tensor, n: int) -> torch.Tensor:
        try:
            if n % 2:
                raise KeyError(n)
        except KeyError as error:
            raise Odd("odd") from error
        return x * n

    f = compile(g)
    for n in (2, 2, 3, 2):
        try:
            yield f(values(4), n)
        except Odd as error:
            yield [type(error.__cause__).__name__, str(error)]


@scenario
def test_finally_runs(compile: Compile) -> Steps:
    log: list[str] = []

    def g(x: torch.Tensor, n: int) -> torch.Tensor:
        try:
            return x.view(n, -1) * 2
        finally:
            log.append("finally")

    f = compile(g)
    for n in (2, 2, 3, 4):
        yield [attempt(f, values(4), n), log]


@scenario(captured="late")
def test_versions(compile: Compile) -> Steps:
    """Version counters advance as often as eager writes."""

    def g(x: torch.Tensor, empty: torch.Tensor, y: torch.Tensor) -> Any:
        x.add_(1).mul_(2)
        x[0] = 3.0
        empty.add_(1)
        view = y[1:]
        view.zero_()
        view[0].fill_(2.0)
        fresh = torch.zeros(3)
        fresh += 1
        fresh[1:].mul_(2)
        return fresh, fresh[1:], view, x + 1

    f = compile(g)
    for seed in range(4):
        x, empty, y = values(4, seed=seed), torch.empty(0, 3), values(3, 2)
        base = y[:]
        results = f(x, empty, y)
        yield results
        yield [t._version for t in (x, empty, y, base, *results)]


@scenario
def test_versions_through_out(compile: Compile) -> Steps:
    def g(x: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
        torch.add(x, 1, out=out)
        torch.mul(out, 2, out=out)
        return out

    f = compile(g)
    for seed in range(3):
        x, out = values(4, seed=seed), torch.zeros(4)
        yield f(x, out) is out, out._version, x._version, out


@scenario(captured="late")
def test_versions_of_a_branch(compile: Compile) -> Steps:
    def g(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        if x.sum() > 0:
            y.add_(1)
        else:
            y.sub_(1)
        y.mul_(2)
        return y + x

    f = compile(g)
    for seed in range(6):
        x, y = values(4, seed=seed), torch.ones(4)
        yield f(x, y), y, y._version


@scenario(captured="late")
def test_leaf_that_requires_grad(compile: Compile) -> Steps:
    def g(x: torch.Tensor) -> Any:
        leaf = torch.ones(3, requires_grad=True)
        other = torch.full((2, 2), 3.0, requires_grad=True)
        return leaf, [other], x * 2, torch.zeros(2)

    f = compile(g)
    for seed in range(3):
        leaf, (other,), y, plain = f(values(4, seed=seed))
        yield leaf, other, y, plain, leaf.is_leaf, other.is_leaf
        with torch.enable_grad():
            (leaf.sum() * 2 + other.sum()).backward()
        yield leaf.grad, other.grad


@scenario(grad=True)
def test_leaf_that_requires_grad_in_grad_mode(compile: Compile) -> Steps:
    def g(x: torch.Tensor) -> Any:
        return torch.rand(3, requires_grad=True), x * 2

    f = compile(g)
    for seed in range(3):
        leaf, y = f(values(4, seed=seed))
        (leaf * 3).sum().backward()
        yield leaf, y, leaf.grad, leaf.is_leaf


@scenario(
    captured="late", graph_breaks="it writes memory that it reads as another tensor"
)
def test_out_that_the_operator_reads(compile: Compile) -> Steps:
    def g(x: torch.Tensor) -> torch.Tensor:
        torch.mul(x[0], 3, out=x[1])
        torch.sum(x, 0, out=x[0])
        return x * 2

    f = compile(g)
    for seed in range(4):
        x = values(3, 5, seed=seed)
        yield f(x), x


@scenario(
    captured="late", graph_breaks="it writes memory that it reads as another tensor"
)
def test_copy_over_itself(compile: Compile) -> Steps:
    def g(x: torch.Tensor) -> torch.Tensor:
        x[:, 1:].copy_(x[:, :-1])
        return x + 1

    f = compile(g)
    for seed in range(4):
        x = values(3, 5, seed=seed)
        yield f(x), x


@scenario
def test_out_beside_what_is_read(compile: Compile) -> Steps:
    """Parts of one tensor that share no element."""

    def g(x: torch.Tensor) -> torch.Tensor:
        torch.mul(x[:, ::2], 3, out=x[:, 1::2])
        torch.add(x[0], x[2], out=x[1])
        torch.neg(x[0], out=x[0])
        return x * 2

    f = compile(g)
    for seed in range(4):
        x = values(3, 6, seed=seed)
        yield f(x), x


VIEWS = {
    "detach": "return p.detach(), p.detach()[1:]",
    "view without grad": "with torch.no_grad():\n        v = p.view(-1)\n        w = v[1:]\n    return v, w",
    "part without grad": "with torch.no_grad():\n        v = p[1:]\n    return v.detach(), x * 2",
    "view with grad": "with torch.enable_grad():\n        v = x.view(-1)\n    return v, v.detach()",
    "leaf and detached": "leaf = torch.zeros(3, requires_grad=True)\n"
    "    return leaf.detach(), leaf, leaf.detach()[1:]",
    "written": "y = x * 2\n    d = y.detach()\n    d.add_(1)\n    return y, d, y[1:]",
    "detached and written": "d = x.detach()\n    d.mul_(2)\n    return d, x[0]",
}


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("way", VIEWS)
def test_views_as_autograd_sees_them(way: str, grad: bool) -> None:
    def story(compile: Compile) -> Steps:
        f = compile(module_of(f"import torch\ndef f(x, p):\n    {VIEWS[way]}\n").f)
        for seed in range(4):
            x, p = values(3, 4, seed=seed), values(3, 4, seed=seed).requires_grad_()
            shown = attempt(f, x, p)
            yield shown, x, p
            yield [(t.is_leaf, t.grad_fn is None, t._version) for t in (*shown, x, p)]
            if not shown[0].requires_grad:
                with torch.no_grad():
                    shown[0].add_(1)  # memory and counters are shared
            if not any(t.requires_grad for t in shown):
                yield shown, x, p, [t._version for t in (*shown, x, p)]

    # In grad mode an operator on what requires grad is left to eager; so is a leaf of the call's own
    # whose memory others show.
    left = way == "leaf and detached" or (
        grad and way in ("detach", "part without grad")
    )
    tell(story, captured=not left and "late", graph_breaks=ANY, grad=grad)


@scenario
def test_unsigned_rows_without_elements(compile: Compile) -> Steps:
    """Found by the random programs: the kernel of such rows did not compile."""

    def g(x: torch.Tensor) -> Any:
        y = x + 2
        return y, y.sum(-1, dtype=torch.float32)

    f = compile(g)
    for _ in range(3):
        yield f(torch.zeros(3, 0, dtype=torch.uint8))
