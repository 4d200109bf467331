//===- Decisions.cpp - Recording on through a loop that goes round --------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A branch on a tensor's data breaks the recording. A recording that began at
// an exit of such a branch and comes back to it is an iteration: it goes on
// through the branch for three heads, and writes down at each what the rest of
// the run depends on. refgraph-form-loops makes a loop of that. The recording
// that would have ended at the first head is kept for the case that it cannot.
//
//===----------------------------------------------------------------------===//

#include "breaks/CaptureTypes.h"
#include "breaks/Continuation.h"
#include "breaks/Run.h"
#include "tensors/FrozenLeaves.h"
#include "tensors/Tensors.h"

#include <opcode.h>

#include <cstring>
#include <optional>

using namespace pyjit::capture;

/// So many heads are recorded: two windows to compare, behind the first
/// iteration.
static constexpr int kHeads = 3;
/// A state of more objects than this is none to compare.
static constexpr size_t kStateObjects = 4096;

//===----------------------------------------------------------------------===//
// What the rest of a run depends on
//===----------------------------------------------------------------------===//

namespace {

/// Writes everything that Python can reach from a frame, tensors by place.
/// Objects from before the recording, which nobody has written to, are known by
/// identity; objects of the call by their contents. What cannot be looked into
/// is refused.
class StateWalk {
public:
  StateWalk(Recording &recording, std::vector<PyObject *> &found)
      : s(recording), found(found) {}

  std::string text;
  bool ok = true;

  void walk(PyObject *object) {
    if (!ok)
      return;
    if (s.objects.unseen.count(object))
      return identity("u", object);
    if (object == Py_NotImplemented)
      return refuse();
    if (s.scalars.isTracked(object) && !s.scalars.isSpecialized(object))
      return number(object);
    if (isValue(object)) {
      text += textOf(s.objects.constant(object));
      return;
    }
    auto [first, isNew] = seen.insert({object, seen.size()});
    if (!isNew) {
      text += "@" + std::to_string(first->second);
      return;
    }
    if (seen.size() > kStateObjects)
      return refuse();
    if (s.objects.isTensor(object))
      return tensor(object);
    Node *node = s.objects.find(object);
    if (isProcessConstant(object) || (node && node->external))
      return node && (node->appended || node->replaced) ? refuse()
                                                        : identity("o", object);
    contents(object, node);
  }

private:
  Recording &s;
  std::vector<PyObject *> &found;
  std::map<PyObject *, size_t> seen;

  void refuse() { ok = false; }

  void identity(const char *kind, PyObject *object) {
    auto number = s.decisions.heads.numbers.insert(
        {object, s.decisions.heads.numbers.size()});
    s.objects.keep(object);
    text += kind + std::to_string(number.first->second);
  }

  /// One that the specialization computes, or will: another one at each head.
  void number(PyObject *object) {
    auto [first, isNew] = seen.insert({object, seen.size()});
    if (!isNew) {
      text += "@" + std::to_string(first->second);
      return;
    }
    text += "#" + std::to_string(found.size()) +
            (PyFloat_CheckExact(object) ? " float" : " int");
    found.push_back(object);
  }

  void tensor(PyObject *object) {
    std::string facts;
    bool external = false;
    if (!s.tensors->stateOf(object, facts, external))
      return refuse();
    PyObject *attributes = external ? nullptr : pyjitInstanceDict(object);
    if (attributes && PyDict_GET_SIZE(attributes))
      return refuse();
    text += "#" + std::to_string(found.size()) + facts;
    if (external)
      identity("e", object);
    found.push_back(object);
  }

  void elements(const char *kind, PyObject *sequence) {
    text += kind;
    for (Py_ssize_t i = 0; ok && i < PySequence_Fast_GET_SIZE(sequence); ++i) {
      text += i ? ", " : "";
      walk(PySequence_Fast_GET_ITEM(sequence, i));
    }
    text += ")";
  }

  /// Where it stands, and what is left of it.
  void range(PyObject *iterator) {
    Scalars::Range parts;
    if (!s.scalars.rangeParts(iterator, parts))
      return refuse();
    text += "range(";
    walk(parts.next);
    text += ", " + std::to_string(parts.step) + ", ";
    walk(parts.left);
    text += ")";
  }

  void contents(PyObject *object, Node *node) {
    PyTypeObject *type = Py_TYPE(object);
    if (PyCell_Check(object) && s.reads.isOwnCell(object)) {
      text += "cell(";
      if (PyObject *inside = PyCell_GET(object))
        walk(inside);
      text += ")";
      return;
    }
    if (!node)
      return refuse();
    if (type == &PyRangeIter_Type)
      return range(object);
    if (type == &PyTuple_Type)
      return elements("(", object);
    if (type == &PyList_Type)
      return elements("list(", object);
    if (!std::strcmp(type->tp_name, "torch.Size"))
      return elements("size(", object);
    if (type == &PyDict_Type) {
      PyObject *key, *item;
      Py_ssize_t position = 0;
      text += "dict(";
      while (ok && PyDict_Next(object, &position, &key, &item)) {
        walk(key);
        text += " = ";
        walk(item);
        text += ", ";
      }
      text += ")";
      return;
    }
    if (type == &PyMethod_Type) {
      text += "method(";
      walk(PyMethod_GET_FUNCTION(object));
      text += ", ";
      walk(PyMethod_GET_SELF(object));
      text += ")";
      return;
    }
    // Iterators, generators, functions and instances of the call.
    refuse();
  }
};

/// Where execution really goes on from `offset`.
int landing(const CodeInfo &info, int offset) {
  for (int i = 0; i < 8; ++i) {
    if (offset < 0 || size_t(offset) / 2 >= info.instructions.size())
      return -1;
    const Instruction &in = info.at(offset);
    if (in.op == EXTENDED_ARG)
      offset += 2;
    else if (in.op == NOP)
      offset = in.next;
    else if (in.op == JUMP_FORWARD || in.op == JUMP_BACKWARD ||
             in.op == JUMP_BACKWARD_NO_INTERRUPT)
      offset = jumpTarget(in);
    else
      break;
  }
  return offset;
}

/// Whether what begins at `from` can come to `to` without the instruction at
/// `avoided`.
bool reaches(const CodeInfo &info, int from, int to, int avoided) {
  std::vector<bool> seen(info.instructions.size());
  std::vector<int> work{from};
  while (!work.empty()) {
    int offset = work.back();
    work.pop_back();
    size_t unit = size_t(offset) / 2;
    if (offset < 0 || unit >= seen.size() || seen[unit] || offset == avoided)
      continue;
    seen[unit] = true;
    if (landing(info, offset) == to)
      return true;
    const Instruction &in = info.at(offset);
    if (in.op == EXTENDED_ARG) {
      work.push_back(offset + 2);
      continue;
    }
    if (int target = jumpTarget(in); target >= 0)
      work.push_back(target);
    if (!endsBlock(in.op))
      work.push_back(in.next);
  }
  return false;
}

} // namespace

bool Decisions::describeState(const FrameState &state, std::string &text,
                              std::vector<PyObject *> &found, bool truth) {
  // Effects so far, or a state of Torch's that differs: what the rest depends
  // on is more than the frame shows.
  if (!s.effects.empty() || !s.tensors->stateChange().empty() ||
      hasFrozenLeaves(s))
    return false;
  StateWalk walk(s, found);
  size_t value = 0;
  for (size_t i = 0; i < state.stack.size(); ++i) {
    bool asked = truth && i + 1 == state.stack.size();
    if (asked)
      walk.text += "truth";
    if (state.stack[i])
      asked ? void(++value) : walk.walk(state.values[value++]);
    walk.text += "; ";
  }
  for (int slot : state.slots) {
    walk.text += std::to_string(slot) + "=";
    walk.walk(state.values[value++]);
    walk.text += "; ";
  }
  text = walk.text;
  return walk.ok;
}

void Decisions::decide(PyjitValue condition, int outcome,
                       const std::string &site, const std::string &state,
                       const std::vector<PyjitValue> &values) {
  s.add(PyjitDecideOp{.condition = condition,
                      .outcome = {outcome >= 0, outcome > 0},
                      .site = view(site),
                      .state = view(state),
                      .values = view(values)});
}

void Decisions::speculate(PyjitValue flag, bool outcome) {
  s.add(PyjitSpeculateOp{.flag = flag, .outcome = outcome});
}

/// Forgets the values that were made since `first`: they were taken back.
void Decisions::forgetValues(int first) {
  for (auto &entry : s.objects.nodes)
    if (entry.second->value >= first)
      entry.second->value = -1;
  s.scalars.forgetValues(first);
}

//===----------------------------------------------------------------------===//
// At a head
//===----------------------------------------------------------------------===//

void Run::expectLoop(Recording &next, PyjitFrame *, PyCodeObject *code,
                     int offset) {
  next.decisions.heads.start = landing(next.tracker.info(code), offset);
  next.decisions.atBranch = [this](PyCodeObject *code, int offset,
                                   PyObject *condition, int truth) {
    return goesOneWay(code, offset, condition, truth) ||
           goesOn(code, offset, condition, truth);
  };
}

/// Whether a further iteration of a loop begins that is recorded.
bool Run::isInLoop(Recording &next, PyCodeObject *code, int offset) {
  if (loops.empty())
    return false;
  Origin origin = originOf(code, nullptr);
  return loops.count(
      {origin.code, landing(next.tracker.info(code), offset) - origin.shift});
}

/// The recording as it would be if it ended here.
bool Run::addPlain(Recording &s, const FrameState &state, int truth) {
  PyjitTraceEnd here = s.writer.end();
  Py_ssize_t pinned = PyList_GET_SIZE(s.objects.list);
  Reason why{ReasonKind::BranchOnData, kBranchOnData + s.tracker.where(),
             s.tracker.stack()};
  s.decisions.truthLeft = truth;
  bool left = s.escape.leaveAtGraphBreak({state});
  s.decisions.truthLeft = -1;
  if (left) {
    Segment segment;
    segment.key = Py_XNewRef(key);
    if (s.sizes.followed)
      s.writer.setFollowsSizes();
    segment.trace = s.writer.copy();
    segment.objects = PySequence_List(s.objects.list);
    segment.nargs = s.breaks.argumentCount;
    segment.graphBreak = makeGraphBreak(why, {state});
    segment.gradMode = s.breaks.gradModeLeft;
    segment.dispatchState = s.tensors->dispatchState();
    noteSites(segment, s);
    segments.push_back(std::move(segment));
  }
  s.writer.rewind(here);
  s.decisions.forgetValues(here.nextValue);
  s.dead = false;
  s.reason = {};
  s.breaks.refused = nullptr;
  s.breaks.mayLeaveGradMode = false;
  s.breaks.gradModeLeft = -1;
  // What was pinned by then has lines that are gone.
  return left && PyList_GET_SIZE(s.objects.list) == pinned;
}

namespace {

/// What a branch asks: a tensor, or a number that the specialization computes.
struct Condition {
  Recording &s;
  PyObject *object;
  int proxy; ///< of the number, or -1

  bool isTensor() const { return proxy < 0; }
  bool isRecorded() const {
    return !isTensor() ||
           (s.objects.isTensor(object) && !s.tensors->isConstant(object) &&
            s.tensors->valueOf(object) >= 0);
  }
  /// 0, 1, or -1: the tensor has none. (Python asks a number itself, or has
  /// compared it.)
  int outcome() const {
    return isTensor() ? TensorRecorder::truthOf(object)
                      : PyObject_IsTrue(object);
  }
  std::string device() const {
    return isTensor() ? DataScalars::deviceOf(object)
                      : s.dataNumbers.proxyDevice(proxy);
  }
  /// Asks it as Python does.
  PyjitValue ask() const {
    if (!isTensor())
      return s.dataNumbers.proxyValue(proxy);
    s.attributes.special(object, "__bool__");
    return s.tensors->valueOf(object);
  }
};

} // namespace

/// With which outcome a branch goes round, by way of where the recording began.
/// Nothing if both ways do, or neither.
static std::optional<bool> outcomeAround(const CodeInfo &info,
                                         const Instruction &in, int offset,
                                         int start) {
  bool through = landing(info, in.next) == start;
  bool jumps = landing(info, jumpTarget(in)) == start;
  if (!through && !jumps) {
    through = reaches(info, in.next, start, offset);
    jumps = reaches(info, jumpTarget(in), start, offset);
  }
  if (through == jumps)
    return std::nullopt;
  return through == (in.op == POP_JUMP_IF_FALSE);
}

/// Whether the branch at `offset` is a head: the first one, or one with the
/// same state as that. `wanted`: the outcome with which the loop goes round.
bool Run::isHead(int offset, int truth, int outcome, bool wanted,
                 std::string &text, std::vector<PyObject *> &found) {
  Recording &s = *recording;
  Decisions::Heads &heads = s.decisions.heads;
  FrameState state;
  if (outcome < 0 || !s.breaks.frameState(1, FramePhase::Before, state) ||
      !s.decisions.describeState(state, text, found, truth >= 0))
    return false;
  bool around = bool(outcome) == wanted;
  if (heads.count > 0) {
    if (text != heads.state)
      return false;
    if (heads.count + 1 < kHeads && !around) {
      segments[heads.plain].mayLoop = true;
      return false;
    }
    return true;
  }
  if (!around) {
    heads.early = true;
    return false;
  }
  size_t count = segments.size();
  bool clean = addPlain(s, state, truth);
  heads.forked = segments.size() > count;
  if (!clean)
    return false;
  heads.plain = count;
  heads.site = offset;
  heads.state = text;
  return true;
}

/// The values of what a state names; from here on, each iteration has
/// numbers of its own. False if a number cannot be computed in the
/// specialization.
static bool carryState(Recording &s, const std::vector<PyObject *> &found,
                       const std::string &device,
                       std::vector<PyjitValue> &values) {
  for (PyObject *object : found) {
    if (s.objects.isTensor(object)) {
      values.push_back(s.tensors->valueOf(object));
      continue;
    }
    if (!s.scalars.carry(object, device))
      return false;
    int proxy = s.scalars.proxyOf(object);
    values.push_back(s.dataNumbers.proxyValue(proxy)); // its own tensor
  }
  return true;
}

/// Whether a graph break here would hand on what is another object in each
/// call: a module that the call has made, which is known by identity, or an
/// iterator over what are no numbers (a loop over a range may become one of the
/// program).
static bool handsOnOthers(Recording &s) {
  for (const auto &[object, node] : s.objects.nodes)
    if (!node->external && isModule(object))
      return true;
  for (size_t i = 1, last = s.tracker.frames.size() - 1; i <= last; ++i) {
    FrameState state;
    if (!s.breaks.frameState(
            i, i == last ? FramePhase::Before : FramePhase::Calling, state))
      return false;
    for (PyObject *value : state.values)
      if (isNativeIterator(value) && !isRangeIterator(value))
        return true;
  }
  return false;
}

/// In front of a branch: whether a backward behind it needs the history of what
/// is in front, or one in front has been recorded, or what would be handed on
/// is another object in each call. Segments of their own would not do: the
/// recording goes on through the branch, and the program checks that it goes
/// the same way.
bool Run::goesOneWay(PyCodeObject *code, int offset, PyObject *object,
                     int truth) {
  Recording &s = *recording;
  Origin origin = originOf(code, nullptr);
  std::pair<PyCodeObject *, int> site{origin.code, offset - origin.shift};
  auto point = known.find(site);
  bool isKnown = point != known.end();
  Reason why = isKnown ? point->second : ranBackward(s) ? oneWay() : fewWays();
  Condition condition{s, object, truth};
  if (s.decisions.heads.count > 0 || s.checkpoint.repeats() || !planner ||
      surveying || !condition.isRecorded())
    return false;
  // Asked last: it looks at all that the call has made.
  bool wanted = isKnown ? goesThrough(why)
                        : why.kind == ReasonKind::OneWay || handsOnOthers(s);
  if (!wanted)
    return false;
  int outcome = condition.outcome();
  if (outcome < 0)
    return false;
  s.decisions.speculate(condition.ask(), outcome);
  learned.push_back(
      {Py_NewRef(reinterpret_cast<PyObject *>(site.first)), site.second, why});
  return !s.ended();
}

/// In front of a branch: whether it is the head of the loop that the recording
/// is in, and the recording goes on through it.
bool Run::goesOn(PyCodeObject *code, int offset, PyObject *object, int truth) {
  Recording &s = *recording;
  Decisions::Heads &heads = s.decisions.heads;
  Condition condition{s, object, truth};
  if (heads.spoiled || !planner || surveying || s.sizes.followed ||
      s.tensors->gradientFlows() || !s.breaks.resumed ||
      s.tracker.frames.size() != 2 || !condition.isRecorded())
    return false;
  // Another test of the same iteration: the loop ends in front of one that it
  // ends (see refgraph-form-loops).
  if (heads.count > 0 && heads.site != offset) {
    int outcome = condition.outcome();
    if (outcome < 0)
      return false;
    s.decisions.speculate(condition.ask(), outcome);
    return !s.ended();
  }
  CodeInfo &info = s.tracker.info(code);
  std::optional<bool> wanted =
      outcomeAround(info, info.at(offset), offset, heads.start);
  if (!wanted)
    return false;
  int outcome = condition.outcome();
  std::string text;
  std::vector<PyObject *> found;
  std::vector<PyjitValue> values;
  if (!isHead(offset, truth, outcome, *wanted, text, found) ||
      !carryState(s, found, condition.device(), values)) {
    heads.spoiled = true;
    return false;
  }
  bool last = heads.count + 1 == kHeads;
  PyjitValue asked = condition.ask();
  if (!condition.isTensor())
    values.push_back(asked);
  const char *name = PyUnicode_AsUTF8(code->co_qualname);
  s.decisions.decide(asked, last ? -1 : outcome,
                     std::string(name ? name : "?") + ":" +
                         std::to_string(offset),
                     text, values);
  ++heads.count;
  heads.complete = last;
  if (last)
    s.decisions.truthLeft = truth;
  return !last && !s.ended();
}
