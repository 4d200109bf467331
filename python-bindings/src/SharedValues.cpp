//===- SharedValues.cpp - Prepared values that several keep ---------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "SharedValues.h"

#include <ATen/Context.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <algorithm>
#include <mutex>
#include <unordered_map>

namespace pyjit::python {
namespace {

/// Who keeps values are specializations of any functions, so what is known of
/// them is process state, as the marks of write barriers are.
class Known {
public:
  static Known &all() {
    static Known *known = new Known; // outlives the interpreter
    return *known;
  }

  /// Needs the lock, as the rest.
  at::Tensor find(const SharedValues::Origin &origin) {
    auto [begin, end] = values.equal_range(origin.hash());
    for (auto at = begin; at != end; ++at)
      if (at->second.origin.isSame(origin))
        if (auto value = at->second.value.lock())
          return at::Tensor(std::move(value));
    return {};
  }

  void add(SharedValues::Origin origin, const at::Tensor &value) {
    forgetDeadValues();
    size_t hash = origin.hash();
    values.emplace(
        hash, Value{std::move(origin), WeakValue(value.getIntrusivePtr())});
  }

  std::mutex lock;

private:
  using WeakValue =
      c10::weak_intrusive_ptr<at::TensorImpl, at::UndefinedTensorImpl>;
  struct Value {
    SharedValues::Origin origin;
    WeakValue value;
  };

  void forgetDeadValues() {
    if (values.size() < limit)
      return;
    for (auto at = values.begin(); at != values.end();)
      at = at->second.value.expired() ? values.erase(at) : std::next(at);
    limit = std::max(kFirstLimit, 2 * values.size());
  }

  static constexpr size_t kFirstLimit = 1024;
  size_t limit = kFirstLimit;
  std::unordered_multimap<size_t, Value> values;
};

size_t mix(size_t seed, size_t value) {
  return (seed ^ value) * 0x9e3779b97f4a7c15; // the golden ratio's bits
}

} // namespace

bool SeenMemory::isSame(const SeenMemory &other) const {
  return isWatched() && data == other.data && keys == other.keys &&
         storage._unsafe_get_target() == other.storage._unsafe_get_target() &&
         (barrier && other.barrier ? *barrier == *other.barrier
                                   : hash && hash == other.hash);
}

SharedValues::Origin::Settings SharedValues::Origin::Settings::now() {
  auto keys = c10::impl::tls_local_dispatch_key_set();
  const at::Context &context = at::globalContext();
  uint32_t vendors =
      2 * context.deterministicAlgorithms() + context.userEnabledMkldnn();
  for (at::Float32Op op :
       {at::Float32Op::MATMUL, at::Float32Op::CONV, at::Float32Op::RNN})
    vendors =
        vendors << 4 |
        uint32_t(context.float32Precision(at::Float32Backend::MKLDNN, op));
  return {keys.included_.raw_repr(), keys.excluded_.raw_repr(), vendors};
}

bool SharedValues::Origin::isWatched() const {
  return std::all_of(sources.begin(), sources.end(),
                     [](const SeenMemory &s) { return s.isWatched(); });
}

bool SharedValues::Origin::isSame(const Origin &other) const {
  return digest == other.digest && settings == other.settings &&
         std::equal(sources.begin(), sources.end(), other.sources.begin(),
                    other.sources.end(),
                    [](const SeenMemory &a, const SeenMemory &b) {
                      return a.isSame(b);
                    });
}

size_t SharedValues::Origin::hash() const {
  size_t seed = std::hash<std::string>()(digest);
  for (const SeenMemory &source : sources)
    seed = mix(seed, reinterpret_cast<size_t>(source.data));
  return seed;
}

at::Tensor SharedValues::find(const Origin &origin) {
  Known &known = Known::all();
  std::lock_guard<std::mutex> guard(known.lock);
  return known.find(origin);
}

at::Tensor SharedValues::offer(Origin origin, at::Tensor value) {
  if (!origin.isWatched())
    return value;
  Known &known = Known::all();
  std::lock_guard<std::mutex> guard(known.lock);
  if (at::Tensor other = known.find(origin); other.defined())
    return other;
  known.add(std::move(origin), value);
  return value;
}

} // namespace pyjit::python
