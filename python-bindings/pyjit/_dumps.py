"""PYJIT_DUMP_DIR: a numbered folder for each compilation, and a manifest of them."""

from __future__ import annotations

import contextlib
import json
import os
import warnings
from pathlib import Path
from typing import Any, Self

from pyjit._errors import PyjitWarning

MANIFEST = "manifest.json"


def dump_dir() -> Path | None:
    """The folder that the environment names. Raises ValueError where it cannot be written to."""
    value = os.environ.get("PYJIT_DUMP_DIR")
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

    def __init__(self, name: str = "", folder: str = "") -> None:
        self.name = name
        self.folder = folder

    @classmethod
    def next(cls, name: str) -> Dumps:
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
                    return cls(name, str(folder))
                except FileExistsError:
                    number += 1
        except (ValueError, OSError) as error:
            # A filter that makes an error of it must not end a call that has had its effects.
            with contextlib.suppress(PyjitWarning):
                warnings.warn(PyjitWarning(f"pyjit: nothing is dumped: {error}"))
            return cls()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: object, error: BaseException | None, trace: object
    ) -> None:
        try:
            self._note(str(error or ""))
        except OSError:  # the folder went away: the call goes on
            pass

    def _note(self, error: str) -> None:
        """Adds the compilation to the manifest, with a command that runs each stage's file again."""
        if not self.folder:
            return
        folder = Path(self.folder)
        files = sorted(folder.iterdir(), key=lambda file: file.stat().st_mtime_ns)
        entry: dict[str, Any] = {
            "number": int(folder.name.split("-", 1)[0]),
            "function": self.name,
            "folder": folder.name,
            "stages": [
                {
                    "stage": file.suffixes[-2].lstrip("."),
                    "file": f"{folder.name}/{file.name}",
                    "bytes": file.stat().st_size,
                    "verify": f"pyjit-opt {folder.name}/{file.name}",
                    # An --arg for each input, in order.
                    "run": f"pyjit-run {folder.name}/{file.name} --arg=INPUT.npy",
                }
                for file in files
                if len(file.suffixes) > 1
            ],
        }
        if error:
            entry["error"] = error
        manifest = folder.parent / MANIFEST
        known = json.loads(manifest.read_text()) if manifest.exists() else []
        manifest.write_text(json.dumps([*known, entry], indent=1) + "\n")
