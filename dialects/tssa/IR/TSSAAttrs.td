// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef PYJIT_DIALECTS_TSSA_IR_TSSAATTRS_TD
#define PYJIT_DIALECTS_TSSA_IR_TSSAATTRS_TD

include "dialects/tssa/IR/TSSADialect.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/BuiltinAttributeInterfaces.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/TensorEncoding.td"

class TSSA_Attr<string name, string attrMnemonic, list<Trait> traits = []>
    : AttrDef<TSSA_Dialect, name, traits> {
  let mnemonic = attrMnemonic;
}

def TSSA_StridesAttr : TSSA_Attr<"Strides", "strides",
    [DeclareAttrInterfaceMethods<VerifiableTensorEncoding>,
     // Dialects that do not know this one ask for the strides so.
     DeclareAttrInterfaceMethods<MemRefLayoutAttrInterface,
                                 ["getStridesAndOffset"]>]> {
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

def TSSA_LayoutAttr : TSSA_Attr<"Layout", "layout",
    [DeclareAttrInterfaceMethods<VerifiableTensorEncoding>]> {
  let summary = "sizes and strides of a tensor where some differ between calls";
  let description = [{
    The encoding of a tensor type with a size or a stride that is known only when
    the function is called: all sizes, then all strides, in elements. A size is a
    polynomial over the function's symbols `s0`, `s1`, … in the normal form of
    `lib/Analysis/SizeExpr`; the type has `?` exactly where it is no number.
    Two tensors have the same shape in every call if and only if their sizes are
    the same expressions. The function says what its symbols are
    (`pyjit.symbols`: for each an input and a dimension of it, or -1 for the
    value of a 0-dim input), and each is at least 2.

    ```mlir
    tensor<?x64xf32, #tssa.layout<[s0, 64], [64, 1]>>
    tensor<4x?x8xf32, #tssa.layout<[4, s0 + s1, 8], [s0 * 8 + s1 * 8, 8, 1]>>
    ```
  }];
  let parameters = (ins OptionalArrayRefParameter<"::mlir::AffineExpr">:$sizes,
                        OptionalArrayRefParameter<"::mlir::AffineExpr">:$strides);
  let hasCustomAssemblyFormat = 1;
}

class ViewKind<string name, int value> : I32EnumAttrCase<name, value>;
def TSSA_ViewKind : I32EnumAttr<"ViewKind", "kind of view", [
    ViewKind<"alias", 0>, ViewKind<"select", 1>, ViewKind<"slice", 2>,
    ViewKind<"permute", 3>, ViewKind<"view", 4>, ViewKind<"expand", 5>,
    ViewKind<"squeeze", 6>, ViewKind<"unsqueeze", 7>, ViewKind<"diagonal", 8>,
    ViewKind<"unfold", 9>, ViewKind<"as_strided", 10>,
    ViewKind<"detach", 11>]> {
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
    | `detach` | | the tensor itself, of which no gradient is asked: derivatives end here |

    `?` in the place of a select's index or a slice's start stands for an SSA
    operand of the op that holds the path. A number that differs between calls is
    an expression over the function's symbols, as in `#tssa.layout`. Whether part
    of a dimension lies inside of it may then depend on the call: that it does is
    the program's promise (guards), and the verifier refuses what is outside in
    every call.

    ```mlir
    #tssa.view<select [0, 2]>
    #tssa.view<slice [1, ?, 4, 1]>
    #tssa.view<view [s0 * 4, 16]>
    ```
  }];
  // `exprs` is empty, or has an expression for every number; `params` has
  // `kSymbolic` where that is no constant.
  let parameters = (ins "ViewKind":$kind, ArrayRefParameter<"int64_t">:$params,
                        OptionalArrayRefParameter<"::mlir::AffineExpr">:$exprs);
  let builders = [
    AttrBuilder<(ins "::pyjit::tssa::ViewKind":$kind,
                     "::llvm::ArrayRef<int64_t>":$params), [{
      return $_get($_ctxt, kind, params, ::llvm::ArrayRef<::mlir::AffineExpr>());
    }]>
  ];
  let hasCustomAssemblyFormat = 1;
  let extraClassDeclaration = [{
    /// A number that is an expression.
    static constexpr int64_t kSymbolic = ::mlir::ShapedType::kDynamic + 1;
    /// With numbers that may differ between calls.
    static ViewAttr getSymbolic(::mlir::MLIRContext *context, ViewKind kind,
                                ::llvm::ArrayRef<::mlir::AffineExpr> numbers);
    bool isSymbolic() { return !getExprs().empty(); }

    /// How many SSA index operands this step takes.
    unsigned getNumDynamic();
  }];
}

def TSSA_ViewPath : TypedArrayAttrBase<TSSA_ViewAttr, "list of views"> {}

#endif
