//===- Expr.cpp - integer expressions over shape symbols ------------------===//

#include "Expr.h"

#include "Names.h"

#include "ejk/package_format.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <limits>

using namespace ejk;
using nlohmann::json;

namespace {
struct OpName {
  const char *name;
  Expr::Op op;
  bool infix;
};
} // namespace

static const OpName opNames[] = {
    {"+", Expr::Op::Add, true},
    {"-", Expr::Op::Sub, true},
    {"*", Expr::Op::Mul, true},
    {"ceildiv", Expr::Op::CeilDiv, false},
    {"floordiv", Expr::Op::FloorDiv, false},
    {"mod", Expr::Op::Mod, false},
    {"min", Expr::Op::Min, false},
    {"max", Expr::Op::Max, false},
    {"=", Expr::Op::Equal, true},
    {"!=", Expr::Op::NotEqual, true},
    {"<", Expr::Op::Less, true},
    {"<=", Expr::Op::LessOrEqual, true},
    {">", Expr::Op::Greater, true},
    {">=", Expr::Op::GreaterOrEqual, true},
    {"and", Expr::Op::And, true},
    {"or", Expr::Op::Or, true},
};

// A long formula is a sign of damage: the manifests that lowering writes have
// some ten terms.
static constexpr size_t maxInstructions = 512;

bool Expr::append(const json &node, const std::vector<std::string> &symbols, int depth,
                  std::string &text, std::string &why) {
  if (depth > EJK_MAX_EXPRESSION_DEPTH) {
    why =
        "the expression is nested more than " + std::to_string(EJK_MAX_EXPRESSION_DEPTH) + " deep";
    return false;
  }
  if (program.size() >= maxInstructions) {
    why = "the expression is too long";
    return false;
  }
  if (node.is_number_integer()) {
    if (node.is_number_unsigned() &&
        node.get<uint64_t>() > uint64_t(std::numeric_limits<int64_t>::max())) {
      why = "the integer does not fit 64 bits";
      return false;
    }
    program.push_back({Op::Constant, node.get<int64_t>()});
    text = std::to_string(program.back().value);
    return true;
  }
  if (node.is_string()) {
    const std::string &name = node.get_ref<const std::string &>();
    auto it = std::find(symbols.begin(), symbols.end(), name);
    if (it == symbols.end()) {
      why = "the symbol " + inQuotes(name) + " is not bound by any input's shape";
      return false;
    }
    program.push_back({Op::Symbol, it - symbols.begin()});
    text = name;
    return true;
  }
  if (!node.is_array() || node.size() != 3 || !node[0].is_string()) {
    why = "expected an integer, a symbol or [op, a, b]";
    return false;
  }
  const std::string &name = node[0].get_ref<const std::string &>();
  auto it = std::find_if(std::begin(opNames), std::end(opNames),
                         [&](const OpName &o) { return name == o.name; });
  if (it == std::end(opNames)) {
    why = "unknown operator " + inQuotes(name);
    return false;
  }
  std::string lhs, rhs;
  if (!append(node[1], symbols, depth + 1, lhs, why) ||
      !append(node[2], symbols, depth + 1, rhs, why))
    return false;
  program.push_back({it->op, 0});
  if (!it->infix)
    text = name + "(" + lhs + ", " + rhs + ")";
  else if (depth == 0)
    text = lhs + " " + name + " " + rhs;
  else
    text = "(" + lhs + " " + name + " " + rhs + ")";
  return true;
}

Result<Expr> Expr::parse(const json &node, const std::vector<std::string> &symbols) {
  Expr expr;
  std::string why;
  if (!expr.append(node, symbols, 0, expr.infix, why))
    return Error{ErrorCode::InvalidPackage, why};
  return expr;
}

static const char *apply(Expr::Op op, int64_t a, int64_t b, int64_t &result) {
  const char *overflow = "it overflows 64 bits";
  switch (op) {
  case Expr::Op::Add:
    return __builtin_add_overflow(a, b, &result) ? overflow : nullptr;
  case Expr::Op::Sub:
    return __builtin_sub_overflow(a, b, &result) ? overflow : nullptr;
  case Expr::Op::Mul:
    return __builtin_mul_overflow(a, b, &result) ? overflow : nullptr;
  case Expr::Op::Min:
    result = std::min(a, b);
    return nullptr;
  case Expr::Op::Max:
    result = std::max(a, b);
    return nullptr;
  case Expr::Op::Equal:
    result = a == b;
    return nullptr;
  case Expr::Op::NotEqual:
    result = a != b;
    return nullptr;
  case Expr::Op::Less:
    result = a < b;
    return nullptr;
  case Expr::Op::LessOrEqual:
    result = a <= b;
    return nullptr;
  case Expr::Op::Greater:
    result = a > b;
    return nullptr;
  case Expr::Op::GreaterOrEqual:
    result = a >= b;
    return nullptr;
  case Expr::Op::And:
    result = a != 0 && b != 0;
    return nullptr;
  case Expr::Op::Or:
    result = a != 0 || b != 0;
    return nullptr;
  case Expr::Op::CeilDiv:
  case Expr::Op::FloorDiv:
  case Expr::Op::Mod:
    break;
  case Expr::Op::Constant:
  case Expr::Op::Symbol:
    return "it is not an operator";
  }
  if (b == 0)
    return "it divides by zero";
  // The one quotient that does not exist; the remainder by -1 is always 0.
  if (b == -1 && a == std::numeric_limits<int64_t>::min()) {
    result = 0;
    return op == Expr::Op::Mod ? nullptr : overflow;
  }
  int64_t quotient = a / b, remainder = a % b;
  bool negative = (remainder < 0) != (b < 0);
  if (op == Expr::Op::Mod)
    result = remainder != 0 && negative ? remainder + b : remainder;
  else if (op == Expr::Op::FloorDiv)
    result = quotient - (remainder != 0 && negative);
  else
    result = quotient + (remainder != 0 && !negative);
  return nullptr;
}

const char *Expr::evaluate(const int64_t *symbols, int64_t &result) const {
  // Each level of nesting leaves at most one value waiting below it.
  int64_t stack[EJK_MAX_EXPRESSION_DEPTH + 2];
  int top = 0;
  for (const Instr &instr : program) {
    if (instr.op == Op::Constant) {
      stack[top++] = instr.value;
      continue;
    }
    if (instr.op == Op::Symbol) {
      stack[top++] = symbols[instr.value];
      continue;
    }
    --top;
    if (const char *why = apply(instr.op, stack[top - 1], stack[top], stack[top - 1]))
      return why;
  }
  result = stack[0];
  return nullptr;
}

bool Expr::usesSymbolFrom(int first) const {
  return std::any_of(program.begin(), program.end(), [&](const Instr &instr) {
    return instr.op == Op::Symbol && instr.value >= first;
  });
}

std::vector<int> Expr::usedSymbols() const {
  std::vector<int> used;
  for (const Instr &instr : program)
    if (instr.op == Op::Symbol &&
        std::find(used.begin(), used.end(), int(instr.value)) == used.end())
      used.push_back(int(instr.value));
  return used;
}
