//===- Slots.cpp - offsets of sequences and their states in pools ----------===//
#include "Slots.h"
#include "Inputs.h"
#include "dialect/ejk/Ejk.h"
#include "dialect/ejk/Names.h"
#include "dialect/shapes/Shapes.h"
#include "dialect/tile/Tile.h"
#include "llvm/ADT/STLExtras.h"
#include <cmath>

using namespace mlir;
using namespace ejk;

Value ejk::packedBy(Value argument) {
  for (OpOperand &use : argument.getUses()) {
    if (auto r = Recurrence::of(use.getOwner()); r && r->cuSeqlens == argument)
      return r->query;
    if (auto scan = dyn_cast<ScanOp>(use.getOwner()); scan && scan.getCuSeqlens() == argument)
      return scan.getSequences().front();
    if (auto program = dyn_cast<tile::ProgramOp>(use.getOwner());
        program && program.getCuSeqlens() == argument)
      return program.getSequences().front();
  }
  return Value();
}

std::vector<double> ejk::drawOffsets(int64_t entries, int64_t total, check::Random &random) {
  std::vector<double> offsets(entries);
  for (double &offset : offsets)
    offset = std::floor(random.uniform() * double(total + 1));
  llvm::sort(offsets);
  if (entries > 0)
    offsets.back() = double(total), offsets.front() = 0; // of no sequence, 0
  if (entries > 2) {
    size_t empty = 1 + random.next() % (entries - 2);
    offsets[empty] = offsets[empty - 1];
  }
  return offsets;
}

Value ejk::pooledBy(Value argument) {
  for (OpOperand &use : argument.getUses()) {
    if (auto read = dyn_cast<ReadStatesOp>(use.getOwner()); read && read.getIndex() == argument)
      return read.getPool();
    if (auto write = dyn_cast<WriteStatesOp>(use.getOwner()); write && write.getIndex() == argument)
      return write.getPool();
  }
  return Value();
}

Value ejk::acceptedOf(Value argument) {
  for (Operation *user : argument.getUsers())
    if (auto read = dyn_cast<ReadStatesOp>(user); read && read.getAccepted() == argument)
      return read.getIndex();
  return Value();
}

std::vector<double> ejk::drawIndices(int64_t count, int64_t sequences, int64_t states, Taken &taken,
                                       check::Random &random) {
  std::vector<int64_t> free;
  std::vector<std::vector<int64_t>> own(sequences);
  for (int64_t slot = 0; slot < states; ++slot)
    if (auto found = taken.find(slot); found == taken.end())
      free.push_back(slot);
    else if (found->second < sequences)
      own[found->second].push_back(slot);
  std::vector<double> indices(count, -1);
  for (int64_t i = 0; i < count; ++i) {
    int64_t sequence = i * sequences / count;
    bool takesOwn = random.uniform() < 0.5 && !own[sequence].empty();
    std::vector<int64_t> &from = takesOwn || free.empty() ? own[sequence] : free;
    if (from.empty() || random.uniform() < 0.125)
      continue;
    std::swap(from[random.next() % from.size()], from.back());
    indices[i] = double(from.back());
    taken[from.back()] = sequence;
    from.pop_back();
  }
  return indices;
}

/// Of the offsets of packed sequences, whose rows `result` has; null for results of other rows.
static const HostTensor *offsetsOf(func::FuncOp function, const ShapeAnalysis &shapes, Value result,
                                   const std::vector<HostTensor> &inputs) {
  auto type = cast<RankedTensorType>(result.getType());
  for (unsigned i = 0, e = function.getNumArguments(); i < e; ++i)
    if (Value rows = packedBy(function.getArgument(i));
        rows && type.getRank() > 1 && shapes.symbolOf(result, 1) == shapes.symbolOf(rows, 1))
      return findTensor(inputs, argumentName(function, i));
  return nullptr;
}

void ejk::zeroSkipped(func::FuncOp function, const std::vector<HostTensor> &inputs,
                      HostTensor &output) {
  ShapeAnalysis shapes(function);
  Operation *end = function.getBody().front().getTerminator();
  for (unsigned i = 0, e = function.getNumArguments(); i < e; ++i) {
    const HostTensor *index = findTensor(inputs, argumentName(function, i));
    if (!index || !pooledBy(function.getArgument(i)))
      continue;
    for (unsigned r = 0; r < end->getNumOperands(); ++r) {
      Value result = end->getOperand(r);
      auto type = dyn_cast<RankedTensorType>(result.getType());
      if (resultName(function, r) != output.name || !type || !type.getRank() ||
          isa_and_nonnull<WriteStatesOp, ZeroSkippedOp>(result.getDefiningOp()))
        continue;
      auto zeroRows = [&](int64_t first, int64_t last, int64_t rows) {
        size_t row = output.data.size() / std::max<int64_t>(1, rows);
        std::fill(output.data.begin() + first * row, output.data.begin() + last * row, 0);
      };
      const HostTensor *offsets = offsetsOf(function, shapes, result, inputs);
      bool isBySequence =
          shapes.symbolOf(result, 0) == shapes.symbolOf(function.getArgument(i), 0);
      if (!offsets && !isBySequence)
        continue;
      for (int64_t n = 0; n < index->shape.front(); ++n) {
        if (elementAsDouble(*index, n) >= 0)
          continue;
        if (offsets)
          zeroRows(elementAsDouble(*offsets, n), elementAsDouble(*offsets, n + 1), output.shape[1]);
        else
          zeroRows(n, n + 1, output.shape.front());
      }
    }
  }
}
