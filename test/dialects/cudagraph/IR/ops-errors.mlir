// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: pyjit-opt %s --split-input-file --verify-diagnostics

!vec = !cudagraph.buffer<tensor<8xf32>>
cudagraph.program @use_after_free on "cuda:0" {
  %x = cudagraph.external input 0 : !vec
  %r = cudagraph.call "aten::exp"(%x) : (!vec) -> (!vec)
  %v = cudagraph.view %r at 0 : !vec to !vec
  cudagraph.release %r : !vec
  // expected-error @+1 {{uses a buffer after its release}}
  %s = cudagraph.call "aten::exp"(%v) : (!vec) -> (!vec)
  cudagraph.return %s : !vec
}

// -----

!vec = !cudagraph.buffer<tensor<8xf32>>
cudagraph.program @host_read on "cuda:0" {
  %x = cudagraph.external input 0 : !vec
  cudagraph.graph externals(%x : !vec) {
    // expected-error @+1 {{reads a device value on the host inside a graph}}
    %h = cudagraph.call "aten::_to_copy"(%x, none, none, device("cpu"), none, false, none) : (!vec) -> (!cudagraph.buffer<tensor<8xf32>, host>)
    cudagraph.yield
  }
  cudagraph.return
}

// -----

!vec = !cudagraph.buffer<tensor<8xi1>>
cudagraph.program @dynamic_shape on "cuda:0" {
  %x = cudagraph.external input 0 : !vec
  cudagraph.graph externals(%x : !vec) {
    // expected-error @+1 {{reads a device value on the host inside a graph}}
    %h = cudagraph.call "aten::nonzero"(%x) : (!vec) -> (!cudagraph.buffer<tensor<3x1xi64>>)
    cudagraph.yield
  }
  cudagraph.return
}

// -----

!vec = !cudagraph.buffer<tensor<8xf32>>
cudagraph.program @undeclared on "cuda:0" {
  // expected-note @+1 {{the buffer}}
  %x = cudagraph.external input 0 : !vec
  %y = cudagraph.external output 0 : !vec
  %v = cudagraph.view %x at 0 : !vec to !vec
  cudagraph.graph externals(%y : !vec) {
    // expected-error @+1 {{uses an external buffer that its graph does not declare}}
    cudagraph.kernel @k(%v) to (%y) : (!vec) -> (!vec)
    cudagraph.yield
  }
  cudagraph.return %y : !vec
}

// -----

!vec = !cudagraph.buffer<tensor<8xf32>>
cudagraph.program @undeclared_result on "cuda:0" {
  %y = cudagraph.external output 0 : !vec
  // expected-note @+1 {{the buffer}}
  %r = cudagraph.call "aten::bernoulli"(%y, none) : (!vec) -> (!vec)
  cudagraph.graph externals(%y : !vec) {
    // expected-error @+1 {{uses an external buffer that its graph does not declare}}
    cudagraph.kernel @k(%r) to (%y) : (!vec) -> (!vec)
    cudagraph.yield
  }
  cudagraph.return %y : !vec
}

// -----

!vec = !cudagraph.buffer<tensor<8xf32>>
cudagraph.program @declared_but_own on "cuda:0" {
  %t = cudagraph.buffer : !vec
  // expected-error @+1 {{declares an external buffer that is none}}
  cudagraph.graph externals(%t : !vec) {
    cudagraph.yield
  }
  cudagraph.return
}

// -----

!number = !cudagraph.buffer<tensor<f32>, host>
cudagraph.program @kernel_reads_host on "cuda:0" {
  %s = cudagraph.external input 0 : !number
  %t = cudagraph.buffer : !cudagraph.buffer<tensor<f32>>
  cudagraph.graph externals(%s : !number) {
    // expected-error @+1 {{reads host memory inside a graph}}
    cudagraph.kernel @k(%s) to (%t) : (!number) -> (!cudagraph.buffer<tensor<f32>>)
    cudagraph.yield
  }
  cudagraph.return
}

// -----

!host = !cudagraph.buffer<tensor<8xf32>, host>
cudagraph.program @copy_from_host on "cuda:0" {
  %s = cudagraph.external input 0 : !host
  %t = cudagraph.buffer : !cudagraph.buffer<tensor<8xf32>>
  cudagraph.graph externals(%s : !host) {
    // expected-error @+1 {{reads host memory inside a graph}}
    cudagraph.copy %s to %t : !host, !cudagraph.buffer<tensor<8xf32>>
    cudagraph.yield
  }
  cudagraph.return
}

// -----

!host = !cudagraph.buffer<tensor<8xf32>, host>
cudagraph.program @several_numbers on "cuda:0" {
  %s = cudagraph.external input 0 : !host
  %t = cudagraph.buffer : !cudagraph.buffer<tensor<8xf32>>
  // expected-error @+1 {{takes one number, not 'tensor<8xf32>'}}
  cudagraph.host_value %s to %t : !host, !cudagraph.buffer<tensor<8xf32>>
  cudagraph.return
}

// -----

cudagraph.program @number_of_device on "cuda:0" {
  %s = cudagraph.buffer : !cudagraph.buffer<tensor<f32>>
  %t = cudagraph.buffer : !cudagraph.buffer<tensor<f32>>
  // expected-error @+1 {{takes a number from the host to the device}}
  cudagraph.host_value %s to %t : !cudagraph.buffer<tensor<f32>>, !cudagraph.buffer<tensor<f32>>
  cudagraph.return
}

// -----

!vec = !cudagraph.buffer<tensor<8xf32>>
cudagraph.program @overlap on "cuda:0" arena 512 {
  // expected-note @+1 {{the other buffer}}
  %s = cudagraph.buffer at 0 : !vec
  // expected-error @+1 {{shares bytes of the arena with a buffer that is in use at the same time}}
  %t = cudagraph.buffer at 0 : !vec
  cudagraph.kernel @k() to (%s) : () -> (!vec)
  cudagraph.kernel @k(%s) to (%t) : (!vec) -> (!vec)
  cudagraph.return
}

// -----

!vec = !cudagraph.buffer<tensor<80xf32>>
cudagraph.program @outside on "cuda:0" arena 256 {
  // expected-error @+1 {{reaches beyond the arena's 256 bytes}}
  %s = cudagraph.buffer at 0 : !vec
  cudagraph.kernel @k() to (%s) : () -> (!vec)
  cudagraph.return
}

// -----

cudagraph.program @misplaced on "cuda:0" {
  // expected-error @+1 {{begins at byte 100, which is no multiple of 256}}
  %s = cudagraph.buffer at 100 : !cudagraph.buffer<tensor<8xf32>>
  cudagraph.return
}

// -----

cudagraph.program @host_buffer on "cuda:0" {
  // expected-error @+1 {{is in host memory, which programs do not plan}}
  %s = cudagraph.buffer : !cudagraph.buffer<tensor<8xf32>, host>
  cudagraph.return
}

// -----

cudagraph.program @host_output on "cuda:0" {
  // expected-error @+1 {{is an output in host memory}}
  %s = cudagraph.external output 0 : !cudagraph.buffer<tensor<8xf32>, host>
  cudagraph.return
}

// -----

cudagraph.program @twice on "cuda:0" {
  %s = cudagraph.external input 0 : !cudagraph.buffer<tensor<8xf32>>
  // expected-error @+1 {{is declared twice}}
  %t = cudagraph.external input 0 : !cudagraph.buffer<tensor<8xf32>>
  cudagraph.return
}

// -----

!vec = !cudagraph.buffer<tensor<8xf32>>
cudagraph.program @release_of_own on "cuda:0" {
  %s = cudagraph.buffer : !vec
  // expected-error @+1 {{releases what no vendor call allocated}}
  cudagraph.release %s : !vec
  cudagraph.return
}

// -----

!vec = !cudagraph.buffer<tensor<8xf32>>
cudagraph.program @indirect on "cuda:0" {
  %s = cudagraph.buffer : !vec
  // expected-error @+1 {{takes buffer 0 indirectly, which is not external}}
  cudagraph.kernel @k() to (%s) indirect @k2 [0] : () -> (!vec)
  cudagraph.return
}

// -----

!vec = !cudagraph.buffer<tensor<8xf32>>
cudagraph.program @indirect_number on "cuda:0" {
  %s = cudagraph.buffer : !vec
  // expected-error @+1 {{takes buffer 3 indirectly, of 1}}
  cudagraph.kernel @k() to (%s) indirect @k2 [3] : () -> (!vec)
  cudagraph.return
}

// -----

!vec = !cudagraph.buffer<tensor<8xf32>>
cudagraph.program @moves_other on "cuda:0" {
  %s = cudagraph.buffer : !vec
  %t = cudagraph.buffer : !cudagraph.buffer<tensor<4xf32>>
  // expected-error @+1 {{moves 'tensor<8xf32>' into 'tensor<4xf32>'}}
  cudagraph.copy %s to %t : !vec, !cudagraph.buffer<tensor<4xf32>>
  cudagraph.return
}

// -----

!flag = !cudagraph.buffer<tensor<i1>>
!host = !cudagraph.buffer<tensor<i1>, host>
cudagraph.program @host_flag on "cuda:0" {
  %h = cudagraph.external input 0 : !host
  %p = cudagraph.buffer : !flag
  // Outside of graphs the host decides anyway.
  cudagraph.if %h : !host {
    cudagraph.kernel @k(%p) to () : (!flag) -> ()
  }
  cudagraph.graph externals(%h : !host) {
    // expected-error @+1 {{reads host memory inside a graph}}
    cudagraph.if %h : !host {
      cudagraph.kernel @k(%p) to () : (!flag) -> ()
    }
    cudagraph.yield
  }
  cudagraph.return
}

// -----

!flag = !cudagraph.buffer<tensor<i1>>
cudagraph.program @moves_in_body on "cuda:0" {
  %x = cudagraph.external input 0 : !flag
  %w = cudagraph.external input 1 stable : !flag
  %p = cudagraph.buffer : !flag
  cudagraph.graph externals(%x, %w : !flag, !flag) {
    cudagraph.kernel @k(%x) to (%p) : (!flag) -> (!flag)
    cudagraph.while %p : !flag {
      cudagraph.kernel @k(%w) to (%p) : (!flag) -> (!flag)
      // expected-error @+1 {{holds the address of a buffer that moves in the body of a conditional node}}
      cudagraph.kernel @k(%x) to (%p) : (!flag) -> (!flag)
    }
    cudagraph.yield
  }
  cudagraph.return
}

// -----

!flag = !cudagraph.buffer<tensor<i1>>
!host = !cudagraph.buffer<tensor<i1>, host>
cudagraph.program @number_in_body on "cuda:0" {
  %x = cudagraph.external input 0 : !host
  %p = cudagraph.buffer : !flag
  cudagraph.graph externals(%x : !host) {
    cudagraph.host_value %x to %p : !host, !flag
    cudagraph.if %p : !flag {
      // expected-error @+1 {{is renewed by each replay, which the body of a conditional node is not}}
      cudagraph.host_value %x to %p : !host, !flag
    }
    cudagraph.yield
  }
  cudagraph.return
}

// -----

!flag = !cudagraph.buffer<tensor<i1>>
cudagraph.program @released_each_round on "cuda:0" {
  %p = cudagraph.buffer : !flag
  %r = cudagraph.call "aten::clone"(%p, none) : (!flag) -> (!flag)
  cudagraph.while %p : !flag {
    cudagraph.kernel @k() to (%p) : () -> (!flag)
    // expected-error @+1 {{releases what was not made in its own block}}
    cudagraph.release %r : !flag
  }
  cudagraph.return
}

// -----

// What a round leaves for the next one is not another one's memory meanwhile.
!flag = !cudagraph.buffer<tensor<i1>>
cudagraph.program @carried_overlap on "cuda:0" arena 512 {
  %p = cudagraph.buffer at 256 : !flag
  // expected-note @+1 {{the other buffer}}
  %s = cudagraph.buffer at 0 : !flag
  // expected-error @+1 {{shares bytes of the arena with a buffer that is in use at the same time}}
  %t = cudagraph.buffer at 0 : !flag
  cudagraph.kernel @k() to (%p, %s) : () -> (!flag, !flag)
  cudagraph.while %p : !flag {
    cudagraph.kernel @k(%s) to (%p) : (!flag) -> (!flag)
    cudagraph.kernel @k() to (%t) : () -> (!flag)
    cudagraph.kernel @k(%t) to (%p) : (!flag) -> (!flag)
  }
  cudagraph.return
}

// -----

!flag = !cudagraph.buffer<tensor<i1>>
cudagraph.program @forever on "cuda:0" {
  %p = cudagraph.buffer : !flag
  cudagraph.graph {
    // expected-error @+1 {{never writes its condition, so no iteration is the last}}
    cudagraph.while %p : !flag {
      cudagraph.kernel @k(%p) to () : (!flag) -> ()
    }
    cudagraph.yield
  }
  cudagraph.return
}

// -----

!vec = !cudagraph.buffer<tensor<8xf32>>
cudagraph.program @many_flags on "cuda:0" {
  %p = cudagraph.buffer : !vec
  cudagraph.graph {
    // expected-error @+1 {{is decided by one boolean}}
    cudagraph.if %p : !vec {
      cudagraph.kernel @k(%p) to () : (!vec) -> ()
    }
    cudagraph.yield
  }
  cudagraph.return
}

// -----

// expected-error @+1 {{does not end in cudagraph.return}}
cudagraph.program @open on "cuda:0" {
  %p = cudagraph.buffer : !cudagraph.buffer<tensor<8xf32>>
}

// -----

cudagraph.program @open_graph on "cuda:0" {
  // expected-error @+1 {{does not end in cudagraph.yield}}
  cudagraph.graph {
    %p = cudagraph.buffer : !cudagraph.buffer<tensor<8xf32>>
  }
  cudagraph.return
}

// -----

// expected-error @+1 {{has an unknown variant "fast"}}
cudagraph.program @variant on "cuda:0" variants ["fast"] {
  cudagraph.return
}

// -----

!vec = !cudagraph.buffer<tensor<8xf32>>
cudagraph.program @mutates on "cuda:0" {
  %s = cudagraph.buffer : !vec
  // expected-error @+1 {{mutates operand 4 of 1}}
  cudagraph.call "aten::exp_"(%s) mutates [4] : (!vec) -> ()
  cudagraph.return
}

// -----

cudagraph.program @view on "cuda:0" {
  %s = cudagraph.buffer : !cudagraph.buffer<tensor<8xf32>>
  // expected-error @+1 {{shows another element type than its source has}}
  %v = cudagraph.view %s at 0 : !cudagraph.buffer<tensor<8xf32>> to !cudagraph.buffer<tensor<8xi32>>
  cudagraph.return
}

// -----

cudagraph.program @lives on "cuda:0" {
  // expected-error @+1 {{lives from one launch to another, and has no place}}
  %s = cudagraph.buffer lives [7, 3] : !cudagraph.buffer<tensor<8xf32>>
  cudagraph.return
}

// -----

cudagraph.program @placed on "cuda:0" arena 256 {
  // expected-error @+1 {{has a place, which no call need agree with}}
  %s = cudagraph.buffer at 0 : !cudagraph.buffer<tensor<?xf32, #tssa.layout<[s0], [1]>>>
  cudagraph.return
}

// -----

!vec = !cudagraph.buffer<tensor<8xf32>>
cudagraph.program @patchable_alone on "cuda:0" {
  %x = cudagraph.external input 0 : !vec
  %t = cudagraph.buffer : !vec
  // expected-error @+1 {{is patchable, but stands in no graph, or in a body in one}}
  cudagraph.copy %x to %t patchable : !vec, !vec
  cudagraph.return
}

// -----

!vec = !cudagraph.buffer<tensor<8xf32>>
cudagraph.program @patchable_source on "cuda:0" {
  %x = cudagraph.external input 0 : !vec
  %t = cudagraph.buffer : !vec
  %w = cudagraph.external input 1 stable : !vec
  cudagraph.graph externals(%w : !vec) {
    // expected-error @+1 {{is patchable, but its source is no external buffer that moves}}
    cudagraph.copy %w to %t patchable : !vec, !vec
    cudagraph.yield
  }
  cudagraph.return
}

// -----

!vec = !cudagraph.buffer<tensor<8xf32>>
cudagraph.program @patchable_part on "cuda:0" {
  %x = cudagraph.external input 0 : !vec
  %t = cudagraph.buffer : !vec
  cudagraph.graph externals(%x : !vec) {
    %v = cudagraph.view %x at 0 : !vec to !vec
    // expected-error @+1 {{is patchable, but its source is no external buffer that moves}}
    cudagraph.copy %v to %t patchable : !vec, !vec
    cudagraph.yield
  }
  cudagraph.return
}

// -----

!vec = !cudagraph.buffer<tensor<8xf32>>
cudagraph.program @patchable_target on "cuda:0" {
  %x = cudagraph.external input 0 : !vec
  %t = cudagraph.buffer : !vec
  cudagraph.graph externals(%x : !vec) {
    %v = cudagraph.view %t at 0 : !vec to !vec
    // expected-error @+1 {{is patchable, but its target is no whole buffer of the program's}}
    cudagraph.copy %x to %v patchable : !vec, !vec
    cudagraph.yield
  }
  cudagraph.return
}

// -----

!vec = !cudagraph.buffer<tensor<8xf32>>
cudagraph.program @patchable_kernel on "cuda:0" {
  %x = cudagraph.external input 0 : !vec
  %t = cudagraph.buffer : !vec
  %s = cudagraph.buffer : !vec
  cudagraph.graph externals(%x : !vec) {
    // expected-error @+1 {{is patchable, but its target is not read by vendor calls behind it alone}}
    cudagraph.copy %x to %t patchable : !vec, !vec
    %v = cudagraph.view %t at 0 : !vec to !vec
    // expected-note @+1 {{the other use}}
    cudagraph.kernel @k(%v) to (%s) : (!vec) -> (!vec)
    cudagraph.yield
  }
  cudagraph.return
}

// -----

!vec = !cudagraph.buffer<tensor<8xf32>>
cudagraph.program @patchable_before on "cuda:0" {
  %x = cudagraph.external input 0 : !vec
  %t = cudagraph.buffer : !vec
  cudagraph.graph externals(%x : !vec) {
    // expected-note @+1 {{the other use}}
    %r = cudagraph.call "aten::exp"(%t) : (!vec) -> (!vec)
    // expected-error @+1 {{is patchable, but its target is not read by vendor calls behind it alone}}
    cudagraph.copy %x to %t patchable : !vec, !vec
    cudagraph.yield
  }
  cudagraph.return
}

// -----

!vec = !cudagraph.buffer<tensor<8xf32>>
cudagraph.program @patchable_outside on "cuda:0" {
  %x = cudagraph.external input 0 : !vec
  %t = cudagraph.buffer : !vec
  cudagraph.graph externals(%x : !vec) {
    // expected-error @+1 {{is patchable, but its target is not read by vendor calls behind it alone}}
    cudagraph.copy %x to %t patchable : !vec, !vec
    cudagraph.yield
  }
  // expected-note @+1 {{the other use}}
  %r = cudagraph.call "aten::exp"(%t) : (!vec) -> (!vec)
  cudagraph.return
}

// -----

!vec = !cudagraph.buffer<tensor<8xf32>>
cudagraph.program @patchable_mutated on "cuda:0" {
  %x = cudagraph.external input 0 : !vec
  %t = cudagraph.buffer : !vec
  cudagraph.graph externals(%x : !vec) {
    // expected-error @+1 {{is patchable, but its target is not read by vendor calls behind it alone}}
    cudagraph.copy %x to %t patchable : !vec, !vec
    // expected-note @+1 {{the other use}}
    cudagraph.call "aten::exp_"(%t) mutates [0] : (!vec) -> ()
    cudagraph.yield
  }
  cudagraph.return
}

// -----

!vec = !cudagraph.buffer<tensor<8xf32>>
cudagraph.program @patchable_written on "cuda:0" {
  %x = cudagraph.external input 0 : !vec
  %t = cudagraph.buffer : !vec
  %y = cudagraph.external output 0 : !vec
  cudagraph.graph externals(%y : !vec) {
    // expected-error @+1 {{is patchable, but its source is written behind it}}
    cudagraph.copy %y to %t patchable : !vec, !vec
    %r = cudagraph.call "aten::exp"(%t) : (!vec) -> (!vec)
    // expected-note @+1 {{here}}
    cudagraph.kernel @k(%r) to (%y) : (!vec) -> (!vec)
    cudagraph.yield
  }
  cudagraph.return
}

// -----

!vec = !cudagraph.buffer<tensor<8xi1>>
cudagraph.program @speculates_many on "cuda:0" {
  %x = cudagraph.external input 0 : !vec
  // expected-error @+1 {{is decided by one boolean}}
  cudagraph.speculate %x : !vec
  cudagraph.return
}

// -----

!flag = !cudagraph.buffer<tensor<i1>>
cudagraph.program @speculates_in_a_graph on "cuda:0" {
  %x = cudagraph.external input 0 : !flag
  cudagraph.graph externals(%x : !flag) {
    // expected-error @+1 {{expects parent op 'cudagraph.program'}}
    cudagraph.speculate %x : !flag
    cudagraph.yield
  }
  cudagraph.return
}

// -----

!vec = !cudagraph.buffer<tensor<8xf32>>
cudagraph.program @read_before_written on "cuda:0" arena 512 {
  %x = cudagraph.external input 0 : !vec
  %y = cudagraph.external output 0 : !vec
  // expected-note @+1 {{the buffer}}
  %s = cudagraph.buffer at 0 : !vec
  %t = cudagraph.buffer at 256 : !vec
  cudagraph.kernel @a(%x) to (%t) : (!vec) -> (!vec)
  cudagraph.graph externals(%y : !vec) {
    // expected-error @+1 {{reads a buffer that nothing has written yet}}
    cudagraph.kernel @b(%t, %s) to (%y) : (!vec, !vec) -> (!vec)
    cudagraph.kernel @a(%t) to (%s) : (!vec) -> (!vec)
    cudagraph.yield
  }
  cudagraph.return %y : !vec
}

// -----

!vec = !cudagraph.buffer<tensor<8xf32>>
!flag = !cudagraph.buffer<tensor<i1>>
cudagraph.program @written_on_one_side on "cuda:0" arena 512 {
  %x = cudagraph.external input 0 : !vec
  %f = cudagraph.external input 1 : !flag
  // expected-note @+1 {{the buffer}}
  %y = cudagraph.external output 0 : !vec
  %t = cudagraph.buffer at 0 : !vec
  cudagraph.if %f : !flag {
    cudagraph.kernel @a(%x) to (%t) : (!vec) -> (!vec)
    cudagraph.kernel @a(%t) to (%y) : (!vec) -> (!vec)
  } else {
    cudagraph.kernel @a(%x) to (%t) : (!vec) -> (!vec)
  }
  // expected-error @+1 {{reads a buffer that nothing has written yet}}
  cudagraph.return %y : !vec
}

// -----

!mat = !cudagraph.buffer<tensor<8x8xf32>>
!row = !cudagraph.buffer<tensor<8xf32>>

cudagraph.program @result_part on "cuda:0" {
  %x = cudagraph.external input 0 stable : !mat
  %y = cudagraph.external output 0 : !row
  %t = cudagraph.buffer : !mat
  cudagraph.graph externals(%x, %y : !mat, !row) {
    cudagraph.call "aten::mm.out"(%x, %x, %t) mutates [2] : (!mat, !mat, !mat) -> ()
    %v = cudagraph.view %t at 0 : !mat to !row
    // expected-error @+1 {{is patchable, but its source is a part of a buffer}}
    cudagraph.copy %v to %y patchable : !row, !row
    cudagraph.yield
  }
  cudagraph.return %y : !row
}

// -----

!mat = !cudagraph.buffer<tensor<8x8xf32>>

cudagraph.program @result_outside on "cuda:0" {
  %x = cudagraph.external input 0 stable : !mat
  %y = cudagraph.external output 0 : !mat
  %z = cudagraph.external output 1 : !mat
  %t = cudagraph.buffer : !mat
  cudagraph.graph externals(%x, %y : !mat, !mat) {
    cudagraph.call "aten::mm.out"(%x, %x, %t) mutates [2] : (!mat, !mat, !mat) -> ()
    // expected-error @+1 {{is patchable, but its source is known to others than its graph}}
    cudagraph.copy %t to %y patchable : !mat, !mat
    cudagraph.yield
  }
  // expected-note @+1 {{the other use}}
  cudagraph.kernel @k(%t) to (%z) : (!mat) -> (!mat)
  cudagraph.return %y, %z : !mat, !mat
}

// -----

!mat = !cudagraph.buffer<tensor<8x8xf32>>

cudagraph.program @result_of_a_kernel on "cuda:0" {
  %x = cudagraph.external input 0 stable : !mat
  %y = cudagraph.external output 0 : !mat
  %t = cudagraph.buffer : !mat
  cudagraph.graph externals(%x, %y : !mat, !mat) {
    // expected-note @+1 {{the other use}}
    cudagraph.kernel @k(%x) to (%t) : (!mat) -> (!mat)
    // expected-error @+1 {{is patchable, but its source is written by others than one vendor call}}
    cudagraph.copy %t to %y patchable : !mat, !mat
    cudagraph.yield
  }
  cudagraph.return %y : !mat
}

// -----

!mat = !cudagraph.buffer<tensor<8x8xf32>>

cudagraph.program @result_too_early on "cuda:0" {
  %x = cudagraph.external input 0 stable : !mat
  %y = cudagraph.external output 0 : !mat
  %t = cudagraph.buffer : !mat
  cudagraph.graph externals(%x, %y : !mat, !mat) {
    // expected-error @+2 {{is patchable, but its source is read in front of the vendor call that writes it}}
    // expected-note @+1 {{the other use}}
    cudagraph.copy %t to %y patchable : !mat, !mat
    cudagraph.call "aten::mm.out"(%x, %x, %t) mutates [2] : (!mat, !mat, !mat) -> ()
    cudagraph.yield
  }
  cudagraph.return %y : !mat
}

// -----

!mat = !cudagraph.buffer<tensor<8x8xf32>>

cudagraph.program @result_known on "cuda:0" {
  %x = cudagraph.external input 0 stable : !mat
  %y = cudagraph.external output 0 : !mat
  %t = cudagraph.buffer : !mat
  cudagraph.graph externals(%x, %y : !mat, !mat) {
    cudagraph.call "aten::mm.out"(%x, %x, %t) mutates [2] : (!mat, !mat, !mat) -> ()
    // expected-error @+1 {{is patchable, but its source stands in for what the graph knows}}
    cudagraph.copy %t to %y patchable : !mat, !mat
    // expected-note @+1 {{the other use}}
    cudagraph.kernel @k(%x) to (%y) : (!mat) -> (!mat)
    cudagraph.yield
  }
  cudagraph.return %y : !mat
}

// -----

// expected-error @below {{'index' is no tensor element type}}
func.func private @no_element(!cudagraph.buffer<tensor<4xindex>>)

// -----

!B = !cudagraph.buffer<tensor<4xf32>>
cudagraph.program @circle on "cuda:0" {
  // expected-error @below {{operand #0 does not dominate this use}}
  %v = cudagraph.view %w at 0 : !B to !B
  // expected-note @below {{operand defined here}}
  %w = cudagraph.view %v at 0 : !B to !B
  cudagraph.kernel @a(%v) to (%w) : (!B) -> (!B)
  cudagraph.return
}

// -----

!B = !cudagraph.buffer<tensor<4xf32>>
// expected-error @below {{operand #0 does not dominate this use}}
cudagraph.kernel @a(%t) to (%t) : (!B) -> (!B)
cudagraph.program @used_outside on "cuda:0" {
  // expected-note @below {{operand defined here}}
  %t = cudagraph.buffer : !B
  cudagraph.return
}
