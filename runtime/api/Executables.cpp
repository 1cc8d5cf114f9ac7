//===- Executables.cpp - a package's code on a device ---------------------===//

#include "Choose.h"
#include "CpuExecutable.h"
#include "UnusedRows.h"

#include "../package/Names.h"

#include <algorithm>
#include <tuple>

using namespace ejk;

static std::string architecture(const Device &device) {
  return "sm_" + std::to_string(device.major) + std::to_string(device.minor);
}

// PTX runs on its own architecture and later ones; a binary on later ones of
// the same generation only; what is specific to one architecture, just there.
static bool runs(Image::Kind kind, const Architecture &arch, const Device &device) {
  int number = device.major * 10 + device.minor;
  if (arch.isSpecific)
    return number == arch.number;
  return number >= arch.number && (kind == Image::Kind::Ptx || device.major == arch.number / 10);
}

namespace {
/// The images of one architecture that run on a device.
struct Code {
  int architecture = 0;
  const Image *ptx = nullptr, *cubin = nullptr;
};
} // namespace

static Code findCode(const Package &package, int architecture, const Device &device) {
  Code code{architecture, package.findImage(Image::Kind::Ptx, architecture),
            package.findImage(Image::Kind::Cubin, architecture)};
  const Architecture &arch = package.manifest.architectures[size_t(architecture)];
  if (code.ptx && !runs(Image::Kind::Ptx, arch, device))
    code.ptx = nullptr;
  if (code.cubin && !runs(Image::Kind::Cubin, arch, device))
    code.cubin = nullptr;
  return code;
}

/// All that runs on the device, the best first: what is for it alone, then what is for the
/// newest architecture.
static std::vector<Code> findCodes(const Package &package, const Device &device) {
  const std::vector<Architecture> &archs = package.manifest.architectures;
  std::vector<Code> codes;
  for (size_t a = 0; a < archs.size(); ++a)
    if (archs[a].isCpu)
      continue;
    else if (Code code = findCode(package, int(a), device); code.ptx || code.cubin)
      codes.push_back(code);
  std::sort(codes.begin(), codes.end(), [&](const Code &a, const Code &b) {
    const Architecture &left = archs[size_t(a.architecture)];
    const Architecture &right = archs[size_t(b.architecture)];
    return std::tuple(left.isSpecific, left.number, b.architecture) >
           std::tuple(right.isSpecific, right.number, a.architecture);
  });
  return codes;
}

static Error archMismatch(const Package &package, const Device &device) {
  std::string compiled;
  const std::vector<Architecture> &archs = package.manifest.architectures;
  for (size_t a = 0; a < archs.size(); ++a) {
    if (archs[a].isCpu)
      continue;
    bool hasPtx = package.findImage(Image::Kind::Ptx, int(a)) != nullptr;
    compiled += (compiled.empty() ? " " : "; for ") + archs[a].name;
    compiled += archs[a].isSpecific ? " and runs on no other architecture"
                : hasPtx            ? " and runs on that architecture or later ones"
                                    : ", and only as a binary, with no PTX";
  }
  return {ErrorCode::ArchMismatch, "the package is compiled for" + compiled + ", but device " +
                                       std::to_string(device.ordinal) + " is " +
                                       architecture(device) +
                                       "; compile it with --arch=" + architecture(device)};
}

// Told before the code is loaded: a driver this old refuses it too, less clearly.
static Error checkTensorMaps(const Manifest &manifest, int architecture, const Driver &driver) {
  if (driver.tensorMapEncodeTiled)
    return {};
  for (const Entry &entry : manifest.entries)
    for (const Variant &variant : entry.variants)
      for (const Launch &launch : variant.launches)
        if (variant.isFor(architecture) && !launch.tensorMaps.empty())
          return {ErrorCode::NoDriver,
                  "kernel '" + launch.kernel +
                      "': takes tensor maps, but the CUDA driver is too old to make them (it "
                      "lacks cuTensorMapEncodeTiled); install the NVIDIA driver of CUDA 12 or "
                      "later"};
  return {};
}

static Result<CUmodule> loadImage(const Driver &driver, const Package &package, const Image &image,
                                  const char *kind) {
  Result<std::string> code = package.codeOf(image);
  if (!code)
    return code.error();
  // Logs from the driver's compiler, whose end matters least.
  char errorLog[8192] = "", infoLog[8192] = "";
  int options[] = {jitErrorLogBuffer, jitErrorLogBufferBytes, jitInfoLogBuffer,
                   jitInfoLogBufferBytes};
  // The driver takes integer options in the pointers themselves.
  void *values[] = {errorLog, reinterpret_cast<void *>(sizeof(errorLog) - 1), infoLog,
                    reinterpret_cast<void *>(sizeof(infoLog) - 1)};
  CUmodule module = nullptr;
  CUresult result = driver.moduleLoadDataEx(&module, code->c_str(), 4, options, values);
  if (result == cudaSuccess)
    return module;
  Error error = driver.error("cuModuleLoadDataEx", result);
  error.message = "loading the package's " + std::string(kind) + " image: " + error.message;
  if (errorLog[0])
    error.message += "\ndriver's error log:\n" + escapedLines(errorLog);
  if (infoLog[0])
    error.message += "\ndriver's log:\n" + escapedLines(infoLog);
  return error;
}

static Result<CUmodule> loadCode(const Driver &driver, const Package &package, const Code &code,
                                 bool preferPtx, bool &usesBinary) {
  usesBinary = code.cubin && !(preferPtx && code.ptx);
  if (!usesBinary)
    return loadImage(driver, package, *code.ptx, "PTX");
  Result<CUmodule> module = loadImage(driver, package, *code.cubin, "binary");
  if (module || !code.ptx)
    return module;
  // A binary newer than the driver is refused; the PTX may still be known.
  usesBinary = false;
  Result<CUmodule> compiled = loadImage(driver, package, *code.ptx, "PTX");
  if (compiled)
    return compiled;
  return Error{compiled.error().code, module.error().message + "\nand " + compiled.error().message};
}

// Loads the best code that runs on the device and that the driver takes.
static Error loadModule(const Package &package, const Driver &driver, bool preferPtx,
                        ejk_executable &executable) {
  std::vector<Code> codes = findCodes(package, executable.device);
  if (codes.empty())
    return archMismatch(package, executable.device);
  if (Error error = loadUnusedRows(executable); !error.message.empty())
    return error;
  Error first;
  for (const Code &code : codes) {
    Error error = checkTensorMaps(package.manifest, code.architecture, driver);
    if (error.message.empty()) {
      Result<CUmodule> module = loadCode(driver, package, code, preferPtx, executable.usesBinary);
      if (module) {
        executable.module = *module;
        executable.architecture = code.architecture;
        return {};
      }
      error = module.error();
    }
    // What an older driver takes may be compiled for an older architecture.
    if (first.message.empty())
      first = error;
    else
      first.message += "\nand for " +
                       package.manifest.architectures[size_t(code.architecture)].name + ": " +
                       error.message;
  }
  return first;
}

static Error loadFunction(ejk_executable &executable, const Launch &launch, CUfunction &function) {
  const Driver &driver = *executable.driver;
  std::string kernel = "kernel '" + launch.kernel + "': ";
  if (CUresult r = driver.moduleGetFunction(&function, executable.module, launch.kernel.c_str())) {
    Error error = driver.error("cuModuleGetFunction", r);
    return {error.code, kernel + error.message};
  }
  if (launch.sharedBytes > EJK_DEFAULT_SHARED_BYTES)
    if (CUresult r =
            driver.funcSetAttribute(function, functionMaxDynamicShared, int(launch.sharedBytes))) {
      Error error = driver.error("cuFuncSetAttribute", r);
      return {error.code, kernel + error.message};
    }
  return {};
}

/// The first launch that needs more shared memory than a block of the device may have, or null.
static const Launch *findTooLarge(const Variant &variant, int sharedLimit) {
  for (const Launch &launch : variant.launches)
    if (launch.sharedBytes > unsigned(sharedLimit))
      return &launch;
  return nullptr;
}

static Error loadVariants(ejk_executable &executable, const Entry &entry, int sharedLimit) {
  std::vector<std::vector<CUfunction>> &functions = executable.functions.emplace_back();
  std::vector<char> &usable = executable.usable.emplace_back();
  const Launch *tooLarge = nullptr;
  for (const Variant &variant : entry.variants) {
    functions.emplace_back();
    bool isOwn = variant.isFor(executable.architecture);
    if (isOwn)
      tooLarge = findTooLarge(variant, sharedLimit);
    usable.push_back(isOwn && !tooLarge);
    if (!usable.back())
      continue;
    for (const Launch &launch : variant.launches)
      if (Error error = loadFunction(executable, launch, functions.back().emplace_back());
          !error.message.empty())
        return error;
  }
  // The last one of the architecture is for all sizes that no other takes.
  if (tooLarge)
    return {ErrorCode::ArchMismatch,
            "kernel '" + tooLarge->kernel + "': needs " + std::to_string(tooLarge->sharedBytes) +
                " bytes of shared memory a block, but device " +
                std::to_string(executable.device.ordinal) + " (" + architecture(executable.device) +
                ") has " + std::to_string(sharedLimit)};
  return {};
}

static Error loadFunctions(ejk_executable &executable) {
  int sharedLimit = 0;
  const Driver &driver = *executable.driver;
  if (CUresult r = driver.deviceGetAttribute(&sharedLimit, attributeMaxSharedOptin,
                                             executable.device.device))
    return driver.error("cuDeviceGetAttribute", r);
  executable.facts[2] = sharedLimit;
  for (const Entry &entry : executable.package->manifest.entries)
    if (Error error = loadVariants(executable, entry, sharedLimit); !error.message.empty())
      return error;
  return {};
}

ejk_executable::~ejk_executable() {
  if (!device.context)
    return;
  if (module || rowsModule) {
    ContextScope scope(*driver, device.context);
    for (CUmodule loaded : {module, rowsModule})
      if (loaded && scope.status == cudaSuccess)
        driver->moduleUnload(loaded);
  }
  device.release(*driver);
}

static Result<std::unique_ptr<ejk_executable>>
create(const ejk_package &package, const Driver &driver, int ordinal, bool preferPtx) {
  // Allocated first: from then on it owns whatever the driver gives.
  auto executable = std::make_unique<ejk_executable>();
  executable->package = package.package;
  executable->driver = &driver;
  Result<Device> device = Device::retain(driver, ordinal);
  if (!device)
    return device.error();
  executable->device = *device;
  executable->facts[0] = device->major * 10 + device->minor;
  executable->facts[1] = device->multiprocessors;
  ContextScope scope(driver, device->context);
  if (scope.status != cudaSuccess)
    return driver.error("cuCtxPushCurrent", scope.status);
  if (Error error = loadModule(*package.package, driver, preferPtx, *executable);
      !error.message.empty())
    return error;
  if (Error error = loadFunctions(*executable); !error.message.empty())
    return error;
  return executable;
}

/// What `options` want, or, where they leave it open, a GPU before a CPU.
static Result<std::unique_ptr<ejk_executable>>
createAnywhere(const ejk_package &package, const ejk_executable_options *options) {
  const Manifest &manifest = package.package->manifest;
  int32_t type = options && EJK_HAS_FIELD(*options, device_type) ? options->device_type : 0;
  if (type != 0 && type != kDLCPU && type != kDLCUDA)
    return Error{ErrorCode::InvalidArgument, "device_type is " + std::to_string(type) +
                                                 ", expected kDLCPU, kDLCUDA or 0 for either"};
  if (type == kDLCPU || (type == 0 && !hasGpuCode(manifest)))
    return createCpuExecutable(package.package);
  if (!hasGpuCode(manifest))
    return Error{ErrorCode::ArchMismatch, "the package is compiled for " + manifest.archText +
                                              ", not for GPUs; compile it with --target=cuda, too"};
  Result<const Driver *> driver = loadDriver();
  Result<std::unique_ptr<ejk_executable>> created =
      driver ? create(package, **driver, options ? options->device_ordinal : 0,
                      options && options->prefer_ptx)
             : Result<std::unique_ptr<ejk_executable>>(driver.error());
  bool isMissing = !created && (created.error().code == ErrorCode::NoDriver ||
                                created.error().code == ErrorCode::NoDevice);
  if (type == 0 && isMissing && hasCpuCode(manifest))
    return createCpuExecutable(package.package);
  return created;
}

ejk_error *ejk_executable_create(const ejk_package *package, const ejk_executable_options *options,
                                 ejk_executable **executable) {
  return guarded([&]() -> ejk_error * {
    if (!package || !executable)
      return makeError(ErrorCode::InvalidArgument,
                       package ? "executable is NULL" : "package is NULL");
    if (options)
      if (ejk_error *error = checkStructSize("ejk_executable_options", options->struct_size,
                                             offsetof(ejk_executable_options, device_type)))
        return error;
    Result<std::unique_ptr<ejk_executable>> created = createAnywhere(*package, options);
    if (!created)
      return makeError(created.error());
    *executable = created->release();
    return nullptr;
  });
}

void ejk_executable_destroy(ejk_executable *executable) { delete executable; }

int32_t ejk_executable_uses_binary(const ejk_executable *executable) {
  return executable && executable->usesBinary;
}

int32_t ejk_executable_device_type(const ejk_executable *executable) {
  return !executable ? 0 : executable->image ? kDLCPU : kDLCUDA;
}

const char *ejk_executable_arch(const ejk_executable *executable) {
  if (!executable)
    return "";
  const Manifest &manifest = executable->package->manifest;
  return manifest.architectures[size_t(executable->architecture)].name.c_str();
}
