# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The compiled half of pyjit, for the package's own modules (python-bindings/src, .../capture).

test/python-bindings/test_stub.py keeps this page true.
"""

from collections.abc import Callable
from enum import IntEnum
from types import CodeType, FunctionType
from typing import Any, NamedTuple

class BuildError(RuntimeError):
    """A captured call does not compile; has the diagnostics."""

# ---- Traces ------------------------------------------------------------------------------------

class Context:
    """Where traces live; those of one context can be merged. It ends with the last of them."""

class Trace:
    """One ``refgraph.trace``. ``str()`` is its text."""

    @staticmethod
    def parse(text: str, /) -> Trace:
        """Parses a trace's text. Raises ValueError."""
    def equals(self, other: Trace, /) -> bool:
        """The same operations on the same objects, in one context; locations may differ."""
    def is_costly(self, index: int, /) -> bool:
        """Whether value `index` of the innermost frame that it leaves hangs from operators that no
        call should carry out twice."""
    @property
    def cuda_device(self) -> int | None:
        """Number of the CUDA device that its tensors are on, or None."""
    @property
    def lifts_sizes(self) -> bool:
        """Whether sizes of tensors that it reads are to differ between calls."""
    @property
    def computes_sizes(self) -> bool:
        """Whether an operator takes a size that is a number of the trace."""
    @property
    def decides(self) -> bool:
        """Whether it goes on through branches on tensors' data."""

class AccessPath:
    """Where a guard reads a number or a size. Immutable, compared by contents."""

    @staticmethod
    def of_argument(number: int, /) -> AccessPath:
        """Of the call's argument with this number."""
    def size(self, dim: int, /) -> AccessPath:
        """Of the tensor's size."""
    def item(self, index: int, /) -> AccessPath:
        """Of an element of the tuple or list."""
    def field(self, name: str, /) -> AccessPath:
        """Of 'next' or 'left' of a range's iterator."""
    def seen_from(
        self, arguments: tuple, values: tuple, alive: tuple = (), /
    ) -> set[AccessPath]:
        """The paths that lead to the same from `values`, where this one leads through them from
        `arguments`, or from one of the objects `alive`."""
    @property
    def argument(self) -> int | None:
        """Number of the argument that it begins at, or None."""
    @property
    def is_size(self) -> bool:
        """Whether it leads to a size of a tensor, or to a stride."""
    @property
    def is_field(self) -> bool:
        """Whether it leads to a field of an iterator."""
    @property
    def is_position(self) -> bool:
        """Whether it leads to where an iterator over a container stands."""
    @property
    def begins_with_item(self) -> bool:
        """Whether its first step is to an element."""

# ---- Monitored runs (capture/breaks/CaptureTypes.cpp says what each field is) ---------------------------

class Key(NamedTuple):
    function: FunctionType
    """The function, whose globals and closure it has."""
    code: CodeType
    """Original code."""
    offset: int
    """Of the instruction, in bytes."""
    stack: tuple[bool, ...]
    """Of each operand on the stack, whether it is one or a NULL."""
    slots: tuple[int, ...]
    """The locals that are arguments."""

class Frame(NamedTuple):
    key: Key
    """The instruction that the frame stands in front of, or in."""
    exits: tuple[Key, ...]
    """Keys of where it may go on."""

class ReasonKind(IntEnum):
    """What a reason is to a user (capture/breaks/ReasonKinds.def); pyjit/_reasons.py has remedies."""

    BRANCH_ON_DATA = 0
    ONE_WAY = 1
    FEW_WAYS = 2
    DATA_IN_PYTHON = 3
    DATA_DEPENDENT_SHAPE = 4
    PRINT = 5
    WARNING = 6
    NATIVE_FUNCTION = 7
    DISABLED = 8
    PYTHON_FEATURE = 9
    UNUSUAL_OBJECT = 10
    COROUTINE = 11
    EARLIER_OBJECT = 12
    OBJECT_IDENTITY = 13
    UNKNOWN_ORIGIN = 14
    RESULT_OBJECT = 15
    CHANGING_VALUE = 16
    CONTEXT_VARIABLE = 17
    FIRST_TIME = 18
    CALLED_FROM_NATIVE = 19
    EXCEPTION = 20
    OPERATOR = 21
    TENSOR_FROM_DATA = 22
    TENSOR_ATTRIBUTE = 23
    TENSOR_KIND = 24
    TENSOR_ARGUMENT = 25
    SHARED_MEMORY = 26
    NOT_DIFFERENTIABLE = 27
    BACKWARD = 28
    GRAD_MODE = 29
    AUTOGRAD_FUNCTION = 30
    CHECKPOINT = 31
    AUTOCAST = 32
    TORCH_STATE = 33
    TORCH_SCRIPT = 34
    TOO_MUCH = 35
    LONG_LOOP = 36
    MONITORING = 37
    INTERNAL = 38
    SPECIALIZATION_LIMIT = 39
    TOO_MANY_BREAKS = 40
    COMPILER_FAILED = 41
    GRAPH_RAISED = 42
    EAGER_FASTER = 43
    ANOTHER_THREAD = 44
    RECORDED_NEXT = 45
    RAISED = 46

class Reason(NamedTuple):
    kind: int
    """A ReasonKind."""
    text: str
    """Construct, file and line."""
    stack: tuple[tuple[str, int, str], ...]
    """(file, line, function) of the recorded frames, outermost first."""

class GraphBreak(NamedTuple):
    reason: Reason
    """A Reason."""
    frames: tuple[Frame, ...]
    """Outermost first; the trace leaves a tuple of values for each."""

class DispatchState(NamedTuple):
    included: int
    """Dispatch keys where the segment begins."""
    excluded: int
    """Likewise."""
    inference: bool | None
    """Whether what it hands out is of inference mode, where that is not the mode that it begins
    in; else None."""

class Segment(NamedTuple):
    key: Key | None
    """Where the segment begins; None: with the call."""
    trace: Trace
    """What it did."""
    objects: list
    """What the trace names by index."""
    nargs: int
    """How many arguments the segment has."""
    graph_break: GraphBreak | None
    """Where it ends; None: with its function."""
    grad_mode: bool | None
    """The grad mode that it leaves behind; None: that it found."""
    dispatch_state: DispatchState
    """Torch's thread state that it belongs to."""
    fallback: Segment | None
    """Where the trace goes on through decisions on data: the segment up to the first of them, in
    case that no loop is made of it."""
    may_loop: bool
    """An iteration of a loop that ended too early to be recorded as one."""
    makes_state: bool
    """It adds entries to dicts from before the call that had none: what it was recorded for is so once."""
    scalar_sites: tuple[tuple[CodeType, int], ...]
    """Instructions (code, offset) that gave Python numbers of tensors' data, which the trace
    computes."""
    gradient_sites: tuple[tuple[CodeType, int], ...]
    """Instructions (code, offset) whose operators gradients flow through."""
    fixed: tuple[tuple[CodeType, int, int, int, int], ...]
    """(code, offset, Fixes, container, value): what instructions fixed, though it may differ between
    calls, in order; the container, or the holder of a text, is named by its identity."""

class Capture(NamedTuple):
    result: Any
    """What the call returned."""
    segments: tuple[Segment, ...]
    """The recorded segments."""
    learned: tuple[tuple[CodeType, int, Reason], ...]
    """(code, offset, reason): where the next run is to end a segment, because only hindsight
    showed that it has to."""
    passed: tuple[tuple[CodeType, int], ...]
    """Instructions (code, offset) at which something was so that is not likely to be so in the
    next call."""
    reason: Reason | None
    """Why the call's first segment is not among the segments: a Reason, or None."""
    eager_seconds: float
    """How long the call ran as in eager, when nothing more was to be recorded."""

class ArgumentKind(IntEnum):
    """What a planner needs to know of an argument of a continuation (capture/Recorder.h)."""

    OPAQUE = 0
    PINNED = 1
    VALUE = 2
    RESULT = 3
    LIFTED = 4
    RANGE = 5
    WALK = 6
    ITERATOR = 7
    OBJECT = 8

class PlanAction(IntEnum):
    """What becomes of a continuation (capture/Recorder.h)."""

    RECORD = 0
    RECORDED = 1
    STOP = 2

class Plan(NamedTuple):
    action: PlanAction
    """A PlanAction."""
    unseen: tuple[int, ...]
    """Numbers of the arguments that the specialization must not depend on."""
    lifted: tuple[AccessPath, ...]
    """Where the numbers and sizes are that are its inputs."""
    follow_sizes: bool
    """As if one of them were a size."""
    expects_loop: bool
    """Whether the segment may be an iteration of a loop."""

def capture(
    context: Context,
    target: Callable,
    args: tuple,
    kwargs: dict[str, Any],
    name: str,
    *,
    lifted: set[AccessPath] = ...,
    follow_sizes: bool = False,
) -> Capture:
    """Runs one monitored call, which is recorded as a whole or not at all."""

def capture_with_graph_breaks(
    context: Context,
    target: Callable,
    args: tuple,
    kwargs: dict[str, Any],
    name: str,
    *,
    points: dict[tuple[CodeType, int], Reason],
    passed: dict[tuple[CodeType, int], int],
    planner: Callable[[Key, bytes, tuple, bool], Plan],
    lifted: set[AccessPath],
    follow_sizes: bool,
    unseen: tuple[int, ...],
    is_part: bool,
) -> Capture:
    """Runs one monitored call, recorded in segments."""

def is_capturing() -> bool:
    """Whether this thread is inside a monitored run."""

def default_device() -> str | None:
    """The device of torch.set_default_device, or of the with statement around; None: no __torch_function__ mode is
    active; "another mode": another one is."""

# ---- Compiling -----------------------------------------------------------------------------------

class Fixes(IntEnum):
    """What an instruction fixes, though it may differ between calls (capture/breaks/GraphBreaks.h)."""

    NUMBER = 0
    OUTCOME = 1
    LENGTH = 2
    TEXT = 3
    TRUTH = 4
    SIZE = 5

class SegmentKind(IntEnum):
    """What a segment is to the branch that broke its graph (include/pyjit-c/Compiler.h)."""

    PREFIX = 0
    TRUE = 1
    FALSE = 2
    REST = 3

def build(
    trace: Trace,
    objects: list,
    nargs: int,
    keyword_names: tuple[str, ...] | None,
    *,
    eager_rounding: bool,
    dump_dir: str,
    accelerator: str,
    specialize_sizes: bool,
    verify: bool,
    depth: str,
) -> Specialization:
    """Compiles a captured call. Raises BuildError."""

def merge(segments: list[tuple], /) -> Trace:
    """One trace of the segments of a call with a graph break at a branch on data, in one context.
    Raises BuildError."""

def cross_compile(
    trace: Trace,
    capability: int,
    eager_rounding: bool = False,
    specialize_sizes: bool = False,
    /,
) -> tuple[str, str]:
    """The launch programs as text and the PTX that build would load where a GPU of this compute
    capability (90 for 9.0) is; neither it nor its driver has to be here. Raises BuildError."""

# ---- Answering calls -----------------------------------------------------------------------------

class Specialization:
    """A captured and compiled call."""

    def set_end(
        self,
        resumption: Resumption | None,
        grad_mode: bool | None,
        dispatch_state: DispatchState,
        /,
    ) -> None:
        """Where the specialization ends if not with its function; the grad mode that it leaves behind,
        or None; the DispatchState that it belongs to."""
    def set_name(self, name: str, /) -> None:
        """What profilers call its launches."""
    def prefer_launch(self, name: str, /) -> None:
        """Launch on a device in this way, unmeasured, where it is offered."""
    def look_after(self, calls: int, /) -> None:
        """The engine is told when the specialization has had so many more calls; 0: never."""
    def give_up(self) -> None:
        """From now on eager answers all calls that the guards accept."""
    def answer_again(self) -> None:
        """Takes `leave_to_eager` and `give_up` back."""
    def stages(self) -> list[tuple[str, float]]:
        """Pairs of stage and seconds, in order."""
    def changed_numbers(
        self, args: tuple, kwargs: dict[str, Any], /
    ) -> list[AccessPath]:
        """Access paths of the numbers and sizes that keep the specialization from answering these
        arguments."""
    def guard_steps(self) -> list[tuple[str, int, int, int, int, int, Any]]:
        """The guard program: (name, flags, dst, a, b, imm, operand) of each step."""
    def data_flow(
        self,
    ) -> tuple[list[tuple[str, str, str, tuple[int, ...], bool, int]], tuple[int, ...]]:
        """What the graph computes from what: kernels, vendor calls and copies, and those that give its
        results."""
    def inputs_of(
        self, args: tuple, kwargs: dict[str, Any], /
    ) -> tuple[Any, ...] | None:
        """The tensors that the graph would take for these arguments, in order; None where the guards
        do not accept them."""
    def input_registers(self) -> list[tuple[int, bool]]:
        """Of each input of the graph, the guard program's register that it is in (-1: a cast that
        autocast keeps), and whether that is a number's."""
    def failed_guard(
        self, args: tuple, kwargs: dict[str, Any], /
    ) -> tuple[int, Any] | None:
        """The number of the first guard step that these arguments fail (-1: how many there are and
        their names; -2: Torch's dispatch state) and the object that it looks at; None: all hold."""
    def text(self, topic: str, /) -> str:
        """A report on one topic; empty for an unknown one."""
    @property
    def hits(self) -> int:
        """Calls answered."""
    @property
    def guards(self) -> int:
        """Checks in the guard program."""
    @property
    def kernels(self) -> int:
        """Generated kernels launched per call."""
    @property
    def vendor_calls(self) -> int:
        """Vendor calls per call."""
    @property
    def inputs(self) -> int:
        """Tensors that the graph takes."""
    @property
    def symbols(self) -> int:
        """Sizes that may differ between calls."""
    @property
    def prepared(self) -> int:
        """Parameters whose packed or folded values are kept."""
    @property
    def hashed(self) -> int:
        """Those of them that are hashed at each call, because writes to their memory could go unseen."""
    @property
    def packed_memory(self) -> dict[int, int]:
        """The memory of their packed or folded values: bytes by address."""
    @property
    def planned_memory(self) -> tuple[int, int, int] | None:
        """Bytes that a call is planned to take while it runs, from it to its backward, and while that runs; None
        where sizes differ between calls."""
    @property
    def shared_weight_bytes(self) -> int:
        """Bytes of those values that another specialization had computed."""
    @property
    def host_microseconds(self) -> float | None:
        """Median of what a hit takes beside the launch, while that is measured."""
    @property
    def failures(self) -> int:
        """Calls whose launch raised and that eager answered."""
    @property
    def unanswered(self) -> int:
        """Calls whose data took a branch another way than the specialization speculates."""
    @property
    def left_to_eager(self) -> bool:
        """Whether eager answers calls that the guards accept."""
    @property
    def on_device(self) -> bool:
        """Whether it launches work on a device, or on a simulated one."""
    @property
    def last_error(self) -> str:
        """Why the last failed launch failed."""

class Resumption:
    """Carries out the instruction at a graph break and goes on in compiled code."""

    def __init__(self, frames: tuple, /) -> None: ...
    @property
    def frames(self) -> tuple:
        """Steps and exits, outermost first."""

class Continuation:
    """Calls code that begins in the middle of a function."""

    @property
    def function(self) -> FunctionType:
        """What runs."""

class CompiledFunction:
    """Answers calls by its specializations; asks ``miss`` where none does."""

    engine: Any
    eager_calls: int
    __signature__: Any
    """That of what is compiled."""
    modules: ModuleCalls | None
    """What modules in eager parts of calls go through; None: they run as in eager."""
    def __init__(self, target: Callable, miss: Callable, /) -> None: ...
    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...
    def add_specialization(self, specialization: Specialization, /) -> None:
        """Adds a specialization; it is tried first."""
    def drop_specialization(self, specialization: Specialization, /) -> None:
        """Forgets a specialization."""
    def drop_specializations(self) -> None:
        """Forgets all specializations."""
    def clear(self) -> None:
        """Forgets all specializations and counters."""
    def call_eager(self, args: tuple, kwargs: dict[str, Any], /) -> Any:
        """Eager answers a call."""
    def stay_quiet(self, calls: int, /) -> None:
        """So many calls that no specialization answers run in eager before the engine is asked again,
        unless grad mode and its kin change."""
    def let_all_past(self, calls: int, /) -> None:
        """So many calls in the modes of the latest that no specialization answered run in eager, before any is asked."""
    def let_past(self, calls: int, /, *values: Any) -> bool:
        """So many calls with arguments like these run in eager before any specialization is asked. Whether the latest
        that were let past had such arguments."""
    def compare(
        self, specialization: Specialization | None = None, eager: bool = False, /
    ) -> None:
        """Times the next call that the specialization's guards accept and tells the engine; eager
        answers it, or the specialization. None: ends that."""
    def leave_to_eager(self, specialization: Specialization, unasked: int, /) -> bool:
        """From now on, eager answers those of the specialization's calls that are like the compared
        ones. True: so many of them before any specialization is asked."""
    @property
    def target(self) -> Callable:
        """What is compiled."""
    @property
    def hits(self) -> int:
        """Calls answered by compiled code."""
    @property
    def misses(self) -> int:
        """Calls that met no specialization."""
    @property
    def specializations(self) -> list[Specialization]:
        """The specializations, most recently hit first."""
    @property
    def compared(self) -> Specialization | None:
        """The specialization that is compared with eager, or None."""

class ModuleCalls:
    """Who answers the modules that eager parts of calls call: after some time in eager, what ``begin(module)``
    returns, unless that is None."""

    warm_seconds: float
    """How long a module's calls take in eager before it is compiled."""
    def __init__(
        self, begin: Callable[[Any], CompiledFunction | None], warm_seconds: float, /
    ) -> None: ...
    def clear(self) -> None:
        """Forgets all modules."""
    @property
    def compiled(self) -> list[CompiledFunction]:
        """What answers modules' calls, in no order."""

def follow_module_calls(function: Callable, /) -> bool:
    """From now on, calls of torch.nn.Module.__call__ in eager parts of compiled calls go through their ModuleCalls."""

def call_through(type: type, /) -> None:
    """Calls of instances go to their `_pyjit_call`."""

def call_disabled(function: Callable, args: tuple, kwargs: dict, /) -> Any:
    """Calls it; no capture goes past."""

def measure_host(on: bool, /) -> None:
    """Whether hits note what they take beside the launch."""

def relaid_results() -> dict[str, int]:
    """By overload, how many results of vendor calls were copied so far because their strides were not
    those that a program is compiled for. A rule that says what the call returns is wrong then: right answers, at a
    cost."""

def iterator_position(iterator: object) -> tuple | None:
    """Of an iterator over a container: its type's name, where it stands, and the container's length; of
    ``enumerate`` and ``zip``: name, position, and those of the iterators in it. None for other objects."""

def _take() -> tuple:
    """The state that a prologue puts in place."""
