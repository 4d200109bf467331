//===- Natives.h - Native functions that the recorder models ----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef PYJIT_CAPTURE_NATIVES_H
#define PYJIT_CAPTURE_NATIVES_H

#include "Recording.h"

#include <optional>

namespace pyjit::capture {

/// Records what the function is about to read and says what it returns.
using NativeHandler = ResultKind (*)(Recording &, const Call &);

/// What "module:attribute.path" names, a new reference; null, and no error,
/// where it does not exist.
PyObject *findObject(const char *path);

/// Handlers by method definition: one entry serves a function however it is
/// reached (bound, unbound, through a module).
class NativeTable {
public:
  static const NativeTable &get();
  /// Adds what did not exist when the table was made.
  static void extend(void (*addTo)(NativeTable &)) { addTo(own()); }
  NativeHandler find(PyMethodDef *def) const {
    auto it = functions.find(def);
    return it == functions.end() ? nullptr : it->second;
  }
  NativeHandler find(PyTypeObject *type) const {
    auto it = types.find(type);
    return it == types.end() ? nullptr : it->second;
  }

  void add(PyObject *callable, NativeHandler handler);
  /// "module:attribute.path"; a name that does not exist is left out.
  void add(const char *path, NativeHandler handler);
  /// All methods of a type that have no handler yet.
  void addMethods(PyTypeObject *type, NativeHandler handler);
  void addType(PyTypeObject *type, NativeHandler handler) {
    types[type] = handler;
  }

private:
  static NativeTable &own();

  std::unordered_map<PyMethodDef *, NativeHandler> functions;
  std::unordered_map<PyTypeObject *, NativeHandler> types;
};

void addBuiltins(NativeTable &table);
void addContainerMethods(NativeTable &table);
void addTorch(NativeTable &table);
/// Autograd's engine.
void addBackward(NativeTable &table);
/// math, functools, operator, deque, copyreg, locks.
void addLibrary(NativeTable &table);
/// Autocast and inference mode.
void addModes(NativeTable &table);
/// sorted, min, max, and what picks the key: operator.itemgetter and the like.
void addOrder(NativeTable &table);
/// map, filter, reversed, itertools.
void addIterators(NativeTable &table);
/// Regular expressions, numpy's numbers, namespaces: made of values alone.
void addPlain(NativeTable &table);
/// str.format and str.format_map.
void addFormats(NativeTable &table);
/// warnings.warn.
void addWarnings(NativeTable &table);

/// A warning that native code gives about the frame that calls it
/// (`PyErr_WarnEx`): one that may be shown is a graph break.
void warnOf(Recording &s, PyObject *category, const std::string &text);
/// torch.autograd.Function.
void addAutograd(NativeTable &table);
/// torch.func.
void addTransforms(NativeTable &table);
/// torch.cuda's questions.
void addDevices(NativeTable &table);
/// contextvars.
void addContext(NativeTable &table);

/// What reasons call a native function.
std::string functionName(PyObject *callable);
/// `ref()`: a weak reference's target never changes, it only dies.
ResultKind callWeakReference(Recording &recording, const Call &call);
/// A functools.lru_cache that holds the answer: read out of its dict.
ResultKind callCached(Recording &recording, const Call &call);
/// Functions compiled by torch.jit.script, which call operators only.
bool isScriptFunction(PyObject *object);
ResultKind callScript(Recording &recording, const Call &call);
/// `torch.autograd.Function.apply` of what requires grad: eager makes a node
/// whose backward is the user's.
bool appliesDerivative(Recording &recording, const Call &call);
/// What stands behind `torch.ops.namespace.name`.
bool isTorchOperator(PyObject *object);

/// Functions of Torch's that Dynamo leaves alone (`Optimizer.zero_grad`) import
/// it and make their own wrapper in their first call. What they keep depends on
/// nothing else: let it be over, or each first training step would have graph
/// breaks there.
void wrapForDynamo(PyObject *callable);
/// Before a Python function is called: what torch.cuda looks up once for all
/// (the number of devices, by other libraries), it has then.
void prepareDevices(PyObject *function);
/// Whether it calls `torch.get_default_device()` where guards know the answer.
bool asksDefaultDevice(Recording &recording, const Call &call);
/// Likewise: rules that vmap registers in its first call.
void prepareTransforms(Recording &recording, PyObject *function);
/// A function that tells an order of products by the shapes of tensors, or
/// nothing if it is another one.
std::optional<ResultKind> callContractionPath(Recording &recording,
                                              const Call &call);
/// Once Dynamo has compiled something, it notes every nn.Module that is made in
/// a weak table of its own.
bool isModuleMark(PyObject *object);
ResultKind callModuleMark(Recording &recording, const Call &call);

/// operator.itemgetter, attrgetter and methodcaller.
bool isGetter(PyObject *object);
ResultKind callGetter(Recording &recording, const Call &call);
/// A functools.partial's function and arguments, joined with those of `call`.
bool partialParts(Recording &recording, PyObject *partial, Call &out,
                  const Call &call);
/// numpy's scalars: numbers that never change.
bool isNumpyNumber(PyObject *object);
/// Those, ranges, and Torch's devices: told apart by their contents alone.
bool isByValue(PyObject *object);
bool isNumpyNumberType(PyTypeObject *type);
/// An element-wise function of numpy's, given numbers alone.
bool isNumpyFunction(PyObject *object);
ResultKind callNumpy(Recording &recording, const Call &call);

/// Arguments are values or immutable structures of them; result is new.
ResultKind nativePure(Recording &s, const Call &call);
/// Reads one level of its container arguments; result is new.
ResultKind nativeShallow(Recording &s, const Call &call);
/// What C code reads of what it walks over when it hashes each element.
void hashElements(Recording &s, PyObject *from);
/// Likewise the keys of what a dict is made of: pairs, or an iterator.
void hashPairs(Recording &s, PyObject *pairs);
/// Reads nothing that can change.
ResultKind nativeNothing(Recording &s, const Call &call);

} // namespace pyjit::capture

#endif // PYJIT_CAPTURE_NATIVES_H
