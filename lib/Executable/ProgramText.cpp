//===- ProgramText.cpp - flat programs for readers ------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "pyjit/Executable/ProgramText.h"
#include "pyjit-rt/ScalarMath.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Format.h"

using namespace llvm;

namespace pyjit::executable {

namespace {

/// How an instruction is written. One letter per operand:
///   d  dst =           a, b  registers       c  constant b     C  constant imm
///   i  imm             t  tensor imm         s  state imm
///   l  list a, size b  L  list b, size imm
///   n  n dst =          x, y  n registers a, b   A, O  arithmetic, comparison
struct Form {
  unsigned op;
  StringLiteral name;
  StringLiteral operands;
};

constexpr Form guardForms[] = {{PYJIT_GUARD_OBJECT, "OBJECT", "di"},
                               {PYJIT_GUARD_ARG, "ARG", "di"},
                               {PYJIT_GUARD_ATTR, "ATTR", "dac"},
                               {PYJIT_GUARD_DICT, "DICT", "da"},
                               {PYJIT_GUARD_ITEM, "ITEM", "dai"},
                               {PYJIT_GUARD_KEY, "KEY", "dac"},
                               {PYJIT_GUARD_TYPE, "TYPE", "da"},
                               {PYJIT_GUARD_TYPEATTR, "TYPEATTR", "dac"},
                               {PYJIT_GUARD_CODE, "CODE", "da"},
                               {PYJIT_GUARD_DEFAULTS, "DEFAULTS", "da"},
                               {PYJIT_GUARD_KWDEFAULTS, "KWDEFAULTS", "da"},
                               {PYJIT_GUARD_GLOBALS, "GLOBALS", "da"},
                               {PYJIT_GUARD_CELL, "CELL", "dai"},
                               {PYJIT_GUARD_SLOT, "SLOT", "dac"},
                               {PYJIT_GUARD_GRAD, "GRAD", "da"},
                               {PYJIT_GUARD_DATA, "DATA", "da"},
                               {PYJIT_GUARD_UNHOOKED, "UNHOOKED", "a"},
                               {PYJIT_GUARD_FIELD, "FIELD", "dac"},
                               {PYJIT_GUARD_NO_ATTR, "NO_ATTR", "ac"},
                               {PYJIT_GUARD_NO_KEY, "NO_KEY", "ac"},
                               {PYJIT_GUARD_NO_TYPEATTR, "NO_TYPEATTR", "ac"},
                               {PYJIT_GUARD_NO_CELL, "NO_CELL", "ai"},
                               {PYJIT_GUARD_NO_SLOT, "NO_SLOT", "ac"},
                               {PYJIT_GUARD_TYPE_IS, "TYPE_IS", "ai"},
                               {PYJIT_GUARD_IS, "IS", "ai"},
                               {PYJIT_GUARD_IS_CONST, "IS_CONST", "ac"},
                               {PYJIT_GUARD_EQ_INT, "EQ_INT", "ai"},
                               {PYJIT_GUARD_EQ_FLOAT, "EQ_FLOAT", "ac"},
                               {PYJIT_GUARD_EQ_STR, "EQ_STR", "ac"},
                               {PYJIT_GUARD_EQ, "EQ", "ac"},
                               {PYJIT_GUARD_LENGTH, "LENGTH", "ai"},
                               {PYJIT_GUARD_KEYS, "KEYS", "ac"},
                               {PYJIT_GUARD_TABLE, "TABLE", "ac"},
                               {PYJIT_GUARD_SAME, "SAME", "ab"},
                               {PYJIT_GUARD_DISTINCT, "DISTINCT", "ab"},
                               {PYJIT_GUARD_TENSOR, "TENSOR", "at"},
                               {PYJIT_GUARD_DISJOINT, "DISJOINT", "li"},
                               {PYJIT_GUARD_UNALIASED, "UNALIASED", "li"},
                               {PYJIT_GUARD_STATE, "STATE", "s"},
                               {PYJIT_GUARD_INSTANCE, "INSTANCE", "abi"},
                               {PYJIT_GUARD_HOLDS, "HOLDS", "ac"},
                               {PYJIT_GUARD_NUMBER, "NUMBER", "na"},
                               {PYJIT_GUARD_NUMBER_CONST, "NUMBER_CONST", "ni"},
                               {PYJIT_GUARD_ARITH, "ARITH", "nxyA"},
                               {PYJIT_GUARD_COMPARE, "COMPARE", "xyO"},
                               {PYJIT_GUARD_SIZE, "SIZE", "nai"},
                               {PYJIT_GUARD_STRIDE, "STRIDE", "nai"},
                               {PYJIT_GUARD_KEPT_CAST, "KEPT_CAST", "kat"}};

constexpr Form mockForms[] = {
    {PYJIT_MOCK_CONST, "CONST", "dc"},
    {PYJIT_MOCK_OBJECT, "OBJECT", "di"},
    {PYJIT_MOCK_TUPLE, "TUPLE", "dl"},
    {PYJIT_MOCK_LIST, "LIST", "dl"},
    {PYJIT_MOCK_SET, "SET", "dl"},
    {PYJIT_MOCK_DEQUE, "DEQUE", "dli"},
    {PYJIT_MOCK_SET_OF_TABLE, "SET_OF_TABLE", "dli"},
    {PYJIT_MOCK_FROZENSET_OF_TABLE, "FROZENSET_OF_TABLE", "dli"},
    {PYJIT_MOCK_FROZENSET, "FROZENSET", "dl"},
    {PYJIT_MOCK_DICT, "DICT", "d"},
    {PYJIT_MOCK_SLICE, "SLICE", "dl"},
    {PYJIT_MOCK_RANGE, "RANGE", "dl"},
    {PYJIT_MOCK_RANGE_ITERATOR, "RANGE_ITERATOR", "dl"},
    {PYJIT_MOCK_ITERATOR, "ITERATOR", "dil"},
    {PYJIT_MOCK_METHOD, "METHOD", "dl"},
    {PYJIT_MOCK_SIZE, "SIZE", "dl"},
    {PYJIT_MOCK_CELL, "CELL", "dl"},
    {PYJIT_MOCK_GENERATOR, "GENERATOR", "dl"},
    {PYJIT_MOCK_TOKEN, "TOKEN", "dl"},
    {PYJIT_MOCK_ITEM, "ITEM", "dl"},
    {PYJIT_MOCK_FUNCTION, "FUNCTION", "dl"},
    {PYJIT_MOCK_NEW, "NEW", "dil"},
    {PYJIT_MOCK_VIEW, "VIEW", "datv"},
    {PYJIT_MOCK_COPY_BACK, "COPY_BACK", "ab"},
    {PYJIT_MOCK_ADVANCE, "ADVANCE", "ai"},
    {PYJIT_MOCK_REQUIRE_GRAD, "REQUIRE_GRAD", "a"},
    {PYJIT_MOCK_FREED_GRAPH, "FREED_GRAPH", "a"},
    {PYJIT_MOCK_DIFFERENTIABLE, "DIFFERENTIABLE", "a"},
    {PYJIT_MOCK_SET_GRAD, "SET_GRAD", "ab"},
    {PYJIT_MOCK_SET_DATA, "SET_DATA", "ab"},
    {PYJIT_MOCK_SET_STORAGE, "SET_STORAGE", "ab"},
    {PYJIT_MOCK_SET_ATTR, "SET_ATTR", "aCb"},
    {PYJIT_MOCK_SET_ITEM, "SET_ITEM", "aCb"},
    {PYJIT_MOCK_SET_TYPEATTR, "SET_TYPEATTR", "aCb"},
    {PYJIT_MOCK_SET_CELL, "SET_CELL", "aib"},
    {PYJIT_MOCK_SET_SLOT, "SET_SLOT", "aCb"},
    {PYJIT_MOCK_DEL_ATTR, "DEL_ATTR", "aC"},
    {PYJIT_MOCK_DEL_ITEM, "DEL_ITEM", "aC"},
    {PYJIT_MOCK_DEL_TYPEATTR, "DEL_TYPEATTR", "aC"},
    {PYJIT_MOCK_DEL_CELL, "DEL_CELL", "ai"},
    {PYJIT_MOCK_DEL_SLOT, "DEL_SLOT", "aC"},
    {PYJIT_MOCK_APPEND, "APPEND", "ab"},
    {PYJIT_MOCK_REPLACE, "REPLACE", "aL"},
    {PYJIT_MOCK_CLEAR, "CLEAR", "a"},
    {PYJIT_MOCK_BOX, "BOX", "dx"},
    {PYJIT_MOCK_RETURN, "RETURN", "a"}};

class Printer {
public:
  Printer(const PyjitPools &pools, raw_ostream &os) : pools(pools), os(os) {}

  void print(const PyjitWatch &watch) {
    static constexpr StringLiteral kinds[] = {"dict", "type", "function"};
    os << " " << kinds[watch.kind] << " r" << watch.reg;
    if (watch.kind != PYJIT_WATCH_DICT)
      return;
    if (watch.numKeys == PYJIT_WATCH_ALL_KEYS) {
      os << "(all)";
      return;
    }
    os << "(";
    interleaveComma(ArrayRef(pools.lists + watch.firstKey, watch.numKeys), os,
                    [&](uint32_t key) { printConstant(key); });
    os << ")";
  }

  void print(ArrayRef<PyjitInst> insts, ArrayRef<Form> forms) {
    for (const PyjitInst &inst : insts)
      print(inst, forms);
  }

private:
  void print(const PyjitInst &inst, ArrayRef<Form> forms) {
    const Form *form =
        find_if(forms, [&](const Form &f) { return f.op == inst.op; });
    os << "  ";
    if (form == forms.end()) {
      os << "unknown opcode " << inst.op << "\n";
      return;
    }
    StringRef operands = form->operands;
    if (operands.consume_front("d"))
      os << "r" << inst.dst << " = ";
    else if (operands.consume_front("n"))
      os << "n" << inst.dst << " = ";
    else if (operands.consume_front("k"))
      os << "k" << inst.dst << " = ";
    os << form->name;
    for (char operand : operands)
      printOperand(inst, operand);
    if (inst.flags)
      os << " flags " << inst.flags;
    os << "\n";
  }

  void printOperand(const PyjitInst &inst, char operand) {
    os << " ";
    switch (operand) {
    case 'a':
      os << "r" << inst.a;
      break;
    case 'b':
      os << "r" << inst.b;
      break;
    case 'x':
      os << "n" << inst.a;
      break;
    case 'y':
      os << "n" << inst.b;
      break;
    case 'A':
      os << rt::kArithNames[inst.imm];
      break;
    case 'O':
      os << rt::kCompareNames[inst.imm];
      break;
    case 'c':
      printConstant(inst.b);
      break;
    case 'C':
      printConstant(inst.imm);
      break;
    case 'i':
      os << inst.imm;
      break;
    case 't':
      printTensor(pools.tensors[inst.imm]);
      break;
    case 's':
      printState(pools.states[inst.imm]);
      break;
    case 'v':
      if (inst.b)
        printSums(pools.ints + inst.b - 1, pools.tensors[inst.imm]);
      break;
    case 'l':
      printList(inst.a, inst.b);
      break;
    case 'L':
      printList(inst.b, inst.imm);
      break;
    default:
      llvm_unreachable("operand letter");
    }
  }

  ArrayRef<int64_t> dimsOf(const PyjitTensorMeta &meta) {
    return ArrayRef(pools.ints + meta.dims, 2 * meta.rank);
  }

  /// What a view computes of symbols: what `?` stands for, then what is added
  /// to the offset.
  void printSums(const int64_t *code, const PyjitTensorMeta &meta) {
    ArrayRef<int64_t> registers(code + 1, *code);
    code += 1 + registers.size();
    os << "symbols [";
    interleaveComma(registers, os, [&](int64_t reg) { os << "r" << reg; });
    os << "] sums [";
    size_t sums = 1 + count(dimsOf(meta), PYJIT_ANY_DIM);
    interleaveComma(seq<size_t>(0, sums), os, [&](size_t) {
      int64_t terms = *code++;
      if (terms == 0)
        os << 0;
      interleave(
          seq<int64_t>(0, terms), os,
          [&](int64_t) {
            os << *code++;
            for (int64_t degree = *code++; degree > 0; --degree)
              os << " * s" << *code++;
          },
          " + ");
    });
    os << "]";
  }

  void printList(uint32_t first, uint32_t count) {
    os << "[";
    interleaveComma(ArrayRef(pools.lists + first, count), os,
                    [&](uint32_t reg) { os << "r" << reg; });
    os << "]";
  }

  void printConstant(uint32_t index) {
    const PyjitConstant &constant = pools.constants[index];
    StringRef text(pools.bytes + constant.first,
                   constant.kind == PYJIT_CONST_STR ||
                           constant.kind == PYJIT_CONST_BYTES ||
                           constant.kind == PYJIT_CONST_BIGINT
                       ? constant.count
                       : 0);
    switch (static_cast<PyjitConstantKind>(constant.kind)) {
    case PYJIT_CONST_NONE:
      os << "None";
      break;
    case PYJIT_CONST_BOOL:
      os << (constant.i ? "True" : "False");
      break;
    case PYJIT_CONST_INT:
      os << constant.i;
      break;
    case PYJIT_CONST_FLOAT:
      os << format("%.17g", constant.f);
      break;
    case PYJIT_CONST_COMPLEX:
      os << format("complex(%.17g, %.17g)", constant.f, constant.g);
      break;
    case PYJIT_CONST_STR:
      os << '"';
      os.write_escaped(text);
      os << '"';
      break;
    case PYJIT_CONST_BYTES:
      os << "b\"";
      os.write_escaped(text);
      os << '"';
      break;
    case PYJIT_CONST_TUPLE:
      os << "(";
      interleaveComma(ArrayRef(pools.lists + constant.first, constant.count),
                      os, [&](uint32_t element) { printConstant(element); });
      os << ")";
      break;
    case PYJIT_CONST_OBJECT:
      os << "object " << constant.i;
      break;
    case PYJIT_CONST_ELLIPSIS:
      os << "...";
      break;
    case PYJIT_CONST_BIGINT:
      os << text;
      break;
    }
  }

  void printTensor(const PyjitTensorMeta &meta) {
    auto print = [&](int64_t dim) {
      if (dim == PYJIT_ANY_DIM)
        os << "?";
      else
        os << dim;
    };
    os << "[";
    interleaveComma(dimsOf(meta).take_front(meta.rank), os, print);
    os << "] strides [";
    interleaveComma(dimsOf(meta).take_back(meta.rank), os, print);
    os << "] dtype " << int(meta.dtype) << " device " << int(meta.deviceType);
    if (meta.deviceIndex >= 0)
      os << ":" << int(meta.deviceIndex);
    if (meta.flags & PYJIT_TENSOR_HAS_REQUIRES_GRAD)
      os << " requires_grad " << int(meta.requiresGrad);
    if (meta.flags & PYJIT_TENSOR_HAS_KEYSET)
      os << " keyset " << meta.keyset;
    if (meta.flags & PYJIT_TENSOR_HAS_OFFSET)
      os << " offset " << meta.offset;
  }

  void printState(const PyjitState &state) {
    os << "known " << state.known << " value " << state.value
       << " default_dtype " << int(state.defaultDtype);
    if (state.autocastCpuDtype >= 0)
      os << " autocast_cpu_dtype " << int(state.autocastCpuDtype);
    if (state.autocastCudaDtype >= 0)
      os << " autocast_cuda_dtype " << int(state.autocastCudaDtype);
    if (state.cudaDevice >= 0)
      os << " cuda_device " << int(state.cudaDevice);
    if (state.defaultDevice >= 0)
      os << " default_device " << int(state.defaultDevice);
    if (state.defaultDeviceIndex >= 0)
      os << ":" << int(state.defaultDeviceIndex);
  }

  const PyjitPools &pools;
  raw_ostream &os;
};

} // namespace

void printProgram(const PyjitGuardProgram &program, raw_ostream &os) {
  Printer printer(program.pools, os);
  os << "guards: " << program.numRegisters << " registers\nwatched:\n";
  printer.print({program.watched, program.numWatched}, guardForms);
  os << "watch:";
  for (const PyjitWatch &watch : ArrayRef(program.watches, program.numWatches))
    printer.print(watch);
  os << "\nalways:\n";
  printer.print({program.always, program.numAlways}, guardForms);
  os << "inputs:";
  for (uint32_t reg : ArrayRef(program.inputs, program.numInputs))
    os << (reg & PYJIT_INPUT_NUMBER      ? " n"
           : reg & PYJIT_INPUT_KEPT_CAST ? " k"
                                         : " r")
       << (reg & ~(PYJIT_INPUT_NUMBER | PYJIT_INPUT_KEPT_CAST));
  os << "\n";
}

void printProgram(const PyjitMockProgram &program, raw_ostream &os) {
  os << "mock: " << program.numRegisters << " registers, " << program.numResults
     << " results from r" << program.firstResult << "\n";
  Printer(program.pools, os)
      .print({program.insts, program.numInsts}, mockForms);
}

} // namespace pyjit::executable
