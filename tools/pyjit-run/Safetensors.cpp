//===- Safetensors.cpp - Tensors of .safetensors files --------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Eight bytes of header size, a JSON object of tensors (`dtype`, `shape`,
// `data_offsets` behind the header), then the data, row-major.
//
//===----------------------------------------------------------------------===//

#include "Safetensors.h"

#include "pyjit-rt/HostExecutor.h"

#include "llvm/Support/Endian.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MemoryBuffer.h"

#include <cstring>

using namespace llvm;
using namespace pyjit::run;

namespace {

struct Dtype {
  StringLiteral name;
  int scalarType; // c10::ScalarType
};
constexpr Dtype kDtypes[] = {{"U8", 0},  {"I8", 1},    {"I16", 2},  {"I32", 3},
                             {"I64", 4}, {"F16", 5},   {"F32", 6},  {"F64", 7},
                             {"C64", 9}, {"BOOL", 11}, {"BF16", 15}};

Error describe(StringRef path, const Twine &what) {
  return createStringError(inconvertibleErrorCode(), path + ": " + what);
}

/// A file, and what its header says.
struct File {
  std::unique_ptr<MemoryBuffer> buffer;
  json::Value header = nullptr;
  StringRef data; ///< behind the header
};

Expected<File> readFile(StringRef path) {
  auto buffer = MemoryBuffer::getFile(path, /*IsText=*/false,
                                      /*RequiresNullTerminator=*/false);
  if (!buffer)
    return describe(path, buffer.getError().message());
  StringRef bytes = (*buffer)->getBuffer();
  uint64_t headerSize =
      bytes.size() < 8 ? 0 : support::endian::read64le(bytes.data());
  if (bytes.size() < 8 || headerSize > bytes.size() - 8)
    return describe(path, "is not a .safetensors file");
  auto header = json::parse(bytes.substr(8, headerSize));
  if (!header)
    return describe(path, "has a header that is not understood: " +
                              toString(header.takeError()));
  return File{std::move(*buffer), std::move(*header),
              bytes.drop_front(8 + headerSize)};
}

} // namespace

Expected<OwnedArray> pyjit::run::readSafetensors(StringRef path,
                                                 StringRef name) {
  auto bad = [&](const Twine &what) { return describe(path, what); };
  auto file = readFile(path);
  if (!file)
    return file.takeError();
  const json::Object *tensors = file->header.getAsObject();
  const json::Object *tensor = tensors ? tensors->getObject(name) : nullptr;
  if (!tensor)
    return bad("holds no tensor '" + name + "'");
  auto dtypeName = tensor->getString("dtype");
  const json::Array *shape = tensor->getArray("shape");
  const json::Array *offsets = tensor->getArray("data_offsets");
  if (!dtypeName || !shape || !offsets || offsets->size() != 2)
    return bad("describes the tensor '" + name + "' in an unknown way");

  PyjitArray array{};
  array.dtype = -1;
  for (const Dtype &dtype : kDtypes)
    if (dtype.name == *dtypeName)
      array.dtype = dtype.scalarType;
  if (array.dtype < 0)
    return bad("has the element type " + *dtypeName +
               ", which is not supported");
  if (shape->size() > PYJIT_RT_MAX_RANK)
    return bad("has more than 16 dimensions");
  // The sizes are the file's word: their product may not overflow.
  int64_t count = 1;
  bool sane = true;
  for (const json::Value &entry : *shape) {
    auto size = entry.getAsInteger();
    sane &= size && *size >= 0;
    array.sizes[array.rank++] = sane ? *size : 0;
    sane = sane && !MulOverflow(count, *size, count) &&
           count <= int64_t(file->data.size());
  }
  int64_t stride = 1;
  for (int d = array.rank; sane && d-- > 0;) {
    array.strides[d] = stride;
    stride *= count ? array.sizes[d] : 1;
  }
  auto begin = (*offsets)[0].getAsInteger(), end = (*offsets)[1].getAsInteger();
  if (!sane || !begin || !end || *begin < 0 || *end < *begin ||
      uint64_t(*end) > file->data.size() ||
      uint64_t(*end - *begin) != rt::extentBytes(array))
    return bad("the tensor '" + name + "' does not fit its data");
  OwnedArray result = allocateLike(array);
  std::memcpy(result.data.get(), file->data.data() + *begin, *end - *begin);
  return std::move(result);
}

Expected<std::vector<std::string>> pyjit::run::readInputNames(StringRef path) {
  auto file = readFile(path);
  if (!file)
    return file.takeError();
  const json::Object *header = file->header.getAsObject();
  const json::Object *metadata =
      header ? header->getObject("__metadata__") : nullptr;
  auto list = metadata ? metadata->getString("pyjit_inputs") : std::nullopt;
  auto parsed = json::parse(list.value_or("null"));
  std::vector<std::string> names;
  json::Path::Root root;
  if (!parsed) {
    consumeError(parsed.takeError());
  } else if (json::fromJSON(*parsed, names, root)) {
    return names;
  }
  return describe(path, "does not say in which order its tensors are inputs "
                        "(PYJIT_DUMP_DIR writes such files); name each with "
                        "--arg");
}
