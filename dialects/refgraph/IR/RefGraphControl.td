// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===- RefGraphControl.td - decisions and loops ----------------*- tablegen -*-//
//
// Included by RefGraphOps.td, whose classes it uses.
//
//===----------------------------------------------------------------------===//

#ifndef PYJIT_REFGRAPH_CONTROL_TD
#define PYJIT_REFGRAPH_CONTROL_TD

def RefGraph_DecideOp : RefGraph_Op<"decide", [
    ParentOneOf<["TraceOp", "GraphOp"]>]> {
  let summary = "Python branched on a tensor's data, and the run went on";
  let description = [{
    `is true`, `is false`: what `bool` of the tensor was. `is open`: the specialization
    ends here, and whoever goes on decides; the state is what it hands over.

    `site` names the instruction. `values` are all tensors that Python could
    reach there through what the call made, one for each object; `state` says in
    which places they are, and everything else that what follows depends on. Two
    decisions of one site with the same `state` and types thus go on alike, as
    long as the tensors' data decide alike: that is what makes a loop of them.
    `unfolded` says why no pass took the decision away.

    ```mlir
    refgraph.decide %c is true at "f.py:3" state "x=#0 #1" [%x, %c] : (!refgraph.tensor<[], [], i1, "cpu">, !refgraph.tensor<[4], [1], f32, "cpu">, !refgraph.tensor<[], [], i1, "cpu">) -> ()
    ```
  }];
  let arguments = (ins RefGraph_TensorType:$condition,
                       OptionalAttr<BoolAttr>:$outcome, StrAttr:$site,
                       StrAttr:$state,
                       Variadic<RefGraph_TensorType>:$values,
                       OptionalAttr<StrAttr>:$unfolded);
  let assemblyFormat = [{
    $condition `is` custom<Outcome>($outcome) `at` $site `state` $state
    ` ` `[` $values `]` (`unfolded` $unfolded^)? attr-dict `:`
    functional-type(operands, results)
  }];
  let hasVerifier = 1;
}

def RefGraph_SpeculateOp : RefGraph_Op<"speculate", [
    ParentOneOf<["TraceOp", "GraphOp"]>]> {
  let summary = "what the data have to be for the run to go on like this";
  let description = [{
    The run went on as it did because `bool` of this flag was what it says.

    Between two heads of a loop, the flag is computed from numbers that the loop
    changes (`i < 100`): an iteration whose numbers say otherwise is none of the
    loop's, which ends in front of it.

    Elsewhere it is a guard that only the launch can check: of a branch whose
    other side no call has taken yet. Where it does not hold, the specialization does
    not answer the call, and nothing that it did can be seen.

    ```mlir
    refgraph.speculate %c is true : !refgraph.tensor<[], [], i1, "cpu">
    ```
  }];
  let arguments = (ins RefGraph_TensorType:$flag, BoolAttr:$outcome);
  let assemblyFormat = "$flag `is` $outcome attr-dict `:` qualified(type($flag))";
  let hasVerifier = 1;
}

def RefGraph_WhileOp : RefGraph_Op<"while", [SingleBlock]> {
  let summary = "iterations that tensor data end";
  let description = [{
    As long as `bool` of the condition is the stated outcome, the body runs: its
    block arguments are the loop-carried tensors, `refgraph.next` gives the condition
    for the next time and the tensors to carry on. The first test comes before
    the first iteration. A loop-carried tensor is carried by contents: in each
    iteration it is a tensor of its own. The body may read and write tensors of
    the outside, which are references as everywhere: what an iteration wrote is
    seen by the next, and after the loop.

    ```mlir
    %r = refgraph.while %c is true carries(%x) : (!refgraph.tensor<[], [], i1, "cpu">, !refgraph.tensor<[4], [1], f32, "cpu">) -> !refgraph.tensor<[4], [1], f32, "cpu"> {
    ^bb0(%a: !refgraph.tensor<[4], [1], f32, "cpu">):
      %n = refgraph.tensor_op "aten::mul.Tensor"(%a, %a) : (!refgraph.tensor<[4], [1], f32, "cpu">, !refgraph.tensor<[4], [1], f32, "cpu">) -> !refgraph.tensor<[4], [1], f32, "cpu">
      %d = refgraph.tensor_op "aten::any"(%n) : (!refgraph.tensor<[4], [1], f32, "cpu">) -> !refgraph.tensor<[], [], i1, "cpu">
      refgraph.next %d carries(%n) : (!refgraph.tensor<[], [], i1, "cpu">, !refgraph.tensor<[4], [1], f32, "cpu">) -> ()
    }
    ```
  }];
  let arguments = (ins RefGraph_TensorType:$condition, BoolAttr:$outcome,
                       Variadic<RefGraph_TensorType>:$inits);
  let results = (outs Variadic<RefGraph_TensorType>:$results);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    $condition `is` $outcome (`carries` `(` $inits^ `)`)? attr-dict `:`
    functional-type(operands, $results) $body
  }];
  let hasRegionVerifier = 1;
}

def RefGraph_NextOp : RefGraph_Op<"next", [Terminator,
                                           HasParent<"WhileOp">]> {
  let summary = "the condition of a next iteration, and what it is given";
  let description = [{
    ```mlir
    refgraph.next %c carries(%x) : (!refgraph.tensor<[], [], i1, "cpu">, !refgraph.tensor<[4], [1], f32, "cpu">) -> ()
    ```
  }];
  let arguments = (ins RefGraph_TensorType:$condition,
                       Variadic<RefGraph_TensorType>:$values);
  let assemblyFormat = [{
    $condition (`carries` `(` $values^ `)`)? attr-dict `:`
    functional-type(operands, results)
  }];
}

def RefGraph_IfOp : RefGraph_Op<"if", [SingleBlock]> {
  let summary = "both sides of a branch on a tensor's data";
  let description = [{
    The first arm runs where `bool` of the condition is true, the second where it
    is false. Arms read and write the tensors outside as the references that
    they are. Results are handed out by contents: each is a tensor of its own,
    whichever arm it came from.

    ```mlir
    %r = refgraph.if %c : (!refgraph.tensor<[], [], i1, "cpu">) -> !refgraph.tensor<[4], [1], f32, "cpu"> {
      %0 = refgraph.tensor_op "aten::neg"(%x) : (!refgraph.tensor<[4], [1], f32, "cpu">) -> !refgraph.tensor<[4], [1], f32, "cpu">
      refgraph.yield %0 : !refgraph.tensor<[4], [1], f32, "cpu">
    } else {
      refgraph.yield %y : !refgraph.tensor<[4], [1], f32, "cpu">
    }
    ```
  }];
  let arguments = (ins RefGraph_TensorType:$condition);
  let results = (outs Variadic<RefGraph_TensorType>:$results);
  let regions = (region SizedRegion<1>:$then, SizedRegion<1>:$otherwise);
  let assemblyFormat = [{
    $condition attr-dict `:` functional-type(operands, $results) $then `else`
    $otherwise
  }];
  let hasRegionVerifier = 1;
}

#endif // PYJIT_REFGRAPH_CONTROL_TD
