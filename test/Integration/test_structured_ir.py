# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Random programs with nested loops and branches, through pyjit-run.

structured_ir.py makes them, as IR on handles and as PyTorch; both must agree to the
last bit. PYJIT_EXAMPLES sets the number of examples as elsewhere; a tenth of them
makes vendor calls, which costs pyjit-run a second of loading.
"""

from __future__ import annotations

import os
import random
import subprocess
from pathlib import Path

import numpy
import pytest
import torch
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from Integration.structured_ir import Generator, Interpreter, Writer, type_of

EXAMPLES = int(os.environ.get("PYJIT_EXAMPLES", "200"))


def check(
    rng: random.Random,
    library: bool,
    folder: Path,
    bin_dir: Path,
    options: tuple[str, ...] = (),
) -> None:
    program = Generator(rng, library, size=18)
    text = Writer().function(program)
    generator = torch.Generator().manual_seed(5)
    inputs = [
        torch.randint(-20, 20, n.like.shape, generator=generator).to(n.like.dtype)
        for n in program.inputs
    ]
    want = Interpreter().run(program, inputs)
    file = folder / "program.mlir"
    file.write_text(text)
    command = [str(bin_dir / "pyjit-run"), str(file), "--save", str(folder / "out")]
    command += options
    for number, value in enumerate(inputs):
        numpy.save(folder / f"in{number}.npy", value.numpy())
        command += ["--arg", str(folder / f"in{number}.npy")]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, f"{done.stderr}\n{text}"
    for number, value in enumerate(want):
        have = torch.from_numpy(numpy.load(folder / f"out{number}.npy"))
        assert torch.equal(have, value), (
            f"result {number}: {value} became {have}\n{text}"
        )


@pytest.mark.parametrize("library", [False, True])
def test_agrees_with_torch(library: bool, tmp_path: Path, bin_dir: Path) -> None:
    @settings(
        max_examples=max(5, EXAMPLES // (10 if library else 1)),
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate, Phase.shrink],
    )
    @given(st.randoms(use_true_random=False))
    def run(rng: random.Random) -> None:
        check(rng, library, tmp_path, bin_dir)

    run()


@pytest.mark.parametrize("way", ["plain", "copy", "table", "update"])
def test_agrees_with_torch_on_a_device(way: str, tmp_path: Path, bin_dir: Path) -> None:
    """On the simulated device, one way to launch at a time: graphs with conditional nodes in them."""

    @settings(
        max_examples=max(3, EXAMPLES // 40),
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate, Phase.shrink],
    )
    @given(st.randoms(use_true_random=False), st.booleans())
    def run(rng: random.Random, library: bool) -> None:
        check(rng, library, tmp_path, bin_dir, ("--device-launch", way))

    run()


def parallel_loop(rng: random.Random) -> tuple[str, list[torch.Tensor], torch.Tensor]:
    """A loop over one dimension that reads and replaces its own part only."""
    sizes = [rng.randint(1, 9) for _ in range(rng.randint(1, 3))]
    dim = rng.randrange(len(sizes))
    first = rng.randrange(sizes[dim])
    by = rng.randint(1, 3)
    x, y = (torch.randint(-9, 9, sizes).float() for _ in range(2))
    w = torch.randint(-9, 9, x.select(dim, 0).shape).float()
    whole = "x".join(map(str, sizes)) + "xf32"
    strided = type_of(x.select(dim, 0))
    dense = type_of(w)
    view = f"[#tssa.view<select [{dim}, ?]>] (%i)"
    sum_of = rng.random() < 0.5
    text = f"""
func.func @f(%x: tensor<{whole}>, %y: tensor<{whole}>, %w: {dense}) -> tensor<{whole}> {{
  %c0 = arith.constant {first} : index
  %c1 = arith.constant {by} : index
  %cn = arith.constant {sizes[dim]} : index
  %r = scf.for %i = %c0 to %cn step %c1 iter_args(%t = %x) -> (tensor<{whole}>) {{
    %0 = tssa.access %t {view} : tensor<{whole}> -> {strided}
    %1 = tssa.access %y {view} : tensor<{whole}> -> {strided}
    %2 = tssa.aten "aten::mul.Tensor"(%1, %w) : ({strided}, {dense}) -> {dense}
    %3 = tssa.aten "aten::sum"(%2, none) : ({dense}) -> tensor<f32>
    %4 = tssa.aten "aten::add.Tensor"(%0, %{3 if sum_of else 2}, 1 : i64)
        : ({strided}, {"tensor<f32>" if sum_of else dense}) -> {dense}
    %5 = tssa.assign %t, %4 {view} : tensor<{whole}>, {dense}
    scf.yield %5 : tensor<{whole}>
  }}
  return %r : tensor<{whole}>
}}
"""
    want = x.clone()
    for i in range(first, sizes[dim], by):
        part = y.select(dim, i) * w
        want.select(dim, i).add_(part.sum() if sum_of else part)
    return text, [x, y, w], want


def test_parallel_loops(tmp_path: Path, bin_dir: Path) -> None:
    rng = random.Random(7)
    for _ in range(max(10, EXAMPLES // 8)):
        text, inputs, want = parallel_loop(rng)
        file = tmp_path / "program.mlir"
        file.write_text(text)
        command = [str(bin_dir / "pyjit-run"), str(file)]
        for number, value in enumerate(inputs):
            numpy.save(tmp_path / f"in{number}.npy", value.numpy())
            command += ["--arg", str(tmp_path / f"in{number}.npy")]
        done = subprocess.run(
            [*command, "--save", str(tmp_path / "out")], capture_output=True, text=True,
            check=False, timeout=60,
        )  # fmt: skip
        assert done.returncode == 0, f"{done.stderr}\n{text}"
        have = torch.from_numpy(numpy.load(tmp_path / "out0.npy"))
        assert torch.equal(have, want), text
        shown = subprocess.run([*command, "--print-launch"], capture_output=True, text=True,
                               check=True)  # fmt: skip
        assert "for s" not in shown.stdout, text
