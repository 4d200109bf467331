// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: pyjit-opt %s --ptx-split-reductions | FileCheck %s
// RUN: pyjit-opt %s --ptx-split-reductions=parts=1 | FileCheck %s --check-prefix=WHOLE
// RUN: pyjit-opt %s --ptx-split-reductions --ptx-emit-kernels | FileCheck %s --check-prefix=LAUNCH

#id = affine_map<(d0) -> (d0)>
#all = affine_map<(d0) -> ()>
#scalar = affine_map<() -> ()>

// A million numbers: parts of them first. The root belongs to the second kernel.
// CHECK-LABEL: func.func private @norm_parts(%{{.*}}: tensor<1048576xf32>) -> tensor<256xf32>
// CHECK: linalg.generic
// CHECK-SAME: iterator_types = ["reduction", "parallel"]
// CHECK: arith.mulf
// CHECK: arith.addf
// CHECK-LABEL: func.func private @norm_whole(%{{.*}}: tensor<256xf32>) -> tensor<f32>
// CHECK: arith.addf
// CHECK: math.sqrt
// CHECK-LABEL: func.func @main
// CHECK: %[[P:.*]] = call @norm_parts(%{{.*}}) : (tensor<1048576xf32>) -> tensor<256xf32>
// CHECK: %[[R:.*]] = call @norm_whole(%[[P]]) : (tensor<256xf32>) -> tensor<f32>
// CHECK: return %[[R]]
// WHOLE: @norm_parts(%{{.*}}: tensor<1048576xf32>) -> tensor<256xf32>
// LAUNCH: func.func private @norm_parts
// LAUNCH-SAME: pyjit.grid = array<i32: 256, 1, 1>
func.func private @norm(%x: tensor<1048576xf32>) -> tensor<f32> attributes {pyjit.kernel} {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<f32>
  %i = linalg.fill ins(%z : f32) outs(%e : tensor<f32>) -> tensor<f32>
  %s = linalg.generic {indexing_maps = [#id, #all], iterator_types = ["reduction"]}
      ins(%x : tensor<1048576xf32>) outs(%i : tensor<f32>) {
  ^bb0(%a: f32, %acc: f32):
    %m = arith.mulf %a, %a : f32
    %t = arith.addf %m, %acc : f32
    linalg.yield %t : f32
  } -> tensor<f32>
  %r = linalg.generic {indexing_maps = [#scalar, #scalar], iterator_types = []}
      ins(%s : tensor<f32>) outs(%e : tensor<f32>) {
  ^bb0(%a: f32, %o: f32):
    %t = math.sqrt %a : f32
    linalg.yield %t : f32
  } -> tensor<f32>
  return %r : tensor<f32>
}
func.func @main(%x: tensor<1048576xf32>) -> tensor<f32> {
  %r = call @norm(%x) : (tensor<1048576xf32>) -> tensor<f32>
  return %r : tensor<f32>
}
