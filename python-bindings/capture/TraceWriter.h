//===- TraceWriter.h - The trace of one recording ---------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the recorder adds to the trace builder of the C API: locations of
// instructions, Python's strings, and the types and values that are asked for
// all the time.
//
//===----------------------------------------------------------------------===//
#ifndef PYJIT_CAPTURE_TRACEWRITER_H
#define PYJIT_CAPTURE_TRACEWRITER_H

#include <Python.h>

#include "pyjit-c/Trace.h"

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace pyjit::capture {

#define PYJIT_OVERLOAD(STEM)                                                   \
  inline PyjitValue build(PyjitTrace *trace, PyjitLocation location,           \
                          const Pyjit##STEM##Op &op) {                         \
    return pyjitBuild##STEM(trace, location, &op);                             \
  }
PYJIT_TRACE_OPS(PYJIT_OVERLOAD)
#undef PYJIT_OVERLOAD

struct DestroyTrace {
  void operator()(PyjitTrace *trace) const { pyjitTraceDestroy(trace); }
};
using TraceHandle = std::unique_ptr<PyjitTrace, DestroyTrace>;

/// Views for one call of the builder.
inline PyjitString view(const std::string &text) {
  return {text.data(), text.size()};
}
inline PyjitString view(const char *text) {
  return {text, std::char_traits<char>::length(text)};
}
inline PyjitValues view(const std::vector<PyjitValue> &values) {
  return {values.data(), values.size()};
}
inline PyjitTypes view(const std::vector<PyjitType> &types) {
  return {types.data(), types.size()};
}
inline PyjitInts view(const std::vector<int64_t> &ints) {
  return {ints.data(), ints.size()};
}
inline PyjitOptionalInt some(int64_t value) { return {true, value}; }

/// A string as UTF-8, lone surrogates passed through.
std::string utf8(PyObject *unicode);

/// A place in an object, as reads and writes name it.
struct Selector {
  PyjitSelector kind = PyjitSelectorArg;
  PyjitAttribute key = nullptr;
  /// Of arguments and cells: the variable's name, for readers.
  bool labelled = false;
  std::string name;
  PyjitString label() const {
    return labelled ? view(name) : PyjitString{nullptr, 0};
  }
};

/// How much a recording holds, and has taken.
struct RecordedAmount {
  size_t operators = 0, instructions = 0;
  size_t weights = 0; ///< parameters that it has met
};

/// Builds one trace; `context` outlives it. Values are told by their numbers.
class TraceWriter {
public:
  TraceWriter(PyjitContext *context, const std::string &name);

  RecordedAmount amount;

  template <typename Op>
  PyjitValue add(const Op &op, PyjitLocation location = nullptr) {
    return build(trace.get(), location, op);
  }
  /// Hands the trace out; nothing can be added from then on.
  TraceHandle take() { return std::move(trace); }
  TraceHandle copy() const { return TraceHandle(pyjitTraceClone(trace.get())); }
  PyjitTraceEnd end() const { return pyjitTraceGetEnd(trace.get()); }
  void rewind(PyjitTraceEnd end) { pyjitTraceRewind(trace.get(), end); }
  void setFollowsSizes() { pyjitTraceSetFollowsSizes(trace.get()); }

  /// Location of an instruction, in a function called at `caller` (null:
  /// outermost).
  PyjitLocation location(PyCodeObject *code, int offset, PyjitLocation caller);

  PyjitType object(const std::string &typeName) {
    return pyjitTypeObject(context, view(typeName));
  }
  PyjitType tensor(const int64_t *sizes, const int64_t *strides, size_t rank,
                   PyjitElement element, const std::string &device) {
    return pyjitTypeTensor(context, sizes, strides, rank, element,
                           view(device));
  }

  PyjitAttribute none() { return pyjitAttributeNone(context); }
  PyjitAttribute boolean(bool value) {
    return pyjitAttributeBool(context, value);
  }
  PyjitAttribute integer(int64_t value) {
    return pyjitAttributeInt(context, value);
  }
  PyjitAttribute real(double value) {
    return pyjitAttributeFloat(context, value);
  }
  PyjitAttribute string(const std::string &value) {
    return pyjitAttributeString(context, view(value));
  }
  PyjitAttribute list(const std::vector<PyjitAttribute> &elements) {
    return pyjitAttributeList(context, elements.data(), elements.size());
  }
  PyjitAttribute device(const std::string &name) {
    return pyjitArgumentDevice(context, view(name));
  }
  /// The next operand, in an operator's arguments: a tensor, or a number.
  PyjitAttribute operand() { return pyjitArgumentOperand(context); }
  PyjitAttribute number(PyjitNumberForm form) {
    return pyjitArgumentNumber(context, form);
  }
  /// One flag of Torch's or Python's state.
  PyjitAttribute state(const char *flag, bool value) {
    PyjitString key = view(flag);
    PyjitAttribute truth = boolean(value);
    return pyjitAttributeDictionary(context, &key, &truth, 1);
  }
  /// The index of CUDA's current device.
  PyjitAttribute currentDevice(int64_t index) {
    PyjitString key = view("cuda_device");
    PyjitAttribute device = integer(index);
    return pyjitAttributeDictionary(context, &key, &device, 1);
  }
  PyjitContext *getContext() { return context; }

private:
  PyjitContext *context;
  TraceHandle trace;
  std::map<PyCodeObject *, std::string> files;
};

/// As MLIR writes them.
std::string textOf(PyjitType type);
std::string textOf(PyjitAttribute attribute);

} // namespace pyjit::capture

#endif // PYJIT_CAPTURE_TRACEWRITER_H
