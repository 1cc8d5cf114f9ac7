//===- Info.cpp - what a package holds, for people ------------------------===//

#include "Info.h"

using namespace ejk;

static std::string describeTensor(const Entry &entry, const char *kind, const TensorSpec &spec) {
  std::string text = std::string("  ") + kind + " " + spec.name + ": " +
                     std::string(dataTypeName(spec.dtype)) + " " + spec.shapeText +
                     ", aligned to " + std::to_string(spec.align);
  if (!spec.role.empty())
    text += ", " + spec.role;
  if (spec.mayAlias >= 0)
    text += (spec.inPlace ? ", replaces " : ", may replace ") +
            entry.inputs[size_t(spec.mayAlias)].name;
  return text + "\n";
}

static std::string describeList(const std::vector<Expr> &exprs) {
  std::string text = "[";
  for (const Expr &expr : exprs)
    text += (text.size() > 1 ? ", " : "") + expr.text();
  return text + "]";
}

static std::string describeTensorMap(const TensorMap &map) {
  std::string text = std::string(dataTypeName(map.dtype)) + " " + describeList(map.sizes);
  if (!map.strides.empty())
    text += " by " + describeList(map.strides);
  text += " in boxes of [";
  for (size_t i = 0; i < map.box.size(); ++i)
    text += (i > 0 ? ", " : "") + std::to_string(map.box[i]);
  return text + "]";
}

static std::string describeArguments(const Entry &entry, const Variant &variant,
                                     const Launch &launch) {
  std::string text;
  for (const Argument &argument : launch.args) {
    text += text.empty() ? "" : ", ";
    text += argument.tensorMap >= 0 ? "map of " : "";
    size_t index = size_t(argument.index);
    switch (argument.kind) {
    case Argument::Kind::Input:
      text += entry.inputs[index].name;
      break;
    case Argument::Kind::Output:
      text += entry.outputs[index].name;
      break;
    case Argument::Kind::Workspace:
      text += variant.workspaces[index].name;
      break;
    case Argument::Kind::SlotStride:
      text += "slot stride of " + entry.inputs[index].name;
      break;
    case Argument::Kind::Integer:
      text += argument.value.text();
      break;
    }
    if (argument.tensorMap >= 0)
      text += " as " + describeTensorMap(launch.tensorMaps[size_t(argument.tensorMap)]);
  }
  return text;
}

static std::string describeLaunch(const Entry &entry, const Variant &variant,
                                  const Launch &launch) {
  return "  kernel " + launch.kernel + ": " +
         (launch.when ? "if " + launch.when->text() + ", " : "") + "grid " + launch.grid.text() +
         ", block " + std::to_string(launch.block[0]) + " x " + std::to_string(launch.block[1]) +
         " x " + std::to_string(launch.block[2]) + ", shared " +
         std::to_string(launch.sharedBytes) + " bytes, arguments (" +
         describeArguments(entry, variant, launch) + ")\n";
}

// "  schedule chunk for sm_90a, needs H = Hkv, if T >= 16"
static std::string describeConditions(const Manifest &manifest, const Variant &variant) {
  if (variant.schedule.empty())
    return "";
  std::string text = "  schedule " + variant.schedule;
  if (variant.architecture >= 0)
    text += " for " + manifest.architectures[size_t(variant.architecture)].name;
  if (variant.needs)
    text += ", needs " + variant.needs->text();
  return text + (variant.when ? ", if " + variant.when->text() : "") + "\n";
}

static const char *imageKindName(Image::Kind kind) {
  return kind == Image::Kind::Ptx ? "ptx" : kind == Image::Kind::Cubin ? "cubin" : "cpu";
}

std::string ejk::describePackage(const Package &package) {
  const Manifest &manifest = package.manifest;
  std::string text = "producer: " + manifest.producer + "\n";
  for (const Architecture &arch : manifest.architectures)
    text += "architecture: " + arch.name +
            (arch.isCpu ? " CPUs\n" : arch.isSpecific ? " only\n" : " or later\n");
  for (const Image &image : manifest.images)
    text += std::string("image: ") + imageKindName(image.kind) +
            (manifest.architectures.size() > 1
                 ? " for " + manifest.architectures[size_t(image.architecture)].name
                 : "") +
            ", " + std::to_string(image.size) + " bytes\n";
  for (const Entry &entry : manifest.entries) {
    text += "entry " + entry.name + "\n";
    for (const TensorSpec &spec : entry.inputs)
      text += describeTensor(entry, "input", spec);
    for (const TensorSpec &spec : entry.outputs)
      text += describeTensor(entry, "output", spec);
    for (const Constraint &constraint : entry.constraints)
      text += "  requires " + constraint.expr.text() + " = " + std::to_string(constraint.equals) +
              ": " + constraint.message + "\n";
    for (const Variant &variant : entry.variants) {
      text += describeConditions(manifest, variant);
      for (const Workspace &workspace : variant.workspaces)
        text += "  workspace " + workspace.name + ": " + workspace.bytes.text() + " bytes\n";
      for (const Launch &launch : variant.launches)
        text += describeLaunch(entry, variant, launch);
    }
  }
  return text;
}
