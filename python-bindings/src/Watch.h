//===- Watch.h - Knowing that nothing changed -------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// CPython 3.12 reports changes of dicts and functions to watchers. A `Watch`
// vouches for a set of holders: while it is clean, none of them has changed
// since it was armed.
//
//===----------------------------------------------------------------------===//

#ifndef PYJIT_PYTHON_WATCH_H
#define PYJIT_PYTHON_WATCH_H

#include "Reference.h"

#include <algorithm>
#include <vector>

namespace pyjit::python {

/// Works on objects that watched dicts hold, without owning them, while other
/// threads may change these dicts.
class Borrower {
public:
  /// Called at most once, with the GIL, before any of them is dropped: takes
  /// references.
  virtual void secure() = 0;

protected:
  ~Borrower() = default;
};

class Watch {
public:
  Watch() = default;
  Watch(const Watch &) = delete;
  Watch &operator=(const Watch &) = delete;
  ~Watch();

  /// The entries of a dict that matter: interned strings that the owner keeps
  /// alive, or null for all.
  using Keys = std::vector<PyObject *>;
  struct Dict {
    PyObject *dict;
    const Keys *keys;
  };

  /// Watches `dicts` (exact dicts or OrderedDicts), `functions` and `types`
  /// from now on and keeps them alive. Returns false, watching nothing, when
  /// one of them cannot be watched: watcher ids or type version tags are used
  /// up. Cheap when they are the ones that it watched before. Runs no Python
  /// code: what it kept alive until now goes to `dropped`.
  bool arm(const std::vector<Dict> &dicts,
           const std::vector<PyObject *> &functions,
           const std::vector<PyTypeObject *> &types,
           std::vector<Reference> &dropped);

  /// Whether nothing has changed since `arm`. A type reports its changes only
  /// while its version tag is valid, so the tags themselves are compared.
  bool clean() const {
    if (!armed)
      return false;
    for (const auto &[type, tag] : tags)
      __builtin_prefetch(&type->tp_version_tag);
    bool same = true;
    for (const auto &[type, tag] : tags)
      same &= type->tp_version_tag == tag;
    return same;
  }

  /// From now on until `release`, `borrower` relies on the entries that the
  /// watch names. False if they are not watched. Both with the GIL.
  bool borrow(Borrower &borrower) {
    if (armed)
      borrowers.push_back(&borrower);
    return armed;
  }
  void release(Borrower &borrower) {
    borrowers.erase(std::remove(borrowers.begin(), borrowers.end(), &borrower),
                    borrowers.end());
  }

private:
  /// Something changes, or is not watched any longer.
  void disturb() {
    armed = false;
    for (Borrower *borrower : borrowers)
      borrower->secure();
    borrowers.clear();
  }
  void disarm(std::vector<Reference> &dropped);
  bool rearm(const std::vector<Dict> &dicts,
             const std::vector<PyObject *> &functions,
             const std::vector<PyTypeObject *> &types);

  friend struct WatchRegistry;
  bool armed = false;
  std::vector<Borrower *> borrowers;
  std::vector<Reference> holders;
  std::vector<std::pair<PyTypeObject *, unsigned>> tags;
};

} // namespace pyjit::python

#endif // PYJIT_PYTHON_WATCH_H
