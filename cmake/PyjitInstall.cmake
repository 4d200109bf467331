# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# The compiler library for other projects:
#
#   cmake --install build --component compiler --prefix DIR
#   find_package(PyJIT CONFIG)            # PyJIT_DIR=DIR/lib/cmake/PyJIT
#   target_link_libraries(mine PyJIT::PyjitCompiler PyJIT::pyjit_rt_host)
#
# Headers keep their paths: #include "pyjit/Compiler/Session.h".
include(CMakePackageConfigHelpers)

# pyjit_install_library(TARGET): it is part of the package.
function(pyjit_install_library name)
  target_include_directories(${name} INTERFACE $<INSTALL_INTERFACE:include>)
  install(TARGETS ${name} EXPORT PyJITTargets ARCHIVE DESTINATION lib COMPONENT compiler)
endfunction()

set(headers FILES_MATCHING PATTERN "*.h" PATTERN "*.inc")
foreach(tree include/pyjit include/pyjit-c runtime/include/pyjit-rt)
  install(DIRECTORY ${CMAKE_SOURCE_DIR}/${tree} DESTINATION include COMPONENT compiler ${headers})
endforeach()
# Dialects' headers, and what TableGen makes of their definitions and of passes'.
install(DIRECTORY ${CMAKE_SOURCE_DIR}/dialects ${CMAKE_BINARY_DIR}/dialects
        DESTINATION include COMPONENT compiler ${headers} PATTERN "CMakeFiles" EXCLUDE)
install(DIRECTORY ${CMAKE_BINARY_DIR}/lib ${CMAKE_BINARY_DIR}/include/pyjit
                  ${CMAKE_BINARY_DIR}/include/pyjit-c
        DESTINATION include COMPONENT compiler FILES_MATCHING PATTERN "*.inc"
        PATTERN "CMakeFiles" EXCLUDE)

set(package lib/cmake/PyJIT)
install(EXPORT PyJITTargets NAMESPACE PyJIT:: DESTINATION ${package} COMPONENT compiler)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/PyJITConfigVersion.cmake
                                 COMPATIBILITY ExactVersion)
install(FILES ${CMAKE_SOURCE_DIR}/cmake/PyJITConfig.cmake
              ${CMAKE_BINARY_DIR}/PyJITConfigVersion.cmake
        DESTINATION ${package} COMPONENT compiler)
