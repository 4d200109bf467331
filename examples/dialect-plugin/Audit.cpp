//===- Audit.cpp - A dialect and a pass as a plug-in for pyjit-opt --------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/DialectRegistry.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Tools/Plugins/DialectPlugin.h"
#include "mlir/Tools/Plugins/PassPlugin.h"

using namespace mlir;

namespace {
constexpr const char *kCalls = "audit.vendor_calls";

/// Owns the attributes that begin with `audit.`.
class AuditDialect : public Dialect {
public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(AuditDialect)

  explicit AuditDialect(MLIRContext *context)
      : Dialect(getDialectNamespace(), context, TypeID::get<AuditDialect>()) {}
  static StringRef getDialectNamespace() { return "audit"; }

  LogicalResult verifyOperationAttribute(Operation *op,
                                         NamedAttribute named) override {
    if (named.getName() != kCalls)
      return op->emitError() << "unknown attribute " << named.getName();
    if (!isa<FunctionOpInterface>(op) || !isa<IntegerAttr>(named.getValue()))
      return op->emitError() << kCalls << " is an integer of a function";
    return success();
  }
};

/// Counts the calls of vendor libraries in each function.
class VendorCalls : public PassWrapper<VendorCalls, OperationPass<>> {
public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(VendorCalls)

  StringRef getArgument() const final { return "audit-vendor-calls"; }
  StringRef getDescription() const final {
    return "Count the vendor calls of each function";
  }
  void getDependentDialects(DialectRegistry &registry) const override {
    registry.insert<AuditDialect>();
  }
  void runOnOperation() override {
    getOperation()->walk([](FunctionOpInterface function) {
      int64_t calls = 0;
      function->walk([&](Operation *op) {
        calls += op->getName().getStringRef() == "tssa.aten";
      });
      Builder builder(function.getContext());
      function->setAttr(kCalls, builder.getI64IntegerAttr(calls));
    });
  }
};
} // namespace

extern "C" LLVM_ATTRIBUTE_WEAK DialectPluginLibraryInfo
mlirGetDialectPluginInfo() {
  return {MLIR_PLUGIN_API_VERSION, "audit", "1",
          [](DialectRegistry *registry) { registry->insert<AuditDialect>(); }};
}

extern "C" LLVM_ATTRIBUTE_WEAK PassPluginLibraryInfo mlirGetPassPluginInfo() {
  return {MLIR_PLUGIN_API_VERSION, "audit", "1",
          [] { PassRegistration<VendorCalls>(); }};
}
