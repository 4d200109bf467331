// RUN: pyjit-opt %s --x86-emit-kernels | FileCheck %s
// RUN: pyjit-opt %s --x86-emit-kernels=print-schedules -o /dev/null 2>&1 | FileCheck %s --check-prefix=SCHEDULE
// RUN: pyjit-opt %s --pyjit-x86=vector-bits=512 | FileCheck %s --check-prefix=WIDE

// WIDE-LABEL: llvm.func @turn
// WIDE-COUNT-16: llvm.load {{.*}} vector<16xf32>
// WIDE: llvm.shufflevector {{.*}} vector<16xf32>

#t = affine_map<(d0, d1) -> (d1, d0)>
#id = affine_map<(d0, d1) -> (d0, d1)>

// Eight vectors are read, turned in three steps of eight shuffles, and stored.
// CHECK-LABEL: func.func @turn
// CHECK-COUNT-8: llvm.load {{.*}} -> vector<8xf32>
// CHECK-COUNT-24: vector.shuffle
// CHECK-COUNT-8: llvm.store {{.*}} : vector<8xf32>
// Rests are read element by element.
// CHECK: llvm.load {{.*}} -> f32
// SCHEDULE: tile dim 0, 8 rows
func.func @turn(%x: tensor<100x70xf32>) -> tensor<70x100xf32> attributes {pyjit.kernel} {
  %e = tensor.empty() : tensor<70x100xf32>
  %r = linalg.generic {indexing_maps = [#t, #id], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<100x70xf32>) outs(%e : tensor<70x100xf32>) {
  ^bb0(%a: f32, %o: f32):
    linalg.yield %a : f32
  } -> tensor<70x100xf32>
  return %r : tensor<70x100xf32>
}
