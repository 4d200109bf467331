# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Counters answer to the keys that they had before, for one release."""

from __future__ import annotations

import pyjit
import pytest
import torch
from pyjit._statistics import FORMER_KEYS


def statistics() -> dict:
    compiled = pyjit.compile(lambda x: torch.relu(x) + 1)
    compiled(torch.ones(3))
    return pyjit.stats(compiled)


@pytest.mark.parametrize("former", sorted(set(FORMER_KEYS) - {"library_calls"}))
def test_former_keys_answer_with_a_warning(former: str) -> None:
    stats = statistics()
    with pytest.warns(DeprecationWarning, match=FORMER_KEYS[former]):
        assert stats[former] == stats[FORMER_KEYS[former]]
    with pytest.warns(DeprecationWarning):
        assert stats.get(former) == stats[FORMER_KEYS[former]]
    assert former in stats
    assert former not in list(stats)


def test_an_unknown_key_is_one() -> None:
    stats = statistics()
    with pytest.raises(KeyError):
        stats["graph_brakes"]
    assert stats.get("graph_brakes", 3) == 3
    assert "graph_brakes" not in stats


def test_records_is_the_former_name_of_specializations() -> None:
    compiled = pyjit.compile(lambda x: x + 1)
    compiled(torch.ones(3))
    assert pyjit.records(compiled) == pyjit.specializations(compiled)
    with pytest.warns(DeprecationWarning, match="vendor_calls"):
        pyjit.specializations(compiled)[0]["library_calls"]


def test_a_former_option_is_taken() -> None:
    compiled = pyjit.compile(lambda x: x + 1, options={"software_device": True})
    x = torch.ones(3)
    assert torch.equal(compiled(x), x + 1)
    assert torch.equal(compiled(x), x + 1)
