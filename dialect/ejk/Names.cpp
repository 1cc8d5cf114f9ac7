//===- Names.cpp - what a function's tensors are called -------------------===//
#include "dialect/ejk/Names.h"
#include "dialect/ejk/Ejk.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace ejk;

StringRef ejk::recurrenceOperandName(OpOperand &use) {
  std::optional<Recurrence> r = Recurrence::of(use.getOwner());
  if (!r)
    return {};
  // Compared by operand number, for one value may feed several operands.
  StringRef names[] = {"q", "k", "v", "g", "g_gamma", "gk", "gv", "h0", "cu_seqlens"};
  Value values[] = {r->query, r->key, r->value,        r->g,        r->gGamma,
                    r->gk,    r->gv,  r->initialState, r->cuSeqlens};
  unsigned number = 0;
  for (auto [name, value] : llvm::zip(names, values)) {
    if (!value)
      continue;
    if (number++ == use.getOperandNumber())
      return name;
  }
  return {};
}

static std::string rawArgumentName(func::FuncOp function, unsigned index) {
  if (auto name = function.getArgAttrOfType<StringAttr>(index, kNameAttr))
    return name.str();
  StringRef found;
  unsigned count = 0;
  if (!function.isExternal())
    for (OpOperand &use : function.getArgument(index).getUses()) {
      StringRef name = recurrenceOperandName(use);
      if (name.empty())
        continue;
      found = name;
      ++count;
    }
  return count == 1 ? found.str() : "arg" + std::to_string(index);
}

static std::string rawResultName(func::FuncOp function, unsigned index) {
  if (auto name = function.getResultAttrOfType<StringAttr>(index, kNameAttr))
    return name.str();
  if (!function.isExternal())
    if (auto ret = dyn_cast<func::ReturnOp>(function.getBody().front().getTerminator()))
      if (auto result = dyn_cast<OpResult>(ret.getOperand(index)))
        if (auto r = Recurrence::of(result.getOwner()))
          return result == r->output ? "o" : "ht";
  return "out" + std::to_string(index);
}

/// Arguments' names, then results'.
static SmallVector<std::string> allNames(func::FuncOp function) {
  SmallVector<std::string> names;
  for (unsigned i = 0, e = function.getNumArguments(); i < e; ++i)
    names.push_back(rawArgumentName(function, i));
  for (unsigned i = 0, e = function.getNumResults(); i < e; ++i)
    names.push_back(rawResultName(function, i));
  // A name given as it stands is never taken by one made up for another.
  llvm::StringSet<> given, taken;
  for (const std::string &name : names)
    given.insert(name);
  for (std::string &name : names) {
    if (taken.insert(name).second)
      continue;
    std::string stem = name;
    for (unsigned n = 2; given.contains(name) || !taken.insert(name).second; ++n)
      name = stem + "_" + std::to_string(n);
  }
  return names;
}

std::string ejk::argumentName(func::FuncOp function, unsigned index) {
  return allNames(function)[index];
}
std::string ejk::resultName(func::FuncOp function, unsigned index) {
  return allNames(function)[function.getNumArguments() + index];
}
