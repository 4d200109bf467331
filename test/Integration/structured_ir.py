# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Random structured tensor programs, as tssa IR on handles and as PyTorch.

A program is a tree of statements over handles (tensors that views share and stores
change) and values. `to_ir` writes it as a function on `!tssa.ref`, `run` carries it
out with PyTorch's own views and in-place writes. All numbers are small integers,
whatever the element type, so that both must agree exactly.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

import torch

DTYPES = {torch.int64: "i64", torch.float32: "f32"}
MODULUS = 97


@dataclass
class Name:
    """A handle or a value: its name in the IR, and a tensor of its layout."""

    text: str
    like: torch.Tensor
    handle: bool

    @property
    def tensor_type(self) -> str:
        return type_of(self.like)

    @property
    def type(self) -> str:
        return f"!tssa.ref<{self.tensor_type}>" if self.handle else self.tensor_type


def type_of(like: torch.Tensor) -> str:
    dims = "".join(f"{size}x" for size in like.shape)
    name = {**DTYPES, torch.bool: "i1"}[like.dtype]
    if like.is_contiguous():
        return f"tensor<{dims}{name}>"
    return f"tensor<{dims}{name}, #tssa.strides<{list(like.stride())}>>"


@dataclass
class Statement:
    """`kind` and what it works on; regions where it is a loop or a branch."""

    kind: str
    results: list[Name] = field(default_factory=list)
    operands: list[Name] = field(default_factory=list)
    detail: Any = None
    bodies: list[list[Statement]] = field(default_factory=list)
    arguments: list[list[Name]] = field(default_factory=list)
    yields: list[list[Name]] = field(default_factory=list)


# Functions of one and two operands: IR for loaded operands, and PyTorch.
UNARY = {
    "aten::neg": ("({0})", torch.neg),
    "aten::abs": ("({0})", torch.abs),
    "aten::relu": ("({0})", torch.relu),
    "aten::add.Tensor": ("({0}, wrapped(3 : i64), 1 : i64)", lambda a: a + 3),
}
BINARY = {
    "aten::add.Tensor": ("({0}, {1}, 1 : i64)", torch.add),
    "aten::sub.Tensor": ("({0}, {1}, 2 : i64)", lambda a, b: torch.sub(a, b, alpha=2)),
    "aten::maximum": ("({0}, {1})", torch.maximum),
    "aten::mul.Tensor": ("({0}, {1})", torch.mul),
}
# View, its number of sources' dimensions, and how PyTorch shows it.
VIEWS = {
    "row": ("select [0, {0}]", 2, lambda t, i: t.select(0, i)),
    "column": ("select [1, {0}]", 2, lambda t, i: t.select(1, i)),
    "rows": ("slice [0, {0}, 2, 1]", 2, lambda t, i: t.narrow(0, i, 2)),
    "turned": ("permute [1, 0]", 2, lambda t, i: t.t()),
    "part": ("slice [0, {0}, 2, 1]", 1, lambda t, i: t.narrow(0, i, 2)),
    "element": ("select [0, {0}]", 1, lambda t, i: t.select(0, i)),
}


def limit_of(view: str, like: torch.Tensor) -> int:
    """How many indices the view has."""
    if view == "turned":
        return 1
    if view in ("rows", "part"):
        return int(like.shape[0]) - 1
    return int(like.shape[1 if view == "column" else 0])


class Generator:
    """Draws a program from a source of random numbers."""

    def __init__(self, rng: random.Random, library: bool, size: int = 14) -> None:
        self.rng = rng
        self.library = library
        self.budget = size
        self.count = 0
        self.dtype = rng.choice(list(DTYPES))
        shape = (3, 3) if rng.random() < 0.3 else (3, 4)
        self.inputs = [
            self.name(torch.empty(shape, dtype=self.dtype), True) for _ in range(3)
        ]
        scope = list(self.inputs)
        self.body = self.block(scope, [], 0)
        self.outputs: list[Name] = []
        for name in scope:
            if name.handle:
                self.outputs.append(self.emit_load(self.body, name))
            else:
                self.outputs.append(name)

    def name(self, like: torch.Tensor, handle: bool) -> Name:
        self.count += 1
        return Name(f"%v{self.count}", like, handle)

    def block(self, scope: list[Name], indices: list[tuple[str, int]], depth: int,
              least: int = 1) -> list[Statement]:  # fmt: skip
        """Statements; what they define comes into `scope`."""
        out: list[Statement] = []
        for _ in range(self.rng.randint(least, 5)):
            if self.budget <= 0:
                break
            self.budget -= 1
            kinds = ["apply", "apply", "view", "view", "write", "write", "write"]
            if depth < 3:
                kinds += ["for", "while", "if", "if"] * (1 if depth else 3)
            getattr(self, "make_" + self.rng.choice(kinds))(out, scope, indices, depth)
        return out

    def emit(self, out: list[Statement], statement: Statement) -> Name:
        out.append(statement)
        return (
            statement.results[0]
            if statement.results
            else Name("", torch.empty(0), False)
        )

    def emit_load(self, out: list[Statement], name: Name) -> Name:
        if not name.handle:
            return name
        value = self.name(name.like, False)
        return self.emit(out, Statement("load", [value], [name]))

    def matching(self, scope: list[Name], like: torch.Tensor) -> list[Name]:
        return [n for n in scope if n.like.shape == like.shape]

    def compute(self, out: list[Statement], scope: list[Name], like: Name) -> Name:
        """A value of the shape of `like`, from it and others."""
        first = self.emit_load(out, like)
        if self.rng.random() < 0.3:
            function = self.rng.choice(list(UNARY))
            operands, made = [first], UNARY[function][1](first.like)
        else:
            function = self.rng.choice(list(BINARY))
            other = self.emit_load(
                out, self.rng.choice(self.matching(scope, like.like))
            )
            operands = [first, other]
            made = BINARY[function][1](first.like, other.like)
        value = self.emit(
            out,
            Statement("call", [self.name(torch.empty_like(made), False)], operands,
                      (function, self.library and self.rng.random() < 0.3)))  # fmt: skip
        # Small again, with the sign of the modulus.
        return self.emit(
            out, Statement("small", [self.name(torch.empty_like(made), False)], [value])
        )

    def flag(self, out: list[Statement], scope: list[Name]) -> Name:
        """A bool without dimensions that depends on data."""
        value = self.emit_load(out, self.rng.choice(scope))
        flag = self.name(torch.empty((), dtype=torch.bool), False)
        return self.emit(
            out, Statement("flag", [flag], [value], self.rng.randint(1, MODULUS))
        )

    # Statements

    def make_apply(self, out, scope, indices, depth) -> None:
        value = self.compute(out, scope, self.rng.choice(scope))
        if self.rng.random() < 0.6:
            value = self.emit(
                out, Statement("ref", [self.name(value.like, True)], [value])
            )
        scope.append(value)

    def make_view(self, out, scope, indices, depth) -> None:
        source = self.rng.choice(scope)
        fitting = [v for v in VIEWS
                   if VIEWS[v][1] == source.like.dim() and limit_of(v, source.like) > 0]  # fmt: skip
        if not fitting:
            return
        view = self.rng.choice(fitting)
        limit = limit_of(view, source.like)
        within = [i for i in indices if i[1] <= limit]
        index: str | int = self.rng.randrange(limit)
        if within and view != "turned" and self.rng.random() < 0.8:
            index = self.rng.choice(within)[0]
        like = VIEWS[view][2](source.like, 0)
        scope.append(
            self.emit(out, Statement("view", [self.name(like, source.handle)], [source],
                                     (view, index))))  # fmt: skip

    def make_write(self, out, scope, indices, depth) -> None:
        handles = [n for n in scope if n.handle]
        target = self.rng.choice(handles)
        value = self.compute(out, scope, target)
        if value.like.stride() != target.like.stride():
            value = self.emit(out, Statement("copy", [self.name(target.like, False)],
                                             [value]))  # fmt: skip
        self.emit(out, Statement("store", [], [value, target]))

    def carried(self, out, scope) -> list[Name]:
        return [
            self.emit_load(out, self.rng.choice(scope))
            for _ in range(self.rng.randint(0, 3))
        ]

    def arguments(
        self, inits: list[Name], scope: list[Name], body: list[Statement]
    ) -> list[Name]:
        names = [self.name(init.like, False) for init in inits]
        for name in names:
            scope.append(name)
            if self.rng.random() < 0.6:
                scope.append(
                    self.emit(
                        body, Statement("ref", [self.name(name.like, True)], [name])
                    )
                )
        return names

    def yielded(
        self, body: list[Statement], scope: list[Name], types: list[Name]
    ) -> list[Name]:
        """Values for the next iteration, of exactly these types."""
        names = []
        for wanted in types:
            value = self.emit_load(
                body, self.rng.choice(self.matching(scope, wanted.like))
            )
            if value.like.stride() != wanted.like.stride():
                value = self.emit(body, Statement("copy", [self.name(wanted.like, False)],
                                                  [value]))  # fmt: skip
            names.append(value)
        return names

    def finish(self, out, scope, statement: Statement, types: list[Name]) -> None:
        statement.results = [self.name(t.like, False) for t in types]
        out.append(statement)
        for result in statement.results:
            scope.append(result)
            if self.rng.random() < 0.5:
                scope.append(
                    self.emit(
                        out, Statement("ref", [self.name(result.like, True)], [result])
                    )
                )

    def make_for(self, out, scope, indices, depth) -> None:
        inits = self.carried(out, scope)
        trips = self.rng.choice([0, 1, 2, 2, 3, 3])
        loop = Statement(
            "for", [], inits, (self.name(torch.empty(0), False).text + "i", trips)
        )
        body: list[Statement] = []
        inner = list(scope)
        arguments = self.arguments(inits, inner, body)
        body += self.block(inner, [*indices, (loop.detail[0], trips)], depth + 1)
        loop.bodies, loop.arguments = [body], [arguments]
        loop.yields = [self.yielded(body, inner, inits)]
        self.finish(out, scope, loop, inits)

    def make_while(self, out, scope, indices, depth) -> None:
        """At most three trips, fewer where the data says so."""
        inits = self.carried(out, scope)
        before: list[Statement] = []
        inner = list(scope)
        first = self.arguments(inits, inner, before)
        if self.rng.random() < 0.5:
            before += self.block(inner, indices, depth + 1, 0)
        flag = self.flag(before, inner)
        forwarded = [self.emit_load(before, self.rng.choice(inner))
                     for _ in range(self.rng.randint(0, 3))]  # fmt: skip
        after: list[Statement] = []
        second_scope = list(scope)
        second = self.arguments(forwarded, second_scope, after)
        after += self.block(second_scope, indices, depth + 1)
        loop = Statement("while", [], inits, (self.name(torch.empty(0), False).text + "k", flag), [before, after],
                         [first, second],
                         [forwarded, self.yielded(after, second_scope, inits)])  # fmt: skip
        self.finish(out, scope, loop, forwarded)

    def make_if(self, out, scope, indices, depth) -> None:
        flag = self.flag(out, scope)
        types = [self.rng.choice(scope) for _ in range(self.rng.randint(0, 2))]
        branch = Statement("if", [], [flag])
        for _ in range(2):
            inner = list(scope)
            body = self.block(inner, indices, depth + 1, 0)
            branch.yields.append(self.yielded(body, inner, types))
            branch.bodies.append(body)
        self.finish(out, scope, branch, types)


class Writer:
    """A program as IR."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.fresh = 0

    def line(self, depth: int, text: str) -> None:
        self.lines.append("  " * depth + text)

    def temporary(self) -> str:
        self.fresh += 1
        return f"%t{self.fresh}"

    def function(self, program: Generator) -> str:
        arguments = ", ".join(f"{n.text}: {n.type}" for n in program.inputs)
        types = ", ".join(n.type for n in program.outputs)
        self.line(0, f"func.func @f({arguments}) -> ({types}) {{")
        for number in range(4):
            self.line(1, f"%c{number} = arith.constant {number} : index")
        self.line(1, "%zero = tssa.aten \"aten::zeros\"([], 4 : i64, none, none, none)"
                     " : () -> tensor<i64>")  # fmt: skip
        self.block(program.body, 1)
        names = ", ".join(n.text for n in program.outputs)
        self.line(1, f"return {names} : {types}" if names else "return")
        self.line(0, "}")
        return "\n".join(self.lines) + "\n"

    def block(self, body: list[Statement], depth: int) -> None:
        for statement in body:
            getattr(self, "write_" + statement.kind)(statement, depth)

    def aten(self, depth: int, result: str, call: str, operands: str, of: str,
             attributes: str = "") -> None:  # fmt: skip
        self.line(
            depth, f"{result} = tssa.aten {call}{attributes} : ({operands}) -> {of}"
        )

    def write_load(self, s: Statement, depth: int) -> None:
        self.line(depth, f"{s.results[0].text} = tssa.load {s.operands[0].text} : "
                         f"{s.operands[0].type}")  # fmt: skip

    def write_ref(self, s: Statement, depth: int) -> None:
        self.line(depth, f"{s.results[0].text} = tssa.ref {s.operands[0].text} : "
                         f"{s.results[0].type}")  # fmt: skip

    def write_store(self, s: Statement, depth: int) -> None:
        self.line(depth, f"tssa.store {s.operands[0].text}, {s.operands[1].text} : "
                         f"{s.operands[1].type}")  # fmt: skip

    def write_call(self, s: Statement, depth: int) -> None:
        function, library = s.detail
        form = (UNARY if len(s.operands) == 1 else BINARY)[function][0]
        self.aten(depth, s.results[0].text,
                  f'"{function}"' + form.format(*(n.text for n in s.operands)),
                  ", ".join(n.type for n in s.operands), s.results[0].type,
                  " {pyjit.vendor_call}" if library else "")  # fmt: skip

    def write_small(self, s: Statement, depth: int) -> None:
        self.aten(depth, s.results[0].text,
                  f'"aten::remainder.Scalar"({s.operands[0].text}, {MODULUS} : i64)',
                  s.operands[0].type, s.results[0].type)  # fmt: skip

    def write_copy(self, s: Statement, depth: int) -> None:
        # The contents of one in the layout of the other.
        target = s.results[0]
        empty = self.temporary()
        code = {torch.int64: 4, torch.float32: 6, torch.bool: 11}[target.like.dtype]
        self.aten(depth, empty, f'"aten::zeros"({list_of(target.like.shape)}, {code} : i64, none, '
                  "none, none)", "", target.type)  # fmt: skip
        self.aten(depth, target.text,
                  f'"aten::copy"({empty}, {s.operands[0].text}, false)',
                  f"{target.type}, {s.operands[0].type}", target.type)  # fmt: skip

    def write_flag(self, s: Statement, depth: int) -> None:
        value, result = s.operands[0], s.results[0]
        kind = DTYPES[value.like.dtype]
        total, small = self.temporary(), self.temporary()
        self.aten(depth, total, f'"aten::sum"({value.text}, none)', value.type,
                  f"tensor<{kind}>")  # fmt: skip
        self.aten(depth, small, f'"aten::remainder.Scalar"({total}, {MODULUS} : i64)',
                  f"tensor<{kind}>", f"tensor<{kind}>")  # fmt: skip
        self.aten(depth, result.text, f'"aten::lt.Scalar"({small}, {s.detail} : i64)',
                  f"tensor<{kind}>", "tensor<i1>")  # fmt: skip

    def write_view(self, s: Statement, depth: int) -> None:
        view, index = s.detail
        dynamic = isinstance(index, str)
        path = VIEWS[view][0].format("?" if dynamic else index)
        op = "view" if s.operands[0].handle else "access"
        at = f" ({index})" if dynamic else ""
        self.line(depth, f"{s.results[0].text} = tssa.{op} {s.operands[0].text} "
                         f"[#tssa.view<{path}>]{at} : {s.operands[0].type} -> "
                         f"{s.results[0].type}")  # fmt: skip

    def head(self, s: Statement) -> str:
        if not s.results:
            return ""
        return ", ".join(n.text for n in s.results) + " = "

    def types(self, names: list[Name]) -> str:
        return ", ".join(n.type for n in names)

    def terminator(self, kind: str, names: list[Name], depth: int) -> None:
        texts = ", ".join(n.text for n in names)
        self.line(depth, f"{kind} {texts} : {self.types(names)}" if names else kind)

    def write_for(self, s: Statement, depth: int) -> None:
        index, trips = s.detail
        carried = ", ".join(
            f"{a.text} = {i.text}"
            for a, i in zip(s.arguments[0], s.operands, strict=True)
        )
        tail = f" iter_args({carried}) -> ({self.types(s.results)})" if carried else ""
        self.line(
            depth, f"{self.head(s)}scf.for {index} = %c0 to %c{trips} step %c1{tail} {{"
        )
        self.block(s.bodies[0], depth + 1)
        self.terminator("scf.yield", s.yields[0], depth + 1)
        self.line(depth, "}")

    def write_while(self, s: Statement, depth: int) -> None:
        counter, flag = s.detail
        number = "tensor<i64>"
        inits = [f"{counter} = %zero", *(
            f"{a.text} = {i.text}" for a, i in zip(s.arguments[0], s.operands, strict=True)
        )]  # fmt: skip
        ins = ", ".join([number, *(n.type for n in s.operands)])
        outs = ", ".join([number, *(n.type for n in s.results)])
        results = ", ".join([self.temporary(), *(n.text for n in s.results)])
        self.line(
            depth,
            f"{results} = scf.while ({', '.join(inits)}) : ({ins}) -> ({outs}) {{",
        )
        self.block(s.bodies[0], depth + 1)
        few, both, go = self.temporary(), self.temporary(), self.temporary()
        self.aten(
            depth + 1,
            few,
            f'"aten::lt.Scalar"({counter}, 3 : i64)',
            number,
            "tensor<i1>",
        )
        self.aten(depth + 1, both, f'"aten::logical_and"({few}, {flag.text})',
                  "tensor<i1>, tensor<i1>", "tensor<i1>")  # fmt: skip
        self.line(depth + 1, f"{go} = tensor.extract {both}[] : tensor<i1>")
        names = ", ".join([counter, *(n.text for n in s.yields[0])])
        self.line(depth + 1, f"scf.condition({go}) {names} : {outs}")
        self.line(depth, "} do {")
        again, more = counter + "b", counter + "c"
        arguments = ", ".join(
            [f"{again}: {number}", *(f"{n.text}: {n.type}" for n in s.arguments[1])]
        )
        self.line(depth, f"^bb0({arguments}):")
        self.block(s.bodies[1], depth + 1)
        self.aten(depth + 1, more,
                  f'"aten::add.Tensor"({again}, wrapped(1 : i64), 1 : i64)', number, number)  # fmt: skip
        names = ", ".join([more, *(n.text for n in s.yields[1])])
        self.line(depth + 1, f"scf.yield {names} : {ins}")
        self.line(depth, "}")

    def write_if(self, s: Statement, depth: int) -> None:
        condition = self.temporary()
        self.line(
            depth, f"{condition} = tensor.extract {s.operands[0].text}[] : tensor<i1>"
        )
        tail = f" -> ({self.types(s.results)})" if s.results else ""
        self.line(depth, f"{self.head(s)}scf.if {condition}{tail} {{")
        self.block(s.bodies[0], depth + 1)
        self.terminator("scf.yield", s.yields[0], depth + 1)
        self.line(depth, "} else {")
        self.block(s.bodies[1], depth + 1)
        self.terminator("scf.yield", s.yields[1], depth + 1)
        self.line(depth, "}")


def list_of(numbers: Any) -> str:
    return "[" + ", ".join(f"{n} : i64" for n in numbers) + "]"


class Interpreter:
    """A program as PyTorch."""

    def __init__(self) -> None:
        self.at: dict[str, Any] = {}

    def value(self, name: Name) -> torch.Tensor:
        return self.at[name.text]

    def take(self, names: list[Name]) -> list[torch.Tensor]:
        return [self.value(n).clone() for n in names]

    def put(self, names: list[Name], values: list[torch.Tensor]) -> None:
        for name, value in zip(names, values, strict=True):
            self.at[name.text] = value

    def run(self, program: Generator, inputs: list[torch.Tensor]) -> list[torch.Tensor]:
        self.put(program.inputs, [t.clone() for t in inputs])
        self.block(program.body)
        return self.take(program.outputs)

    def block(self, body: list[Statement]) -> None:
        for s in body:
            getattr(self, "run_" + s.kind)(s)

    def run_load(self, s: Statement) -> None:
        self.put(s.results, self.take(s.operands))

    run_ref = run_load
    run_copy = run_load

    def run_store(self, s: Statement) -> None:
        self.value(s.operands[1]).copy_(self.value(s.operands[0]))

    def run_call(self, s: Statement) -> None:
        table = UNARY if len(s.operands) == 1 else BINARY
        self.put(s.results, [table[s.detail[0]][1](*self.take(s.operands))])

    def run_small(self, s: Statement) -> None:
        self.put(s.results, [torch.remainder(self.value(s.operands[0]), MODULUS)])

    def run_flag(self, s: Statement) -> None:
        total = self.value(s.operands[0]).sum()
        self.put(s.results, [torch.remainder(total, MODULUS) < s.detail])

    def run_view(self, s: Statement) -> None:
        view, index = s.detail
        number = self.at[index] if isinstance(index, str) else index
        shown = VIEWS[view][2](self.value(s.operands[0]), number)
        self.put(s.results, [shown if s.results[0].handle else shown.clone()])

    def run_for(self, s: Statement) -> None:
        values = self.take(s.operands)
        for index in range(s.detail[1]):
            self.at[s.detail[0]] = index
            self.put(s.arguments[0], values)
            self.block(s.bodies[0])
            values = self.take(s.yields[0])
        self.put(s.results, values)

    def run_while(self, s: Statement) -> None:
        values, counter = self.take(s.operands), 0
        while True:
            self.put(s.arguments[0], values)
            self.block(s.bodies[0])
            forwarded = self.take(s.yields[0])
            if not (counter < 3 and bool(self.value(s.detail[1]))):
                break
            self.put(s.arguments[1], forwarded)
            self.block(s.bodies[1])
            values, counter = self.take(s.yields[1]), counter + 1
        self.put(s.results, forwarded)

    def run_if(self, s: Statement) -> None:
        side = 0 if bool(self.value(s.operands[0])) else 1
        self.block(s.bodies[side])
        self.put(s.results, self.take(s.yields[side]))
