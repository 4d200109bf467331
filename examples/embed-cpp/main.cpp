//===- main.cpp - pyjit's compiler in a program of one's own --------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//   embed FILE.mlir
//
// Compiles a trace for this machine's CPU and runs its tensor program on the
// numbers -3, -2, -1, ... Guards, which ask Python's objects, are for an
// embedding that has some.
//
//===----------------------------------------------------------------------===//

#include "pyjit-rt/HostExecutor.h"
#include "pyjit/Compiler/Session.h"

#include "llvm/Support/MemoryBuffer.h"

#include <cstdio>
#include <numeric>

using namespace pyjit;

static int fail(const std::string &what) {
  std::fprintf(stderr, "embed: error: %s\n", what.c_str());
  return 1;
}

int main(int argc, char **argv) {
  if (argc != 2)
    return fail("takes one file");
  auto file = llvm::MemoryBuffer::getFile(argv[1]);
  if (!file)
    return fail("cannot read " + std::string(argv[1]));

  compiler::Session session({}, [](llvm::StringRef diagnostic) {
    std::fprintf(stderr, "%s\n", diagnostic.str().c_str());
  });
  compiler::Trace trace = session.parse((*file)->getBuffer());
  auto exe = session.compile(trace);
  if (!exe)
    return fail("does not compile");
  for (compiler::StageTime taken : exe->stages)
    std::printf("%-10s %6.2f ms\n", compiler::getName(taken.stage).data(),
                1e3 * taken.seconds);

  rt::Program program;
  std::string error;
  const std::string &blob = exe->main.launch.blob;
  if (!program.load(blob.data(), blob.size(), error))
    return fail(error);
  std::vector<PyjitArray> inputs, outputs;
  rt::describe(program, inputs, outputs);
  std::vector<std::vector<float>> memory;
  for (auto *arrays : {&inputs, &outputs})
    for (PyjitArray &array : *arrays) {
      memory.emplace_back(rt::extentBytes(array) / sizeof(float));
      std::iota(memory.back().begin(), memory.back().end(), -3.0f);
      array.data = memory.back().data();
    }
  if (!rt::runOnHost(program, exe->main.kernels, inputs, outputs, error))
    return fail(error);
  for (const PyjitArray &output : outputs) {
    for (int64_t i = 0; i < output.sizes[0]; ++i)
      std::printf("%s%.6f", i ? " " : "",
                  static_cast<const float *>(output.data)[i]);
    std::printf("\n");
  }
}
