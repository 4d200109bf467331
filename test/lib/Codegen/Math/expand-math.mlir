// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: pyjit-opt %s --codegen-expand-math | FileCheck %s

// CHECK-DAG: func.func private @atanf(f32) -> f32
// CHECK-DAG: func.func private @exp(f64) -> f64

// CHECK-LABEL: func.func @expanded
// CHECK-NOT: math.exp
// CHECK: math.fma {{.*}} : vector<8xf32>
func.func @expanded(%x: vector<8xf32>) -> vector<8xf32> {
  %y = math.exp %x : vector<8xf32>
  return %y : vector<8xf32>
}

// CHECK-LABEL: func.func @called
// CHECK-COUNT-2: call @atanf
// CHECK: call @exp(
func.func @called(%x: vector<2xf32>, %w: f64) -> (vector<2xf32>, f64) {
  %y = math.atan %x : vector<2xf32>
  %z = math.exp %w : f64
  return %y, %z : vector<2xf32>, f64
}

// Half precision is computed in f32 and rounded once; bf16 values move as bits,
// as the host has no registers for them.
// CHECK-LABEL: func.func @half(%{{.*}}: i16) -> i16
// CHECK: arith.shli
// CHECK: math.fma {{.*}} : f32
// CHECK: %[[R:.*]] = arith.trunci %{{.*}} : i32 to i16
// CHECK-NOT: bf16
// CHECK: return %[[R]] : i16
func.func @half(%x: bf16) -> bf16 {
  %y = math.tanh %x : bf16
  return %y : bf16
}

// Large arguments of sin and cos go to the C library.
// CHECK-LABEL: func.func @periodic
// CHECK: scf.if
// CHECK: else
// CHECK: call @cosf
func.func @periodic(%x: f32) -> f32 {
  %y = math.cos %x : f32
  return %y : f32
}

// Nor can the host compare them.
// CHECK-LABEL: func.func @compared(%{{.*}}: vector<4xi16>, %{{.*}}: vector<4xi16>)
// CHECK: arith.cmpf ogt, %{{.*}}, %{{.*}} : vector<4xf32>
// CHECK: arith.select %{{.*}} : vector<4xi1>, vector<4xi16>
func.func @compared(%x: vector<4xbf16>, %y: vector<4xbf16>) -> vector<4xbf16> {
  %c = arith.cmpf ogt, %x, %y : vector<4xbf16>
  %r = arith.select %c, %x, %y : vector<4xi1>, vector<4xbf16>
  return %r : vector<4xbf16>
}
