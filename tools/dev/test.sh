#!/usr/bin/env bash
# Sets up if needed, builds, runs every test, and closes with one line
# `N passed, N failed, N skipped`. Arguments go to tools/dev/run_tests.py
# (see its --help): for example `tools/dev/test.sh --only lit,layering`.
set -euo pipefail
cd "$(dirname "$0")/../.."
tools/dev/setup.sh --quiet
exec .venv/bin/python tools/dev/run_tests.py "$@"
