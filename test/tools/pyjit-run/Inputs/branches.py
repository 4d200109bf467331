# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Prints a program of so many branches, each of which hands on the last one's."""

import sys

count = int(sys.argv[1])
print("func.func @f(%x: tensor<4xf32>, %b: tensor<i1>) -> tensor<4xf32> {")
print("  %c = tensor.extract %b[] : tensor<i1>")
print('  %0 = tssa.aten "aten::neg"(%x) : (tensor<4xf32>) -> tensor<4xf32>')
for i in range(count):
    print(f"  %{i + 1} = scf.if %c -> tensor<4xf32> {{")
    print(f"    scf.yield %{i} : tensor<4xf32>")
    print("  } else {")
    print(f"    scf.yield %{i} : tensor<4xf32>")
    print("  }")
print(f"  return %{count} : tensor<4xf32>")
print("}")
