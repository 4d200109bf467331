// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: %python %S/Inputs/branches.py 60 | pyjit-run - --print-launch | FileCheck %s

// What branches behind each other hand on is noted once: a program of sixty of
// them takes no 2^60 notes.
// CHECK-COUNT-60: if s
