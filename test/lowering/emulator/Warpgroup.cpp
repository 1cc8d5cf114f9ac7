//===- Warpgroup.cpp - products that a warpgroup has under way ------------===//
#include "Warpgroup.h"
#include <algorithm>

using namespace emulator;

Warpgroup::Warpgroup(unsigned number, unsigned firstOfBlock, const Kernel &kernel, Clocks &clocks)
    : threadRegisters(kernel.threadRegisters), number(number), firstOfBlock(firstOfBlock),
      cores(clocks.addActors(
          "a wgmma of warpgroup " + std::to_string(number) + clocks.blockOf(firstOfBlock), warps)),
      kernel(kernel), accumulating(kernel.numRegisters), reading(kernel.numRegisters) {
  for (auto &lines : writtenOn)
    lines.assign(kernel.numRegisters, 0);
}

void Warpgroup::fault(unsigned reg, const std::string &what, unsigned line) const {
  throw Fault("register " + kernel.registerNames[reg] + " " + what + " line " +
              std::to_string(line));
}

void Warpgroup::checkRegisters(unsigned warp, const Instruction &instruction) {
  const auto &operands = instruction.operands;
  for (unsigned i = 0; isBusy() && i < operands.size(); ++i)
    for (const Operand &operand : operands[i]) {
      if (operand.kind != Operand::Kind::reg)
        continue;
      if (auto &users = accumulating[operand.index]; !users.empty())
        fault(operand.index, "is used while a wgmma in flight accumulates in it, issued on",
              users.back()->line);
      if (auto &users = reading[operand.index]; i == 0 && instruction.hasResult && !users.empty())
        fault(operand.index, "is written while a wgmma in flight reads A from it, issued on",
              users.back()->line);
    }
  if (instruction.hasResult)
    for (const Operand &operand : operands[0])
      if (operand.kind == Operand::Kind::reg)
        writtenOn[warp][operand.index] = instruction.line;
}

void Warpgroup::fence() {
  hasFence = true;
  for (auto &lines : writtenOn)
    std::fill(lines.begin(), lines.end(), 0);
}

static bool haveSameAccumulators(const Instruction &a, const Instruction &b) {
  return std::equal(
      a.operands[0].begin(), a.operands[0].end(), b.operands[0].begin(), b.operands[0].end(),
      [](const Operand &one, const Operand &other) { return one.index == other.index; });
}

void Warpgroup::checkStart(const Product &product) const {
  const Instruction &instruction = *product.instruction;
  if (!hasFence)
    throw Fault("no wgmma.fence before the first wgmma");
  unsigned used = product.hasAInRegisters() ? 2 : 1;
  for (unsigned i = 0; i < used; ++i)
    for (const Operand &operand : instruction.operands[i])
      for (auto &lines : writtenOn)
        if (lines[operand.index])
          fault(operand.index, "lacks a wgmma.fence since it was written, on",
                lines[operand.index]);
  for (const Operand &operand : instruction.operands[0]) {
    for (const Instruction *user : accumulating[operand.index])
      if (!haveSameAccumulators(*user, instruction))
        fault(operand.index, "is one of other accumulators of a wgmma in flight, issued on",
              user->line);
    if (auto &users = reading[operand.index]; !users.empty())
      fault(operand.index, "becomes an accumulator while a wgmma in flight reads A from it, of",
            users.back()->line);
  }
  if (product.hasAInRegisters())
    for (const Operand &operand : instruction.operands[1])
      if (auto &users = accumulating[operand.index]; !users.empty())
        fault(operand.index, "is used while a wgmma in flight accumulates in it, issued on",
              users.back()->line);
}

void Warpgroup::start(Product &product) {
  checkStart(product);
  product.time = ++time;
  open.push_back(product);
  const auto &operands = product.instruction->operands;
  for (const Operand &operand : operands[0])
    accumulating[operand.index].push_back(product.instruction);
  for (unsigned i = 0; product.hasAInRegisters() && i < operands[1].size(); ++i)
    reading[operands[1][i].index].push_back(product.instruction);
}

void Warpgroup::commit() {
  groups.push_back(std::move(open));
  open.clear();
}

std::vector<Product> Warpgroup::finish(uint64_t left) {
  std::vector<Product> finished;
  for (; groups.size() > left; groups.pop_front())
    finished.insert(finished.end(), groups.front().begin(), groups.front().end());
  for (const Product &product : finished) {
    const auto &operands = product.instruction->operands;
    for (const Operand &operand : operands[0])
      accumulating[operand.index].erase(accumulating[operand.index].begin());
    for (unsigned i = 0; product.hasAInRegisters() && i < operands[1].size(); ++i)
      reading[operands[1][i].index].erase(reading[operands[1][i].index].begin());
  }
  return finished;
}
