# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What code that pyjit writes has to say otherwise in CPython 3.12 than in another version."""

from __future__ import annotations

import opcode

# Cache entries behind an instruction, by its name.
CACHES = {
    name: count
    for name, count in zip(opcode.opname, opcode._inline_cache_entries)
    if count
}
# Between a callable and its arguments, where there is no ``self``: the callable is on top before.
WITHOUT_SELF = (("PUSH_NULL", 0), ("SWAP", 2))
# In front of a jump by a truth: what asks for it.
ASK_TRUTH = ()
# Where FOR_ITER goes when the iterator has run out; it skips these.
LOOP_ENDS = ("END_FOR",)
# Whether the names of a call's arguments stand in an instruction before it, and which.
NAMES_OF_CALL = "KW_NAMES"
