//===- Trace.cpp - Traces, and building them, behind a C API --------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "Objects.h"

#include "dialects/refgraph/IR/PythonValues.h"
#include "dialects/refgraph/Transforms/SegmentAttributes.h"
#include "pyjit/Compiler/Session.h"
#include "pyjit/Operators/CallArguments.h"

using namespace mlir;
using namespace pyjit;

static MLIRContext *get(PyjitContext *context) {
  return &context->context->get();
}

static PyjitType toC(Type type) {
  return static_cast<PyjitType>(type.getAsOpaquePointer());
}
static PyjitAttribute toC(Attribute attribute) {
  return static_cast<PyjitAttribute>(attribute.getAsOpaquePointer());
}
static PyjitLocation toC(LocationAttr location) {
  return static_cast<PyjitLocation>(location.getAsOpaquePointer());
}
static Type toCpp(PyjitType type) { return Type::getFromOpaquePointer(type); }
static Attribute toCpp(PyjitAttribute attribute) {
  return Attribute::getFromOpaquePointer(attribute);
}
static Location toCpp(PyjitLocation location) {
  return cast<LocationAttr>(Attribute::getFromOpaquePointer(location));
}

//===----------------------------------------------------------------------===//
// Contexts, text
//===----------------------------------------------------------------------===//

PyjitContext *pyjitContextCreate(void) {
  return new PyjitContext{std::make_shared<compiler::Context>()};
}

void pyjitContextDestroy(PyjitContext *context) { delete context; }

PyjitString pyjitTextGet(const PyjitText *text) { return toC(text->text); }
void pyjitTextDestroy(PyjitText *text) { delete text; }

template <typename T> static PyjitText *printed(T value) {
  auto *text = new PyjitText;
  llvm::raw_string_ostream os(text->text);
  os << value;
  return text;
}

PyjitText *pyjitTypePrint(PyjitType type) { return printed(toCpp(type)); }
PyjitText *pyjitAttributePrint(PyjitAttribute attribute) {
  return printed(toCpp(attribute));
}

//===----------------------------------------------------------------------===//
// Traces
//===----------------------------------------------------------------------===//

PyjitTrace *pyjitTraceCreate(PyjitContext *context, PyjitString name) {
  return new PyjitTrace{
      compiler::Trace::create(context->context, toStringRef(name)), {}};
}

PyjitTrace *pyjitTraceParse(PyjitContext *context, PyjitString text,
                            PyjitDiagnosticFn diagnostic, void *user) {
  compiler::Session session({}, toFunction(diagnostic, user), context->context);
  compiler::Trace trace = session.parse(toStringRef(text));
  if (!trace)
    return nullptr;
  if (!trace.getOp()) {
    trace.module->emitError("holds no refgraph.trace");
    return nullptr;
  }
  return new PyjitTrace{std::move(trace), {}};
}

PyjitTrace *pyjitTraceClone(const PyjitTrace *trace) {
  return new PyjitTrace{trace->trace.clone(), {}, trace->spoiled};
}

void pyjitTraceDestroy(PyjitTrace *trace) { delete trace; }

PyjitText *pyjitTracePrint(const PyjitTrace *trace) {
  return new PyjitText{trace->trace.print()};
}

void pyjitTraceSetFollowsSizes(PyjitTrace *trace) {
  refgraph::TraceOp op = trace->trace.getOp();
  op->setAttr(refgraph::segment::kFollowsSizes, UnitAttr::get(op.getContext()));
}

PyjitTraceEnd pyjitTraceGetEnd(const PyjitTrace *trace) {
  Block &body = trace->trace.getOp().getBody().front();
  return {PyjitValue(trace->values.size()),
          body.empty() ? nullptr : &body.back()};
}

void pyjitTraceRewind(PyjitTrace *trace, PyjitTraceEnd end) {
  Block &body = trace->trace.getOp().getBody().front();
  trace->values.resize(end.nextValue);
  while (!body.empty() && &body.back() != end.lastOperation)
    body.back().erase();
}

bool pyjitTraceEquals(const PyjitTrace *a, const PyjitTrace *b) {
  return a->trace.equals(b->trace);
}

int pyjitTraceCudaDevice(const PyjitTrace *trace) {
  std::optional<unsigned> device = trace->trace.getCudaDevice();
  return device ? int(*device) : -1;
}

bool pyjitTraceLiftsSizes(const PyjitTrace *trace) {
  return trace->trace.liftsSizes();
}

bool pyjitTraceComputesSizes(const PyjitTrace *trace) {
  return trace->trace.computesSizes();
}

bool pyjitTraceDecides(const PyjitTrace *trace) {
  return trace->trace.decides();
}

bool pyjitTraceIsCostly(const PyjitTrace *trace, size_t index) {
  return trace->trace.isCostly(index);
}

//===----------------------------------------------------------------------===//
// Locations and types
//===----------------------------------------------------------------------===//

PyjitLocation pyjitLocationFile(PyjitContext *context, PyjitString file,
                                uint32_t line, uint32_t column) {
  return toC(LocationAttr(
      FileLineColLoc::get(get(context), toStringRef(file), line, column)));
}

PyjitLocation pyjitLocationCall(PyjitLocation callee, PyjitLocation caller) {
  return toC(LocationAttr(CallSiteLoc::get(toCpp(callee), toCpp(caller))));
}

PyjitType pyjitTypeObject(PyjitContext *context, PyjitString name) {
  return toC(refgraph::ObjType::get(get(context), toStringRef(name)));
}

static Type getElementType(MLIRContext *context, PyjitElement element) {
  Builder builder(context);
  switch (element) {
  case PyjitElementF16:
    return builder.getF16Type();
  case PyjitElementBF16:
    return builder.getBF16Type();
  case PyjitElementF32:
    return builder.getF32Type();
  case PyjitElementF64:
    return builder.getF64Type();
  case PyjitElementI8:
    return builder.getIntegerType(8);
  case PyjitElementI16:
    return builder.getIntegerType(16);
  case PyjitElementI32:
    return builder.getIntegerType(32);
  case PyjitElementI64:
    return builder.getIntegerType(64);
  case PyjitElementUI8:
    return builder.getIntegerType(8, /*isSigned=*/false);
  case PyjitElementBool:
    return builder.getI1Type();
  case PyjitElementC64:
    return ComplexType::get(builder.getF32Type());
  case PyjitElementC128:
    return ComplexType::get(builder.getF64Type());
  case PyjitElementNone:
    return builder.getNoneType();
  }
  llvm_unreachable("element type");
}

PyjitType pyjitTypeTensor(PyjitContext *context, const int64_t *sizes,
                          const int64_t *strides, size_t rank,
                          PyjitElement element, PyjitString device) {
  return toC(refgraph::TensorType::get(
      get(context), ArrayRef(sizes, rank), ArrayRef(strides, rank), {},
      getElementType(get(context), element), toStringRef(device)));
}

//===----------------------------------------------------------------------===//
// Attributes
//===----------------------------------------------------------------------===//

PyjitAttribute pyjitAttributeNone(PyjitContext *context) {
  return toC(refgraph::getPyNone(get(context)));
}

PyjitAttribute pyjitAttributeEllipsis(PyjitContext *context) {
  return toC(refgraph::makePyEllipsis(get(context)));
}

PyjitAttribute pyjitAttributeBool(PyjitContext *context, bool value) {
  return toC(Builder(get(context)).getBoolAttr(value));
}

PyjitAttribute pyjitAttributeInt(PyjitContext *context, int64_t value) {
  return toC(Builder(get(context)).getI64IntegerAttr(value));
}

PyjitAttribute pyjitAttributeBigInt(PyjitContext *context, PyjitString digits,
                                    uint32_t bits) {
  return toC(IntegerAttr::get(IntegerType::get(get(context), bits),
                              APInt(bits, toStringRef(digits), 10)));
}

PyjitAttribute pyjitAttributeFloat(PyjitContext *context, double value) {
  return toC(Builder(get(context)).getF64FloatAttr(value));
}

PyjitAttribute pyjitAttributeComplex(PyjitContext *context, double real,
                                     double imaginary) {
  return toC(refgraph::makePyComplex(get(context), real, imaginary));
}

PyjitAttribute pyjitAttributeString(PyjitContext *context, PyjitString value) {
  return toC(StringAttr::get(get(context), toStringRef(value)));
}

PyjitAttribute pyjitAttributeBytes(PyjitContext *context, PyjitString value) {
  return toC(refgraph::makePyBytes(get(context), toStringRef(value)));
}

PyjitAttribute pyjitAttributeList(PyjitContext *context,
                                  const PyjitAttribute *elements,
                                  size_t count) {
  SmallVector<Attribute> list;
  for (size_t i = 0; i < count; ++i)
    list.push_back(toCpp(elements[i]));
  return toC(ArrayAttr::get(get(context), list));
}

PyjitAttribute pyjitAttributeObject(PyjitContext *context, int64_t index) {
  return toC(refgraph::makePyObject(get(context), index));
}

PyjitAttribute pyjitAttributeElement(PyjitContext *context,
                                     PyjitElement element) {
  if (element == PyjitElementNone)
    return nullptr;
  return toC(TypeAttr::get(getElementType(get(context), element)));
}

PyjitAttribute pyjitAttributeDictionary(PyjitContext *context,
                                        const PyjitString *keys,
                                        const PyjitAttribute *values,
                                        size_t count) {
  NamedAttrList list;
  for (size_t i = 0; i < count; ++i)
    list.set(toStringRef(keys[i]), toCpp(values[i]));
  return toC(list.getDictionary(get(context)));
}

PyjitAttribute pyjitArgumentOperand(PyjitContext *context) {
  return toC(operators::getOperandPlaceholder(get(context)));
}

PyjitAttribute pyjitArgumentNumber(PyjitContext *context,
                                   PyjitNumberForm form) {
  switch (form) {
  case PyjitNumberWrapped:
  case PyjitNumberScalar:
    return toC(
        operators::makeNumberOperand(get(context), form == PyjitNumberWrapped));
  case PyjitNumberSize:
    return toC(operators::makeSizeOperand(get(context)));
  }
  llvm_unreachable("form of a number");
}

PyjitAttribute pyjitArgumentWrapped(PyjitAttribute number) {
  return toC(operators::makeWrappedNumber(cast<TypedAttr>(toCpp(number))));
}

PyjitAttribute pyjitArgumentDevice(PyjitContext *context, PyjitString name) {
  return toC(operators::makeDeviceArgument(
      StringAttr::get(get(context), toStringRef(name))));
}

//===----------------------------------------------------------------------===//
// Operations
//===----------------------------------------------------------------------===//

namespace {

/// Fills in one operation of the class `Op`, field by field.
template <typename Op> class OpEmitter {
public:
  OpEmitter(PyjitTrace &trace, PyjitLocation location)
      : trace(trace), context(&trace.trace.context->get()),
        state(location ? toCpp(location) : UnknownLoc::get(context),
              Op::getOperationName()),
        properties(state.getOrAddProperties<typename Op::Properties>()) {}

  void addOperand(PyjitValue value) {
    bool known = value >= 0 && size_t(value) < trace.values.size();
    if (known)
      state.operands.push_back(trace.values[value]);
    else
      trace.spoiled = true;
  }
  void addOperands(PyjitValues values) {
    for (size_t i = 0; i < values.size; ++i)
      addOperand(values.data[i]);
  }
  void addResult(PyjitType type) {
    if (type)
      state.types.push_back(toCpp(type));
    else
      trace.spoiled = true;
  }
  void addResults(PyjitTypes types) {
    for (size_t i = 0; i < types.size; ++i)
      addResult(types.data[i]);
  }

  void set(IntegerAttr &field, int64_t value) {
    field = Builder(context).getI64IntegerAttr(value);
  }
  void set(BoolAttr &field, bool value) {
    field = Builder(context).getBoolAttr(value);
  }
  void set(StringAttr &field, PyjitString value) {
    field = StringAttr::get(context, toStringRef(value));
  }
  void set(DenseI64ArrayAttr &field, PyjitInts values) {
    field = DenseI64ArrayAttr::get(context, ArrayRef(values.data, values.size));
  }
  void set(refgraph::SelectorAttr &field, PyjitSelector value) {
    field = refgraph::SelectorAttr::get(context,
                                        static_cast<refgraph::Selector>(value));
  }
  void set(ArrayAttr &field, PyjitAttribute value) {
    field = value ? cast<ArrayAttr>(toCpp(value)) : ArrayAttr::get(context, {});
  }
  template <typename A> void set(A &field, PyjitAttribute value) {
    field = dyn_cast_or_null<A>(toCpp(value));
    trace.spoiled |= !field;
  }

  void setOptional(IntegerAttr &field, PyjitOptionalInt value) {
    if (value.given)
      set(field, value.value);
  }
  void setOptional(BoolAttr &field, PyjitOptionalBool value) {
    if (value.given)
      set(field, value.value);
  }
  void setOptional(UnitAttr &field, bool value) {
    if (value)
      field = UnitAttr::get(context);
  }
  void setOptional(StringAttr &field, PyjitString value) {
    if (value.data)
      set(field, value);
  }
  void setOptional(DenseI64ArrayAttr &field, PyjitInts values) {
    if (values.size)
      set(field, values);
  }
  template <typename A> void setOptional(A &field, PyjitAttribute value) {
    if (value)
      set(field, value);
  }

  /// The number of the first result, or -1.
  PyjitValue append() {
    PyjitValue first =
        state.types.empty() ? -1 : PyjitValue(trace.values.size());
    // Nothing of a spoiled trace is looked at: the numbers go on.
    if (trace.spoiled) {
      trace.values.resize(trace.values.size() + state.types.size());
      return first;
    }
    OpBuilder builder =
        OpBuilder::atBlockEnd(&trace.trace.getOp().getBody().front());
    llvm::append_range(trace.values, builder.create(state)->getResults());
    return first;
  }

private:
  PyjitTrace &trace;
  MLIRContext *context;
  OperationState state;

public:
  typename Op::Properties &properties;
};

} // namespace

#include "lib/CAPI/TraceOps.cpp.inc"
