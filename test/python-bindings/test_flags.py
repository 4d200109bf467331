"""What a branch's flag hangs from, by the text of a recording."""

from __future__ import annotations

from pyjit._flags import is_costly

TRACE = """
refgraph.trace @f {
  %0 = refgraph.external
  %1 = refgraph.get %0 arg(0, "x") : T loc(#loc1)
  %2 = refgraph.tensor_op "aten::linear"(%1, %1) : (T, T) -> T
  %3:2 = refgraph.tensor_op "aten::max.dim"(%2, 0 : i64) : (T) -> (T, T)
  %4 = refgraph.tensor_op "aten::any"(%1) : (T) -> B
  %5 = refgraph.create "number" [%3] : (B) -> !refgraph.obj<"bool">
  %6 = refgraph.create "tuple" [%2] : (T) -> !refgraph.obj<"tuple">
  %7 = refgraph.create "tuple" [%4, %5, %1] : (B, B, T) -> !refgraph.obj<"tuple">
  %8 = refgraph.create "tuple" [%6, %7] : (O, O) -> !refgraph.obj<"tuple">
  refgraph.leave %8 : !refgraph.obj<"tuple">
}
"""


def test_of_an_input() -> None:
    assert not is_costly(TRACE, 0)


def test_behind_a_product() -> None:
    assert is_costly(TRACE, 1)


def test_unknown() -> None:
    """What cannot be found is taken for work."""
    assert is_costly(TRACE, 7)
    assert is_costly("", 0)
