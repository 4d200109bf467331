//===- Session.h - The state of one recording -------------------*- C++ -*-===//
//
// One Session lives for one captured call. Its parts, by file:
//   Session.cpp      what is known about objects
//   Monitor.cpp      events, frames, what happens after an instruction
//   Opcodes.cpp      one handler per bytecode that reads, writes or creates
//   Reads.cpp        reads of external objects, as text
//   Attributes.cpp, Descriptors.cpp   look-up and store, as CPython does them
//   Containers.cpp, Items.cpp, Operators.cpp   containers and operators
//   Calls.cpp        what calling an object means, by its type
//   Natives*.cpp     the table of native functions that are modelled
//   Tensors.cpp, TensorOps.cpp   metadata and the dispatcher's operators
//   Escape.cpp       the result and the writes, at the end
//   Writer.cpp       text
//
// Handlers run *before* the interpreter carries the instruction out: they look
// at its operands, record what it is about to read, and say what its result
// will be (Post). Nothing here calls into the user's code.
//
//===----------------------------------------------------------------------===//
#ifndef PYJIT_CAPTURE_SESSION_H
#define PYJIT_CAPTURE_SESSION_H

#include "Code.h"
#include "Writer.h"
#include "cpython_3_12.h"

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

namespace pyjit::capture {

/// What is known about an object. External objects existed before the call:
/// they have a path (an SSA value of the text). Others were created by it.
struct Node {
  PyObject *object = nullptr; ///< strong: addresses are not reused
  bool external = false;
  /// External and identified by its index in the object table.
  bool pinned = false;
  /// External container whose contents before the call are recorded in full.
  bool owned = false;
  bool typeRead = false;
  bool functionRead = false;
  bool paramDict = false; ///< `_parameters` or `_buffers` of an nn.Module
  /// Appended to without having been read: reads end the capture.
  bool appended = false;
  /// The contents changed: written out whole at the end.
  bool replaced = false;
  int index = -1;         ///< in the object table
  int value = -1;         ///< SSA number
  Node *dictOf = nullptr; ///< this is the `__dict__` of that instance
  /// Keys of attributes and items that the call has written (dicts, owned).
  PyObject *writtenAttrs = nullptr;
  PyObject *writtenItems = nullptr;
  std::string type; ///< text of the refgraph type
};

enum class Select {
  Arg,
  Attr,
  Dict,
  Item,
  Type,
  TypeAttr,
  Code,
  Defaults,
  KwDefaults,
  Globals,
  Cell,
  Slot,
  Field
};

/// What an instruction's or a native function's result will be.
enum class Post {
  Known,       ///< an object that is known already, or becomes known by a frame
  Fresh,       ///< a new object
  FreshTuples, ///< a new object that may hold new tuples (of `items()`, `zip`)
  FreshDeep,   ///< new tuples and lists of tensors and values
  Constant,    ///< a tensor made of Python data, without operators
};

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

struct ShadowFrame {
  PyjitFrame *frame = nullptr;
  PyCodeObject *code = nullptr;
  int offset = 0;
  int loc = -1;
  int locOffset = -1;
  // What to do at the next event of this frame if the instruction succeeded.
  bool pending = false;
  int pendingNext = 0;
  Post post = Post::Known;
  PyTypeObject *instantiating = nullptr;
  bool truthOfYields = false;
  int freshAt = 0; ///< a further new object, counted from the top; 0: none
};

class TensorRecorder;

class Session {
public:
  Session(const std::string &name, bool surveying);
  ~Session();

  //===--- Life (Monitor.cpp)
  //----------------------------------------------===//
  PyObject *run(PyObject *callable, PyObject *const *args, size_t nargs,
                PyObject *kwnames);
  void onStart(PyCodeObject *code, int offset);
  void onInstruction(PyCodeObject *code, int offset);
  /// Ends the capture: `what` is not modelled.
  void end(const std::string &what);
  bool ended() const { return dead; }
  std::string where();
  int location();
  static Session *current;

  //===--- Known objects (Session.cpp)
  //-------------------------------------===//
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
  //-------------------------===//
  void read(Node *owner, Select select, PyObject *key, PyObject *result);
  void readIndex(Node *owner, Select select, Py_ssize_t index, PyObject *result,
                 PyObject *name = nullptr);
  void absent(Node *owner, Select select, PyObject *key);
  void length(Node *owner, Py_ssize_t n);
  void keys(Node *owner, PyObject *keyList);
  void typeOf(PyObject *object);
  void function(Node *node);

  void readCell(PyObject *cell);
  void writeCell(PyObject *cell);

  //===--- Attributes (Attributes.cpp)
  //-------------------------------------===//
  /// Looks `name` up along the MRO and records it; borrowed or null.
  PyObject *typeLookup(PyTypeObject *type, PyObject *name);
  PyObject *typeLookup(PyTypeObject *type, const char *name);
  struct Found {
    enum Kind { Value, Fresh, Python, Absent } kind = Absent;
    PyObject *object = nullptr;
  };
  Found loadAttr(PyObject *object, PyObject *name);
  Found genericAttr(PyObject *object, PyObject *name, bool skipDict = false);
  Found superAttr(PyTypeObject *cls, PyObject *self, PyTypeObject *start,
                  PyObject *name);
  Found throughDescriptor(PyObject *descr, PyObject *object, PyObject *name);
  void storeAttr(PyObject *object, PyObject *name, PyObject *value);
  void writeAttr(PyObject *object, PyObject *name, PyObject *value);
  void genericStore(PyObject *object, PyObject *name, PyObject *value);
  /// `type(object)`'s special method; records the look-up. Python functions
  /// become known. Null if there is none.
  PyObject *special(PyObject *object, const char *name);

  //===--- Containers (Containers.cpp)
  //-------------------------------------===//
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

  //===--- Calls (Calls.cpp, Natives*.cpp)
  //---------------------------------===//
  Post call(const Call &call, int depth = 0);
  Post callType(PyTypeObject *type, const Call &call);
  Post callTypeDirectly(PyTypeObject *type, const Call &call);
  Post callWrapper(const char *name, PyObject *wrapper, const Call &call);
  Post unknownNative(const Call &call);
  Post torchCall(const Call &call);
  void tensorArgument(PyObject *object, int depth = 0);

  //===--- The end (Escape.cpp)
  //--------------------------------------------===//
  void leave(PyObject *result);
  void separateWritten();

  bool isTensor(PyObject *object);
  std::string typeText(PyObject *object);
  std::string keyText(PyObject *key);

  std::string name;
  bool surveying;
  bool dead = false;
  std::string reason;
  std::vector<std::string> surveyed;
  std::set<std::string> surveyedSet;
  PyThreadState *thread = nullptr;
  Writer writer;
  std::unique_ptr<TensorRecorder> tensors;
  PyObject *objects = nullptr; ///< list: the object table
  std::vector<ShadowFrame> frames;
  ShadowFrame *top() { return frames.empty() ? nullptr : &frames.back(); }
  /// Writes in execution order, for attributes and items of external objects.
  struct Write {
    Node *owner;
    Select select;
    PyObject *key;
    PyObject *appended = nullptr; ///< list.append: the element
  };
  std::vector<Write> writes;
  std::vector<Node *> replacedNodes;
  /// Context variables that are set and not yet reset.
  std::vector<PyObject *> contextVariables;
  /// Closure cells of external functions, in the order of the first write.
  std::vector<PyObject *> cellWrites;
  /// Set by a native handler for the instruction in progress.
  PyTypeObject *instantiating = nullptr;
  bool truthOfYields = false;
  int freshAt = 0;
  /// A Python number is being stored into a tensor.
  bool storingNumber = false;
  int external = -1; ///< SSA number of refgraph.external

private:
  friend struct OpcodeContext;
  CodeInfo &info(PyCodeObject *code);
  bool align(PyjitFrame *frame, PyCodeObject *code, int offset, bool starts);
  void frameStart(ShadowFrame &shadow, ShadowFrame *caller);
  void emitGet(Node *owner, Select select, const std::string &selector,
               PyObject *result);
  bool shouldPin(PyObject *object);
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
  std::vector<PyObject *> kept;
};

/// Values: immutable, compared by content, known concretely wherever they are.
bool isValue(PyObject *object);
/// Objects that live as long as the process and need no path: static types,
/// their methods, torch's dtypes.
bool isProcessConstant(PyObject *object);
std::string typeName(PyObject *object);
/// Handles one instruction; returns what its result is.
Post handleOpcode(Session &session, PyjitFrame *frame, PyCodeObject *code,
                  const Instruction &instruction);

} // namespace pyjit::capture

#endif // PYJIT_CAPTURE_SESSION_H
