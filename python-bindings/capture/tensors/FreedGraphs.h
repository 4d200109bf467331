//===- FreedGraphs.h - Where autograd's engine has been ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef PYJIT_CAPTURE_TENSORS_FREEDGRAPHS_H
#define PYJIT_CAPTURE_TENSORS_FREEDGRAPHS_H

#include <Python.h>

#include <functional>
#include <memory>
#include <unordered_map>
#include <vector>

namespace torch::autograd {
struct Node;
}

namespace pyjit::capture {

/// What the node keeps, as Python sees it; null: it is freed, or was written.
void visitSaved(const std::shared_ptr<torch::autograd::Node> &node,
                const std::function<void(PyObject *)> &visit);

/// The graphs that a backward within the call has been through.
class FreedGraphs {
public:
  /// `whole`: the engine has been through each node. Returns whether it has, as
  /// far as nodes with saved tensors say.
  bool add(const std::vector<std::shared_ptr<torch::autograd::Node>> &graph,
           bool whole);
  bool empty() const { return nodes.empty(); }
  /// Whether each way from the node comes to a freed one, and some of these had
  /// saved tensors: another backward would be an error.
  bool contains(torch::autograd::Node *node) const;
  /// Whether each way from the node comes to a freed one that had saved
  /// tensors, be it by way of leaves or not: no backward that begins at it
  /// comes anywhere.
  bool endAll(torch::autograd::Node *node) const;

private:
  std::vector<std::shared_ptr<torch::autograd::Node>> held;
  /// Of nodes that it has been through: whether there were saved tensors.
  std::unordered_map<torch::autograd::Node *, bool> nodes;
};

} // namespace pyjit::capture

#endif // PYJIT_CAPTURE_TENSORS_FREEDGRAPHS_H
