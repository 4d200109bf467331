//===- Composites.cpp - Operators that are made of others -----------------===//

#include "tensors/Composites.h"
#include "Session.h"
#include "tensors/TensorImpl.h"
#include "tensors/TensorOpArguments.h"

#include <ATen/autocast_mode.h>

#include <algorithm>
#include <set>

using namespace pyjit;
using namespace pyjit::capture;

/// "view" of "aten::view.dtype".
static std::string baseName(const std::string &overload) {
  std::string base = overload.substr(overload.find("::") + 2);
  return base.substr(0, base.find('.'));
}

//===----------------------------------------------------------------------===//
// What is known of composites
//===----------------------------------------------------------------------===//

bool Composites::keepsWhole(const std::string &name,
                            const std::vector<c10::IValue> &inputs) const {
  static const std::set<std::string> names = {
      "aten::reshape", "aten::flatten.using_ints", "aten::unflatten.int",
      "aten::view_as", "aten::expand_as",          "aten::_pad_circular"};
  if (!s.sizes.followed)
    return false;
  if (names.count(name))
    return true;
  // Under autocast its products have another type; of one tensor it is a view.
  return name == "aten::einsum" && inputs.size() > 1 &&
         inputs[1].isTensorList() && inputs[1].toTensorVector().size() > 1 &&
         !at::autocast::is_autocast_enabled(at::kCPU) &&
         !at::autocast::is_autocast_enabled(at::kCUDA);
}

/// The parts of such an operator are given nothing but what it was given, and
/// are the same ones for all sizes (other than zero and one). Views that widen
/// or split dimensions by numbers are noticed all the same (`argument`), and
/// rules keep the sizes that windows and transforms go over.
static bool isTransparent(const std::string &name) {
  // `max` and `min`: those of two tensors.
  // clang-format off
  static const std::set<std::string> names = {
      "T", "mT", "H", "mH", "__and__", "__or__", "__xor__", "_convolution_mode",
      "_to_cpu", "_upsample_bicubic2d_aa", "_upsample_bilinear2d_aa",
      "_upsample_nearest_exact1d", "_upsample_nearest_exact2d",
      "_upsample_nearest_exact3d", "absolute", "adaptive_avg_pool1d",
      "adaptive_max_pool1d", "adjoint", "alpha_dropout", "argsort",
      "atleast_1d", "atleast_2d", "avg_pool1d", "broadcast_to", "cdist", "clip",
      "clip_", "concat", "concatenate", "contiguous", "cudnn_is_acceptable", "conv1d", "conv2d",
      "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d",
      "cosine_embedding_loss", "cosine_similarity", "divide", "dropout",
      "dropout_", "embedding_bag", "feature_dropout", "fft_fft", "fft_fft2",
      "fft_fftn", "fft_ifft", "fft_ifft2", "fft_ifftn", "fft_irfft",
      "fft_rfft", "fft_rfft2", "fft_rfftn", "grid_sampler", "gru_cell",
      "hinge_embedding_loss", "hstack", "is_complex", "is_floating_point", "isfinite", "kl_div", "l1_loss",
      "linalg_det", "result_type", "can_cast", "promote_types",
      "log_sigmoid", "log_softmax", "lstm_cell", "margin_ranking_loss",
      "matrix_H", "max", "max_pool1d_with_indices", "max_pool3d", "min",
      "movedim", "moveaxis", "multiply", "narrow", "negative", "nll_loss",
      "nll_loss2d", "numpy_T", "pad", "pairwise_distance", "poisson_nll_loss",
      "prelu", "ravel", "relu6", "relu6_", "rnn_relu_cell", "rnn_tanh_cell",
      "rrelu", "rrelu_", "selu", "selu_", "softmax", "split", "square", "std",
      "std_mean", "subtract", "sum_to_size_", "swapaxes", "swapdims", "tile",
      "to", "triplet_margin_loss", "true_divide", "type_as",
      "upsample_bicubic2d", "upsample_bilinear2d", "upsample_linear1d",
      "upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d",
      "upsample_trilinear3d", "var", "var_mean", "vstack", "where"};
  // Of a packed sequence they follow how long its parts are.
  static const std::set<std::string> overloads = {
      "aten::lstm.input", "aten::gru.input", "aten::rnn_tanh.input",
      "aten::rnn_relu.input"};
  // clang-format on
  return names.count(baseName(name)) || overloads.count(name);
}

static bool isResize(const std::string &name) {
  return baseName(name).find("upsample_") != std::string::npos;
}

Composites::Computed Composites::sizeOf(const at::Tensor &tensor, int64_t dim) {
  if (tensor.size(dim) < 2) // no symbol ever
    return {{}, tensor.size(dim), 0};
  return {{{tensor, dim}}, 1, 0};
}

Composites::Numbers Composites::sizesOf(const at::Tensor &tensor) {
  Numbers sizes;
  for (int64_t d = 0; d < tensor.dim(); ++d)
    sizes.push_back(sizeOf(tensor, d));
  return sizes;
}

Composites::Computed Composites::product(const Numbers &numbers) {
  Computed result;
  for (const Computed &number : numbers) {
    result.sizes.insert(result.sizes.end(), number.sizes.begin(),
                        number.sizes.end());
    result.times *= number.times;
  }
  return result;
}

int64_t Composites::evaluate(const Computed &number) {
  int64_t value = number.times;
  for (auto &[tensor, dim] : number.sizes)
    value *= tensor.size(dim);
  return value + number.plus;
}

std::vector<int64_t> Composites::evaluate(const Numbers &list) {
  std::vector<int64_t> values;
  for (const Computed &number : list)
    values.push_back(evaluate(number));
  return values;
}

/// Losses of classes. False: not known.
bool Composites::describeLoss(Composite &composite,
                              const std::vector<c10::IValue> &inputs) {
  const at::Tensor &self = inputs[0].toTensor(), &target = inputs[1].toTensor();
  Numbers sizes = sizesOf(self);
  if (composite.name == "aten::nll_loss_nd") {
    if (self.dim() <= 2 || self.dim() == 4)
      return true;
    composite.lists.push_back({sizes[0], sizes[1], {{}, 1, 0}, {{}, -1, 0}});
    composite.lists.push_back({sizes[0], {{}, 1, 0}, {{}, -1, 0}});
    Numbers rest(sizes.begin() + 2, sizes.end());
    rest.insert(rest.begin(), sizes[0]);
    composite.lists.push_back(rest);
    return true;
  }
  // aten::cross_entropy_loss
  bool probabilities = target.is_floating_point();
  bool smooth = !inputs[5].isDouble() || inputs[5].toDouble() != 0;
  if (!probabilities && !smooth)
    return true; // the loss of a class is looked up
  if (self.dim() < 2 || !pinDim(self, 1))
    return false;
  // The mean is divided by the number of rows.
  Numbers rows = sizes;
  rows.erase(rows.begin() + 1);
  composite.numbers.push_back(product(rows));
  return true;
}

/// `upsample_nearest2d.vec` and its like: the new sizes are the old ones times
/// factors. Those that are no integers leave a literal, which rules notice.
void Composites::describeResize(Composite &composite,
                                const std::vector<c10::IValue> &inputs) {
  const c10::IValue &factors = inputs.back();
  if (!inputs[0].isTensor() || !factors.isDoubleList())
    return;
  const at::Tensor &self = inputs[0].toTensor();
  std::vector<double> times = factors.toDoubleVector();
  Numbers sizes;
  for (size_t i = 0; i < times.size(); ++i) {
    int64_t dim = self.dim() - int64_t(times.size() - i);
    if (dim < 0 || times[i] < 1 || times[i] > 1024 ||
        times[i] != double(int64_t(times[i])))
      return;
    sizes.push_back(sizeOf(self, dim));
    sizes.back().times *= int64_t(times[i]);
  }
  composite.lists.push_back(sizes);
}

/// Operators that widen and join dimensions. False: not known.
bool Composites::describeJoin(Composite &composite,
                              const std::vector<c10::IValue> &inputs) {
  const std::string &name = composite.name;
  if (name == "aten::broadcast_tensors") {
    Numbers sizes;
    for (const at::Tensor &t : composite.tensors)
      for (int64_t d = 1; d <= t.dim(); ++d) {
        if (int64_t(sizes.size()) < d)
          sizes.insert(sizes.begin(), Computed());
        Computed &size = sizes[sizes.size() - d];
        if (size.sizes.empty() && size.times == 1)
          size = sizeOf(t, t.dim() - d);
      }
    composite.lists.push_back(sizes);
    return true;
  }
  if (name == "aten::meshgrid" || name == "aten::meshgrid.indexing") {
    Numbers sizes;
    for (const at::Tensor &t : composite.tensors)
      sizes.push_back(t.dim() == 0 ? Computed() : sizeOf(t, 0));
    if (inputs.size() > 1 && inputs[1].isString() &&
        inputs[1].toStringRef() == "xy" && sizes.size() > 1)
      std::swap(sizes[0], sizes[1]);
    composite.lists.push_back(sizes);
    return true;
  }
  const at::Tensor &self = inputs[0].toTensor();
  if (name == "aten::outer" || name == "aten::ger") {
    composite.lists.push_back({product(sizesOf(self)), {{}, 1, 0}});
    return self.dim() == 1;
  }
  if (name == "aten::repeat_interleave.self_int") {
    composite.repeats = true;
    return inputs.size() < 4 || inputs[3].isNone();
  }
  if (name == "aten::diff") {
    // Of the neighbours along one dimension.
    if (!inputs[1].isInt() || inputs[1].toInt() != 1 || !inputs[2].isInt() ||
        !inputs[3].isNone() || !inputs[4].isNone() || self.dim() == 0)
      return false;
    int64_t dim = inputs[2].toInt();
    dim = dim < 0 ? dim + self.dim() : dim;
    if (self.size(dim) < 2)
      return true;
    composite.numbers.push_back(sizeOf(self, dim));
    composite.numbers.push_back(sizeOf(self, dim));
    composite.numbers.back().plus = -1;
    return true;
  }
  if (name == "aten::instance_norm") {
    Numbers sizes = sizesOf(self), joined = sizes;
    if (self.dim() < 2)
      return false;
    joined[1] = product({sizes[0], sizes[1]});
    joined[0] = Computed();
    composite.lists = {joined, sizes, {sizes[0]}};
    return true;
  }
  if (name != "aten::tensordot" || !inputs[2].isIntList() ||
      !inputs[3].isIntList())
    return false;
  const at::Tensor &other = inputs[1].toTensor();
  auto split = [](const at::Tensor &t, const std::vector<int64_t> &dims,
                  Numbers &free, Numbers &inner) {
    std::set<int64_t> joined;
    for (int64_t dim : dims) {
      joined.insert(dim < 0 ? dim + t.dim() : dim);
      inner.push_back(sizeOf(t, dim < 0 ? dim + t.dim() : dim));
    }
    for (int64_t d = 0; d < t.dim(); ++d)
      if (!joined.count(d))
        free.push_back(sizeOf(t, d));
  };
  Numbers rows, columns, inner, innerOther;
  split(self, inputs[2].toIntVector(), rows, inner);
  split(other, inputs[3].toIntVector(), columns, innerOther);
  if (evaluate(inner) != evaluate(innerOther))
    return false; // one of them is summed first
  composite.lists.push_back({product(rows), product(inner)});
  composite.lists.push_back({product(inner), product(columns)});
  rows.insert(rows.end(), columns.begin(), columns.end());
  composite.lists.push_back(rows);
  return true;
}

/// What the parts will be given. False: that is not known.
bool Composites::describe(Composite &composite,
                          const std::vector<c10::IValue> &inputs) {
  const std::string &name = composite.name;
  if (isResize(name))
    describeResize(composite, inputs);
  if (isTransparent(name))
    return true;
  if (name == "aten::einsum") // of one tensor: sums and diagonals
    return composite.tensors.size() == 1;
  if (name == "aten::nll_loss_nd" ||
      (name == "aten::cross_entropy_loss" && inputs.size() > 5))
    return describeLoss(composite, inputs);
  // How many parts there are depends on one dimension only.
  if ((name == "aten::chunk" || name == "aten::unsafe_chunk") &&
      inputs.size() == 3 && inputs[0].isTensor() && inputs[2].isInt())
    return pinDim(inputs[0].toTensor(), inputs[2].toInt());
  static const std::set<std::string> joins = {
      "aten::broadcast_tensors",
      "aten::diff",
      "aten::ger",
      "aten::instance_norm",
      "aten::meshgrid",
      "aten::meshgrid.indexing",
      "aten::outer",
      "aten::repeat_interleave.self_int",
      "aten::tensordot"};
  return joins.count(name) && describeJoin(composite, inputs);
}

//===----------------------------------------------------------------------===//
// Sizes that keep their values
//===----------------------------------------------------------------------===//

bool Composites::pinDim(const at::Tensor &t, int64_t dim) {
  TensorInfo *info = s.tensors->impl->find(t);
  dim = dim < 0 ? dim + t.dim() : dim;
  if (!info || info->value < 0 || dim < 0 || dim >= t.dim())
    return false;
  s.sizes.relate("is", write(Computed{{{t, dim}}}), t.size(dim));
  return true;
}

void Composites::pin(Composite &composite) {
  if (composite.pinned)
    return;
  composite.pinned = true;
  for (const at::Tensor &t : composite.tensors) {
    TensorInfo *info = t.defined() ? s.tensors->impl->find(t) : nullptr;
    if (info && info->value >= 0)
      s.add(PyjitLayoutOp{.tensor = info->value,
                          .question = view(composite.name)});
  }
}

/// Of whatever runs: what the outermost was given is where its sizes come from.
void Composites::pinRunning() {
  if (std::none_of(running.begin(), running.end(),
                   [](const Composite &c) { return c.pinned; }))
    pin(running.front());
}

static void collect(const c10::IValue &input, std::vector<at::Tensor> &out) {
  if (input.isTensor()) {
    if (input.toTensor().defined())
      out.push_back(input.toTensor());
  } else if (input.isList()) {
    for (const c10::IValue &element : input.toListRef())
      collect(element, out);
  }
}

void Composites::begin(const std::string &name,
                       const std::vector<c10::IValue> &inputs) {
  Composite composite;
  composite.name = name;
  for (const c10::IValue &input : inputs)
    collect(input, composite.tensors);
  bool known = describe(composite, inputs);
  running.push_back(std::move(composite));
  if (!known)
    pin(running.back());
}

bool Composites::owns(const at::Tensor &tensor) const {
  return !running.empty() &&
         std::none_of(running.front().tensors.begin(),
                      running.front().tensors.end(),
                      [&](const at::Tensor &given) {
                        return given.defined() && given.has_storage() &&
                               given.storage().is_alias_of(tensor.storage());
                      });
}

void Composites::question(const std::string &name,
                          const std::vector<c10::IValue> &inputs) {
  if (!s.sizes.followed)
    return;
  begin(name, inputs);
  end();
}

//===----------------------------------------------------------------------===//
// Expressions
//===----------------------------------------------------------------------===//

/// The number of the value that it is, or -1.
int Composites::write(const Computed &number) {
  int value = -1;
  int64_t known = 1;
  for (auto &[tensor, dim] : number.sizes) {
    TensorInfo *info = s.tensors->impl->find(tensor);
    if (!info || info->value < 0)
      return -1;
    PyjitValue size = s.add(PyjitSizeOp{.tensor = info->value,
                                        .dim = dim,
                                        .value = tensor.size(dim),
                                        .resultType = s.writer.object("int")});
    known *= tensor.size(dim);
    value = value < 0 ? size : s.sizes.writeInts("mul", value, size, known);
  }
  if (value >= 0 && number.times != 1) {
    known *= number.times;
    PyjitValue factor = s.sizes.writeInt(number.times);
    value = s.sizes.writeInts("mul", value, factor, known);
  }
  if (value >= 0 && number.plus != 0) {
    known += number.plus;
    PyjitValue term = s.sizes.writeInt(number.plus);
    value = s.sizes.writeInts("add", value, term, known);
  }
  return value;
}

/// A list of sizes that a part of a composite was given.
PyjitAttribute Composites::list(const std::string &name,
                                const std::vector<c10::IValue> &inputs,
                                TensorOpArguments &arguments) {
  std::vector<int64_t> values = inputs[1].toIntVector();
  const Numbers *match = nullptr;
  for (const Composite &composite : running)
    for (const Numbers &known : composite.lists)
      if (evaluate(known) == values) {
        if (match) { // which of the two is not known
          pinRunning();
          return nullptr;
        }
        match = &known;
      }
  std::vector<PyjitAttribute> sizes;
  if (match) {
    for (const Computed &number : *match) {
      int value = number.sizes.empty() ? -1 : write(number);
      sizes.push_back(value < 0 ? s.writer.integer(evaluate(number))
                                : arguments.computed(value, PyjitNumberSize));
    }
    return s.writer.list(sizes);
  }
  const at::Tensor &self = inputs[0].toTensor();
  if (name == "expand") {
    // What is not widened is as large as it is, whatever that is.
    int64_t ahead = int64_t(values.size()) - self.dim();
    for (int64_t i = 0; i < int64_t(values.size()); ++i) {
      bool own = i >= ahead && self.size(i - ahead) != 1;
      if (!own && values[i] > 1 && !running.back().repeats)
        pinRunning();
      sizes.push_back(s.writer.integer(own ? -1 : values[i]));
    }
    return s.writer.list(sizes);
  }
  // With all sizes given, their product is compared.
  bool open = std::count(values.begin(), values.end(), -1) > 0;
  if (name != "repeat" && open &&
      std::any_of(values.begin(), values.end(),
                  [](int64_t value) { return value > 1; }))
    pinRunning();
  return nullptr;
}

PyjitAttribute Composites::argument(const std::string &overload,
                                    const std::vector<c10::IValue> &inputs,
                                    size_t i, TensorOpArguments &arguments) {
  if (running.empty())
    return nullptr;
  std::string name = baseName(overload);
  static const std::set<std::string> lists = {
      "expand", "view", "reshape", "_unsafe_view", "repeat", "unflatten"};
  if (i == 1 && inputs[1].isIntList() &&
      (lists.count(name) || isResize(overload)))
    return list(name, inputs, arguments);
  // `diff` says where its slices end, and where they begin is no size.
  bool slice = overload == "aten::slice.Tensor" && i == 3;
  bool divisor = overload == "aten::div.Scalar" && i == 1;
  if ((!slice && !divisor) || !inputs[i].isInt())
    return nullptr;
  bool computes = false;
  for (const Composite &composite : running)
    for (const Computed &number : composite.numbers) {
      computes = true;
      if (evaluate(number) == inputs[i].toInt() && !number.sizes.empty())
        if (int value = write(number); value >= 0)
          return arguments.computed(value, slice ? PyjitNumberSize
                                                 : PyjitNumberScalar);
    }
  if (computes)
    pinRunning();
  return nullptr;
}
