// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: pyjit-opt %s --pyjit-ptx | FileCheck %s --check-prefix=LLVM
// RUN: pyjit-opt %s --pyjit-ptx="gpu=a100" | pyjit-translate --kernels-to-ptx --chip=sm_90 | FileCheck %s --check-prefix=PTX
// RUN: pyjit-opt %s --pyjit-ptx="gpu=sm_80" | pyjit-translate --kernels-to-ptx --chip=sm_80 | FileCheck %s --check-prefix=SM80
// RUN: pyjit-opt %s --pyjit-ptx | pyjit-translate --kernels-to-ptx --chip=sm_100 | FileCheck %s --check-prefix=SM100
// RUN: pyjit-opt %s --pyjit-ptx=simulate=true | FileCheck %s --check-prefix=HOST
// RUN: pyjit-opt %s --pyjit-ptx="gpu=sm_80" | not pyjit-translate --kernels-to-ptx --chip=sm_70 2>&1 | FileCheck %s --check-prefix=CHIP

// CHIP: no chip from sm_80 on: 'sm_70'

// SM80: .target sm_80
// SM100: .target sm_100
// PTX: .target sm_90

#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>

// 16 bytes at a time; every load before the first store; no code for what lies
// behind the end, since nothing does.
// LLVM-LABEL: func.func private @relu
// LLVM-SAME: pyjit.align = array<i32: 16, 16>
// LLVM-SAME: pyjit.block = array<i32: 256, 1, 1>
// LLVM-SAME: pyjit.grid = array<i32: 256, 1, 1>
// LLVM-SAME: pyjit.schedule = {family = "flat", lanes = 4 : i64, threads = 256 : i64, vectors = 2 : i64}
// LLVM-SAME: pyjit.symbol = "maximumf_relu"
func.func @relu(%x: tensor<1024x512xf32>) -> tensor<1024x512xf32> attributes {pyjit.kernel,
    pyjit.schedule = {family = "flat", lanes = 4, vectors = 2, threads = 256}} {
  %e = tensor.empty() : tensor<1024x512xf32>
  %c = arith.constant 0.0 : f32
  %r = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<1024x512xf32>) outs(%e : tensor<1024x512xf32>) {
  ^bb0(%a: f32, %o: f32):
    %m = arith.maximumf %a, %c : f32
    linalg.yield %m : f32
  } -> tensor<1024x512xf32>
  return %r : tensor<1024x512xf32>
}

// An operand in a table of pointers is looked up once, at the entry.
// LLVM-LABEL: func.func private @indirect
// LLVM-SAME: pyjit.indirect = array<i1: true, false>
func.func @indirect(%x: tensor<64xf32>) -> tensor<64xf32> attributes {pyjit.kernel,
    pyjit.indirect = array<i1: true, false>,
    pyjit.schedule = {family = "flat", lanes = 4, vectors = 1, threads = 32}} {
  %e = tensor.empty() : tensor<64xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
      ins(%x : tensor<64xf32>) outs(%e : tensor<64xf32>) {
  ^bb0(%a: f32, %o: f32):
    %m = math.absf %a : f32
    linalg.yield %m : f32
  } -> tensor<64xf32>
  return %r : tensor<64xf32>
}

// A warp's partial sums meet by exchanges, the warps' in shared memory.
// LLVM-LABEL: func.func private @row_sum
// LLVM-SAME: pyjit.grid = array<i32: 6, 1, 1>
func.func @row_sum(%x: tensor<6x2048xf32>) -> tensor<6xf32> attributes {pyjit.kernel,
    pyjit.schedule = {family = "row", lanes = 4, vectors = 4, threads = 128, group = 128, resident = true}} {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<6xf32>
  %i = linalg.fill ins(%z : f32) outs(%e : tensor<6xf32>) -> tensor<6xf32>
  %r = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<6x2048xf32>) outs(%i : tensor<6xf32>) {
  ^bb0(%a: f32, %s: f32):
    %t = arith.addf %a, %s : f32
    linalg.yield %t : f32
  } -> tensor<6xf32>
  return %r : tensor<6xf32>
}

// Nothing is computed: nothing is launched.
// LLVM-LABEL: func.func private @nothing
// LLVM-SAME: pyjit.grid = array<i32: 0, 1, 1>
func.func @nothing(%x: tensor<0x8xf32>) -> tensor<0x8xf32> attributes {pyjit.kernel} {
  %e = tensor.empty() : tensor<0x8xf32>
  %r = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<0x8xf32>) outs(%e : tensor<0x8xf32>) {
  ^bb0(%a: f32, %o: f32):
    %m = math.absf %a : f32
    linalg.yield %m : f32
  } -> tensor<0x8xf32>
  return %r : tensor<0x8xf32>
}

// LLVM: module @kernels
// LLVM: llvm.func @maximumf_relu(%{{.*}}: !llvm.ptr<1>, %{{.*}}: !llvm.ptr<1>)

// PTX-LABEL: .visible .entry maximumf_relu(
// PTX: .reqntid 256, 1, 1
// PTX: ld.global.nc.v4.b32
// PTX: ld.global.nc.v4.b32
// PTX: max.NaN.f32
// PTX: st.global.v4.b32
// PTX: st.global.v4.b32
// PTX-NOT: setp
// PTX-LABEL: .visible .entry absf_indirect(
// PTX: ld.param.b64 [[TABLE:%rd[0-9]+]], [absf_indirect_param_0];
// PTX: ld.global.b64 [[X:%rd[0-9]+]], [[[TABLE]]];
// PTX: add.s64 [[AT:%rd[0-9]+]], [[X]],
// PTX: ld.global.nc.v4.b32 {{.*}}, [[[AT]]];
// PTX-LABEL: .visible .entry addf_row_sum(
// PTX-COUNT-4: ld.global.nc.v4.b32
// PTX-COUNT-5: shfl.sync.bfly.b32
// PTX: st.shared.b32
// PTX: bar.sync 0;
// PTX: ld.shared.b32
// PTX-COUNT-2: shfl.sync.bfly.b32
// PTX: st.global.b32

// HOST: llvm.func @pyjit_sim_exchange(i32, i32, i32, i32) -> i32
// HOST: llvm.func @sim_maximumf_relu(%{{.*}}: !llvm.ptr)
