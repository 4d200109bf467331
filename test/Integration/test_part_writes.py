# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes to parts of inputs touch the part alone: caches of decoders, rows, columns, elements at indices.

What is touched is read from the program, not timed. What is proven is in test/lib/Fusion/keep-parts.mlir and
in-place-parts.mlir, what is launched in test/tools/pyjit-run/part-writes.mlir; random programs: test_random_parts.py.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pyjit
import pytest
import torch
import torch.nn.functional as F
from Integration.harness import ANY, Compile, Steps, as_test, scenario, values

Tensor = torch.Tensor
LENGTH = 48  # of the cache, and of nothing else

WHOLE = f"x{LENGTH}x8xf32"

# An operation of the program behind fusion: its name, and what follows.
OPERATION = re.compile(
    r'^ +(?:%\d+(?::\d+)? = )?(call @\w+|tssa\.\w+(?: "[^"]+")?)(.*)$', re.MULTILINE
)


def touches_the_whole(f: Any) -> list[str]:
    """The operations of `f`'s specializations that read or write all of a cache: those that are neither in place, nor
    kernels that look at a part of it, nor vendor calls that are given the cache to read (attention)."""
    found = []
    for specialization in f.specializations:
        program = specialization.text("fusion")
        assert "pyjit.updates" in program
        _, *kernels = specialization.text("kernels").split("func.func private @")
        bodies = {body.split("(", 1)[0]: body.split("\n", 1)[1] for body in kernels}
        for name, rest in OPERATION.findall(program):
            takes, _, gives = rest[rest.rfind(" : (") :].partition("->")
            if name == "tssa.access" or WHOLE not in takes + gives:
                continue
            if name == "tssa.assign" or "mutates" in rest:
                stays = "pyjit.in_place" in rest
            elif name.startswith("call"):
                body = bodies[name.removeprefix("call @")]
                stays = (
                    WHOLE not in gives
                    and '"reduction"' not in body
                    and not re.search(rf"-> tensor<\w*{WHOLE}", body)
                )
            else:
                stays = WHOLE not in gives
            if not stays:
                found.append(name + rest)
    return found


def heads(step: int, count: int = 3, rows: int = 1) -> list[Tensor]:
    return [values(1, 2, rows, 8, seed=10 * step + k) for k in range(count)]


def by_number(
    keys: Tensor, values: Tensor, q: Tensor, k: Tensor, v: Tensor, at: int
) -> Tensor:
    keys[:, :, at] = k[:, :, 0]
    values[:, :, at] = v[:, :, 0]
    return F.scaled_dot_product_attention(q, keys, values)


def by_range(
    keys: Tensor, values: Tensor, q: Tensor, k: Tensor, v: Tensor, at: int
) -> Tensor:
    keys[:, :, at : at + 1] = k
    values[:, :, at : at + 1] = v * 0.5
    return F.scaled_dot_product_attention(q, keys, values)


def by_index_copy(
    keys: Tensor, values: Tensor, q: Tensor, k: Tensor, v: Tensor, at: Tensor
) -> Tensor:
    keys.index_copy_(2, at, k)
    values.index_copy_(2, at, v)
    return F.scaled_dot_product_attention(q, keys, values)


def by_index(
    keys: Tensor, values: Tensor, q: Tensor, k: Tensor, v: Tensor, at: Tensor
) -> Tensor:
    keys[:, :, at] = k
    values[:, :, at] = torch.tanh(v)
    return F.scaled_dot_product_attention(q, keys, values)


def masked(
    keys: Tensor, values: Tensor, q: Tensor, k: Tensor, v: Tensor, at: Tensor
) -> Tensor:
    keys.index_copy_(2, at, k)
    values.index_copy_(2, at, v)
    mask = (torch.arange(keys.shape[2]) <= at)[None]
    return F.scaled_dot_product_attention(q, keys, values, mask)


def added(
    keys: Tensor, values: Tensor, q: Tensor, k: Tensor, v: Tensor, at: int
) -> Tensor:
    keys[:, :, at] += k[:, :, 0]
    values[:, :, at].mul_(2).add_(v[:, :, 0])
    return F.scaled_dot_product_attention(q, keys, values)


def scattered(
    keys: Tensor, values: Tensor, q: Tensor, k: Tensor, v: Tensor, at: Tensor
) -> Tensor:
    where = at.expand(1, 2, 1, 8)
    keys.scatter_(2, where, k)
    values.scatter_add_(2, where, v)
    values.index_add_(2, at, k)
    return F.scaled_dot_product_attention(q, keys, values)


@pytest.mark.parametrize(
    "step", [by_number, by_range, by_index_copy, by_index, masked, added, scattered]
)
def test_a_step_touches_its_token(step: Callable[..., Tensor]) -> None:
    """One specialization for all positions, eager's caches and answers, no operation over a whole cache but attention."""
    f = pyjit.compile(step)
    mine = [torch.zeros(1, 2, LENGTH, 8) for _ in range(2)]
    eager = [torch.zeros(1, 2, LENGTH, 8) for _ in range(2)]
    with torch.no_grad():
        for at in range(4, 20):
            place = at if step in (by_number, by_range, added) else torch.tensor([at])
            torch.testing.assert_close(
                f(*mine, *heads(at), place), step(*eager, *heads(at), place)
            )
            for x, y in zip(mine, eager, strict=True):
                torch.testing.assert_close(x, y)
                assert x._version == y._version
    assert pyjit.stats(f)["hits"] >= 12 and not pyjit.stats(f)["graph_breaks"]
    assert not touches_the_whole(f)


def test_touching_the_whole_is_seen() -> None:
    """What the test above looks for is there where the old cache is kept."""

    def keeps(
        keys: Tensor, values: Tensor, q: Tensor, k: Tensor, v: Tensor, at: Tensor
    ) -> tuple[Tensor, Tensor]:
        old = keys.clone()
        keys.index_copy_(2, at, k)
        return F.scaled_dot_product_attention(q, keys, values), old

    f = pyjit.compile(keeps)
    with torch.no_grad():
        for at in range(4, 8):
            f(*heads(0, 2, LENGTH), *heads(at), torch.tensor([at]))
    assert touches_the_whole(f)


def test_static_cache_of_transformers() -> None:
    """`StaticLayer.update` counts the position in a tensor of its own, which it adds to in place."""
    cache_utils = pytest.importorskip("transformers.cache_utils")

    def step(layer: Any, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        keys, values = layer.update(k, v)
        return F.scaled_dot_product_attention(q, keys, values)

    layers = [cache_utils.StaticLayer(max_cache_len=LENGTH) for _ in range(2)]
    f = pyjit.compile(step)
    with torch.no_grad():
        for layer in layers:
            layer.update(*heads(1, 2, rows=5))
        for at in range(5, 20):
            torch.testing.assert_close(
                f(layers[0], *heads(at)), step(layers[1], *heads(at))
            )
            for name in ("keys", "values", "cumulative_length"):
                x, y = getattr(layers[0], name), getattr(layers[1], name)
                torch.testing.assert_close(x, y)
                assert x._version == y._version
    assert pyjit.stats(f)["hits"] >= 10 and not pyjit.stats(f)["graph_breaks"]
    assert not touches_the_whole(f)


def test_a_model_with_a_static_cache() -> None:
    """Llama's decode step: each cache is written by the token, read by attention, and by nothing else."""
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=64, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=4, max_position_embeddings=64,
    )  # fmt: skip
    model = transformers.LlamaForCausalLM(config).eval()

    def step(token: Tensor, cache: Any) -> Tensor:
        return model(input_ids=token, past_key_values=cache, use_cache=True).logits

    f = pyjit.compile(step)
    told = []
    with torch.no_grad():
        for function in (f, step):
            cache = transformers.StaticCache(config=config, max_cache_len=LENGTH)
            logits = [step(torch.tensor([[3, 1, 4, 1, 5]]), cache)[:, -1:]]
            for _ in range(12):
                logits.append(function(logits[-1].argmax(-1), cache))
            states = [(c.keys, c.values, c.keys._version) for c in cache.layers]
            told.append((logits, states))
    torch.testing.assert_close(told[0], told[1], rtol=1e-4, atol=1e-4)
    assert pyjit.stats(f)["hits"] >= 9 and not pyjit.stats(f)["graph_breaks"]
    assert not touches_the_whole(f)


@pytest.mark.parametrize("kind", ["number", "index"])
def test_a_step_that_fails_leaves_what_eager_leaves(kind: str) -> None:
    """A library's error behind the writes: both are undone, and made again by eager up to where it raises."""

    def step(a: Tensor, b: Tensor, k: Tensor, m: Tensor, at: Any) -> Tensor:
        a[at] = k
        b[at] += k
        b[at] *= 3
        low = torch.linalg.cholesky(m + 0 * a.sum())
        a[at] = k * 2
        return low @ b

    f = pyjit.compile(step)
    with torch.no_grad():
        for call in range(14):
            at = call % 5 + 2
            place = at if kind == "number" else torch.tensor([at])
            k = values(8, seed=call) if kind == "number" else values(1, 8, seed=call)
            good = call < 8 or call % 2
            m = torch.eye(9) * (2 if good else -1)
            states = []
            for function in (f, step):
                a, b = values(9, 8), values(9, 8, seed=1)
                try:
                    result = function(a, b, k, m, place)
                    assert good
                except torch.linalg.LinAlgError:
                    assert not good
                    result = None
                states.append((a, b, result, a._version, b._version))
            torch.testing.assert_close(states[0], states[1])
    assert pyjit.stats(f)["hits"] >= 5


def test_an_index_out_of_range() -> None:
    """Found when the elements are read that are to be saved: nothing is written, and eager says what is wrong."""

    def step(a: Tensor, b: Tensor, k: Tensor, at: Tensor) -> Tensor:
        b[2] = k[0]
        a.index_copy_(0, at, k)
        return a @ b

    f = pyjit.compile(step)
    with torch.no_grad():
        for call in range(10):
            at = torch.tensor([call % 3, 40 if call in (6, 8) else 4])
            told = []
            for function in (f, step):
                a, b = values(8, 8), values(8, 8, seed=1)
                try:
                    function(a, b, values(2, 8, seed=call), at)
                    told.append((a, b))
                except (IndexError, RuntimeError) as error:
                    told.append((type(error).__name__, str(error), b))
            assert len(told[0]) == len(told[1])
            for x, y in zip(told[0], told[1], strict=True):
                assert torch.equal(x, y) if isinstance(x, Tensor) else x == y


@scenario(captured="late", graph_breaks=ANY)
def test_a_branch_on_what_was_written(compile: Compile) -> Steps:
    """The speculation does not hold: the part is put back, and eager writes it."""

    def g(a: Tensor, k: Tensor, at: int) -> Tensor:
        a[at] = k
        a[at, 1:3] *= 2
        if a.sum() > 0:
            return a @ a
        a[0] = 1
        return a.clone()

    f = compile(g)
    for call in range(12):
        a = values(6, 6) * 0.1
        yield [
            f(
                a,
                values(6, seed=call) * 0.1 + (1 if call % 5 < 3 else -1),
                call % 4 + 2,
            ),
            a,
        ]


def _shift(a: Tensor, b: Tensor, at: int) -> None:
    a[at] = a[1]
    a[1] = a[0]


def _swap_rows(a: Tensor, b: Tensor, at: int) -> None:
    old = a[at].clone()
    a[at] = b[at]
    b[at] = old


def _overlapping(a: Tensor, b: Tensor, at: int) -> None:
    a[2:4] = a[at : at + 2].clone()


def _view_before_and_behind(a: Tensor, b: Tensor, at: int) -> tuple[Tensor, ...]:
    view = a[at]
    before = view + 1
    view.mul_(2)
    return before, view + 1, view, a[0]


def _old_part(a: Tensor, b: Tensor, at: int) -> Tensor:
    old = a[at] * 1
    a[at] = b[0]
    return old


def _old_whole(a: Tensor, b: Tensor, at: int) -> Tensor:
    old = a.clone()
    a[at] = b[0]
    return old + a


def _beginning(a: Tensor, b: Tensor, at: int) -> Tensor:
    a[:, :at] = 0
    b[:, :at] = a[:, at : at + 1]
    return b.sum(0)


def _converted(a: Tensor, b: Tensor, at: int) -> Tensor:
    a[at] = b[at].double() / 3
    b[0, at] = 7
    return a @ b


def _into_each_other(a: Tensor, b: Tensor, at: int) -> Tensor:
    a[at] = b.sum(0)
    b[:, at] = a.sum(1)
    return a @ b


STORIES = [
    _shift, _swap_rows, _overlapping, _view_before_and_behind, _old_part, _old_whole, _beginning, _converted,
    _into_each_other,
]  # fmt: skip


@pytest.mark.parametrize("gaps", [False, True])
@pytest.mark.parametrize("launched", [False, True])
@pytest.mark.parametrize("program", STORIES)
def test_parts(program: Any, launched: bool, gaps: bool) -> None:
    def story(compile: Compile) -> Steps:
        f = compile(program, options={"simulated_device": launched})
        for call in range(8):
            memory, other = values(30, 30, seed=call), values(10, 11)
            a, b = (
                (memory[::3, 1:21:2], other[:, 1:].t())
                if gaps
                else (values(10, 10, seed=call), values(10, 10))
            )
            yield [f(a, b, call % 6 + 2), a, b, memory, other]

    as_test(story, captured="late", graph_breaks=ANY)()


@scenario(grad=True, captured="late")
def test_gradients_flow_past_a_cache(compile: Compile) -> Steps:
    """Weights require grad, the cache does not: what the backward reads of it is the call's own."""

    def g(w: Tensor, cache: Tensor, at: int) -> Tensor:
        cache[at] = 0.5
        return (w @ cache).sin()

    f = compile(g)
    cache = values(6, 6)
    for call in range(8):
        w = values(6, 6, seed=call).requires_grad_()
        y = f(w, cache, call % 4 + 2)
        y.sum().backward()
        yield [y, w.grad, cache]


@pytest.mark.parametrize("write", ["{} = {}", "{}.copy_({})", "{}.add_({})"])
def test_parts_that_overlap_are_refused(write: str) -> None:
    """Eager raises where a part that is written and one that is read overlap, wherever the first call's were."""

    space: dict[str, Any] = {}
    exec(
        f"def g(a, p):\n  {write.format('a[p:p + 2]', 'a[2:4]')}\n  return a * 2", space
    )
    f = pyjit.compile(space["g"])
    for p in (0, 4, 5, 1, 6, 3, 2, 0, 1, 4):
        have, want = values(9, 3), values(9, 3)
        try:
            result = space["g"](want, p)
        except RuntimeError:
            with pytest.raises(RuntimeError, match="memory"):
                f(have, p)
        else:
            torch.testing.assert_close(f(have, p), result)
        torch.testing.assert_close(have, want)
    stats = pyjit.stats(f)
    assert stats.hits >= 2, stats


@scenario(captured="late", graph_breaks=ANY)
def test_two_owners(compile: Compile) -> Steps:
    """Two inputs of one memory, apart or not, and one tensor given twice."""

    def g(a: Tensor, b: Tensor, at: int) -> Tensor:
        a[at] = b[0] * 2
        b[:, at] += 1
        return a @ b

    f = compile(g)
    for call in range(14):
        memory, other = values(24, 6, seed=call), values(6, 6)
        a = memory[:6]
        b = [other, a, memory[3:9], memory[12:18]][call % 4 if call > 5 else 0]
        yield [f(a, b, call % 4 + 2), memory, other]
