//===- CudaGraphOps.td - the cudagraph dialect's ops -------*- tablegen -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef PYJIT_CUDAGRAPH_OPS_TD
#define PYJIT_CUDAGRAPH_OPS_TD

include "dialects/cudagraph/IR/CudaGraph.td"
include "mlir/IR/OpBase.td"
include "mlir/IR/RegionKindInterface.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

class CudaGraph_Op<string mnemonic, list<Trait> traits = []>
    : Op<CudaGraph_Dialect, mnemonic, traits>;

//===----------------------------------------------------------------------===//
// The program and its buffers
//===----------------------------------------------------------------------===//

def CudaGraph_ProgramOp : CudaGraph_Op<"program",
    [Symbol, IsolatedFromAbove, SingleBlock, NoTerminator]> {
  let summary = "one launch program";
  let description = [{
    What one call launches, in the order of the stream, on one device. Ends in
    `cudagraph.return`. Sizes that differ between calls are polynomials in the
    buffers' types, over symbols that `pyjit.symbols` lists as on a function.
    `arena` is the number of bytes that its planned buffers
    need (`cudagraph-plan-memory`), `variants` the ways to launch it that are
    worth measuring (`cudagraph-select`).

    ```mlir
    cudagraph.program @f on "cuda:0" {
      %x = cudagraph.external input 0 : !cudagraph.buffer<tensor<8xf32>>
      %y = cudagraph.external output 0 : !cudagraph.buffer<tensor<8xf32>>
      cudagraph.kernel @kernel_0(%x) to (%y) : (!cudagraph.buffer<tensor<8xf32>>) -> (!cudagraph.buffer<tensor<8xf32>>)
      cudagraph.return %y : !cudagraph.buffer<tensor<8xf32>>
    }
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, StrAttr:$device,
                       OptionalAttr<I64Attr>:$arena,
                       OptionalAttr<StrArrayAttr>:$variants);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    $sym_name `on` $device (`arena` $arena^)? (`variants` $variants^)?
    attr-dict-with-keyword $body
  }];
  let hasRegionVerifier = 1;
  let extraClassDeclaration = [{
    ::mlir::Block &getBlock() { return getBody().front(); }
    /// Names come from the ops: %in0, %out0.
    static ::llvm::StringRef getDefaultDialect() { return "cudagraph"; }
  }];
}

def CudaGraph_ExternalOp : CudaGraph_Op<"external"> {
  let summary = "memory that the call brings along";
  let description = [{
    The buffer of input `number`, of output `number` of the prepare program
    (`cached`), or of a tensor allocated for the caller at each call (`output`).
    Its address may differ from call to call. `stable`: it hardly ever does
    (parameters, cached values), so that a graph may hold the address and is
    made anew when it differs.

    ```mlir
    %w = cudagraph.external input 1 stable : !cudagraph.buffer<tensor<8x8xf32>>
    ```
  }];
  let arguments = (ins CudaGraph_Role:$role, I64Attr:$number,
                       UnitAttr:$stable);
  let results = (outs CudaGraph_BufferType:$buffer);
  let assemblyFormat = [{
    $role $number (`stable` $stable^)? attr-dict `:` qualified(type($buffer))
  }];
  let hasVerifier = 1;
}

def CudaGraph_BufferOp : CudaGraph_Op<"buffer", [MemoryEffects<[MemAlloc]>]> {
  let summary = "memory of the program's own";
  let description = [{
    Holds a value between two ops of one call. Without `at` it is not placed
    yet; with it, it begins at that byte of the program's arena. Where sizes
    differ between calls, places do too: `lives` says from which launch to which
    the buffer is needed, both included, and the encoder places it by that.

    ```mlir
    %t = cudagraph.buffer at 256 : !cudagraph.buffer<tensor<8xf32>>
    %u = cudagraph.buffer lives [3, 7] : !cudagraph.buffer<tensor<?xf32, #tssa.layout<[s0], [1]>>>
    ```
  }];
  let arguments = (ins OptionalAttr<I64Attr>:$offset,
                       OptionalAttr<DenseI64ArrayAttr>:$lives);
  let results = (outs CudaGraph_BufferType:$buffer);
  let assemblyFormat = [{
    (`at` $offset^)? (`lives` $lives^)? attr-dict `:` qualified(type($buffer))
  }];
  let builders = [
    OpBuilder<(ins "::mlir::Type":$buffer, "::mlir::IntegerAttr":$offset), [{
      build($_builder, $_state, buffer, offset, ::mlir::DenseI64ArrayAttr());
    }]>
  ];
  let hasVerifier = 1;
}

def CudaGraph_ViewOp : CudaGraph_Op<"view", [Pure]> {
  let summary = "part of a buffer";
  let description = [{
    The same memory, from element `offset` on, with the strides of the result's
    type. Lives as long as its source. `plus`: as many elements more as an
    expression over the program's symbols says.

    ```mlir
    %v = cudagraph.view %t at 4 : !cudagraph.buffer<tensor<8xf32>> to !cudagraph.buffer<tensor<4xf32>>
    %w = cudagraph.view %u at 0 plus affine_map<()[s0] -> (s0 - 1)> : !cudagraph.buffer<tensor<?xf32, #tssa.layout<[s0], [1]>>> to !cudagraph.buffer<tensor<f32>>
    ```
  }];
  let arguments = (ins CudaGraph_BufferType:$source, I64Attr:$offset,
                       OptionalAttr<AffineMapAttr>:$symbolic);
  let results = (outs CudaGraph_BufferType:$result);
  let assemblyFormat = [{
    $source `at` $offset (`plus` $symbolic^)? attr-dict `:` qualified(type($source)) `to` qualified(type($result))
  }];
  let builders = [
    OpBuilder<(ins "::mlir::Type":$result, "::mlir::Value":$source,
                   "int64_t":$offset), [{
      build($_builder, $_state, result, source, offset,
            ::mlir::AffineMapAttr());
    }]>
  ];
  let hasVerifier = 1;
}

def CudaGraph_ReleaseOp : CudaGraph_Op<"release"> {
  let summary = "the last use is past";
  let description = [{
    What a vendor call allocated may be given to the next one.

    ```mlir
    cudagraph.release %r : !cudagraph.buffer<tensor<8xf32>>
    ```
  }];
  let arguments = (ins Arg<CudaGraph_BufferType, "", [MemFree]>:$buffer);
  let assemblyFormat = "$buffer attr-dict `:` qualified(type($buffer))";
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// What is launched
//===----------------------------------------------------------------------===//

def CudaGraph_KernelOp : CudaGraph_Op<"kernel", [AttrSizedOperandSegments]> {
  let summary = "one launch of a generated kernel";
  let description = [{
    Launches the kernel function `kernel` on the addresses of the buffers that
    it reads and of those that it writes. Grid and block are the kernel's own.
    `indirect @k2 [i…]` names the indirect version of the kernel: for these
    buffers (reads first, then writes) it takes the address of a word that holds
    the buffer's address. The list may be empty: sizes are indirect alone.

    ```mlir
    cudagraph.kernel @kernel_0(%x, %w) to (%t) indirect @kernel_0_indirect [0]
        : (!cudagraph.buffer<tensor<8xf32>>, !cudagraph.buffer<tensor<8xf32>>) -> (!cudagraph.buffer<tensor<8xf32>>)
    ```
  }];
  let arguments = (ins FlatSymbolRefAttr:$kernel,
                       Arg<Variadic<CudaGraph_BufferType>, "", [MemRead]>:$reads,
                       Arg<Variadic<CudaGraph_BufferType>, "", [MemWrite]>:$writes,
                       OptionalAttr<FlatSymbolRefAttr>:$indirectKernel,
                       OptionalAttr<DenseI64ArrayAttr>:$indirect);
  let assemblyFormat = [{
    $kernel `(` $reads `)` `to` `(` $writes `)`
    (`indirect` $indirectKernel^ $indirect)? attr-dict
    `:` functional-type($reads, $writes)
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// Reads, then writes: the kernel's parameters.
    unsigned getNumBuffers() { return getReads().size() + getWrites().size(); }
    ::mlir::Value getBuffer(unsigned i) { return getOperation()->getOperand(i); }
  }];
}
def CudaGraph_CallOp : CudaGraph_Op<"call"> {
  let summary = "one vendor call through the dispatcher";
  let description = [{
    Calls an ATen overload with the arguments of its full schema (the format of
    lib/Operators/CallArguments) on the current stream. The results are buffers
    that the library allocates, and lives until they are released. `mutates`
    names the operands that it writes in place.

    ```mlir
    %r = cudagraph.call "aten::mm"(%a, %b) : (!cudagraph.buffer<tensor<4x8xf32>>, !cudagraph.buffer<tensor<8x4xf32>>) -> (!cudagraph.buffer<tensor<4x4xf32>>)
    ```
  }];
  let arguments = (ins StrAttr:$overload,
                       Variadic<CudaGraph_BufferType>:$inputs,
                       ArrayAttr:$args,
                       OptionalAttr<DenseI64ArrayAttr>:$mutates);
  let results = (outs Variadic<CudaGraph_BufferType>:$outputs);
  let assemblyFormat = [{
    $overload `` custom<CallArguments>($inputs, $args) (`mutates` $mutates^)?
    attr-dict `:` functional-type($inputs, $outputs)
  }];
  let hasVerifier = 1;
}

def CudaGraph_CopyOp : CudaGraph_Op<"copy"> {
  let summary = "bytes from one buffer to another of the same layout";
  let description = [{
    Copies the span of memory that the source's elements take. Between host and
    device too, but not inside a graph.

    `patchable`: one of the two stands in for the other, an external buffer that
    moves, in one graph. Who launches the graph may leave the copy out and let
    the launches of the graph use the external buffer itself, provided that each
    replay gives their nodes its address; where that cannot be proved, the copy
    is made. Either the target is a buffer that nobody but vendor calls of this
    graph reads; or the target is an output, and the source a buffer that a
    vendor call of this graph writes whole and that nobody outside of it reads.

    ```mlir
    cudagraph.copy %y to %u : !cudagraph.buffer<tensor<8xf32>>, !cudagraph.buffer<tensor<8xf32>>
    cudagraph.copy %x to %t patchable : !cudagraph.buffer<tensor<8xf32>>, !cudagraph.buffer<tensor<8xf32>>
    ```
  }];
  let arguments = (ins Arg<CudaGraph_BufferType, "", [MemRead]>:$source,
                       Arg<CudaGraph_BufferType, "", [MemWrite]>:$target,
                       UnitAttr:$patchable);
  let assemblyFormat = [{
    $source `to` $target (`patchable` $patchable^)? attr-dict `:` qualified(type($source)) `,` qualified(type($target))
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// Patchable, and the source stands in for an output.
    bool isOfResult();
    /// The buffer of the program's own that stands in; patchable copies have one.
    ::mlir::Value getStandIn();
  }];
}

def CudaGraph_HostValueOp : CudaGraph_Op<"host_value"> {
  let summary = "a number on the host, as the call finds it";
  let description = [{
    Reads the one element of a host buffer when the call is launched and puts it
    into a device buffer. The number travels inside the launch itself, so no
    host memory has to outlive the call, and inside a graph it is a parameter of
    a node.

    ```mlir
    cudagraph.host_value %s to %t : !cudagraph.buffer<tensor<f32>, host>, !cudagraph.buffer<tensor<f32>>
    ```
  }];
  let arguments = (ins Arg<CudaGraph_BufferType, "", [MemRead]>:$source,
                       Arg<CudaGraph_BufferType, "", [MemWrite]>:$target);
  let assemblyFormat = [{
    $source `to` $target attr-dict `:` qualified(type($source)) `,` qualified(type($target))
  }];
  let hasVerifier = 1;
}

def CudaGraph_SpeculateOp : CudaGraph_Op<"speculate", [HasParent<"ProgramOp">]> {
  let summary = "ends the launch unless a boolean is true";
  let description = [{
    The host waits for the boolean. Where it is false, nothing behind this op is
    launched, and the program does not answer the call: nobody has seen what it
    wrote.

    ```mlir
    cudagraph.speculate %p : !cudagraph.buffer<tensor<i1>>
    ```
  }];
  let arguments = (ins Arg<CudaGraph_BufferType, "", [MemRead]>:$flag);
  let assemblyFormat = "$flag attr-dict `:` qualified(type($flag))";
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Regions
//===----------------------------------------------------------------------===//

def CudaGraph_GraphOp : CudaGraph_Op<"graph", [SingleBlock, NoTerminator, RecursiveMemoryEffects]> {
  let summary = "what is captured once and replayed";
  let description = [{
    The ops of the body become one graph. `externals` declares every external
    buffer whose address the body needs: those are what a replay has to renew.
    Ends in `cudagraph.yield` of what vendor calls allocated inside and ops
    outside read; such memory belongs to the graph and is written anew by the
    next replay.

    ```mlir
    cudagraph.graph externals(%x, %y : !cudagraph.buffer<tensor<8xf32>>, !cudagraph.buffer<tensor<8xf32>>) {
      cudagraph.kernel @kernel_0(%x) to (%y) : (!cudagraph.buffer<tensor<8xf32>>) -> (!cudagraph.buffer<tensor<8xf32>>)
      cudagraph.yield
    }
    ```
  }];
  let arguments = (ins Variadic<CudaGraph_BufferType>:$externals);
  let results = (outs Variadic<CudaGraph_BufferType>:$results);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    (`externals` `(` $externals^ `:` qualified(type($externals)) `)`)?
    (`to` `(` qualified(type($results))^ `)`)? attr-dict-with-keyword $body
  }];
  let hasRegionVerifier = 1;
  let extraClassDeclaration = [{
    ::mlir::Block &getBlock() { return getBody().front(); }
  }];
}

def CudaGraph_IfOp : CudaGraph_Op<"if", [NoTerminator, RecursiveMemoryEffects]> {
  let summary = "a body that runs if a number on the device says so";
  let description = [{
    Inside a graph a conditional node: the device decides, the host never
    learns. Outside, the host reads the number and launches one body or the
    other. A body in a graph holds addresses that never change: what moves is
    copied in front of it.

    ```mlir
    cudagraph.if %p : !cudagraph.buffer<tensor<i1>> {
      cudagraph.kernel @kernel_0(%x) to (%y) : (!cudagraph.buffer<tensor<8xf32>>) -> (!cudagraph.buffer<tensor<8xf32>>)
    }
    ```
  }];
  let arguments = (ins Arg<CudaGraph_BufferType, "", [MemRead]>:$condition);
  let regions = (region SizedRegion<1>:$then, MaxSizedRegion<1>:$otherwise);
  let assemblyFormat = [{
    $condition `:` qualified(type($condition)) $then (`else` $otherwise^)? attr-dict
  }];
  let hasVerifier = 1;
}

def CudaGraph_WhileOp : CudaGraph_Op<"while", [NoTerminator, RecursiveMemoryEffects]> {
  let summary = "a body that runs as long as a number on the device says so";
  let description = [{
    Inside a graph a conditional node that loops; outside, the host reads the
    number before each iteration. The body has to write it, or none would be
    the last. What one iteration leaves for the next stands in buffers that both
    share.

    ```mlir
    cudagraph.while %p : !cudagraph.buffer<tensor<i1>> {
      cudagraph.kernel @step(%x) to (%x, %p) : (!cudagraph.buffer<tensor<8xf32>>) -> (!cudagraph.buffer<tensor<8xf32>>, !cudagraph.buffer<tensor<i1>>)
    }
    ```
  }];
  let arguments = (ins Arg<CudaGraph_BufferType, "", [MemRead]>:$condition);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    $condition `:` qualified(type($condition)) $body attr-dict
  }];
  let hasRegionVerifier = 1;
}

def CudaGraph_YieldOp : CudaGraph_Op<"yield", [HasParent<"GraphOp">, Terminator]> {
  let summary = "vendor results that outlive their graph's body";
  let description = [{
    ```mlir
    cudagraph.yield %r : !cudagraph.buffer<tensor<4x4xf32>>
    ```
  }];
  let arguments = (ins Variadic<CudaGraph_BufferType>:$values);
  let assemblyFormat = "($values^ `:` qualified(type($values)))? attr-dict";
}

def CudaGraph_ReturnOp : CudaGraph_Op<"return", [HasParent<"ProgramOp">, Terminator]> {
  let summary = "the buffers that answer the call";
  let description = [{
    Output i of the call is the tensor in buffer i: an output external, or what
    a vendor call allocated outside of every graph. Anything else (an input, a
    view) is copied for the caller, who gets memory that nobody else has.

    ```mlir
    cudagraph.return %y : !cudagraph.buffer<tensor<8xf32>>
    ```
  }];
  let arguments = (ins Variadic<CudaGraph_BufferType>:$values);
  let assemblyFormat = "($values^ `:` qualified(type($values)))? attr-dict";
}

#endif // PYJIT_CUDAGRAPH_OPS_TD
