//===- Safetensors.cpp - Tensors of .safetensors files --------------------===//
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
constexpr Dtype kDtypes[] = {{"U8", 0},    {"I8", 1},   {"I16", 2}, {"I32", 3},
                             {"I64", 4},   {"F16", 5},  {"F32", 6}, {"F64", 7},
                             {"BOOL", 11}, {"BF16", 15}};

} // namespace

Expected<OwnedArray> pyjit::run::readSafetensors(StringRef path,
                                                 StringRef name) {
  auto bad = [&](const Twine &what) {
    return createStringError(inconvertibleErrorCode(), path + ": " + what);
  };
  auto file = MemoryBuffer::getFile(path, /*IsText=*/false,
                                    /*RequiresNullTerminator=*/false);
  if (!file)
    return bad(file.getError().message());
  StringRef bytes = (*file)->getBuffer();
  uint64_t headerSize =
      bytes.size() < 8 ? 0 : support::endian::read64le(bytes.data());
  if (bytes.size() < 8 || headerSize > bytes.size() - 8)
    return bad("is not a .safetensors file");
  auto header = json::parse(bytes.substr(8, headerSize));
  if (!header)
    return bad("has a header that is not understood: " +
               toString(header.takeError()));
  const json::Object *tensors = header->getAsObject();
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
           count <= int64_t(bytes.size());
  }
  int64_t stride = 1;
  for (int d = array.rank; sane && d-- > 0;) {
    array.strides[d] = stride;
    stride *= count ? array.sizes[d] : 1;
  }
  auto begin = (*offsets)[0].getAsInteger(), end = (*offsets)[1].getAsInteger();
  uint64_t data = bytes.size() - 8 - headerSize;
  if (!sane || !begin || !end || *begin < 0 || *end < *begin ||
      uint64_t(*end) > data ||
      uint64_t(*end - *begin) != rt::extentBytes(array))
    return bad("the tensor '" + name + "' does not fit its data");
  OwnedArray result = allocateLike(array);
  std::memcpy(result.data.get(), bytes.data() + 8 + headerSize + *begin,
              *end - *begin);
  return std::move(result);
}
