# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# MLIR and LLVM as archives, named one by one: the exported CMake targets of the
# Debian packages pull the shared libraries in, and the two must never mix.
#
# PYJIT_STATIC_LLVM_LIBRARIES   what to link
# PYJIT_STATIC_LLVM_OPTIONS     how: unused sections dropped, nothing exported
#
# An archive gives only the members that something refers to. Code refers to the
# X86 and NVPTX back ends alone, so no other target is linked; the others' archives
# are left out all the same, so that a stray reference is an error.
set(pyjit_archive_dir ${LLVM_LIBRARY_DIR})
file(GLOB pyjit_archives ${pyjit_archive_dir}/libMLIR*.a ${pyjit_archive_dir}/libLLVM*.a)
set(pyjit_other_targets AArch64 AMDGPU ARM AVR BPF Hexagon Lanai LoongArch M68k
    MSP430 Mips PowerPC RISCV Sparc SPIRV SystemZ VE WebAssembly XCore Xtensa ARC
    CSKY DirectX)
foreach(target IN LISTS pyjit_other_targets)
  list(FILTER pyjit_archives EXCLUDE REGEX "/libLLVM${target}[A-Z]")
endforeach()
list(FILTER pyjit_archives EXCLUDE REGEX "/libMLIRTest")
if(NOT pyjit_archives)
  message(FATAL_ERROR "pyjit: no MLIR or LLVM archives in ${pyjit_archive_dir} "
                      "(Debian packages libmlir-22-dev llvm-22-dev)")
endif()

# LLVM's Support refers to these; as archives where there are any, because
# libzstd is not something that every machine has.
find_library(PYJIT_ZSTD NAMES libzstd.a zstd REQUIRED)
find_library(PYJIT_ZLIB NAMES libz.a z REQUIRED)

# lld searches archives in any order, GNU ld needs the group.
set(PYJIT_STATIC_LLVM_LIBRARIES
  -Wl,--start-group ${pyjit_archives} -Wl,--end-group
  ${PYJIT_ZSTD} ${PYJIT_ZLIB} m dl pthread)
set(PYJIT_STATIC_LLVM_OPTIONS -Wl,--gc-sections -Wl,--exclude-libs,ALL -Wl,-s)
