//===- TorchDoor.cpp - the operators of PyTorch ---------------------------===//
//
//   ejk::call(str program, str entry, Tensor[] inputs) -> Tensor[]
//   ejk::call_in_pools(str program, str entry, Tensor[] inputs, Tensor(a!)[] written) -> ()
//   ejk::at_site(int site, Tensor[] inputs) -> Tensor[]
//
// `call` is the operator of graphs. `at_site` is the fast path of eager calls: it
// finds the program by the tensors' types and channels among those that one place
// in a Python program has called before, and gives no result where there is none.
// `call_in_pools` writes results and then pools, which the program also reads, where they lie: torch
// functionalises no operator that writes and also gives a list.
// Python defines them and their derivatives; here they run: without a copy, on the
// caller's stream, with results of torch's allocator, and workspace on GPUs.
//
//===----------------------------------------------------------------------===//

#include "Entries.h"
#include "HostWorkspace.h"
#include "TorchAbi.h"

#include <array>
#include <dlfcn.h>
#include <string>
#include <utility>

using namespace ejk::doors;
using namespace ejk::torch;

static Functions torch;

static void check(Status status, const char *function) {
  if (status)
    throw std::runtime_error(std::string("ejk: ") + function + " failed");
}
#define EJK_CALL(name, ...) check(torch.name(__VA_ARGS__), #name)

namespace {
/// Tensors of torch's that are released with it.
struct Tensors {
  Tensor handles[maxTensors + 1]; // copies of all inputs, and a workspace
  size_t count = 0;

  Tensors() = default;
  Tensors(const Tensors &) = delete;
  ~Tensors() {
    for (size_t i = 0; i < count; ++i)
      torch.aoti_torch_delete_tensor_object(handles[i]);
  }
  Tensor add(Tensor tensor) { return handles[count++] = tensor; }
};

struct OwnedList {
  List list;
  explicit OwnedList(StableIValue value) : list(reinterpret_cast<List>(value)) {}
  OwnedList(const OwnedList &) = delete;
  ~OwnedList() { torch.torch_delete_list(list); }
};

struct OwnedString {
  String string;
  explicit OwnedString(StableIValue value) : string(reinterpret_cast<String>(value)) {}
  OwnedString(const OwnedString &) = delete;
  ~OwnedString() { torch.torch_delete_string(string); }
  std::string_view text() const {
    size_t length = 0;
    const char *data = nullptr;
    EJK_CALL(torch_string_length, string, &length);
    EJK_CALL(torch_string_c_str, string, &data);
    return {data, length};
  }
};

struct TypePair {
  int32_t torch;
  DLDataType dlpack;
};
std::array<TypePair, 6> types;
int32_t cpu, byte;
} // namespace

static DLDataType typeOf(Tensor tensor) {
  int32_t type = 0;
  EJK_CALL(aoti_torch_get_dtype, tensor, &type);
  for (const TypePair &pair : types)
    if (pair.torch == type)
      return pair.dlpack;
  throw std::runtime_error(
      "ejk: an element type is none of float32, float16, bfloat16, float64, int32, int64");
}

static int32_t torchType(DLDataType type) {
  for (const TypePair &pair : types)
    if (pair.dlpack.code == type.code && pair.dlpack.bits == type.bits)
      return pair.torch;
  throw std::runtime_error("ejk: a result has an element type that torch lacks");
}

static DLDevice deviceOf(Tensor tensor) {
  int32_t type = 0, index = 0;
  EJK_CALL(aoti_torch_get_device_type, tensor, &type);
  if (type == cpu)
    return {kDLCPU, 0};
  EJK_CALL(aoti_torch_get_device_index, tensor, &index);
  return {kDLCUDA, index};
}

/// A view of a tensor, whose sizes and strides stay torch's.
static DLTensor view(Tensor tensor) {
  DLTensor result{};
  int64_t rank = 0;
  EJK_CALL(aoti_torch_get_data_ptr, tensor, &result.data);
  EJK_CALL(aoti_torch_get_dim, tensor, &rank);
  EJK_CALL(aoti_torch_get_sizes, tensor, &result.shape);
  EJK_CALL(aoti_torch_get_strides, tensor, &result.strides);
  result.ndim = int32_t(rank);
  result.dtype = typeOf(tensor);
  result.device = deviceOf(tensor);
  return result;
}

static Tensor allocate(const int64_t *sizes, size_t rank, int32_t type, DLDevice device) {
  if (rank > maxRank)
    throw std::runtime_error("ejk: a tensor has more than 8 dimensions");
  int64_t strides[maxRank], stride = 1;
  for (size_t d = rank; d-- > 0;) {
    strides[d] = stride;
    stride *= sizes[d] ? sizes[d] : 1;
  }
  Tensor result = nullptr;
  EJK_CALL(aoti_torch_empty_strided, int64_t(rank), sizes, strides, type,
           device.device_type == kDLCPU ? cpu : torch.aoti_torch_device_type_cuda(),
           device.device_type == kDLCPU ? 0 : device.device_id, &result);
  return result;
}

static void *currentStream(DLDevice device) {
  void *stream = nullptr;
  if (device.device_type == kDLCUDA)
    EJK_CALL(aoti_torch_get_current_cuda_stream, device.device_id, &stream);
  return stream;
}

/// The list's tensors; `views` has room for as many.
static void take(const OwnedList &list, Tensors &tensors, DLTensor *views) {
  size_t count = 0;
  EJK_CALL(torch_list_size, list.list, &count);
  if (count == 0 || tensors.count + count > maxTensors)
    throw std::runtime_error("ejk: a call takes 1 to 64 tensors, but got " +
                             std::to_string(tensors.count + count));
  for (size_t i = 0; i < count; ++i) {
    StableIValue value = 0;
    EJK_CALL(torch_list_get_item, list.list, i, &value);
    size_t place = tensors.count;
    views[place] = view(tensors.add(reinterpret_cast<Tensor>(value)));
  }
}

static void checkDevices(const DLTensor *inputs, size_t count) {
  for (size_t i = 1; i < count; ++i)
    if (inputs[i].device.device_type != inputs[0].device.device_type ||
        inputs[i].device.device_id != inputs[0].device.device_id)
      throw std::runtime_error("ejk: a call's tensors are on one device, but these are on two");
}

/// Whether an output is written to the memory of input `i`.
static bool isReplaced(const Entry &entry, size_t i) {
  for (const TensorForm &output : entry.outputs)
    if (output.replaces == int32_t(i))
      return true;
  return false;
}

/// Copies of inputs that a kernel cannot read as they are. The copies replace them.
static void copyUnusable(const Entry &entry, DLTensor *inputs, size_t count, Tensor *handles,
                         Tensors &copies) {
  for (size_t i = 0; i < count; ++i) {
    if (!isUsable(inputs[i], entry.inputs[i])) {
      if (isReplaced(entry, i))
        throw std::runtime_error("ejk: a pool is written where it lies, but tensor " +
                                 std::to_string(i) +
                                 " has slots that are not dense, or an address that no multiple of " +
                                 std::to_string(entry.inputs[i].alignment) + " bytes is");
      Tensor copy = copies.add(allocate(inputs[i].shape, size_t(inputs[i].ndim),
                                        torchType(inputs[i].dtype), inputs[i].device));
      EJK_CALL(aoti_torch_copy_, copy, handles[i], 0);
      inputs[i] = view(copy);
    }
    if (!entry.inputs[i].hasSlots && !entry.inputs[i].hasRows)
      inputs[i].strides = nullptr;
  }
}

/// Memory of torch's on a GPU, at an address that 256 divides; null for 0 bytes.
static void *allocateWorkspace(size_t size, DLDevice device, Tensors &owner) {
  if (size == 0)
    return nullptr;
  constexpr int64_t alignment = 256;
  int64_t bytes = int64_t(size) + alignment;
  void *memory = nullptr;
  EJK_CALL(aoti_torch_get_data_ptr, owner.add(allocate(&bytes, 1, byte, device)), &memory);
  return reinterpret_cast<void *>((reinterpret_cast<uintptr_t>(memory) + alignment - 1) &
                                  ~uintptr_t(alignment - 1));
}

/// Runs an entry on its inputs and outputs; `owner` keeps the workspace.
static void launch(const Entry &entry, const CallSizes &sizes, const DLTensor *inputs,
                   const DLTensor *outputs, Tensors &owner) {
  bool isOnHost = inputs[0].device.device_type == kDLCPU;
  HostWorkspace host(isOnHost ? sizes.workspaceBytes : 0);
  void *workspace = isOnHost ? host.data()
                             : allocateWorkspace(sizes.workspaceBytes, inputs[0].device, owner);
  uint32_t threads = 0;
  if (isOnHost)
    EJK_CALL(torch_get_num_threads, &threads);
  run(entry, inputs, outputs, workspace, sizes.workspaceBytes, currentStream(inputs[0].device),
      threads);
}

/// Results that own their memory, as a list.
static StableIValue listOf(Tensors &results) {
  List list = nullptr;
  EJK_CALL(torch_new_list_reserve_size, results.count, &list);
  size_t count = std::exchange(results.count, 0); // the list takes them
  for (size_t o = 0; o < count; ++o)
    EJK_CALL(torch_list_push_back, list, reinterpret_cast<StableIValue>(results.handles[o]));
  return reinterpret_cast<StableIValue>(list);
}

/// Runs an entry on its inputs, with `handles` of the same tensors, and gives the results that are in no
/// pool. Pools are written where `writesPools` allows it.
static StableIValue runEntry(const Entry &entry, DLTensor *inputs, Tensor *handles, size_t count,
                             bool writesPools = false) {
  checkDevices(inputs, count);
  const CallSizes &sizes = findSizes(entry, inputs, count);
  Tensors copies, results;
  copyUnusable(entry, inputs, count, handles, copies);
  bool isExact = false;
  for (size_t i = 0; i < count; ++i)
    isExact |= inputs[i].dtype.code == kDLFloat && inputs[i].dtype.bits == 64;

  DLTensor outputs[maxTensors];
  for (size_t o = 0; o < sizes.outputs.size(); ++o) {
    DLTensor &output = outputs[o];
    if (int32_t pool = entry.outputs[o].replaces; pool >= 0) {
      if (!writesPools)
        throw std::runtime_error("ejk: the program writes pools, which call_in_pools alone does");
      output = inputs[pool];
      continue;
    }
    DLDataType type = entry.outputs[o].dtype;
    if (isExact && type.code != kDLInt)
      type = {kDLFloat, 64, 1};
    const std::vector<int64_t> &shape = sizes.outputs[o];
    Tensor made = results.add(
        allocate(shape.data(), shape.size(), torchType(type), inputs[0].device));
    output = {};
    EJK_CALL(aoti_torch_get_data_ptr, made, &output.data);
    output.shape = const_cast<int64_t *>(shape.data());
    output.ndim = int32_t(shape.size());
    output.dtype = type;
    output.device = inputs[0].device;
  }
  launch(entry, sizes, inputs, outputs, copies);
  return listOf(results);
}

static void runCall(StableIValue *stack, uint64_t, uint64_t) {
  OwnedString program(stack[0]), entryName(stack[1]);
  OwnedList list(stack[2]);
  Tensors given;
  DLTensor inputs[maxTensors];
  take(list, given, inputs);
  const Entry &entry = findEntry(program.text(), entryName.text(), inputs[0].device);
  stack[0] = runEntry(entry, inputs, given.handles, given.count);
}

static size_t numReplaced(const Entry &entry) {
  size_t count = 0;
  for (size_t i = 0; i < entry.inputs.size(); ++i)
    count += isReplaced(entry, i);
  return count;
}

/// Puts a call's other tensors and its pools where the program takes them in its inputs: pools that it
/// only reads come last.
static void place(const Entry &entry, const Tensors &others, const DLTensor *otherViews,
                  const Tensor *pools, const DLTensor *poolViews, DLTensor *inputs, Tensor *handles) {
  bool writes = numReplaced(entry) > 0;
  for (size_t i = 0, next = 0, nextPool = 0; i < entry.inputs.size(); ++i) {
    bool isPool = writes ? isReplaced(entry, i) : i >= others.count;
    inputs[i] = isPool ? poolViews[nextPool] : otherViews[next];
    handles[i] = isPool ? pools[nextPool++] : others.handles[next++];
  }
}

static void runInPools(StableIValue *stack, uint64_t, uint64_t) {
  OwnedString program(stack[0]), entryName(stack[1]);
  OwnedList list(stack[2]), written(stack[3]);
  Tensors others, results, copies;
  DLTensor taken[maxTensors], made[maxTensors], inputs[maxTensors], outputs[maxTensors];
  take(list, others, taken);
  take(written, results, made);
  const Entry &entry = findEntry(program.text(), entryName.text(), taken[0].device);
  size_t numInputs = entry.inputs.size(), numPools = numReplaced(entry);
  if (others.count + numPools != numInputs || results.count != entry.outputs.size())
    throw std::runtime_error("ejk: a call in pools gives a program's inputs but its pools, and then "
                             "tensors for its results and the pools; their numbers are others");
  Tensor handles[maxTensors];
  size_t firstPool = results.count - numPools, nextResult = 0;
  place(entry, others, taken, results.handles + firstPool, made + firstPool, inputs, handles);
  checkDevices(inputs, numInputs);
  const CallSizes &sizes = findSizes(entry, inputs, numInputs);
  copyUnusable(entry, inputs, numInputs, handles, copies);
  for (size_t o = 0; o < entry.outputs.size(); ++o) {
    int32_t pool = entry.outputs[o].replaces;
    outputs[o] = pool >= 0 ? inputs[pool] : made[nextResult++];
  }
  launch(entry, sizes, inputs, outputs, copies);
}

static StableIValue emptyList() {
  Tensors none;
  return listOf(none);
}

static void runAtSite(StableIValue *stack, uint64_t, uint64_t) {
  int64_t site = int64_t(stack[0]);
  OwnedList list(stack[1]);
  Tensors given;
  DLTensor inputs[maxTensors];
  take(list, given, inputs);
  auto fits = [&](const Entry &entry) { return entry.fits(inputs, given.count); };
  if (const Entry *entry = findAtSite(site, inputs[0].device, fits)) {
    stack[0] = runEntry(*entry, inputs, given.handles, given.count);
    return;
  }
  stack[0] = emptyList();
}

static void runInPoolsAtSite(StableIValue *stack, uint64_t, uint64_t) {
  int64_t site = int64_t(stack[0]);
  OwnedList list(stack[1]), written(stack[2]);
  Tensors others, pools;
  DLTensor taken[maxTensors], made[maxTensors], inputs[maxTensors];
  Tensor handles[maxTensors];
  take(list, others, taken);
  take(written, pools, made);
  size_t count = others.count + pools.count;
  auto fits = [&](const Entry &entry) {
    size_t numWritten = numReplaced(entry);
    if (entry.inputs.size() != count || (numWritten && numWritten != pools.count))
      return false;
    place(entry, others, taken, pools.handles, made, inputs, handles);
    return entry.fits(inputs, count);
  };
  const Entry *entry = findAtSite(site, taken[0].device, fits);
  stack[0] = entry ? runEntry(*entry, inputs, handles, count, /*writesPools=*/true) : emptyList();
}

/// A library that the process has loaded already.
static void *loaded(const char *name) { return dlopen(name, RTLD_LAZY | RTLD_NOLOAD); }

static const char *findFunctions() {
  void *library = loaded("libtorch_cpu.so");
  if (!library)
    return "libtorch_cpu.so is not loaded";
#define EJK_TORCH_FIND(result, name, arguments)                                                    \
  torch.name = reinterpret_cast<decltype(torch.name)>(dlsym(library, #name));                      \
  if (!torch.name)                                                                                 \
    return "this PyTorch has no function " #name;
  EJK_TORCH_FUNCTIONS(EJK_TORCH_FIND)
#undef EJK_TORCH_FIND
  if (void *cuda = loaded("libtorch_cuda.so"))
    torch.aoti_torch_get_current_cuda_stream =
        reinterpret_cast<decltype(torch.aoti_torch_get_current_cuda_stream)>(
            dlsym(cuda, "aoti_torch_get_current_cuda_stream"));
  return nullptr;
}

static void implement(const char *dispatchKey, const char *name, Kernel kernel) {
  Library library = nullptr; // torch keeps what it registers while the library object lives
  EJK_CALL(aoti_torch_library_init_impl, "ejk", dispatchKey, __FILE_NAME__, __LINE__, &library);
  EJK_CALL(torch_library_impl, library, name, kernel, abiVersion);
}

/// Gives torch the kernels of the operators, which Python has defined; what is
/// wrong, or null.
extern "C" __attribute__((visibility("default"))) const char *ejk_torch_register() {
  if (const char *missing = findFunctions())
    return missing;
  cpu = torch.aoti_torch_device_type_cpu();
  byte = torch.aoti_torch_dtype_uint8();
  types = {{{torch.aoti_torch_dtype_float32(), {kDLFloat, 32, 1}},
            {torch.aoti_torch_dtype_float16(), {kDLFloat, 16, 1}},
            {torch.aoti_torch_dtype_bfloat16(), {kDLBfloat, 16, 1}},
            {torch.aoti_torch_dtype_float64(), {kDLFloat, 64, 1}},
            {torch.aoti_torch_dtype_int32(), {kDLInt, 32, 1}},
            {torch.aoti_torch_dtype_int64(), {kDLInt, 64, 1}}}};
  try {
    for (const char *device : {"CPU", "CUDA"}) {
      implement(device, "call", runCall);
      implement(device, "call_in_pools", runInPools);
      implement(device, "at_site", runAtSite);
      implement(device, "in_pools_at_site", runInPoolsAtSite);
    }
  } catch (const std::exception &) {
    return "this PyTorch refuses the kernels of ejk::call";
  }
  return nullptr;
}
