//===- Statements.cpp - the parts of PTX text -----------------------------===//
#include "Statements.h"
#include <sstream>

using namespace emulator;

std::string emulator::trim(const std::string &text) {
  size_t begin = text.find_first_not_of(" \t\n"), end = text.find_last_not_of(" \t\n");
  return begin == std::string::npos ? "" : text.substr(begin, end - begin + 1);
}

std::vector<std::string> emulator::split(const std::string &text, char separator) {
  std::vector<std::string> parts;
  std::stringstream stream(trim(text));
  for (std::string part; std::getline(stream, part, separator);)
    parts.push_back(trim(part));
  return parts;
}

namespace {
class Splitter {
public:
  void addLine(const std::string &text, unsigned number);
  std::vector<Definition> definitions;

private:
  void take(char c);
  void end(Statement::Kind kind);
  bool isLabel() const {
    return word.find_first_of(" \t\n.@{[,") == std::string::npos && !word.empty();
  }

  std::string word; // of the statement, or of the head of a definition
  unsigned line = 0, started = 0;
  unsigned scopes = 0; // around the statement
  std::vector<Statement> body;
};
} // namespace

void Splitter::addLine(const std::string &text, unsigned number) {
  line = number;
  bool isDirective = false; // that ends with its line
  for (const char *start : {".version", ".target", ".address_size", ".loc", ".file"})
    isDirective |= trim(text).rfind(start, 0) == 0;
  if (isDirective)
    return;
  for (char c : text)
    take(c);
  take(' ');
}

void Splitter::end(Statement::Kind kind) {
  if (kind != Statement::Kind::plain || !word.empty())
    body.push_back({kind, trim(word), kind == Statement::Kind::plain ? started : line});
  word.clear();
}

void Splitter::take(char c) {
  if (word.empty()) {
    started = line;
    if (isspace(c))
      return;
  }
  if (scopes == 0) {
    // A head ends with the brace that opens its body, a variable with its semicolon.
    if (c == '{')
      ++scopes;
    if (c == '{' || c == ';') {
      definitions.push_back({trim(word), {}});
      word.clear();
    } else {
      word += c;
    }
  } else if (c == ';') {
    end(Statement::Kind::plain);
  } else if (c == ':' && isLabel()) {
    end(Statement::Kind::label);
  } else if (c == '{' && word.empty()) {
    ++scopes;
    end(Statement::Kind::open);
  } else if (c == '}' && word.empty()) {
    if (--scopes)
      return end(Statement::Kind::close);
    definitions.back().body = std::move(body);
    body.clear();
  } else {
    word += c;
  }
}

std::vector<Definition> emulator::definitionsOf(const std::string &module) {
  Splitter splitter;
  std::stringstream lines(module);
  unsigned number = 0;
  for (std::string line; std::getline(lines, line);)
    splitter.addLine(line.substr(0, line.find("//")), ++number);
  return splitter.definitions;
}
