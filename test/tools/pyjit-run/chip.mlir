// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A launch program for a GPU that is not here: of one size, and of any.
// RUN: pyjit-run %s --entry rows --chip sm_90 --print-launch | FileCheck %s --check-prefix=ROWS
// RUN: pyjit-run %s --entry sizes --chip sm_80 --print-launch | FileCheck %s --check-prefix=SIZES
// RUN: not pyjit-run %s --entry rows --chip sm_90 2>&1 | FileCheck %s --check-prefix=PRINT
// RUN: not pyjit-run %s --entry rows --chip sm_70 --print-launch 2>&1 | FileCheck %s --check-prefix=OLD
// PRINT: --chip takes --print-launch beside it
// OLD: no chip from sm_80 on: 'sm_70'

// ROWS: launch: 2 inputs, arena {{[0-9]+}}, on cuda:0
// ROWS: graph 0 {
// ROWS:   copy s0 to s[[X:[0-9]+]] patchable
// ROWS:   call aten::mm -> (s[[Y:[0-9]+]])
// ROWS:   kernel {{.*}} (s[[Y]], s[[Z:[0-9]+]]) grid {{[1-9]}}{{.*}} block {{[1-9][0-9]*}}x1x1 indirect {{.*}} [1]
// ROWS: }
// ROWS: outputs: s[[Z]]
func.func @rows(%x: tensor<8x16xf32>, %w: tensor<16x32xf32>) -> tensor<8x32xf32> {
  %0 = tssa.aten "aten::mm"(%x, %w) : (tensor<8x16xf32>, tensor<16x32xf32>) -> tensor<8x32xf32>
  %1 = tssa.aten "aten::relu"(%0) : (tensor<8x32xf32>) -> tensor<8x32xf32>
  return %1 : tensor<8x32xf32>
}

// SIZES: launch: 1 inputs, {{.*}}, on cuda:0
// SIZES: s0 = input 0: dtype 6 [-1, 8] strides [8, 1]
// SIZES: kernel {{.*}} (s0, {{.*}}) grid {{[1-9]}}{{.*}} block
func.func @sizes(%x: tensor<?x8xf32, #tssa.layout<[s0, 8], [8, 1]>>) -> tensor<?x8xf32, #tssa.layout<[s0, 8], [8, 1]>>
    attributes {pyjit.symbols = [array<i64: 0, 0>]} {
  %0 = tssa.aten "aten::relu"(%x) : (tensor<?x8xf32, #tssa.layout<[s0, 8], [8, 1]>>) -> tensor<?x8xf32, #tssa.layout<[s0, 8], [8, 1]>>
  return %0 : tensor<?x8xf32, #tssa.layout<[s0, 8], [8, 1]>>
}
