# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""pyjit-trace: functions in any scope of a script, and the environment that it runs in."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = """
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = 2.0

    def forward(self, x):
        return torch.relu(x) * self.scale

    @staticmethod
    def halved(x):
        return x / 2

    @torch.no_grad()
    def shifted(self, x):
        return x + 1

def outer(x):
    def inner(y):
        return torch.tanh(y)
    local = Net()
    local.eval()
    return inner(x) + local(x)

if __name__ == "__main__":
    model = Net()
    model.train(False)
    x = torch.ones(3)
    print(model(x), Net.halved(x), model.shifted(x), outer(x))
"""


@pytest.fixture
def tool(bin_dir: Path) -> Path:
    if not (bin_dir / "pyjit-trace").exists():
        pytest.skip("no libpython to embed: no pyjit-trace")
    return bin_dir / "pyjit-trace"


def trace(
    tool: Path, folder: Path, function: str, **environment: str
) -> subprocess.CompletedProcess[str]:
    script = folder / "script.py"
    script.write_text(SCRIPT)
    return subprocess.run(
        [tool, script, "--function", function, "-o", folder / "t.mlir"],
        check=False,
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": str(ROOT / "build" / "python")} | environment,
    )


@pytest.mark.parametrize(
    ("function", "operators"),
    [
        ("Net.forward", ["relu", "mul"]),
        ("Net", ["relu", "mul"]),
        ("model", ["relu", "mul"]),
        ("Net.halved", ["div"]),
        ("Net.shifted", ["add"]),
        ("outer", ["tanh", "relu", "mul", "add"]),
        ("outer.inner", ["tanh"]),
        ("outer.<locals>.inner", ["tanh"]),
        ("outer.local", ["relu", "mul"]),
    ],
)
def test_functions_in_any_scope(
    function: str, operators: list[str], tool: Path, tmp_path: Path
) -> None:
    done = trace(tool, tmp_path, function)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("tensor(") == 4, "the script itself goes on as it would"
    text = (tmp_path / "t.mlir").read_text()
    found = [
        line.split('"aten::')[1].split('"')[0].split(".")[0]
        for line in text.splitlines()
        if "refgraph.tensor_op" in line
    ]
    assert found == operators


def test_unknown_name(tool: Path, tmp_path: Path) -> None:
    done = trace(tool, tmp_path, "Net.forwards")
    assert done.returncode == 1
    assert "binds no Net.forwards; there are Net.__init__, Net.forward" in done.stderr


def test_active_environment(tool: Path, tmp_path: Path) -> None:
    """The active environment is used where its Python is of the tool's version, and a note tells where not."""
    for version, used in (("3.8.1", False), (sys.version.split()[0], True)):
        active = tmp_path / version
        (active / "bin").mkdir(parents=True)
        (active / "pyvenv.cfg").write_text(
            f"home = {Path(sys.base_prefix) / 'bin'}\nversion = {version}\n"
        )
        (active / "bin/python").symlink_to(sys.executable)
        if used and sys.version_info[:2] != (3, 12):
            continue  # of a version that the tool does not embed
        packages = active / f"lib/python{version.rpartition('.')[0]}/site-packages"
        packages.mkdir(parents=True)
        (packages / "torch.py").write_text("raise ImportError('the active one')")
        done = trace(tool, tmp_path, "Net.forward", VIRTUAL_ENV=str(active))
        assert ("the active one" in done.stderr) == used
        assert ("note: the active environment" in done.stderr) != used
        assert done.returncode == int(used)
