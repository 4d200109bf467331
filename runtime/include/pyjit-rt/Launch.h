//===- Launch.h - The launch program, as bytes ------------------*- C++ -*-===//
//
// What the compiler hands to the runtime: which kernels and library calls run,
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
inline constexpr uint32_t kLaunchVersion = 2;

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
  uint32_t outputs;   ///< outputs are the slots listed first in `ints`
  int16_t deviceType; ///< c10::DeviceType: 0 cpu, 1 cuda
  int16_t deviceIndex;
  uint64_t ints;
  uint64_t chars;
  uint64_t arenaBytes;
  /// Which ways to launch through a driver are worth measuring: bit `Variant`.
  /// 0: the kernels are functions of the host, called one by one.
  uint32_t variants;
  uint32_t code; ///< the kernels' PTX, a string, or kNone
};

inline constexpr uint32_t kNone = 0xffffffff;

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
  Result, ///< produced by a library call
  View,   ///< strided view of another slot, produced by a View step
  Cached, ///< `place` is the output's number of the prepare program
};

enum SlotFlags : uint8_t {
  kSlotHost = 1,   ///< in host memory although the program is a device's
  kSlotStable = 2, ///< an external buffer whose address hardly ever changes
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
  /// kStepTwin, two more words follow there: the kernel that takes the buffers
  /// whose bits are set in the second word as addresses of addresses.
  Kernel,
  /// Calls the operator whose overload name ("aten::add.Tensor") is string
  /// `a`; `ints[b]` holds its arguments (see ArgTag), `ints[c]` the number of
  /// its flattened tensor results and their slots (-1: not used).
  Call,
  /// Slot `a` becomes a view of slot `b` with the sizes and strides of `a`, at
  /// element offset `ints[c]` from `b`'s data pointer.
  View,
  /// Drops slot `a`: its last use is past.
  Release,
  /// Copies the memory that slot `a` spans to slot `b`.
  Copy,
  /// Puts the one element of host slot `a` into slot `b`.
  HostValue,
  /// What follows, up to GraphEnd, is graph `a`. `ints[b]` counts the external
  /// slots that it uses, which follow there.
  GraphBegin,
  GraphEnd,
};

enum StepFlags : uint16_t { kStepTwin = 1 };

struct Step {
  StepKind kind;
  uint16_t flags;
  uint32_t a, b, c;
};

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
