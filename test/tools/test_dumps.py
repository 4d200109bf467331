# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Every dump runs, and every stage composes: what PYJIT_DUMP_DIR writes is what the tools make and run."""

from __future__ import annotations

import json
import shlex
import subprocess
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyjit
import pytest
import torch
import torch.nn.functional as F
from pyjit._settings import DEPTHS
from safetensors import safe_open

ON_HOST = ["trace", "frontend", "library", "fuse", "x86"]
ON_DEVICE = ["trace", "frontend", "library", "fuse", "cudagraph", "x86"]


class Encoder(torch.nn.Module):
    """Packed weights, a norm, attention, a buffer and a number that differs between calls."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = torch.nn.MultiheadAttention(16, 2, batch_first=True)
        self.norm = torch.nn.LayerNorm(16)
        self.layers = torch.nn.ModuleList(torch.nn.Linear(16, 16) for _ in range(2))
        self.register_buffer("shift", torch.randn(16))

    def forward(self, x: torch.Tensor, scale: float = 2.0) -> tuple[torch.Tensor, ...]:
        y = self.norm(x + self.attention(x, x, x, need_weights=False)[0])
        for layer in self.layers:
            y = F.gelu(layer(y))
        return y * scale + self.shift, y.mean(1)


class Images(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = torch.nn.Conv2d(3, 8, 3, padding=1)
        self.norm = torch.nn.BatchNorm2d(8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.max_pool2d(torch.relu(self.norm(self.stem(x))), 2).flatten(1)


def written(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    z = x.t().contiguous()
    z[:, 1] = y * 2
    z[0] += torch.tensor(3.0)
    return torch.softmax(z, 0)


def sizes(x: torch.Tensor) -> torch.Tensor:
    return x.reshape(-1)[: x.shape[0]] * x.shape[1]


def kinds(x: torch.Tensor, mask: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    return torch.where(mask, x.to(torch.bfloat16), x.new_zeros(())).float()[index]


def make(seed: int, *shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


PROGRAMS: dict[str, tuple[Callable[[], Any], list[tuple]]] = {
    "encoder": (
        lambda: Encoder().eval(),
        [(make(0, 2, 5, 16),), (make(1, 2, 5, 16), 3.5), (make(2, 2, 7, 16), 1.5)],
    ),
    "images": (lambda: Images().eval(), [(make(3, 2, 3, 8, 8),)]),
    "written": (lambda: written, [(make(4, 4, 6), make(5, 6))]),
    "sizes": (lambda: sizes, [(make(6, 4, 3),), (make(7, 5, 6),)]),
    "kinds": (
        lambda: kinds,
        [(make(8, 6, 3), make(9, 6, 3) > 0, torch.tensor([4, 0, 5]))],
    ),
}


@pytest.fixture(autouse=True)
def no_grad() -> Any:
    torch.manual_seed(0)
    with torch.no_grad():
        yield


def dump(folder: Path, program: Any, calls: list[tuple], **options: Any) -> list[dict]:
    """Makes the calls, and the entries of the manifest that come of it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYJIT_DUMP_DIR", str(folder))
        fast = pyjit.compile(
            program, options={"compare_with_eager": False, "strict": True, **options}
        )
        for call in calls:
            fast(*call)
    return json.loads((folder / "manifest.json").read_text())


def run(bin_dir: Path, folder: Path, command: str, *more: str) -> str:
    """A command of the manifest."""
    tool, *arguments = shlex.split(command)
    done = subprocess.run(
        [bin_dir / tool, *arguments, *more],
        cwd=folder,
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, f"{command}:\n{done.stderr}"
    return done.stdout


def check(
    bin_dir: Path, folder: Path, entry: dict, want: Any, names: list[str]
) -> None:
    assert [stage["stage"] for stage in entry["stages"]] == names
    wanted = list(want) if isinstance(want, tuple) else [want]
    for stage in entry["stages"]:
        as_read = run(bin_dir, folder, stage["verify"])
        if "make" in stage:
            assert run(bin_dir, folder, stage["make"]) == as_read, stage["make"]
        run(bin_dir, folder, stage["run"], f"--save={folder}/got")
        for i, value in enumerate(wanted):
            got = torch.from_numpy(np.load(folder / f"got{i}.npy"))
            torch.testing.assert_close(
                got, value, rtol=2e-5, atol=2e-6, msg=lambda m, s=stage: f"{s}: {m}"
            )


@pytest.mark.parametrize("simulated", [False, True])
@pytest.mark.parametrize("name", PROGRAMS)
def test_each_dump_runs(
    name: str, simulated: bool, tmp_path: Path, bin_dir: Path
) -> None:
    build, calls = PROGRAMS[name]
    program = build()
    entries = dump(tmp_path, program, calls, simulated_device=simulated)
    assert len(entries) == len(calls)
    for entry, call in zip(entries, calls):
        stages = ON_DEVICE if simulated else ON_HOST
        check(bin_dir, tmp_path, entry, program(*call), stages)


def test_whole_pipeline(tmp_path: Path, bin_dir: Path) -> None:
    """The stages one by one, and the pipeline that has them all, make the engine's program."""
    entry, *_ = dump(tmp_path, Encoder().eval(), [(make(0, 2, 5, 16),)])
    trace, *_, last = entry["stages"]
    whole = run(bin_dir, tmp_path, f"pyjit-opt {trace['file']} --pyjit-cpu")
    assert whole == run(bin_dir, tmp_path, last["verify"])


def test_options_are_told(tmp_path: Path, bin_dir: Path) -> None:
    program, x = Encoder().eval(), make(0, 2, 5, 16)
    entry, *_ = dump(tmp_path, program, [(x,)], eager_rounding=True)
    made = {stage["stage"]: stage.get("make", "") for stage in entry["stages"]}
    assert made["library"].endswith('--pyjit-library="eager-rounding"')
    check(bin_dir, tmp_path, entry, program(x), ON_HOST)


@pytest.mark.parametrize("depth", DEPTHS)
def test_depths_are_told(depth: str, tmp_path: Path, bin_dir: Path) -> None:
    """A dump of a program compiled less far says so, and each can be run to any depth."""
    program, x = Encoder().eval(), make(0, 2, 5, 16)
    entry, *_ = dump(tmp_path, program, [(x,)], depth=depth)
    made = {stage["stage"]: stage.get("make", "") for stage in entry["stages"]}
    option = "" if depth == "fusion" else f'="depth={depth}"'
    assert made["library"].endswith(f"--pyjit-library{option}")
    assert made["fuse"].endswith(f"--pyjit-fuse{option}")
    check(bin_dir, tmp_path, entry, program(x), ON_HOST)
    frontend = entry["stages"][1]["file"]
    saved = tmp_path / f"at-{depth}-"
    command = f"pyjit-run {frontend} --inputs={entry['inputs']} --depth={depth} --save={saved}"
    run(bin_dir, tmp_path, command)
    for index, expected in enumerate(program(x)):
        given = torch.from_numpy(np.load(f"{saved}{index}.npy"))
        torch.testing.assert_close(given, expected)


def test_names_of_inputs(tmp_path: Path) -> None:
    program = Encoder().eval()
    calls = PROGRAMS["encoder"][1]
    entries, x = dump(tmp_path, program, calls), calls[2][0]
    with safe_open(tmp_path / entries[2]["inputs"], "pt") as file:
        held = set(file.keys())
        assert torch.equal(file.get_tensor("x"), x)
        assert file.get_tensor("scale").item() == 1.5
        for name, value in program.named_parameters():
            path = "self." + name.replace("layers.0", "layers[0]").replace(
                "layers.1", "layers[1]"
            )
            assert torch.equal(file.get_tensor(path), value), path
        assert torch.equal(file.get_tensor("self.shift"), program.shift)
        order = json.loads(file.metadata()["pyjit_inputs"])
        assert set(order) == held and len(order) == len(held)


def test_inputs_of_a_segment(tmp_path: Path, bin_dir: Path) -> None:
    """Behind a graph break, what goes on has inputs, too: the locals of its frame."""

    def broken(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        z = torch.relu(x) + y
        print(end="")
        return z * 2 - x

    calls = [(make(0, 4, 4), make(1, 4, 4))] * 3
    entries = dump(tmp_path, broken, calls)
    assert any(" from line " in entry["function"] for entry in entries)
    for entry in entries:
        for stage in entry["stages"]:
            run(
                bin_dir, tmp_path, stage["run"], f"--save={tmp_path}/{entry['number']}-"
            )
        if " from line " in entry["function"]:
            got = torch.from_numpy(np.load(tmp_path / f"{entry['number']}-0.npy"))
            torch.testing.assert_close(got, broken(*calls[0]))


def test_backward_program(tmp_path: Path, bin_dir: Path) -> None:
    """In grad mode the main program runs with what it saves for the backward one."""
    layer = torch.nn.Linear(6, 6)

    def f(x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(layer(x)).sum()

    with torch.enable_grad():
        x = make(0, 4, 6)
        (entry,) = dump(tmp_path, f, [(x,)])
    check(bin_dir, tmp_path, entry, f(x), ON_HOST)


def test_a_call_that_guards_refuse_behind_it(tmp_path: Path) -> None:
    """Where the call changes what its guards read, the manifest says why there are no inputs."""
    counter = {"n": 0}

    def f(x: torch.Tensor) -> torch.Tensor:
        counter["n"] += 1
        return x * counter["n"]

    entry, *_ = dump(tmp_path, f, [(make(0, 3),)])
    assert "inputs" not in entry
    assert "guards" in entry["no_inputs"]


def test_nothing_is_kept(tmp_path: Path, monkeypatch: Any) -> None:
    """Dumping holds no argument longer than its call."""
    monkeypatch.setenv("PYJIT_DUMP_DIR", str(tmp_path))
    fast = pyjit.compile(sizes)
    x = make(0, 4, 4)
    fast(x)
    gone = weakref.ref(x)
    del x
    assert gone() is None
