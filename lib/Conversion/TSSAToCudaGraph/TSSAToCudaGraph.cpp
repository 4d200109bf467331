//===- TSSAToCudaGraph.cpp - From planned functions to launch programs ----===//

#include "pyjit/Conversion/TSSAToCudaGraph/Passes.h"

#include "dialects/cudagraph/IR/CudaGraph.h"
#include "dialects/tssa/IR/TSSA.h"
#include "dialects/tssa/IR/Views.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/IRMapping.h"
#include "pyjit/Operators/CallArguments.h"

namespace pyjit {
#define GEN_PASS_DEF_CONVERTTSSATOCUDAGRAPHPASS
#include "lib/Conversion/TSSAToCudaGraph/Passes.h.inc"
} // namespace pyjit

using namespace mlir;
using namespace pyjit;
using namespace pyjit::cudagraph;

namespace {

/// Converts one function.
class Converter {
public:
  explicit Converter(func::FuncOp function)
      : function(function), builder(function) {}
  LogicalResult run();

private:
  LogicalResult convert(func::CallOp op);
  LogicalResult convert(tssa::AtenOp op);
  LogicalResult convert(tssa::AccessOp op);
  void declareInputs();
  Value makeBuffer(Value value);

  BufferType typeOf(Value value, Space space = Space::device) {
    return BufferType::get(cast<RankedTensorType>(value.getType()), space);
  }
  Space spaceOf(Value value) {
    return cast<BufferType>(buffers.lookup(value).getType()).getSpace();
  }

  func::FuncOp function;
  OpBuilder builder;
  ProgramOp program;
  IRMapping buffers;
  int64_t outputs = 0;
};

void Converter::declareInputs() {
  int64_t inputs = 0;
  for (BlockArgument arg : function.getArguments()) {
    unsigned i = arg.getArgNumber();
    auto cached = function.getArgAttrOfType<IntegerAttr>(i, "pyjit.cached");
    auto device = function.getArgAttrOfType<StringAttr>(i, "pyjit.device");
    bool host = device && device.getValue() == "cpu";
    bool stable = cached || function.getArgAttr(i, "pyjit.param");
    buffers.map(
        arg, ExternalOp::create(builder, arg.getLoc(),
                                typeOf(arg, host ? Space::host : Space::device),
                                cached ? Role::cached : Role::input,
                                cached ? cached.getInt() : inputs++, stable)
                 .getBuffer());
  }
}

/// Where a kernel's result goes: an output if it is returned.
Value Converter::makeBuffer(Value value) {
  bool returned = llvm::any_of(value.getUsers(), [](Operation *user) {
    return isa<func::ReturnOp>(user);
  });
  if (returned)
    return ExternalOp::create(builder, value.getLoc(), typeOf(value),
                              Role::output, outputs++, /*stable=*/false);
  return BufferOp::create(builder, value.getLoc(), typeOf(value),
                          IntegerAttr());
}

LogicalResult Converter::convert(func::CallOp op) {
  SmallVector<Value> reads, writes;
  for (Value operand : op.getOperands())
    reads.push_back(buffers.lookup(operand));
  for (Value result : op.getResults()) {
    writes.push_back(makeBuffer(result));
    buffers.map(result, writes.back());
  }
  KernelOp::create(builder, op.getLoc(), op.getCallee(), reads, writes,
                   FlatSymbolRefAttr(), DenseI64ArrayAttr());
  return success();
}

LogicalResult Converter::convert(tssa::AtenOp op) {
  SmallVector<Value> inputs;
  for (Value input : op.getInputs())
    inputs.push_back(buffers.lookup(input));
  // Values do not change, so what a call writes is a copy.
  ArrayRef<int64_t> mutates = op.getMutates().value_or(ArrayRef<int64_t>());
  for (auto [operand, version] :
       llvm::zip(mutates, op.getResults().take_back(mutates.size()))) {
    MLIRContext *context = op.getContext();
    auto args = builder.getArrayAttr({operators::getOperandPlaceholder(context),
                                      operators::getNoneArgument(context)});
    auto clone = CallOp::create(
        builder, op.getLoc(),
        TypeRange{typeOf(version, spaceOf(op.getInputs()[operand]))},
        "aten::clone", ValueRange{inputs[operand]}, args, DenseI64ArrayAttr());
    inputs[operand] = clone.getResult(0);
    buffers.map(version, inputs[operand]);
  }
  auto device = op->getAttrOfType<StringAttr>("pyjit.device");
  Space space =
      device && device.getValue() == "cpu" ? Space::host : Space::device;
  auto fresh = op.getResults().drop_back(mutates.size());
  SmallVector<Type> types;
  for (Value result : fresh)
    types.push_back(typeOf(result, space));
  auto call = CallOp::create(builder, op.getLoc(), types, op.getOverload(),
                             inputs, op.getArgs(), op.getMutatesAttr());
  buffers.map(fresh, call.getOutputs());
  return success();
}

LogicalResult Converter::convert(tssa::AccessOp op) {
  auto source = cast<RankedTensorType>(op.getSource().getType());
  if (!op.getIndices().empty())
    return op.emitError(
        "a view at an index known only at run time cannot be launched yet");
  AffineMap map = tssa::getPathMap(op.getPath(), source);
  SmallVector<int64_t> zero(map.getNumDims(), 0);
  int64_t offset = 0;
  for (auto [index, stride] :
       llvm::zip(map.compose(zero), tssa::getStrides(source)))
    offset += index * stride;
  Value from = buffers.lookup(op.getSource());
  buffers.map(op.getResult(),
              ViewOp::create(builder, op.getLoc(),
                             typeOf(op.getResult(), spaceOf(op.getSource())),
                             from, offset)
                  .getResult());
  return success();
}

LogicalResult Converter::run() {
  if (!function.getBody().hasOneBlock())
    return function.emitError(
        "only straight-line functions can be launched yet");
  auto device = function->getAttrOfType<StringAttr>("pyjit.device");
  program = ProgramOp::create(builder, function.getLoc(), function.getName(),
                              device.getValue(), IntegerAttr(), ArrayAttr());
  // How the prepare program finds its inputs.
  SmallVector<int64_t> sources;
  for (unsigned i = 0; i < function.getNumArguments(); ++i)
    if (auto input = function.getArgAttrOfType<IntegerAttr>(i, "pyjit.input"))
      sources.push_back(input.getInt());
  if (!sources.empty())
    program->setAttr("pyjit.inputs", builder.getDenseI64ArrayAttr(sources));
  builder.setInsertionPointToStart(&program.getBody().emplaceBlock());
  declareInputs();
  for (Operation &op : function.front().without_terminator()) {
    for (Value value : op.getResults())
      if (auto type = dyn_cast<RankedTensorType>(value.getType());
          !type || !type.hasStaticShape())
        return op.emitError("a launch program cannot hold a value of type ")
               << value.getType();
    LogicalResult converted = failure();
    if (auto call = dyn_cast<func::CallOp>(op))
      converted = convert(call);
    else if (auto call = dyn_cast<tssa::AtenOp>(op))
      converted = convert(call);
    else if (auto view = dyn_cast<tssa::AccessOp>(op))
      converted = convert(view);
    else
      return op.emitError("is neither a kernel, a library call nor a view; "
                          "fusion-outline should have put it into a kernel");
    if (failed(converted))
      return failure();
  }
  SmallVector<Value> returned;
  for (Value value : function.front().getTerminator()->getOperands())
    returned.push_back(buffers.lookup(value));
  ReturnOp::create(builder, function.front().getTerminator()->getLoc(),
                   returned);
  function.erase();
  return success();
}

struct ConvertTSSAToCudaGraph
    : pyjit::impl::ConvertTSSAToCudaGraphPassBase<ConvertTSSAToCudaGraph> {
  void runOnOperation() override {
    for (auto function :
         llvm::make_early_inc_range(getOperation().getOps<func::FuncOp>())) {
      if (!function->hasAttr("pyjit.device") ||
          function->hasAttr("pyjit.kernel"))
        continue;
      if (failed(Converter(function).run()))
        return signalPassFailure();
    }
  }
};

} // namespace
