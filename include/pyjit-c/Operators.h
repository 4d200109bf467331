// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
/*===- pyjit-c/Operators.h - Facts about operators --------------*- C -*-===*\
|*                                                                            *|
|* What neither a schema nor a tag of torch's states of an operator, and a    *|
|* constant for each operator's name. Generated from lib/Operators/Facts.td;  *|
|* each fact's meaning is in lib/Operators/OperatorBase.td.                   *|
|*                                                                            *|
\*===----------------------------------------------------------------------===*/

#ifndef PYJIT_C_OPERATORS_H
#define PYJIT_C_OPERATORS_H

#include "pyjit-c/Trace.h"

#ifdef __cplusplus
/* `pyjit::operators::aten::add__Tensor` is "aten::add_.Tensor". */
namespace pyjit::operators {
#include "pyjit-c/OperatorNames.h.inc"
} // namespace pyjit::operators

extern "C" {
#endif

/* Facts that are one of several: `PyjitPartSizesOuter`. */
#define PYJIT_BEGIN(Kind) typedef enum { Pyjit##Kind##None,
#define PYJIT_VALUE(Kind, Value) Pyjit##Kind##Value,
#define PYJIT_END(Kind)                                                        \
  }                                                                            \
  Pyjit##Kind;
#include "pyjit-c/OperatorFacts.h.inc"

/* A field for each kind of fact. */
typedef struct {
  int overwrites; /* the operand whose contents the call does not read, or -1 */
#define PYJIT_CHOICE(Name, name) Pyjit##Name name;
#define PYJIT_TEXT(Name, name) const char *name; /* null: none */
#define PYJIT_FLAG(Name, name) bool name;
#include "pyjit-c/OperatorFacts.h.inc"
} PyjitOperatorFacts;

/* Of an overload: "aten::add.Tensor". */
PYJIT_API PyjitOperatorFacts pyjitOperatorFacts(PyjitString overload);

/* Whether calls of an overload, or of its functional form, can be
   differentiated, those of complex numbers if `ofComplex`; what arguments they
   may have, the compiler says. */
PYJIT_API bool pyjitOperatorDifferentiable(PyjitString overload,
                                           bool ofComplex);

#ifdef __cplusplus
}
#endif

#endif
