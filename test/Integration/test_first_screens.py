# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The first screen of ``pyjit.explain`` for programs of the zoo, as golden files that somebody has read.

``PYJIT_UPDATE_SCREENS=1 pytest test/Integration/test_first_screens.py`` writes them again: read what has changed.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import sys
import warnings
from pathlib import Path
from typing import Any

import pyjit
import pytest
import torch
from pyjit._reasons import ENTRIES
from pyjit._report import MOST_LINES, WIDTH

ROOT = Path(__file__).resolve().parents[2]
SCREENS = Path(__file__).parent / "Inputs" / "first-screens.txt"
sys.path.insert(0, str(ROOT / "benchmarks"))

from zoo import load

PROGRAMS = [
    "idiom.double-star",
    "idiom.sparse",
    "idiom.nested-tensor",
    "idiom.numpy-bridge",
    "idiom.gradient-inside",
    "idiom.branch-on-data",
    "idiom.item-and-tolist",
    "idiom.data-dependent-while",
    "idiom.boxes-and-nms",
    "idiom.boolean-mask-select",
    "idiom.unique-values",
    "idiom.singledispatch",
    "idiom.list-surgery",
    "idiom.print-in-forward",
    "idiom.contexts-inside",
    "idiom.warnings-and-logging",
    "nn.TransformerEncoder",
    "state.counter-in-module",
    "state.disabled-part",
    "state.mixture-of-experts",
]
# What differs between machines and runs: counts, times, where the tree and the packages are.
_VARYING = [
    (r"(?m)^(  calls: ).*$", r"\1…"),
    (r"(?m)^(  speed: ).*$", r"\1…"),
    (r"\d+ graph\(s\)", "N graph(s)"),
    (r"\d+ kernels?, \d+ vendor calls?, \d+ guards; compiled in [\d.]+ s", "…"),
    (r"(?m) \(/[^\n]*…$", " (…"),
    (re.escape(str(ROOT)) + "/", ""),
    (r"\S*/site-packages/", ""),
    (r"\S*/lib/python3\.\d+/", ""),
]


def screen(program: Any) -> str:
    """After a few calls as a user makes them: two alike, other values, another size."""
    torch.manual_seed(0)
    function, inputs = program.make()
    fast = pyjit.compile(
        function, options={"compare_with_eager": False, "fallback": "ignore"}
    )
    with torch.no_grad(), contextlib.redirect_stdout(io.StringIO()):
        for which in ("first", "first", "other", "shape"):
            if given := inputs(which):
                fast(*given[0], **given[1])
    return str(pyjit.explain(fast).report())


def settled(text: str) -> str:
    for pattern, instead in _VARYING:
        text = re.sub(pattern, instead, text)
    return text


def golden() -> dict[str, str]:
    if not SCREENS.exists():
        return {}
    parts = re.split(r"(?m)^== (\S+)\n", SCREENS.read_text())[1:]
    return {name: text.strip("\n") for name, text in zip(parts[::2], parts[1::2])}


@pytest.fixture(scope="module")
def programs() -> dict[str, Any]:
    """With what a process loads once: the first look at a library's operator is a graph break of its own."""
    import torchvision.ops

    assert torchvision.ops.nms and torch.ops.torchvision.nms
    return {p.name: p for p in load(["idioms", "state", "modules"])}


@pytest.mark.skipif(
    sys.version_info[:2] != (3, 12), reason="another CPython has other bytecode"
)
@pytest.mark.parametrize("name", PROGRAMS)
def test_screen(name: str, programs: dict[str, Any], monkeypatch: Any) -> None:
    monkeypatch.chdir(ROOT)  # reports name files from there
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        text = screen(programs[name])
    lines = text.splitlines()
    assert len(lines) <= MOST_LINES and max(map(len, lines)) <= WIDTH
    # Each block has its remedy, whole, and names a section of the page.
    blocks = re.split(r"(?m)^  \[\d+\] ", text)[1:]
    for block in blocks:
        assert "why: " in block and "docs/GraphBreaks.md#" in block, block
        told = " ".join(block.partition("do: ")[2].split())
        assert any(told.startswith(entry.remedy) for entry in ENTRIES.values()), block
    if os.environ.get("PYJIT_UPDATE_SCREENS"):
        screens = golden() | {name: settled(text)}
        SCREENS.parent.mkdir(exist_ok=True)
        SCREENS.write_text(
            "".join(f"== {n}\n{screens[n]}\n\n" for n in PROGRAMS if n in screens)
        )
    assert settled(text) == golden()[name]


def test_nothing_else_is_golden() -> None:
    assert list(golden()) == PROGRAMS
