//===- Launch.h - The launch program, as bytes ------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the compiler hands to the runtime: which kernels and vendor calls run,
// in which order, over which buffers. The program is one relocatable blob of
// little-endian, naturally aligned records, so that it can be written to a file
// and loaded without the compiler. A loader validates it once
// (`Program::load`); running it then checks nothing.
//
// Layout: Header, Slot[slots], Step[steps], Kernel[kernels], int64[ints],
// char[chars]. Every index below is validated against these counts.
//
//===----------------------------------------------------------------------===//

#ifndef PYJIT_RT_LAUNCH_H
#define PYJIT_RT_LAUNCH_H

#include <cstdint>

namespace pyjit::rt {

/// "PYJL" in little-endian order; a blob of another byte order is refused.
inline constexpr uint32_t kLaunchMagic = 0x4c4a5950;
/// Raised whenever a record's layout or meaning changes.
inline constexpr uint32_t kLaunchVersion = 12;

/// Machine code of one kernel. `buffers` are data pointers, operands first and
/// then results; [begin, end) is a part of the kernel's parallel range.
using KernelFn = void (*)(void *const *buffers, int64_t begin, int64_t end);

struct Header {
  uint32_t magic;
  uint32_t version;
  uint64_t size; ///< of the whole blob, in bytes
  uint32_t slots;
  uint32_t steps;
  uint32_t kernels;
  uint32_t inputs;
  uint32_t outputs;   ///< outputs are the slots listed first in `ints`, each
                      ///< of which may have the flag kOutputInPlace
  int16_t deviceType; ///< c10::DeviceType: 0 cpu, 1 cuda
  int16_t deviceIndex;
  uint64_t ints;
  uint64_t chars;
  uint64_t arenaBytes;
  uint64_t savedBytes; ///< of the block that a call leaves behind: kSlotSaved
  /// Which ways to launch through a driver are worth measuring: bit `Variant`.
  /// 0: the kernels are functions of the host, called one by one.
  uint32_t variants;
  /// The kernels' PTX: index into `ints`, where the number of modules stands,
  /// and a string for each of them; or kNone.
  uint32_t code;
  /// Numbers that differ between calls. With symbols a program is a form that
  /// `Program::specialize` fills in; none of it runs before.
  uint32_t symbols;
  uint32_t patches;
  /// Outputs from this one on are for a backward program alone, which writes
  /// nothing: they may share memory with one another.
  uint32_t firstSaved;
  uint32_t unused;
  /// Index into `ints`. For each symbol two words: an input, and the dimension
  /// of it whose size is the symbol's value, or -1 where that is the one int64
  /// in it.
  uint64_t symbolTable;
  /// Index into `ints`. For each patch three words: PatchKind, what it names,
  /// and the index of its expression (see SizeOp).
  uint64_t patchTable;
};

/// What an expression over symbols gives a value to.
enum class PatchKind : int64_t {
  Int,         ///< a word of `ints`: a size, a stride, an offset
  SlotBytes,   ///< of a slot
  SlotPlace,   ///< of a slot in the arena
  KernelWork,  ///< of a kernel
  KernelGrain, ///< of a kernel; at least 1
  ArenaBytes,
  KernelBlocks, ///< of a kernel: the first number of its grid
  SavedBytes,
  Argument, ///< a word of `ints`: an int that a vendor call is given. It may
            ///< be negative: the operator says which numbers it takes
};

/// An expression: int64 words in postfix order.
enum class SizeOp : int64_t {
  End, ///< closes the expression; one number is left
  Number,
  Symbol, ///< these two take one word
  Add,
  Mul,
  FloorDiv,
  CeilDiv,
  Mod,
};

inline constexpr uint32_t kNone = 0xffffffff;

/// Of an entry of the output list: the slot is an input that the program has
/// written, and nothing is handed over.
inline constexpr int64_t kOutputInPlace = int64_t(1) << 32;

/// What executors say whose callers know nothing of StepKind::Speculate.
inline constexpr char kUnanswered[] =
    "the program does not answer a call with such data: it was made of one "
    "that went another way at a branch";

/// Ways to launch a program on a device.
enum class Variant : uint8_t {
  Plain,  ///< every launch by itself
  Copy,   ///< graphs with their own copies of external buffers
  Table,  ///< graphs whose kernels find external buffers in a table
  Update, ///< graphs whose nodes get new parameters
};
inline constexpr unsigned kNumVariants = 4;

/// Element types carry PyTorch's `c10::ScalarType` numbers, which are part of
/// its serialisation format and therefore stable.
enum class SlotKind : uint8_t {
  Input,  ///< `place` is the input's number; sizes and strides were guarded
  Arena,  ///< `place` is the byte offset in the executable's arena
  Fresh,  ///< allocated at each call with these sizes and strides
  Result, ///< produced by a vendor call
  View,   ///< strided view of another slot, or another name for one, produced
          ///< by a View or a Move step
  Cached, ///< `place` is the output's number of the prepare program
  Words,  ///< `place` is the index in `ints` of what kernels read: the symbols
};

enum SlotFlags : uint8_t {
  kSlotHost = 1,    ///< in host memory although the program is a device's
  kSlotSaved = 16,  ///< Fresh: `place` is the byte offset in one block, which
                    ///< the caller keeps for a backward program
  kSlotStable = 2,  ///< an external buffer whose address hardly ever changes
  kSlotValue = 4,   ///< Words: kernels take the one word itself
  kSlotWritten = 8, ///< an input that the program writes. Behind the first such
                    ///< step that is not undone come only kernels, copies,
                    ///< views and releases
  kSlotOpaque = 32, ///< Result: for vendor calls alone, of sizes that the slot
                    ///< does not say
};

struct Slot {
  SlotKind kind;
  uint8_t dtype;
  uint8_t rank;
  uint8_t flags;  ///< SlotFlags
  uint32_t dims;  ///< index into `ints`: sizes, then strides, in elements
  uint64_t place; ///< see SlotKind
  uint64_t bytes; ///< extent of the value's storage
};

enum class StepKind : uint16_t {
  /// Runs kernel `a` on the buffers of the `c` slots listed at `ints[b]`. With
  /// kStepIndirect, two more words follow there: the kernel's indirect version,
  /// and a mask of the slots whose addresses it takes as addresses of words
  /// that
  /// hold them. With kStepDeviceSizes these may be numbers, too, and blocks of
  /// that version that sizes do not ask for leave at once.
  Kernel,
  /// Calls the operator whose overload name ("aten::add.Tensor") is string
  /// `a`; `ints[b]` holds its arguments (see ArgTag), `ints[c]` the number of
  /// its flattened tensor results and their slots (-1: not used).
  Call,
  /// Slot `a` becomes a view of slot `b` with the sizes and strides of `a`, at
  /// element offset `ints[c]` from `b`'s data pointer. With kStepDynamic,
  /// `ints[c + 1]` counts indices known at run time, and five words for each
  /// follow: a slot with one int64, m, n, limit and stride. The index is m
  /// times that number plus n, must be in [0, limit), and adds so many strides.
  View,
  /// Drops slot `a`: its last use is past.
  Release,
  /// On a device, copies the memory that slot `a` spans to slot `b`; on the
  /// host, the elements of `a` to their places in `b`, which has its sizes.
  /// kStepPatchable (in a graph, outside of loops and branches): `a` is
  /// external and vendor calls of the graph alone read `b`, so that they may
  /// as well read `a` itself; or `b` is an output, and the graph alone knows
  /// `a`, so that it may as well use `b`.
  Copy,
  /// Puts the one element of host slot `a` into slot `b`.
  HostValue,
  /// What follows, up to GraphEnd, is graph `a`. `ints[b]` counts the external
  /// slots that it uses, which follow there.
  GraphBegin,
  GraphEnd,

  // Loops and branches, properly nested; every step names its partners, so that
  // an executor follows them without a stack (pyjit-rt/ControlFlow.h).

  /// A loop up to step `a`, its WhileEnd, with one WhileTest in its body.
  While,
  /// Leaves the loop that step `b` ends unless the one bool in slot `a` is
  /// true.
  WhileTest,
  /// Back to step `a`, the While.
  WhileEnd,
  /// A loop up to step `c`, its ForEnd. The int64 in slot `a` counts; from, to
  /// (exclusive) and by (positive) are `ints[b]` and the next four words: for
  /// from and to, 0 and a number, or 1 and the slot that holds it; by is a
  /// number.
  For,
  /// Back to step `a`, the For.
  ForEnd,
  /// Goes on after step `b`, an Else or an IfEnd, unless the one bool in slot
  /// `a` is true.
  If,
  /// Goes on after step `a`, the IfEnd: what follows is the other branch.
  Else,
  IfEnd,

  /// Ends the run, which answers nothing, unless the one bool in slot `a` is
  /// true. Outside of graphs, loops and branches.
  Speculate,
  /// Slot `a`, a View, becomes another name for what slot `b` is now.
  Move,
  /// Slot `a`, a View, becomes another name for one of several slots. Words at
  /// `ints[b]`: a slot with one int64, m, n, a count and that many slots; m
  /// times that number plus n, which must be in [0, count), says which.
  Pick,
  /// Where the run fails from here on, or answers nothing, the next `a` steps
  /// (copies and vendor calls) put back what the step behind them overwrites;
  /// of several Undo steps, the last one's come first. Else they are skipped.
  Undo,
};

enum StepFlags : uint16_t {
  kStepIndirect = 1,
  kStepDynamic = 2,
  kStepPatchable = 4,
  kStepWritesInput = 8, ///< Kernel, Copy, Call: what it writes is an input
  kStepUndone = 16,     ///< then: the Undo in front of it puts that back
  kStepDeviceSizes = 32,
};

struct Step {
  StepKind kind;
  uint16_t flags;
  uint32_t a, b, c;
};

/// Flag of a kernel: its code waits for the end of the kernel in front. It may
/// be launched before that one has ended.
inline constexpr uint32_t kKernelWaits = 1;

struct Kernel {
  uint32_t name;     ///< index of a NUL-terminated string in `chars`
  uint32_t location; ///< the user's source line, a string, or kNone
  int64_t work;      ///< size of the parallel range
  int64_t grain;     ///< smallest part worth a thread of its own
  uint32_t grid[3];  ///< on a device; x == 0: there is nothing to launch
  uint32_t block[3];
  uint32_t sharedBytes;
  uint32_t align; ///< `ints[align]` counts the buffers, whose alignments in
                  ///< bytes, which the code relies on, follow; or kNone
  uint32_t flags; ///< kKernelWaits
  uint32_t unused;
};

/// A call's arguments: int64 words, a tag and then its payload.
enum class ArgTag : int64_t {
  None,
  Tensor,        ///< slot
  Int,           ///< value
  Bool,          ///< 0 or 1
  Double,        ///< bits
  String,        ///< index into chars
  Device,        ///< index into chars
  List,          ///< count, then that many arguments
  WrappedInt,    ///< value; a 0-dim tensor that promotes like a Python scalar
  WrappedBool,   ///< 0 or 1
  WrappedDouble, ///< bits
  End,           ///< closes the arguments of one call
  WrappedSlot,   ///< slot of a 0-dim double or int64 tensor: a wrapped number
  NumberSlot,    ///< likewise, as a Scalar
};

} // namespace pyjit::rt

#endif // PYJIT_RT_LAUNCH_H
