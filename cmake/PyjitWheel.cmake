# add_pyjit_wheel_extension(SOURCE library...): the target pyjit-wheel, the
# extension module as the wheel has it. It is linked from SOURCE's very objects,
# against MLIR's and LLVM's archives, and exports nothing but PyInit_*.
function(add_pyjit_wheel_extension source)
  Python_add_library(pyjit-wheel MODULE WITH_SOABI EXCLUDE_FROM_ALL
    $<TARGET_OBJECTS:${source}>)
  set_target_properties(pyjit-wheel PROPERTIES
    OUTPUT_NAME _C
    LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/wheel
    # torch is imported first and brings its libraries; a path of this machine
    # must not get into the wheel.
    BUILD_RPATH_USE_ORIGIN OFF SKIP_BUILD_RPATH ON)
  target_link_libraries(pyjit-wheel PRIVATE ${ARGN})
  pyjit_link_static_llvm(pyjit-wheel)
  set(exports ${CMAKE_BINARY_DIR}/wheel-exports.txt)
  file(WRITE ${exports} "{ global: PyInit_*; local: *; };\n")
  target_link_options(pyjit-wheel PRIVATE -Wl,--version-script=${exports})
  install(TARGETS pyjit-wheel LIBRARY DESTINATION pyjit COMPONENT wheel)
endfunction()
