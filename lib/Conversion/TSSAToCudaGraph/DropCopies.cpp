//===- DropCopies.cpp - Copies that loops and branches do without ---------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "Converter.h"

#include "dialects/tssa/IR/Views.h"

using namespace mlir;
using namespace pyjit;
using namespace pyjit::cudagraph;

namespace {

/// Calls `visit` for every op that looks at `buffer` or writes it, with what
/// that op is shown of it.
void visitUses(Value buffer, function_ref<void(Operation *, Value)> visit) {
  for (Operation *user : buffer.getUsers())
    if (auto view = dyn_cast<ViewOp>(user))
      visitUses(view.getResult(), visit);
    else
      visit(user, buffer);
}

SmallVector<Operation *> usersOf(Value buffer) {
  SmallVector<Operation *> users;
  visitUses(buffer, [&](Operation *user, Value) { users.push_back(user); });
  return users;
}

bool isPlanned(Value value) {
  return isa_and_nonnull<BufferOp>(value.getDefiningOp());
}

bool isOutput(Value value) {
  auto external = dyn_cast_or_null<ExternalOp>(value.getDefiningOp());
  return external && external.getRole() == Role::output;
}

/// The kernel that alone writes `source`, right where the copy stands.
KernelOp onlyWriter(CopyOp copy) {
  KernelOp writer;
  for (Operation *user : usersOf(copy.getSource())) {
    if (user == copy)
      continue;
    auto kernel = dyn_cast<KernelOp>(user);
    bool writes =
        kernel && llvm::is_contained(kernel.getWrites(), copy.getSource());
    if (writes && (writer || kernel->getBlock() != copy->getBlock() ||
                   !kernel->isBeforeInBlock(copy)))
      return {};
    if (writes)
      writer = kernel;
    // Vendor calls may write what they mutate; copies write their target.
    auto call = dyn_cast<CallOp>(user);
    auto other = dyn_cast<CopyOp>(user);
    if ((call && call.getMutates()) || isa<HostValueOp>(user) ||
        (other && getRoot(other.getTarget()) == copy.getSource()))
      return {};
  }
  return writer;
}

/// Elements of a buffer of the program that a view shows, from the first to the
/// last.
struct Part {
  Value root; // null where the place is not known
  int64_t begin = 0, end = 0;

  explicit Part(Value shown) {
    auto type = cast<BufferType>(shown.getType()).getTensor();
    if (!type.hasStaticShape())
      return;
    for (; auto view = shown.getDefiningOp<ViewOp>();
         shown = view.getSource()) {
      if (view.getSymbolic())
        return;
      begin += view.getOffset();
    }
    int64_t extent = tssa::getExtent(type).constant();
    root = shown;
    end = begin + extent;
  }
  bool meets(const Part &other) const {
    return !root || !other.root ||
           (root == other.root && begin < other.end && other.begin < end);
  }
};

/// Whether `user` leaves what it is shown as it is.
bool onlyReads(Operation *user, Value shown) {
  if (auto kernel = dyn_cast<KernelOp>(user))
    return !llvm::is_contained(kernel.getWrites(), shown);
  if (auto copy = dyn_cast<CopyOp>(user))
    return copy.getTarget() != shown;
  auto call = dyn_cast<CallOp>(user);
  return call && !call.getMutates();
}

/// The last op that looks at `source`, if all do it behind `writer`, in its
/// block.
Operation *lastReader(Value source, KernelOp writer) {
  Block *block = writer->getBlock();
  Operation *last = writer;
  for (Operation *user : usersOf(source)) {
    Operation *here = block->findAncestorOpInBlock(*user);
    if (!here || here->isBeforeInBlock(writer))
      return nullptr;
    if (last->isBeforeInBlock(here))
      last = here;
  }
  return last;
}

/// A kernel writes `source`, which is copied to `target`: it could write
/// `target`, if nobody looks at what is there until the copy, nor writes there
/// while somebody looks at `source`.
bool writeInPlace(CopyOp copy) {
  Value source = copy.getSource(), target = copy.getTarget();
  Value root = getRoot(target);
  if (!isPlanned(source) || source.getType() != target.getType() ||
      source == root || !(isPlanned(root) || isOutput(target)))
    return false;
  KernelOp writer = onlyWriter(copy);
  Operation *last = writer ? lastReader(source, writer) : nullptr;
  Part part(target);
  // What somebody else is handed is not read again.
  if (!last || (copy->isBeforeInBlock(last) && !isPlanned(root)))
    return false;
  Block *block = copy->getBlock();
  bool isFree = true;
  visitUses(root, [&](Operation *user, Value shown) {
    Operation *here = block->findAncestorOpInBlock(*user);
    if (user == copy || !here || !part.meets(Part(shown)))
      return; // in another block: not between the two
    bool isBetween = here == writer || (writer->isBeforeInBlock(here) &&
                                        !last->isBeforeInBlock(here));
    bool isBehind = copy->isBeforeInBlock(here);
    isFree &= !isBetween || (isBehind && onlyReads(user, shown));
  });
  if (!isFree)
    return false;
  if (Operation *maker = target.getDefiningOp(); isOutput(target))
    maker->moveBefore(&block->front());
  else
    for (Operation *at = writer; (maker = target.getDefiningOp<ViewOp>());
         at = maker, target = cast<ViewOp>(maker).getSource())
      if (maker->getBlock() == block && at->isBeforeInBlock(maker))
        maker->moveBefore(at);
  source.replaceAllUsesWith(copy.getTarget());
  copy.erase();
  return true;
}

/// Nobody looks at `source` behind the copy, nor at `target` before it: they
/// may be one buffer. `source` must be made anew wherever the copy is made.
bool stayInPlace(CopyOp copy) {
  Value source = copy.getSource(), target = copy.getTarget();
  if (!isPlanned(source) || !isPlanned(target))
    return false;
  Block *block = copy->getBlock();
  Operation *first = nullptr;
  for (Operation *user : usersOf(source)) {
    Operation *here = block->findAncestorOpInBlock(*user);
    if (user == copy)
      continue;
    if (!here || !here->isBeforeInBlock(copy))
      return false;
    if (!first || here->isBeforeInBlock(first))
      first = here;
  }
  auto kernel = dyn_cast_or_null<KernelOp>(first);
  auto other = dyn_cast_or_null<CopyOp>(first);
  if (!(kernel && llvm::is_contained(kernel.getWrites(), source)) &&
      !(other && other.getTarget() == source))
    return false;
  for (Operation *user : usersOf(target)) {
    Operation *here = block->findAncestorOpInBlock(*user);
    if (user != copy && (!here || !copy->isBeforeInBlock(here)))
      return false;
  }
  target.replaceAllUsesWith(source);
  copy.erase();
  return true;
}

} // namespace

void pyjit::conversion::dropCopies(ProgramOp program) {
  // Buffers stand in front, so that any launch may write any of them.
  Block &block = program.getBlock();
  SmallVector<CopyOp> copies;
  program.walk([&](CopyOp copy) { copies.push_back(copy); });
  if (copies.empty())
    return;
  Operation *front = &block.front();
  for (auto buffer : llvm::make_early_inc_range(block.getOps<BufferOp>()))
    if (buffer != front)
      buffer->moveBefore(front);
  for (CopyOp copy : copies)
    if (!writeInPlace(copy))
      stayInPlace(copy);
  program.walk([](BufferOp buffer) {
    if (buffer->use_empty())
      buffer.erase();
  });
}
