//===- Guards.cpp - Carries out guard programs ----------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "Guards.h"

#include "ObjectReads.h"
#include "TensorGradients.h"
#include "TorchState.h"

#include "capture/tensors/AutocastCache.h"
#include "capture/tensors/TensorObject.h"

#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <cstring>
#include <numeric>

namespace pyjit::python {

/// What torch::autograd::impl::get_autograd_meta returns, or null.
static const torch::autograd::AutogradMeta *
autogradMetaOf(const c10::TensorImpl *impl) {
  return static_cast<const torch::autograd::AutogradMeta *>(
      impl->autograd_meta());
}

bool Guards::load(const PyjitGuardProgram &guards, PyObject *objects,
                  std::string &error) {
  if (guards.version != PYJIT_PROGRAMS_VERSION) {
    error = "guard program version " + std::to_string(guards.version) +
            ", this extension reads " + std::to_string(PYJIT_PROGRAMS_VERSION);
    return false;
  }
  program = &guards;
  watchedRegisters.resize(guards.numRegisters);
  if (!constants.load(guards.pools, objects, error))
    return false;
  splitAlways();
  findBorrowed();
  watchKeys.resize(guards.numWatches);
  for (uint32_t i = 0; i < guards.numWatches; ++i) {
    const PyjitWatch &entry = guards.watches[i];
    if (entry.numKeys == PYJIT_WATCH_ALL_KEYS)
      continue;
    for (uint32_t k = 0; k < entry.numKeys; ++k)
      watchKeys[i].push_back(
          constants.constant(guards.pools.lists[entry.firstKey + k]));
  }
  // An instance of a heap type may change its class without any event, so its
  // type check has to be repeated.
  for (uint32_t i = 0; i < guards.numWatched; ++i) {
    const PyjitInst &inst = guards.watched[i];
    if (inst.op != PYJIT_GUARD_TYPE_IS ||
        !(inst.flags & PYJIT_GUARD_FLAG_STATIC_TYPE))
      continue;
    auto *type = reinterpret_cast<PyTypeObject *>(constants.object(inst.imm));
    if (PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE))
      watchable = false;
  }
  return true;
}

bool Guards::check(Frame &frame, PyObject *const *args, Py_ssize_t nargs) {
  bool clean = watch.clean();
  if (clean && snapshot.taken()) {
    adoptRegisters(frame);
    // The arguments come first: they tell specializations apart.
    if (!run(rest.data(), rest.size(), frame, args, nargs))
      return false;
    if (snapshot.holds())
      return std::all_of(restTensors.begin(), restTensors.end(),
                         [&](uint32_t i) { return checkTensor(tensors[i]); });
    for (uint32_t owner : snapshot.changed())
      changing[owner] = true;
  }
  if (!checkAll(frame, args, nargs)) {
    // It has read over what the snapshot knows, which may hold again.
    frame.epoch = 0;
    return false;
  }
  if (clean && watchable)
    takeSnapshot(frame);
  return true;
}

bool Guards::checkAll(Frame &frame, PyObject *const *args, Py_ssize_t nargs) {
  return checkWatched(frame, args, nargs) &&
         run(always.data(), always.size(), frame, args, nargs) &&
         checkInstances() &&
         std::all_of(tensors.begin(), tensors.end(),
                     [&](const auto &check) { return checkTensor(check); });
}

void Guards::adoptRegisters(Frame &frame) const {
  if (frame.epoch == epoch)
    return;
  std::copy(watchedRegisters.begin(), watchedRegisters.end(),
            frame.registers.begin());
  frame.epoch = epoch;
}

/// Nothing in here or after it runs Python code until the call is answered, so
/// `watchedRegisters` and the tensors are this frame's.
bool Guards::checkWatched(Frame &frame, PyObject *const *args,
                          Py_ssize_t nargs) {
  if (watch.clean()) {
    adoptRegisters(frame);
    return true;
  }
  snapshot.clear(frame.dropped);
  unbound.resize(program->numInputs);
  std::iota(unbound.begin(), unbound.end(), 0);
  if (!run(program->watched, program->numWatched, frame, args, nargs))
    return false;
  frame.epoch = ++epoch;
  if (watchable)
    armWatch(frame);
  std::copy_n(frame.registers.begin(), watchedRegisters.size(),
              watchedRegisters.begin());
  for (TensorCheck &check : tensors)
    check.object = frame.registers[check.reg];
  for (InstanceCheck &check : instances) {
    check.object = frame.registers[check.reg];
    check.place = PyType_Check(check.object)
                      ? nullptr
                      : _PyObject_GetDictPtr(check.object);
    check.dict = frame.registers[check.dictReg];
  }
  return true;
}

/// Inputs that a watched dict holds: it tells before it lets go of one.
void Guards::findBorrowed() {
  std::vector<const PyjitInst *> origin(program->numRegisters);
  for (uint32_t i = 0; i < program->numWatched; ++i)
    if (program->watched[i].op < PYJIT_GUARD_NO_ATTR) // a read
      origin[program->watched[i].dst] = &program->watched[i];
  auto holds = [&](const PyjitWatch &entry, const PyjitInst &read) {
    if (entry.kind != PYJIT_WATCH_DICT || entry.reg != read.a)
      return false;
    const uint32_t *keys = program->pools.lists + entry.firstKey;
    return entry.numKeys == PYJIT_WATCH_ALL_KEYS ||
           std::find(keys, keys + entry.numKeys, read.b) !=
               keys + entry.numKeys;
  };
  for (uint32_t i = 0; i < program->numInputs; ++i) {
    const PyjitInst *read =
        isObjectInput(i) ? origin[program->inputs[i]] : nullptr;
    borrowed.push_back(
        read && (read->op == PYJIT_GUARD_KEY || read->op == PYJIT_GUARD_ITEM) &&
        std::any_of(program->watches, program->watches + program->numWatches,
                    [&](const auto &entry) { return holds(entry, *read); }));
  }
}

void Guards::splitAlways() {
  isWatched.assign(program->numRegisters, false);
  for (uint32_t i = 0; i < program->numWatched; ++i)
    if (program->watched[i].op < PYJIT_GUARD_NO_ATTR) // a read
      isWatched[program->watched[i].dst] = true;
  for (uint32_t i = 0; i < program->numAlways; ++i) {
    const PyjitInst &inst = program->always[i];
    if (inst.op == PYJIT_GUARD_KEPT_CAST) {
      keptCasts.push_back(inst);
      continue;
    }
    if (inst.op == PYJIT_GUARD_INSTANCE && inst.imm >= 0 && isWatched[inst.a] &&
        isWatched[inst.b]) {
      auto *type = reinterpret_cast<PyTypeObject *>(constants.object(inst.imm));
      instances.push_back({nullptr, nullptr, nullptr, type, inst.a, inst.b});
      continue;
    }
    if (inst.op == PYJIT_GUARD_TYPE_IS && i + 1 < program->numAlways &&
        isWatched[inst.a]) {
      const PyjitInst &next = program->always[i + 1];
      auto *type = reinterpret_cast<PyTypeObject *>(constants.object(inst.imm));
      if (next.op == PYJIT_GUARD_TENSOR && next.a == inst.a &&
          PyType_IsSubtype(
              type, reinterpret_cast<PyTypeObject *>(THPVariableClass))) {
        tensors.push_back(
            {nullptr, type, &program->pools.tensors[next.imm], inst.a});
        ++i;
        continue;
      }
    }
    always.push_back(inst);
  }
}

inline bool Guards::implMatches(const c10::TensorImpl &impl,
                                const PyjitTensorMeta &meta,
                                const torch::autograd::AutogradMeta *autograd,
                                bool layout) const {
  if (meta.flags & PYJIT_TENSOR_HAS_KEYSET &&
      impl.key_set().raw_repr() != meta.keyset)
    return false;
  // The keys imply the layout.
  if (impl.dim() != int64_t(meta.rank) ||
      c10::typeMetaToScalarType(impl.dtype()) != c10::ScalarType(meta.dtype) ||
      (!(meta.flags & PYJIT_TENSOR_HAS_KEYSET) &&
       impl.layout() != c10::kStrided))
    return false;
  c10::Device device = impl.device();
  if (device.type() != c10::DeviceType(meta.deviceType) ||
      (meta.deviceIndex >= 0 && device.index() != meta.deviceIndex))
    return false;
  const int64_t *dims = program->pools.ints + meta.dims;
  const int64_t *sizes = impl.sizes().data(), *strides = impl.strides().data();
  for (uint32_t d = 0; layout && d < meta.rank; ++d)
    if ((sizes[d] != dims[d] && dims[d] != PYJIT_ANY_DIM) ||
        (strides[d] != dims[meta.rank + d] &&
         dims[meta.rank + d] != PYJIT_ANY_DIM))
      return false;
  if (meta.flags & PYJIT_TENSOR_HAS_REQUIRES_GRAD) {
    // TensorImpl::requires_grad, mostly without its virtual call.
    bool requiresGrad =
        autograd && (autograd->requires_grad_ ||
                     (autograd->is_view_ ? autograd->requires_grad()
                                         : autograd->grad_fn_ != nullptr));
    if (requiresGrad != bool(meta.requiresGrad))
      return false;
  }
  return !(meta.flags & PYJIT_TENSOR_HAS_OFFSET) ||
         impl.storage_offset() == meta.offset;
}

/// Another class of an object keeps its dict at the same place.
bool Guards::checkInstances() const {
  bool same = true;
  for (const InstanceCheck &check : instances)
    same &= check.place && *check.place == check.dict &&
            Py_TYPE(check.object) == check.type;
  return same;
}

bool Guards::checkTensor(const TensorCheck &check) const {
  if (Py_TYPE(check.object) != check.type)
    return false;
  const c10::TensorImpl *impl = reinterpret_cast<THPVariable *>(check.object)
                                    ->cdata.unsafeGetTensorImpl();
  return impl && implMatches(*impl, *check.meta, autogradMetaOf(impl));
}

bool Guards::takeKeptCasts(Frame &frame) const {
  capture::CastBatch &batch = frame.castBatch;
  batch = capture::CastBatch(keptCasts.size());
  for (const PyjitInst &inst : keptCasts)
    batch.add(THPVariable_Unpack(frame.registers[inst.a]),
              at::ScalarType(program->pools.tensors[inst.imm].dtype));
  for (size_t i = 0; i < batch.size(); ++i) {
    const PyjitInst &inst = keptCasts[i];
    const PyjitTensorMeta &meta = program->pools.tensors[inst.imm];
    at::Tensor &cast = frame.keptCasts[inst.dst];
    cast = batch.take(i);
    const c10::TensorImpl *impl = cast.unsafeGetTensorImpl();
    if (!cast.defined() || capture::isSeenByPython(cast) ||
        !implMatches(*impl, meta, autogradMetaOf(impl)))
      return false;
  }
  return true;
}

void Guards::armWatch(Frame &frame) {
  std::vector<Watch::Dict> dicts;
  std::vector<PyObject *> functions;
  std::vector<PyTypeObject *> types;
  for (uint32_t i = 0; i < program->numWatches; ++i) {
    PyObject *holder = frame.registers[program->watches[i].reg];
    switch (program->watches[i].kind) {
    case PYJIT_WATCH_DICT:
      dicts.push_back(
          {holder, program->watches[i].numKeys == PYJIT_WATCH_ALL_KEYS
                       ? nullptr
                       : &watchKeys[i]});
      break;
    case PYJIT_WATCH_FUNCTION:
      functions.push_back(holder);
      break;
    case PYJIT_WATCH_TYPE:
      types.push_back(reinterpret_cast<PyTypeObject *>(holder));
      break;
    }
  }
  watchable = watch.arm(dicts, functions, types, frame.dropped);
}

bool Guards::run(const PyjitInst *insts, uint32_t count, Frame &frame,
                 PyObject *const *args, Py_ssize_t nargs) {
  for (uint32_t i = 0; i < count; ++i)
    if (!step(insts[i], frame, args, nargs))
      return false;
  return true;
}

bool Guards::tensorMatches(PyObject *object, const PyjitTensorMeta &meta,
                           bool layout) const {
  if (!capture::isTensorObject(object))
    return false;
  const c10::TensorImpl *impl =
      THPVariable_Unpack(object).unsafeGetTensorImpl();
  return implMatches(*impl, meta, autogradMetaOf(impl), layout);
}

bool Guards::step(const PyjitInst &inst, Frame &frame, PyObject *const *args,
                  Py_ssize_t nargs) {
  if (inst.op >= PYJIT_GUARD_NUMBER)
    return stepNumber(inst, frame);
  std::vector<PyObject *> &registers = frame.registers;
  PyObject *a = inst.op == PYJIT_GUARD_OBJECT || inst.op == PYJIT_GUARD_ARG ||
                        inst.op == PYJIT_GUARD_STATE ||
                        inst.op == PYJIT_GUARD_DISJOINT ||
                        inst.op == PYJIT_GUARD_UNALIASED
                    ? nullptr
                    : registers[inst.a];
  auto put = [&](PyObject *value) {
    registers[inst.dst] = value;
    return value != nullptr;
  };
  auto constant = [&] { return constants.constant(inst.b); };
  switch (inst.op) {
  case PYJIT_GUARD_OBJECT:
    return put(constants.object(inst.imm));
  case PYJIT_GUARD_ARG:
    return inst.imm < nargs && put(args[inst.imm]);
  case PYJIT_GUARD_ATTR:
    return put(readAttribute(a, constant(), constants.hash(inst.b)));
  case PYJIT_GUARD_DICT:
    return put(ownDict(a));
  case PYJIT_GUARD_ITEM:
    return put(PyDict_Check(a) ? readKey(a, constant(), constants.hash(inst.b))
                               : readIndex(a, inst.imm));
  case PYJIT_GUARD_KEY:
    return put(readKey(a, constant(), constants.hash(inst.b)));
  case PYJIT_GUARD_TYPE:
    return put(reinterpret_cast<PyObject *>(Py_TYPE(a)));
  case PYJIT_GUARD_TYPEATTR:
    return PyType_Check(a) &&
           put(_PyType_Lookup(reinterpret_cast<PyTypeObject *>(a), constant()));
  case PYJIT_GUARD_CODE:
    return PyFunction_Check(a) && put(PyFunction_GET_CODE(a));
  case PYJIT_GUARD_DEFAULTS:
    return PyFunction_Check(a) &&
           put(PyFunction_GET_DEFAULTS(a) ? PyFunction_GET_DEFAULTS(a)
                                          : Py_None);
  case PYJIT_GUARD_KWDEFAULTS:
    return PyFunction_Check(a) &&
           put(PyFunction_GET_KW_DEFAULTS(a) ? PyFunction_GET_KW_DEFAULTS(a)
                                             : Py_None);
  case PYJIT_GUARD_GLOBALS:
    return PyFunction_Check(a) && put(PyFunction_GET_GLOBALS(a));
  case PYJIT_GUARD_CELL: {
    PyObject *cell = closureCell(a, inst.imm);
    return cell && put(PyCell_GET(cell));
  }
  case PYJIT_GUARD_SLOT:
    return put(readSlot(a, constant()));
  case PYJIT_GUARD_GRAD:
  case PYJIT_GUARD_DATA: {
    PyObject *found =
        inst.op == PYJIT_GUARD_GRAD ? readGradient(a) : readNumber(a);
    if (found)
      frame.dropped.push_back(Reference::steal(found));
    return put(found);
  }
  case PYJIT_GUARD_FIELD:
    if (PyObject *made = PyUnicode_CompareWithASCIIString(constant(), "maxlen")
                             ? readIteratorNumber(a, constant(), frame.asked)
                             : readDequeBound(a, constant())) {
      frame.dropped.push_back(Reference::steal(made));
      return put(made);
    }
    return put(readField(a, constant()));

  case PYJIT_GUARD_NO_ATTR:
    return !readAttribute(a, constant(), constants.hash(inst.b));
  case PYJIT_GUARD_NO_KEY:
    return PyDict_Check(a)     ? !readKey(a, constant(), constants.hash(inst.b))
           : PyAnySet_Check(a) ? PySet_Contains(a, constant()) == 0
                               : false;
  case PYJIT_GUARD_NO_TYPEATTR:
    return PyType_Check(a) &&
           !_PyType_Lookup(reinterpret_cast<PyTypeObject *>(a), constant());
  case PYJIT_GUARD_NO_CELL: {
    PyObject *cell = closureCell(a, inst.imm);
    return cell && !PyCell_GET(cell);
  }
  case PYJIT_GUARD_NO_SLOT:
    return !readSlot(a, constant());

  case PYJIT_GUARD_TYPE_IS:
    return reinterpret_cast<PyObject *>(Py_TYPE(a)) ==
           constants.object(inst.imm);
  case PYJIT_GUARD_IS:
    return a == constants.object(inst.imm);
  case PYJIT_GUARD_IS_CONST:
    return a == constant();
  case PYJIT_GUARD_EQ_INT: {
    if (!PyLong_CheckExact(a))
      return false;
    int overflow;
    long long value = PyLong_AsLongLongAndOverflow(a, &overflow);
    return !overflow && value == inst.imm;
  }
  case PYJIT_GUARD_EQ_FLOAT: {
    if (!PyFloat_CheckExact(a))
      return false;
    double value = PyFloat_AS_DOUBLE(a);
    return std::memcmp(&value, &inst.imm, sizeof value) == 0;
  }
  case PYJIT_GUARD_EQ_STR:
    return a == constant() ||
           (PyUnicode_CheckExact(a) && PyUnicode_Compare(a, constant()) == 0);
  case PYJIT_GUARD_EQ:
    return sameConstant(a, constant());
  case PYJIT_GUARD_LENGTH:
    return lengthOf(a) == inst.imm;
  case PYJIT_GUARD_KEYS:
    return keysAre(a, constant());
  case PYJIT_GUARD_TABLE:
    return tableIs(a, constant());
  case PYJIT_GUARD_SAME:
    return a == registers[inst.b];
  case PYJIT_GUARD_DISTINCT:
    return a != registers[inst.b];
  case PYJIT_GUARD_TENSOR:
    return tensorMatches(a, program->pools.tensors[inst.imm]);
  case PYJIT_GUARD_DISJOINT:
    return disjoint.check(program->pools.lists + inst.a, inst.b, inst.imm,
                          registers);
  case PYJIT_GUARD_UNALIASED:
    return distinct.check(program->pools.lists + inst.a, inst.b, inst.imm,
                          registers);
  case PYJIT_GUARD_UNHOOKED:
    return isUnhooked(a);
  case PYJIT_GUARD_STATE:
    return stateMatches(program->pools.states[inst.imm]);
  case PYJIT_GUARD_INSTANCE:
    return instanceDict(a) == registers[inst.b] &&
           (inst.imm < 0 || reinterpret_cast<PyObject *>(Py_TYPE(a)) ==
                                constants.object(inst.imm));
  case PYJIT_GUARD_HOLDS:
    return PyDict_Check(a)
               ? readKey(a, constant(), constants.hash(inst.b)) != nullptr
               : PyAnySet_Check(a) && PySet_Contains(a, constant()) == 1;
  }
  return false; // an opcode of a newer compiler: refuse
}

} // namespace pyjit::python
