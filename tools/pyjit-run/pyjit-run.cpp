//===- pyjit-run.cpp - run IR on arrays -----------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//   pyjit-run FILE.mlir --entry f --arg x.npy --arg w.safetensors:fc.weight
//             [--save prefix] [--depth operators|library|kernels]
//             [--device-launch plain|copy|table|update]
//   pyjit-run FILE.mlir --inputs inputs.safetensors
//   pyjit-run FILE.mlir --entry f --print-launch [--chip sm_90]
//
// Compiles whatever stages the module has still before it, runs the function
// and prints its results, or saves them as prefix0.npy, prefix1.npy, ...
// Vendor calls go to Torch through libpyjit-rt-torch.so, found beside the tool
// or where PYJIT_RT_TORCH says. With --device-launch the function runs on a
// simulated device, as it would on a GPU; graphs are made and replayed
// before the results are printed. With --chip nothing runs: the function is
// compiled for a GPU, by the same stages as where there is one.
//
//===----------------------------------------------------------------------===//

#include "Npy.h"
#include "Safetensors.h"
#include "tools/LibraryOptions.h"

#include "dialects/pyjit/IR/Attributes.h"

#include "dialects/cudagraph/IR/CudaGraph.h"
#include "pyjit-rt/HostExecutor.h"
#include "pyjit/Compiler/Pipelines.h"
#include "pyjit/Compiler/Session.h"

#include "mlir/IR/Builders.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Support/FileUtilities.h"

#include "llvm/Support/CommandLine.h"
#include "llvm/Support/DynamicLibrary.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/SourceMgr.h"

#include <cstdlib>

using namespace llvm;
using namespace mlir;
using namespace pyjit;
using namespace pyjit::run;

static cl::OptionCategory runOptions("Options of pyjit-run");
static cl::opt<std::string> inputFile(cl::Positional, cl::desc("FILE.mlir"),
                                      cl::init("-"), cl::cat(runOptions));
static cl::opt<std::string> entry("entry", cl::desc("Function to run"),
                                  cl::init(""), cl::cat(runOptions));
static cl::list<std::string>
    argFiles("arg",
             cl::desc("Argument: a .npy file, or a tensor "
                      "FILE.safetensors:NAME"),
             cl::cat(runOptions));
static cl::opt<std::string>
    inputsFile("inputs",
               cl::desc("All arguments: the inputs.safetensors that "
                        "PYJIT_DUMP_DIR has written"),
               cl::init(""), cl::cat(runOptions));
static cl::opt<std::string>
    savePrefix("save", cl::desc("Write results to PREFIX<i>.npy"),
               cl::cat(runOptions));
static cl::opt<bool>
    printProgram("print-launch",
                 cl::desc("Print the launch program instead of running it"),
                 cl::cat(runOptions));
static cl::opt<std::string> deviceLaunch(
    "device-launch",
    cl::desc("Launch on a simulated device, in one way: plain, copy, "
             "table or update"),
    cl::init(""), cl::cat(runOptions));
static cl::opt<std::string>
    chip("chip",
         cl::desc("With --print-launch: compile for this GPU (sm_90), which "
                  "need not be here"),
         cl::init(""), cl::cat(runOptions));

static cl::opt<std::string>
    depthName("depth",
              cl::desc("How far to compile: operators (each by Torch), library "
                       "(vendor calls are planned), kernels (one for each "
                       "operation) or fusion (everything)"),
              cl::init("fusion"), cl::cat(runOptions));

namespace {

int fail(const Twine &what) {
  errs() << "pyjit-run: error: " << what << "\n";
  return 1;
}

/// A function that can run: a program, and no kernel that one calls.
bool isEntry(Operation &op) {
  auto function = dyn_cast<func::FuncOp>(op);
  return isa<cudagraph::ProgramOp>(op) ||
         (function && !function.isExternal() &&
          !function->hasAttr(attribute::kKernel));
}

/// What --entry can name.
std::string listFunctions(ModuleOp module) {
  std::string names;
  for (Operation &op : *module.getBody())
    if (isEntry(op))
      names +=
          (names.empty() ? "@" : ", @") + SymbolTable::getSymbolName(&op).str();
  return names;
}

using Compiled = compiler::Executable::Program;

bool load(const Compiled &compiled, rt::Program &program, std::string &error) {
  return program.load(compiled.launch.blob.data(), compiled.launch.blob.size(),
                      error);
}

PyjitProgramImage imageOf(const Compiled &compiled,
                          ArrayRef<uint32_t> prepareInputs) {
  return {compiled.launch.blob.data(), compiled.launch.blob.size(),
          compiled.kernels.data(),     compiled.kernels.size(),
          prepareInputs.data(),        prepareInputs.size()};
}

/// `special` is `program`, the executable's main one, for the inputs' sizes.
/// Runs through Torch where the program makes vendor calls, or computes from
/// parameters first what only Torch can hold (packed weights).
bool execute(const compiler::Executable &exe, const rt::Program &program,
             const rt::Program &special, const std::vector<PyjitArray> &inputs,
             std::vector<PyjitArray> &outputs, const char *tool,
             std::string &error) {
  bool prepares = !exe.prepare.launch.blob.empty();
  if (!prepares && !program.header().variants &&
      !rt::needsVendorCalls(program)) {
    std::vector<rt::KernelFn> kernels(exe.main.kernels.begin(),
                                      exe.main.kernels.end());
    return rt::runOnHost(special, kernels, inputs, outputs, error);
  }
  SmallString<256> path;
  if (const char *given = std::getenv("PYJIT_RT_TORCH")) {
    path = given;
  } else {
    path = sys::fs::getMainExecutable(tool, reinterpret_cast<void *>(&fail));
    sys::path::remove_filename(path);
    sys::path::append(path, "..", "lib", "libpyjit-rt-torch.so");
  }
  auto library = sys::DynamicLibrary::getPermanentLibrary(path.c_str(), &error);
  auto run = library.isValid()
                 ? reinterpret_cast<PyjitRunFn>(
                       library.getAddressOfSymbol(PYJIT_RT_TORCH_RUN))
                 : nullptr;
  if (!run) {
    error = "the function needs Torch, and Torch's executor cannot be "
            "loaded: " +
            error;
    return false;
  }
  PyjitProgramImage image = imageOf(exe.main, {}),
                    prepareImage = imageOf(exe.prepare, exe.prepareInputs);
  char *message =
      run(PYJIT_RT_ABI_VERSION, &image, prepares ? &prepareImage : nullptr,
          inputs.data(), inputs.size(), outputs.data(), outputs.size());
  if (!message)
    return true;
  error = message;
  std::free(message);
  return false;
}

Expected<OwnedArray> readArray(StringRef argument) {
  constexpr StringLiteral kExtension = ".safetensors:";
  size_t at = argument.find(kExtension);
  if (at == StringRef::npos)
    return readNpy(argument);
  size_t name = at + kExtension.size();
  return readSafetensors(argument.take_front(name - 1),
                         argument.drop_front(name));
}

/// Whether an array has the sizes that the program asks for; -1 is any.
bool fits(const PyjitArray &array, const PyjitArray &wanted) {
  if (array.dtype != wanted.dtype || array.rank != wanted.rank)
    return false;
  for (int i = 0; i < array.rank; ++i)
    if (wanted.sizes[i] != array.sizes[i] && wanted.sizes[i] != -1)
      return false;
  return true;
}

Error mismatch(StringRef file, const PyjitArray &array,
               const PyjitArray &wanted) {
  return createStringError(file + ": is " + describeArray(array) +
                           ", the function takes " + describeArray(wanted));
}

/// What --arg and --inputs name, in the order of the function's arguments.
Expected<std::vector<std::string>> listArguments() {
  std::vector<std::string> files(argFiles.begin(), argFiles.end());
  if (inputsFile.empty())
    return files;
  if (!files.empty())
    return createStringError("--inputs names all arguments: it takes no --arg "
                             "beside it");
  auto names = readInputNames(inputsFile);
  if (!names)
    return names.takeError();
  for (const std::string &name : *names)
    files.push_back(inputsFile + ":" + name);
  return files;
}

/// The argument files as the arrays that the program asks for, and the program
/// for the sizes that they have.
Error readArguments(const rt::Program &program, rt::Program &special,
                    std::vector<OwnedArray> &arrays) {
  std::vector<PyjitArray> wanted, outputs, given;
  rt::describe(program, wanted, outputs);
  auto named = listArguments();
  if (!named)
    return named.takeError();
  if (wanted.size() != named->size()) {
    std::string message;
    raw_string_ostream os(message);
    os << "the function takes " << wanted.size() << " array"
       << (wanted.size() == 1 ? "" : "s") << " (";
    interleaveComma(wanted, os, [&](const PyjitArray &array) {
      os << describeArray(array);
    });
    os << "), " << named->size() << " given; name a file for each with --arg";
    return createStringError(message);
  }
  std::vector<OwnedArray> files;
  for (auto [description, file] : zip(wanted, *named)) {
    auto read = readArray(file);
    if (!read)
      return read.takeError();
    if (!fits(read->array, description))
      return mismatch(file, read->array, description);
    given.push_back(read->array);
    files.push_back(std::move(*read));
  }
  std::string error;
  std::vector<int64_t> symbols;
  if (!rt::readSymbols(program, given, symbols, error) ||
      !program.specialize(symbols.data(), special, error))
    return createStringError(error);
  // What a size that is an expression has to be is known now.
  rt::describe(special, wanted, outputs);
  for (auto [description, array, file] : zip(wanted, given, *named)) {
    if (!fits(array, description))
      return mismatch(file, array, description);
    arrays.push_back(allocateLike(description));
    copyElements(array, arrays.back().array);
  }
  return Error::success();
}

int runFunction(const compiler::Executable &exe, const char *tool) {
  std::string error;
  rt::Program whole, program;
  if (!load(exe.main, whole, error))
    return fail(error);
  if (printProgram) {
    outs() << exe.getReport(compiler::Report::Launch);
    return 0;
  }
  std::vector<PyjitArray> inputs, outputs;
  std::vector<OwnedArray> arguments, results;
  if (Error failed = readArguments(whole, program, arguments))
    return fail(toString(std::move(failed)));
  rt::describe(program, inputs, outputs);
  for (auto [i, argument] : enumerate(arguments))
    inputs[i] = argument.array;
  for (PyjitArray &output : outputs) {
    results.push_back(allocateLike(output));
    output = results.back().array;
  }
  if (!execute(exe, whole, program, inputs, outputs, tool, error))
    return fail(error);
  for (auto [i, output] : enumerate(outputs)) {
    if (savePrefix.empty()) {
      outs() << describeArray(output) << " ";
      printArray(outs(), output);
      outs() << "\n";
    } else if (Error failed =
                   writeNpy(savePrefix + std::to_string(i) + ".npy", output)) {
      return fail(toString(std::move(failed)));
    }
  }
  return 0;
}

/// The options' machine, or an error.
Expected<compiler::Target> readTarget() {
  compiler::Target target;
  if (!deviceLaunch.empty() && !cudagraph::symbolizeVariant(deviceLaunch))
    return createStringError("--device-launch takes plain, copy, table or "
                             "update, not '" +
                             deviceLaunch + "'");
  if (!deviceLaunch.empty())
    target.simulatedDevice = "cpu";
  if (chip.empty())
    return target;
  if (!deviceLaunch.empty() || !printProgram)
    return createStringError("--chip takes --print-launch beside it, and no "
                             "--device-launch: a GPU's code does not run here");
  auto gpu = compiler::GpuTarget::named(chip);
  if (!gpu)
    return gpu.takeError();
  target.gpu = *gpu;
  return target;
}

/// Says that the tensors of the module's functions are on the target's device.
void moveToDevice(ModuleOp module, const compiler::Target &target) {
  StringRef device = target.gpu ? "cuda:0" : StringRef(target.simulatedDevice);
  if (device.empty())
    return;
  for (auto function : module.getOps<func::FuncOp>())
    if (!function.isExternal())
      function->setAttr(attribute::kDevice,
                        StringAttr::get(module.getContext(), device));
}

/// The function that --entry names, or the first.
std::string findEntry(ModuleOp module) {
  if (!entry.empty())
    return entry;
  for (Operation &op : *module.getBody())
    if (isEntry(op))
      return SymbolTable::getSymbolName(&op).str();
  return "";
}

/// One way of launching alone; a program without graphs has no other than the
/// plain one.
void chooseLaunch(Operation *function) {
  auto program = dyn_cast<cudagraph::ProgramOp>(function);
  if (deviceLaunch.empty() || !program)
    return;
  WalkResult graph =
      program->walk([](cudagraph::GraphOp) { return WalkResult::interrupt(); });
  if (graph.wasInterrupted())
    program.setVariantsAttr(
        Builder(program.getContext()).getStrArrayAttr({deviceLaunch}));
}

} // namespace

int main(int argc, char **argv) {
  InitLLVM init(argc, argv);
  tools::hideLibraryOptions(&runOptions);
  cl::ParseCommandLineOptions(argc, argv, "runs pyjit IR on arrays\n");
  std::string message;
  auto buffer = openInputFile(inputFile, &message);
  if (!buffer)
    return fail(message);
  compiler::CompileOptions options;
  auto target = readTarget();
  if (!target)
    return fail(toString(target.takeError()));
  options.target = *target;
  auto depth = compiler::symbolizeDepth(depthName);
  if (!depth)
    return fail("--depth takes operators, library, kernels or fusion, not '" +
                depthName + "'");
  options.depth = *depth;

  compiler::Session session(options);
  SourceMgr sources;
  sources.AddNewSourceBuffer(std::move(buffer), SMLoc());
  SourceMgrDiagnosticHandler handler(sources, &session.getContext());
  OwningOpRef<ModuleOp> module =
      parseSourceFile<ModuleOp>(sources, &session.getContext());
  if (!module)
    return 1;
  // Before kernels stand in front of it. A trace names its function itself.
  std::string name = findEntry(*module);
  moveToDevice(*module, *target);
  if (mlir::failed(session.lower(*module)))
    return 1;
  if (name.empty())
    name = findEntry(*module);
  Operation *function = SymbolTable::lookupSymbolIn(*module, name);
  if (!function && entry.empty())
    return fail("the module has no function");
  if (!function)
    return fail("the module has no function @" + Twine(entry) +
                "; --entry can name " + listFunctions(*module));
  chooseLaunch(function);
  if (!chip.empty() && !isa<cudagraph::ProgramOp>(function)) {
    function->emitError("has no tensors on a GPU to compile for");
    return 1;
  }
  auto exe = session.emit(*module, name);
  return exe ? runFunction(*exe, argv[0]) : 1;
}
