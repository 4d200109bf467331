//===- RelaidResults.h - Results in other layouts than recorded -*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef PYJIT_RT_RELAIDRESULTS_H
#define PYJIT_RT_RELAIDRESULTS_H

#include <cstdint>
#include <map>
#include <string>

namespace pyjit::rt {

/// By overload ("aten::mm"): how many results of its calls in this process had
/// other strides than their programs are compiled for, and were copied. A rule
/// that says what a call returns is wrong then: right answers, at a cost.
std::map<std::string, uint64_t> relaidResults();
void noteRelaidResult(const std::string &overload);

} // namespace pyjit::rt

#endif // PYJIT_RT_RELAIDRESULTS_H
