# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Whole training steps (`run.py --train`): cases, the ways to take a step, and the tables."""
