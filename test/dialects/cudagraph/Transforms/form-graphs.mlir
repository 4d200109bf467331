// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: pyjit-opt %s --pass-pipeline='builtin.module(cudagraph.program(cudagraph-form-graphs{explain=true}))' --split-input-file -verify-diagnostics | FileCheck %s
// RUN: pyjit-opt %s --pass-pipeline='builtin.module(cudagraph.program(cudagraph-form-graphs{explain=true min-launches=1}))' --split-input-file -verify-diagnostics | FileCheck %s --check-prefix=ONE

!vec = !cudagraph.buffer<tensor<8xf32>>

// CHECK-LABEL: @whole
// CHECK: %[[T:.*]] = cudagraph.buffer
// CHECK: cudagraph.graph externals(%{{.*}}, %{{.*}} :
// CHECK-NEXT: cudagraph.kernel @a
// CHECK-NEXT: cudagraph.kernel @b
// CHECK-NEXT: cudagraph.yield
cudagraph.program @whole on "cuda:0" {
  %x = cudagraph.external input 0 : !vec
  %y = cudagraph.external output 0 : !vec
  %t = cudagraph.buffer : !vec
  cudagraph.kernel @a(%x) to (%t) : (!vec) -> (!vec)
  cudagraph.kernel @b(%t) to (%y) : (!vec) -> (!vec)
  cudagraph.return %y : !vec
}

// -----

!vec = !cudagraph.buffer<tensor<8xf32>>
!flag = !cudagraph.buffer<tensor<i1>>

// A range check stops the device by itself: no reason to leave the graph.
// CHECK-LABEL: @range_check
// CHECK: cudagraph.graph
// CHECK: aten::_assert_async.msg
// CHECK: cudagraph.kernel @read
// CHECK: cudagraph.yield
cudagraph.program @range_check on "cuda:0" {
  %x = cudagraph.external input 0 : !vec
  %y = cudagraph.external output 0 : !vec
  %f = cudagraph.buffer : !flag
  cudagraph.kernel @check(%x) to (%f) : (!vec) -> (!flag)
  cudagraph.call "aten::_assert_async.msg"(%f, "out of range") : (!flag) -> ()
  cudagraph.kernel @read(%x) to (%y) : (!vec) -> (!vec)
  cudagraph.return %y : !vec
}

// -----

!vec = !cudagraph.buffer<tensor<8xf32>>

// One launch is launched by itself.
// CHECK-LABEL: @one
// CHECK-NOT: cudagraph.graph
// ONE-LABEL: @one
// ONE: cudagraph.graph
cudagraph.program @one on "cuda:0" {
  %x = cudagraph.external input 0 : !vec
  %y = cudagraph.external output 0 : !vec
  cudagraph.kernel @a(%x) to (%y) : (!vec) -> (!vec)
  cudagraph.return %y : !vec
}

// -----

!vec = !cudagraph.buffer<tensor<8xf32>>

// Around a call that draws random numbers; what a vendor call made in the
// first graph and the second one reads is yielded.
// CHECK-LABEL: @around
// CHECK: %[[R:.*]] = cudagraph.graph {{.*}} to(!cudagraph.buffer<tensor<8xf32>>)
// CHECK: cudagraph.kernel @a
// CHECK: %[[I:.*]] = cudagraph.call "aten::cumsum"
// CHECK: cudagraph.yield %[[I]]
// CHECK: %[[N:.*]] = cudagraph.call "aten::bernoulli"(%[[R]]
// What is made outside is elsewhere at the next call: external as well.
// CHECK: cudagraph.graph externals(%[[N]],
// CHECK: cudagraph.kernel @b(%[[N]], %[[R]])
cudagraph.program @around on "cuda:0" {
  %x = cudagraph.external input 0 : !vec
  %y = cudagraph.external output 0 : !vec
  %t = cudagraph.buffer : !vec
  %u = cudagraph.buffer : !vec
  cudagraph.kernel @a(%x) to (%t) : (!vec) -> (!vec)
  %i = cudagraph.call "aten::cumsum"(%t, 0 : i64, none) : (!vec) -> (!vec)
  // expected-remark @+1 {{stays outside of graphs: it draws random numbers}}
  %n = cudagraph.call "aten::bernoulli"(%i, none) : (!vec) -> (!vec)
  cudagraph.kernel @b(%n, %i) to (%u) : (!vec, !vec) -> (!vec)
  cudagraph.kernel @c(%u) to (%y) : (!vec) -> (!vec)
  cudagraph.return %y : !vec
}

// -----

!vec = !cudagraph.buffer<tensor<8xf32>>
!mat = !cudagraph.buffer<tensor<8x8xf32>>

// A vendor call reads a copy of what moves, and a parameter where it is; what
// it made and the caller gets is copied to an output.
// CHECK-LABEL: @staged
// CHECK: %[[Y:.*]] = cudagraph.external output 1
// CHECK: %[[X:.*]] = cudagraph.external input 0
// CHECK: %[[W:.*]] = cudagraph.external input 1 stable
// CHECK: cudagraph.graph
// CHECK: cudagraph.copy %[[X]] to %[[C:.*]] patchable :
// CHECK: %[[M:.*]] = cudagraph.call "aten::mv"(%[[W]], %[[C]])
// CHECK-NEXT: cudagraph.copy %[[M]] to %[[Y]] :
// CHECK-NEXT: cudagraph.kernel @a(%[[X]], %[[M]])
// CHECK: cudagraph.return %{{.*}}, %[[Y]]
cudagraph.program @staged on "cuda:0" {
  %x = cudagraph.external input 0 : !vec
  %w = cudagraph.external input 1 stable : !mat
  %y = cudagraph.external output 0 : !vec
  %m = cudagraph.call "aten::mv"(%w, %x) : (!mat, !vec) -> (!vec)
  cudagraph.kernel @a(%x, %m) to (%y) : (!vec, !vec) -> (!vec)
  cudagraph.return %y, %m : !vec, !vec
}

// -----

!mat = !cudagraph.buffer<tensor<8x8xf32>>
!flat = !cudagraph.buffer<tensor<64xf32>>

// A call that can write where it is told writes a buffer of the program's, which
// stands in for the output; what else is made of the result reads that.
// CHECK-LABEL: @destination
// CHECK: %[[Z:.*]] = cudagraph.external output 2
// CHECK: %[[Y:.*]] = cudagraph.external output 1
// CHECK: %[[T:.*]] = cudagraph.buffer : !cudagraph.buffer<tensor<8x8xf32>>
// CHECK: cudagraph.graph
// CHECK: cudagraph.call "aten::mm.out"(%{{.*}}, %{{.*}}, %[[T]]) mutates [2]
// CHECK: cudagraph.copy %[[T]] to %[[Z]] :
// CHECK: %[[V:.*]] = cudagraph.view %[[T]] at 0
// CHECK: cudagraph.copy %[[V]] to %[[Y]] patchable
// CHECK: cudagraph.kernel @a(%[[T]])
// CHECK: cudagraph.return %[[Y]], %{{.*}}, %[[Z]]
cudagraph.program @destination on "cuda:0" {
  %x = cudagraph.external input 0 stable : !mat
  %y = cudagraph.external output 0 : !mat
  %m = cudagraph.call "aten::mm"(%x, %x) : (!mat, !mat) -> (!mat)
  %v = cudagraph.view %m at 0 : !mat to !flat
  cudagraph.kernel @a(%m) to (%y) : (!mat) -> (!mat)
  cudagraph.return %v, %y, %m : !flat, !mat, !mat
}

// -----

!vec = !cudagraph.buffer<tensor<8xf32>>
!mat = !cudagraph.buffer<tensor<8x8xf32>>

// Not where a part is handed out, or where others than the graph read it.
// CHECK-LABEL: @no_destination
// CHECK-NOT: patchable
// CHECK-NOT: aten::mm.out
cudagraph.program @no_destination on "cuda:0" {
  %x = cudagraph.external input 0 stable : !mat
  %y = cudagraph.external output 0 : !mat
  %a = cudagraph.call "aten::mm"(%x, %x) : (!mat, !mat) -> (!mat)
  %v = cudagraph.view %a at 8 : !mat to !vec
  %b = cudagraph.call "aten::mm"(%x, %x) : (!mat, !mat) -> (!mat)
  // expected-remark @+1 {{stays outside of graphs: it draws random numbers}}
  %n = cudagraph.call "aten::bernoulli"(%b, none) : (!mat) -> (!mat)
  cudagraph.kernel @a(%n) to (%y) : (!mat) -> (!mat)
  cudagraph.return %v, %y, %b : !vec, !mat, !mat
}

// -----

!vec = !cudagraph.buffer<tensor<8xf32>>
!half = !cudagraph.buffer<tensor<4xf32>>

// Views inside and behind a graph.
// CHECK-LABEL: @views
// CHECK: %[[R:.*]]:2 = cudagraph.graph
// CHECK: %[[S:.*]] = cudagraph.call "aten::cumsum"
// CHECK: %[[V:.*]] = cudagraph.view %[[S]] at 4
// CHECK: cudagraph.call "aten::exp"(%[[V]])
// CHECK: %[[B:.*]] = cudagraph.view %[[R]]#1 at 4
// CHECK: cudagraph.call "aten::bernoulli"(%[[B]]
cudagraph.program @views on "cuda:0" {
  %x = cudagraph.external input 0 stable : !vec
  %s = cudagraph.call "aten::cumsum"(%x, 0 : i64, none) : (!vec) -> (!vec)
  %v = cudagraph.view %s at 4 : !vec to !half
  %e = cudagraph.call "aten::exp"(%v) : (!half) -> (!half)
  // expected-remark @+1 {{stays outside of graphs: it draws random numbers}}
  %n = cudagraph.call "aten::bernoulli"(%v, none) : (!half) -> (!half)
  %d = cudagraph.call "aten::exp"(%e) : (!half) -> (!half)
  cudagraph.return %n, %d : !half, !half
}

// -----

!vec = !cudagraph.buffer<tensor<8xf32>>
!half = !cudagraph.buffer<tensor<4xf32>>

// Views that stand in front of a graph: it declares the memory that they show, whose address a replay renews.
// CHECK-LABEL: @views_in_front
// CHECK: %[[X:.*]] = cudagraph.external input 0
// CHECK: %[[V:.*]] = cudagraph.view %[[X]] at 4
// CHECK: %[[P:.*]] = cudagraph.graph externals(%[[X]]
// CHECK: cudagraph.kernel @a(%[[V]])
// CHECK: cudagraph.yield
// CHECK: %[[N:.*]] = cudagraph.call "aten::bernoulli"(%[[P]]
// CHECK: %[[W:.*]] = cudagraph.view %[[N]] at 4
// CHECK: cudagraph.graph externals(%[[X]], %[[N]], %{{.*}} :
// CHECK-NEXT: cudagraph.kernel @b(%[[V]], %[[W]])
cudagraph.program @views_in_front on "cuda:0" {
  %x = cudagraph.external input 0 : !vec
  %y = cudagraph.external output 0 : !half
  %s = cudagraph.buffer : !half
  %t = cudagraph.buffer : !half
  %v = cudagraph.view %x at 4 : !vec to !half
  cudagraph.kernel @a(%v) to (%s) : (!half) -> (!half)
  %c = cudagraph.call "aten::cumsum"(%s, 0 : i64, none) : (!half) -> (!vec)
  // expected-remark @+1 {{stays outside of graphs: it draws random numbers}}
  %n = cudagraph.call "aten::bernoulli"(%c, none) : (!vec) -> (!vec)
  %w = cudagraph.view %n at 4 : !vec to !half
  cudagraph.kernel @b(%v, %w) to (%t) : (!half, !half) -> (!half)
  cudagraph.kernel @a(%t) to (%y) : (!half) -> (!half)
  cudagraph.return %y : !half
}

// -----

!vec = !cudagraph.buffer<tensor<8xf32>>

!half = !cudagraph.buffer<tensor<4xf32>>

// A returned view of what a vendor call made is copied as the view shows it.
// CHECK-LABEL: @returned_view
// CHECK: cudagraph.graph
// CHECK: %[[T:.*]] = cudagraph.call "aten::cumsum"
// CHECK: %[[T2:.*]] = cudagraph.call "aten::cumsum"(%[[T]]
// CHECK: %[[V:.*]] = cudagraph.view %[[T2]] at 4
// CHECK: cudagraph.copy %[[V]] to %{{.*}} : !cudagraph.buffer<tensor<4xf32>>
cudagraph.program @returned_view on "cuda:0" {
  %x = cudagraph.external input 0 stable : !vec
  %s = cudagraph.call "aten::cumsum"(%x, 0 : i64, none) : (!vec) -> (!vec)
  %t = cudagraph.call "aten::cumsum"(%s, 0 : i64, none) : (!vec) -> (!vec)
  %v = cudagraph.view %t at 4 : !vec to !half
  cudagraph.return %v : !half
}

// -----

!vec = !cudagraph.buffer<tensor<8xf32>>
!half = !cudagraph.buffer<tensor<4xf32>>
!flat = !cudagraph.buffer<tensor<2x2xf32>>

// What is used behind the graph by way of a view of a view stands in front of it.
// CHECK-LABEL: @view_of_a_view
// CHECK: %[[B:.*]] = cudagraph.buffer
// CHECK: %[[V:.*]] = cudagraph.view %[[B]] at 4
// CHECK: %[[W:.*]] = cudagraph.view %[[V]] at 0
// CHECK: cudagraph.graph
// CHECK: cudagraph.kernel @b(%[[V]])
// CHECK: cudagraph.return {{.*}}%[[W]]
cudagraph.program @view_of_a_view on "cuda:0" {
  %x = cudagraph.external input 0 stable : !vec
  %y = cudagraph.external output 0 : !half
  %b = cudagraph.buffer : !vec
  cudagraph.kernel @a(%x) to (%b) : (!vec) -> (!vec)
  %v = cudagraph.view %b at 4 : !vec to !half
  %w = cudagraph.view %v at 0 : !half to !flat
  cudagraph.kernel @b(%v) to (%y) : (!half) -> (!half)
  cudagraph.return %y, %w : !half, !flat
}

// -----

!vec = !cudagraph.buffer<tensor<8xf32>>

// What is not known is not captured.
// CHECK-LABEL: @unknown
// CHECK-NOT: cudagraph.graph
cudagraph.program @unknown on "cuda:0" {
  %x = cudagraph.external input 0 : !vec
  // expected-remark @+1 {{stays outside of graphs: the operator table does not know what it does}}
  %a = cudagraph.call "mylib::op"(%x) : (!vec) -> (!vec)
  // expected-remark @+1 {{stays outside of graphs: the shape of its result depends on data}}
  %b = cudagraph.call "aten::nonzero"(%a) : (!vec) -> (!cudagraph.buffer<tensor<3x1xi64>>)
  cudagraph.return %b : !cudagraph.buffer<tensor<3x1xi64>>
}

// -----

!q = !cudagraph.buffer<tensor<1x2x4x8xf32>>

// Attention without dropout draws nothing; a call reads a copy of what another
// one made outside.
// CHECK-LABEL: @attention
// CHECK: %[[N:.*]] = cudagraph.call "aten::bernoulli"
// CHECK: cudagraph.graph externals(%[[N]]
// CHECK: cudagraph.copy %[[N]] to %[[C:.*]] patchable :
// CHECK: cudagraph.call "aten::scaled_dot_product_attention"(%[[C]], %[[C]], %[[C]]
cudagraph.program @attention on "cuda:0" {
  %x = cudagraph.external input 0 : !q
  // expected-remark @+1 {{stays outside of graphs: it draws random numbers}}
  %n = cudagraph.call "aten::bernoulli"(%x, none) : (!q) -> (!q)
  %a = cudagraph.call "aten::scaled_dot_product_attention"(%n, %n, %n, none, 0.0 : f64, false, none, false) : (!q, !q, !q) -> (!q)
  %b = cudagraph.call "aten::exp"(%a) : (!q) -> (!q)
  cudagraph.return %b : !q
}

// -----

// A call's copy of an output stands behind the kernel that writes the output.
!vec = !cudagraph.buffer<tensor<8xf32>>

// CHECK-LABEL: @reads_output
// CHECK: cudagraph.graph
// CHECK-NEXT: cudagraph.kernel @a(%{{.*}}) to(%[[Y:.*]]) :
// CHECK-NEXT: cudagraph.copy %[[Y]] to %[[T:.*]] patchable :
// CHECK-NEXT: cudagraph.call "aten::cumsum"(%[[T]]
cudagraph.program @reads_output on "cuda:0" {
  %x = cudagraph.external input 0 : !vec
  %y = cudagraph.external output 0 : !vec
  cudagraph.kernel @a(%x) to (%y) : (!vec) -> (!vec)
  %z = cudagraph.call "aten::cumsum"(%y, 0 : i64, none) : (!vec) -> !vec
  cudagraph.return %y, %z : !vec, !vec
}

// -----

// What is written behind the run is copied to the caller behind that.
!vec = !cudagraph.buffer<tensor<8xf32>>
!idx = !cudagraph.buffer<tensor<2xi64>>
!two = !cudagraph.buffer<tensor<2xf32>>

// CHECK-LABEL: @written_later
// CHECK: %[[G:.*]] = cudagraph.graph
// CHECK: cudagraph.call "aten::clone"
// CHECK-NEXT: cudagraph.yield
// CHECK: cudagraph.call "aten::index_put_"(%[[G]]
// CHECK-NEXT: cudagraph.copy %[[G]] to %[[Y:.*]] :
// CHECK-NEXT: cudagraph.return %[[Y]]
cudagraph.program @written_later on "cuda:0" {
  %x = cudagraph.external input 0 : !vec
  %i = cudagraph.external input 1 : !idx
  %v = cudagraph.external input 2 : !two
  %t = cudagraph.buffer : !vec
  cudagraph.kernel @a(%x) to (%t) : (!vec) -> (!vec)
  %c = cudagraph.call "aten::clone"(%t, none) : (!vec) -> !vec
  // expected-remark @below {{stays outside of graphs: it may look into its indices}}
  cudagraph.call "aten::index_put_"(%c, [%i], %v, false) mutates [0] : (!vec, !idx, !two) -> ()
  cudagraph.return %c : !vec
}

// -----

// A loop is a conditional node: no replay renews its body, so that it reads
// copies of what moves; parameters it reads where they are. The last copy is part
// of the graph.
!vec = !cudagraph.buffer<tensor<8xf32>>
!flag = !cudagraph.buffer<tensor<i1>>

// CHECK-LABEL: @loop
// CHECK: %[[X:.*]] = cudagraph.external input 0
// CHECK: %[[W:.*]] = cudagraph.external input 1 stable
// CHECK: cudagraph.graph externals
// CHECK: cudagraph.kernel @test(%[[X]]) to(%[[GO:.*]]) :
// CHECK-NEXT: cudagraph.copy %[[X]] to %[[T:.*]] :
// CHECK-NEXT: cudagraph.while %[[GO]]
// CHECK: %[[V:.*]] = cudagraph.view %[[T]] at 2
// CHECK: cudagraph.kernel @step(%[[T]], %[[V]], %[[W]]) to(%[[S:.*]]) :
// CHECK: }
// CHECK-NEXT: cudagraph.copy %[[S]] to %[[Y:.*]] :
// CHECK-NEXT: cudagraph.yield
// CHECK: cudagraph.return %[[Y]]
cudagraph.program @loop on "cuda:0" {
  %x = cudagraph.external input 0 : !vec
  %w = cudagraph.external input 1 stable : !vec
  %y = cudagraph.external output 0 : !vec
  %v = cudagraph.view %x at 2 : !vec to !cudagraph.buffer<tensor<4xf32>>
  %s = cudagraph.buffer : !vec
  %go = cudagraph.buffer : !flag
  cudagraph.kernel @test(%x) to (%go) : (!vec) -> (!flag)
  cudagraph.while %go : !flag {
    cudagraph.kernel @step(%x, %v, %w) to (%s) : (!vec, !cudagraph.buffer<tensor<4xf32>>, !vec) -> (!vec)
    cudagraph.kernel @test(%s) to (%go) : (!vec) -> (!flag)
  }
  cudagraph.copy %s to %y : !vec, !vec
  cudagraph.return %y : !vec
}

// -----

// What the host has to do in each round keeps the loop with the host.
!vec = !cudagraph.buffer<tensor<8xf32>>
!flag = !cudagraph.buffer<tensor<i1>>

// CHECK-LABEL: @walked
// CHECK-NOT: cudagraph.graph
// CHECK: cudagraph.while
cudagraph.program @walked on "cuda:0" {
  %y = cudagraph.external output 0 : !vec
  %go = cudagraph.buffer : !flag
  cudagraph.kernel @test() to (%go) : () -> (!flag)
  // expected-remark @below {{stays outside of graphs: it draws random numbers}}
  cudagraph.while %go : !flag {
    %r = cudagraph.call "aten::rand_like"(%y, none, none, none, none, none) : (!vec) -> !vec
    cudagraph.kernel @test2(%r) to (%go) : (!vec) -> (!flag)
  }
  cudagraph.return %y : !vec
}

// -----

// What a vendor call and a loop's body read is copied once, for good; what
// calls alone read, views of it too, is patchable.
!vec = !cudagraph.buffer<tensor<8xf32>>
!half = !cudagraph.buffer<tensor<4xf32>>
!flag = !cudagraph.buffer<tensor<i1>>

// CHECK-LABEL: @both
// CHECK: %[[X:.*]] = cudagraph.external input 0
// CHECK: %[[Z:.*]] = cudagraph.external input 1
// CHECK: cudagraph.graph externals
// CHECK: cudagraph.copy %[[X]] to %[[T:.*]] :
// CHECK-NEXT: cudagraph.call "aten::cumsum"(%[[T]]
// CHECK: cudagraph.copy %[[Z]] to %[[U:.*]] patchable :
// CHECK-NEXT: %[[V:.*]] = cudagraph.view %[[U]] at 4
// CHECK: cudagraph.call "aten::cumsum"(%[[V]]
// CHECK: cudagraph.while
// CHECK: cudagraph.kernel @step(%[[T]])
cudagraph.program @both on "cuda:0" {
  %x = cudagraph.external input 0 : !vec
  %z = cudagraph.external input 1 : !vec
  %y = cudagraph.external output 0 : !vec
  %s = cudagraph.buffer : !vec
  %go = cudagraph.buffer : !flag
  %c = cudagraph.call "aten::cumsum"(%x, 0 : i64, none) : (!vec) -> (!vec)
  %v = cudagraph.view %z at 4 : !vec to !half
  %d = cudagraph.call "aten::cumsum"(%v, 0 : i64, none) : (!half) -> (!half)
  cudagraph.kernel @test(%c, %d) to (%go) : (!vec, !half) -> (!flag)
  cudagraph.while %go : !flag {
    cudagraph.kernel @step(%x) to (%s) : (!vec) -> (!vec)
    cudagraph.kernel @test(%s) to (%go) : (!vec) -> (!flag)
  }
  cudagraph.copy %s to %y : !vec, !vec
  cudagraph.return %y : !vec
}

// -----

!vec = !cudagraph.buffer<tensor<8xf32>>
!flag = !cudagraph.buffer<tensor<i1>>

// Nothing behind a speculation is launched before the host has seen its flag.
// CHECK-LABEL: @speculates
// CHECK:       cudagraph.graph
// CHECK-NEXT:    cudagraph.kernel @a
// CHECK-NEXT:    cudagraph.kernel @b
// CHECK:       cudagraph.speculate
// CHECK:       cudagraph.graph
// CHECK-NEXT:    cudagraph.kernel @c
// CHECK-NEXT:    cudagraph.kernel @d
cudagraph.program @speculates on "cuda:0" {
  %x = cudagraph.external input 0 : !vec
  %y = cudagraph.external output 0 : !vec
  %t = cudagraph.buffer : !vec
  %p = cudagraph.buffer : !flag
  cudagraph.kernel @a(%x) to (%t) : (!vec) -> (!vec)
  cudagraph.kernel @b(%t) to (%p) : (!vec) -> (!flag)
  // expected-remark @+1 {{stays outside of graphs: the host decides by it whether to go on}}
  cudagraph.speculate %p : !flag
  cudagraph.kernel @c(%x) to (%t) : (!vec) -> (!vec)
  cudagraph.kernel @d(%t) to (%y) : (!vec) -> (!vec)
  cudagraph.return %y : !vec
}

// -----

// Copies are needed no longer than the calls that read them take. What is
// returned is copied as soon as it is whole, behind the last call that writes it.
!vec = !cudagraph.buffer<tensor<8xf32>>

// CHECK-LABEL: @short_lives
// CHECK: cudagraph.graph
// CHECK-NEXT: cudagraph.copy %{{.*}} to %[[A:.*]] patchable :
// CHECK-NEXT: %[[R:.*]] = cudagraph.call "aten::cumsum"(%[[A]]
// CHECK-NEXT: cudagraph.call "aten::exp_"(%[[R]])
// CHECK-NEXT: cudagraph.copy %[[R]] to
// CHECK-NEXT: cudagraph.copy %{{.*}} to %[[B:.*]] patchable :
// CHECK-NEXT: %[[S:.*]] = cudagraph.call "aten::cumsum"(%[[B]]
// CHECK-NEXT: cudagraph.copy %[[S]] to
// CHECK-NEXT: cudagraph.yield
cudagraph.program @short_lives on "cuda:0" {
  %x = cudagraph.external input 0 : !vec
  %z = cudagraph.external input 1 : !vec
  %r = cudagraph.call "aten::cumsum"(%x, 0 : i64, none) : (!vec) -> (!vec)
  cudagraph.call "aten::exp_"(%r) mutates [0] : (!vec) -> ()
  %s = cudagraph.call "aten::cumsum"(%z, 0 : i64, none) : (!vec) -> (!vec)
  cudagraph.return %r, %s : !vec, !vec
}
