# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A report as one HTML page that needs no network: reasons with the program's source, graphs, a timeline."""

from __future__ import annotations

import linecache
from html import escape
from typing import TYPE_CHECKING, Any

from pyjit._picture import picture
from pyjit._reasons import Place, Reason

if TYPE_CHECKING:
    from pyjit._report import Report

_AROUND = 3
"""Lines of the program in front of and behind a reason's."""
_STYLE = """
:root { color-scheme: light dark; --line: #8885; --mark: #fd06; --bar: #48c; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 70rem; margin: 0 auto; padding: 1rem; }
p { overflow-wrap: anywhere; }
h1 { font-size: 1.3rem; } h2 { font-size: 1.1rem; margin-top: 2rem; }
pre { font: 13px/1.4 ui-monospace, monospace; overflow-x: auto; border: 1px solid var(--line); padding: .5rem; margin: .5rem 0; }
pre b { background: var(--mark); font-weight: inherit; display: block; }
section { border-left: 3px solid var(--line); padding-left: .8rem; margin: 1rem 0; }
table { border-collapse: collapse; display: block; overflow-x: auto; }
td, th { border: 1px solid var(--line); padding: .2rem .5rem; text-align: left; vertical-align: top; }
.bar { display: flex; height: 1.2rem; margin: .2rem 0; }
.bar i { background: var(--bar); margin-right: 1px; min-width: 1px; }
.picture { overflow: auto; max-height: 40rem; border: 1px solid var(--line); margin: .5rem 0; }
.picture svg { font: 12px/1 system-ui, sans-serif; display: block; margin: .5rem auto; }
.picture text { fill: currentColor; text-anchor: middle; }
.picture rect { fill: Canvas; stroke: currentColor; }
.picture .kernel rect { stroke: #48c; fill: color-mix(in srgb, #48c 15%, Canvas); }
.picture .call rect { stroke: #c74; fill: color-mix(in srgb, #c74 15%, Canvas); }
.picture .copy rect, .picture .end rect { stroke-dasharray: 3 2; }
.picture path { fill: none; stroke: #8888; }
input { font: inherit; width: 100%; box-sizing: border-box; padding: .3rem; }
.hidden { display: none; }
"""
_SCRIPT = """
document.getElementById("search").addEventListener("input", event => {
  const words = event.target.value.toLowerCase();
  for (const part of document.querySelectorAll("[data-part]"))
    part.classList.toggle("hidden", words && !part.textContent.toLowerCase().includes(words));
});
"""


def page(report: Report) -> str:
    """The whole page."""
    told = report.to_dict()
    parts = [
        f"<h1>pyjit: {escape(report.name)}</h1>",
        f"<pre>{escape(report.text())}</pre>",
        '<input id="search" type="search" placeholder="search reasons, guards, graphs" aria-label="search">',
    ]
    parts += _reasons("Calls that run in eager", report.eager_reasons)
    parts += _reasons("Graph breaks", report.graph_breaks)
    if told["misses"]:
        parts += ["<h2>Recorded anew because a guard failed</h2>"]
        parts += [_table(["guard", "was", "now", "count", "dynamic"], told["misses"])]
    parts += _graphs(report, told["graphs"])
    parts += _pictures(report)
    parts += ["<h2>Statistics</h2>", _statistics(report)]
    title = f"<title>pyjit: {escape(report.name)}</title>"
    head = (
        '<meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"{title}<style>{_STYLE}</style>"
    )
    return (
        f'<!doctype html><html lang="en"><head>{head}</head><body>'
        + "\n".join(parts)
        + f"<script>{_SCRIPT}</script></body></html>\n"
    )


def _reasons(title: str, reasons: list[Reason]) -> list[str]:
    if not reasons:
        return []
    parts = [f"<h2>{title} ({len(reasons)})</h2>"]
    for reason in reasons:
        source = _source(reason.place) if reason.place else ""
        parts.append(
            f"<section data-part><strong>{escape(reason.title)}</strong>{source}"
            f"<p>{escape(reason)}</p><p><em>What to do:</em> {escape(reason.remedy)} "
            f"(<code>{escape(reason.docs)}</code>)</p></section>"
        )
    return parts


def _source(place: Place) -> str:
    """The program around a line."""
    lines = linecache.getlines(place.file)
    first = max(place.line - 1 - _AROUND, 0)
    shown = []
    for number, line in enumerate(lines[first : place.line + _AROUND], first + 1):
        text = f"{number:5}  {escape(line.rstrip())}"
        shown.append(f"<b>{text}</b>" if number == place.line else f"{text}\n")
    where = f"<p><code>{escape(str(place))}</code> in <code>{escape(place.function)}</code></p>"
    return where + (f"<pre>{''.join(shown)}</pre>" if shown else "")


def _table(columns: list[str], rows: list[dict[str, Any]]) -> str:
    head = "".join(f"<th>{escape(column)}</th>" for column in columns)
    body = "".join(
        "<tr data-part>"
        + "".join(f"<td>{escape(_plain(row[column]))}</td>" for column in columns)
        + "</tr>"
        for row in rows
    )
    return f"<table><tr>{head}</tr>{body}</table>"


def _plain(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _graphs(report: Report, graphs: list[dict[str, Any]]) -> list[str]:
    if not graphs:
        return []
    columns = ["function", "inputs", "guards", "kernels", "vendor_calls", "hits"]
    parts = ["<h2>Graphs</h2>", _table(columns, graphs)]
    longest = max(sum(graph["stage_seconds"].values()) for graph in graphs) or 1.0
    parts.append("<h2>Compiling</h2>")
    for number, graph in enumerate(graphs):
        total = sum(graph["stage_seconds"].values())
        bars = "".join(
            f'<i style="width:{100 * seconds / longest:.2f}%" title="{escape(stage)} {1e3 * seconds:.1f} ms"></i>'
            for stage, seconds in graph["stage_seconds"].items()
        )
        parts.append(f"<div>graph {number}: {1e3 * total:.1f} ms</div>")
        parts.append(f'<div class="bar">{bars}</div>')
    for detail in ("guards", "ir", "kernels", "launch"):
        text = "\n".join(report.details(detail))
        parts.append(
            f"<details data-part><summary>{detail}</summary><pre>{escape(text)}</pre></details>"
        )
    return parts


def _pictures(report: Report) -> list[str]:
    """What each graph computes from what, the first one to be seen at once."""
    parts = []
    for number, (name, flow) in enumerate(report.data_flows()):
        told = f"graph {number} of {escape(name)}: {len(flow.nodes)} kernels, vendor calls and copies"
        parts.append(
            f"<details data-part{'' if number else ' open'}><summary>{told}</summary>"
            f'<div class="picture">{picture(flow)}</div></details>'
        )
    return ["<h2>What the graphs compute</h2>", *parts] if parts else []


def _statistics(report: Report) -> str:
    rows = [
        {"name": key, "value": value, "meaning": report.stats.FIELDS[key]}
        for key, value in report.stats.items()
        if not isinstance(value, list | dict)
    ]
    return _table(["name", "value", "meaning"], rows)
