# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The report of pyjit.explain: a first screen for a newcomer, details behind it, and no trace of having asked."""

from __future__ import annotations

import contextlib
import io
import json
import logging
from pathlib import Path
from typing import Any

import pyjit
import pytest
import torch
from Integration.harness import values
from pyjit._C import ReasonKind
from pyjit._report import MOST_LINES, WIDTH
from torch import nn

HERE = Path(__file__).name


@pytest.fixture(autouse=True)
def no_grad() -> Any:
    with torch.no_grad():
        yield


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3)
        self.drop = nn.Dropout(0.5)
        self.layers = nn.ModuleList([nn.Linear(8, 8) for _ in range(4)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.drop(torch.relu(self.conv(x)).mean((2, 3)))
        for layer in self.layers:
            x = layer(x).relu()
        return x


def three_breaks(x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    print("shape", y.shape)
    text = str(y.tolist())
    z = y + len(text)
    assert isinstance(id(z), int)
    return z * 3


def quietly(f: Any, *args: Any) -> Any:
    with contextlib.redirect_stdout(io.StringIO()):
        return f(*args)


def line_of(f: Any, text: str) -> int:
    import inspect

    lines, first = inspect.getsourcelines(f)
    return first + next(i for i, line in enumerate(lines) if text in line)


def screen(report: Any) -> list[str]:
    lines = str(report).splitlines()
    assert len(lines) <= MOST_LINES, report
    assert all(len(line) <= WIDTH for line in lines), report
    return lines


@pytest.mark.parametrize("compiled", [False, True])
def test_never_called(compiled: bool) -> None:
    net = Net().eval()
    text = str(pyjit.explain(pyjit.compile(net) if compiled else net))
    assert "Net: not called yet" in text and "explain(f)(inputs)" in text
    assert "at 0x" not in text


def test_one_graph() -> None:
    net = Net().eval()
    fast = pyjit.compile(net)
    for _ in range(3):
        fast(values(2, 3, 8, 8))
    lines = screen(pyjit.explain(fast))
    assert lines[0] == "pyjit: Net: the whole call runs compiled, as one graph"
    assert "2 hits" in lines[1] and "0 in eager" in lines[1]
    assert any("kernel" in line and "vendor call" in line for line in lines)
    assert not any("graph break at" in line for line in lines)


def test_a_first_network_without_no_grad() -> None:
    """As a newcomer writes it: compiled from the first call on, in training and behind no_grad, at once."""
    net = nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(72, 5)
    )
    fast, x = pyjit.compile(net), values(2, 3, 8, 8)
    with torch.enable_grad():
        for _ in range(3):
            fast(x).sum().backward()
    assert pyjit.stats(fast).hits == 2
    with torch.no_grad():
        for _ in range(2):
            torch.testing.assert_close(fast(x), net(x))
    assert pyjit.stats(fast).hits == 3, "the second call behind no_grad is answered"
    lines = screen(pyjit.explain(fast))
    assert "as one graph (2 graphs" in lines[0]
    assert "    torch.is_grad_enabled(): True -> False" in lines


def test_what_is_over_is_a_note() -> None:
    """A cache that the first call has filled."""
    import functools

    @functools.lru_cache
    def scale(n: int) -> int:
        return n + 1

    fast = pyjit.compile(lambda x: x * scale(x.dim()))
    for _ in range(4):
        fast(values(4))
    lines = screen(pyjit.explain(fast))
    assert lines[0].endswith("the whole call runs compiled, as one graph")
    assert not any("[1]" in line for line in lines)
    assert any("earlier calls ran in eager, which is over" in line for line in lines)


def test_a_second_break_in_a_package_names_the_users_line() -> None:
    """Where the recording has begun in the package's function, behind the first one."""

    def f(x: torch.Tensor) -> torch.Tensor:
        logging.getLogger("pyjit.test").warning("mean %s", x.shape)
        return x + 1

    logging.getLogger("pyjit.test").addHandler(logging.NullHandler())
    logging.getLogger("pyjit.test").propagate = False
    fast = pyjit.compile(f)
    for _ in range(4):
        fast(values(4))
    report = pyjit.explain(fast).report()
    assert len(report.graph_breaks) > 1
    for reason in report.graph_breaks:
        assert reason.place.function.endswith("<locals>.f"), reason.stack
        assert reason.place.line == line_of(f, "logging.getLogger")


def test_three_breaks() -> None:
    """Each with the program's line, the reason, the remedy and a link, in the order of the program."""
    fast = pyjit.compile(three_breaks)
    for seed in range(4):
        quietly(fast, values(4, seed=seed))
    report = pyjit.explain(fast).report()
    lines = screen(report)
    assert "3 graph breaks" in lines[0]
    kinds = [reason.kind for reason in report.graph_breaks]
    assert kinds == [
        ReasonKind.PRINT,
        ReasonKind.DATA_IN_PYTHON,
        ReasonKind.OBJECT_IDENTITY,
    ]
    for reason, text in zip(
        report.graph_breaks, ("print(", "y.tolist()", "id(z)"), strict=True
    ):
        place = f"{HERE}:{line_of(three_breaks, text)} in three_breaks:"
        block = next(i for i, line in enumerate(lines) if place in line)
        assert text in lines[block]
        assert "why:" in lines[block + 1]
        rest = " ".join(line.strip() for line in lines[block + 2 : block + 5])
        assert reason.remedy in rest and reason.docs in rest


def test_a_break_in_a_package_names_the_users_line() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        json.dumps({"mean": 1}, default=str)
        return y + 1

    fast = pyjit.compile(f)
    for _ in range(3):
        fast(values(4))
    (reason,) = pyjit.explain(fast).report().graph_breaks
    assert reason.place is not None
    assert Path(reason.place.file).name == HERE
    assert reason.place.source.startswith("json.dumps")


@pytest.mark.parametrize("number", [5, 40])
def test_many_breaks_are_one_screen(number: int) -> None:
    source = (
        "def f(x):\n" + "    x = x + 1\n    print(end='')\n" * number + "    return x\n"
    )
    names: dict[str, Any] = {}
    exec(source, names)
    fast = pyjit.compile(names["f"])
    for _ in range(3):
        fast(values(4))
    report = pyjit.explain(fast).report()
    lines = screen(report)
    assert len(report.graph_breaks) == number
    assert any(f"and {number - 4} more" in line for line in lines)


def test_asking_adds_no_hit() -> None:
    fast = pyjit.compile(Net().eval())
    x = values(2, 3, 8, 8)
    for _ in range(3):
        fast(x)
    before = dict(pyjit.stats(fast))
    kept = pyjit.specializations(fast)
    for _ in range(3):
        assert pyjit.explain(fast)(x).stats.hits == before["hits"]
        str(pyjit.explain(fast, detail="all"))
    after = pyjit.stats(fast)
    assert {k: after[k] for k in before} == before
    assert [s["hits"] for s in pyjit.specializations(fast)] == [s["hits"] for s in kept]
    fast(x)
    assert pyjit.stats(fast).hits == before["hits"] + 1


def test_a_report_reads_as_text() -> None:
    report = pyjit.explain(Net().eval())(values(2, 3, 8, 8))
    assert str(report) == f"{report}" == repr(report)
    assert "kernel" in report and "linalg.generic" in report
    assert "no such words" not in report


@pytest.mark.parametrize(
    ("detail", "word"),
    [
        ("guards", "type(x) is Tensor"),
        ("ir", "func.func"),
        ("kernels", "linalg.generic"),
        ("launch", "launch:"),
        ("all", "guard and mock programs:"),
    ],
)
def test_details(detail: str, word: str) -> None:
    fast = pyjit.compile(
        lambda x: torch.relu(x) + 1, options={"simulated_device": True}
    )
    fast(values(4))
    text = str(pyjit.explain(fast, detail=detail))
    assert word in text
    assert str(pyjit.explain(fast)) in text


def test_unknown_detail() -> None:
    with pytest.raises(ValueError, match="guards, ir, kernels, launch, all"):
        pyjit.explain(Net(), detail="register")


def test_guards_are_expressions_of_the_program() -> None:
    fast = pyjit.compile(Net().eval())
    fast(values(2, 3, 8, 8))
    (graph,) = pyjit.explain(fast, detail="guards").report().to_dict()["graphs"]
    assert graph["guards"] > 100
    lines = {
        line.strip() for line in str(pyjit.explain(fast, detail="guards")).splitlines()
    }
    assert "self.drop.training == False" in lines
    assert "type(x) is Tensor" in lines
    assert any(
        line.startswith("self.layers[3].weight: float32[8, 8]") for line in lines
    )
    assert "x: float32[2, 3, 8, 8] on cpu, requires_grad=False" in lines
    assert not any("<value" in line for line in lines), lines


def test_to_dict_is_json() -> None:
    fast = pyjit.compile(three_breaks)
    for seed in range(3):
        quietly(fast, values(4, seed=seed))
    quietly(fast, values(7))
    told = json.loads(json.dumps(pyjit.explain(fast).report().to_dict()))
    assert told["called"] and told["function"] == "three_breaks"
    assert [entry["code"] for entry in told["graph_breaks"]] == [
        "print",
        "data-in-python",
        "object-identity",
    ]
    assert told["graph_breaks"][0]["stack"][-1]["function"] == "three_breaks"
    assert told["misses"] and told["stats"]["hits"] >= 1


def test_eager_calls_have_a_reason_and_a_remedy() -> None:
    class Other(torch.Tensor):
        @classmethod
        def __torch_function__(
            cls, f: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            return super().__torch_function__(f, types, args, kwargs or {})

    fast = pyjit.compile(lambda x: x + 1)
    with pytest.warns(pyjit.PyjitWarning):  # noqa: PT031
        for _ in range(4):
            fast(values(4).as_subclass(Other))
    report = pyjit.explain(fast).report()
    assert "nothing runs compiled" in screen(report)[0]
    assert [reason.kind for reason in report.eager_reasons] == [ReasonKind.TENSOR_KIND]
    assert pyjit.stats(fast)["reasons"] == report.eager_reasons
    assert pyjit.stats(fast)["graph_breaks"] == 0, "a refusal is no graph break"


def test_stats_are_documented() -> None:
    fast = pyjit.compile(Net().eval())
    fast(values(2, 3, 8, 8))
    stats = pyjit.stats(fast)
    json.dumps(stats)
    assert isinstance(stats, dict) and set(stats) == set(pyjit.Statistics.FIELDS)
    for key in stats:
        assert getattr(stats, key) == stats[key]
        assert key in dir(stats)
    with pytest.raises(AttributeError, match="no_such"):
        stats.no_such  # noqa: B018


def test_graphs_are_pictures(tmp_path: Path) -> None:
    """A box for each kernel and vendor call, and a line to it from each that it reads."""
    from pyjit._picture import DataFlow, Node, picture

    fast = pyjit.compile(Net().eval())
    with torch.no_grad():
        for seed in range(3):
            fast(values(2, 3, 8, 8, seed=seed))
    report = pyjit.explain(fast).report()
    (flow,) = [flow for _, flow in report.data_flows()]
    kinds = [node.kind for node in flow.nodes]
    assert kinds.count("kernel") == report.stats["kernels"]
    assert kinds.count("call") == report.stats["vendor_calls"]
    assert any(node.reads_inputs for node in flow.nodes) and flow.results
    assert all(other < i for i, node in enumerate(flow.nodes) for other in node.reads)
    text = picture(flow)
    assert text.count("<rect") == len(flow.nodes) + 2
    lines = sum(len(node.reads) + node.reads_inputs for node in flow.nodes)
    assert text.count("<path") == lines + len(flow.results)
    pyjit.explain(fast).save(tmp_path / "report.html")
    assert text in (tmp_path / "report.html").read_text()

    chain = [
        Node("kernel", f"k{i}", "", (i - 1,) if i else (), not i, 0) for i in range(500)
    ]
    large = picture(DataFlow(chain, (499,)))
    assert large.count("<rect") == 402 and "100 more" in large


def test_what_explain_gives_is_a_report() -> None:
    fast = pyjit.compile(three_breaks)
    told = pyjit.explain(fast)
    for seed in range(3):
        quietly(fast, values(4, seed=seed))
    report = told.report()
    assert told.to_dict() == report.to_dict() and told.text("ir") == report.text("ir")
    assert told.graph_breaks == report.graph_breaks != []
    assert told.eager_reasons == report.eager_reasons and told.stats == report.stats
    assert "print" in told


def test_one_page_without_network(tmp_path: Path) -> None:
    from html.parser import HTMLParser

    fast = pyjit.compile(three_breaks)
    for seed in range(3):
        quietly(fast, values(4, seed=seed))
    file = tmp_path / "report.html"
    pyjit.explain(fast).report().save(file)
    opened: list[str] = []
    links: list[str] = []

    class Parser(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list) -> None:
            links.extend(value for name, value in attrs if name in ("src", "href"))
            if tag not in ("meta", "input"):
                opened.append(tag)

        def handle_endtag(self, tag: str) -> None:
            assert opened.pop() == tag

    text = file.read_text()
    Parser().feed(text)
    assert not opened and not links and "://" not in text
    assert "docs/GraphBreaks.md#print" in text
    assert "print(&quot;shape&quot;, y.shape)</b>" in text, (
        "the program beside a reason"
    )
    assert "linalg.generic" in text
