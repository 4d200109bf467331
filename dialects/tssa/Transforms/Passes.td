//===- Passes.td - Passes of the tssa dialect --------------*- tablegen -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef PYJIT_TSSA_PASSES_TD
#define PYJIT_TSSA_PASSES_TD

include "mlir/Pass/PassBase.td"

def RewriteMutationPass : Pass<"tssa-rewrite-mutation", "::mlir::func::FuncOp"> {
  let summary = "Express accesses through views as accesses of their origins";
  let description = [{
    The first step of functionalization (TensorSSA, DAC 2024, section 4.2). A view
    chain ends in its origin: a fresh tensor or an argument. A load through views
    becomes a load of the origin and a `tssa.access` ("pass down"); a store through
    views a load of the origin, a `tssa.assign` and a store ("pass up"). Views are
    gone afterwards, and only whole origins are loaded and stored.

    ```mlir
    func.func @f(%x: !tssa.ref<tensor<2x3xf32>>, %s: tensor<3xf32>) {
      %v = tssa.view %x [#tssa.view<select [0, 1]>] : !tssa.ref<tensor<2x3xf32>> -> !tssa.ref<tensor<3xf32>>
      tssa.store %s, %v : !tssa.ref<tensor<3xf32>>
      return
    }
    ```
    gives
    ```mlir
    func.func @f(%x: !tssa.ref<tensor<2x3xf32>>, %s: tensor<3xf32>) {
      %0 = tssa.load %x : !tssa.ref<tensor<2x3xf32>>
      %1 = tssa.assign %0, %s [#tssa.view<select [0, 1]>] : tensor<2x3xf32>, tensor<3xf32>
      tssa.store %1, %x : !tssa.ref<tensor<2x3xf32>>
      return
    }
    ```
  }];
  let dependentDialects = ["::pyjit::tssa::TSSADialect"];
}

def PropagateBlocksPass : Pass<"tssa-propagate-blocks", "::mlir::func::FuncOp"> {
  let summary = "Hand written tensors through loops and branches as values";
  let description = [{
    The second step of functionalization (TensorSSA, section 4.3). An origin that
    a region of `scf.if`, `scf.for` or `scf.while` writes, and that lives outside,
    becomes a result of the op and, for loops, a loop-carried value: its contents are loaded
    before the op, stored where the region begins, loaded where it ends, and
    stored after the op. Afterwards no region changes what another one sees.

    ```mlir
    func.func @f(%x: !tssa.ref<tensor<3xf32>>, %s: tensor<3xf32>, %c: i1) {
      scf.if %c {
        tssa.store %s, %x : !tssa.ref<tensor<3xf32>>
      }
      return
    }
    ```
    gives
    ```mlir
    func.func @f(%x: !tssa.ref<tensor<3xf32>>, %s: tensor<3xf32>, %c: i1) {
      %0 = scf.if %c -> (tensor<3xf32>) {
        tssa.store %s, %x : !tssa.ref<tensor<3xf32>>
        %1 = tssa.load %x : !tssa.ref<tensor<3xf32>>
        scf.yield %1 : tensor<3xf32>
      } else {
        %1 = tssa.load %x : !tssa.ref<tensor<3xf32>>
        scf.yield %1 : tensor<3xf32>
      }
      tssa.store %0, %x : !tssa.ref<tensor<3xf32>>
      return
    }
    ```
  }];
  let dependentDialects = ["::pyjit::tssa::TSSADialect", "::mlir::scf::SCFDialect"];
}

def RenamePass : Pass<"tssa-rename", "::mlir::func::FuncOp"> {
  let summary = "Replace each load by the value stored last";
  let description = [{
    The last step of functionalization (TensorSSA, section 4.4), as in the
    construction of SSA form: a load is replaced by what was stored last in its
    block or in one around it. Handles are gone afterwards; arguments are tensors.

    ```mlir
    func.func @f(%x: !tssa.ref<tensor<3xf32>>, %s: tensor<3xf32>) -> tensor<3xf32> {
      tssa.store %s, %x : !tssa.ref<tensor<3xf32>>
      %0 = tssa.load %x : !tssa.ref<tensor<3xf32>>
      return %0 : tensor<3xf32>
    }
    ```
    gives
    ```mlir
    func.func @f(%x: tensor<3xf32>, %s: tensor<3xf32>) -> tensor<3xf32> {
      return %s : tensor<3xf32>
    }
    ```
  }];
  let dependentDialects = ["::pyjit::tssa::TSSADialect"];
}

def FoldViewsPass : Pass<"tssa-fold-views", "::mlir::func::FuncOp"> {
  let summary = "Compose and cancel accesses and assigns";
  let description = [{
    `access(access(t, p), q)` becomes one access along both paths; an access of an
    assign along the same path is the assigned value, and an assign of what its
    path already shows changes nothing (the two laws of views); of two assigns
    along one path in a row the second one counts; an access along a path that
    shows the whole tensor as it is disappears, and so does what nothing uses.
    What matmuls read of a kernel's result is converted in front of a reshape, not
    behind it: the kernel converts it, too.
    `pyjit::written` and `pyjit::unwritten`, which say how gradients go past
    a write that autograd did not see, become their first operand: the pass runs
    behind differentiation.

    ```mlir
    func.func @f(%x: tensor<4x3xf32>, %s: tensor<3xf32>) -> tensor<3xf32> {
      %0 = tssa.assign %x, %s [#tssa.view<select [0, 1]>] : tensor<4x3xf32>, tensor<3xf32>
      %1 = tssa.access %0 [#tssa.view<select [0, 1]>] : tensor<4x3xf32> -> tensor<3xf32>
      return %1 : tensor<3xf32>
    }
    ```
    gives
    ```mlir
    func.func @f(%x: tensor<4x3xf32>, %s: tensor<3xf32>) -> tensor<3xf32> {
      return %s : tensor<3xf32>
    }
    ```
  }];
  let dependentDialects = ["::pyjit::tssa::TSSADialect"];
}

def ParallelizeLoopsPass : Pass<"tssa-parallelize-loops", "::mlir::func::FuncOp"> {
  let summary = "Mark loops with loop-carried values whose iterations touch parts of their own";
  let description = [{
    TensorSSA's horizontal parallelisation. A tensor that a `scf.for` carries is
    shared by its iterations only in appearance where each one reads and replaces
    nothing but the part at its own index: every access of it, and the one assign
    that is yielded, go along one path whose first step selects the induction
    variable. Where that holds for all loop-carried values, the loop is marked
    `tssa.parallel`: its iterations may run in any order, or at once. The step
    must be a constant other than 0, so that no index comes twice. `batch-loops`
    (lib/Conversion/TSSAToLinalg) makes one more dimension of such a loop.

    ```mlir
    func.func @f(%x: tensor<4x3xf32>, %c0: index, %n: index) -> tensor<4x3xf32> {
      %c1 = arith.constant 1 : index
      %r = scf.for %i = %c0 to %n step %c1 iter_args(%t = %x) -> (tensor<4x3xf32>) {
        %0 = tssa.access %t [#tssa.view<select [0, ?]>] (%i) : tensor<4x3xf32> -> tensor<3xf32>
        %1 = tssa.aten "aten::relu"(%0) : (tensor<3xf32>) -> tensor<3xf32>
        %2 = tssa.assign %t, %1 [#tssa.view<select [0, ?]>] (%i) : tensor<4x3xf32>, tensor<3xf32>
        scf.yield %2 : tensor<4x3xf32>
      }
      return %r : tensor<4x3xf32>
    }
    ```
    gives
    ```mlir
    func.func @f(%x: tensor<4x3xf32>, %c0: index, %n: index) -> tensor<4x3xf32> {
      %c1 = arith.constant 1 : index
      %r = scf.for %i = %c0 to %n step %c1 iter_args(%t = %x) -> (tensor<4x3xf32>) {
        %0 = tssa.access %t [#tssa.view<select [0, ?]>] (%i) : tensor<4x3xf32> -> tensor<3xf32>
        %1 = tssa.aten "aten::relu"(%0) : (tensor<3xf32>) -> tensor<3xf32>
        %2 = tssa.assign %t, %1 [#tssa.view<select [0, ?]>] (%i) : tensor<4x3xf32>, tensor<3xf32>
        scf.yield %2 : tensor<4x3xf32>
      } {tssa.parallel}
      return %r : tensor<4x3xf32>
    }
    ```
  }];
  let dependentDialects = ["::pyjit::tssa::TSSADialect", "::mlir::scf::SCFDialect"];
  let statistics = [
    Statistic<"numParallel", "parallel-loops", "Loops marked parallel">
  ];
}

def RerollLoopsPass : Pass<"tssa-reroll-loops", "::mlir::func::FuncOp"> {
  let summary = "Make one loop of equal iterations";
  let description = [{
    A Python `for` over a range or a list is recorded as straight-line code: one
    window of operations after the other, each equal to the one before it but for
    its operands. Where leaving out all but one of them saves enough operations, they become a
    `scf.for`. An operand of its body is

    - made by the same iteration, or by one before it: then the loop carries it;
    - the same in all iterations;
    - the part of one tensor at an index that grows by a constant: a view at an
      index known at run time;
    - another value in each iteration (weights of layers): `tssa.pick`.

    What the code after the loop needs of the last iteration is a result. What it
    needs of all iterations is assigned to parts of one tensor: the result of the
    `aten::stack` or `aten::cat` of them, if there is one. Windows are compared
    by their operations, types and arguments, never by where they come from:
    functional operations that are equal do the same. Loops inside of iterations
    become loops in the same way, and what stays, stays for a reason (`explain`).
    Functions that prepare parameters (`pyjit.prepare`) stay: packed weights cannot be
    parts of a tensor. So do backward programs (`pyjit.gradient_inputs`), whose results
    are gradients of each iteration's weights, tensors of their own.

    ```mlir
    func.func @f(%x: tensor<4x8xf32>, %h: tensor<8xf32>) -> tensor<8xf32> {
      %0 = tssa.access %x [#tssa.view<select [0, 0]>] : tensor<4x8xf32> -> tensor<8xf32>
      %1 = tssa.aten "my::cell"(%0, %h) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
      %2 = tssa.access %x [#tssa.view<select [0, 1]>] : tensor<4x8xf32> -> tensor<8xf32>
      %3 = tssa.aten "my::cell"(%2, %1) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
      %4 = tssa.access %x [#tssa.view<select [0, 2]>] : tensor<4x8xf32> -> tensor<8xf32>
      %5 = tssa.aten "my::cell"(%4, %3) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
      %6 = tssa.access %x [#tssa.view<select [0, 3]>] : tensor<4x8xf32> -> tensor<8xf32>
      %7 = tssa.aten "my::cell"(%6, %5) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
      return %7 : tensor<8xf32>
    }
    ```
    gives, with `min-saved=3`,
    ```mlir
    func.func @f(%x: tensor<4x8xf32>, %h: tensor<8xf32>) -> tensor<8xf32> {
      %c0 = arith.constant 0 : index
      %c4 = arith.constant 4 : index
      %c1 = arith.constant 1 : index
      %r = scf.for %i = %c0 to %c4 step %c1 iter_args(%c = %h) -> (tensor<8xf32>) {
        %0 = tssa.access %x [#tssa.view<select [0, ?]>] (%i) : tensor<4x8xf32> -> tensor<8xf32>
        %1 = tssa.aten "my::cell"(%0, %c) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
        scf.yield %1 : tensor<8xf32>
      }
      return %r : tensor<8xf32>
    }
    ```
  }];
  let options = [
    Option<"minSaved", "min-saved", "int", "48",
           "Operations that a loop has to leave out to be worth it">,
    Option<"recompute", "recompute", "bool", "false",
           "Leave iterations apart whose large elementwise results kernels "
           "behind them read: these compute them again where that is cheaper">,
    Option<"explain", "explain", "bool", "false",
           "Say what becomes a loop, and why what repeats otherwise does not">
  ];
  let dependentDialects = ["::pyjit::tssa::TSSADialect", "::mlir::scf::SCFDialect",
                           "::mlir::arith::ArithDialect", "::mlir::tensor::TensorDialect"];
  let statistics = [Statistic<"numLoops", "loops", "Loops made">];
}

def UnrollLoopsPass : Pass<"tssa-unroll-loops", "::mlir::func::FuncOp"> {
  let summary = "Write loops with a known number of iterations out";
  let description = [{
    For devices, whose launches cost no more one after the other than in a loop, and whose
    graphs have no loops with a counter. Runs when kernels are calls: they were
    planned and compiled for one iteration, and stay so. What a loop carried
    needs no copies any more; indices and picks are constants. A part of a tensor
    into which iterations put their results is read where it was computed, and
    the tensor is not made where nobody else reads it.

    ```mlir
    func.func @f(%x: tensor<8xf32>, %a: tensor<8xf32>, %b: tensor<8xf32>) -> tensor<8xf32> {
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %c2 = arith.constant 2 : index
      %r = scf.for %i = %c0 to %c2 step %c1 iter_args(%h = %x) -> (tensor<8xf32>) {
        %w = tssa.pick [%a, %b] (%i) : tensor<8xf32>
        %0 = tssa.aten "my::cell"(%h, %w) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
        scf.yield %0 : tensor<8xf32>
      }
      return %r : tensor<8xf32>
    }
    ```
    gives
    ```mlir
    func.func @f(%x: tensor<8xf32>, %a: tensor<8xf32>, %b: tensor<8xf32>) -> tensor<8xf32> {
      %0 = tssa.aten "my::cell"(%x, %a) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
      %1 = tssa.aten "my::cell"(%0, %b) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
      return %1 : tensor<8xf32>
    }
    ```
  }];
  let dependentDialects = ["::pyjit::tssa::TSSADialect", "::mlir::arith::ArithDialect"];
  let statistics = [Statistic<"numLoops", "loops", "Loops written out">];
}

def VerifyFunctionalPass : Pass<"tssa-verify-functional", "::mlir::func::FuncOp"> {
  let summary = "Refuse handles after functionalization";
  let description = [{
    Fails on every op or value that should not have come out of functionalization,
    and names the pass that should have removed it.

    ```mlir
    func.func @f(%x: tensor<3xf32>) -> tensor<3xf32> {
      return %x : tensor<3xf32>
    }
    ```
  }];
}

def HoistSpeculationsPass : Pass<"tssa-hoist-speculations", "::mlir::func::FuncOp"> {
  let summary = "Ask as early as possible what may end the program";
  let description = [{
    Moves each `tssa.speculate`, and what its flag is computed from, to the front of
    the function: what runs before it is lost where it does not hold, and a
    device's host waits for the flag. Speculations keep their order; neighbours
    become one where what lies between them can neither raise nor loop, so that
    it may run although the first does not hold. A flag that depends on an
    operator with effects (random numbers) stays where it is.

    ```mlir
    func.func @f(%x: tensor<4xf32>, %flag: tensor<i1>) -> tensor<4xf32> {
      %0 = tssa.aten "aten::relu"(%x) : (tensor<4xf32>) -> tensor<4xf32>
      %1 = tssa.aten "aten::logical_not"(%flag) : (tensor<i1>) -> tensor<i1>
      tssa.speculate %1 : tensor<i1>
      return %0 : tensor<4xf32>
    }
    ```
    gives
    ```mlir
    func.func @f(%x: tensor<4xf32>, %flag: tensor<i1>) -> tensor<4xf32> {
      %1 = tssa.aten "aten::logical_not"(%flag) : (tensor<i1>) -> tensor<i1>
      tssa.speculate %1 : tensor<i1>
      %0 = tssa.aten "aten::relu"(%x) : (tensor<4xf32>) -> tensor<4xf32>
      return %0 : tensor<4xf32>
    }
    ```
  }];
  let dependentDialects = ["::pyjit::tssa::TSSADialect"];
  let statistics = [
    Statistic<"numHoisted", "hoisted", "Speculations that moved">
  ];
}

#endif // PYJIT_TSSA_PASSES_TD
