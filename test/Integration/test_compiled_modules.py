# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Modules that eager parts of compiled calls call run compiled, and nobody sees it but by the clock."""

from __future__ import annotations

import copy
import gc
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any

import pyjit
import pytest
import torch
from Integration.harness import in_threads
from pyjit import _modules
from torch import nn


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Modules are compiled in their first call."""
    monkeypatch.setattr(_modules, "WARM_SECONDS", 0.0)


def in_eager(function: Callable, **options: Any) -> Any:
    """A compiled function whose calls all run in eager, but for the modules that they call."""
    fast = pyjit.compile(function, options=options)
    fast.engine._backoff.may_observe = lambda reason, hits: False
    return fast


def net() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))


def hits(fast: Any) -> int:
    return sum(module["hits"] for module in pyjit.stats(fast)["compiled_modules"])


def test_module_in_eager_call() -> None:
    model, x = net(), torch.randn(3, 4)
    before = set(vars(model))
    fast = in_eager(lambda x: model(x) + 1)
    for _ in range(4):
        assert torch.equal(fast(x), model(x) + 1)
    (told,) = pyjit.stats(fast)["compiled_modules"]
    assert told["module"] == "Sequential"
    assert (told["graphs"], told["graph_breaks"], told["hits"]) == (1, 0, 3)
    assert set(vars(model)) == before
    told = "modules that eager parts call run compiled: Sequential (1 graph, 3 hits)"
    assert told in str(pyjit.explain(fast))


def test_none_beside_one_graph_that_is_compared() -> None:
    """Eager's turns are eager's: nobody needs the module's own compilation."""
    model, x = net(), torch.randn(3, 4)
    fast = pyjit.compile(lambda x: model(x) + 1, options={"compare_with_eager": True})
    for _ in range(40):
        assert torch.equal(fast(x), model(x) + 1)
    stats = pyjit.stats(fast)
    assert stats["compared"] and stats["eager_calls"] > 0
    assert not stats["compiled_modules"]


def test_same_graph_as_compile() -> None:
    model, x = net(), torch.randn(3, 4)
    fast, whole = in_eager(lambda x: model(x)), pyjit.compile(model)
    for _ in range(3):
        fast(x), whole(x)
    (engine,) = fast.engine.module_engines()
    (own,) = engine.compiled.specializations
    (expected,) = whole._pyjit_call.specializations
    for topic in ("graph", "fusion", "guards"):
        assert own.text(topic) == expected.text(topic)


def test_only_outermost_and_only_within() -> None:
    model, x = net(), torch.randn(3, 4)
    fast = in_eager(lambda x: model(x))
    for _ in range(3):
        fast(x)
        model(x)
    assert len(pyjit.stats(fast)["compiled_modules"]) == 1
    assert hits(fast) == 2


def test_graph_breaks_around_modules(capsys: pytest.CaptureFixture[str]) -> None:
    model, x = net(), torch.randn(3, 4)

    def f(x: torch.Tensor) -> torch.Tensor:
        time.time()
        y = model(x)
        print("mean")
        return torch.from_numpy(model(y @ y.T @ x).detach().numpy()) * 2

    fast = pyjit.compile(f)
    for _ in range(6):
        torch.testing.assert_close(fast(x), f(x))
    assert capsys.readouterr().out == "mean\n" * 12


def test_model_with_broken_forward() -> None:
    """Where a module's own calls run in eager, its children are compiled."""

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.parts = nn.ModuleList([net(), nn.Linear(2, 4)])

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for part in self.parts:
                x = part(x)
            return x

    model, x = Model(), torch.randn(3, 4)
    fast = pyjit.compile(model)
    fast._pyjit_call.engine._backoff.may_observe = lambda reason, hits: False
    for _ in range(4):
        torch.testing.assert_close(fast(x), model(x))
    told = pyjit.stats(fast)["compiled_modules"]
    assert sorted(module["module"] for module in told) == ["Linear", "Sequential"]
    assert all(module["hits"] == 3 for module in told)


def test_trainer() -> None:
    class Trainer:
        def __init__(self) -> None:
            self.model = net()
            self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)

        def fit(self, batches: list[torch.Tensor]) -> float:
            total = 0.0
            for x in batches:
                self.optimizer.zero_grad()
                loss = self.model(x).square().mean()
                loss.backward()
                self.optimizer.step()
                total += loss.item()
            return total

        def predict(self, x: torch.Tensor) -> torch.Tensor:
            with torch.no_grad():
                return self.model(x)

    batches = [torch.randn(3, 4) for _ in range(5)]
    eager, ours = Trainer(), Trainer()
    fit, predict = in_eager(ours.fit), in_eager(ours.predict)
    for _ in range(2):
        assert fit(batches) == pytest.approx(eager.fit(batches), rel=1e-5)
    for p, q in zip(ours.model.parameters(), eager.model.parameters()):
        torch.testing.assert_close(p, q)
    for _ in range(3):
        torch.testing.assert_close(predict(batches[0]), eager.predict(batches[0]))
    assert hits(fit) >= 8 and hits(predict) == 2


def test_loop_over_loader() -> None:
    data = torch.utils.data.TensorDataset(torch.randn(20, 4), torch.randn(20, 2))
    loader = torch.utils.data.DataLoader(data, batch_size=4)

    def train(model: nn.Module) -> nn.Module:
        optimizer = torch.optim.Adam(model.parameters())
        for x, y in loader:
            optimizer.zero_grad()
            nn.functional.mse_loss(model(x), y).backward()
            optimizer.step()
        return model

    fast, model, expected = in_eager(train), net(), net()
    for p, q in zip(fast(model).parameters(), train(expected).parameters()):
        torch.testing.assert_close(p, q)
    assert hits(fast) >= 3


def test_hooks_and_modes() -> None:
    model, x = nn.Sequential(nn.Dropout(0.5), net()), torch.randn(3, 4)
    seen: list[tuple] = []
    model.register_forward_pre_hook(lambda m, a: seen.append((m is model, m.training)))
    model.register_forward_hook(lambda m, a, y: y * 3)
    fast = in_eager(lambda x: model(x))
    for training in (True, False, True, False):
        model.train(training)
        torch.manual_seed(1)
        y = fast(x)
        torch.manual_seed(1)
        torch.testing.assert_close(y, model(x))
    assert seen == [(True, t) for t in (True, False, True, False) for _ in range(2)]


def test_exceptions() -> None:
    class Fails(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if x.shape[0] == 2:
                raise KeyError("two")
            return x + 1

    model = Fails()
    fast = in_eager(lambda x: model(x))
    for rows in (3, 2, 3, 2, 2):
        x = torch.ones(rows)
        if rows == 2:
            with pytest.raises(KeyError, match="two"):
                fast(x)
        else:
            assert torch.equal(fast(x), x + 1)


def test_within_sees_a_plain_module() -> None:
    model, x = net(), torch.randn(3, 4)

    def f(x: torch.Tensor) -> tuple:
        y = model(x)
        other = copy.deepcopy(model)
        return y, vars(model).keys() == vars(other).keys(), other(x), list(vars(model))

    fast, names = in_eager(f), list(vars(model))
    for _ in range(3):
        y, same, again, seen = fast(x)
        torch.testing.assert_close(y, again)
        assert same and seen == names


def test_modules_of_one_call_die_with_it() -> None:
    made: list[weakref.ref] = []

    def f(x: torch.Tensor) -> torch.Tensor:
        model = net()
        made.append(weakref.ref(model))
        return model(model(x)[:, :1] * x)

    fast, x = in_eager(f), torch.randn(3, 4)
    for _ in range(3):
        torch.testing.assert_close(fast(x), f(x))
    gc.collect()
    assert all(model() is None for model in made)


def test_users_own_compilation_is_kept() -> None:
    model, x = net(), torch.randn(3, 4)
    calls = []
    model._compiled_call_impl = lambda *args: calls.append(1) or model._call_impl(*args)
    fast = in_eager(lambda x: model(x))
    for _ in range(3):
        torch.testing.assert_close(fast(x), model._call_impl(x))
    assert len(calls) == 3 and not pyjit.stats(fast)["compiled_modules"]


@pytest.mark.parametrize("disable", [pyjit.disable, torch.compiler.disable])
def test_disabled_functions_stay_eager(disable: Callable) -> None:
    model, x = net(), torch.randn(3, 4)
    plain = disable(lambda x: model(x))
    fast = in_eager(lambda x: plain(x) + 1)
    for _ in range(3):
        assert torch.equal(fast(x), model(x) + 1)
    assert not pyjit.stats(fast)["compiled_modules"]


def test_option_and_reset() -> None:
    model, x = net(), torch.randn(3, 4)
    off = in_eager(lambda x: model(x), compile_modules=False)
    fast = in_eager(lambda x: model(x))
    for _ in range(3):
        assert torch.equal(off(x), fast(x))
    assert not pyjit.stats(off)["compiled_modules"] and hits(fast) == 2
    fast.engine.reset()
    assert not pyjit.stats(fast)["compiled_modules"]


def test_modules_that_take_no_time_are_left_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_modules, "WARM_SECONDS", 1e9)
    model, x = net(), torch.randn(3, 4)
    fast = in_eager(lambda x: model(x))
    for _ in range(3):
        assert torch.equal(fast(x), model(x))
    assert not pyjit.stats(fast)["compiled_modules"]


def test_threads() -> None:
    model, x = net(), torch.randn(3, 4)
    expected = model(x)
    fast = in_eager(lambda x: model(x))
    wrong: list[Any] = []

    def work() -> None:
        for _ in range(20):
            y = fast(x)
            if not torch.allclose(y, expected):
                wrong.append(y)

    in_threads(work, (() for _ in range(4)))
    assert not wrong and hits(fast) > 0


def test_references_that_another_thread_takes_meanwhile() -> None:
    """They are not taken for those of what answers the module, which would be dropped as nobody else's."""
    begun, taken, ended = threading.Event(), threading.Event(), threading.Event()

    class Waits(nn.Linear):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            begun.set()
            taken.wait(10)
            return super().forward(x)

    model, x = Waits(4, 4), torch.randn(3, 4)

    def hold(x: torch.Tensor) -> torch.Tensor:
        begun.wait(10)
        references = [model] * 50
        taken.set()
        ended.wait(10)
        return x * len(references)

    fast = in_eager(lambda of, x: of(x))

    def work(of: Callable) -> None:
        fast(of, x)
        if of is model:
            ended.set()

    in_threads(work, [(hold,), (model,)])
    (told,) = pyjit.stats(fast)["compiled_modules"]
    assert told["module"].endswith("Waits")


@pytest.mark.parametrize(
    "how",
    [
        {"do_sample": False},
        {"do_sample": True},
        {"num_beams": 2},
        {"do_sample": False, "cache_implementation": "static"},
    ],
    ids=["greedy", "sampling", "beams", "static"],
)
@pytest.mark.parametrize("kind", ["gpt2", "t5"])
def test_generate(how: dict[str, Any], kind: str) -> None:
    transformers = pytest.importorskip("transformers")
    if kind == "t5" and "cache_implementation" in how:
        pytest.skip("the cache of an encoder and decoder is dynamic")
    torch.manual_seed(0)
    if kind == "gpt2":
        config = transformers.GPT2Config(
            n_layer=2, n_head=2, n_embd=32, vocab_size=50, bos_token_id=0,
            eos_token_id=None, pad_token_id=0,
        )  # fmt: skip
        model = transformers.GPT2LMHeadModel(config).eval()
    else:
        config = transformers.T5Config(
            num_layers=2, num_heads=2, d_model=32, d_kv=16, d_ff=64, vocab_size=50,
            decoder_start_token_id=0, eos_token_id=None, pad_token_id=0,
        )  # fmt: skip
        model = transformers.T5ForConditionalGeneration(config).eval()
    x = torch.randint(1, 50, (1, 6))

    def call(generate: Callable) -> torch.Tensor:
        torch.manual_seed(2)
        return generate(x, max_new_tokens=6, min_new_tokens=6, **how)

    fast, expected = in_eager(model.generate), call(model.generate)
    for _ in range(3):
        assert torch.equal(call(fast), expected)
    assert hits(fast) > 6


def test_generate_ends_at_compiled_modules() -> None:
    """With recordings of `generate` itself in front."""
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    config = transformers.GPT2Config(
        n_layer=2, n_head=2, n_embd=32, vocab_size=50, bos_token_id=0,
        eos_token_id=None, pad_token_id=0,
    )  # fmt: skip
    model = transformers.GPT2LMHeadModel(config).eval()
    x = torch.randint(1, 50, (1, 6))
    expected = model.generate(x, max_new_tokens=6, do_sample=False)
    fast = pyjit.compile(model.generate, options={"compare_with_eager": True})
    for _ in range(14):
        assert torch.equal(fast(x, max_new_tokens=6, do_sample=False), expected)
