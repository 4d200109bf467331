//===- TensorOpFacts.h - What the recorder knows of operators ---*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Facts that no schema and no tag of the dispatcher states: those of the
// operator table, and what follows from them and a call's arguments.
//
//===----------------------------------------------------------------------===//
#ifndef PYJIT_CAPTURE_TENSOROPFACTS_H
#define PYJIT_CAPTURE_TENSOROPFACTS_H

#include "pyjit-c/Operators.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>

#include <optional>
#include <string>
#include <vector>

namespace pyjit::capture {

/// Of an operator, by its name with its overload.
PyjitOperatorFacts factsOf(const std::string &name);

/// Whether the operator draws random numbers with a probability that is not
/// zero (attention with dropout).
bool drawsNumbers(const c10::OperatorHandle &handle,
                  const PyjitOperatorFacts &facts,
                  const std::vector<c10::IValue> &inputs);

/// Takes statistics of the batch, be there running ones or not.
bool isTrainingBatchNorm(const PyjitOperatorFacts &facts,
                         const std::vector<c10::IValue> &inputs);

/// Of a batch norm: whether there are running statistics.
bool keepsStatistics(const std::vector<c10::IValue> &inputs);

/// A batch norm in training mode writes running statistics, which its schema
/// does not say. That of the same operator by another name does. False: the
/// name is none that a trace could have.
bool asStatisticsUpdate(std::optional<c10::OperatorHandle> &handle,
                        std::string &name, std::vector<c10::IValue> &inputs);

/// RReLU draws slopes in training only. In evaluation it is a leaky ReLU of
/// their mean, and its buffer for them is never filled.
void asLeakyRelu(std::optional<c10::OperatorHandle> &handle, std::string &name,
                 std::vector<c10::IValue> &inputs);
/// Likewise the view by strides that `fill_diagonal_` fills: as a view that can
/// be written.
void asDiagonal(std::optional<c10::OperatorHandle> &handle, std::string &name,
                std::vector<c10::IValue> &inputs);

/// Whether the operator draws numbers from [0, 1), and whether it compares such
/// numbers with one that is outside: `torch.rand([]) < 0.0` (a layer that is
/// dropped never) is no data.
bool drawsUniformNumbers(const std::string &name);
bool isAlikeForUniform(const std::string &name,
                       const std::vector<c10::IValue> &inputs);

/// Whether the operator counts elements of `operand`.
bool countsElements(const std::string &name, const at::Tensor &operand);

/// How the arguments of an operator that fills differ from those of `empty`.
struct EmptyFilling {
  bool dropsLast = false;           ///< it has no memory format
  size_t place = 0;                 ///< of the value among the arguments
  std::optional<c10::Scalar> value; ///< none: zeros, an operator without one
};

/// What a program leaves unwritten of memory that it asked for may hold
/// anything: zeros do, and then it may be written in parts, by indices or
/// masks. In deterministic mode eager fills it, unless that is switched off.
/// Memory that operators ask for is another matter: they may fill it out of the
/// dispatcher's sight.
/// type: the result's.
EmptyFilling fillEmpty(std::string &name,
                       const std::vector<c10::IValue> &inputs,
                       at::ScalarType type);

} // namespace pyjit::capture

#endif // PYJIT_CAPTURE_TENSOROPFACTS_H
