# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Plain Python around tensors, as people publish them, for `test_user_programs.py`."""

# The spellings are those of the programs.
# ruff: noqa: B018, F841, PLE0643, PYI034, PYI036

from __future__ import annotations

import abc
import contextlib
import dataclasses
import enum
import functools
import itertools
import operator
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, Protocol

import torch
from Integration.user_driver import BUT_TRAINING, User, user, user_of_parts
from torch import nn


class Phase(enum.Enum):
    WARMUP = enum.auto()
    TRAIN = enum.auto()
    DECAY = enum.auto()

    @property
    def scale(self) -> float:
        return {Phase.WARMUP: 0.1, Phase.TRAIN: 1.0}.get(self, 0.5)


class Flags(enum.IntFlag):
    NONE = 0
    RELU = 1
    NORM = 2
    BOTH = RELU | NORM


@user_of_parts
def state_machine() -> User:
    class Machine:
        def __init__(self) -> None:
            self.phase, self.history = Phase.WARMUP, []

        def advance(self) -> Phase:
            match self.phase, len(self.history):
                case Phase.WARMUP, n if n >= 3:
                    self.phase = Phase.TRAIN
                case (Phase.TRAIN, 8 | 9):
                    self.phase = Phase.DECAY
            self.history.append(self.phase.name)
            return self.phase

    m = Machine()

    def f(x: torch.Tensor, flags: Flags) -> Any:
        p = m.advance()
        y = x * p.scale
        if flags & Flags.RELU:
            y = y.relu()
        if Flags.NORM in flags:
            y = y - y.mean()
        return y, p, m.history[-1]

    return User(
        f,
        lambda d: (
            d.floats(d.n),
            d.random.choice([Flags.BOTH, Flags.RELU, Flags.NONE]),
        ),
        m,
        (lambda: m.history.clear(), lambda: setattr(m, "phase", Phase.DECAY)),
    )


@user_of_parts
def registry_of_classes() -> User:
    class Shape(Protocol):
        def area(self) -> torch.Tensor: ...

    class Base(abc.ABC):
        registry: ClassVar[dict[str, type]] = {}

        def __init_subclass__(cls, *, key: str = "", **kw: Any) -> None:
            super().__init_subclass__(**kw)
            Base.registry[key or cls.__name__] = cls

        @abc.abstractmethod
        def apply(self, x: torch.Tensor) -> torch.Tensor: ...

        @classmethod
        def make(cls, key: str, *args: Any) -> Base:
            return cls.registry[key](*args)

        @functools.cached_property
        def table(self) -> torch.Tensor:
            return torch.arange(4.0) + self.k

    class Mul(Base, key="mul"):
        def __init__(self, k: float = 2.0) -> None:
            self.k = k

        def apply(self, x: torch.Tensor) -> torch.Tensor:
            return x * self.k + self.table.sum()

    class Pow(Mul, key="pow"):
        def apply(self, x: torch.Tensor) -> torch.Tensor:
            return super().apply(x).abs() ** self.k

    ops = [("mul", 2.0), ("pow", 0.5)]
    live = [Base.make("mul", 3.0)]

    def f(x: torch.Tensor) -> Any:
        for key, k in ops:
            x = Base.make(key, k).apply(x)
        return live[0].apply(x), sorted(Base.registry)

    return User(
        f,
        lambda d: (d.floats(d.n),),
        live,
        (
            lambda: ops.append(("mul", 1.5)),
            lambda: live[0].__dict__.pop("table", None),
            lambda: setattr(live[0], "k", 7.0),
            lambda: setattr(Mul, "apply", lambda self, x: x - self.k),
        ),
    )


@user_of_parts
def contexts_and_finally() -> User:
    log: list[str] = []

    depth = [0]

    class Timer:
        def __enter__(self) -> Timer:
            depth[0] += 1
            log.append(f"enter {depth[0]}")
            return self

        def __exit__(self, t: Any, v: Any, tb: Any) -> bool:
            log.append(f"exit {depth[0]} {t.__name__ if t else None}")
            depth[0] -= 1
            return t is KeyError

    @contextlib.contextmanager
    def scaled(k: float) -> Iterator[Callable[[torch.Tensor], torch.Tensor]]:
        log.append(f"scale {k}")
        try:
            yield lambda t: t * k
        except ZeroDivisionError as e:
            log.append(str(e))
            raise RuntimeError("scaled") from e
        finally:
            log.append("done")

    def f(x: torch.Tensor, what: str) -> Any:
        del log[:-6]
        y = x
        with Timer(), scaled(2.0) as s, contextlib.suppress(IndexError):
            y = s(x)
            if what == "key":
                y = y + 1
                {}["missing"]
            elif what == "index":
                [][1]
            elif what == "zero":
                1 / 0
            elif what == "shape":
                y = y.view(3, -1) @ torch.ones(2)
            y = y - 1
        try:
            return y.sum(), y
        finally:
            log.append(what)

    return User(
        f,
        lambda d: (
            d.floats(d.n),
            d.random.choice(["none", "none", "key", "index", "zero", "shape"]),
        ),
        log,
        fixed=BUT_TRAINING,
    )


@user_of_parts
def generators_and_itertools() -> User:
    def windows(x: torch.Tensor, n: int) -> Iterator[torch.Tensor]:
        for i in range(len(x) - n + 1):
            yield x[i : i + n]

    def running(xs: Iterator[torch.Tensor]) -> Iterator[torch.Tensor]:
        total = None
        for v in xs:
            total = v if total is None else total + v
            got = yield total
            if got:
                return

    def f(x: torch.Tensor, k: int) -> Any:
        sums = [w.sum() for w in windows(x, k)]
        run = list(running(iter(x.unbind(0))))
        pairs = [a * b for a, b in itertools.combinations(x[:3].unbind(), 2)]
        groups = {
            key: sum(t for _, t in g)
            for key, g in itertools.groupby(zip("aabb", x), key=lambda p: p[0])
        }
        flat = list(
            itertools.chain.from_iterable([[x], [y for y in (x, x + 1) if len(y) > 2]])
        )
        if (n := len(sums)) > 2:
            sums = sums[:: n - 1]
        return (
            sums,
            run,
            pairs,
            groups,
            list(map(operator.methodcaller("sum"), flat)),
            [*itertools.islice(itertools.count(k, 2), 3)],
        )

    return User(f, lambda d: (d.floats(d.n), d.random.choice([1, 2, 2])))


class Vec:
    __slots__ = ("name", "t")
    __match_args__ = ("t", "name")

    def __init__(self, t: torch.Tensor, name: str = "v") -> None:
        self.t, self.name = t, name

    def __add__(self, o: Any) -> Vec:
        return Vec(self.t + (o.t if isinstance(o, Vec) else o), f"{self.name}+")

    __radd__ = __add__

    def __matmul__(self, o: Vec) -> torch.Tensor:
        return self.t @ o.t

    def __getitem__(self, i: Any) -> Vec:
        return Vec(self.t[i], self.name)

    def __len__(self) -> int:
        return self.t.shape[0]

    def __iter__(self) -> Iterator[torch.Tensor]:
        return iter(self.t)

    def __bool__(self) -> bool:
        return len(self) > 0

    def __eq__(self, o: object) -> bool:
        return isinstance(o, Vec) and o.name == self.name

    def __hash__(self) -> int:
        return hash(self.name)

    def __format__(self, spec: str) -> str:
        return f"<{self.name}:{spec}:{len(self)}>"


@user_of_parts
def operators_of_classes() -> User:
    def f(x: torch.Tensor, y: torch.Tensor) -> Any:
        a, b = Vec(x, "a"), Vec(y, "b")
        c = sum([a, b, a], start=0.5)
        match c:
            case Vec(t, "a+++") | Vec(t, "a+"):
                tag = "sum"
            case Vec(t, name):
                tag = name
        if not a:
            return "empty", c.t
        return (
            c.t,
            a @ b,
            {a: 1, b: 2}[Vec(y, "b")],
            f"{c:>3}",
            tag,
            a[1:].t,
            [v for v in b],
            a == b,
        )

    return User(f, lambda d: (d.floats(d.n), d.floats(d.n)))


@user_of_parts
def closures_and_partials() -> User:
    def counter(start: int = 0) -> tuple[Callable[[], int], Callable[[], None]]:
        n = start

        def inc() -> int:
            nonlocal n
            n += 1
            return n

        def reset() -> None:
            nonlocal n
            n = start

        return inc, reset

    inc, reset = counter()

    @functools.singledispatch
    def show(v: Any) -> Any:
        return v

    @show.register
    def _(v: int) -> Any:
        return v * 2

    @show.register(list)
    def _(v: Any) -> Any:
        return [show(i) for i in v]

    def compose(*fs: Callable[..., Any]) -> Callable[..., Any]:
        return functools.reduce(lambda f, g: lambda x: g(f(x)), fs, lambda x: x)

    pipeline = compose(
        torch.relu,
        functools.partial(torch.add, other=1.0),
        operator.itemgetter(slice(None, 2)),
        operator.attrgetter("mT") if False else torch.neg,
    )

    def f(x: torch.Tensor, *args: Any, scale: float = 1.0, **kw: Any) -> Any:
        y = pipeline(x) * scale
        return (
            y,
            inc() % 3,
            show([1, "a", [2]]),
            args,
            {k: v for k, v in sorted(kw.items())},
        )

    return User(
        lambda x, k: f(x, k, *[k] * 2, scale=k / 2, **{f"k{k}": x}),
        lambda d: (d.floats(d.n), d.random.choice([1, 2, 2, 3])),
        None,
        (reset,),
    )


@user_of_parts
def recursion_over_trees() -> User:
    @dataclasses.dataclass
    class Node:
        value: torch.Tensor
        children: list[Node] = dataclasses.field(default_factory=list)
        meta: dict[str, Any] = dataclasses.field(default_factory=dict)

    def build(x: torch.Tensor, depth: int) -> Node:
        n = Node(x)
        if depth > 0 and x.shape[0] > 1:
            n.children = [build(c, depth - 1) for c in x.chunk(2)]
        return n

    def fold(n: Node, f: Callable[..., torch.Tensor]) -> torch.Tensor:
        return f(n.value.sum(), [fold(c, f) for c in n.children])

    def f(x: torch.Tensor, depth: int) -> Any:
        t = build(x, depth)
        t.meta["n"] = depth
        total = fold(t, lambda v, cs: v + sum(c * 0.5 for c in cs))
        leaf = dataclasses.replace(t, children=[], meta={**t.meta, "leaf": True})
        return (
            total,
            leaf.meta,
            [c.value.shape for c in t.children],
            dataclasses.asdict(leaf)["value"],
        )

    return User(f, lambda d: (d.floats(d.n), d.random.choice([0, 1, 2, 2])))


@user
def properties_and_setattr() -> User:
    class Config:
        def __init__(self, **kw: Any) -> None:
            super().__setattr__("data", dict(kw))
            super().__setattr__("reads", 0)

        def __getattr__(self, name: str) -> Any:
            try:
                return self.data[name]
            except KeyError:
                raise AttributeError(name) from None

        def __setattr__(self, name: str, v: Any) -> None:
            self.data[name] = v

        def __contains__(self, k: str) -> bool:
            return k in self.data

    class Layer(nn.Module):
        def __init__(self, c: Config) -> None:
            super().__init__()
            self.c, self.lin = c, nn.Linear(3, 3)
            self._gain = 1.0

        @property
        def gain(self) -> float:
            return self._gain * self.c.gain

        @gain.setter
        def gain(self, v: float) -> None:
            self._gain = v

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = self.lin(x) * self.gain
            if getattr(self.c, "bias", None) is not None and "shift" in self.c:
                y = y + self.c.bias
            self.c.last = tuple(y.shape)
            return y

    c = Config(gain=2.0, shift=True)
    layer = Layer(c)
    return User(
        layer,
        lambda d: (d.floats(d.n, 3),),
        c.data,
        (
            lambda: setattr(c, "bias", 0.5),
            lambda: setattr(layer, "gain", 3.0),
            lambda: c.data.pop("shift"),
            lambda: layer.__class__.__dict__["gain"].fset(layer, -1.0),
        ),
        modules=(layer,),
    )


@user_of_parts
def exceptions_in_the_middle() -> User:
    state = {"step": 0, "buffer": torch.zeros(3), "errors": []}

    class Custom(ValueError):
        def __init__(self, msg: str, code: int) -> None:
            super().__init__(msg)
            self.code = code

    def f(x: torch.Tensor, fail: str) -> Any:
        state["step"] += 1
        state["buffer"] += x.detach().sum()
        y = x * 2
        try:
            if fail == "custom":
                raise Custom("bad", 7)
            if fail == "matmul":
                y = y @ torch.ones(99)
            if fail == "assert":
                assert y.shape[0] > 100, f"rows {y.shape[0]}"
        except Custom as e:
            state["errors"].append(e.code)
            y = y + e.code
        except AssertionError as e:
            state["errors"].append(str(e))
            raise TypeError("wrapped") from e
        else:
            y = y - 1
        finally:
            state["buffer"][0] = state["step"]
        return y, len(state["errors"])

    return User(
        f,
        lambda d: (
            d.floats(d.n),
            d.random.choice(["", "", "custom", "matmul", "assert"]),
        ),
        state,
        (lambda: state.update(errors=[]), lambda: state.update(buffer=torch.zeros(2))),
        fixed=BUT_TRAINING,
    )
