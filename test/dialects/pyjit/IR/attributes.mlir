// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: pyjit-opt %s -split-input-file -verify-diagnostics

// Each attribute in its place.
func.func private @kernel(%x: tensor<64xf32>) -> tensor<64xf32>
    attributes {pyjit.kernel, pyjit.device = "cuda:0", pyjit.symbol = "k",
                pyjit.grid = array<i32: 1, 1, 1>, pyjit.block = array<i32: 256, 1, 1>,
                pyjit.blocks = affine_map<()[s0] -> (s0 ceildiv 8)>,
                pyjit.shared = 0 : i32, pyjit.align = array<i32: 16, 16>,
                pyjit.indirect = array<i1: false, true>, pyjit.schedule = {},
                pyjit.work = 64 : i64, pyjit.grain = affine_map<()[s0] -> (s0)>,
                pyjit.reads_symbols, pyjit.default_dtype = f32,
                pyjit.symbols = [array<i64: 0, -1>], pyjit.prepare,
                pyjit.inputs = array<i64: 1>,
                pyjit.digests = ["2f"], pyjit.sources = [array<i64: 0>]}
func.func @arguments(%x: tensor<4xf32> {pyjit.param, pyjit.device = "cpu"},
                     %c: tensor<4xf32> {pyjit.cached = 0 : i64},
                     %i: tensor<4xi64> {pyjit.input = 1 : i64, pyjit.elements = array<i64: 1, 2>}) -> tensor<4xf32> {
  %0 = tssa.aten "aten::relu"(%x) {pyjit.vendor_call, pyjit.must_run, pyjit.takes_kernel = "cudnn"} : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
refgraph.graph @graph(%x: !refgraph.tensor<[4], [1], f32, "cpu">) attributes {pyjit.default_dtype = f64} {
  refgraph.yield %x : !refgraph.tensor<[4], [1], f32, "cpu">
}

// -----

// expected-error @below {{'pyjit.kernle' is no attribute of pyjit's}}
func.func private @misspelt() attributes {pyjit.kernle}

// -----

// expected-error @below {{'pyjit.param' does not belong to a function}}
func.func private @of_an_argument() attributes {pyjit.param}

// -----

// expected-error @below {{'pyjit.kernel' does not belong to an argument}}
func.func private @of_a_function(%x: tensor<4xf32> {pyjit.kernel})

// -----

func.func @of_a_call(%x: tensor<4xf32>) {
  // expected-error @below {{'pyjit.grid' does not belong to a call}}
  %0 = tssa.aten "aten::relu"(%x) {pyjit.grid = array<i32: 1, 1, 1>} : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

// expected-error @below {{'pyjit.grid' takes an array of three i32, not array<i32: 1>}}
func.func private @of_another_kind() attributes {pyjit.grid = array<i32: 1>}

// -----

// expected-error @below {{'pyjit.symbols' takes arrays of an input and a dim, not [1]}}
func.func private @no_sources() attributes {pyjit.symbols = [1]}

// -----

// expected-error @below {{'pyjit.digests' takes an array of strings, not [1]}}
func.func private @no_digests() attributes {pyjit.digests = [1]}

// -----

// expected-error @below {{'pyjit.sources' does not belong to an argument}}
func.func private @of_the_function(%x: tensor<4xf32> {pyjit.sources = [array<i64: 0>]})

// -----

// expected-error @below {{'pyjit.saved' takes an integer, not 1 : ui64}}
func.func private @unsigned() -> tensor<4xf32> attributes {pyjit.saved = 1 : ui64}

// -----

// expected-error @below {{'pyjit.saved' says 2 of a function of 0 inputs and 1 results}}
func.func private @more_than_all() -> tensor<4xf32> attributes {pyjit.saved = 2 : i64}

// -----

// expected-error @below {{'pyjit.updates' says 1 of a function of 1 inputs and 1 results}}
func.func private @no_input(%x: tensor<4xf32>) -> tensor<4xf32> attributes {pyjit.updates = [array<i64: 0, 1>]}

// -----

// expected-error @below {{'pyjit.updates' says -8, which numbers nothing}}
func.func private @no_result(%x: tensor<4xf32>) -> tensor<4xf32> attributes {pyjit.updates = [array<i64: -8, 0>]}

// -----

// expected-error @below {{'pyjit.symbols' says -2, which numbers nothing}}
func.func private @no_dim(%x: tensor<4xf32>) attributes {pyjit.symbols = [array<i64: 0, -2>]}

// -----

// expected-error @below {{'pyjit.cached' says -1, which numbers nothing}}
func.func private @no_output(%x: tensor<4xf32> {pyjit.cached = -1 : i64})

// -----

// expected-error @below {{requires attribute 'function_type'}}
"func.func"() <{sym_name = "typeless"}> ({}) {pyjit.saved = 1 : i64} : () -> ()

// -----

func.func private @k(tensor<4xf32>) -> tensor<4xf32>
func.func @in_place(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @below {{'pyjit.in_place' says 2 of a function of 1 inputs and 1 results}}
  %0 = call @k(%x) {pyjit.in_place = array<i64: 2>} : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// expected-error @below {{'pyjit.updates' takes arrays of a result and an input, each named once}}
func.func private @twice(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) attributes {pyjit.updates = [array<i64: 0, 0>, array<i64: 1, 0>]}

// -----

// expected-error @below {{'pyjit.updates' belongs to a function whose first block ends in func.return}}
func.func @no_return(%x: tensor<4xf32>) -> tensor<4xf32> attributes {pyjit.updates = [array<i64: 0, 0>]} {
  llvm.unreachable
}
