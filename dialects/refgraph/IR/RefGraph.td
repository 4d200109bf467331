// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===- RefGraph.td - the refgraph dialect, its types and enums -*- tablegen -*-//
//
// Words and reasons: dialects/refgraph/README.md. Exact text format:
// docs/TraceGrammar.md.
//
//===----------------------------------------------------------------------===//

#ifndef PYJIT_REFGRAPH_TD
#define PYJIT_REFGRAPH_TD

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/DialectBase.td"
include "mlir/IR/EnumAttr.td"

def RefGraph_Dialect : Dialect {
  let name = "refgraph";
  let cppNamespace = "::pyjit::refgraph";
  let summary = "What one run of a Python function read, wrote and created";
  let description = [{
    A log of one real execution as SSA: each value is one version of a
    Python object or tensor, each read or write of an object through another
    is an op. Reachability over the first versions gives the guards,
    reachability over the last versions gives the mock that reproduces the
    run's effects.
  }];
  let useDefaultTypePrinterParser = 1;
}

class RefGraph_Type<string name, string typeMnemonic>
    : TypeDef<RefGraph_Dialect, name> {
  let mnemonic = typeMnemonic;
}

def RefGraph_ObjType : RefGraph_Type<"Obj", "obj"> {
  let summary = "a Python object";
  let description = [{
    The string is the type's name, written for readers: what the object's type
    must be is said by `type(N)` on the op that reads it. Bare names of builtin
    types stand for the builtin types only.

    ```mlir
    !refgraph.obj<"list">
    ```
  }];
  let parameters = (ins StringRefParameter<"name of the type">:$name);
  let assemblyFormat = "`<` $name `>`";
}

def RefGraph_TensorType : RefGraph_Type<"Tensor", "tensor"> {
  let summary = "a strided torch.Tensor with its exact layout";
  let description = [{
    Shape and strides in elements, element type (torch.bool is `i1`, uint8 is
    `ui8`), device. A size that differs between calls is a symbol `s0`, `s1`, ...
    (`refgraph.symbol` says which), an integer of at least 2; sizes and strides
    that follow from it are sums and products of symbols.

    ```mlir
    !refgraph.tensor<[4, 8], [8, 1], f32, "cpu">
    !refgraph.tensor<[s0, s0 * 2, 8], [s0 * 16, 8, 1], f32, "cpu">
    ```
  }];
  // Where a size or stride is no constant, `shape` or `strides` has kDynamic,
  // and `exprs` has all sizes, then all strides; else it is empty.
  let parameters = (ins
    ArrayRefParameter<"int64_t">:$shape,
    ArrayRefParameter<"int64_t">:$strides,
    ArrayRefParameter<"::mlir::AffineExpr">:$exprs,
    "::mlir::Type":$elementType,
    StringRefParameter<"device, as torch.device prints it">:$device);
  let builders = [
    TypeBuilder<(ins "::llvm::ArrayRef<analysis::SizePolynomial>":$sizes,
                     "::llvm::ArrayRef<analysis::SizePolynomial>":$strides,
                     "::mlir::Type":$elementType, "::llvm::StringRef":$device)>
  ];
  let assemblyFormat = [{
    `<` custom<Layout>($shape, $strides, $exprs) `,` $elementType `,`
    $device `>`
  }];
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    unsigned getRank() const { return getShape().size(); }
    /// Whether a size or stride is no constant.
    bool isSymbolic() const { return !getExprs().empty(); }
    analysis::SizePolynomial getSize(unsigned dim) const;
    analysis::SizePolynomial getStride(unsigned dim) const;
    analysis::SizePolynomial getNumElements() const;
    /// Whether the elements fill one span of memory without gap or overlap, so
    /// that a fresh tensor of this layout needs no larger storage.
    bool isDense() const;
    /// Whether its elements are floats or complex numbers.
    bool mayHaveGradient() const;
  }];
}

// Where in an object a read or write takes place.
def RefGraph_Selector : I32EnumAttr<"Selector", "source: where in an object", [
    I32EnumAttrCase<"arg", 0>,
    I32EnumAttrCase<"attr", 1>,
    I32EnumAttrCase<"dict", 2>,
    I32EnumAttrCase<"item", 3>,
    I32EnumAttrCase<"type", 4>,
    I32EnumAttrCase<"typeattr", 5>,
    I32EnumAttrCase<"code", 6>,
    I32EnumAttrCase<"defaults", 7>,
    I32EnumAttrCase<"kwdefaults", 8>,
    I32EnumAttrCase<"globals", 9>,
    I32EnumAttrCase<"cell", 10>,
    I32EnumAttrCase<"slot", 11>,
    I32EnumAttrCase<"field", 12>,
    I32EnumAttrCase<"grad", 13>,
    I32EnumAttrCase<"data", 15>,
    I32EnumAttrCase<"kept_cast", 14>,
    I32EnumAttrCase<"storage", 16>]> {
  let cppNamespace = "::pyjit::refgraph";
}

#endif // PYJIT_REFGRAPH_TD
