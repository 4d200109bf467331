# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Why calls break or run in eager: what each kind of reason means, and what to do about it.

The kinds are ``_C.ReasonKind`` (capture/breaks/ReasonKinds.def). The table here says what a kind is to a user;
docs/GraphBreaks.md has a section for each, with examples. A test compares the three.
"""

from __future__ import annotations

import linecache
import os
import sysconfig
from collections.abc import Iterable
from typing import Any, NamedTuple, Self

from pyjit import _C
from pyjit._C import ReasonKind

PAGE = "docs/GraphBreaks.md"


class Entry(NamedTuple):
    """What a kind of reason is to a user."""

    title: str
    remedy: str
    passing: bool = False
    """It is so in a first call, or for a while; nothing has to be done."""


ENTRIES: dict[ReasonKind, Entry] = {
    ReasonKind.BRANCH_ON_DATA: Entry(
        "a branch on a tensor's values",
        "torch.where() computes both sides in one graph; after both sides were seen, pyjit joins small ones by itself",
    ),
    ReasonKind.ONE_WAY: Entry(
        "a branch that calls take one way",
        "nothing: the graph goes through it and checks it",
        passing=True,
    ),
    ReasonKind.FEW_WAYS: Entry(
        "a branch that calls take few ways",
        "nothing: the graph goes through it and checks it, until calls have taken many ways",
        passing=True,
    ),
    ReasonKind.DATA_IN_PYTHON: Entry(
        "a tensor's values read by Python",
        "keep the value a tensor (torch operators instead of .item(), .tolist(), .numpy(), ==, in), or read it after the call",
    ),
    ReasonKind.DATA_DEPENDENT_SHAPE: Entry(
        "an operator whose result's size depends on values",
        "torch.where() or a mask of fixed size instead of nonzero(), unique() or x[mask]",
    ),
    ReasonKind.PRINT: Entry(
        "printing",
        "take the print out of the compiled function, or put it at its end",
    ),
    ReasonKind.WARNING: Entry(
        "a warning that is shown",
        "mend what is warned of, or filter the warning (warnings.filterwarnings)",
    ),
    ReasonKind.NATIVE_FUNCTION: Entry(
        "a native function that pyjit does not know",
        "call it outside of the compiled function, or replace it by torch operators or plain Python",
    ),
    ReasonKind.DISABLED: Entry(
        "a function marked as never compiled",
        "take off pyjit.disable or torch.compiler.disable if it need not run in eager",
    ),
    ReasonKind.PYTHON_FEATURE: Entry(
        "a Python feature that pyjit does not model",
        "write the line in plainer Python, or move it out of the compiled function",
    ),
    ReasonKind.UNUSUAL_OBJECT: Entry(
        "an object of a type that pyjit does not model here",
        "use a tensor, a number, a string, a list, a tuple, a dict or a plain class in its place",
    ),
    ReasonKind.COROUTINE: Entry(
        "a coroutine or asynchronous generator",
        "compile the functions that it calls instead of the coroutine",
    ),
    ReasonKind.EARLIER_OBJECT: Entry(
        "a read or change of an object from before the call that pyjit does not model",
        "make the object inside of the call, give it as an argument, or use a list, a dict or an attribute of a plain instance",
    ),
    ReasonKind.OBJECT_IDENTITY: Entry(
        "the identity or the end of an object that the call makes",
        "do not ask for id(), a weak reference, a hash or a finalizer of what the call makes",
    ),
    ReasonKind.UNKNOWN_ORIGIN: Entry(
        "an object that pyjit has not seen come into being",
        "give the object as an argument, or make it before the call",
    ),
    ReasonKind.RESULT_OBJECT: Entry(
        "an object that cannot leave the compiled function",
        "return tensors, numbers, lists, tuples, dicts, plain instances; in a loop, mend the break in it",
    ),
    ReasonKind.CHANGING_VALUE: Entry(
        "a value that differs from call to call",
        "mend the graph break that hands it on, if one does; otherwise give it as a tensor, or use it outside",
    ),
    ReasonKind.CONTEXT_VARIABLE: Entry(
        "a context variable that stays set or is reset out of order",
        "set and reset it outside of the compiled function",
    ),
    ReasonKind.FIRST_TIME: Entry(
        "something that commonly happens once (an import, a cache, a lock)",
        "nothing at first, for the next call is recorded anew; where it stays, take it out of the compiled function",
        passing=True,
    ),
    ReasonKind.CALLED_FROM_NATIVE: Entry(
        "Python code that native code calls",
        "call the function directly instead of through the native one (a callback, a hook, a key function)",
    ),
    ReasonKind.EXCEPTION: Entry(
        "an exception that the program handles",
        "test the condition before the operator instead of catching its error",
    ),
    ReasonKind.OPERATOR: Entry(
        "an operator that pyjit cannot put into a graph in this form",
        "write it with other operators; the reason's text says what is in the way",
    ),
    ReasonKind.TENSOR_FROM_DATA: Entry(
        "a tensor made of Python data or of other tensors' values",
        "make it before the call, or with torch.full(), torch.stack() or torch.arange()",
    ),
    ReasonKind.TENSOR_ATTRIBUTE: Entry(
        "an attribute of a tensor that pyjit does not model",
        "use a method or an operator of torch instead of the attribute",
    ),
    ReasonKind.TENSOR_KIND: Entry(
        "a kind of tensor that pyjit does not know",
        "use plain dense tensors on the CPU or a CUDA device; a subclass with __torch_function__ runs in eager",
    ),
    ReasonKind.TENSOR_ARGUMENT: Entry(
        "a tensor used together with an object that is no tensor or number",
        "convert the other object to a tensor, a number, a slice or a tuple before",
    ),
    ReasonKind.SHARED_MEMORY: Entry(
        "tensors that share memory in a way that a graph cannot hand out",
        "return a clone() of the view, or write into a tensor that is no view",
    ),
    ReasonKind.NOT_DIFFERENTIABLE: Entry(
        "an operator whose derivative pyjit does not have",
        "torch.no_grad() where no gradient is needed; otherwise the operator alone runs in eager",
    ),
    ReasonKind.BACKWARD: Entry(
        "a backward pass, or a use of gradients, that pyjit does not model",
        "compile the forward function and the loss, and call backward() after them (docs/Training.md)",
    ),
    ReasonKind.GRAD_MODE: Entry(
        "gradients within a call that was made without grad mode",
        "call it outside of torch.no_grad(), and enter no_grad within it, around what needs no gradient",
    ),
    ReasonKind.AUTOGRAD_FUNCTION: Entry(
        "a torch.autograd.Function with a backward of its own",
        "torch.no_grad() for inference; in training, write the function with torch operators",
    ),
    ReasonKind.CHECKPOINT: Entry(
        "torch.utils.checkpoint used in a way that pyjit does not model",
        "checkpoint functions that write nothing from before the call, with use_reentrant=False",
    ),
    ReasonKind.AUTOCAST: Entry(
        "casts of weights that autocast keeps in a region around the call",
        "enter torch.autocast inside of the compiled function",
    ),
    ReasonKind.TORCH_STATE: Entry(
        "a state of PyTorch in which calls are not recorded, or that the call changes",
        "call the compiled function outside of the mode or transform; set global state before the call",
    ),
    ReasonKind.TORCH_SCRIPT: Entry(
        "a TorchScript function that makes tensors of Python data, and whose optimized form may be fused",
        "use the Python function that torch.jit.script was given",
    ),
    ReasonKind.TOO_MUCH: Entry(
        "more than pyjit records of one thing",
        "make the numbers or the nesting smaller",
    ),
    ReasonKind.LONG_LOOP: Entry(
        "a loop whose iterations are many operators each: one graph answers all of them",
        "nothing; fullgraph=True makes one graph of all iterations, which takes long to compile",
    ),
    ReasonKind.MONITORING: Entry(
        "another tool observes the interpreter",
        "end the other tool (a debugger, a coverage run, a profiler) or the outer recording",
    ),
    ReasonKind.INTERNAL: Entry(
        "something that pyjit did not expect",
        "please report it, with the program",
    ),
    ReasonKind.SPECIALIZATION_LIMIT: Entry(
        "the limit of specializations is reached",
        'find out what differs between the calls (PYJIT_LOGS=recompiles, explain(f, detail="guards")), or raise '
        "options={'recompile_limit': ...}",
    ),
    ReasonKind.TOO_MANY_BREAKS: Entry(
        "so many graph breaks that nothing is won",
        "compile the parts that compute (a layer, a block) instead of the whole function",
    ),
    ReasonKind.COMPILER_FAILED: Entry(
        "pyjit's compiler failed",
        "please report it, with the folder that PYJIT_DUMP_DIR writes; eager answers meanwhile",
    ),
    ReasonKind.GRAPH_RAISED: Entry(
        "a compiled graph raised an error",
        "look at the error: if eager raises it too, the inputs are at fault; otherwise please report it",
    ),
    ReasonKind.EAGER_FASTER: Entry(
        "eager was faster than the compiled graph",
        "nothing: eager answers such calls; options={'compare_with_eager': False} compares no more",
    ),
    ReasonKind.ANOTHER_THREAD: Entry(
        "another thread was recording",
        "nothing: the next call is recorded; to be sure, call once before the threads begin",
        passing=True,
    ),
    ReasonKind.RECORDED_NEXT: Entry(
        "a first call that showed where to break",
        "nothing: the next call is recorded with what this one has taught",
        passing=True,
    ),
    ReasonKind.RAISED: Entry(
        "a call that raised an exception",
        "nothing: calls that return are recorded; where most of them raise, test the condition in front of the call",
        passing=True,
    ),
}


class Place(NamedTuple):
    """A line of the program."""

    file: str
    line: int
    function: str

    @property
    def source(self) -> str:
        """The line's text, or ''."""
        return linecache.getline(self.file, self.line).strip()

    def __str__(self) -> str:
        return f"{_short(self.file)}:{self.line}"


# This package among them, wherever it lies.
_LIBRARIES = tuple(
    {
        os.path.realpath(folder) + os.sep
        for folder in (
            os.path.dirname(os.path.realpath(__file__)),
            *map(sysconfig.get_path, ("stdlib", "platstdlib", "purelib", "platlib")),
        )
        if folder
    }
)


def is_library(file: str) -> bool:
    """Whether a file is the standard library's, an installed package's or pyjit's."""
    return file.startswith("<frozen") or os.path.realpath(file).startswith(_LIBRARIES)


def _short(file: str) -> str:
    """Relative to the current folder where the file is below it."""
    try:
        relative = os.path.relpath(file)
    except ValueError:
        return file
    return file if relative.startswith("..") else relative


class Reason(str):
    """Why a call broke or ran in eager: a text, as before, that also says what kind of reason it is.

    ``kind``; ``code``, its name in the documentation; ``title`` and ``remedy``; ``docs``, where it is
    explained; ``stack``, the program's lines, outermost first; ``place``, the one that is the user's.
    """

    __slots__ = ("kind", "stack")

    kind: ReasonKind
    stack: tuple[Place, ...]

    def __new__(
        cls, kind: ReasonKind, text: str, stack: Iterable[tuple[str, int, str]] = ()
    ) -> Self:
        made = super().__new__(cls, text)
        made.kind = ReasonKind(kind)
        made.stack = tuple(Place(*entry) for entry in stack)
        return made

    @classmethod
    def of(
        cls, reason: _C.Reason, stack: Iterable[tuple[str, int, str]] = ()
    ) -> Reason:
        """What a recording gives; ``stack`` where more is known of it."""
        return cls(ReasonKind(reason.kind), reason.text, tuple(stack) or reason.stack)

    def __reduce__(self) -> tuple[Any, ...]:
        return Reason, (self.kind, str(self), self.stack)

    @property
    def code(self) -> str:
        return code_of(self.kind)

    @property
    def title(self) -> str:
        return ENTRIES[self.kind].title

    @property
    def remedy(self) -> str:
        return ENTRIES[self.kind].remedy

    @property
    def passing(self) -> bool:
        return ENTRIES[self.kind].passing

    @property
    def docs(self) -> str:
        return f"{PAGE}#{self.code}"

    @property
    def place(self) -> Place | None:
        """The innermost line that is neither the standard library's nor an installed package's."""
        own = [place for place in self.stack if not is_library(place.file)]
        return (own or list(self.stack) or [None])[-1]

    @property
    def what(self) -> str:
        """The text's first line, shortened to what one line of a report holds."""
        line = next(iter(self.splitlines()), self.title)
        return line if len(line) <= 200 else line[:199] + "…"

    def to_dict(self) -> dict[str, Any]:
        return {
            "code": self.code,
            "text": str(self),
            "title": self.title,
            "remedy": self.remedy,
            "docs": self.docs,
            "stack": [place._asdict() for place in self.stack],
        }


def code_of(kind: ReasonKind) -> str:
    """A kind's name in reports and in the documentation: ``branch-on-data``."""
    return kind.name.lower().replace("_", "-")


def stack_of(graph_break: _C.GraphBreak) -> tuple[Place, ...]:
    """The program's lines at a graph break, outermost first."""
    return tuple(
        Place(
            frame.key.code.co_filename,
            line_of(frame.key.code, frame.key.offset),
            frame.key.code.co_qualname,
        )
        for frame in graph_break.frames
    )


def line_of(code: Any, offset: int) -> int:
    for start, end, line in code.co_lines():
        if start <= offset < end and line is not None:
            return line
    return code.co_firstlineno
