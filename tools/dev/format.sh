#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Formats C++ (clang-format, LLVM style) and Python (ruff). --check only reports.
set -euo pipefail
cd "$(dirname "$0")/../.."
mode=fix
[ "${1:-}" = --check ] && mode=check
clang_format=$(command -v clang-format-22 || command -v /usr/lib/llvm-22/bin/clang-format) || {
  echo "format: clang-format-22 is missing (Debian package clang-format-22)" >&2
  exit 1
}
status=0
mapfile -t cpp < <(git ls-files --cached --others --exclude-standard '*.cpp' '*.h' '*.c')
mapfile -t py < <(git ls-files --cached --others --exclude-standard '*.py' '*.pyi')
if [ $mode = check ]; then
  [ ${#cpp[@]} -eq 0 ] || "$clang_format" --dry-run --Werror "${cpp[@]}" || status=1
  if [ ${#py[@]} -gt 0 ]; then
    .venv/bin/ruff check "${py[@]}" || status=1
    .venv/bin/ruff format --check "${py[@]}" || status=1
  fi
else
  [ ${#cpp[@]} -eq 0 ] || "$clang_format" -i "${cpp[@]}"
  if [ ${#py[@]} -gt 0 ]; then
    .venv/bin/ruff check --fix "${py[@]}" || status=1
    .venv/bin/ruff format "${py[@]}" || status=1
  fi
fi
exit $status
