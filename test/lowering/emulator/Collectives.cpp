//===- Collectives.cpp - what the lanes of a warp do together -------------===//
#include "Block.h"
#include "Numbers.h"
#include <algorithm>
#include <set>

using namespace emulator;

/// `shfl.sync d, a, b, c, mask`: c bounds the lane that is read, by its low five bits; a lane keeps
/// those of its own number that bits 8 to 12 have.
void Block::shuffle(Warp &warp, const Instruction &instruction) {
  const auto &operands = instruction.operands;
  uint64_t values[lanes];
  for (unsigned l = 0; l < lanes; ++l)
    values[l] = get(warp, operands[1][0], l);
  for (unsigned l = 0; l < lanes; ++l) {
    int by = int(get(warp, operands[2][0], l) & 31), from = int(l);
    int control = int(get(warp, operands[3][0], l));
    int kept = control >> 8 & 31, own = int(l) & kept;
    int bound = own | (control & 31 & ~kept);
    switch (instruction.mode) {
    case ShuffleMode::up:
      from = int(l) - by < bound ? int(l) : int(l) - by;
      break;
    case ShuffleMode::down:
      from = int(l) + by > bound ? int(l) : int(l) + by;
      break;
    case ShuffleMode::butterfly:
      from = (int(l) ^ by) > bound ? int(l) : int(l) ^ by;
      break;
    case ShuffleMode::index:
      from = own | (by & ~kept);
      from = from > bound ? int(l) : from;
      break;
    }
    set(warp, operands[0][0], l, values[from]);
  }
}

/// `elect.sync lane|isElected, mask`: any lane may be it, the same one all the time.
void Block::elect(Warp &warp, const Instruction &instruction) {
  const auto &operands = instruction.operands;
  if (uint32_t(get(warp, operands[1][0], 0)) != ~0u)
    throw Fault("only elections among all lanes are emulated");
  for (unsigned l = 0; l < lanes; ++l) {
    set(warp, operands[0][0], l, elected);
    set(warp, operands[0].at(1), l, l == elected);
  }
}

/// Up to four 8×8 matrices of 16-bit numbers: lanes 8i to 8i+7 give the addresses of
/// matrix i's rows, and lane 4g+t gets of each (g, 2t) and (g, 2t+1), or of the
/// transposed matrix.
void Block::loadMatrices(Warp &warp, const Instruction &instruction) {
  const std::vector<Operand> &results = instruction.operands[0];
  uint16_t matrix[8][8];
  for (unsigned i = 0; i < results.size(); ++i) {
    for (unsigned row = 0; row < 8; ++row) {
      unsigned lane = 8 * i + row;
      shared.read(get(warp, instruction.operands[1][0], lane), matrix[row], 16,
                  threadOf(warp, lane));
    }
    for (unsigned l = 0; l < lanes; ++l) {
      unsigned g = l / 4, t = 2 * (l % 4);
      uint32_t first = instruction.isTransposed ? matrix[t][g] : matrix[g][t];
      uint32_t second = instruction.isTransposed ? matrix[t + 1][g] : matrix[g][t + 1];
      set(warp, results[i], l, second << 16 | first);
    }
  }
}

/// What loadMatrices reads back.
void Block::storeMatrices(Warp &warp, const Instruction &instruction) {
  const std::vector<Operand> &values = instruction.operands[1];
  for (unsigned i = 0; i < values.size(); ++i) {
    uint16_t matrix[8][8];
    for (unsigned l = 0; l < lanes; ++l)
      for (unsigned half : {0, 1}) {
        unsigned row = l / 4, column = 2 * (l % 4) + half;
        uint64_t value = get(warp, values[i], l) >> 16 * half;
        (instruction.isTransposed ? matrix[column][row] : matrix[row][column]) = uint16_t(value);
      }
    for (unsigned row = 0; row < 8; ++row) {
      unsigned lane = 8 * i + row;
      shared.write(get(warp, instruction.operands[0][0], lane), matrix[row], 16,
                   threadOf(warp, lane));
    }
  }
}

/// `movmatrix.trans d, a`: of one matrix, spread as loadMatrices spreads them.
void Block::transposeMatrix(Warp &warp, const Instruction &instruction) {
  uint16_t matrix[8][8];
  for (unsigned l = 0; l < lanes; ++l)
    for (unsigned half : {0, 1})
      matrix[l / 4][2 * (l % 4) + half] =
          uint16_t(get(warp, instruction.operands[1][0], l) >> 16 * half);
  for (unsigned l = 0; l < lanes; ++l) {
    unsigned g = l / 4, t = 2 * (l % 4);
    set(warp, instruction.operands[0][0], l, uint32_t(matrix[t + 1][g]) << 16 | matrix[t][g]);
  }
}

/// D = A·B + C with A 16×16, B 16×8: a lane 4g+t has of A and B pairs along their
/// common dimension, of C and D pairs along the columns. Of tf32 numbers, A 16×8 and B 8×8, it has
/// of A and B single ones.
void Block::multiplyMatrices(Warp &warp, const Instruction &instruction) {
  const auto &operands = instruction.operands;
  float a[16][16], b[16][8], c[16][8];
  unsigned depth = instruction.isTf32 ? 8 : 16;
  auto number = [&](uint64_t word, unsigned half) {
    uint64_t bits = word >> 16 * half & 0xffff;
    return instruction.isHalf ? fromHalf(bits) : fromBF16(bits);
  };
  auto wholeNumber = [&](uint64_t word) {
    if (word & 0x1fff)
      throw Fault("an operand of a product of tf32 numbers has bits that tf32 lacks");
    return take<float>(word);
  };
  for (unsigned l = 0; l < lanes; ++l) {
    unsigned g = l / 4, t = 2 * (l % 4);
    if (instruction.isTf32) {
      for (unsigned i = 0; i < 4; ++i)
        a[g + 8 * (i % 2)][l % 4 + 4 * (i / 2)] = wholeNumber(get(warp, operands[1][i], l));
      for (unsigned i = 0; i < 2; ++i)
        b[l % 4 + 4 * i][g] = wholeNumber(get(warp, operands[2][i], l));
    } else {
      for (unsigned half : {0, 1}) {
        for (unsigned i = 0; i < 4; ++i)
          a[g + 8 * (i % 2)][t + 8 * (i / 2) + half] = number(get(warp, operands[1][i], l), half);
        for (unsigned i = 0; i < 2; ++i)
          b[t + 8 * i + half][g] = number(get(warp, operands[2][i], l), half);
      }
    }
    for (unsigned i = 0; i < 4; ++i)
      c[g + 8 * (i / 2)][t + i % 2] = take<float>(get(warp, operands[3][i], l));
  }
  for (auto &row : c)
    for (unsigned column = 0; column < 8; ++column) {
      double sum = row[column];
      for (unsigned k = 0; k < depth; ++k)
        sum += double(a[&row - c][k]) * b[k][column];
      row[column] = float(sum);
    }
  for (unsigned l = 0; l < lanes; ++l)
    for (unsigned i = 0; i < 4; ++i)
      set(warp, operands[0][i], l, give(c[l / 4 + 8 * (i / 2)][2 * (l % 4) + i % 2]));
}

/// Shared memory answers for 128 bytes at a time, each bank once: a vector of 8 bytes
/// takes two turns of 16 lanes, one of 16 bytes four turns of 8.
void Block::count(Warp &warp, const Instruction &instruction, Mask active) {
  ++statistics->executed[instruction.opcode];
  bool storesMatrix = instruction.action == Action::storeMatrices;
  bool isMatrix = instruction.action == Action::loadMatrices || storesMatrix;
  bool isLoad = instruction.action == Action::load || instruction.action == Action::loadMatrices;
  if (!isMatrix &&
      (instruction.space != Space::shared || (!isLoad && instruction.action != Action::store)))
    return;
  const auto &operands = instruction.operands;
  unsigned bytes = isMatrix ? 16 : instruction.bytes * unsigned(operands[isLoad ? 0 : 1].size());
  unsigned together = std::min(lanes, 128 / std::max(bytes, 4u));
  unsigned used = isMatrix ? 8 * unsigned(operands[storesMatrix].size()) : lanes;
  for (unsigned first = 0; first < used; first += together) {
    std::set<uint64_t> words[32];
    size_t most = 0;
    for (unsigned l = first; l < first + together; ++l)
      for (unsigned i = 0; (active >> l & 1) && i < bytes; i += 4) {
        uint64_t word = (get(warp, operands[isLoad][0], l) + i) / 4;
        words[word % 32].insert(word);
        most = std::max(most, words[word % 32].size());
      }
    statistics->answers[instruction.opcode] += most;
  }
}
