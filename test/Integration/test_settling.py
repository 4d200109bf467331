# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Programs that look at numbers which differ in each call: they settle after a few calls, none compiles in each."""

from __future__ import annotations

import collections
import math
import random
import types
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from Integration.harness import ANY, Compile, Steps, tell, values
from Integration.training import classifier, labelled, settled, state
from pyjit._api import engine_of, is_compiled


def settles(
    story: Callable[[Compile], Steps], last: int = 3, most: int | None = None
) -> None:
    """Tells a story, and fails where one of its `last` steps was recorded, or where more than `most`
    were in all."""
    made: list[Any] = []
    counts: list[int] = []

    def watched(compile: Compile) -> Steps:
        made.clear()
        counts.clear()

        def compile_and_keep(f: Any, **options: Any) -> Any:
            f = compile(f, **options)
            if is_compiled(f):
                made.append(f)
            return f

        for seen in story(compile_and_keep):
            counts.append(sum(engine_of(f, "stats").captures for f in made))
            yield seen

    tell(watched, captured=False, graph_breaks=ANY, grad=True)
    assert made
    assert counts[-1] == counts[-1 - last], counts
    assert most is None or counts[-1] <= most, counts


def steps_with(
    use: Callable[[dict[str, Any], float], Any], steps: int = 16
) -> Callable[[Compile], Steps]:
    """A training step that keeps books of its loss: `use` is given what the program keeps, and the loss."""

    def story(compile: Compile) -> Steps:
        m = classifier()
        chosen = torch.optim.SGD(m.parameters(), lr=0.05, momentum=0.9)
        kept: dict[str, Any] = {
            "step": 0,
            "losses": [],
            "window": [0.5, 1.0, 0.25, 2.0],
        }

        def step(x: torch.Tensor, y: torch.Tensor) -> Any:
            loss = F.cross_entropy(m(x), y)
            chosen.zero_grad()
            loss.backward()
            chosen.step()
            found = use(kept, loss.item())
            kept["step"] += 1
            return loss.detach(), found

        f = compile(step)
        for i in range(steps):
            torch.manual_seed(i)
            found = f(*labelled(i))
            seen = {k: list(v) if k == "queue" else v for k, v in kept.items()}
            yield [found, state(m, chosen), seen]

    return story


# ---- Looked at in each call: the graph breaks there


def history(kept: dict[str, Any], loss: float) -> Any:
    kept["losses"].append(loss)
    mean = sum(kept["losses"]) / len(kept["losses"])
    return mean, max(kept["losses"]), min(kept["losses"])


def recent(kept: dict[str, Any], loss: float) -> Any:
    kept["losses"].append(loss)
    last = kept["losses"][-5:]
    return sum(last) / len(last)


def by_step(kept: dict[str, Any], loss: float) -> Any:
    kept.setdefault("log", {})[kept["step"]] = loss
    return len(kept["log"])


def text(kept: dict[str, Any], loss: float) -> Any:
    kept["text"] = f"{kept['step']:03d}"
    return kept["text"]


def printed(kept: dict[str, Any], loss: float) -> Any:
    kept["losses"].append(loss)
    if kept["step"] % 3 == 0:
        print(f"step {kept['step']}: {loss:.3f} of {len(kept['losses'])}")


def phases(kept: dict[str, Any], loss: float) -> Any:
    k = kept["step"] % 7
    kept[f"phase {k}"] = kept.get(f"phase {k}", 0) + 1
    return [1.0, 0.5, 0.25, 0.125, 0.0625, 0.03, 0.01][k]


def ranks(kept: dict[str, Any], loss: float) -> Any:
    kept["window"] = [*kept["window"][1:], (kept["step"] * 37 % 11) / 7]
    return sorted(kept["window"]), [w > 0.6 for w in kept["window"]]


def at_random(kept: dict[str, Any], loss: float) -> Any:
    kept["drawn"] = random.random()
    return math.gamma(1 + kept["drawn"]), round(kept["drawn"], 2)


def queue(kept: dict[str, Any], loss: float) -> Any:
    last = kept.setdefault("queue", collections.deque(maxlen=4))
    last.append(loss)
    return sum(last) / len(last)


def shifted(kept: dict[str, Any], loss: float) -> Any:
    """Equal numbers: which of them is where is told by nothing but their places."""
    last = kept.setdefault("last", [0.0] * 4)
    before = sum(last), max(last)
    last.pop(0)
    middle = sum(last), max(last), min(last)
    last.append(loss)
    return before, middle, sum(last), max(last)


def walked(kept: dict[str, Any], loss: float) -> Any:
    total = 0.0
    for number in kept["window"]:
        total -= 0.5 * number
    kept["window"].pop(0)
    kept["window"].append(loss)
    return total


LOOKS = [
    shifted,
    walked,
    history,
    recent,
    by_step,
    text,
    printed,
    phases,
    ranks,
    at_random,
    queue,
]


@pytest.mark.parametrize("use", LOOKS, ids=lambda use: use.__name__)
def test_what_looks_at_numbers_settles(
    use: Callable[..., Any], capfd: pytest.CaptureFixture[str]
) -> None:
    settles(steps_with(use, steps=24), last=4)


# ---- Computed: one graph


def window(kept: dict[str, Any], loss: float) -> Any:
    top, low, total = max(kept["window"]), min(kept["window"]), sum(kept["window"])
    kept["window"].pop(0)
    kept["window"].append(loss)
    return top, low, total


def newest(kept: dict[str, Any], loss: float) -> Any:
    kept["losses"].append(loss)
    kept["losses"].append(2.0 * loss)
    return kept["losses"][-1] + kept["losses"][-2]


def schedule(kept: dict[str, Any], loss: float) -> Any:
    at = kept["step"] + 1
    return (
        max(0.5 * 0.9**at, 1e-2),
        min(at / 4.0, 1.0),
        0.05 + 0.9 * math.exp(-at / 7),
        math.log(at) + math.log10(at) + math.log2(at),
        math.tanh(at / 3),
    )


@pytest.mark.parametrize("use", [window, newest, schedule], ids=lambda u: u.__name__)
def test_numbers_are_computed(use: Callable[..., Any]) -> None:
    settled(steps_with(use), hits=10, graphs=4)()


SUMS: dict[str, Callable[[list[float]], Any]] = {
    "sum": sum,
    "from a float": lambda xs: sum(xs, 0.1),
    "of a generator": lambda xs: sum(x * x for x in xs),
    "of ints, too": lambda xs: sum([1, xs[0], 2, xs[1], xs[2], 3, xs[3]]),
    "max": max,
    "min": lambda xs: min(*xs),
    "of an int and floats": lambda xs: max(0, *xs),
    "max of two": lambda xs: max(xs[0], xs[1]) - min(xs[1], xs[2]),
}
SPECIAL = [
    [1e16, 1.0, -1e16, 1e-3],
    [1.0, 1e100, 1.0, -1e100],
    [-0.0, -0.0, -0.0, -0.0],
    [0.1, 0.2, 0.3, -0.6],
    [math.inf, 1.0, 2.0, 3.0],
    [math.inf, -math.inf, 2.0, 3.0],
    [math.nan, 1.0, 2.0, 0.5],
    [1.0, math.nan, 2.0, 0.5],
    [3.0, -0.0, 0.0, math.nan],
    [1e308, 1e308, -1e308, 5.0],
]


@pytest.mark.parametrize("name", SUMS)
def test_sums_and_bests_of_numbers_are_pythons(name: str) -> None:
    """`sum()` adds up what its additions round off; `max()` keeps the first of equals, and nan."""

    def story(compile: Compile) -> Steps:
        kept: dict[str, Any] = {"xs": [0.5, 0.25, 1.5, 3.0]}

        def f(x: torch.Tensor) -> Any:
            found = SUMS[name](kept["xs"])
            return (
                x * 2,
                found,
                repr(found) if math.isnan(found) else math.copysign(1, found),
            )

        g = compile(f)
        for xs in [[0.1, 0.7, 0.3, 9.0], [2.0, 0.7, 5.0, 9.0], *SPECIAL]:
            kept["xs"][:] = xs
            yield g(values(3))

    tell(story, captured=False, graph_breaks=ANY)


@pytest.mark.parametrize("name", ["sum", "of a generator", "max", "min", "max of two"])
def test_sums_and_bests_of_data_are_pythons(name: str) -> None:
    """Likewise, of what the call itself computes."""

    def story(compile: Compile) -> Steps:
        def f(x: torch.Tensor) -> Any:
            found = SUMS[name]([x[0].item(), x[1].item(), x[2].item(), x[3].item()])
            return x * 2, found

        g = compile(f)
        for xs in [[0.1, 0.7, 0.3, 9.0], [2.0, 0.7, 5.0, 9.0], *SPECIAL]:
            yield g(torch.tensor(xs, dtype=torch.float64))
        for xs in [[0.1, 0.7, 0.3, 9.0], [2.0, 0.7, 5.0, 9.0]]:
            yield g(torch.tensor(xs))

    tell(story)


# ---- What is made anew for each call

DEQUES: dict[str, Callable[..., Any]] = {
    "sum": lambda x, d: (x * 2, sum(d)),
    "mean": lambda x, d: x * (sum(d) / len(d)),
    "element": lambda x, d: x * d[0] + d[-1],
    "walked": lambda x, d: [x * n for n in d],
    "appended": lambda x, d: (d.append(4.5), x * d[-1], d.popleft())[1:],
    "unseen": lambda x, d: (x + 1, d),
    "truth": lambda x, d: x * 2 if d else x * 3,
    "longest": lambda x, d: (x * 2, d.maxlen, list(d), 1.5 in d, d == d.copy()),
}


@pytest.mark.parametrize("use", DEQUES)
@pytest.mark.parametrize("held", ["argument", "attribute"])
def test_deques_of_each_call(use: str, held: str) -> None:
    def story(compile: Compile) -> Steps:
        holder = types.SimpleNamespace()

        def of_attribute(x: torch.Tensor, given: Any) -> Any:
            return DEQUES[use](x, given.d)

        g = compile(DEQUES[use] if held == "argument" else of_attribute)
        for i in range(20):
            d = collections.deque([i + 0.5, i * 2.0, 2.0][: 3 if i % 7 else 0], 3)
            if use not in ("sum", "truth", "unseen", "walked", "longest") and not d:
                d.append(3.25)
            holder.d = d
            seen = g(values(3), d if held == "argument" else holder)
            yield seen if use != "unseen" else (seen[0], seen[1] is d)
            yield list(d)

    settles(story, most=4)


# ---- Sizes that a generator yields


@pytest.mark.parametrize("best", [max, min])
def test_the_longest_of_many_is_computed(best: Callable[..., int]) -> None:
    """One specialization, whichever tensor is the longest."""

    def story(compile: Compile) -> Steps:
        def f(tensors: list[torch.Tensor], x: torch.Tensor) -> Any:
            length = best(len(t) for t in tensors)
            return x * length, length, x[:length], x.new_zeros(length)

        g = compile(f)
        draws = random.Random(0)
        for _ in range(18):
            tensors = [values(draws.randint(2, 9)) for _ in range(5)]
            yield g(tensors, values(9))

    settles(story, last=8, most=6)


# ---- Not for a few values


def test_a_few_values_are_a_specialization_each() -> None:
    """A number that is looked at and takes three values in turn breaks no graph."""
    made: list[Any] = []

    def story(compile: Compile) -> Steps:
        kept = {"k": 0}

        def f(x: torch.Tensor) -> Any:
            return x * {0: 1.0, 1: 2.0, 2: 3.0}[kept["k"]]

        g = compile(f)
        made.append(g)
        for i in range(15):
            kept["k"] = i % 3
            yield g(values(3))

    tell(story, captured="late")
    assert engine_of(made[-1], "stats").captures <= 4


def test_a_whole_graph_is_not_broken_for_a_number() -> None:
    """With fullgraph, a number that is looked at stays a specialization for each value."""

    def story(compile: Compile) -> Steps:
        kept = {"k": 0}

        def f(x: torch.Tensor) -> Any:
            kept["k"] += 1
            return x * 2, f"{kept['k']:03d}"

        g = compile(f, fullgraph=True)
        for _ in range(8):
            yield g(values(3))

    tell(story, captured=False)
