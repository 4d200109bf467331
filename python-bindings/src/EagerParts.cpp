//===- EagerParts.cpp - Modules in the eager parts of calls ---------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// CPython calls an instance with `__call__` through the function's vectorcall,
// which may be another than the one that runs its code. So a call of a module
// comes by here whoever makes it, and costs a load and a branch where its
// thread is in no eager part.
//
//===----------------------------------------------------------------------===//

#include "EagerParts.h"

#include "CompiledFunction.h"

#include "capture/Recorder.h"

#include <structmember.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <unordered_map>
#include <vector>

namespace pyjit::python {
namespace {

using Clock = std::chrono::steady_clock;

thread_local EagerPart *currentPart = nullptr;

PyTypeObject *moduleCallsType = nullptr; // set once, at module initialisation

/// `Module.__call__`, borrowed (it is never given back), and what runs it.
PyObject *moduleCall = nullptr;
vectorcallfunc runModule = nullptr;

/// What is known of one module.
struct Entry {
  Reference weak;     ///< an address may be another module's later
  Reference compiled; ///< answers its calls; none yet, or none at all
  bool declined = false;
  /// Of its calls in eager: how many, and seconds of the shortest.
  uint64_t calls = 0;
  double shortest = std::numeric_limits<double>::infinity();
  /// References to the module that `compiled` holds.
  Py_ssize_t held = 0;
  /// Somebody else held the module when the entry held nothing else, or other
  /// threads took and gave references meanwhile: counting does not work for it.
  bool miscounted = false;

  PyObject *module() const {
    PyObject *object = weak ? PyWeakref_GET_OBJECT(weak.get()) : Py_None;
    return object == Py_None ? nullptr : object;
  }
};

struct ModuleCalls {
  PyObject_HEAD PyObject *begin;
  double warmSeconds;
  /// Eager parts that go through it now, on all threads, the thread of the
  /// first of them, and whether others joined it.
  unsigned parts;
  unsigned long thread;
  bool ofSeveralThreads;
  std::unordered_map<PyObject *, Entry> *entries;
  size_t sweepAt; ///< entries at which those of dead modules are looked for
  /// Those with something that answers them.
  std::vector<PyObject *> *answered;
};

ModuleCalls *self_of(PyObject *object) {
  return reinterpret_cast<ModuleCalls *>(object);
}

} // namespace

struct ModuleCallsAccess {
  static PyObject *call(EagerPart &part, PyObject *module,
                        PyObject *const *args, size_t nargsf, PyObject *kwnames,
                        bool &answered);
  static bool isFollowed(EagerPart &part, PyObject *module);
};

namespace {

//===----------------------------------------------------------------------===//
// Which calls are followed
//===----------------------------------------------------------------------===//

/// Whether Dynamo, or nobody at all, is to compile what the function calls:
/// `torch.compile` and `torch.compiler.disable` leave such a wrapper.
bool isDynamos(PyObject *function) {
  static PyObject *const mark =
      PyUnicode_InternFromString("_torchdynamo_orig_callable");
  if (!function || !PyFunction_Check(function))
    return false;
  PyObject *dict = reinterpret_cast<PyFunctionObject *>(function)->func_dict;
  return dict && PyDict_GetItemWithError(dict, mark);
}

/// Whether the instance has the attribute, and it is not None.
bool hasOwn(PyObject *object, PyObject *name) {
  PyObject *dict = pyjitInstanceDict(object);
  PyObject *value = dict ? PyDict_GetItemWithError(dict, name) : nullptr;
  return value && value != Py_None;
}

/// Entries of modules that are gone.
void forgetDead(ModuleCalls *self) {
  auto &entries = *self->entries;
  if (entries.size() < self->sweepAt)
    return;
  for (auto it = entries.begin(); it != entries.end();)
    it = !it->second.module() && !it->second.compiled ? entries.erase(it)
                                                      : std::next(it);
  constexpr size_t kFew = 64;
  self->sweepAt = std::max(kFew, 2 * entries.size());
}

Entry *entryOf(ModuleCalls *self, PyObject *module) {
  auto found = self->entries->find(module);
  if (found != self->entries->end() && found->second.module() == module)
    return &found->second;
  forgetDead(self);
  Reference weak = Reference::steal(PyWeakref_NewRef(module, nullptr));
  if (!weak) {
    PyErr_Clear();
    return nullptr;
  }
  Entry &entry = (*self->entries)[module];
  entry = Entry();
  entry.weak = std::move(weak);
  return &entry;
}

//===----------------------------------------------------------------------===//
// Calls
//===----------------------------------------------------------------------===//

/// A call as in eager, timed; modules within it are its own.
PyObject *callCold(ModuleCalls *self, PyObject *module, PyObject *const *args,
                   size_t nargsf, PyObject *kwnames) {
  Reference alive = Reference::borrow(reinterpret_cast<PyObject *>(self));
  PyObject *result;
  auto start = Clock::now();
  {
    EagerPart plain(nullptr);
    result = runModule(moduleCall, args, nargsf, kwnames);
  }
  std::chrono::duration<double> taken = Clock::now() - start;
  // What ran meanwhile may have changed the table.
  auto found = self->entries->find(module);
  if (result && found != self->entries->end()) {
    Entry &entry = found->second;
    ++entry.calls;
    entry.shortest = std::min(entry.shortest, taken.count());
  }
  return result;
}

/// Asks for what answers the module's calls from now on.
void beginCompiled(ModuleCalls *self, PyObject *module) {
  Reference made = Reference::steal(PyObject_CallOneArg(self->begin, module));
  if (!made)
    PyErr_WriteUnraisable(self->begin);
  auto found = self->entries->find(module);
  if (found == self->entries->end() || found->second.compiled)
    return; // or another thread was faster
  if (made && made.get() != Py_None) {
    found->second.compiled = std::move(made);
    self->answered->push_back(module);
  } else {
    found->second.declined = true;
  }
}

PyObject *callCompiled(ModuleCalls *self, PyObject *module,
                       const Reference &compiled, Py_ssize_t before,
                       PyObject *const *args, size_t nargsf,
                       PyObject *kwnames) {
  uint64_t asked = timesEnginesWereAsked();
  PyObject *result = PyObject_Vectorcall(
      compiled.get(), args + 1, PyVectorcall_NARGS(nargsf) - 1, kwnames);
  if (asked == timesEnginesWereAsked() && Py_REFCNT(module) == before)
    return result;
  auto found = self->entries->find(module);
  if (found == self->entries->end() ||
      found->second.compiled.get() != compiled.get())
    return result;
  found->second.held += Py_REFCNT(module) - before;
  found->second.miscounted |= self->ofSeveralThreads;
  return result;
}

/// Drops what answers the calls of modules that nobody but it holds any more:
/// a function may make a module in each call.
void dropOrphans(ModuleCalls *self) {
  std::vector<Reference> dropped;
  std::erase_if(*self->answered, [&](PyObject *module) {
    Entry &entry = self->entries->at(module);
    if (entry.miscounted || Py_REFCNT(module) > entry.held)
      return false;
    dropped.push_back(std::move(entry.compiled));
    entry.compiled = Reference();
    entry.miscounted = true; // where it lives on
    entry.held = 0;
    // The next one has to show that it is worth it.
    self->warmSeconds *= 2;
    return true;
  });
  if (dropped.empty())
    return;
  PyObject *raised = PyErr_GetRaisedException();
  dropped.clear();
  PyErr_SetRaisedException(raised);
}

/// `Module.__call__`.
PyObject *callModule(PyObject *function, PyObject *const *args, size_t nargsf,
                     PyObject *kwnames) {
  if (EagerPart *part = currentPart; part && PyVectorcall_NARGS(nargsf)) {
    bool answered = false;
    PyObject *result = ModuleCallsAccess::call(*part, args[0], args, nargsf,
                                               kwnames, answered);
    if (answered)
      return result;
  }
  return runModule(function, args, nargsf, kwnames);
}

} // namespace

bool ModuleCallsAccess::isFollowed(EagerPart &part, PyObject *module) {
  static PyObject *const callName = PyUnicode_InternFromString("__call__");
  if (!part.modules)
    return false;
  if (part.own == module) {
    part.own = nullptr;
    return false;
  }
  // A class with a `__call__` of its own comes by here in the middle of it.
  if (!capture::mayMonitor() ||
      pyjitTypeLookup(Py_TYPE(module), callName) != moduleCall)
    return false;
  for (PyjitFrame *frame = pyjitCurrentFrame(); frame && frame != part.base;
       frame = pyjitPreviousFrame(frame))
    if (isDynamos(pyjitFrameFunction(frame)))
      return false;
  return true;
}

PyObject *ModuleCallsAccess::call(EagerPart &part, PyObject *module,
                                  PyObject *const *args, size_t nargsf,
                                  PyObject *kwnames, bool &answered) {
  static PyObject *const users =
      PyUnicode_InternFromString("_compiled_call_impl");
  if (!isFollowed(part, module))
    return nullptr;
  if (hasOwn(module, users)) { // the program compiles it in its own way
    answered = true;
    EagerPart plain(nullptr);
    return runModule(moduleCall, args, nargsf, kwnames);
  }
  ModuleCalls *self = self_of(part.modules.get());
  Entry *entry = entryOf(self, module);
  if (!entry || entry->declined)
    return nullptr;
  Py_ssize_t before = Py_REFCNT(module);
  if (!entry->compiled) {
    double spent = entry->calls ? entry->calls * entry->shortest : 0;
    if (spent < self->warmSeconds) {
      answered = true;
      return callCold(self, module, args, nargsf, kwnames);
    }
    beginCompiled(self, module);
    auto found = self->entries->find(module);
    if (found == self->entries->end() || !found->second.compiled)
      return nullptr;
    entry = &found->second;
  }
  answered = true;
  Reference compiled = entry->compiled;
  Reference alive = part.modules;
  return callCompiled(self, module, compiled, before, args, nargsf, kwnames);
}

//===----------------------------------------------------------------------===//
// Parts
//===----------------------------------------------------------------------===//

EagerPart::EagerPart(PyObject *given, PyObject *target)
    : modules(Reference::borrow(given)), own(nullptr), base(nullptr),
      outer(currentPart) {
  currentPart = this;
  if (!given)
    return;
  own = target && PyMethod_Check(target) &&
                PyMethod_GET_FUNCTION(target) == moduleCall
            ? PyMethod_GET_SELF(target)
            : target;
  base = pyjitCurrentFrame();
  ModuleCalls *calls = self_of(given);
  unsigned long thread = PyThread_get_thread_ident();
  if (calls->parts++ == 0) {
    calls->thread = thread;
    calls->ofSeveralThreads = false;
  }
  calls->ofSeveralThreads |= calls->thread != thread;
}

EagerPart::~EagerPart() {
  currentPart = outer;
  if (!modules)
    return;
  ModuleCalls *calls = self_of(modules.get());
  if (--calls->parts == 0 && !calls->answered->empty())
    dropOrphans(calls);
}

//===----------------------------------------------------------------------===//
// The type ModuleCalls
//===----------------------------------------------------------------------===//

namespace {

PyObject *create(PyTypeObject *type, PyObject *args, PyObject *) {
  PyObject *begin;
  double warmSeconds;
  if (!PyArg_ParseTuple(args, "Od:ModuleCalls", &begin, &warmSeconds))
    return nullptr;
  auto *self = reinterpret_cast<ModuleCalls *>(type->tp_alloc(type, 0));
  if (!self)
    return nullptr;
  self->begin = Py_NewRef(begin);
  self->warmSeconds = warmSeconds;
  self->entries = new std::unordered_map<PyObject *, Entry>();
  self->answered = new std::vector<PyObject *>();
  return reinterpret_cast<PyObject *>(self);
}

int traverse(PyObject *object, visitproc visit, void *arg) {
  Py_VISIT(Py_TYPE(object));
  Py_VISIT(self_of(object)->begin);
  for (auto &known : *self_of(object)->entries)
    Py_VISIT(known.second.compiled.get());
  return 0;
}

/// Its references go once the table is consistent again.
void forgetAll(ModuleCalls *self) {
  std::unordered_map<PyObject *, Entry> gone;
  gone.swap(*self->entries);
  self->answered->clear();
}

int clearReferences(PyObject *object) {
  Py_CLEAR(self_of(object)->begin);
  forgetAll(self_of(object));
  return 0;
}

void destroy(PyObject *object) {
  PyTypeObject *type = Py_TYPE(object);
  PyObject_GC_UnTrack(object);
  clearReferences(object);
  delete self_of(object)->entries;
  delete self_of(object)->answered;
  type->tp_free(object);
  Py_DECREF(type);
}

PyObject *clear(PyObject *self, PyObject *) {
  forgetAll(self_of(self));
  Py_RETURN_NONE;
}

/// What answers modules' calls.
PyObject *getCompiled(PyObject *self, void *) {
  PyObject *list = PyList_New(0);
  for (auto &known : *self_of(self)->entries)
    if (list && known.second.compiled &&
        PyList_Append(list, known.second.compiled.get()) < 0)
      Py_CLEAR(list);
  return list;
}

PyObject *followModuleCalls(PyObject *, PyObject *function) {
  if (!PyFunction_Check(function))
    return PyErr_Format(PyExc_TypeError,
                        "follow_module_calls: %R is no function", function);
  auto *object = reinterpret_cast<PyFunctionObject *>(function);
  if (!moduleCall && object->vectorcall) {
    runModule = object->vectorcall;
    moduleCall = Py_NewRef(function);
    PyFunction_SetVectorcall(object, callModule);
  }
  return PyBool_FromLong(moduleCall == function);
}

PyMethodDef methods[] = {{"clear", clear, METH_NOARGS, "Forgets all modules."},
                         {nullptr, nullptr, 0, nullptr}};

PyMemberDef members[] = {
    {"warm_seconds", T_DOUBLE, offsetof(ModuleCalls, warmSeconds), 0,
     "How long a module's calls take in eager before it is compiled."},
    {nullptr, 0, 0, 0, nullptr}};

PyGetSetDef getset[] = {{"compiled", getCompiled, nullptr,
                         "What answers modules' calls, in no order.", nullptr},
                        {nullptr, nullptr, nullptr, nullptr, nullptr}};

PyType_Slot slots[] = {{Py_tp_new, reinterpret_cast<void *>(create)},
                       {Py_tp_dealloc, reinterpret_cast<void *>(destroy)},
                       {Py_tp_traverse, reinterpret_cast<void *>(traverse)},
                       {Py_tp_clear, reinterpret_cast<void *>(clearReferences)},
                       {Py_tp_methods, methods},
                       {Py_tp_members, members},
                       {Py_tp_getset, getset},
                       {0, nullptr}};

PyType_Spec spec = {
    "pyjit._C.ModuleCalls", sizeof(ModuleCalls), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_IMMUTABLETYPE, slots};

PyMethodDef functions[] = {
    {"follow_module_calls", followModuleCalls, METH_O,
     "follow_module_calls(function) -> bool: from now on, calls of "
     "torch.nn.Module.__call__ in eager parts of compiled calls go through "
     "their ModuleCalls."},
    {nullptr, nullptr, 0, nullptr}};

} // namespace

bool addModuleCallsType(PyObject *module) {
  moduleCallsType = reinterpret_cast<PyTypeObject *>(
      PyType_FromModuleAndSpec(module, &spec, nullptr));
  return moduleCallsType &&
         PyModule_AddObjectRef(module, "ModuleCalls",
                               reinterpret_cast<PyObject *>(moduleCallsType)) ==
             0 &&
         PyModule_AddFunctions(module, functions) == 0;
}

bool isModuleCalls(PyObject *object) {
  return Py_IS_TYPE(object, moduleCallsType);
}

} // namespace pyjit::python
