//===- Names.cpp - what a function's tensors are called -------------------===//
#include "dialect/ejk/Names.h"
#include "dialect/ejk/AlternativeAttributes.h"
#include "dialect/ejk/Ejk.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace ejk;

StringRef ejk::recurrenceOperandName(OpOperand &use) {
  std::optional<Recurrence> r = Recurrence::of(use.getOwner());
  if (!r)
    return {};
  // Compared by operand number, for one value may feed several operands.
  StringRef names[] = {"q", "k", "v", "beta", "g", "g_gamma", "gk", "gv", "h0", "cu_seqlens"};
  Value values[] = {r->query,  r->key, r->value, r->beta,         r->g,
                    r->gGamma, r->gk,  r->gv,    r->initialState, r->cuSeqlens};
  unsigned number = 0;
  for (auto [name, value] : llvm::zip(names, values)) {
    if (!value)
      continue;
    if (number++ == use.getOperandNumber())
      return name;
  }
  return {};
}

func::FuncOp ejk::findDerivative(ModuleOp module, StringRef name) {
  for (auto function : module.getOps<func::FuncOp>())
    if (auto of = function->getAttrOfType<StringAttr>(kDerivativeOfAttr);
        of && of.getValue() == name && !function->hasAttr(kAlternativeOfAttr))
      return function;
  return {};
}

//===----------------------------------------------------------------------===//
// Names in the source
//===----------------------------------------------------------------------===//

static bool isIdentifier(StringRef name) {
  return !name.empty() && !llvm::isDigit(name.front()) &&
         llvm::all_of(name, [](char c) { return llvm::isAlnum(c) || c == '_'; });
}

void ejk::nameArguments(func::FuncOp function, ArrayRef<StringRef> sourceNames) {
  for (auto [i, name] : llvm::enumerate(sourceNames)) {
    StringRef number = name;
    bool madeUp = number.consume_front("arg") && llvm::all_of(number, llvm::isDigit);
    if (isIdentifier(name) && !madeUp && !function.getArgAttr(i, kNameAttr))
      function.setArgAttr(i, kNameAttr, StringAttr::get(function.getContext(), name));
  }
}

//===----------------------------------------------------------------------===//
// What an argument feeds
//===----------------------------------------------------------------------===//

std::string ejk::argumentOperand(func::FuncOp function, unsigned index) {
  if (auto operand = function.getArgAttrOfType<StringAttr>(index, kOperandAttr))
    return operand.str();
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
  return count == 1 ? found.str() : "";
}

//===----------------------------------------------------------------------===//
// Names
//===----------------------------------------------------------------------===//

static std::string rawArgumentName(func::FuncOp function, unsigned index) {
  if (auto name = function.getArgAttrOfType<StringAttr>(index, kNameAttr))
    return name.str();
  std::string operand = argumentOperand(function, index);
  return operand.empty() ? "arg" + std::to_string(index) : operand;
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

/// A repeated name gets "_2", "_3", …, but none that another has as it stands.
static SmallVector<std::string> makeUnique(SmallVector<std::string> names) {
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

static SmallVector<std::string> argumentNames(func::FuncOp function) {
  SmallVector<std::string> names;
  for (unsigned i = 0, e = function.getNumArguments(); i < e; ++i)
    names.push_back(rawArgumentName(function, i));
  return makeUnique(std::move(names));
}

std::string ejk::argumentName(func::FuncOp function, unsigned index) {
  return argumentNames(function)[index];
}

std::string ejk::resultName(func::FuncOp function, unsigned index) {
  SmallVector<std::string> names;
  for (unsigned i = 0, e = function.getNumResults(); i < e; ++i)
    names.push_back(rawResultName(function, i));
  return makeUnique(std::move(names))[index];
}

std::optional<unsigned> ejk::findArgument(func::FuncOp function, StringRef name) {
  std::optional<unsigned> byOperand;
  bool several = false;
  for (unsigned i = 0, e = function.getNumArguments(); i < e; ++i) {
    if (argumentName(function, i) == name)
      return i;
    if (argumentOperand(function, i) != name)
      continue;
    several |= byOperand.has_value();
    byOperand = i;
  }
  return several ? std::nullopt : byOperand;
}

std::string ejk::listArguments(func::FuncOp function) {
  return llvm::join(argumentNames(function), ", ");
}
