#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# The fault is there (1) where the file has the operator.
! grep -q 'aten::erf' "$1"
