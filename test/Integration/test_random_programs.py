"""Random straight-line tensor programs: pyjit and eager must agree.

A program is Python source over two or three inputs: views, in-place ops,
reductions, mixed dtypes, broadcasts. It is told to pyjit and to eager with three
sets of inputs (the first call is the monitored one, the others are answered by
compiled code); results and the inputs' final values are compared. A failing
example prints a snippet that runs by itself.

PYJIT_EXAMPLES sets the number of examples (200 by default, as in CI; 2000 is
what a change to the compiler should pass).
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Any

import torch
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

EXAMPLES = int(os.environ.get("PYJIT_EXAMPLES", "200"))

DTYPES = [
    torch.float32,
    torch.float32,
    torch.float32,
    torch.float64,
    torch.int64,
    torch.int32,
    torch.bool,
    torch.bfloat16,
    torch.float16,
    torch.uint8,
]
LAYOUTS = ["plain", "plain", "transposed", "strided", "offset", "expanded"]


@dataclass
class Input:
    shape: tuple[int, ...]
    dtype: torch.dtype
    layout: str

    def source(self, seed: int) -> str:
        return f"make({self.shape}, {self.dtype}, {self.layout!r}, {seed})"


def make(shape: tuple[int, ...], dtype: torch.dtype, layout: str, seed: int) -> Any:
    """An input tensor; small whole numbers keep integer and float paths comparable."""
    generator = torch.Generator().manual_seed(seed)

    def dense(size: tuple[int, ...]) -> torch.Tensor:
        numbers = torch.randint(-8, 9, size, generator=generator)
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


@dataclass
class Program:
    inputs: list[Input]
    lines: list[str] = field(default_factory=list)
    results: list[str] = field(default_factory=list)

    def source(self) -> str:
        names = ", ".join(f"v{i}" for i in range(len(self.inputs)))
        body = "".join(f"    {line}\n" for line in self.lines)
        return f"def f({names}):\n{body}    return ({', '.join(self.results)},)\n"

    def __repr__(self) -> str:
        arguments = ", ".join(i.source(seed=7) for i in self.inputs)
        return (
            "\n# --- snippet -----------------------------------------\n"
            "import sys; sys.path.insert(0, 'test'); import torch, pyjit\n"
            "from Integration.test_random_programs import make\n"
            f"{self.source()}"
            "with torch.no_grad():\n"
            "    fast = pyjit.compile(f)\n"
            f"    for _ in range(3): print(fast({arguments}))\n"
            f"    print('eager:', f({arguments}))\n"
            "# -----------------------------------------------------\n"
        )


UNARY_FLOAT = ["torch.tanh({a})", "torch.sigmoid({a})", "torch.exp({a} * 0.25)"]
UNARY_FLOAT += ["torch.sqrt(torch.abs({a}) + 1)", "torch.rsqrt({a} * {a} + 1)"]
UNARY_FLOAT += ["torch.nn.functional.gelu({a})", "torch.nn.functional.silu({a})"]
UNARY_FLOAT += ["torch.log1p(torch.abs({a}))", "torch.sin({a})", "torch.floor({a})"]
UNARY_FLOAT += [
    "torch.softmax({a}, -1)",
    "torch.log_softmax({a}, -1)",
    "torch.erf({a})",
]
UNARY_ANY = ["{a} + {k}", "{a} * {k}", "{k} - {a}", "{a}.clone()", "{a} > {k}"]
UNARY_ANY += ["{a} == {k}", "{a}.to(torch.float32)", "{a}.to(torch.int64)"]
UNARY_ANY += ["{a}.to(torch.float64)", "{a}.bool()", "torch.zeros_like({a})"]
UNARY_NUMBER = ["torch.relu({a})", "{a}.clamp({k}, {k} + 3)", "torch.sign({a})"]
UNARY_NUMBER += ["{a} / 3", "{a} // 2", "{a} % 3", "{a} * {a}", "torch.square({a})"]
UNARY_NUMBER += ["torch.abs({a})", "{a}.pow(2)"]
BINARY_ANY = ["{a} + {b}", "{a} * {b}", "{a} < {b}", "{a} != {b}"]
BINARY_ANY += ["torch.where({a} > 0, {a}, {b})", "torch.maximum({a}, {b})"]
BINARY_NUMBER = ["{a} - {b}", "torch.add({a}, {b}, alpha=2)", "{a} / ({b} * {b} + 1)"]
BINARY_NUMBER += ["torch.minimum({a}, {b})"]
REDUCTIONS = [
    "{a}.sum()",
    "{a}.sum({d})",
    "{a}.sum({d}, keepdim=True)",
    "{a}.amax({d})",
]
REDUCTIONS += [
    "{a}.float().mean({d}, keepdim=True)",
    "{a}.float().mean()",
    "{a}.amin()",
]
REDUCTIONS += ["{a}.float().var({d}, unbiased=False)", "{a}.any({d})", "{a}.all()"]
REDUCTIONS += ["{a}.argmax({d})", "{a}.float().std()", "{a}.cumsum({d})"]
VIEWS = ["{a}.t()", "{a}.transpose(0, {d})", "{a}[{i}]", "{a}[..., {i}:]", "{a}[::2]"]
VIEWS += ["{a}.unsqueeze({d})", "{a}.reshape(-1)", "{a}.squeeze()", "{a}.flip({d})"]
VIEWS += ["{a}.expand(2, *{a}.shape)", "{a}.diagonal()", "{a}.contiguous()"]
VIEWS += ["{a}.narrow({d}, 0, 1)", "{a}.permute(*range({a}.dim())[::-1])"]
VIEWS += ["{a}.view({a}.shape)", "{a}.unfold({d}, 1, 1)", "{a}.chunk(2, {d})[0]"]
VIEWS += ["{a}.select({d}, {i})", "{a}.detach()", "{a}.flatten()", "{a}.roll(1, {d})"]
IN_PLACE = ["{a}.add_({k})", "{a}.mul_({k})", "{a}.fill_({k})", "{a}.zero_()"]
IN_PLACE += ["{a}.copy_({b})", "{a}.add_({b})", "{a}[{i}] = {k}", "{a}[..., {i}] = {b}"]
IN_PLACE += ["{a}.t().mul_({k})", "{a}[::2] += {k}", "{a}.view(-1)[{i}:] = {k}"]
IN_PLACE += ["{a}.diagonal().add_(1)", "{a}.masked_fill_({a} > 0, {k})", "{a}.relu_()"]
IN_PLACE += [
    "{a}.transpose(0, {d})[{i}].copy_({b})",
    "{a}.clamp_({k})",
    "{a}.sub_({b})",
]
IN_PLACE += ["{a}[{a} > 0] = {k}"]
JOINS = ["torch.cat([{a}, {a}], {d})", "torch.stack([{a}, {b}])"]
JOINS += ["torch.cat([{a}, {b}], {d})", "{a} @ {b}", "{a}.float() @ {b}.float().t()"]

KINDS = [
    (UNARY_ANY, 3),
    (UNARY_FLOAT, 3),
    (UNARY_NUMBER, 3),
    (BINARY_ANY, 3),
    (BINARY_NUMBER, 2),
    (REDUCTIONS, 3),
    (VIEWS, 5),
    (IN_PLACE, 5),
    (JOINS, 1),
]
TEMPLATES = [template for group, weight in KINDS for template in group * weight]


def valid(value: object) -> bool:
    """Whether a value may go on: no huge tensors, nothing that is not a tensor."""
    return (
        isinstance(value, torch.Tensor) and value.numel() <= 4096 and value.dim() <= 5
    )


@st.composite
def programs(draw: st.DrawFn) -> Program:
    count = draw(st.integers(1, 3))
    base = draw(
        st.sampled_from([(4, 4), (3, 5), (2, 3, 4), (8,), (1, 4), (16, 17), (4, 1), ()])
    )
    inputs = []
    for _ in range(count):
        shape = draw(st.sampled_from([base, base, base[1:], (1,) * len(base)]))
        dtype = draw(st.sampled_from(DTYPES))
        inputs.append(Input(shape, dtype, draw(st.sampled_from(LAYOUTS))))
    program = Program(inputs)
    scope: dict[str, Any] = {"torch": torch}
    for index, one in enumerate(inputs):
        scope[f"v{index}"] = make(one.shape, one.dtype, one.layout, index)
    names = [f"v{index}" for index in range(count)]
    for _ in range(draw(st.integers(1, 12))):
        template = draw(st.sampled_from(TEMPLATES))
        a = draw(st.sampled_from(names))
        b = draw(st.sampled_from(names))
        k = draw(st.sampled_from(["2", "-1", "0.5", "3", "0", "True"]))
        d = draw(st.sampled_from(["-1", "0", "1"]))
        i = draw(st.sampled_from(["0", "1", "-1"]))
        text = template.format(a=a, b=b, k=k, d=d, i=i)
        if template in IN_PLACE:
            # Tried on a copy of the world: an invalid statement may have half an effect.
            if not _runs(text, program, inputs, scope):
                continue
            line = text
        else:
            name = f"v{len(names)}"
            line = f"{name} = {text}"
            if not _runs(line, program, inputs, scope, name):
                continue
            names.append(name)
        program.lines.append(line)
    program.results = draw(
        st.lists(st.sampled_from(names), min_size=1, max_size=4, unique=True)
    )
    return program


def _runs(
    line: str,
    program: Program,
    inputs: list[Input],
    scope: dict[str, Any],
    name: str | None = None,
) -> bool:
    """Runs a line on top of the program so far; on an error restores the world."""
    try:
        with torch.no_grad():
            exec(line, scope)
        if name is None or valid(scope[name]):
            return True
    except (RuntimeError, IndexError, ValueError, TypeError):
        pass
    for index, one in enumerate(inputs):
        scope[f"v{index}"] = make(one.shape, one.dtype, one.layout, index)
    with torch.no_grad():
        for earlier in program.lines:
            exec(earlier, scope)
    return False


def compare(want: torch.Tensor, have: torch.Tensor, what: str) -> None:
    assert want.dtype == have.dtype, f"{what}: dtype {want.dtype} became {have.dtype}"
    assert want.shape == have.shape, f"{what}: shape {want.shape} became {have.shape}"
    # The stride of a dimension of one means nothing to a program.
    for size, a, b in zip(want.shape, want.stride(), have.stride(), strict=True):
        assert size <= 1 or a == b or want.numel() == 0, (
            f"{what}: strides {want.stride()} became {have.stride()}"
        )
    loose = want.dtype in (torch.float16, torch.bfloat16)
    rtol, atol = (3e-2, 3e-2) if loose else (1e-4, 1e-4)
    if want.dtype.is_floating_point:
        torch.testing.assert_close(
            have,
            want,
            rtol=rtol,
            atol=atol,
            equal_nan=True,
            msg=lambda m: f"{what}: {m}",
        )
    else:
        assert torch.equal(want, have), f"{what}: {want} became {have}"


def arguments(program: Program, seed: int) -> list[torch.Tensor]:
    return [
        make(one.shape, one.dtype, one.layout, seed + index)
        for index, one in enumerate(program.inputs)
    ]


@settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize="PYJIT_EXAMPLES" not in os.environ,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink],
)
@given(programs())
def test_random_program(program: Program) -> None:
    import pyjit

    scope: dict[str, Any] = {"torch": torch}
    exec(program.source(), scope)
    f = scope["f"]
    with torch.no_grad():
        fast = pyjit.compile(f, options={"strict": True})
        for seed in (0, 0, 100, 200):
            ours, theirs = arguments(program, seed), arguments(program, seed)
            try:
                want = f(*theirs)
            except (RuntimeError, IndexError) as error:
                # Which values are valid may depend on the inputs (masks, indices).
                try:
                    fast(*ours)
                except type(error):
                    continue
                raise AssertionError(f"eager raised {error!r}, pyjit did not") from None
            have = fast(*ours)
            for index, (a, b) in enumerate(zip(want, have, strict=True)):
                compare(a, b, f"seed {seed}, result {program.results[index]}")
            for index, (a, b) in enumerate(zip(theirs, ours, strict=True)):
                compare(a, b, f"seed {seed}, input v{index} afterwards")
