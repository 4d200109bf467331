// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: pyjit-opt %s --ptx-expand-math | FileCheck %s

// CHECK-LABEL: func.func @exponential
// CHECK-COUNT-2: llvm.call_intrinsic "llvm.nvvm.ex2.approx"
// CHECK-NOT: math.exp
func.func @exponential(%x: vector<2xf32>) -> vector<2xf32> {
  %y = math.exp %x : vector<2xf32>
  return %y : vector<2xf32>
}

// Half precision is computed in f32; f64 is not for the special function unit.
// CHECK-LABEL: func.func @others
// CHECK: arith.extf
// CHECK: llvm.call_intrinsic
// CHECK: arith.truncf
// CHECK: math.exp %{{.*}} : f64
// CHECK: call @fmodf
func.func @others(%x: f16, %y: f64, %z: f32) -> (f16, f64, f32) {
  %a = math.exp %x : f16
  %b = math.exp %y : f64
  %c = arith.remf %z, %z : f32
  return %a, %b, %c : f16, f64, f32
}

// CHECK-LABEL: func.func @approximate
// CHECK: arith.mulf
// CHECK-NEXT: llvm.call_intrinsic "llvm.nvvm.ex2.approx.ftz"
// CHECK-NEXT: return
func.func @approximate(%x: f32) -> f32 {
  %y = math.exp %x fastmath<afn> : f32
  return %y : f32
}
