// RUN: pyjit-opt %s --pyjit-fuse="cpu=x86-64-v3" | FileCheck %s --check-prefix=FUSE
// RUN: pyjit-opt %s --pyjit-fuse="cpu=x86-64-v3 eager-rounding" | FileCheck %s --check-prefix=ROUNDING
// RUN: sed 's/{pyjit.param}) -> tensor<32x64xf32>/{pyjit.param}) -> tensor<32x64xf32> attributes {pyjit.device = "cuda:0"}/' %s | pyjit-opt --pyjit-launch | FileCheck %s --check-prefix=LAUNCH
// RUN: pyjit-opt %s --pyjit-fuse | pyjit-opt --pyjit-x86 | pyjit-run --print-launch --entry=linear | FileCheck %s --check-prefix=PRINTED

// Each stage by itself does what it does in a compilation: a linear layer's
// weight is packed once for the CPU, unless eager's roundings are to be kept,
// and a GPU has it called as it is. What one stage leaves, the next one takes.
// FUSE-LABEL: func.func @linear(
// FUSE: pyjit.cached = 0
// FUSE-LABEL: func.func @linear_prepare(
// ROUNDING-NOT: @linear_prepare
// ROUNDING: tssa.aten "aten::linear"
// LAUNCH: cudagraph.program @linear
// PRINTED: prepare:
func.func @linear(%x: tensor<32x64xf32>, %w: tensor<64x64xf32> {pyjit.param}) -> tensor<32x64xf32> {
  %0 = tssa.aten "aten::linear"(%x, %w, none) : (tensor<32x64xf32>, tensor<64x64xf32>) -> tensor<32x64xf32>
  %1 = tssa.aten "aten::relu"(%0) : (tensor<32x64xf32>) -> tensor<32x64xf32>
  return %1 : tensor<32x64xf32>
}
