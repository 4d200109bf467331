# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Changes of MLIR text that leave something an author could have written by mistake, or on purpose.

A mutation takes the text, a source of random numbers and the words that the corpus has. Those that change one thing
everywhere (a size, an element type) usually keep the module valid, and so get past the parser and the verifiers to the
passes; those that change it in one place are for the verifiers; those of lines and brackets for the parsers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random

ELEMENTS = (
    "f32",
    "f64",
    "f16",
    "bf16",
    "i1",
    "i8",
    "i16",
    "i32",
    "i64",
    "index",
    "complex<f32>",
    "ui8",
    "i3",
)
NUMBERS = ("0", "1", "-1", "2", "3", "7", "64", "1024", "65537", "2147483648", "-2147483649", "4611686018427387904",
           "9223372036854775807", "-9223372036854775808")  # fmt: skip
SIZES = (
    "0",
    "1",
    "2",
    "3",
    "7",
    "16",
    "17",
    "1000",
    "?",
    "65537",
    "4294967296",
    "4611686018427387904",
)
STRINGS = (
    "",
    "cpu",
    "cuda:0",
    "cuda:99",
    "meta",
    "aten::add.Tensor",
    "aten::",
    "x",
    "é\\00",
    "sum",
    "none",
)

ELEMENT = re.compile(
    r"(?<![\w.%@#])(?<!array<)(?:x)?("
    + "|".join(map(re.escape, ELEMENTS))
    + r")(?![\w])"
)
NUMBER = re.compile(r"(?<![\w.%@#^\"])-?\d+(?![\w.])")
SIZE = re.compile(r"(?<=[<x])(?:\d+|\?)(?=x)")
VALUE = re.compile(r"%[\w$.-]+(?:#\d+)?")
STRING = re.compile(r'"((?:[^"\\\n]|\\.)*)"')
SYMBOL = re.compile(r"@[\w$.-]+")
TYPE = re.compile(
    r"!?(?:[\w.]+)?<(?:[^<>\n]|<(?:[^<>\n]|<(?:[^<>\n]|<[^<>\n]*>)*>)*>)*>"
)
ATTRIBUTE = re.compile(r"(?<=[{,\s])([\w.]+)(?= = )")
OPERATION = re.compile(
    r"(?<![\w.%@\"])(?:\"?)((?:refgraph|tssa|cudagraph|scf|linalg|tensor|arith|func)\.\w+)"
)
KEYWORD = re.compile(r"(?<![\w.%@#!])[a-z_]{3,}(?![\w.])")


@dataclass
class Words:
    """What the corpus has, by kind."""

    operations: list[str] = field(default_factory=list)
    attributes: list[str] = field(default_factory=list)
    strings: list[str] = field(default_factory=list)
    types: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)

    @staticmethod
    def of(texts: Sequence[str]) -> Words:
        found = Words()
        whole = "\n".join(texts)
        for name, pattern in (
            ("operations", OPERATION), ("attributes", ATTRIBUTE), ("strings", STRING), ("types", TYPE)
        ):  # fmt: skip
            words = {m.group(m.lastindex or 0) for m in pattern.finditer(whole)}
            setattr(found, name, sorted(words))
        found.lines = sorted({line for line in whole.splitlines() if "." in line})
        return found


Mutation = Callable[[str, Random, Words], str]


def _pick(pattern: re.Pattern[str], text: str, rng: Random) -> re.Match[str] | None:
    found = list(pattern.finditer(text))
    return rng.choice(found) if found else None


def _put(text: str, match: re.Match[str], new: str) -> str:
    group = match.lastindex or 0
    return text[: match.start(group)] + new + text[match.end(group) :]


def _one(
    pattern: re.Pattern[str], text: str, rng: Random, choices: Sequence[str]
) -> str:
    match = _pick(pattern, text, rng)
    return _put(text, match, rng.choice(choices)) if match and choices else text


def _everywhere(
    pattern: re.Pattern[str], text: str, rng: Random, choices: Sequence[str]
) -> str:
    """One word of the kind becomes another one, wherever it stands."""
    match = _pick(pattern, text, rng)
    if not match:
        return text
    group = match.lastindex or 0
    old, new = match.group(group), rng.choice(choices)
    spans = [m.span(group) for m in pattern.finditer(text) if m.group(group) == old]
    for begin, end in reversed(spans):
        text = text[:begin] + new + text[end:]
    return text


def size_everywhere(text: str, rng: Random, words: Words) -> str:
    return _everywhere(SIZE, text, rng, SIZES)


def element_everywhere(text: str, rng: Random, words: Words) -> str:
    return _everywhere(ELEMENT, text, rng, ELEMENTS)


def number_everywhere(text: str, rng: Random, words: Words) -> str:
    """A number as a size, a stride and a place alike."""
    match = _pick(SIZE, text, rng) if rng.random() < 0.5 else _pick(NUMBER, text, rng)
    if not match:
        return text
    new = rng.choice(NUMBERS)
    return re.sub(rf"(?<![\w.%@#^]){re.escape(match.group())}(?![\w.])|(?<=[<x]){match.group()}(?=x)", new, text) \
        if match.group() != "?" else size(text, rng, words)  # fmt: skip


def size(text: str, rng: Random, words: Words) -> str:
    return _one(SIZE, text, rng, SIZES)


def element(text: str, rng: Random, words: Words) -> str:
    return _one(ELEMENT, text, rng, ELEMENTS)


def number(text: str, rng: Random, words: Words) -> str:
    return _one(NUMBER, text, rng, NUMBERS)


def string(text: str, rng: Random, words: Words) -> str:
    return _one(STRING, text, rng, words.strings if rng.random() < 0.7 else STRINGS)


def type_(text: str, rng: Random, words: Words) -> str:
    match = _pick(TYPE, text, rng)
    own = [m.group() for m in TYPE.finditer(text)]
    return (
        _put(text, match, rng.choice(own if rng.random() < 0.5 else words.types))
        if match
        else text
    )


def type_everywhere(text: str, rng: Random, words: Words) -> str:
    match = _pick(TYPE, text, rng)
    own = [m.group() for m in TYPE.finditer(text)]
    return (
        text.replace(
            match.group(), rng.choice(own if rng.random() < 0.5 else words.types)
        )
        if match
        else text
    )


def value(text: str, rng: Random, words: Words) -> str:
    return _one(VALUE, text, rng, [m.group() for m in VALUE.finditer(text)])


def value_of_type(text: str, rng: Random, words: Words) -> str:
    """Uses another value in a line: results of earlier lines with the types that the line has are valid."""
    lines = text.splitlines()
    here = rng.randrange(len(lines)) if lines else 0
    uses = list(VALUE.finditer(lines[here])) if lines else []
    before = [
        m.group() for line in lines[:here] for m in VALUE.finditer(line.split("=")[0])
    ]
    if not uses or not before:
        return text
    lines[here] = _put(lines[here], rng.choice(uses), rng.choice(before))
    return "\n".join(lines)


def symbol(text: str, rng: Random, words: Words) -> str:
    return _one(
        SYMBOL, text, rng, [m.group() for m in SYMBOL.finditer(text)] + ["@absent"]
    )


def operation(text: str, rng: Random, words: Words) -> str:
    return _one(OPERATION, text, rng, words.operations)


def attribute(text: str, rng: Random, words: Words) -> str:
    return _one(ATTRIBUTE, text, rng, words.attributes)


def keyword(text: str, rng: Random, words: Words) -> str:
    return _one(KEYWORD, text, rng, [m.group() for m in KEYWORD.finditer(text)] + [""])


def delete_line(text: str, rng: Random, words: Words) -> str:
    lines = text.splitlines()
    if lines:
        del lines[rng.randrange(len(lines))]
    return "\n".join(lines)


def copy_line(text: str, rng: Random, words: Words) -> str:
    """An operation once more; its results get names of their own."""
    lines = text.splitlines()
    if not lines:
        return text
    line = rng.choice(lines)
    line = re.sub(r"^(\s*)%[\w$.-]+", rf"\1%copy{rng.randrange(1000)}", line)
    lines.insert(rng.randrange(len(lines) + 1), line)
    return "\n".join(lines)


def move_line(text: str, rng: Random, words: Words) -> str:
    lines = text.splitlines()
    if lines:
        line = lines.pop(rng.randrange(len(lines)))
        lines.insert(rng.randrange(len(lines) + 1), line)
    return "\n".join(lines)


def foreign_line(text: str, rng: Random, words: Words) -> str:
    lines = text.splitlines()
    lines.insert(rng.randrange(len(lines) + 1), rng.choice(words.lines))
    return "\n".join(lines)


def _groups(text: str) -> list[tuple[int, int]]:
    """What stands between brackets of a pair."""
    closing, stack, found = {")": "(", "]": "[", "}": "{", ">": "<"}, [], []
    for i, c in enumerate(text):
        if c in "([{<":
            stack.append((c, i))
        elif c in closing and not (c == ">" and text[i - 1] == "-"):
            while stack and stack[-1][0] == "<" != closing[c]:
                stack.pop()
            if stack and stack[-1][0] == closing[c]:
                found.append((stack.pop()[1] + 1, i))
    return found


def empty_group(text: str, rng: Random, words: Words) -> str:
    groups = _groups(text)
    if not groups:
        return text
    begin, end = rng.choice(groups)
    return text[:begin] + text[end:]


def change_list(text: str, rng: Random, words: Words) -> str:
    """Drops, repeats or swaps what stands between commas."""
    groups = [
        (b, e) for b, e in _groups(text) if "," in text[b:e] and "\n" not in text[b:e]
    ]
    if not groups:
        return text
    begin, end = rng.choice(groups)
    items = re.split(r",\s*", text[begin:end])
    i, j = rng.randrange(len(items)), rng.randrange(len(items))
    what = rng.randrange(3)
    if what == 0:
        del items[i]
    elif what == 1:
        items.insert(j, items[i])
    else:
        items[i], items[j] = items[j], items[i]
    return text[:begin] + ", ".join(items) + text[end:]


def drop_argument(text: str, rng: Random, words: Words) -> str:
    """The same place of every list of as many items in one line: operands and their types."""
    lines = text.splitlines()
    if not lines:
        return text
    here = rng.randrange(len(lines))
    groups = [(b, e) for b, e in _groups(lines[here]) if lines[here][b - 1] == "("]
    if not groups:
        return text
    split = {g: re.split(r",\s*(?![^<]*>)", lines[here][g[0] : g[1]]) for g in groups}
    count = len(split[rng.choice(groups)])
    place, repeat = rng.randrange(count), rng.random() < 0.4
    line = lines[here]
    for group in sorted(groups, reverse=True):
        items = split[group]
        if len(items) == count and line[group[0] : group[1]]:
            items = (
                items[: place + 1] + items[place:]
                if repeat
                else items[:place] + items[place + 1 :]
            )
            line = line[: group[0]] + ", ".join(items) + line[group[1] :]
    lines[here] = line
    return "\n".join(lines)


def deepen(text: str, rng: Random, words: Words) -> str:
    """An operation within many regions."""
    lines = text.splitlines()
    if not lines:
        return text
    depth = rng.choice((1, 2, 50, 400))
    here = rng.randrange(len(lines))
    region = rng.choice(
        (
            "scf.if %true {",
            "scf.for %d = %zero to %zero step %zero {",
            "scf.execute_region {",
        )
    )
    end = "scf.yield }" if "execute" in region else "}"
    head = ["%true = arith.constant true", "%zero = arith.constant 0 : index"]
    opened = [region.replace("%d", f"%d{i}") for i in range(depth)]
    lines[here : here + 1] = [*head, *opened, lines[here], *[end] * depth]
    return "\n".join(lines)


def lengthen(text: str, rng: Random, words: Words) -> str:
    """A chain of an operation that a line shows."""
    lines = text.splitlines()
    chains = [
        i
        for i, line in enumerate(lines)
        if re.match(r"\s*%[\w$.-]+ = \S+.*%", line) and "{" not in line
    ]
    if not chains:
        return text
    here = rng.choice(chains)
    match = re.match(r"\s*(%[\w$.-]+) = (.*)", lines[here])
    assert match
    uses = VALUE.findall(match.group(2))
    before, chain = rng.choice(uses), [lines[here]]
    last = match.group(1)
    for i in range(rng.choice((2, 10, 300, 1000))):
        chain.append(f"%chain{i} = " + match.group(2).replace(before, last))
        last = f"%chain{i}"
    rest = "\n".join(lines[here + 1 :])
    if rng.random() < 0.7:
        rest = re.sub(re.escape(match.group(1)) + r"(?![\w$.-])", last, rest)
    return "\n".join([*lines[:here], *chain, rest])


def cut(text: str, rng: Random, words: Words) -> str:
    return text[: rng.randrange(len(text) + 1)]


def character(text: str, rng: Random, words: Words) -> str:
    here = rng.randrange(len(text) + 1)
    return (
        text[:here]
        + rng.choice('<>(){}[],:=%@#!"-0 \n\x00é')
        + text[here + rng.randrange(2) :]
    )


# How often each is taken.
MUTATIONS: dict[Mutation, float] = {
    size_everywhere: 16, element_everywhere: 12, number_everywhere: 12, type_everywhere: 6,
    size: 2, element: 2, number: 16, string: 8, type_: 3, value: 2, value_of_type: 8, symbol: 3,
    operation: 5, attribute: 5, keyword: 2, delete_line: 8, copy_line: 5, move_line: 3, foreign_line: 2,
    empty_group: 6, change_list: 8, drop_argument: 8, deepen: 1, lengthen: 1, cut: 0.4, character: 1,
}  # fmt: skip


def mutate(text: str, rng: Random, words: Words, times: int) -> tuple[str, list[str]]:
    """The text after some mutations, and their names."""
    names = []
    for mutation in rng.choices(
        list(MUTATIONS), weights=list(MUTATIONS.values()), k=times
    ):
        changed = mutation(text, rng, words)
        if changed != text:
            names.append(mutation.__name__.rstrip("_"))
        text = changed
    return text, names
