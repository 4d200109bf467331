//===- OperatorRecording.h - The steps of recording an operator -*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef PYJIT_CAPTURE_OPERATORRECORDING_H
#define PYJIT_CAPTURE_OPERATORRECORDING_H

#include "Recording.h"
#include "tensors/Gradients.h"
#include "tensors/TensorOpArguments.h"
#include "tensors/TensorOpRecording.h"

namespace pyjit::capture {

/// The steps of `run`, each of which builds on those before it. A step that
/// returns false has recorded all that there is, or has ended the capture.
class OperatorRecording {
public:
  OperatorRecording(TensorRecorder::Impl &impl,
                    TensorRecorder::Impl::Operation &op,
                    const std::vector<c10::IValue> &outputs)
      : impl(impl), recording(impl.recording), op(op),
        schema(op.handle.schema()), outputs(outputs), arguments(impl) {}

  void run() {
    if (outputs.size() != schema.returns().size())
      return; // it raised
    bindNumbers();
    readArguments();
    if (recordZeros() || recording.ended())
      return;
    if (!checkWhatPythonSees() || !checkStorage() || addsOnHost() ||
        multipliesOnHost() || !checkOperands() || !checkWritten() ||
        !findFresh())
      return;
    findAliases();
    if (!checkGradient() || !checkDevices())
      return;
    if (op.facts.shapeChange && mutated == std::vector<size_t>{0} &&
        arguments.operands.size() == 1 && !arguments.infos[0]->external)
      return impl.recordShapeChange({op.name, arguments.values, given,
                                     /*aliases=*/{0}, /*mutates=*/{}, noGrad},
                                    arguments.operands[0]);
    if (!checkRetyped())
      return;
    beginHistories();
    PyjitValue first = append();
    bindFresh(first);
    bindMutated(first + PyjitValue(numResults));
    endPartialGradients();
  }

private:
  bool refuse(const std::string &why, ReasonKind kind = ReasonKind::Operator) {
    recording.end(kind, "operator " + op.name + ": " + why);
    return false;
  }
  bool refuseCall(const std::string &why) {
    recording.endWhole(ReasonKind::Operator,
                       "operator " + op.name + ": " + why);
    return false;
  }

  void bindNumbers();
  void readArguments();
  const char *whyDataDependent() const;
  std::vector<size_t> findCounted() const;
  bool goesBySize();
  bool checkWhatPythonSees();
  bool checkStorage();
  bool checkKeptCast();
  bool isOwnConstant(const at::Tensor &t, const TensorInfo &info) const;
  bool recordZeros();
  PyjitValue addChoice(bool takesFirst, PyjitValue first, PyjitValue second,
                       const at::Tensor &result);
  PyjitValue addZeroGradient(PyjitValue value, const at::Tensor &result,
                             size_t operand);
  bool isUnread(size_t operand) const;
  void fillUnread(size_t operand);
  bool addsOnHost();
  bool multipliesOnHost();
  bool takeFromHost(size_t j);
  bool checkOperands();
  bool checkWritten();
  bool findFresh();
  void findAliases();
  bool checkGradient();
  bool checkDevices();
  bool checkFlow(const OperatorGradient &gradient);
  bool checkRetyped();
  void beginHistories();
  std::vector<at::Tensor> resultsInPlaces() const;
  PyjitValue append();
  PyjitValue writtenLeaf(const at::Tensor &leaf);
  PyjitValue differentiableValue(size_t operand);
  void noteUse(const at::Tensor &leaf);
  void keepUnwritten();
  void bindFresh(PyjitValue value);
  void bindMutated(PyjitValue value);
  void endPartialGradients();

  TensorRecorder::Impl &impl;
  Recording &recording;
  TensorRecorder::Impl::Operation &op;
  const c10::FunctionSchema &schema;
  const std::vector<c10::IValue> &outputs;

  TensorOpArguments arguments;
  std::vector<PyjitAttribute> given; ///< the arguments
  /// Numbers of operands that the schema says are written, or shown by results.
  std::vector<size_t> mutated, viewed;
  bool constant = true; ///< a function of constants
  bool noGrad = false;  ///< gradients end here
  bool flows = false;   ///< gradients flow through it
  /// Of each operand that is written, the leaf whose memory it shows, where
  /// autograd does not see the write; else empty.
  std::vector<at::Tensor> leaves;
  std::vector<PyjitValue> unwritten; ///< of each of them
  /// The value that is replaced where autograd does not see the write; else -1.
  PyjitValue replaced = -1;
  /// Results that are not the very operand that went in.
  std::vector<at::Tensor> fresh;
  /// The places of the fresh ones among the call's results. A trace has those
  /// that a mask leaves out, too, as values that nobody reads: everybody behind
  /// it counts results as the schema does.
  std::vector<size_t> places;
  size_t numResults = 0;
  /// Numbers of operands that the fresh results share storage with.
  std::vector<size_t> aliases;
};

} // namespace pyjit::capture

#endif // PYJIT_CAPTURE_OPERATORRECORDING_H
