//===- Programs.h - Flat guard and mock programs ----------------*- C -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What passes between the compiler and the extension once a specialization is
// compiled (docs/ABI.md, contract 2). Plain C, no includes but
// stdint.h: the extension carries these programs out without allocating in the
// guard.
//
// Words used below:
//   register  a slot that holds a borrowed PyObject*. Both programs of a
//   specialization
//             share one register file: registers [0, guard.numRegisters) belong
//             to the guard program, then come the graph's results, then the
//             temporaries of the mock program (new references that the
//             executor owns until the program ends).
//   object    an entry of the specialization's object table, a live pinned
//   PyObject*,
//             named by index.
//   constant  an entry of the constant pool, made into a PyObject* once, when
//             the program is loaded (strings interned).
//   fail      the specialization does not match this call; the next
//   specialization is tried.
//
// A guard instruction never runs Python code, never raises and never creates
// an object (PYJIT_GUARD_DICT may materialise an instance's __dict__). Whatever
// it finds unexpected (wrong kind of holder, missing entry, index out of range)
// is a failure.
//
//===----------------------------------------------------------------------===//

#ifndef PYJIT_C_PROGRAMS_H
#define PYJIT_C_PROGRAMS_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PYJIT_PROGRAMS_VERSION 4

/// 24 bytes. `dst`, `a`, `b` are registers unless the opcode says otherwise.
typedef struct PyjitInst {
  uint16_t op;
  uint16_t flags;
  uint32_t dst;
  uint32_t a;
  uint32_t b;
  int64_t imm;
} PyjitInst;

//===----------------------------------------------------------------------===//
// Pools
//===----------------------------------------------------------------------===//

typedef enum PyjitConstantKind {
  PYJIT_CONST_NONE = 0,
  PYJIT_CONST_BOOL = 1,    // i
  PYJIT_CONST_INT = 2,     // i
  PYJIT_CONST_FLOAT = 3,   // f
  PYJIT_CONST_COMPLEX = 4, // f, g
  PYJIT_CONST_STR = 5,     // first, count: UTF-8 bytes in pools.bytes
                           // ("surrogatepass")
  PYJIT_CONST_BYTES = 6,   // first, count: bytes in pools.bytes
  PYJIT_CONST_TUPLE = 7,   // first, count: constant indices in pools.lists,
                           // each below this constant's own index
  PYJIT_CONST_OBJECT = 8,  // i: object table index
  PYJIT_CONST_ELLIPSIS = 9,
  PYJIT_CONST_BIGINT = 10 // first, count: decimal digits in pools.bytes
} PyjitConstantKind;

typedef struct PyjitConstant {
  uint32_t kind;
  uint32_t count;
  uint64_t first;
  int64_t i;
  double f;
  double g;
} PyjitConstant;

enum {
  PYJIT_TENSOR_HAS_REQUIRES_GRAD = 1,
  PYJIT_TENSOR_HAS_KEYSET = 2,
  PYJIT_TENSOR_HAS_OFFSET = 4
};

/// A size or stride that other instructions look at.
#define PYJIT_ANY_DIM INT64_MIN

/// What a tensor guard compares, or what a view looks like. A field without its
/// flag is not compared.
typedef struct PyjitTensorMeta {
  uint32_t rank;
  uint32_t dims;      // pools.ints[dims .. dims+rank) sizes, then rank strides;
                      // PYJIT_ANY_DIM: not compared
  int8_t dtype;       // c10::ScalarType
  int8_t deviceType;  // c10::DeviceType: 0 cpu, 1 cuda, 14 meta
  int8_t deviceIndex; // -1: not stated (cpu)
  uint8_t requiresGrad;
  uint32_t flags;  // PYJIT_TENSOR_HAS_*
  uint64_t keyset; // raw c10::DispatchKeySet
  int64_t offset;  // storage offset in elements; in PYJIT_MOCK_VIEW the
                   // distance from the base's storage offset, in
                   // elements of the view
} PyjitTensorMeta;

/// Bits of PyjitState::known and ::value.
enum {
  PYJIT_STATE_GRAD_MODE = 1 << 0,
  PYJIT_STATE_INFERENCE_MODE = 1 << 1,
  PYJIT_STATE_AUTOCAST_CPU = 1 << 2,
  PYJIT_STATE_AUTOCAST_CUDA = 1 << 3,
  PYJIT_STATE_AUTOCAST_CACHE = 1 << 4,
  PYJIT_STATE_DETERMINISTIC = 1 << 5,
  PYJIT_STATE_DETERMINISTIC_WARN_ONLY = 1 << 6,
  PYJIT_STATE_CUDNN_ENABLED = 1 << 7,
  PYJIT_STATE_MKLDNN_ENABLED = 1 << 8,
  PYJIT_STATE_TORCH_FUNCTION_MODE = 1 << 9, // a mode is active
  PYJIT_STATE_DISPATCH_MODE = 1 << 10,      // a mode is active
  PYJIT_STATE_HANDLES_EXCEPTION = 1 << 11,  // Python is handling one
  PYJIT_STATE_AUTOCAST_NESTED = 1 << 12,    // inside an autocast region
  PYJIT_STATE_SAVED_TENSOR_HOOKS = 1 << 13, // hooks on saved tensors are
                                            // active, or forbidden
  // Which kernels of attention the user allows.
  PYJIT_STATE_SDP_FLASH = 1 << 14,
  PYJIT_STATE_SDP_MEM_EFFICIENT = 1 << 15,
  PYJIT_STATE_SDP_MATH = 1 << 16,
  PYJIT_STATE_SDP_CUDNN = 1 << 17,
  PYJIT_STATE_SDP_OVERRIDEABLE = 1 << 18
};

/// Thread and process state. A bit is compared when it is in `known`; a dtype
/// (c10::ScalarType), the index of the current device or the device of
/// torch.set_default_device (c10::DeviceType; then its index, too) when it is
/// not negative.
typedef struct PyjitState {
  uint32_t known;
  uint32_t value;
  int8_t defaultDtype;
  int8_t autocastCpuDtype;
  int8_t autocastCudaDtype;
  int8_t cudaDevice;
  int8_t defaultDevice;      // no other mode is active
  int8_t defaultDeviceIndex; // -1: it names none
} PyjitState;

typedef struct PyjitPools {
  const PyjitConstant *constants;
  uint32_t numConstants;
  const PyjitTensorMeta *tensors;
  uint32_t numTensors;
  const PyjitState *states;
  uint32_t numStates;
  const int64_t *ints;
  uint32_t numInts;
  const uint32_t *lists;
  uint32_t numLists;
  const char *bytes;
  uint64_t numBytes;
} PyjitPools;

//===----------------------------------------------------------------------===//
// Guard program
//===----------------------------------------------------------------------===//

typedef enum PyjitGuardOp {
  // Reads: put a borrowed reference into `dst`, fail when there is nothing.
  PYJIT_GUARD_OBJECT = 1,    // dst = object imm
  PYJIT_GUARD_ARG = 2,       // dst = parameter imm of the entry function
  PYJIT_GUARD_ATTR = 3,      // dst = a.__dict__[constant b], not materialising
  PYJIT_GUARD_DICT = 4,      // dst = a.__dict__, materialised
  PYJIT_GUARD_ITEM = 5,      // dst = a[constant b]; list or tuple (subclasses
                             //   too): index imm; dict: the constant as key
  PYJIT_GUARD_KEY = 6,       // dst = a[constant b], a is a dict (or subclass)
  PYJIT_GUARD_TYPE = 7,      // dst = type(a)
  PYJIT_GUARD_TYPEATTR = 8,  // dst = lookup of constant b along a's MRO
  PYJIT_GUARD_CODE = 9,      // dst = function a's __code__
  PYJIT_GUARD_DEFAULTS = 10, // dst = function a's __defaults__, None if NULL
  PYJIT_GUARD_KWDEFAULTS =
      11,                   // dst = function a's __kwdefaults__, None if NULL
  PYJIT_GUARD_GLOBALS = 12, // dst = function a's __globals__
  PYJIT_GUARD_CELL = 13,    // dst = contents of function a's closure cell imm
  PYJIT_GUARD_SLOT = 14,    // dst = a's __slots__ member named constant b
  PYJIT_GUARD_FIELD = 15,   // dst = a's read-only C field named constant b:
                            //   method __func__ __self__; partial func args
                            //   keywords; slice and range start stop step;
                            //   range_iterator next step left, alone (nobody
                            //   else holds it; these are new objects); other
                            //   iterators position count strict alone
                            //   (likewise), container inner0 inner1 ...;
                            //   property fget; mappingproxy mapping; ...
  PYJIT_GUARD_GRAD = 16,    // dst = tensor a's gradient, or None
  PYJIT_GUARD_DATA = 17,    // dst = the number that tensor a holds: one element
                            //   without dimensions, of the CPU

  // Absence: fail when the lookup finds something.
  PYJIT_GUARD_NO_ATTR = 32,     // a.__dict__ has no constant b (or no __dict__)
  PYJIT_GUARD_NO_KEY = 33,      // dict or set a has no constant b
  PYJIT_GUARD_NO_TYPEATTR = 34, // nothing along a's MRO
  PYJIT_GUARD_NO_CELL = 35,     // closure cell imm of function a is empty
  PYJIT_GUARD_NO_SLOT = 36,

  // Checks.
  PYJIT_GUARD_TYPE_IS = 64,  // type(a) is object imm
  PYJIT_GUARD_IS = 65,       // a is object imm
  PYJIT_GUARD_IS_CONST = 66, // a is constant b (None, True, False, Ellipsis)
  PYJIT_GUARD_EQ_INT = 67,   // type(a) is int and a == imm
  PYJIT_GUARD_EQ_FLOAT = 68, // type(a) is float, bit pattern imm
  PYJIT_GUARD_EQ_STR = 69,   // type(a) is str and equals constant b
  PYJIT_GUARD_EQ = 70,       // same exact types, equal in depth to constant b
                             //   (bytes, complex by bits, tuples, big ints;
                             //   an object constant inside: identity)
  PYJIT_GUARD_LENGTH = 71,   // list, tuple, dict, set, frozenset, str, bytes a
                             //   has length imm (C size, no __len__ call)
  PYJIT_GUARD_KEYS = 72, // dict or set a's keys are the tuple constant b, in
                         //   order
  PYJIT_GUARD_SAME = 73, // a is b
  PYJIT_GUARD_DISTINCT = 74, // a is not b
  PYJIT_GUARD_TENSOR = 75,   // tensor a has metadata pools.tensors[imm]
                             //   (strided layout; type by TYPE_IS)
  PYJIT_GUARD_DISJOINT = 76, // of the tensors lists[a .. a+b), the first imm
                             //   share no byte of memory with any other one
  PYJIT_GUARD_STATE = 77,    // pools.states[imm] holds
  PYJIT_GUARD_INSTANCE = 78, // a's __dict__ is the dict in register b, and
                             //   type(a) is object imm unless imm is -1
  PYJIT_GUARD_HOLDS = 79,    // constant b is in set or dict a
  PYJIT_GUARD_UNHOOKED = 80, // nobody is told of gradients of leaf a: it has no
                             //   hooks, nor has its gradient accumulator; nor
                             //   does anybody look at what backwards save
  PYJIT_GUARD_TABLE = 81,    // the hash table of set a is the tuple constant b:
  //   for each place 0 (nothing), 1 (an element) or 2
  //   (a removed one)
  PYJIT_GUARD_UNALIASED = 82, // of the objects lists[a .. a+b), the first imm
                              //   are other ones than all others

  // Numbers (pyjit-rt/ScalarMath.h). `n` registers are a file of their own,
  // [0, numNumbers); what does not fit 64 bits fails.
  PYJIT_GUARD_NUMBER = 96,       // n dst = register a: exactly an int, or,
                                 //   flag FLOAT, a float
  PYJIT_GUARD_NUMBER_CONST = 97, // n dst = bits imm, FLOAT: of a double
  PYJIT_GUARD_ARITH = 98,        // n dst = rt::Arith(imm) of n a and n b
  PYJIT_GUARD_COMPARE = 99,      // rt::Compare(imm) of n a and n b is true, or,
                                 //   without flag TRUE, false
  PYJIT_GUARD_SIZE = 100,        // n dst = size imm of tensor a
  PYJIT_GUARD_STRIDE = 101,      // n dst = stride imm of tensor a

  // Made once all else holds, for eager code finds it then: k dst = the cast of
  // weight a that autocast keeps, with metadata pools.tensors[imm]. `k`
  // registers are a file of their own, [0, numKeptCasts).
  PYJIT_GUARD_KEPT_CAST = 112
} PyjitGuardOp;

#define PYJIT_GUARD_FLAG_FLOAT 1
#define PYJIT_GUARD_FLAG_TRUE 1
/// Of an entry of `inputs`: an n register, to be given as a 0-dim double or
/// int64 tensor.
#define PYJIT_INPUT_NUMBER 0x80000000u
/// Likewise, a k register.
#define PYJIT_INPUT_KEPT_CAST 0x40000000u

/// Flag of PYJIT_GUARD_TYPE_IS in the watched part: the check is not
/// repeated because objects of a builtin type keep it. An executor refuses to
/// watch (see below) when the type object is a heap type.
#define PYJIT_GUARD_FLAG_STATIC_TYPE 1

typedef enum PyjitWatchKind {
  PYJIT_WATCH_DICT = 0,    // an exact dict: any change of its entries
  PYJIT_WATCH_TYPE = 1,    // a type: any change along its MRO
  PYJIT_WATCH_FUNCTION = 2 // a function: __code__, __defaults__, __kwdefaults__
} PyjitWatchKind;

#define PYJIT_WATCH_ALL_KEYS UINT32_MAX

typedef struct PyjitWatch {
  uint32_t kind;
  uint32_t reg; // holder, in this register once the watched part has passed
  // A dict's entries that matter: string constants pools.lists[firstKey ..
  // firstKey+numKeys), or PYJIT_WATCH_ALL_KEYS. Other entries may come and go:
  // a script that assigns its globals in a loop changes the same dict.
  uint32_t firstKey;
  uint32_t numKeys;
} PyjitWatch;

/// Two segments. `watched` need only run when nothing vouches for its last
/// success: the first time, and after a watcher reported a change of a holder
/// in `watches`. Registers that it set stay valid meanwhile (their holders keep
/// them alive). `always` runs at each call, after it.
///
/// An executor that cannot watch one of the holders (not an exact dict,
/// watchers used up, interpreter without the event) runs `watched` at each
/// call: slower, equally right.
typedef struct PyjitGuardProgram {
  uint32_t version; // PYJIT_PROGRAMS_VERSION
  uint32_t numRegisters;
  const PyjitInst *watched;
  uint32_t numWatched;
  const PyjitInst *always;
  uint32_t numAlways;
  const PyjitWatch *watches;
  uint32_t numWatches;
  const uint32_t *inputs; // registers with the graph's input tensors, in order
  uint32_t numInputs;
  uint32_t numNumbers;   // n registers
  uint32_t numKeptCasts; // k registers
  PyjitPools pools;
} PyjitGuardProgram;

//===----------------------------------------------------------------------===//
// Mock program
//===----------------------------------------------------------------------===//

typedef enum PyjitMockOp {
  // Values: a new object (or a borrowed one) into `dst`.
  PYJIT_MOCK_CONST = 1,     // dst = constant b
  PYJIT_MOCK_OBJECT = 2,    // dst = object imm
  PYJIT_MOCK_TUPLE = 3,     // dst = tuple of registers lists[a .. a+b)
  PYJIT_MOCK_LIST = 4,      // dst = list, likewise
  PYJIT_MOCK_SET = 5,       // dst = set, likewise
  PYJIT_MOCK_FROZENSET = 6, // dst = frozenset, likewise
  PYJIT_MOCK_DICT = 7,      // dst = {}, filled by SET_ITEM
  PYJIT_MOCK_SLICE = 8,     // dst = slice(*lists[a .. a+3))
  PYJIT_MOCK_RANGE = 9,     // dst = range(*lists[a .. a+3))
  PYJIT_MOCK_METHOD = 10,   // dst = bound method of function lists[a], self
                            //   lists[a+1]
  PYJIT_MOCK_SIZE = 11,     // dst = torch.Size of ints lists[a .. a+b)
  PYJIT_MOCK_NEW = 12,      // dst = instance of type object imm, no __init__;
                            //   tuple or list subclass: elements
                            //   lists[a .. a+b); filled by SET_*
  PYJIT_MOCK_VIEW = 13,     // dst = tensor sharing tensor a's storage, looking
                            //   as pools.tensors[imm] says; b: see below
  PYJIT_MOCK_BOX = 14,      // dst = the int or float in n register a

  PYJIT_MOCK_FUNCTION = 18, // dst = function of code lists[a], globals, and,
                            //   each of them or None, defaults, keyword
                            //   defaults, annotations, tuple of cells
  PYJIT_MOCK_RANGE_ITERATOR = 19, // dst = iterator of a range: the number that
                                  //   comes next, step, how many are left:
                                  //   lists[a .. a+3)
  PYJIT_MOCK_ITERATOR = 20, // dst = iterator of type object imm: container
                            //   lists[a], position lists[a+1] (a dict: how
                            //   many are left); enumerate: iterator, number;
                            //   zip: strict, then b-1 iterators
  PYJIT_MOCK_TOKEN = 17,    // context variable lists[a] is set to lists[a+1];
                            //   dst = what takes it back
  PYJIT_MOCK_ITEM = 15,     // dst = the float, int or bool that the 0-dim
                            //   tensor lists[a] holds
  PYJIT_MOCK_CELL = 16,     // dst = closure cell of the b (0 or 1) registers at
                            //   lists[a]
  PYJIT_MOCK_GENERATOR = 21, // dst = generator that the Python function
                             //   lists[a] makes of what its frame holds,
                             //   lists[a+1 .. a+b)

  // Effects.
  PYJIT_MOCK_DEQUE =
      22, // dst = collections.deque of registers lists[a .. a+b),
          //   maxlen: register imm
  // dst = set of registers lists[a .. a+b), whose hash table is the bytes in
  // register imm: for each place 0 (nothing), 1 (the next element) or 2 (one
  // was removed)
  PYJIT_MOCK_SET_OF_TABLE = 23,
  PYJIT_MOCK_FROZENSET_OF_TABLE = 24,
  PYJIT_MOCK_COPY_BACK = 32, // tensor a.copy_(tensor b), a is a guard
                             //   register with an input, b a result; none:
                             //   the launch has written a, which is counted
  PYJIT_MOCK_SET_ATTR = 33,  // a.__dict__[constant imm] = b (generic setattr,
                             //   no __setattr__ call)
  PYJIT_MOCK_SET_ITEM = 34,  // a[constant imm] = b: list index, or key of a
                             //   dict (subclass: dict's own store)
  PYJIT_MOCK_SET_TYPEATTR = 35, // type a: setattr(a, constant imm, b)
  PYJIT_MOCK_SET_CELL = 36,     // function a's closure cell imm = b; or a is
                                //   the cell
  PYJIT_MOCK_SET_SLOT = 37,     // a's __slots__ member constant imm = b
  PYJIT_MOCK_SET_STORAGE = 38,  // tensor a.data = tensor b
  PYJIT_MOCK_DEL_ATTR = 48,     // del of the same places; a missing entry is
  PYJIT_MOCK_DEL_ITEM = 49,     //   no error
  PYJIT_MOCK_DEL_TYPEATTR = 50,
  PYJIT_MOCK_DEL_CELL = 51,
  PYJIT_MOCK_DEL_SLOT = 52, // or a is a context variable's token: it is taken
                            //   back
  PYJIT_MOCK_APPEND = 56,   // list or deque a: append b; set a: add b;
                            //   functools.lru_cache a: a hit of its entry b
  PYJIT_MOCK_REPLACE = 57,  // list, deque or set a: contents become registers
                            //   lists[b .. b+imm)
  PYJIT_MOCK_CLEAR = 58,    // dict a: remove all (filled by SET_ITEM)
  PYJIT_MOCK_ADVANCE = 59,  // tensor a's version counter: + imm
  PYJIT_MOCK_REQUIRE_GRAD = 60,   // tensor a.requires_grad_()
  PYJIT_MOCK_FREED_GRAPH = 61,    // tensor a has a grad_fn whose graph is freed
  PYJIT_MOCK_SET_GRAD = 62,       // tensor a.grad = tensor b, or None
  PYJIT_MOCK_SET_DATA = 63,       // the element of tensor a = number b
  PYJIT_MOCK_DIFFERENTIABLE = 65, // view a of a result or input has a gradient
                                  //   of its own: the next such one

  PYJIT_MOCK_RETURN = 64 // the call's result is register a; last
} PyjitMockOp;

/// Flags of VIEW: what refgraph.shown said of the tensor.
#define PYJIT_MOCK_FLAG_DETACHED 1
#define PYJIT_MOCK_FLAG_OF_DETACHED 2
#define PYJIT_MOCK_FLAG_NO_GRAD 4
#define PYJIT_MOCK_FLAG_GRAD 8
#define PYJIT_MOCK_FLAG_DATA 16
#define PYJIT_MOCK_FLAG_SEVERAL 32
#define PYJIT_MOCK_FLAG_RESHAPED 64

/// VIEW with b != 0: sizes and strides that are PYJIT_ANY_DIM, in order, and
/// then what is added to the offset are computed by pools.ints from b - 1 on:
/// the number of symbols and their registers (ints), and for each of these sums
/// the number of its terms, and for each term a factor, the number of its
/// symbols and which they are.
///
/// Runs after the graph was launched. Copy-backs come first, then Python
/// effects in the recorded order. SET_ATTR, SET_ITEM and SET_CELL on registers
/// of the guard program write to objects of the caller's.
typedef struct PyjitMockProgram {
  uint32_t version;      // PYJIT_PROGRAMS_VERSION
  uint32_t numRegisters; // size of the shared register file
  uint32_t firstResult;  // register of the graph's result 0; result i follows
  uint32_t numResults;
  const PyjitInst *insts;
  uint32_t numInsts;
  PyjitPools pools;
} PyjitMockProgram;

#ifdef __cplusplus
}
#endif

#endif // PYJIT_C_PROGRAMS_H
