//===- Choice.h - an option with named choices --------------------*- C++ -*-===//
#ifndef EJK_TOOLS_COMMON_CHOICE_H
#define EJK_TOOLS_COMMON_CHOICE_H

#include "llvm/Support/CommandLine.h"

namespace ejk {
/// As LLVM's own parser of enumerated options, whose error does not list the choices.
template <typename T> class ChoiceParser : public llvm::cl::parser<T> {
public:
  using llvm::cl::parser<T>::parser;
  bool parse(llvm::cl::Option &option, llvm::StringRef, llvm::StringRef given, T &value) {
    std::string names;
    for (const auto &choice : this->Values) {
      if (choice.Name == given) {
        value = choice.V.getValue();
        return false;
      }
      names += (names.empty() ? "" : ", ") + choice.Name.str();
    }
    return option.error("'" + given + "' is none of: " + names);
  }
};

/// An option whose value is one of several, by name.
template <typename T> using Choice = llvm::cl::opt<T, false, ChoiceParser<T>>;
} // namespace ejk

#endif // EJK_TOOLS_COMMON_CHOICE_H
