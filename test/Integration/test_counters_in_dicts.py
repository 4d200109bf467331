# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Counters where programs keep them: behind `in`, `get`, `setdefault`, `pop`, `getattr` and `hasattr`. Whether there
is one says nothing of its number, and what these functions hand out is the number itself."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import pyjit
import pytest
import torch
from Integration.harness import values

Tensor = torch.Tensor
Use = Callable[[dict[Any, Any], Any, Tensor], Any]


def _asked(d: dict[Any, Any], o: Any, x: Tensor) -> Any:
    if "k" not in d:
        d["k"] = 0
    d["k"] += 1
    return x + d["k"]


def _got(d: dict[Any, Any], o: Any, x: Tensor) -> Any:
    d["k"] = d.get("k", 0) + 1
    return x + d["k"], d.get("k"), d.get("none", 7)


def _read(d: dict[Any, Any], o: Any, x: Tensor) -> Any:
    return x * d.get("given", 0), d.get("given") > 100


def _set(d: dict[Any, Any], o: Any, x: Tensor) -> Any:
    before = d.setdefault("k", 2)
    d["k"] += 1
    return x + before, d.setdefault("k", 100)


def _popped(d: dict[Any, Any], o: Any, x: Tensor) -> Any:
    n = d.pop("k", 3)
    d["k"] = n + 1
    return x * n, d.pop("none", None)


def _attribute(d: dict[Any, Any], o: Any, x: Tensor) -> Any:
    o.k = getattr(o, "k", 0) + 1
    return x + o.k, getattr(o, "given"), getattr(o, "none", 2)  # noqa: B009


def _asked_attribute(d: dict[Any, Any], o: Any, x: Tensor) -> Any:
    if not hasattr(o, "k"):
        o.k = 0
    o.k += 2
    return x * o.k, hasattr(o, "given")


def _nested(d: dict[Any, Any], o: Any, x: Tensor) -> Any:
    for name in ("a", "b"):
        state = d.setdefault(name, {})
        if "step" not in state:
            state["step"], state["mean"] = 0, torch.zeros(3)
        state["step"] += 1
        state["mean"] = state["mean"] * 0.5 + x
        x = x + state["mean"] / (1 - 0.5 ** state["step"])
    return x


def _text(d: dict[Any, Any], o: Any, x: Tensor) -> Any:
    """A number that is looked at is a value again."""
    n = d.get("few", 0)
    return x + n, len(str(n)), [5, 6, 7][n]


USES: dict[str, Use] = {
    f.__name__.strip("_"): f
    for f in (_asked, _got, _read, _set, _popped, _attribute, _asked_attribute, _nested, _text)
}  # fmt: skip


class Holder:
    pass


@pytest.mark.parametrize("kind", [dict, OrderedDict])
@pytest.mark.parametrize("use", USES)
def test_counts(use: str, kind: type) -> None:
    f = USES[use]
    fast = pyjit.compile(f)
    mine, theirs = ((kind(), Holder()) for _ in range(2))
    for step in range(24):
        for d, o in (mine, theirs):
            d["given"], o.given, d["few"] = step * 3, step + 0.5, step % 3
            if step == 9:
                d.pop("k", None)
                vars(o).pop("k", None)
            if step == 15:
                d["k"] = o.k = 1.5
        have, want = fast(*mine, values(3)), f(*theirs, values(3))
        torch.testing.assert_close(have, want, rtol=1e-6, atol=1e-6)
        torch.testing.assert_close(dict(mine[0]), dict(theirs[0]), rtol=1e-6, atol=1e-6)
        assert vars(mine[1]) == vars(theirs[1])
    stats = pyjit.stats(fast)
    assert stats.hits > 12, stats
    assert not stats.graph_breaks, pyjit.explain(fast)


def test_what_lies_there_is_free() -> None:
    """Objects that change behind a key that is only asked for cost nothing."""
    cache: dict[str, Any] = {"a": object()}
    fast = pyjit.compile(lambda x: x * 2 if "a" in cache else x * 3)
    for step in range(12):
        cache["a"] = [object(), step, torch.zeros(step), "text", None][step % 5]
        assert torch.equal(fast(values(3)), values(3) * 2)
    del cache["a"]
    assert torch.equal(fast(values(3)), values(3) * 3)
    assert pyjit.stats(fast).misses == 2


def test_over_a_break() -> None:
    """A later graph asks for what an earlier one has set."""

    def f(d: dict[str, Any], x: Tensor) -> Any:
        own = {"a": x}
        d["set"] = x
        d.pop("gone", None)
        print(end="")
        return "set" in d, "gone" in d, "a" in own, "b" in own, own["a"] + 1

    fast = pyjit.compile(f)
    for _ in range(6):
        want = f({"gone": 1}, values(3))
        have = fast({"gone": 1}, values(3))
        assert have[:4] == want[:4] and torch.equal(have[4], want[4])


def test_optimizers_of_ones_own() -> None:
    class Decayed(torch.optim.Optimizer):
        def __init__(self, params: Any) -> None:
            super().__init__(params, {"lr": 0.1})

        @torch.no_grad()
        def step(self, closure: Any = None) -> None:
            for group in self.param_groups:
                for p in group["params"]:
                    if p.grad is None:
                        continue
                    state = self.state[p]
                    if "step" not in state:
                        state["step"] = 0
                    state["step"] += 1
                    p.add_(p.grad, alpha=-group["lr"] / state["step"])

    def story(compiled: bool) -> Any:
        torch.manual_seed(0)
        weights = [torch.randn(3, requires_grad=True) for _ in range(3)]
        optimizer = Decayed(weights)

        def step(x: Tensor) -> Tensor:
            loss = sum((w * x).sum().cos() for w in weights)
            optimizer.zero_grad()
            loss.backward()  # type: ignore[union-attr]
            optimizer.step()
            return loss.detach()  # type: ignore[union-attr]

        run = pyjit.compile(step) if compiled else step
        losses = [run(torch.full((3,), 0.1 * i)) for i in range(14)]
        return losses, weights, (pyjit.stats(run) if compiled else None)

    (have, mine, stats), (want, theirs, _) = story(True), story(False)
    torch.testing.assert_close((have, mine), (want, theirs))
    assert stats.hits > 8 and not stats.graph_breaks, stats


TOTALS = {"sum": 0.0, "n": 0}


def test_a_dict_of_a_dict_across_a_branch() -> None:
    """What goes on behind the branch is given the dict that was found, and does not look it up."""
    meters: dict[str, Any] = {"train": {}, "val": {}}

    def f(x: Tensor, split: str) -> float:
        meter = meters[split]
        meter["sum"] += x.sum().item() if not torch.isnan(x).any() else 0.0
        meter["n"] += x.shape[0]
        return meter["sum"] / meter["n"]

    fast = pyjit.compile(f, options={"compare_with_eager": False})
    for step in range(24):
        split, x = "train" if step % 3 else "val", values(3 + step % 2, seed=step)
        meters[split] = {"sum": float(step), "n": 2 * step}
        want = f(x, split), dict(meters[split])
        meters[split] = {"sum": float(step), "n": 2 * step}
        assert (fast(x, split), meters[split]) == want
    assert pyjit.stats(fast).hits > 12, pyjit.explain(fast)


def test_a_dict_on_the_stack_of_a_branch() -> None:
    """What goes on behind the branch is given the dict, and finds it by its name as well."""

    def f(x: Tensor) -> float:
        TOTALS["sum"] += x.sum().item() if not torch.isnan(x).any() else 0.0
        TOTALS["n"] += 1
        return TOTALS["sum"] / TOTALS["n"]

    fast = pyjit.compile(f, options={"compare_with_eager": False})
    for step in range(12):
        x = values(3, seed=step)
        TOTALS.update(sum=step, n=2 * step)
        want = f(x), dict(TOTALS)
        TOTALS.update(sum=step, n=2 * step)
        assert (fast(x), TOTALS) == want
    assert pyjit.stats(fast).hits > 6, pyjit.explain(fast)
