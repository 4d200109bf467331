//===- Trace.cpp - What Python did in one call ----------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "pyjit/Compiler/Trace.h"

#include "pyjit/Compiler/Pipelines.h"
#include "pyjit/Operators/CallArguments.h"
#include "pyjit/Operators/OperatorInfo.h"

#include "mlir/Bytecode/BytecodeWriter.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/OperationSupport.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;

namespace pyjit::compiler {

//===----------------------------------------------------------------------===//
// Contexts
//===----------------------------------------------------------------------===//

/// Every dialect that the IR of a stage is in, or that a pass may make: nothing
/// is loaded any more once several threads may be at work.
static std::unique_ptr<DialectRegistry> makeRegistry() {
  auto registry = std::make_unique<DialectRegistry>();
  registerDialects(*registry);
  MLIRContext context(*registry, MLIRContext::Threading::DISABLED);
  // A stage depends on what it may run, wherever tensors are.
  for (auto *build : {buildCpuPipeline, buildCudaPipeline}) {
    PassManager manager(&context);
    build(manager, CompileOptions());
    manager.getDependentDialects(*registry);
  }
  return registry;
}

static const DialectRegistry &getRegistry() {
  static const std::unique_ptr<DialectRegistry> registry = makeRegistry();
  return *registry;
}

Context::Context() : context(getRegistry(), MLIRContext::Threading::DISABLED) {
  context.setThreadPool(threads);
  context.loadAllAvailableDialects();
}

//===----------------------------------------------------------------------===//
// Making and keeping
//===----------------------------------------------------------------------===//

Trace Trace::create(std::shared_ptr<Context> context, StringRef name) {
  MLIRContext *ir = &context->get();
  Location unknown = UnknownLoc::get(ir);
  Trace trace{std::move(context), ModuleOp::create(unknown)};
  OpBuilder builder = OpBuilder::atBlockEnd(trace.module->getBody());
  auto op = refgraph::TraceOp::create(builder, unknown,
                                      FlatSymbolRefAttr::get(ir, name));
  op.getBody().emplaceBlock();
  return trace;
}

Trace Trace::clone() const {
  return {context, OwningOpRef<ModuleOp>(module.get().clone())};
}

refgraph::TraceOp Trace::getOp() const {
  for (auto op : module.get().getOps<refgraph::TraceOp>())
    return op;
  return {};
}

StringRef Trace::getName() const {
  refgraph::TraceOp op = getOp();
  return op ? op.getSpecialization() : "";
}

std::string Trace::print() const {
  std::string text;
  llvm::raw_string_ostream os(text);
  OpPrintingFlags flags = OpPrintingFlags().enableDebugInfo();
  // Alone, so that locations are written once.
  OwningOpRef<refgraph::TraceOp> alone = getOp().clone();
  alone->print(os, flags);
  os << "\n";
  return text;
}

std::string Trace::serialize() const {
  std::string bytes;
  llvm::raw_string_ostream os(bytes);
  (void)writeBytecodeToFile(module.get(), os);
  return bytes;
}

//===----------------------------------------------------------------------===//
// Questions
//===----------------------------------------------------------------------===//

bool Trace::equals(const Trace &other) const {
  return context == other.context &&
         OperationEquivalence::isEquivalentTo(
             getOp(), other.getOp(), OperationEquivalence::IgnoreLocations);
}

template <typename Visit> static bool anyOp(const Trace &trace, Visit visit) {
  return trace.module.get()
      .walk([&](Operation *op) {
        return visit(op) ? WalkResult::interrupt() : WalkResult::advance();
      })
      .wasInterrupted();
}

std::optional<unsigned> Trace::getCudaDevice() const {
  std::optional<unsigned> device;
  anyOp(*this, [&](Operation *op) {
    for (Type type : op->getResultTypes())
      if (auto tensor = dyn_cast<refgraph::TensorType>(type)) {
        StringRef name = tensor.getDevice();
        unsigned number;
        if (name.consume_front("cuda:") && !name.getAsInteger(10, number))
          device = number;
      }
    return device.has_value();
  });
  return device;
}

bool Trace::liftsSizes() const {
  return anyOp(*this, [](Operation *op) {
    auto get = dyn_cast<refgraph::GetOp>(op);
    return get && get.liftsLayout();
  });
}

/// Whether an argument, or an element of a list, is a size of the trace.
static bool takesSize(ArrayAttr args) {
  return llvm::any_of(args, [](Attribute arg) {
    auto list = dyn_cast<ArrayAttr>(arg);
    return list ? takesSize(list) : operators::isSizeOperand(arg);
  });
}

bool Trace::computesSizes() const {
  return anyOp(*this, [](Operation *op) {
    auto call = dyn_cast<refgraph::TensorOp>(op);
    return call && takesSize(call.getArgs());
  });
}

bool Trace::decides() const {
  return anyOp(*this,
               [](Operation *op) { return isa<refgraph::DecideOp>(op); });
}

/// The elements of a tuple that the trace makes.
static ValueRange getElements(Value tuple) {
  auto made = tuple.getDefiningOp<refgraph::CreateOp>();
  return made ? ValueRange(made.getElements()) : ValueRange();
}

bool Trace::isCostly(size_t index) const {
  auto leave = dyn_cast<refgraph::LeaveOp>(getOp().getBody().front().back());
  ValueRange frames = leave ? getElements(leave.getValue()) : ValueRange();
  ValueRange frame = frames.empty() ? frames : getElements(frames.back());
  if (index >= frame.size())
    return true;
  llvm::SmallSetVector<Operation *, 16> work;
  auto visit = [&](Value value) {
    if (Operation *made = value.getDefiningOp())
      work.insert(made);
  };
  visit(frame[index]);
  for (size_t i = 0; i < work.size(); ++i) {
    Operation *op = work[i];
    if (isa<refgraph::IfOp, refgraph::WhileOp>(op))
      return true;
    auto call = dyn_cast<refgraph::TensorOp>(op);
    if (call && operators::isCostly(call.getOverload()))
      return true;
    // A read says nothing of what its holder costs.
    if (isa<refgraph::TensorOp, refgraph::CreateOp>(op))
      llvm::for_each(op->getOperands(), visit);
  }
  return false;
}

} // namespace pyjit::compiler
