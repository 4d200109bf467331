// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
module attributes {pyjit.stage = "fused"} {
}
