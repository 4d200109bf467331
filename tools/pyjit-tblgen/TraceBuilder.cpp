//===- TraceBuilder.cpp - writes the typed trace builder ------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// One struct and one function of the C API (include/pyjit-c/Trace.h) for each
// operation of the refgraph dialect that may stand in a trace: those without
// regions whose parent, where they name one, is the trace. A field for each
// operand and attribute, in the order of the definition, then one for the
// result types.
//
//===----------------------------------------------------------------------===//

#include "Generators.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/TableGen/Error.h"
#include "llvm/TableGen/Record.h"

using namespace llvm;

namespace {

enum class FieldKind { Operand, Operands, Attribute };

struct Field {
  std::string name;   ///< as the definition has it
  std::string member; ///< as C has it
  std::string type;   ///< in C
  FieldKind kind;
  bool optional = false;
};

enum class ResultKind { None, One, Variadic };

struct Operation {
  std::string name;     ///< "tensor_op"
  std::string cppClass; ///< "TensorOp"
  std::string stem;     ///< "Tensor", of PyjitTensorOp
  std::string summary;
  std::vector<Field> fields;
  ResultKind results = ResultKind::None;
  bool hasSegments = false; ///< says how many operands each group has
};

/// "exact_type" as "exactType".
std::string toMember(StringRef name) {
  return convertToCamelFromSnakeCase(name);
}

/// "typeattr" as "Typeattr", "tensor_op" as "TensorOp".
std::string toStem(StringRef name) {
  return convertToCamelFromSnakeCase(name, /*capitalizeFirst=*/true);
}

bool hasTrait(const Record &op, StringRef start, StringRef part = "") {
  return any_of(op.getValueAsListOfDefs("traits"), [&](const Record *trait) {
    std::optional<StringRef> text = trait->getValueAsOptionalString("trait");
    return text && text->starts_with(start) && text->contains(part);
  });
}

bool mayStandInTrace(const Record &op) {
  if (op.getValueAsDag("regions")->getNumArgs())
    return false;
  return !hasTrait(op, "HasParent<") || hasTrait(op, "HasParent<", "TraceOp");
}

const Record &getDef(const DagInit *dag, unsigned index) {
  return *cast<DefInit>(dag->getArg(index))->getDef();
}

/// The C type of an attribute, by the attribute's class.
StringRef getAttributeType(const Record &attribute, bool optional,
                           ArrayRef<SMLoc> location) {
  StringRef storage = attribute.getValueAsString("storageType").trim();
  storage.consume_front("::mlir::");
  auto type =
      StringSwitch<StringRef>(storage)
          .Case("IntegerAttr", optional ? "PyjitOptionalInt" : "int64_t")
          .Case("BoolAttr", optional ? "PyjitOptionalBool" : "bool")
          .Case("UnitAttr", "bool")
          .Case("StringAttr", "PyjitString")
          .Case("DenseI64ArrayAttr", "PyjitInts")
          .Cases({"Attribute", "ArrayAttr", "DictionaryAttr"}, "PyjitAttribute")
          .Default("");
  if (type.empty())
    PrintFatalError(location, "no C type for an attribute of class " + storage);
  return type;
}

Operation readOperation(const Record &op) {
  Operation result;
  result.name = op.getValueAsString("opName").str();
  result.cppClass = op.getName().split('_').second.str();
  StringRef stem = result.cppClass;
  stem.consume_back("Op");
  result.stem = stem.str();
  result.summary = op.getValueAsString("summary").str();
  result.hasSegments = hasTrait(op, "AttrSizedOperandSegments");
  const DagInit *arguments = op.getValueAsDag("arguments");
  for (unsigned i = 0; i < arguments->getNumArgs(); ++i) {
    const Record &def = getDef(arguments, i);
    Field field;
    field.name = arguments->getArgNameStr(i).str();
    field.member = toMember(field.name);
    if (def.isSubClassOf("EnumAttrInfo")) {
      field.kind = FieldKind::Attribute;
      field.type = "Pyjit" + def.getValueAsString("className").str();
    } else if (def.isSubClassOf("AttrConstraint")) {
      field.kind = FieldKind::Attribute;
      field.optional = def.getValueAsBit("isOptional");
      field.type = getAttributeType(def, field.optional, op.getLoc()).str();
    } else {
      bool variadic = def.isSubClassOf("Variadic");
      field.kind = variadic ? FieldKind::Operands : FieldKind::Operand;
      field.type = variadic ? "PyjitValues" : "PyjitValue";
    }
    result.fields.push_back(std::move(field));
  }
  const DagInit *results = op.getValueAsDag("results");
  if (results->getNumArgs() > 1)
    PrintFatalError(op.getLoc(), "more than one group of results");
  if (results->getNumArgs())
    result.results = getDef(results, 0).isSubClassOf("Variadic")
                         ? ResultKind::Variadic
                         : ResultKind::One;
  return result;
}

/// In the order of the definitions.
std::vector<Operation> readOperations(const RecordKeeper &records) {
  std::vector<const Record *> defs =
      records.getAllDerivedDefinitions("RefGraph_Op").vec();
  sort(defs, [](const Record *a, const Record *b) {
    return a->getID() < b->getID();
  });
  std::vector<Operation> operations;
  for (const Record *op : defs)
    if (mayStandInTrace(*op))
      operations.push_back(readOperation(*op));
  return operations;
}

void emitHead(raw_ostream &os) {
  os << "/* Written by pyjit-tblgen from dialects/refgraph/IR/RefGraphOps.td. "
        "*/\n\n";
}

void emitEnums(raw_ostream &os, const RecordKeeper &records) {
  for (const Record *info : records.getAllDerivedDefinitions("EnumAttrInfo")) {
    if (info->getValueAsString("cppNamespace") != "::pyjit::refgraph")
      continue;
    std::string name = "Pyjit" + info->getValueAsString("className").str();
    os << "/* " << info->getValueAsString("summary") << " */\ntypedef enum {\n";
    for (const Record *entry : info->getValueAsListOfDefs("enumerants"))
      os << "  " << name << toStem(entry->getValueAsString("symbol")) << " = "
         << entry->getValueAsInt("value") << ",\n";
    os << "} " << name << ";\n\n";
  }
}

void emitStruct(raw_ostream &os, const Operation &op) {
  os << "/* refgraph." << op.name << ": " << op.summary << ". */\n"
     << "typedef struct {\n";
  for (const Field &field : op.fields)
    os << "  " << field.type << " " << field.member << ";"
       << (field.optional ? " /* optional */" : "") << "\n";
  if (op.results == ResultKind::One)
    os << "  PyjitType resultType;\n";
  if (op.results == ResultKind::Variadic)
    os << "  PyjitTypes resultTypes;\n";
  os << "} Pyjit" << op.stem << "Op;\n";
}

void emitSignature(raw_ostream &os, const Operation &op) {
  os << "PyjitValue pyjitBuild" << op.stem
     << "(PyjitTrace *trace, PyjitLocation location, const Pyjit" << op.stem
     << "Op *op)";
}

void emitDefinition(raw_ostream &os, const Operation &op) {
  emitSignature(os, op);
  os << " {\n  OpEmitter<refgraph::" << op.cppClass
     << "> emit(*trace, location);\n";
  std::string segments;
  for (const Field &field : op.fields) {
    if (field.kind == FieldKind::Attribute) {
      os << "  emit." << (field.optional ? "setOptional" : "set")
         << "(emit.properties." << field.name << ", op->" << field.member
         << ");\n";
      continue;
    }
    bool one = field.kind == FieldKind::Operand;
    os << "  emit." << (one ? "addOperand" : "addOperands") << "(op->"
       << field.member << ");\n";
    segments += segments.empty() ? "" : ", ";
    segments += one ? "1" : "int32_t(op->" + field.member + ".size)";
  }
  if (op.hasSegments)
    os << "  emit.properties.operandSegmentSizes = {" << segments << "};\n";
  if (op.results == ResultKind::One)
    os << "  emit.addResult(op->resultType);\n";
  if (op.results == ResultKind::Variadic)
    os << "  emit.addResults(op->resultTypes);\n";
  os << "  return emit.append();\n}\n\n";
}

} // namespace

bool pyjit::tblgen::emitTraceBuilderDecls(raw_ostream &os,
                                          const RecordKeeper &records) {
  emitHead(os);
  emitEnums(os, records);
  std::vector<Operation> operations = readOperations(records);
  for (const Operation &op : operations) {
    emitStruct(os, op);
    os << "PYJIT_API ";
    emitSignature(os, op);
    os << ";\n\n";
  }
  os << "/* X(STEM) for each of them. */\n#define PYJIT_TRACE_OPS(X)";
  for (const Operation &op : operations)
    os << " \\\n  X(" << op.stem << ")";
  os << "\n";
  return false;
}

bool pyjit::tblgen::emitTraceBuilderDefs(raw_ostream &os,
                                         const RecordKeeper &records) {
  emitHead(os);
  for (const Operation &op : readOperations(records))
    emitDefinition(os, op);
  return false;
}
