#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Gives a wheel the manylinux tag that its extension really satisfies.

Reads the newest GLIBC version that the extension asks for, checks that it needs
only libraries that every machine with torch has, and rewrites the wheel's name,
WHEEL and RECORD. Exit status 1, with the reason, when the wheel may not be called
manylinux_2_36 or is over the size limit.
"""

from __future__ import annotations

import base64
import hashlib
import re
import subprocess
import sys
import zipfile
from pathlib import Path

TAG = "manylinux_2_36_x86_64"
NEWEST = (2, 36)
LIMIT_MB = 30
# What glibc and torch bring.
ALLOWED = re.compile(
    r"^(libc|libm|libdl|libpthread|librt|libgcc_s|libstdc\+\+|ld-linux-x86-64"
    r"|libtorch\w*|libc10|libz)\.so"
)


def examine(extension: Path) -> list[str]:
    problems = []
    dump = subprocess.run(
        ["objdump", "-p", extension], capture_output=True, text=True, check=True
    ).stdout
    for needed in re.findall(r"NEEDED\s+(\S+)", dump):
        if not ALLOWED.match(needed):
            problems.append(f"{extension.name} needs {needed}")
    versions = [(int(a), int(b)) for a, b in re.findall(r"GLIBC_(\d+)\.(\d+)", dump)]
    if versions and max(versions) > NEWEST:
        problems.append(f"{extension.name} needs GLIBC {max(versions)}")
    symbols = subprocess.run(
        ["nm", "-D", "--defined-only", extension],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split("\n")
    exported = [line.split()[-1] for line in symbols if line.strip()]
    foreign = [name for name in exported if not name.startswith("PyInit_")]
    if foreign:
        problems.append(
            f"{extension.name} exports {len(foreign)} symbols, such as {foreign[0]}"
        )
    return problems


def retag(wheel: Path) -> Path:
    name, version, python, abi, _ = wheel.stem.split("-")
    target = wheel.with_name(f"{name}-{version}-{python}-{abi}-{TAG}.whl")
    temporary = target.with_suffix(".part")
    info = f"{name}-{version}.dist-info"
    record = []
    with (
        zipfile.ZipFile(wheel) as old,
        zipfile.ZipFile(temporary, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as new,
    ):
        for entry in old.infolist():
            if entry.filename == f"{info}/RECORD":
                continue
            data = old.read(entry)
            if entry.filename == f"{info}/WHEEL":
                text = re.sub(
                    r"^Tag: .*$",
                    f"Tag: {python}-{abi}-{TAG}",
                    data.decode(),
                    flags=re.MULTILINE,
                )
                data = text.encode()
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest())
            record.append(
                f"{entry.filename},sha256={digest.rstrip(b'=').decode()},{len(data)}"
            )
            fresh = zipfile.ZipInfo(entry.filename, entry.date_time)
            fresh.external_attr = entry.external_attr
            fresh.compress_type = zipfile.ZIP_DEFLATED
            new.writestr(fresh, data, compresslevel=9)
        record.append(f"{info}/RECORD,,")
        new.writestr(f"{info}/RECORD", "\n".join(record) + "\n")
    wheel.unlink()
    temporary.rename(target)
    return target


def main() -> int:
    wheel = Path(sys.argv[1])
    problems = []
    import tempfile

    with tempfile.TemporaryDirectory() as folder, zipfile.ZipFile(wheel) as archive:
        extensions = [n for n in archive.namelist() if n.endswith(".so")]
        if not extensions:
            problems.append("the wheel has no extension module")
        for extension in extensions:
            problems += examine(Path(archive.extract(extension, folder)))
    wheel = retag(wheel)
    size = wheel.stat().st_size / 1e6
    print(f"{wheel.name}: {size:.1f} MB")
    if size > LIMIT_MB:
        problems.append(f"{wheel.name} has {size:.1f} MB, more than {LIMIT_MB}")
    for problem in problems:
        print(f"wheel: {problem}", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
