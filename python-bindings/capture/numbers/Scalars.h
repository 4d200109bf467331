//===- Scalars.h - Numbers whose value may differ between calls -*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A number that is read from a place whose value differed between calls is
// replaced, on the interpreter's stack, by an object of its own: from then on
// its identity says where it came from, wherever Python moves it. Arithmetic on
// it is written as refgraph.arith, comparisons as refgraph.compare, and its use
// by an operator as an operand. Every other use *specializes* it:
// refgraph.compare "is" with its value, as if it had been guarded from the
// start. What cannot be looked into specializes all of them.
//
//===----------------------------------------------------------------------===//
#ifndef PYJIT_CAPTURE_SCALARS_H
#define PYJIT_CAPTURE_SCALARS_H

#include "CPython.h"
#include "interpreter/Code.h"
#include "numbers/DataScalars.h"
#include "numbers/OperatorUse.h"
#include "objects/AccessPath.h"

#include "pyjit-rt/ScalarMath.h"

#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace c10 {
struct IValue;
}

namespace pyjit::capture {

class Recording;
struct Call;
struct Node;
enum class Select;

using AccessPaths = std::set<AccessPath>;

class Scalars {
public:
  Scalars(Recording &recording, AccessPaths paths);
  ~Scalars();

  bool enabled() const;
  void lift(const AccessPath &path);
  /// The path to a place in `owner`; empty where it has none, and where no
  /// numbers are followed.
  AccessPath pathTo(Node *owner, Select select, PyObject *key,
                    Py_ssize_t index);
  /// A read of a lifted place: writes it, and says so.
  bool read(Node *owner, const Selector &selector, const AccessPath &path,
            PyObject *result);
  /// `orWithin`: or a place in what is found there.
  bool isLifted(const AccessPath &path, bool orWithin = false) const {
    auto next = paths.lower_bound(path); // what begins with it comes next
    return path && next != paths.end() &&
           (orWithin ? path.leadsTo(*next) : path == *next);
  }
  /// `number`, which a container of an argument holds, is nobody else's.
  void own(PyObject *number) { owned.insert(number); }
  /// Reads whose number has not taken its place yet.
  size_t pendingReads() const { return pending.size(); }
  /// A list that the call changes was read as a whole, from the `before`th
  /// read on: its lifted numbers take their places in it.
  void ownNumbers(Node *list, size_t before);
  /// A tuple or list is unpacked, and was read from the `before`th read on: its
  /// lifted numbers are results of the instruction, the first on top.
  void unpackNumbers(PyObject *sequence, size_t before);
  /// What the call is to be given for an argument that was just read.
  PyObject *takeArgument(PyObject *argument);

  /// Before an instruction is carried out, and when its frame goes on.
  void before(PyjitFrame *frame, PyCodeObject *code, const Instruction &in);
  void after(PyjitFrame *frame, PyObject **top, bool completed);
  /// A native function is about to run.
  void native(const Call &call, const char *name);
  void nativeType(PyTypeObject *type, const Call &call);
  void wrapper(const char *slot, const Call &call);
  /// At the end: what nobody resolved keeps its value.
  void finish();

  bool isTracked(PyObject *object) const { return tracked.count(object); }
  /// Numbers that the segment that follows may follow, too.
  std::vector<PyObject *> followed() const;
  /// SSA value of a tracked number, as an object of Python's; or -1.
  int valueOf(PyObject *object);
  /// What the specialization computes a number by (DataScalars.cpp), or -1.
  int proxyOf(PyObject *object) const;
  /// Whether a tracked number keeps the value that it had.
  bool isSpecialized(PyObject *object) const;
  /// Whether it is tracked, and the guards say what it is in each call.
  bool isFollowed(PyObject *object) const {
    return isTracked(object) && !isSpecialized(object) && proxyOf(object) < 0;
  }
  /// From here on the specialization computes the number.
  bool carry(PyObject *number, const std::string &device);
  /// The running instruction gives Python a data-dependent scalar; false
  /// if the specialization cannot compute it.
  bool readData(PyObject *tensor, NumberKind kind);
  /// Likewise, not to Python: the operator that follows takes the tensor's own
  /// number (NumberTensors.cpp).
  bool takeNumber(PyObject *tensor);
  /// The running instruction is `item in tensor`, and the next one branches on
  /// it; false if the specialization cannot compute it.
  bool findData(PyObject *tensor, PyObject *item, bool negated);
  /// SSA values given out since `first` are taken back.
  void forgetValues(int first);
  void specialize(PyObject *number);
  /// Eager raises where a number is beyond what it is converted to.
  void keepWithin(PyObject *number, double lowest, double highest);
  void specializeDeep(PyObject *object, int depth = 0);

  /// What the running instruction hands to an operator, or null.
  OperatorUse *use() { return hasUse ? &currentUse : nullptr; }
  /// What an operator's number argument may be: for LiftedArguments.cpp.
  const rt::Number *numberOf(PyObject *object) const;

  //===--- Ranges (Ranges.cpp)
  /// What a range, or an iterator of one, counts by: ints, tracked or not.
  struct Range {
    PyObject *next;
    long step;
    PyObject *left;
  };
  /// Argument `index` is an iterator of a range that nobody else holds.
  void followRange(PyObject *iterator, Py_ssize_t index, PyObject *name);
  /// False: it stands elsewhere than its numbers say.
  bool rangeParts(PyObject *iterator, Range &parts);

  //===--- Sums (Sums.cpp)
  /// `sum()` of what the generator that runs in the running instruction yields.
  void sumYields(PyObject *start);
  /// Likewise `max()`, or `min()`.
  void bestOfYields(rt::Arith function);
  /// The frame on top yields it: to them, where it is that generator's.
  void yielded(PyObject *number);

  //===--- Sizes (Sizes.cpp, SizeUses.cpp)
  //-------------------------------------===//
  /// The dimensions of a tensor that was read whose sizes and strides differ
  /// between calls.
  struct LiftedDims {
    std::vector<int64_t> sizes, strides;
  };
  LiftedDims liftedDims(const AccessPath &path, PyObject *tensor);
  /// Python reads an attribute of a tensor that may tell of its sizes.
  void attribute(PyObject *tensor, const char *name);

private:
  friend class ListNumbers;
  struct Tracked {
    int value;
    rt::Number number;
    PyObject *original; ///< what stood in its place
    bool specialized = false;
    int proxy = -1;    ///< see DataScalars.cpp
    bool data = false; ///< it depends on tensors' data
    int site = -1; ///< the instruction that it came from: DataScalars::sites
    bool ofSize = false; ///< it is, or is computed from, a tensor's size
  };
  /// A number that the next event of `frame` should find on its stack.
  struct Pending {
    PyjitFrame *frame;
    int op;
    PyObject *unique;   ///< of a read: takes the original's place
    PyObject *original; ///< of a read
    int value;          ///< of a computation
    rt::Number number;
    PyObject *operands[2];
    // Of a shape: the value of each size, or -1, and the sizes.
    std::vector<int> dims = {};
    std::vector<int64_t> shape = {};
    int proxy = -1; ///< of what the specialization computes
    bool data = false;
    int site = -1;
    int below = -1;        ///< how far below the top, of several results
    bool handedOn = false; ///< the result of a call is what was read
    bool lookedAt = false; ///< whatever the result is
    bool ofSize = false;
  };

  /// What a `sum()`, `max()` or `min()` has come to.
  struct Sum {
    PyjitFrame *frame;
    PyObject *total; ///< of the two latter, null at first
    int floats = 0;
    std::optional<rt::Arith> best = {}; ///< not the sum: Max or Min
    bool isOver = false;                ///< nobody can say what it comes to
    PyObject *lost = nullptr;           ///< what its additions rounded off
  };

  PyObject *track(PyObject *original, const rt::Number &number, int value,
                  bool ofSize = false);
  NumberOperand computed(PyObject *number, const std::string &device);
  PyObject *combine(rt::Arith function, PyObject *a, PyObject *b);
  PyObject *derive(rt::Arith function, PyObject *a, PyObject *b);
  /// Whether a tensor's size has a part in a number.
  bool isOfSize(PyObject *number) const;
  Sum beginSum(PyObject *start);
  bool addTo(Sum &sum, PyObject *number);
  void leaveSum(const Sum &sum);
  void leaveResult(PyjitFrame *of, PyObject *number);
  bool takeBest(const Call &call);
  PyObject *compareAll(rt::Compare function,
                       const std::vector<PyObject *> &numbers);
  bool sumList(const Call &call);
  std::vector<PyObject *> numbersIn(PyObject *sequence);
  void endSum(PyjitFrame *of);
  /// Whether the frame on top is such a generator's.
  bool isSummed() const;
  /// Whether what it yields is handed on as it is: `list(f(x) for x in xs)`.
  bool isMoved() const;
  PyObject *constant(long value);
  void beforeRanges(const Instruction &in);
  void nextOfRange(PyObject *iterator);
  bool makeRange(const Call &call);
  void specializeRange(PyObject *range);
  void specializeParts(const Range &parts, PyObject *made);
  void setRangeResult(PyObject *made);
  bool compute(rt::Arith function, PyObject *a, PyObject *b,
               const rt::Number &result);
  /// What the specialization computes: its tensor, or -1.
  int computeProxy(rt::Arith function, PyObject *a, PyObject *b, bool &data,
                   int &site);
  int writeArith(rt::Arith function, PyObject *a, PyObject *b,
                 const rt::Number &result);
  void compareComputed(rt::Compare function, PyObject *a, PyObject *b,
                       bool outcome, bool branches);
  void speculate(int proxy, bool outcome);
  void specializeAll();
  int nextJump();
  PyjitValue operand(PyObject *number);
  PyjitType typeOf(const rt::Number &number) const;
  void arith(rt::Arith function, PyObject *a, PyObject *b);
  void lookAtKeys(PyObject *pairs);
  bool roundToInt(const char *name, PyObject *number);
  /// `branches`: the outcome is what the instruction leaves.
  void compare(rt::Compare function, PyObject *a, PyObject *b,
               bool branches = false);
  void beginUse(const std::string &name, const Call &call);
  void endUse();
  void specializePending(const Pending &entry);
  void placeUnpacked(const Pending &entry, PyObject **top);
  void lose(int site, bool data);
  void specializeOperands(PyjitFrame *frame, const Instruction &in, int count);
  // ScalarInstructions.cpp.
  bool followNumbers(const Instruction &in);
  void specializeLookedAt(const Instruction &in);
  void beginSlot(const std::string &name, PyObject *a, PyObject *b);
  void restore(PyObject **slot);
  void returned(PyObject *value);

  void askShape(PyObject *tensor);
  void askSize(PyObject *tensor, int64_t dim);
  void askNumber(int value, int64_t number);
  void askProduct(const std::vector<std::pair<int, int64_t>> &factors);
  bool question(const Call &call, const char *name);
  bool compareSequences(rt::Compare function, PyObject *a, PyObject *b);
  void searchesFor(PyObject *number);
  bool compareElements(PyObject *number, PyObject *sequence);
  bool compareKeys(PyObject *number, PyObject *dict);
  bool compareSorted(const char *name, PyObject *sorted, PyObject *number);
  bool askKind(const char *name, PyObject *number);
  PyObject *makeSize(const Pending &entry, PyObject *found);
  void specializeShape(const Pending &entry);
  void beginSubscript(PyObject *tensor, PyObject *key);
  bool followParts(PyObject *tensor, const std::vector<PyObject *> &parts);
  bool followSlice(PyObject *tensor, PyObject *part, int64_t dim,
                   int64_t shown);
  /// Of `tensor[start:stop]`.
  void beginSlice(PyObject *tensor, PyObject *start, PyObject *stop);

  Recording &s;
  AccessPaths paths;
  PyjitFrame *lengthFrame = nullptr; ///< in whose instruction len(x) runs
  std::unordered_map<PyObject *, Tracked> tracked;
  std::map<AccessPath, PyObject *> reads; ///< what they became
  std::set<PyObject *> owned; ///< numbers that tell their place already
  std::vector<Pending> pending;
  std::vector<Sum> sums; ///< of generators that are running
  /// By range or iterator, which the recording holds.
  std::unordered_map<PyObject *, Range> ranges;
  struct MadeRange {
    PyjitFrame *frame = nullptr;
    Range parts;
  } madeRange;                 ///< the running instruction makes one
  PyjitFrame *frame = nullptr; ///< of the instruction in progress
  PyCodeObject *code = nullptr;
  int op = 0;
  std::string cause; ///< why what is specialized now is, for readers
  OperatorUse currentUse;
  bool hasUse = false;

  bool isListOfInts(PyObject *part) const;
};

/// A native function that calls operators is about to run: notes the tensors
/// among its arguments that may take the place of numbers (NumberTensors.cpp).
void noteNumberTensors(Recording &recording, const Call &call);

/// An exact int that fits 64 bits, or an exact float.
bool asNumber(PyObject *object, rt::Number &number);
bool isNumber(PyObject *object);
/// The number as an object of Python's, held by the recording.
PyObject *makeNumber(Recording &recording, const rt::Number &number);

} // namespace pyjit::capture

#endif // PYJIT_CAPTURE_SCALARS_H
