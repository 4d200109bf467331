# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A graph as a picture: kernels, vendor calls and copies in layers, each below what it reads."""

from __future__ import annotations

import os
from html import escape
from typing import Any, NamedTuple, Self

_WIDTH, _HEIGHT = 150, 36
_ACROSS, _DOWN = 20, 26
"""Between boxes."""
_LETTERS = 20
_MOST = 400
"""Boxes in a picture: more than that nobody looks at."""


class Node(NamedTuple):
    """A step of a launch program, as the extension's ``data_flow`` tells it (pyjit-rt/DataFlow.h)."""

    kind: str
    """``kernel``, ``call`` (of a vendor's library) or ``copy``."""
    name: str
    line: str
    """``file:line:column`` of the program, or ''."""
    reads: tuple[int, ...]
    """The numbers of earlier nodes whose results it takes."""
    reads_inputs: bool
    weights: int
    """How many parameters it reads, packed or not."""


class DataFlow(NamedTuple):
    """What a graph computes from what, in the order in which it runs."""

    nodes: list[Node]
    results: tuple[int, ...]
    """The nodes that give the graph's results."""

    @classmethod
    def of(cls, specialization: Any) -> Self:
        nodes, results = specialization.data_flow()
        return cls([Node(*node) for node in nodes], results)

    def first(self, count: int) -> Self:
        """Without the nodes behind the first ``count``."""
        return type(self)(
            self.nodes[:count], tuple(r for r in self.results if r < count)
        )

    def layers(self) -> list[int]:
        """Of each node, the length of the longest way to it from the inputs."""
        found: list[int] = []
        for node in self.nodes:
            found.append(1 + max((found[other] for other in node.reads), default=0))
        return found


def picture(flow: DataFlow) -> str:
    """The graph as an SVG element; of a large one, its beginning."""
    shown = flow.first(_MOST)
    layers = shown.layers()
    rows: dict[int, list[int]] = {}
    for number, layer in enumerate(layers):
        rows.setdefault(layer, []).append(number)
    last = max(layers, default=0) + 1
    width = max(map(len, rows.values()), default=1) * (_WIDTH + _ACROSS) + _ACROSS
    at = {
        number: (_center(place, len(row), width), _top(layer))
        for layer, row in rows.items()
        for place, number in enumerate(row)
    }
    top, bottom = (width / 2, _top(0)), (width / 2, _top(last))
    lines = [
        _edge(top, at[i]) for i, node in enumerate(shown.nodes) if node.reads_inputs
    ]
    lines += [
        _edge(at[j], at[i]) for i, node in enumerate(shown.nodes) for j in node.reads
    ]
    lines += [_edge(at[i], bottom) for i in shown.results]
    boxes = [_box(top, "end", "inputs", "what the call is given")]
    boxes += [_node(at[i], node) for i, node in enumerate(shown.nodes)]
    left = len(flow.nodes) - len(shown.nodes)
    end = f"{left} more" if left else "results"
    boxes.append(_box(bottom, "end", end, "what the call returns or writes"))
    height = _top(last) + _HEIGHT + _DOWN
    return (
        f'<svg role="img" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}">{"".join(lines)}{"".join(boxes)}</svg>'
    )


def _center(place: int, count: int, width: float) -> float:
    return width / 2 + (place - (count - 1) / 2) * (_WIDTH + _ACROSS)


def _top(layer: int) -> float:
    return _DOWN / 2 + layer * (_HEIGHT + _DOWN)


def _edge(start: tuple[float, float], end: tuple[float, float]) -> str:
    (x, y), (u, v) = (start[0], start[1] + _HEIGHT), end
    middle = (y + v) / 2
    return f'<path d="M{x:g} {y:g}C{x:g} {middle:g} {u:g} {middle:g} {u:g} {v:g}"/>'


def _node(at: tuple[float, float], node: Node) -> str:
    told = [f"{_KINDS[node.kind]} {node.name}"]
    if node.line:
        told.append(f"made of {node.line}")
    if node.weights:
        told.append(f"reads {node.weights} weight{'s' if node.weights > 1 else ''}")
    name = node.name.removeprefix("aten::")
    return _box(at, node.kind, name, "\n".join(told), os.path.basename(node.line))


_KINDS = {"kernel": "kernel", "call": "vendor call", "copy": ""}


def _box(
    at: tuple[float, float], kind: str, name: str, told: str, line: str = ""
) -> str:
    x, y = at
    texts = [name, line] if line else [name]
    first = y + _HEIGHT / 2 + 4 - 7 * (len(texts) - 1)
    return (
        f'<g class="{kind}"><title>{escape(told.strip())}</title>'
        f'<rect x="{x - _WIDTH / 2:g}" y="{y:g}" width="{_WIDTH}" height="{_HEIGHT}" rx="4"/>'
        + "".join(
            f'<text x="{x:g}" y="{first + 14 * number:g}">{escape(_cut(text))}</text>'
            for number, text in enumerate(texts)
        )
        + "</g>"
    )


def _cut(text: str) -> str:
    return text if len(text) <= _LETTERS else text[: _LETTERS - 1] + "…"
