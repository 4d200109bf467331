//===- Library.cpp - Library calls with packed weights and epilogues ------===//
//
// Weights that are parameters are folded and packed by operations of their
// own, which fusion-hoist-parameters moves out of the way. Which forms pay is
// in docs/decisions/library-calls.md.
//
//===----------------------------------------------------------------------===//

#include "Aten.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "pyjit/Fusion/Passes.h"
#include "pyjit/Operators/OperatorInfo.h"

using namespace mlir;

namespace pyjit::fusion {
#define GEN_PASS_DEF_FUSIONPLANLIBRARY
#include "lib/Fusion/Passes.h.inc"

namespace {

RankedTensorType typeOf(Value value) {
  return cast<RankedTensorType>(value.getType());
}

/// What oneDNN calls a pointwise operator that it can append, or "".
struct Epilogue {
  StringRef name;
  SmallVector<double, 2> scalars;
  StringRef algorithm;
};

std::optional<Epilogue> epilogueOf(tssa::AtenOp op) {
  StringRef name = op.getOverload();
  Arguments args(op);
  if (name == "aten::relu")
    return Epilogue{"relu", {}, ""};
  if (name == "aten::sigmoid")
    return Epilogue{"sigmoid", {}, ""};
  if (name == "aten::tanh")
    return Epilogue{"tanh", {}, ""};
  if (name == "aten::hardswish")
    return Epilogue{"hardswish", {}, ""};
  if (name == "aten::silu")
    return Epilogue{"swish", {}, ""};
  if (name == "aten::hardsigmoid")
    return Epilogue{"hardsigmoid", {}, ""};
  if (name == "aten::relu6")
    return Epilogue{"hardtanh", {0.0, 6.0}, ""};
  if (name == "aten::hardtanh" && args.size() == 3)
    if (auto low = args.number(1), high = args.number(2); low && high)
      return Epilogue{"hardtanh", {*low, *high}, ""};
  return {};
}

/// The only user of a value, if it is a library operator in the same block.
tssa::AtenOp onlyUser(Value value) {
  if (!value.hasOneUse())
    return {};
  auto user = dyn_cast<tssa::AtenOp>(*value.user_begin());
  return user && user->getBlock() == value.getParentBlock() ? user
                                                            : tssa::AtenOp();
}

RankedTensorType channelsLast(RankedTensorType type) {
  ArrayRef<int64_t> s = type.getShape();
  SmallVector<int64_t> strides = {s[1] * s[2] * s[3], 1, s[3] * s[1], s[1]};
  return tssa::getTensorType(s, strides, type.getElementType());
}

class LibraryPlanner {
public:
  explicit LibraryPlanner(func::FuncOp function) : function(function) {}

  void run() {
    SmallVector<tssa::AtenOp> calls;
    function.walk([&](tssa::AtenOp op) { calls.push_back(op); });
    for (tssa::AtenOp &op : calls) {
      if (erased.contains(op))
        continue;
      StringRef name = op.getOverload();
      if (name == "aten::conv2d")
        convolution(op);
      else if (name == "aten::linear")
        linear(op);
      else if (name == "aten::addmm")
        addmm(op);
    }
    sinkCopies();
  }

private:
  void replace(tssa::AtenOp op, Value value) {
    op.getResult(0).replaceAllUsesWith(value);
    erased.insert(op);
    op.erase();
  }
  bool isParameter(Value value) { return value && parameters.contains(value); }

  /// linear with a packed weight; bit-equal to the unpacked call.
  Value packedLinear(OpBuilder &b, Location loc, Value x, Value weight,
                     Value bias, RankedTensorType type) {
    AtenBuilder call(b, loc);
    auto input = typeOf(x), matrix = typeOf(weight);
    int64_t rows = input.getNumElements() / matrix.getDimSize(1);
    Value packed =
        call.call("mkl::_mkl_reorder_linear_weight", weight,
                  {call.tensor(), call.integer(rows)}, weight.getType());
    packed.getDefiningOp()->setAttr("pyjit.opaque", b.getUnitAttr());
    SmallVector<Value> operands = {x, packed, weight};
    SmallVector<Attribute> args = {call.tensor(), call.tensor(), call.tensor(),
                                   bias ? call.tensor() : call.none(),
                                   call.integer(rows)};
    if (bias)
      operands.push_back(bias);
    return call.call("mkl::_mkl_linear", operands, args, type);
  }

  static bool paysPacking(Value x, Value weight) {
    auto input = typeOf(x), matrix = typeOf(weight);
    if (!input.getElementType().isF32() || !matrix.getElementType().isF32() ||
        !input.hasStaticShape() || input.getRank() < 2 ||
        matrix.getRank() != 2 || input.getNumElements() == 0 ||
        matrix.getNumElements() == 0)
      return false;
    // A single row is a matrix-vector product, which packing does not help.
    return input.getNumElements() / input.getShape().back() > 1;
  }

  void linear(tssa::AtenOp op) {
    Arguments args(op);
    Value x = args.tensor(0), weight = args.tensor(1), bias = args.tensor(2);
    if (!isParameter(weight) || (bias && !isParameter(bias)) ||
        isParameter(x) || !paysPacking(x, weight))
      return;
    OpBuilder b(op);
    replace(op, packedLinear(b, op.getLoc(), x, weight, bias,
                             typeOf(op.getResult(0))));
  }

  void addmm(tssa::AtenOp op) {
    Arguments args(op);
    Value bias = args.tensor(0), x = args.tensor(1), matrix = args.tensor(2);
    if (!isParameter(bias) || !isParameter(matrix) || isParameter(x) ||
        args.number(3) != 1.0 || args.number(4) != 1.0 ||
        typeOf(bias).getRank() != 1 || !paysPacking(x, matrix) ||
        typeOf(bias).getDimSize(0) != typeOf(matrix).getDimSize(1))
      return;
    OpBuilder b(op);
    AtenBuilder call(b, op.getLoc());
    Value transposed = call.view(matrix, tssa::ViewKind::permute, {1, 0});
    auto type = typeOf(transposed);
    auto dense = RankedTensorType::get(type.getShape(), type.getElementType());
    // 0 is torch.contiguous_format.
    Value weight = call.call("aten::clone", transposed,
                             {call.tensor(), call.integer(0)}, dense);
    replace(op, packedLinear(b, op.getLoc(), x, weight, bias,
                             typeOf(op.getResult(0))));
  }

  /// `value`, of shape [C], along dimension 0 of a tensor with `rank` dims.
  Value column(AtenBuilder &call, Value value, unsigned rank) {
    SmallVector<int64_t> shape(rank, 1);
    shape[0] = typeOf(value).getDimSize(0);
    return call.view(value, tssa::ViewKind::view, shape);
  }

  /// Folds an inference batch norm into weight and bias; false if it is none.
  bool fold(tssa::AtenOp norm, Value &weight, Value &bias) {
    Arguments args(norm);
    Value gamma = args.tensor(1), beta = args.tensor(2);
    Value mean = args.tensor(3), variance = args.tensor(4);
    auto epsilon = args.number(7);
    if (args.isTrue(5) || !epsilon || !isParameter(mean) ||
        !isParameter(variance) || (gamma && !isParameter(gamma)) ||
        (beta && !isParameter(beta)))
      return false;
    for (Value value : {gamma, beta, mean, variance})
      if (value && !typeOf(value).getElementType().isF32())
        return false;
    OpBuilder b(norm);
    AtenBuilder call(b, norm.getLoc());
    Type vector =
        RankedTensorType::get(typeOf(mean).getShape(), b.getF32Type());
    auto binary = [&](StringRef name, Value x, Value y, Type type) {
      SmallVector<Attribute> list = {call.tensor(), call.tensor()};
      if (name != "aten::mul.Tensor")
        list.push_back(call.integer(1));
      return call.call(name, {x, y}, list, type);
    };
    Value scale = call.call(
        "aten::add.Scalar", variance,
        {call.tensor(), call.number(*epsilon), call.integer(1)}, vector);
    scale = call.call("aten::rsqrt", scale, {call.tensor()}, vector);
    if (gamma)
      scale = binary("aten::mul.Tensor", scale, gamma, vector);
    auto type = typeOf(weight);
    auto dense = RankedTensorType::get(type.getShape(), type.getElementType());
    weight = binary("aten::mul.Tensor", weight,
                    column(call, scale, type.getRank()), dense);
    // (bias - mean) * scale + beta
    Value shift = mean;
    if (bias)
      shift = binary("aten::sub.Tensor", bias, mean, vector);
    else
      shift = call.call("aten::neg", mean, {call.tensor()}, vector);
    shift = binary("aten::mul.Tensor", shift, scale, vector);
    if (beta)
      shift = binary("aten::add.Tensor", shift, beta, vector);
    bias = shift;
    return true;
  }

  void convolution(tssa::AtenOp op) {
    Arguments args(op);
    Value x = args.tensor(0), weight = args.tensor(1), bias = args.tensor(2);
    auto stride = args.integers(3, 2), padding = args.integers(4, 2),
         dilation = args.integers(5, 2);
    auto groups = args.integer(6);
    if (!stride || !padding || !dilation || !groups || !isParameter(weight) ||
        (bias && !isParameter(bias)) || isParameter(x))
      return;
    auto input = typeOf(x), result = typeOf(op.getResult(0));
    if (input.getRank() != 4 || !input.hasStaticShape() ||
        !input.getElementType().isF32() ||
        !typeOf(weight).getElementType().isF32() ||
        result.getNumElements() == 0)
      return;
    tssa::AtenOp last = op;
    SmallVector<tssa::AtenOp> chain = {op};
    auto append = [&](tssa::AtenOp next) {
      last = next;
      chain.push_back(next);
    };
    if (tssa::AtenOp norm = onlyUser(op.getResult(0));
        norm && norm.getOverload() == "aten::batch_norm" &&
        Arguments(norm).tensor(0) == op.getResult(0) &&
        fold(norm, weight, bias))
      append(norm);
    // conv (+ other) (+ pointwise)
    Value other;
    if (tssa::AtenOp sum = onlyUser(last.getResult(0));
        sum && sum.getOverload() == "aten::add.Tensor") {
      Arguments terms(sum);
      Value a = terms.tensor(0), c = terms.tensor(1);
      if (a && c && terms.number(2) == 1.0 && a != c &&
          typeOf(a).getShape() == typeOf(c).getShape() &&
          typeOf(a).getElementType() == typeOf(c).getElementType() &&
          typeOf(sum.getResult(0)).getShape() == result.getShape()) {
        other = a == last.getResult(0) ? c : a;
        append(sum);
      }
    }
    std::optional<Epilogue> epilogue;
    if (tssa::AtenOp user = onlyUser(last.getResult(0)))
      if ((epilogue = epilogueOf(user))) {
        // Beside a sum, oneDNN appends relu only.
        if (other && epilogue->name != "relu")
          epilogue.reset();
        else
          append(user);
      }
    OpBuilder b(last);
    AtenBuilder call(b, op.getLoc());
    Value packed =
        call.call("mkldnn::_reorder_convolution_weight", weight,
                  {call.tensor(), call.list(*padding), call.list(*stride),
                   call.list(*dilation), call.integer(*groups),
                   call.list(input.getShape())},
                  weight.getType());
    packed.getDefiningOp()->setAttr("pyjit.opaque", b.getUnitAttr());
    SmallVector<Value> operands = {x};
    SmallVector<Attribute> list = {call.tensor()};
    if (other) {
      operands.push_back(other);
      list.push_back(call.tensor());
    }
    operands.push_back(packed);
    list.push_back(call.tensor());
    if (bias)
      operands.push_back(bias);
    list.push_back(bias ? call.tensor() : call.none());
    for (auto *values : {&*padding, &*stride, &*dilation})
      list.push_back(call.list(*values));
    list.push_back(call.integer(*groups));
    SmallVector<Attribute> scalars;
    if (epilogue)
      for (double value : epilogue->scalars)
        scalars.push_back(call.number(value));
    Attribute scalarList = b.getArrayAttr(scalars);
    StringRef overload = "mkldnn::_convolution_pointwise";
    if (other) {
      overload = "mkldnn::_convolution_pointwise.binary";
      list.append({call.string("add"), call.integer(1),
                   epilogue ? call.string(epilogue->name) : call.none(),
                   scalarList,
                   epilogue ? call.string(epilogue->algorithm) : call.none()});
    } else {
      list.append({call.string(epilogue ? epilogue->name : "none"), scalarList,
                   call.string(epilogue ? epilogue->algorithm : "")});
    }
    // With a packed weight oneDNN answers in its own layout.
    auto type = typeOf(last.getResult(0));
    Value value = call.call(overload, operands, list, channelsLast(type));
    if (value.getType() != type) {
      copies.push_back(
          cast<tssa::AtenOp>(call.call("aten::clone", value,
                                       {call.tensor(), call.integer(0)}, type)
                                 .getDefiningOp()));
      value = copies.back().getResult(0);
    }
    for (tssa::AtenOp part : llvm::reverse(chain)) {
      if (part == last)
        part.getResult(0).replaceAllUsesWith(value);
      erased.insert(part);
      part.erase();
    }
  }

  /// Values in oneDNN's layout stay in it as long as that costs nothing: a copy
  /// back to eager's layout moves behind operators that take either.
  void sinkCopies() {
    SmallVector<tssa::AtenOp> work(copies);
    while (!work.empty()) {
      tssa::AtenOp copy = work.pop_back_val();
      Value inner = copy.getInputs()[0];
      for (OpOperand &use :
           llvm::make_early_inc_range(copy.getResult(0).getUses())) {
        auto user = dyn_cast<tssa::AtenOp>(use.getOwner());
        if (!user || user.getMutates() || user.getNumResults() != 1)
          continue;
        Takes takes = howItTakes(user, use.getOperandNumber());
        if (takes == Takes::EagerLayout)
          continue;
        use.set(inner);
        auto type = typeOf(user.getResult(0));
        if (takes == Takes::AnyLayout || type == channelsLast(type))
          continue;
        user.getResult(0).setType(channelsLast(type));
        OpBuilder b(user);
        b.setInsertionPointAfter(user);
        AtenBuilder call(b, user.getLoc());
        Value back = call.call("aten::clone", user.getResult(0),
                               {call.tensor(), call.integer(0)}, type);
        user.getResult(0).replaceAllUsesExcept(back, back.getDefiningOp());
        work.push_back(cast<tssa::AtenOp>(back.getDefiningOp()));
      }
      if (copy.use_empty())
        copy.erase();
    }
  }

  enum class Takes { EagerLayout, AnyLayout, AndGivesSame };
  Takes howItTakes(tssa::AtenOp op, unsigned operand) {
    StringRef name = op.getOverload();
    if (name.starts_with("mkldnn::_convolution_pointwise"))
      return Takes::AnyLayout;
    auto type = typeOf(op.getResult(0));
    auto given = typeOf(op.getInputs()[operand]);
    if (type.getRank() != 4)
      return Takes::EagerLayout;
    if (name == "aten::max_pool2d" || name == "aten::avg_pool2d" ||
        name == "aten::adaptive_avg_pool2d")
      return Takes::AndGivesSame;
    const operators::OperatorInfo *info = operators::lookupOperator(name);
    if (!info || info->lowering != operators::Lowering::Recipe)
      return Takes::EagerLayout;
    return given.getShape() == type.getShape() ? Takes::AndGivesSame
                                               : Takes::AnyLayout;
  }

  func::FuncOp function;
  ParameterValues parameters;
  llvm::SmallPtrSet<Operation *, 32> erased;
  SmallVector<tssa::AtenOp> copies;
};

struct PlanLibraryPass : impl::FusionPlanLibraryBase<PlanLibraryPass> {
  void runOnOperation() override {
    if (!getOperation()->hasAttr("pyjit.kernel") &&
        !getOperation().isExternal())
      LibraryPlanner(getOperation()).run();
  }
};

} // namespace
} // namespace pyjit::fusion
