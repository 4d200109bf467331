//===- Session.h - The state of one recording -------------------*- C++ -*-===//
//
// One Session lives for one captured call. Its parts, by file:
//   Session.cpp      what is known about objects
//   Monitor.cpp      events, frames, what happens after an instruction
//   Opcodes*.cpp     one handler per bytecode that reads, writes or creates
//   Reads.cpp        reads of external objects
//   Attributes.cpp, Descriptors.cpp   look-up and store, as CPython does them
//   Containers.cpp, Items.cpp, Operators.cpp   containers and operators
//   Calls.cpp        what calling an object means, by its type
//   Scalars.cpp      numbers whose value may differ between calls
//   Natives*.cpp     the table of native functions that are modelled
//   Tensors.cpp, TensorOp*.cpp   metadata and the dispatcher's operators
//   Escape.cpp, EscapeWalk.cpp   the result and the writes, at the end
//   Cut.cpp          the state at a cut, and starting from such a state
//   TraceWriter.cpp  the trace, with locations
//
// Handlers run *before* the interpreter carries the instruction out: they look
// at its operands, record what it is about to read, and say what its result
// will be (Post). Nothing here calls into the user's code.
//
//===----------------------------------------------------------------------===//
#ifndef PYJIT_CAPTURE_SESSION_H
#define PYJIT_CAPTURE_SESSION_H

#include "CPython.h"
#include "TraceWriter.h"
#include "interpreter/Code.h"
#include "interpreter/Frames.h"
#include "numbers/Scalars.h"
#include "objects/EffectLog.h"
#include "objects/Node.h"

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

namespace pyjit::capture {

/// Arguments of a call.
struct Call {
  PyObject *callable = nullptr;
  std::vector<PyObject *> args; ///< positional, then keyword values
  PyObject *kwnames = nullptr;  ///< tuple of keyword names or null
  size_t positional() const {
    return args.size() - (kwnames ? PyTuple_GET_SIZE(kwnames) : 0);
  }
  PyObject *arg(size_t i) const { return i < args.size() ? args[i] : nullptr; }
  PyObject *keyword(const char *name) const;
};

class EscapeWalk;
class TensorRecorder;

class Session {
public:
  Session(PyjitContext *context, const std::string &name, bool surveying,
          AccessPaths lifted = {});
  ~Session();

  //===--- Life (Monitor.cpp)
  void onStart(PyCodeObject *code, int offset);
  void onInstruction(PyCodeObject *code, int offset);
  /// Ends the capture: `what` is not modelled.
  void end(const std::string &what);
  /// Ends it for what is so in a first call only: the next one is recorded
  /// anew. Where that does not help, it is an end like any other.
  void endOnce(const std::string &what);
  /// Ends it for good: a cut would not help.
  void endWhole(const std::string &what);
  bool ended() const { return dead; }
  /// Records a call from its start; false if that ended the capture.
  /// Replaces lifted numbers among `args`. `unseen`: as for beginAt.
  bool begin(PyObject *callable, std::vector<PyObject *> &args, size_t nargs,
             PyObject *kwnames, const std::set<int> &unseenArguments);
  /// Looks at the result of a call recorded from its start.
  void finishCall(PyObject *result);
  std::string where();
  PyjitLocation location();
  /// Appends an operation at the present location.
  template <typename Op> PyjitValue add(const Op &op) {
    return writer.add(op, location());
  }
  static Session *current;

  //===--- Known objects (Session.cpp)
  Node *find(PyObject *object);
  /// The node of `object`; ends the capture and returns null if its origin is
  /// not known. Values have no node: ask `isValue` first.
  Node *require(PyObject *object);
  bool known(PyObject *object);
  bool isExternal(PyObject *object);
  Node *born(PyObject *object);
  /// Registers what a native function returned.
  void settle(Post post, PyObject *result);
  /// Puts `object` into the object table; it is then known by identity.
  Node *pin(PyObject *object);
  /// SSA value of an external node, emitted if it has none yet.
  int ssa(Node *node);
  void keep(PyObject *object);

  //===--- Reads of external objects (Session.cpp)
  void read(Node *owner, Select select, PyObject *key, PyObject *result);
  void readIndex(Node *owner, Select select, Py_ssize_t index, PyObject *result,
                 PyObject *name = nullptr);
  void absent(Node *owner, Select select, PyObject *key);
  void length(Node *owner, Py_ssize_t n);
  void keys(Node *owner, PyObject *keyList);
  void typeOf(PyObject *object);
  void function(Node *node);

  void readCell(PyObject *cell);
  /// Whether the call made the cell.
  bool isOwnCell(PyObject *cell) { return !cellHomes.count(cell); }
  void writeCell(PyObject *cell);

  //===--- Attributes (Attributes.cpp)
  /// Looks `name` up along the MRO and records it; borrowed or null.
  PyObject *typeLookup(PyTypeObject *type, PyObject *name);
  PyObject *typeLookup(PyTypeObject *type, const char *name);
  struct Found {
    enum Kind { Value, Fresh, Python, Absent } kind = Absent;
    PyObject *object = nullptr;
  };
  Found loadAttr(PyObject *object, PyObject *name);
  Found genericAttr(PyObject *object, PyObject *name, bool skipDict = false);
  void descriptorKind(PyObject *descr);
  Found superAttr(PyTypeObject *cls, PyObject *self, PyTypeObject *start,
                  PyObject *name);
  Found throughDescriptor(PyObject *descr, PyObject *object, PyObject *name);
  void storeAttr(PyObject *object, PyObject *name, PyObject *value);
  void writeAttr(PyObject *object, PyObject *name, PyObject *value);
  void genericStore(PyObject *object, PyObject *name, PyObject *value);
  void writeSlot(PyObject *object, PyObject *descr, PyObject *name,
                 PyObject *value);
  /// `type(object)`'s special method; records the look-up. Python functions
  /// become known. Null if there is none.
  PyObject *special(PyObject *object, const char *name);

  //===--- Containers (Containers.cpp)
  Post subscript(PyObject *object, PyObject *key);
  void storeSubscript(PyObject *object, PyObject *key, PyObject *value);
  Post iterate(PyObject *object);
  Post next(PyObject *iterator);
  void contains(PyObject *container, PyObject *item);
  void truth(PyObject *object);
  void lengthOf(PyObject *object);
  /// Reads every element (and key) of an external container.
  void readAll(PyObject *container);
  /// Reads all that comparing, hashing or printing `object` could look at.
  void readDeep(PyObject *object, int depth = 0);
  /// Reads `dict[key]`: present or absent.
  void dictItem(PyObject *dict, PyObject *key);
  /// `item` is looked for in, or put into, a set: hashed and compared.
  void hashInto(PyObject *set, PyObject *item);
  bool holdsTensors(PyObject *set);
  /// Two external objects that have to stay two.
  void apart(Node *left, Node *right);
  /// Reads all of an external list that was appended to without a look.
  void ownAppended(Node *list);
  /// Reads whether a set holds `item`.
  void setItem(PyObject *set, PyObject *item);
  /// list.append on an external list whose contents nobody looks at.
  bool append(PyObject *list, PyObject *item);
  /// C members of external slices, methods and partial objects.
  void readFields(PyObject *object, std::initializer_list<const char *> names);
  /// Before a write to an external container: records all of it.
  void own(PyObject *container);
  void writeItem(PyObject *dict, PyObject *key, PyObject *value);
  Post binary(PyObject *left, PyObject *right, const char *op, bool inplace);
  Post compare(PyObject *left, PyObject *right, const char *op);
  void identity(PyObject *left, PyObject *right);
  Post format(PyObject *object);
  void formatParts(PyObject *container);
  void exceptionArguments(PyObject *exception);

  //===--- Functions that C code calls (Calls.cpp)
  /// What C does with a Python function's results, or hands it.
  enum Callback : unsigned {
    Truth = 1,    ///< asks for the truth of the results
    Compared = 2, ///< compares them
    Tuples = 4,   ///< arguments are tuples that it has just made
  };
  void callsBack(PyObject *function, unsigned uses);
  /// A frame is about to return.
  void returns(PyObject *result);
  unsigned callbackOf(PyjitFrame *frame);

  //===--- Calls (Calls.cpp, Natives*.cpp)
  Post call(const Call &call, int depth = 0);
  Post callType(PyTypeObject *type, const Call &call);
  Post callTypeDirectly(PyTypeObject *type, const Call &call);
  Post callWrapper(const char *name, PyObject *wrapper, const Call &call);
  Post unknownNative(const Call &call);
  /// A TorchScript function has returned.
  void finishScript(PyObject *result);
  Post torchCall(const Call &call);
  void tensorArgument(PyObject *object, int depth = 0);

  //===--- The end (Escape.cpp)
  void leave(PyObject *result);
  /// Ends the trace with the values of the frames instead of a result.
  bool leaveCut(const std::vector<FrameState> &states);

  //===--- Cuts (Cut.cpp)
  /// Describes frame `i`. False if the interpreter cannot be made to go on
  /// from it.
  bool frameState(size_t i, FramePhase phase, FrameState &state);
  /// Whether a frame's local has to be there after a cut.
  static bool isCarried(bool live, PyObject *local);
  /// Begins in the middle of a function, in front of the instruction at
  /// `offset`. `unseen`: numbers of values that the record may not depend on.
  void beginAt(PyjitFrame *frame, PyCodeObject *code, int offset,
               PyObject *function, const std::vector<PyObject **> &places,
               const std::vector<PyObject *> &names,
               const std::set<int> &unseen);
  void passUnseen(size_t i, PyObject *object, PyObject *name);
  /// Whether the instruction looks at an unseen value.
  PyObject *looksAtUnseen(const Instruction &instruction, PyObject **stack);
  /// Whether an instruction moves references, and looks at nothing.
  static bool onlyMoves(int op);
  bool shouldPin(PyObject *object);
  CodeInfo &info(PyCodeObject *code);

  //===--- Decisions on data (Decisions.cpp)
  /// Writes what the rest of the run depends on, tensors' data apart: two equal
  /// texts in front of one instruction go on alike. False: it cannot be said.
  /// `truth`: the condition is a number that the record computes.
  bool describeState(const FrameState &state, std::string &text,
                     std::vector<PyObject *> &found, bool truth);
  /// `outcome`: -1 leaves it to who goes on after the cut.
  void decide(PyjitValue condition, int outcome, const std::string &site,
              const std::string &state, const std::vector<PyjitValue> &values);
  /// The iteration went on because `flag` was so.
  void expect(PyjitValue flag, bool outcome);
  void forgetValues(int first);
  /// The heads of a loop that the recording has come by.
  struct Heads {
    int start = -1; ///< where iterations begin
    int site = -1;  ///< the branch
    int count = 0;
    bool forked = false;   ///< a recording up to the first head was kept
    bool complete = false; ///< ends at the last head
    bool spoiled = false;  ///< no more of them
    bool early = false;    ///< the loop ended before the last one
    bool ranOut = false;   ///< ... with the end of its range
    size_t plain = 0;      ///< number of that recording
    std::string state;
    std::map<PyObject *, size_t> numbers; ///< of objects known by identity
  } heads;
  /// Asked in front of a branch: whether to record on through it.
  /// The last is the shadow of a condition that is a number, or -1.
  std::function<bool(PyCodeObject *, int, PyObject *, int)> atBranch;

  /// Values that are passed on unseen, by address: SSA value.
  std::map<PyObject *, int> unseen;
  /// An object is met by another way, as `value`. If it is passed on unseen,
  /// too, its address no longer says by which: the two have to be one.
  void meet(PyObject *object, int value);
  /// Instructions (of original code) in front of which the recording stops.
  const std::map<std::pair<PyCodeObject *, int>, std::string> *cutPoints =
      nullptr;
  /// Instructions at which `endOnce` ended recordings, and how often; set where
  /// `cutPoints` is.
  const std::map<std::pair<PyCodeObject *, int>, int> *passCounts = nullptr;
  bool resumed = false;  ///< began in the middle of a function
  bool finished = false; ///< ... which has returned
  Py_ssize_t argumentCount = 0;
  bool inHandler = false;
  bool passes = false; ///< ended by `endOnce`
  bool noCut = false;  ///< what ended the capture is not one instruction's
  /// The capture ended in front of an instruction, not in the middle of one.
  bool endedBefore = false;
  PyObject *refused = nullptr; ///< the object that could not leave
  bool mayLeaveGradMode = false;
  int gradModeLeft = -1;
  /// Where objects that cannot leave were made: frames and instructions,
  /// outermost first.
  struct Birth {
    PyjitFrame *frame;
    PyCodeObject *code;
    int offset;
  };
  std::unordered_map<PyObject *, std::vector<Birth>> births;

  static bool isTensor(PyObject *object);
  PyjitType irType(PyObject *object);
  /// A value, or an entry of the object table, as an attribute.
  PyjitAttribute constant(PyObject *object);
  /// `object`, a number or None say, as a value of the trace.
  PyjitValue addConstant(PyObject *object);
  void addSame(PyjitValue lhs, PyjitValue rhs) {
    add(PyjitSameOp{.lhs = lhs, .rhs = rhs});
  }

  std::string name;
  bool surveying;
  bool dead = false;
  std::string reason;
  std::vector<std::string> surveyed;
  std::set<std::string> surveyedSet;
  PyThreadState *thread = nullptr;
  TraceWriter writer;
  std::unique_ptr<TensorRecorder> tensors;
  Scalars scalars;
  PyObject *objects = nullptr; ///< list: the object table
  std::vector<ShadowFrame> frames;
  ShadowFrame *top() { return frames.empty() ? nullptr : &frames.back(); }
  EffectLog effects;
  void noteWrite(Node *node, Select select, PyObject *key, PyObject *value);
  PyObject *tokenOf(PyObject *variable) const;
  /// torch._C._InferenceMode objects that the call has entered and not left.
  std::vector<PyObject *> inferenceModes;
  PyObject *firstInferenceMode = nullptr;
  /// Modules of the call that Dynamo has noted: they may not leave it.
  std::set<PyObject *> markedModules;
  /// Of the instruction in progress.
  InstructionContext now;
  /// This frame's instruction calls a TorchScript function whose own
  /// instructions make tensors of Python data alone, unseen by the dispatcher.
  PyjitFrame *scripting = nullptr;
  /// ... and such a tensor was met.
  bool scriptConstants = false;
  int external = -1; ///< SSA number of refgraph.external

  //===--- Numbers that the record computes (DataNumbers.cpp)
  /// Instructions (of original code) that gave Python a number of a tensor's
  /// data.
  std::vector<std::pair<PyCodeObject *, int>> sites;
  /// Those of numbers that were used in a way that the record cannot compute:
  /// a cut is needed there.
  std::set<int> lostSites;
  /// What the running CALL calls.
  PyObject *called = nullptr;
  /// The instruction at `offset` branches on a number that the record computes.
  struct Truth {
    PyjitFrame *frame = nullptr;
    int offset = -1;
    int shadow = -1;
  } truthAhead;
  int truthLeft = -1; ///< on top of the operand stack at a cut
  int noteSite();

private:
  void separateWritten();
  bool leaveCells(EscapeWalk &walk);
  void leaveWrites(EscapeWalk &walk);
  void leaveReplaced(EscapeWalk &walk);
  template <typename Result> void leaveWith(const Result &result);

  // One instruction (Monitor.cpp).
  bool isFollowed(PyjitFrame *frame) const;
  bool raisedByTensors(const Instruction &next) const;
  bool finishInstruction(const Instruction &next, int offset, PyObject **stack);
  void beginInstruction(PyjitFrame *frame, int offset);
  void checkCuts(PyCodeObject *code, int offset, const Instruction &instruction,
                 PyObject **stack);
  void leaveResumed(PyjitFrame *frame, PyCodeObject *code,
                    const Instruction &instruction, PyObject **stack);
  void branch(PyCodeObject *code, int offset, PyObject *condition);
  void askAhead(PyjitFrame *frame, PyCodeObject *code, const Instruction &in,
                int jump);
  Post carryOut(PyjitFrame *frame, PyCodeObject *code,
                const Instruction &instruction, int offset);
  void expectResult(Post post, const Instruction &instruction, int offset);

  void noteBirth(PyObject *object);
  bool align(PyjitFrame *frame, PyCodeObject *code, int offset, bool starts);
  void frameStart(ShadowFrame &shadow, ShadowFrame *caller);
  bool isPassedOn(Node *owner, PyObject *object);
  void readParts(PyObject *object, PyjitValue value);
  void emitGet(Node *owner, const Selector &selector, PyObject *result,
               const AccessPath &path = {});
  void emitTensorGet(Node *owner, PyjitGetOp get, PyObject *tensor,
                     const AccessPath &path);
  Selector selectorOf(Select select, PyObject *key);
  Node *canonical(Node *owner, Select &select);
  bool written(Node *owner, Select select, PyObject *key);
  bool firstTime(Node *owner, Select select, PyObject *key);

  std::unordered_map<PyObject *, std::unique_ptr<Node>> nodes;
  std::unordered_map<PyCodeObject *, std::unique_ptr<CodeInfo>> codes;
  std::set<std::tuple<Node *, int, PyObject *>> done;
  std::set<std::tuple<Node *, int, Py_ssize_t>> doneIndex;
  /// Closure cells of external functions: where they are read from.
  struct CellHome {
    Node *function;
    int index;
    PyObject *name;
  };
  std::unordered_map<PyObject *, CellHome> cellHomes;
  std::set<PyObject *> writtenCells;
  std::set<PyjitFrame *> generators;
  std::unordered_map<PyObject *, unsigned> callbacks;
  std::vector<PyObject *> kept;
};

/// Values: immutable, compared by content, known concretely wherever they are.
bool isValue(PyObject *object);
/// Objects that live as long as the process and need no path: static types,
/// their methods, torch's dtypes.
bool isProcessConstant(PyObject *object);
std::string typeName(PyObject *object);
/// Handles one instruction; returns what its result is. condition: as in
/// ShadowFrame.
Post handleOpcode(Session &session, PyjitFrame *frame, PyCodeObject *code,
                  const Instruction &instruction,
                  PyObject *condition = nullptr);

} // namespace pyjit::capture

#endif // PYJIT_CAPTURE_SESSION_H
