#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What training adds: reductions of gradients and updates, pyjit against eager and torch.compile, in one process.

Formulas of backward passes as a user writes them (under no_grad), and parts of models with `.backward()`, timed as
whole steps. Results are compared with eager's in double precision first; then the runners take turns. Minima and
medians of their rounds are given: minima say more where others use the machine.
The table goes to the terminal and, unless --no-file, to benchmarks/results/DATE-gradients-MACHINE.md, losses included.

  benchmarks/gradients.py                     all
  benchmarks/gradients.py "bias" "layer norm"    those whose name begins so
  benchmarks/gradients.py --without torch.compile
"""

from __future__ import annotations

import argparse
import datetime
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pages
import torch
from compare import largest_difference
from measure import rounds_of
from run import machine, versions
from runners import RUNNERS
from torch.nn import functional as F

RESULTS = Path(__file__).resolve().parent / "results"
Tensor = torch.Tensor


@dataclass
class Case:
    """A function and how to make its arguments; with `grad`, its gradients are asked for by autograd."""

    name: str
    function: Callable[..., Any]
    make: Callable[[], tuple[Any, ...]]
    grad: bool = False
    tolerance: float = 1e-4
    sizes: str = field(default="", kw_only=True)


def layer_norm_backward(
    grad: Tensor, x: Tensor, weight: Tensor, mean: Tensor, deviation: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of F.layer_norm: of its input by rows, of weight and bias by columns."""
    normal = (x - mean) * deviation
    scaled = grad * weight
    first = scaled.mean(-1, keepdim=True)
    second = (scaled * normal).mean(-1, keepdim=True)
    to_input = (scaled - first - normal * second) * deviation
    return to_input, (grad * normal).sum(0), grad.sum(0)


def gelu_backward(grad: Tensor, x: Tensor) -> Tensor:
    cdf = 0.5 * (1 + torch.erf(x * 0.5**0.5))
    pdf = torch.exp(-0.5 * x * x) * 0.3989422804014327
    return grad * (cdf + x * pdf)


def gelu_bias_backward(grad: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    to_input = gelu_backward(grad, x)
    return to_input, to_input.sum(0)


def softmax_backward(grad: Tensor, y: Tensor) -> Tensor:
    return y * (grad - (grad * y).sum(-1, keepdim=True))


def cross_entropy_backward(logits: Tensor, target: Tensor) -> Tensor:
    probability = torch.softmax(logits, -1)
    hot = torch.arange(logits.shape[-1]) == target[:, None]
    return (probability - hot.to(logits.dtype)) / logits.shape[0]


def adamw(
    parameters: list[Tensor],
    grads: list[Tensor],
    firsts: list[Tensor],
    seconds: list[Tensor],
) -> None:
    for p, g, m, v in zip(parameters, grads, firsts, seconds, strict=True):
        p.mul_(1 - 1e-3 * 1e-2)
        m.lerp_(g, 0.1)
        v.mul_(0.999).addcmul_(g, g, value=0.001)
        p.addcdiv_(m, v.sqrt().add_(1e-8), value=-1e-3)


def embedding_backward(grad: Tensor, index: Tensor) -> Tensor:
    return torch.ops.aten.embedding_dense_backward(grad, index, 3000, -1, False)


def clipped_norm(grads: list[Tensor]) -> Tensor:
    return torch.stack([g.norm() for g in grads]).norm()


def adamw_state(dtype: torch.dtype, count: int, size: int) -> tuple[Any, ...]:
    make = [[torch.rand(size, dtype=dtype) for _ in range(count)] for _ in range(4)]
    return tuple(make)


class MLP(torch.nn.Module):
    """The feed-forward part of a transformer's layer."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = torch.nn.LayerNorm(width)
        self.up = torch.nn.Linear(width, 4 * width)
        self.down = torch.nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        return (x + self.down(F.gelu(self.up(self.norm(x))))).square().mean()


def cases() -> Iterator[Case]:
    for columns, rows in [(8, 65536), (64, 16384), (768, 4096), (4096, 1024), (4096, 16), (3072, 256)]:  # fmt: skip
        yield Case(
            "bias gradient", lambda g: g.sum(0),
            lambda r=rows, c=columns: (torch.rand(r, c),), sizes=f"{rows} x {columns}",
        )  # fmt: skip
    yield Case(
        "bias gradient, transposed", lambda g: g.sum(0),
        lambda: (torch.rand(768, 4096).t(),), sizes="4096 x 768",
    )  # fmt: skip
    yield Case(
        "bias of channels", lambda g: g.sum((0, 2, 3)),
        lambda: (torch.rand(16, 64, 56, 56),), sizes="16 x 64 x 56 x 56",
    )  # fmt: skip
    for rows, columns in [(4096, 768), (512, 4096), (16384, 64)]:

        def norm_arguments(r: int = rows, c: int = columns) -> tuple[Tensor, ...]:
            x = torch.randn(r, c)
            deviation = torch.rsqrt(x.var(-1, keepdim=True, correction=0) + 1e-5)
            mean = x.mean(-1, keepdim=True)
            return torch.randn(r, c), x, torch.rand(c), mean, deviation

        yield Case(
            "layer norm backward", layer_norm_backward, norm_arguments,
            sizes=f"{rows} x {columns}",
        )  # fmt: skip
    for rows, columns in [(12 * 512, 512), (64, 30_000)]:
        yield Case(
            "softmax backward", softmax_backward,
            lambda r=rows, c=columns: (torch.randn(r, c), torch.randn(r, c).softmax(-1)), sizes=f"{rows} x {columns}",
        )  # fmt: skip
        yield Case(
            "cross entropy backward", cross_entropy_backward,
            lambda r=rows, c=columns: (torch.randn(r, c), torch.randint(0, c, (r,))), sizes=f"{rows} x {columns}",
        )  # fmt: skip
    yield Case(
        "GELU backward", gelu_backward,
        lambda: (torch.randn(1024, 3072), torch.randn(1024, 3072)), sizes="1024 x 3072",
    )  # fmt: skip
    yield Case(
        "GELU and bias backward", gelu_bias_backward,
        lambda: (torch.randn(1024, 3072), torch.randn(1024, 3072)), sizes="1024 x 3072",
    )  # fmt: skip
    for count, size in [(100, 768), (16, 100_000)]:
        yield Case(
            "AdamW", adamw, lambda n=count, s=size: adamw_state(torch.float32, n, s),
            sizes=f"{count} of {size}",
        )  # fmt: skip
    yield Case(
        "gradient norm", clipped_norm,
        lambda: ([torch.randn(20_000) for _ in range(50)],), sizes="50 of 20000",
    )  # fmt: skip
    yield Case(
        "embedding backward", embedding_backward,
        lambda: (torch.randn(4096, 256), torch.randint(0, 3000, (4096,))), sizes="4096 of 3000 x 256",
    )  # fmt: skip

    yield Case(
        "layer norm, training", lambda x, w, b: F.layer_norm(x, w.shape, w, b).square().mean(),
        lambda: (torch.randn(4096, 768), torch.rand(768), torch.rand(768)), True, sizes="4096 x 768",
    )  # fmt: skip
    yield Case(
        "cross entropy, training", lambda x, t: F.cross_entropy(x, t),
        lambda: (torch.randn(512, 10_000), torch.randint(0, 10_000, (512,))), True, sizes="512 x 10000",
    )  # fmt: skip
    yield Case(
        "bias, GELU, training", lambda x, b: (F.gelu(x + b) * x).sum(),
        lambda: (torch.randn(1024, 3072), torch.randn(3072)), True, sizes="1024 x 3072",
    )  # fmt: skip
    torch.manual_seed(0)
    mlp = MLP(256)
    yield Case(
        "feed-forward, training", mlp, lambda: (torch.randn(512, 256),), True, sizes="512 x 256",
    )  # fmt: skip


def copied(value: Any, dtype: torch.dtype, grad: bool) -> Any:
    if isinstance(value, (list, tuple)):
        return type(value)(copied(item, dtype, grad) for item in value)
    if not isinstance(value, Tensor) or not value.is_floating_point():
        return value
    # Copies keep a transposed tensor's layout.
    return value.to(dtype, copy=True).requires_grad_(grad)


def step(program: Callable[..., Any], arguments: tuple[Any, ...], grad: bool) -> Any:
    """One call; its results, and what it wrote: in place, or as gradients."""
    if not grad:
        with torch.no_grad():
            return program(*arguments), arguments
    leaves = [a for a in arguments if isinstance(a, Tensor) and a.requires_grad]
    if isinstance(program, torch.nn.Module):
        leaves += list(program.parameters())
    for leaf in leaves:
        leaf.grad = None
    loss = program(*arguments)
    loss.backward()
    return loss.detach(), [leaf.grad for leaf in leaves]


def measure(case: Case, names: list[str]) -> dict[str, Any]:
    torch.manual_seed(0)
    made = case.make()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # A module's parameters are float32.
        exact = torch.float32 if isinstance(case.function, torch.nn.Module) else torch.float64  # fmt: skip
        want = step(case.function, copied(made, exact, case.grad), case.grad)
        want = copied(want, torch.float32, False)
        ready: dict[str, Callable[[], Any]] = {}
        facts: dict[str, Any] = {}
        for name in names:
            try:
                torch._dynamo.reset()
                program = RUNNERS[name](case.function, made)
                for _ in range(3):
                    arguments = copied(made, torch.float32, case.grad)
                    got = step(program, arguments, case.grad)
                gap = largest_difference(want, got, relative=True)
                if gap > case.tolerance:
                    raise AssertionError(f"differs by {gap:.1e}")
                ready[name] = lambda p=program, a=arguments: step(p, a, case.grad)
                if name == "pyjit":
                    facts["stats"] = facts_of(program)
            except Exception as error:
                facts[name] = f"{type(error).__name__}: {str(error).splitlines()[0]}"
        for name, times in rounds_of(ready, budget=1.5).items():
            facts[name] = times
    return facts


def facts_of(program: Any) -> str:
    import pyjit

    stats = pyjit.stats(program)
    left = stats["graph_breaks"]
    text = f"{stats['kernels']} + {stats['vendor_calls']}"
    return text + (f", {left} graph breaks" if left else "")


def row_of(case: Case, facts: dict[str, Any], names: list[str]) -> list[str]:
    row = [case.name, case.sizes]
    best = {}
    for name in names:
        times = facts.get(name)
        if isinstance(times, list):
            best[name] = times[0]
            row.append(f"{times[0] * 1e3:.4g} ({times[len(times) // 2] * 1e3:.4g})")
        else:
            row.append(f"failed: {str(times)[:60]}")
    for name in names:
        if name != "pyjit":
            known = name in best and "pyjit" in best
            ratio = best[name] / best["pyjit"] if known else 0
            row.append((f"{ratio:.2f}x" if ratio >= 0.98 else f"**{ratio:.2f}x (loss)**") if known else "")  # fmt: skip
    return [*row, str(facts.get("stats", ""))]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", help="beginnings of names")
    parser.add_argument("--without", default="", help="runners to leave out")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--remark", default="", help="a sentence for the file")
    parser.add_argument("--no-file", action="store_true", help="print only")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    names = [n for n in ("eager", "torch.compile", "pyjit") if n not in options.without.split(",")]  # fmt: skip
    head = ["what", "sizes", *(f"{n} ms" for n in names)]
    head += [f"pyjit : {n}" for n in names if n != "pyjit"]
    head.append("pyjit's kernels + vendor calls")
    lines = pages.heading(head)
    for case in cases():
        if options.names and not case.name.startswith(tuple(options.names)):
            continue
        row = row_of(case, measure(case, names), names)
        lines.append(pages.row(row))
        print(lines[-1], flush=True)
    text = "\n".join(lines)
    if not options.no_file:
        day = datetime.date.today().isoformat()
        word = machine("cpu").split()[0].lower()
        file = RESULTS / f"{day}-gradients-{word}-cpu.md"
        file.write_text(
            f"# Gradients and updates, {day}\n\n{machine('cpu')}, {options.threads} threads. {versions()}.\n\n"
            "float32; results compared with eager in double precision. The runners take turns in one process; minima of "
            "their rounds, medians in brackets; ratios are of minima, time of the other / time of pyjit. "
            f"{options.remark}\n\n{text}\n"
        )
        print(f"written: {file}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
