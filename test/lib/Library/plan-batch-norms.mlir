// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: pyjit-opt %s --library-plan-batch-norms | FileCheck %s
// RUN: pyjit-opt %s --library-plan-batch-norms=host | FileCheck %s --check-prefix=HOST
// RUN: pyjit-opt %s --pyjit-library | pyjit-opt --library-plan-batch-norms | pyjit-opt --pyjit-fuse | FileCheck %s --check-prefix=FUSED

#last = #tssa.strides<[32768, 1, 1024, 32]>

// The mean, then the squares of the distances from it; half precision is computed in float32.
// CHECK-LABEL: func.func @training(
// CHECK: %[[X:.*]] = tssa.aten "aten::to.dtype"(%arg0, 6 : i64
// CHECK: %[[S:.*]] = tssa.aten "aten::sum.dim_IntList"(%[[X]], [0 : i64, 2 : i64, 3 : i64], false, none)
// CHECK: %[[M:.*]] = tssa.aten "aten::mul.Scalar"(%[[S]], 3.0517578125E-5 : f64)
// CHECK: %[[D:.*]] = tssa.aten "aten::sub.Tensor"
// CHECK: tssa.aten "aten::mul.Tensor"(%[[D]], %[[D]])
// CHECK: tssa.aten "aten::sum.dim_IntList"
// CHECK: tssa.aten "aten::rsqrt"
// CHECK: tssa.aten "aten::mul.Scalar"(%arg3, 9.000000e-01 : f64)
// CHECK-NOT: batch_norm
// CHECK: return
// One kernel has the sums and what follows from them, another one the result.
// FUSED-LABEL: func.func @training(
// FUSED: %[[S:.*]]:4 = call @{{.*}}(%arg0, %arg1, %arg3, %arg4) : {{.*}} -> (tensor<32xf32>, tensor<32xf32>, tensor<32xf32>, tensor<32xf32>)
// FUSED: call @{{.*}}(%arg0, %[[S]]#0, {{.*}}) : {{.*}} -> tensor<32x32x32x32xbf16, {{.*}}>
// FUSED-NEXT: return
func.func @training(%x: tensor<32x32x32x32xbf16, #last>, %w: tensor<32xf32>, %b: tensor<32xf32>, %m: tensor<32xf32>, %v: tensor<32xf32>) -> (tensor<32x32x32x32xbf16, #last>, tensor<32xf32>, tensor<32xf32>) {
  %0:5 = tssa.aten "aten::_native_batch_norm_legit_functional"(%x, %w, %b, %m, %v, true, 1.000000e-01 : f64, 1.000000e-05 : f64) : (tensor<32x32x32x32xbf16, #last>, tensor<32xf32>, tensor<32xf32>, tensor<32xf32>, tensor<32xf32>) -> (tensor<32x32x32x32xbf16, #last>, tensor<32xf32>, tensor<32xf32>, tensor<32xf32>, tensor<32xf32>)
  return %0#0, %0#3, %0#4 : tensor<32x32x32x32xbf16, #last>, tensor<32xf32>, tensor<32xf32>
}

// Both sums are of one walk; what is not wanted is not computed.
// CHECK-LABEL: func.func @gradients(
// CHECK-COUNT-2: tssa.aten "aten::sum.dim_IntList"
// CHECK-NOT: batch_norm
// CHECK: return
// FUSED-LABEL: func.func @gradients(
// FUSED: call @{{.*}}(%arg0, %arg1, %arg2, %arg3) : {{.*}} -> (tensor<32xf32>, tensor<32xf32>, tensor<32xf32>, tensor<32xf32>)
// FUSED: call @{{.*}} : {{.*}} -> tensor<32x32x32x32xbf16, {{.*}}>
// FUSED-NEXT: return
func.func @gradients(%dy: tensor<32x32x32x32xbf16, #last>, %x: tensor<32x32x32x32xbf16, #last>, %mean: tensor<32xf32>, %inverse: tensor<32xf32>, %w: tensor<32xf32>) -> (tensor<32x32x32x32xbf16, #last>, tensor<32xf32>, tensor<32xf32>) {
  %0:3 = tssa.aten "aten::native_batch_norm_backward"(%dy, %x, %w, none, none, %mean, %inverse, true, 1.000000e-05 : f64, [true, true, true]) : (tensor<32x32x32x32xbf16, #last>, tensor<32x32x32x32xbf16, #last>, tensor<32xf32>, tensor<32xf32>, tensor<32xf32>) -> (tensor<32x32x32x32xbf16, #last>, tensor<32xf32>, tensor<32xf32>)
  return %0#0, %0#1, %0#2 : tensor<32x32x32x32xbf16, #last>, tensor<32xf32>, tensor<32xf32>
}

// A momentum that differs between calls is a number of the kernels.
// CHECK-LABEL: func.func @number(
// CHECK: %[[ONES:.*]] = tssa.aten "aten::full_like"(%arg1, 1.000000e+00 : f64
// CHECK: %[[REST:.*]] = tssa.aten "aten::sub.Scalar"(%[[ONES]], number(%arg3), 1 : i64)
// CHECK: tssa.aten "aten::mul.Tensor"(%arg1, %[[REST]])
// CHECK: tssa.aten "aten::mul.Scalar"({{.*}}, number(%arg3))
// CHECK-NOT: batch_norm
// CHECK: return
// FUSED-LABEL: func.func @number(
// FUSED-NOT: full_like
// FUSED: return
func.func @number(%x: tensor<64x32xf32>, %m: tensor<32xf32>, %v: tensor<32xf32>, %n: tensor<f64>) -> (tensor<64x32xf32>, tensor<32xf32>, tensor<32xf32>) {
  %0:5 = tssa.aten "aten::_native_batch_norm_legit_functional"(%x, none, none, %m, %v, true, number(%n), 1.000000e-05 : f64) : (tensor<64x32xf32>, tensor<32xf32>, tensor<32xf32>, tensor<f64>) -> (tensor<64x32xf32>, tensor<32xf32>, tensor<32xf32>, tensor<32xf32>, tensor<32xf32>)
  return %0#0, %0#3, %0#4 : tensor<64x32xf32>, tensor<32xf32>, tensor<32xf32>
}

// Without running statistics, of rows of channels.
// CHECK-LABEL: func.func @rows(
// CHECK-NOT: batch_norm
// CHECK: return
func.func @rows(%x: tensor<64x32xf32>) -> tensor<64x32xf32> {
  %0:3 = tssa.aten "aten::_native_batch_norm_legit.no_stats"(%x, none, none, true, 1.000000e-01 : f64, 1.000000e-05 : f64) : (tensor<64x32xf32>) -> (tensor<64x32xf32>, tensor<32xf32>, tensor<32xf32>)
  return %0#0 : tensor<64x32xf32>
}

// Channels that lie apart, few values of a channel, double precision, running statistics that are used.
// On a host the first is taken: sums over each image's part of a channel, then over these; the mean is corrected by the
// mean of the distances from it.
// HOST-LABEL: func.func @kept(
// HOST: %[[PARTS:.*]] = tssa.aten "aten::sum.dim_IntList"(%arg0, [2 : i64, 3 : i64], false, none) : (tensor<8x32x8x8xf32>) -> tensor<8x32xf32>
// HOST: %[[SUM:.*]] = tssa.aten "aten::sum.dim_IntList"(%[[PARTS]], [0 : i64], false, none)
// HOST: %[[MEAN:.*]] = tssa.aten "aten::mul.Scalar"(%[[SUM]], 0.001953125 : f64)
// HOST: %[[CENTERED:.*]] = tssa.aten "aten::sub.Tensor"(%arg0,
// HOST: tssa.aten "aten::mul.Tensor"(%[[CENTERED]], %[[CENTERED]])
// HOST: tssa.aten "aten::sum.dim_IntList"(%[[CENTERED]], [2 : i64, 3 : i64]
// HOST-COUNT-3: batch_norm
// HOST: return
// CHECK-LABEL: func.func @kept(
// CHECK-COUNT-4: batch_norm
// CHECK: return
func.func @kept(%x: tensor<8x32x8x8xf32>, %y: tensor<2x32xf32>, %z: tensor<64x32xf64>, %w: tensor<64x32xf32>, %m: tensor<32xf32>, %v: tensor<32xf32>) -> (tensor<8x32x8x8xf32>, tensor<2x32xf32>, tensor<64x32xf64>, tensor<64x32xf32>) {
  %0:3 = tssa.aten "aten::_native_batch_norm_legit.no_stats"(%x, none, none, true, 1.000000e-01 : f64, 1.000000e-05 : f64) : (tensor<8x32x8x8xf32>) -> (tensor<8x32x8x8xf32>, tensor<32xf32>, tensor<32xf32>)
  %1:3 = tssa.aten "aten::_native_batch_norm_legit.no_stats"(%y, none, none, true, 1.000000e-01 : f64, 1.000000e-05 : f64) : (tensor<2x32xf32>) -> (tensor<2x32xf32>, tensor<32xf32>, tensor<32xf32>)
  %2:3 = tssa.aten "aten::_native_batch_norm_legit.no_stats"(%z, none, none, true, 1.000000e-01 : f64, 1.000000e-05 : f64) : (tensor<64x32xf64>) -> (tensor<64x32xf64>, tensor<32xf64>, tensor<32xf64>)
  %3:5 = tssa.aten "aten::_native_batch_norm_legit_functional"(%w, none, none, %m, %v, false, 1.000000e-01 : f64, 1.000000e-05 : f64) : (tensor<64x32xf32>, tensor<32xf32>, tensor<32xf32>) -> (tensor<64x32xf32>, tensor<0xf32>, tensor<0xf32>, tensor<32xf32>, tensor<32xf32>)
  return %0#0, %1#0, %2#0, %3#0 : tensor<8x32x8x8xf32>, tensor<2x32xf32>, tensor<64x32xf64>, tensor<64x32xf32>
}
