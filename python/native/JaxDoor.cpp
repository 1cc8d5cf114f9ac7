//===- JaxDoor.cpp - the handler of JAX's calls ---------------------------===//
//
// One handler for all programs. The attributes `program` and `entry` of a call name
// an entry, which runs on the buffers, the stream and the memory that XLA gives.
//
//===----------------------------------------------------------------------===//

#include "Entries.h"
#include "HostWorkspace.h"
#include "XlaAbi.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>

using namespace ejk::doors;
using namespace ejk::xla;

/// Throws with what an error says; null is none.
static void check(const Api &api, Error *error, const char *what) {
  if (!error)
    return;
  ErrorGetMessageArgs message{sizeof message, nullptr, error, nullptr};
  api.getMessage(&message);
  std::string text = std::string("ejk: XLA gives no ") + what + ": " + message.message;
  ErrorDestroyArgs destroy{sizeof destroy, nullptr, error};
  api.destroyError(&destroy);
  throw std::runtime_error(text);
}

namespace {
/// Scratch memory of one call on a GPU.
struct DeviceWorkspace {
  const CallFrame &frame;
  size_t bytes = 0;
  void *memory = nullptr;

  explicit DeviceWorkspace(const CallFrame &frame) : frame(frame) {}
  DeviceWorkspace(const DeviceWorkspace &) = delete;

  /// Memory at an address that 256 divides; null for 0 bytes.
  void *allocate(size_t size) {
    constexpr size_t alignment = 256;
    if (size == 0)
      return nullptr;
    bytes = size + alignment;
    // XLA promises no alignment of its own.
    MemoryAllocateArgs args{sizeof args, nullptr, frame.context, bytes, 1, nullptr};
    check(*frame.api, frame.api->allocateMemory(&args), "workspace");
    memory = args.data;
    if (!memory)
      throw std::runtime_error("ejk: no memory for a workspace of " + std::to_string(size) +
                               " bytes");
    return reinterpret_cast<void *>((reinterpret_cast<uintptr_t>(memory) + alignment - 1) &
                                    ~uintptr_t(alignment - 1));
  }

  ~DeviceWorkspace() {
    if (!memory)
      return;
    // Memory of XLA's is free for what the stream does next.
    MemoryFreeArgs args{sizeof args, nullptr, frame.context, bytes, memory};
    if (Error *error = frame.api->freeMemory(&args)) {
      ErrorDestroyArgs destroy{sizeof destroy, nullptr, error};
      frame.api->destroyError(&destroy);
    }
  }
};
} // namespace

static DLDataType typeOf(int32_t type) {
  switch (type) {
  case S32:
    return {kDLInt, 32, 1};
  case S64:
    return {kDLInt, 64, 1};
  case F16:
    return {kDLFloat, 16, 1};
  case F32:
    return {kDLFloat, 32, 1};
  case F64:
    return {kDLFloat, 64, 1};
  case BF16:
    return {kDLBfloat, 16, 1};
  }
  throw std::runtime_error(
      "ejk: an element type is none of float32, float16, bfloat16, float64, int32, int64");
}

static size_t countBytes(const DLTensor &tensor) {
  size_t bytes = tensor.dtype.bits / 8;
  for (int32_t d = 0; d < tensor.ndim; ++d)
    bytes *= size_t(tensor.shape[d]);
  return bytes;
}

static size_t takeBuffers(const Buffers &buffers, DLDevice device, DLTensor *tensors) {
  if (buffers.count > int64_t(maxTensors))
    throw std::runtime_error("ejk: a call has " + std::to_string(buffers.count) + " tensors");
  for (int64_t i = 0; i < buffers.count; ++i) {
    const Buffer &buffer = *buffers.buffers[i];
    tensors[i] = {};
    tensors[i].data = buffer.data;
    tensors[i].device = device;
    tensors[i].ndim = int32_t(buffer.rank);
    tensors[i].dtype = typeOf(buffer.dtype);
    tensors[i].shape = buffer.sizes;
  }
  return size_t(buffers.count);
}

static std::string_view attribute(const CallFrame &frame, std::string_view name) {
  const Attributes &all = frame.attributes;
  for (int64_t i = 0; i < all.count; ++i)
    if (all.kinds[i] == stringKind && std::string_view(all.names[i]->data, all.names[i]->size) == name) {
      const ByteSpan *text = static_cast<const ByteSpan *>(all.values[i]);
      return {text->data, text->size};
    }
  throw std::runtime_error("ejk: a call lacks the attribute " + std::string(name));
}

/// The entry of a call. A program that was traced for a GPU may run on a CPU, whose
/// kernels save no states: there `name` becomes that of the same function without them.
static const Entry &findOwn(std::string_view program, std::string_view name, DLDevice device,
                            bool &hasStates) {
  constexpr std::string_view forward = "forward:", backward = "backward:";
  hasStates = device.device_type == kDLCPU &&
              (name.substr(0, forward.size()) == forward ||
               name.substr(0, backward.size()) == backward);
  if (!hasStates)
    return findEntry(program, name, device);
  if (name.substr(0, forward.size()) == forward)
    return findEntry(program, "0", device);
  return findEntry(program, "1:" + std::string(name.substr(backward.size())), device);
}

static void runFrame(const CallFrame &frame, DLDevice device, void *stream) {
  DLTensor inputs[maxTensors], outputs[maxTensors];
  size_t count = takeBuffers(frame.arguments, device, inputs);
  size_t numResults = takeBuffers(frame.results, device, outputs);
  bool hasStates = false;
  const Entry &entry =
      findOwn(attribute(frame, "program"), attribute(frame, "entry"), device, hasStates);
  if (hasStates) { // behind the others, and read by none
    for (size_t o = entry.outputs.size(); o < numResults; ++o)
      std::memset(outputs[o].data, 0, countBytes(outputs[o]));
    count = std::min(count, entry.inputs.size());
    numResults = std::min(numResults, entry.outputs.size());
  }
  if (numResults != entry.outputs.size())
    throw std::runtime_error("ejk: a call has " + std::to_string(numResults) +
                             " results, but its program " + std::to_string(entry.outputs.size()));
  const CallSizes &sizes = findSizes(entry, inputs, count);
  bool isOnHost = device.device_type == kDLCPU;
  HostWorkspace host(isOnHost ? sizes.workspaceBytes : 0);
  DeviceWorkspace onDevice(frame);
  void *scratch = isOnHost ? host.data() : onDevice.allocate(sizes.workspaceBytes);
  run(entry, inputs, outputs, scratch, sizes.workspaceBytes, stream, /*maxThreads=*/0);
}

static Error *answer(CallFrame *frame, int32_t deviceType) {
  for (Extension *e = frame->extensions; e; e = e->next)
    if (e->type == metadataType) {
      Metadata *metadata = reinterpret_cast<MetadataExtension *>(e)->metadata;
      metadata->version.major = 0;
      metadata->version.minor = 1;
      // Not for CUDA graphs of XLA's: a graph would keep the address of a workspace that is freed.
      metadata->traits = 0;
      return nullptr;
    }
  const Api &api = *frame->api;
  std::string failure;
  try {
    DLDevice device{DLDeviceType(deviceType), 0};
    void *stream = nullptr;
    if (deviceType == kDLCUDA) {
      StreamGetArgs streamArgs{sizeof streamArgs, nullptr, frame->context, nullptr};
      DeviceOrdinalGetArgs ordinalArgs{sizeof ordinalArgs, nullptr, frame->context, 0};
      if (api.structSize < sizeof(Api))
        throw std::runtime_error("ejk: calls on a GPU need a newer jaxlib");
      check(api, api.getStream(&streamArgs), "stream");
      check(api, api.getDeviceOrdinal(&ordinalArgs), "number of the device");
      stream = streamArgs.stream;
      device.device_id = ordinalArgs.ordinal;
    }
    runFrame(*frame, device, stream);
    return nullptr;
  } catch (const std::exception &error) {
    failure = error.what();
  }
  ErrorCreateArgs args{sizeof args, nullptr, failure.c_str(), invalidArgument};
  return api.createError(&args);
}

extern "C" __attribute__((visibility("default"))) Error *ejk_jax_call_cpu(CallFrame *frame) {
  return answer(frame, kDLCPU);
}

extern "C" __attribute__((visibility("default"))) Error *ejk_jax_call_cuda(CallFrame *frame) {
  return answer(frame, kDLCUDA);
}
