//===- TransformRegion.cpp - Transforms of torch.func ---------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "interpreter/TransformRegion.h"

#include "Recording.h"
#include "tensors/Wrappers.h"

#include <ATen/functorch/BatchedTensorImpl.h>
#include <ATen/functorch/DynamicLayer.h>
#include <ATen/functorch/TensorWrapper.h>

#include <cstring>
#include <string>

using namespace pyjit::capture;
namespace functorch = at::functorch;

//===----------------------------------------------------------------------===//
// Wrappers
//===----------------------------------------------------------------------===//

const at::TensorBase &pyjit::capture::plainTensor(const at::TensorBase &t) {
  const at::TensorBase *plain = &t;
  while (isWrapper(*plain)) {
    c10::TensorImpl *impl = plain->unsafeGetTensorImpl();
    if (impl->key_set().has(c10::DispatchKey::FuncTorchGradWrapper))
      plain = &static_cast<functorch::TensorWrapper *>(impl)->value();
    else
      plain = &static_cast<functorch::BatchedTensorImpl *>(impl)->value();
  }
  return *plain;
}

bool pyjit::capture::isTransforming() {
  return !functorch::getDynamicLayerStack().empty();
}

//===----------------------------------------------------------------------===//
// Frames
//===----------------------------------------------------------------------===//

/// The folder of a package of Torch's, with a slash; empty if there is none.
static std::string folderOf(const char *package) {
  PyObject *module = PyImport_ImportModule(package);
  PyObject *file =
      module ? PyObject_GetAttrString(module, "__file__") : nullptr;
  const char *text = file ? PyUnicode_AsUTF8(file) : nullptr;
  std::string folder = text ? text : "";
  PyErr_Clear();
  Py_XDECREF(file);
  Py_XDECREF(module);
  return folder.substr(0, folder.rfind('/') + 1);
}

static std::string fileOf(PyjitFrame *frame) {
  const char *file = PyUnicode_AsUTF8(pyjitFrameCode(frame)->co_filename);
  PyErr_Clear();
  return file ? file : "";
}

/// Whether it is a frame of the functions that push interpreters and pop them
/// before they return (a generator may return in between).
static bool isTransform(PyjitFrame *frame) {
  static const std::string folder = folderOf("torch._functorch");
  if (folder.empty() || pyjitFrameIsGenerator(frame))
    return false;
  std::string file = fileOf(frame);
  return file == folder + "apis.py" || file == folder + "vmap.py" ||
         file == folder + "eager_transforms.py";
}

bool TransformRegion::enter() {
  if (isActive())
    return true;
  // Those of `enter_jvp_nesting` and its like do not.
  auto pushes = [](PyjitFrame *frame) {
    std::string name = utf8(pyjitFrameCode(frame)->co_name);
    return name == "enter_jvp_nesting";
  };
  for (const ShadowFrame &frame : s.tracker.frames)
    if (frame.code && isTransform(frame.frame) && !pushes(frame.frame)) {
      outermost = frame.frame;
      return entered = true;
    }
  return false;
}

void TransformRegion::leave() {
  if (functorch::getDynamicLayerStack().size() <= 1)
    outermost = nullptr;
}

void TransformRegion::fixLayout(int value) {
  if (s.sizes.followed && value >= 0 && fixed.insert(value).second)
    s.add(PyjitLayoutOp{.tensor = value, .question = view("all")});
}

size_t TransformRegion::caller() const {
  for (size_t i = 1; i < s.tracker.frames.size(); ++i)
    if (s.tracker.frames[i].frame == outermost)
      return i - 1;
  return 0;
}

/// Torch's own code, and what of Python's library that calls.
static bool isOfTorch(PyjitFrame *frame) {
  static const std::string torch = folderOf("torch"),
                           library = folderOf("contextlib");
  std::string file = fileOf(frame);
  auto isIn = [&](const std::string &folder) {
    return !folder.empty() && file.compare(0, folder.size(), folder) == 0;
  };
  return isIn(torch) || file.compare(0, 8, "<frozen ") == 0 ||
         (isIn(library) && file.find("-packages/") == std::string::npos);
}

bool TransformRegion::passesOver(PyjitFrame *frame) {
  if (operatorDepth == 0)
    return false;
  if (!s.dead && !isOfTorch(frame))
    s.endOnce(ReasonKind::CalledFromNative,
              "an operator under a transform that is written in Python");
  return true;
}
