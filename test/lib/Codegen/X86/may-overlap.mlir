// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: pyjit-opt %s --x86-emit-kernels --split-input-file -verify-diagnostics | FileCheck %s

#id = affine_map<(d0) -> (d0)>

// Both results may lie where %x does not yet hold what it will: it is loaded before either of them is
// stored, although the second result alone reads it behind the first one.
// CHECK-LABEL: func.func @two
// CHECK:         %[[X:.*]] = llvm.load {{.*}} : !llvm.ptr -> !llvm.ptr
// CHECK:         scf.for
// CHECK:         llvm.load %{{.*}} {alignment = 4 : i64} : !llvm.ptr -> vector<8xf32>
// CHECK:         llvm.load %{{.*}} {alignment = 4 : i64} : !llvm.ptr -> vector<8xf32>
// CHECK:         llvm.store
// CHECK-NOT:     llvm.load
// CHECK:         llvm.store
func.func @two(%x: tensor<8xf32>, %y: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>)
    attributes {pyjit.kernel, pyjit.may_overlap = [array<i64: 0, 0>]} {
  %e = tensor.empty() : tensor<8xf32>
  %0 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%y : tensor<8xf32>) outs(%e : tensor<8xf32>) {
  ^bb0(%a: f32, %o: f32):
    %r = arith.negf %a : f32
    linalg.yield %r : f32
  } -> tensor<8xf32>
  %1 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%x : tensor<8xf32>) outs(%e : tensor<8xf32>) {
  ^bb0(%a: f32, %o: f32):
    %r = arith.negf %a : f32
    linalg.yield %r : f32
  } -> tensor<8xf32>
  return %0, %1 : tensor<8xf32>, tensor<8xf32>
}

// -----

// Whoever claims it has to have proven it.
#flip = affine_map<(d0) -> (7 - d0)>
#id = affine_map<(d0) -> (d0)>
// expected-error@+1 {{result 0 of kernel 'flip' may not lie where operand 0 does: the kernel reads other elements of it than it writes}}
func.func @flip(%x: tensor<8xf32>) -> tensor<8xf32> attributes {pyjit.kernel, pyjit.may_overlap = [array<i64: 0, 0>]} {
  %e = tensor.empty() : tensor<8xf32>
  %0 = linalg.generic {indexing_maps = [#flip, #id], iterator_types = ["parallel"]} ins(%x : tensor<8xf32>) outs(%e : tensor<8xf32>) {
  ^bb0(%a: f32, %o: f32):
    %r = arith.negf %a : f32
    linalg.yield %r : f32
  } -> tensor<8xf32>
  return %0 : tensor<8xf32>
}

// -----

#id = affine_map<(d0) -> (d0)>
// expected-error@+1 {{result 0 of kernel 'types' may not lie where operand 0 does}}
func.func @types(%x: tensor<8xi32>) -> tensor<8xf32> attributes {pyjit.kernel, pyjit.may_overlap = [array<i64: 0, 0>]} {
  %e = tensor.empty() : tensor<8xf32>
  %0 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%x : tensor<8xi32>) outs(%e : tensor<8xf32>) {
  ^bb0(%a: i32, %o: f32):
    %r = arith.sitofp %a : i32 to f32
    linalg.yield %r : f32
  } -> tensor<8xf32>
  return %0 : tensor<8xf32>
}
