# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""PYJIT_DUMP_DIR: a numbered folder for each compilation, and a manifest of them."""

from __future__ import annotations

import contextlib
import json
import os
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import torch

from pyjit._errors import PyjitWarning
from pyjit._safetensors import save

if TYPE_CHECKING:
    from pyjit._guards import Guards
    from pyjit._settings import Settings

MANIFEST = "manifest.json"
INPUTS = "inputs.safetensors"


_VARIABLE = "PYJIT_DUMP_DIR"


def is_dumping() -> bool:
    """Whether the environment names a folder."""
    return bool(os.environ.get(_VARIABLE))


def dump_dir() -> Path | None:
    """The folder that the environment names. Raises ValueError where it cannot be written to."""
    value = os.environ.get(_VARIABLE)
    if not value:
        return None
    folder = Path(value)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / f".pyjit-{os.getpid()}"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise ValueError(
            f"PYJIT_DUMP_DIR: cannot write to {value!r}: {error.strerror or error}"
        ) from None
    return folder


class Dumps:
    """The files of one compilation."""

    def __init__(
        self, name: str = "", folder: str = "", settings: Settings | None = None
    ) -> None:
        self.name = name
        self.folder = folder
        self.settings = settings
        self.specializes_sizes = False
        self._inputs = ""
        self._no_inputs = "the guards do not accept the call after itself"

    @classmethod
    def next(cls, name: str, settings: Settings) -> Dumps:
        """For the next compilation; without a folder where nothing is dumped. Raises nothing: a call is on."""
        try:
            root = dump_dir()
            if root is None:
                return cls()
            number = 1 + sum(1 for entry in root.iterdir() if entry.is_dir())
            safe = "".join(c if c.isalnum() or c in "-_" else "_" for c in name)
            while True:
                folder = root / f"{number:04d}-{safe[:80]}"
                try:
                    folder.mkdir()
                    return cls(name, str(folder), settings)
                except FileExistsError:
                    number += 1
        except (ValueError, OSError) as error:
            # A filter that makes an error of it must not end a call that has had its effects.
            with contextlib.suppress(PyjitWarning):
                warnings.warn(PyjitWarning(f"pyjit: nothing is dumped: {error}"))
            return cls()

    def add_inputs(
        self, specialization: Any, guards: Guards, args: tuple, kwargs: dict[str, Any]
    ) -> None:
        """Writes what the graph takes for a call, under the program's names of it. A second tensor of one name
        gets a number."""
        tensors = specialization.inputs_of(args, kwargs)
        if tensors is None:
            return
        names = guards.input_names(specialization.input_registers())
        inputs: dict[str, torch.Tensor] = {}
        for name, tensor in zip(names, tensors, strict=True):
            number = 2
            unique = name
            while unique in inputs:
                unique = f"{name}#{number}"
                number += 1
            inputs[unique] = tensor
        try:
            save(
                Path(self.folder) / INPUTS,
                inputs,
                {"pyjit_inputs": json.dumps(list(inputs))},
            )
            self._inputs = INPUTS
        except (ValueError, OSError) as error:
            self._no_inputs = str(error)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: object, error: BaseException | None, trace: object
    ) -> None:
        # The folder may have gone away: the call goes on.
        with contextlib.suppress(OSError):
            self._note(str(error or ""))

    def _note(self, error: str) -> None:
        """Adds the compilation to the manifest, with commands that make each stage's file of the one before and
        run it. They are for a shell in the manifest's folder."""
        if not self.folder:
            return
        folder = Path(self.folder)
        files = sorted(
            (file for file in folder.iterdir() if file.suffix == ".mlir"),
            key=lambda file: file.stat().st_mtime_ns,
        )
        entry: dict[str, Any] = {
            "number": int(folder.name.split("-", 1)[0]),
            "function": self.name,
            "folder": folder.name,
            "stages": [
                self._stage(file, before) for before, file in zip([None, *files], files)
            ],
        }
        if self._inputs:
            entry["inputs"] = f"{folder.name}/{self._inputs}"
        else:
            entry["no_inputs"] = self._no_inputs
        if error:
            entry["error"] = error
        manifest = folder.parent / MANIFEST
        known = json.loads(manifest.read_text()) if manifest.exists() else []
        manifest.write_text(json.dumps([*known, entry], indent=1) + "\n")

    def _options(self, stage: str) -> str:
        """What pyjit-opt's pipeline of a stage takes to make what the engine makes."""
        assert self.settings is not None
        chosen = {
            "frontend": [
                *(["specialize-sizes"] if self.specializes_sizes else []),
                *(["accelerator=cpu"] if self.settings.simulated_device else []),
            ],
            "library": ["eager-rounding"] if self.settings.eager_rounding else [],
        }
        if stage in ("library", "fuse") and self.settings.depth != "fusion":
            chosen.setdefault(stage, []).append(f"depth={self.settings.depth}")
        if stage in ("fuse", "ptx") and torch.cuda.is_available():
            major, minor = torch.cuda.get_device_capability()
            chosen[stage] = [f"gpu=sm_{major}{minor}"]
        return " ".join(chosen.get(stage, []))

    def _stage(self, file: Path, before: Path | None) -> dict[str, Any]:
        function, stage, _ = file.name.rsplit(".", 2)
        path = f"{file.parent.name}/{file.name}"
        described: dict[str, Any] = {
            "stage": stage,
            "file": path,
            "bytes": file.stat().st_size,
            "verify": f"pyjit-opt {path}",
        }
        if before is not None:
            chosen = self._options(stage)
            option = f"--pyjit-{stage}" + (f'="{chosen}"' if chosen else "")
            described["make"] = f"pyjit-opt {before.parent.name}/{before.name} {option}"
        inputs = f"{file.parent.name}/{self._inputs}" if self._inputs else "INPUTS"
        described["run"] = f"pyjit-run {path} --entry={function} --inputs={inputs}"
        return described
