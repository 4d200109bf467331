// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: pyjit-opt %s --library-plan-attention-rows --convert-tssa-to-linalg --cse --fusion-outline=attention=true | pyjit-opt --pyjit-ptx=gpu=h200 | FileCheck %s --check-prefix=LLVM
// RUN: pyjit-opt %s --library-plan-attention-rows --convert-tssa-to-linalg --cse --fusion-outline=attention=true | pyjit-opt --pyjit-ptx=gpu=h200 | pyjit-translate --kernels-to-ptx --chip=sm_90 | FileCheck %s --check-prefix=PTX
// RUN: pyjit-opt %s --library-plan-attention-rows --convert-tssa-to-linalg --cse --fusion-outline=attention=true | pyjit-opt --pyjit-ptx=gpu=h200 | not pyjit-translate --kernels-to-ptx --chip=sm_80 2>&1 | FileCheck %s --check-prefix=OLD
// RUN: pyjit-opt %s --library-plan-attention-rows --convert-tssa-to-linalg --cse --fusion-outline=attention=true | pyjit-opt --ptx-emit-kernels | FileCheck %s --check-prefix=ONE
// RUN: pyjit-opt %s --library-plan-attention-rows --convert-tssa-to-linalg --cse --fusion-outline=attention=true | not pyjit-opt --pyjit-x86 2>&1 | FileCheck %s --check-prefix=X86

// Two heads of keys: a cluster of blocks for each, whose sums meet in the first one's shared memory. Keys and values
// are read once, by sixteen bytes, whatever their number.
// LLVM: func.func private @kernel_0
// LLVM-SAME: pyjit.cluster = 8 : i32
// LLVM-SAME: pyjit.grid = array<i32: 16, 1, 1>
// LLVM-SAME: pyjit.reads_symbols = array<i64: 0>
// LLVM-SAME: pyjit.schedule = {blocks = 1 : i64, family = "attention", group = 8 : i64, lanes = 8 : i64, threads = 256 : i64, vectors = 4 : i64}
// PTX: .entry
// PTX: .reqnctapercluster 8, 1, 1
// PTX: ld.global.v4.b32
// PTX: shfl.sync.bfly
// PTX: bar{{.*}}.sync
// PTX: barrier.cluster.arrive.aligned
// PTX: barrier.cluster.wait.aligned
// PTX-COUNT-8: mapa.shared::cluster
// PTX: st.global.v4.b32
// PTX: barrier.cluster.arrive.aligned
// PTX: barrier.cluster.wait.aligned
// OLD: kernel 'kernel_0' waits for the kernel in front of it, which takes sm_90: emit it for sm_80

// Where blocks have no clusters, one has a head.
// ONE-NOT: pyjit.cluster
// ONE: pyjit.grid = array<i32: 2, 1, 1>
// ONE-NOT: barrier.cluster

// X86: error: kernel 'kernel_0' is a softmax between two sums, which GPUs alone have in one kernel
func.func @grouped(%q: tensor<1x4x1x16xf16>, %k: tensor<1x2x?x16xf16, #tssa.layout<[1, 2, s0, 16], [s0 * 32, s0 * 16, 16, 1]>>, %v: tensor<1x2x?x16xf16, #tssa.layout<[1, 2, s0, 16], [s0 * 32, s0 * 16, 16, 1]>>) -> tensor<1x4x1x16xf16> {
  %0 = tssa.aten "aten::scaled_dot_product_attention"(%q, %k, %v, none, 0.0 : f64, false, none, true) : (tensor<1x4x1x16xf16>, tensor<1x2x?x16xf16, #tssa.layout<[1, 2, s0, 16], [s0 * 32, s0 * 16, 16, 1]>>, tensor<1x2x?x16xf16, #tssa.layout<[1, 2, s0, 16], [s0 * 32, s0 * 16, 16, 1]>>) -> tensor<1x4x1x16xf16>
  return %0 : tensor<1x4x1x16xf16>
}
