//===- Statements.h - the parts of PTX text -----------------------*- C++ -*-===//
#ifndef EJK_TEST_EMULATOR_STATEMENTS_H
#define EJK_TEST_EMULATOR_STATEMENTS_H

#include <string>
#include <vector>

namespace emulator {

struct Statement {
  enum class Kind { plain, label, open, close } kind = Kind::plain;
  std::string text; // without its semicolon or colon
  unsigned line = 0;
};

/// A kernel, with what is between its outer braces, or a variable of the module.
struct Definition {
  std::string head;
  std::vector<Statement> body;
};

/// The definitions of a module, without comments and line information.
std::vector<Definition> definitionsOf(const std::string &module);

std::string trim(const std::string &text);
/// Trimmed; nothing where `text` is empty.
std::vector<std::string> split(const std::string &text, char separator);

} // namespace emulator

#endif // EJK_TEST_EMULATOR_STATEMENTS_H
