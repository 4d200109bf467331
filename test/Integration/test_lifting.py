# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Numbers that change between calls become inputs: one recompilation, then hits."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from Integration.harness import (
    ANY,
    Compile,
    Steps,
    module_of,
    observe,
    scenario,
    tell,
    values,
)


def hits_from(story: Callable[..., Steps], misses: int) -> Callable[[], None]:
    """A test that tells a story and counts the calls that no specialization answered."""

    def test() -> None:
        import pyjit

        tell(story, captured="late")
        made = []

        def compile(f: Any, **options: Any) -> Any:
            made.append(pyjit.compile(f, **options))
            return made[-1]

        observe(story, compile, grad=False)
        stats = [pyjit.stats(compiled) for compiled in made]
        assert sum(s["misses"] for s in stats) == misses, stats
        assert sum(s["eager_calls"] for s in stats) == 0, stats

    test.__name__ = story.__name__
    test.__doc__ = story.__doc__
    test.__module__ = story.__module__
    return test


def misses(count: int) -> Callable[[Callable[..., Steps]], Callable[[], None]]:
    return lambda story: hits_from(story, count)


class Plain:
    def __init__(self, **attributes: Any) -> None:
        self.__dict__.update(attributes)


@misses(2)
def test_module_counter(compile: Compile) -> Steps:
    class Counter(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.n = 0

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.n += 1
            return x * self.n

    model = Counter()
    f = compile(model)
    for _ in range(8):
        yield [f(values(4)), model.n]
    model.n = 1000
    yield [f(values(4)), model.n]


@misses(2)
def test_learning_rate_argument(compile: Compile) -> Steps:
    f = compile(lambda p, g, lr: p - lr * g)
    for lr in (0.1, 0.05, 1e-8, 3.0, -0.0, math.inf):
        yield f(values(4), values(4, seed=1), lr)


@misses(2)
def test_keyword_argument(compile: Compile) -> Steps:
    f = compile(lambda x, *, scale: torch.add(x, x, alpha=scale))
    for scale in (1.0, 2.0, 3.5):
        yield f(values(4), scale=scale)


@misses(2)
def test_global(compile: Compile) -> Steps:
    m = module_of("SCALE = 2.0\ndef g(x):\n    return x / SCALE\n")
    f = compile(m.g)
    for scale in (2.0, 3.0, 4.0, 5.0):
        m.SCALE = scale
        yield f(values(4))


@misses(2)
def test_closure_cell(compile: Compile) -> Steps:
    total = 0.5

    def g(x: torch.Tensor) -> torch.Tensor:
        nonlocal total
        total = total * 2 + 1
        return x + total

    f = compile(g)
    for _ in range(6):
        yield [f(values(4)), total]


@misses(2)
def test_item_of_dict_of_argument(compile: Compile) -> Steps:
    f = compile(lambda x, config: x * config["inner"]["k"] - config[3])
    for k in range(5):
        yield f(values(4), {"inner": {"k": k}, 3: k / 2})


@misses(2)
def test_attribute_of_argument(compile: Compile) -> Steps:
    f = compile(lambda x, c: x * c.scale)
    for k in range(5):
        yield f(values(4), Plain(scale=k + 0.5))


@misses(2)
def test_counter_in_a_list(compile: Compile) -> Steps:
    """The other elements differ between calls as well, and stay where they were."""
    state = [0, 0.5, "a", 7]

    def step(x: torch.Tensor) -> Any:
        y = x * state[0] + state[1]
        state[0] += 1
        state[1] = state[1] / 2
        return y, state[3]

    f = compile(step)
    for _ in range(5):
        state[3] += 1
        yield [f(values(4)), list(state)]


@misses(2)
def test_attribute_of_a_bound_methods_object(compile: Compile) -> Steps:
    class Counter:
        def __init__(self) -> None:
            self.calls = 0

        def run(self, x: torch.Tensor) -> Any:
            self.calls += 1
            return x * 2, self.calls

    counter = Counter()
    f = compile(counter.run)
    for _ in range(5):
        yield [f(values(4)), counter.calls]


@misses(3)
def test_index_in_a_bound_methods_object(compile: Compile) -> Steps:
    """Followed as a number first, then as a size: as one in a function's own list is."""

    class Ring:
        def __init__(self) -> None:
            self.at, self.rows = 0, torch.zeros(9, 4)

        def push(self, x: torch.Tensor) -> torch.Tensor:
            self.rows[self.at] = x
            self.at += 1
            return self.rows.sum(0)

    f = compile(Ring().push)
    for _ in range(7):
        yield f(values(4))


@misses(2)
def test_adam_step(compile: Compile) -> Steps:
    state = Plain(t=0, lr=1e-2)

    def step(
        p: torch.Tensor, m: torch.Tensor, v: torch.Tensor, g: torch.Tensor
    ) -> None:
        state.t += 1
        state.lr *= 0.9
        m.lerp_(g, 1 - 0.9)
        v.mul_(0.99).addcmul_(g, g, value=1 - 0.99)
        first, second = 1 - 0.9**state.t, 1 - 0.99**state.t
        p.addcdiv_(m, (v.sqrt() / second**0.5).add_(1e-8), value=-state.lr / first)

    f = compile(step)
    p, m, v = values(8), torch.zeros(8), torch.zeros(8)
    for seed in range(7):
        f(p, m, v, values(8, seed=seed))
        yield [p, m, v, state.t, state.lr]


@misses(3)
def test_branch_on_a_lifted_number(compile: Compile) -> Steps:
    def g(x: torch.Tensor, n: int) -> torch.Tensor:
        return x + n if n % 3 == 0 else x - n

    f = compile(g)
    for n in range(9):
        yield f(values(4), n)


@scenario(captured="late")
def test_size_from_a_number(compile: Compile) -> Steps:
    """A number that becomes a size keeps its value in each specialization."""
    f = compile(lambda x, n: x.view(n, -1) * n)
    for n in (1, 2, 3, 2, 1, 3):
        yield f(values(12), n)


@scenario(captured="late")
def test_number_as_index_and_key(compile: Compile) -> Steps:
    table = {0: 5.0, 1: 7.0, 2: -1.0}
    f = compile(lambda x, n: x[n] * table[n] + [3, 4, 5][n])
    for n in (0, 1, 2, 1, 0):
        yield f(values(4), n)


@scenario(captured="late")
def test_number_as_text(compile: Compile) -> Steps:
    f = compile(lambda x, n: (x * n, f"step {n}", str(n), [n], {"n": n}))
    for n in (0, 1, 2, 1, 0):
        yield f(values(4), n)


@scenario(captured="late")
def test_overflow_and_division_by_zero(compile: Compile) -> Steps:
    def g(x: torch.Tensor, n: int, d: int) -> Any:
        return x * (n * n % 1000), n * n, 7 // d

    f = compile(g)
    for n, d in ((2, 1), (3, 2), (2**40, 3), (5, 7)):
        yield f(values(4), n, d)
    try:
        f(values(4), 3, 0)
    except ZeroDivisionError as error:
        yield str(error)
    yield f(values(4), 4, 4)


@pytest.mark.parametrize(
    "spoil, number",
    [
        (lambda s: 1.0 / s, 0.0),
        (lambda s: 1.0 // s, 0.0),
        (lambda s: 1.0 % s, 0.0),
        (lambda s: s**-1.0, 0.0),
        (lambda s: 10.0**s, 400.0),
        (lambda s: int(s), math.nan),
        (lambda s: int(s), math.inf),
        (lambda s: math.sqrt(s), -1.0),
        (lambda s: math.sin(s), math.inf),
    ],
)
def test_error_of_a_number_that_nothing_uses(
    spoil: Callable[[float], Any], number: float
) -> None:
    """Also in one arm of a branch, and behind one."""
    import pyjit

    def alone(x: Any, s: float) -> Any:
        spoil(s)
        return x * 2

    def in_an_arm(x: Any, s: float) -> Any:
        if x.sum() > 0:
            spoil(s)
        return x * 2

    def behind_a_branch(x: Any, s: float) -> Any:
        v = 2.0 if x.sum() > 0 else 0.5
        spoil(s)
        return x * v

    def answer(f: Any, x: Any, s: float) -> Any:
        try:
            return f(x, s).tolist()
        except (ArithmeticError, ValueError) as error:
            return type(error)

    x = torch.tensor([1.0, -3.0, 4.0])
    for f in (alone, in_an_arm, behind_a_branch):
        fast = pyjit.compile(f)
        for s in (2.0, 3.0, 4.0, 5.0, number, 2.0, number):
            for given in (x, -x):
                assert answer(fast, given, s) == answer(f, given, s), (f, s)
        assert pyjit.stats(fast)["hits"] > 0


@scenario(captured="late")
def test_type_changes(compile: Compile) -> Steps:
    f = compile(lambda x, n: x * n)
    for n in (1, 2, 2.0, True, 3, 2.5, False, 4):
        yield f(values(4), n)
    for n in (1, 2, 2.0, True, 3, 2.5):
        yield f(torch.arange(4), n)


@scenario(captured="late")
def test_half_precision(compile: Compile) -> Steps:
    f = compile(lambda x, a: (x * a + a, x > a))
    for a in (0.1, 0.2, 0.3, 1.0):
        yield f(values(16, dtype=torch.bfloat16), a)


@misses(2)
def test_zero_dim_tensor(compile: Compile) -> Steps:
    f = compile(lambda x, a: x * a)
    for a in (0.1, 0.2, 0.3, 1.0):
        yield f(values(), a)


@scenario(captured="late")
def test_integer_tensors(compile: Compile) -> Steps:
    f = compile(lambda x, n: (x * n, x // (n + 1), x % 5 + n, x / (n + 1), x > n))
    for n in (1, 2, 3, -5, 7):
        yield f(torch.arange(-6, 6), n)


@scenario(captured="late", graph_breaks="ZeroDivisionError")
def test_integer_division_by_zero_raises(compile: Compile) -> Steps:
    f = compile(lambda x, n: x // n)
    for n in (1, 2, 3, 0, 4):
        try:
            yield f(torch.arange(4), n)
        except RuntimeError as error:
            yield str(error)


@misses(2)
def test_number_is_returned(compile: Compile) -> Steps:
    f = compile(lambda x, n: {"n": n, "next": n + 1, "half": n / 2, "x": -x})
    for n in range(5):
        yield f(values(4), n)


@misses(2)
def test_min_max_abs(compile: Compile) -> Steps:
    f = compile(lambda x, n: x * max(n, 2) + min(n, 100) - abs(n) + float(n))
    for n in (3, 4, 5, 50):
        yield f(values(4), n)


@scenario(captured="late")
def test_number_in_a_container_that_is_compared(compile: Compile) -> Steps:
    def g(x: torch.Tensor, n: int) -> Any:
        return (
            x * 2 if (n, 1) in [(2, 1), (3, 1)] else x + n,
            sum([n, n]),
            sorted([n, 2]),
        )

    f = compile(g)
    for n in (1, 2, 3, 4, 1):
        yield f(values(4), n)


@scenario(captured="late")
def test_generator_and_comprehension(compile: Compile) -> Steps:
    def g(x: torch.Tensor, n: int) -> Any:
        return x * sum(n * k for k in range(3)), [n + k for k in range(2)]

    f = compile(g)
    for n in (1, 2, 3, 4, 1):
        yield f(values(4), n)


@scenario(eager="`is` between two numbers or strings")
def test_identity_of_numbers(compile: Compile) -> Steps:
    default = 0.25

    def g(x: torch.Tensor, a: float = default) -> torch.Tensor:
        return x if a is default else x * a

    f = compile(g)
    for a in (default, 0.5, 0.75, default, 1.0):
        yield f(values(4), a)


@scenario(captured="late")
def test_same_number_twice(compile: Compile) -> Steps:
    """`alpha`, the operand and a bound happen to be equal in one call."""
    f = compile(lambda x, n, k: x.add(n, alpha=k).clamp(n, 1) + 1)
    for n, k in ((1, 2), (1, 1), (0, 1), (0, 0), (-2, 3)):
        yield f(torch.arange(6) - 3, n, k)


@misses(2)
def test_two_counters_at_once(compile: Compile) -> Steps:
    c = Plain(a=0, b=0.0)

    def g(x: torch.Tensor) -> torch.Tensor:
        c.a += 1
        c.b += 0.5
        return x * c.a + c.b

    f = compile(g)
    for _ in range(5):
        yield [f(values(4)), c.a, c.b]


@pytest.mark.parametrize("count", [30])
def test_many_steps_hit(count: int) -> None:
    """More calls than specializations are allowed: only lifting answers them."""
    import pyjit

    state = Plain(steps=0)

    def g(x: torch.Tensor) -> torch.Tensor:
        state.steps += 1
        return x / state.steps

    f = pyjit.compile(g)
    with torch.no_grad():
        for step in range(1, count + 1):
            torch.testing.assert_close(f(values(4)), values(4) / step)
    assert state.steps == count
    assert pyjit.stats(f)["hits"] == count - 2


def after_a_graph_break(
    story: Callable[..., Steps], graph_break: str
) -> Callable[[], None]:
    """A test that tells a story with one kind of graph break, after which all but the first two calls
    go on in compiled code."""

    def test() -> None:
        import pyjit

        tell(story, graph_breaks=graph_break)
        made = []

        def compile(f: Any, **options: Any) -> Any:
            made.append(pyjit.compile(f, **options))
            return made[-1]

        calls = len(observe(story, compile, grad=False))
        stats = [pyjit.stats(compiled) for compiled in made]
        assert sum(s["continuation_hits"] for s in stats) >= calls - 2, stats

    test.__name__ = story.__name__
    return test


def _tolist(compile: Compile) -> Steps:
    f = compile(lambda x: torch.relu(x * 2 * x.tolist()[1] + 1))
    for seed in range(6):
        yield f(values(4, seed=seed))


def _python_random(compile: Compile) -> Steps:
    f = compile(lambda x: torch.relu(x * random.random()) * (2 - random.random()))
    for seed in range(6):
        yield f(values(4, seed=seed))


test_data_after_a_graph_break = after_a_graph_break(_tolist, "data read by Python")
test_random_number_after_a_graph_break = after_a_graph_break(
    _python_random, "Random.random"
)


@scenario(captured="late", graph_breaks=ANY)
def test_shape_after_a_graph_break(compile: Compile) -> Steps:
    """A number that the continuation looks at is no input of it."""

    def g(x: torch.Tensor) -> torch.Tensor:
        n = random.randrange(1, 6)
        return torch.zeros(n) + x[:n].sum() * n

    f = compile(g)
    for seed in range(12):
        yield f(values(8, seed=seed))


@scenario(captured="late", graph_breaks=ANY)
def test_counter_in_a_loop_with_a_graph_break(compile: Compile) -> Steps:
    def g(x: torch.Tensor, out: list[float]) -> torch.Tensor:
        for i in range(5):
            out.append(x.sum().item())
            x = x * i + 1 if i % 2 else x - i
        return x

    f = compile(g)
    for seed in range(6):
        out: list[float] = []
        yield [f(values(8, seed=seed), out), out]


@pytest.mark.parametrize("kind", ["tensor", "as_tensor", "scalar_tensor"])
def test_tensors_of_numbers(kind: str) -> None:
    """`torch.tensor(n)`: the program makes it of the number that the call has."""
    import pyjit

    def f(x: torch.Tensor, n: float) -> tuple:
        t = getattr(torch, kind)(n)
        return x * t, t, getattr(torch, kind)(n / 3, dtype=torch.float64)

    fast = pyjit.compile(f)
    for n in [0.1, 0.2, 0.7, -3.0, 1e30, 5.0]:
        x = torch.randn(4)
        for ours, eagers in zip(fast(x, n), f(x, n)):
            torch.testing.assert_close(ours, eagers, rtol=0, atol=0)
    stats = pyjit.stats(fast)
    assert stats["specializations"] == 2 and stats["hits"] == 4, stats
    if kind != "scalar_tensor":  # which raises
        torch.testing.assert_close(fast(x, 1e39), f(x, 1e39))  # infinity


@scenario(graph_breaks=ANY, captured="late")
def test_one_number_in_two_places(compile: Compile) -> Steps:
    """What one place takes as a size, another one must not keep as it was."""
    calls = (
        lambda x, n: F.pad(x, (n, n), value=n),
        lambda x, n: torch.constant_pad_nd(x, (n, 1), n),
        lambda x, n: torch.full((n, 2), n),
        lambda x, n: torch.arange(n, n + n, n),
    )
    for call in calls:
        f = compile(call)
        for n in (2, 2, 1, 3, 4, 7):
            yield f(values(4, 2), n)


@scenario(grad=True, graph_breaks=ANY, captured="late")
def test_gradient_of_a_power_of_a_number(compile: Compile) -> Steps:
    """Its rule must not be chosen by the number of an earlier call."""
    f = compile(lambda x, n: n**x)
    for n in (2.0, 3.0, 0.0, -2.0, -0.0, float("inf"), 1.0):
        x = torch.tensor([0.0, 1.5, 2.0, -1.0], requires_grad=True)
        out = f(x, n)
        out.sum().backward()
        yield out, x.grad
