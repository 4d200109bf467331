# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""One kernel of each family, small, for compute-sanitizer: checks its results, prints their names."""

from __future__ import annotations

import sys

import pyjit
import torch
from torch.nn import functional as F


def tensor(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(*shape, device="cuda").to(dtype)


def indices(bound: int, *shape: int) -> torch.Tensor:
    return torch.randint(0, bound, shape, device="cuda")


HALF = torch.float16
# What tells the families apart in PTX: exchanges within a warp, barriers of a block.
MARKS = {
    "flat": (False, False),
    "row": (True, None),
    "column": (False, True),
    "tile": (False, True),
    "any": (None, None),
}
# name: (family, function, arguments)
FAMILIES = {
    "flat": ("flat", lambda a, b: torch.relu(a + b) * 2, (tensor(1003), tensor(1003))),
    "flat-half": (
        "flat",
        lambda a, b: F.gelu(a) * b,
        (tensor(40, 504, dtype=HALF), tensor(40, 504, dtype=HALF)),
    ),
    "row": ("row", lambda a: torch.softmax(a, -1), (tensor(7, 1000, dtype=HALF),)),
    "row-odd": ("row", lambda a: torch.softmax(a, -1), (tensor(5, 333),)),
    "row-long": (
        "row",
        lambda a: F.layer_norm(a, a.shape[-1:]),
        (tensor(3, 65536, dtype=HALF),),
    ),
    "row-longer": ("row", lambda a: torch.logsumexp(a, -1), (tensor(2, 100001),)),
    "column": ("column", lambda a: a.sum(0), (tensor(500, 101),)),
    "split": ("row", lambda a: a.sum(), (tensor(3000, 1024),)),
    "split-column": ("column", lambda a: a.sum(0), (tensor(20000, 256),)),
    "tile": ("tile", lambda a, b: a.t() + b, (tensor(100, 513), tensor(513, 100))),
    # A second kernel looks for indices that are out of range.
    "gather": (
        "any",
        lambda t, i: F.embedding(i, t) * 2,
        (tensor(50, 24), indices(50, 3, 5)),
    ),
    "join": (
        "flat",
        lambda a, b: torch.cat([a, b.relu()], 1) + 1,
        (tensor(9, 17), tensor(9, 30)),
    ),
}


def main() -> int:
    for name, (family, f, arguments) in FAMILIES.items():
        fast = pyjit.compile(f, options={"strict": True})
        with torch.no_grad():
            for _ in range(3):
                got, want = fast(*arguments), f(*arguments)
                torch.testing.assert_close(got, want, rtol=1e-2, atol=1e-3)
        torch.cuda.synchronize()
        text = str(pyjit.explain(fast, detail="all")(*arguments))
        for mark, wanted in zip(("shfl.sync", "bar.sync"), MARKS[family], strict=True):
            if wanted is not None and (mark in text) != wanted:
                print(f"{name}: not of family {family}, by {mark}\n{text}")
                return 1
        print(f"{name}: right", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
