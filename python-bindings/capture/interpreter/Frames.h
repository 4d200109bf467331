//===- Frames.h - The frames of a recording ---------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef PYJIT_CAPTURE_INTERPRETER_FRAMES_H
#define PYJIT_CAPTURE_INTERPRETER_FRAMES_H

#include "CPython.h"
#include "TraceWriter.h"
#include "interpreter/Code.h"

#include <map>
#include <set>

namespace pyjit::capture {

/// What an instruction's or a native function's result will be.
enum class ResultKind {
  Known,       ///< an object that is known already, or becomes known by a frame
  Fresh,       ///< a new object
  FreshTuples, ///< a new object that may hold new tuples (of `items()`, `zip`)
  FreshDeep,   ///< new tuples, lists and dicts of tensors and values
  Constant,    ///< made by code that is not followed: a tensor made of Python
               ///< data, without operators, or a truth that is computed already
};

/// What becomes of the numbers that an instruction reads from objects.
enum class ReadNumbers {
  Loaded,   ///< the bytecode tells, where it loads one
  HandedOn, ///< a call's result is the one that was read (`d.get(k)`)
  LookedAt, ///< it hashes or compares them (`d[(n, m)]`): no result of its own
  Computed, ///< they go into what it computes (`sum(numbers)`)
  Unseen,   ///< nobody sees them (`hasattr(o, name)`)
};

/// What handlers have said of one instruction, besides its result.
struct InstructionContext {
  /// The Python function that it enters, if the function's result is its own.
  PyObject *callee = nullptr;
  bool callsNative = false; ///< it calls a native function
  PyTypeObject *instantiating = nullptr;
  bool truthOfYields = false; ///< of what a generator yields
  bool sumsYields = false;    ///< likewise
  bool looksAtYields = false; ///< likewise: hashes or compares them
  bool movesYields = false;   ///< likewise: hands them on, and does no more
  ReadNumbers numbers = ReadNumbers::Loaded;
  /// It asks an object for methods that it has of `object` alone.
  bool asksObject = false;
  /// It hashes tensors: `Tensor.__hash__` may ask for `id()`.
  bool hashing = false;
  PyObject *dataOf = nullptr;   ///< it reads `.data` of this tensor
  PyObject *tensorOf = nullptr; ///< it makes a tensor of this tracked number
  bool runsEngine = false;      ///< it runs autograd's engine
  int freshAt = 0; ///< a further new object, counted from the top; 0: none

  int results = 1; ///< how many of the kind that the handler says

  // Of operators that run meanwhile.

  bool deciding = false;      ///< those of the branch itself are not recorded
  bool storingNumber = false; ///< a Python number is stored into a tensor
  /// Python numbers between a tensor's brackets become a tensor.
  bool numbersAsTensors = false;
  bool makesEmpty = false; ///< Python itself calls torch.empty or the like
  bool operatorBegan = false;
  /// Tensors of one element that a native function is given, which may take the
  /// number of one (NumberTensors.cpp).
  struct NumberTensor {
    PyObject *tensor;
    std::string keyword;
    size_t position;
  };
  std::vector<NumberTensor> numberTensors;
  std::string function;     ///< its name
  bool tookTensors = false; ///< an operator other than `item` has begun
  /// Sizes that differ between calls may decide whether it raises.
  bool sizesDecide = false;
};

/// For a part of what an instruction does: what becomes of the numbers that it
/// reads there. Whoever says so of the whole instruction is right.
///
/// What an instruction loads is known by identity, and CPython has one object
/// for each small int: a number that it reads besides may be the very object.
class ReadsNumbers {
public:
  ReadsNumbers(InstructionContext &now, ReadNumbers use)
      : now(now), before(now.numbers) {
    if (before == ReadNumbers::Loaded || before == ReadNumbers::HandedOn)
      now.numbers = use;
  }
  ReadsNumbers(const ReadsNumbers &) = delete;
  ReadsNumbers &operator=(const ReadsNumbers &) = delete;
  ~ReadsNumbers() { now.numbers = before; }

private:
  InstructionContext &now;
  ReadNumbers before;
};

/// The iterations of a loop, since they have met no further weights.
struct LoopRounds {
  bool begun = false;
  RecordedAmount before; ///< of the recording, in front of them
  size_t rounds = 0;
};

struct ShadowFrame {
  PyjitFrame *frame = nullptr;
  PyCodeObject *code = nullptr;
  int offset = 0;
  PyjitLocation loc = nullptr;
  int locOffset = -1;
  // What to do at the next event of this frame if the instruction succeeded.
  bool pending = false;
  int pendingNext = 0;
  ResultKind resultKind = ResultKind::Known;
  InstructionContext context; ///< of the instruction in progress
  int op = 0;                 ///< likewise
  int running = -1;           ///< offset of the instruction in progress
  /// `offset` is that of a jump whose truth an instruction before it asks for:
  /// what stands on the stack there.
  PyObject *condition = nullptr;
  int pendingOffset = 0; ///< of the instruction that `pending` is about
  bool direct = false;   ///< the frame's result is its caller's instruction's
  std::set<int> truths;  ///< where Python was given a truth of data as a value
  std::map<int, LoopRounds> loops; ///< by the jumps that end iterations
};

/// How far a frame is with its instruction: not begun; in the call of the frame
/// above, whose result is the instruction's; somewhere in the middle.
enum class FramePhase { Before, Calling, During };

/// A frame in front of, or in the middle of, an instruction.
struct FrameState {
  size_t frame = 0; ///< index in FrameTracker::frames
  PyObject *function = nullptr;
  PyCodeObject *code = nullptr; ///< the original, as all offsets here
  int offset = 0;
  int shift = 0; ///< of the offsets of the code that runs
  std::vector<bool> stack;
  std::vector<int> slots;
  std::vector<PyObject *> values; ///< non-null ones of the stack, then slots
  std::vector<Exit> exits;
  std::vector<std::vector<int>> exitSlots;
};

} // namespace pyjit::capture

#endif // PYJIT_CAPTURE_INTERPRETER_FRAMES_H
