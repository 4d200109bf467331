# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Generating text token by token (`generate.py`): models, the ways to generate, and the table."""
