"""Random programs with nested loops and branches, through pyjit-run.

structured_ir.py makes them, as IR on handles and as PyTorch; both must agree to the
last bit. PYJIT_EXAMPLES sets the number of examples as elsewhere; a tenth of them
makes library calls, which costs pyjit-run a second of loading.
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
from Integration.structured_ir import Generator, Interpreter, Writer

EXAMPLES = int(os.environ.get("PYJIT_EXAMPLES", "200"))


def check(rng: random.Random, library: bool, folder: Path, bin_dir: Path) -> None:
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
