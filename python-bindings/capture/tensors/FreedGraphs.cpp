//===- FreedGraphs.cpp - Where autograd's engine has been -----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "tensors/FreedGraphs.h"

#include "objects/ObjectTable.h"

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/python_cpp_function.h>

#include <cstring>
#include <unordered_set>

using namespace pyjit::capture;
namespace autograd = torch::autograd;

namespace {
enum class Saved { Nothing, Tensors, FreedTensors };
} // namespace

/// By the attributes that Python sees: one that is freed raises.
void pyjit::capture::visitSaved(const std::shared_ptr<autograd::Node> &node,
                                const std::function<void(PyObject *)> &visit) {
  PyObject *object = autograd::functionToPyObject(node);
  PyObject *names = object ? PyObject_Dir(object) : nullptr;
  for (Py_ssize_t i = 0; names && i < PyList_GET_SIZE(names); ++i) {
    PyObject *name = PyList_GET_ITEM(names, i);
    if (std::strncmp(PyUnicode_AsUTF8(name), "_saved_", 7))
      continue;
    PyObject *saved = PyObject_GetAttr(object, name);
    PyErr_Clear();
    visit(saved);
    Py_XDECREF(saved);
  }
  PyErr_Clear();
  Py_XDECREF(names);
  Py_XDECREF(object);
}

static Saved savedBy(const std::shared_ptr<autograd::Node> &node) {
  Saved found = Saved::Nothing;
  visitSaved(node, [&](PyObject *saved) {
    if (!saved)
      found = Saved::FreedTensors;
    else if (found == Saved::Nothing && ObjectTable::isTensor(saved))
      found = Saved::Tensors;
  });
  return found;
}

bool FreedGraphs::add(const std::vector<std::shared_ptr<autograd::Node>> &graph,
                      bool whole) {
  bool all = true;
  for (const auto &node : graph) {
    Saved saved = savedBy(node);
    all &= saved != Saved::Tensors;
    if (saved == Saved::FreedTensors || (whole && saved == Saved::Nothing))
      nodes.emplace(node.get(), saved == Saved::FreedTensors);
  }
  held.insert(held.end(), graph.begin(), graph.end());
  return all;
}

bool FreedGraphs::endAll(autograd::Node *node) const {
  std::vector<autograd::Node *> work{node};
  std::unordered_set<autograd::Node *> seen;
  while (!work.empty()) {
    autograd::Node *now = work.back();
    work.pop_back();
    auto freed = nodes.find(now);
    if (!seen.insert(now).second || (freed != nodes.end() && freed->second))
      continue;
    bool goesOn = false;
    for (const autograd::Edge &edge : now->next_edges()) {
      if (edge.function)
        work.push_back(edge.function.get());
      goesOn |= edge.function != nullptr;
    }
    if (!goesOn)
      return false;
  }
  return true;
}

bool FreedGraphs::contains(autograd::Node *node) const {
  std::vector<autograd::Node *> work{node};
  std::unordered_set<autograd::Node *> seen;
  bool raises = false;
  while (!work.empty()) {
    autograd::Node *now = work.back();
    work.pop_back();
    if (!seen.insert(now).second)
      continue;
    auto freed = nodes.find(now);
    if (freed != nodes.end() && freed->second) {
      raises = true; // no backward comes to what lies behind it
      continue;
    }
    bool goesOn = false;
    for (const autograd::Edge &edge : now->next_edges()) {
      if (edge.function)
        work.push_back(edge.function.get());
      goesOn |= edge.function != nullptr;
    }
    if (freed == nodes.end() && !goesOn)
      return false;
  }
  return raises;
}
