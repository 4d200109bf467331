# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# pyjit_compiler_options(TARGET): the packages of LLVM are built without RTTI and
# exceptions; code that subclasses their classes has to agree. Code against Torch
# needs both and does not call this.
function(pyjit_compiler_options name)
  target_compile_options(${name} PRIVATE -fno-rtti -fno-exceptions)
endfunction()

# Headers that nearly every compiler source includes, precompiled once. Libraries
# reuse that one file, so all must be compiled with pyjit_compiler_options alone.
option(PYJIT_PRECOMPILED_HEADERS "Precompile MLIR's and Torch's headers (off: less to share, worse ccache use between checkouts)" ON)
if(PYJIT_PRECOMPILED_HEADERS)
  file(WRITE ${CMAKE_BINARY_DIR}/PyjitPrecompiled.cpp "// The headers are the content.\n")
  add_library(pyjit_precompiled OBJECT ${CMAKE_BINARY_DIR}/PyjitPrecompiled.cpp)
  pyjit_compiler_options(pyjit_precompiled)
  target_link_libraries(pyjit_precompiled PRIVATE pyjit_llvm)
  # ccache compares contents, which a time stamp in the file would change.
  target_compile_options(pyjit_precompiled PRIVATE -Xclang -fno-pch-timestamp)
  target_precompile_headers(pyjit_precompiled PRIVATE ${CMAKE_SOURCE_DIR}/cmake/PyjitPrecompiled.h)
endif()

# pyjit_precompile_torch(TARGET [PYTHON]): precompiles Torch's headers for the C++
# sources of a target, and CPython's with them.
function(pyjit_precompile_torch name)
  cmake_parse_arguments(ARG "PYTHON" "" "" ${ARGN})
  if(NOT PYJIT_PRECOMPILED_HEADERS)
    return()
  endif()
  target_compile_options(${name} PRIVATE "$<$<COMPILE_LANGUAGE:CXX>:SHELL:-Xclang -fno-pch-timestamp>")
  if(ARG_PYTHON)
    target_compile_definitions(${name} PRIVATE PYJIT_PRECOMPILE_PYTHON)
  endif()
  target_precompile_headers(${name} PRIVATE
    "$<$<COMPILE_LANGUAGE:CXX>:${CMAKE_SOURCE_DIR}/cmake/PyjitPrecompiledTorch.h>")
endfunction()

# add_pyjit_library(NAME source... [DEPENDS target...] [LINK target...])
#
# A static library of compiler code: C++ against MLIR and LLVM, without RTTI and
# exceptions. DEPENDS names TableGen targets whose output it includes.
function(add_pyjit_library name)
  cmake_parse_arguments(ARG "" "" "DEPENDS;LINK" ${ARGN})
  # The packages' targets pull libLLVM.so in beside the archives: pyjit_llvm
  # links all of MLIR and LLVM, one way or the other.
  foreach(library IN LISTS ARG_LINK)
    if(library MATCHES "^(MLIR|LLVM)")
      message(FATAL_ERROR "${name} links ${library}: pyjit_llvm does already")
    endif()
  endforeach()
  add_library(${name} STATIC ${ARG_UNPARSED_ARGUMENTS})
  pyjit_compiler_options(${name})
  target_link_libraries(${name} PUBLIC pyjit_llvm ${ARG_LINK})
  if(PYJIT_PRECOMPILED_HEADERS)
    target_precompile_headers(${name} REUSE_FROM pyjit_precompiled)
  endif()
  if(ARG_DEPENDS)
    add_dependencies(${name} ${ARG_DEPENDS})
  endif()
  pyjit_install_library(${name})
endfunction()

# pyjit_tablegen(OUT.inc INPUT.td action...) adds a mlir-tblgen rule whose output
# lands beside the mirrored source path in the build tree.
macro(pyjit_tablegen output input)
  set(LLVM_TARGET_DEFINITIONS ${input})
  mlir_tablegen(${output} ${ARGN} EXTRA_INCLUDES ${CMAKE_SOURCE_DIR})
endmacro()

# add_pyjit_tool(NAME source... [LINK target...]): a command in build/bin.
function(add_pyjit_tool name)
  cmake_parse_arguments(ARG "" "" "LINK" ${ARGN})
  add_executable(${name} ${ARG_UNPARSED_ARGUMENTS})
  pyjit_compiler_options(${name})
  target_link_libraries(${name} PRIVATE ${ARG_LINK} pyjit_llvm)
endfunction()
