//===- Executable.cpp - What a compilation makes --------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "pyjit/Compiler/Executable.h"
#include "pyjit/Compiler/Session.h"
#include "pyjit/Executable/LaunchText.h"
#include "pyjit/Executable/ProgramText.h"

using namespace llvm;

namespace pyjit::compiler {

StringRef Executable::getReport(Report topic) const {
  std::lock_guard<std::mutex> guard(lock);
  auto [text, isNew] = reports.try_emplace(topic);
  if (isNew)
    text->second = makeReport(topic);
  return text->second;
}

std::string Executable::makeReport(Report topic) const {
  std::string text;
  raw_string_ostream os(text);
  switch (topic) {
  case Report::Guards:
    executable::printProgram(*guards.get(), os);
    os << "effects:\n";
    executable::printProgram(*mock.get(), os);
    return text;
  case Report::Launch:
    executable::printLaunch(main.launch.blob, os);
    if (!prepare.launch.blob.empty()) {
      os << "prepare:\n";
      executable::printLaunch(prepare.launch.blob, os);
    }
    if (gradients) {
      os << "backward:\n";
      executable::printLaunch(backward.launch.blob, os);
    }
    return text;
  case Report::Kernels:
    if (ptx.empty())
      break;
    for (const std::string &part : ptx)
      os << part;
    return text;
  case Report::SpecializedSizes: // told by the compilation
    return text;
  default:
    break;
  }
  // Kept by nobody: compiled once more, as far as it takes.
  return trace.empty()
             ? text
             : Session(options, [](StringRef) {}).makeReport(trace, topic);
}

std::unique_ptr<Executable>
Executable::compileAgain(CompileOptions changed,
                         std::function<void(StringRef)> onDiagnostic) const {
  Session session(changed, std::move(onDiagnostic));
  return session.compile(session.parse(trace));
}

std::unique_ptr<Executable>
Executable::differentiate(unsigned order,
                          std::function<void(StringRef)> onDiagnostic) const {
  CompileOptions own = options;
  own.gradientOrder = order;
  return compileAgain(std::move(own), std::move(onDiagnostic));
}

std::unique_ptr<Executable>
Executable::dropGradients(std::vector<uint32_t> results, bool stops,
                          std::function<void(StringRef)> onDiagnostic) const {
  CompileOptions own = options;
  own.droppedGradients = std::move(results);
  own.stopsAtDropped = stops;
  own.part = CompileOptions::Part::Backward;
  return compileAgain(std::move(own), std::move(onDiagnostic));
}

std::unique_ptr<Executable> Executable::keepParameters(
    std::function<void(llvm::StringRef)> onDiagnostic) const {
  CompileOptions own = options;
  own.parametersLast = true;
  own.part = CompileOptions::Part::Main;
  return compileAgain(std::move(own), std::move(onDiagnostic));
}

} // namespace pyjit::compiler
