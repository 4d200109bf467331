//===- MathCoefficients.h - Polynomials of f32 functions --------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What every target's expansions evaluate, the highest power first. Their
// bounds stand in lib/Codegen/README.md.
//
//===----------------------------------------------------------------------===//

#ifndef PYJIT_CODEGEN_MATHCOEFFICIENTS_H
#define PYJIT_CODEGEN_MATHCOEFFICIENTS_H

namespace pyjit::codegen {

/// (tanh(x) / x - 1) / x^2 in x^2, below kTanhSmall.
inline constexpr float kTanh[] = {1.57394409e-2f, -5.23025580e-2f,
                                  1.33152470e-1f, -3.33327681e-1f};
inline constexpr float kTanhSmall = 0.55f;

/// erf(x) / x in x^2, a quotient (as XLA has it), up to kErfLast; from kErfOne
/// on erf is one.
inline constexpr float kErfAbove[] = {
    2.2905065861350646e-04f, 3.4082910107109506e-03f, 5.0955695062380861e-02f,
    1.8520832239976145e-01f, 1.128379143519084f};
inline constexpr float kErfBelow[] = {-1.1791602954361697e-07f,
                                      2.3547966471313185e-05f,
                                      1.0179625278914885e-03f,
                                      1.4070470171167667e-02f,
                                      1.1098505178285362e-01f,
                                      4.9746925110067538e-01f,
                                      1.0f};
inline constexpr float kErfLast = 3.7439212f, kErfOne = 3.9192059f;

} // namespace pyjit::codegen

#endif // PYJIT_CODEGEN_MATHCOEFFICIENTS_H
