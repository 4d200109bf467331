# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Training steps as tutorials and repositories write them: each settles in a few graphs."""

from __future__ import annotations

import copy
import math
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from Integration.harness import ANY, Compile, Steps, attempt, scenario, values
from Integration.training import (
    OPTIMIZERS,
    classifier,
    labelled,
    perceptron,
    settled,
    state,
    whole_step,
)
from torch import nn

# ---- Sums of losses that backwards have been through


def pair() -> tuple[nn.Module, nn.Module]:
    torch.manual_seed(0)
    return (
        nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8), nn.ReLU(True), nn.Linear(8, 4), nn.Tanh()),
        nn.Sequential(nn.Linear(4, 8), nn.LeakyReLU(0.2, inplace=True), nn.Linear(8, 1), nn.Sigmoid()),
    )  # fmt: skip


SUMS: dict[str, Callable[..., Any]] = {
    "sum": lambda a, b: a + b,
    "mean": lambda a, b: torch.stack([a, b]).mean(),
    "weighted": lambda a, b: 0.3 * a + b * 0.7,
    "in place": lambda a, b: (a * 1).add_(b),
}


@pytest.mark.parametrize("adds", SUMS)
@pytest.mark.parametrize("optimizer", ["SGD", "AdamW"])
def test_losses_are_summed_behind_their_backwards(adds: str, optimizer: str) -> None:
    """Of PyTorch's tutorial on DCGAN: errD = errD_real + errD_fake, and then the update."""

    @settled(hits=8, graphs=2)
    def story(compile: Compile) -> Steps:
        generator, critic = pair()
        make = OPTIMIZERS[optimizer]
        of_g, of_c = make(generator.parameters()), make(critic.parameters())
        criterion = nn.BCELoss()

        def step(real: torch.Tensor) -> Any:
            critic.zero_grad()
            label = torch.full((real.size(0),), 1.0)
            on_real = criterion(critic(real).view(-1), label)
            on_real.backward()
            fake = generator(torch.randn(real.size(0), 3))
            label.fill_(0.0)
            on_fake = criterion(critic(fake.detach()).view(-1), label)
            on_fake.backward()
            both = SUMS[adds](on_real, on_fake)
            of_c.step()
            generator.zero_grad()
            label.fill_(1.0)
            loss = criterion(critic(fake).view(-1), label)
            loss.backward()
            of_g.step()
            return both.item(), loss.item()

        f = compile(step)
        for i in range(12):
            torch.manual_seed(i)
            yield [f(values(6, 4, seed=i)), state(generator, of_g), state(critic, of_c)]

    story()


@settled(hits=5, graphs=2)
def test_a_sum_of_freed_losses_leaves(compile: Compile) -> Steps:
    """Its graph raises behind the call, as eager's does."""
    m = perceptron()
    chosen = torch.optim.SGD(m.parameters(), lr=0.1)

    def step(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        chosen.zero_grad()
        first, second = m(x).square().mean(), m(y).abs().mean().exp()
        first.backward()
        second.backward()
        total = first + 2 * second
        chosen.step()
        return total

    f = compile(step)
    for i in range(8):
        total = f(values(3, 4, seed=i), values(5, 4, seed=i))
        yield [total, total.requires_grad, state(m, chosen)]
        yield type(attempt(total.backward))


@scenario(captured=False, grad=True, graph_breaks=ANY)
def test_a_freed_loss_and_one_that_is_not(compile: Compile) -> Steps:
    """What stands beside the freed loss can be reached yet."""
    m, w = perceptron(), torch.ones(2).requires_grad_()
    chosen = torch.optim.SGD([*m.parameters(), w], lr=0.1)

    def step(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        chosen.zero_grad()
        first = m(x).square().mean()
        first.backward()
        other = (m(y) * w).sum()
        mixed = first.detach() + other
        chosen.step()
        return mixed

    f = compile(step)
    for i in range(6):
        mixed = f(values(3, 4, seed=i), values(5, 4, seed=i))
        yield [mixed, state(m, chosen), w]
        yield type(attempt(mixed.backward))


# ---- Optimizers that count in numbers


class CountingAdam(torch.optim.Optimizer):
    """As repositories write it: the number of steps is an int in the state of each parameter."""

    def __init__(self, params: Any, lr: float = 0.01) -> None:
        super().__init__(params, {"lr": lr, "betas": (0.9, 0.99), "eps": 1e-3})

    def step(self, closure: Any = None) -> None:
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                grad, kept = p.grad.data, self.state[p]
                if len(kept) == 0:
                    kept["step"] = 0
                    kept["mean"] = torch.zeros_like(p.data)
                    kept["square"] = torch.zeros_like(p.data)
                mean, square = kept["mean"], kept["square"]
                first, second = group["betas"]
                kept["step"] += 1
                mean.mul_(first).add_(grad, alpha=1 - first)
                square.mul_(second).addcmul_(grad, grad, value=1 - second)
                rate = group["lr"] * math.sqrt(1 - second ** kept["step"])
                rate /= 1 - first ** kept["step"]
                self.update(p, mean / square.sqrt().add(group["eps"]), rate)

    def update(self, p: nn.Parameter, change: torch.Tensor, rate: float) -> None:
        p.data.add_(change, alpha=-rate)


class Lamb(CountingAdam):
    """Its ratio is 1 where a norm is zero, which a branch on data asks."""

    def update(self, p: nn.Parameter, change: torch.Tensor, rate: float) -> None:
        weight = p.data.pow(2).sum().sqrt().clamp(0, 10)
        norm = change.pow(2).sum().sqrt()
        ratio: Any = 1 if weight == 0 or norm == 0 else weight / norm
        p.data.add_(change * -rate * ratio)


@pytest.mark.parametrize("make", [CountingAdam, Lamb])
def test_optimizers_that_count_in_numbers(make: Any) -> None:
    @settled(hits=8, graphs=3)
    def story(compile: Compile) -> Steps:
        m = classifier()
        chosen = make(m.parameters())
        f = compile(whole_step(m, chosen))
        for i in range(14):
            torch.manual_seed(i)
            yield [f(*labelled(i)), state(m, chosen)]
            if i == 9:
                chosen.load_state_dict(chosen.state_dict())

    story()


KEYS: dict[str, Callable[[], Any]] = {
    "tensor": lambda: torch.ones(2),
    "module": lambda: nn.Linear(2, 2),
    "object": object,
    "class": lambda: type("Key", (), {}),
    "int": lambda: 7,
    "str": lambda: "key",
}


@pytest.mark.parametrize("kind", KEYS)
def test_counters_under_keys(kind: str) -> None:
    """A number in a dict becomes an input, whatever its key is."""

    @settled(hits=5, graphs=2)
    def story(compile: Compile) -> Steps:
        key, other = KEYS[kind](), "other"
        held = {key: {"n": 1, "x": 0.5}, other: {"n": 1, "x": 2.0}}
        plain = {key: 1}

        def g(x: torch.Tensor) -> torch.Tensor:
            held[key]["n"] += 1
            held[key]["x"] *= 0.9
            plain[key] += 2
            return x * held[key]["n"] + held[key]["x"] + plain[key] * held[other]["x"]

        f = compile(g)
        for i in range(9):
            if i == 6:
                held[other]["n"] = 5  # nobody looks
            yield [f(values(3, seed=i)), list(held.values()), list(plain.values())]

    story()


# ---- Truth as a value


ASKS: dict[str, Callable[[torch.Tensor], Any]] = {
    "bool": lambda t: bool((t > -50).all()),
    "not": lambda t: not (t > 50).any(),
    "bool of an argument": lambda t: bool(t.max() < 50),
}


@pytest.mark.parametrize("asks", ASKS)
def test_truth_is_kept_in_front_of_a_backward(asks: str) -> None:
    """The truth of data is a Python value that decides later, somewhere else."""

    @settled(hits=5, graphs=5, versions=False)
    def story(compile: Compile) -> Steps:
        m = perceptron()
        chosen = torch.optim.SGD(m.parameters(), lr=0.1)
        seen: OrderedDict[str, Any] = OrderedDict()

        def step(x: torch.Tensor) -> torch.Tensor:
            chosen.zero_grad()
            h = m(x)
            seen["usual"] = ASKS[asks](h)
            loss = h.square().mean() if seen["usual"] else h.abs().mean()
            loss.backward()
            chosen.step()
            return loss.detach()

        f = compile(step)
        for i in range(14):
            x = values(3, 4, seed=i)
            if i in (8, 11):
                x = x * 1e4
            yield [f(x), dict(seen), state(m, chosen)]

    story()


@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
@settled(hits=8, graphs=10)
def test_language_model_of_texts_that_differ_in_length(compile: Compile) -> Steps:
    """nn.TransformerEncoder asks whether a mask is the causal one, by its elements."""
    torch.manual_seed(0)
    embedding, head = nn.Embedding(20, 8), nn.Linear(8, 20)
    layer = nn.TransformerEncoderLayer(8, 2, 16, 0.1)
    m = nn.ModuleList([embedding, nn.TransformerEncoder(layer, 2), head])
    chosen = torch.optim.SGD(m.parameters(), lr=0.1)

    def step(text: torch.Tensor, targets: torch.Tensor) -> float:
        mask = nn.Transformer.generate_square_subsequent_mask(len(text))
        out = head(m[1](embedding(text) * math.sqrt(8), mask))
        loss = F.cross_entropy(out.view(-1, 20), targets)
        chosen.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(m.parameters(), 0.5)
        chosen.step()
        return loss.item()

    f = compile(step)
    for i in range(18):
        generator = torch.Generator().manual_seed(i)
        n = 6 if i % 5 else 4
        text = torch.randint(0, 20, (n, 3), generator=generator)
        torch.manual_seed(i)
        yield [f(text, text.roll(1).reshape(-1)), state(m, chosen)]


# ---- requires_grad that the step changes


def freeze(nets: list[nn.Module], on: bool, how: str) -> None:
    for net in nets:
        if how == "module":
            net.requires_grad_(on)
            continue
        for p in net.parameters():
            if how == "attribute":
                p.requires_grad = on
            else:
                p.requires_grad_(on)


HOW = ["attribute", "method", "module"]


@pytest.mark.parametrize("how", HOW)
def test_critic_is_frozen_in_between(how: str) -> None:
    """As CycleGAN does: gradients of the generator pass through a critic that gets none."""

    @settled(hits=8, graphs=2)
    def story(compile: Compile) -> Steps:
        generator, critic = pair()
        of_g = torch.optim.AdamW(generator.parameters(), 0.01, eps=1e-3)
        of_c = torch.optim.SGD(critic.parameters(), 0.1)

        def step(x: torch.Tensor) -> Any:
            fake = generator(x)
            freeze([critic], False, how)
            of_g.zero_grad()
            loss = (critic(fake) - 1).square().mean()
            loss.backward()
            of_g.step()
            freeze([critic], True, how)
            of_c.zero_grad()
            other = (critic(x[:, :1] * fake.detach()) - 1).square().mean()
            other = other + critic(fake.detach()).square().mean()
            other.backward()
            of_c.step()
            return loss.item(), other.item()

        f = compile(step)
        for i in range(12):
            yield [f(values(6, 3, seed=i)), state(generator, of_g), state(critic, of_c)]

    story()


@pytest.mark.parametrize("how", HOW)
def test_updated_then_frozen(how: str) -> None:
    """As SAC does: the critic's update stands in front, and what is frozen has been written by the call."""

    @settled(hits=8, graphs=2)
    def story(compile: Compile) -> Steps:
        actor, critic = pair()
        target = copy.deepcopy(critic)
        of_a = torch.optim.SGD(actor.parameters(), 0.1)
        of_c = torch.optim.AdamW(critic.parameters(), 0.01, eps=1e-3)

        def step(x: torch.Tensor, a: torch.Tensor) -> Any:
            with torch.no_grad():
                goal = 0.5 + 0.9 * target(actor(x))
            loss = F.mse_loss(critic(a), goal)
            of_c.zero_grad()
            loss.backward()
            of_c.step()
            freeze([critic], False, how)
            gain = -critic(actor(x)).mean()
            of_a.zero_grad()
            gain.backward()
            of_a.step()
            freeze([critic], True, how)
            for p, t in zip(critic.parameters(), target.parameters(), strict=True):
                t.data.mul_(0.9)
                t.data.add_(0.1 * p.data)
            return loss.item(), gain.item()

        f = compile(step)
        for i in range(12):
            yield [
                f(values(6, 3, seed=i), values(6, 4, seed=50 + i)),
                state(actor, of_a),
            ]
            yield [state(critic, of_c), state(target)]

    story()


@settled(hits=5, graphs=2)
def test_what_was_computed_while_frozen_has_no_history(compile: Compile) -> Steps:
    """... although the weights have their gradients again when the backward comes."""
    m, w = perceptron(), torch.ones(4).requires_grad_()
    chosen = torch.optim.SGD([*m.parameters(), w], lr=0.1)

    def step(x: torch.Tensor) -> torch.Tensor:
        chosen.zero_grad()
        before = x * w
        w.requires_grad = False
        fixed = x * w + w.exp()
        w.requires_grad = True
        loss = (m(fixed + before) * (w.sum() + 1)).square().mean()
        loss.backward()
        chosen.step()
        return loss.detach()

    f = compile(step)
    for i in range(8):
        yield [f(values(3, 4, seed=i)), state(m, chosen), w, w.grad]


@scenario(grad=True, captured="late", graph_breaks=("requires_grad", "generator"))
def test_frozen_for_good(compile: Compile) -> Steps:
    """What keeps another requires_grad behind the call is a graph break; to set what is so already is none."""
    m = classifier()
    chosen = torch.optim.SGD(m.parameters(), lr=0.1)

    def step(i: int, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        for p in m[0].parameters():
            p.requires_grad = i >= 5
        chosen.zero_grad()
        loss = F.cross_entropy(m(x), y)
        loss.backward()
        chosen.step()
        return loss.detach()

    f = compile(step)
    for i in range(12):
        torch.manual_seed(i)
        x, y = labelled(i)
        yield [f(i, x, y), state(m, chosen), [p.requires_grad for p in m.parameters()]]


@scenario(grad=True, captured=False, graph_breaks=ANY)
def test_a_result_computed_while_frozen(compile: Compile) -> Steps:
    """Behind the call, its history ends where the weights were frozen."""
    m, w = perceptron(), torch.ones(4).requires_grad_()

    def g(x: torch.Tensor) -> Any:
        w.requires_grad = False
        h = m(x * w)
        w.requires_grad = True
        return h, x * w

    f = compile(g)
    for i in range(6):
        h, y = f(values(3, 4, seed=i))
        (h.square().mean() + y.sum()).backward()
        yield [h, y, w.grad, state(m)]


@scenario(grad=True, captured=False, graph_breaks=ANY)
def test_written_while_frozen(compile: Compile) -> Steps:
    w = torch.ones(4).requires_grad_()

    def g(x: torch.Tensor) -> Any:
        w.requires_grad = False
        w.mul_(0.9)
        y = x * w
        w.requires_grad = True
        loss = (y * w).square().mean()
        loss.backward()
        w.data.sub_(0.1 * w.grad)
        return loss.detach()

    f = compile(g)
    for i in range(6):
        yield [f(values(4, seed=i)), w, w.grad, w.requires_grad]


# ---- Graph breaks around a call


@scenario(grad=True, captured="late", graph_breaks=ANY)
def test_soft_update_by_loaded_state(compile: Compile) -> Steps:
    """Of PyTorch's tutorial on DQN. `load_state_dict` makes a function that calls itself, which no graph break
    carries over: the graph breaks around its call."""
    net, target = perceptron(), perceptron()
    chosen = torch.optim.SGD(net.parameters(), lr=0.1)

    def step(x: torch.Tensor) -> torch.Tensor:
        loss = F.mse_loss(net(x), target(x).detach() + 1)
        chosen.zero_grad()
        loss.backward()
        chosen.step()
        theirs, ours = target.state_dict(), net.state_dict()
        for key in ours:
            theirs[key] = ours[key] * 0.1 + theirs[key] * 0.9
        target.load_state_dict(theirs)
        return loss.detach()

    f = compile(step)
    for i in range(12):
        yield [f(values(3, 4, seed=i)), state(net, chosen), state(target)]


@scenario(captured="late", graph_breaks=ANY)
def test_function_that_calls_itself(compile: Compile) -> Steps:
    """What is in front of the call and behind it is compiled."""

    def walk(x: torch.Tensor, depth: int) -> torch.Tensor:
        def down(h: torch.Tensor, n: int) -> torch.Tensor:
            if n == 0:
                print(end="")
                return h
            return torch.sin(down(h, n - 1))

        return down(x, depth)

    def g(x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(x) * 2
        return walk(y + 1, 3).exp() - y

    f = compile(g)
    for i in range(8):
        yield f(values(3, seed=i))


@settled(hits=8, graphs=4)
def test_data_is_asked_under_no_grad(compile: Compile) -> Steps:
    """torch.distributions checks its arguments by data, in front of what needs a gradient: the recording goes
    through such a branch as through one in front of a backward."""
    actor, critic = perceptron(), perceptron()
    chosen = torch.optim.SGD([*actor.parameters(), *critic.parameters()], lr=0.05)

    def act(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        mean, log_scale = actor(x).chunk(2, -1)
        law = torch.distributions.Normal(mean, log_scale.clamp(-3, 1).exp())
        drawn = law.rsample()
        return torch.tanh(drawn), law.log_prob(drawn).sum(-1, keepdim=True)

    def step(x: torch.Tensor, after: torch.Tensor) -> Any:
        with torch.no_grad():
            action, likely = act(after)
            goal = 0.9 * (action - 0.1 * likely)
        loss = F.mse_loss(critic(x), goal.expand(-1, 2))
        action, likely = act(x)
        total = loss + (0.1 * likely - action).mean()
        chosen.zero_grad()
        total.backward()
        chosen.step()
        return loss.item(), total.item()

    f = compile(step)
    for i in range(12):
        torch.manual_seed(i)
        yield [
            f(values(5, 4, seed=i), values(5, 4, seed=40 + i)),
            state(actor, chosen),
            state(critic),
        ]


@settled(hits=4, graphs=2)
def test_a_frozen_leaf_that_is_met_by_two_names(compile: Compile) -> Steps:
    m = perceptron()
    also = {"weight": m[0].weight}

    def step(x: torch.Tensor) -> torch.Tensor:
        m.zero_grad()
        freeze([m[0]], False, "attribute")
        h = F.linear(x, also["weight"]) + m[0](x)
        freeze([m[0]], True, "attribute")
        loss = m[2](h).square().mean() + also["weight"].sum()
        loss.backward()
        return loss.detach()

    f = compile(step)
    for i in range(8):
        yield [f(values(3, 4, seed=i)), state(m)]


@scenario(grad=True, captured=False, graph_breaks=ANY)
def test_two_leaves_of_one_memory_are_frozen(compile: Compile) -> Steps:
    w = torch.ones(4).requires_grad_()
    v = w.detach().requires_grad_()

    def step(x: torch.Tensor) -> torch.Tensor:
        w.grad = v.grad = None
        w.requires_grad = False
        v.requires_grad = False
        fixed = x * w * v
        w.requires_grad = True
        part = x * w + v
        v.requires_grad = True
        loss = (fixed + part * v).square().mean()
        loss.backward()
        return loss.detach()

    f = compile(step)
    for i in range(6):
        yield [f(values(4, seed=i)), w, v, w.grad, v.grad]


@pytest.mark.parametrize("what", ["print", "raise"])
def test_frozen_while_something_else_happens(what: str) -> None:
    @scenario(grad=True, captured=False, graph_breaks=ANY)
    def story(compile: Compile) -> Steps:
        m, critic = perceptron(), nn.Linear(2, 1)
        chosen = torch.optim.SGD([*m.parameters(), *critic.parameters()], lr=0.1)

        def step(x: torch.Tensor) -> torch.Tensor:
            chosen.zero_grad()
            freeze([critic], False, "method")
            out = critic(m(x))
            if what == "print":
                print(end="")
            else:
                try:
                    raise ValueError(str(x.shape[0]))
                except ValueError:
                    out = out * 2
            loss = out.square().mean()
            loss.backward()
            freeze([critic], True, "method")
            (loss.detach() + critic(m(x).detach()).mean()).backward()
            chosen.step()
            return loss.detach()

        f = compile(step)
        for i in range(8):
            yield [f(values(3, 4, seed=i)), state(m, chosen), state(critic)]

    story()
