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
add_compile_options(-Wall -Wextra -Wno-unused-parameter)
separate_arguments(llvm_definitions NATIVE_COMMAND "${LLVM_DEFINITIONS}")
add_definitions(${llvm_definitions})

# What to link for "all of MLIR and LLVM": one shared library each, never mixed
# with static copies of the same code.
if(PYJIT_STATIC_LLVM)
  get_property(pyjit_mlir_libs GLOBAL PROPERTY MLIR_ALL_LIBS)
  include(PyjitStaticLLVM)
else()
  add_library(pyjit_llvm INTERFACE)
  target_link_libraries(pyjit_llvm INTERFACE MLIR LLVM)
endif()
