//===- Attributes.h - What stages tell each other ---------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The names of the `pyjit` dialect's attributes. Pyjit.cpp verifies where each
// of them stands and of which kind it is.
//
//===----------------------------------------------------------------------===//

#ifndef PYJIT_DIALECTS_PYJIT_IR_ATTRIBUTES_H
#define PYJIT_DIALECTS_PYJIT_IR_ATTRIBUTES_H

#include "llvm/ADT/StringRef.h"

namespace pyjit::attribute {

using Name = llvm::StringLiteral;

//===----------------------------------------------------------------------===//
// Of modules
//===----------------------------------------------------------------------===//

/// A string, "fuse": the last stage of a compilation that the module has been
/// through (pyjit/Compiler/Stages.h), so that it goes on with the next.
inline constexpr Name kStage = "pyjit.stage";

//===----------------------------------------------------------------------===//
// Of functions: what is compiled
//===----------------------------------------------------------------------===//

/// A string, "cuda:0": where the function's tensors are. Without it they are on
/// the CPU. Of an argument and of a call: "cpu" where that one's are, all the
/// same.
inline constexpr Name kDevice = "pyjit.device";
/// A type: what eager makes of Python's floats.
inline constexpr Name kDefaultDtype = "pyjit.default_dtype";
/// Arrays of two integers, an input and a dim of it (-1: it is a number
/// itself): where each symbolic size is read.
inline constexpr Name kSymbols = "pyjit.symbols";
/// Unit: a prepare program. It computes what depends on parameters alone, and
/// runs when one of them has changed.
inline constexpr Name kPrepare = "pyjit.prepare";
/// Integers: which inputs of the main program a prepare program reads.
inline constexpr Name kInputs = "pyjit.inputs";
/// Strings, of a prepare program of the CPU: for each result a digest of the
/// operations that compute it. And arrays of integers: the arguments that it
/// comes from, in the digest's order. Values of the same digest that come from
/// the same memory are the same, whichever program computed them.
inline constexpr Name kDigests = "pyjit.digests";
inline constexpr Name kSources = "pyjit.sources";
/// Integers: inputs that require grad, and results that do because they were
/// computed from these. Of a backward program: the inputs that its results are
/// the gradients of.
inline constexpr Name kGradientInputs = "pyjit.gradient_inputs";
inline constexpr Name kGradientResults = "pyjit.gradient_results";
/// An integer: so many results, the last ones, are none. They are views that
/// the mock makes of results and inputs, which may be among `gradient_results`;
/// the forward program does not give them.
inline constexpr Name kGradientViews = "pyjit.gradient_views";
/// Arrays of integers: of each result of a backward program, the results of the
/// main program that it depends on. Eager has no gradient where the engine has
/// none of these.
inline constexpr Name kReaches = "pyjit.reaches";
/// Arrays of integers: of each result of a backward program, the inputs of the
/// main program that it depends on in any way.
inline constexpr Name kReads = "pyjit.reads";
/// As kReads, without those that the gradient reads and does not vary with:
/// eager has no gradient of the gradient there.
inline constexpr Name kVariesWith = "pyjit.varies_with";
/// Arrays of integers: results of the main program in groups, where there are
/// several. To go backward from one frees nothing that eager keeps for those of
/// other groups.
inline constexpr Name kGroups = "pyjit.groups";
/// Arrays of integers: of each result that requires grad, those whose gradients
/// its own flows into directly, not by way of a third: it was computed from
/// them.
inline constexpr Name kLeads = "pyjit.leads";
/// As kReaches, but only where the gradient does not pass through another
/// result.
inline constexpr Name kReachesDirectly = "pyjit.reaches_directly";
/// Integers: results that saved something between them and what they lead to.
inline constexpr Name kKeeps = "pyjit.keeps";
/// Integers, of a backward program that stops at results of the main program:
/// what it gives behind the gradients of inputs are gradients of these.
inline constexpr Name kStops = "pyjit.stops";
/// An integer: so many results, the last ones, are saved for the backward
/// program.
inline constexpr Name kSaved = "pyjit.saved";

/// Arrays of two integers, a result and an input: that result is the input's
/// new contents, and the launch puts it there.
inline constexpr Name kUpdates = "pyjit.updates";

//===----------------------------------------------------------------------===//
// Of arguments
//===----------------------------------------------------------------------===//

/// Unit: a parameter, the same memory in each call.
inline constexpr Name kParam = "pyjit.param";
/// Unit: a parameter that gradients are computed of. Each step of a training
/// loop writes it: what is computed from it once is computed for one call.
inline constexpr Name kTrained = "pyjit.trained";
/// An integer: this output of the prepare program.
inline constexpr Name kCached = "pyjit.cached";
/// An integer: this input of the main program.
inline constexpr Name kInput = "pyjit.input";
/// An integer: the memory that this input of the main program showed then.
inline constexpr Name kSeen = "pyjit.seen";
/// An integer: this result of the main program, or the gradient of it.
inline constexpr Name kResult = "pyjit.result";
inline constexpr Name kGradient = "pyjit.gradient";
/// Integers: the elements of a tensor of a few integers, in any order, which is
/// a constant of the program.
inline constexpr Name kElements = "pyjit.elements";

//===----------------------------------------------------------------------===//
// Of calls
//===----------------------------------------------------------------------===//

/// Unit: stays a vendor library's call, whatever a kernel could do.
inline constexpr Name kVendorCall = "pyjit.vendor_call";
/// Unit, of refgraph.tensor_op and tssa.aten: may raise because of its
/// operands' values. It may move, but not go, whatever becomes of its result's
/// users.
inline constexpr Name kMustRun = "pyjit.must_run";
/// Unit, of a copy: it is stored for those that read it often, who do not read
/// through it what it is a copy of.
inline constexpr Name kPacked = "pyjit.packed";
/// Unit, of a join of parameters: those who read it read the parts where they
/// lie, and it is not computed once and kept.
inline constexpr Name kReadThrough = "pyjit.read_through";
/// A string, of a tssa.aten of attention that gradients flow through: the
/// kernel that eager takes, `refgraph.tensor_op`'s `kernel`.
inline constexpr Name kTakesKernel = "pyjit.takes_kernel";
/// An integer, of a sum that a gradient sweep has made: what is known of this
/// result's gradient where the sweep goes on from it, the one that comes in
/// included.
inline constexpr Name kGradientAt = "pyjit.gradient_at";
/// Unit, of a tssa.aten that a gradient rule has made: eager computes it in the
/// forward operator and saves it, so that later writes to that operator's
/// operands do not show in it.
inline constexpr Name kSavedInEager = "pyjit.saved_in_eager";
/// Integers, of a kernel's call: for each result the function's input in whose
/// memory the kernel leaves it, or -1. Of a tssa.assign, and of a tssa.aten
/// that writes a part of its operand: the input whose memory target and result
/// are.
inline constexpr Name kInPlace = "pyjit.in_place";
/// Unit, of the same two: no kernel computes the whole, the launch writes the
/// part.
inline constexpr Name kPart = "pyjit.part";
/// Unit, of those that are in place: something behind may fail, so that the
/// launch saves what it overwrites, and puts it back then.
inline constexpr Name kUndo = "pyjit.undo";

//===----------------------------------------------------------------------===//
// Of kernels: what a launch has to know
//===----------------------------------------------------------------------===//

/// Unit: the function is a kernel.
inline constexpr Name kKernel = "pyjit.kernel";
/// Arrays of two integers, a result and an operand: the result may lie where
/// the operand does (Codegen/Overlap.h). No others overlap.
inline constexpr Name kMayOverlap = "pyjit.may_overlap";
/// An integer: the body is so many equal parts that share nothing. Operands of
/// all parts come first, then results of all parts.
inline constexpr Name kBatch = "pyjit.batch";
/// Integers or maps of the symbols, on the CPU: the size of the parallel range,
/// and the smallest part of it that is worth a thread.
inline constexpr Name kWork = "pyjit.work";
inline constexpr Name kGrain = "pyjit.grain";
/// Unit: a pointer to the symbols' values follows the buffers. An integer, on a
/// GPU: so many of the values follow.
inline constexpr Name kReadsSymbols = "pyjit.reads_symbols";
/// A string: the function's name in a GPU's code.
inline constexpr Name kSymbol = "pyjit.symbol";
/// Three integers each: blocks, and threads of a block.
inline constexpr Name kGrid = "pyjit.grid";
inline constexpr Name kBlock = "pyjit.block";
/// A map of the symbols: the number of blocks, where it differs between calls.
inline constexpr Name kBlocks = "pyjit.blocks";
/// An integer: bytes of dynamic shared memory.
inline constexpr Name kShared = "pyjit.shared";
/// Integers, one for each buffer: what the code relies on its address to be a
/// multiple of.
inline constexpr Name kAlign = "pyjit.align";
/// Booleans, one for each buffer: the parameter points to the pointer.
inline constexpr Name kIndirect = "pyjit.indirect";
/// Unit: the code begins by waiting for the end of the kernel in front, which
/// it may be launched before.
inline constexpr Name kWaits = "pyjit.waits";
/// Blocks that meet and see each other's shared memory (an integer).
inline constexpr Name kCluster = "pyjit.cluster";
/// Unit: sizes are read on the device. A symbol's parameter points to its
/// value, and a launch may have more blocks than the sizes ask for.
inline constexpr Name kDeviceSizes = "pyjit.device_sizes";
/// A dictionary: how a GPU's threads share the work (Codegen/PTX/Schedule.h).
inline constexpr Name kSchedule = "pyjit.schedule";
/// Unit, in the module of kernels: the driver launches this function.
inline constexpr Name kEntry = "pyjit.entry";

} // namespace pyjit::attribute

#endif // PYJIT_DIALECTS_PYJIT_IR_ATTRIBUTES_H
