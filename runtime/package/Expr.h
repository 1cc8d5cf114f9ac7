//===- Expr.h - integer expressions over shape symbols ----------*- C++ -*-===//
//
// Grids, workspace sizes and shapes are formulas in B, T, N, H. They are
// compiled once, when a package is read, to a postfix program that a launch
// evaluates with no allocation.
//
//===----------------------------------------------------------------------===//

#ifndef EJK_RUNTIME_PACKAGE_EXPR_H
#define EJK_RUNTIME_PACKAGE_EXPR_H

#include "Result.h"

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace ejk {

class Expr {
public:
  enum class Op : uint8_t {
    Constant,
    Symbol,
    Add,
    Sub,
    Mul,
    CeilDiv,
    FloorDiv,
    Mod,
    Min,
    Max,
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    And,
    Or,
  };

  /// Parses an integer, a symbol's name, or [op, a, b]. `symbols` are the names
  /// that may occur; a symbol's index there is its slot in evaluate().
  static Result<Expr> parse(const nlohmann::json &json, const std::vector<std::string> &symbols);

  /// Evaluates in checked 64-bit arithmetic; divisions round towards minus
  /// infinity (ceildiv: plus); comparisons give 0 or 1, and what is not 0 holds.
  /// Returns null, or the reason there is no value.
  const char *evaluate(const int64_t *symbols, int64_t &result) const;

  /// Whether it has a symbol of slot `first` or a later one.
  bool usesSymbolFrom(int first) const;

  /// Infix, for people: "ceildiv(T, 64) * H".
  const std::string &text() const { return infix; }

  /// The symbols that occur, each once, in order of first use.
  std::vector<int> usedSymbols() const;

private:
  struct Instr {
    Op op;
    int64_t value;
  };

  /// Appends the program for `json` and its infix form; false with `why` set.
  bool append(const nlohmann::json &json, const std::vector<std::string> &symbols, int depth,
              std::string &text, std::string &why);

  std::vector<Instr> program;
  std::string infix;
};

} // namespace ejk

#endif // EJK_RUNTIME_PACKAGE_EXPR_H
