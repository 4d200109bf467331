// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: pyjit-opt %s --x86-share-kernels | FileCheck %s
// RUN: pyjit-opt %s --x86-share-kernels | pyjit-opt --pass-pipeline='builtin.module(x86-lower-kernels)' | FileCheck %s --check-prefix=LOWERED

// @f calls @warm itself; its prepare program alone calls the others, but for
// @often, which a backward program calls whose arguments are all of @f.
func.func @f(%x: tensor<64xf32>, %w: tensor<64xf32> {pyjit.cached = 0 : i64}) -> tensor<64xf32> {
  %y = call @warm(%x) : (tensor<64xf32>) -> tensor<64xf32>
  return %y : tensor<64xf32>
}
func.func @f_prepare(%w: tensor<64xf32> {pyjit.input = 1 : i64}, %v: tensor<96xf32> {pyjit.input = 2 : i64}) -> (tensor<64xf32>, tensor<96xf32>, tensor<96xf32>, tensor<96xf32>, tensor<96xf32>)
    attributes {pyjit.prepare} {
  %0 = call @a(%w) : (tensor<64xf32>) -> tensor<64xf32>
  %1 = call @b(%v) : (tensor<96xf32>) -> tensor<96xf32>
  %2 = call @other(%v) : (tensor<96xf32>) -> tensor<96xf32>
  %by_64 = call @by_64(%v) : (tensor<96xf32>) -> tensor<96xf32>
  %by_96 = call @by_96(%v) : (tensor<96xf32>) -> tensor<96xf32>
  %3 = call @warm(%w) : (tensor<64xf32>) -> tensor<64xf32>
  return %0, %1, %2, %by_64, %by_96 : tensor<64xf32>, tensor<96xf32>, tensor<96xf32>, tensor<96xf32>, tensor<96xf32>
}
func.func @f_backward(%w: tensor<64xf32> {pyjit.input = 1 : i64}) -> tensor<64xf32> attributes {pyjit.gradient_inputs = array<i64: 1>} {
  %0 = call @often(%w) : (tensor<64xf32>) -> tensor<64xf32>
  return %0 : tensor<64xf32>
}
func.func private @a(tensor<64xf32>) -> tensor<64xf32> attributes {pyjit.kernel}
func.func private @b(tensor<96xf32>) -> tensor<96xf32> attributes {pyjit.kernel}
func.func private @other(tensor<96xf32>) -> tensor<96xf32> attributes {pyjit.kernel}
func.func private @by_64(tensor<96xf32>) -> tensor<96xf32> attributes {pyjit.kernel}
func.func private @by_96(tensor<96xf32>) -> tensor<96xf32> attributes {pyjit.kernel}
func.func private @warm(tensor<64xf32>) -> tensor<64xf32> attributes {pyjit.kernel}
func.func private @often(tensor<64xf32>) -> tensor<64xf32> attributes {pyjit.kernel}

module @kernels {
  // The trip count differs, and so does the distance of two loads, alike. The
  // step is the same everywhere and stays.
  // CHECK-LABEL: func.func private @a_shared
  // CHECK-SAME: (%[[B:.*]]: !llvm.ptr, %{{.*}}: i64, %{{.*}}: i64, %[[N:.*]]: i64)
  // CHECK: %[[STEP:.*]] = arith.constant 8 : i64
  // CHECK: scf.for %{{.*}} = %{{.*}} to %[[N]] step %[[STEP]]
  // CHECK: llvm.getelementptr %{{.*}}[%[[N]]] : (!llvm.ptr, i64) -> !llvm.ptr, f32

  // CHECK-LABEL: func.func @a
  // CHECK: %[[N:.*]] = arith.constant 64 : i64
  // CHECK-NEXT: call @a_shared(%{{.*}}, %{{.*}}, %{{.*}}, %[[N]])
  // CHECK-NEXT: return
  // LOWERED-LABEL: llvm.func @a(
  // LOWERED: llvm.call @a_shared
  func.func @a(%buffers: !llvm.ptr, %begin: i64, %end: i64) {
    %zero = arith.constant 0 : i64
    %size = arith.constant 64 : i64
    %step = arith.constant 8 : i64
    scf.for %i = %zero to %size step %step : i64 {
      %p = llvm.getelementptr %buffers[%i] : (!llvm.ptr, i64) -> !llvm.ptr, f32
      %q = llvm.getelementptr %p[64] : (!llvm.ptr) -> !llvm.ptr, f32
      %v = llvm.load %p : !llvm.ptr -> f32
      llvm.store %v, %q : f32, !llvm.ptr
    }
    return
  }

  // CHECK-LABEL: func.func @b
  // CHECK: %[[N:.*]] = arith.constant 96 : i64
  // CHECK-NEXT: call @a_shared(%{{.*}}, %{{.*}}, %{{.*}}, %[[N]])
  func.func @b(%buffers: !llvm.ptr, %begin: i64, %end: i64) {
    %zero = arith.constant 0 : i64
    %size = arith.constant 96 : i64
    %step = arith.constant 8 : i64
    scf.for %i = %zero to %size step %step : i64 {
      %p = llvm.getelementptr %buffers[%i] : (!llvm.ptr, i64) -> !llvm.ptr, f32
      %q = llvm.getelementptr %p[96] : (!llvm.ptr) -> !llvm.ptr, f32
      %v = llvm.load %p : !llvm.ptr -> f32
      llvm.store %v, %q : f32, !llvm.ptr
    }
    return
  }

  // Another operand: another form.
  // CHECK-LABEL: func.func @other
  // CHECK-NOT: call
  // CHECK: llvm.store
  func.func @other(%buffers: !llvm.ptr, %begin: i64, %end: i64) {
    %zero = arith.constant 0 : i64
    %size = arith.constant 96 : i64
    %step = arith.constant 8 : i64
    scf.for %i = %zero to %size step %step : i64 {
      %p = llvm.getelementptr %buffers[%i] : (!llvm.ptr, i64) -> !llvm.ptr, f32
      %q = llvm.getelementptr %p[96] : (!llvm.ptr) -> !llvm.ptr, f32
      %v = llvm.load %q : !llvm.ptr -> f32
      llvm.store %v, %q : f32, !llvm.ptr
    }
    return
  }

  // A call that is not of a prepare program: its numbers stay.
  // CHECK-LABEL: func.func @warm
  // CHECK-NOT: call
  // CHECK: llvm.store
  func.func @warm(%buffers: !llvm.ptr, %begin: i64, %end: i64) {
    %zero = arith.constant 0 : i64
    %size = arith.constant 64 : i64
    %step = arith.constant 8 : i64
    scf.for %i = %zero to %size step %step : i64 {
      %p = llvm.getelementptr %buffers[%i] : (!llvm.ptr, i64) -> !llvm.ptr, f32
      %q = llvm.getelementptr %p[64] : (!llvm.ptr) -> !llvm.ptr, f32
      %v = llvm.load %p : !llvm.ptr -> f32
      llvm.store %v, %q : f32, !llvm.ptr
    }
    return
  }

  // CHECK-LABEL: func.func @often
  // CHECK-NOT: call
  // CHECK: llvm.store
  func.func @often(%buffers: !llvm.ptr, %begin: i64, %end: i64) {
    %zero = arith.constant 0 : i64
    %size = arith.constant 64 : i64
    %step = arith.constant 8 : i64
    scf.for %i = %zero to %size step %step : i64 {
      %p = llvm.getelementptr %buffers[%i] : (!llvm.ptr, i64) -> !llvm.ptr, f32
      %q = llvm.getelementptr %p[64] : (!llvm.ptr) -> !llvm.ptr, f32
      %v = llvm.load %p : !llvm.ptr -> f32
      llvm.store %v, %q : f32, !llvm.ptr
    }
    return
  }

  // Divided in a loop within a unit: the divisor stays, and so these differ.
  // CHECK-LABEL: func.func @by_64
  // CHECK-NOT: call
  // CHECK: arith.remui
  // CHECK-LABEL: func.func @by_96
  // CHECK-NOT: call
  // CHECK: arith.remui
  func.func @by_64(%buffers: !llvm.ptr, %begin: i64, %end: i64) {
    %step = arith.constant 1 : i64
    scf.for %unit = %begin to %end step %step : i64 {
      scf.for %i = %begin to %unit step %step : i64 {
        %divisor = arith.constant 64 : i64
        %rest = arith.remui %i, %divisor : i64
        %p = llvm.getelementptr %buffers[%rest] : (!llvm.ptr, i64) -> !llvm.ptr, f32
        %v = llvm.load %p : !llvm.ptr -> f32
        llvm.store %v, %buffers : f32, !llvm.ptr
      }
    }
    return
  }
  func.func @by_96(%buffers: !llvm.ptr, %begin: i64, %end: i64) {
    %step = arith.constant 1 : i64
    scf.for %unit = %begin to %end step %step : i64 {
      scf.for %i = %begin to %unit step %step : i64 {
        %divisor = arith.constant 96 : i64
        %rest = arith.remui %i, %divisor : i64
        %p = llvm.getelementptr %buffers[%rest] : (!llvm.ptr, i64) -> !llvm.ptr, f32
        %v = llvm.load %p : !llvm.ptr -> f32
        llvm.store %v, %buffers : f32, !llvm.ptr
      }
    }
    return
  }
}
