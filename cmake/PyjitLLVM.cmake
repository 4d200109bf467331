# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Finds MLIR and LLVM and states what every pyjit target inherits from them.
#
# The Debian packages put them under /usr/lib/llvm-22; MLIR_DIR and LLVM_DIR
# point elsewhere. No version argument: the packages' version files accept only
# an exact match.
find_package(MLIR REQUIRED CONFIG HINTS /usr/lib/llvm-22/lib/cmake/mlir)
find_package(LLVM REQUIRED CONFIG HINTS ${LLVM_DIR} /usr/lib/llvm-22/lib/cmake/llvm)
message(STATUS "pyjit: MLIR ${LLVM_PACKAGE_VERSION} in ${MLIR_DIR}")

list(APPEND CMAKE_MODULE_PATH ${MLIR_CMAKE_DIR} ${LLVM_CMAKE_DIR})
set(LLVM_TABLEGEN_EXE ${LLVM_TOOLS_BINARY_DIR}/llvm-tblgen)
set(MLIR_TABLEGEN_EXE ${LLVM_TOOLS_BINARY_DIR}/mlir-tblgen)
include(TableGen)
include(AddLLVM)
include(AddMLIR)

include_directories(SYSTEM ${LLVM_INCLUDE_DIRS} ${MLIR_INCLUDE_DIRS})
include_directories(${CMAKE_SOURCE_DIR}/include ${CMAKE_BINARY_DIR}/include
                    ${CMAKE_SOURCE_DIR} ${CMAKE_BINARY_DIR})
# clang objects to what std::stable_sort of libstdc++ 12 calls.
add_compile_options(-Wall -Wextra -Wno-unused-parameter -Wno-deprecated-declarations)
separate_arguments(llvm_definitions NATIVE_COMMAND "${LLVM_DEFINITIONS}")
add_definitions(${llvm_definitions})

# Code that a static link can drop function by function, the same in every
# preset: the wheel is linked from the objects of the development build.
add_compile_options(-ffunction-sections -fdata-sections)

# What to link for "all of MLIR and LLVM": one shared library each, or archives,
# never both in one file. Which of them is a property of the file that is linked:
# pyjit_link_static_llvm(target) asks for archives, PYJIT_STATIC_LLVM for all.
include(PyjitStaticLLVM)
add_library(pyjit_llvm INTERFACE)
set(pyjit_is_static
  $<OR:$<BOOL:${PYJIT_STATIC_LLVM}>,$<BOOL:$<TARGET_PROPERTY:PYJIT_LINK_STATIC_LLVM>>>)
target_link_libraries(pyjit_llvm INTERFACE
  "$<BUILD_INTERFACE:$<${pyjit_is_static}:${PYJIT_STATIC_LLVM_LIBRARIES}>>"
  "$<BUILD_INTERFACE:$<$<NOT:${pyjit_is_static}>:MLIR;LLVM>>"
  "$<INSTALL_INTERFACE:MLIR;LLVM>")
target_link_options(pyjit_llvm INTERFACE
  "$<BUILD_INTERFACE:$<${pyjit_is_static}:${PYJIT_STATIC_LLVM_OPTIONS}>>")

install(TARGETS pyjit_llvm EXPORT PyJITTargets COMPONENT compiler)

function(pyjit_link_static_llvm target)
  set_target_properties(${target} PROPERTIES PYJIT_LINK_STATIC_LLVM ON)
endfunction()

# PYJIT_SANITIZE=address (preset asan): our code only, the packages' LLVM is as it is.
set(PYJIT_SANITIZE "" CACHE STRING "Sanitizers for clang's -fsanitize=, or nothing")
if(PYJIT_SANITIZE)
  add_compile_options(-fsanitize=${PYJIT_SANITIZE} -fno-omit-frame-pointer -g1)
  add_link_options(-fsanitize=${PYJIT_SANITIZE})
endif()
