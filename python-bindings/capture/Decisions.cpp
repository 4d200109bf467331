//===- Decisions.cpp - Recording on through a loop that goes round --------===//
//
// A branch on a tensor's data cuts the recording. A recording that began at an
// exit of such a branch and comes back to it is an iteration: it goes on
// through the branch for three heads, and writes down at each what the rest of
// the run depends on. refgraph-reroll-loops makes a loop of that. The recording
// that would have ended at the first head is kept for the case that it cannot.
//
//===----------------------------------------------------------------------===//

#include "Continuation.h"
#include "Run.h"
#include "Tensors.h"

#include <opcode.h>

#include <cstring>

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
  StateWalk(Session &session, std::vector<PyObject *> &tensors)
      : s(session), tensors(tensors) {}

  std::string text;
  bool ok = true;

  void walk(PyObject *object) {
    if (!ok)
      return;
    if (s.unseen.count(object))
      return identity("u", object);
    if (s.scalars.isTracked(object) || object == Py_NotImplemented)
      return refuse();
    if (isValue(object)) {
      text += s.keyText(object);
      return;
    }
    auto [first, isNew] = seen.insert({object, seen.size()});
    if (!isNew) {
      text += "@" + std::to_string(first->second);
      return;
    }
    if (seen.size() > kStateObjects)
      return refuse();
    if (s.isTensor(object))
      return tensor(object);
    Node *node = s.find(object);
    if (isProcessConstant(object) || (node && node->external))
      return node && (node->appended || node->replaced) ? refuse()
                                                        : identity("o", object);
    contents(object, node);
  }

private:
  Session &s;
  std::vector<PyObject *> &tensors;
  std::map<PyObject *, size_t> seen;

  void refuse() { ok = false; }

  void identity(const char *kind, PyObject *object) {
    auto number = s.heads.numbers.insert({object, s.heads.numbers.size()});
    s.keep(object);
    text += kind + std::to_string(number.first->second);
  }

  void tensor(PyObject *object) {
    std::string facts;
    bool external = false;
    if (!s.tensors->stateOf(object, facts, external))
      return refuse();
    PyObject *attributes = external ? nullptr : pyjitInstanceDict(object);
    if (attributes && PyDict_GET_SIZE(attributes))
      return refuse();
    text += "#" + std::to_string(tensors.size()) + facts;
    if (external)
      identity("e", object);
    tensors.push_back(object);
  }

  void elements(const char *kind, PyObject *sequence) {
    text += kind;
    for (Py_ssize_t i = 0; ok && i < PySequence_Fast_GET_SIZE(sequence); ++i) {
      text += i ? ", " : "";
      walk(PySequence_Fast_GET_ITEM(sequence, i));
    }
    text += ")";
  }

  void contents(PyObject *object, Node *node) {
    PyTypeObject *type = Py_TYPE(object);
    if (PyCell_Check(object) && s.isOwnCell(object)) {
      text += "cell(";
      if (PyObject *inside = PyCell_GET(object))
        walk(inside);
      text += ")";
      return;
    }
    if (!node)
      return refuse();
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

} // namespace

bool Session::describeState(const FrameState &state, std::string &text,
                            std::vector<PyObject *> &found) {
  // Effects so far, or a state of Torch's that differs: what the rest depends
  // on is more than the frame shows.
  if (!writes.empty() || !replacedNodes.empty() || !contextVariables.empty() ||
      !contextResets.empty() || !cellWrites.empty() ||
      !tensors->stateChange().empty())
    return false;
  StateWalk walk(*this, found);
  size_t value = 0;
  for (bool present : state.stack) {
    if (present)
      walk.walk(state.values[value++]);
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

void Session::decide(PyObject *condition, int outcome, const std::string &site,
                     const std::string &state,
                     const std::vector<PyObject *> &values) {
  auto name = [&](PyObject *tensor) {
    return "%" + std::to_string(tensors->valueOf(tensor));
  };
  std::string text, types = typeText(condition);
  for (PyObject *tensor : values) {
    text += (text.empty() ? "" : ", ") + name(tensor);
    types += ", " + typeText(tensor);
  }
  writer.line("refgraph.decide " + name(condition) + " is " +
                  (outcome < 0 ? "open"
                   : outcome   ? "true"
                               : "false") +
                  " at " + quoted(site) + " state " + quoted(state) + " [" +
                  text + "] : (" + types + ") -> ()",
              location());
}

/// Forgets the SSA values that were given out since `first`: their lines were
/// taken back.
void Session::forgetValues(int first) {
  for (auto &entry : nodes)
    if (entry.second->value >= first)
      entry.second->value = -1;
}

//===----------------------------------------------------------------------===//
// At a head
//===----------------------------------------------------------------------===//

void Run::expectLoop(Session &next, PyjitFrame *, PyCodeObject *code,
                     int offset) {
  next.heads.start = landing(next.info(code), offset);
  next.atBranch = [this](PyCodeObject *code, int offset, PyObject *condition) {
    return goesOn(code, offset, condition);
  };
}

/// Whether a further iteration of a loop begins that is recorded.
bool Run::isInLoop(Session &next, PyCodeObject *code, int offset) {
  if (loops.empty())
    return false;
  Origin origin = originOf(code, nullptr);
  return loops.count(
      {origin.code, landing(next.info(code), offset) - origin.shift});
}

/// The recording as it would be if it ended here.
bool Run::addPlain(Session &s, const FrameState &state) {
  Writer text = s.writer;
  int first = s.writer.fresh();
  Py_ssize_t pinned = PyList_GET_SIZE(s.objects);
  std::string why = "a branch on a tensor's data" + s.where();
  bool left = s.leaveCut({state});
  if (left) {
    PyObject *frames = PyTuple_New(1);
    PyTuple_SET_ITEM(frames, 0, describe(state));
    Segment segment;
    segment.key = Py_XNewRef(key);
    segment.trace = s.writer.finish(s.name);
    segment.objects = PySequence_List(s.objects);
    segment.nargs = s.argumentCount;
    segment.cut = Py_BuildValue("(sN)", why.c_str(), frames);
    segment.gradMode = s.gradModeLeft;
    segments.push_back(std::move(segment));
  }
  s.writer = text;
  s.writer.fresh();
  s.forgetValues(first);
  s.dead = false;
  s.reason.clear();
  s.refused = nullptr;
  s.mayLeaveGradMode = false;
  s.gradModeLeft = -1;
  // What was pinned by then has lines that are gone.
  return left && PyList_GET_SIZE(s.objects) == pinned;
}

/// In front of a branch: whether it is the head of the loop that the recording
/// is in, and the recording goes on through it.
bool Run::goesOn(PyCodeObject *code, int offset, PyObject *condition) {
  Session &s = *session;
  Session::Heads &heads = s.heads;
  if (heads.spoiled || !planner || surveying || s.scalars.enabled() ||
      !s.resumed || s.frames.size() != 2 || !s.isTensor(condition) ||
      s.tensors->isConstant(condition) || s.tensors->valueOf(condition) < 0)
    return false;
  CodeInfo &info = s.info(code);
  const Instruction &in = info.at(offset);
  bool through = landing(info, in.next) == heads.start;
  bool jumps = landing(info, jumpTarget(in)) == heads.start;
  if (through == jumps)
    return false;
  bool wanted = through == (in.op == POP_JUMP_IF_FALSE);
  auto stop = [&] {
    heads.spoiled = true;
    return false;
  };
  FrameState state;
  int outcome = s.tensors->truthOf(condition);
  std::string text;
  std::vector<PyObject *> values;
  if (outcome < 0 || (heads.site >= 0 && heads.site != offset) ||
      !s.frameState(1, FramePhase::Before, state) ||
      !s.describeState(state, text, values))
    return stop();
  if (heads.count == 0) {
    if (bool(outcome) != wanted) {
      heads.early = true;
      return stop();
    }
    size_t count = segments.size();
    bool clean = addPlain(s, state);
    heads.forked = segments.size() > count;
    if (!clean)
      return stop();
    heads.plain = count;
    heads.site = offset;
    heads.state = text;
  } else if (text != heads.state) {
    return stop();
  }
  bool last = heads.count + 1 == kHeads;
  if (!last && bool(outcome) != wanted) {
    segments[heads.plain].mayLoop = true;
    return stop();
  }
  s.special(condition, "__bool__");
  const char *name = PyUnicode_AsUTF8(code->co_qualname);
  s.decide(condition, last ? -1 : outcome,
           std::string(name ? name : "?") + ":" + std::to_string(offset), text,
           values);
  ++heads.count;
  heads.complete = last;
  return !last && !s.ended();
}
