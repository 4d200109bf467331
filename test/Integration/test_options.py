# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The vocabulary of torch.compile, options and the environment: what is accepted, what it does, what is refused."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pyjit
import pytest
import torch
from Integration.harness import values
from pyjit._api import engine_of
from pyjit._C import ReasonKind
from pyjit._settings import LOG_TOPICS, MODES, Settings


@pytest.fixture(autouse=True)
def no_grad() -> Any:
    with torch.no_grad():
        yield


def doubled(x: torch.Tensor) -> torch.Tensor:
    return torch.relu(x) * 2


# ---- Arguments ----------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", [None, *MODES])
def test_modes(mode: Any) -> None:
    fast = pyjit.compile(doubled, mode=mode)
    for _ in range(3):
        assert torch.equal(fast(values(4)), doubled(values(4)))
    assert pyjit.stats(fast).hits == 2
    plain = mode == "max-autotune-no-cudagraphs"
    assert engine_of(fast, "test").settings.launch == ("plain" if plain else None)


def test_options_come_before_the_mode() -> None:
    fast = pyjit.compile(
        doubled, mode="max-autotune-no-cudagraphs", options={"launch": "update"}
    )
    assert engine_of(fast, "test").settings.launch == "update"


@pytest.mark.parametrize(
    ("dynamic", "graphs"),
    # From the first call on, from the second size on, never.
    [(True, 1), (None, 2), (False, 4)],
)
def test_dynamic(dynamic: Any, graphs: int) -> None:
    fast = pyjit.compile(doubled, dynamic=dynamic)
    for rows in (4, 6, 7, 9):
        x = values(rows, 3)
        torch.testing.assert_close(fast(x), doubled(x))
    assert pyjit.stats(fast).graphs == graphs


@pytest.mark.parametrize(
    "mark",
    [
        pyjit.mark_dynamic,
        torch._dynamo.mark_dynamic,
        torch._dynamo.maybe_mark_dynamic,
    ],
)
def test_marked_sizes_are_symbols_from_the_first_call_on(mark: Any) -> None:
    fast = pyjit.compile(doubled)
    for rows in (4, 6, 7):
        x = values(rows, 3)
        mark(x, 0)
        assert torch.equal(fast(x), doubled(x))
    assert pyjit.stats(fast).graphs == 1
    # The other one differs for the first time, then for the second.
    for columns in (4, 5):
        assert torch.equal(fast(values(8, columns)), doubled(values(8, columns)))
    assert pyjit.stats(fast).graphs == 2


def test_marks_and_dynamic() -> None:
    never = pyjit.compile(doubled, dynamic=False)
    always = pyjit.compile(doubled, dynamic=True)
    for rows in (4, 6, 7):
        x, y = values(rows, 3), values(rows, 3)
        pyjit.mark_dynamic(x, [0, -1])
        pyjit.mark_static(y, 0)
        assert torch.equal(never(x), doubled(x))
        assert torch.equal(always(y), doubled(y))
    assert pyjit.stats(never).graphs == pyjit.stats(always).graphs == 3
    for columns in (5, 6):
        y = values(7, columns)
        pyjit.mark_static(y, 0)
        assert torch.equal(always(y), doubled(y))
    assert pyjit.stats(always).graphs == 3, "the other size is a symbol"


@pytest.mark.parametrize(
    ("tensor", "dims", "error"),
    [
        ("x", 0, TypeError),
        (torch.ones(2), 1, IndexError),
        (torch.ones(2), [0, -2], IndexError),
    ],
)
def test_marks_of_what_has_no_such_size(tensor: Any, dims: Any, error: type) -> None:
    for mark in (pyjit.mark_dynamic, pyjit.mark_static):
        with pytest.raises(error):
            mark(tensor, dims)


def test_dynamic_sizes_of_keyword_arguments_and_several_tensors() -> None:
    def f(x: torch.Tensor, *, y: torch.Tensor) -> torch.Tensor:
        return x @ y + 1

    fast = pyjit.compile(f, dynamic=True)
    for n, m, k in ((3, 4, 5), (6, 4, 2), (7, 3, 9)):
        x, y = values(n, m), values(m, k)
        torch.testing.assert_close(fast(x, y=y), f(x, y=y))
    assert pyjit.stats(fast).graphs == 1


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"dynamic": 1}, ValueError, "True, False or None"),
        ({"dynamic": "auto"}, ValueError, "True, False or None"),
        ({"mode": "fast"}, ValueError, "reduce-overhead"),
        ({"backend": "inductor"}, ValueError, "'pyjit'"),
        ({"options": []}, TypeError, "a dict"),
        ({"options": {"recompile_limit": 0}}, ValueError, "from 1 to 4096"),
        ({"options": {"recompile_limit": -3}}, ValueError, "from 1 to 4096"),
        ({"options": {"max_records": 5000}}, ValueError, "from 1 to 4096"),
        ({"options": {"recompile_limit": 2.0}}, TypeError, "from 1 to 4096"),
        ({"options": {"recompile_limit": True}}, TypeError, "from 1 to 4096"),
        ({"options": {"launch": "graph"}}, ValueError, "plain, copy"),
        ({"options": {"launch": 3}}, TypeError, "plain, copy"),
        ({"options": {"fallback": "no"}}, ValueError, "warn, ignore, raise"),
        ({"options": {"strict": 1}}, TypeError, "takes bool"),
        ({"options": {"speed": 1}}, ValueError, "recompile_limit"),
        ({"options": {"dynamic": True}}, ValueError, "unknown option"),
        (
            {"options": {"recompile_limit": 2, "max_records": 3}},
            ValueError,
            "given twice",
        ),
    ],
)
def test_what_is_refused(arguments: dict[str, Any], error: type, words: str) -> None:
    with pytest.raises(error, match=words):
        pyjit.compile(doubled, **arguments)


@pytest.mark.parametrize("name", ["recompile_limit", "max_records"])
def test_recompile_limit(name: str) -> None:
    fast = pyjit.compile(lambda x, s: x * len(s), options={name: 2})
    with pytest.warns(  # noqa: PT031
        pyjit.PyjitWarning, match="the limit of 2 specializations"
    ) as seen:
        for _ in range(3):
            for text in ("a", "bb", "ccc", "dddd"):
                assert torch.equal(fast(values(4), text), values(4) * len(text))
    assert len(seen) == 1
    assert "s: " in str(seen[0].message), "what differs between the calls"
    assert "recompile_limit" in str(seen[0].message)
    assert seen[0].filename == __file__
    assert pyjit.stats(fast).graphs == 2


def test_options_page_has_every_option_and_variable() -> None:
    text = (Path(__file__).parents[2] / "docs/Options.md").read_text()
    for name in [*Settings.known(), *filter(None, MODES)]:
        assert f"`{name}`" in text or f'`"{name}"`' in text, name


# ---- Calls in eager -----------------------------------------------------------------------------


class Subclass(torch.Tensor):
    @classmethod
    def __torch_function__(
        cls, f: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        return super().__torch_function__(f, types, args, kwargs or {})


calls: list[int] = []


def refused(x: torch.Tensor) -> torch.Tensor:
    calls.append(1)
    return x + 1


def test_a_call_in_eager_is_told_once() -> None:
    fast, x = pyjit.compile(refused), values(4).as_subclass(Subclass)
    with pytest.warns(pyjit.PyjitWarning) as seen:  # noqa: PT031
        for _ in range(20):
            fast(x)
    assert len(seen) == 1
    warning = seen[0].message
    assert warning.reason.kind == ReasonKind.TENSOR_KIND
    for words in (
        "refused",
        "Subclass",
        "what to do:",
        "docs/GraphBreaks.md#tensor-kind",
    ):
        assert words in str(warning)
    assert seen[0].filename == __file__


def test_ignored() -> None:
    fast = pyjit.compile(refused, options={"fallback": "ignore"})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(5):
            fast(values(4).as_subclass(Subclass))


@pytest.mark.parametrize("how", ["option", "filter"])
def test_raised_before_a_call_does_anything(how: str) -> None:
    options = {"fallback": "raise"} if how == "option" else {}
    fast, x = pyjit.compile(refused, options=options), values(4).as_subclass(Subclass)
    calls.clear()
    error = pyjit.CaptureError if how == "option" else pyjit.PyjitWarning
    with warnings.catch_warnings():
        warnings.simplefilter("error", pyjit.PyjitWarning)
        answered = 0
        with pytest.raises(error, match="Subclass"):
            for _ in range(5):
                assert torch.equal(fast(x), x + 1)
                answered += 1
    assert answered == len(calls) == 2, "no call that ran has lost its result"


def test_a_warning_as_error_after_a_compiler_failure_loses_no_result(
    monkeypatch: Any,
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise pyjit._C.BuildError("nothing compiles today")

    monkeypatch.setattr(pyjit._C, "build", fail)
    fast = pyjit.compile(doubled)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert torch.equal(fast(values(4)), doubled(values(4)))
        with pytest.raises(pyjit.PyjitWarning, match="nothing compiles today"):
            fast(values(4))


def test_what_passes_by_itself_is_not_told() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        import colorsys

        return x * colorsys.ONE_THIRD

    sys.modules.pop("colorsys", None)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fast = pyjit.compile(f)
        for _ in range(4):
            fast(values(4))
    assert pyjit.stats(fast).hits


# ---- fullgraph ----------------------------------------------------------------------------------


def test_fullgraph_has_effects_once() -> None:
    log: list[int] = []

    def f(x: torch.Tensor) -> torch.Tensor:
        log.append(len(log))
        return x + id(x) % 1

    fast = pyjit.compile(f, fullgraph=True)
    with pytest.warns(pyjit.PyjitWarning, match="next such call raises"):
        fast(values(4))
    for _ in range(3):
        with pytest.raises(pyjit.CaptureError):
            fast(values(4))
    assert log == [0]


def test_fullgraph_is_tried_again_in_another_mode() -> None:
    class Net(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + (id(x) % 1 if self.training else 0)

    net = Net()
    fast = pyjit.compile(net, fullgraph=True)
    with pytest.warns(pyjit.PyjitWarning):
        fast(values(4))
    with pytest.raises(pyjit.CaptureError):
        fast(values(4))
    net.eval()
    for _ in range(3):
        assert torch.equal(fast(values(4)), values(4))
    assert pyjit.stats(fast).hits == 2


def both_ways(x: torch.Tensor) -> torch.Tensor:
    y = torch.relu(x)
    if y.sum() > 3:
        return y * 2
    return y - 1


def two_branches(x: torch.Tensor) -> torch.Tensor:
    if x.sum() > 0:
        x = x * 2
    else:
        x = x - 3
    if x.mean() > 1:
        x = x + 1
    return x * float(x.max())


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("function", [both_ways, two_branches])
def test_fullgraph_accepts_branches_on_data(function: Any) -> None:
    fast = pyjit.compile(function, fullgraph=True)
    high, low, small = torch.ones(6), -torch.ones(6), torch.full((6,), 0.1)
    for x in (high, high, low, small, high, low, small, high):
        assert torch.equal(fast(x), function(x))
    stats = pyjit.stats(fast)
    assert stats.graphs == 1 and stats.graph_breaks == 0 and stats.hits >= 4


def test_fullgraph_refuses_a_branch_that_cannot_be_in_one_graph() -> None:
    log: list[str] = []

    def f(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        if y.sum() > 0:
            log.append("positive")
            return y[:3]
        log.append("negative")
        return torch.cat([y, y])

    fast = pyjit.compile(f, fullgraph=True)
    high, low = torch.ones(6), -torch.ones(6)
    refused = False
    for x in (high, high, low, low, high):
        before = list(log)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", pyjit.PyjitWarning)
                got = fast(x)
        except pyjit.CaptureError as error:
            assert "branch on a tensor's data" in str(error)
            assert log == before, "a call that raises has done nothing"
            refused = True
            continue
        seen = log[len(before) :]
        assert torch.equal(got, f(x)) and seen == [log.pop()]
        assert not refused
    assert refused


def test_fullgraph_refuses_a_break_behind_a_branch() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        if x.sum() > 0:
            print(end="")
        return x + 1

    fast = pyjit.compile(f, fullgraph=True)
    low, high = -values(4).abs() - 1, values(4).abs() + 1
    for _ in range(3):
        assert torch.equal(fast(low), f(low))
    assert pyjit.stats(fast).hits == 2
    with pytest.warns(pyjit.PyjitWarning, match="next such call raises"):
        assert torch.equal(fast(high), f(high))
    with pytest.raises(pyjit.CaptureError, match="print"):
        fast(high)


def test_fullgraph_with_a_loop_on_data() -> None:
    """It has a graph in front of it and one behind it: answered once, refused then."""

    def f(x: torch.Tensor) -> torch.Tensor:
        while x.sum() < 100:
            x = x * 2
        return x + 1

    fast = pyjit.compile(f, fullgraph=True)
    with pytest.warns(pyjit.PyjitWarning, match="next such call raises"):
        assert torch.equal(fast(torch.ones(6)), f(torch.ones(6)))
    with pytest.raises(pyjit.CaptureError, match="branch on a tensor's data"):
        fast(torch.ones(6))


# ---- torch.compiler -----------------------------------------------------------------------------


def test_torch_compiler_disable() -> None:
    """A graph break around the call, as torch.compile has it."""
    seen = []

    @torch.compiler.disable
    def own(x: torch.Tensor) -> torch.Tensor:
        seen.append(1)
        return x.sin()

    def f(x: torch.Tensor) -> torch.Tensor:
        return own(x * 2) + 1

    fast = pyjit.compile(f)
    for seed in range(4):
        x = values(4, seed=seed)
        torch.testing.assert_close(fast(x), (x * 2).sin() + 1)
    assert len(seen) == 4
    (reason,) = pyjit.stats(fast)["graph_break_sites"]
    assert reason.kind == ReasonKind.DISABLED and pyjit.stats(fast).hits


def test_pyjit_disable_says_so() -> None:
    own = pyjit.disable(lambda x: x.sin())
    fast = pyjit.compile(lambda x: own(x * 2) + 1)
    for _ in range(3):
        fast(values(4))
    assert [r.kind for r in pyjit.stats(fast)["graph_break_sites"]] == [
        ReasonKind.DISABLED
    ]


def test_is_compiling_breaks_nothing() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        return x + 1 if torch.compiler.is_compiling() else x + 2

    fast = pyjit.compile(f)
    for _ in range(3):
        assert torch.equal(fast(values(4)), values(4) + 2), "as eager has it"
    assert pyjit.stats(fast).hits == 2 and not pyjit.stats(fast)["reasons"]


def test_own_is_compiling_is_true_inside_and_breaks_nothing() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        if pyjit.is_compiling():
            return torch.where(x > 0, x, 0)
        return torch.zeros(4).masked_scatter(x > 0, x[x > 0])

    fast = pyjit.compile(f)
    for seed in range(4):
        x = values(4, seed=seed)
        assert torch.equal(fast(x), f(x))
    assert pyjit.stats(fast).hits == 3 and not pyjit.stats(fast)["reasons"]
    assert not pyjit.is_compiling()


# ---- Environment --------------------------------------------------------------------------------


def run(code: str = "import pyjit", **environment: str) -> Any:
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **environment},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_unknown_log_topic_is_an_error_at_import() -> None:
    done = run(PYJIT_LOGS="guards,recompile")
    assert done.returncode == 1
    assert "unknown topic 'recompile'" in done.stderr and "recompiles" in done.stderr


def test_help_on_logs() -> None:
    done = run(PYJIT_LOGS="help")
    assert done.returncode == 0, done.stderr
    for topic, text in LOG_TOPICS.items():
        assert topic in done.stderr and text in done.stderr


def test_folder_that_cannot_be_written_to_is_an_error_at_import(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    done = run(PYJIT_DUMP_DIR=str(file / "dumps"))
    assert done.returncode == 1
    assert "PYJIT_DUMP_DIR: cannot write to" in done.stderr


def test_dumps_are_numbered(tmp_path: Path, monkeypatch: Any, bin_dir: Path) -> None:
    monkeypatch.setenv("PYJIT_DUMP_DIR", str(tmp_path / "dumps"))
    for _ in range(2):
        fast = pyjit.compile(doubled)
        fast(values(4))
        fast(values(4, 2))
    dumps = tmp_path / "dumps"
    folders = sorted(entry.name for entry in dumps.iterdir() if entry.is_dir())
    assert folders == [f"{n:04d}-doubled" for n in range(1, 5)]
    manifest = json.loads((dumps / "manifest.json").read_text())
    assert [entry["folder"] for entry in manifest] == folders
    for entry in manifest:
        assert entry["stages"], entry
        stages = [stage["stage"] for stage in entry["stages"]]
        assert stages == ["trace", "frontend", "library", "fuse", "x86"]
        for stage in entry["stages"]:
            tool, file = stage["verify"].split()
            subprocess.run(
                [bin_dir / tool, dumps / file], check=True, stdout=subprocess.DEVNULL
            )
            assert (dumps / stage["file"]).stat().st_size == stage["bytes"] > 0


def test_dumps_go_on_when_the_folder_does_not(tmp_path: Path, monkeypatch: Any) -> None:
    fast = pyjit.compile(doubled)
    (tmp_path / "file").touch()
    monkeypatch.setenv("PYJIT_DUMP_DIR", str(tmp_path / "file"))
    with pytest.warns(pyjit.PyjitWarning, match="nothing is dumped"):
        assert torch.equal(fast(values(4)), doubled(values(4)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert torch.equal(fast(values(5)), doubled(values(5)))
    assert torch.equal(fast(values(4)), doubled(values(4)))
    assert pyjit.stats(fast).hits == 1 and pyjit.stats(fast).graphs == 2
