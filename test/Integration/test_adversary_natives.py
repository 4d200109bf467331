# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Attempts to get a wrong answer: containers that change between calls, read and written by native functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from Integration.harness import (
    ANY,
    Compile,
    Steps,
    attempt,
    module_of,
    tell,
    tell_of_changes,
    values,
)


def _held() -> dict[str, Any]:
    return {
        "l": [1.0, 2.0, 3.0],
        "d": {"a": 1.0, "b": 2.0},
        "s": {1, 2, 3},
        "t": (1, 2),
        "x": torch.arange(4.0),
        "str": "abc",
        "nested": [[1, 2], [3]],
        "fn": torch.relu,
    }


_CHANGES: list[Callable[[dict[str, Any]], Any]] = [
    lambda s: s["l"].append(4.0),
    lambda s: s["d"].update(c=5.0),
    lambda s: s["s"].add(9),
    lambda s: s.__setitem__("t", (2, 1)),
    lambda s: s["x"].add_(1),
    lambda s: s.__setitem__("str", "bcd"),
    lambda s: s["nested"][0].append(7),
    lambda s: s["l"].sort(reverse=True),
    lambda s: s["d"].pop("a"),
    lambda s: s["s"].clear(),
    lambda s: s.__setitem__("fn", torch.tanh),
    lambda s: s["nested"].reverse(),
    lambda s: s["l"].clear(),
    lambda s: s.__setitem__("l", (5.0,)),
    lambda s: s.__setitem__("x", torch.arange(4)),
    lambda s: s["d"].clear(),
    lambda s: s.__setitem__("l", torch.ones(4)),
]

_MODULE = """
import bisect, collections, copy, functools, heapq, itertools, math, operator, types
import torch
import torch.nn.functional as F
def f(x, s):
    return """

# fmt: off
_READS = [
    "x * sum(s['l'])",
    "x * max(s['l'], default=7)",
    "x * sum(s['d'].values())",
    "sorted(s['d'].items())",
    "x * len(s['s'])",
    "x * (3 in s['s'])",
    "x * (2.0 in s['l'])",
    "dict(zip(s['d'], s['l']))",
    "s['l'][::-1]",
    "s['l'] * 2",
    "{**s['d'], 'z': 1}",
    "{k: v * x for k, v in s['d'].items()}",
    "list(map(s['fn'], [x]))",
    "x + s['x']",
    "x[s['x'].long() % 4]",
    "s['str'].upper()",
    "'%s' % s['str']",
    "repr(s['d'])",
    "list(itertools.chain(*s['nested']))",
    "[a for b in s['nested'] for a in b]",
    "copy.deepcopy(s['nested'])",
    "max(s['nested'], key=len)",
    "list(itertools.product(s['l'], s['t']))",
    "list(itertools.pairwise(s['l']))",
    "list(itertools.zip_longest(s['l'], s['t']))",
    "operator.itemgetter('l', 't')(s)",
    "collections.Counter(s['l'])",
    "collections.OrderedDict(s['d'])",
    "types.MappingProxyType(s['d']).get('a')",
    "tuple(s['l'])",
    "frozenset(s['s']) & {1, 2}",
    "s['s'] ^ {1}",
    "s['s'] <= {1, 2, 3, 9}",
    "s['l'] == [1.0, 2.0, 3.0]",
    "s['l'].index(2.0)",
    "s['l'].copy()",
    "s['d'].get('c', x)",
    "list(s['d'].values())",
    "next(iter(s['d'].items()))",
    "list(reversed(s['l']))",
    "all(s['l'])",
    "any(s['d'].values())",
    "bool(s['d']) + bool(s['s'])",
    "s['l'] and x",
    "torch.tensor(list(s['d'].values()))",
    "torch.stack([x * v for v in s['l']])",
    "x.view(s['t']) if len(x) == 2 else x.view(4, 1)",
    "x.repeat(s['t'])",
    "F.pad(x, s['t'])",
    "x[list(map(int, s['l']))[0]]",
    "x.split([1, 3] if s['l'] else 2)",
    "math.hypot(*s['t'])",
    "max(*s['t'])",
    "s['str'].join(['1', '2'])",
    "[c for c in s['str'] if c > 'a']",
    "s['str'][::-1]",
    "dict.fromkeys(s['str'], 0)",
    "bisect.bisect(sorted(s['l']), 2)",
    "heapq.nsmallest(1, s['s'])",
    "list(filter(None, s['l']))",
    "isinstance(s['l'], (list, tuple))",
    "vars(types.SimpleNamespace(q=s['l']))",
    "len(s['x'])",
    "s['x'].tolist()",
    "s['x'][1:] * 2",
    "slice(*s['t'])",
    "range(*s['t'])",
    "sum(len(v) for v in s.values() if hasattr(v, '__len__'))",
    "list(s)[2]",
    "[*s['t'], x]",
    "bytes(s['t'])",
    "int(''.join(map(str, s['t'])))",
    "complex(*s['t'])",
    "list(s['d'].items())[-1]",
    "max(zip(s['d'].values(), s['d'].keys()), default=0)",
    "(s['l'] or [0])[0] * x",
    "x * s['l'][-1]",
    "x * s['nested'][-1][0]",
]

_WRITES = [
    "s['l'].append(len(s['l']) * 1.0)",
    "s['d'].update(z=len(s['d']))",
    "s['s'].add(len(s['s']))",
    "s['l'].extend(s['t'])",
    "s['d'].setdefault('q', x)",
    "s['l'].insert(0, 9.0)",
    "s['l'].pop()",
    "s['d'].popitem()",
    "s['d'].pop('a', None)",
    "s['s'].discard(1)",
    "s['s'].pop()",
    "s['l'].sort()",
    "s['l'].reverse()",
    "s['l'].remove(2.0)",
    "s['nested'][0].append(x)",
    "s['nested'].append(list(s['l']))",
    "s.update(new=x)",
    "s.__setitem__('x', s['x'] * 2)",
    "s['x'].add_(x)",
    "s['x'].mul_(2).sub_(1)",
    "s['s'].update(s['t'])",
    "s['s'].intersection_update({1, 2})",
    "s['d'].clear()",
    "s['l'].clear()",
    "operator.setitem(s['d'], 'w', x)",
    "operator.delitem(s, 't')",
    "s['l'].__iadd__([1.0])",
    "s['d'].__ior__({'i': x})",
    "s['s'].__isub__({1})",
    "s['l'].__setitem__(slice(0, 1), [5.0, 6.0])",
    "s['l'].__delitem__(0)",
    "heapq.heappush(s['l'], 0.5)",
    "heapq.heapify(s['l'])",
    "bisect.insort(s['l'], 1.5)",
    "collections.deque(s['l']).rotate(1)",
    "s['d'].update([('p', 1), ('q', x)])",
    "s['d'].update(zip('mn', s['l']))",
    "s['s'].update(int(v) for v in s['l'])",
    "[s['l'].append(v) for v in (1.0, 2.0)]",
    "list(map(s['l'].append, [7.0]))",
    "[s['d'].pop(k) for k in list(s['d'])]",
    "s.pop('str')",
]
# fmt: on


@pytest.mark.parametrize("read", _READS)
def test_a_change_is_seen(read: str) -> None:
    f = module_of(_MODULE + read + "\n").f
    tell_of_changes(f, _held, _CHANGES)


@pytest.mark.parametrize("write", _WRITES)
def test_a_write_is_made(write: str) -> None:
    """The same write, to containers that hold more and more, to others, and to what it fails on."""

    def story(compile: Compile) -> Steps:
        body = f"({write}, x * 2, s.get('l') and s['l'][0])\n"
        f = compile(module_of(_MODULE + body).f)
        held = _held()
        for step in range(8):
            yield attempt(f, values(4), held), held
            if step in (3, 5):
                held = _held()
            if step == 6:
                held["l"] = [3.0, 1.0, 2.0, 2.0]

    tell(story, captured=False, graph_breaks=ANY)
