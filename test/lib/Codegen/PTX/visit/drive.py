# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Checks and times a pack on a GPU: torch for memory and truth, the driver by ctypes."""

from __future__ import annotations

import ctypes
import json
import lzma
import re
import sys
import time

import torch

DTYPES = {
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "f32": torch.float32,
    "f64": torch.float64,
    "i1": torch.bool,
    "i64": torch.int64,
}
cuda = ctypes.CDLL("libcuda.so.1")


def ok(code: int) -> None:
    if code != 0:
        text = ctypes.c_char_p()
        cuda.cuGetErrorString(code, ctypes.byref(text))
        raise RuntimeError((text.value or b"?").decode())


def make(shape: list[int], element: str) -> torch.Tensor:
    if element == "i1":
        return torch.rand(shape, device="cuda") > 0.5
    return torch.randn(shape, device="cuda", dtype=torch.float32).to(DTYPES[element])


def empty(text: str) -> torch.Tensor:
    match = re.match(r"tensor<((?:\d+x)*)(\w+)(?:, #tssa\.strides<\[(.*)\]>)?>", text)
    shape = [int(n) for n in match[1].split("x") if n]
    dtype = DTYPES[match[2]]
    if match[3] is None:
        return torch.full(shape, float("nan"), dtype=dtype, device="cuda")
    strides = [int(n) for n in match[3].split(",")]
    return torch.empty_strided(shape, strides, dtype=dtype, device="cuda").fill_(
        float("nan")
    )


class Variant:
    """A compiled program with its buffers; `launch` runs it."""

    def __init__(self, data: dict, inputs: list[torch.Tensor]) -> None:
        self.module = ctypes.c_void_p()
        ok(cuda.cuModuleLoadData(ctypes.byref(self.module), data["ptx"].encode()))
        values = dict(zip(data["inputs"], inputs))
        self.launches = []
        self.kept = []
        for function, operands, results in data["calls"]:
            for number in results:
                values[number] = empty(data["types"][str(number)])
            name, grid, block, shared, _, _ = data["kernels"][function]
            if grid == 0:
                continue
            handle = ctypes.c_void_p()
            ok(
                cuda.cuModuleGetFunction(
                    ctypes.byref(handle), self.module, name.encode()
                )
            )
            if shared > 48 << 10:
                ok(cuda.cuFuncSetAttribute(handle, 8, shared))
            pointers = [
                ctypes.c_void_p(values[n].data_ptr()) for n in [*operands, *results]
            ]
            params = (ctypes.c_void_p * len(pointers))(
                *(ctypes.addressof(p) for p in pointers)
            )
            self.kept += [pointers, params]
            self.launches.append((handle, grid, block, shared, params))
        self.values = values
        self.results = [values[n] for n in data["returns"]]

    def launch(self) -> None:
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        for handle, grid, block, shared, params in self.launches:
            ok(
                cuda.cuLaunchKernel(
                    handle, grid, 1, 1, block, 1, 1, shared, stream, params, None
                )
            )

    def close(self) -> None:
        cuda.cuModuleUnload(self.module)


def milliseconds(call) -> float:
    """Median of rounds of several calls each, by device events."""
    for _ in range(3):
        call()
    rounds = []
    for _ in range(9):
        start, end = torch.cuda.Event(True), torch.cuda.Event(True)
        start.record()
        for _ in range(8):
            call()
        end.record()
        end.synchronize()
        rounds.append(start.elapsed_time(end) / 8)
    return sorted(rounds)[4]


def inductor(expression: str, a: list[torch.Tensor]) -> float:
    """The time of the same under torch.compile."""
    # The expression is the function's own code: an eval inside would run in eager.
    torch._dynamo.reset()
    function = torch.compile(
        eval(f"lambda *a: {expression}", {"torch": torch}),
        fullgraph=True,
        dynamic=False,
    )
    return milliseconds(lambda: function(*a))


def worst(got: torch.Tensor, wanted: torch.Tensor, tolerance: float) -> float:
    """The largest error over what is allowed."""
    if wanted.numel() == 0:
        return 0.0
    if not wanted.dtype.is_floating_point:
        return 0.0 if torch.equal(got, wanted) else float("inf")
    g, w = got.double(), wanted.double()
    if not torch.equal(g.isnan(), w.isnan()):
        return float("inf")
    allowed = tolerance * (w.abs() + w.abs().max())
    return ((g - w).abs() / allowed.clamp_min(1e-300)).nan_to_num().max().item()


def copy_speed() -> float:
    """Bytes read and written by a device copy, in TB/s."""
    x = make([1 << 26], "f16")
    y = torch.empty_like(x)
    return 2 * x.numel() * 2 / milliseconds(lambda: y.copy_(x)) / 1e9


def main() -> None:
    torch.manual_seed(0)
    torch.zeros(1, device="cuda")
    opener = lzma.open if sys.argv[1].endswith(".xz") else open
    with opener(sys.argv[1], "rt") as file:
        pack = json.load(file)
    compare = "--inductor" in sys.argv
    started = time.time()
    wrong = checked = 0
    print(f"copy {copy_speed():.2f} TB/s")
    for case in pack:
        a = [make(shape, element) for shape, element in case["inputs"]]
        wide = [
            t.double() if t.dtype.is_floating_point and not case["timed"] else t
            for t in a
        ]
        wanted = eval(case["eager"], {"torch": torch, "a": wide})
        wanted = list(wanted) if isinstance(wanted, tuple) else [wanted]
        best = []
        for data in case["variants"]:
            checked += 1
            try:
                variant = Variant(data, a)
                variant.launch()
                torch.cuda.synchronize()
            except RuntimeError as error:
                print("FAILED", case["name"], data["label"], error)
                wrong += 1
                continue
            errors = [
                worst(g, w.to(g.dtype), case["tolerance"])
                for g, w in zip(variant.results, wanted)
            ]
            if max(errors) > 1:
                wrong += 1
                print("WRONG", case["name"], data["label"], errors)
            if case["timed"]:
                ms = milliseconds(variant.launch)
                best.append((case["bytes"] / ms / 1e9, data["label"]))
            variant.close()
        if not case["timed"]:
            continue
        line = f"{case['name']}: " + " | ".join(
            f"{speed:.2f} {re.sub('[^a-z0-9,;]', '', label.replace('family', '').replace('resident', 'r'))}"
            for speed, label in best[:1] + sorted(best[1:], reverse=True)
        )
        if compare:
            line += (
                f" | inductor {case['bytes'] / inductor(case['eager'], a) / 1e9:.2f}"
            )
        print(line, flush=True)
    print(f"{checked} programs, {wrong} wrong, {time.time() - started:.0f} s")


if __name__ == "__main__":
    main()
