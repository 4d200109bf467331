//===- Watch.cpp - Knowing that nothing changed ---------------------------===//

#include "Watch.h"

#include <algorithm>
#include <unordered_map>

namespace pyjit::python {

/// The interpreter's watchers call plain functions, so the way from a holder to
/// the watches that name it is process state; the GIL guards it.
struct WatchRegistry {
  std::unordered_map<PyObject *, std::vector<Watch *>> byHolder;
  int dictWatcher = -1;
  int functionWatcher = -1;

  static WatchRegistry &get() {
    static WatchRegistry *registry = new WatchRegistry; // outlives the interpreter
    return *registry;
  }

  void report(PyObject *holder) {
    auto found = byHolder.find(holder);
    if (found == byHolder.end())
      return;
    for (Watch *watch : found->second)
      watch->armed = false;
  }

  bool start() {
    if (dictWatcher < 0)
      dictWatcher = PyDict_AddWatcher([](PyDict_WatchEvent, PyObject *dict, PyObject *,
                                         PyObject *) {
        get().report(dict);
        return 0;
      });
    if (functionWatcher < 0)
      functionWatcher = PyFunction_AddWatcher(
          [](PyFunction_WatchEvent event, PyFunctionObject *function, PyObject *) {
            // Creations and deaths of functions are frequent and say nothing:
            // watched functions are kept alive.
            if (event != PyFunction_EVENT_CREATE && event != PyFunction_EVENT_DESTROY)
              get().report(reinterpret_cast<PyObject *>(function));
            return 0;
          });
    if (dictWatcher < 0 || functionWatcher < 0)
      PyErr_Clear();
    return dictWatcher >= 0 && functionWatcher >= 0;
  }

  void add(PyObject *holder, Watch *watch) {
    byHolder[holder].push_back(watch);
    watch->holders.push_back(Reference::borrow(holder));
  }
};

/// Dicts whose every change of an entry is reported. OrderedDict's methods go
/// through dict's (tried on 3.12), its moves of entries report nothing.
static bool reportsChanges(PyObject *dict) {
  return PyDict_CheckExact(dict) || PyODict_CheckExact(dict);
}

bool Watch::arm(const std::vector<PyObject *> &dicts,
                const std::vector<PyObject *> &functions,
                const std::vector<PyTypeObject *> &types) {
  disarm();
  WatchRegistry &registry = WatchRegistry::get();
  if (!registry.start())
    return false;
  for (PyTypeObject *type : types) {
    if (!PyUnstable_Type_AssignVersionTag(type)) {
      disarm();
      return false;
    }
    tags.emplace_back(type, type->tp_version_tag);
    holders.push_back(Reference::borrow(reinterpret_cast<PyObject *>(type)));
  }
  for (PyObject *dict : dicts) {
    if (!reportsChanges(dict) || PyDict_Watch(registry.dictWatcher, dict) < 0) {
      PyErr_Clear();
      disarm();
      return false;
    }
    registry.add(dict, this);
  }
  for (PyObject *function : functions)
    registry.add(function, this);
  armed = true;
  return true;
}

void Watch::disarm() {
  armed = false;
  tags.clear();
  WatchRegistry &registry = WatchRegistry::get();
  for (Reference &holder : holders) {
    auto found = registry.byHolder.find(holder.get());
    if (found == registry.byHolder.end())
      continue;
    auto &watches = found->second;
    watches.erase(std::remove(watches.begin(), watches.end(), this), watches.end());
    if (!watches.empty())
      continue;
    registry.byHolder.erase(found);
    if (reportsChanges(holder.get()))
      PyDict_Unwatch(registry.dictWatcher, holder.get());
  }
  PyErr_Clear();
  // Dropping a holder may run arbitrary destructors: last, and not in place.
  std::vector<Reference> dropped;
  dropped.swap(holders);
}

} // namespace pyjit::python
