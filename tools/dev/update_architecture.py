# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes the IR that docs/Architecture.md and examples/reading-ir show: each block is what the tools print now.

A block of a page follows a line ``<!-- live: NAME -->``. Run this with the project's Python
after a build; test/docs/test_architecture.py fails when a page and the tools disagree.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MODEL = ROOT / "docs/example/model.py"
SOFTMAX = ROOT / "examples/reading-ir/program.py"
COLUMNS = 120
GLUE = "\0"  # a space at which no line ends

SPECIALIZATION = [
    "--refgraph-annotate",
    "--refgraph-generate-guards",
    "--refgraph-generate-mock",
    "--refgraph-extract-graph",
]
# Of one CPU, wherever this runs: which matmuls are kernels differs between them.
LIBRARY = "--pyjit-library=cpu=x86-64-v3"


class Tools:
    """The built tools, each a function from text to text."""

    def __init__(self, bin_dir: Path) -> None:
        self.bin = bin_dir

    def run(self, tool: str, *args: str | Path, text: str = "") -> str:
        with tempfile.TemporaryDirectory() as folder:  # programs leave files
            done = subprocess.run(
                [self.bin.resolve() / tool, *args],
                input=text,
                capture_output=True,
                text=True,
                check=False,
                cwd=folder,
            )
        if done.returncode:
            raise SystemExit(f"update_architecture: {tool} failed:\n{done.stderr}")
        return done.stdout

    def opt(self, text: str, *passes: str) -> str:
        return self.run("pyjit-opt", *passes, text=text)


def lines(text: str, begin: str, *, keep: str = "", end: str = r"^  }$|^}$") -> str:
    """From the line that matches ``begin`` to one that matches ``end``, less two spaces.

    With ``keep`` only the lines that match it stay; an ellipsis stands for the others.
    """
    out: list[str] = []
    inside = False
    for line in text.splitlines():
        inside = inside or re.search(begin, line) is not None
        if not inside:
            continue
        last = re.search(end, line) is not None
        if not keep or last or not out or re.search(keep, line):
            out.append(line)
        elif out[-1].strip() != "…":
            out.append(re.match(" *", line).group() + "…")  # type: ignore[union-attr]
        if last:
            break
    if not out:
        raise SystemExit(f"update_architecture: nothing matches {begin!r}")
    indent = len(out[0]) - len(out[0].lstrip())
    return "\n".join(
        wrapped(line[indent:] if line[:indent].isspace() else line) for line in out
    )


def wrapped(line: str) -> str:
    """In lines that the page can show, none of which ends within a type."""
    further = re.match(" *", line).group() + "    "  # type: ignore[union-attr]
    type_ = re.compile(r"![\w.]+<[^<>]*(?:<[^<>]*>[^<>]*)*>|(?<!\w)tensor<[^<>]*>")
    joined = type_.sub(lambda match: match[0].replace(" ", GLUE), line)
    return textwrap.fill(
        joined,
        COLUMNS,
        subsequent_indent=further,
        break_long_words=False,
        break_on_hyphens=False,
    ).replace(GLUE, " ")


def architecture(tools: Tools) -> dict[str, str]:
    raw = tools.run("pyjit-trace", MODEL, "--function", "model", "-o", "-")
    trace = tools.opt(raw)
    specialization = tools.opt(trace, *SPECIALIZATION)
    functional = tools.opt(trace, "--pyjit-frontend")
    fused = tools.opt(functional, LIBRARY, "--pyjit-fuse")
    x86 = tools.opt(fused, "--x86-emit-kernels=vector-bits=256")
    cuda = tools.opt(trace.replace('"cpu"', '"cuda:0"'), "--pyjit-cuda")
    ptx = tools.run("pyjit-translate", "--kernels-to-ptx", "--chip=sm_90", text=cuda)
    return {
        "model": MODEL.read_text()
        .split("\n\n", 2)[2]
        .split("\n\nif __name__")[0]
        .strip(),
        "trace": lines(
            trace,
            "refgraph.trace",
            keep=r'arg\(0|item\("weight"|tensor_op|leave',
            end="^  }$",
        ),
        "guards": lines(
            specialization,
            "refgraph.guards",
            keep=r'item\("weight"|watch|arg\(0|check %\d+ type.*key|accept',
        ),
        "mock": lines(specialization, "refgraph.mock"),
        "handles": lines(
            tools.opt(specialization, "--convert-refgraph-to-tssa"),
            "func.func @model",
            keep="aten::(linear|fill)|tssa.view|tssa.store|return|%8 = ",
        ),
        "values": lines(functional, "func.func @model"),
        "calls": lines(fused, "func.func @model"),
        "kernel": lines(
            fused,
            "func.func private @kernel_0",
            keep="linalg|select|mulf|maximumf|return",
        ),
        "x86": lines(
            x86,
            "func.func @kernel_0",
            keep=r"scf.for|select|mulf|maximumf|llvm.store|^ *}|return",
            end="^    }$",
        ),
        "launch": lines(cuda, "cudagraph.program"),
        "ptx": lines(
            ptx,
            r"\.entry \w+_indirect",
            keep=r"reqntid|ld\.|st\.|selp|max|^}",
            end="^}",
        ),
    }


def reading_ir(tools: Tools) -> dict[str, str]:
    """A softmax before and after the stage that fuses."""
    trace = tools.run("pyjit-trace", SOFTMAX, "--function", "attention", "-o", "-")
    planned = tools.opt(trace, "--pyjit-frontend", LIBRARY)
    fused = tools.opt(planned, "--pyjit-fuse")
    return {
        "planned": lines(planned, "func.func @attention"),
        "fused": lines(fused, "func.func @attention"),
        "softmax": lines(
            fused,
            "func.func private @kernel_0",
            keep=r"linalg\.generic|maximumf|subf|math\.exp|addf|divf|return",
        ),
    }


PAGES = {
    "docs/Architecture.md": architecture,
    "examples/reading-ir/README.md": reading_ir,
}


def render(page: str, made: dict[str, str]) -> str:
    """The page with its blocks replaced."""

    def replace(match: re.Match[str]) -> str:
        name = match.group(2)
        if name not in made:
            raise SystemExit(f"update_architecture: no block is called {name}")
        return f"{match.group(1)}{made[name]}\n```"

    pattern = r"(<!-- live: (\w+) -->\n```\w*\n).*?\n?```"
    return re.sub(pattern, replace, page, flags=re.DOTALL)


def main() -> None:
    tools = Tools(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "build/bin")
    for name, blocks in PAGES.items():
        page = ROOT / name
        page.write_text(render(page.read_text(), blocks(tools)))


if __name__ == "__main__":
    main()
