//===- ShareKernels.cpp - One kernel's code for several shapes ------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A prepare program packs and scales parameters of many shapes, each by a
// kernel that runs once: to compile it takes longer than to run it. Emitted
// kernels of one form differ in constants only, those of sizes and strides.
//
//===----------------------------------------------------------------------===//

#include "dialects/pyjit/IR/Attributes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/IRMapping.h"
#include "pyjit/Codegen/X86/Passes.h"
#include "llvm/ADT/StringSet.h"
#include <map>

using namespace mlir;

namespace pyjit::x86 {
#define GEN_PASS_DEF_X86SHAREKERNELS
#include "lib/Codegen/X86/Passes.h.inc"

namespace {

/// A constant that may be another one in another kernel of the same form: the
/// value of an arith.constant, or an index of a getelementptr.
struct Number {
  Operation *op;
  unsigned index; ///< of a getelementptr
  int64_t value;
};

/// A kernel, and the numbers in its code, in the order of its operations.
struct Kernel {
  func::FuncOp function;
  SmallVector<Number> numbers;
};

/// Kernels of one form.
using Group = SmallVector<Kernel>;

} // namespace

static bool isDivision(Operation *op) {
  return isa<arith::DivUIOp, arith::RemUIOp, arith::DivSIOp, arith::RemSIOp,
             arith::FloorDivSIOp, arith::CeilDivUIOp>(op);
}

/// Whether `op` runs more than once for each unit.
static bool isInInnerLoop(Operation *op) {
  auto loop = op->getParentOfType<scf::ForOp>();
  return loop && loop->getParentOfType<scf::ForOp>();
}

/// An i64 that need not be known when code is made: a division by a number
/// that is not takes ten times as long.
static bool isNumber(arith::ConstantOp constant) {
  return constant.getType().isInteger(64) &&
         llvm::none_of(constant->getUsers(), [](Operation *user) {
           return isDivision(user) && isInInnerLoop(user);
         });
}

/// The numbers of `function`; nothing where its stack's size may be among them.
static std::optional<SmallVector<Number>> numbersOf(func::FuncOp function) {
  SmallVector<Number> numbers;
  WalkResult result = function.walk([&](Operation *op) {
    if (isa<LLVM::AllocaOp>(op))
      return WalkResult::interrupt();
    if (auto constant = dyn_cast<arith::ConstantOp>(op);
        constant && isNumber(constant))
      numbers.push_back(
          {op, 0, cast<IntegerAttr>(constant.getValue()).getInt()});
    if (auto address = dyn_cast<LLVM::GEPOp>(op))
      for (auto [i, index] : llvm::enumerate(address.getIndices()))
        if (auto value = dyn_cast<IntegerAttr>(index))
          numbers.push_back({op, unsigned(i), value.getInt()});
    return WalkResult::advance();
  });
  if (result.wasInterrupted())
    return std::nullopt;
  return numbers;
}

/// Whether two operations are the same but for their numbers, and their
/// operands, which the caller compares.
static bool haveOneForm(Operation *x, Operation *y) {
  if (x->getName() != y->getName() ||
      x->getResultTypes() != y->getResultTypes() ||
      x->getNumRegions() != y->getNumRegions())
    return false;
  if (auto constant = dyn_cast<arith::ConstantOp>(x);
      constant && isNumber(constant))
    return isNumber(cast<arith::ConstantOp>(y));
  if (auto address = dyn_cast<LLVM::GEPOp>(x)) {
    auto other = cast<LLVM::GEPOp>(y);
    auto isDynamic = [](int32_t index) {
      return index == LLVM::GEPOp::kDynamicIndex;
    };
    return address.getElemType() == other.getElemType() &&
           address.getNoWrapFlags() == other.getNoWrapFlags() &&
           llvm::equal(
               llvm::map_range(address.getRawConstantIndices(), isDynamic),
               llvm::map_range(other.getRawConstantIndices(), isDynamic));
  }
  return x->getAttrDictionary() == y->getAttrDictionary();
}

static bool haveOneForm(Region &x, Region &y, IRMapping &known);

static bool haveOneForm(Block &x, Block &y, IRMapping &known) {
  if (x.getArgumentTypes() != y.getArgumentTypes())
    return false;
  known.map(x.getArguments(), y.getArguments());
  auto other = y.begin();
  for (Operation &op : x) {
    if (other == y.end() || !haveOneForm(&op, &*other))
      return false;
    if (!llvm::equal(
            llvm::map_range(op.getOperands(),
                            [&](Value value) { return known.lookup(value); }),
            other->getOperands()))
      return false;
    for (auto [inner, otherInner] :
         llvm::zip(op.getRegions(), other->getRegions()))
      if (!haveOneForm(inner, otherInner, known))
        return false;
    known.map(op.getResults(), other->getResults());
    ++other;
  }
  return other == y.end();
}

static bool haveOneForm(Region &x, Region &y, IRMapping &known) {
  if (x.empty() || y.empty())
    return x.empty() && y.empty();
  return x.hasOneBlock() && y.hasOneBlock() &&
         haveOneForm(x.front(), y.front(), known);
}

namespace {

/// Makes one function of a group's kernels, with the numbers that differ as
/// arguments, and of each kernel a call of it.
class Sharing {
public:
  explicit Sharing(Group &group) : group(group), first(group.front()) {
    // Numbers that differ alike are one argument.
    std::map<SmallVector<int64_t>, unsigned> known;
    for (unsigned i = 0; i < first.numbers.size(); ++i) {
      SmallVector<int64_t> values;
      for (const Kernel &kernel : group)
        values.push_back(kernel.numbers[i].value);
      if (llvm::all_equal(values))
        continue;
      auto [it, isNew] = known.try_emplace(values, arguments.size());
      if (isNew)
        arguments.push_back(values);
      argumentOf[i] = it->second;
    }
  }

  void run() {
    OpBuilder b(first.function);
    SmallVector<Type> types(first.function.getArgumentTypes());
    types.append(arguments.size(), b.getI64Type());
    auto shared =
        func::FuncOp::create(b, first.function.getLoc(),
                             (first.function.getName() + "_shared").str(),
                             b.getFunctionType(types, {}));
    shared.setPrivate();
    shared.getBody().takeBody(first.function.getBody());
    Block &body = shared.getBody().front();
    for (size_t i = 0; i < arguments.size(); ++i)
      body.addArgument(b.getI64Type(), shared.getLoc());
    takeNumbers(body.getArguments().take_back(arguments.size()));
    for (auto [i, kernel] : llvm::enumerate(group))
      call(shared, kernel.function, i);
  }

private:
  /// Numbers of one operation follow each other.
  void takeNumbers(ValueRange values) {
    auto &numbers = first.numbers;
    for (size_t i = 0; i < numbers.size();) {
      Operation *op = numbers[i].op;
      size_t end = i;
      DenseMap<unsigned, Value> byIndex;
      for (; end < numbers.size() && numbers[end].op == op; ++end)
        if (auto argument = argumentOf.find(end); argument != argumentOf.end())
          byIndex[numbers[end].index] = values[argument->second];
      i = end;
      if (byIndex.empty())
        continue;
      if (isa<arith::ConstantOp>(op))
        op->getResult(0).replaceAllUsesWith(byIndex.begin()->second);
      else
        readdress(cast<LLVM::GEPOp>(op), byIndex);
      op->erase();
    }
  }

  static void readdress(LLVM::GEPOp address,
                        const DenseMap<unsigned, Value> &byIndex) {
    OpBuilder b(address);
    SmallVector<LLVM::GEPArg> indices;
    for (auto [i, index] : llvm::enumerate(address.getIndices())) {
      if (Value value = byIndex.lookup(i))
        indices.push_back(value);
      else if (auto constant = dyn_cast<IntegerAttr>(index))
        indices.push_back(static_cast<int32_t>(constant.getInt()));
      else
        indices.push_back(cast<Value>(index));
    }
    Value changed = LLVM::GEPOp::create(
        b, address.getLoc(), address.getType(), address.getElemType(),
        address.getBase(), indices, address.getNoWrapFlags());
    address.getResult().replaceAllUsesWith(changed);
  }

  void call(func::FuncOp shared, func::FuncOp kernel, size_t number) {
    kernel.getBody().getBlocks().clear();
    Block *body = kernel.addEntryBlock();
    ImplicitLocOpBuilder b(kernel.getLoc(), kernel.getContext());
    b.setInsertionPointToStart(body);
    SmallVector<Value> operands(body->getArguments());
    for (ArrayRef<int64_t> values : arguments)
      operands.push_back(
          arith::ConstantOp::create(b, b.getI64IntegerAttr(values[number])));
    func::CallOp::create(b, shared, operands);
    func::ReturnOp::create(b);
  }

  Group &group;
  Kernel &first;
  /// Their values, by kernel.
  SmallVector<SmallVector<int64_t>> arguments;
  DenseMap<unsigned, unsigned> argumentOf;
};

struct ShareKernelsPass : impl::X86ShareKernelsBase<ShareKernelsPass> {
  /// Kernels that prepare programs alone call.
  static llvm::StringSet<> findCold(ModuleOp module) {
    llvm::StringSet<> cold, hot;
    for (auto function : module.getOps<func::FuncOp>()) {
      if (function.isExternal())
        continue;
      bool prepares = function->hasAttr(attribute::kPrepare);
      function.walk([&](func::CallOp call) {
        (prepares ? cold : hot).insert(call.getCallee());
      });
    }
    for (auto &kernel : hot)
      cold.erase(kernel.getKey());
    return cold;
  }

  void runOnOperation() override {
    llvm::StringSet<> cold = findCold(getOperation());
    SmallVector<Group> groups;
    for (auto kernels : getOperation().getOps<ModuleOp>()) {
      if (kernels.getName() != "kernels")
        continue;
      for (auto function : kernels.getOps<func::FuncOp>())
        if (cold.contains(function.getName()))
          if (auto numbers = numbersOf(function))
            place({function, std::move(*numbers)}, groups);
    }
    for (Group &group : groups)
      if (group.size() > 1)
        Sharing(group).run();
  }

  static void place(Kernel kernel, SmallVector<Group> &groups) {
    for (Group &group : groups) {
      IRMapping known;
      if (group.front().numbers.size() == kernel.numbers.size() &&
          haveOneForm(group.front().function.getBody(),
                      kernel.function.getBody(), known))
        return group.push_back(std::move(kernel));
    }
    groups.push_back({std::move(kernel)});
  }
};

} // namespace
} // namespace pyjit::x86
