// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===- CudaGraph.td - the cudagraph dialect, its type and enums -*- tablegen -*-//

#ifndef PYJIT_CUDAGRAPH_TD
#define PYJIT_CUDAGRAPH_TD

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/DialectBase.td"
include "mlir/IR/EnumAttr.td"

def CudaGraph_Dialect : Dialect {
  let name = "cudagraph";
  let cppNamespace = "::pyjit::cudagraph";
  let summary = "how a program is launched on a device";
  let description = [{
    A launch program: kernels, vendor calls and copies over buffers, in the
    order in which one stream carries them out, and which of them are captured
    and replayed as one graph. Words and reasons: README.md in this folder.
  }];
  let useDefaultTypePrinterParser = 1;
}

def CudaGraph_Space : I32EnumAttr<"Space", "where a buffer lives", [
    I32EnumAttrCase<"device", 0>, I32EnumAttrCase<"host", 1>]> {
  let cppNamespace = "::pyjit::cudagraph";
}

def CudaGraph_Role : I32EnumAttr<"Role", "whose memory an external buffer is", [
    I32EnumAttrCase<"input", 0>, I32EnumAttrCase<"cached", 1>,
    I32EnumAttrCase<"output", 2>]> {
  let cppNamespace = "::pyjit::cudagraph";
}

def CudaGraph_Variant : I32EnumAttr<"Variant", "a way to launch a program", [
    I32EnumAttrCase<"plain", 0>, I32EnumAttrCase<"copy", 1>,
    I32EnumAttrCase<"table", 2>, I32EnumAttrCase<"update", 3>]> {
  let cppNamespace = "::pyjit::cudagraph";
}

def CudaGraph_BufferType : TypeDef<CudaGraph_Dialect, "Buffer"> {
  let mnemonic = "buffer";
  let summary = "memory that holds one tensor";
  let description = [{
    The tensor's shape, element type and layout, and the space that it lives
    in: the program's device, or the host.

    ```mlir
    !cudagraph.buffer<tensor<4x8xf32>>
    !cudagraph.buffer<tensor<f32>, host>
    ```
  }];
  let parameters = (ins "::mlir::RankedTensorType":$tensor,
                        DefaultValuedParameter<"Space", "Space::device">:$space);
  let assemblyFormat = "`<` $tensor (`,` $space^)? `>`";
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    bool isHost() const { return getSpace() == Space::host; }
    /// From the first element to the end of the last: gaps that the layout
    /// leaves count, repetitions do not. Not known where `isSymbolic`.
    int64_t getBytes() const;
    /// Whether its sizes or strides differ between calls.
    bool isSymbolic() const;
  }];
  let builders = [
    TypeBuilderWithInferredContext<(ins "::mlir::RankedTensorType":$tensor,
        CArg<"Space", "Space::device">:$space), [{
      return $_get(tensor.getContext(), tensor, space);
    }]>
  ];
}

#endif // PYJIT_CUDAGRAPH_TD
