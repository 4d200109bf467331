// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: pyjit-opt %s --library-plan-matvecs=explain=true -verify-diagnostics | FileCheck %s
// RUN: pyjit-opt %s --library-plan-matvecs=max-rows=16 | FileCheck %s --check-prefix=ROWS

// CHECK-DAG: #[[ROW:.+]] = affine_map<(d0, d1, d2, d3) -> (d0, d1, d3)>
// CHECK-DAG: #[[TURNED:.+]] = affine_map<(d0, d1, d2, d3) -> (d2, d3)>
// CHECK-DAG: #[[OUT:.+]] = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2)>
// CHECK-DAG: #[[CONV1D:.+]] = affine_map<(d0, d1, d2) -> (d2, d1)>
// CHECK-DAG: #[[BATCH:.+]] = affine_map<(d0, d1, d2, d3) -> (d0, d3, d2)>

// Halves are multiplied and added up in f32, and the bias is added before the only rounding.
// CHECK-LABEL: func.func @linear
// CHECK: %[[SUM:.*]] = linalg.generic {indexing_maps = [#[[ROW]], #[[TURNED]], #[[OUT]]], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%arg0, %arg1
// CHECK: arith.extf
// CHECK: arith.extf
// CHECK: arith.mulf {{.*}} : f32
// CHECK: arith.addf {{.*}} : f32
// CHECK: %[[BIASED:.*]] = tssa.aten "aten::add.Tensor"(%[[SUM]], %arg2, 1 : i64) : (tensor<1x1x16xf32>, tensor<16xf16>) -> tensor<1x1x16xf32>
// CHECK: tssa.aten "aten::to.dtype"(%[[BIASED]], 5 : i64
func.func @linear(%x: tensor<1x1x8xf16>, %w: tensor<16x8xf16>, %b: tensor<16xf16>) -> tensor<1x1x16xf16> {
  %0 = tssa.aten "aten::linear"(%x, %w, %b) : (tensor<1x1x8xf16>, tensor<16x8xf16>, tensor<16xf16>) -> tensor<1x1x16xf16>
  return %0 : tensor<1x1x16xf16>
}

// As GPT-2's Conv1D has it: in x out.
// CHECK-LABEL: func.func @addmm
// CHECK: linalg.generic {indexing_maps = [{{.*}}, #[[CONV1D]], {{.*}}]
// CHECK: aten::add.Tensor
// CHECK-NOT: aten::to.dtype
func.func @addmm(%x: tensor<1x8xf32>, %w: tensor<8x16xf32>, %b: tensor<16xf32>) -> tensor<1x16xf32> {
  %0 = tssa.aten "aten::addmm"(%b, %x, %w, 1 : i64, 1 : i64) : (tensor<16xf32>, tensor<1x8xf32>, tensor<8x16xf32>) -> tensor<1x16xf32>
  return %0 : tensor<1x16xf32>
}

// A weight for each row, of a size that differs between calls.
// CHECK-LABEL: func.func @batch
// CHECK: linalg.generic {indexing_maps = [{{.*}}, #[[BATCH]], {{.*}}]
func.func @batch(%x: tensor<4x1x?xf32, #tssa.layout<[4, 1, s0], [s0, s0, 1]>>, %w: tensor<4x?x8xf32, #tssa.layout<[4, s0, 8], [s0 * 8, 8, 1]>>) -> tensor<4x1x8xf32> {
  %0 = tssa.aten "aten::bmm"(%x, %w) : (tensor<4x1x?xf32, #tssa.layout<[4, 1, s0], [s0, s0, 1]>>, tensor<4x?x8xf32, #tssa.layout<[4, s0, 8], [s0 * 8, 8, 1]>>) -> tensor<4x1x8xf32>
  return %0 : tensor<4x1x8xf32>
}

// Several rows are sums where tensor cores take them.
// CHECK-LABEL: func.func @rows
// ROWS-LABEL: func.func @rows
// ROWS-SAME: %[[X:.*]]: tensor<2x4x64xf16>, %[[W:.*]]: tensor<48x64xf16>
// ROWS: linalg.generic {{.*}}"parallel", "parallel", "parallel", "reduction"]} ins(%[[X]], %[[W]]
// ROWS-NOT: tssa.aten "aten::linear"
// ROWS: aten::to.dtype
func.func @rows(%x: tensor<2x4x64xf16>, %w: tensor<48x64xf16>) -> tensor<2x4x48xf16> {
  // expected-remark @below {{'aten::linear' stays a vendor call: several rows}}
  %0 = tssa.aten "aten::linear"(%x, %w, none) : (tensor<2x4x64xf16>, tensor<48x64xf16>) -> tensor<2x4x48xf16>
  return %0 : tensor<2x4x48xf16>
}

// CHECK-LABEL: func.func @stay
// CHECK-COUNT-4: tssa.aten
func.func @stay(%x: tensor<2x8xf32>, %w: tensor<16x8xf32>, %d: tensor<1x8xf64>, %e: tensor<8x3xf64>, %n: tensor<1x0xf32>, %m: tensor<0x3xf32>, %b: tensor<2x1x8xf32>, %c: tensor<1x8x3xf32>)
    -> (tensor<2x16xf32>, tensor<1x3xf64>, tensor<1x3xf32>, tensor<2x1x3xf32>) {
  // expected-remark @below {{'aten::linear' stays a vendor call: several rows}}
  %0 = tssa.aten "aten::linear"(%x, %w, none) : (tensor<2x8xf32>, tensor<16x8xf32>) -> tensor<2x16xf32>
  // expected-remark @below {{'aten::mm' stays a vendor call: no floating point of 32 or 16 bits}}
  %1 = tssa.aten "aten::mm"(%d, %e) : (tensor<1x8xf64>, tensor<8x3xf64>) -> tensor<1x3xf64>
  // expected-remark @below {{'aten::mm' stays a vendor call: sums of nothing}}
  %2 = tssa.aten "aten::mm"(%n, %m) : (tensor<1x0xf32>, tensor<0x3xf32>) -> tensor<1x3xf32>
  // expected-remark @below {{'aten::matmul' stays a vendor call: a batch that is broadcast}}
  %3 = tssa.aten "aten::matmul"(%b, %c) : (tensor<2x1x8xf32>, tensor<1x8x3xf32>) -> tensor<2x1x3xf32>
  return %0, %1, %2, %3 : tensor<2x16xf32>, tensor<1x3xf64>, tensor<1x3xf32>, tensor<2x1x3xf32>
}

// Numbers for sum and bias, which differs from row to row of a batch (Bloom).
// CHECK-LABEL: func.func @baddbmm
// CHECK:         %[[S:.*]] = linalg.generic
// CHECK:         %[[P:.*]] = tssa.aten "aten::mul.Tensor"(%[[S]], wrapped(1.250000e-01 : f64))
// CHECK:         tssa.aten "aten::add.Tensor"(%[[P]], %{{.*}}, 5.000000e-01 : f64)
func.func @baddbmm(%b: tensor<4x1x16xf16>, %x: tensor<4x1x8xf16>, %w: tensor<4x8x16xf16>) -> tensor<4x1x16xf16> {
  %0 = tssa.aten "aten::baddbmm"(%b, %x, %w, 5.000000e-01 : f64, 1.250000e-01 : f64) : (tensor<4x1x16xf16>, tensor<4x1x8xf16>, tensor<4x8x16xf16>) -> tensor<4x1x16xf16>
  return %0 : tensor<4x1x16xf16>
}

// What a factor of zero leaves out is not looked at.
// CHECK-LABEL: func.func @nothing_added
// CHECK:         linalg.generic
// CHECK-NOT:     aten::add
// CHECK:         return
func.func @nothing_added(%b: tensor<1x16xf32>, %x: tensor<1x8xf32>, %w: tensor<8x16xf32>) -> tensor<1x16xf32> {
  %0 = tssa.aten "aten::addmm"(%b, %x, %w, 0 : i64, 1 : i64) : (tensor<1x16xf32>, tensor<1x8xf32>, tensor<8x16xf32>) -> tensor<1x16xf32>
  return %0 : tensor<1x16xf32>
}
