# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What pages show is true: their Python runs, prints what stands below it, and their commands run."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

pyjit = pytest.importorskip("pyjit", exc_type=ImportError)

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"```python\n(.*?)```(?:\n\n```text\n(.*?)```)?", re.DOTALL)
COMMANDS = re.compile(r"<!-- run -->\n```sh\n(.*?)```", re.DOTALL)

# Pages, and what their programs start from where a page leaves that to its reader.
MODEL = """
import torch
import torch.nn.functional as F
import pyjit
model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3))
x = torch.randn(4, 8)
y = torch.randint(3, (4,))
batches = [(x, y)] * 4
optimizer = torch.optim.AdamW(model.parameters())
"""
PAGES = {
    "README.md": MODEL,
    "docs/Install.md": "",
    "docs/QuickStart.md": "",
    "docs/NotFaster.md": "",
    "docs/WrongAnswers.md": MODEL,
    "docs/Performance.md": "",
    "docs/Limits.md": "",
    "docs/Explain.md": MODEL,
    "docs/Options.md": MODEL,
    "docs/Training.md": MODEL,
    "docs/Generation.md": "",
}

RUNNER = """
import contextlib, io, json, sys, torch
given = json.load(sys.stdin)
torch.manual_seed(0)
names, line, shown = {"__name__": "page"}, 1, []
exec(given["preamble"], names)
for code in given["blocks"]:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile("\\n" * (line - 1) + code, given["file"], "exec"), names)
    line += code.count("\\n")
    shown.append(out.getvalue())
json.dump(shown, sys.__stdout__)
"""


def comparable(text: str) -> str:
    """Without what differs between machines and runs: numbers with a fraction or a unit, spaces."""
    text = re.sub(r"\d+ guards", "# guards", text)
    return " ".join(re.sub(r"\d+\.\d*", "#", text).split())


@pytest.mark.parametrize("page", PAGES)
def test_python(page: str, tmp_path: Path) -> None:
    found = BLOCK.findall((ROOT / page).read_text())
    assert found
    blocks = [code for code, _ in found]
    file = tmp_path / "page.py"
    file.write_text("".join(blocks))  # where reports find the program's lines
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(sys.path),
        "PYJIT_COMPARE_WITH_EAGER": "1",
    }
    given = {"preamble": PAGES[page], "blocks": blocks, "file": str(file)}
    done = subprocess.run(
        [sys.executable, "-c", RUNNER],
        input=json.dumps(given),
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env=environment,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    for (code, wanted), printed in zip(found, json.loads(done.stdout), strict=True):
        if wanted:
            assert comparable(printed) == comparable(wanted), textwrap.indent(
                code, "  "
            )


def test_the_report_of_the_readme_is_that_of_explain() -> None:
    """The lines of an excerpt, each once and in order."""
    excerpt, whole = (
        next(
            text
            for text in re.findall(
                r"```text\n(.*?)```", (ROOT / page).read_text(), re.DOTALL
            )
            if text.startswith("pyjit: g:")
        ).splitlines()
        for page in ("README.md", "docs/Explain.md")
    )
    assert [line for line in whole if line in excerpt] == excerpt


def run_commands(
    page: str, folder: Path, bin_dir: Path, python_path: Path, *more: str
) -> str:
    """Runs a page's commands, and more of them, in a folder."""
    commands = COMMANDS.findall((ROOT / page).read_text())
    assert commands
    path = [str(bin_dir), str(Path(sys.executable).parent), os.environ["PATH"]]
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", "\n".join([*commands, *more])],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        env=os.environ
        | {"PATH": os.pathsep.join(path), "PYJIT": str(ROOT)}
        | {"PYTHONPATH": str(python_path)},
        timeout=300,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.mark.parametrize("page", ["CONTRIBUTING.md", "examples/reading-ir/README.md"])
def test_commands(page: str, tmp_path: Path, bin_dir: Path) -> None:
    if not (bin_dir / "pyjit-trace").exists():
        pytest.skip("no libpython to embed: no pyjit-trace")
    # Of the CPython that pyjit-trace has inside, which need not be the one that runs this.
    run_commands(page, tmp_path, bin_dir, bin_dir.parent / "python")


def test_code_of_recipes_is_in_the_tree() -> None:
    """What CONTRIBUTING.md shows of a change is what stands there still."""
    shown = re.findall(
        r"```(?:cpp|python)\n(.*?)```",
        (ROOT / "CONTRIBUTING.md").read_text(),
        re.DOTALL,
    )
    folders = ("python-bindings/capture/builtins", "test/Integration")
    sources = [
        file.read_text()
        for folder in folders
        for file in (ROOT / folder).iterdir()
        if file.suffix in (".cpp", ".py")
    ]
    assert shown
    for code in shown:
        assert any(code in source for source in sources), code


# The function of docs/WrongAnswers.md; a pyjit-run whose fused programs are off by what its argument says.
PROGRAM = """
import torch, pyjit
@pyjit.compile
def f(x):
    return torch.softmax(x * 3, -1).to(torch.bfloat16), x.argmax()
for _ in range(2):
    f(torch.randn(8, 64))
"""
FAULTY = """
import numpy, os, pathlib, subprocess, sys
subprocess.run([os.environ["REAL"], *sys.argv[2:]], check=True)
if "--depth=fusion" in sys.argv:
    saved = next(word for word in sys.argv if word.startswith("--save="))
    file = pathlib.Path(saved.removeprefix("--save=")) / "0.npy"
    right = (numpy.load(file).view("u2").astype("u4") << 16).view("f4")
    numpy.save(file, right * (1 + float(sys.argv[1])))
"""


def test_commands_for_a_wrong_answer(tmp_path: Path, bin_dir: Path) -> None:
    """The script for pyjit-reduce finds a fault, and takes roundings for none."""
    (tmp_path / "program.py").write_text(PROGRAM)
    faulty = tmp_path / "faulty"
    faulty.mkdir()
    (faulty / "faulty.py").write_text(FAULTY)
    pyjit_run = faulty / "pyjit-run"
    pyjit_run.write_text(
        f'#!/bin/sh\nexec {sys.executable} {faulty / "faulty.py"} "$FACTOR" "$@"\n'
    )
    pyjit_run.chmod(0o755)
    ask = (
        f"{sys.executable} ./still-wrong.py f.library.mlir && echo right || echo wrong"
    )
    simulated = f"PATH={faulty}:$PATH REAL={bin_dir / 'pyjit-run'}"
    printed = run_commands(
        "docs/WrongAnswers.md",
        tmp_path,
        bin_dir,
        Path(pyjit.__file__).parents[1],
        ask,
        f"FACTOR=1e-7 {simulated} {ask}",
        f"FACTOR=0.01 {simulated} {ask}",
    )
    assert printed.split()[-3:] == ["right", "right", "wrong"]
