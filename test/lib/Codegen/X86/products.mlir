// RUN: pyjit-opt %s --x86-emit-kernels | FileCheck %s
// RUN: pyjit-opt %s --x86-emit-kernels=print-schedules -o /dev/null 2>&1 | FileCheck %s --check-prefix=SCHEDULE
// RUN: pyjit-opt %s --pyjit-x86=vector-bits=512 | FileCheck %s --check-prefix=WIDE

#x = affine_map<(m, n, k) -> (m, k)>
#w = affine_map<(m, n, k) -> (n floordiv 16, k, n mod 16)>
#y = affine_map<(m, n, k) -> (m, n)>

// Six rows of two vectors are in flight: twelve sums, each of products that are
// added in one rounding; four rows are left for the last tile of 34.
// WIDE-LABEL: llvm.func @product
// WIDE: llvm.intr.fma{{.*}} vector<16xf32>

// CHECK-LABEL: func.func @product
// CHECK: scf.for {{.*}} -> (vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>) : i64 {
// CHECK-COUNT-12: math.fma {{.*}} : vector<8xf32>
// CHECK: scf.yield
// CHECK: scf.for {{.*}} -> (vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>) : i64 {
// SCHEDULE: vector dim 2, 8 lanes x 2, tile dim 1, 6 rows
func.func @product(%x: tensor<34x8xf32>, %w: tensor<2x8x16xf32>) -> tensor<34x32xf32> attributes {pyjit.kernel} {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<34x32xf32>
  %i = linalg.fill ins(%z : f32) outs(%e : tensor<34x32xf32>) -> tensor<34x32xf32>
  %r = linalg.generic {indexing_maps = [#x, #w, #y], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x, %w : tensor<34x8xf32>, tensor<2x8x16xf32>) outs(%i : tensor<34x32xf32>) {
  ^bb0(%a: f32, %b: f32, %s: f32):
    %p = arith.mulf %a, %b : f32
    %t = arith.addf %s, %p : f32
    linalg.yield %t : f32
  } -> tensor<34x32xf32>
  return %r : tensor<34x32xf32>
}
