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

#images = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>
#channel = affine_map<(d0, d1, d2, d3) -> (d3)>

// One loop does not give enough parts: the next is divided, too. What is as small as the sums belongs to the second
// kernel, what is as large as the images to a third.
// CHECK-LABEL: func.func private @centered_parts(%{{.*}}: tensor<4x64x64x64xf32>) -> tensor<4x64x64xf32>
// CHECK: linalg.generic
// CHECK-SAME: iterator_types = ["reduction", "reduction", "reduction", "parallel", "parallel", "parallel"]
// CHECK-LABEL: func.func private @centered_whole(%{{.*}}: tensor<4x64x64xf32>) -> (tensor<64xf32>, tensor<64xf32>)
// CHECK: iterator_types = ["parallel", "reduction", "reduction"]
// CHECK: math.sqrt
// CHECK-LABEL: func.func private @centered_rest(
// CHECK-SAME: -> tensor<4x64x64x64xf32>
// CHECK-LABEL: func.func @images
// CHECK: %[[P:.*]] = call @centered_parts(%{{.*}})
// CHECK: %[[T:.*]]:2 = call @centered_whole(%[[P]])
// CHECK: %[[R:.*]] = call @centered_rest(%{{.*}}, %[[T]]#0) : (tensor<4x64x64x64xf32>, tensor<64xf32>) -> tensor<4x64x64x64xf32>
// CHECK: return %[[T]]#1, %[[R]]
func.func private @centered(%x: tensor<4x64x64x64xf32>) -> (tensor<64xf32>, tensor<4x64x64x64xf32>) attributes {pyjit.kernel} {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<64xf32>
  %i = linalg.fill ins(%z : f32) outs(%e : tensor<64xf32>) -> tensor<64xf32>
  %s = linalg.generic {indexing_maps = [#images, #channel], iterator_types = ["reduction", "reduction", "reduction", "parallel"]}
      ins(%x : tensor<4x64x64x64xf32>) outs(%i : tensor<64xf32>) {
  ^bb0(%a: f32, %acc: f32):
    %t = arith.addf %a, %acc : f32
    linalg.yield %t : f32
  } -> tensor<64xf32>
  %q = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]}
      ins(%s : tensor<64xf32>) outs(%e : tensor<64xf32>) {
  ^bb0(%a: f32, %o: f32):
    %t = math.sqrt %a : f32
    linalg.yield %t : f32
  } -> tensor<64xf32>
  %f = tensor.empty() : tensor<4x64x64x64xf32>
  %r = linalg.generic {indexing_maps = [#images, #channel, #images], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%x, %s : tensor<4x64x64x64xf32>, tensor<64xf32>) outs(%f : tensor<4x64x64x64xf32>) {
  ^bb0(%a: f32, %m: f32, %o: f32):
    %t = arith.subf %a, %m : f32
    linalg.yield %t : f32
  } -> tensor<4x64x64x64xf32>
  return %q, %r : tensor<64xf32>, tensor<4x64x64x64xf32>
}
func.func @images(%x: tensor<4x64x64x64xf32>) -> (tensor<64xf32>, tensor<4x64x64x64xf32>) {
  %r:2 = call @centered(%x) : (tensor<4x64x64x64xf32>) -> (tensor<64xf32>, tensor<4x64x64x64xf32>)
  return %r#0, %r#1 : tensor<64xf32>, tensor<4x64x64x64xf32>
}

// Sums of what follows from sums, which is stored, too: a kernel of their own, which is divided again.
// CHECK-LABEL: func.func private @summed_rest(
// CHECK-SAME: -> tensor<4x64x64x64xf32>
// CHECK-LABEL: func.func private @summed_behind_parts(
// CHECK-LABEL: func.func private @summed_behind_whole(
// CHECK-LABEL: func.func @sums
// CHECK: %[[R:.*]] = call @summed_rest(
// CHECK: %[[P:.*]] = call @summed_behind_parts(%[[R]])
// CHECK: %[[T:.*]] = call @summed_behind_whole(%[[P]])
// CHECK: return %[[R]], %[[T]]
func.func private @summed(%x: tensor<4x64x64x64xf32>) -> (tensor<4x64x64x64xf32>, tensor<64xf32>) attributes {pyjit.kernel} {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<64xf32>
  %i = linalg.fill ins(%z : f32) outs(%e : tensor<64xf32>) -> tensor<64xf32>
  %s = linalg.generic {indexing_maps = [#images, #channel], iterator_types = ["reduction", "reduction", "reduction", "parallel"]}
      ins(%x : tensor<4x64x64x64xf32>) outs(%i : tensor<64xf32>) {
  ^bb0(%a: f32, %acc: f32):
    %t = arith.addf %a, %acc : f32
    linalg.yield %t : f32
  } -> tensor<64xf32>
  %o = tensor.empty() : tensor<4x64x64x64xf32>
  %r = linalg.generic {indexing_maps = [#images, #channel, #images], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%x, %s : tensor<4x64x64x64xf32>, tensor<64xf32>) outs(%o : tensor<4x64x64x64xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %t = arith.subf %a, %b : f32
    linalg.yield %t : f32
  } -> tensor<4x64x64x64xf32>
  %q = linalg.generic {indexing_maps = [#images, #channel], iterator_types = ["reduction", "reduction", "reduction", "parallel"]}
      ins(%r : tensor<4x64x64x64xf32>) outs(%i : tensor<64xf32>) {
  ^bb0(%a: f32, %acc: f32):
    %t = arith.addf %a, %acc : f32
    linalg.yield %t : f32
  } -> tensor<64xf32>
  return %r, %q : tensor<4x64x64x64xf32>, tensor<64xf32>
}
func.func @sums(%x: tensor<4x64x64x64xf32>) -> (tensor<4x64x64x64xf32>, tensor<64xf32>) {
  %r:2 = call @summed(%x) : (tensor<4x64x64x64xf32>) -> (tensor<4x64x64x64xf32>, tensor<64xf32>)
  return %r#0, %r#1 : tensor<4x64x64x64xf32>, tensor<64xf32>
}
