//===- pyjit-run.cpp - run IR on arrays -----------------------------------===//
//
//   pyjit-run FILE.mlir --entry f --arg x.npy --arg w.safetensors:fc.weight
//             [--save prefix] [--device-launch plain|copy|table|update]
//   pyjit-run FILE.mlir --entry f --print-launch [--chip sm_90]
//
// Compiles whatever stages the module has still before it, runs the function
// and prints its results, or saves them as prefix0.npy, prefix1.npy, ...
// Library calls go to Torch through libpyjit-rt-torch.so, found beside the tool
// or where PYJIT_RT_TORCH says. With --device-launch the function runs on a
// device made of software, as it would on a GPU; graphs are made and replayed
// before the results are printed. With --chip nothing runs: the function is
// compiled for a GPU, by the same stages as where there is one.
//
//===----------------------------------------------------------------------===//

#include "Npy.h"
#include "Safetensors.h"

#include "dialects/cudagraph/IR/CudaGraph.h"
#include "dialects/refgraph/IR/RefGraph.h"
#include "dialects/tssa/IR/TSSA.h"
#include "pyjit-rt/HostExecutor.h"
#include "pyjit/Codegen/PTX/Compile.h"
#include "pyjit/Codegen/X86/JIT.h"
#include "pyjit/Executable/LaunchEncoding.h"
#include "pyjit/Executable/LaunchText.h"
#include "pyjit/Pipelines/Pipelines.h"

#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
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

static cl::opt<std::string> inputFile(cl::Positional, cl::desc("FILE.mlir"),
                                      cl::init("-"));
static cl::opt<std::string> entry("entry", cl::desc("Function to run"),
                                  cl::init(""));
static cl::list<std::string>
    argFiles("arg", cl::desc("Argument: a .npy file, or a tensor "
                             "FILE.safetensors:NAME"));
static cl::opt<std::string>
    savePrefix("save", cl::desc("Write results to PREFIX<i>.npy"));
static cl::opt<bool>
    printProgram("print-launch",
                 cl::desc("Print the launch program instead of running it"));
static cl::opt<std::string> deviceLaunch(
    "device-launch",
    cl::desc("Launch on a device made of software, in one way: plain, copy, "
             "table or update"),
    cl::init(""));
static cl::opt<std::string>
    chip("chip",
         cl::desc("With --print-launch: compile for this GPU (sm_90), which "
                  "need not be here"),
         cl::init(""));

namespace {

int fail(const Twine &what) {
  errs() << "pyjit-run: error: " << what << "\n";
  return 1;
}

bool hasTrace(ModuleOp module) {
  return llvm::any_of(*module.getBody(), [](Operation &op) {
    return isa<refgraph::TraceOp, refgraph::GraphOp>(op);
  });
}

/// Whether tensors are handles still.
bool isImperative(ModuleOp module) {
  return module
      .walk([](Operation *op) {
        auto isHandle = [](Type type) { return isa<tssa::RefType>(type); };
        auto function = dyn_cast<func::FuncOp>(op);
        return llvm::any_of(op->getResultTypes(), isHandle) ||
                       (function &&
                        llvm::any_of(function.getArgumentTypes(), isHandle))
                   ? WalkResult::interrupt()
                   : WalkResult::advance();
      })
      .wasInterrupted();
}

bool isLowered(ModuleOp module) {
  return llvm::any_of(*module.getBody(),
                      [](Operation &op) { return isa<ModuleOp>(op); });
}

/// What --entry can name.
std::string listFunctions(ModuleOp module) {
  std::string names;
  for (Operation &op : *module.getBody()) {
    auto function = dyn_cast<func::FuncOp>(op);
    if (!isa<cudagraph::ProgramOp>(op) && (!function || function.isExternal()))
      continue;
    names +=
        (names.empty() ? "@" : ", @") + SymbolTable::getSymbolName(&op).str();
  }
  return names;
}

/// One compiled function.
struct Compiled {
  rt::Program program;
  std::vector<rt::KernelFn> kernels;
  std::string blob;
  std::vector<uint32_t> prepareInputs;
};

/// The code of a module's kernels: of the host, or of a GPU.
struct Code {
  std::unique_ptr<x86::JitLibrary> library;
  std::string ptx;
};

Error compileKernels(ModuleOp module, Code &code) {
  if (chip.empty())
    return x86::compileKernels(module).moveInto(code.library);
  auto made = ptx::compileKernels(module, {chip});
  if (!made)
    return made.takeError();
  code.ptx = std::move(made->ptx);
  return Error::success();
}

LogicalResult compileFunction(ModuleOp module, Operation *function,
                              const Code &code, Compiled &compiled) {
  auto program = dyn_cast<cudagraph::ProgramOp>(function);
  if (!chip.empty() && !program)
    return function->emitError("has no tensors on a GPU to compile for");
  // One way alone; a program without graphs has no other than the plain one.
  if (!deviceLaunch.empty() && program &&
      program->walk([](cudagraph::GraphOp) { return WalkResult::interrupt(); })
          .wasInterrupted())
    program.setVariantsAttr(
        Builder(module.getContext()).getStrArrayAttr({deviceLaunch}));
  auto launch =
      executable::encodeEntry(function, code.ptx, [&](StringRef name) {
        return executable::describeKernel(module, name);
      });
  if (failed(launch))
    return failure();
  if (code.library) {
    auto kernels = code.library->lookupAll(launch->kernels);
    if (!kernels)
      return function->emitError() << toString(kernels.takeError());
    compiled.kernels.assign(kernels->begin(), kernels->end());
  }
  compiled.blob = std::move(launch->blob);
  std::string error;
  if (!compiled.program.load(compiled.blob.data(), compiled.blob.size(), error))
    return function->emitError() << error;
  return success();
}

PyjitProgramImage imageOf(const Compiled &compiled) {
  return {compiled.blob.data(),          compiled.blob.size(),
          compiled.kernels.data(),       compiled.kernels.size(),
          compiled.prepareInputs.data(), compiled.prepareInputs.size()};
}

/// `special` is the program for the inputs' sizes. Runs through Torch where the
/// program makes library calls, or computes from parameters first what only
/// Torch can hold (packed weights).
bool execute(const Compiled &compiled, const Compiled *prepare,
             const rt::Program &special, const std::vector<PyjitArray> &inputs,
             std::vector<PyjitArray> &outputs, const char *tool,
             std::string &error) {
  if (!prepare && !compiled.program.header().variants &&
      !rt::needsLibrary(compiled.program))
    return rt::runOnHost(special, compiled.kernels, inputs, outputs, error);
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
  PyjitProgramImage image = imageOf(compiled), prepareImage;
  if (prepare)
    prepareImage = imageOf(*prepare);
  char *message =
      run(PYJIT_RT_ABI_VERSION, &image, prepare ? &prepareImage : nullptr,
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

/// The argument files as the arrays that the program asks for, and the program
/// for the sizes that they have.
Error readArguments(const rt::Program &program, rt::Program &special,
                    std::vector<OwnedArray> &arrays) {
  std::vector<PyjitArray> wanted, outputs, given;
  rt::describe(program, wanted, outputs);
  if (wanted.size() != argFiles.size()) {
    std::string message;
    raw_string_ostream os(message);
    os << "the function takes " << wanted.size() << " array"
       << (wanted.size() == 1 ? "" : "s") << " (";
    interleaveComma(wanted, os, [&](const PyjitArray &array) {
      os << describeArray(array);
    });
    os << "), " << argFiles.size() << " given; name a file for each with --arg";
    return createStringError(message);
  }
  std::vector<OwnedArray> files;
  for (auto [description, file] : zip(wanted, argFiles)) {
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
  for (auto [description, array, file] : zip(wanted, given, argFiles)) {
    if (!fits(array, description))
      return mismatch(file, array, description);
    arrays.push_back(allocateLike(description));
    copyElements(array, arrays.back().array);
  }
  return Error::success();
}

int runFunction(const Compiled &compiled, const Compiled *prepare,
                const char *tool) {
  if (printProgram) {
    executable::printLaunch(compiled.blob, outs());
    return 0;
  }
  std::vector<PyjitArray> inputs, outputs;
  std::vector<OwnedArray> arguments, results;
  rt::Program program;
  if (Error error = readArguments(compiled.program, program, arguments))
    return fail(toString(std::move(error)));
  rt::describe(program, inputs, outputs);
  for (auto [i, argument] : enumerate(arguments))
    inputs[i] = argument.array;
  for (PyjitArray &output : outputs) {
    results.push_back(allocateLike(output));
    output = results.back().array;
  }
  std::string error;
  if (!execute(compiled, prepare, program, inputs, outputs, tool, error))
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

} // namespace

int main(int argc, char **argv) {
  InitLLVM init(argc, argv);
  cl::ParseCommandLineOptions(argc, argv, "runs pyjit IR on arrays\n");
  std::string message;
  auto buffer = openInputFile(inputFile, &message);
  if (!buffer)
    return fail(message);

  DialectRegistry registry;
  pipelines::registerDialects(registry);
  MLIRContext context(registry, MLIRContext::Threading::DISABLED);
  SourceMgr sources;
  sources.AddNewSourceBuffer(std::move(buffer), SMLoc());
  SourceMgrDiagnosticHandler handler(sources, &context);
  OwningOpRef<ModuleOp> module = parseSourceFile<ModuleOp>(sources, &context);
  if (!module)
    return 1;

  std::string name = entry;
  for (auto candidate : module->getOps<func::FuncOp>())
    if (name.empty() && !candidate.isExternal())
      name = candidate.getName().str();
  bool onDevice = !deviceLaunch.empty();
  if (onDevice && !cudagraph::symbolizeVariant(deviceLaunch))
    return fail("--device-launch takes plain, copy, table or update, not '" +
                deviceLaunch + "'");
  bool forGpu = !chip.empty();
  if (forGpu && (onDevice || !printProgram))
    return fail("--chip takes --print-launch beside it, and no "
                "--device-launch: a GPU's code does not run here");
  if (onDevice || forGpu)
    for (auto function : module->getOps<func::FuncOp>())
      if (!function.isExternal())
        function->setAttr(
            "pyjit.device",
            StringAttr::get(&context, onDevice ? "cpu" : "cuda:0"));

  // The stages that are still ahead.
  PassManager manager(&context);
  pipelines::Options options;
  if (onDevice)
    options.accelerator = "cpu";
  if (hasTrace(*module))
    pipelines::buildFrontendPipeline(manager, options);
  else if (isImperative(*module))
    pipelines::buildFunctionalPipeline(manager);
  if (!isLowered(*module)) {
    if (onDevice || forGpu)
      pipelines::buildLaunchPipeline(manager, options);
    else
      pipelines::buildFusePipeline(manager, options);
    if (forGpu)
      pipelines::buildPtxPipeline(manager, options);
    else
      pipelines::buildX86Pipeline(manager, options);
  }
  if (mlir::failed(manager.run(*module)))
    return 1;
  // A trace names its function itself.
  if (name.empty())
    for (Operation &op : *module->getBody())
      if (isa<cudagraph::ProgramOp>(op) ||
          (isa<func::FuncOp>(op) && !cast<func::FuncOp>(op).isExternal()))
        if (name.empty())
          name = SymbolTable::getSymbolName(&op).str();

  Operation *function = SymbolTable::lookupSymbolIn(*module, name);
  if (!function && entry.empty())
    return fail("the module has no function");
  if (!function)
    return fail("the module has no function @" + Twine(entry) +
                "; --entry can name " + listFunctions(*module));
  Code code;
  if (Error error = compileKernels(*module, code))
    return fail(toString(std::move(error)));
  Compiled compiled;
  if (mlir::failed(compileFunction(*module, function, code, compiled)))
    return 1;
  Operation *prepareFunction =
      SymbolTable::lookupSymbolIn(*module, name + "_prepare");
  if (!prepareFunction)
    return runFunction(compiled, nullptr, argv[0]);
  Compiled prepare;
  if (mlir::failed(compileFunction(*module, prepareFunction, code, prepare)))
    return 1;
  if (auto inputs =
          prepareFunction->getAttrOfType<DenseI64ArrayAttr>("pyjit.inputs"))
    llvm::append_range(prepare.prepareInputs, inputs.asArrayRef());
  else if (auto planned = dyn_cast<func::FuncOp>(prepareFunction))
    for (unsigned i = 0; i < planned.getNumArguments(); ++i)
      if (auto input = planned.getArgAttrOfType<IntegerAttr>(i, "pyjit.input"))
        prepare.prepareInputs.push_back(input.getInt());
  return runFunction(compiled, &prepare, argv[0]);
}
