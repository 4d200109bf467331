//===- Watch.cpp - Knowing that nothing changed ---------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "Watch.h"

#include <algorithm>
#include <iterator>
#include <unordered_map>

namespace pyjit::python {

/// The interpreter's watchers call plain functions, so the way from a holder to
/// the watches that name it is process state; the GIL guards it.
struct WatchRegistry {
  struct Subscription {
    Watch *watch;
    const Watch::Keys *keys; ///< null: every entry matters
  };
  std::unordered_map<PyObject *, std::vector<Subscription>> byHolder;
  int dictWatcher = -1;
  int functionWatcher = -1;

  static WatchRegistry &get() {
    static WatchRegistry *registry =
        new WatchRegistry; // outlives the interpreter
    return *registry;
  }

  /// `key` is null where the whole holder may have changed.
  void report(PyObject *holder, PyObject *key) {
    auto found = byHolder.find(holder);
    if (found == byHolder.end())
      return;
    for (const Subscription &subscription : found->second)
      if (!key || !subscription.keys || contains(*subscription.keys, key))
        subscription.watch->disturb();
  }

  /// May not run Python code: whatever is no plain string counts as relevant.
  static bool contains(const Watch::Keys &keys, PyObject *key) {
    if (!PyUnicode_CheckExact(key))
      return true;
    if (std::find(keys.begin(), keys.end(), key) != keys.end())
      return true;
    if (PyUnicode_CHECK_INTERNED(key))
      return false;
    return std::any_of(keys.begin(), keys.end(), [&](PyObject *other) {
      return PyUnicode_Compare(other, key) == 0;
    });
  }

  bool start() {
    if (dictWatcher < 0)
      dictWatcher =
          PyDict_AddWatcher([](PyDict_WatchEvent event, PyObject *dict,
                               PyObject *key, PyObject *) {
            bool entry = event == PyDict_EVENT_ADDED ||
                         event == PyDict_EVENT_MODIFIED ||
                         event == PyDict_EVENT_DELETED;
            get().report(dict, entry ? key : nullptr);
            return 0;
          });
    if (functionWatcher < 0)
      functionWatcher =
          PyFunction_AddWatcher([](PyFunction_WatchEvent event,
                                   PyFunctionObject *function, PyObject *) {
            // Creations and deaths of functions are frequent and say nothing:
            // watched functions are kept alive.
            if (event != PyFunction_EVENT_CREATE &&
                event != PyFunction_EVENT_DESTROY)
              get().report(reinterpret_cast<PyObject *>(function), nullptr);
            return 0;
          });
    if (dictWatcher < 0 || functionWatcher < 0)
      PyErr_Clear();
    return dictWatcher >= 0 && functionWatcher >= 0;
  }

  void add(PyObject *holder, Watch *watch, const Watch::Keys *keys) {
    byHolder[holder].push_back({watch, keys});
    watch->holders.push_back(Reference::borrow(holder));
  }
};

/// Dicts whose every change of an entry is reported. OrderedDict's methods go
/// through dict's (tried on 3.12), its moves of entries report nothing.
static bool reportsChanges(PyObject *dict) {
  return PyDict_CheckExact(dict) || PyODict_CheckExact(dict);
}

/// After a change that led back to the same holders: they are watched already.
bool Watch::rearm(const std::vector<Dict> &dicts,
                  const std::vector<PyObject *> &functions,
                  const std::vector<PyTypeObject *> &types) {
  if (holders.empty() ||
      holders.size() != types.size() + dicts.size() + functions.size())
    return false;
  size_t next = 0;
  for (PyTypeObject *type : types)
    if (holders[next++].get() != reinterpret_cast<PyObject *>(type))
      return false;
  for (const Dict &dict : dicts)
    if (holders[next++].get() != dict.dict)
      return false;
  for (PyObject *function : functions)
    if (holders[next++].get() != function)
      return false;
  for (auto &[type, tag] : tags) {
    if (!PyUnstable_Type_AssignVersionTag(type))
      return false;
    tag = type->tp_version_tag;
  }
  return armed = true;
}

bool Watch::arm(const std::vector<Dict> &dicts,
                const std::vector<PyObject *> &functions,
                const std::vector<PyTypeObject *> &types,
                std::vector<Reference> &dropped) {
  if (rearm(dicts, functions, types))
    return true;
  disarm(dropped);
  WatchRegistry &registry = WatchRegistry::get();
  if (!registry.start())
    return false;
  for (PyTypeObject *type : types) {
    if (!PyUnstable_Type_AssignVersionTag(type)) {
      disarm(dropped);
      return false;
    }
    tags.emplace_back(type, type->tp_version_tag);
    holders.push_back(Reference::borrow(reinterpret_cast<PyObject *>(type)));
  }
  for (const Dict &entry : dicts) {
    if (!reportsChanges(entry.dict) ||
        PyDict_Watch(registry.dictWatcher, entry.dict) < 0) {
      PyErr_Clear();
      disarm(dropped);
      return false;
    }
    registry.add(entry.dict, this, entry.keys);
  }
  for (PyObject *function : functions)
    registry.add(function, this, nullptr);
  armed = true;
  return true;
}

Watch::~Watch() {
  std::vector<Reference> dropped;
  disarm(dropped);
}

void Watch::disarm(std::vector<Reference> &dropped) {
  disturb();
  tags.clear();
  WatchRegistry &registry = WatchRegistry::get();
  for (Reference &holder : holders) {
    auto found = registry.byHolder.find(holder.get());
    if (found == registry.byHolder.end())
      continue;
    auto &watches = found->second;
    watches.erase(
        std::remove_if(watches.begin(), watches.end(),
                       [&](const auto &s) { return s.watch == this; }),
        watches.end());
    if (!watches.empty())
      continue;
    registry.byHolder.erase(found);
    if (reportsChanges(holder.get()))
      PyDict_Unwatch(registry.dictWatcher, holder.get());
  }
  PyErr_Clear();
  std::move(holders.begin(), holders.end(), std::back_inserter(dropped));
  holders.clear();
}

} // namespace pyjit::python
