//===- RefGraphToTSSA.cpp - From recordings to tensor programs ------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// In the recording, every version of a tensor is a value of its own, and what
// an in-place operator does to a tensor's views is left unsaid. Here every
// tensor is a handle: the versions of one node become one handle, a view is a
// handle that names its source, and the effect of a write on the others follows
// from that. Functionalization (dialects/tssa/Transforms) takes the handles
// away again.
//
//===----------------------------------------------------------------------===//

#include "dialects/pyjit/IR/Attributes.h"
#include "pyjit/Conversion/RefGraphToTSSA/Passes.h"

#include "AtenViews.h"
#include "Converter.h"

#include "dialects/refgraph/IR/RefGraph.h"
#include "dialects/tssa/IR/Calls.h"
#include "dialects/tssa/IR/KnownElements.h"
#include "dialects/tssa/IR/TSSA.h"
#include "dialects/tssa/IR/Views.h"
#include "pyjit/Operators/CallArguments.h"
#include "pyjit/Operators/ElementTypes.h"
#include "pyjit/Operators/OperatorFacts.h"
#include "pyjit/Operators/OperatorInfo.h"
#include "pyjit/Operators/OperatorNames.h"
#include "pyjit/Operators/Raises.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/TypeSwitch.h"

namespace pyjit {
#define GEN_PASS_DEF_CONVERTREFGRAPHTOTSSAPASS
#include "lib/Conversion/RefGraphToTSSA/Passes.h.inc"
} // namespace pyjit

using namespace mlir;
using namespace pyjit;
using pyjit::conversion::Converter;

RankedTensorType conversion::contentsOf(refgraph::TensorType type) {
  if (type.isSymbolic())
    return tssa::getSymbolicType(type.getExprs().take_front(type.getRank()),
                                 type.getExprs().drop_front(type.getRank()),
                                 type.getElementType());
  return tssa::getTensorType(type.getShape(), type.getStrides(),
                             type.getElementType());
}

/// A lifted number is a 0-dim tensor here.
RankedTensorType conversion::contentsOf(Type type) {
  if (auto tensor = dyn_cast<refgraph::TensorType>(type))
    return contentsOf(tensor);
  MLIRContext *context = type.getContext();
  bool isFloat = cast<refgraph::ObjType>(type).getName() == "float";
  return RankedTensorType::get({}, isFloat
                                       ? Type(Float64Type::get(context))
                                       : Type(IntegerType::get(context, 64)));
}

namespace {

using conversion::contentsOf;

tssa::RefType refTo(RankedTensorType type) {
  return tssa::RefType::get(type.getContext(), type);
}

/// Whether two elements may share a place in memory (an expanded input, say).
bool mayOverlap(refgraph::TensorType type) {
  SmallVector<std::pair<int64_t, int64_t>> dims; // stride, size
  if (type.isSymbolic())
    return !type.isDense();
  if (llvm::is_contained(type.getShape(), 0))
    return false;
  for (auto [size, stride] : llvm::zip(type.getShape(), type.getStrides()))
    if (size > 1)
      dims.emplace_back(stride, size);
  llvm::sort(dims);
  int64_t reach = 0;
  for (auto [stride, size] : dims) {
    if (stride <= reach)
      return true;
    reach += stride * (size - 1);
  }
  return false;
}

/// A lifted number is on the CPU.
StringRef deviceOf(Value value) {
  auto tensor = dyn_cast<refgraph::TensorType>(value.getType());
  return tensor ? tensor.getDevice() : "cpu";
}

/// Which results of a graph are new contents of inputs: the last ones in front
/// of views.
ArrayAttr getUpdates(refgraph::GraphOp graph) {
  ArrayRef<int64_t> inputs = graph.getMutates();
  Builder builder(graph.getContext());
  int64_t result =
      int64_t(graph.getBody().front().getTerminator()->getNumOperands()) -
      int64_t(inputs.size()) - int64_t(graph.getGradientViews());
  SmallVector<Attribute> updates;
  for (int64_t input : inputs)
    updates.push_back(builder.getDenseI64ArrayAttr({result++, input}));
  return updates.empty() ? ArrayAttr() : builder.getArrayAttr(updates);
}

} // namespace

/// A program runs on one device; tensors of the CPU may take part.
LogicalResult Converter::findDevice() {
  auto see = [&](Value value) {
    StringRef name = deviceOf(value);
    if (accelerator.empty() ? name == "cpu" : name != accelerator)
      return success();
    if (device.empty())
      device = name;
    return success(device == name);
  };
  auto refuse = [&](Operation *op, Value value) {
    return op->emitError("uses ") << deviceOf(value) << " where the rest is on "
                                  << device << "; a program runs on one device";
  };
  for (Value value : graph.getBody().front().getArguments())
    if (failed(see(value)))
      return refuse(graph, value);
  auto walked = graph.walk([&](refgraph::TensorOp op) {
    for (Value value : op.getResults())
      if (failed(see(value))) {
        (void)refuse(op, value);
        return WalkResult::interrupt();
      }
    return WalkResult::advance();
  });
  return failure(walked.wasInterrupted());
}

/// States what is not plain computation on the program's device. Numbers of the
/// CPU (tensors of rank 0) may be read by any operator, as in eager.
void Converter::placeCall(refgraph::TensorOp op, tssa::AtenOp call) {
  if (Attribute must = op->getAttr(attribute::kMustRun))
    call->setAttr(attribute::kMustRun, must);
  if (StringAttr kernel = op.getKernelAttr())
    call->setAttr(attribute::kTakesKernel, kernel);
  if (device.empty())
    return;
  bool library = false;
  for (Value result : op.getResults())
    if (deviceOf(result) != device) {
      call->setAttr(attribute::kDevice, builder.getStringAttr("cpu"));
      library = true;
    }
  bool anyOnDevice = false;
  for (Value input : op.getInputs()) {
    bool onDevice = deviceOf(input) == device;
    anyOnDevice |= onDevice;
    library |= !onDevice && contentsOf(input.getType()).getRank() > 0;
  }
  // A move between devices is no computation.
  library |= !op.getInputs().empty() && !anyOnDevice;
  if (library)
    call->setAttr(attribute::kVendorCall, builder.getUnitAttr());
}

LogicalResult Converter::run() {
  if (failed(findDevice()))
    return failure();
  Block &body = graph.getBody().front();
  // The new contents are copied back as a whole, which such a tensor refuses.
  for (int64_t number : graph.getMutates())
    if (mayOverlap(
            cast<refgraph::TensorType>(body.getArgument(number).getType())))
      return graph.emitError("writes part of input ")
             << number << ", whose elements share memory";
  auto yield = cast<refgraph::YieldOp>(body.getTerminator());
  SmallVector<Type> inputs, results;
  for (BlockArgument arg : body.getArguments())
    inputs.push_back(refTo(contentsOf(arg.getType())));
  for (Value value : yield.getValues())
    results.push_back(contentsOf(cast<refgraph::TensorType>(value.getType())));

  builder.setInsertionPoint(graph);
  auto function =
      func::FuncOp::create(builder, graph.getLoc(), graph.getSpecialization(),
                           builder.getFunctionType(inputs, results));
  Block *entry = function.addEntryBlock();
  builder.setInsertionPointToEnd(entry);
  for (auto [recorded, handle] :
       llvm::zip(body.getArguments(), entry->getArguments()))
    handles[recorded] = handle;
  if (ArrayAttr symbols = graph.getSymbolsAttr())
    function->setAttr(attribute::kSymbols, symbols);
  if (auto params = graph->getAttrOfType<DenseI64ArrayAttr>("params"))
    for (int64_t number : params.asArrayRef())
      function.setArgAttr(number, attribute::kParam, builder.getUnitAttr());
  if (ArrayAttr holds = graph.getHoldsAttr())
    for (auto entry : holds.getAsRange<DenseI64ArrayAttr>())
      function.setArgAttr(
          entry[0], attribute::kElements,
          builder.getDenseI64ArrayAttr(entry.asArrayRef().drop_front()));
  if (Attribute type = graph->getAttr(attribute::kDefaultDtype))
    function->setAttr(attribute::kDefaultDtype, type);
  if (ArrayAttr updates = getUpdates(graph))
    function->setAttr(attribute::kUpdates, updates);
  if (DenseI64ArrayAttr gradients = graph.getGradientResultsAttr()) {
    function->setAttr(attribute::kGradientInputs,
                      graph.getGradientInputsAttr());
    function->setAttr(attribute::kGradientResults, gradients);
    if (int64_t views = graph.getGradientViews())
      function->setAttr(attribute::kGradientViews,
                        builder.getI64IntegerAttr(views));
  }
  if (!device.empty()) {
    function->setAttr(attribute::kDevice, builder.getStringAttr(device));
    for (BlockArgument arg : body.getArguments())
      if (deviceOf(arg) != device)
        function.setArgAttr(arg.getArgNumber(), attribute::kDevice,
                            builder.getStringAttr(deviceOf(arg)));
  }

  if (failed(convert(body)))
    return failure();

  SmallVector<Value> returned;
  for (Value value : yield.getValues())
    returned.push_back(load(yield.getLoc(), value));
  func::ReturnOp::create(builder, yield.getLoc(), returned);
  graph.erase();
  return success();
}

LogicalResult Converter::convert(Block &block) {
  for (Operation &op : block.without_terminator()) {
    LogicalResult converted =
        llvm::TypeSwitch<Operation *, LogicalResult>(&op)
            .Case<refgraph::TensorOp, refgraph::WhileOp, refgraph::IfOp,
                  refgraph::DecideOp, refgraph::SpeculateOp>(
                [&](auto known) { return convert(known); });
    if (failed(converted))
      return failure();
  }
  return success();
}

LogicalResult Converter::convert(refgraph::TensorOp op) {
  for (Value input : op.getInputs())
    if (!handles.contains(input))
      return op.emitError("reads a tensor that the graph does not define");
  // As a whole it is what a call of the CPU's gives; as a part of another one,
  // nobody there puts the two together.
  for (int64_t written : op.getMutates())
    if (Value input = op.getInputs()[written];
        !device.empty() && deviceOf(input) != device &&
        handles.lookup(input).getDefiningOp<tssa::ViewOp>())
      return op.emitError("writes a part of a tensor of the CPU inside a "
                          "program of ")
             << device;
  const operators::OperatorInfo *info =
      operators::lookupOperator(op.getOverload());
  if (info && failed(operators::verifyArguments(op, *info, op.getArgs())))
    return failure();
  bool unsafeView = op.getOverload() == operators::aten::_unsafe_view;
  if (!op.getAliases().empty() || unsafeView)
    return convertView(op);
  if (info && info->lowering == operators::Lowering::InPlace &&
      functionalFormFits(op, *info))
    return convertInPlace(op, *info);
  convertCall(op);
  return success();
}

/// The path that result `number` shows of `source`, confirmed by the type that
/// was recorded.
FailureOr<ArrayAttr> Converter::findPath(refgraph::TensorOp op, Value source,
                                         unsigned number) {
  auto from = cast<tssa::RefType>(source.getType()).getTensor();
  auto shown =
      contentsOf(cast<refgraph::TensorType>(op.getResult(number).getType()));
  auto fits = [&](ArrayAttr path) {
    // Rules try; what they cannot say is an answer, not an error.
    ScopedDiagnosticHandler silence(op.getContext(),
                                    [](Diagnostic &) { return success(); });
    return tssa::inferPathType(path, from, [&] { return op.emitError(); }) ==
           shown;
  };
  ArrayAttr path = conversion::getViewPath(op.getOverload(), op.getArgs(), from,
                                           shown, number);
  if (path && fits(path))
    return path;

  // Any view is a strided part of its storage, where the distance is known.
  auto base = offsets.find(source);
  if (base != offsets.end() && !tssa::isSymbolic(from) &&
      !tssa::isSymbolic(shown) &&
      from.getElementType() == shown.getElementType()) {
    int64_t absolute = op.getOffsets() ? (*op.getOffsets())[number] : 0;
    SmallVector<int64_t> numbers{absolute - base->second};
    llvm::append_range(numbers, shown.getShape());
    llvm::append_range(numbers, tssa::getStrides(shown));
    path = builder.getArrayAttr(tssa::ViewAttr::get(
        op.getContext(), tssa::ViewKind::as_strided, numbers));
    if (fits(path))
      return path;
  }
  return op.emitError("is a view that no rule describes: ")
         << from << " shown as " << shown;
}

/// Whether what the call returns and writes has no gradient. (Where nothing is
/// to be differentiated, no call says so.)
bool Converter::endsGradients(refgraph::TensorOp op) { return op.getNoGrad(); }

Attribute Converter::detached() {
  return tssa::ViewAttr::get(context(), tssa::ViewKind::detach,
                             ArrayRef<int64_t>());
}

/// What a call returns or stores, without a gradient where it has none.
Value Converter::detachIf(refgraph::TensorOp op, Value contents) {
  if (!endsGradients(op))
    return contents;
  return tssa::AccessOp::create(builder, op.getLoc(), contents.getType(),
                                contents, builder.getArrayAttr(detached()),
                                ValueRange());
}

LogicalResult Converter::convertView(refgraph::TensorOp op) {
  if (!op.getMutates().empty())
    return op.emitError(
        "writes its operand and returns a view of it, which is not modelled");
  unsigned operand = op.getAliases().empty() ? 0 : op.getAliases().front();
  Value source = handles.lookup(op.getInputs()[operand]);
  auto elementOf = [](Value tensor) {
    return cast<refgraph::TensorType>(tensor.getType()).getElementType();
  };
  // `x.view(dtype)` of its own type is a plain view.
  const operators::OperatorFacts &facts =
      operators::lookupFacts(op.getOverload());
  bool isRetyped =
      (facts.retypedView && facts.viewRule == operators::ViewRule::None) ||
      elementOf(op.getResult(0)) != elementOf(op.getInputs()[operand]);
  if (op.getNumResults() == 1 && isRetyped)
    return convertRetyped(op);
  for (OpResult result : op.getResults()) {
    FailureOr<ArrayAttr> path = findPath(op, source, result.getResultNumber());
    if (failed(path))
      return failure();
    SmallVector<Attribute> steps(path->getValue());
    if (endsGradients(op))
      steps.push_back(detached());
    auto shown = contentsOf(cast<refgraph::TensorType>(result.getType()));
    Value view =
        tssa::ViewOp::create(builder, op.getLoc(), refTo(shown), source,
                             builder.getArrayAttr(steps), ValueRange());
    handles[result] = view;
    if (offsets.contains(source) && !op.getSymbolicOffsets())
      offsets[view] =
          op.getOffsets() ? (*op.getOffsets())[result.getResultNumber()] : 0;
  }
  return success();
}

/// The bytes of a tensor as numbers of another type. Tensors of different types
/// are different values here, so the view is a copy, which is laid out as the
/// view is; the recorder sees to it that neither is written.
LogicalResult Converter::convertRetyped(refgraph::TensorOp op) {
  const char *copy = operators::lookupFacts(op.getOverload()).retypedView;
  auto shown = cast<refgraph::TensorType>(op.getResult(0).getType());
  RankedTensorType contents = contentsOf(shown);
  if (!copy || !shown.isDense())
    return op.emitError("is a view that no rule describes: ")
           << op.getInputs()[0].getType() << " shown as " << shown;
  SmallVector<Value> operands{load(op.getLoc(), op.getInputs()[0])};
  RankedTensorType rowMajor = tssa::getRowMajorType(contents);
  Value value =
      tssa::AtenOp::create(builder, op.getLoc(), TypeRange{rowMajor}, copy,
                           operands, op.getArgs(), DenseI64ArrayAttr())
          .getResult(0);
  if (rowMajor != contents) {
    tssa::CallBuilder build(builder, op.getLoc());
    value = build.call(operators::aten::clone, {value, build.none()}, contents);
  }
  define(op.getResult(0), detachIf(op, value));
  return success();
}

/// Whether the functional form's result has the element type of the tensor that
/// is written: another one would be rounded on the way, and the result would
/// not say so. Such a call stays a vendor call on a copy.
bool Converter::functionalFormFits(refgraph::TensorOp op,
                                   const operators::OperatorInfo &info) {
  const operators::OperatorInfo *functional =
      operators::lookupOperator(info.functional);
  if (op.getMutates().size() != 1 || op.getMutates().front() != 0 ||
      op.getNumResults() != 1 || !functional ||
      functional->result == operators::ResultRule::Stated)
    return false;
  Type element = cast<RankedTensorType>(contentsOf(op.getInputs()[0].getType()))
                     .getElementType();
  if (device.empty() && element.isFloat() &&
      element.getIntOrFloatBitWidth() < 32 &&
      operators::lookupFacts(op.getOverload()).roundsNumbers)
    return false;
  SmallVector<Type> types;
  for (Value input : op.getInputs())
    types.push_back(contentsOf(input.getType()));
  // The default float type matters only where integers become floats, and that
  // is no integer tensor's type.
  return operators::inferResultElementType(*functional, op.getArgs(), types,
                                           builder.getF32Type()) ==
         cast<RankedTensorType>(types[0]).getElementType();
}

LogicalResult Converter::convertInPlace(refgraph::TensorOp op,
                                        const operators::OperatorInfo &info) {
  SmallVector<Value> operands;
  for (Value input : op.getInputs())
    operands.push_back(load(op.getLoc(), input));
  Value self = handles.lookup(op.getInputs()[0]);
  auto type = cast<tssa::RefType>(self.getType()).getTensor();
  auto call = tssa::AtenOp::create(builder, op.getLoc(), TypeRange{type},
                                   info.functional, operands, op.getArgs(),
                                   DenseI64ArrayAttr());
  placeCall(op, call);
  tssa::StoreOp::create(builder, op.getLoc(), detachIf(op, call.getResult(0)),
                        self);
  handles[op.getResult(0)] = self;
  return success();
}

void Converter::convertCall(refgraph::TensorOp op) {
  SmallVector<Value> operands;
  for (Value input : op.getInputs())
    operands.push_back(load(op.getLoc(), input));
  SmallVector<Type> types;
  for (Value result : op.getResults())
    types.push_back(contentsOf(cast<refgraph::TensorType>(result.getType())));
  StringRef overload = op.getOverload();
  DenseI64ArrayAttr mutates;
  if (const char *form = operators::lookupFacts(overload).functionalForm)
    overload = form;
  else if (!op.getMutates().empty())
    mutates = builder.getDenseI64ArrayAttr(op.getMutates());
  auto call = tssa::AtenOp::create(builder, op.getLoc(), types, overload,
                                   operands, op.getArgs(), mutates);
  placeCall(op, call);
  unsigned fresh = op.getNumResults() - op.getMutates().size();
  for (auto [i, result] : llvm::enumerate(op.getResults())) {
    Value contents = detachIf(op, call.getResult(i));
    if (i < fresh) {
      define(result, contents);
      offsets[handles[result]] = 0;
      continue;
    }
    Value written = handles.lookup(op.getInputs()[op.getMutates()[i - fresh]]);
    tssa::StoreOp::create(builder, op.getLoc(), contents, written);
    handles[result] = written;
  }
}

namespace {

struct ConvertRefGraphToTSSA
    : pyjit::impl::ConvertRefGraphToTSSAPassBase<ConvertRefGraphToTSSA> {
  using ConvertRefGraphToTSSAPassBase::ConvertRefGraphToTSSAPassBase;

  void runOnOperation() override {
    for (auto graph :
         llvm::make_early_inc_range(getOperation().getOps<refgraph::GraphOp>()))
      if (failed(Converter(graph, accelerator).run()))
        return signalPassFailure();
  }
};

} // namespace
