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
    def parse(text: str, /) -> Trace: ...
    def equals(self, other: Trace, /) -> bool: ...
    def is_costly(self, index: int, /) -> bool: ...
    @property
    def cuda_device(self) -> int | None: ...
    @property
    def lifts_sizes(self) -> bool: ...
    @property
    def computes_sizes(self) -> bool: ...
    @property
    def decides(self) -> bool: ...

class AccessPath:
    """Where a guard reads a number or a size. Immutable, compared by contents."""

    @staticmethod
    def of_argument(number: int, /) -> AccessPath: ...
    def size(self, dim: int, /) -> AccessPath: ...
    def field(self, name: str, /) -> AccessPath: ...
    def seen_from(self, arguments: tuple, values: tuple, /) -> set[AccessPath]: ...
    @property
    def argument(self) -> int | None: ...
    @property
    def is_size(self) -> bool: ...
    @property
    def is_field(self) -> bool: ...
    @property
    def begins_with_item(self) -> bool: ...

# ---- Monitored runs (capture/breaks/CaptureTypes.cpp says what each field is) ---------------------------

class Key(NamedTuple):
    function: FunctionType
    code: CodeType
    offset: int
    stack: tuple[bool, ...]
    slots: tuple[int, ...]

class Frame(NamedTuple):
    key: Key
    exits: tuple[Key, ...]

class ReasonKind(IntEnum):
    """What a reason is to a user (capture/breaks/ReasonKinds.def); pyjit/_reasons.py has remedies."""

    BRANCH_ON_DATA = 0
    ONE_WAY = 1
    DATA_IN_PYTHON = 2
    DATA_DEPENDENT_SHAPE = 3
    PRINT = 4
    WARNING = 5
    NATIVE_FUNCTION = 6
    DISABLED = 7
    PYTHON_FEATURE = 8
    UNUSUAL_OBJECT = 9
    COROUTINE = 10
    EARLIER_OBJECT = 11
    OBJECT_IDENTITY = 12
    UNKNOWN_ORIGIN = 13
    RESULT_OBJECT = 14
    CHANGING_VALUE = 15
    CONTEXT_VARIABLE = 16
    FIRST_TIME = 17
    CALLED_FROM_NATIVE = 18
    EXCEPTION = 19
    OPERATOR = 20
    TENSOR_FROM_DATA = 21
    TENSOR_ATTRIBUTE = 22
    TENSOR_KIND = 23
    TENSOR_ARGUMENT = 24
    SHARED_MEMORY = 25
    NOT_DIFFERENTIABLE = 26
    BACKWARD = 27
    AUTOGRAD_FUNCTION = 28
    CHECKPOINT = 29
    AUTOCAST = 30
    TORCH_STATE = 31
    TORCH_SCRIPT = 32
    TOO_MUCH = 33
    MONITORING = 34
    INTERNAL = 35
    SPECIALIZATION_LIMIT = 36
    TOO_MANY_BREAKS = 37
    COMPILER_FAILED = 38
    GRAPH_RAISED = 39
    EAGER_FASTER = 40
    ANOTHER_THREAD = 41
    RECORDED_NEXT = 42
    NOT_RECORDED_AGAIN = 43

class Reason(NamedTuple):
    kind: int
    text: str
    stack: tuple[tuple[str, int, str], ...]

class GraphBreak(NamedTuple):
    reason: Reason
    frames: tuple[Frame, ...]

class DispatchState(NamedTuple):
    included: int
    excluded: int
    inference: bool | None

class Segment(NamedTuple):
    key: Key | None
    trace: Trace
    objects: list
    nargs: int
    graph_break: GraphBreak | None
    grad_mode: bool | None
    dispatch_state: DispatchState
    fallback: Segment | None
    may_loop: bool
    scalar_sites: tuple[tuple[CodeType, int], ...]
    gradient_sites: tuple[tuple[CodeType, int], ...]

class Capture(NamedTuple):
    result: Any
    segments: tuple[Segment, ...]
    learned: tuple[tuple[CodeType, int, Reason], ...]
    passed: tuple[tuple[CodeType, int], ...]
    reason: Reason | None

class ArgumentKind(IntEnum):
    """What a planner needs to know of an argument of a continuation (capture/Recorder.h)."""

    OPAQUE = 0
    PINNED = 1
    VALUE = 2
    RESULT = 3
    LIFTED = 4
    RANGE = 5
    ITERATOR = 6
    OBJECT = 7

class PlanAction(IntEnum):
    """What becomes of a continuation (capture/Recorder.h)."""

    RECORD = 0
    RECORDED = 1
    STOP = 2

class Plan(NamedTuple):
    action: PlanAction
    unseen: tuple[int, ...]
    lifted: tuple[AccessPath, ...]
    follow_sizes: bool
    expects_loop: bool

def capture(
    context: Context,
    target: Callable,
    args: tuple,
    kwargs: dict[str, Any],
    name: str,
    *,
    lifted: set[AccessPath] = ...,
    follow_sizes: bool = False,
) -> Capture: ...
def capture_with_graph_breaks(
    context: Context,
    target: Callable,
    args: tuple,
    kwargs: dict[str, Any],
    name: str,
    *,
    points: dict[tuple[CodeType, int], Reason],
    passed: dict[tuple[CodeType, int], int],
    planner: Callable[[Key, bytes, tuple], Plan],
    lifted: set[AccessPath],
    follow_sizes: bool,
    unseen: tuple[int, ...],
) -> Capture: ...
def is_capturing() -> bool: ...

# ---- Compiling -----------------------------------------------------------------------------------

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
) -> Specialization: ...
def merge(segments: list[tuple], /) -> Trace: ...
def cross_compile(
    trace: Trace,
    capability: int,
    eager_rounding: bool = False,
    specialize_sizes: bool = False,
    /,
) -> tuple[str, str]: ...

# ---- Answering calls -----------------------------------------------------------------------------

class Specialization:
    """A captured and compiled call."""

    def set_end(
        self,
        resumption: Resumption | None,
        grad_mode: bool | None,
        dispatch_state: DispatchState,
        /,
    ) -> None: ...
    def prefer_launch(self, name: str, /) -> None: ...
    def look_after(self, calls: int, /) -> None: ...
    def give_up(self) -> None: ...
    def answer_again(self) -> None: ...
    def stages(self) -> list[tuple[str, float]]: ...
    def changed_numbers(
        self, args: tuple, kwargs: dict[str, Any], /
    ) -> list[AccessPath]: ...
    def guard_steps(self) -> list[tuple[str, int, int, int, int, int, Any]]: ...
    def failed_guard(
        self, args: tuple, kwargs: dict[str, Any], /
    ) -> tuple[int, Any] | None: ...
    def text(self, topic: str, /) -> str: ...
    @property
    def hits(self) -> int: ...
    @property
    def guards(self) -> int: ...
    @property
    def kernels(self) -> int: ...
    @property
    def vendor_calls(self) -> int: ...
    @property
    def inputs(self) -> int: ...
    @property
    def symbols(self) -> int: ...
    @property
    def prepared(self) -> int: ...
    @property
    def hashed(self) -> int: ...
    @property
    def host_microseconds(self) -> float | None: ...
    @property
    def failures(self) -> int: ...
    @property
    def unanswered(self) -> int: ...
    @property
    def left_to_eager(self) -> bool: ...
    @property
    def on_device(self) -> bool: ...
    @property
    def last_error(self) -> str: ...

class Resumption:
    """Carries out the instruction at a graph break and goes on in compiled code."""

    def __init__(self, frames: tuple, /) -> None: ...
    @property
    def frames(self) -> tuple: ...

class Continuation:
    """Calls code that begins in the middle of a function."""

    @property
    def function(self) -> FunctionType: ...

class CompiledFunction:
    """Answers calls by its specializations; asks ``miss`` where none does."""

    engine: Any
    eager_calls: int
    def __init__(self, target: Callable, miss: Callable, /) -> None: ...
    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...
    def add_specialization(self, specialization: Specialization, /) -> None: ...
    def drop_specialization(self, specialization: Specialization, /) -> None: ...
    def drop_specializations(self) -> None: ...
    def clear(self) -> None: ...
    def stay_quiet(self, calls: int, /) -> None: ...
    def let_past(self, calls: int, /, *values: Any) -> None: ...
    def compare(
        self, specialization: Specialization | None = None, eager: bool = False, /
    ) -> None: ...
    def leave_to_eager(
        self, specialization: Specialization, unasked: int, /
    ) -> bool: ...
    @property
    def target(self) -> Callable: ...
    @property
    def hits(self) -> int: ...
    @property
    def misses(self) -> int: ...
    @property
    def specializations(self) -> list[Specialization]: ...
    @property
    def compared(self) -> Specialization | None: ...

def call_through(type: type, /) -> None: ...
def call_disabled(function: Callable, args: tuple, kwargs: dict, /) -> Any: ...
def measure_host(on: bool, /) -> None: ...
def _take() -> tuple: ...
