# pyjit_compiler_options(TARGET): the packages of LLVM are built without RTTI and
# exceptions; code that subclasses their classes has to agree. Code against Torch
# needs both and does not call this.
function(pyjit_compiler_options name)
  target_compile_options(${name} PRIVATE -fno-rtti -fno-exceptions)
endfunction()

# add_pyjit_library(NAME source... [DEPENDS target...] [LINK target...])
#
# A static library of compiler code: C++ against MLIR and LLVM, without RTTI and
# exceptions. DEPENDS names TableGen targets whose output it includes.
function(add_pyjit_library name)
  cmake_parse_arguments(ARG "" "" "DEPENDS;LINK" ${ARGN})
  add_library(${name} STATIC ${ARG_UNPARSED_ARGUMENTS})
  pyjit_compiler_options(${name})
  target_link_libraries(${name} PUBLIC pyjit_llvm ${ARG_LINK})
  if(ARG_DEPENDS)
    add_dependencies(${name} ${ARG_DEPENDS})
  endif()
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
