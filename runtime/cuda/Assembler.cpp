//===- Assembler.cpp - PTX to machine code --------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "Assembler.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <thread>

using namespace pyjit::rt::cuda;

const Assembler *Assembler::get() {
  static const Assembler *const assembler = [] {
    auto *made = new Assembler;
    for (const char *name : {"libnvJitLink.so.13", "libnvJitLink.so.12"})
      if (void *library = dlopen(name, RTLD_NOLOAD | RTLD_LAZY))
        if (made->load(library))
          return made;
    delete made;
    return static_cast<Assembler *>(nullptr);
  }();
  return assembler;
}

bool Assembler::load(void *library) {
  auto find = [&](auto &entry, const char *name) {
    entry = reinterpret_cast<std::remove_reference_t<decltype(entry)>>(
        dlsym(library, name));
    return entry != nullptr;
  };
  return find(create, "nvJitLinkCreate") && find(destroy, "nvJitLinkDestroy") &&
         find(addData, "nvJitLinkAddData") &&
         find(complete, "nvJitLinkComplete") &&
         find(getSize, "nvJitLinkGetLinkedCubinSize") &&
         find(getCode, "nvJitLinkGetLinkedCubin");
}

std::vector<char> Assembler::assemble(const char *ptx, int capability) const {
  constexpr int kPtx = 2; // NVJITLINK_INPUT_PTX
  std::string target = "-arch=sm_" + std::to_string(capability);
  const char *options[] = {target.c_str()};
  Handle handle = nullptr;
  if (create(&handle, 1, options))
    return {};
  std::vector<char> code;
  size_t size = 0;
  bool made = !addData(handle, kPtx, ptx, std::strlen(ptx), "kernels") &&
              !complete(handle) && !getSize(handle, &size);
  if (made) {
    code.resize(size);
    made = !getCode(handle, code.data());
  }
  destroy(&handle);
  return made ? std::move(code) : std::vector<char>();
}

std::optional<std::vector<std::vector<char>>>
Assembler::assemble(const std::vector<const char *> &modules,
                    int capability) const {
  std::vector<std::vector<char>> code(modules.size());
  auto run = [&](size_t i) { code[i] = assemble(modules[i], capability); };
  std::vector<std::thread> threads;
  for (size_t i = 1; i < modules.size(); ++i)
    threads.emplace_back(run, i);
  if (!modules.empty())
    run(0);
  for (std::thread &thread : threads)
    thread.join();
  if (std::any_of(code.begin(), code.end(),
                  [](const std::vector<char> &one) { return one.empty(); }))
    return std::nullopt;
  return code;
}
