# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tests that need a CUDA device: `pytest -m gpu`. Without one they say so and are skipped."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
import torch


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    skip = pytest.mark.skip(reason="no CUDA device on this machine")
    for item in items:
        if "gpu" in item.path.parts:
            item.add_marker(pytest.mark.gpu)
            if not torch.cuda.is_available():
                item.add_marker(skip)


@pytest.fixture(autouse=True)
def context_survives() -> Iterator[None]:
    """A fault on the device ends its context: the tests after it would fail for nothing."""
    yield
    try:
        torch.cuda.synchronize()
    except RuntimeError as error:
        print(f"the device's context is lost: {error}", flush=True)
        if os.environ.get("PYTEST_XDIST_WORKER"):
            os._exit(66)  # a new worker takes over
        pytest.exit(f"the device's context is lost: {error}", returncode=66)
