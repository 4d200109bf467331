// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===- Reason.h - Why a recording ended --------------------------*- C++
//-*-===//
#ifndef PYJIT_CAPTURE_BREAKS_REASON_H
#define PYJIT_CAPTURE_BREAKS_REASON_H

#include <string>
#include <vector>

namespace pyjit::capture {

/// What a reason is to a user: each has a remedy and a section of
/// docs/GraphBreaks.md.
enum class ReasonKind : int {
#define PYJIT_REASON(KIND, NAME) KIND,
#include "breaks/ReasonKinds.def"
#undef PYJIT_REASON
};

/// A frame of the program: outermost first, they say where something is.
struct SourceLine {
  std::string file;
  int line = 0;
  std::string function;
};

/// Why a recording ended, or why there is none. Without text: it has not.
struct Reason {
  ReasonKind kind = ReasonKind::Internal;
  std::string text;                   ///< construct, file and line
  std::vector<SourceLine> stack = {}; ///< of the recorded frames

  bool empty() const { return text.empty(); }
};

} // namespace pyjit::capture

#endif // PYJIT_CAPTURE_BREAKS_REASON_H
