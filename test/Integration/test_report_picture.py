# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The HTML report as a browser shows it: at two widths, in light and in dark mode."""

from __future__ import annotations

import contextlib
import io
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pyjit
import pytest
import torch
from Integration.harness import values
from torchvision.io import decode_png, read_file

BROWSER = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))),
    None,
)
pytestmark = pytest.mark.skipif(
    BROWSER is None, reason="no headless browser (Debian's package is chromium)"
)
WIDE, NARROW, HEIGHT = 1280, 500, 1600


def program(x: torch.Tensor) -> torch.Tensor:
    y = torch.relu(x) * 2
    print("shape", y.shape)
    return torch.softmax(y, -1) + len(str(y.tolist()))


@pytest.fixture(scope="module")
def page(tmp_path_factory: Any) -> Path:
    fast = pyjit.compile(program)
    with torch.no_grad(), contextlib.redirect_stdout(io.StringIO()):
        for rows in (4, 4, 4, 6):
            fast(values(rows, 8))
    file = tmp_path_factory.mktemp("report") / "report.html"
    pyjit.explain(fast).report().save(file)
    return file


def picture(page: Path, width: int, dark: bool) -> torch.Tensor:
    """Brightness by row and column, 0 to 1."""
    file = page.with_name(f"{width}-{'dark' if dark else 'light'}.png")
    assert BROWSER is not None
    subprocess.run(
        [
            BROWSER,
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--hide-scrollbars",
            f"--user-data-dir={page.parent / 'profile'}",
            f"--window-size={width},{HEIGHT}",
            # 0: dark, 1: light
            f"--blink-settings=preferredColorScheme={0 if dark else 1}",
            f"--screenshot={file}",
            page.as_uri(),
        ],
        check=True,
        capture_output=True,
        timeout=120,
    )
    return decode_png(read_file(str(file)))[:3].float().mean(0) / 255


@pytest.mark.parametrize("width", [WIDE, NARROW])
@pytest.mark.parametrize("dark", [False, True])
def test_page_is_readable(page: Path, width: int, dark: bool) -> None:
    shown = picture(page, width, dark)
    assert shown.shape == (HEIGHT, width)
    ground = shown.median().item()
    assert ground < 0.2 if dark else ground > 0.9, "the background follows the mode"
    ink = (shown - ground).abs() > 0.35
    assert 0.005 < ink.float().mean() < 0.3, "text stands out from the background"
    # Long lines scroll in boxes of their own: nothing of the page is cut off at its right.
    assert not ink[:, -8:].any() and not ink[:, :4].any()
