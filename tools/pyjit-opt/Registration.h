//===- Registration.h - everything that pyjit's tools know ------*- C++ -*-===//

#ifndef PYJIT_TOOLS_PYJIT_OPT_REGISTRATION_H
#define PYJIT_TOOLS_PYJIT_OPT_REGISTRATION_H

namespace mlir {
class DialectRegistry;
} // namespace mlir

namespace pyjit {
void registerDialects(mlir::DialectRegistry &registry);
void registerPasses();
} // namespace pyjit

#endif // PYJIT_TOOLS_PYJIT_OPT_REGISTRATION_H
