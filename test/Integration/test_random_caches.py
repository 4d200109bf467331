# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Random steps of generations: static, growing and sliding caches that live from call to call, written at places and
lengths that change, read before and behind, shared by two owners, cropped, reordered and reset in between.

After each call the result, all memory, Python's counters, versions and errors are eager's, also where a call raised in
its middle. PYJIT_EXAMPLES sets the number of programs, 60 by default.
"""

from __future__ import annotations

import copy
import functools
import os
import random
from collections.abc import Callable
from typing import Any

import pyjit
import pytest
import torch
from Integration.tolerances import apart, bounds

EXAMPLES = int(os.environ.get("PYJIT_EXAMPLES", "60"))
LENGTH, WIDTH, WINDOW = 12, 8, 5
WAYS = ("", "plain", "copy", "table", "update")

#: Expressions, by the shape of what they give: `new` is of (batch, n, width) as `x` is, `row` of (batch, width).
EXPRESSIONS = {
    "new": [
        "x", "x", "x @ w", "{new} * 0.5", "{new} + s.{m}[:, :1]", "torch.tanh({new})", "{new} + {row}[:, None]",
        "({new} @ s.{m}[:, :s.pos + 1].mT).softmax(-1) @ s.{m}[:, :s.pos + 1]", "({new} @ s.{m}.mT).softmax(-1) @ s.{m}",
        "({new} @ s.keys.mT).softmax(-1) @ s.keys", "{new} - s.keys.sum(1, keepdim=True)", "F.layer_norm({new}, (8,))",
        "F.scaled_dot_product_attention({new}, s.{m}, s.{m}, attn_mask=torch.arange(12) <= s.at)",
        "F.scaled_dot_product_attention({new}, s.keys, s.keys)", "{new} + torch.linalg.cholesky(e).sum()",
    ],
    "row": [
        "x[:, 0]", "x[:, -1]", "s.{m}[:, s.pos]", "s.{m}[:, 0]", "s.{m}.mean(1)", "s.keys[:, -1]", "{row} @ w",
        "{row} * {row}", "s.{m}[:, :s.pos].sum(1)", "s.{m}.index_select(1, s.at).squeeze(1)", "s.keys.amax(1)",
    ],
}  # fmt: skip
#: `n` is how many positions `x` has.
WRITES = [
    "s.{m}[:, s.pos:s.pos + n] = {new}", "s.{m}[:, s.pos:s.pos + n] = {new}", "s.{m}[:, s.pos] = {row}",
    "s.{m}[:, s.pos] += {row}", "s.{m}.index_copy_(1, s.at + torch.arange(n), {new})",
    "s.{m}.index_copy_(1, s.at + torch.arange(n), {new})", "s.{m}[:, s.at + torch.arange(n)] = {new}",
    "s.{m}.index_add_(1, s.at, {row}[:, None])", "s.keys = torch.cat([s.keys, {new}], 1)",
    "s.keys = torch.cat([s.keys, {new}], 1)", "s.keys = torch.cat([s.keys, {new}], 1)[:, -5:]",
    "s.keys = torch.cat([s.keys, {row}[:, None]], 1)", "s.{m}[:, :s.pos] *= 0.5", "s.{m}[:, :s.pos] = x[:, :1]",
    "s.{m}[:, :s.pos] = {row}[:, None]", "s.{m}[:, ::3] += 1", "s.{m}[:, s.pos:].zero_()", "s.{m}[0] = s.{m}[1]",
    "s.{m}[:, s.pos:s.pos + 1].mul_(2)", "s.keys[:, -1] += 1", "s.keys = s.keys.index_select(0, order)",
    "s.{m}.copy_(s.{m}.index_select(0, order))", "s.{m}[order] = s.{m}.clone()", "s.{m}.copy_(s.{m}.roll(-1, 1))",
    "s.{m}[:, -n:] = {new}", "s.keys = s.keys[:, -4:]", "s.{m}.scatter_(1, s.at.view(1, 1, 1).expand(2, 1, 8), {row}[:, None])",
    "s.{m}[:, s.pos - n:s.pos] = {new}", "s.keys = s.keys.contiguous()",
]  # fmt: skip
ENDS = ["s.pos += n", "s.at += n", "s.at.add_(n)", "s.pos = s.pos + n"]


class Generator:
    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.known: dict[str, list[str]] = {"new": [], "row": []}

    def fill(self, template: str, depth: int = 0) -> str:
        while (start := template.find("{")) >= 0:
            end = template.index("}", start)
            name = template[start + 1 : end]
            what = (
                self.rng.choice(["buf", "buf", "other"])
                if name == "m"
                else self.expression(name, depth)
            )
            template = template[:start] + what + template[end + 1 :]
        return template

    def expression(self, kind: str, depth: int) -> str:
        if self.known[kind] and self.rng.random() < 0.4:
            return self.rng.choice(self.known[kind])
        if depth > 2:
            return {"new": "x", "row": "x[:, 0]"}[kind]
        return f"({self.fill(self.rng.choice(EXPRESSIONS[kind]), depth + 1)})"

    def statement(self) -> str:
        if self.rng.random() < 0.3:
            kind = self.rng.choice(list(self.known))
            name = f"{kind}{len(self.known[kind])}"
            line = f"{name} = {self.expression(kind, 0)}"
            self.known[kind].append(name)
            return line
        return self.fill(self.rng.choice(WRITES))

    def program(self) -> str:
        lines = ["def f(s, x, w, e, order):", "    n = x.shape[1]"]
        lines += [f"    {self.statement()}" for _ in range(self.rng.randint(1, 5))]
        lines += [f"    {end}" for end in self.rng.sample(ENDS, self.rng.randint(0, 2))]
        if self.rng.random() < 0.2:
            lines.append(f"    {self.statement()}")
        given = [self.expression(kind, 0) for kind in ("new", "row")]
        given += self.rng.sample(["s.buf", "s.keys", "s.buf[:, 1:3]", "s.at"], 1)
        return "\n".join(
            [
                *lines,
                f"    return {', '.join(self.rng.sample(given, self.rng.randint(1, 3)))}",
                "",
            ]
        )


class Caches:
    """What lives from call to call. `way`: whose memory the second owner has."""

    def __init__(self, seed: int, way: int, empty: bool) -> None:
        generator = torch.Generator().manual_seed(seed)
        memory = torch.randn(4, LENGTH, 2 * WIDTH, generator=generator)
        self.memory = memory
        self.buf = (
            memory[:2, :, :WIDTH] if way in (2, 3) else memory[:2, :, :WIDTH].clone()
        )
        self.other = [
            memory[2:, :, :WIDTH].clone(), self.buf, memory[2:, :, :WIDTH], memory[:2, :, WIDTH:],
            self.buf.flip(0), self.buf[:, :],
        ][way]  # fmt: skip
        self.pos, self.at = 2, torch.tensor([2])
        keys = torch.randn(2, 3, WIDTH, generator=generator)
        self.keys = keys[:, :0] if empty else keys

    def tensors(self) -> dict[str, torch.Tensor]:
        return {
            name: getattr(self, name)
            for name in ("memory", "buf", "other", "at", "keys")
        }


def between(rng: random.Random) -> Callable[[Caches], None]:
    """What happens between two calls."""

    def crop(s: Caches, count: int = rng.randint(1, 3)) -> None:
        s.keys = s.keys[:, :-count]
        s.pos = max(0, s.pos - count)
        s.at.sub_(count).clamp_(min=0)

    def place(s: Caches, at: int = rng.randrange(LENGTH + 1)) -> None:
        s.pos = at
        s.at.fill_(at)

    def reset(s: Caches) -> None:
        s.buf.zero_()
        s.keys = s.keys[:, :1].clone()
        s.pos = 0
        s.at = torch.tensor([0])

    def reorder(s: Caches) -> None:
        s.keys = s.keys[torch.tensor([1, 0])]
        s.buf.copy_(s.buf[[1, 1]])

    def share(s: Caches) -> None:
        s.other = s.buf

    return rng.choices(
        [lambda s: None, crop, place, reset, reorder, share], [30, 3, 2, 1, 2, 1]
    )[0]


def outcome(f: Callable[..., Any], arguments: list[Any]) -> tuple[str, tuple[Any, ...]]:
    try:
        results = f(*arguments)
    except Exception as error:
        return type(error).__name__, ()
    return "", results if isinstance(results, tuple) else (results,)


def near(
    ours: torch.Tensor, theirs: torch.Tensor, bound: Callable[[], torch.Tensor]
) -> bool:
    """`bound`: how far roundings of this call may move them; asked where they differ by more than usual."""
    try:
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4, equal_nan=True)
    except AssertionError:
        if ours.shape != theirs.shape or ours.dtype != theirs.dtype:
            return False
        return not apart(theirs, ours, bound()).any()
    return True


def roundings(f: Callable[..., Any], before: Caches, given: list[Any]) -> Any:
    """By name, how far each tensor may be from eager's after a call that begins with `before`."""

    def run() -> dict[str, torch.Tensor]:
        s = copy.deepcopy(before)
        results = outcome(f, [s, *given])[1]
        return s.tensors() | {f"result {k}": r for k, r in enumerate(results)}

    names, tensors = zip(*run().items(), strict=True)
    found = bounds(lambda: list(run().values()), list(tensors), runs=24)
    return dict(zip(names, found, strict=True))


def set_equal(eager: Caches, mine: Caches) -> None:
    """Roundings of one call are not those of the next. Writes both, for their versions are compared."""
    for name, theirs in eager.tensors().items():
        ours, value = getattr(mine, name), theirs.clone()
        ours.copy_(value)
        theirs.copy_(value)


def compare(
    eager: Caches, mine: Caches, want: Any, have: Any, bound: Any, told: str
) -> None:
    assert have[0] == want[0], f"{have[0]!r} is not {want[0]!r}, {told}"
    assert mine.pos == eager.pos, f"pos {mine.pos} is not {eager.pos}, {told}"
    pairs = [(name, getattr(mine, name), t) for name, t in eager.tensors().items()]
    for name, ours, theirs in pairs:
        assert ours._version == theirs._version or name == "keys", (
            f"version of {name}, {told}"
        )
    pairs += [
        (f"result {k}", *pair)
        for k, pair in enumerate(zip(have[1], want[1], strict=True))
    ]
    for name, ours, theirs in pairs:
        assert ours.stride() == theirs.stride() or not theirs.numel(), (
            f"strides of {name}, {told}"
        )
        assert near(ours, theirs, lambda name=name: bound()[name]), (
            f"{name}, {ours} is not {theirs}, {told}"
        )
    shared = [
        [a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr() for a in [*s.tensors().values(), *r] for b in s.tensors().values()]
        for s, r in ((eager, want[1]), (mine, have[1]))
    ]  # fmt: skip
    assert shared[0] == shared[1], f"who shares memory, {told}"


def answers(f: Callable[..., Any], seed: int, empty: bool) -> bool:
    """Whether a first call does not raise."""
    x, w = torch.zeros(2, 3, WIDTH), torch.zeros(WIDTH, WIDTH)
    given = [Caches(seed, 0, empty), x, w, torch.eye(3), torch.tensor([1, 0])]
    return not outcome(f, given)[0]


def keep_small(worlds: list[Caches]) -> None:
    """Sums of sums grow until they cancel out, and only rounding is left."""
    if all(
        float(t.abs().amax()) < 8
        for name, t in worlds[0].tensors().items()
        if name != "at" and t.numel()
    ):
        return
    for s in worlds:
        s.memory.clamp_(-2, 2)
        s.buf.clamp_(-2, 2)
        s.other.clamp_(-2, 2)
        s.keys = s.keys.clamp(-2, 2)


def check(seed: int, options: dict[str, Any] | None = None) -> None:
    rng = random.Random(seed)
    empty = rng.random() < 0.3
    scope: dict[str, Any] = {"torch": torch, "F": torch.nn.functional, "f": None}
    while not (scope["f"] and answers(scope["f"], seed, empty)):
        source = Generator(rng).program()
        exec(source, scope)
    options = {"recompile_limit": 64, **(options or {})}
    if options.get("simulated_device") and (launch := rng.choice(WAYS)):
        options["launch"] = launch
    fast = pyjit.compile(scope["f"], options=options)
    way = rng.choices(range(6), [5, 1, 1, 1, 1, 1])[0]
    worlds = [Caches(seed, way, empty) for _ in range(2)]
    generator = torch.Generator().manual_seed(seed)
    w = torch.randn(WIDTH, WIDTH, generator=generator) * 0.3
    with torch.no_grad():
        for number in range(16):
            n = rng.choice([1, 1, 1, 1, 1, 2, 3]) if number else 3
            x = torch.randn(2, n, WIDTH, generator=generator)
            e = torch.eye(3) * (-1 if number > 3 and rng.random() < 0.1 else 1)
            order = torch.tensor(rng.choice([[0, 1], [1, 0]]))
            set_equal(*worlds)
            keep_small(worlds)
            change = between(rng)
            for s in worlds:
                change(s)
            given = [x, w, e, order]
            bound = functools.partial(
                roundings, scope["f"], copy.deepcopy(worlds[0]), given
            )
            want, have = (
                outcome(f, [s, *given])
                for f, s in zip((scope["f"], fast), worlds, strict=True)
            )
            told = f"seed {seed}, call {number}, way {way}\n{source}"
            compare(*worlds, want, have, bound, told)


@pytest.mark.parametrize("seed", range(EXAMPLES))
def test_random_caches(seed: int) -> None:
    check(seed)


@pytest.mark.parametrize("seed", range(EXAMPLES, EXAMPLES + EXAMPLES // 3))
def test_random_caches_launched(seed: int) -> None:
    check(seed, options={"simulated_device": True})
