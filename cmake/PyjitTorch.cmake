# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Torch, as the main CPython imports it:
#
#   pyjit_torch         its headers and libraries
#   pyjit_torch_python  the same, and what Torch offers to extension modules
#
# Both are the same for each CPython: what their modules are linked with is loaded already.
include(PyjitPython)

# Torch's own CMake package wants the CUDA toolkit that it was built with; the
# headers and the libraries are all that is needed here. NDEBUG: its inline
# classes have further members without it.
add_library(pyjit_torch INTERFACE)
target_include_directories(pyjit_torch SYSTEM INTERFACE
  ${PYJIT_TORCH_DIR}/include ${PYJIT_TORCH_DIR}/include/torch/csrc/api/include)
target_compile_definitions(pyjit_torch INTERFACE NDEBUG _GLIBCXX_USE_CXX11_ABI=1)
target_link_directories(pyjit_torch INTERFACE ${PYJIT_TORCH_DIR}/lib)
target_link_libraries(pyjit_torch INTERFACE torch_cpu c10)
# The libraries name CUDA's, which are found at run time through the package.
target_link_options(pyjit_torch INTERFACE -Wl,--allow-shlib-undefined)

add_library(pyjit_torch_python INTERFACE)
target_link_libraries(pyjit_torch_python INTERFACE pyjit_torch torch_python)
