//===- Passes.td - Passes of the tssa dialect --------------*- tablegen -*-===//

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
    becomes a result of the op and, for loops, a carried value: its contents are loaded
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
    path already shows changes nothing (the two laws of views); an access along a
    path that shows the whole tensor as it is disappears, and so does what nothing
    uses.

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
  let summary = "Mark carried loops whose iterations touch parts of their own";
  let description = [{
    TensorSSA's horizontal parallelisation. A tensor that a `scf.for` carries is
    shared by its iterations only in appearance where each one reads and replaces
    nothing but the part at its own index: every access of it, and the one assign
    that is yielded, go along one path whose first step selects the induction
    variable. Where that holds for all carried values, the loop is marked
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

#endif // PYJIT_TSSA_PASSES_TD
