//===- SlotCalls.cpp - Slots of builtin types that are called as methods --===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "builtins/Natives.h"

#include <optional>

using namespace pyjit::capture;

namespace {

/// A slot of a builtin type as a method: `dict.__setitem__(self, ...)`.
struct SlotCall {
  Recording &s;
  const std::string slot;
  PyObject *wrapper, *self;
  PyTypeObject *owner;
  const Call &call;

  bool is(const char *name, size_t arguments) const {
    return slot == name && call.args.size() == arguments;
  }
  bool isDict() const {
    return owner == &PyDict_Type || owner == &PyODict_Type;
  }

  /// Not dict's, called on an OrderedDict.
  bool isOwnMethod() const {
    return PyDict_Check(self) &&
           (owner == &PyODict_Type) == bool(PyODict_Check(self));
  }

  std::optional<ResultKind> init() const;
  std::optional<ResultKind> attribute() const;
  std::optional<ResultKind> container() const;
  std::optional<ResultKind> invocation() const;
};

} // namespace

std::optional<ResultKind> SlotCall::init() const {
  if (slot != "__init__")
    return std::nullopt;
  if (owner == &PyBaseObject_Type)
    return ResultKind::Known;
  bool plain = owner == &PyDict_Type || owner == &PyList_Type ||
               owner == &PySet_Type || owner == &PyODict_Type;
  if (plain && !s.objects.isExternal(self)) {
    for (size_t i = 1; i < call.positional(); ++i)
      if (owner == &PySet_Type)
        hashElements(s, call.args[i]);
      else
        s.containers.iterate(call.args[i]);
    return ResultKind::Known;
  }
  if (PyExceptionInstance_Check(self) ||
      (owner == &PyProperty_Type && !s.objects.isExternal(self)))
    return ResultKind::Known;
  return s.calls.unknownNative(call);
}

std::optional<ResultKind> SlotCall::attribute() const {
  if (call.args.size() < 2 || !PyUnicode_Check(call.args[1]))
    return std::nullopt;
  PyObject *name = call.args[1];
  bool ofModule = pyjitWrappedSlot(wrapper) ==
                  reinterpret_cast<void *>(PyModule_Type.tp_getattro);
  if (is("__getattribute__", 2) &&
      (ofModule || pyjitWrappedSlot(wrapper) ==
                       reinterpret_cast<void *>(PyObject_GenericGetAttr))) {
    Attributes::Found found = s.attributes.genericAttr(self, name);
    if (ofModule && found.kind == Attributes::Found::Absent)
      return std::nullopt; // the module's own `__getattr__` may answer
    return found.kind == Attributes::Found::Fresh ? ResultKind::Fresh
                                                  : ResultKind::Known;
  }
  if (is("__setattr__", 3) &&
      pyjitWrappedSlot(wrapper) ==
          reinterpret_cast<void *>(PyObject_GenericSetAttr)) {
    s.attributes.genericStore(self, name, call.args[2]);
    return ResultKind::Known;
  }
  if (is("__delattr__", 2) && owner == &PyBaseObject_Type) {
    s.attributes.genericStore(self, name, nullptr);
    return ResultKind::Known;
  }
  return std::nullopt;
}

std::optional<ResultKind> SlotCall::container() const {
  if (isDict() && is("__setitem__", 3)) {
    if (s.objects.isExternal(self) && !isOwnMethod())
      s.end(ReasonKind::EarlierObject,
            "a change of a " + typeName(self) + " from before the call");
    else
      s.containers.writeItem(self, call.args[1], call.args[2]);
    return ResultKind::Known;
  }
  if (isDict() && is("__delitem__", 2) &&
      (!s.objects.isExternal(self) || isOwnMethod())) {
    s.containers.writeItem(self, call.args[1], nullptr);
    return ResultKind::Known;
  }
  if (isDict() && is("__contains__", 2)) {
    s.containers.dictKey(self, call.args[1]);
    return ResultKind::Known;
  }
  bool sequence = owner == &PyTuple_Type || owner == &PyList_Type;
  if (sequence && is("__getitem__", 2)) {
    s.containers.readAll(self);
    return ResultKind::Fresh;
  }
  if (is("__len__", 1) &&
      !PyType_HasFeature(Py_TYPE(self), Py_TPFLAGS_HEAPTYPE)) {
    s.operators.lengthOf(self);
    return ResultKind::Known;
  }
  if (is("__len__", 1) && PyDict_Check(self)) {
    if (Node *node = s.objects.require(self))
      s.reads.length(node, PyDict_GET_SIZE(self));
    return ResultKind::Known;
  }
  if (is("__iter__", 1) && (isDict() || sequence)) {
    s.containers.readAll(self);
    return ResultKind::Fresh;
  }
  return std::nullopt;
}

std::optional<ResultKind> SlotCall::invocation() const {
  if (slot == "__get__" && PyFunction_Check(self))
    return ResultKind::Fresh;
  if (slot != "__call__")
    return std::nullopt;
  Call inner;
  inner.callable = self;
  inner.args.assign(call.args.begin() + 1, call.args.end());
  inner.kwnames = call.kwnames;
  if (owner == &PyType_Type && PyType_Check(self))
    return s.calls.callTypeDirectly(reinterpret_cast<PyTypeObject *>(self),
                                    inner);
  if (PyFunction_Check(self) || PyMethod_Check(self))
    return s.calls.call(inner);
  return std::nullopt;
}

ResultKind Calls::callWrapper(const char *name, PyObject *wrapper,
                              const Call &call) {
  PyObject *self = call.arg(0);
  PyTypeObject *owner = pyjitDescrType(pyjitIsMethodWrapper(wrapper)
                                           ? pyjitMethodWrapperDescr(wrapper)
                                           : wrapper);
  if (!self)
    return unknownNative(call);
  s.scalars.wrapper(name, call);
  SlotCall slot{s, name, wrapper, self, owner, call};
  for (auto step : {&SlotCall::init, &SlotCall::attribute, &SlotCall::container,
                    &SlotCall::invocation})
    if (std::optional<ResultKind> resultKind = (slot.*step)())
      return *resultKind;
  bool compares =
      slot.slot == "__eq__" || slot.slot == "__ne__" || slot.slot == "__hash__";
  if (compares && !ObjectTable::isTensor(self)) {
    for (PyObject *arg : call.args)
      s.containers.readDeep(arg);
    return ResultKind::Fresh;
  }
  s.end(ReasonKind::NativeFunction,
        "native slot " + std::string(owner->tp_name) + "." + name);
  return ResultKind::Fresh;
}
