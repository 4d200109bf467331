# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Attempts to get a wrong answer: what containers within containers hold, behind native functions that walk over
them."""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from Integration.harness import module_of, tell_of_changes


class _Walked:
    def __init__(self, items: list[Any]) -> None:
        self.items = items

    def __iter__(self) -> Iterator[Any]:
        return iter(self.items)


class _Indexed:
    def __init__(self, items: list[Any]) -> None:
        self.items = items

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, i: int) -> Any:
        return self.items[i]


def _held() -> dict[str, Any]:
    return {
        "p": [[1, 2.0], [3, 4.0]],
        "tp": [(1, [2]), (3, [4])],
        "d": [{"a": 1}, {"a": 2}],
        "dd": {"u": {"v": 1.0}, "w": {"v": 2.0}},
        "sets": [{1, 2}, {2, 3}],
        "objs": [types.SimpleNamespace(v=v, l=[v]) for v in (1, 2)],
        "ts": [[torch.ones(2), torch.zeros(2)], [torch.full((2,), 3.0)]],
        "it": _Walked([1, 2, 3]),
        "sq": _Indexed([1, 2, 3]),
        "strs": [["a", "b"], ["c"]],
        "gen": lambda items: (v for v in items),
        "dl": {"k": [1, 2]},
    }


_CHANGES: list[Callable[[dict[str, Any]], Any]] = [
    lambda s: s["p"][0].__setitem__(1, 9.0),
    lambda s: s["tp"][1][1].append(5),
    lambda s: s["d"][0].update(a=7),
    lambda s: s["dd"]["u"].update(v=5.0),
    lambda s: s["sets"][1].add(8),
    lambda s: setattr(s["objs"][1], "v", -4),
    lambda s: s["objs"][0].l.append(3),
    lambda s: s["ts"][0][1].add_(2),
    lambda s: s["ts"][1].append(torch.ones(2)),
    lambda s: s["it"].items.append(6),
    lambda s: s["sq"].items.insert(0, 5),
    lambda s: s["strs"][1].append("d"),
    lambda s: s["p"][1].append(1),
    lambda s: s["p"][1].pop(),
    lambda s: s["d"][1].update(b=3),
    lambda s: s["dl"]["k"].append(4),
    lambda s: s["tp"].__setitem__(0, (7, [8, 9])),
    lambda s: s["tp"].reverse(),
    lambda s: s["p"].pop(),
    lambda s: s["d"][0].pop("a"),
    lambda s: s["sets"][0].clear(),
]

_MODULE = """
import bisect, collections, copy, functools, heapq, itertools, math, operator, types
import torch
import torch.nn.functional as F
def f(x, s):
    return """

# fmt: off
_READS = [
    "list(itertools.chain.from_iterable(s['p']))",
    "list(itertools.chain.from_iterable(s['tp']))",
    "list(itertools.chain.from_iterable(s['dd'].values()))",
    "list(itertools.chain.from_iterable(d.values() for d in s['d']))",
    "list(itertools.chain.from_iterable([s['it'], s['sq']]))",
    "list(itertools.chain.from_iterable(s['d']))",
    "list(itertools.chain.from_iterable(s['sets']))",
    "list(itertools.chain.from_iterable(o.l for o in s['objs']))",
    "list(itertools.chain.from_iterable(map(lambda o: o.l, s['objs'])))",
    "list(itertools.chain(s['it'], s['sq']))",
    "dict(s['p'])",
    "dict(s['tp'])",
    "dict([s['p'][0]])",
    "(lambda d: (d.update(s['p']), d)[1])({})",
    "collections.OrderedDict(s['p'])",
    "collections.Counter(s['p'][0])",
    "collections.Counter(s['dl']['k'])",
    "collections.Counter(a=s['p'][0][0])",
    "sum(s['p'], [])",
    "max(s['p'])",
    "min(s['tp'])",
    "sorted(s['p'])",
    "sorted(s['p'], reverse=True)",
    "sorted(s['d'], key=lambda d: -d['a'])",
    "sorted(s['d'], key=operator.itemgetter('a'))",
    "sorted(s['objs'], key=operator.attrgetter('v'))[0].v",
    "max(s['objs'], key=lambda o: o.v).v",
    "min(s['p'], key=sum)",
    "max(s['p'], key=len)",
    "sorted(s['p'], key=operator.itemgetter(1))",
    "list(zip(*s['p']))",
    "list(zip(*s['tp']))",
    "list(map(sum, s['p']))",
    "list(map(list, s['p']))",
    "list(map(tuple, s['p']))",
    "list(map(dict, s['d']))",
    "list(map(len, s['p']))",
    "list(map(max, s['p']))",
    "list(map(operator.itemgetter(0), s['p']))",
    "list(map(operator.itemgetter('a'), s['d']))",
    "list(map(operator.attrgetter('v'), s['objs']))",
    "list(map(lambda p: p[1], s['p']))",
    "list(map(lambda a, b: a + b, *s['p']))",
    "list(map(str, s['p']))",
    "list(map(repr, s['d']))",
    "list(map(bool, s['sets']))",
    "list(map(sorted, s['sets']))",
    "list(map(set, s['p']))",
    "list(map(iter, s['p']))[0].__next__()",
    "list(map(list.copy, s['p']))",
    "list(map(dict.items, s['d']))",
    "list(map(dict.copy, s['d']))",
    "list(map(''.join, s['strs']))",
    "list(map(reversed, s['p']))[0].__next__()",
    "list(map(copy.copy, s['p']))",
    "list(map(torch.tensor, s['p']))",
    "list(map(torch.stack, s['ts']))",
    "list(itertools.starmap(lambda a, b: a * b, s['p']))",
    "list(itertools.starmap(lambda a, *b: len(b), s['tp']))",
    "list(itertools.starmap(operator.mul, s['p']))",
    "list(itertools.starmap(pow, s['p']))",
    "list(itertools.product(*s['sets']))",
    "list(itertools.combinations(s['p'][0], 2))",
    "list(itertools.accumulate(s['p'], operator.add))",
    "[(k, len(list(g))) for k, g in itertools.groupby(s['d'], key=len)]",
    "list(itertools.takewhile(lambda p: p[1] < 5, s['p']))",
    "list(itertools.dropwhile(len, s['p']))",
    "list(filter(None, s['p']))",
    "list(filter(lambda o: o.v > 0, s['objs']))[0].v",
    "all(s['sets'])",
    "functools.reduce(operator.add, s['p'])",
    "functools.reduce(operator.or_, s['sets'])",
    "functools.reduce(set.union, s['sets'])",
    "set().union(*s['p'])",
    "set.intersection(*s['sets'])",
    "set(s['it'])",
    "list(s['sq'])",
    "sum(s['it'])",
    "max(s['it'])",
    "list(reversed(s['sq']))",
    "list(zip(s['it'], s['sq']))",
    "[*s['it'], *s['sq']]",
    "torch.tensor(s['sq'])",
    "5 in s['sq']",
    "list(heapq.merge(*s['p']))",
    "math.prod(s['p'][0])",
    "math.fsum(s['p'][0])",
    "copy.copy(s['p'])",
    "str(s['p'])",
    "repr(s['dd'])",
    "'{0[a]}'.format(s['d'][0])",
    "','.join(map(''.join, s['strs']))",
    "','.join(s['strs'][0] + s['strs'][1])",
    "s['d'] == [{'a': 1}, {'a': 2}]",
    "s['sets'] == [{1, 2}, {2, 3}]",
    "s['sets'][0] & s['sets'][1]",
    "s['sets'][0].issubset([1, 2, 3])",
    "s['sets'][0].difference(*s['sets'][1:])",
    "[3, 4.0] in s['p']",
    "s['p'].index([3, 4.0])",
    "torch.tensor(s['p'])",
    "x[s['dl']['k']]",
    "x.new_tensor(s['p'])",
    "torch.stack(sum(s['ts'], []))",
    "sum(t.sum() for l in s['ts'] for t in l)",
    "x.repeat(s['dl']['k'])",
    "x.view(*s['dl']['k'], -1)",
    "[d.get('a', 0) for d in s['d']]",
    "{k: dict(v) for k, v in s['dd'].items()}",
    "s['dd']['u'] | s['dd']['w']",
    "collections.ChainMap(s['dd']['u'], {'z': 1}).get('v')",
    "list(collections.ChainMap(*s['d']))",
    "collections.defaultdict(list, s['dl'])['k']",
    "next(iter(s['p']))[1]",
    "next(zip(*s['p']))",
    "[p for p in s['p'] if p[1] > 2]",
    "(lambda **k: k)(**s['d'][0])",
    "functools.partial(lambda l, k: (l, k), s['p'])(k=1)",
    "operator.itemgetter(0, 1)(s['p'])",
    "operator.concat(*s['p'])",
    "list(map(lambda l: list(s['gen'](l)), s['p']))",
    "list(vars(s['objs'][1]).items())",
    "[*map(vars, s['objs'])][0]['v']",
    "[l[:] for l in s['p']]",
    "[l + [1] for l in s['p']]",
    "[list(l) for l in s['p']]",
    "[tuple(l) for l in s['p']]",
    "[a * b[0] for a, b in s['tp']]",
    "[len(l) for l in s['p']]",
    "[max(l) for l in s['p']]",
    "[sum(l) for l in s['sets']]",
    "x * s['dd']['u']['v']",
    "x * len(s['objs'][0].l)",
    "x * sum(map(sum, s['p']))",
    "x * max(max(l) for l in s['p'])",
]
# fmt: on


@pytest.mark.parametrize("read", _READS)
def test_a_change_within_is_seen(read: str) -> None:
    f = module_of(_MODULE + read + "\n").f
    tell_of_changes(f, _held, _CHANGES)
