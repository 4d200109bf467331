// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: pyjit-opt %s --fusion-outline --fusion-in-place=remarks=true --split-input-file -verify-diagnostics | FileCheck %s
// RUN: pyjit-opt %s --fusion-outline --fusion-in-place="remarks=true reductions=false branches-first=true" --split-input-file 2>&1 | FileCheck %s --check-prefix=FLAT

#id = affine_map<(d0) -> (d0)>

// A kernel that reads of the input what it writes leaves its result there.
// CHECK-LABEL: func.func @add
// CHECK-SAME:    %[[X:.*]]: tensor<8xf32>, %[[Y:.*]]: tensor<8xf32>
// CHECK-NEXT:    call @[[K:.*]](%[[X]], %[[Y]]) {pyjit.in_place = array<i64: 0>}
// CHECK:       func.func private @[[K]]
// CHECK-SAME:    attributes {pyjit.kernel, pyjit.may_overlap = [array<i64: 0, 0>]}
func.func @add(%x: tensor<8xf32>, %y: tensor<8xf32>) -> tensor<8xf32> attributes {pyjit.updates = [array<i64: 0, 0>]} {
  %e = tensor.empty() : tensor<8xf32>
  %0 = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel"]} ins(%x, %y : tensor<8xf32>, tensor<8xf32>) outs(%e : tensor<8xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %r = arith.addf %a, %b : f32
    linalg.yield %r : f32
  } -> tensor<8xf32>
  return %0 : tensor<8xf32>
}

// -----

#id = affine_map<(d0) -> (d0)>

// A kernel that does not read it needs no proof of what it reads.
// CHECK-LABEL: func.func @fill
// CHECK:         call @[[K:.*]](%{{.*}}) {pyjit.in_place = array<i64: 0>}
// CHECK:       func.func private @[[K]]
// CHECK-SAME:    attributes {pyjit.kernel}
func.func @fill(%x: tensor<8xf32>, %y: tensor<8xf32>) -> tensor<8xf32> attributes {pyjit.updates = [array<i64: 0, 0>]} {
  %e = tensor.empty() : tensor<8xf32>
  %0 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%y : tensor<8xf32>) outs(%e : tensor<8xf32>) {
  ^bb0(%a: f32, %o: f32):
    %r = math.exp %a : f32
    linalg.yield %r : f32
  } -> tensor<8xf32>
  return %0 : tensor<8xf32>
}

// -----

#id = affine_map<(d0) -> (d0)>
#flip = affine_map<(d0) -> (7 - d0)>

// CHECK-LABEL: func.func @flip
// CHECK-NOT:     in_place
// expected-remark@+1 {{input 0 is copied to at the end: the kernel reads other elements of it than it writes}}
func.func @flip(%x: tensor<8xf32>) -> tensor<8xf32> attributes {pyjit.updates = [array<i64: 0, 0>]} {
  %e = tensor.empty() : tensor<8xf32>
  %v = linalg.generic {indexing_maps = [#flip, #id], iterator_types = ["parallel"]} ins(%x : tensor<8xf32>) outs(%e : tensor<8xf32>) {
  ^bb0(%a: f32, %o: f32):
    linalg.yield %a : f32
  } -> tensor<8xf32>
  %0 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%v : tensor<8xf32>) outs(%e : tensor<8xf32>) {
  ^bb0(%a: f32, %o: f32):
    %r = arith.negf %a : f32
    linalg.yield %r : f32
  } -> tensor<8xf32>
  return %0 : tensor<8xf32>
}

// -----

#id = affine_map<(d0) -> (d0)>

// CHECK-LABEL: func.func @gather
// expected-remark@+1 {{input 0 is copied to at the end: the kernel reads it at indices that are data}}
func.func @gather(%x: tensor<8xf32>, %i: tensor<8xi64>) -> tensor<8xf32> attributes {pyjit.updates = [array<i64: 0, 0>]} {
  %e = tensor.empty() : tensor<8xf32>
  %0 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%i : tensor<8xi64>) outs(%e : tensor<8xf32>) {
  ^bb0(%a: i64, %o: f32):
    %at = arith.index_cast %a : i64 to index
    %r = tensor.extract %x[%at] : tensor<8xf32>
    linalg.yield %r : f32
  } -> tensor<8xf32>
  return %0 : tensor<8xf32>
}

// -----

#id = affine_map<(d0) -> (d0)>

// What the input was is returned, too.
// CHECK-LABEL: func.func @old
// expected-remark@+1 {{input 0 is copied to at the end: what it was is read later}}
func.func @old(%x: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) attributes {pyjit.updates = [array<i64: 1, 0>]} {
  %e = tensor.empty() : tensor<8xf32>
  %0 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%x : tensor<8xf32>) outs(%e : tensor<8xf32>) {
  ^bb0(%a: f32, %o: f32):
    %r = arith.negf %a : f32
    linalg.yield %r : f32
  } -> tensor<8xf32>
  return %x, %0 : tensor<8xf32>, tensor<8xf32>
}

// -----

#id = affine_map<(d0) -> (d0)>

// A view of it is another name for it: here the kernel itself looks through one.
// CHECK-LABEL: func.func @view
// expected-remark@+1 {{input 0 is copied to at the end: what it was is read later}}
func.func @view(%x: tensor<8xf32>, %n: tensor<i64>) -> tensor<8xf32> attributes {pyjit.updates = [array<i64: 0, 0>]} {
  %e = tensor.empty() : tensor<8xf32>
  %v = tssa.access %x [#tssa.view<as_strided [0, 8, 0]>] : tensor<8xf32> -> tensor<8xf32, #tssa.strides<[0]>>
  %0 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%v : tensor<8xf32, #tssa.strides<[0]>>) outs(%e : tensor<8xf32>) {
  ^bb0(%a: f32, %o: f32):
    %r = arith.negf %a : f32
    linalg.yield %r : f32
  } -> tensor<8xf32>
  return %0 : tensor<8xf32>
}

// -----

#id = affine_map<(d0) -> (d0)>

// The kernel goes behind the vendor call, which may raise.
// CHECK-LABEL: func.func @behind
// CHECK-NEXT:    %[[M:.*]] = tssa.aten "aten::mm"
// CHECK-NEXT:    %[[R:.*]] = call @{{.*}} {pyjit.in_place = array<i64: 0>}
// CHECK-NEXT:    return %[[R]], %[[M]]
func.func @behind(%x: tensor<8xf32>, %y: tensor<4x4xf32>) -> (tensor<8xf32>, tensor<4x4xf32>) attributes {pyjit.updates = [array<i64: 0, 0>]} {
  %e = tensor.empty() : tensor<8xf32>
  %0 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%x : tensor<8xf32>) outs(%e : tensor<8xf32>) {
  ^bb0(%a: f32, %o: f32):
    %r = arith.negf %a : f32
    linalg.yield %r : f32
  } -> tensor<8xf32>
  %1 = tssa.aten "aten::mm"(%y, %y) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return %0, %1 : tensor<8xf32>, tensor<4x4xf32>
}

// -----

#id = affine_map<(d0, d1) -> (d0, d1)>

// CHECK-LABEL: func.func @needed
// CHECK-NEXT:    call
// CHECK-NEXT:    tssa.aten
// expected-remark@+1 {{input 0 is copied to at the end: something that may fail needs the kernel's results}}
func.func @needed(%x: tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>) attributes {pyjit.updates = [array<i64: 0, 0>]} {
  %e = tensor.empty() : tensor<4x4xf32>
  %0 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<4x4xf32>) outs(%e : tensor<4x4xf32>) {
  ^bb0(%a: f32, %o: f32):
    %r = arith.negf %a : f32
    linalg.yield %r : f32
  } -> tensor<4x4xf32>
  %1 = tssa.aten "aten::mm"(%0, %0) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return %0, %1 : tensor<4x4xf32>, tensor<4x4xf32>
}

// -----

#id = affine_map<(d0) -> (d0)>

// A speculation that does not hold leaves the call to another program: nothing
// is written before it.
// CHECK-LABEL: func.func @speculate
// CHECK-NEXT:    tssa.speculate
// CHECK-NEXT:    call @{{.*}} {pyjit.in_place = array<i64: 0>}
func.func @speculate(%x: tensor<8xf32>, %f: tensor<i1>) -> tensor<8xf32> attributes {pyjit.updates = [array<i64: 0, 0>]} {
  %e = tensor.empty() : tensor<8xf32>
  %0 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%x : tensor<8xf32>) outs(%e : tensor<8xf32>) {
  ^bb0(%a: f32, %o: f32):
    %r = arith.negf %a : f32
    linalg.yield %r : f32
  } -> tensor<8xf32>
  tssa.speculate %f : tensor<i1>
  return %0 : tensor<8xf32>
}

// -----

#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>

// A row is read as a whole before it is written: the store is in the last walk.
// CHECK-LABEL: func.func @center
// CHECK-NEXT:    call @{{.*}} {pyjit.in_place = array<i64: 0>}
// FLAT: remark: input 0 is copied to at the end: the kernel reduces
func.func @center(%x: tensor<4x64xf32>) -> tensor<4x64xf32> attributes {pyjit.updates = [array<i64: 0, 0>]} {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4xf32>
  %f = tensor.empty() : tensor<4x64xf32>
  %i = linalg.fill ins(%zero : f32) outs(%e : tensor<4xf32>) -> tensor<4xf32>
  %s = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<4x64xf32>) outs(%i : tensor<4xf32>) {
  ^bb0(%a: f32, %acc: f32):
    %r = arith.addf %a, %acc : f32
    linalg.yield %r : f32
  } -> tensor<4xf32>
  %0 = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]} ins(%x, %s : tensor<4x64xf32>, tensor<4xf32>) outs(%f : tensor<4x64xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %r = arith.subf %a, %b : f32
    linalg.yield %r : f32
  } -> tensor<4x64xf32>
  return %0 : tensor<4x64xf32>
}

// -----

#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>

// Here it is stored in the first walk, and the second one would read it again.
// CHECK-LABEL: func.func @again
// expected-remark@+1 {{input 0 is copied to at the end: the kernel reads it again after it has written it}}
func.func @again(%x: tensor<4x64xf32>) -> (tensor<4x64xf32>, tensor<4x64xf32>) attributes {pyjit.updates = [array<i64: 0, 0>]} {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4xf32>
  %f = tensor.empty() : tensor<4x64xf32>
  %i = linalg.fill ins(%zero : f32) outs(%e : tensor<4xf32>) -> tensor<4xf32>
  %n = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<4x64xf32>) outs(%f : tensor<4x64xf32>) {
  ^bb0(%a: f32, %o: f32):
    %r = arith.negf %a : f32
    linalg.yield %r : f32
  } -> tensor<4x64xf32>
  %s = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]} ins(%n : tensor<4x64xf32>) outs(%i : tensor<4xf32>) {
  ^bb0(%a: f32, %acc: f32):
    %r = arith.addf %a, %acc : f32
    linalg.yield %r : f32
  } -> tensor<4xf32>
  %0 = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]} ins(%x, %s : tensor<4x64xf32>, tensor<4xf32>) outs(%f : tensor<4x64xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %r = arith.subf %a, %b : f32
    linalg.yield %r : f32
  } -> tensor<4x64xf32>
  return %n, %0 : tensor<4x64xf32>, tensor<4x64xf32>
}

// -----

#id = affine_map<(d0) -> (d0)>

// One result is in one place; the other input gets a copy.
// CHECK-LABEL: func.func @twice
// CHECK-NEXT:    call @{{.*}} {pyjit.in_place = array<i64: 0>}
// expected-remark@+1 {{input 1 is copied to at the end: two inputs have the same new contents}}
func.func @twice(%x: tensor<8xf32>, %y: tensor<8xf32>, %z: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) attributes {pyjit.updates = [array<i64: 0, 0>, array<i64: 1, 1>]} {
  %e = tensor.empty() : tensor<8xf32>
  %0 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%z : tensor<8xf32>) outs(%e : tensor<8xf32>) {
  ^bb0(%a: f32, %o: f32):
    %r = arith.negf %a : f32
    linalg.yield %r : f32
  } -> tensor<8xf32>
  return %0, %0 : tensor<8xf32>, tensor<8xf32>
}

// -----

// CHECK-LABEL: func.func @vendor
// expected-remark@+1 {{input 0 is copied to at the end: no kernel computes the new contents}}
func.func @vendor(%x: tensor<4x4xf32>) -> tensor<4x4xf32> attributes {pyjit.updates = [array<i64: 0, 0>]} {
  %0 = tssa.aten "aten::mm"(%x, %x) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return %0 : tensor<4x4xf32>
}

// -----

#id = affine_map<(d0) -> (d0)>

// Of two kernels that each read the other's input one has to give way.
// CHECK-LABEL: func.func @crossed
// CHECK:         {pyjit.in_place = array<i64: {{[01]}}>}
// CHECK-NOT:     in_place
// CHECK:         return
// expected-remark@+1 {{input 1 is copied to at the end: what it was is read later}}
func.func @crossed(%x: tensor<8xf32>, %y: tensor<8xf32>, %z: tensor<8x2xf32>) -> (tensor<8xf32>, tensor<8xf32>) attributes {pyjit.updates = [array<i64: 0, 0>, array<i64: 1, 1>]} {
  %e = tensor.empty() : tensor<8xf32>
  %0 = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel"]} ins(%x, %y : tensor<8xf32>, tensor<8xf32>) outs(%e : tensor<8xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %r = arith.addf %a, %b : f32
    linalg.yield %r : f32
  } -> tensor<8xf32>
  %1 = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel"]} ins(%x, %y : tensor<8xf32>, tensor<8xf32>) outs(%e : tensor<8xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %r = arith.mulf %a, %b : f32
    linalg.yield %r : f32
  } -> tensor<8xf32>
  return %0, %1 : tensor<8xf32>, tensor<8xf32>
}

// -----

#id = affine_map<(d0) -> (d0)>

// A branch hands on what the input was.
// CHECK-LABEL: func.func @branch
// expected-remark@+1 {{input 0 is copied to at the end: what it was is read later}}
func.func @branch(%x: tensor<8xf32>, %y: tensor<8xf32>, %f: tensor<i1>) -> (tensor<8xf32>, tensor<8xf32>) attributes {pyjit.updates = [array<i64: 0, 0>]} {
  %e = tensor.empty() : tensor<8xf32>
  %flag = tensor.extract %f[] : tensor<i1>
  %1 = scf.if %flag -> tensor<8xf32> {
    scf.yield %x : tensor<8xf32>
  } else {
    scf.yield %y : tensor<8xf32>
  }
  %0 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%x : tensor<8xf32>) outs(%e : tensor<8xf32>) {
  ^bb0(%a: f32, %o: f32):
    %r = arith.negf %a : f32
    linalg.yield %r : f32
  } -> tensor<8xf32>
  return %0, %1 : tensor<8xf32>, tensor<8xf32>
}

// -----

#id = affine_map<(d0) -> (d0)>

// A branch of kernels cannot fail. On a device it reads copies that are made in front of everything.
// CHECK-LABEL: func.func @before_branch
// CHECK:         %[[R:.*]] = call @{{.*}} {pyjit.in_place = array<i64: 0>}
// CHECK:         scf.if
// FLAT: remark: input 0 is copied to at the end: something that may fail needs the kernel's results
func.func @before_branch(%x: tensor<8xf32>, %y: tensor<8xf32>, %f: tensor<i1>) -> (tensor<8xf32>, tensor<8xf32>) attributes {pyjit.updates = [array<i64: 0, 0>]} {
  %e = tensor.empty() : tensor<8xf32>
  %0 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%x : tensor<8xf32>) outs(%e : tensor<8xf32>) {
  ^bb0(%a: f32, %o: f32):
    %r = arith.negf %a : f32
    linalg.yield %r : f32
  } -> tensor<8xf32>
  %flag = tensor.extract %f[] : tensor<i1>
  %1 = scf.if %flag -> tensor<8xf32> {
    %e2 = tensor.empty() : tensor<8xf32>
    %2 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%0 : tensor<8xf32>) outs(%e2 : tensor<8xf32>) {
    ^bb0(%a: f32, %o: f32):
      %r = math.absf %a : f32
      linalg.yield %r : f32
    } -> tensor<8xf32>
    scf.yield %2 : tensor<8xf32>
  } else {
    scf.yield %y : tensor<8xf32>
  }
  return %0, %1 : tensor<8xf32>, tensor<8xf32>
}
