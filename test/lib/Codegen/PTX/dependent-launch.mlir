// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: pyjit-opt %s --ptx-emit-kernels=dependent-launch=true | FileCheck %s
// RUN: pyjit-opt %s --ptx-emit-kernels | FileCheck %s --check-prefix=ALONE
// RUN: pyjit-opt %s --pyjit-ptx="gpu=sm_90" -o %t
// RUN: pyjit-translate %t --kernels-to-ptx --chip=sm_90 | FileCheck %s --check-prefix=PTX
// RUN: not pyjit-translate %t --kernels-to-ptx --chip=sm_80 2>&1 | FileCheck %s --check-prefix=OLD
// RUN: pyjit-opt %s --pyjit-ptx="gpu=a100" | pyjit-translate --kernels-to-ptx --chip=sm_80 | FileCheck %s --check-prefix=ALONE

// A kernel that may begin before the one in front of it has ended lets the next
// one begin, waits, and only then reads. What it reads may have been written
// meanwhile: no load is invariant.
// CHECK: func.func private @add{{.*}}pyjit.waits
// CHECK-LABEL: func.func @addf
// CHECK-NEXT: llvm.inline_asm has_side_effects {{.*}}griddepcontrol.launch_dependents;{{.*}}griddepcontrol.wait;{{.*}}"~{memory}"
// CHECK-NOT: invariant
// CHECK: return

// PTX: .visible .entry addf
// PTX-NOT: ld.global
// PTX: griddepcontrol.launch_dependents;
// PTX-NEXT: griddepcontrol.wait;
// PTX-NOT: ld.global.nc
// PTX: ld.global
// PTX-NOT: ld.global.nc
// PTX: st.global

// Others need not wait, and read what does not change through the read-only path.
// ALONE-NOT: griddepcontrol
// ALONE: {{invariant|ld.global.nc}}
// ALONE-NOT: griddepcontrol
// ALONE-NOT: pyjit.waits

// OLD: waits for the kernel in front of it, which takes sm_90: emit it for sm_80
#id = affine_map<(d0) -> (d0)>
func.func private @add(%x: tensor<4096xf32>) -> tensor<4096xf32> attributes {pyjit.kernel} {
  %e = tensor.empty() : tensor<4096xf32>
  %r = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]}
      ins(%x : tensor<4096xf32>) outs(%e : tensor<4096xf32>) {
  ^bb0(%a: f32, %o: f32):
    %t = arith.addf %a, %a : f32
    linalg.yield %t : f32
  } -> tensor<4096xf32>
  return %r : tensor<4096xf32>
}
