//===- FuseHorizontally.cpp - Equal launches become one -------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The updates of two hundred parameters are two hundred launches of a few
// thousand elements each, and a launch takes longer than that. What PyTorch
// calls multi-tensor apply is one here for any kernels that are equal.
//
//===----------------------------------------------------------------------===//

#include "dialects/cudagraph/Transforms/Passes.h"
#include "dialects/pyjit/IR/Attributes.h"

#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/OperationSupport.h"
#include "mlir/IR/SymbolTable.h"

#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/MapVector.h"

namespace pyjit::cudagraph {
#define GEN_PASS_DEF_FUSEHORIZONTALLYPASS
#include "dialects/cudagraph/Transforms/Passes.h.inc"
} // namespace pyjit::cudagraph

using namespace mlir;
using namespace pyjit;
using namespace pyjit::cudagraph;

namespace {

/// A launch has 4,096 bytes of parameters (PTX ISA, kernel function
/// parameters), eight for each buffer; what symbols there are needs some.
constexpr unsigned kMostBuffers = 480;

/// Whether `op` writes what the call was given. Such launches stand behind all
/// that may fail.
bool writesInput(Operation *op) {
  return llvm::any_of(getWritten(op), [](Value buffer) {
    auto external = getRoot(buffer).getDefiningOp<ExternalOp>();
    return external && external.getRole() == Role::input;
  });
}

/// The memory that launches touch, those in an op's regions included.
struct Touched {
  llvm::SmallDenseSet<Value> touched, written;

  void add(Operation *op) {
    op->walk([&](Operation *inner) {
      for (Value operand : inner->getOperands())
        touched.insert(getRoot(operand));
      for (Value operand : getWritten(inner))
        written.insert(getRoot(operand));
    });
  }
  void add(const Touched &other) {
    touched.insert(other.touched.begin(), other.touched.end());
    written.insert(other.written.begin(), other.written.end());
  }

  /// Whether the two may not change places.
  bool conflicts(const Touched &other) const {
    auto meet = [](auto &x, auto &y) {
      return llvm::any_of(x, [&](Value value) { return y.contains(value); });
    };
    return meet(written, other.touched) || meet(touched, other.written);
  }
};

/// Where launches meet. All of a block go one way and then all the other: of
/// two that change places, one has been asked about the other.
enum class Way { Down, Up };

/// Launches that become one, in the place of the last of them, or of the first.
struct Group {
  SmallVector<Operation *> members;
  Touched touched;
  /// What others touch behind the first member.
  Touched since;
};

/// The buffers of a launch or a copy: what it reads, and what it writes.
std::pair<SmallVector<Value>, SmallVector<Value>> buffersOf(Operation *op) {
  if (auto copy = dyn_cast<CopyOp>(op))
    return {{copy.getSource()}, {copy.getTarget()}};
  auto launch = cast<KernelOp>(op);
  return {launch.getReads(), launch.getWrites()};
}

/// Kernels by what they do, whatever their names are.
class Kinds {
public:
  /// The first kernel that does what `kernel` does.
  func::FuncOp of(func::FuncOp kernel) {
    func::FuncOp &known = kinds[kernel];
    if (known)
      return known;
    auto &alike = byType[kernel.getFunctionType()];
    auto found = llvm::find_if(
        alike, [&](func::FuncOp other) { return areEqual(kernel, other); });
    if (found != alike.end())
      return known = *found;
    alike.push_back(kernel);
    return known = kernel;
  }

private:
  static bool areEqual(func::FuncOp a, func::FuncOp b) {
    auto attributes = [](func::FuncOp kernel) {
      NamedAttrList list(kernel->getAttrDictionary());
      list.erase(SymbolTable::getSymbolAttrName());
      return list.getDictionary(kernel.getContext());
    };
    return attributes(a) == attributes(b) &&
           OperationEquivalence::isRegionEquivalentTo(
               &a.getBody(), &b.getBody(),
               OperationEquivalence::IgnoreLocations);
  }

  DenseMap<Operation *, func::FuncOp> kinds;
  DenseMap<Type, SmallVector<func::FuncOp>> byType;
};

int64_t bytesOf(FunctionType type) {
  int64_t bytes = 0;
  for (Type each :
       llvm::concat<const Type>(type.getInputs(), type.getResults())) {
    auto tensor = cast<RankedTensorType>(each);
    bytes += tensor.getNumElements() *
             llvm::divideCeil(tensor.getElementTypeBitWidth(), 8);
  }
  return bytes;
}

struct FuseHorizontally
    : cudagraph::impl::FuseHorizontallyPassBase<FuseHorizontally> {
  using FuseHorizontallyPassBase::FuseHorizontallyPassBase;

  /// The kernel that does what the op does and may be a part of a wider one;
  /// null if there is none.
  func::FuncOp candidate(Operation *op) {
    if (auto copy = dyn_cast<CopyOp>(op))
      return candidate(copy);
    auto launch = dyn_cast<KernelOp>(op);
    return launch ? candidate(launch) : func::FuncOp();
  }

  /// Of known size, element by element: a reduction's blocks have more to do
  /// than to begin.
  func::FuncOp candidate(KernelOp launch) {
    auto kernel = symbols->lookup<func::FuncOp>(launch.getKernel());
    if (!kernel || kernel.isExternal() || launch.getIndirectKernel() ||
        launch.getNumBuffers() == 0 ||
        2 * launch.getNumBuffers() > kMostBuffers ||
        kernel->hasAttr(attribute::kBatch))
      return {};
    auto isKnown = [](Type type) {
      auto tensor = dyn_cast<RankedTensorType>(type);
      return tensor && tensor.hasStaticShape() &&
             tensor.getNumElements() != 0 &&
             tensor.getElementType().isIntOrFloat();
    };
    FunctionType type = kernel.getFunctionType();
    if (!llvm::all_of(type.getInputs(), isKnown) ||
        !llvm::all_of(type.getResults(), isKnown))
      return {};
    bool reduces = false;
    kernel.walk([&](linalg::LinalgOp op) {
      reduces |= op.getNumReductionLoops() != 0;
    });
    return reduces ? func::FuncOp() : kinds.of(kernel);
  }

  /// Of few bytes, from the beginning of memory to that of other memory.
  func::FuncOp candidate(CopyOp copy) {
    auto isTaken = [](Value buffer) {
      auto type = cast<BufferType>(buffer.getType());
      return !type.isHost() && !type.isSymbolic() && isWhole(buffer);
    };
    if (copy.getPatchable() || !isTaken(copy.getSource()) ||
        !isTaken(copy.getTarget()))
      return {};
    auto type = cast<BufferType>(copy.getSource().getType());
    Type element = type.getTensor().getElementType();
    if (type.getBytes() == 0 || 2 * type.getBytes() > mostBytes ||
        !element.isIntOrFloat())
      return {};
    int64_t each = llvm::divideCeil(element.getIntOrFloatBitWidth(), 8);
    func::FuncOp &known = copies[{type.getBytes() / each, each}];
    if (!known)
      known = makeCopy(copy.getLoc(), type.getBytes() / each, each);
    return known;
  }

  /// A kernel that copies `count` elements of `bytes` bytes, wherever they lie:
  /// a copy asks for no alignment.
  func::FuncOp makeCopy(Location loc, int64_t count, int64_t bytes) {
    OpBuilder builder(loc.getContext());
    auto type =
        RankedTensorType::get({count}, builder.getIntegerType(8 * bytes));
    std::string name = ("copy_" + Twine(count) + "x" + Twine(bytes)).str();
    auto kernel = func::FuncOp::create(builder, loc, name,
                                       builder.getFunctionType({type}, {type}));
    kernel.setPrivate();
    kernel->setAttr(attribute::kKernel, builder.getUnitAttr());
    int32_t aligned = bytes;
    kernel->setAttr(attribute::kAlign,
                    builder.getDenseI32ArrayAttr({aligned, aligned}));
    builder.setInsertionPointToEnd(kernel.addEntryBlock());
    Value to = tensor::EmptyOp::create(builder, loc, type.getShape(),
                                       type.getElementType());
    AffineMap same = builder.getMultiDimIdentityMap(1);
    auto all = linalg::GenericOp::create(
        builder, loc, TypeRange{type}, ValueRange{kernel.getArgument(0)},
        ValueRange{to}, ArrayRef<AffineMap>{same, same},
        ArrayRef<utils::IteratorType>{utils::IteratorType::parallel},
        [](OpBuilder &inner, Location at, ValueRange values) {
          linalg::YieldOp::create(inner, at, values.front());
        });
    func::ReturnOp::create(builder, loc, all.getResults());
    symbols->insert(kernel);
    parts.insert(kernel);
    return kernel;
  }

  /// What stands on a kernel of its buffers, of those of all parts.
  static void repeatFacts(func::FuncOp kernel, unsigned inputs,
                          unsigned results, unsigned count) {
    Builder builder(kernel.getContext());
    if (auto pairs = kernel->getAttrOfType<ArrayAttr>(attribute::kMayOverlap)) {
      SmallVector<Attribute> all;
      for (unsigned i = 0; i < count; ++i)
        for (auto pair : pairs.getAsRange<DenseI64ArrayAttr>())
          all.push_back(builder.getDenseI64ArrayAttr(
              {pair[0] + i * results, pair[1] + i * inputs}));
      kernel->setAttr(attribute::kMayOverlap, builder.getArrayAttr(all));
    }
    if (auto align =
            kernel->getAttrOfType<DenseI32ArrayAttr>(attribute::kAlign)) {
      SmallVector<int32_t> all;
      for (unsigned i = 0; i < count; ++i)
        llvm::append_range(all, align.asArrayRef().take_front(inputs));
      for (unsigned i = 0; i < count; ++i)
        llvm::append_range(all, align.asArrayRef().drop_front(inputs));
      kernel->setAttr(attribute::kAlign, builder.getDenseI32ArrayAttr(all));
    }
  }

  /// A kernel whose parts are `count` of `part`: arguments of all parts, then
  /// results of all parts.
  func::FuncOp widen(func::FuncOp part, unsigned count) {
    unsigned inputs = part.getNumArguments(), results = part.getNumResults();
    SmallVector<Type> arguments, returned;
    for (unsigned i = 0; i < count; ++i) {
      llvm::append_range(arguments, part.getArgumentTypes());
      llvm::append_range(returned, part.getResultTypes());
    }
    OpBuilder builder(part.getContext());
    std::string name = (part.getName() + "_x" + Twine(count)).str();
    auto whole =
        func::FuncOp::create(builder, part.getLoc(), name,
                             builder.getFunctionType(arguments, returned));
    whole.setPrivate();
    for (NamedAttribute attr : part->getDiscardableAttrs())
      whole->setAttr(attr.getName(), attr.getValue());
    whole->setAttr(attribute::kBatch, builder.getI64IntegerAttr(count));
    repeatFacts(whole, inputs, results, count);
    Block *body = whole.addEntryBlock();
    builder.setInsertionPointToEnd(body);
    SmallVector<Value> values;
    for (unsigned i = 0; i < count; ++i) {
      IRMapping map;
      map.map(part.getArguments(),
              body->getArguments().slice(i * inputs, inputs));
      for (Operation &op : part.getBody().front().without_terminator())
        builder.clone(op, map);
      for (Value value : part.getBody().front().getTerminator()->getOperands())
        values.push_back(map.lookupOrDefault(value));
    }
    func::ReturnOp::create(builder, part.getLoc(), values);
    symbols->insert(whole, std::next(Block::iterator(part)));
    return whole;
  }

  void close(func::FuncOp kind, Group &group, Way way) {
    if (group.members.size() < 2)
      return;
    SmallVector<Value> reads, writes;
    SmallVector<Location> locations;
    for (Operation *member : group.members) {
      if (auto launch = dyn_cast<KernelOp>(member))
        parts.insert(symbols->lookup(launch.getKernel()));
      auto [read, written] = buffersOf(member);
      llvm::append_range(reads, read);
      llvm::append_range(writes, written);
      locations.push_back(member->getLoc());
    }
    OpBuilder builder(way == Way::Down ? group.members.back()
                                       : group.members.front());
    func::FuncOp whole = widen(kind, group.members.size());
    KernelOp::create(builder, builder.getFusedLoc(locations), whole.getName(),
                     reads, writes, FlatSymbolRefAttr(), DenseI64ArrayAttr());
    for (Operation *member : group.members)
      member->erase();
  }

  /// Whether the op's buffers are known in front of `first`, or can be.
  static bool areKnown(Operation *op, Operation *first) {
    SmallVector<Operation *> later;
    for (Value operand : op->getOperands()) {
      Operation *maker = operand.getDefiningOp();
      if (!maker || maker->getBlock() != first->getBlock() ||
          maker->isBeforeInBlock(first))
        continue;
      if (!isa<BufferOp, ExternalOp>(maker))
        return false;
      later.push_back(maker);
    }
    for (Operation *maker : later)
      maker->moveBefore(first);
    return true;
  }

  /// Whether the op, which does what the members do, may be one.
  bool mayJoin(Operation &op, const Touched &touched, func::FuncOp kind,
               Group &group, Way way) {
    if (group.members.empty())
      return true;
    if ((group.members.size() + 1) * op.getNumOperands() > kMostBuffers ||
        group.touched.conflicts(touched))
      return false;
    return way == Way::Down ||
           (bytesOf(kind.getFunctionType()) <= mostBytes && !writesInput(&op) &&
            !group.since.conflicts(touched) &&
            areKnown(&op, group.members.front()));
  }

  /// How many launches of the block each kernel has.
  DenseMap<func::FuncOp, unsigned> countLaunches(Block &block) {
    DenseMap<func::FuncOp, unsigned> count;
    for (Operation &op : block)
      if (func::FuncOp kind = candidate(&op))
        ++count[kind];
    return count;
  }

  void run(Block &block, Way way) {
    DenseMap<func::FuncOp, unsigned> count = countLaunches(block);
    llvm::MapVector<func::FuncOp, Group> open;
    auto closeIf = [&](auto condition) {
      for (auto &[kind, group] : open)
        if (!group.members.empty() && condition(kind, group)) {
          close(kind, group, way);
          group = Group();
        }
    };
    for (Operation &op : llvm::make_early_inc_range(block)) {
      for (Region &region : op.getRegions())
        for (Block &inner : region)
          run(inner, way);
      if (isa<BufferOp, ExternalOp, ViewOp>(op))
        continue;
      Touched touched;
      touched.add(&op);
      func::FuncOp kind = candidate(&op);
      if (kind && count[kind] < 2)
        kind = {};
      closeIf([&](func::FuncOp known, Group &group) {
        if (known == kind)
          return !mayJoin(op, touched, kind, group, way);
        // What is moved past other launches keeps its operands alive there.
        bool isTooLarge = !kind && bytesOf(known.getFunctionType()) > mostBytes;
        return isa<SpeculateOp>(op) ||
               (way == Way::Down &&
                (isTooLarge || group.touched.conflicts(touched)));
      });
      for (auto &[known, group] : open)
        if (known != kind && way == Way::Up)
          group.since.add(touched);
      if (!kind)
        continue;
      Group &group = open[kind];
      if (group.members.empty())
        group.since = Touched();
      group.members.push_back(&op);
      group.touched.add(touched);
    }
    closeIf([](func::FuncOp, Group &) { return true; });
  }

  void runOnOperation() override {
    SymbolTable table(getOperation());
    symbols = &table;
    kinds = Kinds();
    copies.clear();
    parts.clear();
    SmallVector<ProgramOp> programs(getOperation().getOps<ProgramOp>());
    for (Way way : {Way::Down, Way::Up})
      for (ProgramOp program : programs)
        run(program.getBlock(), way);
    // Kernels that are parts of others alone need no code.
    llvm::SmallDenseSet<StringRef> launched;
    getOperation().walk([&](KernelOp op) { launched.insert(op.getKernel()); });
    for (auto kernel :
         llvm::make_early_inc_range(getOperation().getOps<func::FuncOp>()))
      if (parts.contains(kernel) && !launched.contains(kernel.getName()))
        table.erase(kernel);
  }

  SymbolTable *symbols = nullptr;
  Kinds kinds;
  /// Kernels that copy, by the number of elements and their bytes.
  DenseMap<std::pair<int64_t, int64_t>, func::FuncOp> copies;
  /// Kernels that have become parts of others, or would do what copies do.
  llvm::SmallDenseSet<Operation *> parts;
};

} // namespace
