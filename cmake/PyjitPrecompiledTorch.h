//===- PyjitPrecompiledTorch.h - What sources against Torch include -------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Precompiled for each target of pyjit_precompile_torch: Torch's headers are
// some 200,000 lines, and half to nine tenths of what compiling such a source
// takes. Files still include what they use.
//
//===----------------------------------------------------------------------===//

#ifdef PYJIT_PRECOMPILE_PYTHON
#include "CPython.h"

#include <torch/csrc/autograd/python_variable.h>
#endif

#include <ATen/Context.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <variant>
#include <vector>
