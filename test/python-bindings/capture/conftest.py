# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the recorder's tests share."""

import gc
import os
import subprocess
from pathlib import Path

import pytest


def find_opt() -> Path | None:
    root = Path(__file__).resolve().parents[3]
    opt = Path(os.environ.get("PYJIT_OPT", root / "build/bin/pyjit-opt"))
    return opt if opt.exists() else None


@pytest.fixture(scope="session")
def recorder():
    import importlib.util

    import pyjit

    path = Path(pyjit.__file__).with_name("_capture.so")
    spec = importlib.util.spec_from_file_location("_capture", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Trace:
    def __init__(self, result, text, objects, reason):
        self.result = result
        self.text = text
        self.objects = objects
        self.reason = reason

    @property
    def ops(self) -> list[str]:
        """Names of the tensor operators, in order."""
        lines = [line for line in self.text.splitlines() if "tensor_op" in line]
        return [line.split('"')[1] for line in lines]

    def has(self, *parts: str) -> bool:
        """Whether one line of the trace holds all `parts`."""
        return any(
            all(part in line for part in parts) for line in self.text.splitlines()
        )


@pytest.fixture
def capture(recorder):
    def run(f, *args, **kwargs):
        # As pyjit.compile does: callbacks of the collector are not the program's.
        gc.disable()
        try:
            trace = Trace(*recorder.capture(f, args, kwargs, "f"))
        finally:
            gc.enable()
        opt = find_opt()
        if trace.text and opt:
            done = subprocess.run(
                [opt, "-o", "/dev/null"],
                check=False,
                input=trace.text,
                text=True,
                capture_output=True,
            )
            assert done.returncode == 0, done.stderr[:2000]
        return trace

    return run
