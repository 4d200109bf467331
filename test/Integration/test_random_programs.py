# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Random straight-line tensor programs: pyjit and eager must agree.

Each program (random_programs.py) is told to pyjit and to eager with several sets
of inputs: the first call is the monitored one, an equal one must be answered by
compiled code, others have other values, other numbers, other shapes. Results,
exceptions and the inputs' final values are compared. A failure of pyjit's compiler
is an error. A failing example prints a snippet that runs by itself.

PYJIT_EXAMPLES sets the number of examples (200 by default, as in CI; 2000 is
what a change to the compiler should pass).
"""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, Phase, given, settings
from Integration.random_programs import Program, grew, programs, storages
from Integration.tolerances import EitherZero, apart, bounds

EXAMPLES = int(os.environ.get("PYJIT_EXAMPLES", "200"))
# (seed, how much larger each dimension is)
CALLS = [(0, 0), (0, 0), (100, 0), (200, 0), (400, 0), (0, 1), (100, 1), (500, 1)]
# Launched: graphs are captured and replayed; where the way is measured, in each of them.
LAUNCHED = [*CALLS[:4], *((100 * i, 0) for i in range(3, 6)), *CALLS[4:]]
MEASURED = [*CALLS[:4], *((100 * i, 0) for i in range(3, 12)), *CALLS[4:]]
tally = {"programs": 0, "captured": 0}
reasons: dict[str, int] = {}


def has_history(tensor: torch.Tensor) -> bool | None:
    """None where eager refuses: one of several views whose base was written."""
    try:
        return tensor.grad_fn is not None
    except RuntimeError:
        return None


def compare(
    want: torch.Tensor, have: torch.Tensor, what: str, bound: torch.Tensor | float
) -> None:
    assert want.dtype == have.dtype, f"{what}: dtype {want.dtype} became {have.dtype}"
    assert want.shape == have.shape, f"{what}: shape {want.shape} became {have.shape}"
    # The stride of a dimension of one means nothing to a program.
    for size, a, b in zip(want.shape, want.stride(), have.stride(), strict=True):
        assert size <= 1 or a == b or want.numel() == 0, (
            f"{what}: strides {want.stride()} became {have.stride()}"
        )
    assert want.requires_grad == have.requires_grad, f"{what}: requires_grad"
    assert want._version == have._version, (
        f"{what}: version {want._version} became {have._version}"
    )
    assert has_history(want) == has_history(have), f"{what}: grad_fn"
    want, have = want.detach(), have.detach()
    wrong = apart(want, have, bound)
    if wrong.any():
        first = tuple(wrong.nonzero()[0].tolist())
        raise AssertionError(
            f"{what}: {int(wrong.sum())} of {wrong.numel()} elements, the first at {first}: "
            f"{want[first].item()} became {have[first].item()}, "
            f"allowed {torch.as_tensor(bound).expand(want.shape)[first].item()}"
        )


def outcome(f: Any, arguments: list[Any]) -> tuple[Any, Exception | None]:
    from pyjit._errors import CompileError

    try:
        return f(*arguments), None
    except CompileError:
        raise
    except (RuntimeError, IndexError, ValueError, TypeError) as error:
        return None, error


sampled = settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize="PYJIT_EXAMPLES" not in os.environ,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink],
)


@sampled
@given(programs())
@pytest.mark.filterwarnings("ignore")
def test_random_program(program: Program) -> None:
    check(program)


@sampled
@given(programs(gradients=True))
@pytest.mark.filterwarnings("ignore")
def test_random_program_with_gradients(program: Program) -> None:
    check(program)


def gradients(
    program: Program, results: Sequence[torch.Tensor], scope: dict[str, Any]
) -> list[torch.Tensor | None]:
    """Of the inputs that require grad, for some gradients of the results."""
    wanted = [result for result in results if result.requires_grad]
    inputs = [scope[name] for name in program.names()]
    inputs = [x for x in inputs if isinstance(x, torch.Tensor) and x.requires_grad]
    if not wanted or not inputs:
        return []
    generator = torch.Generator().manual_seed(len(wanted))
    given = [
        (torch.randint(-4, 5, result.shape, generator=generator) / 4).to(result)
        for result in wanted
    ]
    return list(torch.autograd.grad(wanted, inputs, given, allow_unused=True))


def write_between(
    program: Program,
    results: Sequence[torch.Tensor],
    scope: dict[str, Any],
    call: tuple[int, int],
) -> None:
    """Some calls' inputs or results are written before the backward: eager minds if it has saved them."""
    if call[0] % 200 == 0:
        return
    values = [*(scope[name] for name in program.names()), *results]
    tensors = [v for v in values if isinstance(v, torch.Tensor)]
    one = tensors[(call[0] // 200 + len(program.lines)) % len(tensors)].detach()
    if one.is_floating_point():
        with contextlib.suppress(RuntimeError):  # several elements in one place
            one.add_(0.25)


def check_gradients(
    program: Program,
    want: Sequence[torch.Tensor],
    have: Sequence[torch.Tensor],
    theirs: dict[str, Any],
    ours: dict[str, Any],
    call: tuple[int, int],
) -> None:
    """Where eager has an answer: it raises where somebody wrote what an operator saved."""
    where = f"seed {call[0]}, grown {call[1]}"
    write_between(program, want, theirs, call)
    write_between(program, have, ours, call)
    try:
        eager = gradients(program, want, theirs)
    except RuntimeError:
        return
    mine = gradients(program, have, ours)
    given = [g is not None for g in eager]
    assert given == [g is not None for g in mine], f"{where}: which gradients there are"

    def run() -> list[torch.Tensor]:
        results, scope = run_anew(program, call)
        write_between(program, results, scope, call)
        found = gradients(program, results, scope)
        return [gradient for gradient in found if gradient is not None]

    pairs = [(a, b) for a, b in zip(eager, mine, strict=True) if a is not None]
    limits = bounds(
        run, [a for a, _ in pairs], have=[b + 0.0 for _, b in pairs if b is not None]
    )
    for number, ((a, b), limit) in enumerate(zip(pairs, limits, strict=True)):
        what = f"{where}, gradient {number}"
        assert b is not None and a.dtype == b.dtype and a.shape == b.shape, what
        wrong = apart(a + 0.0, b + 0.0, limit)  # which zero, the order of sums says
        if wrong.any():
            first = tuple(wrong.nonzero()[0].tolist())
            raise AssertionError(
                f"{what}: {int(wrong.sum())} of {wrong.numel()} elements, the first at {first}: "
                f"{a[first].item()} became {b[first].item()}, allowed {limit[first].item()}"
            )


def calls_of(program: Program) -> list[tuple[int, int]]:
    if not program.options.get("simulated_device"):
        return CALLS
    return LAUNCHED if program.options.get("launch") else MEASURED


class Gone:
    """The arguments of earlier calls: a graph that still knows where they were reads nonsense there."""

    def __init__(self) -> None:
        self.storages: list[torch.UntypedStorage] = []

    def add(self, scope: dict[str, Any], names: Sequence[str]) -> None:
        for name in names:
            if isinstance(scope[name], torch.Tensor):
                self.storages.append(scope[name].untyped_storage())
                self.storages[-1].fill_(0xFF)

    def check(self) -> None:
        for storage in self.storages:
            values = torch.empty(0, dtype=torch.uint8).set_(storage)
            assert (values == 0xFF).all(), "an earlier call's argument was written"


def check(program: Program) -> None:
    import pyjit

    scope: dict[str, Any] = {"torch": torch}
    gone = Gone()
    exec(program.source(), scope)
    f = scope["f"]
    with program.world():
        fast = pyjit.compile(f, options={"strict": True, **program.options})
        for number, (seed, grow) in enumerate(calls_of(program)):
            try:
                ours, theirs = program.scope(seed, grow), program.scope(seed, grow)
            except (RuntimeError, IndexError):
                continue  # an alias that these shapes do not have
            names = program.names()
            if program.device != "cpu" and program.races:
                return  # eager's own answers differ
            if program.device != "cpu" and raises(f, program, seed, grow):
                continue  # an index out of range ends a device's context
            before = storages(theirs)
            want, error = outcome(f, [theirs[name] for name in names])
            if grew(before, theirs):
                continue  # nobody has filled the rest, eager reads what is there
            have, ours_error = outcome(fast, [ours[name] for name in names])
            where = f"seed {seed}, grown {grow}"
            if number == 1:
                note(pyjit.stats(fast))
            assert type(error) is type(ours_error), (
                f"{where}: eager raised {error!r}, pyjit {ours_error!r}"
            )
            check_values(program, want or (), have or (), theirs, ours, (seed, grow))
            if program.gradients and want and have:
                check_gradients(program, want, have, theirs, ours, (seed, grow))
            if program.options.get("simulated_device"):
                gone.add(ours, names)
        gone.check()


def check_values(
    program: Program,
    want: Sequence[torch.Tensor],
    have: Sequence[torch.Tensor],
    theirs: dict[str, Any],
    ours: dict[str, Any],
    call: tuple[int, int],
) -> None:
    """Compares results and inputs afterwards, element by element."""
    inputs = [n for n in program.names() if isinstance(theirs[n], torch.Tensor)]
    names = [f"result {n}" for n in program.results[: len(want)]]
    names += [f"input {n} afterwards" for n in inputs]
    eager = [*want, *(theirs[n] for n in inputs)]
    mine = [*have, *(ours[n] for n in inputs)]
    exact = [*program.exact[: len(want)], *(False for _ in inputs)]
    strict = [flag and call == (0, 0) for flag in exact]
    pairs = zip(eager, mine, strict=True)
    if all(
        torch.equal(a, b) and torch.equal(a.signbit(), b.signbit()) for a, b in pairs
    ):
        limits: list[Any] = [0.0] * len(eager)  # dtypes and strides are left
    elif not want:
        limits = [torch.inf] * len(eager)  # what a call wrote before it raised
    else:
        run = functools.partial(again, program, inputs, call)
        limits = bounds(run, eager, have=mine)
        if any(strict):  # alike, but for zeros of either sign
            zeros = bounds(run, eager, noise=EitherZero)
            limits = [
                zero if alike else limit
                for zero, alike, limit in zip(zeros, strict, limits, strict=True)
            ]
    for name, a, b, limit in zip(names, eager, mine, limits, strict=True):
        compare(a, b, f"seed {call[0]}, grown {call[1]}, {name}", limit)


def run_anew(
    program: Program, call: tuple[int, int]
) -> tuple[Sequence[torch.Tensor], dict[str, Any]]:
    """The results of another eager run, and what it was given."""
    scope: dict[str, Any] = {"torch": torch}
    exec(program.source(), scope)
    values = program.scope(*call)
    return scope["f"](*(values[name] for name in program.names())), values


def again(
    program: Program, inputs: Sequence[str], call: tuple[int, int]
) -> list[torch.Tensor]:
    """The results and inputs of another eager run."""
    results, values = run_anew(program, call)
    return [*results, *(values[name] for name in inputs)]


def raises(f: Any, program: Program, seed: int, grow: int) -> bool:
    """Whether the CPU refuses these inputs."""
    scope = program.scope(seed, grow, "cpu")
    return outcome(f, [scope[name] for name in program.names()])[1] is not None


def note(stats: dict[str, Any]) -> None:
    tally["programs"] += 1
    tally["captured"] += stats["hits"] > 0
    for reason in stats["reasons"][:1]:
        short = reason.split(" at ")[0].split(": ", 1)[-1]
        reasons[short] = reasons.get(short, 0) + 1


def test_programs_are_captured(capsys: pytest.CaptureFixture[str]) -> None:
    """Programs that run in eager test nothing: most must be captured."""
    if not tally["programs"]:
        pytest.skip("no program ran")
    share = tally["captured"] / tally["programs"]
    common = sorted(reasons.items(), key=lambda item: -item[1])[:8]
    with capsys.disabled():
        print(f"\nrandom programs: {tally['captured']} of {tally['programs']} captured")
        for reason, count in common:
            print(f"  {count} not, as {reason}")
    assert share > 0.6, common


def test_bounds() -> None:
    """An element's bound is its own: neither a neighbour's, nor larger than its operands' rounding."""
    x = torch.tensor([3e6, 3.0, 0.0])

    def run() -> list[torch.Tensor]:
        return [torch.sin(x), (x + 1) / 3, (x / 3 + 1e6) - 1e6, (x / 3).floor()]

    plain, scaled, cancelled, steps = bounds(run, run())
    assert plain[1] < 1e-5
    assert 0 < scaled[1] < 2e-5 < scaled[0] < 20
    assert scaled[2] < 1e-5
    assert 1e-2 < cancelled[1] < 10
    # A decision that rounding turns may be either.
    assert steps[1] >= 1
    zeros = torch.tensor([0.0, -0.0])
    assert apart(zeros, zeros.flip(0), 0.0).all()
    assert apart(torch.tensor([1.0]), torch.tensor([1.0001]), scaled[1:2]).all()
    assert not apart(torch.tensor([torch.nan]), torch.tensor([torch.nan]), 0.0).any()
