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

// CHECK-LABEL: func.func @tanh_for_half
// CHECK: "llvm.nvvm.ex2.approx.ftz"
// CHECK: "llvm.nvvm.rcp.approx.ftz.f"
// CHECK: math.copysign
// CHECK-NOT: math.tanh
func.func @tanh_for_half(%x: f32) -> f32 {
  %y = math.tanh %x fastmath<afn> : f32
  return %y : f32
}

// CHECK-LABEL: func.func @erf_for_half
// CHECK-COUNT-2: "llvm.nvvm.rcp.approx.ftz.f"
// CHECK-NOT: math.erf
func.func @erf_for_half(%x: vector<2xf32>) -> vector<2xf32> {
  %y = math.erf %x fastmath<afn> : vector<2xf32>
  return %y : vector<2xf32>
}

// CHECK-LABEL: func.func @quotient_for_half
// CHECK: llvm.call_intrinsic "llvm.nvvm.div.full"(%{{.*}}, %{{.*}})
func.func @quotient_for_half(%x: f32, %y: f32) -> f32 {
  %z = arith.divf %x, %y fastmath<afn> : f32
  return %z : f32
}

// Elsewhere they are left to codegen-expand-math and to the target.
// CHECK-LABEL: func.func @exact
// CHECK: math.tanh
// CHECK: math.erf
// CHECK: arith.divf
// CHECK: arith.divf {{.*}} : f64
func.func @exact(%x: f32, %w: f64) -> (f32, f64) {
  %a = math.tanh %x : f32
  %b = math.erf %a : f32
  %c = arith.divf %b, %x : f32
  %d = arith.divf %w, %w fastmath<afn> : f64
  return %c, %d : f32, f64
}
