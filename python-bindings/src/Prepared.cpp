//===- Prepared.cpp - Values computed from parameters alone ---------------===//

#include "Prepared.h"

#include <cstring>

using namespace pyjit::python;

/// A hash of some bytes spread over the tensor's memory: all of a small one, 16
/// words of a large one, first and last included.
static uint64_t sampleOf(const c10::TensorImpl *impl) {
  constexpr size_t kWords = 16;
  size_t bytes = impl->numel() * impl->itemsize();
  const char *data = static_cast<const char *>(impl->data());
  if (!impl->is_contiguous() || bytes < sizeof(uint32_t))
    return 0;
  size_t last = bytes - sizeof(uint32_t);
  size_t step = std::max(last / (kWords - 1) / 4 * 4, sizeof(uint32_t));
  uint64_t hash = 1469598103934665603ull; // FNV-1a, by words
  auto add = [&](size_t at) {
    uint32_t word;
    std::memcpy(&word, data + at, sizeof word);
    hash = (hash ^ word) * 1099511628211ull;
  };
  for (size_t at = 0; at < last; at += step)
    add(at);
  add(last);
  return hash;
}

Prepared::Prepared(std::unique_ptr<rt::TorchExecutor> executor,
                   std::vector<uint32_t> indices)
    : program(std::move(executor)), sources(std::move(indices)),
      outputs(program->numOutputs()) {}

bool Prepared::fresh(const std::vector<at::Tensor> &inputs) const {
  if (!computed)
    return false;
  for (size_t i = 0; i < sources.size(); ++i) {
    const c10::TensorImpl *impl = inputs[sources[i]].unsafeGetTensorImpl();
    const Seen &last = seen[i];
    if (!last.tracked ||
        impl->unsafe_storage().unsafeGetStorageImpl() !=
            last.storage._unsafe_get_target() ||
        impl->data() != last.data ||
        impl->version_counter().current_version() != last.version ||
        sampleOf(impl) != last.sample)
      return false;
  }
  return true;
}

const at::Tensor *Prepared::values(const std::vector<at::Tensor> &inputs) {
  if (fresh(inputs))
    return outputs.data();
  seen.clear();
  computed = false;
  std::vector<at::Tensor> arguments;
  for (uint32_t source : sources)
    arguments.push_back(inputs[source]);
  program->run(arguments.data(), nullptr, outputs.data());
  for (const at::Tensor &argument : arguments) {
    const c10::TensorImpl *impl = argument.unsafeGetTensorImpl();
    bool tracked = !argument.is_inference();
    seen.push_back({c10::weak_intrusive_ptr<c10::StorageImpl>(
                        c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(
                            argument.storage().unsafeGetStorageImpl())),
                    impl->data(),
                    tracked ? impl->version_counter().current_version() : 0,
                    sampleOf(impl), tracked});
  }
  computed = true;
  return outputs.data();
}
