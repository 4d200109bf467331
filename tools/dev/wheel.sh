#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Builds dist/pyjit-*.whl: MLIR and LLVM inside, nothing but torch==2.11.* needed.
#
#   tools/dev/wheel.sh          for the CPython of .venv
#   tools/dev/wheel.sh 3.13     for that of .venv-3.13 (tools/dev/setup.sh --also 3.13)
set -euo pipefail
cd "$(dirname "$0")/../.."
[ -x .venv/bin/python ] || tools/dev/setup.sh --no-build
venv=.venv
if [ $# -gt 0 ] && [ -d ".venv-$1" ]; then venv=.venv-$1; fi
version=$($venv/bin/python -c 'import sys; print("{}_{}".format(*sys.version_info))')
if [ $# -gt 0 ] && [ "$version" != "${1/./_}" ]; then
  echo "wheel: no environment for CPython $1: tools/dev/setup.sh --also $1" >&2
  exit 1
fi
rm -f dist/pyjit-*-cp"${version/_/}"-*.whl
mkdir -p dist build
# For all that build/ is made for, or the next build would begin anew.
pythons=$(sed -n 's/^PYJIT_PYTHONS:STRING=//p' build/CMakeCache.txt 2>/dev/null || true)
# scikit-build-core from the environment; objects are shared with build/, only the link differs.
$venv/bin/python -m pip --disable-pip-version-check wheel -q . --no-build-isolation --no-deps \
  -C cmake.define.PYJIT_PYTHONS="${pythons:-$PWD/$venv/bin/python}" -C build.targets="pyjit-wheel-$version" -C install.components="wheel-$version" --wheel-dir dist
$venv/bin/python tools/dev/retag_wheel.py dist/pyjit-*-cp"${version/_/}"-*.whl
ls -l dist/pyjit-*.whl
