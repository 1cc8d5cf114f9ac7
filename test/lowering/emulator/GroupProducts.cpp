//===- GroupProducts.cpp - what a warpgroup's four warps do together ------===//
#include "Block.h"
#include "MatrixDescriptor.h"
#include "Numbers.h"

using namespace emulator;

const Instruction *Block::togetherAt(const Warpgroup &group) const {
  const Instruction *together = nullptr;
  for (unsigned w = 0; w < Warpgroup::warps; ++w) {
    const Lane &lane = warps[group.firstWarp() + w].lane[0];
    if (lane.state != Lane::atGroup)
      return nullptr;
    together = &kernel.code[lane.place];
  }
  return together;
}

void Block::advance(const Warpgroup &group) {
  for (unsigned w = 0; w < Warpgroup::warps; ++w)
    for (Lane &lane : warps[group.firstWarp() + w].lane) {
      lane.state = Lane::running;
      ++lane.place;
    }
}

void Block::comeToGroup(Warp &warp, const Instruction &instruction) {
  if (warp.number / Warpgroup::warps >= groups.size())
    throw Fault("a block of " + std::to_string(warps.size()) + " warps has no warpgroup here");
  Warpgroup &group = groups[warp.number / Warpgroup::warps];
  for (Lane &lane : warp.lane)
    lane.state = Lane::atGroup;
  for (unsigned w = 0; w < Warpgroup::warps; ++w) {
    const Lane &other = warps[group.firstWarp() + w].lane[0];
    if (other.state == Lane::atGroup && &kernel.code[other.place] != &instruction)
      throw Fault("another warp of the warpgroup comes to '" + kernel.code[other.place].text +
                  "', line " + std::to_string(kernel.code[other.place].line) + ", instead");
  }
  if (!togetherAt(group))
    return;
  switch (instruction.action) {
  case Action::groupMultiply:
    startProduct(group, instruction);
    break;
  case Action::groupFence:
    group.fence();
    break;
  case Action::groupCommit:
    group.commit();
    break;
  case Action::groupWait:
    waitForProducts(group, instruction);
    break;
  default:
    return setRegisters(group, instruction);
  }
  advance(group);
}

/// `setmaxnreg.dec n` leaves registers to others, `setmaxnreg.inc n` waits for them.
void Block::setRegisters(Warpgroup &group, const Instruction &instruction) {
  auto count = unsigned(instruction.operands[0][0].number);
  bool isDecrease = instruction.says("dec");
  if (!group.threadRegisters)
    return advance(group);
  if (isDecrease ? count > group.threadRegisters : count < group.threadRegisters)
    throw Fault("a thread has " + std::to_string(group.threadRegisters) + " registers before");
  if (isDecrease) {
    freeRegisters += group.threadRegisters - count;
    group.threadRegisters = count;
    advance(group);
  }
  giveRegisters();
}

void Block::giveRegisters() {
  for (Warpgroup &group : groups) {
    const Instruction *at = togetherAt(group);
    if (!at || at->action != Action::setRegisters)
      continue;
    unsigned missing = unsigned(at->operands[0][0].number) - group.threadRegisters;
    if (missing > freeRegisters)
      continue;
    freeRegisters -= missing;
    group.threadRegisters += missing;
    advance(group);
  }
}

void Block::waitForProducts(Warpgroup &group, const Instruction &instruction) {
  std::vector<Product> finished = group.finish(instruction.operands[0][0].number);
  if (finished.empty())
    return;
  for (const Product &product : finished)
    finishProduct(group, product);
  for (unsigned w = 0; w < Warpgroup::warps; ++w) {
    auto done = std::make_shared<Knowledge>();
    done->add(group.coresActor() + w, finished.back().time);
    clocks.learn(group.firstThread() + w * lanes, lanes, done);
  }
}

/// What all threads of a warpgroup give alike.
uint64_t Block::getFromGroup(const Warpgroup &group, const Operand &operand) const {
  uint64_t value = get(warps[group.firstWarp()], operand, 0);
  for (unsigned w = 0; w < Warpgroup::warps; ++w)
    for (unsigned l = 0; l < lanes; ++l)
      if (get(warps[group.firstWarp() + w], operand, l) != value)
        throw Fault("the threads of the warpgroup give different descriptors or predicates");
  return value;
}

/// Visits the pieces of an operand: its address, and the row or column and the k of the
/// first of its 8 numbers. `extent` is of M or N.
template <typename Visit>
static void forEachPiece(uint64_t descriptor, bool isKMajor, unsigned extent, Visit visit) {
  MatrixDescriptor matrix{descriptor};
  if (isKMajor) {
    for (unsigned outer = 0; outer < extent; ++outer)
      for (unsigned piece = 0; piece < 2; ++piece)
        visit(matrix.alongK(outer, piece), outer, 8 * piece);
  } else {
    for (unsigned k = 0; k < 16; ++k)
      for (unsigned piece = 0; piece < extent / 8; ++piece)
        visit(matrix.alongOuter(piece, k), 8 * piece, k);
  }
}

static bool isAKMajor(const Product &product) {
  return product.instruction->isTf32 || product.instruction->operands[6][0].number == 0;
}
static bool isBKMajor(const Product &product) {
  return product.instruction->isTf32 || product.instruction->operands.back()[0].number == 0;
}

/// The number in a word, of which a product of tf32 numbers reads no more bits.
static float tf32Number(uint64_t word) {
  if (word & 0x1fff)
    throw Fault("an operand of a product of tf32 numbers has bits that tf32 lacks");
  return take<float>(word);
}

void Block::startProduct(Warpgroup &group, const Instruction &instruction) {
  const auto &operands = instruction.operands;
  Product product{&instruction, 0, 0, false, 0};
  if (!product.hasAInRegisters())
    product.a = getFromGroup(group, operands[1][0]);
  product.b = getFromGroup(group, operands[2][0]);
  product.accumulates = getFromGroup(group, operands[3][0]) != 0;
  group.start(product);
  // Its reads last until the wait. Every one of the threads must know what it reads.
  Knowledge known = clocks.commonTo(group.firstThread(), Warpgroup::threads);
  Access access{group.coresActor(), product.time, &known, /*isAsync=*/true, Warpgroup::warps};
  auto startRead = [&](uint64_t address, unsigned, unsigned) {
    shared.startRead(address, 16, access);
  };
  if (!product.hasAInRegisters())
    forEachPiece(product.a, isAKMajor(product), 64, startRead);
  forEachPiece(product.b, isBKMajor(product), instruction.columns, startRead);
}

/// D = ±A · ±B + C with A 64×16, B 16×columns, or half as many of tf32: warp w of the group has
/// rows 16w to 16w+15, and there its lanes have what they have with `mma`.
void Block::finishProduct(const Warpgroup &group, const Product &product) {
  const Instruction &instruction = *product.instruction;
  const auto &operands = instruction.operands;
  unsigned columns = instruction.columns;
  std::vector<float> a(64 * 16), b(columns * 16);
  auto number = [&](uint64_t bits) {
    return instruction.isHalf ? fromHalf(bits & 0xffff) : fromBF16(bits & 0xffff);
  };
  auto load = [&](std::vector<float> &to, uint64_t descriptor, bool isKMajor, float sign) {
    forEachPiece(descriptor, isKMajor, unsigned(to.size() / 16),
                 [&](uint64_t address, unsigned outer, unsigned k) {
                   if (instruction.isTf32) {
                     uint32_t piece[4];
                     shared.peek(address, piece, 16);
                     for (unsigned i = 0; i < 4; ++i)
                       to[outer * 16 + k / 2 + i] = sign * tf32Number(piece[i]);
                     return;
                   }
                   uint16_t piece[8];
                   shared.peek(address, piece, 16);
                   for (unsigned i = 0; i < 8; ++i)
                     to[(outer + (isKMajor ? 0 : i)) * 16 + k + (isKMajor ? i : 0)] =
                         sign * number(piece[i]);
                 });
  };
  auto signA = float(int64_t(operands[4][0].number)), signB = float(int64_t(operands[5][0].number));
  if (!product.hasAInRegisters())
    load(a, product.a, isAKMajor(product), signA);
  load(b, product.b, isBKMajor(product), signB);
  for (unsigned w = 0; w < Warpgroup::warps; ++w) {
    Warp &warp = warps[group.firstWarp() + w];
    for (unsigned l = 0; instruction.isTf32 && product.hasAInRegisters() && l < lanes; ++l)
      for (unsigned i = 0; i < 4; ++i) {
        unsigned row = 16 * w + l / 4 + i % 2 * 8, k = l % 4 + i / 2 * 4;
        a[row * 16 + k] = signA * tf32Number(get(warp, operands[1][i], l));
      }
    for (unsigned l = 0; !instruction.isTf32 && product.hasAInRegisters() && l < lanes; ++l)
      for (unsigned i = 0; i < 8; ++i) {
        unsigned row = 16 * w + l / 4 + i / 2 % 2 * 8, k = 2 * (l % 4) + i / 4 * 8 + i % 2;
        a[row * 16 + k] = signA * number(get(warp, operands[1][i / 2], l) >> i % 2 * 16);
      }
    for (unsigned l = 0; l < lanes; ++l)
      for (unsigned i = 0; i < operands[0].size(); ++i) {
        unsigned row = 16 * w + l / 4 + i / 2 % 2 * 8, column = i / 4 * 8 + 2 * (l % 4) + i % 2;
        double sum = product.accumulates ? take<float>(get(warp, operands[0][i], l)) : 0;
        for (unsigned k = 0; k < (instruction.isTf32 ? 8 : 16); ++k)
          sum += double(a[row * 16 + k]) * b[column * 16 + k];
        set(warp, operands[0][i], l, give(float(sum)));
      }
  }
}
