//===- TensorImpl.h - What the tensor files share ---------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef PYJIT_CAPTURE_TENSORIMPL_H
#define PYJIT_CAPTURE_TENSORIMPL_H

#include "Recording.h"
#include "numbers/HostScalars.h"
#include "tensors/Composites.h"
#include "tensors/FreedGraphs.h"
#include "tensors/FrozenLeaves.h"
#include "tensors/KeptCasts.h"
#include "tensors/ReplacedData.h"
#include "tensors/Tensors.h"
#include "tensors/WrittenLeaves.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <ATen/record_function.h>
#include <c10/core/TensorImpl.h>

#include <map>
#include <optional>
#include <set>
#include <unordered_map>

namespace pyjit::capture {

struct TensorInfo {
  c10::intrusive_ptr<c10::TensorImpl> impl; ///< addresses are not reused
  int value = -1;
  bool external = false;
  int64_t version = 0; ///< of an external tensor, when it was read
  bool constant = false;
  /// Drawn from [0, 1).
  bool uniform = false;
  bool isCount = false; ///< of elements of a tensor
  /// Made by an `empty` whose contents nobody has written yet.
  bool uninitialized = false;
  /// Had a `grad_fn` when it was bound. One that came later is of nobody that
  /// the recorder has seen (TorchScript's own differentiation).
  bool isComputed = false;
  /// Shows memory that autograd takes for its own: a part that `unsafe_split`
  /// has made.
  bool isPart = false;
  /// Somebody wrote its memory by a part, unknown to autograd: gradients must
  /// not flow from it any more.
  bool isStale = false;
  /// A view through which a write would have no one meaning in the tensor
  /// program: of an expanded tensor, of overlapping windows.
  bool readOnly = false;
  /// A view of a leaf that the call had written: the trace makes it of what
  /// `pyjit::written` gave, which later writes do not reach.
  bool showsWritten = false;
  /// The `.data` of another tensor that this is, or shows: its version counter
  /// is its own.
  const c10::TensorImpl *data = nullptr;
  bool isView = false; ///< the trace makes it as a view of another tensor
  /// It is one because its shape was changed in place (`squeeze_`): it is the
  /// tensor that the memory was made with.
  bool isReshaped = false;
  /// A leaf that the call made: its value has no history in the trace.
  bool beginsHistory = false;
  PyjitType type = nullptr; ///< when bound; a change of shape shows
};

struct State {
  bool gradMode, inferenceMode, autocastCpu, autocastCuda, autocastCache;
  int autocastNesting; ///< regions, be they such that switch it off
  bool deterministic, deterministicWarnOnly, cudnn, mkldnn;
  at::ScalarType defaultDtype, autocastCpuDtype, autocastCudaDtype;
  /// Kernels of attention that the user allows.
  struct Attention {
    bool flash, efficient, math, cudnn, overrideable;
    bool operator==(const Attention &) const = default;
  } attention;
  uint64_t includedKeys, excludedKeys;
  bool forwardGrad;         ///< forward-mode differentiation may be used
  bool savesTensorsPlainly; ///< hooks on saved tensors may be set, and none are
  FunctionModes modes;
  static State now();
  bool isInsideAutocast() const { return autocastNesting > 0; }
};

/// An operator call as the trace has it: its operands are the tensors and
/// numbers among its arguments.
struct OperatorCall {
  std::string overload;
  std::vector<PyjitValue> operands;
  std::vector<PyjitAttribute> arguments;
  std::vector<int64_t> aliases, mutates;
  bool noGrad = false;          ///< gradients end at it
  const char *kernel = nullptr; ///< which of several eager takes, or null
};

/// What operators have done that some others must not follow.
struct EarlierOperators {
  /// Wrote memory of a tensor that requires grad, unseen by autograd, and that
  /// is none of `leaves`; empty if none did.
  std::string unseenWrite;
  /// Wrote a part of a tensor of the CPU; empty if none did.
  std::string hostPart;
  bool onDevice = false;         ///< met a tensor that is not the CPU's
  bool onCurrentDevice = false;  ///< made a tensor on CUDA's current device
  bool checkpointed = false;     ///< a function under checkpoint has run
  bool hooksGuarded = false;     ///< see guardHooks
  bool attentionGuarded = false; ///< see guardAttentionKernels
  bool graph = false; ///< made a graph that a backward can go through yet
  WrittenLeaves leaves;
  FrozenLeaves frozen;
  ReplacedData replaced;
  /// Storages that leaves of the call's own share with other tensors: they must
  /// not be written any more, nor leave the call.
  std::set<const void *> leafStorages;
  /// Inputs that an operator wrote, and storages that one wrote otherwise: by
  /// a view, or a tensor's `.data`.
  std::set<const c10::TensorImpl *> writtenInputs;
  std::set<const void *> shownAndWritten;
};

class EngineRun;

/// What a specialization computes a number of Python's by (DataScalars.cpp).
struct Proxy {
  at::Tensor tensor;
  int64_t bound;         ///< an int is no larger
  bool isSingle = false; ///< what single precision can hold
};

struct TensorRecorder::Impl {
  Recording &recording;
  std::unordered_map<c10::TensorImpl *, TensorInfo> tensors;
  /// Results of operators without tensor operands. Torch's factory functions
  /// hand out a shallow copy when somebody else holds the result, as this
  /// recorder does: such a copy is the same tensor.
  std::vector<c10::TensorImpl *> factories;
  /// Storages that a view shows as numbers of another type.
  std::map<const void *, std::string> retypedStorages;
  /// Storages that an operator wrote to.
  std::map<const void *, std::string> writtenStorages;
  bool suspended = false;
  int depth = 0; ///< inside an operator that is recorded as one
  State state = State::now();
  /// Gradients flow through some operator.
  bool gradientFlows = false;
  EarlierOperators earlier;
  /// Autograd's engine, while it runs within the call.
  std::shared_ptr<EngineRun> engine;
  FreedGraphs freed;
  HostScalars host;
  /// Where a function under checkpoint runs, the number of the first value that
  /// it may have made; else -1.
  int checkpointedFrom = -1;
  int leavingMode = -1; ///< whether what leaves is of inference mode
  /// What the call hands out.
  std::vector<at::Tensor> leaving;

  std::vector<Proxy> proxies;
  /// -1 if the operator was not recorded.
  int addProxy(const at::Tensor &tensor, int64_t bound);

  explicit Impl(Recording &recording)
      : recording(recording), host(recording), composites(recording),
        casts(recording) {}
  TensorInfo *find(const at::TensorBase &tensor);
  /// Whether autograd knows of the tensor what no operator told it.
  bool hasStrangeHistory(const at::TensorBase &tensor) const;
  TensorInfo &bind(const at::TensorBase &tensor, int value);
  /// An operator has written it; `value` is what it holds now.
  void bindWritten(const at::TensorBase &tensor, int value,
                   const std::string &overload, bool constant);
  PyjitType type(const at::TensorBase &tensor);
  /// Appends an operator with these results, undefined where it leaves one out;
  /// returns the first one's value.
  PyjitValue add(const OperatorCall &call,
                 const std::vector<at::Tensor> &results);
  PyjitValue add(const OperatorCall &call, const std::vector<PyjitType> &types,
                 const std::vector<int64_t> &offsets);
  /// Appends what makes `result`, a tensor of no dimensions that holds the
  /// number `value`.
  PyjitValue addNumber(PyjitValue value, const at::Tensor &result);
  /// Appends what makes a tensor of the same memory without a gradient.
  PyjitValue addDetach(PyjitValue source, const at::Tensor &result,
                       bool noGrad);
  void readOffset(const at::TensorBase &tensor, int value);
  /// Binds a tensor of Python data to a constant of the specialization.
  TensorInfo *constant(const at::TensorBase &tensor);
  int findConstant(const at::Tensor &copy, PyjitType type) const;

  /// A number that the program made of Python data, and its object.
  struct Constant {
    at::Tensor copy;
    PyjitType type;
    PyjitValue root;
  };
  std::vector<Constant> constants;

  // Operators (TensorOps.cpp, TensorOpRecording.cpp, Composites.cpp).
  Composites composites;
  KeptCasts casts;
  struct Operation;
  static std::unique_ptr<at::ObserverContext>
  beginOperator(const at::RecordFunction &fn);
  static void endOperator(const at::RecordFunction &fn,
                          at::ObserverContext *context);
  std::unique_ptr<at::ObserverContext> begin(const at::RecordFunction &fn);
  void end(const at::RecordFunction &fn, Operation &operation);
  void record(const at::RecordFunction &fn, Operation &operation);
  void recordShapeChange(OperatorCall call, const at::Tensor &t);
};

/// Whether a function under checkpoint runs, and the tensor's memory was there
/// before it began.
bool wasThereBefore(const TensorRecorder::Impl &impl, const at::TensorBase &t);
/// The tensor's storage, as a key; null where it has none.
inline const void *storageOf(const at::TensorBase &t) {
  return t.has_storage() ? t.storage().unsafeGetStorageImpl() : nullptr;
}
inline bool hasStorage(const c10::TensorImpl *t, const void *storage) {
  return t->has_storage() &&
         t->unsafe_storage().unsafeGetStorageImpl() == storage;
}
/// How often the tensor's memory was written.
int64_t versionOf(const at::TensorBase &tensor);
/// Whether two elements may share a place in memory (an expanded tensor, say).
bool mayOverlap(const at::TensorBase &tensor);
/// Whether an element of one tensor may lie where an element of the other does.
bool mayShareElements(const at::TensorBase &a, const at::TensorBase &b);
/// PyjitElementNone: tensors of this type are not modelled.
PyjitElement elementOf(at::ScalarType type);
/// Why the recorder does not model this tensor, or null.
/// The present instruction has made the tensor: a graph break there, if it
/// cannot leave the call.
void noteSite(Recording &recording, const at::Tensor &tensor);

/// `pending`: one that is still to be conjugated or negated is not.
const char *unsupportedTensor(const at::TensorBase &tensor,
                              bool pending = false);

} // namespace pyjit::capture

#endif // PYJIT_CAPTURE_TENSORIMPL_H
