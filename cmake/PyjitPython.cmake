# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# The CPythons that the bindings are built for, each with the Torch that it imports.
#
#   PYJIT_PYTHONS   their executables; the first is the main one, whose package lies in build/python,
#                   another's in build/python-3.13. Default: .venv/bin/python (tools/dev/setup.sh).
#
# For each, with V as in 3_12: the target pyjit_python_V (headers of the interpreter), and the
# variables PYJIT_PYTHON_V (its executable), PYJIT_SUFFIX_V (of extension modules), PYJIT_PACKAGES_V
# (the folder of the built package). PYJIT_PYTHON_VERSIONS lists the Vs.
set(venv ${CMAKE_SOURCE_DIR}/.venv/bin/python)
if(NOT EXISTS ${venv})
  set(venv python3)
endif()
set(PYJIT_PYTHONS ${venv} CACHE STRING "Executables of the CPythons to build for; the first is the main one")

set(facts [=[
import importlib.util, sys, sysconfig
torch = importlib.util.find_spec("torch")
print("{}_{}".format(*sys.version_info), sysconfig.get_path("include"), sysconfig.get_config_var("EXT_SUFFIX"),
      torch.submodule_search_locations[0] if torch else "", sep=";")
]=])
set(PYJIT_PYTHON_VERSIONS)
foreach(python IN LISTS PYJIT_PYTHONS)
  execute_process(COMMAND ${python} -c "${facts}" OUTPUT_VARIABLE found RESULT_VARIABLE failed
                  OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  if(failed)
    message(FATAL_ERROR "pyjit: ${python} does not run; run tools/dev/setup.sh, or set PYJIT_PYTHONS")
  endif()
  list(GET found 0 version)
  list(GET found 1 include)
  list(GET found 2 PYJIT_SUFFIX_${version})
  list(GET found 3 torch)
  if(NOT EXISTS ${CMAKE_SOURCE_DIR}/python-bindings/cpython/${version})
    message(FATAL_ERROR "pyjit: no support for ${python}: python-bindings/cpython/${version} is missing")
  endif()
  if(NOT EXISTS ${include}/internal/pycore_frame.h)
    message(FATAL_ERROR "pyjit: ${python} lacks CPython's headers (${include}/internal)")
  endif()
  if(NOT torch)
    message(FATAL_ERROR "pyjit: ${python} has no torch; run tools/dev/setup.sh, "
                        "or configure with -DPYJIT_BUILD_PYTHON=OFF")
  endif()
  message(STATUS "pyjit: CPython ${version}, Torch in ${torch}")
  add_library(pyjit_python_${version} INTERFACE)
  target_include_directories(pyjit_python_${version} SYSTEM INTERFACE ${include})
  set(PYJIT_PYTHON_${version} ${python})
  set(PYJIT_PACKAGES_${version} ${CMAKE_BINARY_DIR}/python)
  if(PYJIT_PYTHON_VERSIONS)
    string(REPLACE _ . number ${version})
    string(APPEND PYJIT_PACKAGES_${version} -${number})
  else()
    set(PYJIT_TORCH_DIR ${torch}) # another's is the same release
  endif()
  list(APPEND PYJIT_PYTHON_VERSIONS ${version})
endforeach()
