//===- DropCopies.cpp - Copies that loops and branches do without ---------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "Converter.h"

using namespace mlir;
using namespace pyjit;
using namespace pyjit::cudagraph;

namespace {

/// The ops that look at `buffer` or write it, through views or not.
void collectUsers(Value buffer, SmallVectorImpl<Operation *> &users) {
  for (Operation *user : buffer.getUsers())
    if (auto view = dyn_cast<ViewOp>(user))
      collectUsers(view.getResult(), users);
    else
      users.push_back(user);
}

SmallVector<Operation *> usersOf(Value buffer) {
  SmallVector<Operation *> users;
  collectUsers(buffer, users);
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

/// `kernel` writes `source`, which is copied to `target`: it could write
/// `target`, if nobody looks at what is there until the copy, nor at `source`
/// behind it.
bool writeInPlace(CopyOp copy) {
  Value source = copy.getSource(), target = copy.getTarget();
  if (!isPlanned(source) || !(isPlanned(target) || isOutput(target)))
    return false;
  KernelOp writer = onlyWriter(copy);
  if (!writer)
    return false;
  Block *block = copy->getBlock();
  for (Operation *user : usersOf(source)) {
    Operation *here = block->findAncestorOpInBlock(*user);
    if (user != copy && (!here || here->isBeforeInBlock(writer) ||
                         !here->isBeforeInBlock(copy)))
      return false;
  }
  for (Operation *user : usersOf(target)) {
    Operation *here = block->findAncestorOpInBlock(*user);
    if (user == copy || !here)
      continue; // another block: not between the two
    if (here == writer ||
        (writer->isBeforeInBlock(here) && here->isBeforeInBlock(copy)))
      return false;
  }
  if (isOutput(target))
    target.getDefiningOp()->moveBefore(&block->front());
  source.replaceAllUsesWith(target);
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
