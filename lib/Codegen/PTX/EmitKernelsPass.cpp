//===- EmitKernelsPass.cpp - Kernels on tensors to one thread's work ------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "Emitter.h"
#include "dialects/pyjit/IR/Attributes.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "pyjit/Codegen/KernelModule.h"
#include "pyjit/Codegen/PTX/Passes.h"
#include "pyjit/Operators/CallArguments.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace pyjit::ptx {
#define GEN_PASS_DEF_PTXEMITKERNELS
#include "lib/Codegen/PTX/Passes.h.inc"

namespace {

/// What a block may have of static shared memory.
constexpr int64_t kSharedBytes = 48 << 10;

/// What a profiler shows: the operations that a kernel fuses, then its name.
std::string readableName(func::FuncOp kernel) {
  std::string name;
  llvm::StringSet<> seen;
  kernel.walk([&](linalg::GenericOp generic) {
    for (Operation &op : generic.getBody()->without_terminator()) {
      StringRef dialect = op.getName().getDialectNamespace();
      StringRef word = op.getName().stripDialect();
      if ((dialect != "arith" && dialect != "math") || word == "constant" ||
          word == "extf" || word == "truncf" || word == "index_cast" ||
          name.size() > 48 || !seen.insert(word).second)
        continue;
      name += word.str() + "_";
    }
  });
  if (name.empty())
    name = "copy_";
  name += kernel.getName();
  // PTX takes no other characters, and no digit in front.
  for (char &c : name)
    if (!llvm::isAlnum(c))
      c = '_';
  return name;
}

/// Whether all floating-point memory is half precision: functions then need not
/// be more exact than what eager rounds their results to.
bool isHalf(const Domain &domain) {
  auto fits = [](Type type) {
    return !isa<FloatType>(type) || type.getIntOrFloatBitWidth() <= 16;
  };
  for (auto &node : domain.graph->nodes)
    if (node->kind == codegen::Node::Kind::Load && !fits(node->type))
      return false;
  return llvm::all_of(domain.graph->stores, [&](const codegen::Store &store) {
    return fits(store.node->type);
  });
}

/// Whether the value follows from a function that no rounding makes exact.
/// Other quotients have to be what they are: 6 / 3 may be rounded down.
bool isTranscendental(Value value) {
  Operation *op = value.getDefiningOp();
  if (!op || isa<math::ExpOp, math::TanhOp, math::ErfOp>(op))
    return op;
  return isa<arith::AddFOp, arith::SubFOp, arith::MulFOp, vector::BroadcastOp>(
             op) &&
         llvm::any_of(op->getOperands(), isTranscendental);
}

struct EmitKernelsPass : impl::PtxEmitKernelsBase<EmitKernelsPass> {
  using PtxEmitKernelsBase::PtxEmitKernelsBase;

  LogicalResult emit(func::FuncOp kernel, ModuleOp into) {
    int64_t batch = 1;
    if (auto parts = kernel->getAttrOfType<IntegerAttr>(attribute::kBatch))
      batch = parts.getInt();
    if (batch < 1 || kernel.getNumArguments() % batch ||
        kernel.getNumResults() % batch)
      return kernel.emitError("the operands and results of '")
             << kernel.getName() << "' are not those of " << batch
             << " equal parts (pyjit.batch)";
    codegen::KernelBody body(kernel, batch);
    if (!body.isKernel())
      return failure();
    Domain domain, values;
    if (body.attention) {
      domain = describe(body.attention->scores, body.attention->ofScores.lane);
      values = describe(body.attention->values, body.attention->ofValues.lane);
      domain.empty |= values.empty;
    } else {
      domain = arrange(std::move(body.graph));
    }
    Schedule schedule;
    if (failed(findSchedule(kernel, domain, body.attention, batch, schedule)))
      return failure();
    if (printSchedules)
      codegen::remarkSchedule(kernel, *domain.graph,
                              [&](raw_ostream &os) { schedule.print(os); });

    KernelFrame frame{{}, domain, schedule, body.inputs, unsigned(batch),
                      {}, false,  {},       {},          {},
                      {}, 0,      1,        {}};
    frame.waits = dependentLaunch;
    if (failed(readPointers(kernel, frame, body)))
      return failure();
    OpBuilder b(into.getBodyRegion());
    if (!domain.empty) {
      b.setInsertionPointToEnd(into.getBody());
      Type pointer = LLVM::LLVMPointerType::get(b.getContext(), 1);
      SmallVector<Type> pointers(frame.indirect.size(), pointer);
      frame.function =
          func::FuncOp::create(b, kernel.getLoc(), readableName(kernel),
                               b.getFunctionType(pointers, {}));
      frame.function->setAttr(attribute::kEntry, b.getUnitAttr());
      if (body.attention)
        emitAttention(frame, values, *body.attention);
      else
        emitBody(frame);
      if (isHalf(domain) && (!body.attention || isHalf(values)))
        allowApproximations(frame.function);
      selectAddresses(frame.function);
      if (frame.waits)
        waitForKernelInFront(kernel, frame, b);
      if (failed(declareEntry(kernel, frame, b)))
        return failure();
      shareEntry(kernel, frame);
    } else {
      kernel->setAttr(attribute::kSymbol, b.getStringAttr(""));
      kernel->setAttr(attribute::kGrid, b.getDenseI32ArrayAttr({0, 1, 1}));
    }
    kernel->setAttr(
        attribute::kBlock,
        b.getDenseI32ArrayAttr({static_cast<int32_t>(schedule.threads), 1, 1}));
    if (frame.cluster > 1)
      kernel->setAttr(attribute::kCluster, b.getI32IntegerAttr(frame.cluster));
    kernel->setAttr(attribute::kShared, b.getI32IntegerAttr(0));
    kernel->setAttr(attribute::kAlign,
                    b.getDenseI32ArrayAttr(reliedOnByAll(frame)));
    kernel->setAttr(attribute::kIndirect,
                    b.getDenseBoolArrayAttr(frame.indirect));
    kernel->setAttr(attribute::kSchedule, schedule.toAttr(b.getContext()));
    kernel.eraseBody();
    kernel.setPrivate();
    return success();
  }

  /// The one that the kernel states, or one for a machine of today, of which
  /// each part of a batch has its share.
  LogicalResult findSchedule(func::FuncOp kernel, const Domain &domain,
                             const std::optional<codegen::Attention> &attention,
                             unsigned batch, Schedule &schedule) {
    std::string reason;
    if (auto given =
            kernel->getAttrOfType<DictionaryAttr>(attribute::kSchedule)) {
      auto parsed = Schedule::fromAttr(given, reason);
      if (!parsed)
        return kernel.emitError("the schedule of '")
               << kernel.getName() << "': " << reason;
      schedule = *parsed;
    } else {
      Machine machine{std::max(1u, multiprocessors / batch),
                      threadsPerMultiprocessor, dependentLaunch};
      schedule = attention ? chooseSchedule(*attention, machine)
                           : chooseSchedule(domain, machine);
    }
    if (attention ? !verifySchedule(schedule, *attention, reason)
                  : !verifySchedule(schedule, domain, reason))
      return kernel.emitError("the schedule of '")
             << kernel.getName() << "' does not fit: " << reason;
    return success();
  }

  /// What is known of the kernel's pointers: all are direct and aligned to 16
  /// bytes unless it says otherwise.
  LogicalResult readPointers(func::FuncOp kernel, KernelFrame &frame,
                             codegen::KernelBody &body) {
    unsigned each = body.inputs.size() + body.roots.size();
    unsigned count = each * frame.batch;
    frame.deviceSizes = kernel->hasAttr(attribute::kDeviceSizes);
    frame.indirect.resize(count, false);
    SmallVector<unsigned> alignment(count, 16);
    frame.reliedOn.resize(each, 1);
    if (auto mask =
            kernel->getAttrOfType<DenseBoolArrayAttr>(attribute::kIndirect))
      frame.indirect.assign(mask.asArrayRef().begin(), mask.asArrayRef().end());
    if (auto known =
            kernel->getAttrOfType<DenseI32ArrayAttr>(attribute::kAlign))
      alignment.assign(known.asArrayRef().begin(), known.asArrayRef().end());
    if (frame.indirect.size() != count || alignment.size() != count)
      return kernel.emitError("'pyjit.indirect' and 'pyjit.align' of '")
             << kernel.getName() << "' say something of " << count
             << " pointers";
    // What is known of a buffer is so in each part.
    frame.alignment.resize(each, llvm::maxUIntN(32));
    for (unsigned i = 0; i < count; ++i) {
      unsigned &known = frame.alignment[frame.placeInPart(i)];
      known = std::min(known, alignment[i]);
    }
    for (auto [i, value] :
         llvm::enumerate(llvm::concat<Value>(body.inputs, body.roots))) {
      Type element = getElementTypeOrSelf(value.getType());
      frame.reliedOn[i] = std::max(1u, element.getIntOrFloatBitWidth() / 8);
    }
    return success();
  }

  /// Per buffer of each part.
  static SmallVector<int32_t> reliedOnByAll(const KernelFrame &frame) {
    SmallVector<int32_t> all;
    for (unsigned i = 0; i < frame.indirect.size(); ++i)
      all.push_back(frame.reliedOn[frame.placeInPart(i)]);
    return all;
  }

  void emitBody(KernelFrame &frame) {
    switch (frame.schedule.family) {
    case Family::Flat:
      emitFlat(frame);
      break;
    case Family::Row:
      emitRows(frame);
      break;
    case Family::Column:
      emitColumns(frame);
      break;
    case Family::Tile:
      emitTiles(frame);
      break;
    case Family::Product:
      emitProducts(frame);
      break;
    case Family::Attention:
      llvm_unreachable("of two graphs");
    }
  }

  static void allowApproximations(func::FuncOp function) {
    function.walk([](Operation *op) {
      auto allow = [](auto known) {
        known.setFastmath(known.getFastmath() | arith::FastMathFlags::afn);
      };
      llvm::TypeSwitch<Operation *>(op)
          .Case<math::ExpOp, math::TanhOp, math::ErfOp>(allow)
          .Case([&](arith::DivFOp division) {
            if (isTranscendental(division.getRhs()))
              allow(division);
          });
    });
  }

  /// The kernel behind this one may be launched as soon as all blocks of this
  /// one run; nothing is read or written before the kernel in front has ended
  /// and its writes are seen (PTX ISA, `griddepcontrol`). LLVM's intrinsic says
  /// that it leaves memory alone, so that loads could pass it: assembly does
  /// not.
  void waitForKernelInFront(func::FuncOp kernel, KernelFrame &frame,
                            OpBuilder &b) {
    b.setInsertionPointToStart(&frame.function.getBody().front());
    LLVM::InlineAsmOp::create(
        b, kernel.getLoc(), TypeRange(), ValueRange(),
        "griddepcontrol.launch_dependents;\n\tgriddepcontrol.wait;",
        "~{memory}", /*has_side_effects=*/true, /*is_align_stack=*/false,
        LLVM::TailCallKind::None, LLVM::AsmDialectAttr(), ArrayAttr());
    kernel->setAttr(attribute::kWaits, b.getUnitAttr());
  }

  /// What the emitter asked for on the way: parameters, blocks, shared memory.
  LogicalResult declareEntry(func::FuncOp kernel, KernelFrame &frame,
                             OpBuilder &b) {
    frame.blocks = frame.blocks * frame.batch;
    auto number = dyn_cast<AffineConstantExpr>(frame.blocks);
    if (number && number.getValue() > std::numeric_limits<int32_t>::max())
      return kernel.emitError("more blocks than a launch can have");
    if (frame.sharedBytes > kSharedBytes)
      return kernel.emitError("the schedule of '")
             << kernel.getName() << "' needs " << frame.sharedBytes
             << " bytes of shared memory";
    frame.function.setType(b.getFunctionType(
        frame.function.getBody().front().getArgumentTypes(), {}));
    if (!frame.symbols.empty())
      kernel->setAttr(attribute::kReadsSymbols,
                      b.getDenseI64ArrayAttr(frame.symbols));
    if (!number)
      kernel->setAttr(attribute::kBlocks,
                      operators::makeSizeArgument(frame.blocks));
    int32_t blocks = number ? number.getValue() : 1;
    kernel->setAttr(attribute::kSymbol,
                    b.getStringAttr(frame.function.getName()));
    kernel->setAttr(attribute::kGrid, b.getDenseI32ArrayAttr({blocks, 1, 1}));
    if (frame.sharedBytes != 0) {
      b.setInsertionPoint(frame.function);
      auto bytes = LLVM::LLVMArrayType::get(b.getI8Type(), frame.sharedBytes);
      LLVM::GlobalOp::create(b, kernel.getLoc(), bytes,
                             /*isConstant=*/false, LLVM::Linkage::Internal,
                             (frame.function.getName() + "_shared").str(),
                             Attribute(), /*alignment=*/16,
                             /*addrSpace=*/3);
    }
    return success();
  }

  /// Where another kernel has the same code, this one is launched by that
  /// entry: layers with sizes of their own have equal kernels but for symbols.
  void shareEntry(func::FuncOp kernel, KernelFrame &frame) {
    std::string text, name = frame.function.getName().str();
    llvm::raw_string_ostream os(text);
    // Alone: else each one would number and verify all.
    frame.function->print(os,
                          OpPrintingFlags().useLocalScope().assumeVerified());
    os << frame.schedule.toAttr(&getContext()) << frame.sharedBytes;
    for (size_t at = 0; (at = text.find(name, at)) != std::string::npos;)
      text.erase(at, name.size());
    auto [known, isNew] = entries.try_emplace(text, name);
    if (isNew)
      return;
    kernel->setAttr(attribute::kSymbol,
                    StringAttr::get(&getContext(), known->second));
    if (frame.sharedBytes != 0)
      frame.function->getPrevNode()->erase();
    frame.function.erase();
  }

  void runOnOperation() override {
    entries.clear();
    auto emitOne = [&](func::FuncOp kernel, ModuleOp into) {
      return emit(kernel, into);
    };
    if (failed(codegen::emitKernels(getOperation(), emitOne)))
      signalPassFailure();
  }

  llvm::StringMap<std::string> entries; ///< by code, without the name
};

} // namespace
} // namespace pyjit::ptx
