# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Random programs with graph breaks, loops and branches: pyjit and eager must agree.

A program is a module of Python source: a function with tensors, numbers, containers and an object
that outlives calls; nested helpers; statements that pyjit records and statements that it has to break at
at (`print`, native calls, data of tensors in Python), in blocks of every kind. It is called several
times with changing data; results, what was printed, what was logged, the final state and the inputs
must be as eager leaves them. All arithmetic is exact in float32, so that no decision on data is a
matter of rounding.

PYJIT_EXAMPLES sets the number of examples (120 by default, as in CI).
"""

from __future__ import annotations

import contextlib
import io
import os
import random
import warnings
from typing import Any

import torch
from hypothesis import HealthCheck, Phase, given, note, settings
from hypothesis import strategies as st
from Integration.harness import attempt, difference, module_of, snapshot

EXAMPLES = int(os.environ.get("PYJIT_EXAMPLES", "120"))

PRELUDE = """
import contextlib, ctypes, random, time, torch
libc = ctypes.CDLL(None)
log = []
dice = random.Random(3)

class State:
    def __init__(self):
        self.n = 0
        self.t = torch.ones(3)
        self.items = [torch.ones(3)]

state = State()

class Block:
    def __init__(self, name, swallow):
        self.name, self.swallow = name, swallow
    def __enter__(self):
        log.append("in " + self.name)
        return self.name
    def __exit__(self, kind, *rest):
        log.append("out " + self.name + str(kind is not None))
        return self.swallow

@contextlib.contextmanager
def block(name):
    log.append("in " + name)
    try:
        yield name
    finally:
        log.append("out " + name)

def check(k):
    if k > 2:
        raise ValueError(str(k))
    return k

def latest(values, k):
    print(end="")
    return len(values), k

def parts(xs):
    for x in xs:
        log.append("part")
        yield x * 2
"""

EXACT = [
    "{a} = ({b} + {c}).clamp(-8, 8)",
    "{a} = ({b} - {c}).clamp(-8, 8)",
    "{a} = torch.maximum({b}, {c})",
    "{a} = torch.relu({b})",
    "{a} = {b}.abs() - 1",
    "{a} = ({b} * {k}).clamp(-4, 4)",
    "{a} = torch.where({b} > {c}, {b}, -{c})",
    "{a} = {b}.flip(0)",
    "{a} = {b}",
    "{a} = {b}.clone()",
    "{a} = {b}[None].sum(0)",
    "{a}, {b} = {b}, {a}",
]
STATE = [
    "{a}.add_(1).clamp_(-8, 8)",
    "{a}.neg_()",
    "{a}[0] = 2.0",
    "{a} = {b} + 0; {a}[1:].add_(1); {a}.clamp_(-8, 8)",
    "out.append({a})",
    "out.append(({a}, {k}))",
    "{a} = out[-1] if out and isinstance(out[-1], torch.Tensor) else {a}",
    "box['t'] = {a}",
    "{a} = box.get('t', {a})",
    "box.setdefault('n', []).append({k})",
    "state.n += 1",
    "state.t = {a}",
    "{a} = state.t",
    "state.items.append({a})",
    "{a} = state.items[-1]; del state.items[1:]",
    "log.append({k})",
    "log.append(len(out))",
    "{k} = min({k} + 1, 3)",
    "{k} = {a}.shape[0]",
    "{k} = len(out)",
    "d['k'] = {k}",
    "{k} = d['k']",
    "xs[0] = {a}",
    "{a} = xs[-1]",
]
GRAPH_BREAKS = [
    "print({k}, len(out))",
    "print({a})",
    "print('x', end='')",
    "time.sleep(0)",
    "{k} = libc.abs(-2)",
    "{k} = int({a}.sum())",
    # Which zero is the largest depends on the order of the comparisons.
    "{k} = {a}.max().item() + 0.0",
    "{k} = min(3, int(dice.random() * 4))",
    "{a} = {b}[{b} > 0].sum() + {c}; {a}.clamp_(-8, 8)",
    "out.append({a}.tolist())",
    "box['l'] = ({a} > 0).any().item()",
    "{a} = ({b} + float(libc.abs(-1))).clamp(-8, 8)",
    "{a} = {b} if bool(({b} > 0).all()) else {c}",
    "log.append(sorted([3, 1, 2], key=lambda v: libc.abs(-v)))",
    "log.append([libc.abs(-v) for v in range(2)])",
    "xs = [({c} + v * libc.abs(-1)).clamp(-8, 8) for v in xs]",
    "out.extend(parts(xs))",
    "{a} = sum(parts(xs)).clamp(-8, 8)",
    "with open('/dev/null') as null: log.append(null.read())",
]
HEADS = [
    "if {a}.sum() > 0:",
    "if {a}[0] > {b}[1]:",
    "if {k} > 1:",
    "if out:",
    "for {k} in range(2):",
    "for {a} in list(xs):",
    "for i, {a} in enumerate([{b}, {c}]):",
    "for {a}, {k} in zip(xs, (1, 2)):",
    "for key in list(box):",
    "with Block('b', True):",
    "with Block('c', False):",
    "with block('g'):",
    "with torch.no_grad():",
    "try:",
]
TAILS = {
    "if": [None, "else:"],
    "try:": [
        "except ValueError as error:\n    log.append(str(error))",
        "finally:\n    log.append('finally')",
        "except ValueError:\n    {a} = {b} + 1\n    {a}.clamp_(-8, 8)",
    ],
}
RARE = [
    "check({k})",
    "return {a}, {k}",
    "fn = lambda v: (v + {k}).clamp(-8, 8)\n{a} = fn({b})",
    "def fn(v):\n    log.append('fn')\n    return v.relu()\n{a} = fn({b})",
    "{a} = helper({b}, {k})",
    "{a} = helper({b}, {k})",
    "{a} = other({b}, {k})[0]",
    "for pair in [({k},), (1,), (2,)]:\n    out.append(latest(out, *pair))",
    "for pair in [({k},), (1,), (2,)]:\n    {a} = other({b}, *pair)[0]",
]


class Writer:
    def __init__(self, dice: random.Random) -> None:
        self.dice = dice

    def pick(self, options: Any) -> Any:
        return self.dice.choice(options)

    def fill(self, template: str, names: dict[str, list[str]]) -> str:
        for letter in "abc":
            while "{" + letter + "}" in template:
                template = template.replace(
                    "{" + letter + "}", self.pick(names["t"]), 1
                )
        while "{k}" in template:
            template = template.replace("{k}", self.pick(names["k"]), 1)
        return template

    def statements(
        self, names: dict[str, list[str]], depth: int, helpers: bool
    ) -> list[str]:
        lines: list[str] = []
        for _ in range(self.dice.randint(*((3, 8) if depth == 0 else (1, 3)))):
            kind = self.dice.randint(0, 11)
            if kind < 4:
                template = self.pick(EXACT)
            elif kind < 7:
                template = self.pick(STATE)
            elif kind < 9:
                template = self.pick(GRAPH_BREAKS)
            elif kind < 10:
                template = self.pick(RARE if helpers else RARE[:4])
            elif depth < 3:
                head = self.pick(HEADS)
                lines.append(self.fill(head, names))
                lines += self.body(names, depth, helpers)
                for start, tails in TAILS.items():
                    if head.startswith(start) and (tail := self.pick(tails)):
                        lines += self.fill(tail, names).split("\n")
                        if tail == "else:":
                            lines += self.body(names, depth, helpers)
                continue
            else:
                template = "pass"
            lines += self.fill(template, names).split("\n")
        return lines

    def body(self, names: Any, depth: int, helpers: bool) -> list[str]:
        return ["    " + s for s in self.statements(names, depth + 1, helpers)]


def program(dice: random.Random) -> str:
    writer = Writer(dice)
    source = PRELUDE
    names = {"t": ["a", "b", "c"], "k": ["k", "m"]}
    setup = [
        "    a, b, c, m = p, p + 1, p.clone(), 1",
        "    out, box, d, xs = [], {}, {'k': 1}, [p, p * 0.5]",
    ]
    for name, result in (("other", "c, m, out"), ("helper", "a")):
        source += f"\ndef {name}(p, k):\n" + "\n".join(setup) + "\n"
        lines = writer.statements(names, 1, helpers=False)
        for line in lines:
            text = line.lstrip()
            indent = line[: len(line) - len(text)]
            # Lambdas and nested functions return, the helper itself does so at its end.
            own = text.startswith("return ") and "v.relu()" not in text
            source += f"    {indent}pass\n" if own else f"    {line}\n"
        source += f"\n    return {result}\n"
    source += "\ndef f(a, b, k, d, xs):\n    c, m, out, box = a + b, 2, [], {}\n"
    source += "\n".join("    " + s for s in writer.statements(names, 0, helpers=True))
    return source + "\n    return a, b, c, k, m, out, box\n"


def tell(source: str, compile: Any, seeds: list[int]) -> list[object]:
    """What a program shows in several calls."""
    module: Any = module_of(source)
    f = compile(module.f)
    seen: list[object] = []
    with torch.set_grad_enabled(False):
        for seed in seeds:
            numbers = random.Random(seed)

            def tensor(numbers: random.Random = numbers) -> torch.Tensor:
                return torch.tensor([numbers.randint(-8, 8) / 4 for _ in range(3)])

            args = (tensor(), tensor(), seed % 3, {"k": seed % 2}, [tensor(), tensor()])
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                result = attempt(f, *args)
            seen.append(snapshot([result, printed.getvalue(), list(args)]))
            seen.append(snapshot([module.log, module.state.n, module.state.t]))
            seen.append(torch.is_grad_enabled())
            module.state.items[:] = module.state.items[:1]
    return seen


SEEDS = [1, 1, 1, 4, 1, 4, 7, 2, 5, 1]


def compare(source: str) -> Any:
    import pyjit

    made: list[Any] = []

    def remember(f: Any) -> Any:
        made.append(pyjit.compile(f))
        return made[-1]

    want = tell(source, lambda f: f, SEEDS)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        have = tell(source, remember, SEEDS)
    assert not [str(w.message) for w in caught if "pyjit" in str(w.message)]
    for index, pair in enumerate(zip(want, have, strict=True)):
        found = difference(*pair, where=f"call {index // 3}")
        assert not found, found
    return pyjit.stats(made[0])


totals = {"programs": 0, "hits": 0, "continuation_hits": 0, "graph_breaks": 0}


@settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize="PYJIT_EXAMPLES" not in os.environ,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink],
)
@given(st.randoms(use_true_random=False))
def test_programs_with_graph_breaks(dice: random.Random) -> None:
    source = program(dice)
    note(source)
    stats = compare(source)
    totals["programs"] += 1
    for key in ("hits", "continuation_hits", "graph_breaks"):
        totals[key] += stats[key]


def test_the_programs_had_graph_breaks_and_went_on() -> None:
    """The test above is about something."""
    if totals["programs"] >= 50:
        assert totals["graph_breaks"] > totals["programs"]
        assert totals["continuation_hits"] > totals["programs"]
        assert totals["hits"] > totals["programs"]
