# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Sizes that change between calls become symbols: one recompilation, then hits.

A test counts the calls that no specialization answered. Where the stages behind the capture
still compile one size at a time (`fixed_sizes` of the stats), it only compares answers.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from Integration.harness import Compile, Steps, attempt, difference, observe
from torch import nn


def hits_from(story: Callable[..., Steps], count: int | None) -> Callable[[], None]:
    def test() -> None:
        import pyjit

        made: list[Any] = []

        def compile(f: Any) -> Any:
            made.append(pyjit.compile(f, options={"max_records": 64}))
            return made[-1]

        want = observe(story, lambda f: f, grad=False)
        with warnings.catch_warnings():
            warnings.simplefilter("error", RuntimeWarning)
            have = observe(story, compile, grad=False)
        for index, pair in enumerate(zip(want, have, strict=True)):
            found = difference(*pair, where=f"step {index}")
            assert not found, found
        stats = [pyjit.stats(compiled) for compiled in made]
        assert all(s["specializations"] for s in stats), stats
        if count is None or any(s["fixed_sizes"] for s in stats):
            return
        assert sum(s["misses"] for s in stats) == count, stats
        assert sum(s["eager_calls"] for s in stats) == 0, stats

    test.__name__ = story.__name__
    test.__doc__ = story.__doc__
    test.__module__ = story.__module__
    return test


def misses(count: int | None) -> Callable[[Callable[..., Steps]], Callable[[], None]]:
    """None: some sizes keep their values; how many specializations there are is not stated."""
    return lambda story: hits_from(story, count)


def over(compiled: Any, *shapes: tuple[int, ...]) -> Steps:
    """Calls with one tensor of each of these shapes; strides are looked at too."""
    for shape in shapes:
        result = compiled(torch.randn(shape))
        yield result
        if isinstance(result, torch.Tensor):
            yield result.stride()


@misses(2)
def test_pointwise(compile: Compile) -> Steps:
    f = compile(lambda a, b: torch.relu(a + b) * 2)
    for n in (2, 3, 5, 17, 3, 2):
        yield f(torch.randn(n, 8), torch.randn(n, 8))


@misses(2)
def test_mlp(compile: Compile) -> Steps:
    model = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 4)).eval()
    yield from over(compile(model), (2, 8), (3, 8), (5, 8), (17, 8))


@misses(2)
def test_cnn(compile: Compile) -> Steps:
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(8, 4, 3),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(4, 10),
    ).eval()
    # No size of an image is a number of channels.
    shapes = [(n, 3, 10, 14) for n in (2, 3, 5, 17)]
    yield from over(compile(model), *shapes)


def test_a_specialized_size_says_why() -> None:
    import pyjit

    f = pyjit.compile(
        lambda x: torch.quantile(x, 0.5, dim=0), options={"max_records": 64}
    )
    with torch.no_grad():
        for n in (2, 3, 5):
            f(torch.randn(n, 4))
        stats = pyjit.stats(f)
        assert stats["misses"] == 3, stats
        lines = stats["specialized_sizes"]
        assert any("size 0 of argument 0 stays 5: aten::" in s for s in lines), lines
        assert all(".py:" in line for line in lines), lines
        assert lines[0] in pyjit.explain(f)(torch.randn(2, 4))


class Block(nn.Module):
    """A transformer encoder block, attention written out."""

    def __init__(self, width: int = 16, heads: int = 4) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 32), nn.Linear(32, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, t, c = x.shape
        q, k, v = self.qkv(self.norm1(x)).split(c, dim=2)
        q = q.view(b, t, self.heads, c // self.heads).transpose(1, 2)
        k = k.view(b, t, self.heads, c // self.heads).transpose(1, 2)
        v = v.view(b, t, self.heads, c // self.heads).transpose(1, 2)
        y = nn.functional.scaled_dot_product_attention(q, k, v)
        y = y.transpose(1, 2).contiguous().view(b, t, c)
        x = x + self.out(y)
        return x + self.down(nn.functional.gelu(self.up(self.norm2(x))))


@misses(2)
def test_transformer_batch(compile: Compile) -> Steps:
    yield from over(compile(Block().eval()), (2, 6, 16), (3, 6, 16), (5, 6, 16))


@misses(2)
def test_transformer_batch_and_length(compile: Compile) -> Steps:
    yield from over(compile(Block().eval()), (2, 6, 16), (3, 7, 16), (5, 9, 16))


@misses(2)
def test_explicit_softmax_attention(compile: Compile) -> Steps:
    def f(x: torch.Tensor) -> torch.Tensor:
        scores = x @ x.transpose(-2, -1) / x.shape[-1] ** 0.5
        return scores.softmax(-1) @ x

    yield from over(compile(f), (2, 4, 8), (3, 4, 8), (5, 4, 8))


@misses(2)
def test_sizes_as_numbers(compile: Compile) -> Steps:
    f = compile(lambda x: x.sum(0) / x.shape[0] + len(x) + x.size(0) * 2)
    yield from over(f, (2, 8), (3, 8), (5, 8), (17, 8))


@misses(2)
def test_numel(compile: Compile) -> Steps:
    f = compile(lambda x: x.sum() / x.numel())
    yield from over(f, (2, 8), (3, 8), (5, 8))


def test_branch_on_a_size() -> None:
    """A branch is a guard: each side has a specialization."""

    def story(compile: Compile) -> Steps:
        f = compile(lambda x: x + 1 if x.shape[0] > 4 else x - 1)
        yield from over(f, (2, 8), (3, 8), (4, 8), (7, 8), (9, 8), (2, 8), (5, 8))

    hits_from(story, 3)()


@misses(2)
def test_arithmetic(compile: Compile) -> Steps:
    def f(x: torch.Tensor) -> torch.Tensor:
        n = x.shape[0]
        return x.view(n * 2, -1) * (n + 1)

    yield from over(compile(f), (2, 8), (3, 8), (5, 8))


@misses(2)
def test_unpacked_view(compile: Compile) -> Steps:
    def f(x: torch.Tensor) -> torch.Tensor:
        b, t = x.size()
        return x.view(b, 2, t // 2).sum(1)

    yield from over(compile(f), (2, 8), (3, 8), (5, 8))


@misses(2)
def test_tuple_of_sizes(compile: Compile) -> Steps:
    def f(x: torch.Tensor) -> torch.Tensor:
        return x.reshape(x.shape[:-1] + (2, 4)).sum(-1)

    yield from over(compile(f), (2, 8), (3, 8), (5, 8))


@misses(2)
def test_flatten_and_reshape_that_copies(compile: Compile) -> Steps:
    def f(x: torch.Tensor) -> torch.Tensor:
        return x.transpose(1, 2).reshape(x.shape[0], -1) + x.flatten(1)

    yield from over(compile(f), (2, 4, 3), (3, 4, 3), (5, 4, 3))


@misses(None)
def test_literal_view(compile: Compile) -> Steps:
    """A view to a number of rows that is written out: another batch may not fit."""
    f = compile(lambda x: x.view(6, -1) + 1)
    for n in (3, 6, 12, 5, 9):
        yield attempt(f, torch.randn(n, 8))


@misses(2)
def test_two_inputs_share_a_size(compile: Compile) -> Steps:
    f = compile(lambda x, y: (x @ y).relu())
    for n in (2, 3, 5):
        yield f(torch.randn(4, n), torch.randn(n, 6))


@misses(None)
def test_two_inputs_share_no_size(compile: Compile) -> Steps:
    """What was equal by chance need not stay so; what has to be raises."""
    f = compile(lambda x, y: x.sum(0) + y.sum(0))
    g = compile(lambda x, y: x + y)
    for m, n in ((2, 2), (3, 3), (4, 5), (6, 2), (7, 7)):
        yield f(torch.randn(m, 8), torch.randn(n, 8))
        yield attempt(g, torch.randn(m, 8), torch.randn(n, 8))


@misses(None)
def test_one_and_zero(compile: Compile) -> Steps:
    f = compile(lambda x, y: (x + y).sum(1))
    for n in (3, 5, 1, 7, 0, 4, 1, 2):
        yield f(torch.randn(n, 8), torch.randn(n, 8))


@misses(None)
def test_broadcast_trap(compile: Compile) -> Steps:
    """A size of one broadcasts where five did not."""
    f = compile(lambda x, y: x * y)
    for m, n in ((3, 3), (5, 5), (1, 5), (5, 1), (4, 4), (1, 1)):
        yield f(torch.randn(m, 4), torch.randn(n, 4))


@misses(None)
def test_broadcast_between_dimensions(compile: Compile) -> Steps:
    """Four columns beside four rows: equal by chance."""
    f = compile(lambda x, y: x + y)
    yield f(torch.randn(2, 4), torch.randn(4))
    yield f(torch.randn(3, 4), torch.randn(4))
    yield f(torch.randn(4, 4), torch.randn(4))
    yield f(torch.randn(4, 6), torch.randn(6))
    yield attempt(f, torch.randn(4, 6), torch.randn(4))


@misses(None)
def test_strides(compile: Compile) -> Steps:
    """The same sizes in other layouts are other specializations."""
    f = compile(lambda x: (x * 2, x.contiguous() is x, x.is_contiguous()))
    for n in (3, 5, 6):
        yield f(torch.randn(n, 8))
        yield f(torch.randn(8, n).t())
        yield f(torch.randn(n, 16)[:, ::2])


@misses(2)
def test_inner_size(compile: Compile) -> Steps:
    f = compile(lambda x: torch.tanh(x).sum(0))
    yield from over(f, (4, 3, 8), (4, 5, 8), (4, 9, 8))


@misses(2)
def test_size_returned(compile: Compile) -> Steps:
    f = compile(lambda x: (x.shape, x.relu().shape[0], x.size(), x * 2))
    for n in (2, 3, 5, 17):
        yield f(torch.randn(n, 8))


@misses(2)
def test_shapes_compared(compile: Compile) -> Steps:
    def f(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x + y if x.shape == y.shape else x * 2

    g = compile(f)
    for n in (2, 3, 5):
        yield g(torch.randn(n, 8), torch.randn(n, 8))


@misses(None)
def test_loop_over_a_size(compile: Compile) -> Steps:
    """The iterations are unrolled: each size is a specialization."""

    def f(x: torch.Tensor) -> torch.Tensor:
        total = x[0] * 0
        for i in range(x.shape[0]):
            total = total + x[i] * i
        return total

    yield from over(compile(f), (2, 8), (3, 8), (5, 8), (3, 8))


@misses(None)
def test_iterate_over_rows(compile: Compile) -> Steps:
    f = compile(lambda x: sum(row * 2 for row in x))
    yield from over(f, (2, 8), (3, 8), (5, 8), (3, 8))


@misses(2)
def test_in_place(compile: Compile) -> Steps:
    def f(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        y.add_(1).relu_()
        y += x
        return y

    yield from over(compile(f), (2, 8), (3, 8), (5, 8))


@misses(2)
def test_in_place_input(compile: Compile) -> Steps:
    def f(x: torch.Tensor) -> None:
        x.mul_(2)

    g = compile(f)
    for n in (2, 3, 5):
        x = torch.randn(n, 8)
        g(x)
        yield x


class Running(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros(8))
        self.register_buffer("mask", torch.ones(32, 32).tril())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.seen.copy_(x.mean(0))
        return x + self.seen


@misses(2)
def test_module_buffer(compile: Compile) -> Steps:
    model = Running()
    f = compile(model)
    for n in (2, 3, 5):
        yield f(torch.randn(n, 8))
        yield model.seen.clone()


@misses(2)
def test_mask_cut_out_of_a_buffer(compile: Compile) -> Steps:
    mask = torch.ones(32, 32).tril()

    def f(x: torch.Tensor) -> torch.Tensor:
        t = x.shape[1]
        return x.masked_fill(mask[:t, :t] == 0, -1.0)

    g = compile(f)
    for t in (4, 6, 9):
        yield g(torch.randn(2, t, t))


@misses(None)
def test_parts_beyond_the_end(compile: Compile) -> Steps:
    """What the guards see to: a part of a dimension lies inside of it."""
    table = torch.arange(24.0).view(8, 3)
    for f in (
        lambda x: table[: x.shape[0]] * 2,
        lambda x: table[x.shape[0] :] * 2,
        lambda x: table[-x.shape[0] :] * 2,
        lambda x: table[x.shape[0] - 1 : x.shape[0] + 2] * 2,
        lambda x: table[x.shape[0]] * 2,
        lambda x: table[x.shape[0] - 3] * 2,
        lambda x: x[4:] * 2,
        lambda x: x[3:5] * 2,
        lambda x: table.narrow(0, 1, x.shape[0]) * 2,
        lambda x: x.split(4)[-1] * 2,
    ):
        g = compile(f)
        for n in (5, 6, 7, 8, 9, 12, 3, 2, 6, 4):
            yield attempt(g, torch.randn(n, 3))


@misses(2)
def test_cat_with_nothing(compile: Compile) -> Steps:
    """A cache before its first token: torch skips what has the shape [0]."""
    f = compile(lambda x: torch.cat([torch.tensor([]), x, x], -2) + 1)
    yield from over(f, (2, 3, 4), (3, 5, 4), (5, 2, 4), (17, 9, 4))


@misses(2)
def test_cat(compile: Compile) -> Steps:
    f = compile(lambda x, y: torch.cat([x, y, x], 0).relu())
    for m, n in ((2, 3), (3, 4), (5, 2)):
        yield f(torch.randn(m, 8), torch.randn(n, 8))


@misses(2)
def test_stack(compile: Compile) -> Steps:
    f = compile(lambda x: torch.stack([x, x * 2], 1).sum(1))
    yield from over(f, (2, 8), (3, 8), (5, 8))


@misses(2)
def test_factories(compile: Compile) -> Steps:
    def f(x: torch.Tensor) -> torch.Tensor:
        n = x.shape[0]
        rows = torch.arange(n).unsqueeze(1)
        return x + torch.zeros(n, 8) + x.new_ones((n, 1)) + rows

    yield from over(compile(f), (2, 8), (3, 8), (5, 8))


@misses(2)
def test_expand(compile: Compile) -> Steps:
    token = torch.randn(1, 1, 8)

    def f(x: torch.Tensor) -> torch.Tensor:
        return torch.cat([token.expand(x.shape[0], -1, -1), x], 1) * 2

    yield from over(compile(f), (2, 3, 8), (3, 3, 8), (5, 3, 8))


@misses(2)
def test_last_position(compile: Compile) -> Steps:
    f = compile(lambda x: x[:, -1] + x[:, 0])
    yield from over(f, (2, 4, 8), (2, 6, 8), (2, 9, 8))


@misses(None)
def test_slice_that_shows_all(compile: Compile) -> Steps:
    """x[:8] of five rows is all of them, of twenty it is not."""
    f = compile(lambda x: x[:8] * 2)
    yield from over(f, (5, 4), (6, 4), (7, 4), (20, 4), (8, 4), (30, 4), (9, 4))


@misses(None)
def test_chunk_and_diff(compile: Compile) -> Steps:
    """What Torch computes of sizes behind our back is not taken for a literal."""
    f = compile(lambda x: (torch.diff(x, dim=0), x.chunk(2, 0)[1] + 1))
    yield from over(f, (6, 4), (5, 4), (4, 4), (7, 4), (2, 4))


@misses(2)
def test_chunk_of_a_fixed_size(compile: Compile) -> Steps:
    def f(x: torch.Tensor) -> torch.Tensor:
        a, b = x.chunk(2, -1)
        return a * torch.sigmoid(b)

    yield from over(compile(f), (2, 8), (3, 8), (5, 8))


@misses(None)
def test_index_that_must_be_there(compile: Compile) -> Steps:
    f = compile(lambda x: x[3] + 1)
    for n in (5, 6, 4, 3, 9):
        yield attempt(f, torch.randn(n, 8))


@misses(None)
def test_loss(compile: Compile) -> Steps:
    """The operator table does not know nll_loss_forward: sizes keep their values."""
    f = compile(nn.functional.cross_entropy)
    for n in (2, 3, 5):
        yield f(torch.randn(n, 8), torch.arange(n) % 8)


@misses(2)
def test_embedding(compile: Compile) -> Steps:
    model = nn.Embedding(20, 8)
    f = compile(lambda i: model(i).mean(1))
    for n in (2, 3, 5):
        yield f(torch.arange(n * 4).view(n, 4) % 20)


@torch.jit.script
def scripted(x: torch.Tensor) -> torch.Tensor:
    return x.reshape(x.size(0), -1).sum(1) / x.size(0) + torch.arange(x.size(0))


@misses(None)
def test_script(compile: Compile) -> Steps:
    """TorchScript computes with sizes where no recorder looks."""
    f = compile(lambda x: scripted(x) * 2)
    yield from over(f, (2, 8), (3, 8), (5, 8), (4, 8))


@misses(None)
def test_view_returned(compile: Compile) -> Steps:
    """A result that shows an input's memory."""
    f = compile(lambda x: x.view(x.shape[0], 2, 4))
    for n in (2, 3, 5):
        x = torch.randn(n, 8)
        y = f(x)
        y.zero_()
        yield x, y


@pytest.mark.parametrize("seed", range(6))
def test_random_shapes(seed: int) -> None:
    """One function, shapes of all kinds in any order."""

    def story(compile: Compile) -> Steps:
        def f(x: torch.Tensor, y: torch.Tensor) -> tuple:
            z = (x + y).softmax(-1)
            return z.sum(0), z.reshape(-1)[: x.shape[0]], x.shape, z.is_contiguous()

        g = compile(f)
        generator = torch.Generator().manual_seed(seed)
        for _ in range(8):
            m, n = torch.randint(1, 5, (2,), generator=generator).tolist()
            yield attempt(g, torch.randn(m, n), torch.randn(m, n))
            yield attempt(g, torch.randn(n, m).t(), torch.randn(m, n))
            yield attempt(g, torch.randn(m, n), torch.randn(n))

    hits_from(story, None)()


@misses(None)
def test_shape_of_a_scalar(compile: Compile) -> Steps:
    """An empty torch.Size, looked at or in a container, says nothing of sizes."""

    def f(x: torch.Tensor) -> Any:
        y = x.sum()
        return y.reshape(y.shape), [y.shape, y.stride()], x.shape[0]

    f = compile(f)
    for n in (2, 3, 5, 17):
        yield f(torch.ones(n, 4))


@misses(None)
def test_loss_of_probabilities(compile: Compile) -> Steps:
    """Inside of the operator, its C++ divides by the number of rows."""
    f = compile(nn.CrossEntropyLoss())
    for n in (4, 4, 6, 4, 5, 3):
        yield f(torch.randn(n, 8), torch.randn(n, 8).softmax(-1))


@misses(2)
def test_parts_that_are_added_to(compile: Compile) -> Steps:
    """As Python's `x[k] = x[k].__iadd__(y)` writes them."""

    def f(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x[:, 1:] += y[:, :1]
        return x * 2

    g = compile(f)
    for n in (4, 5, 7, 12, 6):
        x = torch.randn(3, n)
        yield g(x, torch.randn(3, n)), x


@misses(2)
def test_view_of_rows_that_another_tensor_has(compile: Compile) -> Steps:
    """`mask.view(batch, -1)`, of another tensor's batch."""
    f = compile(lambda x, mask: mask.view(x.shape[0], -1).sum(1) + x.sum(1))
    for b, n in ((2, 6), (3, 8), (5, 7), (4, 9)):
        yield f(torch.randn(b, 5), torch.randn(b, n))


def test_view_of_other_rows() -> None:
    """Where the sizes were equal once, and are not in another call."""
    import pyjit

    def f(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return y.view(x.shape[0], -1) * 2

    fast = pyjit.compile(f)
    with torch.no_grad():
        for n, shape in (
            (2, (2, 6)),
            (3, (3, 8)),
            (4, (2, 6)),
            (2, (4, 3)),
            (6, (4, 3)),
            (5, (4, 3)),
            (3, (3, 3)),
        ):
            x, y = torch.randn(n, 2), torch.randn(shape)
            found = difference(attempt_shown(f, x, y), attempt_shown(fast, x, y))
            assert not found, found


def attempt_shown(f: Any, *given: Any) -> Any:
    result = attempt(f, *given)
    return (
        result
        if isinstance(result, torch.Tensor)
        else (type(result).__name__, str(result))
    )


@misses(2)
def test_rows_sorted_among_experts(compile: Compile) -> Steps:
    """How transformers computes a mixture of experts on a CPU."""
    torch.manual_seed(0)
    weights = torch.randn(4, 8, 16)

    def f(x: torch.Tensor, expert: torch.Tensor) -> torch.Tensor:
        chosen, order = torch.sort(expert)
        counts = torch.histc(chosen.float(), bins=4, min=0, max=3)
        ends = torch.cumsum(counts, 0, dtype=torch.int32)
        return torch._grouped_mm(x[order], weights, offs=ends).relu() * 2

    g = compile(f)
    for n in (4, 6, 9, 5):
        yield g(torch.randn(n, 8), torch.randint(0, 4, (n,)))
