//===- RefGraphDialect.cpp - the refgraph dialect and its types -----------===//

#include "dialects/refgraph/IR/RefGraph.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace pyjit::refgraph {

static ParseResult parseDims(AsmParser &parser, SmallVector<int64_t> &dims) {
  return parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, [&] {
    return parser.parseInteger(dims.emplace_back());
  });
}

static void printDims(AsmPrinter &printer, ArrayRef<int64_t> dims) {
  printer << "[";
  llvm::interleaveComma(dims, printer);
  printer << "]";
}

static bool isElementType(Type type) {
  if (auto complex = dyn_cast<ComplexType>(type))
    type = complex.getElementType();
  if (isa<FloatType>(type))
    return true;
  auto integer = dyn_cast<IntegerType>(type);
  if (!integer || integer.isSigned())
    return false;
  unsigned width = integer.getWidth();
  bool bytes = width == 8 || width == 16 || width == 32 || width == 64;
  return bytes || (width == 1 && integer.isSignless());
}

LogicalResult TensorType::verify(function_ref<InFlightDiagnostic()> emitError,
                                 ArrayRef<int64_t> shape,
                                 ArrayRef<int64_t> strides, Type elementType,
                                 StringRef device) {
  if (shape.size() != strides.size())
    return emitError() << "tensor type has " << shape.size() << " sizes but "
                       << strides.size() << " strides";
  for (int64_t size : shape)
    if (size < 0)
      return emitError() << "tensor type has negative size " << size;
  for (int64_t stride : strides)
    if (stride < 0)
      return emitError() << "tensor type has negative stride " << stride;
  if (!isElementType(elementType))
    return emitError() << elementType << " is no tensor element type";
  if (device.empty())
    return emitError() << "tensor type names no device";
  return success();
}

int64_t TensorType::getNumElements() const {
  int64_t count = 1;
  for (int64_t size : getShape())
    count *= size;
  return count;
}

bool TensorType::isDense() const {
  SmallVector<std::pair<int64_t, int64_t>> dims;
  for (auto [size, stride] : llvm::zip_equal(getShape(), getStrides())) {
    if (size == 0)
      return true;
    if (size != 1)
      dims.emplace_back(stride, size);
  }
  llvm::sort(dims);
  int64_t expected = 1;
  for (auto [stride, size] : dims) {
    if (stride != expected)
      return false;
    expected *= size;
  }
  return true;
}

void registerRefGraphDialect(DialectRegistry &registry) {
  registry.insert<RefGraphDialect>();
}

void RefGraphDialect::initialize() {
  addTypes<
#define GET_TYPEDEF_LIST
#include "dialects/refgraph/IR/RefGraphTypes.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "dialects/refgraph/IR/RefGraphOps.cpp.inc"
      >();
}

} // namespace pyjit::refgraph

#include "dialects/refgraph/IR/RefGraphDialect.cpp.inc"
#include "dialects/refgraph/IR/RefGraphEnums.cpp.inc"
#define GET_TYPEDEF_CLASSES
#include "dialects/refgraph/IR/RefGraphTypes.cpp.inc"
