#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Sets up if needed, builds, runs every test on CPython 3.12, of those with more than 36 cases so many that the commit
# draws, and a tenth of them on 3.13 (all, on both, with --whole; fewer where set-up and build took so long that the
# whole would not end in 44 minutes), and closes with one line `N passed, N failed, N skipped`. Arguments go to tools/dev/run_tests.py (see its --help): for example `tools/dev/test.sh --only lit,layering`.
set -euo pipefail
cd "$(dirname "$0")/../.."
PYJIT_TEST_BEGAN=$(date +%s)
export PYJIT_TEST_BEGAN
tools/dev/setup.sh --quiet --also 3.13
exec .venv/bin/python tools/dev/run_tests.py "$@"
