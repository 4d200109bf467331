#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Builds build/ (preset dev), configuring it first if needed.
# Usage: tools/dev/build.sh [ninja targets...]
set -euo pipefail
cd "$(dirname "$0")/../.."
[ -x .venv/bin/python ] || tools/dev/setup.sh --no-build
[ -f build/build.ninja ] || cmake --preset dev
exec ninja -C build "$@"
