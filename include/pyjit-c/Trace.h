// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
/*===- pyjit-c/Trace.h - Traces, and building them -----------------*- C
-*-===*\
|*                                                                            *|
|* A trace is one `refgraph.trace`: what Python did in one call, or in a part *|
|* of one. It is built operation by operation, by functions that the          *|
|* definitions of the operations give (dialects/refgraph/IR/RefGraphOps.td):  *|
|*                                                                            *|
|*   PyjitLengthOp op = {list, 3};                                            *|
|*   pyjitBuildLength(trace, location, &op);                                  *|
|*                                                                            *|
|* Text is one way to keep a trace (`pyjitTracePrint`, `pyjitTraceParse`).    *|
|*                                                                            *|
|* Traces of one context can be merged; several threads may use one context,  *|
|* each on traces of its own. Locations, types and attributes belong to their *|
|* context and are valid as long as it, or one of its traces, is; equal ones  *|
|* have equal pointers.                                                       *|
|*                                                                            *|
\*===----------------------------------------------------------------------===*/

#ifndef PYJIT_C_TRACE_H
#define PYJIT_C_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PYJIT_API __attribute__((visibility("default")))

/* Bytes with a length; not NUL-terminated. Without data: none. */
typedef struct {
  const char *data;
  size_t size;
} PyjitString;

typedef struct PyjitContext PyjitContext;
typedef struct PyjitTrace PyjitTrace;
/* Text that its owner destroys. */
typedef struct PyjitText PyjitText;

/* A value of a trace: numbered from 0 in the order in which they were made. */
typedef int32_t PyjitValue;
typedef const struct PyjitOpaqueType *PyjitType;
typedef const struct PyjitOpaqueAttribute *PyjitAttribute; /* null: none */
typedef const struct PyjitOpaqueLocation *PyjitLocation;   /* null: unknown */

typedef struct {
  const PyjitValue *data;
  size_t size;
} PyjitValues;
typedef struct {
  const PyjitType *data;
  size_t size;
} PyjitTypes;
typedef struct {
  const int64_t *data;
  size_t size;
} PyjitInts;
typedef struct {
  bool given;
  int64_t value;
} PyjitOptionalInt;
typedef struct {
  bool given;
  bool value;
} PyjitOptionalBool;

/* A diagnostic of the compiler, with its location, one call per diagnostic. */
typedef void (*PyjitDiagnosticFn)(PyjitString message, void *user);

PYJIT_API PyjitString pyjitTextGet(const PyjitText *text);
PYJIT_API void pyjitTextDestroy(PyjitText *text);

/*===-- Contexts and traces --===*/

PYJIT_API PyjitContext *pyjitContextCreate(void);
/* Its traces live on. */
PYJIT_API void pyjitContextDestroy(PyjitContext *context);

/* An empty trace; the name is the specialization's. */
PYJIT_API PyjitTrace *pyjitTraceCreate(PyjitContext *context, PyjitString name);
/* Null, with a diagnostic, where the text is no module with a trace. */
PYJIT_API PyjitTrace *pyjitTraceParse(PyjitContext *context, PyjitString text,
                                      PyjitDiagnosticFn diagnostic, void *user);
PYJIT_API PyjitTrace *pyjitTraceClone(const PyjitTrace *trace);
PYJIT_API void pyjitTraceDestroy(PyjitTrace *trace);
/* With locations, so that it can be parsed again. */
PYJIT_API PyjitText *pyjitTracePrint(const PyjitTrace *trace);
/* What Python saw of tensors' sizes is written down (refgraph.size). */
PYJIT_API void pyjitTraceSetFollowsSizes(PyjitTrace *trace);

/* How far a trace is built. */
typedef struct {
  PyjitValue nextValue;
  void *lastOperation;
} PyjitTraceEnd;
PYJIT_API PyjitTraceEnd pyjitTraceGetEnd(const PyjitTrace *trace);
/* Takes back what was appended since. */
PYJIT_API void pyjitTraceRewind(PyjitTrace *trace, PyjitTraceEnd end);

/*===-- Questions about a trace --===*/

/* The same operations on the same objects; locations may differ. Traces of two
   contexts are not equal. */
PYJIT_API bool pyjitTraceEquals(const PyjitTrace *a, const PyjitTrace *b);
/* The number of the CUDA device that its tensors are on; -1: of none. */
PYJIT_API int pyjitTraceCudaDevice(const PyjitTrace *trace);
/* Whether sizes of tensors that it reads are to differ between calls. */
PYJIT_API bool pyjitTraceLiftsSizes(const PyjitTrace *trace);
/* Whether an operator takes a size that is a number of the trace. */
PYJIT_API bool pyjitTraceComputesSizes(const PyjitTrace *trace);
/* Whether it goes on through branches on tensors' data (refgraph.decide). */
PYJIT_API bool pyjitTraceDecides(const PyjitTrace *trace);
/* Of a trace that ends at a graph break, with a tuple of values for each frame:
   whether value `index` of the innermost frame hangs from operators that no
   call should carry out twice. True where there is no such value. */
PYJIT_API bool pyjitTraceIsCostly(const PyjitTrace *trace, size_t index);

/*===-- Locations, types, attributes --===*/

PYJIT_API PyjitLocation pyjitLocationFile(PyjitContext *context,
                                          PyjitString file, uint32_t line,
                                          uint32_t column);
/* An instruction in a function that was called from elsewhere. */
PYJIT_API PyjitLocation pyjitLocationCall(PyjitLocation callee,
                                          PyjitLocation caller);

typedef enum {
  PyjitElementF16,
  PyjitElementBF16,
  PyjitElementF32,
  PyjitElementF64,
  PyjitElementI8,
  PyjitElementI16,
  PyjitElementI32,
  PyjitElementI64,
  PyjitElementUI8,
  PyjitElementBool,
  PyjitElementC64,  /* complex of two f32 */
  PyjitElementC128, /* complex of two f64 */
  PyjitElementNone
} PyjitElement;

/* `!refgraph.obj<"name">` */
PYJIT_API PyjitType pyjitTypeObject(PyjitContext *context, PyjitString name);
/* `!refgraph.tensor`: sizes and strides in elements, `rank` of each; the device
   as torch.device prints it. */
PYJIT_API PyjitType pyjitTypeTensor(PyjitContext *context, const int64_t *sizes,
                                    const int64_t *strides, size_t rank,
                                    PyjitElement element, PyjitString device);
PYJIT_API PyjitText *pyjitTypePrint(PyjitType type);

/* Python values (dialects/refgraph/IR/PythonValues.h), which are also what
   operators are given. */
PYJIT_API PyjitAttribute pyjitAttributeNone(PyjitContext *context);
PYJIT_API PyjitAttribute pyjitAttributeEllipsis(PyjitContext *context);
PYJIT_API PyjitAttribute pyjitAttributeBool(PyjitContext *context, bool value);
PYJIT_API PyjitAttribute pyjitAttributeInt(PyjitContext *context,
                                           int64_t value);
/* An int beyond 64 bits, in decimal digits; `bits` wide with its sign. */
PYJIT_API PyjitAttribute pyjitAttributeBigInt(PyjitContext *context,
                                              PyjitString digits,
                                              uint32_t bits);
PYJIT_API PyjitAttribute pyjitAttributeFloat(PyjitContext *context,
                                             double value);
PYJIT_API PyjitAttribute pyjitAttributeComplex(PyjitContext *context,
                                               double real, double imaginary);
PYJIT_API PyjitAttribute pyjitAttributeString(PyjitContext *context,
                                              PyjitString value);
PYJIT_API PyjitAttribute pyjitAttributeBytes(PyjitContext *context,
                                             PyjitString value);
/* A tuple, or a list of arguments. */
PYJIT_API PyjitAttribute pyjitAttributeList(PyjitContext *context,
                                            const PyjitAttribute *elements,
                                            size_t count);
/* An entry of the object table. */
PYJIT_API PyjitAttribute pyjitAttributeObject(PyjitContext *context,
                                              int64_t index);
/* A dtype; null for PyjitElementNone. */
PYJIT_API PyjitAttribute pyjitAttributeElement(PyjitContext *context,
                                               PyjitElement element);
/* A dictionary with string keys: refgraph.state. */
PYJIT_API PyjitAttribute pyjitAttributeDictionary(PyjitContext *context,
                                                  const PyjitString *keys,
                                                  const PyjitAttribute *values,
                                                  size_t count);
PYJIT_API PyjitText *pyjitAttributePrint(PyjitAttribute attribute);

/* In an operator's arguments (include/pyjit/Operators/CallArguments.h): */
/* the next operand, a tensor; */
PYJIT_API PyjitAttribute pyjitArgumentOperand(PyjitContext *context);
/* the next operand, a number: in a tensor's place, a Scalar's or an int's; */
typedef enum {
  PyjitNumberWrapped,
  PyjitNumberScalar,
  PyjitNumberSize
} PyjitNumberForm;
PYJIT_API PyjitAttribute pyjitArgumentNumber(PyjitContext *context,
                                             PyjitNumberForm form);
/* a known number in a tensor's place; */
PYJIT_API PyjitAttribute pyjitArgumentWrapped(PyjitAttribute number);
/* a device. */
PYJIT_API PyjitAttribute pyjitArgumentDevice(PyjitContext *context,
                                             PyjitString name);

/*===-- Operations --===*/

/* Each appends one operation and returns the number of its first result, the
   others following; -1 where it has none. An operand that was never made spoils
   the trace: it does not compile. */
#include "pyjit-c/TraceOps.h.inc"

#ifdef __cplusplus
}
#endif

#endif /* PYJIT_C_TRACE_H */
