# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Examines one program of the zoo: is every answer eager's, how much is one graph, how fast is it then?"""

from __future__ import annotations

import copy
import dataclasses
import resource
import time
from collections.abc import Callable
from typing import Any

import measure
import torch

from zoo import Program
from zoo.compare import compare
from zoo.tables import captured

PHASES = ("first", "again", "other", "shape", "first after shape")
# Calls, or seconds, in which a program is to have settled: pyjit compares its specializations with eager's
# time, on a device from the 512th call on.
SETTLE_CALLS, SETTLE_SECONDS = {"cpu": 40, "cuda": 560}, 3.0
TIMED_SECONDS = 0.7  # of each side


def seconds(f: Any, *args: Any, **kwargs: Any) -> tuple[float, Any]:
    start = time.perf_counter()
    result = f(*args, **kwargs)
    if torch.cuda.is_initialized():
        torch.cuda.synchronize()
    return time.perf_counter() - start, result


def placed(value: Any, device: str) -> Any:
    """The modules and tensors in a program's arguments, on the device."""
    if isinstance(value, (torch.Tensor, torch.nn.Module)):
        return value.to(device)
    if type(value) in (list, tuple):
        return type(value)(placed(v, device) for v in value)
    if type(value) is dict:
        return {k: placed(v, device) for k, v in value.items()}
    return value


def on_device(program: Program, device: str) -> Program:
    """The program with its module and inputs on the device.

    What it makes for itself on the CPU stays there: eager's error then says so.
    """
    if device == "cpu":
        return program

    def placing(make: Any) -> Any:
        def placed_make() -> Any:
            f, inputs = make()
            return placed(f, device), lambda which: placed(inputs(which), device)

        return placed_make if make else None

    makers = {key: placing(getattr(program, key)) for key in ("make", "training")}
    return dataclasses.replace(program, **makers)


def examine(program: Program) -> dict[str, Any]:
    """Runs one program in this process and says what became of it."""
    import pyjit

    found: dict[str, Any] = {"name": program.name, "family": program.family}
    # Convolutions round to TF32 on a GPU otherwise, by an algorithm that layouts choose.
    torch.backends.cudnn.allow_tf32 = False
    with torch.no_grad():
        torch.manual_seed(0)
        eager, inputs = program.make()
        small = not isinstance(eager, torch.nn.Module) or (
            sum(p.numel() for p in eager.parameters()) < 60e6
        )
        if isinstance(eager, torch.nn.Module):
            target = copy.deepcopy(eager) if small else eager
        else:
            torch.manual_seed(0)
            target, _ = program.make()
        fast = pyjit.compile(target)
        differences: list[str] = []
        for phase in PHASES:
            which = {"again": "first", "first after shape": "first"}.get(phase, phase)
            want_in, have_in = inputs(which), inputs(which)
            if want_in is None or have_in is None:
                continue
            want = outcome(eager, want_in, found, f"eager {phase} s")
            have = outcome(fast, have_in, found, f"pyjit {phase} s")
            gaps = compare(want, have) + compare(want_in, have_in, "arguments")
            if gaps and all(g.rounding for g in gaps):
                gaps = beyond_rounding(eager, inputs(which), want, have) or []
                found["rounding"] = not gaps
            differences += [f"{phase}: {gap}" for gap in gaps]
            if phase == "first":
                found["stats"] = dict(pyjit.stats(fast))
                if captured(found) != "one graph":
                    found["survey"] = survey(program)
                if isinstance(want, Raised) and not program.raises:
                    raise want.error
        if isinstance(eager, torch.nn.Module) and target is not eager:
            gaps = compare(eager.state_dict(), target.state_dict(), "state_dict")
            differences += [str(gap) for gap in gaps if not gap.rounding]
        found["after"] = dict(pyjit.stats(fast))
        found["differences"] = differences
        reasons = found["after"]["reasons"]
        if not program.raises:
            found["raised in a graph"] = [r for r in reasons if " raise" in r]
        if program.timed and not program.raises and not differences:
            # A copy of a module may be slower by itself: the weights of an LSTM lie in one piece.
            same = target if isinstance(eager, torch.nn.Module) else eager
            found.update(timed(same, fast, inputs))
        reasons = pyjit.stats(fast)["reasons"]
        found["answered by eager"] = [
            r for r in reasons if r.startswith("eager is faster")
        ]
    usage = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    found["peak MB"] = usage // 1024
    return found


def survey(program: Program) -> list[str]:
    """Everything that the recorder does not model, where its own tests' door is built."""
    try:
        from pyjit import _capture
    except ImportError:
        return []
    torch.manual_seed(0)
    target, inputs = program.make()
    args, kwargs = inputs("first") or ((), {})
    try:
        return _capture.survey(target, args, kwargs)[1].splitlines()
    except Exception as error:
        return [f"survey: {error}"]


class Raised:
    """A call that ended in an exception."""

    def __init__(self, error: Exception) -> None:
        self.error = error
        self.what = (type(error).__name__, str(error))


def outcome(f: Any, call: Any, found: dict[str, Any], key: str) -> Any:
    args, kwargs = call
    torch.manual_seed(1)
    try:
        found[key], result = seconds(f, *args, **kwargs)
        return result
    except Exception as error:
        return Raised(error)


def timed(
    eager: Callable[..., Any], fast: Callable[..., Any], inputs: Any
) -> dict[str, float]:
    """Milliseconds of both on the same values, in turns, once the compiled one has settled."""
    cuda = torch.cuda.is_initialized()
    runners = {}
    for name, f in (("eager", eager), ("pyjit", fast)):
        args, kwargs = inputs("first")
        runners[name] = lambda f=f, args=args, kwargs=kwargs: f(*args, **kwargs)
    try:
        until = time.perf_counter() + SETTLE_SECONDS
        for _ in range(SETTLE_CALLS["cuda" if cuda else "cpu"]):
            runners["pyjit"]()
            if time.perf_counter() > until:
                break
        wait = torch.cuda.synchronize if cuda else None
        found = measure.interleaved(runners, TIMED_SECONDS, rounds=15, wait=wait)
    except Exception:
        return {}  # a program that cannot be called often with the same arguments
    return {
        "eager ms": 1e3 * found["eager"],
        "pyjit ms": 1e3 * found["pyjit"],
        "ratio": found["pyjit"] / found["eager"],
    }


def doubled(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.double() if value.dtype == torch.float32 else value
    if type(value) in (list, tuple):
        return type(value)(doubled(v) for v in value)
    if type(value) is dict:
        return {k: doubled(v) for k, v in value.items()}
    return value


def beyond_rounding(eager: Any, call: Any, want: Any, have: Any) -> Any:
    """The differences that stay when float64's answer is the measure."""
    if not isinstance(eager, torch.nn.Module):
        return compare(want, have)
    torch.set_default_dtype(torch.float64)
    try:
        exact = copy.deepcopy(eager).double()(*doubled(call[0]), **doubled(call[1]))
    except Exception:
        return compare(want, have)
    finally:
        torch.set_default_dtype(torch.float32)
    return compare(want, have, exact=exact)
