//===- Entries.cpp - compiled entries, found by name ----------------------===//

#include "Entries.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <unordered_map>

using namespace ejk::doors;

#define EJK_DOOR extern "C" __attribute__((visibility("default")))

namespace {
/// Python's functions. They take the interpreter's lock themselves and give 0, or else
/// have called ejk_door_set_error.
using Resolve = int32_t (*)(const char *program, const char *entry, int32_t deviceType,
                            int32_t deviceIndex);
using Interpret = int32_t (*)(int64_t number, const DLTensor *const *inputs, size_t numInputs,
                              const DLTensor *const *outputs, size_t numOutputs);

std::shared_mutex mutex;
// Nothing is ever removed, so entries may be used without the lock.
std::unordered_map<std::string, std::unique_ptr<Entry>> entries;
std::unordered_map<int64_t, std::vector<const Entry *>> sites;
Resolve resolve;
Interpret interpret;
thread_local std::string pythonError;
} // namespace

static std::string nameOf(std::string_view program, std::string_view entry, DLDevice device) {
  std::string name;
  name.reserve(program.size() + entry.size() + 24);
  name.append(program).append(1, '\n').append(entry).append(1, '\n');
  name += std::to_string(int(device.device_type) * 1024 + device.device_id);
  return name;
}

static bool isFloat64(DLDataType dtype) { return dtype.code == kDLFloat && dtype.bits == 64; }

static bool isSame(DLDataType a, DLDataType b) { return a.code == b.code && a.bits == b.bits; }

[[noreturn]] static void failFromPython() {
  std::string text = std::move(pythonError);
  pythonError.clear();
  throw std::runtime_error(text.empty() ? "ejk: Python gave no reason" : text);
}

static void check(ejk_error *error) {
  if (!error)
    return;
  std::string text = ejk_error_message(error);
  ejk_error_destroy(error);
  throw std::runtime_error(text);
}

bool TensorForm::fits(const DLTensor &tensor) const {
  if (!isSame(tensor.dtype, dtype) || tensor.ndim != rank)
    return false;
  for (int32_t d = 0; d < rank; ++d)
    if (sizes[d] >= 0 && sizes[d] != tensor.shape[d])
      return false;
  return true;
}

bool Entry::fits(const DLTensor *given, size_t count) const {
  if (count != inputs.size())
    return false;
  for (size_t i = 0; i < count; ++i)
    if (!inputs[i].fits(given[i]))
      return false;
  return true;
}

bool Entry::isInterpreted(const DLTensor *given) const {
  if (!executable)
    return true;
  for (size_t i = 0; i < inputs.size(); ++i)
    if (isFloat64(given[i].dtype))
      return true;
  return false;
}

const Entry &ejk::doors::findEntry(std::string_view program, std::string_view entry,
                                   DLDevice device) {
  std::string name = nameOf(program, entry, device);
  for (bool isNew : {true, false}) {
    {
      std::shared_lock<std::shared_mutex> lock(mutex);
      auto found = entries.find(name);
      if (found != entries.end())
        return *found->second;
    }
    if (!isNew)
      break;
    if (!resolve || resolve(std::string(program).c_str(), std::string(entry).c_str(),
                            device.device_type, device.device_id))
      failFromPython();
  }
  throw std::runtime_error("ejk: the program " + std::string(program) + " was not found");
}

static bool hasSameSizes(const CallSizes &known, const DLTensor *inputs, size_t count) {
  const int64_t *next = known.inputs.data();
  const int64_t *end = next + known.inputs.size();
  for (size_t i = 0; i < count; ++i) {
    const DLTensor &tensor = inputs[i];
    if (end - next < 1 + tensor.ndim || *next++ != tensor.ndim)
      return false;
    for (int32_t d = 0; d < tensor.ndim; ++d)
      if (*next++ != tensor.shape[d])
        return false;
  }
  return next == end;
}

/// The sizes alone: the interpreter takes other element types than the manifest names.
static void computeSizes(const Entry &entry, const DLTensor *inputs, size_t count,
                         CallSizes &sizes) {
  DLTensor plain[maxTensors];
  const DLTensor *pointers[maxTensors];
  for (size_t i = 0; i < count; ++i) {
    plain[i] = inputs[i];
    plain[i].data = nullptr;
    plain[i].strides = nullptr;
    if (isFloat64(plain[i].dtype))
      plain[i].dtype = entry.inputs[i].dtype;
    pointers[i] = &plain[i];
  }
  sizes.outputs.clear();
  for (size_t o = 0; o < entry.outputs.size(); ++o) {
    int64_t shape[maxRank];
    int32_t rank = maxRank;
    check(ejk_entry_output_shape(entry.package, entry.index, pointers, count, o, shape, &rank));
    sizes.outputs.emplace_back(shape, shape + rank);
  }
  sizes.workspaceBytes = 0;
  if (entry.executable) {
    ejk_choice choice{};
    choice.struct_size = sizeof choice;
    check(ejk_executable_choose(entry.executable, entry.index, pointers, count, nullptr, &choice));
    sizes.workspaceBytes = choice.workspace_bytes;
  }
  sizes.inputs.clear();
  for (size_t i = 0; i < count; ++i) {
    sizes.inputs.push_back(inputs[i].ndim);
    sizes.inputs.insert(sizes.inputs.end(), inputs[i].shape, inputs[i].shape + inputs[i].ndim);
  }
  sizes.entry = &entry;
}

const CallSizes &ejk::doors::findSizes(const Entry &entry, const DLTensor *inputs, size_t count) {
  // A layer's forward and its derivative take turns, with those of other layers.
  constexpr size_t kept = 16;
  thread_local CallSizes known[kept];
  thread_local size_t oldest = 0;
  if (count != entry.inputs.size())
    throw std::runtime_error("ejk: the program takes " + std::to_string(entry.inputs.size()) +
                             " tensors, but got " + std::to_string(count));
  for (const CallSizes &sizes : known)
    if (sizes.entry == &entry && hasSameSizes(sizes, inputs, count))
      return sizes;
  CallSizes fresh;
  computeSizes(entry, inputs, count, fresh);
  CallSizes &place = known[oldest++ % kept];
  place = std::move(fresh);
  return place;
}

void ejk::doors::run(const Entry &entry, const DLTensor *inputs, const DLTensor *outputs,
                     void *workspace, size_t workspaceBytes, void *stream, uint32_t maxThreads) {
  const DLTensor *in[maxTensors], *out[maxTensors];
  for (size_t i = 0; i < entry.inputs.size(); ++i)
    in[i] = &inputs[i];
  for (size_t o = 0; o < entry.outputs.size(); ++o)
    out[o] = &outputs[o];
  if (entry.isInterpreted(inputs)) {
    if (!interpret ||
        interpret(entry.number, in, entry.inputs.size(), out, entry.outputs.size()))
      failFromPython();
    return;
  }
  ejk_launch_params params{};
  params.struct_size = sizeof params;
  params.inputs = in;
  params.num_inputs = entry.inputs.size();
  params.outputs = out;
  params.num_outputs = entry.outputs.size();
  params.workspace = workspace;
  params.workspace_bytes = workspaceBytes;
  params.stream = stream;
  params.max_threads = maxThreads;
  params.zero_unused_rows = 1;
  check(ejk_launch(entry.executable, entry.index, &params));
}

/// Whether the rows of a tensor, which are compact, are equally far apart, as a kernel can read them.
static bool hasUsableRows(const DLTensor &tensor, const TensorForm &form) {
  int64_t row = 1, size = tensor.dtype.bits / 8;
  for (int32_t d = tensor.ndim; d-- > 2;) {
    if (tensor.shape[d] != 1 && tensor.strides[d] != row)
      return false;
    row *= tensor.shape[d];
  }
  int64_t sequences = tensor.shape[0], steps = tensor.shape[1];
  // A dimension of one element is never stepped along.
  int64_t stride = steps != 1 ? tensor.strides[1] : sequences != 1 ? tensor.strides[0] : row;
  int64_t read = size * (tensor.ndim > 3 ? tensor.shape[tensor.ndim - 1] : 1);
  return stride >= row && stride <= INT32_MAX &&
         (sequences == 1 || tensor.strides[0] == steps * stride) &&
         stride * size % std::min(form.alignment, read & -read) == 0;
}

bool ejk::doors::isUsable(const DLTensor &tensor, const TensorForm &form) {
  bool isAligned = reinterpret_cast<uintptr_t>(tensor.data) % uintptr_t(form.alignment) == 0;
  int64_t expected = 1, elements = 1;
  for (int32_t d = 0; d < tensor.ndim; ++d)
    elements *= tensor.shape[d];
  if (form.hasRows && tensor.strides && tensor.ndim > 2 && elements)
    return isAligned && hasUsableRows(tensor, form);
  if (tensor.strides)
    for (int32_t d = tensor.ndim; d-- > 0;) {
      bool isSlots = d == 0 && form.hasSlots && tensor.strides[d] >= expected;
      if (tensor.shape[d] != 1 && tensor.strides[d] != expected && !isSlots)
        return false;
      expected *= tensor.shape[d];
    }
  return isAligned;
}

const Entry *ejk::doors::findAtSite(int64_t site, DLDevice device,
                                    const std::function<bool(const Entry &)> &fits) {
  std::shared_lock<std::shared_mutex> lock(mutex);
  auto found = sites.find(site);
  if (found == sites.end())
    return nullptr;
  for (const Entry *entry : found->second)
    if (entry->device.device_type == device.device_type &&
        entry->device.device_id == device.device_id && fits(*entry))
      return entry;
  return nullptr;
}

//===----------------------------------------------------------------------===//
// What Python calls, by ctypes
//===----------------------------------------------------------------------===//

EJK_DOOR void ejk_door_set_python(Resolve newResolve, Interpret newInterpret) {
  resolve = newResolve;
  interpret = newInterpret;
}

/// The reason for which a function of Python's fails, on its thread.
EJK_DOOR void ejk_door_set_error(const char *text) { pythonError = text; }

/// `forms` are the inputs and then the outputs; the entry belongs to the table.
EJK_DOOR void ejk_door_add(const char *program, const char *entry, DLDevice device,
                           const ejk_package *package, const ejk_executable *executable,
                           size_t index, int64_t number, const TensorForm *forms,
                           size_t numInputs, size_t numOutputs) {
  auto made = std::make_unique<Entry>();
  made->package = package;
  made->executable = executable;
  made->index = index;
  made->number = number;
  made->device = device;
  made->inputs.assign(forms, forms + numInputs);
  made->outputs.assign(forms + numInputs, forms + numInputs + numOutputs);
  std::unique_lock<std::shared_mutex> lock(mutex);
  entries.emplace(nameOf(program, entry, device), std::move(made));
}

/// Lets a place in a Python program find an entry by the forms of its tensors.
EJK_DOOR void ejk_door_add_to_site(int64_t site, const char *program, const char *entry,
                                   DLDevice device) {
  std::unique_lock<std::shared_mutex> lock(mutex);
  auto found = entries.find(nameOf(program, entry, device));
  if (found == entries.end())
    return;
  auto &known = sites[site];
  if (std::find(known.begin(), known.end(), found->second.get()) == known.end())
    known.push_back(found->second.get());
}
