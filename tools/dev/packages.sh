#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Installs what `benchmarks/breadth.py packages` runs (benchmarks/packages.txt) to build/packages, beside .venv and
# not in it: nothing else may depend on them. Some minutes, 1.5 GB. A package that cannot be installed is named, and
# its programs are left out.
set -euo pipefail
cd "$(dirname "$0")/../.."
target=build/packages
mkdir -p $target
grep -v '^ *\(#\|$\)' benchmarks/packages.txt | while read -r package; do
  ls $target/.installed/"$package" >/dev/null 2>&1 && continue
  if .venv/bin/python -m pip --disable-pip-version-check install -q --no-deps --upgrade --target $target "$package" >/tmp/pyjit-packages.log 2>&1; then
    mkdir -p $target/.installed && touch $target/.installed/"$package"
  else
    echo "packages: $package could not be installed: $(tail -1 /tmp/pyjit-packages.log)" >&2
  fi
done
