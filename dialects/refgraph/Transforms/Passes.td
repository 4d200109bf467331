// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===- Passes.td - passes of the refgraph dialect --------------*- tablegen -*-//

#ifndef PYJIT_REFGRAPH_PASSES_TD
#define PYJIT_REFGRAPH_PASSES_TD

include "mlir/Pass/PassBase.td"

def LiftSizesPass : Pass<"refgraph-lift-sizes", "::mlir::ModuleOp"> {
  let summary = "Turn sizes that differ between calls into symbols";
  let description = [{
    Each size that a read lists in `lift_sizes` becomes a symbol of the tensor
    types, and each stride in `lift_strides` that no sizes say; the sizes, strides and storage offsets of all other tensors follow
    from the operators' rules (SizeRules.cpp), confirmed by the recorded types.
    `size(%n)` becomes an expression, or the number a symbol of its own. What the
    types rely on becomes `compare`: each symbol is at least 2, sizes that had to
    be equal are, strides are as the types say. An operator without a rule, or
    whose rule does not give what was recorded, gives the symbols that it sees
    their recorded values back; so does a number that was used in a way that
    nobody recorded. With `specialize`, all of them keep their values. Why a size does is
    said in the module's attribute `refgraph.specialized_sizes`, a list of lines.

    ```mlir
    refgraph.trace @f {
      %e = refgraph.external
      %x = refgraph.get %e arg(0, "x") type(3) {lift_sizes = array<i64: 0>} : !refgraph.tensor<[5, 8], [8, 1], f32, "cpu">
      %n = refgraph.size %x[0] is(5) : !refgraph.tensor<[5, 8], [8, 1], f32, "cpu">
      %r = refgraph.tensor_op "aten::view"(%x, [size(%n), 2 : i64, 4 : i64]) aliases [0] : (!refgraph.tensor<[5, 8], [8, 1], f32, "cpu">, !refgraph.obj<"int">) -> !refgraph.tensor<[5, 2, 4], [8, 4, 1], f32, "cpu">
      refgraph.leave %r : !refgraph.tensor<[5, 2, 4], [8, 4, 1], f32, "cpu">
    }
    ```
    gives
    ```mlir
    refgraph.trace @f {
      %e = refgraph.external
      %x = refgraph.get %e arg(0, "x") type(3) : !refgraph.tensor<[s0, 8], [8, 1], f32, "cpu">
      %s = refgraph.size %x[0] is(5) : !refgraph.tensor<[s0, 8], [8, 1], f32, "cpu">
      %n = refgraph.size %x[0] is(5) : !refgraph.tensor<[s0, 8], [8, 1], f32, "cpu">
      %r = refgraph.tensor_op "aten::view"(%x, [affine_map<()[s0] -> (s0)>, 2 : i64, 4 : i64]) aliases [0] : (!refgraph.tensor<[s0, 8], [8, 1], f32, "cpu">) -> !refgraph.tensor<[s0, 2, 4], [8, 4, 1], f32, "cpu">
      %two = refgraph.constant 2
      refgraph.compare "ge"(%s, %two) is true : !refgraph.obj<"int">, !refgraph.obj<"int">
      refgraph.symbol 0 is %s : !refgraph.obj<"int">
      refgraph.leave %r : !refgraph.tensor<[s0, 2, 4], [8, 4, 1], f32, "cpu">
    }
    ```
  }];
  let dependentDialects = ["::pyjit::refgraph::RefGraphDialect"];
  let options = [
    Option<"specialize", "specialize", "bool", "false",
           "Let every size keep the value that was recorded">
  ];
  let statistics = [
    Statistic<"numSymbols", "sizes-lifted", "Symbols that are left">,
    Statistic<"numKept", "sizes-kept", "Lifted sizes that keep their value">
  ];
}

def LiftPass : Pass<"refgraph-lift", "::mlir::ModuleOp"> {
  let summary = "Turn numbers that differ between calls into inputs";
  let description = [{
    A read marked `lift` loses its `equals`: the number may differ from call to
    call, what was computed of it is computed again, and the comparisons that
    the run relied on become guards. A number that is compared `"is"` with a
    constant was used in a way that nobody recorded: it keeps its value, and
    everything that follows from values alone is folded to what the run got.

    ```mlir
    refgraph.trace @f {
      %e = refgraph.external
      %n = refgraph.get %e arg(0, "n") type(2) equals(3) {lift} : !refgraph.obj<"int">
      %k = refgraph.get %e arg(1, "k") type(2) equals(5) {lift} : !refgraph.obj<"int">
      %five = refgraph.constant 5
      refgraph.compare "is"(%k, %five) is true : !refgraph.obj<"int">, !refgraph.obj<"int">
      %m = refgraph.arith "add"(%k, %five) is(10) : (!refgraph.obj<"int">, !refgraph.obj<"int">) -> !refgraph.obj<"int">
      %r = refgraph.arith "mul"(%n, %m) is(30) : (!refgraph.obj<"int">, !refgraph.obj<"int">) -> !refgraph.obj<"int">
      refgraph.leave %r : !refgraph.obj<"int">
    }
    ```
    gives
    ```mlir
    refgraph.trace @f {
      %e = refgraph.external
      %n = refgraph.get %e arg(0, "n") type(2) {lift} : !refgraph.obj<"int">
      %k = refgraph.get %e arg(1, "k") type(2) equals(5) : !refgraph.obj<"int">
      %m = refgraph.constant 10
      %r = refgraph.arith "mul"(%n, %m) is(30) : (!refgraph.obj<"int">, !refgraph.obj<"int">) -> !refgraph.obj<"int">
      refgraph.leave %r : !refgraph.obj<"int">
    }
    ```
  }];
  let dependentDialects = ["::pyjit::refgraph::RefGraphDialect"];
  let statistics = [
    Statistic<"numLifted", "numbers-lifted", "Numbers that became inputs">,
    Statistic<"numKept", "numbers-kept", "Numbers that keep their value">
  ];
}

def AnnotatePass : Pass<"refgraph-annotate", "::mlir::ModuleOp"> {
  let summary = "Attach what the operator table knows to each tensor_op";
  let description = [{
    Sets `traits`: `as-op-node` (may become an operator of the graph), `pure`
    (may be dropped or repeated), `in-place` (writes operands), `relation`
    (results share storage with operands), `random` (draws from a generator),
    `value-read` (the shape of its results depends on data). An operator that is
    not in the table gets none: it is kept and called as it was. A recorded
    effect that contradicts the table is an error: one of them is wrong.

    ```mlir
    refgraph.graph @f(%x: !refgraph.tensor<[4], [1], f32, "cpu">) {
      %r = refgraph.tensor_op "aten::relu"(%x) : (!refgraph.tensor<[4], [1], f32, "cpu">) -> !refgraph.tensor<[4], [1], f32, "cpu">
      refgraph.yield %r : !refgraph.tensor<[4], [1], f32, "cpu">
    }
    ```
    gives
    ```mlir
    refgraph.graph @f(%x: !refgraph.tensor<[4], [1], f32, "cpu">) {
      %r = refgraph.tensor_op "aten::relu"(%x) {traits = ["as-op-node", "pure"]} : (!refgraph.tensor<[4], [1], f32, "cpu">) -> !refgraph.tensor<[4], [1], f32, "cpu">
      refgraph.yield %r : !refgraph.tensor<[4], [1], f32, "cpu">
    }
    ```
  }];
  let statistics = [
    Statistic<"numUnknown", "operators-not-in-table",
              "Operators that the table does not know">
  ];
}

def GenerateGuardsPass : Pass<"refgraph-generate-guards", "::mlir::ModuleOp"> {
  let summary = "Derive from each trace the guards of its specialization";
  let description = [{
    Reachability over the first versions: every read of external state in the
    trace becomes a read or check of `refgraph.guards`, once. Reads that follow
    from others are dropped (a length where the keys are known). Reads that hang
    from pinned objects through sources that can be watched come first, up to
    `refgraph.watch`; then what must be looked at in each call, arguments before
    module state. Inputs that the call writes must not overlap other tensors, and
    containers that it writes must be other objects than those that it read:
    those guards are added.

    ```mlir
    refgraph.trace @f {
      %e = refgraph.external
      %g = refgraph.object 12 "module globals" : !refgraph.obj<"dict">
      %n = refgraph.get %g item("n") equals(2) : !refgraph.obj<"dict"> -> !refgraph.obj<"int">
      %x = refgraph.get %e arg(0, "x") type(3) : !refgraph.tensor<[4], [1], f32, "cpu">
      refgraph.leave %x : !refgraph.tensor<[4], [1], f32, "cpu">
    }
    ```
    gives
    ```mlir
    refgraph.guards @f {
      %g = refgraph.object 12 "module globals" : !refgraph.obj<"dict">
      %n = refgraph.get %g item("n") equals(2) : !refgraph.obj<"dict"> -> !refgraph.obj<"int">
      refgraph.watch dicts(%g : !refgraph.obj<"dict">)
      %e = refgraph.external
      %x = refgraph.get %e arg(0, "x") type(3) : !refgraph.tensor<[4], [1], f32, "cpu">
      refgraph.accept() keeps(%x : !refgraph.tensor<[4], [1], f32, "cpu">)
    }
    ```
  }];
  let dependentDialects = ["::pyjit::refgraph::RefGraphDialect"];
}

def GenerateMockPass : Pass<"refgraph-generate-mock", "::mlir::ModuleOp"> {
  let summary = "Derive from each trace how its effects are reproduced";
  let description = [{
    Reachability over the last versions: objects that the result or a written
    object refers to are created again, writes are repeated in order. Tensors
    come from the graph's results; one that shares storage with an input or with
    another result becomes a strided view of it; inputs that were written get
    their new contents copied back, where the launch has not put them there.

    ```mlir
    refgraph.trace @f {
      %e = refgraph.external
      %x = refgraph.get %e arg(0, "x") type(3) : !refgraph.tensor<[4], [1], f32, "cpu">
      %r = refgraph.tensor_op "aten::relu_"(%x) mutates [0] : (!refgraph.tensor<[4], [1], f32, "cpu">) -> !refgraph.tensor<[4], [1], f32, "cpu">
      refgraph.leave %r : !refgraph.tensor<[4], [1], f32, "cpu">
    }
    ```
    gives
    ```mlir
    refgraph.mock @f inputs(%x: !refgraph.tensor<[4], [1], f32, "cpu">) results(%r: !refgraph.tensor<[4], [1], f32, "cpu">) {
      refgraph.copy_back %x, %r : !refgraph.tensor<[4], [1], f32, "cpu">, !refgraph.tensor<[4], [1], f32, "cpu">
      refgraph.leave %x : !refgraph.tensor<[4], [1], f32, "cpu">
    }
    ```
  }];
  let dependentDialects = ["::pyjit::refgraph::RefGraphDialect"];
}

def ExtractGraphPass : Pass<"refgraph-extract-graph", "::mlir::ModuleOp"> {
  let summary = "Keep the tensor operators that results and mutations need";
  let description = [{
    Makes `refgraph.graph` from each trace and erases the trace. Operators whose
    results nothing needs are dropped where `refgraph-annotate` says that this is
    invisible; operators that draw random numbers, and operators that the table
    does not know, stay in order.

    ```mlir
    refgraph.trace @f {
      %e = refgraph.external
      %x = refgraph.get %e arg(0, "x") type(3) : !refgraph.tensor<[4], [1], f32, "cpu">
      %d = refgraph.tensor_op "aten::neg"(%x) {traits = ["pure"]} : (!refgraph.tensor<[4], [1], f32, "cpu">) -> !refgraph.tensor<[4], [1], f32, "cpu">
      %r = refgraph.tensor_op "aten::relu"(%x) {traits = ["pure"]} : (!refgraph.tensor<[4], [1], f32, "cpu">) -> !refgraph.tensor<[4], [1], f32, "cpu">
      refgraph.leave %r : !refgraph.tensor<[4], [1], f32, "cpu">
    }
    ```
    gives
    ```mlir
    refgraph.graph @f(%x: !refgraph.tensor<[4], [1], f32, "cpu">) {
      %r = refgraph.tensor_op "aten::relu"(%x) {traits = ["pure"]} : (!refgraph.tensor<[4], [1], f32, "cpu">) -> !refgraph.tensor<[4], [1], f32, "cpu">
      refgraph.yield %r : !refgraph.tensor<[4], [1], f32, "cpu">
    }
    ```
  }];
  let dependentDialects = ["::pyjit::refgraph::RefGraphDialect"];
}

def FormLoopsPass : Pass<"refgraph-form-loops", "::mlir::ModuleOp"> {
  let summary = "Make one loop of iterations that are equal";
  let description = [{
    The operators between two decisions of one site are an iteration. Iterations
    are equal if one turns into the next by renaming: what an iteration takes
    from the one before is carried, all else that it uses is the same tensor in
    each. All that were recorded are compared. Written tensors that live outside
    stay references; loop-carried tensors are handed on by contents, which is refused
    where somebody could see that their memory is another.

    Decisions that are no such loop stay, and say why: the specialization is then not
    used, and the call has a graph break at the decision.

    ```mlir
    refgraph.graph @f(%a0: !refgraph.tensor<[4], [1], f32, "cpu">) {
      %a1 = refgraph.tensor_op "aten::mul.Tensor"(%a0, %a0) {traits = ["as-op-node", "pure"]} : (!refgraph.tensor<[4], [1], f32, "cpu">, !refgraph.tensor<[4], [1], f32, "cpu">) -> !refgraph.tensor<[4], [1], f32, "cpu">
      %c1 = refgraph.tensor_op "aten::any"(%a1) {traits = ["as-op-node", "pure"]} : (!refgraph.tensor<[4], [1], f32, "cpu">) -> !refgraph.tensor<[], [], i1, "cpu">
      refgraph.decide %c1 is true at "f.py:3" state "x=#0 #1" [%a1, %c1] : (!refgraph.tensor<[], [], i1, "cpu">, !refgraph.tensor<[4], [1], f32, "cpu">, !refgraph.tensor<[], [], i1, "cpu">) -> ()
      %a2 = refgraph.tensor_op "aten::mul.Tensor"(%a1, %a1) {traits = ["as-op-node", "pure"]} : (!refgraph.tensor<[4], [1], f32, "cpu">, !refgraph.tensor<[4], [1], f32, "cpu">) -> !refgraph.tensor<[4], [1], f32, "cpu">
      %c2 = refgraph.tensor_op "aten::any"(%a2) {traits = ["as-op-node", "pure"]} : (!refgraph.tensor<[4], [1], f32, "cpu">) -> !refgraph.tensor<[], [], i1, "cpu">
      refgraph.decide %c2 is true at "f.py:3" state "x=#0 #1" [%a2, %c2] : (!refgraph.tensor<[], [], i1, "cpu">, !refgraph.tensor<[4], [1], f32, "cpu">, !refgraph.tensor<[], [], i1, "cpu">) -> ()
      %a3 = refgraph.tensor_op "aten::mul.Tensor"(%a2, %a2) {traits = ["as-op-node", "pure"]} : (!refgraph.tensor<[4], [1], f32, "cpu">, !refgraph.tensor<[4], [1], f32, "cpu">) -> !refgraph.tensor<[4], [1], f32, "cpu">
      %c3 = refgraph.tensor_op "aten::any"(%a3) {traits = ["as-op-node", "pure"]} : (!refgraph.tensor<[4], [1], f32, "cpu">) -> !refgraph.tensor<[], [], i1, "cpu">
      refgraph.decide %c3 is open at "f.py:3" state "x=#0 #1" [%a3, %c3] : (!refgraph.tensor<[], [], i1, "cpu">, !refgraph.tensor<[4], [1], f32, "cpu">, !refgraph.tensor<[], [], i1, "cpu">) -> ()
      refgraph.yield %a3, %c3 : !refgraph.tensor<[4], [1], f32, "cpu">, !refgraph.tensor<[], [], i1, "cpu">
    }
    ```
    gives
    ```mlir
    refgraph.graph @f(%a0: !refgraph.tensor<[4], [1], f32, "cpu">) {
      %a1 = refgraph.tensor_op "aten::mul.Tensor"(%a0, %a0) {traits = ["as-op-node", "pure"]} : (!refgraph.tensor<[4], [1], f32, "cpu">, !refgraph.tensor<[4], [1], f32, "cpu">) -> !refgraph.tensor<[4], [1], f32, "cpu">
      %c1 = refgraph.tensor_op "aten::any"(%a1) {traits = ["as-op-node", "pure"]} : (!refgraph.tensor<[4], [1], f32, "cpu">) -> !refgraph.tensor<[], [], i1, "cpu">
      %r:2 = refgraph.while %c1 is true carries(%a1, %c1) : (!refgraph.tensor<[], [], i1, "cpu">, !refgraph.tensor<[4], [1], f32, "cpu">, !refgraph.tensor<[], [], i1, "cpu">) -> (!refgraph.tensor<[4], [1], f32, "cpu">, !refgraph.tensor<[], [], i1, "cpu">) {
      ^bb0(%a: !refgraph.tensor<[4], [1], f32, "cpu">, %c: !refgraph.tensor<[], [], i1, "cpu">):
        %n = refgraph.tensor_op "aten::mul.Tensor"(%a, %a) {traits = ["as-op-node", "pure"]} : (!refgraph.tensor<[4], [1], f32, "cpu">, !refgraph.tensor<[4], [1], f32, "cpu">) -> !refgraph.tensor<[4], [1], f32, "cpu">
        %d = refgraph.tensor_op "aten::any"(%n) {traits = ["as-op-node", "pure"]} : (!refgraph.tensor<[4], [1], f32, "cpu">) -> !refgraph.tensor<[], [], i1, "cpu">
        refgraph.next %d carries(%n, %d) : (!refgraph.tensor<[], [], i1, "cpu">, !refgraph.tensor<[4], [1], f32, "cpu">, !refgraph.tensor<[], [], i1, "cpu">) -> ()
      }
      refgraph.yield %r#0, %r#1 : !refgraph.tensor<[4], [1], f32, "cpu">, !refgraph.tensor<[], [], i1, "cpu">
    }
    ```
  }];
  let dependentDialects = ["::pyjit::refgraph::RefGraphDialect"];
  let statistics = [
    Statistic<"numWhiles", "while-loops", "Loops that data ends">,
    Statistic<"numUnfolded", "unfolded", "Graphs whose decisions stay">
  ];
}

def MergeBranchesPass : Pass<"refgraph-merge-branches", "::mlir::ModuleOp"> {
  let summary = "Make one trace of the parts on both sides of a branch";
  let description = [{
    A call with a graph break at a branch on a tensor's data has left three recordings
    or more: what came before the branch (`refgraph.segment = "prefix"`, which leaves
    a tuple of values for each frame), what each side did (`"true"`, `"false"`),
    and, where the branch was in a called function, what its callers went on with
    (`"rest"`, innermost first). They become one trace: the sides are the arms of
    a `refgraph.if`, and what both end with stands behind it.

    A part's arguments are values that the part before leaves: `refgraph.takes`
    numbers those of the frame; -1 is the result of what ran before. Its objects
    are entries `refgraph.objects` of the prefix' table. `refgraph.condition` is
    the number of the tensor that is asked.

    What a part reads of objects of the call is found at once; what it reads of
    older objects is read by the whole trace. Both arms' reads are demanded.
    Fails, and says why, where the two sides leave different objects, or tensors
    whose identity or memory could be told apart, where an arm writes to objects,
    and where a part reads what an earlier one has written, other than an entry
    that it stored. Lifted numbers go from part to part: what is computed of them
    stands in front of the arms, and has to come out as it was recorded.

    ```mlir
    refgraph.trace @f attributes {refgraph.segment = "prefix", refgraph.condition = 0 : i64} {
      %e = refgraph.external
      %x = refgraph.get %e arg(0, "x") : !refgraph.tensor<[4], [1], f32, "cpu">
      %c = refgraph.tensor_op "aten::any"(%x) : (!refgraph.tensor<[4], [1], f32, "cpu">) -> !refgraph.tensor<[], [], i1, "cpu">
      %s = refgraph.create "tuple" [%c, %x] : (!refgraph.tensor<[], [], i1, "cpu">, !refgraph.tensor<[4], [1], f32, "cpu">) -> !refgraph.obj<"tuple">
      %t = refgraph.create "tuple" [%s] : (!refgraph.obj<"tuple">) -> !refgraph.obj<"tuple">
      refgraph.leave %t : !refgraph.obj<"tuple">
    }
    refgraph.trace @f_1 attributes {refgraph.segment = "true", refgraph.takes = array<i64: 1>} {
      %e = refgraph.external
      %x = refgraph.get %e arg(0, "x") : !refgraph.tensor<[4], [1], f32, "cpu">
      %a = refgraph.tensor_op "aten::neg"(%x) {traits = ["as-op-node", "pure"]} : (!refgraph.tensor<[4], [1], f32, "cpu">) -> !refgraph.tensor<[4], [1], f32, "cpu">
      %r = refgraph.tensor_op "aten::relu"(%a) {traits = ["as-op-node", "pure"]} : (!refgraph.tensor<[4], [1], f32, "cpu">) -> !refgraph.tensor<[4], [1], f32, "cpu">
      refgraph.leave %r : !refgraph.tensor<[4], [1], f32, "cpu">
    }
    refgraph.trace @f_2 attributes {refgraph.segment = "false", refgraph.takes = array<i64: 1>} {
      %e = refgraph.external
      %x = refgraph.get %e arg(0, "x") : !refgraph.tensor<[4], [1], f32, "cpu">
      %a = refgraph.tensor_op "aten::abs"(%x) {traits = ["as-op-node", "pure"]} : (!refgraph.tensor<[4], [1], f32, "cpu">) -> !refgraph.tensor<[4], [1], f32, "cpu">
      %r = refgraph.tensor_op "aten::relu"(%a) {traits = ["as-op-node", "pure"]} : (!refgraph.tensor<[4], [1], f32, "cpu">) -> !refgraph.tensor<[4], [1], f32, "cpu">
      refgraph.leave %r : !refgraph.tensor<[4], [1], f32, "cpu">
    }
    ```
    gives
    ```mlir
    refgraph.trace @f {
      %e = refgraph.external
      %x = refgraph.get %e arg(0, "x") : !refgraph.tensor<[4], [1], f32, "cpu">
      %c = refgraph.tensor_op "aten::any"(%x) : (!refgraph.tensor<[4], [1], f32, "cpu">) -> !refgraph.tensor<[], [], i1, "cpu">
      %y = refgraph.if %c : (!refgraph.tensor<[], [], i1, "cpu">) -> !refgraph.tensor<[4], [1], f32, "cpu"> {
        %a = refgraph.tensor_op "aten::neg"(%x) {traits = ["as-op-node", "pure"]} : (!refgraph.tensor<[4], [1], f32, "cpu">) -> !refgraph.tensor<[4], [1], f32, "cpu">
        refgraph.yield %a : !refgraph.tensor<[4], [1], f32, "cpu">
      } else {
        %a = refgraph.tensor_op "aten::abs"(%x) {traits = ["as-op-node", "pure"]} : (!refgraph.tensor<[4], [1], f32, "cpu">) -> !refgraph.tensor<[4], [1], f32, "cpu">
        refgraph.yield %a : !refgraph.tensor<[4], [1], f32, "cpu">
      }
      %r = refgraph.tensor_op "aten::relu"(%y) {traits = ["as-op-node", "pure"]} : (!refgraph.tensor<[4], [1], f32, "cpu">) -> !refgraph.tensor<[4], [1], f32, "cpu">
      refgraph.leave %r : !refgraph.tensor<[4], [1], f32, "cpu">
    }
    ```
  }];
  let dependentDialects = ["::pyjit::refgraph::RefGraphDialect"];
  let statistics = [
    Statistic<"numBranches", "branches", "Branches whose sides became one trace">
  ];
}

#endif // PYJIT_REFGRAPH_PASSES_TD
