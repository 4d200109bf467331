# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The derivatives of the operator table, against eager's autograd.

PyTorch's own samples for every operator that has derivatives (op_db), compiled in grad mode: the outputs
and the gradients of every input that requires grad, for the same random gradients of the outputs. Pointwise
functions also at special values: kinks, ties, zeros of both signs, infinities, nan.

By default (CI) at most 3 samples per operator, in float64; PYJIT_GRADIENTS=full takes all, and float32.
"""

from __future__ import annotations

import os
import random
import re
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from Operators.differentiating import assert_equal, leaves, run, tensors

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from torch.testing._internal import common_methods_invocations
    from torch.testing._internal.common_methods_invocations import UnaryUfuncInfo, op_db

# The samples of random operators come with a seed of their own; here every run is seeded.
common_methods_invocations.wrapper_set_seed = lambda op, *args, **kwargs: op(
    *args, **kwargs
)

ROOT = Path(__file__).resolve().parents[2]
FULL = os.environ.get("PYJIT_GRADIENTS", "") == "full"
LIMIT = 10**9 if FULL else 3
DTYPES = [torch.float64, torch.float32] if FULL else [torch.float64]


def differentiable() -> set[str]:
    """Overloads with a derivative, by lib/Operators/Derivatives.td."""
    text = (ROOT / "build/lib/Operators/OperatorDerivatives.inc").read_text()
    rows = text[text.index("derivatives[] =") :]
    return set(re.findall(r'\{"aten::([^"]+)"', rows))


COLUMN = differentiable()
NAMES = {name.split(".")[0] for name in COLUMN}
OPERATORS = sorted(
    (
        op
        for op in op_db
        if op.supports_autograd
        and torch.float64 in op.dtypes
        and not op.name.startswith(("_refs", "masked.", "sparse.", "fft."))
    ),
    key=lambda op: op.full_name,
)
# Overload -> samples that were differentiated by the compiler.
covered: dict[str, int] = {}
# Operator -> reason -> samples that eager differentiated.
in_eager: dict[str, dict[str, int]] = {}


def check(
    name: str,
    function: Callable[..., Any],
    call: Any,
    what: str,
    twice: bool = False,
) -> None:
    import pyjit

    def program(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    fast = pyjit.compile(program)
    try:
        want, gradients, _ = run(function, call, twice)
    except Exception as error:
        # Eager does not take the sample, or does not differentiate it: nor must compiled code.
        if "derivative for" in str(error) and not twice:
            for _ in range(3):
                with pytest.raises(type(error), match="derivative for"):
                    run(fast, call)
        return

    nodes: list[str] = []
    for turn in range(3):
        try:
            have, ours, nodes = run(fast, call, twice)
        except RuntimeError as error:
            # Of random draws, and of what is zero everywhere.
            if not twice or "has no gradients of gradients" not in str(error):
                raise
            counts = in_eager.setdefault(f"{name} twice", {})
            reason = re.sub(
                "loc\\(.*?\\): ", "", str(error).partition("): ")[2]
            ).splitlines()[0][:120]
            counts[reason] = counts.get(reason, 0) + 1
            return
        assert_equal(want, have, f"{what}, call {turn}, outputs")
        assert_equal(gradients, ours, f"{what}, call {turn}, gradients")
    stats = pyjit.stats(fast)
    if nodes and all("PyjitBackward" in node for node in nodes) and stats["hits"]:
        for specialization in fast.engine.compiled.specializations:
            calls = set(
                re.findall(r'tssa\.aten "aten::([^"]+)"', specialization.text("graph"))
            )
            for overload in calls:
                covered[overload] = covered.get(overload, 0) + 1
    elif nodes:
        reasons = [
            *stats["reasons"],
            *map(str, stats["graph_break_sites"]),
            "no reason given",
        ]
        counts = in_eager.setdefault(name, {})
        reason = str(reasons[0]).splitlines()[0][:120]
        counts[reason] = counts.get(reason, 0) + 1


def samples(op: Any, dtype: torch.dtype) -> list[Any]:
    found = [
        ((s.input, *s.args), s.kwargs)
        for s in op.sample_inputs("cpu", dtype, requires_grad=True)
    ]
    draw = random.Random(op.full_name)
    return found if len(found) <= LIMIT else draw.sample(found, LIMIT)


@pytest.mark.parametrize("op", OPERATORS, ids=lambda op: op.full_name)
def test_gradients(op: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for dtype in DTYPES:
            for index, call in enumerate(samples(op, dtype)):
                check(op.full_name, op.op, call, f"{op.full_name}, {dtype}, {index}")


@pytest.mark.parametrize(
    "op",
    [op for op in OPERATORS if torch.bfloat16 in op.supported_backward_dtypes("cpu")],
    ids=lambda op: op.full_name,
)
def test_gradients_in_half_precision(op: Any) -> None:
    """There are some, of eager's type, and about its numbers."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        calls = samples(op, torch.bfloat16)
        for index, call in enumerate(calls if FULL else calls[:1]):
            check(op.full_name, op.op, call, f"{op.full_name} in half, {index}")


# Its running statistics are inputs that the call writes: saved inputs have to keep their versions, although
# gradients do not depend on them.
NOT_TWICE = {"nn.functional.instance_norm"}


@pytest.mark.parametrize(
    "op",
    [op for op in OPERATORS if op.supports_gradgrad and op.full_name not in NOT_TWICE],
    ids=lambda op: op.full_name,
)
def test_second_gradients(op: Any) -> None:
    """Gradients of gradients, by inputs and by the gradients that came in."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        calls = samples(op, torch.float64)
        for index, call in enumerate(calls if FULL else calls[:1]):
            check(op.full_name, op.op, call, f"{op.full_name} twice, {index}", True)


# Eager has saved a view that shares no version with its tensor (`_unsafe_view`): it answers with what stands
# there now.
READS_ANEW = {"kron"}


def write_and_go_back(
    function: Callable[..., Any], call: Any, number: int | None, seen: bool = True
) -> list[torch.Tensor | None] | RuntimeError | None:
    """Gradients behind a write to the call's `number`-th tensor, inputs first; None where there is none.

    seen: autograd counts the write.
    """
    args, kwargs = leaves(call)
    torch.manual_seed(0)
    outputs = list(tensors(function(*args, **kwargs)))
    inputs = list(tensors([args, kwargs]))
    wanted = [out for out in outputs if out.requires_grad]
    trained = [t for t in inputs if t.requires_grad]
    every = [*inputs, *outputs]
    if not wanted or not trained or (number is not None and number >= len(every)):
        return None
    try:
        if number is not None:
            written = every[number].detach() if seen else every[number].data
            if seen or written.is_floating_point():  # indices have to stay in range
                written.add_(1)
    except RuntimeError:
        return []  # several elements in one place
    try:
        ones = [torch.ones_like(out) for out in wanted]
        return list(torch.autograd.grad(wanted, trained, ones, allow_unused=True))
    except RuntimeError as error:
        return error


def differentiated(op: Any) -> Iterator[tuple[int, Any, Any, Any, list[Any]]]:
    """The operator's samples that eager differentiates: number, sample, program, the same compiled and served,
    and the gradients where nobody writes."""
    import pyjit

    for index, call in enumerate(samples(op, torch.float64)):

        def program(*args: Any, **kwargs: Any) -> Any:
            return op.op(*args, **kwargs)

        try:
            unwritten = write_and_go_back(program, call, None)
        except RuntimeError:
            continue
        if not isinstance(unwritten, list):
            continue
        fast = pyjit.compile(program)
        for _ in range(2):
            write_and_go_back(fast, call, None)
        yield index, call, program, fast, unwritten


@pytest.mark.parametrize("op", OPERATORS, ids=lambda op: op.full_name)
def test_written_before_the_backward(op: Any) -> None:
    """A write between call and backward raises nowhere but where eager has saved what was written.

    Where eager raises, a compiled call may have saved something else.
    """
    if op.full_name in READS_ANEW:
        pytest.skip("eager reads what was written")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for index, call, program, fast, unwritten in differentiated(op):
            for number in range(12):
                where = f"{op.full_name}, {index}, tensor {number}"
                eager = write_and_go_back(program, call, number)
                if eager is None:
                    break
                ours = write_and_go_back(fast, call, number)
                if isinstance(eager, list):
                    assert isinstance(ours, list), f"{where}: {ours}"
                    assert_equal(eager, ours, where)
                elif isinstance(ours, list):
                    assert_equal(unwritten, ours, where)


# Eager's nodes have saved more than operands, results and statistics (factors, buffers, partial products), or
# statistics that the program gets hold of.
SAVES_MORE = {
    "_native_batch_norm_legit", "native_batch_norm", "native_layer_norm", "cumprod", "linalg.lu", "linalg.solve",
    "linalg.tensorsolve", "nn.functional.logsigmoid", "nn.functional.multilabel_soft_margin_loss",
    "nn.functional.rms_norm", "pca_lowrank",
}  # fmt: skip


@pytest.mark.parametrize(
    "op",
    [op for op in OPERATORS if op.full_name not in SAVES_MORE],
    ids=lambda op: op.full_name,
)
def test_written_unseen_before_the_backward(op: Any) -> None:
    """Behind a write through `.data`, gradients are of what eager's nodes find: the new contents of a tensor
    that they have saved, the old ones in what was computed from it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for index, call, program, fast, unwritten in differentiated(op):
            for number in range(12):
                where = f"{op.full_name}, {index}, tensor {number}"
                eager = write_and_go_back(program, call, number, seen=False)
                if eager is None:
                    break
                ours = write_and_go_back(fast, call, number, seen=False)
                assert type(eager) is type(ours), f"{where}: {eager}, {ours}"
                if isinstance(eager, list) and isinstance(ours, list):
                    assert_equal(eager, ours, where)


SPECIAL = [
    0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, 3.0, -3.0, 6.0, 20.0, 21.0, 1e-8, -1e-8,
    88.0, -88.0, 1e30, float("inf"), float("-inf"), float("nan"),
]  # fmt: skip
POINTWISE = [
    op
    for op in OPERATORS
    if op.aten_name in NAMES
    and (isinstance(op, UnaryUfuncInfo) or op.name.startswith("nn.functional."))
    and op.aten_name
    in [
        "relu",
        "relu6",
        "hardtanh",
        "gelu",
        "silu",
        "mish",
        "elu",
        "selu",
        "celu",
        "leaky_relu",
        "hardswish",
        "hardsigmoid",
        "softplus",
        "threshold",
        "hardshrink",
        "softshrink",
        "log_sigmoid",
        "logsigmoid",
    ]
    or isinstance(op, UnaryUfuncInfo)
]


REDUCTIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "norm": lambda x: x.norm(dim=1),
    "norm 1": lambda x: x.norm(1, dim=1),
    "norm 3": lambda x: x.norm(3, dim=1),
    "norm 1.5": lambda x: x.norm(1.5, dim=1),
    "norm 0.5": lambda x: x.norm(0.5, dim=1),
    "norm inf": lambda x: x.norm(float("inf"), dim=1),
    "vector norm": lambda x: torch.linalg.vector_norm(x, dim=1),
    "prod": lambda x: x.prod(1),
    "prod, infinitely": lambda x: x.prod(1) * float("inf"),
    "prod of all": lambda x: x.prod(),
    "prod of a row, infinitely": lambda x: x[0].prod() * float("inf"),
    "cumprod": lambda x: x.cumprod(1),
    "amax": lambda x: x.amax(1),
    "max": lambda x: x.max(),
    "median": lambda x: x.median(),
    "nansum": lambda x: x.nansum(1),
    "logsumexp": lambda x: x.logsumexp(1),
    "std": lambda x: x.std(1),
    "std of one": lambda x: x[:, :1].std(1),
    "var of one": lambda x: x[0, 0].var(),
    "sort": lambda x: x.sort(1)[0],
    "cummax": lambda x: x.cummax(1)[0],
    "logcumsumexp": lambda x: x.logcumsumexp(1),
    "log_softmax": lambda x: x.log_softmax(1),
}


@pytest.mark.parametrize("name", REDUCTIONS)
def test_special_rows(name: str) -> None:
    """Ties, zeros, infinities and nan within a reduction."""
    rows = [
        [0.0, 0.0, 0.0],
        [-0.0, 0.0, 1.0],
        [2.0, 2.0, -2.0],
        [2.0, 0.0, 3.0],
        [float("inf"), 1.0, 0.0],
        [float("-inf"), float("inf"), 1.0],
        [float("nan"), 1.0, 0.0],
        [1.0, float("nan"), float("inf")],
        [1e30, 1e-30, 1.0],
    ]
    for some in (rows, rows[:4], rows[3:4]):
        x = torch.tensor(some, dtype=torch.float64, requires_grad=True)
        check(name, REDUCTIONS[name], ((x,), {}), f"{name} of special rows")


@pytest.mark.parametrize("op", POINTWISE, ids=lambda op: op.full_name)
def test_special_values(op: Any) -> None:
    """At kinks eager takes one side; infinities and nan go where eager's go."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        some = samples(op, torch.float64)
        for dtype in (torch.float64, torch.float32):
            values = torch.tensor(SPECIAL, dtype=dtype)
            if op.aten_name == "gelu":  # eager has two answers (eager_paths.py)
                values = values[~values.isinf()]
            if op.aten_name == "logit":  # and at -0.0
                values = values[~((values == 0) & values.signbit())]
            grid = values.requires_grad_()
            for args, kwargs in some[:1]:
                check(
                    op.full_name,
                    op.op,
                    ((grid, *args[1:]), kwargs),
                    f"{op.full_name} at special values",
                )


@pytest.mark.parametrize(
    "function",
    [
        torch.maximum,
        torch.minimum,
        torch.fmax,
        torch.fmin,
        torch.mul,
        torch.div,
        torch.add,
        torch.atan2,
        torch.pow,
        torch.hypot,
        torch.fmod,
        torch.remainder,
        torch.copysign,
        torch.logaddexp,
        torch.logaddexp2,
        torch.xlogy,
        torch.special.xlog1py,
        torch.clamp,
        torch.nn.functional.prelu,
        torch.nn.functional.mse_loss,
        torch.nn.functional.l1_loss,
        torch.nn.functional.smooth_l1_loss,
        torch.nn.functional.huber_loss,
        torch.nn.functional.soft_margin_loss,
        torch.nn.functional.binary_cross_entropy_with_logits,
        torch.nn.functional.kl_div,
        torch.dist,
    ],
    ids=lambda f: f.__name__,
)
def test_special_pairs(function: Callable[..., Any]) -> None:
    """Ties, and zeros and infinities against each other."""
    values = torch.tensor(SPECIAL, dtype=torch.float64)
    a = values.repeat(len(SPECIAL)).requires_grad_()
    b = values.repeat_interleave(len(SPECIAL)).requires_grad_()
    if function is torch.nn.functional.soft_margin_loss:
        b = b.detach()
    if function is torch.nn.functional.prelu:
        a = a.detach().view(1, -1).requires_grad_()
    check(
        function.__name__,
        function,
        ((a, b), {}),
        f"{function.__name__} of special pairs",
    )


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("number", [2.0, 0.0, -0.0, 1e-50, -1e-50, -2.0, 1e300, 3, 0])
def test_numbers_to_powers(number: float, dtype: torch.dtype) -> None:
    """The base is a number of Python's: what a tensor's type makes of it is no matter. One that is the same in each
    call, and one that is not."""
    import pyjit

    x = torch.tensor([0.0, 0.5, 1.0, 2.0, -1.0, -0.0], dtype=dtype, requires_grad=True)
    check("pow", lambda x: number**x, ((x,), {}), f"{number} to powers")
    check("pow", lambda x: number**x, ((x[2].detach(),), {}), f"{number} to a power")
    fast = pyjit.compile(lambda x, base: base**x)
    for other in (number, number * 3 + 1, number + 2, number, number * 5):
        want, have = (f(x, other) for f in (lambda x, base: base**x, fast))
        gradients = [torch.autograd.grad(y.sum(), x)[0] for y in (want, have)]
        torch.testing.assert_close(have, want, equal_nan=True)
        torch.testing.assert_close(gradients[1], gradients[0], equal_nan=True)


# Factors of `_grouped_mm`, and where groups end: rows, columns or what is summed over may be divided.
GROUPED: dict[str, tuple[tuple[int, ...], tuple[int, ...], list[int] | None]] = {
    "rows": ((11, 8), (3, 8, 4), [4, 4, 11]),
    "columns": ((3, 8, 4), (4, 12), [4, 8, 12]),
    "sums": ((8, 12), (12, 4), [4, 12, 12]),
    "matrices": ((3, 8, 12), (3, 12, 4), None),
}


@pytest.mark.parametrize("kind", GROUPED)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("transposed", [False, True])
def test_grouped_products(kind: str, dtype: torch.dtype, transposed: bool) -> None:
    """PyTorch has no samples of these."""
    left, right, ends = GROUPED[kind]
    if dtype == torch.bfloat16:
        left = *left[:-2], *(2 * size for size in left[-2:])
        right = *right[:-2], *(2 * size for size in right[-2:])
        ends = [2 * end for end in ends] if ends else None
    numbers = torch.Generator().manual_seed(0)

    def factor(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=numbers).to(dtype)

    x, y = factor(*left), factor(*right)
    if transposed:
        y = y.mT.contiguous().mT
    offsets = torch.tensor(ends, dtype=torch.int32) if ends else None

    def product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch._grouped_mm(a, b, offs=offsets)

    x.requires_grad_()
    y.requires_grad_()
    before = covered.get("_grouped_mm", 0)
    for twice in (False, True):
        name = f"_grouped_mm of {kind}"
        check(name, product, ((x, y), {}), name + " twice" * twice, twice)
    assert covered["_grouped_mm"] > before


def test_report(capsys: pytest.CaptureFixture[str]) -> None:
    """Prints what the compiler differentiated, and what it left to eager."""
    if not covered:
        pytest.skip("no operator ran")
    lines = [f"{len(covered)} overloads in programs that the compiler differentiated."]
    for name, counts in sorted(in_eager.items()):
        lines += [f"- {name}: {reason} ({n})" for reason, n in sorted(counts.items())]
    reports = ROOT / "build" / "test-reports"
    reports.mkdir(parents=True, exist_ok=True)
    missing = sorted(COLUMN - set(covered))
    lines.append(f"Not reached: {', '.join(missing)}")
    (reports / "gradients.md").write_text("\n".join(lines))
    with capsys.disabled():
        print(lines[0], lines[-1], sep="\n")
