//===- CudaGraphVerifier.cpp - What no launch program may do --------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "dialects/cudagraph/IR/CudaGraph.h"

#include "pyjit/Operators/CallArguments.h"
#include "pyjit/Operators/OperatorInfo.h"

#include "llvm/ADT/DenseSet.h"

using namespace mlir;
using namespace pyjit;
using namespace pyjit::cudagraph;

static BufferType typeOf(Value value) {
  return cast<BufferType>(value.getType());
}

//===----------------------------------------------------------------------===//
// Single ops
//===----------------------------------------------------------------------===//

LogicalResult ExternalOp::verify() {
  if (!isa<ProgramOp>((*this)->getParentOp()))
    return emitOpError("belongs to the program, not into one of its bodies");
  if (getRole() == Role::output && getType().isHost())
    return emitOpError("is an output in host memory, which only vendor calls "
                       "can allocate");
  return success();
}

LogicalResult BufferOp::verify() {
  if (getType().isHost())
    return emitOpError("is in host memory, which programs do not plan");
  constexpr int64_t kAlignment = 256;
  if (auto offset = getOffset(); offset && *offset % kAlignment)
    return emitOpError("begins at byte ")
           << *offset << ", which is no multiple of " << kAlignment;
  if (auto lives = getLives();
      lives && (lives->size() != 2 || getOffset() || (*lives)[0] > (*lives)[1]))
    return emitOpError("lives from one launch to another, and has no place");
  if (getOffset() && getType().isSymbolic())
    return emitOpError("has a place, which no call need agree with");
  return success();
}

LogicalResult ViewOp::verify() {
  if (typeOf(getSource()).getSpace() != getType().getSpace())
    return emitOpError("shows a buffer of another space");
  if (typeOf(getSource()).getTensor().getElementType() !=
      getType().getTensor().getElementType())
    return emitOpError("shows another element type than its source has");
  return success();
}

LogicalResult ReleaseOp::verify() {
  Operation *maker = getBuffer().getDefiningOp();
  if (!isa_and_nonnull<CallOp, GraphOp>(maker))
    return emitOpError("releases what no vendor call allocated");
  if (maker->getBlock() != (*this)->getBlock())
    return emitOpError("releases what was not made in its own block");
  return success();
}

LogicalResult KernelOp::verify() {
  for (Value buffer : (*this)->getOperands())
    if (typeOf(buffer).isHost() && (*this)->getParentOfType<GraphOp>())
      return emitOpError("reads host memory inside a graph");
  if (getIndirectKernel().has_value() != getIndirect().has_value())
    return emitOpError("names an indirect version of its kernel and no "
                       "indirect buffers, or the reverse");
  llvm::SmallDenseSet<int64_t> seen;
  for (int64_t i : getIndirect().value_or(ArrayRef<int64_t>())) {
    if (i < 0 || i >= int64_t(getNumBuffers()))
      return emitOpError("takes buffer ")
             << i << " indirectly, of " << getNumBuffers();
    if (!seen.insert(i).second)
      return emitOpError("takes buffer ") << i << " indirectly twice";
    if (!getExternal(getBuffer(i)))
      return emitOpError("takes buffer ")
             << i << " indirectly, which is not external";
  }
  return success();
}

LogicalResult CallOp::verify() {
  if (failed(
          operators::verifyCallArguments(*this, getArgs(), getInputs().size())))
    return failure();
  for (int64_t i : getMutates().value_or(ArrayRef<int64_t>()))
    if (i < 0 || i >= static_cast<int64_t>(getInputs().size()))
      return emitOpError("mutates operand ")
             << i << " of " << getInputs().size();
  if (!(*this)->getParentOfType<GraphOp>())
    return success();
  for (Value buffer : getInputs())
    if (typeOf(buffer).isHost())
      return emitOpError("reads host memory inside a graph");
  for (Value result : getOutputs())
    if (typeOf(result).isHost())
      return emitOpError("reads a device value on the host inside a graph");
  const operators::OperatorInfo *info =
      operators::lookupOperator(getOverload());
  if (info && info->kind == operators::OperatorClass::Dynamic)
    return emitOpError("reads a device value on the host inside a graph (the "
                       "shape of its result depends on data)");
  return success();
}

/// Element type, shape and layout are the same; the space need not be.
static LogicalResult verifySameTensor(Operation *op, Value a, Value b) {
  if (typeOf(a).getTensor() != typeOf(b).getTensor())
    return op->emitOpError("moves ")
           << typeOf(a).getTensor() << " into " << typeOf(b).getTensor();
  return success();
}

LogicalResult CopyOp::verify() {
  bool crosses = typeOf(getSource()).isHost() || typeOf(getTarget()).isHost();
  if (crosses && (*this)->getParentOfType<GraphOp>())
    return emitOpError(typeOf(getTarget()).isHost()
                           ? "reads a device value on the host inside a graph"
                           : "reads host memory inside a graph");
  if (getPatchable()) {
    if (!isa<GraphOp>((*this)->getParentOp()))
      return emitOpError("is patchable, but stands in no graph, or in a body "
                         "in one");
    if (isOfResult() && !isWhole(getSource()))
      return emitOpError("is patchable, but its source is a part of a buffer");
    if (isOfResult())
      return verifySameTensor(*this, getSource(), getTarget());
    if (getExternal(getSource()) != getSource() || !isMoving(getSource()))
      return emitOpError("is patchable, but its source is no external buffer "
                         "that moves");
    if (!getTarget().getDefiningOp<BufferOp>())
      return emitOpError("is patchable, but its target is no whole buffer of "
                         "the program's");
  }
  return verifySameTensor(*this, getSource(), getTarget());
}

LogicalResult HostValueOp::verify() {
  if (!typeOf(getSource()).isHost() || typeOf(getTarget()).isHost())
    return emitOpError("takes a number from the host to the device");
  RankedTensorType tensor = typeOf(getSource()).getTensor();
  if (!tensor.hasStaticShape() || tensor.getNumElements() != 1)
    return emitOpError("takes one number, not ") << tensor;
  return verifySameTensor(*this, getSource(), getTarget());
}

static LogicalResult verifyCondition(Operation *op, Value condition) {
  RankedTensorType tensor = typeOf(condition).getTensor();
  if (!tensor.getElementType().isInteger(1) || tensor.getNumElements() != 1)
    return op->emitOpError("is decided by one boolean");
  if (typeOf(condition).isHost() && op->getParentOfType<GraphOp>())
    return op->emitOpError("reads host memory inside a graph");
  return success();
}

LogicalResult SpeculateOp::verify() {
  return verifyCondition(*this, getFlag());
}

LogicalResult IfOp::verify() { return verifyCondition(*this, getCondition()); }

LogicalResult WhileOp::verifyRegions() {
  if (failed(verifyCondition(*this, getCondition())))
    return failure();
  bool written = false;
  Value root = getRoot(getCondition());
  getBody().walk([&](Operation *op) {
    auto writes = [&](Value buffer) { written |= getRoot(buffer) == root; };
    if (auto kernel = dyn_cast<KernelOp>(op))
      llvm::for_each(kernel.getWrites(), writes);
    else if (auto copy = dyn_cast<CopyOp>(op))
      writes(copy.getTarget());
    else if (auto call = dyn_cast<CallOp>(op))
      for (int64_t i : call.getMutates().value_or(ArrayRef<int64_t>()))
        writes(call.getInputs()[i]);
  });
  if (!written)
    return emitOpError(
        "never writes its condition, so no iteration is the last");
  return success();
}

/// No replay renews nodes in the body of a conditional node.
static LogicalResult verifyInBody(Operation *op) {
  if (!isa<IfOp, WhileOp>(op->getParentOp()))
    return success();
  if (isa<HostValueOp>(op))
    return op->emitOpError("is renewed by each replay, which the body of a "
                           "conditional node is not");
  if (!isa<ViewOp, ReleaseOp>(op))
    for (Value operand : op->getOperands())
      if (Value external = getExternal(operand); external && isMoving(external))
        return op->emitOpError("holds the address of a buffer that moves in "
                               "the body of a conditional node, which no "
                               "replay renews");
  return success();
}

/// Leaving the copy out must make no difference: a call of its own block writes
/// its source first, all others that know it stand behind that, in the same
/// block, and none of these writes it, nor anybody else its target.
static LogicalResult verifyPatchableResult(CopyOp copy) {
  auto refuse = [&](const char *why, Operation *user) -> LogicalResult {
    InFlightDiagnostic error =
        copy.emitOpError("is patchable, but its source ");
    error << why;
    error.attachNote(user->getLoc()) << "the other use";
    return error;
  };
  Value standIn = copy.getStandIn();
  SmallVector<Value> shown{standIn};
  SmallVector<Operation *> readers;
  Operation *writer = nullptr;
  while (!shown.empty())
    for (Operation *user : shown.pop_back_val().getUsers()) {
      if (isa<ViewOp>(user)) {
        shown.push_back(user->getResult(0));
        continue;
      }
      bool writes = llvm::any_of(getWritten(user), [&](Value written) {
        return getRoot(written) == standIn;
      });
      if (user->getBlock() != copy->getBlock())
        return refuse("is known to others than its graph", user);
      if (writes && (!isa<CallOp>(user) || (writer && writer != user)))
        return refuse("is written by others than one vendor call", user);
      if (writes)
        writer = user;
      else
        readers.push_back(user);
    }
  for (Operation *reader : readers)
    if (!writer || !writer->isBeforeInBlock(reader))
      return refuse("is read in front of the vendor call that writes it",
                    reader);
  for (Operation *user : copy.getTarget().getUsers())
    if (user != copy && user->getBlock() == copy->getBlock())
      return refuse("stands in for what the graph knows", user);
  return success();
}

/// Leaving the copy out must make no difference: calls behind it, in its own
/// block, read its target and nobody else knows it, and its source stays as it
/// is up to the graph's end.
static LogicalResult verifyPatchable(CopyOp copy) {
  if (copy.isOfResult())
    return verifyPatchableResult(copy);
  SmallVector<Value> shown{copy.getTarget()};
  while (!shown.empty())
    for (Operation *user : shown.pop_back_val().getUsers()) {
      if (user == copy)
        continue;
      if (isa<ViewOp>(user))
        shown.push_back(user->getResult(0));
      bool fits = isa<ViewOp, CallOp>(user) &&
                  user->getBlock() == copy->getBlock() &&
                  copy->isBeforeInBlock(user);
      for (Value written : getWritten(user))
        fits &= getRoot(written) != copy.getTarget();
      if (!fits)
        return copy.emitOpError("is patchable, but its target is not read by "
                                "vendor calls behind it alone")
                   .attachNote(user->getLoc())
               << "the other use";
    }
  for (Operation *op = copy->getNextNode(); op; op = op->getNextNode()) {
    WalkResult walked = op->walk([&](Operation *inner) {
      for (Value written : getWritten(inner))
        if (getRoot(written) == copy.getSource())
          return WalkResult::interrupt();
      return WalkResult::advance();
    });
    if (walked.wasInterrupted())
      return copy.emitOpError("is patchable, but its source is written behind "
                              "it")
                 .attachNote(op->getLoc())
             << "here";
  }
  return success();
}

LogicalResult GraphOp::verifyRegions() {
  if ((*this)->getParentOfType<GraphOp>())
    return emitOpError("is inside another graph");
  llvm::SmallDenseSet<Value> declared;
  for (Value buffer : getExternals()) {
    if (getExternal(buffer) != buffer)
      return emitOpError("declares an external buffer that is none");
    declared.insert(buffer);
  }
  WalkResult walked = getBody().walk([&](Operation *op) {
    for (Value operand : op->getOperands())
      if (Value external = getExternal(operand))
        if (!declared.contains(external)) {
          op->emitOpError("uses an external buffer that its graph does not "
                          "declare: a replay would use the address of another "
                          "call")
                  .attachNote(external.getLoc())
              << "the buffer";
          return WalkResult::interrupt();
        }
    return failed(verifyInBody(op)) ? WalkResult::interrupt()
                                    : WalkResult::advance();
  });
  if (walked.wasInterrupted())
    return failure();
  auto yield =
      getBlock().empty() ? YieldOp() : dyn_cast<YieldOp>(getBlock().back());
  if (!yield)
    return emitOpError("does not end in cudagraph.yield");
  if (yield.getValues().getTypes() != getResults().getTypes())
    return emitOpError("yields other buffers than its results");
  for (auto copy : getBody().getOps<CopyOp>())
    if (copy.getPatchable() && failed(verifyPatchable(copy)))
      return failure();
  return success();
}

//===----------------------------------------------------------------------===//
// The program: use after free, and before anything is there
//===----------------------------------------------------------------------===//

/// Walks ops in the order of the stream.
static LogicalResult verifyLifetimes(Block &block, DenseSet<Value> &freed) {
  for (Operation &op : block) {
    for (Value operand : op.getOperands())
      if (freed.contains(getRoot(operand)))
        return op.emitOpError("uses a buffer after its release");
    if (auto release = dyn_cast<ReleaseOp>(op))
      freed.insert(getRoot(release.getBuffer()));
    for (Region &region : op.getRegions())
      for (Block &inner : region)
        if (failed(verifyLifetimes(inner, freed)))
          return failure();
  }
  return success();
}

/// Memory that the program plans or hands out, which nothing has filled before
/// the program does.
static bool isEmptyAtFirst(Value root) {
  auto external = root.getDefiningOp<ExternalOp>();
  return root.getDefiningOp<BufferOp>() ||
         (external && external.getRole() == Role::output);
}

/// Walks ops in the order of the stream, with the memory of which some has been
/// written on every way there. A copy hands on what nothing has filled, too:
/// the start of a tensor that is written part by part.
static LogicalResult verifyWritten(Block &block, DenseSet<Value> &written) {
  auto isUnwritten = [&](Value buffer) {
    Value root = getRoot(buffer);
    return isEmptyAtFirst(root) && !written.contains(root);
  };
  for (Operation &op : block) {
    SmallVector<Value> writes = getWritten(&op);
    if (auto copy = dyn_cast<CopyOp>(op); copy && isUnwritten(copy.getSource()))
      continue;
    SmallVector<Value> reads;
    if (auto kernel = dyn_cast<KernelOp>(op))
      reads = kernel.getReads();
    else if (!isa<ViewOp, GraphOp, CopyOp, HostValueOp>(op))
      reads = op.getOperands();
    for (Value read : reads)
      if (isUnwritten(read) && !llvm::is_contained(writes, read))
        return op.emitOpError("reads a buffer that nothing has written yet")
                   .attachNote(getRoot(read).getLoc())
               << "the buffer";
    for (Value write : writes)
      written.insert(getRoot(write));
    if (isa<GraphOp>(op)) {
      if (failed(verifyWritten(op.getRegion(0).front(), written)))
        return failure();
      continue;
    }
    // What one side writes, the other one need not; a loop may end at once.
    SmallVector<DenseSet<Value>> sides;
    for (Region &region : op.getRegions()) {
      sides.push_back(written);
      if (!region.empty() &&
          failed(verifyWritten(region.front(), sides.back())))
        return failure();
    }
    if (isa<IfOp>(op))
      for (Value buffer : sides[0])
        if (sides[1].contains(buffer))
          written.insert(buffer);
  }
  return success();
}

static bool isPlanned(ProgramOp program) {
  return program
      .walk([](BufferOp buffer) {
        return buffer.getOffset() || buffer.getLives() ? WalkResult::interrupt()
                                                       : WalkResult::advance();
      })
      .wasInterrupted();
}

/// Two planned buffers may share bytes of the arena only where the first one's
/// last use comes before the second one's first.
static LogicalResult verifyArena(ProgramOp program) {
  struct Planned {
    BufferOp op;
    int64_t first, last, begin, end;
  };
  SmallVector<Planned> planned;
  for (auto &[buffer, life] : getLifetimes(program)) {
    auto op = buffer.getDefiningOp<BufferOp>();
    if (!op.getOffset())
      continue;
    int64_t begin = *op.getOffset();
    planned.push_back(
        {op, life.first, life.last, begin, begin + op.getType().getBytes()});
  }
  int64_t arena = program.getArena().value_or(0);
  for (auto [i, a] : llvm::enumerate(planned)) {
    if (a.end > arena)
      return a.op.emitOpError("reaches beyond the arena's ")
             << arena << " bytes";
    for (Planned &b : ArrayRef(planned).drop_front(i + 1).vec())
      if (a.first >= 0 && b.first >= 0 && a.begin < b.end && b.begin < a.end &&
          a.first <= b.last && b.first <= a.last)
        return b.op.emitOpError("shares bytes of the arena with a buffer that "
                                "is in use at the same time")
                   .attachNote(a.op.getLoc())
               << "the other buffer";
  }
  return success();
}

LogicalResult ProgramOp::verifyRegions() {
  if (getBlock().empty() || !isa<ReturnOp>(getBlock().back()))
    return emitOpError("does not end in cudagraph.return");
  llvm::SmallDenseSet<std::pair<int, int64_t>> seen;
  for (auto external : getBody().getOps<ExternalOp>())
    if (!seen.insert({int(external.getRole()), external.getNumber()}).second)
      return external.emitOpError("is declared twice");
  if (auto variants = getVariants())
    for (Attribute variant : *variants)
      if (!symbolizeVariant(cast<StringAttr>(variant).getValue()))
        return emitOpError("has an unknown variant ") << variant;
  DenseSet<Value> freed;
  if (failed(verifyLifetimes(getBlock(), freed)))
    return failure();
  DenseSet<Value> written;
  if (isPlanned(*this) && failed(verifyWritten(getBlock(), written)))
    return failure();
  return verifyArena(*this);
}
