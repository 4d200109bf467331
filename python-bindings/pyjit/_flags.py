"""What a program has to compute before it knows that a branch goes another way than it expects."""

from __future__ import annotations

import re

_RESULT = re.compile(r"^\s*%(\w+)(?::\d+)? = refgraph\.(\w+)(.*)$", re.MULTILINE)
_OPERAND = re.compile(r"%(\w+)")
_NAME = re.compile(r'"aten::(\w+)')
_LEAVE = re.compile(r"^\s*refgraph\.leave %(\w+)", re.MULTILINE)
# Operators whose work is not that of reading their operands once.
_COSTLY = re.compile(
    r"linear|mm$|matmul|conv|attention|bilinear|einsum|lstm|gru|rnn|cdist|sort|topk|"
    r"inverse|solve|svd|qr$|cholesky|embedding_bag|fft"
)


def is_costly(trace: str, condition: int) -> bool:
    """Whether value ``condition`` of the innermost frame that a recording leaves hangs from
    operators that no call should run twice."""
    made = {name: (kind, rest) for name, kind, rest in _RESULT.findall(trace)}
    leave = _LEAVE.search(trace)
    frames = _elements(made, leave[1]) if leave else []
    frame = _elements(made, frames[-1]) if frames else []
    if condition >= len(frame):
        return True
    work, seen = [frame[condition]], set()
    while work:
        name = work.pop()
        if name in seen or name not in made:
            continue
        seen.add(name)
        kind, rest = made[name]
        operator = _NAME.search(rest) if kind == "tensor_op" else None
        if (operator and _COSTLY.search(operator[1])) or kind in ("if", "while"):
            return True
        # A read says nothing of what its holder costs.
        if kind in ("tensor_op", "create"):
            work.extend(_OPERAND.findall(rest.split(" : ")[0]))
    return False


def _elements(made: dict[str, tuple[str, str]], name: str) -> list[str]:
    """The elements of a tuple that a recording makes."""
    kind, rest = made.get(name, ("", ""))
    return _OPERAND.findall(rest.split(" : ")[0]) if kind == "create" else []
