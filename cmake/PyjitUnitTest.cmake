# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# add_pyjit_unittest(NAME source... [LINK target...] [EXCEPTIONS])
#
# A gtest executable in build/unittests/, built by `ninja pyjit-unittests` (part
# of `all`), whose cases ctest lists one by one. EXCEPTIONS is for code that
# includes Torch, which needs exceptions and RTTI.
find_package(GTest REQUIRED)
include(GoogleTest)
add_custom_target(pyjit-unittests)

function(add_pyjit_unittest name)
  cmake_parse_arguments(ARG "EXCEPTIONS" "" "LINK" ${ARGN})
  add_executable(${name} ${ARG_UNPARSED_ARGUMENTS})
  target_link_libraries(${name} PRIVATE ${ARG_LINK} GTest::gtest GTest::gtest_main)
  if(NOT ARG_EXCEPTIONS)
    pyjit_compiler_options(${name})
  endif()
  set_target_properties(${name} PROPERTIES
    RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/unittests)
  add_dependencies(pyjit-unittests ${name})
  gtest_discover_tests(${name} TEST_PREFIX "${name}/" DISCOVERY_MODE PRE_TEST
    PROPERTIES TIMEOUT 300)
endfunction()
