//===- Prepared.cpp - Values computed from parameters alone ---------------===//

#include "Prepared.h"

using namespace pyjit::python;

Prepared::Prepared(std::unique_ptr<rt::TorchExecutor> executor,
                   std::vector<uint32_t> indices)
    : program(std::move(executor)), sources(std::move(indices)),
      outputs(program->numOutputs()) {}

bool Prepared::fresh(const std::vector<at::Tensor> &inputs) const {
  if (seen.empty() && !sources.empty())
    return false;
  for (size_t i = 0; i < sources.size(); ++i) {
    const c10::TensorImpl *impl = inputs[sources[i]].unsafeGetTensorImpl();
    const Seen &last = seen[i];
    if (!last.tracked ||
        impl->unsafe_storage().unsafeGetStorageImpl() !=
            last.storage._unsafe_get_target() ||
        impl->data() != last.data ||
        impl->version_counter().current_version() != last.version)
      return false;
  }
  return true;
}

const at::Tensor *Prepared::values(const std::vector<at::Tensor> &inputs) {
  if (fresh(inputs))
    return outputs.data();
  seen.clear();
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
                    tracked});
  }
  return outputs.data();
}
