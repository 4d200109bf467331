# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Steps of training scripts: scaled gradients, averages of weights, meters, early ends. Each settles: a few calls
make its specializations, and from then on compiled code answers."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any

import pyjit
import pytest
import torch
import torch.nn.functional as F
from Integration.harness import Compile, Steps, values
from Integration.training import (
    classifier,
    labelled,
    perceptron,
    settled,
    state,
    whole_step,
)
from torch import nn
from torch.optim import swa_utils

# ---- GradScaler

SCALED: dict[str, Callable[[Any], torch.optim.Optimizer]] = {
    "SGD": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
    "AdamW": lambda p: torch.optim.AdamW(p, lr=0.01, eps=1e-3),
    "foreach Adam": lambda p: torch.optim.Adam(p, lr=0.01, eps=1e-3, foreach=True),
}


def scaler() -> Any:
    return torch.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=3)


@pytest.mark.parametrize("optimizer", SCALED)
@pytest.mark.parametrize("clips", [False, True])
def test_scaled_step(optimizer: str, clips: bool) -> None:
    @settled(hits=8, graphs=2)
    def story(compile: Compile) -> Steps:
        m, scale = classifier(), scaler()
        chosen = SCALED[optimizer](m.parameters())

        def step(x: torch.Tensor, y: torch.Tensor) -> Any:
            chosen.zero_grad()
            with torch.autocast("cpu", dtype=torch.bfloat16):
                loss = F.cross_entropy(m(x), y)
            scale.scale(loss).backward()
            if clips:
                scale.unscale_(chosen)
                nn.utils.clip_grad_norm_(m.parameters(), 1.0)
            scale.step(chosen)
            scale.update()
            return loss.item(), scale.get_scale()

        f = compile(step)
        for i in range(10):
            torch.manual_seed(i)
            yield [f(*labelled(i)), state(m, chosen), scale.state_dict()]

    story()


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize(
    "dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64]
)
def test_unscaled_gradients(dtype: torch.dtype, count: int) -> None:
    """Bit by bit: halves are multiplied in single precision, and looked at before."""

    def unscale(gradients: list[Any], inverse: torch.Tensor) -> Any:
        found = torch.full((), 0.0)
        gradients = [g * 2 for g in gradients]
        torch._amp_foreach_non_finite_check_and_unscale_(gradients, found, inverse)
        return gradients, found

    f = pyjit.compile(unscale)
    for i, factor in enumerate([1.0, 0.5, 3e-5, 1e-7, 0.3, 1e30, torch.inf, torch.nan]):
        for special in (1.0, torch.inf, -torch.inf, torch.nan, 6e4, -0.0, 1e-7):
            gradients = [values(3, 5, seed=i + k).to(dtype) for k in range(count)]
            gradients[-1][1, 2] = special
            with torch.no_grad():
                want = unscale(gradients, torch.tensor(factor))
                have = f(gradients, torch.tensor(factor))
            torch.testing.assert_close(have, want, rtol=0, atol=0, equal_nan=True)
    assert pyjit.stats(f)["hits"] > 40 and not pyjit.stats(f)["graph_breaks"]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_gradients_that_are_not_finite(dtype: torch.dtype) -> None:
    """Such a step leaves the weights as they are, and lowers the scale. (What a step behind a branch writes
    counts in versions, of which a bound is known.)"""

    @settled(hits=9, graphs=5, versions=False)
    def story(compile: Compile) -> Steps:
        m, scale = perceptron().to(dtype), scaler()
        chosen = torch.optim.SGD(m.parameters(), lr=0.1)

        def step(x: torch.Tensor) -> Any:
            chosen.zero_grad()
            loss = m(x).square().mean()
            scale.scale(loss).backward()
            scale.step(chosen)
            scale.update()
            return loss.detach()

        f = compile(step)
        for i in range(14):
            x = values(3, 4, seed=i).to(dtype)
            if i in (0, 5, 6, 10):
                x = x * (math.nan if i == 6 else math.inf)
            yield [f(x), state(m, chosen), scale.state_dict()]

    story()


@settled(hits=8, graphs=2)
def test_two_optimizers_and_one_scaler(compile: Compile) -> Steps:
    a, b, scale = perceptron(), perceptron(), scaler()
    of_a = torch.optim.SGD(a.parameters(), lr=0.1)
    of_b = torch.optim.AdamW(b.parameters(), lr=0.01, eps=1e-3)

    def step(x: torch.Tensor) -> Any:
        of_a.zero_grad()
        of_b.zero_grad()
        first, second = a(x).square().mean(), b(x).abs().mean()
        scale.scale(first).backward()
        scale.scale(second).backward()
        scale.step(of_a)
        scale.step(of_b)
        scale.update()
        return first.item() + second.item()

    f = compile(step)
    for i in range(10):
        yield [f(values(3, 4, seed=i)), state(a, of_a), state(b, of_b)]


@settled(hits=10, graphs=3)
def test_scaled_micro_batches(compile: Compile) -> Steps:
    m, scale = perceptron(), scaler()
    chosen = torch.optim.SGD(m.parameters(), lr=0.1)

    def step(i: int, x: torch.Tensor) -> float:
        loss = m(x).square().mean() / 2
        scale.scale(loss).backward()
        if (i + 1) % 2 == 0:
            scale.step(chosen)
            scale.update()
            chosen.zero_grad()
        return loss.item()

    f = compile(step)
    for i in range(14):
        yield [f(i, values(3, 4, seed=i)), state(m, chosen), scale.state_dict()]


@settled(hits=12, graphs=4)
def test_scaler_between_two_calls(compile: Compile) -> Steps:
    """One call leaves what the other finds: a state for each optimizer, and what was found on each device."""
    m, scale = perceptron(), scaler()
    chosen = torch.optim.SGD(m.parameters(), lr=0.1)

    def differentiate(x: torch.Tensor) -> torch.Tensor:
        chosen.zero_grad()
        loss = m(x).square().mean()
        scale.scale(loss).backward()
        scale.unscale_(chosen)
        return loss.detach()

    def update() -> None:
        nn.utils.clip_grad_norm_(m.parameters(), 1.0)
        scale.step(chosen)
        scale.update()

    f, g = compile(differentiate), compile(update)
    for i in range(8):
        loss = f(values(3, 4, seed=i))
        found = scale._per_optimizer_states[id(chosen)]["found_inf_per_device"]
        yield [loss, [str(d) for d in found], list(found.values())]
        g()
        yield [state(m, chosen), scale.state_dict()]


# ---- Averages of weights

AVERAGES: dict[str, Callable[[nn.Module], Any]] = {
    "mean": swa_utils.AveragedModel,
    "exponential": lambda m: swa_utils.AveragedModel(
        m, multi_avg_fn=swa_utils.get_ema_multi_avg_fn(0.9)
    ),
    "with buffers": lambda m: swa_utils.AveragedModel(
        m, multi_avg_fn=swa_utils.get_ema_multi_avg_fn(0.9), use_buffers=True
    ),
    "by a function": lambda m: swa_utils.AveragedModel(
        m, avg_fn=lambda a, p, n: a * 0.9 + p * 0.1
    ),
}


@pytest.mark.parametrize("name", AVERAGES)
def test_averaged_model(name: str) -> None:
    """It counts in a tensor, whose truth a branch asks for, and copies counters that the step has raised."""

    @settled(hits=7, graphs=3)
    def story(compile: Compile) -> Steps:
        m = classifier()
        chosen, average = torch.optim.SGD(m.parameters(), lr=0.1), AVERAGES[name](m)
        f = compile(whole_step(m, chosen, after=lambda _: average.update_parameters(m)))
        for i in range(10):
            torch.manual_seed(i)
            yield [f(*labelled(i)), state(m, chosen), state(average)]

    story()


@settled(hits=7, graphs=3)
def test_average_of_the_whole_state(compile: Compile) -> Steps:
    m = classifier()
    chosen, average = torch.optim.SGD(m.parameters(), lr=0.1), copy.deepcopy(m)

    def update(loss: torch.Tensor) -> None:
        with torch.no_grad():
            pairs = zip(average.state_dict().values(), m.state_dict().values())
            for mine, theirs in pairs:
                mine.copy_(0.9 * mine + 0.1 * theirs)

    f = compile(whole_step(m, chosen, after=update))
    for i in range(10):
        torch.manual_seed(i)
        yield [f(*labelled(i)), state(m, chosen), state(average)]


@settled(hits=5, graphs=3, versions=False)
def test_counters_that_are_read_behind_their_change(compile: Compile) -> Steps:
    count, scale = torch.tensor(3), torch.tensor(2.0)

    def g(x: torch.Tensor) -> Any:
        count.add_(1)
        scale.add_(1)
        shown = count.detach()
        y = x * shown + count
        count.add_(2)
        return y + shown, x * scale, count + 0

    f = compile(g)
    for i in range(8):
        yield [f(values(3, seed=i)), count, scale]


# ---- What is told of a step


class Meter:
    def __init__(self) -> None:
        self.last, self.sum, self.count, self.average = 0, 0, 0, 0

    def update(self, value: Any, n: int = 1) -> None:
        self.last = value
        self.sum += value * n
        self.count += n
        self.average = self.sum / self.count


@settled(hits=7, graphs=3)
def test_meters(compile: Compile) -> Steps:
    m, losses, hits = classifier(), Meter(), Meter()
    chosen = torch.optim.SGD(m.parameters(), lr=0.1)

    def step(x: torch.Tensor, y: torch.Tensor) -> None:
        out = m(x)
        loss = F.cross_entropy(out, y)
        right = out.topk(1, 1)[1].t().eq(y.view(1, -1))
        losses.update(loss.item(), x.size(0))
        hits.update(right.reshape(-1).float().sum(0, keepdim=True)[0].item())
        chosen.zero_grad()
        loss.backward()
        chosen.step()

    f = compile(step)
    for i in range(10):
        torch.manual_seed(i)
        f(*labelled(i))
        yield [vars(losses).copy(), vars(hits).copy(), state(m, chosen)]


@settled(hits=8, graphs=2)
def test_history(compile: Compile) -> Steps:
    """Counts of what was right are ints, and their ratio is a division of ints."""
    m = classifier()
    chosen = torch.optim.SGD(m.parameters(), lr=0.1)
    seen: dict[str, Any] = {"loss": 0.0, "right": 0, "all": 0}
    history: dict[str, list[float]] = {"loss": [], "accuracy": []}

    def step(x: torch.Tensor, y: torch.Tensor) -> None:
        chosen.zero_grad()
        out = m(x)
        loss = F.cross_entropy(out, y)
        loss.backward()
        chosen.step()
        seen["loss"] += loss.item() * x.size(0)
        seen["right"] += (out.argmax(1) == y).sum().item()
        seen["all"] += y.size(0)
        history["loss"].append(seen["loss"] / seen["all"])
        history["accuracy"].append(seen["right"] / seen["all"])

    f = compile(step)
    for i in range(10):
        torch.manual_seed(i)
        f(*labelled(i))
        yield [copy.deepcopy(history), dict(seen), state(m, chosen)]


@pytest.mark.parametrize("asks", ["isnan", "isinf", "isfinite"])
def test_loss_is_checked(asks: str) -> None:
    @settled(hits=7, graphs=2)
    def story(compile: Compile) -> Steps:
        m = classifier()
        chosen = torch.optim.SGD(m.parameters(), lr=0.1)

        def step(x: torch.Tensor) -> float:
            loss = m(x).square().mean()
            value = loss.item()
            if (
                (asks == "isnan" and math.isnan(value))
                or (asks == "isinf" and math.isinf(value))
                or (asks == "isfinite" and not math.isfinite(value))
            ):
                raise ValueError(f"the loss is {value}")
            chosen.zero_grad()
            loss.backward()
            chosen.step()
            return value

        f = compile(step)
        for i in range(10):
            torch.manual_seed(i)
            yield [f(values(6, 4, seed=i)), state(m, chosen)]
        with torch.no_grad():
            m[4].bias.fill_(math.nan if asks == "isnan" else math.inf)
        before = state(m, chosen)
        with pytest.raises(ValueError, match="the loss is (nan|inf)"):
            f(values(6, 4))
        yield [before, state(m, chosen)]

    story()
