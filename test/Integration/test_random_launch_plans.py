# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Random programs that are several CUDA graphs, launched in each way on a simulated device.

Operators that wait for the device stand between vendor calls, element-wise kernels, views, writes and branches, so
that graphs read what other graphs, the host and the call's arguments made. A captured graph holds addresses: each
call brings its arguments at new addresses, and what earlier calls brought is NaN by then. So it shows where a replay
reads or writes memory of another call. PYJIT_EXAMPLES sets the number of programs, 60 by default.
"""

from __future__ import annotations

import os
import random
import re
from collections.abc import Iterator
from typing import Any

import pyjit
import pytest
import torch
from Integration.harness import module_of

EXAMPLES = int(os.environ.get("PYJIT_EXAMPLES", "60"))
WAYS = ("", "plain", "copy", "table", "update")
# Observed, observed with a lifted number, plain, captured, replayed; where the way is measured, each of them.
CALLS, MEASURED_CALLS = 8, 14

# Expressions of n × n in the n × n matrices {a}, {b}, {c} and the symmetric one {s}. What graphs hold:
CAPTURED = ["{a} @ {b}", "torch.cumsum({a}, {d})", "torch.addmm({a}, {b}, {c})"]
CAPTURED += ["torch.bmm({a}[None], {b}[None])[0]", "torch.sort({a}, {d}).values"]
CAPTURED += ["torch.bmm({a}[:, None], {b}.expand(n, n, n)).squeeze(1)"]
CAPTURED += ["torch.nn.functional.linear({a}, {b})", "({a} @ {b}).t()"]
CAPTURED += [
    "torch.cat([{a}, {b}]).cumsum(0)[{i}:{i} + n]",
    "torch.linalg.solve({s}, {b})",
]
CAPTURED += ["torch.matmul({a}, {b}[:, 0])[:, None] + {c}"]
# What they do not hold:
WAITING = ["torch.linalg.inv_ex({s}).inverse", "torch.linalg.solve_ex({s}, {b})[0]"]
WAITING += [
    "torch.linalg.cholesky_ex({s})[0]",
    "torch.linalg.solve_ex({s}, {b}).result.t()",
]
WAITING += ["torch.cdist({a}, {b})", "torch.linalg.eigh({s})[0][:, None] * {a}"]
WAITING += [
    "{a} + torch.histc({b}, 4).amax()",
    "torch.linalg.eigh({s}).eigenvalues.diag()",
]
WAITING += ["torch.nn.functional.dropout({a}, 0.5)", "{a} + torch.rand_like({b})"]
WAITING += ["{a} * float({b}.mean())", "{a}.index_put((e,), {b}[e])"]
KERNELS = ["torch.tanh({a})", "{a} * 0.5 + {b}", "{a} * k", "torch.relu({a} - {b})"]
KERNELS += [
    "{a} + {b}.t()",
    "torch.softmax({a}, {d})",
    "{a} - {b}.sum({d}, keepdim=True)",
]
KERNELS += ["torch.where({a} > 0, {a}, {b}) + k", "torch.stack([{a}, {b}]).sum(0)"]
VIEWS = [
    "{a}.t()",
    "x[:, {i}:{i} + n]",
    "s[{i}]",
    "x.t()[{i}:{i} + n]",
    "{a}.view_as({a})",
]
VIEWS += [
    "{a}[:1].expand(n, n)",
    "s[0, {i}:{i} + 1].expand(n, n)",
    "{a}[:, :1].expand_as({a})",
]
VIEWS += ["s.transpose(0, 1)[:n, {i}]", "{a}[e]", "{a}.flip({d})"]
# Statements that write {o}: a value of the program's own, or an argument.
WRITES = [
    "{o}.add_({b} * 2)",
    "{o}[0] = {b}[1] + 0",
    "{o}[:, 1:] = {b}[:, :-1] * 1",
    "{o}.copy_({b} - k)",
]
WRITES += ["{o}.t()[{i} % n].mul_(0.5)", "{o}[:, {i} % n:{i} % n + 1] = {b}[:, :1] * 2"]
WRITES += [
    "{o}[{i} % n].copy_({b}[0] + 1)",
    "{o}[:] = {b} @ {o}",
    "{o}[e] = {b} * 1",
    "{o}.mul_(k)",
]
WRITES += ["{o}.index_add_({d}, e, {b} * 2)"]
# Statements that the values decide: one the host's, the others the device's.
BRANCHES = ["if {a}.sum() > 1e9:\n    return {b},"]
BRANCHES += ["if {a}.mean() > 0:\n    {v} = {b} @ {c}\nelse:\n    {v} = {b} - {c}"]
BRANCHES += [
    "if {a}[0, 0] > {b}[0, 0]:\n    {v} = torch.tanh({c})\nelse:\n    {v} = torch.cumsum({a}, 0)"
]
KINDS = [(CAPTURED, 5), (WAITING, 3), (KERNELS, 5), (VIEWS, 3)]
EXPRESSIONS = [group for group, weight in KINDS for _ in range(weight)]
ITERATIONS = [2, 3, 5, 12, 24]
PARTS = ["s[i % 3]", "x[:, i % 4:i % 4 + n]", "x.t()[i % 4:i % 4 + n]"]
KEPT = ["z[i % n] = h[0]", "z[:, i % n:i % n + 1] = h[:, :1]", "z = z + h", "z += h"]
RESULTS = ["{a}", "{a}", "{a}.t()", "{a}[1:]", "({a}, {a})", "{a} + 1", "w"]
ARGUMENTS = ["m", "w", "b"]


class Grower:
    """Lines over the matrices that have been made so far."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.known = ["m", *ARGUMENTS]
        self.own: list[str] = []  # written by no other name
        self.count = 0

    def pick(self, template: str) -> str:
        rng = self.rng
        names = {key: rng.choice(self.known) for key in "abc"}
        a = names["a"]
        own = f"(torch.tanh({a}) @ torch.tanh({a}).t() / n + 2 * eye)"
        symmetric = rng.choice([own, own, "(w @ w.t() + eye)"])
        target = rng.choice([*self.own, "b"])
        return template.format(
            **names,
            v=f"v{self.count}",
            s=symmetric,
            d=rng.choice("01"),
            i=rng.choice("012"),
            o=target,
        )

    def expression(self) -> str:
        return self.pick(self.rng.choice(self.rng.choice(EXPRESSIONS)))

    def name(self) -> str:
        name = f"v{self.count}"
        self.count += 1
        self.known += [name] * 2
        return name

    def statement(self) -> Iterator[str]:
        chance = self.rng.random()
        if chance < 0.12 and (self.own or self.rng.random() < 0.3):
            yield self.pick(self.rng.choice(WRITES))
        elif chance < 0.2:
            text = self.pick("{a}.clone()")
            self.own.append(self.name())
            yield f"{self.own[-1]} = {text}"
        elif chance < 0.25:
            text = self.pick(self.rng.choice(BRANCHES))
            yield from text.split("\n")
            if "else" in text:
                self.name()
        else:
            text = self.expression()
            yield f"{self.name()} = {text}"

    def loop(self) -> Iterator[str]:
        """Iterations that Python unrolls, each with parts of its own."""
        rng = self.rng
        yield f"h, z = {rng.choice(self.known)}, b.clone()"
        yield f"for i in range({rng.choice(ITERATIONS)}):"
        self.known += ["h", "h"]
        for _ in range(rng.randint(1, 3)):
            yield f"    h = torch.tanh({self.expression()})"
        yield f"    h = torch.tanh(h + {rng.choice(PARTS)})"
        if rng.random() < 0.6:
            yield f"    {rng.choice(KEPT)}"
        self.known += ["z", "z"]


def program(rng: random.Random) -> str:
    """A function of x (n × 3n), s (3 × n × n), m and b (n × n), e (n indices) and k, a number.

    The matrix w is a global of the module.
    """
    grower = Grower(rng)
    lines = ["n = m.shape[0]", "eye = torch.eye(n, dtype=m.dtype, device=m.device)"]
    looped = rng.random() < 0.35
    for _ in range(rng.randint(1, 4) if looped else rng.randint(4, 12)):
        lines += grower.statement()
    if looped:
        lines += grower.loop()
        for _ in range(rng.randint(0, 3)):
            lines += grower.statement()
    # Mostly what was made late, so that little of the program is dropped.
    made = [name for name in dict.fromkeys(grower.known) if name not in ARGUMENTS]
    chosen = made[-3:] + rng.sample(made, min(len(made), rng.randint(0, 2)))
    results = [rng.choice(RESULTS).format(a=name) for name in chosen or ["b"]]
    body = "\n".join(
        f"    {line}" for line in [*lines, f"return {', '.join(results)},"]
    )
    return f"import torch\nw = torch.eye(1)\ndef f(x, s, m, b, e, k):\n{body}\n"


class Arguments:
    """Those of one call after the other: of the same kind, with other values at other addresses."""

    def __init__(self, number: int, device: str) -> None:
        self.device = device
        rng = random.Random(-number - 1)
        self.number = number
        self.dtype = torch.float64 if rng.random() < 0.15 else torch.float32
        self.offset = rng.random() < 0.15
        self.transposed = rng.random() < 0.15
        self.lifts = rng.random() < 0.4

    def matrix(
        self, *sizes: int, call: int, generator: torch.Generator
    ) -> torch.Tensor:
        values = torch.randn(sizes, generator=generator, dtype=self.dtype) * 0.5
        values = values.to(self.device)
        if not self.offset:
            return values
        # Aligned as a view of the user's is, otherwise in each call.
        memory = values.new_empty(values.numel() + 4)
        return memory[call % 4 :][: values.numel()].view(sizes).copy_(values)

    def of(self, call: int, n: int) -> list[Any]:
        generator = torch.Generator().manual_seed(100 * self.number + call)
        sizes = [(n, 3 * n), (3, n, n), (n, n), (n, n)]
        x, s, m, b = (
            self.matrix(*one, call=call, generator=generator) for one in sizes
        )
        order = torch.randperm(n, generator=generator).to(self.device)
        return [
            x,
            s,
            m.t() if self.transposed else m,
            b,
            order,
            0.5 + self.lifts * call / 8,
        ]


def tensors(value: Any) -> list[torch.Tensor]:
    if isinstance(value, tuple):
        return [tensor for part in value for tensor in tensors(part)]
    return [value]


def memory(tensor: torch.Tensor) -> int:
    return int(tensor.untyped_storage()._cdata)


def gradients(
    results: list[torch.Tensor], leaves: list[torch.Tensor]
) -> list[torch.Tensor]:
    """Of the leaves, as far as they have some."""
    wanted = [result for result in results if result.requires_grad]
    if not wanted:
        return []
    given = [torch.linspace(0, 1, r.numel()).view(r.shape).to(r) for r in wanted]
    found = torch.autograd.grad(wanted, leaves, given, allow_unused=True)
    return [gradient for gradient in found if gradient is not None]


class Calls:
    """Calls of a program and of its compiled one, side by side."""

    def __init__(self, number: int, device: str = "cpu") -> None:
        rng = self.rng = random.Random(number)
        self.source, self.way = program(rng), rng.choice(WAYS)
        self.varies, self.moves = rng.random() < 0.2, rng.random() < 0.2
        self.trains = rng.random() < 0.2
        self.arguments = Arguments(number, device)
        options: dict[str, Any] = {"strict": True}
        if device == "cpu":
            options["simulated_device"] = True
        if self.way:
            options["launch"] = self.way
        self.plain, self.ours = module_of(self.source), module_of(self.source)
        self.fast: Any = pyjit.compile(self.ours.f, options=options)
        self.results: list[tuple[torch.Tensor, torch.Tensor]] = []
        self.gone: list[torch.Tensor] = []
        self.noise: list[torch.Tensor] = []

    def size(self, call: int) -> int:
        return 3 + (call // 2 % 2 if self.varies else 0)

    def run(self) -> None:
        count = (CALLS if self.way else MEASURED_CALLS) * (2 if self.varies else 1)
        for call in range(count):
            self.prepare(call)
            self.call(call)
        if self.results:
            self.compare("afterwards", *zip(*self.results, strict=True))
        written = [a for a in self.gone if not a.isnan().all()]
        assert not written, f"an earlier call's argument was written\n{self.source}"

    def prepare(self, call: int) -> None:
        n, ours = self.size(call), self.arguments
        if not call or self.varies or (self.moves and call % 3 == 2):
            other = Arguments(~ours.number, ours.device)
            self.plain.w = self.ours.w = other.of(call, n)[2].to(ours.dtype)
        # What the allocator would give again, as it was.
        more = range(self.rng.randrange(8))
        made = [self.plain.w.new_full((n, n), torch.nan) for _ in more]
        self.noise = self.noise[::2] + made

    def answer(self, f: Any, call: int) -> tuple[list[Any], list[torch.Tensor]]:
        """The arguments after a call, and its results."""
        arguments = self.arguments.of(call, self.size(call))
        if self.trains:
            for argument in arguments[:3]:
                argument.requires_grad_()
        torch.manual_seed(call)
        with torch.set_grad_enabled(self.trains):
            return arguments[:4], tensors(f(*arguments))

    def call(self, call: int) -> None:
        try:
            theirs, want = self.answer(self.plain.f, call)
        except RuntimeError:  # autograd allows not each write
            return
        mine, have = self.answer(self.fast, call)
        self.compare(f"call {call}", want + theirs, have + mine)
        if self.trains:
            self.compare_gradients(
                f"gradients of call {call}", want, have, theirs, mine
            )
        given = {memory(argument) for argument in mine}
        self.results += [
            (a.detach(), b.detach())
            for a, b in zip(want, have, strict=True)
            if memory(b) not in given
        ]
        self.gone += [argument.detach().fill_(torch.nan) for argument in mine]

    def compare_gradients(self, what: str, want: Any, have: Any, *leaves: Any) -> None:
        theirs, mine = (
            [a for a in part if a.is_leaf and a.requires_grad] for part in leaves
        )
        try:
            eager = gradients(want, theirs)
        except RuntimeError:
            return  # an operator wrote what another one saved
        try:
            found = gradients(have, mine)
        except RuntimeError as error:
            # A backward program cannot compute values again from an argument that was written since; eager may have
            # kept what it had computed.
            assert "modified by an inplace operation" in str(error), what
            return
        self.compare(what, eager, found, strides=False)

    def compare(self, what: str, want: Any, have: Any, strides: bool = True) -> None:
        for place, (a, b) in enumerate(zip(want, have, strict=True)):
            where = f"result {place}, {what}, launch {self.way!r}\n{self.source}"
            kinds = [
                (t.shape, t.stride() if strides else (), t.dtype, t.requires_grad)
                for t in (a, b)
            ]
            assert kinds[0] == kinds[1], f"{kinds}: {where}"
            # Vendor libraries round differently where operands lie otherwise.
            near = torch.isclose(a, b, rtol=2e-3, atol=2e-3, equal_nan=True)
            assert near.all(), f"{int((~near).sum())} elements: {where}"


def check(number: int, device: str = "cpu") -> Any:
    """Compares a program with eager; returns it, compiled."""
    calls = Calls(number, device)
    calls.run()
    raised = [r for r in pyjit.stats(calls.fast)["reasons"] if "raise" in r]
    assert not raised, f"{raised}\n{calls.source}"
    return calls.fast


@pytest.mark.parametrize("number", range(EXAMPLES))
def test_random_launch_plan(number: int) -> None:
    stats = pyjit.stats(check(number))
    assert stats["hits"] and not stats["eager_reasons"], stats["eager_reasons"]


def test_programs_are_several_graphs() -> None:
    several = 0
    for number in range(20):
        calls = Calls(number)
        calls.run()
        size = calls.plain.w.shape[0]
        text = str(
            pyjit.explain(calls.fast, detail="all")(*calls.arguments.of(0, size))
        )
        several += len(re.findall(r"cudagraph\.graph ", text)) > 1
    assert several >= 10
