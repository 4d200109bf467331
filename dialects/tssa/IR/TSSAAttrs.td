#ifndef PYJIT_DIALECTS_TSSA_IR_TSSAATTRS_TD
#define PYJIT_DIALECTS_TSSA_IR_TSSAATTRS_TD

include "dialects/tssa/IR/TSSADialect.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/TensorEncoding.td"

class TSSA_Attr<string name, string attrMnemonic, list<Trait> traits = []>
    : AttrDef<TSSA_Dialect, name, traits> {
  let mnemonic = attrMnemonic;
}

def TSSA_StridesAttr : TSSA_Attr<"Strides", "strides",
    [DeclareAttrInterfaceMethods<VerifiableTensorEncoding>]> {
  let summary = "layout of a tensor in elements, as eager PyTorch had it";
  let description = [{
    The encoding of a tensor type whose layout is not row-major: one stride per
    dimension, in elements. A type without encoding is row-major contiguous. An
    operator's result is always dense; inputs and accesses need not be.

    ```mlir
    tensor<4x8xf32, #tssa.strides<[1, 4]>>
    ```
  }];
  let parameters = (ins OptionalArrayRefParameter<"int64_t">:$strides);
  let assemblyFormat = "`<` `[` (`]`) : ($strides^ `]`)? `>`";
}

class ViewKind<string name, int value> : I32EnumAttrCase<name, value>;
def TSSA_ViewKind : I32EnumAttr<"ViewKind", "kind of view", [
    ViewKind<"alias", 0>, ViewKind<"select", 1>, ViewKind<"slice", 2>,
    ViewKind<"permute", 3>, ViewKind<"view", 4>, ViewKind<"expand", 5>,
    ViewKind<"squeeze", 6>, ViewKind<"unsqueeze", 7>, ViewKind<"diagonal", 8>,
    ViewKind<"unfold", 9>, ViewKind<"as_strided", 10>]> {
  let cppNamespace = "::pyjit::tssa";
}

def TSSA_ViewAttr : TSSA_Attr<"View", "view"> {
  let summary = "one step of a view path";
  let description = [{
    A kind and its numbers, normalised: dimensions count from the front, slices
    are clamped, sizes are spelled out.

    | kind | numbers | shows |
    | --- | --- | --- |
    | `alias` | | the tensor itself |
    | `select` | dim, index | one index of a dimension, which goes away |
    | `slice` | dim, start, length, step | part of a dimension |
    | `permute` | permutation | result dimension i is source dimension p[i] |
    | `view` | sizes | the same elements in row-major order in another shape |
    | `expand` | sizes | size-1 and new leading dimensions repeated |
    | `squeeze` | dims | without these dimensions of size 1 |
    | `unsqueeze` | dim | a new dimension of size 1 before dim |
    | `diagonal` | offset, dim1, dim2 | a diagonal, as last dimension |
    | `unfold` | dim, size, step | sliding windows, window as last dimension |
    | `as_strided` | offset, sizes…, strides… | any strided part of the storage |

    `?` in the place of a select's index or a slice's start stands for an SSA
    operand of the op that holds the path.

    ```mlir
    #tssa.view<select [0, 2]>
    #tssa.view<slice [1, ?, 4, 1]>
    ```
  }];
  let parameters = (ins "ViewKind":$kind, ArrayRefParameter<"int64_t">:$params);
  let hasCustomAssemblyFormat = 1;
  let extraClassDeclaration = [{
    /// How many SSA index operands this step takes.
    unsigned getNumDynamic();
  }];
}

def TSSA_ViewPath : TypedArrayAttrBase<TSSA_ViewAttr, "list of views"> {}

#endif
