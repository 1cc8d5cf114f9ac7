//===- Traffic.cpp - the bytes a program's launches move ------------------===//

#include "Traffic.h"

#include "io/HostTensor.h"

#include <cstdio>
#include <set>

using namespace ejk;

static Result<int64_t> evaluate(const Expr &expr, const std::vector<int64_t> &symbols) {
  int64_t value = 0;
  if (const char *why = expr.evaluate(symbols.data(), value))
    return Error{ErrorCode::InvalidArgument, expr.text() + ": " + why};
  return value;
}

static Result<int64_t> bytesOf(const TensorSpec &tensor, const std::vector<int64_t> &symbols) {
  std::vector<int64_t> shape;
  for (const Dim &dim : tensor.dims) {
    int64_t size = dim.symbol >= 0 ? symbols[dim.symbol] : 0;
    if (dim.kind == Dim::Kind::BindPlus) {
      size += dim.constant;
    } else if (dim.kind == Dim::Kind::BindTimes) {
      size *= dim.constant;
    } else if (dim.kind == Dim::Kind::Check) {
      Result<int64_t> value = evaluate(dim.expr, symbols);
      if (!value)
        return value;
      size = *value;
    }
    shape.push_back(size);
  }
  return tensorBytes(tensor.dtype, shape);
}

Result<Traffic> ejk::countTraffic(const Manifest &manifest, const Entry &entry, const Sizes &sizes,
                                  const ChoiceDevice &device) {
  Result<VariantChoice> choice = chooseVariant(manifest, entry, sizes, device);
  if (!choice)
    return choice.error();
  const std::vector<int64_t> *symbols = &choice->symbols;
  std::vector<int64_t> inputs, outputs, workspaces;
  Traffic traffic;
  traffic.schedule = choice->variant->schedule;
  traffic.arch = choice->arch;
  for (auto [specs, list] :
       {std::pair(&entry.inputs, &inputs), std::pair(&entry.outputs, &outputs)})
    for (const TensorSpec &tensor : *specs) {
      Result<int64_t> bytes = bytesOf(tensor, *symbols);
      if (!bytes)
        return bytes.error();
      list->push_back(*bytes);
      traffic.floor += *bytes;
    }
  for (const Workspace &workspace : choice->variant->workspaces) {
    Result<int64_t> bytes = evaluate(workspace.bytes, *symbols);
    if (!bytes)
      return bytes.error();
    workspaces.push_back(*bytes);
    traffic.workspace += *bytes;
  }
  for (const Launch &launch : choice->variant->launches) {
    Result<bool> isMade = holds(launch.when, *symbols);
    if (!isMade)
      return isMade.error();
    if (!*isMade)
      continue;
    Result<int64_t> grid = evaluate(launch.grid, *symbols);
    if (!grid)
      return grid.error();
    if (*grid == 0)
      continue;
    LaunchTraffic counted{launch.kernel, 0};
    std::set<std::pair<Argument::Kind, int>> seen;
    for (const Argument &argument : launch.args) {
      if (argument.kind == Argument::Kind::Integer ||
          argument.kind == Argument::Kind::SlotStride ||
          !seen.insert({argument.kind, argument.index}).second)
        continue;
      const std::vector<int64_t> &list = argument.kind == Argument::Kind::Input    ? inputs
                                         : argument.kind == Argument::Kind::Output ? outputs
                                                                                   : workspaces;
      counted.bytes += list[argument.index];
    }
    traffic.moved += counted.bytes;
    traffic.launches.push_back(std::move(counted));
  }
  return traffic;
}

std::string Traffic::describe() const {
  char text[256];
  std::string result;
  if (!schedule.empty())
    result = "  schedule " + schedule + " for " + arch + "\n";
  for (const LaunchTraffic &launch : launches) {
    std::snprintf(text, sizeof(text), "  moves %12.3f MB in %s\n", double(launch.bytes) * 1e-6,
                  launch.kernel.c_str());
    result += text;
  }
  std::snprintf(text, sizeof(text),
                "  moves %12.3f MB in all, %.2f x the floor of %.3f MB; "
                "workspace %.3f MB\n",
                double(moved) * 1e-6, floor ? double(moved) / double(floor) : 0.0,
                double(floor) * 1e-6, double(workspace) * 1e-6);
  return result + text;
}
