# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Random programs that fill a buffer part by part with what vendor calls give, on a simulated
device: statements that follow each other, and loops that Python unrolls.

Compared with eager, and no graph may raise where eager does not: eager would answer such a call
rightly, and late. PYJIT_EXAMPLES sets the number of programs, 60 by default.
"""

from __future__ import annotations

import os
import random

import pyjit
import pytest
import torch
from Integration.tolerances import apart, bounds

EXAMPLES = int(os.environ.get("PYJIT_EXAMPLES", "60"))
ITERATIONS = (1, 3, 24)
WAYS = ("", "plain", "copy", "table", "update")


# What a vendor call makes of a matrix of n × n, as an expression in `m` and `w`.
CALLS = [
    "m @ w",
    "torch.linalg.solve(w, m)",
    "torch.cumsum(m, 0)",
    "(w @ m).t()",
    "torch.sort(m, 0).values",
    "torch.bmm(m[None], w[None])[0]",
    "torch.bmm(m[:, None], w.expand(n, n, n)).squeeze(1)",
]


def place(rng: random.Random) -> tuple[str, str]:
    """A buffer's sizes, and the n × n part of it that belongs to iteration `i`."""
    sizes, index = ["n", "n"], [":", ":"]
    axis = rng.randrange(3)
    sizes.insert(axis, "steps")
    index.insert(axis, "i")
    if rng.random() < 0.5:
        axis = rng.randrange(4)
        sizes.insert(axis, "2")
        index.insert(axis, rng.choice(["0", "1", "-1"]))
    return f"({', '.join(sizes)})", f"[{', '.join(index)}]"


def program(rng: random.Random) -> tuple[str, int, int]:
    n, steps = rng.choice([2, 4, 5]), rng.choice(ITERATIONS)
    lines = ["def f(x, w, k):"]
    outside = rng.random() < 0.3
    sizes, at = place(rng)
    lines.append(f"    k = {'k.clone()' if outside else f'torch.zeros{sizes}'}")
    lines += ["    m = x", f"    for i in range({steps}):"]
    for _ in range(rng.randint(1, 2)):
        lines.append(f"        m = {rng.choice(CALLS)}")
        if rng.random() < 0.3:
            lines.append("        m = torch.tanh(m)")
    part = rng.choice(["k{at} = m", "k{at} = m", "k{at} += m", "k{at}.copy_(m)"])
    if rng.random() < 0.3:
        part = "k{at}[0] = m[:, 1]"
    lines.append("        " + part.format(at=at))
    if rng.random() < 0.5:
        lines.append(f"        m = m * 0.25 + k{at} * 0.5")
    lines.append(f"    return {rng.choice(['k', 'k, m', 'k * 2, m'])}")
    source = "\n".join(lines).replace("steps", str(steps)).replace("n, n", f"{n}, {n}")
    return (
        source.replace("expand(n,", f"expand({n},") + f"\nSIZES = {sizes}\n",
        n,
        steps,
    )


@pytest.mark.parametrize("seed", range(EXAMPLES))
def test_random_writes(seed: int) -> None:
    check(seed)


def tensors(result: torch.Tensor | tuple[torch.Tensor, ...]) -> list[torch.Tensor]:
    return [result] if isinstance(result, torch.Tensor) else list(result)


def check(seed: int) -> None:
    rng = random.Random(seed)
    source, n, steps = program(rng)
    scope: dict = {"torch": torch, "n": n, "steps": steps}
    exec(source, scope)
    f = scope["f"]
    options = {"simulated_device": True, "strict": True}
    if way := rng.choice(WAYS):
        options["launch"] = way
    fast = pyjit.compile(f, options=options)

    def make(number: int) -> tuple[torch.Tensor, ...]:
        generator = torch.Generator().manual_seed(100 * seed + number)
        x, w = torch.randn(2, n, n, generator=generator)
        return (
            x,
            torch.eye(n) + 0.1 * w,
            torch.randn(scope["SIZES"], generator=generator),
        )

    with torch.no_grad():
        for number in range(5):
            want, got = tensors(f(*make(number))), tensors(fast(*make(number)))
            same = [torch.equal(a, b) for a, b in zip(want, got, strict=True)]
            if all(same):
                continue
            # Twenty-four solutions of systems, each of the one before, lose all digits.
            limits = bounds(lambda n=number: tensors(f(*make(n))), want, have=got)
            for a, b, limit in zip(want, got, limits, strict=True):
                assert a.shape == b.shape and not apart(a, b, limit).any(), source
    stats = pyjit.stats(fast)
    assert stats["hits"] == 4 and not stats["reasons"], (
        source,
        stats["reasons"],
        stats["hits"],
    )
