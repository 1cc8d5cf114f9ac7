//===- Ptx.cpp - reading PTX ----------------------------------------------===//
#include "Ptx.h"
#include <algorithm>
#include <cstring>
#include <sstream>

using namespace emulator;

namespace {
bool startsWith(const std::string &text, const std::string &prefix) {
  return text.rfind(prefix, 0) == 0;
}

std::string trim(const std::string &text) {
  size_t begin = text.find_first_not_of(" \t\n"), end = text.find_last_not_of(" \t\n");
  return begin == std::string::npos ? "" : text.substr(begin, end - begin + 1);
}

/// The parts of an opcode between its dots.
std::vector<std::string> partsOf(const std::string &opcode) {
  std::vector<std::string> parts;
  std::stringstream stream(opcode);
  for (std::string part; std::getline(stream, part, '.');)
    parts.push_back(part);
  return parts;
}

bool contains(const std::vector<std::string> &parts, const char *part) {
  return std::find(parts.begin(), parts.end(), part) != parts.end();
}

class KernelParser {
public:
  KernelParser(Kernel &kernel, std::map<std::string, uint64_t> symbols)
      : kernel(kernel), symbols(std::move(symbols)) {}

  void addStatement(std::string text, unsigned line);
  void addLabel(const std::string &name) { labels[name] = unsigned(kernel.code.size()); }
  void finish();

private:
  [[noreturn]] void fail(const std::string &why) const {
    throw Fault("line " + std::to_string(line) + " of the PTX: " + why);
  }
  void declareShared(const std::string &text);
  Instruction parse(const std::string &text);
  void classify(Instruction &instruction);
  unsigned registerNumber(const std::string &name);
  Operand parseOperand(const std::string &text);
  void parseOperands(const std::string &text, Instruction &instruction);

  Kernel &kernel;
  std::map<std::string, uint64_t> symbols;
  std::map<std::string, unsigned> registers, labels;
  std::vector<std::pair<size_t, std::string>> branches;
  unsigned line = 0;
};
} // namespace

/// `.shared .align 16 .b8 name[1024];`
void KernelParser::declareShared(const std::string &text) {
  size_t open = text.find('['), name = text.rfind(' ', open) + 1;
  kernel.staticShared = (kernel.staticShared + 127) / 128 * 128;
  symbols[text.substr(name, open - name)] = kSharedBase + kernel.staticShared;
  kernel.staticShared += unsigned(std::stoul(text.substr(open + 1)));
}

void KernelParser::addStatement(std::string text, unsigned at) {
  line = at;
  if (startsWith(text, ".shared"))
    return declareShared(text);
  if (startsWith(text, ".local"))
    fail("local memory is not emulated: " + text);
  if (startsWith(text, ".reg") || startsWith(text, ".pragma") || startsWith(text, ".loc"))
    return;
  kernel.code.push_back(parse(text));
}

unsigned KernelParser::registerNumber(const std::string &name) {
  auto [it, isNew] = registers.try_emplace(name, unsigned(registers.size()));
  return it->second;
}

Operand KernelParser::parseOperand(const std::string &text) {
  Operand operand;
  std::string word = trim(text);
  // An address: [%rd1+16], [symbol+16] or [name_param_0].
  if (startsWith(word, "["))
    word = trim(word.substr(1, word.find(']') - 1));
  if (size_t plus = word.find('+', 1); plus != std::string::npos) {
    operand.number = uint64_t(std::stoll(word.substr(plus + 1)));
    word = trim(word.substr(0, plus));
  }
  static const std::map<std::string, Special> specials = {{"%tid.x", Special::threadX},
                                                          {"%ctaid.x", Special::blockX},
                                                          {"%ntid.x", Special::threadsX},
                                                          {"%nctaid.x", Special::blocksX}};
  if (auto it = specials.find(word); it != specials.end()) {
    operand.kind = Operand::Kind::special;
    operand.index = unsigned(it->second);
  } else if (startsWith(word, "%")) {
    operand.kind = Operand::Kind::reg;
    operand.index = registerNumber(word);
  } else if (startsWith(word, kernel.name + "_param_")) {
    operand.kind = Operand::Kind::parameter;
    operand.index = unsigned(std::stoul(word.substr(kernel.name.size() + 7)));
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
  bool inBraces = false;
  std::string word;
  std::vector<Operand> group;
  auto endWord = [&] {
    // A shuffle's second result, which nobody asks for, is after a bar.
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
    if (c == '{')
      inBraces = true;
    else if (c == '}')
      inBraces = false, endGroup();
    else if (c == ',')
      inBraces ? endWord() : endGroup();
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
    instruction.predicate = int(registerNumber(rest.substr(begin, end - begin)));
    rest = trim(rest.substr(end));
  }
  size_t end = std::min(rest.find_first_of(" \t\n"), rest.size());
  instruction.opcode = rest.substr(0, end);
  rest = trim(rest.substr(end));
  if (startsWith(instruction.opcode, "bra")) {
    instruction.action = Action::branch;
    branches.push_back({kernel.code.size(), rest});
    return instruction;
  }
  parseOperands(rest, instruction);
  classify(instruction);
  return instruction;
}

static unsigned bytesOf(const std::string &type) {
  return type.size() < 2 ? 0 : unsigned(atoi(type.c_str() + 1)) / 8;
}

void KernelParser::classify(Instruction &instruction) {
  const std::string &opcode = instruction.opcode;
  std::vector<std::string> parts = partsOf(opcode);
  instruction.bytes = bytesOf(parts.back());
  instruction.space = contains(parts, "shared") ? Space::shared : Space::global;
  bool isMemory = contains(parts, "shared") || contains(parts, "global");
  if (opcode == "ret") {
    instruction.action = Action::leave;
  } else if (parts[0] == "mov") {
    instruction.action = Action::move;
  } else if (startsWith(opcode, "ld.param")) {
    instruction.action = Action::loadParameter;
  } else if (parts[0] == "ld" && isMemory) {
    instruction.action = Action::load;
  } else if (parts[0] == "st" && isMemory) {
    instruction.action = Action::store;
  } else if (startsWith(opcode, "cp.async.c") && isMemory) {
    instruction.action = Action::copyAsync;
  } else if (opcode == "cp.async.commit_group") {
    instruction.action = Action::commitCopies;
  } else if (opcode == "cp.async.wait_group") {
    instruction.action = Action::waitForCopies;
  } else if (opcode == "bar.sync" || opcode == "barrier.sync") {
    instruction.action = Action::barrier;
  } else if (opcode == "bar.warp.sync") {
    instruction.action = Action::warpBarrier;
  } else if (startsWith(opcode, "shfl.sync.")) {
    instruction.action = Action::shuffle;
    instruction.mode = parts[2] == "up"     ? ShuffleMode::up
                       : parts[2] == "down" ? ShuffleMode::down
                       : parts[2] == "bfly" ? ShuffleMode::butterfly
                                            : ShuffleMode::index;
  } else if (startsWith(opcode, "ldmatrix.sync.aligned.m8n8.x") && parts.back() == "b16") {
    instruction.action = Action::loadMatrices;
    instruction.isTransposed = contains(parts, "trans");
  } else if (opcode == "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32" ||
             opcode == "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32") {
    instruction.action = Action::multiplyMatrices;
    instruction.isHalf = contains(parts, "f16");
  } else if (!(instruction.function = findFunction(opcode))) {
    fail("'" + opcode + "' is not emulated");
  }
}

void KernelParser::finish() {
  for (auto &[index, label] : branches) {
    auto it = labels.find(label);
    if (it == labels.end())
      fail("no label " + label);
    kernel.code[index].target = it->second;
  }
  kernel.numRegisters = unsigned(registers.size());
}

std::map<std::string, Kernel> emulator::parseModule(const std::string &text) {
  std::map<std::string, Kernel> kernels;
  std::map<std::string, uint64_t> dynamicSymbols;
  Kernel *kernel = nullptr;
  std::vector<KernelParser> parsers;
  std::stringstream lines(text);
  std::string statement;
  unsigned number = 0, started = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    line = trim(line.substr(0, line.find("//")));
    if (line.empty())
      continue;
    if (startsWith(line, ".extern .shared")) {
      size_t open = line.find('['), name = line.rfind(' ', open) + 1;
      dynamicSymbols[line.substr(name, open - name)] = 0;
    } else if (startsWith(line, ".visible .entry")) {
      std::string name = line.substr(16, line.find('(') - 16);
      kernel = &kernels[name];
      kernel->name = name;
      for (auto &symbol : dynamicSymbols)
        symbol.second = kSharedBase;
      parsers.clear();
      parsers.emplace_back(*kernel, dynamicSymbols);
    } else if (!kernel || line == "{" || line == ")") {
      continue;
    } else if (startsWith(line, ".param")) {
      ++kernel->numParameters;
    } else if (line == "}") {
      parsers.back().finish();
      kernel = nullptr;
    } else if (line.back() == ':') {
      parsers.back().addLabel(line.substr(0, line.size() - 1));
    } else if (startsWith(line, ".maxntid") || startsWith(line, ".reqntid") ||
               startsWith(line, ".minnctapersm") || startsWith(line, ".maxnreg")) {
      continue;
    } else {
      // A statement ends at its semicolon, lines further down.
      if (statement.empty())
        started = number;
      statement += (statement.empty() ? "" : " ") + line;
      if (statement.back() != ';')
        continue;
      statement.pop_back();
      parsers.back().addStatement(statement, started);
      statement.clear();
    }
  }
  return kernels;
}
