# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`copy.deepcopy` of settings within a compiled function: a new object in each call, with eager's contents and shared
parts, whatever has changed since; what has a copy of its own stays a graph break around the call."""

from __future__ import annotations

import copy
import enum
from collections.abc import Callable
from typing import Any, ClassVar

import pyjit
import pytest
import torch
from Integration.harness import ANY, Compile, Steps, scenario, values
from torch import nn

DEEPCOPY = "a call of deepcopy"


class Kind(enum.Enum):
    ONE = 1
    TWO = 2


class Settings:
    def __init__(self, **entries: Any) -> None:
        self.__dict__.update(entries)


class Renamed:
    """Some of its names stand for others, as in configurations of transformers."""

    names: ClassVar[dict[str, str]] = {"width": "size"}

    def __init__(self) -> None:
        self.size, self.more = 3, [1, 2]

    def __getattribute__(self, name: str) -> Any:
        if name != "names":
            name = super().__getattribute__("names").get(name, name)
        return super().__getattribute__(name)


class Counted:
    """Counts its copies, and is each of them."""

    def __init__(self) -> None:
        self.copies = 0

    def __deepcopy__(self, memo: dict) -> Any:
        self.copies += 1
        return self


class Reduced:
    def __init__(self) -> None:
        self.n = 1

    def __getstate__(self) -> dict:
        return {"n": self.n + 1}


class Slotted:
    __slots__ = ("n",)

    def __init__(self) -> None:
        self.n = [1]


class Curious:
    """Looks at what was copied before."""

    def __init__(self) -> None:
        self.seen: list[int] = []

    def __getattr__(self, name: str) -> Any:
        if name == "__deepcopy__":
            return self.take
        raise AttributeError(name)

    def take(self, memo: dict) -> Any:
        self.seen.append(len(memo))
        return self


def shown(o: Any) -> Any:
    """What it holds, whichever object it is."""
    if isinstance(o, (list, tuple)):
        return type(o), [shown(e) for e in o]
    if isinstance(o, dict):
        return [(shown(k), shown(v)) for k, v in o.items()]
    return [type(o).__name__, shown(o.__dict__)] if hasattr(o, "__dict__") else o


def settings() -> Settings:
    shared = [1, 2.5, "text", None, True]
    return Settings(
        a=shared,
        b=shared,
        c=(1, "x", (shared,)),
        d={"k": {2: shared}, (1, 2): (3, 4)},
        e=Settings(of=shared),
        f=torch.float16,
        g=int,
        h=len,
        i=shown,
        j=("atoms", 300, "of a tuple"),
    )


@scenario
def test_a_copy_is_new_and_shares_what_was_shared(compile: Compile) -> Steps:
    given = settings()

    def f(x: Any, s: Settings) -> Any:
        own = copy.deepcopy(s)
        own.a.append(len(own.a))
        own.e.more = own.d
        same = own.a is own.b, own.c[2][0] is own.a, own.e.of is own.a, own.j is s.j
        return own, x * own.a[0] + len(s.a), same, own.f is torch.float16

    g = compile(f)
    results = []
    for seed in range(4):
        own, *rest = g(values(2, seed=seed), given)
        assert own is not given and own.a is not given.a and len(given.a) == 5
        assert own.a is own.b is own.c[2][0] is own.d["k"][2] is own.e.of
        assert all(own.a is not other.a for other in results)
        results.append(own)
        own.a.append("later")
        yield shown(own.a), shown(own.d), own.j is given.j, *rest


@scenario
def test_changes_between_calls_are_seen(compile: Compile) -> Steps:
    given = settings()

    def f(x: Any) -> Any:
        own = copy.deepcopy(given)
        own.e.of.append(7)
        return x + len(own.a), shown(own.a), own.a is own.b, sorted(own.__dict__)

    g = compile(f)
    changes: list[Callable[[], Any]] = [
        lambda: None,
        lambda: given.a.append(3),
        lambda: given.__dict__.update(b=list(given.a)),  # equal, and shared no more
        lambda: given.__dict__.update(b=given.a),
        lambda: given.__dict__.update(new=[1]),
        lambda: given.__dict__.pop("new"),
        lambda: given.a.pop(),
        lambda: setattr(given, "c", (1, [2])),
    ]
    for change in changes:
        change()
        yield g(values(2))
        yield g(values(2, seed=1))


@scenario
def test_an_equal_list_that_becomes_the_same(compile: Compile) -> Steps:
    """Two at the recording; one in a later call, whose copies are one, too."""

    def f(x: Any, s: Settings) -> Any:
        own = copy.deepcopy(s)
        own.a.append(1)
        return x + len(own.b)

    g = compile(f)
    for same in (False, False, True, True, False):
        a = [1, 2]
        yield g(values(2), Settings(a=a, b=a if same else list(a)))


@scenario
def test_fresh_arguments_hit(compile: Compile) -> Steps:
    g = compile(lambda x, s: (x * copy.deepcopy(s)["n"][0], copy.deepcopy(s)))
    for _ in range(4):
        yield g(values(2), {"n": [3, {"m": (1, [2])}]})


@scenario
def test_names_that_stand_for_others(compile: Compile) -> Steps:
    given = Renamed()

    def f(x: Any) -> Any:
        own = copy.deepcopy(given)
        own.more.append(5)
        return x * own.width, own.__dict__, hasattr(own, "nothing")

    g = compile(f)
    for size in (3, 3, 4, 4):
        given.size = size
        yield g(values(2))


@scenario
def test_members_of_enumerations(compile: Compile) -> Steps:
    given = {"kind": Kind.ONE, "others": [Kind.TWO]}

    def f(x: Any) -> Any:
        own = copy.deepcopy(given)
        return x + own["kind"].value, own["others"][0] is Kind.TWO

    g = compile(f)
    for kind in (Kind.ONE, Kind.ONE, Kind.TWO, Kind.TWO):
        given["kind"] = kind
        yield g(values(2))


@scenario(captured="late", graph_breaks=ANY)
def test_a_number_that_differs(compile: Compile) -> Steps:
    """After some calls the copy is a graph break, and its number an input."""
    given = Settings(rate=0.5, parts=[1])

    def f(x: Any) -> Any:
        own = copy.deepcopy(given)
        own.rate += 1
        return x * own.rate, own.rate

    g = compile(f)
    for step in range(12):
        given.rate = 0.5 * step
        yield g(values(2))


@scenario(captured="late")
def test_copies_in_loops(compile: Compile) -> Steps:
    def f(x: Any, n: int) -> Any:
        first = [[1], {"k": (2,)}]
        copies = [copy.deepcopy(first) for _ in range(n)]
        copies[0][0].append(n)
        return x + len(first[0]), copies, copy.copy(Settings(a=first)).__dict__

    g = compile(f)
    for n in (1, 1, 3, 3, 2):
        yield g(values(2), n)


# What is no copy of plain objects ------------------------------------------------


def cycle() -> Any:
    ring = Settings(n=1)
    ring.self = ring
    return ring


OTHERS: dict[str, Callable[[], Any]] = {
    "tensors": lambda: [torch.ones(2)] * 2,
    "a module": lambda: nn.Linear(2, 2),
    "a copy of its own": Counted,
    "a state of its own": Reduced,
    "slots": Slotted,
    "a set": lambda: {1, 2},
    "a device": lambda: torch.device("cpu"),
    "many objects": lambda: [[i] for i in range(100)],
    "deep": lambda: eval("[" * 60 + "]" * 60),
}


@pytest.mark.parametrize("name", OTHERS)
def test_a_graph_break_around_others(name: str) -> None:
    @scenario(graph_breaks=DEEPCOPY, captured="late")
    def story(compile: Compile) -> Steps:
        given = {"o": OTHERS[name]()}

        def f(x: Any) -> Any:
            own = copy.deepcopy(given)["o"]
            return x + 1, type(own).__name__, type(own) is Counted and own.copies

        g = compile(f)
        for seed in range(4):
            yield g(values(2, seed=seed))

    story()


@scenario(graph_breaks=ANY, captured=False)
def test_what_sees_the_memory_of_a_copy(compile: Compile) -> Steps:
    given, before = {"first": [1], "o": Curious()}, [4]

    def f(x: Any) -> Any:
        memo: dict[int, Any] = {}
        own = copy.deepcopy(given)
        other = copy.deepcopy([before, before], memo)
        kept = memo[id(before)] is other[0] is other[1]
        return x + len(memo), own["o"] is given["o"], kept, given["o"].seen

    g = compile(f)
    for seed in range(5):
        yield g(values(2, seed=seed))
        before.append(seed)


@scenario(graph_breaks=ANY, captured=False)
def test_an_object_that_holds_itself(compile: Compile) -> Steps:
    given = cycle()

    def f(x: Any) -> Any:
        own = copy.deepcopy(given)
        return x + own.n, own.self is own, own is given, own

    g = compile(f)
    for n in (1, 1, 2, 2):
        given.n = n
        *rest, own = g(values(2))
        yield *rest, own.n, own.self is own


# Encoders and decoders -----------------------------------------------------------


def summarizer(kind: str) -> nn.Module:
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    if kind == "t5":
        config = transformers.T5Config(
            d_model=16, d_kv=8, num_heads=2, num_layers=1, d_ff=32, vocab_size=50
        )
        config.decoder_start_token_id = 0
        return transformers.T5ForConditionalGeneration(config)
    config = transformers.BartConfig(
        d_model=16,
        encoder_layers=1,
        decoder_layers=1,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        encoder_ffn_dim=32,
        decoder_ffn_dim=32,
        vocab_size=50,
        max_position_embeddings=32,
    )
    return transformers.BartForConditionalGeneration(config)


@pytest.mark.parametrize("kind", ["t5", "bart"])
def test_steps_of_encoders_and_decoders(kind: str) -> None:
    """They copy their configuration to make a cache."""
    plain = summarizer(kind)
    other = copy.deepcopy(plain)

    def make(model: nn.Module) -> Callable[..., torch.Tensor]:
        optimizer = torch.optim.SGD(model.parameters(), 0.1)

        def step(**batch: torch.Tensor) -> torch.Tensor:
            optimizer.zero_grad()
            loss = model(**batch).loss
            loss.backward()
            optimizer.step()
            return loss.detach()

        return step

    want = make(plain)
    have = fast = pyjit.compile(make(other), options={"compare_with_eager": False})
    sizes = [(3, 5, 6), (4, 8, 9), (2, 11, 7), (3, 6, 12), (5, 9, 4), (2, 7, 7)]
    for i, (batch, length, labels) in enumerate(sizes):
        torch.manual_seed(i)
        given = {
            "input_ids": torch.randint(50, (batch, length)),
            "labels": torch.randint(1, 50, (batch, labels)),
        }
        losses = []
        for step in (want, have):
            torch.manual_seed(i)
            losses.append(step(**given))
        torch.testing.assert_close(losses[1], losses[0], rtol=1e-4, atol=1e-5)
    stats = pyjit.stats(fast)
    assert stats["graph_breaks"] == 0 and stats["eager_calls"] == 0, stats
    assert stats["misses"] <= 4 and not stats["fixed_sizes"], stats
