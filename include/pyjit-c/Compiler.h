// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
/*===- pyjit-c/Compiler.h - The compiler behind a C API ---------*- C -*-===*\
|*                                                                            *|
|* The only door from other languages to the compiler: a trace (Trace.h) goes *|
|* in, an executable comes out. Safe on several threads at once.              *|
|*                                                                            *|
\*===----------------------------------------------------------------------===*/

#ifndef PYJIT_C_COMPILER_H
#define PYJIT_C_COMPILER_H

#include "pyjit-c/Programs.h"
#include "pyjit-c/Trace.h"

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct PyjitExecutable PyjitExecutable;

/* A CUDA device, as its driver describes it. It does not have to be on this
   machine. */
typedef struct {
  int32_t capability; /* 90 for compute capability 9.0; 0: there is no GPU */
  int32_t multiprocessors;          /* 0: as the chip's largest part */
  int32_t threadsPerMultiprocessor; /* 0: likewise */
} PyjitGpu;

/* How far a program is compiled (pyjit/Compiler/Pipelines.h). */
typedef enum {
  PyjitDepthFusion, /* everything */
  PyjitDepthKernels,
  PyjitDepthLibrary,
  PyjitDepthOperators
} PyjitDepth;

typedef struct {
  uint32_t size; /* sizeof(PyjitCompileOptions), checked */
  PyjitDepth depth;
  /* Keep eager's intermediate roundings in half-precision chains. */
  uint8_t eagerRounding;
  /* Let lifted sizes keep the values that were recorded. */
  uint8_t specializeSizes;
  /* Verify every operation behind each pass. */
  uint8_t verify;
  /* Directory for the IR that each stage leaves, or empty. */
  PyjitString dumpDirectory;
  PyjitDiagnosticFn diagnostic;
  void *user;
  /* The GPU to compile for; asked for only where a trace has tensors on one. */
  PyjitGpu gpu;
  /* A device ("cpu") to launch on as on a GPU, by a simulated driver;
     empty for none. */
  PyjitString accelerator;
} PyjitCompileOptions;

/* The depth of a name ("operators", "library", "kernels", "fusion"), or 0. */
PYJIT_API int pyjitFindDepth(PyjitString name, PyjitDepth *depth);

/* Compiles a trace for this machine's CPU, and for a GPU where it has tensors
   on one; the trace stays as it is. Returns null when it does not compile;
   `options->diagnostic` was told why. */
PYJIT_API PyjitExecutable *pyjitCompile(const PyjitTrace *trace,
                                        const PyjitCompileOptions *options);
PYJIT_API void pyjitExecutableDestroy(PyjitExecutable *executable);

/* What a segment of a call is, where a branch on a tensor's data has broken its
 * graph. */
typedef enum {
  PyjitSegmentPrefix, /* up to the branch */
  PyjitSegmentTrue,   /* what follows where the condition is true */
  PyjitSegmentFalse,
  PyjitSegmentRest /* what follows once that has returned */
} PyjitSegmentKind;

typedef struct {
  const PyjitTrace *trace;
  PyjitSegmentKind kind;
  /* Of the prefix: which value of the innermost frame is the condition, and the
     entry of the object table that is torch.Tensor, or -1. */
  int64_t condition;
  int64_t tensorClass;
  /* Of the others: which values of the frame that they go on from are their
     arguments (-1: what the frame above returned), and for each entry of their
     object table the one of the merged table. */
  PyjitInts takes;
  PyjitInts objects;
  /* Whether it ends with a graph break, and not with its function. */
  bool endsAtGraphBreak;
  /* The grad mode that it leaves behind, if it set it. */
  PyjitOptionalBool leavesGradMode;
} PyjitSegment;

/* One trace of the segments of a call (pass refgraph-merge-branches), which are
   of one context and stay as they are. Returns null where that cannot be;
   `options->diagnostic` was told why. */
PYJIT_API PyjitTrace *pyjitMerge(const PyjitSegment *parts, size_t count,
                                 const PyjitCompileOptions *options);

/* How many sizes the executable takes as they come. */
PYJIT_API size_t pyjitExecutableSymbols(const PyjitExecutable *executable);

/* What the executable holds; valid until it is destroyed. */
PYJIT_API const PyjitGuardProgram *
pyjitExecutableGuards(const PyjitExecutable *executable);
PYJIT_API const PyjitMockProgram *
pyjitExecutableMock(const PyjitExecutable *executable);

/* The programs of one executable: `Main` runs at each call; `Prepare` computes,
   from the inputs that are parameters, what `Main` takes as cached values;
   `Backward` computes gradients. */
typedef enum {
  PyjitProgramMain = 0,
  PyjitProgramPrepare = 1,
  PyjitProgramBackward = 2
} PyjitProgramKind;

/* A launch program (runtime/include/pyjit-rt/Launch.h); empty when there is
   nothing to prepare, or nothing that requires grad. */
PYJIT_API PyjitString pyjitExecutableLaunch(const PyjitExecutable *executable,
                                            PyjitProgramKind kind);
/* Machine code of the program's kernels, in its order. */
PYJIT_API size_t pyjitExecutableKernels(
    const PyjitExecutable *executable, PyjitProgramKind kind,
    void (*const **kernels)(void *const *, int64_t, int64_t));
/* Inputs of the main program that the prepare program reads, as indices into
   the main program's inputs, in the order of the prepare program's inputs. */
PYJIT_API size_t pyjitExecutablePrepareInputs(const PyjitExecutable *executable,
                                              const uint32_t **inputs);

/* Of a result of the prepare program: results of any executables that have the
   same digest, and whose sources are the same memory with the same contents,
   are the same. `sources` are inputs of the prepare program. */
typedef struct {
  PyjitString digest;
  const uint32_t *sources;
  size_t numSources;
} PyjitPreparedValue;

/* False where nothing is known of result `index`: it is nobody else's. */
PYJIT_API bool pyjitExecutablePreparedValue(const PyjitExecutable *executable,
                                            size_t index,
                                            PyjitPreparedValue *value);

/* Where an argument of the backward program comes from. */
typedef enum {
  PyjitBackwardInput,    /* an input of the main program */
  PyjitBackwardResult,   /* a result of it, shown or saved */
  PyjitBackwardGradient, /* the gradient of a result of it */
  PyjitBackwardSeen      /* the memory that an input of it showed then */
} PyjitBackwardSource;

typedef struct {
  PyjitBackwardSource source;
  uint32_t index;
} PyjitBackwardArgument;

/* What the backward program takes and gives. */
typedef struct {
  const PyjitBackwardArgument *arguments;
  size_t numArguments;
  /* Its result k is the gradient of the main program's input gradients[k]. */
  const uint32_t *gradients;
  size_t numGradients;
  /* Results of the main program that require grad. */
  const uint32_t *differentiable;
  size_t numDifferentiable;
  /* numGradients rows: whether gradient i depends on the gradient of
     differentiable[k]. Where the engine has none of these, eager gives none. */
  const uint8_t *reaches;
  /* numDifferentiable entries: results of other groups have other nodes in
     eager, so that to go backward from one does not free what these saved. */
  const uint32_t *groups;
  /* Inputs of the main program that gradients depend on in any way, sizes
     included. */
  const uint32_t *reads;
  size_t numReads;
  /* numGradients rows: whether gradient i depends on elements of reads[k]. */
  const uint8_t *uses;
  /* Likewise: whether it varies with them. Eager has no gradient of the
     gradient by an input that it reads and does not vary with. */
  const uint8_t *varies;
  /* numGradients + numStops rows: whether gradient i is computed from
     arguments[k]. */
  const uint8_t *needs;
  /* Results that were computed from others, in eager, go backward by way of
     these, where somebody may look. numDifferentiable rows: whether
     differentiable[i] was computed from differentiable[k] without a third one
     in between. Null where none was. */
  const uint8_t *leads;
  /* Where `leads` is: as `reaches`, but not by way of another result. */
  const uint8_t *reachesDirectly;
  /* numDifferentiable entries: whether something is saved between that result
     and inputs, or what it leads to. Null where there is one result. */
  const uint8_t *keeps;
  /* Behind the gradients of inputs come gradients of results of the main
     program, at which the backward program stops. */
  const uint32_t *stops;
  size_t numStops;
  /* Results of the main program that the mock takes; those behind them are
     saved for the backward program. */
  uint32_t numResults;
} PyjitBackward;

/* Null where nothing requires grad. */
PYJIT_API const PyjitBackward *
pyjitExecutableBackward(const PyjitExecutable *executable);

/* For gradients of gradients: an executable whose main program takes the inputs
   of this one's and then the gradients of its differentiable results, and gives
   gradients as this one's backward program does; its own backward program is
   that of these. `order` is 2, or 3 for gradients of gradients of gradients,
   whose arguments follow, and so on. Null where that cannot be; `diagnostic`
   was told why. Takes about as long as a compilation. */
PYJIT_API PyjitExecutable *
pyjitExecutableDifferentiate(const PyjitExecutable *executable, uint32_t order,
                             PyjitDiagnosticFn diagnostic, void *user);

/* For calls of which some results do not count: an executable without guards,
   mock and main program, whose backward program is not given the gradients of
   these results. `stops`: what comes to one of them goes no further and is
   given, too (PyjitBackward::stops). Null where that cannot be; `diagnostic`
   was told why. */
PYJIT_API PyjitExecutable *pyjitExecutableDropGradients(
    const PyjitExecutable *executable, const uint32_t *results,
    size_t numResults, bool stops, PyjitDiagnosticFn diagnostic, void *user);

/* Whether the main program may pack parameters with gradients in each call, as
   a training loop wants it, which writes them between calls. */
PYJIT_API bool pyjitExecutablePacksTrained(const PyjitExecutable *executable);
/* For calls that find such parameters as the call before did: an executable
   whose main program takes and gives what this one's does and reads packed
   parameters that its prepare program makes. It has neither guards nor mock nor
   backward program. Null where that cannot be; `diagnostic` was told why. */
PYJIT_API PyjitExecutable *
pyjitExecutableKeepParameters(const PyjitExecutable *executable,
                              PyjitDiagnosticFn diagnostic, void *user);

/* Seconds spent in stage `index`, or -1 past the last one. */
PYJIT_API double pyjitExecutableStage(const PyjitExecutable *executable,
                                      size_t index, PyjitString *name);
/* What an executable can tell a reader. */
typedef enum {
  PyjitReportGuards = 0,      /* the guard program, then the mock program */
  PyjitReportGraph,           /* the functional tensor program */
  PyjitReportFusion,          /* what calls the kernels */
  PyjitReportKernels,         /* before code generation; for a GPU, their PTX */
  PyjitReportCudaGraph,       /* the launch program of a device, planned */
  PyjitReportLaunch,          /* the launch programs as they were encoded */
  PyjitReportSpecializedSizes /* a line for each size that was to differ and
                            could not, and why */
} PyjitReport;

/* Made when it is first asked for, which takes about as long as the stages that
   lead there. Empty where there is nothing to tell; valid until the executable
   is destroyed. */
PYJIT_API PyjitString pyjitExecutableReport(const PyjitExecutable *executable,
                                            PyjitReport report);

#ifdef __cplusplus
}
#endif

#endif /* PYJIT_C_COMPILER_H */
