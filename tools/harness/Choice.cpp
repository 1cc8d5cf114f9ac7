//===- Choice.cpp - which variant of an entry is taken, and why -----------===//

#include "harness/Choice.h"

#include <algorithm>

using namespace ejk;

Result<bool> ejk::holds(const std::optional<Expr> &condition, const std::vector<int64_t> &symbols) {
  int64_t value = 1;
  if (condition)
    if (const char *why = condition->evaluate(symbols.data(), value))
      return Error{ErrorCode::InvalidArgument, condition->text() + ": " + why};
  return value != 0;
}

static Result<int> findArchitecture(const Manifest &manifest, const std::string &name) {
  const std::vector<Architecture> &archs = manifest.architectures;
  // Of those for GPUs the last one is for the fewest devices, and of those for CPUs the first.
  int chosen = name.empty() ? 0 : -1;
  for (size_t a = 0; a < archs.size(); ++a)
    if (name.empty() ? !archs[a].isCpu : archs[a].name == name)
      chosen = int(a);
  if (chosen >= 0)
    return chosen;
  return Error{ErrorCode::InvalidArgument,
               "the package has no code for " + name + "; it has code for " + manifest.archText};
}

// "B = 4, T = 64, device.arch = 90"; of a CPU, which has no such facts, the sizes alone.
static std::string describeSizes(const Entry &entry, const std::vector<int64_t> &symbols,
                                 bool isCpu) {
  std::string text;
  for (size_t i = 0; i < (isCpu ? entry.symbols.size() : symbols.size()); ++i) {
    size_t fact = i - entry.symbols.size();
    if (i < entry.symbols.size() && entry.symbolSources[i].second < 0)
      continue; // a stride is no size
    text += (text.empty() ? "" : ", ") +
            (i < entry.symbols.size() ? entry.symbols[i] : std::string(deviceFactNames[fact])) +
            " = " + std::to_string(symbols[i]);
  }
  return text;
}

// "T >= 16", both of two conditions, or why there is none.
static std::string describeReason(const Variant &variant, bool isForced) {
  if (isForced)
    return "forced";
  std::string text = variant.needs ? variant.needs->text() : "";
  if (variant.when)
    text += (text.empty() ? "" : ", ") + variant.when->text();
  return text.empty() ? "takes all sizes" : text;
}

/// The shared memory that its largest block takes.
static int64_t sharedBytesOf(const Variant &variant) {
  int64_t bytes = 0;
  for (const Launch &launch : variant.launches)
    bytes = std::max<int64_t>(bytes, launch.sharedBytes);
  return bytes;
}

Result<VariantChoice> ejk::chooseVariant(const Manifest &manifest, const Entry &entry,
                                         const Sizes &sizes, const ChoiceDevice &device) {
  Result<std::vector<int64_t>> symbols = symbolValues(entry, sizes);
  if (!symbols)
    return symbols.error();
  Result<int> architecture = findArchitecture(manifest, device.arch);
  if (!architecture)
    return architecture.error();
  const Architecture &arch = manifest.architectures[size_t(*architecture)];
  symbols->push_back(device.capability ? device.capability : arch.number);
  symbols->push_back(device.multiprocessors);
  symbols->push_back(device.sharedBytes);
  VariantChoice choice;
  choice.arch = arch.name;
  choice.symbols = *symbols;
  std::string passedOver;
  for (const Variant &variant : entry.variants) {
    if (!variant.isFor(*architecture))
      continue;
    bool isForced = !device.schedule.empty();
    if (isForced && variant.schedule != device.schedule)
      continue;
    if (int64_t bytes = sharedBytesOf(variant); bytes > device.sharedBytes) {
      passedOver += "  not " + variant.schedule + ": it needs " + std::to_string(bytes) +
                    " bytes of shared memory, and the device has " +
                    std::to_string(device.sharedBytes) + "\n";
      continue;
    }
    Result<bool> can = holds(variant.needs, *symbols);
    Result<bool> wanted = isForced ? Result<bool>(true) : holds(variant.when, *symbols);
    if (!can || !wanted)
      return can ? wanted.error() : can.error();
    if (*can && *wanted) {
      choice.variant = &variant;
      choice.explanation = entry.name + ": schedule " +
                           (variant.schedule.empty() ? "(the only one)" : variant.schedule) +
                           " for " + arch.name + ": " + describeReason(variant, isForced) + "\n" +
                           passedOver + "  sizes: " + describeSizes(entry, *symbols, arch.number == 0) + "\n";
      return choice;
    }
    passedOver += "  not " + variant.schedule + ": " +
                  (*can ? *variant.when : *variant.needs).text() + " does not hold\n";
  }
  return Error{ErrorCode::InvalidArgument, "entry '" + entry.name + "' has no schedule '" +
                                               device.schedule + "' for these sizes"};
}

Sizes ejk::sizesOf(const Entry &entry, const std::vector<HostTensor> &inputs) {
  Sizes sizes;
  for (size_t s = 0; s < entry.symbols.size(); ++s) {
    auto [input, position] = entry.symbolSources[s];
    if (position < 0)
      continue; // the stride between rows, which are compact
    const TensorSpec &spec = entry.inputs[size_t(input)];
    const Dim &dim = spec.dims[size_t(position)];
    const HostTensor *tensor = findTensor(inputs, spec.name);
    if (!tensor || size_t(position) >= tensor->shape.size())
      continue;
    int64_t size = tensor->shape[size_t(position)];
    if (dim.kind == Dim::Kind::BindPlus)
      size -= dim.constant;
    else if (dim.kind == Dim::Kind::BindTimes)
      size /= dim.constant;
    sizes[entry.symbols[s]] = size;
  }
  return sizes;
}
