//===- LoadedKernels.h - A program's kernels on a device --------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef PYJIT_RT_CUDA_LOADEDKERNELS_H
#define PYJIT_RT_CUDA_LOADEDKERNELS_H

#include "pyjit-rt/Program.h"
#include "pyjit-rt/cuda/Driver.h"

namespace pyjit::rt::cuda {

/// A kernel that is ready to launch.
struct LoadedKernel {
  Function function = nullptr;
  LaunchShape shape{};
  const char *name = "";
  const char *location = nullptr; ///< the user's source line, or null
  std::vector<uint32_t> align;    ///< per buffer, or empty
  bool deviceSizes = false;       ///< see kStepDeviceSizes
  bool waits = false;             ///< see kKernelWaits
};

/// The kernel that writes words of a table, as PTX and as a host function.
std::string tableWriterCode();
HostKernel tableWriterFunction();

/// The kernel that sets a condition (parameter 0) to the bool at parameter 1,
/// or to its opposite where parameter 2 is 1. The function that it calls is the
/// driver's: `ptxas` cannot assemble it to the end.
std::string conditionSetterCode();
HostKernel conditionSetterFunction();

/// Code in the current context; unloaded with the object.
struct LoadedCode {
  explicit LoadedCode(std::shared_ptr<Driver> driver)
      : driver(std::move(driver)) {}
  ~LoadedCode();
  LoadedCode(const LoadedCode &) = delete;
  LoadedCode &operator=(const LoadedCode &) = delete;

  /// Success, or what the last module said.
  Result find(Function *function, const char *name) const;

  std::shared_ptr<Driver> driver;
  /// Each name is in one of them.
  std::vector<Module> modules;
  Module writerModule = nullptr;
};

/// The kernels of one program, loaded into the current context; unloaded with
/// the last object that has them.
class LoadedKernels {
public:
  explicit LoadedKernels(std::shared_ptr<Driver> driver)
      : driver(std::move(driver)) {}

  /// Loads the program's PTX, or makes kernels of `functions` where the driver
  /// is simulated. False, with kernel and source line in `error`, on failure.
  /// `shared`, where given, is code of the same text that is loaded already, or
  /// becomes what is loaded here.
  bool load(const Program &program, const std::vector<KernelFn> &functions,
            std::string &error, std::shared_ptr<LoadedCode> *shared = nullptr);
  /// Takes over how much each kernel does now: `program` has other sizes than
  /// when it was loaded. False, with the reason, where one cannot be launched.
  /// Grids of kernels that read sizes on the device grow, and stay.
  bool resize(const Program &program, std::string &error);
  /// The node that writes up to `kTableWords` words, each a value and where to:
  /// parameters are the count, then pairs of address and value (on a device
  /// these are one parameter, as large as all of them: a launch that names each
  /// by an address of its own, of words that lie one behind the other, fits).
  static constexpr unsigned kTableWords = 128;
  const LoadedKernel &tableWriter() const { return writer; }
  /// Throws std::runtime_error where the driver does not take it.
  const LoadedKernel &conditionSetter();
  const LoadedKernel &operator[](size_t i) const { return kernels[i]; }

private:
  bool findFunction(LoadedKernel &kernel, std::string &error);
  bool loadCode(const Program &program, std::string &error);
  bool loadModules(const Program &program, std::string &error);
  bool loadFunctions(const Program &program,
                     const std::vector<KernelFn> &functions,
                     std::string &error);

  std::shared_ptr<Driver> driver;
  std::shared_ptr<LoadedCode> code;
  std::unique_ptr<LoadedCode> setterCode;
  std::vector<LoadedKernel> kernels;
  LoadedKernel writer, setter;
  /// On a simulated device: how much each kernel does now.
  std::shared_ptr<std::vector<int64_t>> works;
};

} // namespace pyjit::rt::cuda

#endif // PYJIT_RT_CUDA_LOADEDKERNELS_H
