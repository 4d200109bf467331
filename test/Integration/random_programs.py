# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Random straight-line tensor programs as hypothesis strategies.

A program is Python source over tensors, index tensors and numbers. Its inputs come
in many layouts, may be empty or 0-d, and may be one tensor twice or a view of an
earlier input. Each statement is tried in eager while the program grows; one that
raises is left out.

Values are small multiples of a quarter, so that most results are exact in any
order of operations. A statement that would turn a rounding difference into another
answer (comparisons, floor, casts to integers, argmax) takes exact operands only.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from hypothesis import strategies as st

DTYPES = [torch.float32] * 4 + [torch.bfloat16, torch.float16] * 2
DTYPES += [torch.float64, torch.int64, torch.int32, torch.bool, torch.uint8]
DTYPES += [torch.int8, torch.int16]
LOW = (torch.bfloat16, torch.float16)
LAYOUTS = ["plain", "plain", "transposed", "strided", "offset", "expanded"]
BASES = [(4, 4), (3, 5), (2, 3, 4), (8,), (1, 4), (16, 17), (4, 1), (), (2, 1, 3, 2)]
BASES += [(0, 4), (3, 0), (0,), (1,), (33,), (5, 1, 4)]
ALIASES = ["{v}", "{v}", "{v}.detach()", "{v}[1:]", "{v}.t()", "{v}.view(-1)[1:]"]
ALIASES += ["{v}[::2]", "{v}.transpose(0, -1)", "{v}[0]", "{v}.unsqueeze(0)"]
ALIASES += ["{v}.expand(2, *{v}.shape)", "{v}[..., :-1]", "{v}.flatten()"]
# Sizes that cross the limits of threads, of split reductions and of vectors.
LARGE = [(300_000,), (70, 4097), (3, 65_537), (2, 3, 33_000), (4099, 33)]
DEFAULTS = [torch.float32] * 6 + [torch.float64, torch.bfloat16, torch.float16]
NUMBERS = ["2", "-1", "0.5", "3", "0", "True", "False"]


def make(
    shape: tuple[int, ...],
    dtype: torch.dtype,
    layout: str,
    seed: int,
    device: str = "cpu",
) -> Any:
    """An input tensor; small whole numbers keep integer and float paths comparable."""
    generator = torch.Generator().manual_seed(seed)

    def dense(size: tuple[int, ...]) -> torch.Tensor:
        numbers = torch.randint(-8, 9, size, generator=generator).to(device)
        if dtype.is_floating_point:
            return (numbers.to(torch.float32) / 4).to(dtype)
        return (numbers.abs() if dtype == torch.uint8 else numbers).to(dtype)

    if layout == "transposed" and len(shape) >= 2:
        return dense((*shape[:-2], shape[-1], shape[-2])).transpose(-1, -2)
    if layout == "strided" and shape:
        return dense((*shape[:-1], shape[-1] * 2))[..., ::2]
    if layout == "offset" and shape:
        return dense((shape[0] + 1, *shape[1:]))[1:]
    if layout == "expanded" and shape and shape[0] > 1:
        return dense((1, *shape[1:])).expand(shape)
    return dense(shape)


def index(shape: tuple[int, ...], seed: int, device: str = "cpu") -> torch.Tensor:
    """Indices that most dimensions have."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, 2, shape, generator=generator).to(device)


def storages(scope: dict[str, Any]) -> dict[str, int]:
    """Bytes of each tensor's storage."""
    tensors = {k: t for k, t in scope.items() if isinstance(t, torch.Tensor)}
    return {name: t.untyped_storage().nbytes() for name, t in tensors.items()}


def grew(before: dict[str, int], scope: dict[str, Any]) -> bool:
    """Whether one of these storages has grown since: an `out=` did not fit."""
    after = storages(scope)
    return any(after[name] > size for name, size in before.items())


@dataclass
class Input:
    kind: str  # tensor, index, number or alias
    shape: tuple[int, ...] = ()
    dtype: torch.dtype = torch.float32
    layout: str = "plain"
    text: str = ""
    requires_grad: bool = False

    def source(self, seed: int, grow: int, device: str = "cpu") -> str:
        where = "" if device == "cpu" else f", {device!r}"
        if self.kind == "alias":
            return self.text
        if self.kind == "number":
            # Another number on another seed: a guard must see it.
            numbers = (self.text, self.text, "1.5", "4", "True", "False")
            return numbers[(seed // 100) % 6]
        shape = tuple(n + grow if n > 1 else n for n in self.shape)
        if self.kind == "index":
            return f"index({shape}, {seed}{where})"
        made = f"make({shape}, {self.dtype}, {self.layout!r}, {seed}{where})"
        return f"{made}.requires_grad_()" if self.requires_grad else made


@dataclass
class Program:
    inputs: list[Input]
    lines: list[str] = field(default_factory=list)
    results: list[str] = field(default_factory=list)
    exact: list[bool] = field(default_factory=list)
    options: dict[str, bool | str] = field(default_factory=dict)
    default: torch.dtype = torch.float32  # what torch.get_default_dtype() is
    autocast: bool = False  # to bfloat16, within the function
    device: str = "cpu"  # where it is checked; it grows on the CPU
    gradients: bool = False  # in grad mode
    races: bool = False  # on a device: an operator writes memory that it reads

    def names(self) -> list[str]:
        return [f"v{i}" for i in range(len(self.inputs))]

    def source(self) -> str:
        indent = "    " * (2 if self.autocast else 1)
        body = "".join(f"{indent}{line}\n" for line in self.lines)
        if self.autocast:
            body = f"    with torch.autocast('cpu'):\n{body}" if body else ""
        names = ", ".join(self.names())
        return f"def f({names}):\n{body}    return ({', '.join(self.results)},)\n"

    def set_up(self, seed: int, grow: int = 0, device: str = "") -> list[str]:
        pairs = zip(self.names(), self.inputs, strict=True)
        where = device or self.device
        return [
            f"{name} = {one.source(seed + i, grow, where)}"
            for i, (name, one) in enumerate(pairs)
        ]

    @contextlib.contextmanager
    def world(self) -> Iterator[None]:
        """The settings that calls are made with."""
        before = torch.get_default_dtype()
        torch.set_default_dtype(self.default)
        try:
            with torch.set_grad_enabled(self.gradients):
                yield
        finally:
            torch.set_default_dtype(before)

    def run(self, scope: dict[str, Any]) -> None:
        """Carries out the function's lines on the inputs in `scope`."""
        with self.world(), torch.autocast("cpu", enabled=self.autocast):
            for line in self.lines:
                exec(line, scope)

    def scope(self, seed: int, grow: int = 0, device: str = "") -> dict[str, Any]:
        scope: dict[str, Any] = {"torch": torch, "make": make, "index": index}
        for line in self.set_up(seed, grow, device):
            exec(line, scope)
        return scope

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(self.snippet())  # what hypothesis prints

    def snippet(self) -> str:
        call = f"fast({', '.join(self.names())})"
        plain = f"f({', '.join(self.names())})"
        inputs = "; ".join(self.set_up(seed=0))
        return (
            "\n# --- snippet (from the checkout, PYTHONPATH=build/python:test) ---\n"
            "import torch, pyjit\n"
            "from Integration.random_programs import index, make\n"
            f"{self.source()}"
            f"torch.set_grad_enabled({self.gradients}); torch.set_default_dtype({self.default})\n"
            f"fast = pyjit.compile(f, options={{'strict': True, **{self.options}}})\n"
            "for _ in range(2):\n"
            f"    {inputs}\n    print({call}, [{', '.join(self.names())}])\n"
            f"{inputs}; print('eager:', {plain}, [{', '.join(self.names())}])\n"
            "# -----------------------------------------------------------------\n"
        )


# Statements ------------------------------------------------------------------------
# {a} {b}: tensors, {x}: an index tensor, {k}: a number, {d}: a dimension, {i}: an index.

SMOOTH = ["torch.tanh({a})", "torch.sigmoid({a})", "torch.exp({a} * 0.25)"]
SMOOTH += ["torch.sqrt(torch.abs({a}) + 1)", "torch.rsqrt({a} * {a} + 1)"]
SMOOTH += ["torch.nn.functional.gelu({a})", "torch.nn.functional.silu({a})"]
SMOOTH += ["torch.log1p(torch.abs({a}))", "torch.sin({a})", "torch.softmax({a}, -1)"]
SMOOTH += ["torch.log_softmax({a}, {d})", "torch.erf({a})", "{a} / 3"]
SMOOTH += ["{a} / ({b} * {b} + 1)", "torch.lerp({a}, {b}, 0.3)", "{a}.logsumexp({d})"]
SMOOTH += ["torch.nn.functional.layer_norm({a}, {a}.shape[-1:])"]
SMOOTH += ["{a}.float().mean({d}, keepdim=True)", "{a}.float().mean()"]
SMOOTH += ["{a}.float().var({d}, unbiased=False)", "{a}.float().std()"]
SMOOTH += [
    "{a}.float().norm()",
    "{a}.float().norm(True)",
    "{a}.cumsum({d})",
    "{a}.prod({d})",
    "{a} @ {b}",
]
SMOOTH += ["{a}.float() @ {b}.float().t()", "torch.nn.functional.softplus({a})"]
SMOOTH += ["torch.nn.functional.mse_loss({a}, {b})", "torch.atan2({a}, {b})"]
ARITHMETIC = ["{a} + {k}", "{a} * {k}", "{k} - {a}", "{a} + {b}", "{a} * {b}"]
ARITHMETIC += ["{a} - {b}", "torch.add({a}, {b}, alpha={k})", "{a} * {a}", "{a}.pow(2)"]
ARITHMETIC += ["torch.square({a})", "{a}.sum()", "{a}.sum({d})", "{a} / 2"]
ARITHMETIC += ["{a}.sum({d}, keepdim=True)", "torch.addcmul({a}, {b}, {b}, value={k})"]
ARITHMETIC += ["{a}.sum({d}, dtype=torch.float32)", "{a}.clamp({k}, {k} + 3)"]
CHOICE = ["torch.relu({a})", "torch.abs({a})", "torch.neg({a})", "{a}.clone()"]
CHOICE += ["torch.maximum({a}, {b})", "torch.minimum({a}, {b})", "{a}.amax({d})"]
CHOICE += ["{a}.amin()", "torch.zeros_like({a})", "{a}.to(torch.float32)"]
CHOICE += ["{a}.to(torch.float64)", "torch.full_like({a}, {k})", "{a}.max({d})[0]"]
CHOICE += ["torch.ones({a}.shape, requires_grad=True)"]
CHOICE += ["torch.where({x} > 0, {a}, {b})", "torch.where({x} > 0, {a}, {k})"]
CHOICE += ["{a}.masked_fill({x} > 0, {k})", "torch.clamp({a}, max={b})", "-{a}"]
# These turn a rounding difference into another answer.
DECISION = ["{a} > {k}", "{a} == {k}", "{a}.to(torch.int64)", "{a}.bool()", "{a} < {b}"]
DECISION += ["{a} != {b}", "torch.where({a} > 0, {a}, {b})", "torch.sign({a})"]
DECISION += ["{a} // 2", "{a} % 3", "torch.floor({a})", "{a}.argmax({d})", "~({a} > 0)"]
DECISION += ["{a}.any({d})", "{a}.all()", "{a}.to({b}.dtype)", "torch.round({a})"]
DECISION += ["torch.floor_divide({a}, 2)", "torch.remainder({a}, 3)", "{a}.half()"]
DECISION += ["{a}.bfloat16()", "torch.isnan({a}) | ({a} > 1)", "{a}.sort({d})[0]"]
DECISION += ["({a} > 0) & ({b} > 0)", "{a}.count_nonzero()", "torch.trunc({a})"]
VIEWS = ["{a}.t()", "{a}.transpose(0, {d})", "{a}[{i}]", "{a}[..., {i}:]", "{a}[::2]"]
VIEWS += ["{a}.unsqueeze({d})", "{a}.reshape(-1)", "{a}.squeeze()", "{a}.flip({d})"]
VIEWS += ["{a}.expand(2, *{a}.shape)", "{a}.diagonal()", "{a}.contiguous()"]
VIEWS += ["{a}.narrow({d}, 0, 1)", "{a}.permute(tuple(range({a}.dim()))[::-1])"]
VIEWS += ["{a}.view({a}.shape)", "{a}.unfold({d}, 1, 1)", "{a}.chunk(2, {d})[0]"]
VIEWS += ["{a}.select({d}, {i})", "{a}.detach()", "{a}.flatten()", "{a}.roll(1, {d})"]
VIEWS += ["{a}.view(-1)", "{a}[:, None]", "{a}[..., 1:-1]", "{a}.movedim(0, {d})"]
VIEWS += ["{a}.split(1, {d})[-1]", "{a}.unbind({d})[{i}]", "{a}.tril()", "{a}.triu(1)"]
VIEWS += ["{a}.repeat(2, *[1] * {a}.dim())", "{a}.as_strided({a}.shape, {a}.stride())"]
VIEWS += ["{a}.repeat_interleave(2, {d})", "{a}.reshape({a}.shape[::-1])"]
VIEWS += ["torch.nn.functional.pad({a}, (1, 2), value={k})", "{a}[1:][{i}]"]
GATHERS = ["{a}[{x}]", "torch.index_select({a}, {d}, {x}.flatten())"]
GATHERS += ["torch.gather({a}, {d}, {x})", "torch.take_along_dim({a}, {x}, {d})"]
GATHERS += ["torch.nn.functional.embedding({x}, {a})", "{a}[:, {x}]", "{a}[{x}, {x}]"]
GATHERS += ["{a}.index_add({d}, {x}.flatten(), {a})", "{a}.scatter({d}, {x}, {k})"]
GATHERS += ["torch.where({x}.bool(), {a}, {b})", "{a}.index_fill({d}, {x}, {k})"]
JOINS = ["torch.cat([{a}, {a}], {d})", "torch.stack([{a}, {b}])"]
JOINS += ["torch.cat([{a}, {b}], {d})", "torch.stack([{a}, {b}, {a}], {d})"]
JOINS += ["torch.cat([{a}.flatten(), {b}.flatten()])", "torch.hstack([{a}, {b}])"]
IN_PLACE = ["{a}.add_({k})", "{a}.mul_({k})", "{a}.fill_({k})", "{a}.zero_()"]
IN_PLACE += ["{a}.copy_({b})", "{a}.add_({b})", "{a}[{i}] = {k}", "{a}[..., {i}] = {b}"]
IN_PLACE += ["{a}.t().mul_({k})", "{a}[::2] += {k}", "{a}.view(-1)[{i}:] = {k}"]
IN_PLACE += ["{a}.diagonal().add_(1)", "{a}.masked_fill_({x} > 0, {k})", "{a}.relu_()"]
IN_PLACE += ["{a}.transpose(0, {d})[{i}].copy_({b})", "{a}.clamp_({k})"]
IN_PLACE += ["{a}.sub_({b})", "{a}[{x}] = {k}", "{a}.index_fill_({d}, {x}, {k})"]
IN_PLACE += ["{a}[{x}] += {k}", "{a}[1:].copy_({a}[:-1].clone())", "{a} += {b}"]
IN_PLACE += ["{a}[..., 1:] *= {b}[..., :-1]", "{a}.scatter_({d}, {x}, {k})"]
IN_PLACE += ["torch.add({a}, {b}, out={a})", "{a}.unsqueeze(0)[0, {i}] -= {b}"]
IN_PLACE += ["{a}.select({d}, {i}).mul_({b})", "{a}.narrow({d}, 0, 1).zero_()"]
OUT = ["torch.mul({a}, {k}, out={a})", "torch.mul({a}[0], {k}, out={a}[1])"]
OUT += ["torch.sum({a}, 0, out={a}[0])", "torch.sub({a}, {b}, out={b})"]
OUT += ["torch.add({a}[1:], {b}[:-1], out={a}[1:])", "torch.neg({b}, out={a})"]
OUT += ["torch.cumsum({a}, {d}, out={a})", "torch.sum({a}, {d}, out={b})"]
OUT += ["torch.add({a}[..., ::2], 1, out={a}[..., ::2])", "torch.abs({a}, out={b})"]
OUT += ["torch.mul({a}[:, 0], {k}, out={a}[:, 1])", "torch.cat([{a}, {b}], out={a})"]
OUT += ["torch.where({x} > 0, {a}, {b}, out={b})", "torch.clamp({a}, {k}, out={b})"]
OUT += ["torch.index_select({a}, 0, {x}, out={b})", "torch.amax({a}, {d}, out={b})"]
OUT += ["torch.add({a}[..., 1:], {a}[..., :-1], out={a}[..., :-1])"]
OUT += ["{a}[..., 1:].copy_({a}[..., :-1])", "{a}[1:] += {a}[:-1]"]
OUT += ["{a}.index_add_({d}, {x}, {a})", "{a}.diagonal().copy_({a}[0])"]
IN_PLACE_DECISION = ["{a}[{a} > 0] = {k}", "{a}.masked_fill_({a} > {k}, 1)"]
IN_PLACE_DECISION += ["{a}.floor_()", "{a}.copy_({b} > 0)"]

KINDS = [
    ("smooth", SMOOTH, 2),
    ("arithmetic", ARITHMETIC, 4),
    ("choice", CHOICE, 3),
    ("decision", DECISION, 2),
    ("view", VIEWS, 3),
    ("gather", GATHERS, 3),
    ("join", JOINS, 3),
    ("in-place", IN_PLACE, 5),
    ("in-place", OUT, 3),
    ("in-place decision", IN_PLACE_DECISION, 3),
]
TEMPLATES = [(kind, t) for kind, group, weight in KINDS for t in group * weight]


class Builder:
    """Grows a program while running it in eager."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.scope = program.scope(0)
        self.tensors, self.indices, self.numbers = [], [], list(NUMBERS)
        for name, one in zip(program.names(), program.inputs, strict=True):
            if one.kind == "number":
                self.numbers += [name] * 6
            else:
                (self.indices if one.kind == "index" else self.tensors).append(name)
        self.count = len(program.inputs)
        self.limit = 3 * max(1366, *(self.scope[name].numel() for name in self.tensors))
        self.inexact: set[int] = set()
        # Statements that raise for some values: an operator whose result nothing
        # uses is dropped, with what it would have raised, so these are used.
        self.checked: list[str] = []

    def storage(self, name: str) -> int:
        return int(self.scope[name].untyped_storage()._cdata)

    def is_exact(self, name: str) -> bool:
        return self.storage(name) not in self.inexact

    def on_grid(self, name: str) -> bool:
        """Small multiples of 1/64: any order of sums and products is exact."""
        value = self.scope[name]
        if not value.dtype.is_floating_point:
            return True
        with torch.no_grad():
            wide = value.double() * 64
        return bool(((wide == wide.round()) & (wide.abs() <= 2**17)).all())

    def races(self, template: str, used: list[str]) -> bool:
        """Whether one operator writes elements that it reads in other places."""
        shifted = "1:]" in template and ":-1]" in template and "clone" not in template
        shared = len({self.storage(name) for name in used}) < 2
        same = all(self.scope[used[0]].is_set_to(self.scope[name]) for name in used)
        return shared and (shifted or not same)

    def offer(self, kind: str, template: str, choices: dict[str, str]) -> None:
        used = [choices[n] for n in "ab" if f"{{{n}}}" in template]
        if "{x}" in template and not self.indices:
            return
        exact = all(self.is_exact(name) for name in used)
        if "decision" in kind and not exact:
            return
        text = template.format(**choices)
        a = choices["a"]
        if kind.startswith("in-place"):
            # What an integer of a float that does not fit is, nobody says.
            types = [self.scope[name].dtype for name in used]
            if types[0] == torch.uint8 and any(t.is_floating_point for t in types):
                return
            races = self.races(template, used)
            if not self.runs(text):
                return
            self.program.races |= races
            for name in used:
                if any(t in LOW for t in types) or not exact or not self.on_grid(name):
                    self.inexact.add(self.storage(name))
            self.program.lines.append(text)
            if "{x}" in template:
                self.checked.append(a)
            return
        name = f"v{self.count}"
        line = f"{name} = {text}"
        if not self.runs(line, name):
            return
        self.count += 1
        self.tensors.append(name)
        self.program.lines.append(line)
        if "{x}" in template:
            self.checked.append(name)
        low = any(self.scope[n].dtype in LOW for n in [*used, name])
        rounds = kind == "smooth" or (kind == "arithmetic" and low)
        if rounds or not exact or not self.on_grid(name):
            self.inexact.add(self.storage(name))

    def runs(self, line: str, name: str | None = None) -> bool:
        """Runs a line on top of the program so far; on an error restores the world."""
        program = self.program
        try:
            before = storages(self.scope)
            with program.world(), torch.autocast("cpu", enabled=program.autocast):
                exec(line, self.scope)
            if grew(before, self.scope):
                raise RuntimeError("an `out=` has grown: nobody has filled its rest")
            if name is None:
                return True
            value = self.scope[name]
            if isinstance(value, torch.Tensor) and value.numel() <= self.limit:
                return value.dim() <= 5
        except (RuntimeError, IndexError, ValueError, TypeError):
            pass
        inexact = {n for n in self.tensors if not self.is_exact(n)}
        self.scope = self.program.scope(0)
        program.run(self.scope)
        self.inexact = {self.storage(n) for n in inexact}
        return False


@st.composite
def inputs(draw: st.DrawFn) -> list[Input]:
    large = draw(st.integers(0, 24)) == 24
    base = draw(st.sampled_from(LARGE if large else BASES))
    found = [Input("tensor", base, draw(st.sampled_from(DTYPES)))]
    found[0].layout = draw(st.sampled_from(LAYOUTS))
    for _ in range(draw(st.integers(0, 3))):
        kind = draw(
            st.sampled_from(["tensor", "tensor", "tensor", "index", "number", "alias"])
        )
        if kind == "tensor":
            shape = draw(st.sampled_from([base, base, base[1:], (1,) * len(base)]))
            one = Input(kind, shape, draw(st.sampled_from(DTYPES)))
            one.layout = draw(st.sampled_from(LAYOUTS))
        elif kind == "index":
            # A write through many indices to many rows would take eager minutes.
            few = [(2,), ()]
            shape = draw(st.sampled_from(few if large else [base, base[-1:], *few]))
            one = Input(kind, shape, torch.int64)
        elif kind == "number":
            one = Input(kind, text=draw(st.sampled_from(["2", "0.5", "-1", "True"])))
        else:
            sources = [i for i, o in enumerate(found) if o.kind == "tensor"]
            name = f"v{draw(st.sampled_from(sources))}"
            one = Input(kind, text=draw(st.sampled_from(ALIASES)).format(v=name))
            trial = Program([*found, one])
            try:
                trial.scope(0)
            except (RuntimeError, IndexError):
                continue
        found.append(one)
    return found


@st.composite
def programs(draw: st.DrawFn, gradients: bool = False) -> Program:
    """gradients: in grad mode, and some inputs require grad."""
    program = Program(draw(inputs()), gradients=gradients)
    for one in program.inputs if gradients else ():
        if one.kind == "tensor" and one.dtype.is_floating_point:
            one.requires_grad = draw(st.integers(0, 3)) > 0
    program.options = {"eager_rounding": draw(st.booleans())}
    program.default = draw(st.sampled_from(DEFAULTS))
    program.autocast = draw(st.integers(0, 9)) == 9
    builder = Builder(program)
    for _ in range(draw(st.integers(1, 12))):
        kind, template = draw(st.sampled_from(TEMPLATES))
        choices = {
            "a": draw(st.sampled_from(builder.tensors)),
            "b": draw(st.sampled_from(builder.tensors)),
            "x": draw(st.sampled_from(builder.indices or [""])),
            "k": draw(st.sampled_from(builder.numbers)),
            "d": draw(st.sampled_from(["-1", "0", "1"])),
            "i": draw(st.sampled_from(["0", "1", "-1"])),
        }
        builder.offer(kind, template, choices)
    chosen = st.lists(
        st.sampled_from(builder.tensors), min_size=1, max_size=4, unique=True
    )
    program.results = list(dict.fromkeys(draw(chosen) + builder.checked))
    program.exact = [builder.is_exact(name) for name in program.results]
    return program
