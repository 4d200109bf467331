//===- ChannelsLast.h - Handing a layout on ---------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef PYJIT_LIB_LIBRARY_CHANNELSLAST_H
#define PYJIT_LIB_LIBRARY_CHANNELSLAST_H

#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Value.h"

namespace pyjit::library {

/// The type with the strides of torch.channels_last.
mlir::RankedTensorType channelsLast(mlir::RankedTensorType type);

/// `value` has just become channels-last; `recorded` is the type that its users
/// were recorded with. Users that keep a layout hand it on to their results;
/// every other user gets a copy in the recorded layout.
void handOnLayout(mlir::Value value, mlir::RankedTensorType recorded);

} // namespace pyjit::library

#endif // PYJIT_LIB_LIBRARY_CHANNELSLAST_H
