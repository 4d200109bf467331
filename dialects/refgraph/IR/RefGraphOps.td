// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===- RefGraphOps.td - ops of the refgraph dialect ------------*- tablegen -*-//

#ifndef PYJIT_REFGRAPH_OPS_TD
#define PYJIT_REFGRAPH_OPS_TD

include "dialects/refgraph/IR/RefGraph.td"
include "mlir/IR/BuiltinAttributes.td"
include "mlir/IR/CommonAttrConstraints.td"
include "mlir/IR/OpBase.td"
include "mlir/IR/RegionKindInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def RefGraph_Value : AnyTypeOf<[RefGraph_ObjType, RefGraph_TensorType],
                               "Python object or tensor">;
// Written in full in the text format, unlike a bare type constraint.
def RefGraph_Obj : AnyTypeOf<[RefGraph_ObjType], "Python object">;
def RefGraph_Tensor : AnyTypeOf<[RefGraph_TensorType], "tensor">;

class RefGraph_Op<string mnemonic, list<Trait> traits = []>
    : Op<RefGraph_Dialect, mnemonic, traits>;

// A specialization part: a region of one block that sees nothing from outside.
class RefGraph_PartOp<string mnemonic, list<Trait> traits = []>
    : RefGraph_Op<mnemonic, !listconcat([IsolatedFromAbove, SingleBlock],
                                        traits)>;

//===----------------------------------------------------------------------===//
// Parts of a specialization
//===----------------------------------------------------------------------===//

def RefGraph_TraceOp : RefGraph_PartOp<"trace", [NoRegionArguments]> {
  let summary = "what one run of a Python function did";
  let description = [{
    Everything that the run read from objects that existed before it, in order,
    the tensor operators as the dispatcher saw them, the objects that escape,
    built from their final state, and the writes to objects that existed before.
    The name ties the parts of a specialization together; it is no symbol.

    ```mlir
    refgraph.trace @f {
      %e = refgraph.external
      %x = refgraph.get %e arg(0, "x") type(3) {keyset = 32769 : i64, requires_grad = false} : !refgraph.tensor<[64], [1], f32, "cpu">
      %r = refgraph.tensor_op "aten::relu"(%x) : (!refgraph.tensor<[64], [1], f32, "cpu">) -> !refgraph.tensor<[64], [1], f32, "cpu">
      refgraph.leave %r : !refgraph.tensor<[64], [1], f32, "cpu">
    }
    ```
  }];
  let arguments = (ins FlatSymbolRefAttr:$specialization);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "$specialization attr-dict-with-keyword $body";
  let hasRegionVerifier = 1;
}

def RefGraph_GuardsOp : RefGraph_PartOp<"guards", [NoRegionArguments]> {
  let summary = "the guards that a call must pass for a specialization to answer it";
  let description = [{
    Reads and checks, in the order in which they are carried out. At most one
    `refgraph.watch`: what stands before it depends only on the holders that it
    lists and is looked at again only when one of them changed. A tensor that is
    read `unchecked` has its metadata compared by a later `refgraph.check`.

    ```mlir
    refgraph.guards @f {
      %g = refgraph.object 12 "module globals" : !refgraph.obj<"dict">
      %n = refgraph.get %g item("n") equals(2) : !refgraph.obj<"dict"> -> !refgraph.obj<"int">
      refgraph.watch dicts(%g : !refgraph.obj<"dict">)
      %e = refgraph.external
      %x = refgraph.get %e arg(0, "x") type(3) {requires_grad = false} : !refgraph.tensor<[64], [1], f32, "cpu">
      refgraph.accept(%x : !refgraph.tensor<[64], [1], f32, "cpu">)
    }
    ```
  }];
  let arguments = (ins FlatSymbolRefAttr:$specialization);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "$specialization attr-dict-with-keyword $body";
  let hasRegionVerifier = 1;
}

def RefGraph_MockOp : RefGraph_PartOp<"mock"> {
  let summary = "how a specialization's effects and result are reproduced";
  let description = [{
    Block arguments: the graph's inputs and what else the guards keep, as
    `refgraph.accept` lists them, then the results of the graph. Copy-backs
    first, then objects and writes in the recorded order, then the result.

    ```mlir
    refgraph.mock @f inputs(%x: !refgraph.tensor<[4], [1], f32, "cpu">) keeps(%c: !refgraph.obj<"Config">) results(%r: !refgraph.tensor<[4], [1], f32, "cpu">) {
      refgraph.set %c attr("last") = %r : !refgraph.obj<"Config">, !refgraph.tensor<[4], [1], f32, "cpu">
      %t = refgraph.create "tuple" [%x, %r] : (!refgraph.tensor<[4], [1], f32, "cpu">, !refgraph.tensor<[4], [1], f32, "cpu">) -> !refgraph.obj<"tuple">
      refgraph.leave %t : !refgraph.obj<"tuple">
    }
    ```
  }];
  let arguments = (ins FlatSymbolRefAttr:$specialization, I64Attr:$num_inputs,
                       I64Attr:$num_kept);
  let regions = (region SizedRegion<1>:$body);
  let hasCustomAssemblyFormat = 1;
  let hasRegionVerifier = 1;
  let extraClassDeclaration = [{
    ::mlir::Block::BlockArgListType getInputs();
    ::mlir::Block::BlockArgListType getKept();
    ::mlir::Block::BlockArgListType getResults();
  }];
}

def RefGraph_GraphOp : RefGraph_PartOp<"graph"> {
  let summary = "the tensor operators that a specialization's results need";
  let description = [{
    Block arguments are the inputs: tensors, and lifted numbers. `mutates` lists the inputs that are
    written; their new contents are the last results, in that order. Values stay
    references as in the trace: `refgraph.yield` states each tensor's contents
    at the end, whatever wrote to it, through a view or directly. `params` lists
    the inputs that are parameters, or constants of the specialization: the same memory
    at each call, though the call may write it; `holds` the elements of constants, behind their input's number. `symbols`
    says of each symbol of the types which input it is read from: a tensor's
    number and the dimension, or a number's and -1.

    `gradient_results` lists the results that are to be differentiated, and
    `gradient_inputs` the inputs that require grad; none where the history of each such
    result leads to leaves of the call's own alone. A graph has both or neither.
    The last `gradient_views` values that it yields are no results: they are views
    that the mock makes of a result or an input, yielded for their gradients.

    ```mlir
    refgraph.graph @f(%x: !refgraph.tensor<[4], [1], f32, "cpu">) mutates [0] {
      %0 = refgraph.tensor_op "aten::relu_"(%x) mutates [0] : (!refgraph.tensor<[4], [1], f32, "cpu">) -> !refgraph.tensor<[4], [1], f32, "cpu">
      refgraph.yield %0 : !refgraph.tensor<[4], [1], f32, "cpu">
    }
    ```
  }];
  let arguments = (ins FlatSymbolRefAttr:$specialization,
                       DefaultValuedAttr<DenseI64ArrayAttr, "{}">:$mutates,
                       OptionalAttr<DenseI64ArrayAttr>:$params,
                       OptionalAttr<ArrayAttr>:$holds,
                       OptionalAttr<ArrayAttr>:$symbols,
                       OptionalAttr<DenseI64ArrayAttr>:$gradient_inputs,
                       OptionalAttr<DenseI64ArrayAttr>:$gradient_results,
                       DefaultValuedAttr<I64Attr, "0">:$gradient_views);
  let regions = (region SizedRegion<1>:$body);
  let hasCustomAssemblyFormat = 1;
  let hasRegionVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Roots and reads
//===----------------------------------------------------------------------===//

// Place in the specialization's table of objects.
def RefGraph_Index
    : ConfinedAttr<I64Attr, [IntNonNegative, IntMaxValue<2147483647>]>;

def RefGraph_ExternalOp : RefGraph_Op<"external", [Pure]> {
  let summary = "the state outside the call";
  let description = [{
    The arguments hang from it.

    ```mlir
    %e = refgraph.external
    ```
  }];
  let results = (outs RefGraph_ObjType:$result);
  let assemblyFormat = "attr-dict `` custom<ExternalType>(type($result))";
}

def RefGraph_ObjectOp : RefGraph_Op<"object", [Pure]> {
  let summary = "an object that the specialization pins";
  let description = [{
    Entry N of the specialization's object table: known by identity, alive as long as
    the specialization. The string is for readers. `holds` gives the elements of a tensor
    of a few integers that the specialization made for itself and nobody writes to.

    ```mlir
    %g = refgraph.object 12 "module globals" : !refgraph.obj<"dict">
    %i = refgraph.object 13 "constant tensor" holds [-1, 0] : !refgraph.tensor<[2], [1], i64, "cpu">
    ```
  }];
  let arguments = (ins RefGraph_Index:$index,
                       OptionalAttr<StrAttr>:$hint,
                       OptionalAttr<DenseI64ArrayAttr>:$holds);
  let builders = [OpBuilder<(ins "::mlir::Type":$type, "int64_t":$index), [{
    build($_builder, $_state, type, $_builder.getI64IntegerAttr(index),
          ::mlir::StringAttr(), ::mlir::DenseI64ArrayAttr());
  }]>];
  let results = (outs RefGraph_Value:$result);
  let assemblyFormat =
      "$index ($hint^)? (`holds` $holds^)? attr-dict `:` type($result)";
}

def RefGraph_ConstantOp : RefGraph_Op<"constant", [Pure]> {
  let summary = "an immutable Python value";
  let description = [{
    ```mlir
    %two = refgraph.constant 2
    %key = refgraph.constant ("a", 2.0 : f64, none)
    ```
  }];
  let arguments = (ins AnyAttr:$value);
  let results = (outs RefGraph_ObjType:$result);
  let assemblyFormat = [{
    custom<PyValue>($value) attr-dict ``
    custom<ConstantType>(ref($value), type($result))
  }];
  let hasVerifier = 1;
}

def RefGraph_GetOp : RefGraph_Op<"get"> {
  let summary = "read one attribute, item or field of an object, and check what was found";
  let description = [{
    Selectors and checks are listed in docs/TraceGrammar.md. A read of a tensor
    also claims its layout (the result type), `requires_grad`, `keyset` and
    storage `offset`, unless it is `unchecked` (guards only). `inference` says
    that it was made in inference mode. `param` marks a
    tensor that stays the same from call to call as a rule: a `nn.Parameter`, or a
    module's buffer.
    `lift` marks a number whose value differed between calls: the recorder wrote
    all that was made of it as `arith` and `compare`. `lift_sizes` lists the
    dimensions of a tensor whose size did, `lift_strides` those whose stride did.

    ```mlir
    %n = refgraph.get %c attr("n") equals(2) : !refgraph.obj<"Config"> -> !refgraph.obj<"int">
    %f = refgraph.get %g item("relu") is(13) : !refgraph.obj<"dict"> -> !refgraph.obj<"function">
    ```
  }];
  let arguments = (ins RefGraph_Value:$holder,
    RefGraph_Selector:$selector, OptionalAttr<AnyAttr>:$key,
    OptionalAttr<StrAttr>:$label,
    OptionalAttr<I64Attr>:$exact_type, OptionalAttr<AnyAttr>:$equals,
    OptionalAttr<I64Attr>:$identity, UnitAttr:$unchecked,
    OptionalAttr<BoolAttr>:$requires_grad, OptionalAttr<I64Attr>:$keyset,
    OptionalAttr<I64Attr>:$offset, UnitAttr:$inference, UnitAttr:$param,
    UnitAttr:$lift, OptionalAttr<DenseI64ArrayAttr>:$lift_sizes,
    OptionalAttr<DenseI64ArrayAttr>:$lift_strides);
  let results = (outs RefGraph_Value:$result);
  let builders = [
    // A read that checks nothing.
    OpBuilder<(ins "mlir::Type":$result, "mlir::Value":$holder,
      "Selector":$selector, CArg<"mlir::Attribute", "{}">:$key,
      CArg<"mlir::StringAttr", "{}">:$label), [{
      $_state.addOperands(holder);
      auto &properties = $_state.getOrAddProperties<Properties>();
      properties.selector = SelectorAttr::get($_builder.getContext(), selector);
      properties.key = key;
      properties.label = label;
      $_state.addTypes(result);
    }]>];
  let assemblyFormat = [{
    $holder custom<SourceAndChecks>($selector, $key, $label, $exact_type,
                                   $equals, $identity)
    (`unchecked` $unchecked^)? attr-dict `:`
    custom<GetTypes>(ref($selector), type($holder), type($result))
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    bool hasObjectChecks() {
      return getExactTypeAttr() || getEqualsAttr() || getIdentityAttr();
    }
    /// Whether a size or a stride of the tensor differs between calls.
    bool liftsLayout() { return getLiftSizesAttr() || getLiftStridesAttr(); }
    /// Lifts what `other`, of a tensor of the same rank, lifts, too.
    void liftLayoutOf(GetOp other);
    /// Whether the run used the number in a way that is not written down, so
    /// that calls in which it is another one are other calls.
    bool keepsValue();
  }];
}

def RefGraph_AbsentOp : RefGraph_Op<"absent"> {
  let summary = "a lookup found nothing";
  let description = [{
    ```mlir
    refgraph.absent %c attr("hook") : !refgraph.obj<"Config">
    ```
  }];
  let arguments = (ins RefGraph_Value:$holder, RefGraph_Selector:$selector,
    OptionalAttr<AnyAttr>:$key, OptionalAttr<StrAttr>:$label);
  let assemblyFormat = [{
    $holder custom<Selector>($selector, $key, $label) attr-dict `:`
    type($holder)
  }];
  let hasVerifier = 1;
}

def RefGraph_HoldsOp : RefGraph_Op<"holds"> {
  let summary = "a set or dict contains a value";
  let description = [{
    ```mlir
    refgraph.holds %s item("gelu") : !refgraph.obj<"set">
    ```
  }];
  let arguments = (ins RefGraph_Obj:$holder, AnyAttr:$key);
  let assemblyFormat = [{
    $holder `item` `(` custom<PyValue>($key) `)` attr-dict `:` type($holder)
  }];
  let hasVerifier = 1;
}

def RefGraph_LengthOp : RefGraph_Op<"length"> {
  let summary = "the number of elements of a container";
  let description = [{
    ```mlir
    refgraph.length %l is 2 : !refgraph.obj<"list">
    ```
  }];
  let arguments = (ins RefGraph_Obj:$holder,
                       ConfinedAttr<I64Attr, [IntNonNegative]>:$length);
  let assemblyFormat = "$holder `is` $length attr-dict `:` type($holder)";
}

def RefGraph_OffsetOp : RefGraph_Op<"offset"> {
  let summary = "Python saw a tensor's storage offset";
  let description = [{
    Offsets are otherwise free to differ from call to call, `as_strided` apart.

    ```mlir
    refgraph.offset %x is 4 : !refgraph.tensor<[4], [1], f32, "cpu">
    ```
  }];
  let arguments = (ins RefGraph_Tensor:$tensor,
                       ConfinedAttr<I64Attr, [IntNonNegative]>:$offset);
  let assemblyFormat = "$tensor `is` $offset attr-dict `:` type($tensor)";
}

def RefGraph_UnhookedOp : RefGraph_Op<"unhooked"> {
  let summary = "nobody is told when a leaf gets a gradient";
  let description = [{
    Neither the tensor nor its gradient accumulator has hooks: what a backward
    within the call computes may be written to it at the end.

    ```mlir
    refgraph.unhooked %w : !refgraph.tensor<[4], [1], f32, "cpu">
    ```
  }];
  let arguments = (ins RefGraph_Tensor:$tensor);
  let assemblyFormat = "$tensor attr-dict `:` type($tensor)";
}

def RefGraph_KeysOp : RefGraph_Op<"keys"> {
  let summary = "a dict's keys, in order";
  let description = [{
    Or a set's elements, in the order of walking over it.

    ```mlir
    refgraph.keys %d are ["a", 3, object 9] : !refgraph.obj<"dict">
    ```
  }];
  let arguments = (ins RefGraph_Obj:$holder, ArrayAttr:$keys);
  let assemblyFormat = [{
    $holder `are` custom<PyValues>($keys) attr-dict `:` type($holder)
  }];
  let hasVerifier = 1;
}

def RefGraph_TableOp : RefGraph_Op<"table"> {
  let summary = "where the elements of a set lie";
  let description = [{
    Beside `keys`: for each place of the set's hash table, 0 where nothing lies,
    1 for an element, 2 where one was removed. What C code makes of a set (its
    copy, its union with another one) lies, and is walked over, accordingly.

    ```mlir
    refgraph.table %s is [0, 1, 0, 0, 1, 2, 0, 0] : !refgraph.obj<"set">
    ```
  }];
  let arguments = (ins RefGraph_Obj:$holder, DenseI64ArrayAttr:$places);
  let assemblyFormat = "$holder `is` $places attr-dict `:` type($holder)";
  let hasVerifier = 1;
}

class RefGraph_PairOp<string mnemonic, TypeConstraint type>
    : RefGraph_Op<mnemonic> {
  let arguments = (ins type:$lhs, type:$rhs);
  let assemblyFormat = "$lhs `,` $rhs attr-dict `:` type($lhs) `,` type($rhs)";
}

def RefGraph_SameOp : RefGraph_PairOp<"same", RefGraph_Value> {
  let summary = "two reads found one object";
  let description = [{
    ```mlir
    refgraph.same %a, %b : !refgraph.obj<"list">, !refgraph.obj<"list">
    ```
  }];
}

def RefGraph_DistinctOp : RefGraph_PairOp<"distinct", RefGraph_Value> {
  let summary = "two reads found different objects";
  let description = [{
    ```mlir
    refgraph.distinct %a, %b : !refgraph.obj<"list">, !refgraph.obj<"list">
    ```
  }];
}

def RefGraph_UnaliasedOp : RefGraph_Op<"unaliased", [HasParent<"GuardsOp">,
                                                     AttrSizedOperandSegments]> {
  let summary = "written objects are other ones than all others";
  let description = [{
    Each of `written` is another object than each of the others, written or
    `read`; those of `read` may be one. One operation for the whole group, as
    `refgraph.disjoint` is.

    ```mlir
    refgraph.unaliased written(%a : !refgraph.obj<"list">) read(%b : !refgraph.obj<"list">)
    ```
  }];
  let arguments = (ins Variadic<RefGraph_Value>:$written,
                       Variadic<RefGraph_Value>:$read);
  let assemblyFormat = [{
    `written` `(` $written `:` type($written) `)`
    (`read` `(` $read^ `:` type($read) `)`)? attr-dict
  }];
  let hasVerifier = 1;
}

def RefGraph_DisjointOp : RefGraph_Op<"disjoint", [HasParent<"GuardsOp">,
                                                   AttrSizedOperandSegments]> {
  let summary = "written tensors share no byte of memory with any other one";
  let description = [{
    Each of `written` overlaps none of the others, written or `read`; those of
    `read` may overlap each other. One operation for the whole group: the runtime
    sorts the ranges of memory, where a check of each pair would be quadratic (an
    optimizer writes hundreds of tensors). A range is from a tensor's first element
    to its last one, gaps included; of an empty tensor it is empty.

    ```mlir
    refgraph.disjoint written(%x : !refgraph.tensor<[4], [1], f32, "cpu">) read(%y : !refgraph.tensor<[4], [1], f32, "cpu">)
    ```
  }];
  let arguments = (ins Variadic<RefGraph_Tensor>:$written,
                       Variadic<RefGraph_Tensor>:$read);
  let assemblyFormat = [{
    `written` `(` $written `:` type($written) `)`
    (`read` `(` $read^ `:` type($read) `)`)? attr-dict
  }];
  let hasVerifier = 1;
}

def RefGraph_StateOp : RefGraph_Op<"state"> {
  let summary = "thread and process state that results depend on";
  let description = [{
    ```mlir
    refgraph.state {default_dtype = f32, grad_mode = false}
    refgraph.state {cuda_device = 0}
    refgraph.state {default_device = "cuda:0", torch_function_mode = true}
    ```

    `default_device` says that the only mode is that of
    `torch.set_default_device`, and of which device it is.
  }];
  let arguments = (ins DictionaryAttr:$values);
  let assemblyFormat = "$values attr-dict";
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// The boolean keys; the bit of a key in a flat program is its position.
    static ::llvm::ArrayRef<::llvm::StringRef> getFlagNames();
    /// The keys whose value is an element type.
    static ::llvm::ArrayRef<::llvm::StringRef> getTypeNames();
    /// The key whose value is the index of the current CUDA device.
    static ::llvm::StringRef getDeviceName() { return "cuda_device"; }
    /// The key whose value is the device that factory functions take.
    static ::llvm::StringRef getDefaultDeviceName() {
      return "default_device";
    }
  }];
}

//===----------------------------------------------------------------------===//
// Numbers
//===----------------------------------------------------------------------===//

def RefGraph_ArithOp : RefGraph_Op<"arith", [
    DeclareOpInterfaceMethods<MemoryEffectsOpInterface>]> {
  let summary = "a number that Python computed from numbers";
  let description = [{
    Written where an operand hangs from a number that was read `lift`. `is` says
    what the recorded run got. Ints are Python's as long as they fit 64 bits; a
    call in which one does not, or in which Python would raise, fails the guards,
    so that one which may raise (`mayRaise`) is kept when nothing uses it.
    Functions: add sub mul truediv floordiv mod pow; max and min of two ints or
    two floats; lost and regain of floats (what `sum()` keeps of that which an
    addition rounds off, and adds in the end); neg abs float int sqrt sin cos exp
    log log2 log10 tanh of one operand, and single, which rounds to single
    precision (the host's numbers in tensors).

    ```mlir
    %m = refgraph.arith "add"(%n, %one) is(4) : (!refgraph.obj<"int">, !refgraph.obj<"int">) -> !refgraph.obj<"int">
    ```
  }];
  let arguments = (ins StrAttr:$function, Variadic<RefGraph_ObjType>:$operands,
                       AnyAttr:$value);
  let results = (outs RefGraph_ObjType:$result);
  let assemblyFormat = [{
    $function `` `(` $operands `)` `is` `` `(` custom<PyValue>($value) `)` attr-dict `:`
    functional-type($operands, $result)
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// Whether Python raises for some operands (a division by zero).
    bool mayRaise();
  }];
}

def RefGraph_CompareOp : RefGraph_Op<"compare"> {
  let summary = "an outcome of a comparison that the run relied on";
  let description = [{
    Functions: lt le eq ne gt ge, and is: the same type and bits. `"is"` with a
    constant says that the number was used in a way that was not recorded as data
    flow; an attribute `why` may tell readers which.

    ```mlir
    refgraph.compare "lt"(%n, %ten) is true : !refgraph.obj<"int">, !refgraph.obj<"int">
    ```
  }];
  let arguments = (ins StrAttr:$function, RefGraph_Obj:$lhs, RefGraph_Obj:$rhs,
                       BoolAttr:$outcome, OptionalAttr<StrAttr>:$why);
  let builders = [OpBuilder<(ins "::llvm::StringRef":$function,
      "::mlir::Value":$lhs, "::mlir::Value":$rhs, "bool":$outcome), [{
    build($_builder, $_state, function, lhs, rhs, outcome,
          ::mlir::StringAttr());
  }]>];
  let assemblyFormat = [{
    $function `` `(` $lhs `,` $rhs `)` `is` $outcome attr-dict `:` type($lhs)
    `,` type($rhs)
  }];
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Sizes
//===----------------------------------------------------------------------===//

class RefGraph_DimOp<string mnemonic> : RefGraph_Op<mnemonic, [Pure]> {
  let arguments = (ins RefGraph_Tensor:$tensor,
                       ConfinedAttr<I64Attr, [IntNonNegative]>:$dim,
                       ConfinedAttr<I64Attr, [IntNonNegative]>:$value);
  let results = (outs RefGraph_ObjType:$result);
  let assemblyFormat = [{
    $tensor `[` $dim `]` `is` `` `(` $value `)` attr-dict `:` type($tensor) ``
    custom<IntType>(type($result))
  }];
  let hasVerifier = 1;
}

def RefGraph_SizeOp : RefGraph_DimOp<"size"> {
  let summary = "a tensor's size, as a number";
  let description = [{
    What Python saw, or what the guards compute with: an int. `is` says what it
    was in the recorded run.

    ```mlir
    %n = refgraph.size %x[0] is(4) : !refgraph.tensor<[s0], [1], f32, "cpu">
    ```
  }];
}

def RefGraph_StrideOp : RefGraph_DimOp<"stride"> {
  let summary = "a tensor's stride, as a number";
  let description = [{
    ```mlir
    %n = refgraph.stride %x[0] is(8) : !refgraph.tensor<[4, s0], [s0, 1], f32, "cpu">
    ```
  }];
}

def RefGraph_LayoutOp : RefGraph_Op<"layout", [HasParent<"TraceOp">]> {
  let summary = "Python saw more of a tensor's sizes and strides than numbers";
  let description = [{
    `"contiguous"`: whether it is row-major. `"all"`: anything that its sizes and
    strides decide, and that was not recorded. An operator's name: likewise, by
    an operator that is made of others.

    ```mlir
    refgraph.layout %x "contiguous" : !refgraph.tensor<[4], [1], f32, "cpu">
    ```
  }];
  let arguments = (ins RefGraph_Tensor:$tensor, StrAttr:$question);
  let assemblyFormat = "$tensor $question attr-dict `:` type($tensor)";
}

def RefGraph_SymbolOp : RefGraph_Op<"symbol", [HasParent<"TraceOp">]> {
  let summary = "what a symbol of tensor types stands for";
  let description = [{
    ```mlir
    refgraph.symbol 0 is %n : !refgraph.obj<"int">
    ```
  }];
  let arguments = (ins ConfinedAttr<I64Attr, [IntNonNegative]>:$index,
                       RefGraph_Obj:$number);
  let assemblyFormat = "$index `is` $number attr-dict `:` type($number)";
}

//===----------------------------------------------------------------------===//
// Computation, creation, writes
//===----------------------------------------------------------------------===//

def RefGraph_TensorOp : RefGraph_Op<"tensor_op"> {
  let summary = "one operator as the dispatcher saw it";
  let description = [{
    Results are the returned tensors that are not a mutated operand itself,
    flattened, then one new version per mutated operand. `aliases` names the
    operands whose storage the former share; `offsets` gives their storage
    offsets in elements (absent: 0). `traits` comes from `refgraph-annotate`.
    Operands are tensors and, written `wrapped(%n)`, `number(%n)` or `size(%n)`,
    lifted numbers. `symbolic_offsets` are expressions of symbols, `offsets` then
    those of the recorded run.

    `no_grad`: some operand required grad, and nothing that the operator returned
    or wrote does. No gradient flows through it: it ran under `torch.no_grad()`,
    or is `detach`, or has no derivative (a comparison, `argmax`).

    `kernel`: of several kernels that eager has for the operator, the one that it
    took ("cudnn", of attention that gradients flow through).

    ```mlir
    %v = refgraph.tensor_op "aten::view"(%r, [2 : i64, 2 : i64]) aliases [0] : (!refgraph.tensor<[4], [1], f32, "cpu">) -> !refgraph.tensor<[2, 2], [2, 1], f32, "cpu">
    ```
  }];
  let arguments = (ins StrAttr:$overload, Variadic<RefGraph_Value>:$inputs,
    ArrayAttr:$args,
    DefaultValuedAttr<DenseI64ArrayAttr, "{}">:$aliases,
    DefaultValuedAttr<DenseI64ArrayAttr, "{}">:$mutates,
    OptionalAttr<DenseI64ArrayAttr>:$offsets,
    OptionalAttr<ArrayAttr>:$symbolic_offsets,
    OptionalAttr<StrArrayAttr>:$traits, UnitAttr:$no_grad,
    OptionalAttr<StrAttr>:$kernel);
  let results = (outs Variadic<RefGraph_TensorType>:$outputs);
  let assemblyFormat = [{
    $overload `` custom<TensorCall>($inputs, $args, $aliases, $mutates)
    attr-dict `:`
    functional-type($inputs, $outputs)
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    unsigned getNumFresh() { return getNumResults() - getMutates().size(); }
    /// The new version of the i-th entry of `mutates`.
    ::mlir::Value getVersion(unsigned i) {
      return getResult(getNumFresh() + i);
    }
    int64_t getOffset(unsigned result) {
      auto offsets = getOffsets();
      return offsets && result < offsets->size() ? (*offsets)[result] : 0;
    }
    bool hasOperatorTrait(::llvm::StringRef name);
    /// Takes numbers among the operands away: `aliases` and `mutates` go on to
    /// name the same tensors. `kept` has the others in their order.
    void replaceArguments(::mlir::ArrayAttr args, ::mlir::ValueRange kept);
  }];
}

def RefGraph_CreateOp : RefGraph_Op<"create", [AttrSizedOperandSegments]> {
  let summary = "an object made during the call, in its final state";
  let description = [{
    Kinds: tuple, list, set, frozenset, dict, slice (start, stop, step), range
    (likewise), range_iterator (the number that comes next, step, how many are
    left), iterator (of type object N: container and position, of a dict how
    many are left; `enumerate`: iterator and number; `zip`: strict and
    iterators), method (function, self), size (torch.Size), cell (contents,
    or none), instance (of object N, without `__init__`), token (context
    variable, the value that it is set to: making the token sets it), generator
    (the function that makes one which waits at a `yield`, what its frame
    holds), deque (its elements; `maxlen` is an attribute). A set's attribute
    `table`, in bytes, says where its elements lie (`refgraph.table`).

    ```mlir
    %t = refgraph.create "tuple" [%a, %b] : (!refgraph.obj<"int">, !refgraph.obj<"int">) -> !refgraph.obj<"tuple">
    %d = refgraph.create "dict" items {"a" = %a} : (!refgraph.obj<"int">) -> !refgraph.obj<"dict">
    %i = refgraph.create "instance" type(7) attrs {"n" = %a} : (!refgraph.obj<"int">) -> !refgraph.obj<"Config">
    ```
  }];
  let arguments = (ins StrAttr:$kind, OptionalAttr<I64Attr>:$exact_type,
    ArrayAttr:$item_keys, ArrayAttr:$attr_names,
    Variadic<RefGraph_Value>:$elements, Variadic<RefGraph_Value>:$items,
    Variadic<RefGraph_Value>:$entries);
  let results = (outs RefGraph_ObjType:$result);
  let extraClassDeclaration = [{
    /// Whether making it is an effect, whoever holds it.
    bool setsVariable() { return getKind() == "token"; }
  }];
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
}

def RefGraph_SetOp : RefGraph_Op<"set"> {
  let summary = "write one attribute, item or field of an object";
  let description = [{
    ```mlir
    refgraph.set %c attr("n") = %v : !refgraph.obj<"Config">, !refgraph.obj<"int">
    ```
  }];
  let arguments = (ins RefGraph_Value:$holder, RefGraph_Selector:$selector,
    OptionalAttr<AnyAttr>:$key, OptionalAttr<StrAttr>:$label,
    RefGraph_Value:$value);
  let assemblyFormat = [{
    $holder custom<Selector>($selector, $key, $label) `=` $value attr-dict `:`
    type($holder) `,` type($value)
  }];
  let hasVerifier = 1;
}

def RefGraph_DeleteOp : RefGraph_Op<"delete"> {
  let summary = "remove one attribute, item or field of an object";
  let description = [{
    ```mlir
    refgraph.delete %c attr("n") : !refgraph.obj<"Config">
    ```
  }];
  let arguments = (ins RefGraph_Value:$holder, RefGraph_Selector:$selector,
    OptionalAttr<AnyAttr>:$key, OptionalAttr<StrAttr>:$label);
  let assemblyFormat = [{
    $holder custom<Selector>($selector, $key, $label) attr-dict `:`
    type($holder)
  }];
  let hasVerifier = 1;
}

def RefGraph_AppendOp : RefGraph_Op<"append"> {
  let summary = "append to a list or a deque, or add to a set";
  let description = [{
    ```mlir
    refgraph.append %l, %v : !refgraph.obj<"list">, !refgraph.obj<"int">
    ```

    To append an entry of a `functools.lru_cache` to it is what a call does that
    it answers: one hit more, and the entry is the latest.
  }];
  let arguments = (ins RefGraph_Obj:$holder, RefGraph_Value:$value);
  let assemblyFormat = [{
    $holder `,` $value attr-dict `:` type($holder) `,` type($value)
  }];
}

def RefGraph_ReplaceOp : RefGraph_Op<"replace"> {
  let summary = "replace the whole contents of a list, deque, set or dict";
  let description = [{
    ```mlir
    refgraph.replace %l [%a, %b] : !refgraph.obj<"list">, (!refgraph.obj<"int">, !refgraph.obj<"int">)
    refgraph.replace %d items {"a" = %a} : !refgraph.obj<"dict">, (!refgraph.obj<"int">)
    ```
  }];
  let arguments = (ins RefGraph_Obj:$holder,
    OptionalAttr<ArrayAttr>:$keys, Variadic<RefGraph_Value>:$values);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
}

def RefGraph_AdvanceOp : RefGraph_Op<"advance", [
    ParentOneOf<["TraceOp", "IfOp", "MockOp"]>]> {
  let summary = "how often the call wrote a tensor's memory";
  let description = [{
    In-place operators advance the version counter that a tensor shares with its
    views. An input that is written is copied back at once, and a fresh tensor
    comes out of the launch as version 0, so the trace says how far the counter
    went. A tensor without this line is as a launch and a copy leave it. `by 0`: it
    was written by an operator that does not count (statistics of a batch norm).

    Where the arms of a branch on data write it differently often, `or` is the
    smaller number. Nobody but a device knows which it is: a specialization whose user
    could see that counter is refused.

    ```mlir
    refgraph.advance %x by 3 : !refgraph.tensor<[4], [1], f32, "cpu">
    refgraph.advance %y by 2 or 0 : !refgraph.tensor<[4], [1], f32, "cpu">
    ```
  }];
  let arguments = (ins RefGraph_Tensor:$tensor, I64Attr:$count,
    OptionalAttr<I64Attr>:$least);
  let assemblyFormat =
      "$tensor `by` $count (`or` $least^)? attr-dict `:` type($tensor)";
}

def RefGraph_RequireGradOp : RefGraph_Op<"require_grad", [
    ParentOneOf<["TraceOp", "MockOp"]>]> {
  let summary = "a tensor that the call made requires grad";
  let description = [{
    It is a leaf, or, `freed`, has a graph that a backward within the call has
    been through, which another one is an error of.

    ```mlir
    refgraph.require_grad %r : !refgraph.tensor<[4], [1], f32, "cpu">
    refgraph.require_grad %l freed : !refgraph.tensor<[], [], f32, "cpu">
    ```
  }];
  let arguments = (ins RefGraph_Tensor:$tensor, UnitAttr:$freed);
  let assemblyFormat = "$tensor (`freed` $freed^)? attr-dict `:` type($tensor)";
}

def RefGraph_DifferentiableOp : RefGraph_Op<"differentiable", [
    ParentOneOf<["TraceOp", "MockOp"]>]> {
  let summary = "a tensor that the call computed leaves it and requires grad";
  let description = [{
    It is no leaf: eager gave it a `grad_fn`. Of a tensor that existed before the
    call, and of a view of one, nothing is said: autograd knows those.
    `own_leaves`: its history leads to leaves that the call has made, and to
    nothing else.

    In a mock: the view that the graph yields next among its `gradient_views`.

    ```mlir
    refgraph.differentiable %r : !refgraph.tensor<[4], [1], f32, "cpu">
    ```
  }];
  let arguments = (ins RefGraph_Tensor:$tensor, UnitAttr:$own_leaves);
  let assemblyFormat = "$tensor attr-dict `:` type($tensor)";
  let hasVerifier = 1;
}

def RefGraph_ShownOp : RefGraph_Op<"shown", [
    ParentOneOf<["TraceOp", "IfOp"]>]> {
  let summary = "how autograd sees a tensor that shares another's memory";
  let description = [{
    `"detached"`: it is no view to autograd (`detach()`). `"view of detached"`:
    a view of such a tensor. `"data"`: it is a tensor's `.data`, which has a
    version counter of its own. `"no_grad"`, `"grad"`: a view that was made in
    this grad mode, where that is another than the call began with. `"one of
    several"`: one of the views that an operator returned (`chunk`), which must
    not be written in place. `"view of itself"`: it shares no other's memory
    that the trace knows of, and is a view to autograd all the same (of what a
    composite operator, which is one line, made on its way): a write in place
    gives its base another history, and hooks on it are none of that.
    `"reshaped"`: no view, but the tensor that the memory was made with, in
    another shape or order that was given to it in place (`transpose_`). Without
    this line it is a view like any.

    ```mlir
    refgraph.shown %v "detached" : !refgraph.tensor<[4], [1], f32, "cpu">
    ```
  }];
  let arguments = (ins RefGraph_Tensor:$tensor, StrAttr:$mode);
  let assemblyFormat = "$tensor $mode attr-dict `:` type($tensor)";
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    bool isData() { return getMode() == "data"; }
    bool isOfItself() { return getMode() == "view of itself"; }
  }];
}

def RefGraph_LeaveOp : RefGraph_Op<"leave", [Terminator,
    ParentOneOf<["TraceOp", "MockOp"]>]> {
  let summary = "what the call returns";
  let description = [{
    ```mlir
    refgraph.leave %o : !refgraph.obj<"tuple">
    ```
  }];
  let arguments = (ins RefGraph_Value:$value);
  let assemblyFormat = "$value attr-dict `:` type($value)";
}

//===----------------------------------------------------------------------===//
// In guards, mock and graph
//===----------------------------------------------------------------------===//

def RefGraph_CheckOp : RefGraph_Op<"check", [HasParent<"GuardsOp">]> {
  let summary = "look again at an object that the watched part read";
  let description = [{
    What watchers do not report: a tensor's metadata, an object's type.

    ```mlir
    refgraph.check %w type(3) {keyset = 32769 : i64, requires_grad = false} : !refgraph.tensor<[64], [1], f32, "cpu">
    ```
  }];
  let arguments = (ins RefGraph_Value:$value,
    OptionalAttr<I64Attr>:$exact_type, OptionalAttr<AnyAttr>:$equals,
    OptionalAttr<I64Attr>:$identity,
    OptionalAttr<BoolAttr>:$requires_grad, OptionalAttr<I64Attr>:$keyset,
    OptionalAttr<I64Attr>:$offset);
  let assemblyFormat = [{
    $value `` custom<Checks>($exact_type, $equals, $identity) attr-dict `:`
    type($value)
  }];
  let hasVerifier = 1;
}

def RefGraph_InstanceOp : RefGraph_Op<"instance", [HasParent<"GuardsOp">]> {
  let summary = "an instance still has the `__dict__` and type that were watched";
  let description = [{
    Replacing `obj.__dict__` or `obj.__class__` is reported to no watcher.

    ```mlir
    refgraph.instance %m dict(%d) type(4) : !refgraph.obj<"Linear">, !refgraph.obj<"dict">
    ```
  }];
  let arguments = (ins RefGraph_Value:$value, RefGraph_Obj:$dict,
                       OptionalAttr<I64Attr>:$exact_type);
  let assemblyFormat = [{
    $value `dict` `(` $dict `)` (`type` `(` $exact_type^ `)`)? attr-dict `:`
    type($value) `,` type($dict)
  }];
}

def RefGraph_WatchOp : RefGraph_Op<"watch", [HasParent<"GuardsOp">,
                                             AttrSizedOperandSegments]> {
  let summary = "ends the watched part and lists the holders to watch";
  let description = [{
    ```mlir
    refgraph.watch dicts(%g : !refgraph.obj<"dict">) types(%t : !refgraph.obj<"type">) functions(%f : !refgraph.obj<"function">)
    ```
  }];
  let arguments = (ins Variadic<RefGraph_ObjType>:$dicts,
    Variadic<RefGraph_ObjType>:$types, Variadic<RefGraph_ObjType>:$functions);
  let assemblyFormat = [{
    (`dicts` `(` $dicts^ `:` type($dicts) `)`)?
    (`types` `(` $types^ `:` type($types) `)`)?
    (`functions` `(` $functions^ `:` type($functions) `)`)? attr-dict
  }];
}

def RefGraph_AcceptOp : RefGraph_Op<"accept", [Terminator,
    HasParent<"GuardsOp">, AttrSizedOperandSegments]> {
  let summary = "the guards hold: the graph's inputs, and what the mock needs";
  let description = [{
    ```mlir
    refgraph.accept(%x : !refgraph.tensor<[64], [1], f32, "cpu">) keeps(%c : !refgraph.obj<"Config">)
    ```
  }];
  let arguments = (ins Variadic<RefGraph_Value>:$inputs,
                       Variadic<RefGraph_Value>:$kept);
  let assemblyFormat = [{
    `(` ($inputs^ `:` type($inputs))? `)`
    (`keeps` `(` $kept^ `:` type($kept) `)`)? attr-dict
  }];
}

def RefGraph_ViewOp : RefGraph_Op<"view", [HasParent<"MockOp">]> {
  let summary = "a tensor that shares another's storage";
  let description = [{
    The result type says shape, strides and element type; `offset` is its storage
    offset less the base's, in elements of the result; `plus` is added to it.
    Symbol N of the type and of that expression is the Nth of `symbols`. `shown`
    is what refgraph.shown said of it.

    ```mlir
    %v = refgraph.view %x offset 2 : !refgraph.tensor<[4], [1], f32, "cpu"> -> !refgraph.tensor<[2], [1], f32, "cpu">
    ```
  }];
  let arguments = (ins RefGraph_Tensor:$base, I64Attr:$offset,
                       OptionalAttr<AffineMapAttr>:$plus,
                       Variadic<RefGraph_ObjType>:$symbols,
                       OptionalAttr<StrAttr>:$shown);
  let results = (outs RefGraph_Tensor:$result);
  let assemblyFormat = [{
    $base `offset` $offset (`plus` $plus^)? (`shown` $shown^)?
    (`symbols` `(` $symbols^ `:` type($symbols) `)`)? attr-dict
    `:` type($base) `->` type($result)
  }];
  let hasVerifier = 1;
}

def RefGraph_CopyBackOp : RefGraph_Op<"copy_back", [HasParent<"MockOp">]> {
  let summary = "write the new contents of a mutated input";
  let description = [{
    Where the launch has written the input itself, its result is none, and the
    write is only counted (`_version`).

    ```mlir
    refgraph.copy_back %x, %r : !refgraph.tensor<[4], [1], f32, "cpu">, !refgraph.tensor<[4], [1], f32, "cpu">
    ```
  }];
  let arguments = (ins RefGraph_Tensor:$input, RefGraph_Tensor:$value);
  let assemblyFormat = [{
    $input `,` $value attr-dict `:` type($input) `,` type($value)
  }];
}

def RefGraph_YieldOp : RefGraph_Op<"yield", [Terminator,
    ParentOneOf<["GraphOp", "IfOp"]>]> {
  let summary = "results of a graph or of an arm: contents of tensors at its end";
  let description = [{
    ```mlir
    refgraph.yield %r : !refgraph.tensor<[4], [1], f32, "cpu">
    ```
  }];
  let arguments = (ins Variadic<RefGraph_TensorType>:$values);
  let assemblyFormat = "($values^ `:` type($values))? attr-dict";
}

include "dialects/refgraph/IR/RefGraphControl.td"

#endif // PYJIT_REFGRAPH_OPS_TD
