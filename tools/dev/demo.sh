#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Sets up if needed, builds, and shows what pyjit does to five models: a table of
# eager ms, pyjit ms, first call, graphs, graph breaks, guards, kernels, largest difference.
# Arguments: names of cases (benchmarks/cases.py), default the five models.
set -euo pipefail
cd "$(dirname "$0")/../.."
tools/dev/setup.sh --quiet
export PYTHONPATH="$PWD/build/python${PYTHONPATH:+:$PYTHONPATH}"
exec .venv/bin/python benchmarks/demo.py "$@"
