# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compiles functions on tensors for the GPU, and runs their schedules on the CPU."""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch

LIBRARY = "test-libs/pyjit_test_ptx.so"
CHIPS = ("sm_80", "sm_90", "sm_100")
PTXAS = shutil.which("ptxas") or shutil.which("ptxas", path="/usr/local/cuda/bin")

DTYPES = {
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "f32": torch.float32,
    "f64": torch.float64,
    "i1": torch.bool,
    "i8": torch.int8,
    "ui8": torch.uint8,
    "i16": torch.int16,
    "i32": torch.int32,
    "i64": torch.int64,
}
NAMES = {dtype: name for name, dtype in DTYPES.items()}


def tensor_type(t: torch.Tensor) -> str:
    """The MLIR type of a tensor, its strides included if they are not row-major."""
    shape = "".join(f"{n}x" for n in t.shape)
    strides = "" if t.is_contiguous() else f", #tssa.strides<{list(t.stride())}>"
    return f"tensor<{shape}{NAMES[t.dtype]}{strides}>"


def evaluate(expression: str, symbols: Sequence[int]) -> int:
    """The value of an affine expression over symbols."""
    names = {f"s{i}": value for i, value in enumerate(symbols)}
    # The one operator that Python has no word for, of two words or a bracket.
    operand = r"(?:\w+|\((?:[^()]|\([^()]*\))*\))"
    ceiling = re.compile(rf"({operand}) ceildiv ({operand})")
    while ceiling.search(expression):
        expression = ceiling.sub(r"(-(-(\1) // (\2)))", expression, count=1)
    return eval(expression.replace("floordiv", "//").replace("mod", "%"), {}, names)


def empty(type_text: str, symbols: Sequence[int] = ()) -> torch.Tensor:
    """A tensor of an MLIR type, filled with what no test expects."""
    match = re.match(
        r"tensor<((?:(?:\d+|\?)x)*)(\w+)(?:, #tssa\.(strides|layout)<(.*)>)?>",
        type_text,
    )
    assert match is not None, type_text
    shape = match[1].split("x")[:-1]
    dtype = DTYPES[match[2]]
    lists = re.findall(r"\[(.*?)\]", match[4] or "")
    numbers = [[evaluate(n, symbols) for n in text.split(",") if n] for text in lists]
    if match[3] is None:
        result = torch.empty([int(n) for n in shape], dtype=dtype)
    elif match[3] == "strides":
        result = torch.empty_strided([int(n) for n in shape], numbers[0], dtype=dtype)
    else:
        result = torch.empty_strided(*numbers, dtype=dtype)
    if result.numel():
        result.fill_(float("nan") if dtype.is_floating_point else 77)
    return result


@dataclass
class Kernel:
    """How a kernel is launched."""

    name: str
    grid: str
    block: int
    shared: int
    alignment: list[int]
    indirect: list[bool]
    schedule: str
    symbols: list[int]
    cluster: int


@dataclass
class Program:
    """The kernels of one module, and how its function `main` calls them."""

    build: Path
    text: str
    chip: str = "sm_90"
    simulate: bool = True
    schedule: str = ""
    # Symbols are given by the addresses of their values, and launches have more blocks than they need.
    device_sizes: bool = False
    kernels: dict[str, Kernel] = field(default_factory=dict)
    inputs: list[int] = field(default_factory=list)
    types: dict[int, str] = field(default_factory=dict)
    # Kernels by name and views by their offset, with operands and results.
    calls: list[tuple[str, list[int], list[int]]] = field(default_factory=list)
    views: set[int] = field(default_factory=set)
    returns: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        lib = self._lib = ctypes.CDLL(str(self.build / LIBRARY))
        lib.pyjit_ptx_compile.restype = ctypes.c_void_p
        for name in ("error", "text", "kernels"):
            function = getattr(lib, f"pyjit_ptx_{name}")
            function.restype = ctypes.c_char_p
            function.argtypes = [ctypes.c_void_p]
        lib.pyjit_ptx_simulate.restype = ctypes.c_char_p
        lib.pyjit_ptx_simulate.argtypes = [
            ctypes.c_void_p,
            ctypes.c_char_p,
            ctypes.c_void_p,
            ctypes.c_uint,
            ctypes.c_uint,
            ctypes.c_uint,
        ]
        lib.pyjit_ptx_free.argtypes = [ctypes.c_void_p]
        self._handle = lib.pyjit_ptx_compile(
            self.text.encode(),
            self.chip.encode(),
            self.schedule.encode(),
            int(self.device_sizes),
            int(self.simulate),
        )
        error = lib.pyjit_ptx_error(self._handle)
        if error:
            raise ValueError(error.decode())
        self.ptx = lib.pyjit_ptx_text(self._handle).decode()
        for line in lib.pyjit_ptx_kernels(self._handle).decode().splitlines():
            kind, *rest = line.split("\t")
            if kind == "kernel":
                function, name, grid, block, shared, alignment, indirect, *more = rest
                self.kernels[function] = Kernel(
                    name,
                    grid,
                    int(block),
                    int(shared),
                    [int(n) for n in alignment.split(",")],
                    [c == "1" for c in indirect],
                    more[0],
                    [int(n) for n in more[1].split(",") if n],
                    int(more[2]),
                )
            elif kind in ("input", "value"):
                self.types[int(rest[0])] = rest[1]
                if kind == "input":
                    self.inputs.append(int(rest[0]))
            elif kind == "call":
                operands, results = (
                    [int(n) for n in part.split(",") if n] for part in rest[1:]
                )
                self.calls.append((rest[0], operands, results))
            elif kind == "view":
                self.calls.append((rest[2], [int(rest[1])], [int(rest[0])]))
                self.views.add(int(rest[0]))
            elif kind == "return":
                self.returns = [int(n) for n in rest[0].split(",") if n]
            else:
                raise ValueError(f"not in a kernel: {rest[0]}")

    def __del__(self) -> None:
        if getattr(self, "_handle", None):
            self._lib.pyjit_ptx_free(self._handle)

    def run(
        self, *tensors: torch.Tensor, symbols: Sequence[int] = ()
    ) -> list[torch.Tensor]:
        """Calls `main`, with the GPU's threads simulated."""
        values = dict(zip(self.inputs, tensors, strict=True))
        for function, operands, results in self.calls:
            for number in results:
                values[number] = empty(self.types[number], symbols)
            if results[0] in self.views:
                shown, source = values[results[0]], values[operands[0]]
                start = source.storage_offset() + evaluate(function, symbols)
                values[results[0]] = source.as_strided(
                    shown.shape, shown.stride(), start
                )
                continue
            kernel = self.kernels[function]
            self.launch(kernel, [values[n] for n in operands + results], symbols)
        return [values[n] for n in self.returns]

    def launch(
        self,
        kernel: Kernel,
        buffers: Sequence[torch.Tensor],
        symbols: Sequence[int] = (),
    ) -> None:
        """Runs one kernel on the tensors' memory."""
        grid = evaluate(kernel.grid, symbols)
        if self.device_sizes and not kernel.grid.isdigit():
            grid += 3 * kernel.cluster
        if grid == 0:
            return
        pointers = [t.data_ptr() for t in buffers]
        for pointer, alignment in zip(pointers, kernel.alignment, strict=True):
            assert pointer % alignment == 0
        taken = [int(symbols[number]) for number in kernel.symbols]
        if self.device_sizes:
            words = (ctypes.c_int64 * len(taken))(*taken)
            taken = [ctypes.addressof(words) + 8 * i for i in range(len(taken))]
        table = (ctypes.c_void_p * (len(pointers) + len(taken)))(*pointers, *taken)
        for i, indirect in enumerate(kernel.indirect):
            if indirect:
                slot = (ctypes.c_void_p * 1)(pointers[i])
                table[i] = ctypes.addressof(slot)
                setattr(table, f"kept_{i}", slot)
        error = self._lib.pyjit_ptx_simulate(
            self._handle,
            kernel.name.encode(),
            table,
            grid,
            kernel.cluster,
            kernel.block,
        )
        if error:
            raise AssertionError(error.decode())


def assemble(ptx: str, chip: str, may_spill: bool = False) -> list[str]:
    """What ptxas objects to in any of the modules: errors, and spilled registers."""
    return [
        complaint
        for module in re.split(r"^(?=\.version)", ptx, flags=re.MULTILINE)[1:]
        for complaint in assemble_module(module, chip, may_spill)
    ]


def assemble_module(ptx: str, chip: str, may_spill: bool) -> list[str]:
    assert PTXAS is not None
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "kernels.ptx"
        source.write_text(ptx)
        done = subprocess.run(
            [
                PTXAS,
                "-v",
                f"-arch={chip}",
                str(source),
                "-o",
                str(Path(folder) / "out"),
            ],
            capture_output=True,
            text=True,
            check=False,
        )
    report = done.stdout + done.stderr
    if done.returncode != 0:
        return [report]
    if may_spill:
        return []
    spills = re.findall(r"(\d+) bytes spill (?:stores|loads)", report)
    return [report] if any(int(n) for n in spills) else []
