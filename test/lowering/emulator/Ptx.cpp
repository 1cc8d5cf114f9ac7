//===- Ptx.cpp - reading PTX ----------------------------------------------===//
#include "Ptx.h"
#include "Statements.h"
#include <algorithm>
#include <cstdio>
#include <cstring>

using namespace emulator;

namespace {
bool startsWith(const std::string &text, const std::string &prefix) {
  return text.rfind(prefix, 0) == 0;
}

class KernelParser {
public:
  KernelParser(Kernel &kernel, std::map<std::string, uint64_t> symbols)
      : kernel(kernel), symbols(std::move(symbols)), scopes(1) {}

  void add(const Statement &statement);
  void finish();

private:
  struct Branch {
    size_t instruction;
    std::string label;
    unsigned line;
  };
  /// What braces enclose: names of its own, which hide those outside.
  struct Scope {
    std::map<std::string, unsigned> registers, labels;
    std::vector<Branch> branches;
  };

  [[noreturn]] void fail(const std::string &why) const {
    throw Fault("line " + std::to_string(line) + " of the PTX: " + why);
  }
  void addIndexedBranch(const std::string &text);
  void declareShared(const std::string &text);
  void declareRegisters(const std::string &text);
  void endScope();
  Instruction parse(const std::string &text);
  unsigned newRegister(const std::string &name);
  const unsigned *findRegister(const std::string &name) const;
  unsigned registerNumber(const std::string &name);
  Operand parseOperand(const std::string &text);
  void parseOperands(const std::string &text, Instruction &instruction);

  Kernel &kernel;
  std::map<std::string, uint64_t> symbols;
  std::vector<Scope> scopes; // the innermost is the last
  /// By the label before each, the labels of a `.branchtargets`.
  std::map<std::string, std::vector<std::string>> jumpTables;
  std::string lastLabel;
  unsigned line = 0;
};
} // namespace

void KernelParser::add(const Statement &statement) {
  line = statement.line;
  const std::string &text = statement.text;
  switch (statement.kind) {
  case Statement::Kind::open:
    scopes.emplace_back();
    return;
  case Statement::Kind::close:
    return endScope();
  case Statement::Kind::label:
    lastLabel = text;
    scopes.back().labels[text] = unsigned(kernel.code.size());
    return;
  case Statement::Kind::plain:
    break;
  }
  if (startsWith(text, ".shared"))
    return declareShared(text);
  if (startsWith(text, ".local"))
    fail("local memory is not emulated: " + text);
  if (startsWith(text, ".reg"))
    return declareRegisters(text);
  if (startsWith(text, ".pragma"))
    return;
  if (startsWith(text, ".branchtargets")) {
    jumpTables[lastLabel] = split(text.substr(strlen(".branchtargets")), ',');
    return;
  }
  if (startsWith(text, "brx.idx"))
    return addIndexedBranch(text);
  kernel.code.push_back(parse(text));
}

/// `brx.idx %r1, $L_brx_0` as a branch to each of the table's labels, if the index is its place.
void KernelParser::addIndexedBranch(const std::string &text) {
  std::vector<std::string> operands = split(text.substr(text.find_first_of(" \t")), ',');
  auto table = operands.size() == 2 ? jumpTables.find(trim(operands[1])) : jumpTables.end();
  if (table == jumpTables.end())
    fail("no .branchtargets before " + text);
  for (size_t i = 0; i < table->second.size(); ++i) {
    kernel.code.push_back(
        parse("setp.eq.b32 %chosen, " + trim(operands[0]) + ", " + std::to_string(i)));
    kernel.code.push_back(parse("@%chosen bra " + trim(table->second[i])));
  }
}

/// `.shared .align 16 .b8 name[1024]`, or `.shared .align 16 .f32 name`.
void KernelParser::declareShared(const std::string &text) {
  size_t open = text.find('['), name = text.rfind(' ', open) + 1, align = text.find(".align");
  unsigned unit = align < name ? std::max(128u, unsigned(std::stoul(text.substr(align + 6)))) : 128;
  kernel.staticShared = (kernel.staticShared + unit - 1) / unit * unit;
  symbols[text.substr(name, open - name)] = kSharedBase + kernel.staticShared;
  // A number alone has 8 bytes at most.
  kernel.staticShared += open < text.size() ? unsigned(std::stoul(text.substr(open + 1))) : 8;
}

/// `.reg .b64 a, b`; a kernel's own, `.reg .b64 %rd<5>`, are known when they are met.
void KernelParser::declareRegisters(const std::string &text) {
  if (scopes.size() == 1 && text.find('<') != std::string::npos)
    return;
  size_t type = text.find('.', 4), names = text.find_first_of(" \t", type);
  for (const std::string &name : split(text.substr(std::min(names, text.size())), ','))
    scopes.back().registers[name] = newRegister(name);
}

unsigned KernelParser::newRegister(const std::string &name) {
  kernel.registerNames.push_back(name);
  return unsigned(kernel.registerNames.size() - 1);
}

const unsigned *KernelParser::findRegister(const std::string &name) const {
  for (auto scope = scopes.rbegin(); scope != scopes.rend(); ++scope)
    if (auto it = scope->registers.find(name); it != scope->registers.end())
      return &it->second;
  return nullptr;
}

unsigned KernelParser::registerNumber(const std::string &name) {
  if (const unsigned *number = findRegister(name))
    return *number;
  return scopes.front().registers[name] = newRegister(name);
}

Operand KernelParser::parseOperand(const std::string &text) {
  Operand operand;
  std::string word = trim(text);
  // In an address: %rd1+16, symbol+16 or a parameter.
  if (size_t plus = word.find('+', 1); plus != std::string::npos) {
    operand.number = uint64_t(std::stoll(word.substr(plus + 1)));
    word = trim(word.substr(0, plus));
  }
  static const std::map<std::string, Special> specials = {
      {"%tid.x", Special::threadX},
      {"%ctaid.x", Special::blockX},
      {"%ntid.x", Special::threadsX},
      {"%nctaid.x", Special::blocksX},
      {"%laneid", Special::lane},
      {"%cluster_ctarank", Special::rankInCluster},
      {"%cluster_nctarank", Special::blocksInCluster}};
  const auto &names = kernel.parameterNames;
  if (auto it = specials.find(word); it != specials.end()) {
    operand.kind = Operand::Kind::special;
    operand.index = unsigned(it->second);
  } else if (startsWith(word, "%") || word == "_" || findRegister(word)) {
    operand.kind = Operand::Kind::reg;
    operand.index = registerNumber(word);
  } else if (auto it = std::find(names.begin(), names.end(), word); it != names.end()) {
    operand.kind = Operand::Kind::parameter;
    operand.index = unsigned(it - names.begin());
  } else if (auto it = symbols.find(word); it != symbols.end()) {
    operand.number += it->second;
  } else if (startsWith(word, "0f") || startsWith(word, "0d")) {
    operand.number = std::stoull(word.substr(2), nullptr, 16);
  } else if (!word.empty() && (isdigit(word[0]) || word[0] == '-')) {
    operand.number = word[0] == '-' ? uint64_t(std::stoll(word)) : std::stoull(word, nullptr, 0);
  } else {
    fail("an operand that is not known: " + text);
  }
  return operand;
}

void KernelParser::parseOperands(const std::string &text, Instruction &instruction) {
  // Braces enclose one operand of several, and so do the brackets of an address, which
  // may hold braces.
  char closing = 0;
  std::string word;
  std::vector<Operand> group;
  auto endWord = [&] {
    if (!trim(word).empty())
      group.push_back(parseOperand(word));
    word.clear();
  };
  auto endGroup = [&] {
    endWord();
    if (!group.empty())
      instruction.operands.push_back(group);
    group.clear();
  };
  for (char c : text) {
    if (!closing && (c == '{' || c == '['))
      closing = c == '{' ? '}' : ']';
    else if (c == closing)
      closing = 0, endGroup();
    else if (c == ',')
      closing ? endWord() : endGroup();
    else if (c == '|' || c == '{' || c == '}')
      endWord();
    else
      word += c;
  }
  endGroup();
}

Instruction KernelParser::parse(const std::string &text) {
  Instruction instruction;
  instruction.text = text;
  instruction.line = line;
  std::string rest = text;
  if (rest[0] == '@') {
    instruction.negated = rest[1] == '!';
    size_t begin = instruction.negated ? 2 : 1, end = rest.find_first_of(" \t");
    std::string name = rest.substr(begin, end - begin);
    instruction.predicate = int(registerNumber(name));
    rest = trim(rest.substr(end));
  }
  size_t end = std::min(rest.find_first_of(" \t\n"), rest.size());
  instruction.opcode = rest.substr(0, end);
  rest = trim(rest.substr(end));
  if (instruction.opcode == "bra" || instruction.opcode == "bra.uni") {
    instruction.action = Action::branch;
    scopes.back().branches.push_back({kernel.code.size(), rest, line});
    return instruction;
  }
  parseOperands(rest, instruction);
  try {
    classify(instruction);
  } catch (Fault &fault) {
    fail(fault.what());
  }
  return instruction;
}

/// Branches go to labels of their own scope, or else of one around it.
void KernelParser::endScope() {
  Scope scope = std::move(scopes.back());
  scopes.pop_back();
  for (Branch &branch : scope.branches) {
    auto it = scope.labels.find(branch.label);
    if (it != scope.labels.end()) {
      kernel.code[branch.instruction].target = it->second;
    } else if (scopes.empty()) {
      line = branch.line;
      fail("no label " + branch.label);
    } else {
      scopes.back().branches.push_back(branch);
    }
  }
}

void KernelParser::finish() {
  endScope();
  kernel.numRegisters = unsigned(kernel.registerNames.size());
}

/// `.param .u64 .ptr .global .align 1 name` or `.param .align 64 .b8 name[128]`
static void addParameter(const std::string &text, Kernel &kernel) {
  if (!startsWith(text, ".param"))
    return;
  unsigned bytes = 0;
  for (const std::string &word : split(text, ' '))
    if (word.size() > 1 && word[0] == '.' && strchr("busf", word[1]) && isdigit(word.back()))
      bytes = unsigned(std::stoul(word.substr(2))) / 8;
  if (size_t open = text.find('['); open != std::string::npos)
    bytes *= unsigned(std::stoul(text.substr(open + 1)));
  if (!bytes || bytes > sizeof(Argument))
    throw Fault("a parameter that is not emulated: " + text);
  size_t name = text.find_last_of(" \t") + 1;
  kernel.parameterNames.push_back(text.substr(name, text.find('[', name) - name));
  kernel.parameterBytes.push_back(bytes);
}

/// The number behind a directive of a kernel's head; 0 where there is none.
static unsigned directive(const std::string &head, const std::string &name) {
  size_t at = head.find(name);
  return at == std::string::npos ? 0 : unsigned(std::stoul(head.substr(at + name.size())));
}

/// What a thread has for `setmaxnreg`: as a directive says, or its share of a processor's.
static unsigned threadRegistersOf(const std::string &head) {
  unsigned threads = std::max(directive(head, ".maxntid "), directive(head, ".reqntid "));
  unsigned blocks = directive(head, ".minnctapersm ");
  if (unsigned most = directive(head, ".maxnreg "))
    return most;
  return threads && blocks ? std::min(255u, 65536 / (threads * blocks)) / 8 * 8 : 0;
}

/// `.reqnctapercluster 2` or `.reqnctapercluster 2, 1, 1`
static unsigned clusterBlocksOf(const std::string &head) {
  const std::string name = ".reqnctapercluster ";
  size_t at = head.find(name);
  if (at == std::string::npos)
    return 1;
  unsigned x = 0, y = 1, z = 1;
  sscanf(head.c_str() + at + name.size(), "%u , %u , %u", &x, &y, &z);
  if (!x || x > 8 || y * z != 1)
    throw Fault("only clusters of 1 to 8 blocks in a row are emulated");
  return x;
}

std::map<std::string, Kernel> emulator::parseModule(const std::string &text) {
  std::map<std::string, Kernel> kernels;
  std::map<std::string, uint64_t> dynamicSymbols;
  for (const Definition &definition : definitionsOf(text)) {
    const std::string &head = definition.head;
    if (startsWith(head, ".extern .shared")) {
      size_t open = head.find('['), name = head.rfind(' ', open) + 1;
      dynamicSymbols[head.substr(name, open - name)] = kSharedBase;
    }
    if (!startsWith(head, ".visible .entry"))
      continue;
    size_t open = head.find('('), close = head.rfind(')');
    std::string name = trim(head.substr(15, open - 15));
    Kernel &kernel = kernels[name];
    kernel.name = name;
    for (const std::string &parameter : split(head.substr(open + 1, close - open - 1), ','))
      addParameter(parameter, kernel);
    kernel.threadRegisters = threadRegistersOf(head.substr(close));
    kernel.clusterBlocks = clusterBlocksOf(head.substr(close));
    KernelParser parser(kernel, dynamicSymbols);
    for (const Statement &statement : definition.body)
      parser.add(statement);
    parser.finish();
  }
  return kernels;
}
