# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The wheel: built, installed in a fresh environment, runs ResNet-18 by itself."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

PROGRAM = """
import sys, torch, torchvision, pyjit
assert "site-packages" in pyjit.__file__ and {prefix!r} in pyjit.__file__, pyjit.__file__
torch.manual_seed(0)
model = torchvision.models.resnet18(weights=None).eval()
with torch.no_grad():
    fast = pyjit.compile(model)
    for seed in range(3):
        x = torch.randn(1, 3, 64, 64, generator=torch.Generator().manual_seed(seed))
        gap = (fast(x) - model(x)).abs().max().item()
        assert gap < 1e-3, gap
stats = pyjit.stats(fast)
assert stats["hits"] == 2, stats
maps = open("/proc/self/maps").read()
assert "libLLVM" not in maps and "libMLIR" not in maps
print("wheel runs", stats["kernels"])
"""


@pytest.fixture(scope="module")
def wheel(root: Path) -> Path:
    version = "{}.{}".format(*sys.version_info)
    done = subprocess.run(
        [root / "tools/dev/wheel.sh", version],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    tag = version.replace(".", "")
    (found,) = (root / "dist").glob(f"pyjit-*-cp{tag}-*.whl")
    return found


@pytest.mark.slow
def test_wheel(wheel: Path, tmp_path: Path) -> None:
    assert "manylinux_2_36" in wheel.name
    assert wheel.stat().st_size <= 30e6
    venv = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", venv], check=True)
    python = venv / "bin" / "python"
    # torch is five gigabytes: the fresh environment borrows it by a path file.
    site = next((venv / "lib").glob("python3*/site-packages"))
    (site / "borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n")
    pip = [python, "-m", "pip", "--disable-pip-version-check", "install", "-q"]
    subprocess.run([*pip, "--no-index", "--no-deps", wheel], check=True)
    # No compiler, no LLVM, no checkout: an empty PATH and another directory.
    environment = {"PATH": "/nowhere", "HOME": str(tmp_path)}
    if "OMP_NUM_THREADS" in os.environ:
        environment["OMP_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"]
    done = subprocess.run(
        [python, "-c", PROGRAM.format(prefix=str(venv))],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "wheel runs" in done.stdout


@pytest.mark.slow
def test_metadata(wheel: Path) -> None:
    import zipfile

    with zipfile.ZipFile(wheel) as archive:
        (name,) = (n for n in archive.namelist() if n.endswith("METADATA"))
        text = archive.read(name).decode()
        names = archive.namelist()
    assert "Requires-Dist: torch==2.11.*" in text
    assert "pyjit/__init__.py" in names
    assert "pyjit/__init__.pyi" in names
    assert not [n for n in names if n.endswith((".h", ".cpp", ".a", ".td"))]
