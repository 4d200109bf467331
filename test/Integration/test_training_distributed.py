# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""DistributedDataParallel of several processes on one host (gloo): buckets, hooks and `no_sync` behave as in eager."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch.distributed as dist
from Integration import distributed_stories

pytestmark = pytest.mark.skipif(
    not dist.is_available() or not dist.is_gloo_available(), reason="no gloo"
)


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def ends(processes: list[subprocess.Popen], seconds: float) -> None:
    """All have ended, or one has failed, for which the others wait in a collective."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        codes = [process.poll() for process in processes]
        if None not in codes or any(codes):
            break
        time.sleep(0.05)
    for process in processes:
        process.kill()


@pytest.mark.parametrize("size", [1, 2])
def test_processes(size: int, tmp_path: Path) -> None:
    given = [str(size), str(free_port())]
    # The package and the tests are found where this process finds them.
    path = os.pathsep.join(p for p in sys.path if p)
    outputs = [tmp_path / str(rank) for rank in range(size)]
    processes = []
    for rank, output in enumerate(outputs):
        with output.open("w") as file:
            processes.append(
                subprocess.Popen(
                    [sys.executable, distributed_stories.__file__, str(rank), *given],
                    env=os.environ | {"PYTHONPATH": path, "PYJIT_VERIFY": "0"},
                    stdout=file,
                    stderr=subprocess.STDOUT,
                )
            )
    ends(processes, 300)
    for process, output in zip(processes, outputs, strict=True):
        text = output.read_text()
        assert process.wait() in (0, -9), text[-3000:]
    for output in outputs:
        text = output.read_text()
        agree = text.count(": agrees")
        assert agree == 2 * len(distributed_stories.STORIES), text[-3000:]
