//===- Session.cpp - a device, programs on it, and one checked run --------===//

#include "TensorSet.h"

#include "Choice.h"
#include "cpu/Image.h"

#include <fstream>
#include <optional>

using namespace ejk;

Error ejk::takeError(ejk_error *error) {
  Error taken{static_cast<ErrorCode>(ejk_error_get_code(error)), ejk_error_message(error)};
  ejk_error_destroy(error);
  return taken;
}

Program::~Program() {
  ejk_executable_destroy(executable);
  ejk_package_destroy(handle);
}

Result<size_t> Program::findEntry(const std::string &name) const {
  size_t entry = 0;
  if (name.empty() && parsed.manifest.entries.size() == 1)
    return entry;
  Error error = takeError(ejk_package_find_entry(handle, name.c_str(), &entry));
  if (!error.message.empty())
    return error;
  return entry;
}

Result<std::unique_ptr<DeviceSession>> DeviceSession::open(int ordinal) {
  Result<const Driver *> driver = loadDriver();
  if (!driver)
    return driver.error();
  // Before the device is retained, so that the session releases it whatever fails after.
  std::unique_ptr<DeviceSession> session(new DeviceSession);
  Result<Device> device = Device::retain(**driver, ordinal);
  if (!device)
    return device.error();
  session->driver = *driver;
  session->device = *device;
  char name[256] = "";
  int l2 = 0;
  ContextScope scope(**driver, device->context);
  CUresult r = scope.status;
  if (r == cudaSuccess)
    r = (*driver)->deviceGetName(name, sizeof(name) - 1, device->device);
  if (r == cudaSuccess)
    r = (*driver)->deviceGetAttribute(&l2, attributeL2CacheSize, device->device);
  if (r == cudaSuccess)
    r = (*driver)->streamCreate(&session->stream, streamNonBlocking);
  if (r != cudaSuccess)
    return (*driver)->error("opening the device", r);
  session->name = name;
  session->l2 = l2;
  return session;
}

// "AMD EPYC", as the system calls the processor.
static std::string processorName() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);)
    if (line.rfind("model name", 0) == 0)
      if (size_t colon = line.find(": "); colon != std::string::npos)
        return "CPU (" + line.substr(colon + 2) + ")";
  return "CPU";
}

std::unique_ptr<DeviceSession> DeviceSession::openCpu() {
  std::unique_ptr<DeviceSession> session(new DeviceSession);
  session->name = processorName();
  return session;
}

DeviceSession::~DeviceSession() {
  if (isCpu())
    return;
  {
    ContextScope scope(*driver, device.context);
    if (stream && scope.status == cudaSuccess)
      driver->streamDestroy(stream);
  }
  device.release(*driver);
}

std::string DeviceSession::architecture() const {
  if (isCpu())
    return bestCpuArchitecture();
  return "sm_" + std::to_string(device.major) + std::to_string(device.minor);
}

Result<std::unique_ptr<Program>> DeviceSession::load(std::string_view packageBytes,
                                                     bool preferPtx) {
  std::unique_ptr<Program> program(new Program);
  Result<Package> parsed = readPackage(packageBytes);
  if (!parsed)
    return parsed.error();
  program->parsed = std::move(*parsed);
  Error error = takeError(
      ejk_package_load_memory(packageBytes.data(), packageBytes.size(), &program->handle));
  if (!error.message.empty())
    return error;
  ejk_executable_options options = {};
  options.struct_size = sizeof(options);
  options.device_ordinal = device.ordinal;
  options.prefer_ptx = preferPtx;
  options.device_type = isCpu() ? kDLCPU : kDLCUDA;
  error = takeError(ejk_executable_create(program->handle, &options, &program->executable));
  if (!error.message.empty())
    return error;
  return program;
}

Result<std::string> DeviceSession::explain(const Program &program, const std::string &entry,
                                           const std::vector<HostTensor> &inputs,
                                           const std::string &schedule) {
  Result<size_t> index = program.findEntry(entry);
  if (!index)
    return index.error();
  const Manifest &manifest = program.package().manifest;
  Result<VariantChoice> choice =
      choose(manifest, manifest.entries[*index], program.architecture(), inputs, schedule);
  if (!choice)
    return choice.error();
  return choice->explanation;
}

Result<VariantChoice> DeviceSession::choose(const Manifest &manifest, const Entry &entry,
                                            const std::string &arch,
                                            const std::vector<HostTensor> &inputs,
                                            const std::string &schedule) {
  ChoiceDevice described{arch, device.major * 10 + device.minor, device.multiprocessors};
  described.schedule = schedule;
  int shared = 0;
  if (!isCpu())
    if (CUresult r = driver->deviceGetAttribute(&shared, attributeMaxSharedOptin, device.device))
      return driver->error("cuDeviceGetAttribute", r);
  described.sharedBytes = shared;
  return chooseVariant(manifest, entry, sizesOf(entry, inputs), described);
}

Result<std::vector<HostTensor>> DeviceSession::run(const Program &program, const std::string &entry,
                                                   const std::vector<HostTensor> &inputs,
                                                   const RunOptions &options) {
  Result<size_t> index = program.findEntry(entry);
  if (!index)
    return index.error();
  std::optional<ContextScope> scope;
  if (!isCpu())
    if (scope.emplace(*driver, device.context); scope->status != cudaSuccess)
      return driver->error("cuCtxPushCurrent", scope->status);
  Result<TensorSet> set =
      TensorSet::create(*this, program, *index, inputs, options);
  if (!set)
    return set.error();
  Error error = set->poison();
  if (error.message.empty())
    error = set->launch();
  if (!error.message.empty())
    return error;
  return set->download();
}
