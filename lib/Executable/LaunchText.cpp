//===- LaunchText.cpp - Launch programs for readers -----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "pyjit/Executable/LaunchText.h"

#include "pyjit-rt/Launch.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <cstring>

using namespace llvm;

namespace pyjit::executable {

namespace {

/// The encoder's own output: indices are not checked here again
/// (rt::Program::load does).
class LaunchPrinter {
public:
  LaunchPrinter(StringRef blob, raw_ostream &os) : os(os) {
    std::memcpy(&header, blob.data(), sizeof header);
    const char *at = blob.data() + sizeof header;
    auto read = [&](auto &table, uint64_t count) {
      table.resize(count);
      if (count)
        std::memcpy(table.data(), at, count * sizeof table[0]);
      at += count * sizeof table[0];
    };
    read(slots, header.slots);
    read(steps, header.steps);
    read(kernels, header.kernels);
    read(ints, header.ints);
    chars = StringRef(at, header.chars);
  }

  void print() {
    os << "launch: " << header.inputs << " inputs, arena " << header.arenaBytes
       << (header.savedBytes ? ", saved " + std::to_string(header.savedBytes)
                             : "")
       << (header.deviceType == 1
               ? ", on cuda:" + std::to_string(header.deviceIndex)
               : "")
       << "\n";
    for (auto [i, slot] : enumerate(slots))
      printSlot(i, slot);
    unsigned depth = 1;
    for (const rt::Step &step : steps) {
      rt::StepKind kind = step.kind;
      bool closes = is_contained({rt::StepKind::WhileEnd, rt::StepKind::ForEnd,
                                  rt::StepKind::Else, rt::StepKind::IfEnd,
                                  rt::StepKind::GraphEnd},
                                 kind);
      bool opens = is_contained({rt::StepKind::While, rt::StepKind::For,
                                 rt::StepKind::If, rt::StepKind::Else,
                                 rt::StepKind::GraphBegin},
                                kind);
      depth -= closes;
      os.indent(2 * depth);
      printStep(step);
      os << "\n";
      depth += opens;
    }
    os << "outputs:";
    for (uint32_t i = 0; i < header.outputs; ++i)
      os << " s" << uint32_t(ints[i])
         << (ints[i] & rt::kOutputInPlace ? " in place" : "");
    os << "\n";
  }

private:
  StringRef string(uint64_t index) { return StringRef(chars.data() + index); }

  void printSlot(unsigned number, const rt::Slot &slot) {
    static constexpr StringLiteral kinds[] = {
        "input", "arena", "fresh", "result", "view", "cached", "words"};
    os << "  s" << number << " = " << kinds[unsigned(slot.kind)];
    if (is_contained(
            {rt::SlotKind::Input, rt::SlotKind::Arena, rt::SlotKind::Cached},
            slot.kind))
      os << " " << slot.place;
    ArrayRef<int64_t> dims(ints.data() + slot.dims, 2 * slot.rank);
    os << ": dtype " << unsigned(slot.dtype) << " [";
    interleaveComma(dims.take_front(slot.rank), os);
    os << "] strides [";
    interleaveComma(dims.drop_front(slot.rank), os);
    os << "]";
    if (slot.flags & rt::kSlotWritten)
      os << " written";
    if (slot.flags & rt::kSlotSaved)
      os << " saved at " << slot.place;
    os << "\n";
  }

  void printSlots(ArrayRef<int64_t> list) {
    os << "(";
    interleaveComma(list, os, [&](int64_t slot) { os << "s" << slot; });
    os << ")";
  }

  void printShape(const rt::Kernel &kernel) {
    os << " grid ";
    interleave(kernel.grid, os, "x");
    os << " block ";
    interleave(kernel.block, os, "x");
  }

  /// The kernel's indirect version, and which of its operands are looked up.
  void printIndirect(int64_t kernel, int64_t mask) {
    os << " indirect " << string(kernels[kernel].name) << " [";
    ListSeparator separator;
    for (unsigned i = 0; i < 63; ++i)
      if (mask >> i & 1)
        os << separator << i;
    os << "]";
  }

  void printBound(uint64_t at) { os << (ints[at] ? "s" : "") << ints[at + 1]; }

  void printStep(const rt::Step &step) {
    switch (step.kind) {
    case rt::StepKind::Kernel:
      os << "kernel " << string(kernels[step.a].name) << " ";
      printSlots(ArrayRef(ints).slice(step.b, step.c));
      if (header.deviceType == 1)
        printShape(kernels[step.a]);
      if (step.flags & rt::kStepIndirect)
        printIndirect(ints[step.b + step.c], ints[step.b + step.c + 1]);
      break;
    case rt::StepKind::Call:
      os << "call " << string(step.a) << " -> ";
      printSlots(ArrayRef(ints).slice(step.c + 1, ints[step.c]));
      break;
    case rt::StepKind::View:
      os << "s" << step.a << " = view of s" << step.b << " at " << ints[step.c];
      if (step.flags & rt::kStepDynamic)
        for (int64_t k = 0; k < ints[step.c + 1]; ++k) {
          const int64_t *words = &ints[step.c + 2 + 5 * k];
          os << " + (" << words[1] << " * s" << words[0] << " + " << words[2]
             << " below " << words[3] << ") * " << words[4];
        }
      break;
    case rt::StepKind::Release:
      os << "release s" << step.a;
      break;
    case rt::StepKind::Copy:
      os << "copy s" << step.a << " to s" << step.b
         << (step.flags & rt::kStepPatchable ? " patchable" : "");
      break;
    case rt::StepKind::HostValue:
      os << "host value s" << step.a << " to s" << step.b;
      break;
    case rt::StepKind::GraphBegin:
      os << "graph " << step.a << " {";
      break;
    case rt::StepKind::While:
      os << "while {";
      break;
    case rt::StepKind::WhileTest:
      os << "test s" << step.a;
      break;
    case rt::StepKind::For:
      os << "for s" << step.a << " = ";
      printBound(step.b);
      os << " to ";
      printBound(step.b + 2);
      os << " by " << ints[step.b + 4] << " {";
      break;
    case rt::StepKind::If:
      os << "if s" << step.a << " {";
      break;
    case rt::StepKind::Else:
      os << "} else {";
      break;
    case rt::StepKind::GraphEnd:
    case rt::StepKind::WhileEnd:
    case rt::StepKind::ForEnd:
    case rt::StepKind::IfEnd:
      os << "}";
      break;
    case rt::StepKind::Speculate:
      os << "speculate s" << step.a;
      break;
    case rt::StepKind::Undo:
      os << "undo by the next " << step.a;
      break;
    case rt::StepKind::Move:
      os << "s" << step.a << " = s" << step.b;
      break;
    case rt::StepKind::Pick: {
      const int64_t *words = &ints[step.b];
      os << "s" << step.a << " = " << words[1] << " * s" << words[0] << " + "
         << words[2] << " of ";
      printSlots(ArrayRef(ints).slice(step.b + 4, words[3]));
      break;
    }
    }
  }

  raw_ostream &os;
  rt::Header header;
  std::vector<rt::Slot> slots;
  std::vector<rt::Step> steps;
  std::vector<rt::Kernel> kernels;
  std::vector<int64_t> ints;
  StringRef chars;
};

} // namespace

void printLaunch(StringRef blob, raw_ostream &os) {
  uint32_t start[2] = {};
  if (blob.size() >= sizeof(rt::Header))
    std::memcpy(start, blob.data(), sizeof start);
  if (start[0] != rt::kLaunchMagic || start[1] != rt::kLaunchVersion) {
    os << "no launch program of version " << rt::kLaunchVersion << "\n";
    return;
  }
  LaunchPrinter(blob, os).print();
}

} // namespace pyjit::executable
