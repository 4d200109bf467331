//===- EffectLog.cpp - What the call does to objects from before ----------===//

#include "objects/EffectLog.h"

using namespace pyjit::capture;

void EffectLog::forgetInstruction() {
  // What was written before is written out all the same.
  writes.resize(mark.writes);
  for (size_t i = mark.replaced; i < replaced.size(); ++i)
    replaced[i]->owned = replaced[i]->replaced = false;
  replaced.resize(mark.replaced);
  cells.resize(mark.cells);
  contextVariables.resize(mark.variables);
  contextResets.resize(mark.resets);
}

bool EffectLog::isReinserted(const Write &write) const {
  if (!reinserted.count(write.owner))
    return false;
  for (const Write *later = &write + 1; later != writes.data() + writes.size();
       ++later)
    if (later->owner == write.owner && later->select == write.select &&
        later->key &&
        PyObject_RichCompareBool(later->key, write.key, Py_EQ) == 1)
      return true;
  return false;
}
