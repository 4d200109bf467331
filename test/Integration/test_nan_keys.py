# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A nan is equal to nothing, so that containers find it by its identity: the very object that a call was given has to
be the key."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyjit
import pytest
import torch

Tensor = torch.Tensor
World = dict[Any, Any]


def _nan_of(key: Any) -> Any:
    return key[0] if isinstance(key, tuple) else key


def _returned(x: Tensor, d: World) -> Any:
    return {d["a"]: 1}


def _in_a_tuple(x: Tensor, d: World) -> Any:
    return {(d["a"], 1): 1}


def _of_a_set(x: Tensor, d: World) -> Any:
    return {d["a"]}


def _stored(x: Tensor, d: World) -> Any:
    d["h"][d["a"]] = 1
    return d["h"]


def _stored_in_a_tuple(x: Tensor, d: World) -> Any:
    d["h"][d["a"], 2] = d["h"].get((d["a"], 2), 0) + 1
    return d["h"]


def _added(x: Tensor, d: World) -> Any:
    d["s"].add(d["a"])
    d["s"].add((d["a"], 1))
    return d["s"]


def _set_by_default(x: Tensor, d: World) -> Any:
    d["h"].setdefault(d["a"], 2)
    return d["h"]


USES = (
    _returned,
    _in_a_tuple,
    _of_a_set,
    _stored,
    _stored_in_a_tuple,
    _added,
    _set_by_default,
)


@pytest.mark.parametrize("use", USES, ids=lambda use: use.__name__.strip("_"))
def test_keys(use: Callable[[Tensor, World], Any]) -> None:
    seen: list[Any] = []
    for f in (use, pyjit.compile(use)):
        nan, d = float("nan"), {"h": {}, "s": set()}
        seen.append([])
        for step in range(8):
            d["a"] = nan if step != 5 else float("nan")
            made = f(torch.ones(2), d)
            seen[-1].append(
                (
                    len(made),
                    sum(_nan_of(key) is nan for key in made),
                    len(d["h"]),
                    len(d["s"]),
                )
            )
    assert seen[0] == seen[1]
