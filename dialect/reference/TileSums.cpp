//===- TileSums.cpp - cumsums and sums, whole and in parts ----------------===//
#include "dialect/reference/TileProgram.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;
using namespace ejk;
using namespace ejk::reference;

/// result = the cumsum of `tile` that `op` describes.
template <typename Op> void TileCompiler::addCumsum(Op op, Slot tile, Slot result) {
  auto [rows, columns] = tileShape(op.getType());
  bool reverse = op.getReverse(), exclusive = op.getExclusive();
  // The position of row `from` in scan order, if given.
  std::optional<size_t> from;
  if (op.getFrom())
    from = reverse ? rows - 1 - *op.getFrom() : *op.getFrom();
  withRounding([&, rows = rows, columns = columns](auto round) {
    addSimple([=](TileFrame &frame) {
      std::vector<double> sum(columns);
      auto rowOf = [&](Slot slot, size_t step) {
        return frame.at(slot) + (reverse ? rows - 1 - step : step) * columns;
      };
      size_t first = from.value_or(0);
      for (size_t step = first; step < rows; ++step) {
        const double *in = rowOf(tile, step);
        double *out = rowOf(result, step);
        for (size_t c = 0; c < columns; ++c) {
          double before = sum[c];
          if (!(from && !exclusive && step == first))
            sum[c] = round(before + in[c]);
          out[c] = exclusive ? before : sum[c];
        }
      }
      // For rows before `from`, sums run backwards from there. They subtract the term of the next
      // row (inclusive) or of the row itself (exclusive).
      std::fill(sum.begin(), sum.end(), 0.0);
      for (size_t step = first; step-- > 0;) {
        const double *in = rowOf(tile, exclusive ? step : step + 1);
        double *out = rowOf(result, step);
        for (size_t c = 0; c < columns; ++c)
          out[c] = sum[c] = round(sum[c] - in[c]);
      }
    });
  });
}

LogicalResult TileCompiler::compileCumsum(tile::CumsumOp op) {
  addCumsum(op, slotOf(op.getTile()), resultSlot(op));
  return success();
}

LogicalResult TileCompiler::compileAddCumsum(tile::AddCumsumOp op) {
  Slot sums = allocate(op.getType()), acc = slotOf(op.getAcc()), result = resultSlot(op);
  addCumsum(op, slotOf(op.getTerm()), sums);
  withRounding([&](auto round) {
    addSimple([=](TileFrame &frame) {
      for (size_t i = 0; i < result.size; ++i)
        frame.at(result)[i] = round(frame.at(acc)[i] + frame.at(sums)[i]);
    });
  });
  return success();
}

LogicalResult TileCompiler::compileSplitTerm(tile::SplitTermOp op) {
  Slot tile = slotOf(op.getTile()), term = slots[op.getTerm()] = allocate(op.getTerm().getType()),
       rest = slots[op.getRest()] = allocate(op.getRest().getType());
  bool rounds = precision == Precision::native;
  Type type = getElementTypeOrSelf(op.getTerm().getType());
  addSimple([=](TileFrame &frame) {
    for (size_t i = 0; i < tile.size; ++i) {
      double x = frame.at(tile)[i], rounded = rounds ? roundTo(type, x) : x;
      frame.at(term)[i] = rounded;
      frame.at(rest)[i] = x - rounded;
    }
  });
  return success();
}

/// The nearest number with tf32's 11 bits, of two the even one.
static double roundToTf32(double x) {
  if (!std::isfinite(x))
    return x;
  constexpr uint32_t kDropped = (1u << 13) - 1;
  auto bits = llvm::bit_cast<uint32_t>(float(x));
  bits += kDropped / 2 + (bits >> 13 & 1);
  return llvm::bit_cast<float>(bits & ~kDropped);
}

LogicalResult TileCompiler::compileRoundToTf32(tile::RoundToTf32Op op) {
  Slot tile = slotOf(op.getTile()), result = resultSlot(op);
  bool rounds = precision == Precision::native;
  addSimple([=](TileFrame &frame) {
    for (size_t i = 0; i < tile.size; ++i) {
      double x = frame.at(tile)[i];
      frame.at(result)[i] = rounds ? roundToTf32(x) : x;
    }
  });
  return success();
}

LogicalResult TileCompiler::compileTriangle(tile::TriangleOp op) {
  Slot identity = allocate(op.getType()), result = resultSlot(op);
  size_t rows = tileShape(op.getType()).first;
  addSimple([=](TileFrame &frame) {
    for (size_t i = 0; i < identity.size; ++i)
      frame.at(identity)[i] = i % (rows + 1) == 0;
  });
  addCumsum(op, identity, result);
  return success();
}

/// The sum of `tile` over dimension `dim`, or, for a partial sum, the same in the first part.
LogicalResult TileCompiler::compileSum(Operation *op, Value of, uint64_t dim) {
  Slot tile = slotOf(of), result = resultSlot(op);
  auto [rows, columns] = tileShape(of.getType());
  bool overRows = dim == 0;
  withRounding([&, rows = rows, columns = columns](auto round) {
    addSimple([=](TileFrame &frame) {
      const double *in = frame.at(tile);
      double *out = frame.at(result);
      std::fill_n(out, result.size, 0.0);
      for (size_t i = 0; i < rows; ++i)
        for (size_t c = 0; c < columns; ++c) {
          double &sum = out[overRows ? c : i];
          sum = round(sum + in[i * columns + c]);
        }
    });
  });
  return success();
}

LogicalResult TileCompiler::compileAddParts(tile::AddPartsOp op) {
  Slot parts = slotOf(op.getParts()), result = resultSlot(op);
  withRounding([&](auto round) {
    addSimple([=](TileFrame &frame) {
      double *out = frame.at(result);
      std::fill_n(out, result.size, 0.0);
      for (size_t i = 0; i < parts.size; ++i)
        out[i % result.size] = round(out[i % result.size] + frame.at(parts)[i]);
    });
  });
  return success();
}
