# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Text of small transformers, token by token: ways to choose tokens, caches, and what changes between calls.

Tokens, scores, caches, random numbers and errors are eager's after each call. With PYJIT_EXAMPLES over 60, each mode,
model and change runs with each cache; else with one of them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Any

import pyjit
import pytest
import torch
from Integration.generating import (
    MODELS,
    alike,
    attempt,
    build,
    cache_tensors,
    prompt,
)
from torch import nn

pytest.importorskip("transformers")

#: What `generate` is told, by the way in which tokens are chosen.
MODES: dict[str, dict[str, Any]] = {
    "greedy": {},
    "sampled": {"do_sample": True, "temperature": 0.7},
    "top-k-p": {"do_sample": True, "top_k": 7, "top_p": 0.8},
    "penalties": {"repetition_penalty": 1.3, "min_new_tokens": 4, "no_repeat_ngram_size": 2},
    "beams": {"num_beams": 3},
    "sampled-beams": {"num_beams": 2, "do_sample": True},
    "lookup": {"prompt_lookup_num_tokens": 3},
    "assisted": {},
    "streamed": {},
    "stopped": {},
}  # fmt: skip
#: These take one sequence at a time.
SINGLE = ("lookup", "assisted", "streamed")
CACHES: dict[str, dict[str, Any]] = {
    "dynamic": {},
    "static": {"cache_implementation": "static"},
    "none": {"use_cache": False},
}  # fmt: skip

EVERYTHING = int(os.environ.get("PYJIT_EXAMPLES", "60")) > 60


def with_caches(names: Iterable[str], caches: Iterable[str]) -> list[tuple[str, str]]:
    """All pairs, or each name with one of the caches in turn."""
    turns = list(caches)
    if EVERYTHING:
        return [(name, cache) for name in names for cache in turns]
    return [(name, turns[i % len(turns)]) for i, name in enumerate(names)]


class Collector:
    """A streamer that keeps what it is given."""

    def __init__(self) -> None:
        self.seen: list[Any] = []

    def put(self, value: torch.Tensor) -> None:
        self.seen.append(value.clone())

    def end(self) -> None:
        self.seen.append("end")


def ends_at_many(tokens: torch.Tensor, scores: Any, **_: Any) -> torch.Tensor:
    """A user's criterion: the sum of a row's tokens."""
    return tokens.sum(1) > 500


class Both:
    """A model in eager and the same one compiled, told the same."""

    def __init__(
        self,
        name: str,
        way: str = "model",
        options: dict[str, Any] | None = None,
        **config: Any,
    ) -> None:
        self.models = build(name, **config), build(name, **config)
        self.assistants = [build(name, seed=1, **config) for _ in self.models]
        self.caches: list[Any] = [None, None]
        model = self.models[1]
        target = {"model": model, "forward": model.forward, "generate": model.generate}
        self.fast = pyjit.compile(target[way], options=options)
        if way == "forward":
            model.forward = self.fast
        compiled = {"model": self.fast, "forward": model}.get(way)
        self.calls: tuple[Callable[..., Any], ...] = (
            self.models[0].generate,
            compiled.generate if compiled else self.fast,
        )

    def generate(
        self, mode: str = "greedy", cache: str = "dynamic", batch: int = 2, length: int = 5, new: int = 5,
        seed: int = 0, go_on: bool = False, **given: Any,
    ) -> None:  # fmt: skip
        """Calls both and compares. `go_on`: with the cache that the call before has left."""
        found = []
        for side, (call, model) in enumerate(zip(self.calls, self.models, strict=True)):
            told = {
                "max_new_tokens": new,
                "do_sample": False,
                **CACHES[cache],
                **MODES[mode],
                **given,
            }
            told |= {"return_dict_in_generate": True, "output_scores": True}
            told |= prompt(model, 1 if mode in SINGLE else batch, length, seed) | given
            streamer = told["streamer"] = Collector() if mode == "streamed" else None
            if mode == "assisted":
                told["assistant_model"] = self.assistants[side]
            if mode == "stopped":
                told["stopping_criteria"] = [ends_at_many]
            if go_on:
                told["past_key_values"] = self.caches[side]
                told.pop("cache_implementation", None)
            torch.manual_seed(seed)

            def run(call: Any = call, told: Any = told, side: int = side) -> Any:
                result = call(**told)
                self.caches[side] = getattr(result, "past_key_values", None)
                return result

            found.append([attempt(run), streamer and streamer.seen])
        alike(found[1], found[0])

    def change(self, what: Callable[[Any], Any]) -> None:
        for model in self.models:
            what(model)

    def change_caches(self, what: Callable[[Any], Any]) -> None:
        for cache in self.caches:
            what(cache)
        alike(cache_tensors(self.caches[1]), cache_tensors(self.caches[0]))


@pytest.mark.parametrize(("mode", "cache"), with_caches(MODES, CACHES))
def test_modes(mode: str, cache: str) -> None:
    both = Both("llama")
    for number, (batch, length) in enumerate([(2, 5), (2, 7), (3, 6)]):
        both.generate(mode, cache, batch, length, seed=number)
    both.generate("greedy", cache)


@pytest.mark.parametrize(("name", "cache"), with_caches(MODELS, ["dynamic", "static"]))
def test_models(name: str, cache: str) -> None:
    both = Both(name)
    for number, (batch, length) in enumerate([(2, 5), (3, 9)]):
        both.generate("greedy", cache, batch, length, new=4, seed=number)


@pytest.mark.parametrize("way", ["forward", "generate"])
@pytest.mark.parametrize("mode", ["greedy", "sampled", "beams"])
def test_what_is_compiled(way: str, mode: str) -> None:
    both = Both("llama", way)
    for number, (batch, length) in enumerate([(2, 5), (2, 7), (3, 6)]):
        both.generate(mode, "dynamic", batch, length, seed=number)


class Adapter(nn.Module):
    """A low-rank addition to a linear layer that can be switched."""

    def __init__(self, inner: nn.Linear) -> None:
        super().__init__()
        self.inner, self.chosen = inner, ""
        generator = torch.Generator().manual_seed(3)
        self.parts = nn.ParameterDict()
        for name in ("a", "b"):
            for side, shape in (
                ("down", (2, inner.in_features)),
                ("up", (inner.out_features, 2)),
            ):
                self.parts[f"{name}-{side}"] = nn.Parameter(
                    torch.randn(shape, generator=generator)
                )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.inner(x)
        if self.chosen:
            y = (
                y
                + x
                @ self.parts[f"{self.chosen}-down"].T
                @ self.parts[f"{self.chosen}-up"].T
            )
        return y


def adapt(model: Any) -> None:
    for layer in model.model.layers:
        layer.self_attn.v_proj = Adapter(layer.self_attn.v_proj)


def choose(name: str) -> Callable[[Any], None]:
    def change(model: Any) -> None:
        for layer in model.model.layers:
            layer.self_attn.v_proj.chosen = name

    return change


def scale_head(model: Any) -> None:
    with torch.no_grad():
        model.lm_head.weight.mul_(-1.5)


def load_others(model: Any) -> None:
    model.load_state_dict(build("llama", seed=5).state_dict())


def to_sixty_four(model: Any) -> None:
    model.double()


def more_tokens(model: Any) -> None:
    model.generation_config.max_new_tokens = 9
    model.generation_config.repetition_penalty = 1.5


#: What happens to a model between two calls.
CHANGES: dict[str, list[Callable[[Any], Any]]] = {
    "weights-written": [scale_head, scale_head],
    "weights-loaded": [load_others],
    "type": [to_sixty_four, lambda model: model.float()],
    "config": [more_tokens],
    "mode": [lambda model: model.train(), lambda model: model.eval()],
    "adapters": [adapt, choose("a"), choose("b"), choose(""), choose("a")],
    "eager-attention": [lambda model: model.set_attn_implementation("eager")],
}  # fmt: skip


@pytest.mark.parametrize(
    ("change", "cache"), with_caches(CHANGES, ["dynamic", "static"])
)
def test_changes_of_a_model(change: str, cache: str) -> None:
    both = Both("llama")
    both.generate("greedy", cache)
    for number, what in enumerate(CHANGES[change]):
        both.change(what)
        both.generate("greedy", cache, seed=number)


def test_padding() -> None:
    """Rows of several lengths: a mask that is not all ones takes another branch."""
    both = Both("llama")
    for left in (0, 2, 3, 0):
        mask = torch.ones(2, 6, dtype=torch.long)
        mask[0, :left] = 0
        both.generate("greedy", "dynamic", 2, 6, attention_mask=mask)


CACHE_CHANGES: dict[str, Callable[[Any], Any]] = {
    "cropped": lambda cache: cache.crop(-3),
    "reordered": lambda cache: cache.reorder_cache(torch.tensor([1, 0])),
    "selected": lambda cache: cache.batch_select_indices(torch.tensor([1, 1])),
    "unchanged": lambda cache: None,
}  # fmt: skip


@pytest.mark.parametrize("change", CACHE_CHANGES)
def test_changes_of_a_cache(change: str) -> None:
    both = Both("llama")
    both.generate("greedy", "dynamic", 2, 5, new=4)
    for length in (12, 20):
        both.change_caches(CACHE_CHANGES[change])
        both.generate("greedy", "dynamic", 2, length, new=4, go_on=True)


@pytest.mark.parametrize("name", ["llama", "gemma3"])
@pytest.mark.parametrize("change", ["reset", "unchanged"])
def test_changes_of_a_static_cache(change: str, name: str) -> None:
    from transformers import StaticCache

    both = Both(name)
    for side, model in enumerate(both.models):
        both.caches[side] = StaticCache(config=model.config, max_cache_len=24)
    both.generate("greedy", "dynamic", 2, 5, new=4, go_on=True)
    for length in (7, 12):
        if change == "reset":
            both.change_caches(lambda cache: cache.reset())
        both.generate("greedy", "dynamic", 2, length, new=4, go_on=True)


def test_a_cache_that_is_too_short() -> None:
    """Eager's error, and a cache and a model that can be used behind it."""
    from transformers import StaticCache

    both = Both("llama")
    for new in (4, 4, 30, 4):
        for side, model in enumerate(both.models):
            both.caches[side] = StaticCache(config=model.config, max_cache_len=16)
        both.generate("greedy", "dynamic", 2, 5, new=new, go_on=True)


def own_loop(model: Any, tokens: torch.Tensor, steps: int, cache: Any = None) -> Any:
    """What tutorials write: the likeliest token of each step, and the cache of the one before."""
    given, logits = tokens, []
    for _ in range(steps):
        out = model(input_ids=given, past_key_values=cache, use_cache=True)
        cache, given = out.past_key_values, out.logits[:, -1:].argmax(-1)
        tokens = torch.cat([tokens, given], 1)
        logits.append(out.logits)
    return tokens, logits, cache


@pytest.mark.parametrize("name", ["gpt2", "llama", "mixtral", "gemma3"])
@pytest.mark.parametrize("compiled", ["model", "step"])
def test_own_loops(name: str, compiled: str) -> None:
    """The model compiled, and a step with what chooses the token."""
    eager, model = build(name), build(name)

    def step(model: Any, given: torch.Tensor, cache: Any) -> Any:
        out = model(input_ids=given, past_key_values=cache, use_cache=True)
        probabilities = (out.logits[:, -1] / 0.8).softmax(-1)
        return torch.multinomial(probabilities, 1), out.past_key_values

    def loop(take: Any, model: Any, given: torch.Tensor, steps: int) -> Any:
        cache, tokens = None, [given]
        for _ in range(steps):
            given, cache = take(model, given, cache)
            tokens.append(given)
        return torch.cat(tokens, 1), cache

    fast = pyjit.compile(model if compiled == "model" else step)
    with torch.no_grad():
        for batch, length, steps in ((2, 4, 9), (2, 7, 8), (3, 5, 5)):
            tokens = prompt(eager, batch, length)["input_ids"]
            seen = []
            for side, it in enumerate((eager, model)):
                torch.manual_seed(length)
                if compiled == "model":
                    given, logits, cache = own_loop(fast if side else it, tokens, steps)
                else:
                    given, cache = loop(fast if side else step, it, tokens, steps)
                    logits = []
                seen.append(
                    [given, logits, cache_tensors(cache), torch.get_rng_state()]
                )
            alike(seen[1], seen[0])
    stats = pyjit.stats(fast)
    assert stats["hits"] >= 6, stats


def test_settles() -> None:
    """Once lengths and batches have differed, no length and no batch is compiled again."""
    both = Both("llama")
    for number, (batch, length) in enumerate([(2, 5), (3, 7), (2, 9), (4, 6)]):
        both.generate("greedy", "dynamic", batch, length, new=6, seed=number)
    before = pyjit.stats(both.fast)["graphs"]
    for number, (batch, length) in enumerate([(5, 8), (3, 11), (2, 4), (7, 20)]):
        both.generate("greedy", "dynamic", batch, length, new=9, seed=number)
    assert pyjit.stats(both.fast)["graphs"] == before


@pytest.mark.parametrize("name", ["gemma2", "gemma3"])
def test_two_masks(name: str) -> None:
    """A mask for each kind of layer asks the same of the padding: what follows the second could not be joined with it,
    for it was recorded behind a mask, and is recorded through both."""
    both = Both(name)
    for number, (batch, length) in enumerate([(1, 5), (1, 7), (2, 12)]):
        both.generate("greedy", "dynamic", batch, length, new=7, seed=number)
    stats = pyjit.stats(both.fast)
    assert not stats["graph_break_sites"], stats
    assert stats["misses"] <= 9, stats


@pytest.mark.parametrize("name", ["t5", "bart", "whisper"])
@pytest.mark.parametrize("mode", ["greedy", "sampled", "beams"])
def test_steps_of_encoders_and_decoders(name: str, mode: str) -> None:
    """No graph break in a step, and no call that meets no graph once two answers were given."""
    both = Both(name)
    for seed in range(2):
        both.generate(mode, new=8, seed=seed)
    before = pyjit.stats(both.fast)
    both.generate(mode, new=20, seed=2)
    stats = pyjit.stats(both.fast)
    assert not stats["graph_break_sites"], stats
    assert stats["misses"] == before["misses"], (before, stats)
    assert stats["graphs"] <= 8, stats


@pytest.mark.parametrize("name", ["t5", "bart"])
def test_padded_and_whole_batches_settle(name: str) -> None:
    """The mask's branch goes either way, with lengths and batches that differ: each way has its graphs."""
    both = Both(name)

    def generate(batch: int, length: int, padded: bool) -> None:
        mask = torch.ones(batch, length, dtype=torch.long)
        if padded:
            mask[-1, -2:] = 0
        both.generate(new=6, batch=batch, length=length, attention_mask=mask)

    for batch, length in ((2, 5), (2, 7), (3, 6)):
        generate(batch, length, False)
        generate(batch, length, True)
    before = pyjit.stats(both.fast)
    for batch, length in ((3, 5), (4, 9), (2, 5)):
        generate(batch, length, True)
        generate(batch, length, False)
    stats = pyjit.stats(both.fast)
    assert not stats["graph_break_sites"], stats
    assert stats["misses"] == before["misses"], (before, stats)


def test_a_window_settles() -> None:
    """Prompts and steps, with the window full or not, of one sequence or several, padded or not: some twenty kinds of
    calls, each of which has a graph."""
    both = Both("gpt-oss")

    def misses(more: int) -> int:
        before = pyjit.stats(both.fast)["misses"]
        for length, batch, padded in (
            (5, 1, 0), (12, 1, 0), (6, 3, 0), (13, 2, 0), (5, 2, 2), (12, 3, 2),
        ):  # fmt: skip
            mask = torch.ones(batch, length + more, dtype=torch.long)
            mask[0, :padded] = 0
            both.generate(new=7, batch=batch, length=length + more, attention_mask=mask)
        return pyjit.stats(both.fast)["misses"] - before

    found = [misses(more) for more in range(4)]
    assert found[2] <= 2 and not found[3], found
    assert not pyjit.stats(both.fast)["graph_break_sites"]
