//===- Executables.cpp - a package's code on a device ---------------------===//

#include "Handles.h"

#include "../package/Names.h"

#include "ejk/package_format.h"

using namespace ejk;

static std::string architecture(const Device &device) {
  return "sm_" + std::to_string(device.major) + std::to_string(device.minor);
}

// PTX runs on its own architecture and later ones; a binary on later ones of
// the same generation only; what is specific to one architecture, just there.
static bool runs(Image::Kind kind, const Manifest &manifest, const Device &device) {
  int number = device.major * 10 + device.minor;
  if (manifest.archSpecific)
    return number == manifest.archNumber;
  return number >= manifest.archNumber &&
         (kind == Image::Kind::Ptx || device.major == manifest.archNumber / 10);
}

static Error archMismatch(const Manifest &manifest, const Device &device, bool hasPtx) {
  std::string needs = manifest.archSpecific ? " and runs on no other architecture"
                      : hasPtx              ? " and runs on that architecture or later ones"
                                            : ", and only as a binary, with no PTX";
  return {ErrorCode::ArchMismatch, "the package is compiled for " + manifest.arch + needs +
                                       ", but device " + std::to_string(device.ordinal) + " is " +
                                       architecture(device) +
                                       "; compile it with --arch=" + architecture(device)};
}

// Told before the code is loaded: a driver this old refuses it too, less clearly.
static Error checkTensorMaps(const Manifest &manifest, const Driver &driver) {
  if (driver.tensorMapEncodeTiled)
    return {};
  for (const Entry &entry : manifest.entries)
    for (const Launch &launch : entry.launches)
      if (!launch.tensorMaps.empty())
        return {ErrorCode::NoDriver,
                "kernel '" + launch.kernel +
                    "': takes tensor maps, but the CUDA driver is too old to make them (it lacks "
                    "cuTensorMapEncodeTiled); install the NVIDIA driver of CUDA 12 or later"};
  return {};
}

static Result<CUmodule> loadImage(const Driver &driver, const std::string &image,
                                  const char *kind) {
  // Logs from the driver's compiler, whose end matters least.
  char errorLog[8192] = "", infoLog[8192] = "";
  int options[] = {jitErrorLogBuffer, jitErrorLogBufferBytes, jitInfoLogBuffer,
                   jitInfoLogBufferBytes};
  // The driver takes integer options in the pointers themselves.
  void *values[] = {errorLog, reinterpret_cast<void *>(sizeof(errorLog) - 1), infoLog,
                    reinterpret_cast<void *>(sizeof(infoLog) - 1)};
  CUmodule module = nullptr;
  CUresult result = driver.moduleLoadDataEx(&module, image.c_str(), 4, options, values);
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

// Loads the best image that runs on the device.
static Result<CUmodule> loadModule(const Package &package, const Driver &driver,
                                   const Device &device, bool preferPtx, bool &usesBinary) {
  const Manifest &manifest = package.manifest;
  const std::string *ptx = package.findImage(Image::Kind::Ptx);
  const std::string *cubin = package.findImage(Image::Kind::Cubin);
  bool hasPtx = ptx != nullptr;
  if (ptx && !runs(Image::Kind::Ptx, manifest, device))
    ptx = nullptr;
  if (cubin && !runs(Image::Kind::Cubin, manifest, device))
    cubin = nullptr;
  if (!ptx && !cubin)
    return archMismatch(manifest, device, hasPtx);

  usesBinary = cubin && !(preferPtx && ptx);
  if (!usesBinary)
    return loadImage(driver, *ptx, "PTX");
  Result<CUmodule> module = loadImage(driver, *cubin, "binary");
  if (module || !ptx)
    return module;
  // A binary newer than the driver is refused; the PTX may still be known.
  usesBinary = false;
  Result<CUmodule> compiled = loadImage(driver, *ptx, "PTX");
  if (compiled)
    return compiled;
  return Error{compiled.error().code, module.error().message + "\nand " + compiled.error().message};
}

static Error loadFunctions(const Driver &driver, ejk_executable &executable) {
  int sharedLimit = 0;
  if (CUresult r = driver.deviceGetAttribute(&sharedLimit, attributeMaxSharedOptin,
                                             executable.device.device))
    return driver.error("cuDeviceGetAttribute", r);
  for (const Entry &entry : executable.package->manifest.entries) {
    executable.functions.emplace_back();
    for (const Launch &launch : entry.launches) {
      std::string kernel = "kernel '" + launch.kernel + "': ";
      CUfunction function = nullptr;
      if (CUresult r =
              driver.moduleGetFunction(&function, executable.module, launch.kernel.c_str())) {
        Error error = driver.error("cuModuleGetFunction", r);
        return {error.code, kernel + error.message};
      }
      if (launch.sharedBytes > unsigned(sharedLimit))
        return {ErrorCode::ArchMismatch, kernel + "needs " + std::to_string(launch.sharedBytes) +
                                             " bytes of shared memory a block, but device " +
                                             std::to_string(executable.device.ordinal) + " (" +
                                             architecture(executable.device) + ") has " +
                                             std::to_string(sharedLimit)};
      if (launch.sharedBytes > EJK_DEFAULT_SHARED_BYTES)
        if (CUresult r = driver.funcSetAttribute(function, functionMaxDynamicShared,
                                                 int(launch.sharedBytes))) {
          Error error = driver.error("cuFuncSetAttribute", r);
          return {error.code, kernel + error.message};
        }
      executable.functions.back().push_back(function);
    }
  }
  return {};
}

ejk_executable::~ejk_executable() {
  if (!device.context)
    return;
  if (module) {
    ContextScope scope(*driver, device.context);
    if (scope.status == cudaSuccess)
      driver->moduleUnload(module);
  }
  device.release(*driver);
}

static Result<std::unique_ptr<ejk_executable>>
create(const ejk_package &package, const Driver &driver, int ordinal, bool preferPtx) {
  if (Error error = checkTensorMaps(package.package->manifest, driver); !error.message.empty())
    return error;
  // Allocated first: from then on it owns whatever the driver gives.
  auto executable = std::make_unique<ejk_executable>();
  executable->package = package.package;
  executable->driver = &driver;
  Result<Device> device = Device::retain(driver, ordinal);
  if (!device)
    return device.error();
  executable->device = *device;
  ContextScope scope(driver, device->context);
  if (scope.status != cudaSuccess)
    return driver.error("cuCtxPushCurrent", scope.status);
  Result<CUmodule> module =
      loadModule(*package.package, driver, *device, preferPtx, executable->usesBinary);
  if (!module)
    return module.error();
  executable->module = *module;
  if (Error error = loadFunctions(driver, *executable); !error.message.empty())
    return error;
  return executable;
}

ejk_error *ejk_executable_create(const ejk_package *package, const ejk_executable_options *options,
                                 ejk_executable **executable) {
  return guarded([&]() -> ejk_error * {
    if (!package || !executable)
      return makeError(ErrorCode::InvalidArgument,
                       package ? "executable is NULL" : "package is NULL");
    if (options)
      if (ejk_error *error =
              checkStructSize("ejk_executable_options", options->struct_size, sizeof(*options)))
        return error;
    Result<const Driver *> driver = loadDriver();
    if (!driver)
      return makeError(driver.error());
    Result<std::unique_ptr<ejk_executable>> created = create(
        *package, **driver, options ? options->device_ordinal : 0, options && options->prefer_ptx);
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
