# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The Python face: what pyjit.compile and its companions promise."""

from __future__ import annotations

import copy
import inspect
import io
import pickle
from typing import Any

import pytest
import torch
from Integration.harness import values
from pyjit._backoff import FREE_UNUSED
from torch import nn

pyjit = pytest.importorskip("pyjit", exc_type=ImportError)


class Net(nn.Module):
    """A module that can be pickled by name."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.register_buffer("shift", values(4))
        self.note = "hello"

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.linear(x)) + self.shift

    def other(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(x) * 2


def doubled(x: torch.Tensor, scale: float = 2.0, *, shift: float = 0.0) -> torch.Tensor:
    """Doubles."""
    return torch.relu(x) * scale + shift


@pytest.fixture(autouse=True)
def no_grad() -> Any:
    torch.manual_seed(0)
    with torch.no_grad():
        yield


def test_function() -> None:
    f = pyjit.compile(doubled)
    for seed in range(3):
        x = values(8, seed=seed)
        assert torch.equal(f(x), doubled(x))
    assert pyjit.stats(f)["hits"] == 2


def test_decorator() -> None:
    @pyjit.compile
    def f(x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x + 1)

    @pyjit.compile(name="named", options={"strict": True})
    def g(x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x - 1)

    for _ in range(3):
        assert torch.equal(f(values(4)), torch.relu(values(4) + 1))
        assert torch.equal(g(values(4)), torch.relu(values(4) - 1))
    assert pyjit.stats(f)["hits"] == 2
    assert pyjit.stats(g)["hits"] == 2


def test_method_decorated_in_class() -> None:
    class C:
        k = 3.0

        @pyjit.compile
        def h(self, x: torch.Tensor) -> torch.Tensor:
            return x * self.k

    a, b = C(), C()
    b.k = 5.0
    for _ in range(3):
        assert torch.equal(a.h(values(4)), values(4) * 3)
        assert torch.equal(b.h(values(4)), values(4) * 5)


def test_metadata_of_function() -> None:
    f = pyjit.compile(doubled)
    assert f.__name__ == "doubled"
    assert f.__qualname__ == doubled.__qualname__
    assert f.__doc__ == "Doubles."
    assert f.__module__ == doubled.__module__
    assert inspect.signature(f) == inspect.signature(doubled)
    assert f.__wrapped__ is doubled
    assert callable(f)


def test_signature() -> None:
    assert list(inspect.signature(pyjit.compile).parameters) == [
        "model",
        "fullgraph",
        "dynamic",
        "backend",
        "mode",
        "options",
        "disable",
        "name",
    ]


@pytest.mark.parametrize("thing", [3, "text", [1], torch.ones(2)])
def test_not_callable(thing: object) -> None:
    with pytest.raises(TypeError):
        pyjit.compile(thing)


def test_unknown_backend_or_option() -> None:
    with pytest.raises((ValueError, TypeError)):
        pyjit.compile(doubled, backend="no-such-backend")
    with pytest.raises((ValueError, TypeError)):
        pyjit.compile(doubled, options={"no-such-option": 1})


def test_module_is_still_that_module() -> None:
    m = Net().eval()
    f = pyjit.compile(m)
    assert isinstance(f, nn.Module)
    assert isinstance(f, Net)
    assert list(f.state_dict()) == ["shift", "linear.weight", "linear.bias"]
    assert f.linear is m.linear
    assert f.note == "hello"
    assert [n for n, _ in f.named_parameters()] == ["linear.weight", "linear.bias"]
    assert [n for n, _ in f.named_modules()] == ["", "linear"]
    assert sum(p.numel() for p in f.parameters()) == 20
    x = values(3, 4)
    for _ in range(3):
        assert torch.equal(f(x), m(x))
    assert pyjit.stats(f)["hits"] >= 1
    assert torch.equal(f.other(x), m.other(x))


def test_module_attributes_go_through() -> None:
    m = Net().eval()
    f = pyjit.compile(m)
    x = values(3, 4)
    f(x)
    f.shift = values(4, seed=4)
    assert torch.equal(m.shift, values(4, seed=4))
    assert torch.equal(f(x), torch.relu(m.linear(x)) + values(4, seed=4))
    f.linear = nn.Linear(4, 4)
    assert m.linear is f.linear
    assert torch.equal(f(x), torch.relu(m.linear(x)) + m.shift)
    f.extra = 3
    assert m.extra == 3
    del f.extra
    assert not hasattr(m, "extra")


def test_module_train_eval_to() -> None:
    m = nn.Sequential(nn.Linear(4, 4), nn.Dropout(1.0)).eval()
    f = pyjit.compile(m)
    x = values(3, 4)
    for _ in range(2):
        assert torch.equal(f(x), m[0](x))
    assert f.train() is f
    assert m.training
    assert m[1].training
    assert torch.equal(f(x), torch.zeros(3, 4))
    f.eval()
    assert torch.equal(f(x), m[0](x))
    f.to(torch.float64)
    assert m[0].weight.dtype == torch.float64
    assert torch.equal(f(x.double()), m[0](x.double()))


def test_module_state_dict_round_trip() -> None:
    a, b = Net().eval(), Net().eval()
    f = pyjit.compile(a)
    x = values(3, 4)
    f(x)
    f(x)
    f.load_state_dict(b.state_dict())
    assert torch.allclose(f(x), b(x))
    b.load_state_dict(pyjit.compile(Net()).state_dict())


def test_module_hooks() -> None:
    f = pyjit.compile(Net().eval())
    x = values(3, 4)
    want = f(x)
    handle = f.register_forward_hook(lambda m, args, out: out + 1)
    assert torch.allclose(f(x), want + 1)
    handle.remove()
    assert torch.allclose(f(x), want)
    handle = f.register_forward_pre_hook(lambda m, args: (args[0] * 0,))
    assert torch.allclose(f(x), f(x * 0))
    handle.remove()


def test_module_as_child() -> None:
    f = pyjit.compile(Net().eval())
    outer = nn.Sequential(f, nn.ReLU())
    x = values(3, 4)
    assert torch.equal(outer(x), torch.relu(f(x)))
    assert "0.linear.weight" in outer.state_dict()


def test_deepcopy() -> None:
    f = pyjit.compile(Net().eval())
    x = values(3, 4)
    want = f(x)
    g = copy.deepcopy(f)
    assert isinstance(g, Net)
    g.linear.weight.zero_()
    assert torch.allclose(f(x), want)
    assert torch.allclose(g(x), torch.relu(g.linear.bias) + g.shift)


def test_pickle() -> None:
    f = pyjit.compile(Net().eval())
    x = values(3, 4)
    want = f(x)
    g = pickle.loads(pickle.dumps(f))
    assert isinstance(g, nn.Module)
    assert torch.allclose(g(x), want)
    file = io.BytesIO()
    torch.save(f.state_dict(), file)
    file.seek(0)
    f.load_state_dict(torch.load(file))
    assert torch.allclose(f(x), want)


def test_compile_twice() -> None:
    f = pyjit.compile(pyjit.compile(doubled))
    for _ in range(3):
        assert torch.equal(f(values(4)), doubled(values(4)))


def test_compiled_calls_compiled() -> None:
    inner = pyjit.compile(lambda x: torch.relu(x) + 1)
    outer = pyjit.compile(lambda x: inner(x) * 2)
    for seed in range(3):
        x = values(4, seed=seed)
        assert torch.equal(outer(x), (torch.relu(x) + 1) * 2)
    assert pyjit.stats(outer)["hits"] == 2


def test_statistics() -> None:
    f = pyjit.compile(doubled)
    keys = {
        "specializations",
        "graphs",
        "graph_breaks",
        "hits",
        "misses",
        "eager_calls",
    }
    keys |= {"compile_seconds", "kernels", "guards", "reasons"}
    assert keys <= set(pyjit.stats(f))
    f(values(4))
    f(values(4))
    f(values(5))
    stats = pyjit.stats(f)
    assert stats["specializations"] == 2
    assert stats["graphs"] == 2
    assert stats["graph_breaks"] == 0
    assert stats["hits"] == 1
    assert stats["misses"] == 2
    assert stats["guards"] > 0
    assert stats["kernels"] >= 1
    assert stats["compile_seconds"] > 0
    assert list(stats["reasons"]) == []


def test_specializations_are_limited_and_right() -> None:
    # A text each: no number to lift.
    for limit, least, most in ({"recompile_limit": 12}, 12, 12), ({}, FREE_UNUSED, 32):
        f = pyjit.compile(lambda x, n: x * int(n), options=limit)
        for _ in range(2):
            for n in range(80):
                assert torch.equal(f(values(4), str(n)), values(4) * n)
        stats = pyjit.stats(f)
        assert least <= stats["specializations"] <= most
        reached = "the limit of 12 specializations is reached"
        waits = "a further one waits until such calls"
        told = [str(reason) for reason in stats["reasons"]]
        assert any((reached if limit else waits) in text for text in told)


def test_disable() -> None:
    f = pyjit.compile(doubled, disable=True)
    assert torch.equal(f(values(4)), doubled(values(4)))

    @pyjit.disable
    def slow(x: torch.Tensor) -> torch.Tensor:
        assert not pyjit.is_compiling()
        return x + 1

    g = pyjit.compile(lambda x: slow(x) * 2)
    for _ in range(3):
        assert torch.equal(g(values(4)), (values(4) + 1) * 2)


def test_is_compiling_outside() -> None:
    assert pyjit.is_compiling() is False


def test_reset() -> None:
    f = pyjit.compile(doubled)
    f(values(4))
    f(values(4))
    pyjit.reset()
    assert pyjit.stats(f)["specializations"] == 0
    assert torch.equal(f(values(4)), doubled(values(4)))
    assert torch.equal(f(values(4)), doubled(values(4)))


def test_explain() -> None:
    text = str(pyjit.explain(doubled)(values(4)))
    assert "graph" in text
    assert "guard" in text
    assert "kernel" in text


def test_explain_names_what_was_not_captured() -> None:
    import time

    def g(x: torch.Tensor) -> torch.Tensor:
        time.sleep(0)
        return x * 2

    text = str(pyjit.explain(g)(values(4)))
    line = g.__code__.co_firstlineno + 1
    assert "sleep" in text
    assert f"test_api.py:{line}" in text.replace('", line ', ":").replace('":', ":")


def test_trace(tmp_path: Any) -> None:
    trace = pyjit.trace(doubled)(values(4))
    file = tmp_path / "trace.mlir"
    trace.save(file)
    assert "refgraph.trace" in file.read_text()
    assert "aten::relu" in file.read_text()


def test_gradients() -> None:
    f = pyjit.compile(lambda x: (x * x).sum())
    with torch.enable_grad():
        for _ in range(2):
            x = values(4).requires_grad_()
            f(x).backward()
            assert torch.equal(x.grad, 2 * values(4))
    assert pyjit.stats(f)["hits"] == 1 and not pyjit.stats(f)["reasons"]


def test_exception_has_the_users_lines() -> None:
    def g(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        return y.view(3, 3)

    f = pyjit.compile(g)
    for _ in range(2):
        with pytest.raises(RuntimeError, match="shape") as caught:
            f(values(4))
        lines = [e.lineno for e in caught.traceback if e.path.name == "test_api.py"]
        assert g.__code__.co_firstlineno + 1 in lines


def test_keyword_arguments() -> None:
    f = pyjit.compile(doubled)
    x = values(4)
    for _ in range(2):
        assert torch.equal(f(x, shift=1.0), doubled(x, shift=1.0))
        assert torch.equal(f(x, scale=3.0, shift=1.0), doubled(x, 3.0, shift=1.0))
        assert torch.equal(f(scale=3.0, x=x), doubled(x, 3.0))
    with pytest.raises(TypeError):
        f(x, nonsense=1)


def test_stub_file_matches_package() -> None:
    import ast
    from pathlib import Path

    folder = Path(pyjit.__file__).parent
    tree = ast.parse((folder / "__init__.pyi").read_text())
    declared = {
        n.name for n in tree.body if isinstance(n, (ast.FunctionDef, ast.ClassDef))
    }
    assert {"compile", "trace", "explain", "stats", "reset", "disable"} <= declared
    for name in declared:
        assert hasattr(pyjit, name), name


def test_outputs_are_not_kept_alive() -> None:
    import gc
    import weakref

    f = pyjit.compile(doubled)
    for _ in range(3):
        out = f(values(4))
    held = weakref.ref(out)
    del out
    gc.collect()
    assert held() is None


def test_arguments_are_not_kept_alive() -> None:
    import gc
    import weakref

    f = pyjit.compile(doubled)
    for _ in range(3):
        x = values(1000)
        f(x)
    held = weakref.ref(x)
    del x
    gc.collect()
    assert held() is None


def test_no_leak_over_many_calls() -> None:
    import resource

    f = pyjit.compile(lambda x: (torch.relu(x) + 1).sum(0))
    x = values(256, 256)
    for _ in range(200):
        f(x)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(3000):
        f(x)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 20_000


def test_classes_of_compiled_modules_are_not_announced() -> None:
    """Neither `__init_subclass__` nor a metaclass is told of them; they may register classes, or ask for arguments."""
    told: list[str] = []

    class Meta(type):
        def __new__(
            cls, name: str, bases: tuple, members: dict, **given: object
        ) -> Any:
            told.append(f"made {name}")
            return super().__new__(cls, name, bases, members, **given)

        def __init__(cls, *given: Any, **names: object) -> None:
            super().__init__(*given)
            told.append(f"begun {cls.__name__}")

    class Registered(torch.nn.Module, metaclass=Meta):
        def __init_subclass__(cls, *, kind: str, **given: object) -> None:
            super().__init_subclass__(**given)
            told.append(kind)

    class Doubled(Registered, kind="double"):
        __slots__ = ("calls",)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * len(told)

    before = list(told)
    module = Doubled()
    fast = pyjit.compile(module)
    x = torch.ones(2)
    for _ in range(3):
        torch.testing.assert_close(fast(x), module(x))
    assert told == before
    assert isinstance(fast, Doubled) and type(fast).__bases__ == (Doubled,)


class Encoder(nn.Module):
    """A method that is compiled by itself, and called by others that are."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(4, 4)

    @pyjit.compile
    def encode(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x).relu()

    @pyjit.compile
    def loss(self, x: torch.Tensor) -> torch.Tensor:
        return self.encode(x).sum() + Encoder.encode(self, x).sum()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.encode(x) * 2


def test_compiled_methods_in_compiled_functions() -> None:
    encoder = Encoder()
    fast = pyjit.compile(encoder)
    for seed in range(3):
        x = values(3, 4, seed=seed)
        plain = encoder.inner(x).relu()
        torch.testing.assert_close(fast(x), plain * 2)
        torch.testing.assert_close(encoder.loss(x), 2 * plain.sum())
    for compiled in fast, Encoder.loss:
        stats = pyjit.stats(compiled)
        assert (stats["graphs"], stats["graph_breaks"]) == (1, 0), stats["reasons"]
