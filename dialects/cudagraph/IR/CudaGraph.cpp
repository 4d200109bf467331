//===- CudaGraph.cpp - the cudagraph dialect ------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "dialects/cudagraph/IR/CudaGraph.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "pyjit/Operators/CallArguments.h"
#include "pyjit/Operators/ElementTypes.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace pyjit;
using namespace pyjit::cudagraph;
using operators::parseCallArguments;
using operators::printCallArguments;

#include "dialects/cudagraph/IR/CudaGraphDialect.cpp.inc"
#include "dialects/cudagraph/IR/CudaGraphEnums.cpp.inc"

#define GET_TYPEDEF_CLASSES
#include "dialects/cudagraph/IR/CudaGraphTypes.cpp.inc"

void CudaGraphDialect::initialize() {
  addTypes<
#define GET_TYPEDEF_LIST
#include "dialects/cudagraph/IR/CudaGraphTypes.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "dialects/cudagraph/IR/CudaGraphOps.cpp.inc"
      >();
}

void pyjit::cudagraph::registerCudaGraphDialect(DialectRegistry &registry) {
  registry.insert<CudaGraphDialect>();
}

LogicalResult BufferType::verify(function_ref<InFlightDiagnostic()> emitError,
                                 RankedTensorType tensor, Space) {
  if (!operators::isElementType(tensor.getElementType()))
    return emitError() << tensor.getElementType()
                       << " is no tensor element type";
  return success();
}

bool BufferType::isSymbolic() const {
  Attribute encoding = getTensor().getEncoding();
  return !getTensor().hasStaticShape() ||
         (encoding && !isa<MemRefLayoutAttrInterface>(encoding));
}

int64_t BufferType::getBytes() const {
  RankedTensorType tensor = getTensor();
  int64_t element = 1;
  if (auto complex = dyn_cast<ComplexType>(tensor.getElementType()))
    element = complex.getElementType().getIntOrFloatBitWidth() / 4;
  else
    element = std::max(1u, tensor.getElementTypeBitWidth() / 8);
  int64_t count = tensor.getNumElements();
  SmallVector<int64_t> strides;
  int64_t offset;
  auto layout =
      dyn_cast_or_null<MemRefLayoutAttrInterface>(tensor.getEncoding());
  if (!count || !layout ||
      failed(layout.getStridesAndOffset(tensor.getShape(), strides, offset)))
    return count * element;
  int64_t last = 0;
  for (auto [size, stride] : llvm::zip_equal(tensor.getShape(), strides))
    last += (size - 1) * stride;
  return (last + 1) * element;
}

Value pyjit::cudagraph::getRoot(Value buffer) {
  // Views in a circle are refused, but not before somebody asks for a root.
  Value slow = buffer;
  for (bool odd = false; auto view = buffer.getDefiningOp<ViewOp>();
       odd = !odd) {
    buffer = view.getSource();
    if (buffer == slow)
      break;
    if (odd)
      slow = slow.getDefiningOp<ViewOp>().getSource();
  }
  return buffer;
}

bool pyjit::cudagraph::isWhole(Value buffer) {
  Value root = getRoot(buffer);
  if (root == buffer)
    return true;
  for (Value at = buffer; at != root;) {
    auto view = at.getDefiningOp<ViewOp>();
    if (view.getOffset() || view.getSymbolic())
      return false;
    at = view.getSource();
  }
  auto shown = cast<BufferType>(buffer.getType()),
       all = cast<BufferType>(root.getType());
  return !shown.isSymbolic() && !all.isSymbolic() &&
         shown.getBytes() == all.getBytes();
}

Value pyjit::cudagraph::getExternal(Value buffer) {
  Value root = getRoot(buffer);
  Operation *maker = root.getDefiningOp();
  bool external =
      isa_and_nonnull<ExternalOp>(maker) ||
      (isa_and_nonnull<CallOp>(maker) && !maker->getParentOfType<GraphOp>());
  return external ? root : Value();
}

bool pyjit::cudagraph::isMoving(Value external) {
  auto declared = external.getDefiningOp<ExternalOp>();
  return !declared || !declared.getStable();
}

SmallVector<Value> pyjit::cudagraph::getWritten(Operation *op) {
  if (auto kernel = dyn_cast<KernelOp>(op))
    return llvm::to_vector(kernel.getWrites());
  if (auto copy = dyn_cast<CopyOp>(op))
    return {copy.getTarget()};
  if (auto value = dyn_cast<HostValueOp>(op))
    return {value.getTarget()};
  SmallVector<Value> written;
  if (auto call = dyn_cast<CallOp>(op))
    for (int64_t i : call.getMutates().value_or(ArrayRef<int64_t>()))
      written.push_back(call.getInputs()[i]);
  return written;
}

bool CopyOp::isOfResult() {
  auto output = getTarget().getDefiningOp<ExternalOp>();
  return getPatchable() && output && output.getRole() == Role::output &&
         getRoot(getSource()).getDefiningOp<BufferOp>();
}

Value CopyOp::getStandIn() {
  return isOfResult() ? getRoot(getSource()) : getTarget();
}

#define GET_OP_CLASSES
#include "dialects/cudagraph/IR/CudaGraphOps.cpp.inc"
