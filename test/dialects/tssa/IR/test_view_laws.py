# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Every view kind against eager PyTorch, and the laws of access and assign.

Paths of random views are made twice, as torch calls and as `#tssa.view`s;
`pyjit-translate --tssa-to-views` says what the compiler takes them to mean.
"""

from __future__ import annotations

import random
import re
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

import torch

KINDS = [
    "alias",
    "select",
    "slice",
    "permute",
    "view",
    "expand",
    "squeeze",
    "unsqueeze",
    "diagonal",
    "unfold",
    "as_strided",
]


@dataclass
class Case:
    source: torch.Tensor
    shown: torch.Tensor
    path: list[str] = field(default_factory=list)
    kinds: set[str] = field(default_factory=set)
    fresh: bool = True  # the view's own source is the whole dense tensor


def dense_source() -> torch.Tensor:
    rank = random.randint(0, 4)
    shape = [random.choice([1, 2, 3, 4]) for _ in range(rank)]
    order = random.sample(range(rank), rank)
    count = 1
    for size in shape:
        count *= size
    value = torch.arange(count, dtype=torch.float32)
    value = value.reshape([shape[dim] for dim in order])
    inverse = [order.index(dim) for dim in range(rank)]
    return value.permute(inverse)


def random_sizes(count: int) -> list[int]:
    sizes = []
    while count > 1 and random.random() < 0.8:
        divisors = [n for n in range(1, count + 1) if count % n == 0]
        size = random.choice(divisors)
        sizes.append(size)
        count //= size
    return [*sizes, count]


def step(tensor: torch.Tensor, kind: str, whole: bool) -> tuple[torch.Tensor, str]:
    """One random view of a kind: in torch, and as text. ValueError: none fits."""
    rank = tensor.dim()
    dim = random.randrange(rank) if rank else 0
    if rank == 0 and kind in ("select", "slice", "squeeze", "diagonal", "unfold"):
        raise ValueError
    if kind == "alias":
        return tensor.detach(), ""
    if kind == "select":
        index = random.randrange(tensor.size(dim))
        return tensor.select(dim, index), f"[{dim}, {index}]"
    if kind == "slice":
        start = random.randrange(tensor.size(dim))
        end, stride = random.randint(start, tensor.size(dim)), random.randint(1, 3)
        shown = tensor[(slice(None),) * dim + (slice(start, end, stride),)]
        return shown, f"[{dim}, {start}, {shown.size(dim)}, {stride}]"
    if kind == "permute":
        order = random.sample(range(rank), rank)
        return tensor.permute(order), str(order)
    if kind == "view":
        sizes = random_sizes(tensor.numel()) if tensor.numel() else []
        if not tensor.numel():
            raise ValueError
        try:
            return tensor.view(sizes), str(sizes)
        except RuntimeError as error:
            raise ValueError from error
    if kind == "expand":
        sizes = [3 if size == 1 else size for size in tensor.shape]
        sizes = random.choice([[], [2], [1]]) + sizes
        return tensor.expand(sizes), str(sizes)
    if kind == "squeeze":
        dims = [i for i in range(rank) if tensor.size(i) == 1]
        return tensor.squeeze(dims), str(dims)
    if kind == "unsqueeze":
        at = random.randint(0, rank)
        return tensor.unsqueeze(at), f"[{at}]"
    if kind == "diagonal":
        if rank < 2:
            raise ValueError
        one, two = random.sample(range(rank), 2)
        offset = random.randint(-2, 2)
        return tensor.diagonal(offset, one, two), f"[{offset}, {one}, {two}]"
    if kind == "unfold":
        size = random.randint(1, max(1, tensor.size(dim)))
        if tensor.size(dim) < size:
            raise ValueError
        stride = random.randint(1, 3)
        return tensor.unfold(dim, size, stride), f"[{dim}, {size}, {stride}]"
    if not whole or not tensor.numel():
        raise ValueError
    sizes = [random.randint(1, 3) for _ in range(random.randint(0, 3))]
    strides = [random.randint(0, 4) for _ in sizes]
    reach = sum((a - 1) * b for a, b in zip(sizes, strides, strict=True))
    if reach >= tensor.numel():
        raise ValueError
    offset = random.randrange(tensor.numel() - reach)
    numbers = [offset, *sizes, *strides]
    return torch.as_strided(tensor, sizes, strides, offset), str(numbers)


def random_case(first: str) -> Case | None:
    source = dense_source()
    case = Case(source, source)
    length = random.randint(1, 3)
    for i in range(length):
        kind = first if i == 0 else random.choice(KINDS)
        try:
            shown, numbers = step(case.shown, kind, i == 0)
        except ValueError:
            return case if case.path else None
        case.shown = shown
        case.path.append(f"#tssa.view<{kind} {numbers}>".replace(" >", ">"))
        case.kinds.add(kind)
    return case


def type_text(tensor: torch.Tensor) -> str:
    sizes = "".join(f"{size}x" for size in tensor.shape)
    return f"tensor<{sizes}f32, #tssa.strides<{list(tensor.stride())}>>"


def index_grid(shape: list[int]) -> list[torch.Tensor]:
    rank = len(shape)
    return [
        torch.arange(size).reshape([-1 if j == i else 1 for j in range(rank)])
        for i, size in enumerate(shape)
    ]


def evaluate(names: str, code: str, shape: list[int]) -> list[torch.Tensor]:
    keys = [name.strip() for name in names.strip(" ()").split(",") if name.strip()]
    scope = dict(zip(keys, index_grid(shape), strict=True))
    code = code.replace("floordiv", "//").replace("mod", "%")
    values = eval(f"[{code}]", {}, scope)
    return [torch.as_tensor(value).expand(shape) for value in values]


def map_of(text: str, shape: list[int]) -> list[torch.Tensor]:
    names, results = text.split("->", 1)
    return evaluate(names, results.strip()[1:-1], shape)


def take(tensor: torch.Tensor, index: list[torch.Tensor]) -> torch.Tensor:
    if not index:
        return tensor
    inside = [
        part.clamp(0, size - 1) for part, size in zip(index, tensor.shape, strict=True)
    ]
    return tensor[tuple(inside)]


def check(case: Case, facts: dict[str, str]) -> str | None:
    """What is wrong with one path, if anything is."""
    shape = list(case.shown.shape)
    if list(case.shown.stride()) != eval(facts["strides"]):
        return f"strides {case.shown.stride()}"
    if case.shown.numel() == 0:
        return None
    index = map_of(facts["map"], shape)

    def access(tensor: torch.Tensor) -> torch.Tensor:
        return take(tensor, index).expand(shape)

    if not torch.equal(access(case.source), case.shown):
        return "access"
    if facts["injective"] == "0":
        return None
    offsets = case.shown
    if offsets.unique().numel() != offsets.numel():
        return "called injective"
    # Eager's assignment: write through the view of a copy.
    new = -1 - torch.arange(case.shown.numel(), dtype=torch.float32).reshape(shape)
    eager = case.source.clone()
    eager[tuple(index)] = new  # an independent write by the forward map
    where_shown = torch.isin(case.source.contiguous(), case.shown.contiguous())
    if not torch.equal(eager == case.source, ~where_shown):
        return "writes elsewhere"
    if not torch.equal(access(eager), new):
        return "access(assign(t, s, v), v) == s"
    if "assign" not in facts:
        return None
    target = list(case.source.shape)
    back = map_of(facts["assign"], target)
    condition = torch.ones(target, dtype=torch.bool)
    if "where" in facts:
        names, constraints = facts["where"].split(":", 1)
        for part in evaluate(names, constraints.strip()[1:-1], target):
            condition = condition & part

    def assign(tensor: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        return torch.where(condition, take(value, back).expand(target), tensor)

    if not torch.equal(assign(case.source, new), eager):
        return "assign"
    if not torch.equal(assign(case.source, access(case.source)), case.source):
        return "assign(t, access(t, v), v) == t"
    return None


def test_view_laws(bin_dir: Path) -> None:
    random.seed(0)
    cases = []
    while len(cases) < 1500:
        if case := random_case(random.choice(KINDS)):
            cases.append(case)
    lines = []
    for i, case in enumerate(cases):
        source, shown = type_text(case.source), type_text(case.shown)
        lines.append(
            f"func.func private @c{i}(%t: {source}) {{\n"
            f"  %r = tssa.access %t [{', '.join(case.path)}] : {source} -> {shown}\n"
            "  return\n}\n"
        )
    run = subprocess.run(
        [bin_dir / "pyjit-translate", "--tssa-to-views"],
        input="".join(lines),
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr[:3000]
    blocks = re.split(r"^path \d+\n", run.stdout, flags=re.MULTILINE)[1:]
    assert len(blocks) == len(cases)
    wrong = []
    assigned: set[str] = set()
    for text, case, block in zip(lines, cases, blocks, strict=True):
        facts = dict(line.strip().split(" ", 1) for line in block.splitlines())
        if problem := check(case, facts):
            wrong.append(f"{problem}\n{text}{block}")
        elif facts["injective"] == "1":
            assigned |= case.kinds
    assert not wrong, f"{len(wrong)} wrong:\n" + "\n".join(wrong[:5])
    assert assigned >= set(KINDS) - {"expand"}
