//===- TSSAToCudaGraph.cpp - From planned functions to launch programs ----===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "dialects/pyjit/IR/Attributes.h"
#include "pyjit/Conversion/TSSAToCudaGraph/Passes.h"

#include "Converter.h"

#include "dialects/tssa/IR/Views.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "pyjit/Analysis/SizeExpr.h"
#include "pyjit/Operators/CallArguments.h"
#include "pyjit/Operators/OperatorNames.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/TypeSwitch.h"

namespace pyjit {
#define GEN_PASS_DEF_CONVERTTSSATOCUDAGRAPHPASS
#include "lib/Conversion/TSSAToCudaGraph/Passes.h.inc"
} // namespace pyjit

using namespace mlir;
using namespace pyjit;
using namespace pyjit::cudagraph;
using pyjit::conversion::LaunchConverter;

void LaunchConverter::declareInputs() {
  int64_t inputs = 0;
  for (BlockArgument arg : function.getArguments()) {
    unsigned i = arg.getArgNumber();
    auto cached = function.getArgAttrOfType<IntegerAttr>(i, attribute::kCached);
    auto device = function.getArgAttrOfType<StringAttr>(i, attribute::kDevice);
    bool host = device && device.getValue() == "cpu";
    bool stable = cached || function.getArgAttr(i, attribute::kParam);
    buffers.map(
        arg, ExternalOp::create(builder, arg.getLoc(),
                                typeOf(arg, host ? Space::host : Space::device),
                                cached ? Role::cached : Role::input,
                                cached ? cached.getInt() : inputs++, stable)
                 .getBuffer());
  }
}

/// Whether the call returns the value, or a view of all of it.
bool LaunchConverter::isReturned(Value value) {
  return llvm::any_of(value.getUses(), [&](OpOperand &use) {
    // What an input becomes is copied there; the call returns it no more.
    if (isa<func::ReturnOp>(use.getOwner()))
      return !updates.contains(use.getOperandNumber());
    auto view = dyn_cast<tssa::AccessOp>(use.getOwner());
    return view && tssa::showsWhole(view) && isReturned(view.getResult());
  });
}

/// Where a kernel's result goes: an output if it is returned.
Value LaunchConverter::makeBuffer(Value value) {
  if (Value known = fixed.lookup(value))
    return known;
  if (isReturned(value))
    return ExternalOp::create(builder, value.getLoc(), typeOf(value),
                              Role::output, outputs++, /*stable=*/false);
  return BufferOp::create(builder, value.getLoc(), typeOf(value),
                          IntegerAttr());
}

LogicalResult LaunchConverter::convert(func::CallOp op) {
  SmallVector<Value> reads, writes;
  for (Value operand : op.getOperands())
    reads.push_back(buffers.lookup(operand));
  auto places = op->getAttrOfType<DenseI64ArrayAttr>(attribute::kInPlace);
  for (OpResult result : op.getResults()) {
    int64_t input = places ? places[result.getResultNumber()] : -1;
    writes.push_back(input < 0 ? makeBuffer(result)
                               : buffers.lookup(function.getArgument(input)));
    buffers.map(result, writes.back());
  }
  KernelOp::create(builder, op.getLoc(), op.getCallee(), reads, writes,
                   FlatSymbolRefAttr(), DenseI64ArrayAttr());
  return success();
}

/// The matrix in `buffer` the other way round.
static Value transpose(OpBuilder &builder, Value buffer) {
  auto type = cast<BufferType>(buffer.getType());
  SmallVector<tssa::Size> sizes = tssa::getSizes(type.getTensor()),
                          strides = tssa::getSymbolicStrides(type.getTensor());
  std::swap(sizes[0], sizes[1]);
  std::swap(strides[0], strides[1]);
  auto turned =
      tssa::getSymbolicType(sizes, strides, type.getTensor().getElementType());
  return ViewOp::create(builder, buffer.getLoc(),
                        BufferType::get(turned, type.getSpace()), buffer, 0);
}

/// A linear layer of a matrix whose result the call returns: the products that
/// ATen calls for it, which can write where they are told.
bool LaunchConverter::convertLinear(tssa::AtenOp op) {
  ValueRange inputs = op.getInputs();
  auto rank = [&](unsigned i) {
    return cast<RankedTensorType>(inputs[i].getType()).getRank();
  };
  if (op.getOverload() != operators::aten::linear ||
      op->hasAttr(attribute::kDevice) || rank(0) != 2 || rank(1) != 2 ||
      (inputs.size() > 2 && rank(2) != 1) || !isReturned(op.getResult(0)))
    return false;
  Attribute operand = operators::getOperandPlaceholder(op.getContext());
  Attribute one = builder.getI64IntegerAttr(1);
  SmallVector<Value> given{buffers.lookup(inputs[0]),
                           transpose(builder, buffers.lookup(inputs[1]))};
  SmallVector<Attribute> args{operand, operand};
  StringRef overload = operators::aten::mm;
  if (inputs.size() > 2) {
    given.insert(given.begin(), buffers.lookup(inputs[2]));
    args.append({operand, one, one});
    overload = operators::aten::addmm;
  }
  auto call = CallOp::create(
      builder, op.getLoc(), typeOf(op.getResult(0), Space::device), overload,
      given, builder.getArrayAttr(args), DenseI64ArrayAttr());
  buffers.map(op.getResult(0), call.getResult(0));
  return true;
}

LogicalResult LaunchConverter::convert(tssa::AtenOp op) {
  if (convertLinear(op))
    return success();
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
        operators::aten::clone, ValueRange{inputs[operand]}, args,
        DenseI64ArrayAttr());
    inputs[operand] = clone.getResult(0);
    buffers.map(version, inputs[operand]);
  }
  auto device = op->getAttrOfType<StringAttr>(attribute::kDevice);
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

/// What the path shows of `from`, the buffer of a `source`.
FailureOr<Value> LaunchConverter::show(Operation *op, ArrayAttr path,
                                       ValueRange indices,
                                       RankedTensorType source, Value from,
                                       RankedTensorType type) {
  SmallVector<AffineExpr> numbers;
  for (Value index : indices) {
    std::optional<int64_t> number = numberOf(index);
    if (!number)
      return op->emitError(
          "a view at an index known only at run time cannot be launched yet");
    numbers.push_back(builder.getAffineConstantExpr(*number));
  }
  AffineMap map = tssa::getPathMap(path, source);
  Space space = cast<BufferType>(from.getType()).getSpace();
  if (map && numbers.empty() &&
      (tssa::isSymbolic(source) || map.getNumSymbols())) {
    auto offset = tssa::getFirstOffset(map, source);
    if (failed(offset))
      return op->emitError("a view whose place is no polynomial over sizes "
                           "cannot be launched");
    AffineMapAttr symbolic;
    if (!offset->isConstant())
      symbolic = cast<AffineMapAttr>(
          operators::makeSizeArgument(offset->toExpr(op->getContext())));
    return ViewOp::create(builder, op->getLoc(), BufferType::get(type, space),
                          from, offset->isConstant() ? offset->constant() : 0,
                          symbolic)
        .getResult();
  }
  if (!map || tssa::isSymbolic(source) || map.getNumSymbols() != numbers.size())
    return op->emitError("a launch program cannot show this view");
  auto indexAt = [&](AffineExpr result, ArrayRef<int64_t> place) {
    SmallVector<AffineExpr> dims;
    for (int64_t index : place)
      dims.push_back(builder.getAffineConstantExpr(index));
    AffineExpr index = result.replaceDimsAndSymbols(dims, numbers);
    return cast<AffineConstantExpr>(index).getValue();
  };
  // With a number in it the path may lead out of the source; strided views have
  // their extreme elements in their corners.
  SmallVector<int64_t> first(map.getNumDims(), 0), last;
  for (int64_t size : type.getShape())
    last.push_back(size - 1);
  int64_t offset = 0;
  for (auto [expr, stride, size] : llvm::zip(
           map.getResults(), tssa::getStrides(source), source.getShape())) {
    int64_t index = indexAt(expr, first);
    offset += index * stride;
    if (!numbers.empty() && type.getNumElements())
      for (int64_t end : {index, indexAt(expr, last)})
        if (end < 0 || end >= size)
          return op->emitError("index out of range");
  }
  return ViewOp::create(builder, op->getLoc(), BufferType::get(type, space),
                        from, offset)
      .getResult();
}

LogicalResult LaunchConverter::convert(tssa::AccessOp op) {
  auto shown = show(op, op.getPath(), op.getIndices(),
                    cast<RankedTensorType>(op.getSource().getType()),
                    buffers.lookup(op.getSource()),
                    cast<RankedTensorType>(op.getType()));
  if (failed(shown))
    return failure();
  buffers.map(op.getResult(), *shown);
  return success();
}

/// The buffer of what an assign replaces a part of: the target's own where
/// nobody else reads that (a stack that is filled part by part), else a copy.
FailureOr<Value> LaunchConverter::bufferToAssign(tssa::AssignOp op) {
  auto type = cast<RankedTensorType>(op.getType());
  Operation *maker = op.getTarget().getDefiningOp();
  if (isa_and_nonnull<tensor::EmptyOp>(maker))
    return sharedBuffer(op.getLoc(), type);
  if (isa_and_nonnull<tssa::AssignOp>(maker) && op.getTarget().hasOneUse() &&
      maker->getBlock() == op->getBlock())
    return buffers.lookup(op.getTarget());
  Value whole = sharedBuffer(op.getLoc(), type);
  if (failed(copy(op.getLoc(), buffers.lookup(op.getTarget()), whole)))
    return failure();
  return whole;
}

/// The part of the target that the source replaces is written.
LogicalResult LaunchConverter::convert(tssa::AssignOp op) {
  auto type = cast<RankedTensorType>(op.getType());
  RankedTensorType part =
      tssa::inferPathType(op.getPath(), type, [&] { return op.emitError(); });
  if (!part)
    return failure();
  Value source = buffers.lookup(op.getSource());
  FailureOr<Value> whole = bufferToAssign(op);
  if (failed(whole))
    return failure();
  auto target = show(op, op.getPath(), op.getIndices(), type, *whole, part);
  if (failed(target))
    return failure();
  buffers.map(op.getResult(), *whole);
  if (source.getType() == target->getType() && tssa::isDense(part))
    return copy(op.getLoc(), source, *target);
  // Gaps would be copied, too. What the call returns is its first operand,
  // which is no result.
  MLIRContext *context = op.getContext();
  Attribute operand = operators::getOperandPlaceholder(context);
  CallOp::create(
      builder, op.getLoc(), TypeRange(), operators::aten::copy_,
      ValueRange{*target, source},
      builder.getArrayAttr({operand, operand, builder.getBoolAttr(false)}),
      builder.getDenseI64ArrayAttr({0}));
  return success();
}

LogicalResult LaunchConverter::convert(Operation *op) {
  for (Value value : op->getResults())
    if (auto type = dyn_cast<RankedTensorType>(value.getType());
        type && !tssa::hasKnownSizes(type))
      return op->emitError("a launch program cannot hold a value of type ")
             << type;
  // Numbers have no launch: who needs one looks where it comes from.
  auto isNumber = [](Type type) { return !isa<ShapedType>(type); };
  if ((isa<tensor::ExtractOp>(op) ||
       isa<arith::ArithDialect>(op->getDialect())) &&
      llvm::all_of(op->getResultTypes(), isNumber))
    return success();
  return llvm::TypeSwitch<Operation *, LogicalResult>(op)
      .Case<func::CallOp, tssa::AtenOp, tssa::AccessOp, tssa::AssignOp,
            scf::WhileOp, scf::ForOp, scf::IfOp, tensor::FromElementsOp>(
          [&](auto known) { return convert(known); })
      .Case<tssa::SpeculateOp>([&](auto speculate) {
        SpeculateOp::create(builder, speculate.getLoc(),
                            buffers.lookup(speculate.getFlag()));
        return success();
      })
      .Case<tensor::EmptyOp>([&](auto empty) {
        buffers.map(empty.getResult(),
                    sharedBuffer(empty.getLoc(), empty.getType()));
        return success();
      })
      .Default([](Operation *other) {
        return other->emitError("is neither a kernel, a vendor call nor a "
                                "view; fusion-outline should have put it into "
                                "a kernel");
      });
}

LogicalResult LaunchConverter::convert(Block &block) {
  for (Operation &op : block.without_terminator())
    if (failed(convert(&op)))
      return failure();
  return success();
}

/// Which results the program puts where inputs are. Bytes are copied: between
/// values of one type without gaps, of which the input's own memory is none.
void LaunchConverter::findUpdates() {
  auto pairs = function->getAttrOfType<ArrayAttr>(attribute::kUpdates);
  if (!pairs)
    return;
  auto returned = function.front().getTerminator()->getOperands();
  SmallVector<Attribute> kept;
  for (auto pair : pairs.getAsRange<DenseI64ArrayAttr>()) {
    BlockArgument input = function.getArgument(pair[1]);
    Value contents = returned[pair[0]];
    auto call = contents.getDefiningOp<func::CallOp>();
    auto places =
        call ? call->getAttrOfType<DenseI64ArrayAttr>(attribute::kInPlace)
             : DenseI64ArrayAttr();
    bool isThere =
        places && places[cast<OpResult>(contents).getResultNumber()] == pair[1];
    auto type = cast<RankedTensorType>(input.getType());
    bool isOnHost =
        bool(function.getArgAttr(input.getArgNumber(), attribute::kDevice));
    if (!isThere &&
        (contents.getType() != type || !tssa::isDense(type) || isOnHost))
      continue;
    updates[pair[0]] = pair[1];
    kept.push_back(pair);
  }
  if (!kept.empty())
    program->setAttr(attribute::kUpdates, builder.getArrayAttr(kept));
}

/// Whether the buffer is, or shows, an input that is written.
bool LaunchConverter::showsUpdated(Value buffer) {
  Value root = getRoot(buffer);
  return llvm::any_of(updates, [&](auto &update) {
    return buffers.lookup(function.getArgument(update.second)) == root;
  });
}

/// Behind everything else. What another copy overwrites is read before.
void LaunchConverter::copyUpdates() {
  auto returned = function.front().getTerminator()->getOperands();
  SmallVector<std::tuple<Location, Value, Value>> copies;
  for (auto [result, input] : updates) {
    Value contents = returned[result], source = buffers.lookup(contents),
          target = buffers.lookup(function.getArgument(input));
    if (source == target)
      continue;
    Location loc = contents.getLoc();
    if (showsUpdated(source)) {
      Value own =
          BufferOp::create(builder, loc, typeOf(contents), IntegerAttr());
      CopyOp::create(builder, loc, source, own);
      source = own;
    }
    copies.emplace_back(loc, source, target);
  }
  for (auto [loc, source, target] : copies)
    CopyOp::create(builder, loc, source, target);
}

/// The program's own buffer that `buffer` is, or shows all of by `views`, the
/// outermost first; null where it is something else.
static Value getPlanned(Value buffer, SmallVectorImpl<ViewOp> &views) {
  auto extentOf = [](Value shown) {
    return tssa::getExtent(cast<BufferType>(shown.getType()).getTensor());
  };
  for (; auto view = buffer.getDefiningOp<ViewOp>();
       buffer = view.getSource()) {
    if (view.getOffset() || view.getSymbolic() ||
        extentOf(view) != extentOf(view.getSource()))
      return {};
    views.push_back(view);
  }
  return buffer.getDefiningOp<BufferOp>() ? buffer : Value();
}

/// The buffer that answers the call with a value.
Value LaunchConverter::outputBuffer(Value value) {
  Value buffer = buffers.lookup(value);
  SmallVector<ViewOp> views;
  Value copied = getPlanned(buffer, views);
  if (!copied && showsUpdated(buffer))
    copied = buffer;
  if (!copied)
    return buffer;
  // The program's own memory is the next call's, too.
  Value output = ExternalOp::create(builder, value.getLoc(), copied.getType(),
                                    Role::output, outputs++, /*stable=*/false);
  CopyOp::create(builder, value.getLoc(), copied, output);
  for (ViewOp view : llvm::reverse(views))
    output = ViewOp::create(builder, view.getLoc(), view.getType(), output, 0);
  return output;
}

/// Says that the program is a prepare program, and how it finds its inputs.
LogicalResult LaunchConverter::describePrepare() {
  SmallVector<int64_t> sources;
  for (unsigned i = 0; i < function.getNumArguments(); ++i) {
    auto input = function.getArgAttrOfType<IntegerAttr>(i, attribute::kInput);
    if (!input)
      return function.emitError("prepares a parameter (argument ")
             << i << ") without '" << attribute::kInput << "'";
    sources.push_back(input.getInt());
  }
  program->setAttr(attribute::kPrepare, builder.getUnitAttr());
  program->setAttr(attribute::kInputs, builder.getDenseI64ArrayAttr(sources));
  return success();
}

LogicalResult LaunchConverter::run() {
  if (!function.getBody().hasOneBlock())
    return function.emitError("only structured functions can be launched");
  for (Type type : llvm::concat<const Type>(function.getArgumentTypes(),
                                            function.getResultTypes()))
    if (!isa<RankedTensorType>(type))
      return function.emitError("a launch program cannot hold a value of type ")
             << type;
  auto device = function->getAttrOfType<StringAttr>(attribute::kDevice);
  program = ProgramOp::create(builder, function.getLoc(), function.getName(),
                              device.getValue(), IntegerAttr(), ArrayAttr());
  if (function->hasAttr(attribute::kPrepare) && failed(describePrepare()))
    return failure();
  if (Attribute symbols = function->getAttr(attribute::kSymbols))
    program->setAttr(attribute::kSymbols, symbols);
  findUpdates();
  builder.setInsertionPointToStart(&program.getBody().emplaceBlock());
  declareInputs();
  if (failed(convert(function.front())))
    return failure();
  Operation *last = function.front().getTerminator();
  DenseMap<Value, Value> given;
  SmallVector<Value> returned;
  for (auto [i, value] : llvm::enumerate(last->getOperands())) {
    if (auto update = updates.find(i); update != updates.end()) {
      returned.push_back(buffers.lookup(function.getArgument(update->second)));
      continue;
    }
    Value &known = given[buffers.lookup(value)];
    if (!known)
      known = outputBuffer(value);
    returned.push_back(known);
  }
  copyUpdates();
  ReturnOp::create(builder, last->getLoc(), returned);
  dropCopies(program);
  function.erase();
  return success();
}

namespace {

/// What the address of `buffer` is a multiple of, at most what kernels take for
/// granted: memory is, a view of it begins anywhere.
int32_t alignmentOf(Value buffer) {
  constexpr int64_t kUsual = 16;
  int64_t aligned = kUsual;
  for (; auto view = buffer.getDefiningOp<ViewOp>();
       buffer = view.getSource()) {
    Type element =
        cast<BufferType>(buffer.getType()).getTensor().getElementType();
    int64_t bytes = 1;
    if (auto complex = dyn_cast<ComplexType>(element))
      bytes = complex.getElementType().getIntOrFloatBitWidth() / 4;
    else
      bytes = std::max<int64_t>(1, element.getIntOrFloatBitWidth() / 8);
    analysis::Size offset = static_cast<int64_t>(view.getOffset());
    if (auto symbolic = view.getSymbolic())
      offset += analysis::Size(symbolic->getResult(0));
    offset *= bytes;
    while (aligned > bytes && !offset.dividedBy(aligned))
      aligned /= 2;
  }
  return aligned;
}

/// Kernels that are launched on views are told so, before their code is made:
/// elsewhere every address that they get is one of memory's own.
void tellAlignments(ModuleOp module) {
  llvm::MapVector<StringAttr, SmallVector<int32_t>> known;
  module.walk([&](KernelOp launch) {
    auto [entry, isNew] = known.insert({launch.getKernelAttr().getAttr(), {}});
    for (unsigned i = 0; i < launch.getNumBuffers(); ++i) {
      int32_t aligned = alignmentOf(launch.getBuffer(i));
      if (isNew)
        entry->second.push_back(aligned);
      else if (i < entry->second.size())
        entry->second[i] = std::min(entry->second[i], aligned);
    }
  });
  for (auto &[name, alignments] : known) {
    auto kernel = module.lookupSymbol<func::FuncOp>(name);
    if (!kernel || llvm::all_of(alignments, [](int32_t n) { return n >= 16; }))
      continue;
    kernel->setAttr(attribute::kAlign,
                    DenseI32ArrayAttr::get(module.getContext(), alignments));
  }
}

struct ConvertTSSAToCudaGraph
    : pyjit::impl::ConvertTSSAToCudaGraphPassBase<ConvertTSSAToCudaGraph> {
  void runOnOperation() override {
    for (auto function :
         llvm::make_early_inc_range(getOperation().getOps<func::FuncOp>())) {
      if (!function->hasAttr(attribute::kDevice) ||
          function->hasAttr(attribute::kKernel))
        continue;
      if (failed(LaunchConverter(function).run()))
        return signalPassFailure();
    }
    tellAlignments(getOperation());
  }
};

} // namespace
