# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Calls of Python's own functions and methods, generated from what its modules and types define.

An expression is one call whose arguments hold numbers that differ between calls; `story` tells what a function that
evaluates it gives, call by call, so that pyjit's can stand beside eager's.
"""

from __future__ import annotations

import collections
import dataclasses
import enum
import importlib
import itertools
import math
import random
import re
import types
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
from Integration.harness import Raised, attempt


def _words(text: str) -> list[str]:
    return text.split()


def _parts(text: str) -> list[str]:
    return [
        part.strip()
        for line in text.splitlines()
        for part in line.split("; ")
        if part.strip()
    ]


MODULES = _words("""
array base64 binascii bisect builtins calendar cmath collections colorsys contextlib copy dataclasses datetime
decimal enum fnmatch fractions functools heapq html itertools json keyword math numbers operator posixpath random re
shlex statistics string struct textwrap types typing unicodedata urllib.parse
""")

# Reads or changes what is no value: files, the interpreter, the clock, the program's text.
_OUTSIDE = {
    "builtins": "breakpoint compile copyright credits delattr eval exec exit globals help id input license locals "
    "memoryview open print quit vars __import__ __build_class__ setattr aiter anext super dir hash",
    "calendar": "different_locale main prcal prmonth prweek pryear",
    "json": "dump load",
    "random": "SystemRandom Random seed",
    "posixpath": "abspath realpath expanduser expandvars relpath",
    "dataclasses": "dataclass make_dataclass",
    "types": "CodeType FunctionType ModuleType new_class prepare_class CellType coroutine",
    "typing": "get_type_hints TypeVar ParamSpec TypeVarTuple NewType reveal_type assert_never",
    "enum": "global_enum global_str",
}
# Objects whose methods are called, made of numbers of the call.
RECEIVERS = _parts(r"""
v; float(v); s; s.encode(); bytearray(s.encode()); c; [v, u, v]; tuple(c); {v, u}; set(c); frozenset(c); d
{v: u, u: v}; range(n); slice(n, v); complex(v, u); bool(v); collections.deque(c)
collections.deque([v, u], maxlen=3); collections.Counter(c); collections.OrderedDict(d)
collections.defaultdict(int, d); collections.ChainMap({v: 1}, d); collections.UserList(c)
fractions.Fraction(int(v), 3); decimal.Decimal(str(v)); datetime.timedelta(days=n, seconds=5)
datetime.date(2000, 1 + n, 2); array.array('d', c); random.Random(n); Point(v, u); Record(v, u); Level(n % 3)
d.keys(); d.values(); d.items(); re.match('(.)(.*)', s); itertools.accumulate(c); (v, u, (n, c)); [[v], [u, n]]
{'a': v, 'b': [u]}
""")

# With numbers of the call; the first ones are drawn more often.
ARGUMENTS = _words("""
v u n c s d v u n c -v v+1 float(u) int(v) 2 0 -1 1.5 None True 'a' '' 'a,b' str(u) tuple(c) (v,u) [v,u,n] {v,u}
{v:u} range(n) abs len (lambda*z:z[0]) (lambda*z:-z[-1]) operator.add int float str b'ab' s.encode() c[::-1]
zip([*c],c[:]) iter([*c]) reversed([*c]) 'd' '%s' '{}' (v,) [] () {} 1+n n%3 slice(n) [s,'b'] x.shape[0] list map
""")


class Point(collections.namedtuple("Point", "a b")):
    __slots__ = ()

    def total(self) -> Any:
        return self.a + self.b


@dataclasses.dataclass(order=True)
class Record:
    a: Any
    b: Any = 2

    def total(self) -> Any:
        return self.a + self.b


class Level(enum.IntEnum):
    LOW = 0
    MIDDLE = 1
    HIGH = 2


SOURCES = {
    "argument": "",
    "attribute": "v, u, n, c, s, d = held.v, held.u, held.n, held.c, held.s, held.d",
    "closure": "v, u, n, c, s, d = cell",
    "global": "v, u, n, c, s, d = WORLD",
    "items": "v, u, n = c[0], c[1], len(c); c = [z for z in c]; d = {z: 1 for z in c}; s = str(v)",
    "sizes": "n = y.shape[1]; v = y.shape[0]; u = y.shape[2] - 2; c = [v, u, n, v]; d = {v: u}; s = str(v)",
    "data": "v = t[0].item(); u = t[1].item(); c = t.tolist(); d = {v: u}; s = f'{v}{u}'",
    "break": "print(end='')",
    "after": "v = v + n; u = u * 2; c = [v, u, *c]",
}

PROGRAM = """
def program(cell, show):
    def f(x{parameters}):
        {source}
        result = {expression}
        {scale}
        return x + 1, (x * result if type(result) in (int, float) and abs(result) < 1e30 else None), show(result){shown}
    return f
"""
# Calls repeat what they are given: what is recorded for a value answers, too.
TURNS = "ABCADBECAFBD"

# Nans, which are searched for by identity, are in test_format_fields.py.
NUMBERS: dict[str, Callable[[random.Random], Any]] = {
    "ints": lambda r: r.randint(0, 4),
    "signed": lambda r: r.randint(-3, 6),
    "floats": lambda r: r.choice([0.0, 0.5, 1.0, 2.0, 2.5, -4.0]),
    "mixed": lambda r: r.choice([0, 1, 1.0, 2, 2.5, True, False, 3, -0.0]),
    "far": lambda r: r.choice([0, 1, 2**31, 2**53 + 1, 10**18, 2**62, -5, 255, 256, -(2**31)]),
    "special": lambda r: r.choice([0.0, -0.0, math.inf, -math.inf, 1e300, 5e-324, -1.0, 1.0]),
}  # fmt: skip


class Held:
    """Holds the numbers as attributes."""


def _functions() -> Iterator[str]:
    for name in MODULES:
        module = importlib.import_module(name)
        names = getattr(module, "__all__", None) or [
            n for n in dir(module) if not n.startswith("_")
        ]
        outside = _OUTSIDE.get(name, "").split()
        for member in sorted(set(names)):
            value = getattr(module, member, None)
            error = isinstance(value, type) and issubclass(value, BaseException)
            if callable(value) and member not in outside and not error:
                yield member if name == "builtins" else f"{name}.{member}"


# Methods that copy, make or destroy objects, or tell their addresses.
_UNLIKE = set(
    _words("""
__class__ __init_subclass__ __subclasshook__ __new__ __init__ __getattribute__ __dir__ __sizeof__ __reduce__
__reduce_ex__ __getstate__ __setstate__ __delattr__ __setattr__ __doc__ __hash__ __del__ __class_getitem__
__release_buffer__ __buffer__ __dict__ __weakref__ __module__ __missing__ seed tofile fromfile __alloc__
__dataclass_fields__ buffer_info __getnewargs__ __setformat__ __getformat__
""")
)


def world_of() -> dict[str, Any]:
    """The globals of a program."""
    world: dict[str, Any] = {
        "WORLD": None,
        "__name__": __name__,
        "Point": Point,
        "Record": Record,
        "Level": Level,
    }
    for name in MODULES:
        world[name.split(".")[0]] = importlib.import_module(name.split(".")[0])
        importlib.import_module(name)
    return world


def _methods() -> Iterator[str]:
    world, names = world_of(), Given(random.Random(0), "ints").names()
    for receiver in RECEIVERS:
        value = eval(receiver, world, names)
        for name in sorted(dir(value)):
            hidden = name.startswith("_") and not name.startswith("__")
            if (
                not hidden
                and name not in _UNLIKE
                and callable(getattr(value, name, None))
            ):
                yield f"{receiver}.{name}"


_FIVE = torch.ones(5)


class Given:
    """What one call is given."""

    def __init__(self, r: random.Random, numbers: str) -> None:
        draw = NUMBERS[numbers]
        drawn = [draw(r) for _ in range(3)]
        self.v, self.u, self.n = r.choice([*drawn, draw(r)]), draw(r), r.randint(0, 3)
        self.c = drawn
        self.s = r.choice(["%s", "a%sb", "%s,%s", " %s "]).replace("%s", str(self.v))
        self.d = {z: drawn[i - 1] for i, z in enumerate(drawn)}

    def names(self) -> dict[str, Any]:
        return {"v": self.v, "u": self.u, "n": self.n, "c": list(self.c), "s": self.s, "d": dict(self.d),
                "x": _FIVE}  # fmt: skip


_ADDRESS = re.compile(r" at 0x[0-9a-f]+")


def show(result: Any, depth: int = 0) -> Any:
    """The result as plain values: what an iterator would give, text of what has no value of its own."""
    if depth > 3 or result is None or type(result) in (int, float, str, bool, bytes):
        return result
    if isinstance(result, Iterator) and not isinstance(result, (types.GeneratorType,)):
        return type(result).__name__, [
            show(z, depth + 1) for z in itertools.islice(result, 6)
        ]
    if isinstance(result, (set, frozenset)):
        return type(result).__name__, sorted(map(repr, result))
    if type(result) in (list, tuple):
        return type(result)(show(z, depth + 1) for z in result)
    return type(result).__name__, _ADDRESS.sub("", repr(result))


_TRIED = [Given(random.Random(seed), "ints") for seed in range(5)]


def _evaluate(code: types.CodeType, world: dict[str, Any], given: Given) -> Any:
    return show(eval(code, world, given.names()))


def _stands(expression: str, world: dict[str, Any]) -> bool:
    """Whether eager answers it mostly without an error, and the same each time."""
    try:
        code = compile(expression, "<call>", "eval")
    except SyntaxError:
        return False
    failed = 0
    for given in _TRIED:
        twice = []
        for _ in range(2):
            random.seed(0)
            result = attempt(_evaluate, code, world, given)
            twice.append(result if isinstance(result, Raised) else repr(result))
            if isinstance(result, Raised):
                failed += 1
                break
        if failed > 1 or len(set(twice)) > 1 or len(str(twice[0])) > 2000:
            return False
    return True


OPERATORS = _parts(r"""
{} + {}; {} - {}; {} * {}; {} / {}; {} // {}; {} % {}; {} ** {}; {} & {}; {} | {}; {} ^ {}; {} << {}; {} >> {}
{} < {}; {} <= {}; {} == {}; {} != {}; {} >= {}; {} in {}; {} not in {}; {} is {}; {} is not {}; {} and {}; {} or {}
not {}; -{}; +{}; ~{}; {} if {} else {}; {}[{}]; {}[{}:{}]; {}[{}:{}:{}]; {} < {} <= {}; {} == {} != {}; [*{}, *{}]
(*{}, {}); {{*{}}}; {{**{}, **{}}}; {{**{}, v: {}}}; f'{{{}!r}}{{{}}}'; f'{{{}:>{{{}}}}}'; f'{{v:.{{n}}f}}{{{}!s}}'
[z for z in {}]; [(z, w) for z in {} for w in {}]; [z for z in {} if z != {}]; {{z: w for z, w in zip({}, {})}}
{{z for z in {}}}; (lambda z, w={}: (w, z))({}); (lambda *z, **w: (z, w))(*{}, **{}); (q := {}) + q
[(q := z) for z in {}]; tuple(z for z in {} if z); sorted({}, key=lambda z: (z, {})); dict(zip({}, {}))
[*map({}, {})]; [*zip({}, {})]; max({}, key={}); sum({}, {}); '{}-{{}}'.format({}); '%s %r' % ({}, {})
' '.join(map(str, {})); str({}) + str({}); [*enumerate({}, {})]; any(z for z in {}); all(z == {} for z in {})
min(({}, {})); isinstance({}, (int, float)); int(str({})); float(str({})); bool({}) + bool({}); [{}] * {}
divmod({}, {}); pow({}, {}); round({}, {}); abs({} - {}); list(range({}, {})); [*reversed({})]; next(iter({}))
len({}); type({}) is type({}); {{'a': {}}}['a']; [0, {}, 1][{}]
""")


def heads() -> list[str]:
    """What is called: functions, methods with their receivers, and operators with places for operands."""
    return [*_functions(), *_methods(), *OPERATORS]


def expressions(head: str, each: int, seed: int) -> list[str]:
    """Some `each` uses of a head that eager answers, with arguments drawn by chance."""
    world = world_of()
    r = random.Random(zlib.crc32(f"{head} {seed}".encode()))
    found: list[str] = []
    for turn in range(60):
        if head in OPERATORS:
            text = head.format(*(r.choice(ARGUMENTS) for _ in range(4)))
        else:
            count = turn % 4 if turn < 12 else r.choice([1, 1, 2, 2, 2, 3])
            text = f"{head}({', '.join(r.choice(ARGUMENTS) for _ in range(count))})"
        numbers = re.search(r"\b[vuncsd]\b", text)
        if numbers and text not in found and _stands(text, world):
            found.append(text)
        if len(found) == each:
            break
    return found


# What grows with the size of a number: not asked for of far ones.
_GROWS = re.compile(
    r"round|\*|<<|mul|shift|range|pow|comb|perm|factorial|lcm|just|zfill|center|ldexp|repeat|:>|%s|format|bytes"
    r"|expandtabs|\[|count|calendar|Random|random"
)


def kinds_for(expression: str) -> list[str]:
    """The kinds of numbers that an expression is evaluated with."""
    return [k for k in NUMBERS if k != "far" or not _GROWS.search(expression)]


def program_of(source: str, expression: str) -> tuple[str, list[str]]:
    """The text of a program, and the names of what its function is given."""
    line = SOURCES[source]

    def uses(name: str, text: str) -> bool:
        return re.search(rf"\b{name}\b", text) is not None

    makes_all = source in ("attribute", "closure", "global", "data", "sizes")
    numbers = ["n"] if source == "data" else [] if makes_all else list("vuncsd")
    names = [z for z in ("y", "t", "held") if uses(z, line)]
    names += [z for z in numbers if uses(z, f"{line.partition('=')[2]} {expression}")]
    scales = "x = x * v if isinstance(v, (int, float)) else x"
    text = PROGRAM.format(
        parameters="".join(f", {z}" for z in names),
        source=line or "pass",
        expression=expression,
        scale=scales if uses("v", expression) else "pass",
        shown="".join(f", {z}" for z in "cd" if uses(z, expression)),
    )
    return text, names


def story(
    compile: Callable[..., Any], source: str, expression: str, numbers: str
) -> tuple[list[str], Any]:
    """What each of the calls gives and leaves, as text, and the function that was called."""
    cell: list[Any] = [None] * 6
    world = world_of()
    text, wanted = program_of(source, expression)
    exec(text, world)
    f = compile(world["program"](cell, show))
    seed = zlib.crc32(f"{source} {expression} {numbers}".encode())
    seen = []
    x = torch.ones(5)
    for call, turn in enumerate(TURNS):
        r = random.Random(seed + ord(turn))
        given = Given(r, numbers)
        names = given.names()
        values = [names[z] for z in "vuncsd"]
        cell[:] = values
        world["WORLD"] = tuple(values)
        held = names["held"] = Held()
        for z in "vuncsd":
            setattr(held, z, names[z])
        names["y"] = torch.zeros(r.randint(1, 5), given.n, r.randint(2, 6))
        real = any(isinstance(z, float) for z in given.c)
        names["t"] = torch.tensor([float(z) for z in given.c] if real else given.c)
        random.seed(call)
        result = attempt(f, x, *(names[z] for z in wanted))
        after = random.random()
        told = repr(result) if not isinstance(result, Raised) else repr(result.type)
        seen.append(
            _ADDRESS.sub(
                "", f"{given.__dict__}: {told} {names['c']!r} {names['d']!r} {after}"
            )
        )
    return seen, f
