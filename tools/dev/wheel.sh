#!/usr/bin/env bash
# Builds dist/pyjit-*.whl: MLIR and LLVM inside, nothing but torch==2.11.* needed.
set -euo pipefail
cd "$(dirname "$0")/../.."
[ -x .venv/bin/python ] || tools/dev/setup.sh --no-build
rm -f dist/pyjit-*.whl
mkdir -p dist build
# scikit-build-core from .venv; objects are shared with build/, only the link differs.
.venv/bin/python -m pip --disable-pip-version-check wheel -q . --no-build-isolation --no-deps \
  --wheel-dir dist
.venv/bin/python tools/dev/retag_wheel.py dist/pyjit-*.whl
ls -l dist/pyjit-*.whl
