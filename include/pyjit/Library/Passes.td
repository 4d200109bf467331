//===- Passes.td - Planning vendor calls ------------------*- tablegen -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef PYJIT_LIBRARY_PASSES_TD
#define PYJIT_LIBRARY_PASSES_TD

include "mlir/Pass/PassBase.td"

def PlanConvolutionsPass
    : Pass<"library-plan-convolutions", "::mlir::func::FuncOp"> {
  let summary = "Convolution, batch norm, addition and activation as one call";
  let description = [{
    A float32 `aten::conv2d` whose weight is a parameter becomes
    `mkldnn::_convolution_pointwise` on a packed weight. A batch norm in inference
    mode that alone uses the convolution is folded into weight and bias, an
    addition of another tensor becomes the `.binary` form, an activation the
    call's epilogue. The library writes such results channels-last: the layout is
    handed on through operators that keep it, and a copy restores the recorded
    one where the others begin.

    With `columns`, a convolution of single points, stride one and one group is a
    matmul of our own instead (see `library-plan-matmuls`), and its epilogue is
    fused like what follows any kernel.

    What is computed from parameters alone is left to
    `library-hoist-parameters`. Folding changes how results round.

    ```mlir
    func.func @f(%x: tensor<1x3x8x8xf32>, %w: tensor<4x3x3x3xf32> {pyjit.param}) -> tensor<1x4x6x6xf32> {
      %0 = tssa.aten "aten::conv2d"(%x, %w, none, [1 : i64, 1 : i64], [0 : i64, 0 : i64], [1 : i64, 1 : i64], 1 : i64) : (tensor<1x3x8x8xf32>, tensor<4x3x3x3xf32>) -> tensor<1x4x6x6xf32>
      %1 = tssa.aten "aten::relu"(%0) : (tensor<1x4x6x6xf32>) -> tensor<1x4x6x6xf32>
      return %1 : tensor<1x4x6x6xf32>
    }
    ```
    gives
    ```mlir
    %0 = tssa.aten "mkldnn::_reorder_convolution_weight"(%w, ...)
    %1 = tssa.aten "mkldnn::_convolution_pointwise"(%x, %0, none, ..., "relu", [], "")
    %2 = tssa.aten "aten::clone"(%1, 0 : i64)
    ```
  }];
  let options = [
    Option<"columns", "columns", "unsigned", "0",
           "Columns of a panel of our own matmuls; 0: the vendor library's alone">
  ];
  let dependentDialects = ["::pyjit::tssa::TSSADialect",
                           "::mlir::arith::ArithDialect",
                           "::mlir::linalg::LinalgDialect",
                           "::mlir::tensor::TensorDialect"];
}

def MergeLinearsPass : Pass<"library-merge-linears", "::mlir::func::FuncOp"> {
  let summary = "Matmuls of one input with several parameters as one matmul";
  let description = [{
    `aten::linear` calls of one input (query, key and value of attention, gate and
    up of a gated layer) become one call on the joined weights, of which each
    result is a slice. Only where every reader can read the slice as it lies, and
    for at most `max-rows` rows: many rows fill a GPU by themselves. Joined weights
    lie beside the originals, so that they are at most `max-bytes` large: a matmul
    that reads more takes longer than the launch that joining saves. Of several
    that are larger together, the smallest are joined as far as that goes, for at
    most 16 rows (keys and values of heads that share them). Joining is left to
    `library-hoist-parameters`.

    A matmul of one row will be a kernel of ours, which can read a join where its
    parts lie (`pyjit.read_through`): larger weights are joined so, but for those
    whose results meet in an elementwise operator, which are one kernel anyway.

    ```mlir
    func.func @f(%x: tensor<4x8xf32>, %v: tensor<2x8xf32> {pyjit.param}, %w: tensor<3x8xf32> {pyjit.param}) -> (tensor<4x2xf32>, tensor<4x3xf32>) {
      %0 = tssa.aten "aten::linear"(%x, %v, none) : (tensor<4x8xf32>, tensor<2x8xf32>) -> tensor<4x2xf32>
      %1 = tssa.aten "aten::linear"(%x, %w, none) : (tensor<4x8xf32>, tensor<3x8xf32>) -> tensor<4x3xf32>
      %2 = tssa.aten "aten::exp"(%0) : (tensor<4x2xf32>) -> tensor<4x2xf32>
      %3 = tssa.aten "aten::exp"(%1) : (tensor<4x3xf32>) -> tensor<4x3xf32>
      return %2, %3 : tensor<4x2xf32>, tensor<4x3xf32>
    }
    ```
    gives
    ```mlir
    %0 = tssa.aten "aten::cat"([%v, %w], 0 : i64)
    %1 = tssa.aten "aten::linear"(%x, %0, none)
    %2 = tssa.access %1 [#tssa.view<slice [1, 0, 2, 1]>]
    %3 = tssa.access %1 [#tssa.view<slice [1, 2, 3, 1]>]
    ```
  }];
  let dependentDialects = ["::pyjit::tssa::TSSADialect"];
  let options = [
    Option<"maxRows", "max-rows", "int64_t", "2048",
           "Most rows of an input whose matmuls are merged">,
    Option<"maxBytes", "max-bytes", "int64_t", "8388608",
           "Most bytes of weights that are joined into one">,
    Option<"readsThrough", "reads-through", "bool", "true",
           "Whether larger weights of a matmul of one row are read where they lie">
  ];
}

def BatchLinearsPass : Pass<"library-batch-linears", "::mlir::func::FuncOp"> {
  let summary = "Matmuls of several inputs with one parameter as one matmul";
  let description = [{
    `aten::linear` calls with the same weight and bias (the steps of a recurrent
    cell, the projections of single tokens), and `aten::mm` calls with the same
    right factor (their gradients), become one call on the joined rows, of
    which each result is a slice, where none of the inputs needs another one's
    result. The block is sorted again: what needs a result stands behind the joined
    call. Only for inputs of at most `max-rows` rows: few rows leave a GPU idle.

    ```mlir
    func.func @f(%x: tensor<1x8xf32>, %y: tensor<1x8xf32>, %w: tensor<4x8xf32> {pyjit.param}) -> (tensor<1x4xf32>, tensor<1x4xf32>) {
      %0 = tssa.aten "aten::linear"(%x, %w, none) : (tensor<1x8xf32>, tensor<4x8xf32>) -> tensor<1x4xf32>
      %1 = tssa.aten "aten::linear"(%y, %w, none) : (tensor<1x8xf32>, tensor<4x8xf32>) -> tensor<1x4xf32>
      return %0, %1 : tensor<1x4xf32>, tensor<1x4xf32>
    }
    ```
    gives
    ```mlir
    %0 = tssa.aten "aten::cat"([%x, %y], 0 : i64)
    %1 = tssa.aten "aten::linear"(%0, %w, none)
    %2 = tssa.access %1 [#tssa.view<slice [0, 0, 1, 1]>]
    %3 = tssa.access %1 [#tssa.view<slice [0, 1, 1, 1]>]
    ```
  }];
  let dependentDialects = ["::pyjit::tssa::TSSADialect"];
  let options = [
    Option<"maxRows", "max-rows", "int64_t", "64",
           "Most rows of an input whose matmuls are joined">
  ];
  let statistics = [
    Statistic<"numBatched", "batched", "Matmuls that took several matmuls' place">
  ];
}

def SumMatmulsPass : Pass<"library-sum-matmuls", "::mlir::func::FuncOp"> {
  let summary = "Sums of matmuls as one matmul";
  let description = [{
    A sum of `aten::mm` (the gradient of a weight that each step of a recurrent
    network, or several parts of a batch, used) is one matmul of the factors side by
    side: of the left ones along columns, of the right ones along rows. Factors that
    are transposes are joined as they lie in memory. Sums over the rows of matrices
    that were joined (the gradient of the bias) are one sum then.

    Joining writes the factors once more and saves each result's way to memory and a
    launch (on a CPU, where launches are free, a loop over the steps is faster): only where a matmul's factors are not larger than its result, or have at
    most `few-bytes`, and all together at most `max-bytes`, as they live until the
    last one is there.

    ```mlir
    func.func @f(%a: tensor<8x2xf32>, %b: tensor<2x4xf32>, %c: tensor<8x3xf32>, %d: tensor<3x4xf32>) -> tensor<8x4xf32> {
      %0 = tssa.aten "aten::mm"(%a, %b) : (tensor<8x2xf32>, tensor<2x4xf32>) -> tensor<8x4xf32>
      %1 = tssa.aten "aten::mm"(%c, %d) : (tensor<8x3xf32>, tensor<3x4xf32>) -> tensor<8x4xf32>
      %2 = tssa.aten "aten::add.Tensor"(%0, %1, 1 : i64) : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
      return %2 : tensor<8x4xf32>
    }
    ```
    gives
    ```mlir
    %0 = tssa.aten "aten::cat"([%a, %c], 1 : i64)
    %1 = tssa.aten "aten::cat"([%b, %d], 0 : i64)
    %2 = tssa.aten "aten::mm"(%0, %1)
    ```
  }];
  let dependentDialects = ["::pyjit::tssa::TSSADialect"];
  let options = [
    Option<"fewBytes", "few-bytes", "int64_t", "1048576",
           "Bytes of a matmul's factors that are joined in any case">,
    Option<"maxBytes", "max-bytes", "int64_t", "67108864",
           "Most bytes of factors that are joined for one sum">
  ];
  let statistics = [
    Statistic<"numJoined", "sums", "Sums that are one matmul">
  ];
}

def PlanEpiloguesPass : Pass<"library-plan-epilogues", "::mlir::func::FuncOp"> {
  let summary = "A matmul's bias and activation in one call of cuBLAS";
  let description = [{
    A half-precision `aten::linear` or `aten::addmm` with a bias, whose result only a
    `relu` or a GELU in its tanh form uses, becomes `aten::_addmm_activation`. GELU is
    also found where it is written out with `pow` and `tanh`. The library has no
    epilogue for GELU in its exact form.

    ```mlir
    func.func @f(%x: tensor<4x8xf16>, %w: tensor<8x8xf16>, %b: tensor<8xf16>) -> tensor<4x8xf16> {
      %0 = tssa.aten "aten::addmm"(%b, %x, %w, 1 : i64, 1 : i64) : (tensor<8xf16>, tensor<4x8xf16>, tensor<8x8xf16>) -> tensor<4x8xf16>
      %1 = tssa.aten "aten::gelu"(%0, "tanh") : (tensor<4x8xf16>) -> tensor<4x8xf16>
      return %1 : tensor<4x8xf16>
    }
    ```
    gives
    ```mlir
    %0 = tssa.aten "aten::_addmm_activation"(%b, %x, %w, 1 : i64, 1 : i64, true)
    ```
  }];
  let dependentDialects = ["::pyjit::tssa::TSSADialect"];
  let statistics = [
    Statistic<"numPlanned", "epilogues", "Activations that a matmul does">
  ];
}

def PlanAttentionRowsPass
    : Pass<"library-plan-attention-rows", "::mlir::func::FuncOp"> {
  let summary = "Attention of few queries to keys whose number differs between calls";
  let description = [{
    `scaled_dot_product_attention` of at most `max-queries` queries, to keys
    whose number is a symbol, becomes products, sums and a softmax in f32:
    kernels read the number when they run, and one captured graph can hold them
    for all numbers. Heads that share keys (`enable_gqa`) read them where they
    are. A mask is the same for all heads, or another one for each that has keys of
    its own.

    ```mlir
    func.func @f(%q: tensor<1x2x1x8xf32>, %k: tensor<1x2x?x8xf32, #tssa.layout<[1, 2, s0, 8], [s0 * 16, s0 * 8, 8, 1]>>) -> tensor<1x2x1x8xf32> {
      %0 = tssa.aten "aten::scaled_dot_product_attention"(%q, %k, %k, none, 0.000000e+00 : f64, false, none, false) : (tensor<1x2x1x8xf32>, tensor<1x2x?x8xf32, #tssa.layout<[1, 2, s0, 8], [s0 * 16, s0 * 8, 8, 1]>>, tensor<1x2x?x8xf32, #tssa.layout<[1, 2, s0, 8], [s0 * 16, s0 * 8, 8, 1]>>) -> tensor<1x2x1x8xf32>
      return %0 : tensor<1x2x1x8xf32>
    }
    ```
    gives
    ```mlir
    %0 = tssa.aten "aten::mul.Tensor"(...)
    %1 = tssa.aten "aten::sum.dim_IntList"(%0, [-1 : i64], false, none)
    %2 = tssa.aten "aten::mul.Tensor"(%1, wrapped(...))
    %3 = tssa.aten "aten::softmax.int"(%2, -1 : i64, none)
    %4 = tssa.aten "aten::mul.Tensor"(...)
    %5 = tssa.aten "aten::sum.dim_IntList"(%4, [4 : i64], false, none)
    ```
  }];
  let options = [
    Option<"maxQueries", "max-queries", "int64_t", "4",
           "Attention of more queries is left to the vendor library">
  ];
  let dependentDialects = ["::pyjit::tssa::TSSADialect"];
  let statistics = [
    Statistic<"numExpanded", "expanded", "Calls that became kernels">
  ];
}

def PlanLossesPass : Pass<"library-plan-losses", "::mlir::func::FuncOp"> {
  let summary = "Losses of chosen classes without the classes' logarithms";
  let description = [{
    `aten::nll_loss_forward` without weights, of a float32 `log_softmax` over the
    second dimension, needs each row's largest value, the
    logarithm of its sum, and the one value that the target chooses; the row's
    logarithms are never written. Rounds as log_softmax does. Where a gradient
    reads them, they follow from the row's numbers. The gradient itself,
    `aten::nll_loss_backward` without weights, is a choice between a number and
    zero for each class, which fuses with what reads it.

    ```mlir
    func.func @f(%x: tensor<6x9xf32>, %t: tensor<6xi64>) -> tensor<f32> {
      %0 = tssa.aten "aten::log_softmax.int"(%x, 1 : i64, none) : (tensor<6x9xf32>) -> tensor<6x9xf32>
      %1:2 = tssa.aten "aten::nll_loss_forward"(%0, %t, none, 2 : i64, -100 : i64) : (tensor<6x9xf32>, tensor<6xi64>) -> (tensor<f32>, tensor<f32>)
      return %1#0 : tensor<f32>
    }
    ```
    gives
    ```mlir
    %0 = tssa.aten "aten::amax"(%x, [1 : i64], true)
    ...
    %1 = tssa.aten "aten::gather"(%x, 1 : i64, ...)
    ```
  }];
  let dependentDialects = ["::pyjit::tssa::TSSADialect",
                           "::mlir::arith::ArithDialect",
                           "::mlir::linalg::LinalgDialect",
                           "::mlir::tensor::TensorDialect"];
  let statistics = [
    Statistic<"numPlanned", "losses", "Losses that became kernels">
  ];
}

def PadMatmulsPass : Pass<"library-pad-matmuls", "::mlir::func::FuncOp"> {
  let summary = "Large matmuls of sizes that are no multiples of eight";
  let description = [{
    cuBLAS has kernels for rows of half precision that are aligned to 16 bytes,
    and others that take three times as long: those of the head of a language
    model with 50,257 classes, and of its gradients. Large `aten::linear` and
    `aten::mm` get operands with zeros behind their last elements; the result is
    the part of a larger one that holds it, which kernels read where it is. A
    parameter that lasts is left alone.

    ```mlir
    func.func @f(%x: tensor<1024x2048xbf16>, %w: tensor<1021x2048xbf16>) -> tensor<1024x1021xf32> {
      %0 = tssa.aten "aten::linear"(%x, %w, none) : (tensor<1024x2048xbf16>, tensor<1021x2048xbf16>) -> tensor<1024x1021xbf16>
      %1 = tssa.aten "aten::to.dtype"(%0, 6 : i64, false, false, none) : (tensor<1024x1021xbf16>) -> tensor<1024x1021xf32>
      return %1 : tensor<1024x1021xf32>
    }
    ```
    gives
    ```mlir
    %0 = linalg.fill ins(%zero : bf16) outs(%empty : tensor<1024x2048xbf16>)
    %1 = tssa.assign %0, %w [#tssa.view<slice [0, 0, 1021, 1]>]
    %2 = tssa.aten "aten::linear"(%x, %1, none) : ... -> tensor<1024x1024xbf16>
    %3 = tssa.access %2 [#tssa.view<slice [1, 0, 1021, 1]>]
    ```
  }];
  let dependentDialects = ["::pyjit::tssa::TSSADialect",
                           "::mlir::arith::ArithDialect",
                           "::mlir::linalg::LinalgDialect",
                           "::mlir::tensor::TensorDialect"];
  let statistics = [
    Statistic<"numPadded", "padded", "Matmuls with padded operands">
  ];
}

def PlanBatchNormsPass : Pass<"library-plan-batch-norms", "::mlir::func::FuncOp"> {
  let summary = "Batch norms of training as kernels";
  let description = [{
    `aten::_native_batch_norm_legit_functional`, its forms without running
    statistics, and `aten::native_batch_norm_backward`, of images of known size
    whose channels lie beside each other become sums over each channel and
    elementwise operators, which fuse with what is around them. Computed in
    float32: the mean first, then the squares of the distances from it. Other
    layouts stay calls.

    With `host`, images in float32 of any layout are taken, whose elements of a
    channel are summed up first, then these sums, and the mean is corrected by
    the mean of the distances from it. Half precision stays a call.

    ```mlir
    func.func @f(%x: tensor<64x32xf32>, %w: tensor<32xf32>, %b: tensor<32xf32>) -> tensor<64x32xf32> {
      %0:3 = tssa.aten "aten::_native_batch_norm_legit.no_stats"(%x, %w, %b, true, 1.000000e-01 : f64, 1.000000e-05 : f64) : (tensor<64x32xf32>, tensor<32xf32>, tensor<32xf32>) -> (tensor<64x32xf32>, tensor<32xf32>, tensor<32xf32>)
      return %0#0 : tensor<64x32xf32>
    }
    ```
    gives
    ```mlir
    %0 = tssa.aten "aten::sum.dim_IntList"(%x, [0 : i64], false, none)
    %1 = tssa.aten "aten::mul.Scalar"(%0, 1.562500e-02 : f64)
    ...
    ```
  }];
  let dependentDialects = ["::pyjit::tssa::TSSADialect"];
  let statistics = [
    Statistic<"numPlanned", "batch-norms", "Batch norms that became kernels">
  ];
  let options = [
    Option<"host", "host", "bool", "false", "Plan for a CPU">
  ];
}

def PlanImagesPass : Pass<"library-plan-images", "::mlir::func::FuncOp"> {
  let summary = "Half-precision convolutions of a GPU, channels last";
  let description = [{
    A half-precision `aten::conv2d` of one group whose weight is a parameter reads and
    writes channels last. A batch norm in inference mode that alone uses it is folded
    into weight and bias (in float32, then rounded); `relu`, and an addition before
    it, are done by cuDNN's fused calls; a convolution of single points becomes a
    matmul of rows of channels. The layout is handed on through operators that keep
    it; copies stand where it begins and ends. A function with grouped convolutions
    is left as it is. What is computed from parameters alone is left to
    `library-hoist-parameters`.

    ```mlir
    func.func @f(%x: tensor<1x8x6x6xf16>, %w: tensor<4x8x3x3xf16> {pyjit.param}, %b: tensor<4xf16> {pyjit.param}) -> tensor<1x4x4x4xf16> {
      %0 = tssa.aten "aten::conv2d"(%x, %w, %b, [1 : i64, 1 : i64], [0 : i64, 0 : i64], [1 : i64, 1 : i64], 1 : i64) : (tensor<1x8x6x6xf16>, tensor<4x8x3x3xf16>, tensor<4xf16>) -> tensor<1x4x4x4xf16>
      %1 = tssa.aten "aten::relu"(%0) : (tensor<1x4x4x4xf16>) -> tensor<1x4x4x4xf16>
      return %1 : tensor<1x4x4x4xf16>
    }
    ```
    gives
    ```mlir
    %0 = tssa.aten "aten::clone"(%x, 2 : i64)
    %1 = tssa.aten "aten::clone"(%w, 2 : i64)
    %2 = tssa.aten "aten::cudnn_convolution_relu"(%0, %1, %b, ...)
    %3 = tssa.aten "aten::clone"(%2, 0 : i64)
    ```
  }];
  let dependentDialects = ["::pyjit::tssa::TSSADialect"];
  let statistics = [
    Statistic<"numPlanned", "images", "Convolutions that were planned">
  ];
}

def PlanLinearPass : Pass<"library-plan-linear", "::mlir::func::FuncOp"> {
  let summary = "Matmuls with parameters on packed weights";
  let description = [{
    A float32 `aten::linear` of at least 16 rows whose weight is a parameter
    becomes `mkl::_mkl_linear` on a weight that is packed once; fewer rows gain
    nothing from it. `aten::addmm` of a bias, rows and a parameter likewise, on
    the transposed weight.

    ```mlir
    func.func @f(%x: tensor<32x8xf32>, %w: tensor<4x8xf32> {pyjit.param}, %b: tensor<4xf32> {pyjit.param}) -> tensor<32x4xf32> {
      %0 = tssa.aten "aten::linear"(%x, %w, %b) : (tensor<32x8xf32>, tensor<4x8xf32>, tensor<4xf32>) -> tensor<32x4xf32>
      return %0 : tensor<32x4xf32>
    }
    ```
    gives
    ```mlir
    %0 = tssa.aten "mkl::_mkl_reorder_linear_weight"(%w, 32 : i64)
    %1 = tssa.aten "mkl::_mkl_linear"(%x, %0, %w, %b, 32 : i64)
    ```
  }];
  let dependentDialects = ["::pyjit::tssa::TSSADialect"];
}

def PlanAttentionPass : Pass<"library-plan-attention", "::mlir::func::FuncOp"> {
  let summary = "Attention and encoder layers in their parts";
  let description = [{
    ATen's calls for whole layers, `_transformer_encoder_layer_fwd` and
    `_native_multi_head_attention` of one f32 input and without a mask, become
    the calls that they consist of: linear layers, attention, norms, activation.

    `scaled_dot_product_attention` in f32 without mask, dropout or causality
    becomes two matmuls with a softmax in between, where matmuls are kernels of
    ours: at least `pack-rows` queries, values that divide into vectors, and
    scores of at most `score-bytes`. Where keys do not divide into vectors, zeros
    behind them do, and the softmax reads the scores in front of these.

    ```mlir
    func.func @f(%q: tensor<1x2x32x16xf32>, %k: tensor<1x2x16x16xf32>, %v: tensor<1x2x16x16xf32>) -> tensor<1x2x32x16xf32> {
      %0 = tssa.aten "aten::scaled_dot_product_attention"(%q, %k, %v, none, 0.000000e+00 : f64, false, none, false) : (tensor<1x2x32x16xf32>, tensor<1x2x16x16xf32>, tensor<1x2x16x16xf32>) -> tensor<1x2x32x16xf32>
      return %0 : tensor<1x2x32x16xf32>
    }
    ```
    gives
    ```mlir
    %0 = tssa.access %k [#tssa.view<permute [0, 1, 3, 2]>]
    %1 = tssa.aten "aten::matmul"(%q, %0)
    %2 = tssa.aten "aten::mul.Tensor"(%1, wrapped(2.500000e-01 : f64))
    %3 = tssa.aten "aten::softmax.int"(%2, -1 : i64, none)
    %4 = tssa.aten "aten::matmul"(%3, %v)
    ```
  }];
  let options = [
    Option<"columns", "columns", "unsigned", "16",
           "Columns of a panel: two vectors; 0 leaves attention to the vendor library">,
    Option<"packRows", "pack-rows", "int64_t", "32",
           "Attention of fewer queries is left to the vendor library">,
    Option<"scoreBytes", "score-bytes", "int64_t", "64 << 20",
           "Attention of more scores is left to the vendor library">
  ];
  let statistics = [
    Statistic<"numExpanded", "expanded", "Calls that became their parts">
  ];
  let dependentDialects = ["::pyjit::tssa::TSSADialect"];
}

def PlanMatmulsPass : Pass<"library-plan-matmuls", "::mlir::func::FuncOp"> {
  let summary = "Matmuls with parameters as kernels of our own";
  let description = [{
    A float32 `aten::linear`, `addmm`, `mm` or `matmul` becomes a sum of products
    over a packed weight: panels of `columns` output columns, in which the columns
    of one input channel lie together. It is then fused and scheduled like any
    other reduction (`include/pyjit/Codegen/Schedule.h`, tiles), with bias and
    activation in the same kernel. With few rows the weight's way from memory is
    what a matmul costs: a panel is read once, in order. A parameter that calls
    find as it was is packed once; a trained one and any other tensor are packed
    in each call, where at least `pack-rows` rows read them (gradients of weights
    and of inputs, products of activations). The copy is marked `pyjit.packed`:
    fusion stores it. Columns that do not divide into vectors stay vendor calls;
    so do, where the weight is not packed once, rows whose number differs between
    calls.

    ```mlir
    func.func @f(%x: tensor<32x8xf32>, %w: tensor<16x8xf32> {pyjit.param}) -> tensor<32x16xf32> {
      %0 = tssa.aten "aten::linear"(%x, %w, none) : (tensor<32x8xf32>, tensor<16x8xf32>) -> tensor<32x16xf32>
      return %0 : tensor<32x16xf32>
    }
    ```
    gives
    ```mlir
    %0 = tssa.access %w [#tssa.view<view [1, 16, 8]>]
    %1 = tssa.access %0 [#tssa.view<permute [0, 2, 1]>]
    %2 = tssa.aten "aten::clone"(%1, 0 : i64) {pyjit.packed} : (...) -> tensor<1x8x16xf32>
    %3 = linalg.generic ins(%x, %2) ...  // += x[m, k] * w[n floordiv 16, k, n mod 16]
    ```
  }];
  let options = [
    Option<"columns", "columns", "unsigned", "16",
           "Columns of a panel: two vectors; 0 leaves every matmul to the vendor library">,
    Option<"minRows", "min-rows", "unsigned", "1",
           "Fewer rows are left to the vendor library">,
    Option<"packRows", "pack-rows", "int64_t", "INT64_MAX",
           "Fewer rows are left to the vendor library where each call packs the weight">,
    Option<"maxRows", "max-rows", "int64_t", "INT64_MAX",
           "More rows are left to the vendor library">,
    Option<"explain", "explain", "bool", "false",
           "Say why a matmul stays a vendor call">
  ];
  let statistics = [
    Statistic<"numMatmuls", "matmuls", "Matmuls that became kernels">
  ];
  let dependentDialects = ["::pyjit::tssa::TSSADialect",
                           "::mlir::arith::ArithDialect",
                           "::mlir::linalg::LinalgDialect",
                           "::mlir::tensor::TensorDialect"];
}

def PlanMatvecsPass : Pass<"library-plan-matvecs", "::mlir::func::FuncOp"> {
  let summary = "Matmuls of one row, or few, as kernels of our own";
  let description = [{
    `aten::linear`, `addmm`, `mm`, `bmm` or `matmul` of one row (for each weight of
    a batch) in float32, float16 or bfloat16 becomes a sum of products in f32,
    which is fused and scheduled like any other reduction: it reads each element of
    the weight once, where it is. Sizes may be symbols. With `max-rows` so do
    products of several rows in half precision and one weight that lies along the sum
    (lengths: multiples of 32), which tensor cores compute (schedules of the family
    `product`, `lib/Codegen/PTX/README.md`).

    ```mlir
    func.func @f(%x: tensor<1x8xf16>, %w: tensor<16x8xf16> {pyjit.param}) -> tensor<1x16xf16> {
      %0 = tssa.aten "aten::linear"(%x, %w, none) : (tensor<1x8xf16>, tensor<16x8xf16>) -> tensor<1x16xf16>
      return %0 : tensor<1x16xf16>
    }
    ```
    gives
    ```mlir
    %0 = linalg.generic ins(%x, %w) ...  // += x[m, k] * w[n, k]
    %1 = tssa.aten "aten::to.dtype"(%0, 5 : i64, false, false, none)
    ```
  }];
  let options = [
    Option<"parametersOnly", "parameters-only", "bool", "false",
           "Leave products of two activations to the vendor library">,
    Option<"minBytes", "min-bytes", "int64_t", "0",
           "Leave smaller weights in float32 to library-plan-matmuls, "
           "whose panels are faster in a cache">,
    Option<"maxRows", "max-rows", "int64_t", "1",
           "Rows up to which a product in half precision becomes a kernel">,
    Option<"explain", "explain", "bool", "false",
           "Say why a matmul stays a vendor call">
  ];
  let statistics = [
    Statistic<"numMatvecs", "matvecs", "Calls that became kernels">
  ];
  let dependentDialects = ["::pyjit::tssa::TSSADialect",
                           "::mlir::arith::ArithDialect",
                           "::mlir::linalg::LinalgDialect",
                           "::mlir::tensor::TensorDialect"];
}

def HoistParametersPass
    : Pass<"library-hoist-parameters", "::mlir::ModuleOp"> {
  let summary = "Compute what depends on parameters alone in a function of its own";
  let description = [{
    Pure operations whose operands are parameters (`pyjit.param`), or computed
    from parameters or from nothing, move from `@f` to `@f_prepare`, which has
    `pyjit.prepare`. Its arguments say with `pyjit.input` which input of `@f` they
    are; `@f` takes its results as trailing arguments with `pyjit.cached`. The
    runtime runs `@f_prepare` when a parameter has changed. Views alone are not
    worth it and stay.

    On the CPU `@f_prepare` says of each result by a digest (`pyjit.digests`) what
    computes it, and which of its arguments it comes from (`pyjit.sources`), so
    that the runtime keeps a value once that several programs compute from the
    same memory.

    ```mlir
    func.func @f(%x: tensor<4xf32>, %w: tensor<4xf32> {pyjit.param}) -> tensor<4xf32> {
      %0 = tssa.aten "aten::exp"(%w) : (tensor<4xf32>) -> tensor<4xf32>
      %1 = tssa.aten "aten::mul.Tensor"(%x, %0) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
      return %1 : tensor<4xf32>
    }
    ```
    gives
    ```mlir
    func.func @f(%x: tensor<4xf32>, %w: tensor<4xf32> {pyjit.param}, %e: tensor<4xf32> {pyjit.cached = 0 : i64}) -> tensor<4xf32> {
      %0 = tssa.aten "aten::mul.Tensor"(%x, %e) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
      return %0 : tensor<4xf32>
    }
    func.func @f_prepare(%w: tensor<4xf32> {pyjit.input = 1 : i64}) -> tensor<4xf32> attributes {pyjit.digests = ["…"], pyjit.prepare, pyjit.sources = [array<i64: 0>]} {
      %0 = tssa.aten "aten::exp"(%w) : (tensor<4xf32>) -> tensor<4xf32>
      return %0 : tensor<4xf32>
    }
    ```
  }];
  let options = [
    Option<"variant", "variant", "unsigned", "0",
           "How programs are compiled, a number that goes into each digest">
  ];
  let dependentDialects = ["::mlir::func::FuncDialect"];
}

#endif // PYJIT_LIBRARY_PASSES_TD
