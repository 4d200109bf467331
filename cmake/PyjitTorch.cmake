# Finds CPython 3.12 and the Torch package that it imports.
#
#   Python::Module   headers of the interpreter
#   pyjit_torch      Torch's headers and libraries
#   pyjit_torch_python  the same, and what Torch offers to extension modules
#
# Python_EXECUTABLE defaults to the tree's own environment (tools/dev/setup.sh).
if(NOT Python_EXECUTABLE AND EXISTS ${CMAKE_SOURCE_DIR}/.venv/bin/python)
  set(Python_EXECUTABLE ${CMAKE_SOURCE_DIR}/.venv/bin/python)
endif()
find_package(Python 3.12...<3.13 REQUIRED COMPONENTS Interpreter Development.Module
             OPTIONAL_COMPONENTS Development.Embed)

execute_process(
  COMMAND ${Python_EXECUTABLE} -c
    "import importlib.util as u; print(u.find_spec('torch').submodule_search_locations[0])"
  OUTPUT_VARIABLE PYJIT_TORCH_DIR OUTPUT_STRIP_TRAILING_WHITESPACE
  RESULT_VARIABLE failed ERROR_QUIET)
if(failed)
  message(FATAL_ERROR "pyjit: ${Python_EXECUTABLE} has no torch; run tools/dev/setup.sh, "
                      "or configure with -DPYJIT_BUILD_PYTHON=OFF")
endif()
message(STATUS "pyjit: Python ${Python_VERSION}, Torch in ${PYJIT_TORCH_DIR}")

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
