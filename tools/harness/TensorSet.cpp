//===- TensorSet.cpp - one call's tensors in device memory ----------------===//

#include "TensorSet.h"

#include <algorithm>

using namespace ejk;

// Past the end of everything that kernels write lie bytes that must survive.
static constexpr int64_t guardBytes = 256;
static constexpr unsigned char poisonByte = 0xff;

static const Error success{ErrorCode::Driver, ""};

static int64_t alignUp(int64_t bytes) { return (bytes + 255) / 256 * 256; }

static DLDataType dlpackType(DataType type) {
  uint8_t bits = uint8_t(8 * dataTypeSize(type));
  if (type == DataType::BF16)
    return {kDLBfloat, bits, 1};
  bool isInteger = type == DataType::I32 || type == DataType::I64;
  return {uint8_t(isInteger ? kDLInt : kDLFloat), bits, 1};
}

Error TensorSet::matchInputs(const std::vector<HostTensor> &given,
                             std::vector<const HostTensor *> &matched) {
  for (const TensorSpec &spec : program->parsed.manifest.entries[entry].inputs) {
    const HostTensor *tensor = findTensor(given, spec.name);
    if (!tensor) {
      std::string names;
      for (const HostTensor &other : given)
        names += (names.empty() ? "" : ", ") + other.name;
      return {ErrorCode::InvalidTensor,
              "input '" + spec.name + "' (" + std::string(dataTypeName(spec.dtype)) + " " +
                  spec.shapeText + ") is missing; given: " + (names.empty() ? "nothing" : names)};
    }
    Tensor input;
    input.spec = &spec;
    input.shape = tensor->shape;
    input.bytes = int64_t(tensor->data.size());
    input.view = {};
    // The given type, so that the runtime reports a wrong one.
    input.view.dtype = dlpackType(tensor->dtype);
    moveRowsApart(input, *tensor);
    inputs.push_back(std::move(input));
    matched.push_back(tensor);
  }
  return success;
}

/// The bytes of a row, what the dimensions after the first two count.
static int64_t rowBytes(const HostTensor &tensor) {
  int64_t rows = tensor.shape[0] * tensor.shape[1];
  return rows ? int64_t(tensor.data.size()) / rows : 0;
}

void TensorSet::moveRowsApart(Tensor &input, const HostTensor &given) {
  constexpr int64_t align = 16;
  int64_t size = dataTypeSize(given.dtype), rank = int64_t(given.shape.size());
  if (rowGap < 0 || input.spec->rowStride < 0 || rank < int64_t(leastRowRank) || given.data.empty())
    return;
  int64_t row = rowBytes(given), apart = (row + rowGap + align - 1) / align * align;
  input.strides.assign(size_t(rank), 1);
  for (int64_t d = rank - 1; d-- > int64_t(numRowDims);)
    input.strides[size_t(d)] = input.strides[size_t(d) + 1] * given.shape[size_t(d) + 1];
  input.strides[1] = apart / size;
  input.strides[0] = given.shape[1] * input.strides[1];
  input.bytes = (given.shape[0] * given.shape[1] - 1) * apart + row;
}

void TensorSet::pointViews() {
  auto point = [&](std::vector<Tensor> &tensors, std::vector<const DLTensor *> &views) {
    views.clear();
    for (Tensor &tensor : tensors) {
      tensor.view.data =
          slab ? reinterpret_cast<void *>(slab + uint64_t(tensor.offset)) : nullptr;
      if (session->isCpu())
        tensor.view.device = {kDLCPU, 0};
      else
        tensor.view.device = {kDLCUDA, session->device.ordinal};
      tensor.view.ndim = int(tensor.shape.size());
      tensor.view.shape = tensor.shape.data();
      tensor.view.strides = tensor.strides.empty() ? nullptr : tensor.strides.data();
      views.push_back(&tensor.view);
    }
  };
  point(inputs, inputViews);
  point(outputs, outputViews);
}

Error TensorSet::describeOutputs(bool inPlace) {
  const Entry &description = program->parsed.manifest.entries[entry];
  for (size_t o = 0; o < description.outputs.size(); ++o) {
    Tensor output;
    output.spec = &description.outputs[o];
    output.view = {};
    output.view.dtype = dlpackType(output.spec->dtype);
    int64_t shape[8];
    int32_t rank = 8;
    if (ejk_error *error = ejk_entry_output_shape(program->handle, entry, inputViews.data(),
                                                  inputViews.size(), o, shape, &rank))
      return takeError(error);
    output.shape.assign(shape, shape + rank);
    Result<int64_t> bytes = tensorBytes(output.spec->dtype, output.shape);
    if (!bytes)
      return bytes.error();
    output.bytes = *bytes;
    output.replacesInput =
        output.spec->inPlace || (inPlace && output.spec->mayAlias >= 0);
    outputs.push_back(std::move(output));
  }
  ejk_choice choice = {};
  choice.struct_size = sizeof(choice);
  Error error = takeError(ejk_executable_choose(program->executable, entry, inputViews.data(),
                                                inputViews.size(), forcedSchedule(), &choice));
  workspaceBytes = choice.workspace_bytes;
  return error;
}

Error TensorSet::allocate() {
  for (Tensor &input : inputs) {
    input.offset = slabBytes;
    slabBytes += alignUp(input.bytes) + guardBytes;
  }
  for (Tensor &output : outputs) {
    if (output.replacesInput) {
      output.offset = inputs[output.spec->mayAlias].offset;
      continue;
    }
    output.offset = slabBytes;
    slabBytes += alignUp(output.bytes) + guardBytes;
  }
  workspaceOffset = slabBytes;
  slabBytes += alignUp(int64_t(workspaceBytes)) + guardBytes;
  Result<uint64_t> memory = session->allocate(size_t(slabBytes));
  if (!memory)
    return memory.error();
  slab = *memory;
  pointViews();
  return success;
}

Error TensorSet::upload(const std::vector<const HostTensor *> &matched) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].bytes == 0)
      continue;
    const HostTensor &given = *matched[i];
    std::vector<unsigned char> apart;
    if (!inputs[i].strides.empty()) {
      apart.assign(size_t(inputs[i].bytes), poisonByte);
      size_t row = size_t(rowBytes(given));
      size_t stride = size_t(inputs[i].strides[1] * dataTypeSize(given.dtype));
      for (size_t from = 0, to = 0; from < given.data.size(); from += row, to += stride)
        std::copy_n(reinterpret_cast<const unsigned char *>(given.data.data()) + from, row,
                    apart.data() + to);
    }
    Error error = session->upload(slab + uint64_t(inputs[i].offset),
                                  apart.empty() ? static_cast<const void *>(given.data.data())
                                                : apart.data(),
                                  size_t(inputs[i].bytes));
    if (!error.message.empty())
      return error;
  }
  return success;
}

// The contents of cu_seqlens are still at hand here; a launch never sees them.
Error TensorSet::checkOnHost(const std::vector<const HostTensor *> &matched) {
  std::vector<DLTensor> hostViews(inputs.size());
  std::vector<const DLTensor *> mixed = inputViews;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].spec->role != cuSeqlensRole)
      continue;
    hostViews[i] = inputs[i].view;
    hostViews[i].device = {kDLCPU, 0};
    hostViews[i].data = const_cast<char *>(matched[i]->data.data());
    mixed[i] = &hostViews[i];
  }
  return takeError(ejk_entry_check(program->handle, entry, mixed.data(), mixed.size(),
                                   outputViews.data(), outputViews.size()));
}

Result<TensorSet> TensorSet::create(const DeviceSession &session, const Program &program,
                                    size_t entry, const std::vector<HostTensor> &given,
                                    const RunOptions &options) {
  TensorSet set(session, program, entry);
  set.schedule = options.schedule;
  set.rowGap = options.rowGap;
  std::vector<const HostTensor *> matched;
  Error error = set.matchInputs(given, matched);
  set.pointViews();
  if (error.message.empty())
    error = set.describeOutputs(options.inPlace);
  if (error.message.empty())
    error = set.allocate();
  if (error.message.empty())
    error = set.checkOnHost(matched);
  if (error.message.empty())
    error = set.upload(matched);
  if (!error.message.empty())
    return error;
  return set;
}

Result<TensorSet> TensorSet::copyOf(const TensorSet &other) {
  TensorSet set(*other.session, *other.program, other.entry);
  set.inputs = other.inputs;
  set.outputs = other.outputs;
  set.workspaceBytes = other.workspaceBytes;
  set.schedule = other.schedule;
  Error error = set.allocate();
  if (!error.message.empty())
    return error;
  error = set.session->copyWithin(set.slab, other.slab, size_t(set.slabBytes));
  if (!error.message.empty())
    return error;
  return set;
}

TensorSet::TensorSet(TensorSet &&other)
    : session(other.session), program(other.program), entry(other.entry),
      inputs(std::move(other.inputs)), outputs(std::move(other.outputs)),
      workspaceOffset(other.workspaceOffset), workspaceBytes(other.workspaceBytes),
      schedule(other.schedule), slab(other.slab), slabBytes(other.slabBytes) {
  // The views lie inside the tensors, which the move keeps in place, but this
  // must not depend on it.
  pointViews();
  // Last: where there is no memory for the views, `other` still frees the slab.
  other.slab = 0;
}

TensorSet::~TensorSet() {
  if (slab)
    session->release(slab);
}

Error TensorSet::poison() {
  Error error = success;
  auto fill = [&](int64_t offset, int64_t bytes) {
    if (error.message.empty())
      error = session->fill(slab + uint64_t(offset), poisonByte, size_t(bytes));
  };
  for (const Tensor &input : inputs)
    fill(input.offset + input.bytes, alignUp(input.bytes) - input.bytes + guardBytes);
  for (const Tensor &output : outputs)
    if (!output.replacesInput)
      fill(output.offset, alignUp(output.bytes) + guardBytes);
  fill(workspaceOffset, alignUp(int64_t(workspaceBytes)) + guardBytes);
  return error;
}

/// Whether a launch can write zeros after the last offset, as the interpreter does.
static bool canZeroUnusedRows(const Entry &entry) {
  int found = 0;
  for (const TensorSpec &input : entry.inputs)
    if (input.role == cuSeqlensRole)
      found += input.total.usesSymbolFrom(0) ? 1 : 2;
  return found == 1;
}

Error TensorSet::launch() {
  ejk_launch_params params = {};
  params.struct_size = sizeof(params);
  params.inputs = inputViews.data();
  params.num_inputs = inputViews.size();
  params.outputs = outputViews.data();
  params.num_outputs = outputViews.size();
  params.workspace = reinterpret_cast<void *>(slab + uint64_t(workspaceOffset));
  params.workspace_bytes = workspaceBytes;
  params.stream = session->stream;
  params.schedule = forcedSchedule();
  params.zero_unused_rows = canZeroUnusedRows(program->parsed.manifest.entries[entry]);
  return takeError(ejk_launch(program->executable, entry, &params));
}

Error TensorSet::checkGuards() {
  auto check = [&](const std::string &what, int64_t end, int64_t bytes) -> Error {
    std::vector<unsigned char> guard(static_cast<size_t>(bytes));
    if (Error error = session->download(guard.data(), slab + uint64_t(end), guard.size());
        !error.message.empty())
      return error;
    if (std::any_of(guard.begin(), guard.end(),
                    [](unsigned char byte) { return byte != poisonByte; }))
      return {ErrorCode::Driver, "a kernel wrote past the end of " + what};
    return success;
  };
  auto checkTensor = [&](const char *kind, const Tensor &tensor) {
    return check(std::string(kind) + " '" + tensor.spec->name + "'", tensor.offset + tensor.bytes,
                 alignUp(tensor.bytes) - tensor.bytes + guardBytes);
  };
  for (const Tensor &input : inputs)
    if (Error error = checkTensor("input", input); !error.message.empty())
      return error;
  for (const Tensor &output : outputs)
    if (Error error = checkTensor("output", output); !error.message.empty())
      return error;
  int64_t end = alignUp(int64_t(workspaceBytes));
  return check("the workspace", workspaceOffset + end, guardBytes);
}

Result<std::vector<HostTensor>> TensorSet::download() {
  Error error = session->synchronize();
  if (error.message.empty())
    error = checkGuards();
  if (!error.message.empty())
    return error;
  std::vector<HostTensor> tensors;
  for (const Tensor &output : outputs) {
    HostTensor tensor = makeTensor(output.spec->name, output.spec->dtype, output.shape);
    if (output.bytes != 0)
      if (Error error = session->download(tensor.data.data(), slab + uint64_t(output.offset),
                                          tensor.data.size());
          !error.message.empty())
        return error;
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

int64_t TensorSet::trafficBytes() const {
  int64_t bytes = 0;
  for (const Tensor &tensor : inputs)
    bytes += *tensorBytes(tensor.spec->dtype, tensor.shape); // without what lies between rows
  for (const Tensor &tensor : outputs)
    bytes += tensor.bytes;
  return bytes;
}
