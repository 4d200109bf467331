#!/usr/bin/env python3
"""How much of what people run does pyjit capture, and does it answer as eager does?

Runs a named set of models and programs (``benchmarks/zoo/``), each in a process of its own
with a time limit: random weights, small configurations, no downloads. Each program is
called by eager, then by pyjit twice on the same input, on other values, on another shape,
and on the first again. Results are compared in structure, type, dtype, shape, strides and
value; so are the arguments and the module's state afterwards.

  benchmarks/breadth.py                      everything
  benchmarks/breadth.py torchvision idioms   some families
  benchmarks/breadth.py -k resnet            names that contain a word
  benchmarks/breadth.py -k resnet --here     in this process, with the traceback
  benchmarks/breadth.py --list               the names
  benchmarks/breadth.py --device cuda        modules and inputs on the GPU

Results go to the terminal as they come, to ``--json`` (merged with what is there, so that
batches add up) and, with ``--write``, as a table to benchmarks/results/.

A difference that is rounding: where a float32 result is off by more than the tolerance,
both runs are compared with the same program in float64; pyjit may be four times as far
from it as eager is.
"""

from __future__ import annotations

import argparse
import collections
import copy
import dataclasses
import datetime
import json
import os
import re
import resource
import select
import signal
import sys
import time
import traceback
import warnings
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

import torch
from zoo import FAMILIES, Program, load
from zoo.compare import compare

RESULTS = Path(__file__).resolve().parent / "results"
PHASES = ("first", "again", "other", "shape", "first after shape")


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

    def make() -> Any:
        f, inputs = program.make()
        return placed(f, device), lambda which: placed(inputs(which), device)

    return dataclasses.replace(program, make=make)


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
        if program.timed and not differences:
            for word, f in (("eager", eager), ("pyjit", fast)):
                rounds = [outcome_time(f, inputs("first")) for _ in range(3)]
                found[f"{word} ms"] = min(rounds) * 1e3
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


def outcome_time(f: Any, call: Any) -> float:
    args, kwargs = call
    try:
        return seconds(f, *args, **kwargs)[0]
    except Exception:
        return float("nan")


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


# ===----------------------------------------------------------------------===#
# One process per program
# ===----------------------------------------------------------------------===#


def in_process(program: Program, limit: float) -> dict[str, Any]:
    """``examine`` in a forked process; its death or its slowness is a finding."""
    sys.stdout.flush()
    sys.stderr.flush()
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        status = 0
        try:
            found = examine(program)
        except BaseException as error:
            text = traceback.format_exc().strip().splitlines()
            found = {
                "error": f"{type(error).__name__}: {error}"[:300],
                "trace": text[-8:],
            }
        with os.fdopen(write, "w") as pipe:
            json.dump(found, pipe, default=str)
        os._exit(status)
    os.close(write)
    text, deadline = b"", time.monotonic() + limit
    while True:
        ready, _, _ = select.select(
            [read], [], [], max(0.0, deadline - time.monotonic())
        )
        chunk = os.read(read, 1 << 16) if ready else None
        if not chunk:
            break
        text += chunk
    os.close(read)
    late = chunk is None
    if late:
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    found = {"name": program.name, "family": program.family}
    if late:
        found["error"] = f"took more than {limit:.0f} s"
    elif not text:
        found["crash"] = f"the process ended with status {status}"
    else:
        found.update(json.loads(text))
    return found


# ===----------------------------------------------------------------------===#
# Tables
# ===----------------------------------------------------------------------===#


def verdict(found: dict[str, Any]) -> str:
    """One word: the table's second column."""
    if "crash" in found:
        return "CRASH"
    if "error" in found:
        return "error"
    return "DIFFERS" if found.get("differences") else "equal"


def captured(found: dict[str, Any]) -> str:
    stats = found.get("stats", {})
    if not stats:
        return "-"
    if stats["graphs"] == 1 and not stats["cuts"] and not stats["reasons"]:
        return "one graph"
    return f"{stats['graphs']} graphs, {stats['cuts']} cuts"


def reason(found: dict[str, Any]) -> str:
    if "crash" in found or "error" in found:
        return found.get("crash", found.get("error", ""))
    if found.get("differences"):
        return found["differences"][0]
    reasons = found.get("stats", {}).get("reasons", [])
    late = [r for r in found.get("after", {}).get("reasons", []) if r not in reasons]
    return "; ".join([*reasons, *(f"later: {r}" for r in late)])


def tidy(text: str) -> str:
    """Paths without what is above the package; one line; no bars."""
    text = re.sub(r"/[^ ]*/site-packages/", "", text)
    text = re.sub(r"/[^ ]*/(benchmarks/)", r"\1", text)
    return " ".join(text.split()).replace("|", "\\|")[:220]


def kind(text: str) -> str:
    """A reason without its place, to count by."""
    return tidy(re.sub(r" at [^ ]+:\d+.*", "", text.splitlines()[0] if text else ""))


def row(found: dict[str, Any]) -> list[str]:
    def number(key: str) -> str:
        return f"{found[key]:.3g}" if isinstance(found.get(key), float) else "-"

    first = "-"
    if isinstance(found.get("pyjit first s"), float):
        first = f"{found['pyjit first s'] - found.get('eager first s', 0.0):.2f}"
    cells = [found["name"], captured(found), verdict(found), first]
    return [*cells, number("eager ms"), number("pyjit ms"), tidy(reason(found))]


def table(results: list[dict[str, Any]]) -> str:
    head = ["program", "captured", "values", "first call beyond eager, s", "eager ms"]
    head += ["pyjit ms", "reason"]
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    return "\n".join(lines + ["| " + " | ".join(row(f)) + " |" for f in results])


def summary(results: list[dict[str, Any]]) -> str:
    lines = ["| family | programs | one graph | equal | differ | crash | error |"]
    lines.append("|" + " --- |" * 7)
    families = collections.defaultdict(list)
    for found in results:
        families[found["family"]].append(found)
    for family, members in [*families.items(), ("all", results)]:
        count = collections.Counter(verdict(f) for f in members)
        whole = sum(captured(f) == "one graph" for f in members)
        cells = [family, len(members), whole, count["equal"], count["DIFFERS"]]
        cells += [count["CRASH"], count["error"]]
        lines.append("| " + " | ".join(str(c) for c in cells) + " |")
    return "\n".join(lines)


def frequencies(results: list[dict[str, Any]]) -> str:
    count: collections.Counter[str] = collections.Counter()
    for found in results:
        reasons = found.get("survey") or found.get("stats", {}).get("reasons", [])
        for text in {kind(r) for r in reasons}:
            count[text] += 1
    return "\n".join(f"| {n} | {text} |" for text, n in count.most_common())


def write(results: list[dict[str, Any]], path: Path, device: str) -> None:
    import timm
    import torchvision
    import transformers
    from run import commit, machine

    day = datetime.date.today().isoformat()
    about = (
        f"{machine(device)}, one thread, machine shared with other work: **times are "
        f"informative only**. CPython {sys.version.split()[0]}, torch "
        f"{torch.__version__}, torchvision {torchvision.__version__}, timm "
        f"{timm.__version__}, transformers {transformers.__version__}, pyjit at "
        f"{commit()}. float32, random weights, small configurations, no_grad, made by "
        "`benchmarks/breadth.py`."
    )
    parts = [
        f"# Coverage, {day}",
        about,
        summary(results),
        "Reasons for not being one graph, by number of programs:",
        "| programs | reason |\n| --- | --- |\n" + frequencies(results),
    ]
    families: dict[str, list[dict[str, Any]]] = collections.defaultdict(list)
    for found in results:
        families[found["family"]].append(found)
    for family, members in families.items():
        parts += [f"## {family}", table(members)]
    path.parent.mkdir(exist_ok=True)
    path.write_text("\n\n".join(parts) + "\n")
    print(f"written: {path}")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("families", nargs="*", help=", ".join(FAMILIES))
    parser.add_argument("-k", default="", help="only names that match this pattern")
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--limit", type=float, default=120, help="seconds per program")
    parser.add_argument("--json", type=Path, help="keep results here, merged")
    parser.add_argument("--write", type=Path, nargs="?", const=True, help="the table")
    parser.add_argument("--here", action="store_true", help="in this process")
    parser.add_argument("--list", action="store_true", help="names only")
    parser.add_argument("--retry", action="store_true", help="those not yet right")
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    known: dict[str, dict[str, Any]] = {}
    if options.json and options.json.exists():
        known = {f["name"]: f for f in json.loads(options.json.read_text())}
    programs = load(options.families or list(FAMILIES))
    programs = [on_device(p, options.device) for p in programs]
    chosen = [p for p in programs if re.search(options.k, p.name)]
    if options.retry:
        chosen = [
            p
            for p in chosen
            if verdict(known.get(p.name, {"error": ""})) != "equal"
            or captured(known[p.name]) != "one graph"
        ]
    if options.list:
        print("\n".join(p.name for p in chosen))
        return 0
    bad = 0
    for program in chosen if not (options.write and options.json) else []:
        if options.here:
            found = examine(program)
        else:
            found = in_process(program, options.limit)
        known[program.name] = found
        bad += verdict(found) not in ("equal", "error")
        print(" · ".join(row(found)), flush=True)
        for line in found.get("differences", [])[1:4]:
            print("    ", tidy(line), flush=True)
        if options.json:
            options.json.write_text(json.dumps(list(known.values()), default=str))
    order = {p.name: i for i, p in enumerate(programs)}
    results = sorted(known.values(), key=lambda f: order.get(f["name"], 1 << 30))
    print("\n" + summary(results))
    print("\n" + frequencies(results))
    if options.write:
        day = datetime.date.today().isoformat()
        word = "coverage" if options.device == "cpu" else f"coverage-{options.device}"
        path = RESULTS / f"{day}-{word}.md" if options.write is True else options.write
        write(results, path, options.device)
    return 1 if bad else 0


if __name__ == "__main__":
    raise SystemExit(main())
