// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: pyjit-opt %s --codegen-expand-math=vector-math-bits=256 | FileCheck %s
// RUN: pyjit-opt %s --codegen-expand-math=vector-math-bits=512 | FileCheck %s --check-prefix=WIDE

// What has an expansion keeps it; the others are called on whole vectors, shorter ones and scalars, too.
// CHECK-DAG: func.func private @_ZGVdN8v_atanf(vector<8xf32>) -> vector<8xf32>
// CHECK-DAG: func.func private @_ZGVdN4v_exp(vector<4xf64>) -> vector<4xf64>
// CHECK-DAG: func.func private @_ZGVdN4vv_pow(vector<4xf64>, vector<4xf64>) -> vector<4xf64>
// WIDE-DAG: func.func private @_ZGVeN16v_atanf(vector<16xf32>) -> vector<16xf32>

// CHECK-LABEL: func.func @called
// CHECK: %[[WHOLE:.*]] = vector.shuffle %arg0, %arg0 [0, 1, 0, 1, 0, 1, 0, 1]
// CHECK: %[[Y:.*]] = call @_ZGVdN8v_atanf(%[[WHOLE]])
// CHECK: vector.shuffle %[[Y]], %[[Y]] [0, 1]
// CHECK: %[[W:.*]] = vector.broadcast %arg1 : f64 to vector<4xf64>
// CHECK: %[[Z:.*]] = call @_ZGVdN4v_exp(%[[W]])
// CHECK: vector.extract %[[Z]][0]
// WIDE-LABEL: func.func @called
// WIDE: call @_ZGVeN16v_atanf
func.func @called(%x: vector<2xf32>, %w: f64) -> (vector<2xf32>, f64) {
  %y = math.atan %x : vector<2xf32>
  %z = math.exp %w : f64
  return %y, %z : vector<2xf32>, f64
}

// Longer vectors are called in parts.
// CHECK-LABEL: func.func @parts
// CHECK-COUNT-2: call @_ZGVdN4vv_pow
// CHECK: vector.shuffle %{{.*}}, %{{.*}} [0, 1, 2, 3, 4, 5, 6, 7]
func.func @parts(%x: vector<8xf64>, %y: vector<8xf64>) -> vector<8xf64> {
  %z = math.powf %x, %y : vector<8xf64>
  return %z : vector<8xf64>
}

// A remainder is taken in double precision, but for large quotients.
// CHECK-LABEL: func.func @remainder
// CHECK: %[[Q:.*]] = arith.divf %{{.*}} : vector<8xf64>
// CHECK: scf.if
// CHECK: call @fmodf
// CHECK: else
// CHECK: math.trunc %[[Q]]
// CHECK: math.fma
// CHECK: math.copysign
func.func @remainder(%x: vector<8xf32>, %y: vector<8xf32>) -> vector<8xf32> {
  %z = arith.remf %x, %y : vector<8xf32>
  return %z : vector<8xf32>
}

// CHECK-LABEL: func.func @expanded
// CHECK-NOT: call
// CHECK: math.fma {{.*}} : vector<8xf32>
func.func @expanded(%x: vector<8xf32>) -> vector<8xf32> {
  %y = math.exp %x : vector<8xf32>
  return %y : vector<8xf32>
}
