# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# find_package(PyJIT CONFIG): pyjit's compiler as libraries, on the MLIR and LLVM
# that it was built with (MLIR_DIR and LLVM_DIR, where they are elsewhere).
include(CMakeFindDependencyMacro)
find_dependency(MLIR CONFIG HINTS /usr/lib/llvm-22/lib/cmake/mlir)
include(${CMAKE_CURRENT_LIST_DIR}/PyJITTargets.cmake)
