//===- Mock.cpp - Carries out mock programs -------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "Mock.h"

#include "CPython.h"
#include "ObjectReads.h"
#include "Reference.h"
#include "Sets.h"

#include "capture/breaks/Continuation.h"

#include <torch/csrc/Size.h>
#include <torch/csrc/autograd/python_variable.h>

#include <algorithm>

namespace pyjit::python {

void setVersion(const at::TensorBase &tensor, int64_t version) {
  const auto &counter = tensor.unsafeGetTensorImpl()->version_counter();
  // A copy shares the count.
  c10::VariableVersion(counter).set_version(version);
}

namespace {

/// A result of the launch: whoever computed it may have written it in place,
/// and the call has made it just now.
PyObject *wrapResult(const at::Tensor &tensor) {
  if (!tensor
           .defined()) // an input's new contents, which the launch has written
    Py_RETURN_NONE;
  if (!tensor.is_inference() && tensor._version() != 0)
    setVersion(tensor, 0);
  return THPVariable_Wrap(tensor);
}

/// As MAKE_FUNCTION does.
template <typename Element> PyObject *makeFunction(Element element) {
  PyObject *made = PyFunction_New(element(0), element(1));
  if (!made)
    return nullptr;
  auto *function = reinterpret_cast<PyFunctionObject *>(made);
  auto part = [&](uint32_t i, PyObject *&place) {
    if (element(i) != Py_None)
      place = Py_NewRef(element(i));
  };
  part(2, function->func_defaults);
  part(3, function->func_kwdefaults);
  part(4, function->func_annotations);
  part(5, function->func_closure);
  return made;
}

} // namespace

bool Mock::load(const PyjitMockProgram &mock, PyObject *objects,
                std::string &error) {
  if (mock.version != PYJIT_PROGRAMS_VERSION) {
    error = "mock program version " + std::to_string(mock.version) +
            ", this extension reads " + std::to_string(PYJIT_PROGRAMS_VERSION);
    return false;
  }
  program = &mock;
  findExternals();
  return constants.load(mock.pools, objects, error);
}

void Mock::findExternals() {
  std::vector<bool> used(program->firstResult);
  auto use = [&](uint32_t reg) {
    if (reg < program->firstResult)
      used[reg] = true;
  };
  auto useList = [&](uint32_t first, uint64_t count) {
    for (uint64_t i = 0; i < count; ++i)
      use(program->pools.lists[first + i]);
  };
  for (uint32_t i = 0; i < program->numInsts; ++i) {
    const PyjitInst &inst = program->insts[i];
    // Each op is named: a register that is left out dangles where an effect
    // drops the last holder of what it borrows.
    switch (PyjitMockOp(inst.op)) {
    case PYJIT_MOCK_CONST:
    case PYJIT_MOCK_OBJECT:
    case PYJIT_MOCK_DICT:
    case PYJIT_MOCK_BOX:
      break;
    case PYJIT_MOCK_TUPLE:
    case PYJIT_MOCK_LIST:
    case PYJIT_MOCK_SET:
    case PYJIT_MOCK_FROZENSET:
    case PYJIT_MOCK_SIZE:
    case PYJIT_MOCK_NEW:
    case PYJIT_MOCK_ITERATOR:
    case PYJIT_MOCK_CELL:
    case PYJIT_MOCK_GENERATOR:
      useList(inst.a, inst.b);
      break;
    case PYJIT_MOCK_FUNCTION:
      useList(inst.a, 6);
      break;
    case PYJIT_MOCK_SLICE:
    case PYJIT_MOCK_RANGE:
    case PYJIT_MOCK_RANGE_ITERATOR:
      useList(inst.a, 3);
      break;
    case PYJIT_MOCK_ITEM:
      useList(inst.a, 1);
      break;
    case PYJIT_MOCK_METHOD:
    case PYJIT_MOCK_TOKEN:
      useList(inst.a, 2);
      break;
    case PYJIT_MOCK_SET_OF_TABLE:
    case PYJIT_MOCK_FROZENSET_OF_TABLE:
    case PYJIT_MOCK_DEQUE:
      useList(inst.a, inst.b);
      use(inst.imm);
      break;
    case PYJIT_MOCK_REPLACE:
      use(inst.a);
      useList(inst.b, inst.imm);
      break;
    case PYJIT_MOCK_VIEW:
      use(inst.a);
      if (inst.b) {
        const int64_t *symbols = program->pools.ints + inst.b - 1;
        for (int64_t i = 0; i < symbols[0]; ++i)
          use(symbols[1 + i]);
      }
      break;
    case PYJIT_MOCK_COPY_BACK:
    case PYJIT_MOCK_SET_ATTR:
    case PYJIT_MOCK_SET_ITEM:
    case PYJIT_MOCK_SET_TYPEATTR:
    case PYJIT_MOCK_SET_CELL:
    case PYJIT_MOCK_SET_SLOT:
    case PYJIT_MOCK_SET_STORAGE:
    case PYJIT_MOCK_SET_GRAD:
    case PYJIT_MOCK_SET_DATA:
    case PYJIT_MOCK_APPEND:
      use(inst.b);
      [[fallthrough]];
    case PYJIT_MOCK_DEL_ATTR:
    case PYJIT_MOCK_DEL_ITEM:
    case PYJIT_MOCK_DEL_TYPEATTR:
    case PYJIT_MOCK_DEL_CELL:
    case PYJIT_MOCK_DEL_SLOT:
    case PYJIT_MOCK_CLEAR:
    case PYJIT_MOCK_ADVANCE:
    case PYJIT_MOCK_REQUIRE_GRAD:
    case PYJIT_MOCK_FREED_GRAPH:
    case PYJIT_MOCK_DIFFERENTIABLE:
    case PYJIT_MOCK_RETURN:
      use(inst.a);
    }
  }
  for (uint32_t reg = 0; reg < used.size(); ++reg)
    if (used[reg])
      guardRegisters.push_back(reg);
}

PyObject *Mock::run(std::vector<PyObject *> &registers,
                    const std::vector<rt::Number> &numbers,
                    const std::vector<at::Tensor> &results,
                    std::vector<at::Tensor> &views) {
  // Registers from the first result on are this call's own references.
  std::fill(registers.begin() + program->firstResult, registers.end(), nullptr);
  bool ok = true;
  for (uint32_t i = 0; ok && i < program->numResults; ++i)
    ok = (registers[program->firstResult + i] = wrapResult(results[i])) !=
         nullptr;
  PyObject *returned = nullptr;
  for (uint32_t i = 0; ok && i < program->numInsts; ++i) {
    const PyjitInst &inst = program->insts[i];
    if (inst.op == PYJIT_MOCK_RETURN) {
      returned = Py_NewRef(registers[inst.a]);
      break;
    }
    if (inst.op == PYJIT_MOCK_BOX) {
      const rt::Number &number = numbers[inst.a];
      registers[inst.dst] = number.isFloat
                                ? PyFloat_FromDouble(number.real)
                                : PyLong_FromLongLong(number.integer);
      ok = registers[inst.dst] != nullptr;
      continue;
    }
    if (inst.op == PYJIT_MOCK_DIFFERENTIABLE)
      views.push_back(THPVariable_Unpack(registers[inst.a]));
    else
      ok = step(inst, registers);
  }
  for (uint32_t i = program->firstResult; i < registers.size(); ++i)
    Py_CLEAR(registers[i]);
  if (ok && !returned)
    PyErr_SetString(PyExc_SystemError, "pyjit: mock program returns nothing");
  return returned;
}

PyObject *Mock::makeTuple(const std::vector<PyObject *> &registers,
                          uint32_t first, uint32_t count) const {
  PyObject *tuple = PyTuple_New(count);
  for (uint32_t i = 0; tuple && i < count; ++i)
    PyTuple_SET_ITEM(tuple, i,
                     Py_NewRef(registers[program->pools.lists[first + i]]));
  return tuple;
}

/// What `item()` gives of a tensor of f64, i64 or i1.
PyObject *Mock::makeNumber(PyObject *object) {
  at::Tensor tensor = THPVariable_Unpack(object);
  at::Scalar number;
  if (tensor.is_cpu()) {
    const void *data = tensor.const_data_ptr();
    switch (tensor.scalar_type()) {
    case at::kDouble:
      return PyFloat_FromDouble(*static_cast<const double *>(data));
    case at::kLong:
      return PyLong_FromLongLong(*static_cast<const int64_t *>(data));
    case at::kBool:
      return PyBool_FromLong(*static_cast<const bool *>(data));
    default:
      break;
    }
  }
  std::string error;
  PyThreadState *thread = PyEval_SaveThread();
  try {
    number = tensor.item();
  } catch (const std::exception &caught) {
    error = caught.what();
  }
  PyEval_RestoreThread(thread);
  if (!error.empty()) {
    PyErr_Format(PyExc_RuntimeError, "pyjit: a tensor's number: %s",
                 error.c_str());
    return nullptr;
  }
  if (number.isBoolean())
    return PyBool_FromLong(number.toBool());
  return number.isFloatingPoint() ? PyFloat_FromDouble(number.toDouble())
                                  : PyLong_FromLongLong(number.toLong());
}

PyObject *Mock::makeInstance(const PyjitInst &inst,
                             const std::vector<PyObject *> &registers) const {
  auto *type = reinterpret_cast<PyTypeObject *>(constants.object(inst.imm));
  // The allocator of the builtin type that the class derives from, as
  // object.__new__, dict.__new__, ... would run it; no __new__ or __init__ of
  // the user's.
  PyTypeObject *builtin = type;
  while (PyType_HasFeature(builtin, Py_TPFLAGS_HEAPTYPE))
    builtin = builtin->tp_base;
  PyObject *arguments = nullptr;
  if (PyType_IsSubtype(type, &PyTuple_Type)) {
    // A tuple with named fields from C is made by its own type.
    if (type->tp_base == &PyTuple_Type && type->tp_dict &&
        PyDict_GetItemString(type->tp_dict, "n_sequence_fields"))
      builtin = type;
    PyObject *elements = makeTuple(registers, inst.a, inst.b);
    arguments = elements ? PyTuple_Pack(1, elements) : nullptr;
    Py_XDECREF(elements);
  } else {
    arguments = PyTuple_New(0);
  }
  if (!arguments)
    return nullptr;
  PyObject *object = builtin->tp_new(type, arguments, nullptr);
  Py_DECREF(arguments);
  if (object && PyList_Check(object))
    for (uint32_t i = 0; i < inst.b; ++i)
      if (PyList_Append(object, registers[program->pools.lists[inst.a + i]]) <
          0) {
        Py_DECREF(object);
        return nullptr;
      }
  return object;
}

static PyObject *dequeType() {
  static PyObject *const type = [] {
    PyObject *module = PyImport_ImportModule("collections");
    PyObject *found =
        module ? PyObject_GetAttrString(module, "deque") : nullptr;
    Py_XDECREF(module);
    return found;
  }();
  return type;
}

/// CPython made one of these three numbers, so that its end fits, too.
static PyObject *makeRangeIterator(PyObject *next, PyObject *step,
                                   PyObject *left) {
  long first = PyLong_AsLong(next), by = PyLong_AsLong(step),
       count = PyLong_AsLong(left), end;
  if (PyErr_Occurred())
    return nullptr;
  if (__builtin_mul_overflow(count, by, &end) ||
      __builtin_add_overflow(first, end, &end)) {
    PyErr_SetString(PyExc_SystemError, "pyjit: a range that has no end");
    return nullptr;
  }
  PyObject *range = PyObject_CallFunction(
      reinterpret_cast<PyObject *>(&PyRange_Type), "lll", first, end, by);
  PyObject *iterator = range ? PyObject_GetIter(range) : nullptr;
  Py_XDECREF(range);
  return iterator;
}

/// One over a container, or over what others hand on.
PyObject *Mock::makeIterator(const PyjitInst &inst,
                             const std::vector<PyObject *> &registers) const {
  PyObject *elements = makeTuple(registers, inst.a, inst.b);
  if (!elements)
    return nullptr;
  PyObject *type = constants.object(inst.imm);
  PyObject *iterator =
      pyjitMakeIterator(reinterpret_cast<PyTypeObject *>(type), elements);
  Py_DECREF(elements);
  return iterator;
}

bool Mock::step(const PyjitInst &inst, std::vector<PyObject *> &registers) {
  auto put = [&](PyObject *value) {
    registers[inst.dst] = value;
    return value != nullptr;
  };
  auto element = [&](uint32_t i) {
    return registers[program->pools.lists[inst.a + i]];
  };
  switch (inst.op) {
  case PYJIT_MOCK_CONST:
    return put(Py_NewRef(constants.constant(inst.b)));
  case PYJIT_MOCK_OBJECT:
    return put(Py_NewRef(constants.object(inst.imm)));
  case PYJIT_MOCK_TUPLE:
    return put(makeTuple(registers, inst.a, inst.b));
  case PYJIT_MOCK_LIST: {
    PyObject *list = PyList_New(inst.b);
    for (uint32_t i = 0; list && i < inst.b; ++i)
      PyList_SET_ITEM(list, i, Py_NewRef(element(i)));
    return put(list);
  }
  case PYJIT_MOCK_SET:
  case PYJIT_MOCK_FROZENSET: {
    PyObject *elements = makeTuple(registers, inst.a, inst.b);
    if (!elements)
      return false;
    PyObject *set = inst.op == PYJIT_MOCK_SET ? PySet_New(elements)
                                              : PyFrozenSet_New(elements);
    Py_DECREF(elements);
    return put(set);
  }
  case PYJIT_MOCK_SET_OF_TABLE:
  case PYJIT_MOCK_FROZENSET_OF_TABLE: {
    PyObject *elements = makeTuple(registers, inst.a, inst.b);
    PyObject *set = elements
                        ? pyjitMakeSet(inst.op == PYJIT_MOCK_FROZENSET_OF_TABLE,
                                       elements, registers[inst.imm])
                        : nullptr;
    Py_XDECREF(elements);
    return put(set);
  }
  case PYJIT_MOCK_DEQUE: {
    PyObject *elements = makeTuple(registers, inst.a, inst.b);
    PyObject *deque =
        elements ? PyObject_CallFunctionObjArgs(dequeType(), elements,
                                                registers[inst.imm], nullptr)
                 : nullptr;
    Py_XDECREF(elements);
    return put(deque);
  }
  case PYJIT_MOCK_DICT:
    return put(PyDict_New());
  case PYJIT_MOCK_SLICE:
    return put(PySlice_New(element(0), element(1), element(2)));
  case PYJIT_MOCK_RANGE:
    return put(PyObject_CallFunctionObjArgs(
        reinterpret_cast<PyObject *>(&PyRange_Type), element(0), element(1),
        element(2), nullptr));
  case PYJIT_MOCK_RANGE_ITERATOR:
    return put(makeRangeIterator(element(0), element(1), element(2)));
  case PYJIT_MOCK_ITERATOR:
    return put(makeIterator(inst, registers));
  case PYJIT_MOCK_GENERATOR: {
    Reference values =
        Reference::steal(makeTuple(registers, inst.a + 1, inst.b - 1));
    return values && put(capture::callWithState(element(0), values.get()));
  }
  case PYJIT_MOCK_CELL:
    return put(PyCell_New(inst.b ? element(0) : nullptr));
  case PYJIT_MOCK_FUNCTION:
    return put(makeFunction(element));
  case PYJIT_MOCK_TOKEN:
    return put(PyContextVar_Set(element(0), element(1)));
  case PYJIT_MOCK_ITEM:
    return put(makeNumber(element(0)));
  case PYJIT_MOCK_METHOD:
    return put(PyMethod_New(element(0), element(1)));
  case PYJIT_MOCK_SIZE: {
    PyObject *elements = makeTuple(registers, inst.a, inst.b);
    if (!elements)
      return false;
    auto *type = reinterpret_cast<PyObject *>(&THPSizeType);
    PyObject *size = PyObject_CallOneArg(type, elements);
    Py_DECREF(elements);
    return put(size);
  }
  case PYJIT_MOCK_NEW:
    return put(makeInstance(inst, registers));
  case PYJIT_MOCK_VIEW:
    return put(makeView(inst, registers));
  default:
    return write(inst, registers);
  }
}

bool Mock::writesBack(uint32_t reg) const {
  return std::any_of(program->insts, program->insts + program->numInsts,
                     [&](const PyjitInst &inst) {
                       return inst.op == PYJIT_MOCK_COPY_BACK && inst.a == reg;
                     });
}

} // namespace pyjit::python
