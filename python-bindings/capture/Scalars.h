//===- Scalars.h - Numbers whose value may differ between calls -*- C++ -*-===//
//
// A number that is read from a place whose value differed between calls is
// replaced, on the interpreter's stack, by an object of its own: from then on
// its identity says where it came from, wherever Python moves it. Arithmetic on
// it is written as refgraph.arith, comparisons as refgraph.compare, and its use
// by an operator as an operand. Every other use *pins* it: refgraph.compare
// "is" with its value, as if it had been guarded from the start. What cannot be
// looked into pins all of them.
//
//===----------------------------------------------------------------------===//
#ifndef PYJIT_CAPTURE_SCALARS_H
#define PYJIT_CAPTURE_SCALARS_H

#include "Code.h"
#include "cpython_3_12.h"

#include "pyjit-rt/ScalarMath.h"

#include <set>
#include <string>
#include <unordered_map>
#include <vector>

namespace pyjit::capture {

class Session;
struct Call;
struct Node;
enum class Select;

/// Names of places, as `Guards::placeOf` of the extension makes them: "#0" an
/// argument, "@7f…" a pinned object, then ".n" an attribute, ":n" and "[3" an
/// item, "^0" a cell.
using Places = std::set<std::string>;

class Scalars {
public:
  Scalars(Session &session, Places places)
      : s(session), places(std::move(places)) {}
  ~Scalars();

  bool enabled() const { return !places.empty(); }
  void lift(const std::string &place) { places.insert(place); }
  /// The name of a place; empty where it has none.
  std::string placeOf(Node *owner, Select select, PyObject *key,
                      Py_ssize_t index);
  /// A read of a lifted place: writes it, and says so.
  bool read(Node *owner, Select select, const std::string &selector,
            const std::string &place, PyObject *result);
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
  /// SSA value of a tracked number, or -1.
  int valueOf(PyObject *object) const;
  void pin(PyObject *number);
  void pinDeep(PyObject *object, int depth = 0);
  void pinAll();

  /// Tracked numbers that the running instruction hands to an operator.
  struct Use {
    PyjitFrame *frame;
    std::string name; ///< of the Python function, without a trailing `_`
    struct Argument {
      PyObject *number;
      std::string keyword;
      bool used = false;
    };
    std::vector<Argument> arguments;
    int operators = 0;
    bool composite = false;
    bool slot = false; ///< an operator of Python's, not a call
  };
  Use *use() { return hasUse ? &currentUse : nullptr; }
  /// What an operator's number argument may be: for TensorOps.cpp.
  const rt::Number *numberOf(PyObject *object) const;

private:
  struct Tracked {
    int value;
    rt::Number number;
    PyObject *original; ///< what stood in its place
    bool pinned = false;
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
  };

  PyObject *track(PyObject *original, const rt::Number &number, int value);
  std::string operand(PyObject *number);
  std::string typeOf(const rt::Number &number) const;
  void arith(rt::Arith function, PyObject *a, PyObject *b);
  void compare(rt::Compare function, PyObject *a, PyObject *b);
  void beginUse(const std::string &name, const Call &call);
  void endUse();
  void pinPending(const Pending &entry);
  void pinOperands(PyjitFrame *frame, const Instruction &in, int count);
  void returned(PyObject *value);

  Session &s;
  Places places;
  std::unordered_map<PyObject *, Tracked> tracked;
  std::unordered_map<std::string, PyObject *> reads; ///< by place
  std::vector<Pending> pending;
  PyjitFrame *frame = nullptr; ///< of the instruction in progress
  int op = 0;
  Use currentUse;
  bool hasUse = false;
};

/// An exact int that fits 64 bits, or an exact float.
bool asNumber(PyObject *object, rt::Number &number);

} // namespace pyjit::capture

#endif // PYJIT_CAPTURE_SCALARS_H
