//===- Composites.cpp - Operators that are made of others -----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "tensors/Composites.h"
#include "Recording.h"
#include "tensors/TensorImpl.h"
#include "tensors/TensorOpArguments.h"

#include <ATen/autocast_mode.h>
#include <ATen/ops/cudnn_is_acceptable.h>
#include <ATen/record_function.h>

#include <algorithm>
#include <set>

using namespace pyjit;
using namespace pyjit::capture;

//===----------------------------------------------------------------------===//
// What is known of composites
//===----------------------------------------------------------------------===//

/// Whether eager would call cuDNN with it: the backward of a layer does.
static bool isForCuDNN(const at::Tensor &input) {
  at::DisableRecordFunctionGuard unseen;
  return at::cudnn_is_acceptable(input);
}

/// A recurrent layer of the CPU whose steps are not as many in each call. Where
/// nothing but its batch differs, its steps are recorded: kernels join them.
bool Composites::runsForLengths(const PyjitOperatorFacts &facts,
                                const std::vector<c10::IValue> &inputs) const {
  if (!facts.keptWithLengths || at::autocast::is_autocast_enabled(at::kCPU))
    return false;
  const at::Tensor &input = inputs[0].toTensor();
  bool known =
      input.is_cpu() && input.dim() == 3 &&
      (input.scalar_type() == at::kFloat || input.scalar_type() == at::kDouble);
  bool batchFirst = inputs.back().isBool() && inputs.back().toBool();
  const std::set<int64_t> &lifted = s.sizes.lifted;
  return known && !lifted.empty() &&
         (lifted.size() > 1 || *lifted.begin() != input.size(!batchFirst));
}

bool Composites::keepsWhole(const std::string &name,
                            const PyjitOperatorFacts &facts,
                            const std::vector<c10::IValue> &inputs) const {
  // Under autocast cuDNN takes weights of another type.
  if (facts.keptOnDevice && inputs[0].toTensor().is_cuda() &&
      !at::autocast::is_autocast_enabled(at::kCUDA) &&
      isForCuDNN(inputs[0].toTensor()))
    return true;
  if (!s.sizes.followed)
    return false;
  if (runsForLengths(facts, inputs))
    return true;
  if (facts.keptWithSizes)
    return true;
  // Under autocast its products have another type; of one tensor it is a view.
  return name == operators::aten::einsum && inputs.size() > 1 &&
         inputs[1].isTensorList() && inputs[1].toTensorVector().size() > 1 &&
         !at::autocast::is_autocast_enabled(at::kCPU) &&
         !at::autocast::is_autocast_enabled(at::kCUDA);
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
  return (value + number.plus) / number.by;
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
  if (composite.facts.partSizes == PyjitPartSizesNllLoss) {
    if (self.dim() <= 2 || self.dim() == 4)
      return true;
    composite.lists.push_back({sizes[0], sizes[1], {{}, 1, 0}, {{}, -1, 0}});
    composite.lists.push_back({sizes[0], {{}, 1, 0}, {{}, -1, 0}});
    Numbers rest(sizes.begin() + 2, sizes.end());
    rest.insert(rest.begin(), sizes[0]);
    composite.lists.push_back(rest);
    return true;
  }
  // PyjitPartSizesCrossEntropy
  bool probabilities = target.is_floating_point();
  bool smooth = !inputs[5].isDouble() || inputs[5].toDouble() != 0;
  if (!probabilities && !smooth)
    return true; // the loss of a class is looked up
  if (self.dim() < 2 || !specializeDim(self, 1))
    return false;
  // The mean is divided by the number of rows.
  Numbers rows = sizes;
  rows.erase(rows.begin() + 1);
  composite.numbers.push_back(product(rows));
  return true;
}

/// Attention that is written out: eager does so on the CPU where it drops out.
/// False: not known; another kernel pads rows, or its choice depends on sizes.
bool Composites::describeAttention(Composite &composite,
                                   const std::vector<c10::IValue> &inputs) {
  const at::Tensor &query = inputs[0].toTensor(), &key = inputs[1].toTensor();
  bool writtenOut =
      query.is_cpu() && inputs[4].isDouble() && inputs[4].toDouble() > 0;
  bool grouped = inputs.back().isBool() && inputs.back().toBool();
  // The scale is a number that follows from the length of a row.
  if (!writtenOut || grouped || query.dim() < 2 || !specializeDim(query, -1))
    return false;
  bool isPart = inputs.size() > 8; // of `scaled_dot_product_attention`
  if (isPart && inputs[5].isBool() && inputs[5].toBool()) // a mask of its own
    composite.lists.push_back(
        {sizeOf(query, query.dim() - 2), sizeOf(key, key.dim() - 2)});
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

/// What an operator refuses is for it to say.
static bool hasDim(const at::Tensor &t, int64_t dim) {
  return dim < t.dim() && dim >= -t.dim();
}

/// Operators that widen and join dimensions. False: not known.
bool Composites::describeJoin(Composite &composite,
                              const std::vector<c10::IValue> &inputs) {
  PyjitPartSizes rule = composite.facts.partSizes;
  if (rule == PyjitPartSizesBroadcastTensors) {
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
  if (rule == PyjitPartSizesMeshgrid) {
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
  if (rule == PyjitPartSizesOuter) {
    composite.lists.push_back({product(sizesOf(self)), {{}, 1, 0}});
    return self.dim() == 1;
  }
  if (rule == PyjitPartSizesRepeatInterleave) {
    composite.repeats = true;
    return inputs.size() < 4 || inputs[3].isNone();
  }
  if (rule == PyjitPartSizesDiff) {
    // Of the neighbours along one dimension.
    if (!inputs[1].isInt() || inputs[1].toInt() != 1 || !inputs[2].isInt() ||
        !inputs[3].isNone() || !inputs[4].isNone() || self.dim() == 0)
      return false;
    int64_t dim = inputs[2].toInt();
    dim = dim < 0 ? dim + self.dim() : dim;
    if (!hasDim(self, dim))
      return false;
    if (self.size(dim) < 2)
      return true;
    composite.numbers.push_back(sizeOf(self, dim));
    composite.numbers.push_back(sizeOf(self, dim));
    composite.numbers.back().plus = -1;
    return true;
  }
  if (rule == PyjitPartSizesInstanceNorm) {
    Numbers sizes = sizesOf(self), joined = sizes;
    if (self.dim() < 2)
      return false;
    joined[1] = product({sizes[0], sizes[1]});
    joined[0] = Computed();
    composite.lists = {joined, sizes, {sizes[0]}};
    return true;
  }
  if (rule != PyjitPartSizesTensordot || !inputs[2].isIntList() ||
      !inputs[3].isIntList())
    return false;
  const at::Tensor &other = inputs[1].toTensor();
  auto have = [](const at::Tensor &t, const std::vector<int64_t> &dims) {
    return std::all_of(dims.begin(), dims.end(),
                       [&](int64_t dim) { return hasDim(t, dim); });
  };
  if (!have(self, inputs[2].toIntVector()) ||
      !have(other, inputs[3].toIntVector()))
    return false;
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

/// So many parts, the last of which may be shorter: their length is rounded up.
/// How many there really are is for the rule of `split` to see.
bool Composites::describeChunk(Composite &composite,
                               const std::vector<c10::IValue> &inputs) {
  const at::Tensor &self = inputs[0].toTensor();
  int64_t chunks = inputs[1].toInt(), dim = inputs[2].toInt();
  dim = dim < 0 ? dim + self.dim() : dim;
  if (chunks < 1 || dim < 0 || dim >= self.dim())
    return false;
  if (self.size(dim) < 2)
    return true;
  Computed length = sizeOf(self, dim);
  length.plus = chunks - 1;
  length.by = chunks;
  composite.numbers.push_back(length);
  return true;
}

/// Fourier transforms. To a length that is given the operand is cut, or padded
/// with what is missing, which no list of sizes says.
bool Composites::describeTransform(const std::vector<c10::IValue> &inputs) {
  const at::Tensor &self = inputs[0].toTensor();
  if (inputs[1].isNone())
    return true;
  if (inputs[1].isInt())
    return inputs[2].isInt() && specializeDim(self, inputs[2].toInt());
  auto lengths = int64_t(inputs[1].toIntVector().size());
  std::vector<int64_t> dims;
  if (inputs[2].isIntList())
    dims = inputs[2].toIntVector();
  else // the last ones
    for (int64_t d = -lengths; d < 0; ++d)
      dims.push_back(d);
  return std::all_of(dims.begin(), dims.end(),
                     [&](int64_t dim) { return specializeDim(self, dim); });
}

/// What the parts will be given. False: that is not known.
bool Composites::describe(Composite &composite,
                          const std::vector<c10::IValue> &inputs) {
  if (composite.facts.resizes)
    describeResize(composite, inputs);
  switch (composite.facts.partSizes) {
  case PyjitPartSizesNone:
    return false;
  case PyjitPartSizesTransparent:
    return true;
  case PyjitPartSizesEinsum:
    // Of nothing it makes zeros.
    return std::none_of(composite.tensors.begin(), composite.tensors.end(),
                        [](const at::Tensor &t) { return t.numel() == 0; });
  case PyjitPartSizesTransform:
    return describeTransform(inputs);
  case PyjitPartSizesCross: // else of the first dimension that is three
    return inputs.size() > 2 && inputs[2].isInt();
  case PyjitPartSizesAttention:
    return describeAttention(composite, inputs);
  case PyjitPartSizesNllLoss:
    return describeLoss(composite, inputs);
  case PyjitPartSizesCrossEntropy:
    return inputs.size() > 5 && describeLoss(composite, inputs);
  case PyjitPartSizesChunk:
    return describeChunk(composite, inputs);
  default:
    return describeJoin(composite, inputs);
  }
}

//===----------------------------------------------------------------------===//
// Sizes that keep their values
//===----------------------------------------------------------------------===//

bool Composites::specializeDim(const at::Tensor &t, int64_t dim) {
  TensorInfo *info = s.tensors->impl->find(t);
  dim = dim < 0 ? dim + t.dim() : dim;
  if (!info || info->value < 0 || dim < 0 || dim >= t.dim())
    return false;
  s.sizes.relate("is", write(Computed{{{t, dim}}}), t.size(dim));
  return true;
}

void Composites::specialize(Composite &composite) {
  if (composite.specialized)
    return;
  composite.specialized = true;
  for (const at::Tensor &t : composite.tensors) {
    TensorInfo *info = t.defined() ? s.tensors->impl->find(t) : nullptr;
    if (info && info->value >= 0)
      s.add(PyjitLayoutOp{.tensor = info->value,
                          .question = view(composite.name)});
  }
}

/// Of whatever runs: what the outermost was given is where its sizes come from.
void Composites::specializeRunning() {
  if (std::none_of(running.begin(), running.end(),
                   [](const Composite &c) { return c.specialized; }))
    specialize(running.front());
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

void Composites::begin(const std::string &name, const PyjitOperatorFacts &facts,
                       const std::vector<c10::IValue> &inputs) {
  Composite composite;
  composite.name = name;
  composite.facts = facts;
  for (const c10::IValue &input : inputs)
    collect(input, composite.tensors);
  bool known = describe(composite, inputs);
  running.push_back(std::move(composite));
  if (!known)
    specialize(running.back());
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
                          const PyjitOperatorFacts &facts,
                          const std::vector<c10::IValue> &inputs) {
  if (!s.sizes.followed)
    return;
  begin(name, facts, inputs);
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
  if (value >= 0 && number.by != 1) {
    known /= number.by;
    PyjitValue divisor = s.sizes.writeInt(number.by);
    value = s.sizes.writeInts("floordiv", value, divisor, known);
  }
  return value;
}

PyjitAttribute Composites::write(const Numbers &list,
                                 TensorOpArguments &arguments) {
  std::vector<PyjitAttribute> sizes;
  for (const Computed &number : list) {
    int value = number.sizes.empty() ? -1 : write(number);
    sizes.push_back(value < 0 ? s.writer.integer(evaluate(number))
                              : arguments.computed(value, PyjitNumberSize));
  }
  return s.writer.list(sizes);
}

const Composites::Numbers *
Composites::findList(const std::vector<int64_t> &values, bool &several) const {
  const Numbers *match = nullptr;
  several = false;
  for (const Composite &composite : running)
    for (const Numbers &known : composite.lists)
      if (evaluate(known) == values) {
        several |= match != nullptr;
        match = &known;
      }
  return several ? nullptr : match;
}

/// A list of sizes that a part of a composite was given.
PyjitAttribute Composites::list(const std::string &name,
                                const std::vector<c10::IValue> &inputs,
                                TensorOpArguments &arguments) {
  std::vector<int64_t> values = inputs[1].toIntVector();
  if (running.back().facts.partSizes == PyjitPartSizesEinsum &&
      (name == operators::aten::reshape || name == operators::aten::view)) {
    if (auto match = regroup(name, inputs[0].toTensor(), values))
      return write(*match, arguments);
    specializeRunning();
    return nullptr;
  }
  bool several;
  if (const Numbers *match = findList(values, several))
    return write(*match, arguments);
  if (several) {
    specializeRunning();
    return nullptr;
  }
  std::vector<PyjitAttribute> sizes;
  const at::Tensor &self = inputs[0].toTensor();
  if (name == operators::aten::expand) {
    // What is not widened is as large as it is, whatever that is.
    int64_t ahead = int64_t(values.size()) - self.dim();
    for (int64_t i = 0; i < int64_t(values.size()); ++i) {
      bool own = i >= ahead && self.size(i - ahead) != 1;
      if (!own && values[i] > 1 && !running.back().repeats)
        specializeRunning();
      sizes.push_back(s.writer.integer(own ? -1 : values[i]));
    }
    return s.writer.list(sizes);
  }
  // With all sizes given, their product is compared.
  bool open = std::count(values.begin(), values.end(), -1) > 0;
  if (name != operators::aten::repeat && open &&
      std::any_of(values.begin(), values.end(),
                  [](int64_t value) { return value > 1; }))
    specializeRunning();
  return nullptr;
}

/// `copy_to` of ATen/TensorIndexing.h: without its leading ones, and widened to
/// what is assigned to.
PyjitAttribute Composites::assigned(const std::string &name,
                                    const std::vector<c10::IValue> &inputs,
                                    TensorOpArguments &arguments) {
  OperatorUse *use = s.scalars.use();
  if (!use || !use->target.defined())
    return nullptr;
  std::vector<int64_t> values = inputs[1].toIntVector();
  const at::Tensor &value = inputs[0].toTensor();
  Numbers sizes;
  if (name == operators::aten::view) {
    sizes = sizesOf(value);
    while (!sizes.empty() && evaluate(sizes.front()) == 1)
      sizes.erase(sizes.begin());
  } else if (name == operators::aten::expand) {
    sizes = sizesOf(use->target);
    auto ahead = int64_t(sizes.size()) - value.dim();
    for (int64_t d = std::max<int64_t>(0, -ahead); d < value.dim(); ++d)
      if (value.size(d) != 1)
        sizes[ahead + d] = sizeOf(value, d);
  }
  if (sizes.empty() || evaluate(sizes) != values)
    return nullptr;
  return write(sizes, arguments);
}

PyjitAttribute Composites::argument(const std::string &overload,
                                    const PyjitOperatorFacts &facts,
                                    const std::vector<c10::IValue> &inputs,
                                    size_t i, TensorOpArguments &arguments) {
  if (running.empty())
    return i == 1 && inputs[1].isIntList()
               ? assigned(overload, inputs, arguments)
               : nullptr;
  if (i == 1 && inputs[1].isIntList() &&
      (facts.takesSizesAsPart || facts.resizes))
    return list(overload, inputs, arguments);
  if (overload == operators::aten::ones && i == 0) {
    bool several;
    const Numbers *match = findList(inputs[0].toIntVector(), several);
    return match ? write(*match, arguments) : nullptr;
  }
  return inputs[i].isInt() ? number(overload, inputs, i, arguments) : nullptr;
}

PyjitAttribute Composites::number(const std::string &overload,
                                  const std::vector<c10::IValue> &inputs,
                                  size_t i, TensorOpArguments &arguments) {
  // `diff` says where its slices end, and where they begin is no size; `chunk`
  // how long its parts are.
  bool size = (overload == operators::aten::slice_Tensor && i == 3) ||
              (i == 1 && (overload == operators::aten::split_Tensor ||
                          overload == operators::aten::unsafe_split_Tensor));
  bool divisor = overload == operators::aten::div_Scalar && i == 1;
  if (!size && !divisor)
    return nullptr;
  bool computes = false;
  for (const Composite &composite : running)
    for (const Computed &number : composite.numbers) {
      computes = true;
      if (evaluate(number) == inputs[i].toInt() && !number.sizes.empty())
        if (int value = write(number); value >= 0)
          return arguments.computed(value,
                                    size ? PyjitNumberSize : PyjitNumberScalar);
    }
  if (computes)
    specializeRunning();
  return nullptr;
}
