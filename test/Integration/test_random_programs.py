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

import os
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, Phase, given, settings
from Integration.random_programs import LOW, Program, programs

EXAMPLES = int(os.environ.get("PYJIT_EXAMPLES", "200"))
# (seed, how much larger each dimension is)
CALLS = [(0, 0), (0, 0), (100, 0), (200, 0), (0, 1), (100, 1)]
tally = {"programs": 0, "captured": 0}
reasons: dict[str, int] = {}


def compare(
    want: torch.Tensor, have: torch.Tensor, what: str, rtol: float, atol: float
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
    if rtol == 0 and want.is_floating_point():
        zeros = torch.stack([want.detach() == 0, torch.signbit(want.detach())])
        ours = torch.stack([have.detach() == 0, torch.signbit(have.detach())])
        same = (zeros.all(0) == ours.all(0)).all()
        assert same, f"{what}: signs of zeros of {want} became {have}"
    if not want.dtype.is_floating_point:
        assert torch.equal(want, have), f"{what}: {want} became {have}"
        return
    torch.testing.assert_close(
        have,
        want,
        rtol=rtol,
        atol=atol,
        equal_nan=True,
        check_stride=False,
        msg=lambda m: f"{what}: {m}",
    )


def tolerance(scope: dict[str, Any]) -> tuple[float, float]:
    """By the coarsest type and the largest number that the eager run met."""
    tensors = [v for v in scope.values() if isinstance(v, torch.Tensor)]
    floats = [t.double() for t in tensors if t.dtype.is_floating_point and t.numel()]
    largest = max((float(t[t.isfinite()].abs().max()) for t in floats
                   if t.isfinite().any()), default=1.0)  # fmt: skip
    low = any(t.dtype in LOW for t in tensors)
    unit = 3e-2 if low else 1e-4
    return unit, unit * max(1.0, largest)


def outcome(f: Any, arguments: list[Any]) -> tuple[Any, Exception | None]:
    from pyjit._errors import CompileError

    try:
        return f(*arguments), None
    except CompileError:
        raise
    except (RuntimeError, IndexError, ValueError, TypeError) as error:
        return None, error


@settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize="PYJIT_EXAMPLES" not in os.environ,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink],
)
@given(programs())
@pytest.mark.filterwarnings("ignore")
def test_random_program(program: Program) -> None:
    check(program)


def check(program: Program) -> None:
    import pyjit

    scope: dict[str, Any] = {"torch": torch}
    exec(program.source(), scope)
    f = scope["f"]
    with torch.no_grad():
        fast = pyjit.compile(f, options={"strict": True, **program.options})
        for number, (seed, grow) in enumerate(CALLS):
            try:
                ours, theirs = program.scope(seed, grow), program.scope(seed, grow)
            except (RuntimeError, IndexError):
                continue  # an alias that these shapes do not have
            names = program.names()
            if program.device != "cpu" and raises(f, program, seed, grow):
                continue  # an index out of range ends a device's context
            want, error = outcome(f, [theirs[name] for name in names])
            have, ours_error = outcome(fast, [ours[name] for name in names])
            where = f"seed {seed}, grown {grow}"
            if number == 1:
                note(pyjit.stats(fast))
            assert type(error) is type(ours_error), (
                f"{where}: eager raised {error!r}, pyjit {ours_error!r}"
            )
            # The largest number of the whole run, intermediate ones included.
            trial = program.scope(seed, grow)
            if error is None:
                for line in program.lines:
                    exec(line, trial)
            bounds = tolerance(trial | theirs)
            results = zip(program.results, program.exact, want or [], have or [])
            for name, exact, a, b in results:
                strict = exact and (seed, grow) == (0, 0)
                compare(
                    a, b, f"{where}, result {name}", *((0, 0) if strict else bounds)
                )
            for name in names:
                if isinstance(theirs[name], torch.Tensor):
                    compare(
                        theirs[name],
                        ours[name],
                        f"{where}, input {name} afterwards",
                        *bounds,
                    )


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
