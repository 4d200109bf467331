// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef PYJIT_DIALECTS_TSSA_IR_TSSAOPS_TD
#define PYJIT_DIALECTS_TSSA_IR_TSSAOPS_TD

include "dialects/tssa/IR/TSSAAttrs.td"
include "dialects/tssa/IR/TSSATypes.td"
include "mlir/Interfaces/SideEffectInterfaces.td"
include "mlir/IR/OpBase.td"

class TSSA_Op<string mnemonic, list<Trait> traits = []>
    : Op<TSSA_Dialect, mnemonic, traits>;

//===----------------------------------------------------------------------===//
// Both levels
//===----------------------------------------------------------------------===//

def TSSA_AtenOp : TSSA_Op<"aten",
    [DeclareOpInterfaceMethods<MemoryEffectsOpInterface>]> {
  let summary = "call of an ATen overload on tensor values";
  let description = [{
    Calls an overload with the arguments of its full schema (the format of
    `lib/Operators/CallArguments`). The operator table says how it lowers.
    Operands are values and stay unchanged: an overload that writes operands
    names their numbers in `mutates`, and has one more result for each, the
    operand's new value, after the tensors that the overload returns.

    Has an effect where the overload draws random numbers, where its result's
    size depends on data, where the table does not know it, and, on exceptions
    alone, where `pyjit.must_run` says that it may raise.

    ```mlir
    %0 = tssa.aten "aten::gelu"(%x, "tanh") : (tensor<4xf32>) -> tensor<4xf32>
    %1:2 = tssa.aten "mylib::push_"(%x, %y) mutates [0]
        : (tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
    ```
  }];
  let arguments = (ins StrAttr:$overload, Variadic<AnyRankedTensor>:$inputs,
                       ArrayAttr:$args,
                       OptionalAttr<DenseI64ArrayAttr>:$mutates);
  let results = (outs Variadic<AnyRankedTensor>:$outputs);
  let assemblyFormat = [{
    $overload `` custom<CallArguments>($inputs, $args) (`mutates` $mutates^)?
    attr-dict `:` functional-type($inputs, $outputs)
  }];
  let hasVerifier = 1;
}

def TSSA_SizeOp : TSSA_Op<"size", [Pure]> {
  let summary = "a size that differs between calls, as a number";
  let description = [{
    The value of a polynomial over the function's symbols (`#tssa.layout`). Has
    no operands: symbols mean the same everywhere in a call, kernels included.

    ```mlir
    %n = tssa.size affine_map<()[s0] -> (s0 * 4)>
    ```
  }];
  let arguments = (ins AffineMapAttr:$map);
  let results = (outs Index:$result);
  let assemblyFormat = "$map attr-dict";
  let hasVerifier = 1;
}

def TSSA_SpeculateOp : TSSA_Op<"speculate", [MemoryEffects<[MemWrite]>]> {
  let summary = "what the call has to find in its data";
  let description = [{
    The program was made of a call that went on as it did because this flag was
    true. Where it is false, the program ends here and answers nothing: no
    operation behind it runs, and nothing in front of it can be seen from
    outside, so that somebody else may answer the call from its beginning.

    Stands in a function's own block. Its effect is that of an exit: operations
    may go in front of it where running them in vain does no harm
    (`tssa-hoist-speculations`).

    ```mlir
    tssa.speculate %flag : tensor<i1>
    ```
  }];
  let arguments = (ins AnyRankedTensor:$flag);
  let assemblyFormat = "$flag attr-dict `:` type($flag)";
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Functional level
//===----------------------------------------------------------------------===//

def TSSA_EmptyOp : TSSA_Op<"empty", [Pure]> {
  let summary = "a tensor of symbolic sizes to be overwritten";
  let description = [{
    `tensor.empty` for a type whose sizes its `#tssa.layout` says, so that no
    operand has to.

    ```mlir
    %e = tssa.empty : tensor<?x64xf32, #tssa.layout<[s0, 64], [64, 1]>>
    ```
  }];
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "attr-dict `:` type($result)";
  let hasVerifier = 1;
}

def TSSA_AccessOp : TSSA_Op<"access", [Pure]> {
  let summary = "the value that a view shows";
  let description = [{
    The value that applying the path's views, one after the other, to a tensor
    of `source`'s contents would show. Shares no memory with it by itself.

    ```mlir
    %r = tssa.access %t [#tssa.view<permute [1, 0]>, #tssa.view<select [0, ?]>] (%i)
        : tensor<4x8xf32> -> tensor<4xf32, #tssa.strides<[8]>>
    ```
  }];
  let arguments = (ins AnyRankedTensor:$source, TSSA_ViewPath:$path,
                       Variadic<Index>:$indices);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = [{
    $source $path (`(` $indices^ `)`)? attr-dict `:` type($source) `->` type($result)
  }];
  let hasVerifier = 1;
}

def TSSA_AssignOp : TSSA_Op<"assign", [Pure, AllTypesMatch<["target", "result"]>]> {
  let summary = "a value with the viewed part replaced";
  let description = [{
    `target` with the part that the path shows replaced by `source`. A path
    that shows an element twice (expand, overlapping windows) is refused, as
    PyTorch refuses to write through it. Two laws hold for every path:
    `access(assign(t, s, v), v) == s` and `assign(t, access(t, v), v) == t`.

    ```mlir
    %r = tssa.assign %t, %s [#tssa.view<select [0, 1]>]
        : tensor<4x8xf32>, tensor<8xf32>
    ```
  }];
  let arguments = (ins AnyRankedTensor:$target, AnyRankedTensor:$source,
                       TSSA_ViewPath:$path, Variadic<Index>:$indices);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = [{
    $target `,` $source $path (`(` $indices^ `)`)? attr-dict
    `:` type($target) `,` type($source)
  }];
  let hasVerifier = 1;
}

def TSSA_PickOp : TSSA_Op<"pick", [Pure]> {
  let summary = "one of several values of a type, by number";
  let description = [{
    The value at `index` in the list, which has to be in range: the weights of
    an iteration of a loop, say. Shares no memory with it by itself, and needs none:
    the launch program calls the value by another name.

    ```mlir
    %w = tssa.pick [%w0, %w1, %w2] (%i) : tensor<4x8xf32>
    ```
  }];
  let arguments = (ins Variadic<AnyRankedTensor>:$choices, Index:$index);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = [{
    `[` $choices `]` `(` $index `)` attr-dict `:` custom<PickType>(type($choices), ref($choices), type($result))
  }];
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Imperative level
//===----------------------------------------------------------------------===//

class TensorOfRef<string ref, string tensor>
    : TypesMatchWith<"the handle's tensor type", ref, tensor,
                     "::mlir::cast<::pyjit::tssa::RefType>($_self).getTensor()">;

def TSSA_RefOp : TSSA_Op<"ref", [MemoryEffects<[MemAlloc]>,
                                 TensorOfRef<"result", "value">]> {
  let summary = "a fresh tensor in memory with these contents";
  let description = [{
    What an operator's result is in PyTorch: new memory, seen by no one else.

    ```mlir
    %r = tssa.ref %v : !tssa.ref<tensor<4xf32>>
    ```
  }];
  let arguments = (ins AnyRankedTensor:$value);
  let results = (outs TSSA_RefType:$result);
  let assemblyFormat = "$value attr-dict `:` qualified(type($result))";
}

def TSSA_ViewOp : TSSA_Op<"view", [Pure]> {
  let summary = "a handle of part of another handle's tensor";
  let description = [{
    Shares the source's memory: what is stored through one is loaded through
    the other.

    ```mlir
    %w = tssa.view %r [#tssa.view<select [0, 1]>]
        : !tssa.ref<tensor<4x8xf32>> -> !tssa.ref<tensor<8xf32>>
    ```
  }];
  let arguments = (ins TSSA_RefType:$source, TSSA_ViewPath:$path,
                       Variadic<Index>:$indices);
  let results = (outs TSSA_RefType:$result);
  let assemblyFormat = [{
    $source $path (`(` $indices^ `)`)? attr-dict `:` qualified(type($source)) `->` qualified(type($result))
  }];
  let hasVerifier = 1;
}

def TSSA_LoadOp : TSSA_Op<"load", [TensorOfRef<"ref", "result">]> {
  let summary = "the contents now";
  let description = [{
    ```mlir
    %v = tssa.load %r : !tssa.ref<tensor<4xf32>>
    ```
  }];
  let arguments = (ins Arg<TSSA_RefType, "", [MemRead]>:$ref);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$ref attr-dict `:` qualified(type($ref))";
}

def TSSA_StoreOp : TSSA_Op<"store", [TensorOfRef<"ref", "value">]> {
  let summary = "replace the contents";
  let description = [{
    Stores a value of the very type that the handle names; a change of dtype or
    a broadcast on the way is an operator of its own.

    ```mlir
    tssa.store %v, %r : !tssa.ref<tensor<4xf32>>
    ```
  }];
  let arguments = (ins AnyRankedTensor:$value,
                       Arg<TSSA_RefType, "", [MemWrite]>:$ref);
  let assemblyFormat = "$value `,` $ref attr-dict `:` qualified(type($ref))";
}

#endif
