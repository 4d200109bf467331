"""Things that people write: one small function for each."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import enum
import functools
import itertools
import math
import operator
import typing
from typing import Any

import torch
import torch.nn.functional as F

from zoo import Inputs, Program, generator

_programs: list[Program] = []


def T(g: torch.Generator, *shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=g)


def I(g: torch.Generator, high: int, *shape: int) -> torch.Tensor:
    return torch.randint(0, high, shape, generator=g)


def idiom(
    args: Any = lambda g, n: (T(g, n, 8),), raises: bool = False, **options: Any
) -> Any:
    """Registers a function; ``args(generator, n)`` makes its arguments, a final dict is kwargs."""

    def register(f: Any) -> Any:
        def make() -> tuple[Any, Inputs]:
            def inputs(which: str) -> Any:
                made = args(generator(which), 6 if which == "shape" else 4)
                if made and isinstance(made[-1], Kwargs):
                    return tuple(made[:-1]), dict(made[-1])
                return tuple(made), {}

            return (f() if options.get("factory") else f), inputs

        name = f.__name__.strip("_").replace("_", "-")
        _programs.append(Program(f"idiom.{name}", "idioms", make, raises))
        return f

    return register


class Kwargs(dict):  # type: ignore[type-arg]
    """Marks keyword arguments."""


# ===--- Arguments and results


@idiom(lambda g, n: (T(g, n, 8), Kwargs(scale=2.0, bias=T(g, 8))))
def keyword_arguments(x, *, scale=1.0, bias=None, **rest):
    y = x * scale
    return y if bias is None else y + bias


@idiom(lambda g, n: (T(g, n, 8), T(g, n, 8), T(g, n, 8)))
def varargs(*xs):
    return sum(xs) / len(xs)


@idiom(lambda g, n: (T(g, n, 8), Kwargs(a=T(g, n, 8), b=T(g, n, 8))))
def double_star(x, **named):
    return {k: v + x for k, v in sorted(named.items())}


@idiom(lambda g, n: ({"x": T(g, n, 8), "y": [T(g, n, 8), T(g, n, 8)]},))
def nested_input(batch):
    a, (b, c) = batch["x"], batch["y"]
    return {"sum": a + b, "rest": [c, (a, b * 2)], "n": len(batch["y"])}


@dataclasses.dataclass
class Point:
    x: torch.Tensor
    y: torch.Tensor
    scale: float = 1.0

    def norm(self) -> torch.Tensor:
        return (self.x**2 + self.y**2).sqrt() * self.scale


@idiom(lambda g, n: (Point(T(g, n), T(g, n), 2.0),))
def dataclass_in_and_out(p):
    return Point(p.x * 2, p.norm()), dataclasses.replace(p, scale=3.0).norm()


@dataclasses.dataclass(frozen=True, slots=True)
class Frozen:
    x: torch.Tensor
    n: int = 3


@idiom()
def dataclass_frozen_slots(x):
    f = Frozen(x * 2)
    return f.x + f.n, Frozen(f.x, 5)


class Pair(typing.NamedTuple):
    first: torch.Tensor
    second: torch.Tensor


@idiom()
def named_tuple(x):
    p = Pair(x.sin(), second=x.cos())
    return p, p._replace(first=p.second), p._asdict()["first"]


@idiom()
def ordered_and_default_dicts(x):
    d = collections.OrderedDict(a=x, b=x + 1)
    d.move_to_end("a")
    e = collections.defaultdict(list)
    for i in range(4):
        e[i % 2].append(x * i)
    return list(d.values()), {k: torch.stack(v) for k, v in e.items()}


@idiom()
def deque_and_counter(x):
    q = collections.deque([x], maxlen=3)
    for i in range(5):
        q.append(q[-1] * 0.5 + i)
    return list(q)


class Mode(enum.Enum):
    FAST = "fast"
    SLOW = "slow"


@idiom(lambda g, n: (T(g, n, 8), Mode.SLOW))
def enumeration(x, mode):
    if mode is Mode.FAST:
        return x
    return x * 2 if mode.value == "slow" and mode == Mode.SLOW else x * 3


# ===--- Python control flow


@idiom()
def comprehension(x):
    rows = [r * i for i, r in enumerate(x) if i % 2 == 0]
    table = {i: r.sum() for i, r in enumerate(rows)}
    return torch.stack(rows), table, tuple(v + 1 for v in table.values())


def _chunks(x, n):
    for piece in x.chunk(n, -1):
        yield piece.relu()


@idiom()
def generator_function(x):
    return torch.cat(list(_chunks(x, 4)), -1), sum(p.sum() for p in _chunks(x, 2))


@idiom()
def generator_send(x):
    def accumulate():
        total = torch.zeros_like(x)
        while True:
            value = yield total
            if value is None:
                return
            total = total + value

    acc = accumulate()
    next(acc)
    acc.send(x)
    return acc.send(x * 2)


@idiom()
def yield_from(x):
    def inner():
        yield x
        yield x + 1

    def outer():
        yield from inner()
        yield x * 2

    return list(outer())


@idiom()
def zip_map_reduce(x):
    ys = list(map(torch.exp, x.unbind(0)))
    zs = [a * b for a, b in zip(ys, reversed(ys))]
    return functools.reduce(operator.add, zs), list(filter(lambda t: t.dim() == 1, zs))


@idiom()
def itertools_mix(x):
    out = []
    for a, b in itertools.product(range(2), range(2)):
        out.append(x[a] + x[b])
    for p, q in itertools.pairwise(out):
        out = [*out[:2], p - q]
    for pair in itertools.islice(itertools.chain(out, out), 3):
        out.append(pair)
    acc = list(itertools.accumulate([1, 2, 3]))
    return out, acc


@idiom()
def while_on_python_numbers(x):
    n = x.shape[0]
    while n > 1:
        x = x * 0.5 + n
        n //= 2
    x = x + 1
    return x, n


@idiom()
def try_except_finally(x):
    done = []
    try:
        try:
            {}["missing"]
        except KeyError as e:
            x = x + len(str(e))
        finally:
            done.append("inner")
        raise ValueError("no")
    except (ValueError, TypeError):
        return x * 2, done


@idiom(raises=True)
def raises_value_error(x):
    y = x * 2
    if y.shape[-1] == 8:
        raise ValueError(f"bad shape {tuple(y.shape)}")
    return y


@idiom(raises=True)
def raises_in_operator(x):
    return x.view(-1)[: x.shape[0]] @ torch.ones(100)


@idiom()
def match_statement(x):
    match x.shape:
        case (n, 8):
            y = x * n
        case _:
            y = x
    match {"kind": "relu", "times": 2}:
        case {"kind": "relu", "times": k}:
            return y.relu() * k
        case _:
            return y


@idiom()
def walrus_and_chained(x):
    if (n := x.shape[-1]) > 4 and 0 < n <= 8:
        return x[..., : n // 2]
    return x


@idiom()
def string_dispatch(x):
    table = {"relu": torch.relu, "gelu": F.gelu}
    name = "_".join(["ge", "lu"]).replace("_", "")
    return torch.relu(x) + table[name](x) + len(f"{name!r:>10}")


@idiom()
def closures_and_nonlocal(x):
    count = 0

    def step(y):
        nonlocal count
        count += 1
        return y * count

    for _ in range(3):
        x = step(x)
    return x, count


@idiom()
def lambdas_in_loop(x):
    fs = [lambda t, k=k: t + k for k in range(3)]
    return [f(x) for f in fs]


@idiom()
def recursion(x):
    def tree(t, depth):
        if depth == 0:
            return t.sum()
        left, right = t.chunk(2, -1)
        return tree(left, depth - 1) * tree(right, depth - 1)

    return tree(x, 2)


@idiom()
def decorated(x):
    def twice(f):
        @functools.wraps(f)
        def wrapper(*args, **kwargs):
            return f(f(*args, **kwargs), **kwargs)

        return wrapper

    @twice
    def step(t, k=2):
        return t * k

    return step(x, k=3), step.__name__


@functools.cache
def _table(n):
    return [math.sqrt(i) for i in range(n)]


@idiom()
def lru_cache(x):
    return x * torch.tensor(_table(x.shape[-1]))


@functools.cache
def _positions(n):
    return torch.arange(n)


@idiom()
def cached_tensor(x):
    return x + _positions(x.shape[-1])


@functools.singledispatch
def _describe(x):
    return 0


@_describe.register
def _(x: torch.Tensor):
    return x.dim()


@idiom()
def singledispatch(x):
    return x * _describe(x)


@idiom()
def partial_functions(x):
    f = functools.partial(torch.clamp, min=-0.5)
    g = functools.partial(F.leaky_relu, negative_slope=0.2)
    return g(f(x, max=0.5))


class Callable_:
    def __init__(self, k):
        self.k = k
        self.calls = 0

    def __call__(self, x):
        return x * self.k

    @property
    def double(self):
        return Callable_(self.k * 2)

    @classmethod
    def of(cls, k):
        return cls(k)

    @staticmethod
    def shift(x):
        return x + 1

    def __getitem__(self, i):
        return self.k + i

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.calls += 1


@idiom()
def classes_and_protocols(x):
    c = Callable_.of(3)
    with c as d:
        y = d.double(x) + c[2]
    return Callable_.shift(y), c.calls


class Vec:
    def __init__(self, t):
        self.t = t

    def __add__(self, other):
        return Vec(self.t + (other.t if isinstance(other, Vec) else other))

    __radd__ = __add__

    def __mul__(self, k):
        return Vec(self.t * k)

    def __len__(self):
        return self.t.shape[0]

    def __iter__(self):
        return iter(self.t)

    def __eq__(self, other):
        return self is other

    def __bool__(self):
        return True

    __hash__ = None


@idiom()
def operator_overloading(x):
    v = Vec(x) + 1
    v = sum([v, v * 2], start=Vec(x))
    if v:
        return v.t, len(v), [row.sum() for row in v]


@idiom()
def inheritance_and_super(x):
    class A:
        def f(self, t):
            return t + 1

    class B(A):
        def f(self, t):
            return super().f(t) * 2

    return B().f(x)


@idiom()
def context_manager_function(x):
    @contextlib.contextmanager
    def scaled(k):
        yield x * k

    with scaled(2) as y, contextlib.nullcontext(x) as z, contextlib.suppress(KeyError):
        return y + z


@idiom()
def list_surgery(x):
    xs = list(x.unbind(0))
    xs.insert(0, x[0] * 2)
    xs.reverse()
    last = xs.pop()
    xs.extend([last] * 2)
    del xs[0]
    xs[0], xs[1] = xs[1], xs[0]
    xs.sort(key=lambda t: t.shape[0])
    return xs, xs.index(xs[0]), len(xs)


@idiom(lambda g, n: ([T(g, 8), T(g, 8)], {"k": T(g, 8)}))
def mutates_containers(xs, d):
    xs.append(xs[0] + 1)
    xs[0] = xs[0] * 2
    d["new"] = d["k"] + 1
    d.pop("k")
    return len(xs)


@idiom()
def dict_merge(x):
    a = {"x": x} | {"y": x + 1}
    a |= {"z": x * 2}
    b = {**a, "x": 0, **dict(w=1)}
    a.update(v=x)
    return a, b, sorted(a), "x" in a, a.get("q", None), list(b.items())[0]


@idiom()
def sets_and_strings(x):
    names = {"a", "b"} | {"c"}
    names.discard("b")
    keys = sorted(names)
    text = ",".join(keys).upper().split(",")
    return {k: x * i for i, k in enumerate(text)}, "A" in text


@idiom()
def math_functions(x):
    d = x.shape[-1]
    k = math.sqrt(d) * math.pi + math.ceil(d / 3) + math.comb(5, 2) + abs(-2) ** 2
    return (
        x / k,
        math.isclose(k, k),
        divmod(d, 3),
        round(k, 2),
        max(1, d, 3),
        min([2, d]),
    )


@idiom()
def isinstance_and_types(x):
    assert isinstance(x, torch.Tensor) and torch.is_tensor(x)
    if (
        type(x) is torch.Tensor
        and issubclass(type(x), torch.Tensor)
        and hasattr(x, "sum")
    ):
        return (
            x * callable(torch.sum),
            x.dtype.is_floating_point,
            x.dtype == torch.float32,
        )


@idiom()
def shape_arithmetic(x):
    b, d = x.size()
    h = d // 2
    n = x.numel()
    y = x.view(b, h, -1).transpose(1, 2).contiguous().view(*x.shape[:-1], d)
    return y, torch.Size([b, d]), n, x.stride(), x.shape[0] * 2, list(x.shape)


@idiom()
def print_in_forward(x):
    y = x + 1
    print("shape", tuple(y.shape))
    return y * 2


@idiom()
def print_tensor(x):
    y = x + 1
    str(y)
    return y * 2


@idiom()
def warnings_and_logging(x):
    import logging

    logging.getLogger("zoo").debug("value %s", x.shape)
    return x * 2


@idiom()
def import_inside(x):
    import math as m

    from torch.nn import functional as fun

    return fun.relu(x) * m.e


@idiom()
def global_counter(x):
    global _count
    _count = _count + 1
    return x * 2


_count = 0


@idiom()
def exec_time(x):
    import time

    start = time.perf_counter()
    y = x * 2
    return y, time.perf_counter() - start > 0


@idiom()
def torch_randomness(x):
    noise = torch.randn_like(x) + torch.rand(x.shape) + torch.randint(0, 5, x.shape)
    return (
        x + noise,
        torch.randperm(5),
        F.dropout(x, 0.5, training=True),
        torch.bernoulli(x.sigmoid()),
    )


@idiom(lambda g, n: (T(g, n, 8), torch.Generator().manual_seed(3)))
def own_generator(x, g):
    return x + torch.randn(x.shape, generator=g)


# ===--- Indexing


@idiom(lambda g, n: (T(g, n, 8), I(g, 4, 5), I(g, 8, 5)))
def advanced_indexing(x, i, j):
    return x[i, j], x[i], x[:, j], x[i][:, None], x[None, ..., j], x[[0, 2]], x[i, 1:3]


@idiom()
def slicing(x):
    return x[1:, ::2], x[..., -1], x[0], x[:, None, :3], x[-2:], x[1:1], x[:, [1]]


@idiom()
def boolean_mask(x):
    m = x > 0
    return (
        x.masked_fill(m, 0.0),
        torch.where(m, x, -x),
        m.sum(),
        (~m & (x < -1)).any(),
        m.all(-1),
    )


@idiom()
def boolean_mask_select(x):
    return x[x > 0].sum(), torch.nonzero(x > 0).shape[0] * 0


@idiom()
def mask_assignment(x):
    y = x.clone()
    y[y < 0] = 0
    y[:, 2] += 1
    y[0] = y[1]
    y[..., -1] = 7.0
    y[1:3, 4:6] = torch.ones(2, 2)
    return y


@idiom(lambda g, n: (T(g, n, 8), I(g, 4, 3)))
def index_assignment(x, i):
    y = x.clone()
    y[i] = 1.0
    y[:, i] *= 2
    y.index_add_(0, i, torch.ones(3, 8))
    y.index_fill_(1, i, 3.0)
    y.index_copy_(0, torch.tensor([0, 1]), torch.zeros(2, 8))
    return y


@idiom(lambda g, n: (T(g, n, 8), I(g, 8, n, 3)))
def gather_scatter(x, i):
    a = x.gather(1, i)
    b = torch.zeros_like(x).scatter_(1, i, a)
    c = torch.zeros_like(x).scatter_add(1, i, a)
    d = x.scatter_reduce(1, i, a, reduce="amax")
    return a, b, c, d, torch.take_along_dim(x, i, 1), x.take(i), x.index_select(1, i[0])


@idiom()
def topk_sort(x):
    v, i = x.topk(3)
    s, j = x.sort(-1, descending=True)
    return (
        v,
        i,
        s,
        j,
        x.argsort(),
        x.max(-1),
        x.min(0).values,
        x.argmax(-1),
        x.kthvalue(2),
        x.median(-1),
    )


@idiom()
def namedtuple_results(x):
    r = torch.max(x, dim=1)
    return r.values + r.indices, torch.linalg.qr(x[:4, :4]), torch.frexp(x).mantissa


@idiom()
def cumulative(x):
    return (
        x.cumsum(-1),
        x.cumprod(0),
        x.cummax(-1).values,
        x.logcumsumexp(-1),
        x.diff(),
        x.flip(0).roll(1, 1),
    )


@idiom(lambda g, n: (I(g, 10, n, 5),))
def one_hot_and_counts(i):
    return (
        F.one_hot(i, 10),
        torch.bincount(i.flatten(), minlength=10),
        (i == 3).long().cumsum(-1),
    )


@idiom(lambda g, n: (I(g, 3, n, 5),))
def unique_values(i):
    v, inverse, counts = torch.unique(i, return_inverse=True, return_counts=True)
    return v, inverse, counts


@idiom()
def searching_and_histograms(x):
    edges = torch.linspace(-2, 2, 5)
    return (
        torch.bucketize(x, edges),
        torch.searchsorted(edges, x),
        torch.histc(x, 5, -2, 2),
    )


# ===--- Mathematics


@idiom(lambda g, n: (T(g, 2, n, 8), T(g, 2, 8, 5)))
def einsum(a, b):
    return (
        torch.einsum("bij,bjk->bik", a, b),
        torch.einsum("bij->ji", a),
        torch.einsum("b...j,bjk->b...k", a, b),
        torch.einsum("bij,bij->b", a, a),
    )


@idiom(lambda g, n: (T(g, 2, n, 8),))
def attention_by_hand(x):
    q, k, v = x, x * 0.5, x + 1
    n = x.shape[1]
    mask = torch.triu(torch.full((n, n), float("-inf")), diagonal=1)
    w = (q @ k.transpose(-2, -1) / math.sqrt(x.shape[-1]) + mask).softmax(-1)
    heads = x.view(2, n, 2, 4).permute(0, 2, 1, 3)
    return w @ v, F.scaled_dot_product_attention(heads, heads, heads, is_causal=True)


@idiom(lambda g, n: (T(g, 2, n, 8),))
def rotary(x):
    n, d = x.shape[-2:]
    inv = 1.0 / (10000 ** (torch.arange(0, d, 2).float() / d))
    angles = torch.outer(torch.arange(n).float(), inv)
    cos, sin = angles.cos().repeat(1, 2), angles.sin().repeat(1, 2)
    a, b = x.chunk(2, -1)
    return x * cos + torch.cat((-b, a), -1) * sin


@idiom()
def linear_algebra(x):
    a = x[:4, :4] @ x[:4, :4].T + 4 * torch.eye(4)
    return (
        torch.linalg.solve(a, x[:4]),
        torch.linalg.inv(a),
        torch.linalg.cholesky(a),
        torch.linalg.det(a),
        torch.linalg.norm(x),
        torch.linalg.eigvalsh(a),
        torch.linalg.svdvals(x),
        torch.trace(a),
        torch.linalg.matrix_power(a, 2),
        torch.kron(a, a).sum(),
    )


@idiom()
def fft(x):
    f = torch.fft.rfft(x)
    return (
        f,
        torch.fft.irfft(f * 0.5, n=x.shape[-1]),
        torch.fft.fft2(x).abs(),
        torch.fft.fftshift(x),
    )


@idiom()
def complex_numbers(x):
    z = torch.complex(x, x * 2)
    w = z * z.conj() + torch.exp(1j * x)
    pairs = torch.view_as_complex(x.view(x.shape[0], -1, 2).contiguous())
    return (
        w,
        z.real,
        z.imag,
        z.angle(),
        torch.view_as_real(pairs),
        torch.polar(x.abs(), x),
    )


@idiom(lambda g, n: (T(g, 40 * n),))
def stft(x):
    window = torch.hann_window(32)
    s = torch.stft(x, 32, 16, window=window, return_complex=True)
    return s.abs(), torch.istft(s, 32, 16, window=window)


@idiom()
def statistics(x):
    return (
        x.mean(),
        x.std(),
        x.var(0, unbiased=False),
        torch.std_mean(x, -1),
        x.norm(dim=1),
        x.logsumexp(-1),
        x.prod(),
        x.amax((0, 1)),
        x.aminmax(),
        x.quantile(0.5),
        x.cov(),
        x.mode(-1),
        torch.count_nonzero(x),
        x.nansum(),
        x.softmax(0).log(),
        torch.corrcoef(x),
    )


@idiom()
def distances(x):
    return (
        torch.cdist(x, x + 1),
        F.cosine_similarity(x, x + 1),
        F.normalize(x, dim=-1),
        F.pdist(x),
    )


@idiom()
def interpolation(x):
    im = x.view(1, 1, x.shape[0], 8)
    grid = F.affine_grid(torch.eye(2, 3)[None], [1, 1, 5, 5], align_corners=False)
    return (
        F.interpolate(im, scale_factor=2, mode="bilinear"),
        F.grid_sample(im, grid, align_corners=False),
        F.pad(im, (1, 2, 0, 1), value=3.0),
        F.unfold(im, 2),
        F.pixel_shuffle(im.view(1, 4, -1, 2), 2),
    )


@idiom()
def dtype_mixing(x):
    h = x.half() + x.bfloat16()
    i = (x * 10).to(torch.int32)
    return (
        h,
        i // 3,
        i % 3,
        i >> 1,
        i & 5,
        x.double() * 2,
        x > i,
        i.float() / 2,
        -i,
        i.bool(),
        x.to(i),
    )


@idiom()
def half_precision_chain(x):
    y = x.to(torch.bfloat16)
    return (y * 1.5 + y).softmax(-1), y.float().sum(), (x.half() @ x.half().T).float()


@idiom()
def integer_overflow(x):
    i = (x * 100).to(torch.int8)
    return i * 2, i.to(torch.uint8), i.sum(), torch.clamp(i, -3, 3), i.abs()


@idiom()
def factories(x):
    n = x.shape[0]
    return (
        torch.arange(0, 10, 3),
        torch.linspace(0, 1, n),
        torch.eye(n),
        torch.full((n,), 2),
        torch.tensor([[1, 2], [3, n]]),
        torch.tensor(1.5),
        x.new_zeros(3),
        x.new_tensor([1.0, 2.0]),
        torch.meshgrid(torch.arange(2), torch.arange(3), indexing="ij"),
        torch.tril(torch.ones(n, n)),
        torch.zeros(0),
        torch.empty(2, 0),
        x.new_full((2,), 4.0),
        torch.ones_like(x, dtype=torch.int32),
        torch.tensor([True, False]),
        torch.logspace(0, 2, 3),
        torch.as_tensor([1, 2]),
    )


@idiom()
def shapes_and_views(x):
    return (
        x.unsqueeze(0).expand(3, -1, -1),
        x.unflatten(-1, (2, 4)),
        x.reshape(-1),
        x.t(),
        x.unfold(1, 3, 2),
        x.repeat(2, 1),
        x.repeat_interleave(2, 0),
        x.tile((1, 2)),
        x.movedim(0, 1),
        x.swapaxes(0, 1),
        torch.diag(x[0]),
        x.diagonal(),
        torch.stack([x, x], 1),
        torch.hstack([x, x]),
        torch.split(x, [3, 5], 1),
        torch.block_diag(x, x),
        torch.broadcast_to(x[0], (3, 8)),
        x.narrow(1, 2, 3),
        torch.rot90(x),
        torch.atleast_3d(x),
        torch.tensor_split(x, 3, -1),
        torch.cartesian_prod(x[0, :2], x[1, :2]),
        torch.combinations(x[0, :4]),
        torch.vander(x[0, :3]),
    )


@idiom(lambda g, n: (T(g, n, 8), T(g, n, 8)))
def inplace_updates(x, y):
    x.add_(y).mul_(2).clamp_(-1, 1)
    x[:, 0].zero_()
    y.copy_(x.flip(0))
    z = x.view(-1)
    z[3:5] = 9.0
    return z, x.t_() if False else x.T


@idiom(lambda g, n: (T(g, n, 8), T(g, 8)))
def out_arguments(x, y):
    buffer = torch.empty(x.shape)
    torch.add(x, y, out=buffer)
    torch.mul(buffer, 2, out=buffer)
    return buffer


@idiom(lambda g, n: (T(g, n, 8),) * 2)
def same_tensor_twice(x, y):
    x.add_(1)
    return x + y, x is y


# ===--- Loops over data


@idiom(lambda g, n: (T(g, 12, 8), I(g, 12, n, 1)))
def greedy_decoding(table, ids):
    for _ in range(5):
        scores = table[ids[:, -1]] @ table.T
        nxt = scores.argmax(-1, keepdim=True)
        ids = torch.cat([ids, nxt], 1)
    return ids


@idiom(lambda g, n: (T(g, 12, 8), I(g, 12, n, 1)))
def beam_search(table, ids):
    beams, scores = [ids], [torch.zeros(ids.shape[0])]
    b, k = ids.shape[0], 3
    ids = ids.repeat_interleave(k, 0)
    total = torch.zeros(b, k)
    total[:, 1:] = -1e9
    for _ in range(3):
        logp = (table[ids[:, -1]] @ table.T).log_softmax(-1).view(b, k, -1)
        flat = (total.unsqueeze(-1) + logp).view(b, -1)
        total, at = flat.topk(k, -1)
        parent, token = at // logp.shape[-1], at % logp.shape[-1]
        rows = (torch.arange(b).unsqueeze(1) * k + parent).view(-1)
        ids = torch.cat([ids[rows], token.view(-1, 1)], 1)
        beams.append(ids)
        scores.append(total)
    return ids, total, beams


@idiom(lambda g, n: (T(g, 12, 8), I(g, 12, n, 1)))
def decoding_until_end(table, ids):
    done = torch.zeros(ids.shape[0], dtype=torch.bool)
    for _ in range(6):
        nxt = (table[ids[:, -1]] @ table.T).argmax(-1)
        nxt = torch.where(done, torch.zeros_like(nxt), nxt)
        ids = torch.cat([ids, nxt[:, None]], 1)
        done = done | (nxt == 3)
        if done.all():
            break
    return ids


@idiom()
def branch_on_data(x):
    return x * 2 if x.sum() > 0 else x - 1


@idiom()
def item_and_tolist(x):
    k = x.sum().item()
    return x * k, x.shape[0] + int(x.max()), x[0].tolist()


@idiom(lambda g, n: (T(g, n, 8),))
def data_dependent_while(x):
    n = 0
    while x.abs().max() > 0.1:
        x = x * 0.5
        n += 1
    return x, n


@idiom(lambda g, n: (T(g, n, 4, 8),))
def generalised_advantage(rewards):
    advantage, out = torch.zeros(4, 8), []
    for t in reversed(range(rewards.shape[0])):
        advantage = rewards[t] + 0.99 * 0.95 * advantage
        out.insert(0, advantage)
    return torch.stack(out)


@idiom(lambda g, n: (T(g, n, 8),))
def rnn_by_hand(x):
    h = torch.zeros(8)
    outs = []
    for step in x:
        h = torch.tanh(step + h * 0.5)
        outs.append(h)
    return torch.stack(outs), h


@idiom(lambda g, n: (T(g, n, 8),))
def preallocated_output(x):
    out = torch.empty(x.shape[0], 4)
    for i in range(x.shape[0]):
        out[i] = x[i, :4] * i
    result = torch.zeros(x.shape[0], x.shape[0])
    for i in range(x.shape[0]):
        for j in range(i):
            result[i, j] = (x[i] * x[j]).sum()
    return out, result


@idiom(lambda g, n: (T(g, n, 8),))
def sinkhorn(x):
    log = x @ x.T
    for _ in range(5):
        log = log - log.logsumexp(1, keepdim=True)
        log = log - log.logsumexp(0, keepdim=True)
    return log.exp()


@idiom(lambda g, n: (torch.rand(n, 4, generator=g), T(g, n)))
def boxes_and_nms(b, s):
    import torchvision

    b = torch.cat([b[:, :2], b[:, :2] + b[:, 2:]], 1)
    return torchvision.ops.box_iou(b, b), torchvision.ops.nms(b, s, 0.3)


# ===--- torch beyond dense float tensors


@idiom()
def sparse(x):
    s = (x * (x > 0)).to_sparse()
    return torch.sparse.mm(s, torch.ones(8, 2)), s.coalesce().values().sum()


@idiom()
def quantised(x):
    q = torch.quantize_per_tensor(x, 0.1, 10, torch.quint8)
    return (
        q.dequantize(),
        q.int_repr(),
        torch.fake_quantize_per_tensor_affine(x, 0.1, 0, -128, 127),
    )


@idiom()
def nested_tensor(x):
    return [t * 2 for t in torch.nested.nested_tensor([x, x[:2]]).unbind()]


@idiom()
def numpy_bridge(x):
    import numpy as np

    a = x.numpy()
    return torch.from_numpy(np.ascontiguousarray(a * 2)), torch.tensor(np.arange(3.0))


@idiom()
def functional_transforms(x):
    return torch.vmap(lambda r: (r * r).sum())(x), torch.func.grad(
        lambda t: (t**2).sum()
    )(x)


@idiom()
def tree_map(x):
    import torch.utils._pytree as pytree

    return pytree.tree_map(lambda t: t * 2, {"a": x, "b": [x, (x, 1)]})


@idiom()
def checkpointed(x):
    from torch.utils.checkpoint import checkpoint

    return checkpoint(lambda t: t.relu() * 2, x, use_reentrant=False)


@idiom()
def contexts_inside(x):
    with torch.no_grad():
        a = x * 2
    with torch.inference_mode():
        b = (x * 3).sum()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        c = x @ x.T
    with torch.set_grad_enabled(False):
        return a, b + 0, c


@idiom()
def gradient_inside(x):
    with torch.enable_grad():
        w = x.clone().requires_grad_()
        (w * w).sum().backward()
    return w.grad


@idiom()
def detach_and_data(x):
    y = x.detach()
    z = x.data
    return y + z, x.requires_grad, x.is_leaf, x.grad is None, y.clone().detach_()


@idiom()
def device_and_dtype_objects(x):
    d = torch.device("cpu")
    y = torch.zeros(2, device=d, dtype=x.dtype).to(x.device)
    return (
        y,
        x.device.type,
        x.device == d,
        str(x.dtype),
        torch.finfo(x.dtype).max,
        x.is_cuda,
    )


@idiom()
def distributions(x):
    d = torch.distributions.Normal(x, x.exp())
    c = torch.distributions.Categorical(logits=x)
    return (
        d.log_prob(x + 1),
        c.entropy(),
        torch.distributions.kl_divergence(d, d),
        c.probs,
    )


@idiom()
def sampling(x):
    return torch.multinomial(x.softmax(-1), 2), torch.distributions.Normal(
        x, 1.0
    ).sample()


@idiom()
def custom_autograd_function(x):
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, t):
            return t * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2

    return Double.apply(x)


@torch.jit.script
def _scripted(x):
    return x.relu() * 2


@idiom()
def torchscript(x):
    return _scripted(x)


@idiom()
def foreach(x):
    return torch._foreach_mul([x, x + 1], 2.0), torch._foreach_add([x], [x])


def programs() -> list[Program]:
    return list(_programs)
