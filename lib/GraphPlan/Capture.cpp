//===- Capture.cpp - What a CUDA graph can hold ---------------------------===//

#include "pyjit/GraphPlan/Capture.h"

#include "pyjit/Operators/OperatorInfo.h"
#include "pyjit/Operators/Random.h"

using namespace pyjit;

/// Overloads whose CUDA implementation copies to or from the host, or waits for
/// the device, although their schema does not show it.
static bool waitsForDevice(llvm::StringRef overload) {
  llvm::StringRef name = overload.substr(0, overload.find('.'));
  static constexpr llvm::StringRef names[] = {
      "aten::_local_scalar_dense",
      "aten::item",
      "aten::is_nonzero",
      "aten::equal",
      "aten::allclose",
      "aten::nonzero",
      "aten::masked_select",
      "aten::unique_dim",
      "aten::unique_consecutive",
      "aten::_unique",
      "aten::_unique2",
      "aten::bincount",
      "aten::repeat_interleave",
      "aten::multinomial",
      "aten::histc",
      "aten::embedding_bag",
      "aten::_embedding_bag",
      "aten::_ctc_loss",
      "aten::ctc_loss",
      "aten::linalg_inv_ex",
      "aten::linalg_eigh",
      "aten::_linalg_eigh",
      "aten::_linalg_svd",
      "aten::linalg_svd",
      "aten::linalg_lstsq",
      "aten::linalg_solve_ex",
      "aten::_linalg_solve_ex",
      "aten::linalg_lu_factor_ex",
      "aten::linalg_cholesky_ex",
      "aten::tensor_split",
      "aten::combinations",
      "aten::cdist",
      "aten::_pack_padded_sequence",
      "aten::lift_fresh",
      "aten::scalar_tensor",
      "aten::pin_memory",
  };
  return llvm::is_contained(names, name);
}

/// Overloads that take a boolean mask for indices expand it by its contents.
static bool mayExpandMask(llvm::StringRef overload) {
  return overload.starts_with("aten::index.") ||
         overload.starts_with("aten::index_put") ||
         overload.starts_with("aten::_index_put_impl");
}

/// Kernels that stop the device, and wait for nothing: range checks.
static bool isDeviceAssertion(llvm::StringRef overload) {
  return overload == "aten::_assert_async.msg";
}

llvm::StringRef pyjit::graphplan::whyNotCaptured(llvm::StringRef overload,
                                                 mlir::ArrayAttr args) {
  if (isDeviceAssertion(overload))
    return "";
  const operators::OperatorInfo *info = operators::lookupOperator(overload);
  bool library =
      overload.starts_with("mkl::") || overload.starts_with("mkldnn::");
  if (library)
    return "it is a library of the CPU's";
  if (!info)
    return "the operator table does not know what it does";
  if (info && info->kind == operators::OperatorClass::Random &&
      !operators::drawsNothing(*info, args))
    return "it draws random numbers";
  if (info && info->kind == operators::OperatorClass::Dynamic)
    return "the shape of its result depends on data";
  if (waitsForDevice(overload))
    return "it waits for the device";
  if (mayExpandMask(overload))
    return "it may look into its indices";
  return "";
}
