# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# add_pyjit_wheel_extension(SOURCE VERSION library...): the target pyjit-wheel-VERSION, the
# extension module as the wheel for that CPython has it; pyjit-wheel is the main one's. It is linked
# from SOURCE's very objects, against MLIR's and LLVM's archives, and exports nothing but PyInit_*.
function(add_pyjit_wheel_extension source version)
  set(target pyjit-wheel-${version})
  set(component wheel-${version})
  add_library(${target} MODULE EXCLUDE_FROM_ALL $<TARGET_OBJECTS:${source}>)
  set_target_properties(${target} PROPERTIES
    PREFIX "" OUTPUT_NAME _C SUFFIX ${PYJIT_SUFFIX_${version}}
    LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/wheel
    # torch is imported first and brings its libraries; a path of this machine
    # must not get into the wheel.
    BUILD_RPATH_USE_ORIGIN OFF SKIP_BUILD_RPATH ON)
  target_link_libraries(${target} PRIVATE ${ARGN})
  pyjit_link_static_llvm(${target})
  set(exports ${CMAKE_BINARY_DIR}/wheel-exports.txt)
  file(WRITE ${exports} "{ global: PyInit_*; local: *; };\n")
  target_link_options(${target} PRIVATE -Wl,--version-script=${exports})
  install(TARGETS ${target} LIBRARY DESTINATION pyjit COMPONENT ${component} EXCLUDE_FROM_ALL)
  file(GLOB files CONFIGURE_DEPENDS ${cpython}/${version}/*.py)
  install(FILES ${files} DESTINATION pyjit COMPONENT ${component} EXCLUDE_FROM_ALL)
endfunction()
