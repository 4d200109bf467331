//===- Npy.cpp - NumPy's array files --------------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "Npy.h"

#include "pyjit-rt/HostExecutor.h"

#include "llvm/ADT/APFloat.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/MemoryBuffer.h"

#include <cstring>

using namespace llvm;
using namespace pyjit::run;

namespace {

struct Dtype {
  int scalarType; // c10::ScalarType
  const char *npy;
  const char *name;
  unsigned bytes;
};
constexpr Dtype kDtypes[] = {
    {0, "|u1", "ui8", 1},          {1, "|i1", "i8", 1},
    {2, "<i2", "i16", 2},          {3, "<i4", "i32", 4},
    {4, "<i8", "i64", 8},          {5, "<f2", "f16", 2},
    {6, "<f4", "f32", 4},          {7, "<f8", "f64", 8},
    {9, "<c8", "complex<f32>", 8}, {10, "<c16", "complex<f64>", 16},
    {11, "|b1", "i1", 1},          {15, "<V2", "bf16", 2}};

const Dtype *find(int scalarType) {
  for (const Dtype &dtype : kDtypes)
    if (dtype.scalarType == scalarType)
      return &dtype;
  return nullptr;
}

Error bad(StringRef path, const Twine &what) {
  return createStringError(inconvertibleErrorCode(), path + ": " + what);
}

/// The text after `'key':` in the header's Python dict.
StringRef field(StringRef header, StringRef key) {
  size_t at = header.find(("'" + key + "':").str());
  return at == StringRef::npos ? StringRef()
                               : header.drop_front(at + key.size() + 3).ltrim();
}

/// Calls `fn(byte offset in from, byte offset in to)` for every element.
template <typename Fn>
void forEachElement(const PyjitArray &from, const PyjitArray &to,
                    unsigned bytes, Fn fn) {
  int64_t total = 1;
  for (int i = 0; i < from.rank; ++i)
    total *= from.sizes[i];
  for (int64_t flat = 0; flat < total; ++flat) {
    int64_t rest = flat, a = 0, b = 0;
    for (int i = from.rank - 1; i >= 0; --i) {
      int64_t index = rest % from.sizes[i];
      rest /= from.sizes[i];
      a += index * from.strides[i];
      b += index * to.strides[i];
    }
    fn(a * bytes, b * bytes);
  }
}

PyjitArray rowMajor(const PyjitArray &array) {
  PyjitArray result = array;
  int64_t stride = 1;
  for (int i = array.rank - 1; i >= 0; --i) {
    result.strides[i] = stride;
    stride *= std::max<int64_t>(array.sizes[i], 1);
  }
  return result;
}

void printElement(raw_ostream &os, const char *at, int scalarType) {
  auto read = [&](auto zero) {
    std::memcpy(&zero, at, sizeof zero);
    return zero;
  };
  auto half = [&](const fltSemantics &semantics) {
    APFloat value(semantics, APInt(16, read(uint16_t{})));
    os << format("%g", value.convertToFloat());
  };
  switch (scalarType) {
  case 0:
    os << unsigned(read(uint8_t{}));
    break;
  case 1:
    os << int(read(int8_t{}));
    break;
  case 2:
    os << read(int16_t{});
    break;
  case 3:
    os << read(int32_t{});
    break;
  case 4:
    os << read(int64_t{});
    break;
  case 5:
    half(APFloat::IEEEhalf());
    break;
  case 6:
    os << format("%.9g", read(float{}));
    break;
  case 7:
    os << format("%.17g", read(double{}));
    break;
  case 9:
    os << format("%.9g+%.9gj", read(float{}), (at += 4, read(float{})));
    break;
  case 10:
    os << format("%.17g+%.17gj", read(double{}), (at += 8, read(double{})));
    break;
  case 11:
    os << (read(uint8_t{}) ? "True" : "False");
    break;
  case 15:
    half(APFloat::BFloat());
    break;
  }
}

void printDim(raw_ostream &os, const PyjitArray &array, int dim, const char *at,
              unsigned bytes) {
  if (dim == array.rank)
    return printElement(os, at, array.dtype);
  os << '[';
  for (int64_t i = 0; i < array.sizes[dim]; ++i) {
    if (i)
      os << ", ";
    printDim(os, array, dim + 1, at + i * array.strides[dim] * bytes, bytes);
  }
  os << ']';
}

} // namespace

Expected<OwnedArray> pyjit::run::readNpy(StringRef path) {
  auto file = MemoryBuffer::getFile(path);
  if (!file)
    return bad(path, file.getError().message());
  StringRef bytes = (*file)->getBuffer();
  if (!bytes.starts_with("\x93NUMPY") || bytes.size() < 12)
    return bad(path, "is not a .npy file");
  unsigned version = bytes[6], lengthBytes = version == 1 ? 2 : 4;
  uint32_t headerSize = 0;
  std::memcpy(&headerSize, bytes.data() + 8, lengthBytes);
  size_t start = 8 + lengthBytes + size_t(headerSize);
  if (version < 1 || version > 3 || start > bytes.size())
    return bad(path, "has a .npy header that is not understood");
  StringRef header = bytes.substr(8 + lengthBytes, headerSize);

  OwnedArray result;
  StringRef descr = field(header, "descr");
  const Dtype *dtype = nullptr;
  for (const Dtype &candidate : kDtypes)
    if (descr.starts_with(("'" + Twine(candidate.npy) + "'").str()))
      dtype = &candidate;
  if (!dtype)
    return bad(path, "has the element type " + descr.take_until([](char c) {
      return c == ',';
    }) + ", which is not supported");
  result.array.dtype = dtype->scalarType;
  bool fortran = field(header, "fortran_order").starts_with("True");
  StringRef shape = field(header, "shape").drop_front().take_until([](char c) {
    return c == ')';
  });
  SmallVector<StringRef> parts;
  shape.split(parts, ',', -1, /*KeepEmpty=*/false);
  for (StringRef part : parts) {
    if (part.trim().empty())
      continue;
    if (result.array.rank == PYJIT_RT_MAX_RANK)
      return bad(path, "has more than 16 dimensions");
    if (part.trim().getAsInteger(10, result.array.sizes[result.array.rank++]))
      return bad(path, "has a shape that is not understood");
  }
  std::reverse(result.array.sizes,
               result.array.sizes + (fortran ? result.array.rank : 0));
  PyjitArray layout = rowMajor(result.array);
  if (fortran) {
    std::reverse(layout.sizes, layout.sizes + layout.rank);
    std::reverse(layout.strides, layout.strides + layout.rank);
  }
  size_t size = rt::extentBytes(layout);
  if (bytes.size() - start < size)
    return bad(path, "is truncated");
  result = allocateLike(layout);
  std::memcpy(result.data.get(), bytes.data() + start, size);
  return std::move(result);
}

Error pyjit::run::writeNpy(StringRef path, const PyjitArray &array) {
  const Dtype *dtype = find(array.dtype);
  std::string header = "{'descr': '" + std::string(dtype->npy) +
                       "', 'fortran_order': False, 'shape': (";
  for (int i = 0; i < array.rank; ++i)
    header += std::to_string(array.sizes[i]) + ", ";
  header += "), }";
  // The data starts at a multiple of 64 bytes.
  header.resize((10 + header.size() + 1 + 63) / 64 * 64 - 11, ' ');
  header += '\n';
  std::error_code error;
  raw_fd_ostream os(path, error);
  if (error)
    return bad(path, error.message());
  uint16_t length = header.size();
  os << StringRef("\x93NUMPY\x01\x00", 8);
  os.write(reinterpret_cast<const char *>(&length), 2);
  os << header;
  OwnedArray dense = allocateLike(rowMajor(array));
  copyElements(array, dense.array);
  os.write(dense.data.get(), rt::extentBytes(dense.array));
  os.close();
  return os.has_error() ? bad(path, os.error().message()) : Error::success();
}

void pyjit::run::printArray(raw_ostream &os, const PyjitArray &array) {
  printDim(os, array, 0, static_cast<const char *>(array.data),
           find(array.dtype)->bytes);
}

std::string pyjit::run::describeArray(const PyjitArray &array) {
  const Dtype *dtype = find(array.dtype);
  std::string text = dtype ? dtype->name : "?";
  text += '[';
  for (int i = 0; i < array.rank; ++i)
    text += (i ? ", " : "") + std::to_string(array.sizes[i]);
  return text + ']';
}

OwnedArray pyjit::run::allocateLike(const PyjitArray &description) {
  OwnedArray result;
  result.array = description;
  result.data = std::make_unique<char[]>(rt::extentBytes(description) + 1);
  result.array.data = result.data.get();
  return result;
}

void pyjit::run::copyElements(const PyjitArray &from, const PyjitArray &to) {
  unsigned bytes = find(from.dtype)->bytes;
  forEachElement(from, to, bytes, [&](int64_t a, int64_t b) {
    std::memcpy(static_cast<char *>(to.data) + b,
                static_cast<char *>(from.data) + a, bytes);
  });
}
