#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Makes a working place out of a checkout: system packages, .venv/, build/.
# Running it again does only what is missing.
#
#   tools/dev/setup.sh               packages, .venv, build
#   tools/dev/setup.sh --also 3.13   the bindings for another CPython, too: .venv-3.13, build/python-3.13
#   tools/dev/setup.sh --no-build    packages and .venv only
#   tools/dev/setup.sh --quiet       says nothing about what is there already
#
# Debian 12 with nothing but the base system is what must work (as root, or with
# sudo). Elsewhere nothing is installed system-wide: what is found is used, what
# is missing is named. These variables point at other places:
#   MLIR_DIR      folder of MLIRConfig.cmake (default: /usr/lib/llvm-22/lib/cmake/mlir)
#   PYJIT_PYTHON  the CPython of .venv, with its headers: 3.12 (which is looked for otherwise) or 3.13
set -euo pipefail
cd "$(dirname "$0")/../.."

build=1 quiet=0 also=
while [ $# -gt 0 ]; do
  case $1 in
    --no-build) build=0 ;;
    --quiet) quiet=1 ;;
    --also) also=${2:?setup: --also takes a version of CPython}; shift ;;
    *) echo "setup: unknown argument $1" >&2; exit 2 ;;
  esac
  shift
done
say() { echo "setup: $*"; }
detail() { [ $quiet = 1 ] || echo "setup: $*"; }
fail() { echo "setup: error: $*" >&2; exit 1; }

# 1. System packages -----------------------------------------------------------
packages=(
  clang-22 lld-22 clang-format-22                 # compiler, linker, formatter
  libmlir-22-dev mlir-22-tools llvm-22-dev llvm-22-tools  # MLIR, LLVM, FileCheck
  libzstd-dev libcurl4-openssl-dev libedit-dev libxml2-dev zlib1g-dev  # what LLVM's CMake files ask for
  cmake ninja-build ccache git ca-certificates
  libstdc++-12-dev libgtest-dev                   # C++ library, gtest
  python3 python3-venv python3-pip                # to fetch uv where there is no Python 3.12
)
is_debian_12() { [ -r /etc/os-release ] && . /etc/os-release && [ "${ID:-}" = debian ] && [ "${VERSION_ID:-}" = 12 ]; }
installed() { dpkg-query -W -f='${db:Status-Abbrev}' "$1" 2>/dev/null | grep -q '^ii'; }

if is_debian_12; then
  missing=()
  for package in "${packages[@]}"; do installed "$package" || missing+=("$package"); done
  if [ ${#missing[@]} -gt 0 ]; then
    as_root=()
    if [ "$(id -u)" != 0 ]; then
      command -v sudo >/dev/null || fail "need root (or sudo) to install: ${missing[*]}"
      as_root=(sudo)
    fi
    say "installing Debian packages: ${missing[*]}"
    export DEBIAN_FRONTEND=noninteractive
    if ! "${as_root[@]}" apt-get update -q >/dev/null; then
      say "warning: apt-get update failed; trying with the lists that are there"
    fi
    if ! apt-cache show libmlir-22-dev >/dev/null 2>&1; then
      list=/etc/apt/sources.list.d/pyjit-debian-security.list
      say "adding Debian's own security updates, which bring LLVM 22, to apt ($list)"
      echo "deb http://deb.debian.org/debian-security bookworm-security main" | "${as_root[@]}" tee $list >/dev/null
      "${as_root[@]}" apt-get update -q >/dev/null ||
        fail "apt-get update failed with $list"
    fi
    for package in "${missing[@]}"; do
      apt-cache show "$package" >/dev/null 2>&1 || fail "Debian package $package is not offered by the configured sources"
    done
    "${as_root[@]}" apt-get install -q -y --no-install-recommends "${missing[@]}" >/tmp/pyjit-apt.log 2>&1 ||
      { tail -20 /tmp/pyjit-apt.log >&2; fail "apt-get could not install: ${missing[*]}"; }
  fi
  detail "Debian packages: all there"
else
  absent=()
  need() { command -v "$1" >/dev/null || absent+=("$1 (Debian package $2)"); }
  need clang-22 clang-22; need clang++-22 clang-22; need ld.lld-22 lld-22
  need cmake cmake; need ninja ninja-build; need git git
  [ -f "${MLIR_DIR:-/usr/lib/llvm-22/lib/cmake/mlir}/MLIRConfig.cmake" ] ||
    absent+=("MLIR 22 (Debian packages libmlir-22-dev mlir-22-tools llvm-22-dev llvm-22-tools; or set MLIR_DIR)")
  command -v ccache >/dev/null || say "warning: ccache is missing (package ccache): rebuilds will be slower"
  [ -e /usr/include/gtest/gtest.h ] || [ -n "${GTest_DIR:-}" ] || absent+=("gtest (Debian package libgtest-dev; or set GTest_DIR)")
  if [ ${#absent[@]} -gt 0 ]; then
    printf 'setup: missing: %s\n' "${absent[@]}" >&2
    fail "this is not Debian 12, so nothing is installed for you: install what is named above"
  fi
fi

# 2. CPython -------------------------------------------------------------------
# usable VERSION EXECUTABLE: whether it is that version, and has the headers that the recorder needs.
usable() { [ -x "$2" ] && "$2" -c 'import sys, sysconfig, os; sys.exit(not ("{}.{}".format(*sys.version_info) == sys.argv[1] and os.path.exists(os.path.join(sysconfig.get_path("include"), "internal", "pycore_frame.h"))))' "$1" >/dev/null 2>&1; }
# find_python VERSION: sets `python` to an executable.
find_python() {
  local candidate version=$1
  candidate=$(command -v "python$version" || true)
  # A pyenv shim may exist for a version that is not selected: ask what it runs.
  if [ -n "$candidate" ] && usable "$version" "$candidate"; then
    python=$("$candidate" -c 'import sys; print(sys.executable)'); return
  fi
  for candidate in "${PYENV_ROOT:-$HOME/.pyenv}"/versions/"$version".*/bin/"python$version" /opt/python/"$version"*/bin/"python$version"; do
    if usable "$version" "$candidate"; then python=$candidate; return; fi
  done
  local uv
  uv=$(command -v uv || true)
  if [ -z "$uv" ]; then
    [ -x build/uv/bin/uv ] || { say "installing uv from PyPI (to fetch CPython $version)"
      python3 -m venv build/uv && build/uv/bin/pip install -q uv==0.13.8; } || fail "no CPython $version found and uv could not be installed; set PYJIT_PYTHON"
    uv=build/uv/bin/uv
  fi
  say "installing CPython $version (uv python install)"
  "$uv" python install -q "$version" || fail "no CPython $version found and 'uv python install $version' failed; set PYJIT_PYTHON to one"
  python=$("$uv" python find "$version")
  usable "$version" "$python" || fail "$python lacks the CPython headers"
}
# What python-bindings/cpython has a folder for.
supported() { [ -d "python-bindings/cpython/${1/./_}" ] || fail "CPython $1 is not supported (python-bindings/cpython)"; }

# 3. .venv ---------------------------------------------------------------------
lock=tools/dev/requirements.lock
# environment FOLDER PACKAGES: what the lock names is installed there, and `import pyjit` finds the built package.
environment() {
  local venv=$1 packages=$2 wanted site
  wanted=$(sha256sum "$lock" | cut -d' ' -f1)
  if [ "$(cat "$venv/pyjit-lock" 2>/dev/null || true)" != "$wanted" ]; then
    if "$venv/bin/python" tools/dev/check_lock.py "$lock" >/dev/null 2>&1; then
      detail "$venv already has what $lock names"
    else
      say "installing Python packages in $venv (torch 2.11.0 and the rest of $lock; some minutes, 5 GB)"
      "$venv/bin/python" -m pip --disable-pip-version-check install -q --no-deps -r "$lock" ||
        fail "pip could not install $lock"
    fi
    echo "$wanted" > "$venv/pyjit-lock"
  fi
  # A linked environment (git worktrees that share one) is somebody else's: leave its path file alone.
  site=$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
  if [ ! -L "$venv" ]; then
    [ "$(cat "$site/pyjit-dev.pth" 2>/dev/null || true)" = "$PWD/$packages" ] || echo "$PWD/$packages" > "$site/pyjit-dev.pth"
  fi
  detail "$venv: $("$venv/bin/python" --version), torch $("$venv/bin/python" -c 'import importlib.metadata as m; print(m.version("torch"))')"
}
version_of() { "$1" -c 'import sys; print("{}.{}".format(*sys.version_info))' 2>/dev/null; }
# make_venv FOLDER VERSION: with `python` where that is set.
make_venv() {
  [ "$(version_of "$1/bin/python")" != "$2" ] || return 0
  [ -n "${python:-}" ] || find_python "$2"
  say "making $1 with $("$python" --version) ($python)"
  "$python" -m venv --clear "$1" || fail "$python cannot make a virtual environment (module venv)"
}

python= version=3.12
if [ -n "${PYJIT_PYTHON:-}" ]; then
  python=$PYJIT_PYTHON version=$(version_of "$PYJIT_PYTHON") || fail "PYJIT_PYTHON=$PYJIT_PYTHON does not run"
  supported "$version"
  usable "$version" "$python" || fail "PYJIT_PYTHON=$PYJIT_PYTHON has no headers of its inside (internal/pycore_frame.h)"
fi
make_venv .venv "$version"
environment .venv build/python
pythons=$PWD/.venv/bin/python
if [ -n "$also" ] && [ "$also" != "$version" ]; then
  supported "$also"
  python=
  make_venv ".venv-$also" "$also"
  environment ".venv-$also" "build/python-$also"
  pythons="$pythons;$PWD/.venv-$also/bin/python"
fi

# 4. build/ --------------------------------------------------------------------
if [ $build = 1 ]; then
  if [ ! -f build/build.ninja ]; then
    say "configuring build/ (preset dev)"
    flags=("-DPYJIT_PYTHONS=$pythons")
    [ -z "${MLIR_DIR:-}" ] || flags+=("-DMLIR_DIR=$MLIR_DIR")
    [ -z "${LLVM_DIR:-}" ] || flags+=("-DLLVM_DIR=$LLVM_DIR")
    command -v ccache >/dev/null || flags+=(-DCMAKE_C_COMPILER_LAUNCHER= -DCMAKE_CXX_COMPILER_LAUNCHER=)
    cmake --preset dev "${flags[@]}" >build-configure.log 2>&1 || { tail -40 build-configure.log >&2; fail "cmake --preset dev failed (build-configure.log)"; }
    mv build-configure.log build/configure.log
  elif [ -n "$also" ] && ! grep -qxF "PYJIT_PYTHONS:STRING=$pythons" build/CMakeCache.txt; then
    say "configuring build/ for CPython $also, too"
    cmake "-DPYJIT_PYTHONS=$pythons" build >build/configure.log 2>&1 || { tail -40 build/configure.log >&2; fail "cmake failed (build/configure.log)"; }
  fi
  [ $quiet = 1 ] || say "building"
  ninja -C build || fail "the build failed"
fi
detail "done"
