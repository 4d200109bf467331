//===- ControlFlow.h - Where a launch program goes next ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What executors on the host share: the loops and branches of a launch program,
// indices known at run time, copies of strided elements.
//
//===----------------------------------------------------------------------===//

#ifndef PYJIT_RT_CONTROLFLOW_H
#define PYJIT_RT_CONTROLFLOW_H

#include "pyjit-rt/Program.h"

namespace pyjit::rt {

/// Whether a program has loops.
bool hasLoops(const Program &program);

/// The step to carry out after step `i`, a loop's or branch's or any other.
/// `buffers` are the slots' memory, which the host can read; a loop's counter
/// is written there.
uint32_t followStep(const Program &program, uint32_t i, void *const *buffers);

/// The element offset of a View step from its base. False where an index known
/// at run time is out of range.
bool viewOffset(const Program &program, const Step &step, void *const *buffers,
                int64_t &offset);

/// The slot that a Pick step chooses. False where its number is out of range.
bool pickSlot(const Program &program, const Step &step, void *const *buffers,
              uint32_t &slot);

/// Copies the elements of slot `from`, whose first one is at `source`, to slot
/// `to` of the same sizes. The memory does not overlap.
void copySlot(const Program &program, const Slot &from, const void *source,
              const Slot &to, void *target);

} // namespace pyjit::rt

#endif // PYJIT_RT_CONTROLFLOW_H
