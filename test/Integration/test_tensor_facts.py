# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What Python can ask a tensor, alone or about another one: each method and attribute, of tensors that differ in little
else."""

from __future__ import annotations

import contextlib
import functools
import warnings
from typing import Any

import pyjit
import pytest
import torch

# Addresses and numbers of references, which two runs need not have in common; what does something; and what hands
# out memory or a context of its own.
NOT_ASKED = {
    "data_ptr": "an address",
    "_cdata": "an address",
    "_use_count": "references of the recorder's own",
    "_backward": "no answer",
    "_view_func": "raises for most",
    "_view_func_unsafe": "raises for most",
    "_rev_view_func_unsafe": "raises for most",
    "backward": "an effect",
    "grad_dtype": "raises for some",
    "_post_accumulate_grad_hooks": "an effect once it is set",
}


def a_view(base: torch.Tensor) -> torch.Tensor:
    return base[:]


def tensors() -> dict[str, torch.Tensor]:
    """All of four by four floats."""
    base = torch.arange(16.0).view(4, 4).clone()
    leaf = base.clone().requires_grad_()
    hooked, kept = base.clone().requires_grad_(), leaf * 1
    hooked.register_hook(lambda gradient: gradient)
    kept.retain_grad()
    graded = base.clone().requires_grad_()
    graded.sum().backward()
    return {
        "plain": base,
        "another": base.clone(),
        "view": a_view(base),
        "transposed twice": base.t().t(),
        "transposed": base.t(),
        "detached": leaf.detach(),
        "part": torch.arange(32.0).view(8, 4)[4:],
        "expanded": torch.arange(4.0).expand(4, 4),
        "shared": base.clone().share_memory_(),
        "written": base.clone().add_(0),
        "leaf": leaf,
        "computed": leaf * 1,
        "one of two": leaf.unbind(1)[0].expand(4, 4),
        "kept": kept,
        "hooked": hooked,
        "graded": graded,
        "parameter": torch.nn.Parameter(base.clone()),
        "conjugate": torch.complex(base, base).conj().imag,
    }


@functools.cache
def questions(*others: torch.Tensor) -> list[str]:
    """Whose answer is no tensor."""
    found = []
    for name in sorted(set(dir(torch.Tensor)) - set(dir(object)) - NOT_ASKED.keys()):
        if others and not callable(getattr(torch.Tensor, name)):
            continue
        answer = NotImplemented
        # Some take other arguments, or are another tensor's.
        with contextlib.suppress(Exception), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            answer = ask(torch.ones(4, 4), name, *others)
        if answer is not NotImplemented and is_plain(answer):
            found.append(name)
    return found


def ask(x: torch.Tensor, name: str, *others: torch.Tensor) -> Any:
    answer = getattr(x, name)
    return answer(*others) if callable(getattr(torch.Tensor, name)) else answer


def is_plain(answer: Any) -> bool:
    if isinstance(answer, tuple):
        return all(map(is_plain, answer))
    plain = (bool, int, float, str, torch.dtype, torch.device, torch.layout)
    return answer is None or isinstance(answer, plain)


def told(answer: Any) -> Any:
    """What is compared: of an object, its class."""
    return answer if is_plain(answer) else type(answer).__qualname__


def test_questions_are_found() -> None:
    assert {"_is_view", "is_leaf", "is_contiguous", "stride", "_version"} <= set(
        questions()
    )


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("name", questions())
@pytest.mark.filterwarnings("ignore")
def test_each_question(name: str, grad: bool) -> None:
    fast = pyjit.compile(lambda x: (x.detach() * 2, ask(x, name)))
    kinds = tensors()
    # Each kind behind each other one, in a few rounds; the first ones are recorded.
    order = [kind for kind in kinds for _ in range(2)]
    for shift in (0, 5):
        for kind in order[shift:] + order[:shift]:
            x = kinds[kind]
            with torch.set_grad_enabled(grad):
                wanted, given = ask(x, name), fast(x)
            torch.testing.assert_close(given[0], x.detach() * 2)
            assert told(given[1]) == told(wanted), (kind, wanted)


@pytest.mark.parametrize("name", questions(torch.ones(4, 4)))
@pytest.mark.filterwarnings("ignore")
def test_each_question_about_another_tensor(name: str) -> None:
    fast = pyjit.compile(lambda x, y: (x.detach() * 2, ask(x, name, y)))
    kinds = tensors()
    others = ("plain", "another", "view", "part", "leaf")
    for x in (kinds["plain"], kinds["view"], kinds["plain"]):
        for other in [o for o in others for _ in range(2)] + [*reversed(others)]:
            y = kinds[other]
            with torch.no_grad():
                wanted, given = ask(x, name, y), fast(x, y)
            assert told(given[1]) == told(wanted), (other, wanted)
