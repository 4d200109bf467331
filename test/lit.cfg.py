# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Configuration of the compiler's tests: files with RUN lines, FileCheck beside.
import os
import sys

import lit.formats

config.name = "pyjit"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir", ".td", ".test"]
config.excludes = ["Inputs", "lit.cfg.py"]
config.test_source_root = os.path.join(config.pyjit_source_dir, "test")
config.test_exec_root = os.path.join(config.pyjit_build_dir, "test")

bin_dir = os.path.join(config.pyjit_build_dir, "bin")
venv_bin = os.path.join(config.pyjit_source_dir, ".venv", "bin")
config.environment["PATH"] = os.pathsep.join(
    [bin_dir, config.llvm_tools_dir, os.environ.get("PATH", "")]
)
for name in ("HOME", "TMPDIR", "ASAN_OPTIONS", "LSAN_OPTIONS", "ASAN_SYMBOLIZER_PATH"):
    if name in os.environ:
        config.environment[name] = os.environ[name]

# Tests that need the Python side say `REQUIRES: python`; %python is the
# interpreter that has torch and the built package.
python = os.path.join(venv_bin, "python")
config.substitutions.append(
    ("%python", python if os.path.exists(python) else sys.executable)
)
config.substitutions.append(("%src", config.pyjit_source_dir))
config.substitutions.append(("%build", config.pyjit_build_dir))
package = os.path.join(config.pyjit_build_dir, "python")
config.environment["PYTHONPATH"] = package
for tool in (
    "pyjit-opt",
    "pyjit-reduce",
    "pyjit-run",
    "pyjit-trace",
    "pyjit-translate",
    "pyjit-tblgen",
):
    if os.path.exists(os.path.join(bin_dir, tool)):
        config.available_features.add(tool)
if os.path.isdir(os.path.join(package, "pyjit")):
    config.available_features.add("python")
if config.pyjit_asan:
    config.available_features.add("asan")
    # Containers and arenas are shared with LLVM's packages, which do not say
    # what of them is in use.
    config.environment.setdefault(
        "ASAN_OPTIONS", "detect_container_overflow=0:allow_user_poisoning=0"
    )
