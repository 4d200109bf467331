// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
module attributes {pyjit.stage = "ptx"} {
  func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
    return %x : tensor<4xf32>
  }
}
