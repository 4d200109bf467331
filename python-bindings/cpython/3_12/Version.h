//===- Version.h - Constants of CPython 3.12's bytecode -----------*- C -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef PYJIT_CPYTHON_VERSION_H
#define PYJIT_CPYTHON_VERSION_H

#include <opcode.h>

/* The operator of a COMPARE_OP stands above these bits of its argument. */
#define PYJIT_COMPARE_SHIFT 4
/* The bit of it that says that the truth of the result is asked for. */
#define PYJIT_COMPARE_ASKS_TRUTH 0
/* The instruction that asks for the truth that a jump or `not` takes; -1: they
   do. */
#define PYJIT_ASKS_TRUTH (-1)
/* The instruction that holds the names of the call behind it; -1: none. */
#define PYJIT_NAMES_OF_CALL KW_NAMES
/* NULL, in the place of `self`, stands above a callable; 0: below it. */
#define PYJIT_NULL_ABOVE 0
/* So many instructions FOR_ITER skips when the iterator has run out. */
#define PYJIT_FOR_ITER_SKIPS 1
/* So many values RETURN_GENERATOR leaves beyond what its stack effect tells. */
#define PYJIT_GENERATOR_LEAVES 1

#endif // PYJIT_CPYTHON_VERSION_H
