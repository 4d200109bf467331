# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Cases of fuzz_ir.py: an input of a lit test, what became of it, and a tool with arguments that are chosen at random."""

from __future__ import annotations

import functools
import json
import os
import re
import shlex
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from random import Random

from ir_mutations import Words, mutate

LIMIT = 30.0  # seconds for a run
MEMORY = 6 << 30  # bytes of address space
ENDLESS = 124  # the status of a run that did not end

# MLIR's own passes that somebody runs in front of ours or behind them.
UPSTREAM = (
    "canonicalize",
    "cse",
    "symbol-dce",
    "inline",
    "sccp",
    "loop-invariant-code-motion",
    "strip-debuginfo",
)
OWN = re.compile(
    r"(refgraph-|tssa-|cudagraph-|fusion-|library-|pyjit-|x86-|ptx-|codegen-|batch-loops|verify-init)"
    r"|convert-.*(refgraph|tssa)"
)
STAGES = (
    "pyjit-frontend",
    "pyjit-library",
    "pyjit-fuse",
    "pyjit-cudagraph",
    "pyjit-x86",
    "pyjit-ptx",
)
NUMBERS = (
    "0",
    "1",
    "2",
    "3",
    "7",
    "64",
    "256",
    "512",
    "1000000",
    "-1",
    "4294967295",
    "9223372036854775807",
)
NAMES = {
    "cpu": ("host", "x86-64-v2", "x86-64-v3", "x86-64-v4"),
    "gpu": ("sm_90", "sm_80", "h200", "a100", "sm_70", "sm_100"),
    "depth": ("operators", "library", "kernels", "fusion"),
    "accelerator": ("cpu", "cuda:0"),
}
TOOLS = {
    "pyjit-opt": 88,
    "pyjit-run": 6,
    "pyjit-translate": 4,
    "pyjit-reduce": 1,
    "pyjit-lsp-server": 1,
}


@dataclass(frozen=True)
class Pass:
    name: str
    options: tuple[tuple[str, str], ...]  # name, kind of value ("" for a flag)


@dataclass(frozen=True)
class Chunk:
    """One input of a lit test, and the passes that its file asks for."""

    file: str
    text: str
    passes: tuple[str, ...]


@dataclass
class Case:
    number: int
    tool: str
    words: list[str]
    text: str
    story: str  # where the text comes from

    def command(self) -> str:
        return shlex.join([self.tool, *self.words])


def passes_of(help_text: str) -> list[Pass]:
    """The passes and pipelines of `pyjit-opt --help`, with their options."""
    found: list[tuple[str, list[tuple[str, str]]]] = []
    listed = help_text.split("Compiler passes to run")[1].split("Generic Options:")[0]
    for line in listed.splitlines():
        match = re.match(r"( +)--([\w-]+)(?:=<([\w-]+)>)?  +-", line)
        if match and len(match.group(1)) <= 6:
            found.append((match.group(2), []))
        elif match and found:
            found[-1][1].append((match.group(2), match.group(3) or ""))
    return [Pass(n, tuple(options)) for n, options in found if OWN.match(n)] + [
        Pass(n, ()) for n in UPSTREAM
    ]


def chunks_of(root: Path) -> list[Chunk]:
    """The inputs of all lit tests and examples, without their comments."""
    found = []
    for file in sorted(
        [*root.glob("test/**/*.mlir"), *root.glob("examples/**/*.mlir")]
    ):
        text = file.read_text()
        words = [
            word.replace('"', "")
            for run in re.findall(r"RUN:.*?pyjit-opt ([^|\n]*)", text)
            for word in re.findall(r"--?[a-z][\w-]*(?:=\"[^\"]*\"|=[\w=,-]+)?", run)
            if OWN.match(word.lstrip("-"))
        ]
        for part in re.split(r"^// -----.*$", text, flags=re.MULTILINE):
            plain = re.sub(r"^\s*//.*\n", "", part, flags=re.MULTILINE).strip()
            if plain:
                found.append(
                    Chunk(str(file.relative_to(root)), plain + "\n", tuple(words))
                )
    return found


class Tools:
    """Runs the tools on texts."""

    def __init__(self, bin_dir: Path, folder: Path) -> None:
        self.bin, self.folder = bin_dir, folder

    def run(
        self, tool: str, words: list[str], text: str
    ) -> subprocess.CompletedProcess[str]:
        """At the same address each time, so that a crash can be told from another one."""
        with tempfile.NamedTemporaryFile("wb", suffix=".mlir", dir=self.folder) as file:
            file.write(text.encode(errors="replace"))
            file.flush()
            asks = tool == "pyjit-lsp-server"
            process = subprocess.Popen(
                [
                    "prlimit",
                    f"--as={MEMORY}",
                    "setarch",
                    "-R",
                    self.bin / tool,
                    *([] if asks else [file.name]),
                    *words,
                ],
                stdin=open(file.name, "rb") if asks else subprocess.DEVNULL,  # noqa: SIM115
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=os.environ | {"LLVM_DISABLE_SYMBOLIZATION": "1"},
            )
            try:
                out, err = process.communicate(timeout=LIMIT)
            except subprocess.TimeoutExpired:
                process.kill()
                out, err = process.communicate()
                process.returncode = ENDLESS
        return subprocess.CompletedProcess(
            [],
            process.returncode,
            out.decode(errors="replace"),
            err.decode(errors="replace"),
        )


class Cases:
    """Numbered cases: the same number is the same case, as long as tests and passes are the same."""

    def __init__(self, tools: Tools, root: Path) -> None:
        self.tools = tools
        done = subprocess.run(
            [tools.bin / "pyjit-opt", "--help"],
            capture_output=True,
            text=True,
            check=True,
        )
        self.passes = passes_of(done.stdout)
        self.chunks = chunks_of(root)
        self.words = Words.of([chunk.text for chunk in self.chunks])

    def case(self, number: int) -> Case:
        rng = Random(number)
        chunk = rng.choice(self.chunks)
        text, story = self._prepare(chunk, rng)
        text, names = mutate(
            text, rng, self.words, rng.choice((0, 0, 1, 1, 1, 1, 1, 2, 2, 4))
        )
        story += "".join(f" ~{name}" for name in names)
        tool = rng.choices(list(TOOLS), weights=list(TOOLS.values()))[0]
        if tool == "pyjit-lsp-server":
            return Case(
                number, tool, ["-lit-test", "-log=error"], _requests(text, rng), story
            )
        words = {
            "pyjit-opt": lambda: self._chain(chunk, rng),
            "pyjit-run": lambda: _run_words(text, rng),
            "pyjit-translate": lambda: [
                rng.choice(
                    (
                        "--kernels-to-ptx",
                        "--specialization-to-text",
                        "--tssa-to-recipes",
                        "--tssa-to-views",
                    )
                )
            ],
            "pyjit-reduce": lambda: [
                "--test=/bin/false"
            ],  # the fault is in whatever is left
        }[tool]()
        return Case(number, tool, words, text, story)

    def _option(self, kind: str, name: str, rng: Random) -> str:
        absurd = rng.random() < 0.2
        if kind == "":
            return f"{name}=" + (
                "perhaps" if absurd else rng.choice(("true", "true", "false"))
            )
        if kind in ("uint", "long", "int", "ulong"):
            return f"{name}=" + rng.choice(
                ("-9", "x", "", "1e3") if absurd else NUMBERS
            )
        return f"{name}=" + rng.choice(
            ("", "absent", "sm_0") if absurd else NAMES.get(name, ("cpu",))
        )

    def _with_options(self, one: Pass, rng: Random) -> str:
        chosen = [
            self._option(kind, name, rng)
            for name, kind in one.options
            if rng.random() < 0.15
        ]
        return f"--{one.name}" + (f"={' '.join(chosen)}" if chosen else "")

    def _chain(self, chunk: Chunk, rng: Random) -> list[str]:
        """Passes as a user could try them: the test's own, stages, or anything behind anything."""
        kind = rng.random()
        if kind < 0.35 and chunk.passes:
            if rng.random() < 0.5:
                return [rng.choice(chunk.passes)]
            return list(chunk.passes[: rng.randrange(len(chunk.passes)) + 1])
        if kind < 0.45:
            begin = rng.randrange(len(STAGES))
            return [
                f"--{stage}" for stage in STAGES[begin : begin + rng.randrange(1, 4)]
            ]
        count = rng.choice((1, 1, 1, 1, 2, 2, 3))
        return [self._with_options(rng.choice(self.passes), rng) for _ in range(count)]

    @functools.lru_cache(maxsize=4096)  # noqa: B019
    def _behind(self, text: str, words: tuple[str, ...]) -> str | None:
        """The text as these passes leave it, if they do."""
        done = self.tools.run("pyjit-opt", [*words], text)
        return done.stdout if done.returncode == 0 else None

    def _prepare(self, chunk: Chunk, rng: Random) -> tuple[str, str]:
        text, story = chunk.text, chunk.file
        if rng.random() < 0.1:
            text = text.replace('"cpu"', '"cuda:0"')
        for _ in range(rng.choice((0, 0, 0, 1, 1, 2))):
            words = self._chain(chunk, rng)
            if changed := self._behind(text, tuple(words)):
                text, story = changed, f"{story} {shlex.join(words)}"
        form = rng.choice(
            ("", "", "--mlir-print-op-generic", "--mlir-print-local-scope")
        )
        if form and (changed := self._behind(text, (form,))):
            text, story = changed, f"{story} {form}"
        return text, story


def _run_words(text: str, rng: Random) -> list[str]:
    """What a launch program looks like: nothing runs, where what runs may be anything."""
    names = [*re.findall(r"@([\w$.-]+)", text), "absent"]
    words = ["--print-launch", f"--entry={rng.choice(names)}"]
    for name, values, often in (
        ("depth", NAMES["depth"], 0.3),
        ("device-launch", ("plain", "copy", "table", "update"), 0.2),
        ("chip", ("sm_90", "sm_80", "x"), 0.2),
    ):
        if rng.random() < often:
            words.append(f"--{name}={rng.choice(values)}")
    return words


def _requests(text: str, rng: Random) -> str:
    """An editor opens the text and asks here and there about it."""
    document = {"uri": "test:///case.mlir"}
    lines = text.splitlines() or [""]

    def place() -> dict[str, object]:
        line = rng.randrange(len(lines))
        return {"line": line, "character": rng.randrange(len(lines[line]) + 1)}

    asked: list[tuple[str, dict[str, object]]] = [
        (
            "initialize",
            {"processId": 1, "rootPath": "", "capabilities": {}, "trace": "off"},
        ),
        (
            "textDocument/didOpen",
            {
                "textDocument": document
                | {"languageId": "mlir", "version": 1, "text": text}
            },
        ),
    ]
    for method in (
        "hover",
        "definition",
        "references",
        "completion",
        "hover",
        "codeAction",
    ):
        begin = place()
        asked.append(
            (
                f"textDocument/{method}",
                {
                    "textDocument": document,
                    "position": begin,
                    "range": {"start": begin, "end": place()},
                }
                | {"context": {"includeDeclaration": True, "diagnostics": []}},
            )
        )
    asked += [("textDocument/didClose", {"textDocument": document}), ("shutdown", {})]
    written = [
        json.dumps(
            {"jsonrpc": "2.0", "method": method, "params": parameters}
            | ({} if "did" in method else {"id": i})
        )
        for i, (method, parameters) in enumerate(asked)
    ]
    return "\n// -----\n".join([*written, '{"jsonrpc":"2.0","method":"exit"}']) + "\n"
