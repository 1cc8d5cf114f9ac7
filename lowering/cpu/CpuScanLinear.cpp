//===- CpuScanLinear.cpp - several steps in one pass over the rows --------===//
//
// Where what a step adds and reads does not depend on its states, a state S after some steps is
// linear in the state S₀ before them, and each of its rows is loaded and stored once for all
// of these steps. With decays d along the rows,
//
//   after step t:  S_t = (d₀⋯d_t) ⊙ S₀ + Σ_{j≤t} (d_{j+1}⋯d_t ⊙ k_j) v_jᵀ
//   a read of it:  x_tᵀ S_t = (x_t ⊙ d₀⋯d_t)ᵀ S₀ + Σ_{j≤t} (x_t · (d_{j+1}⋯d_t ⊙ k_j)) v_jᵀ
//
// A row of S₀ then takes one multiply-add for each read and each term, and one product: 2 + 1/C
// vector operations a step in place of 3. The prologue computes what lies along the rows, for
// all column blocks: x ⊙ d, d ⊙ k, and the dot products. Products of decays are at most 1.
// Decays along the columns and per head multiply the terms' other side in the same way.
//
//===----------------------------------------------------------------------===//
#include "lowering/cpu/CpuScanEmitter.h"
#include "passes/scan/ScanProperties.h"
#include "llvm/Support/SaveAndRestore.h"

using namespace mlir;
using namespace ejk;

/// Calls `visit` with each op of a state's steps in a block, in order: decays, outer products,
/// and reads where they read; and `visitSide` with side reads. `t` is the step's place in the
/// block.
void CpuScanEmitter::forEachLinearOp(const LinearState &state, VisitLinear visit,
                                     VisitLinear visitSide) {
  for (unsigned t = 0; t < plan.timeBlock; ++t) {
    auto readsOf = [&](Value matrix) {
      for (ReadOp read : state.reads)
        if (read.getState() == matrix)
          visit(t, read);
      for (ReadOp read : state.sideReads)
        if (visitSide && read.getState() == matrix)
          visitSide(t, read);
    };
    readsOf(scan.getStateArgs()[state.number]);
    for (Operation *op : state.chain) {
      visit(t, op);
      readsOf(op->getResult(0));
    }
  }
}

/// Allocates what the prologue leaves for the blocks of a chunk.
void CpuScanEmitter::allocateLinear() {
  for (const LinearState &state : plan.linear) {
    LinearRows &rows = linearRows.emplace_back();
    unsigned reads = 0, terms = 0, dots = 0;
    forEachLinearOp(state, [&](unsigned, Operation *op) {
      terms += isa<OuterAddOp>(op);
      if (isa<ReadOp>(op)) {
        ++reads;
        dots += terms;
      }
    });
    rows.numReads = reads;
    rows.numTerms = terms;
    rows.numDots = dots;
    rows.decays = llvm::any_of(state.chain, [&](Operation *op) {
      auto decay = dyn_cast<DecayOp>(op);
      return decay && steps.layoutOf(decay.getAxis()) == Layout::row;
    });
    unsigned blocks = plan.chunk / plan.timeBlock;
    if (rows.decays) // reads, terms, and the product of all decays
      rows.vectors = allocate(int64_t(blocks) * (reads + terms + 1) * plan.paddedRows());
    if (dots)
      rows.dots = allocate(int64_t(blocks) * dots);
  }
}

/// The place of a block's vector number `index`, which `allocateLinear` made room for.
Value CpuScanEmitter::linearVector(const LinearRows &rows, Value block, unsigned index,
                                   Value position) {
  Value number = b.add(b.mul(block, rows.numReads + rows.numTerms + 1), index);
  return floatAt(rows.vectors, b.add(b.mul(number, plan.paddedRows()), position));
}

//===----------------------------------------------------------------------===//
// Along the rows
//===----------------------------------------------------------------------===//

void CpuScanEmitter::emitLinearPrologue(Value firstStep, Value count) {
  b.loop(b.i64(0), b.div(count, plan.timeBlock), 1, {}, [&](Value block, ValueRange) {
    for (auto [i, state] : llvm::enumerate(plan.linear))
      emitLinearRows(state, linearRows[i], firstStep, block);
    return SmallVector<Value>();
  });
}

void CpuScanEmitter::emitLinearRows(const LinearState &state, const LinearRows &rows,
                                    Value firstStep, Value block) {
  if (!rows.decays && !rows.numDots)
    return;
  Scope none;
  SmallVector<Value> zeros(rows.numDots, b.number(0, plan.rowWidth));
  auto body = [&](const Channels &at, ValueRange partial) {
    SmallVector<Value> dots(partial);
    Value all;              // the product of the decays so far
    SmallVector<Value> terms; // each with the decays since it was added
    unsigned dot = 0, read = 0;
    auto lanes = [&](unsigned t, Value value, bool isExponential) {
      llvm::SaveAndRestore keepPlace(inChunk), keepRow(currentRow);
      inChunk = b.add(b.mul(block, plan.timeBlock), t);
      currentRow = rowOfStep(b.add(firstStep, inChunk));
      Scope scope(&none);
      Value row = isExponential ? exponential(value, at, scope) : evaluateWide(value, at, scope);
      return b.splat(row, at.width);
    };
    forEachLinearOp(state, [&](unsigned t, Operation *op) {
      if (auto decay = dyn_cast<DecayOp>(op)) {
        if (steps.layoutOf(decay.getAxis()) != Layout::row)
          return;
        Value factor = lanes(t, decay.getGate(), /*isExponential=*/true);
        all = all ? b.mulF(all, factor) : factor;
        for (Value &term : terms)
          term = b.mulF(term, factor);
      } else if (auto outer = dyn_cast<OuterAddOp>(op)) {
        terms.push_back(lanes(t, rowVector(outer), false));
      } else {
        Value vector = lanes(t, cast<ReadOp>(op).getVector(), false);
        for (Value term : terms) {
          Value next = b.fma(vector, term, dots[dot]);
          // Lanes past the rows hold anything.
          dots[dot] =
              at.mask ? b.make<arith::SelectOp>(at.mask, next, dots[dot]).getResult() : next;
          ++dot;
        }
        if (rows.decays)
          b.storeLanes(all ? b.mulF(vector, all) : vector,
                       linearVector(rows, block, read, at.position));
        ++read;
      }
    });
    if (rows.decays) {
      for (auto [i, term] : llvm::enumerate(terms))
        b.storeLanes(term, linearVector(rows, block, rows.numReads + i, at.position));
      b.storeLanes(all, linearVector(rows, block, rows.numReads + rows.numTerms, at.position));
    }
    return dots;
  };
  SmallVector<Value> dots = overRows(zeros, body);
  for (auto [i, dot] : llvm::enumerate(dots))
    b.storeLanes(b.sumLanes(dot),
                 floatAt(rows.dots, b.add(b.mul(block, rows.numDots), i)));
}

//===----------------------------------------------------------------------===//
// On a column block
//===----------------------------------------------------------------------===//

/// Whether a saved state's chunk ends or begins within the block's steps, other than at its
/// start for what is read back and at its end for what is saved.
Value CpuScanEmitter::hasBoundary(Value firstStep) {
  Value found;
  for (unsigned t = 0; t < plan.timeBlock; ++t) {
    Value row = rowOfStep(b.add(firstStep, t)), here;
    if (t > 0 && !scan.getSavedStates().empty())
      here = entersChunk(row);
    if (t + 1 < plan.timeBlock && !scan.getSaves().empty()) {
      Value leaves = leavesChunk(row);
      here = here ? b.make<arith::OrIOp>(here, leaves).getResult() : leaves;
    }
    if (here)
      found = found ? b.make<arith::OrIOp>(found, here).getResult() : here;
  }
  return found;
}

/// The steps of a block, on the columns of `block`; `firstStep` counts from the sequence's
/// first, `inFirst` from the chunk's.
void CpuScanEmitter::runLinear(const Block &block, Value firstStep, Value inFirst,
                               Value isLeader) {
  Channels at{Layout::column, block.position, plan.width, block.mask};
  unsigned count = plan.timeBlock;
  Value timeBlock = b.div(inFirst, count);
  auto enter = [&](unsigned t) {
    inChunk = b.add(inFirst, t);
    currentRow = rowOfStep(b.add(firstStep, t));
  };
  std::vector<Scope> stepScopes(count), columns;
  for (unsigned t = 0; t < count; ++t)
    columns.emplace_back(&stepScopes[t]);

  // A saved state is read back where the block starts.
  enter(0);
  for (Operation &op : scan.getStep())
    if (auto checkpoint = dyn_cast<CheckpointOp>(op))
      runCheckpoint(checkpoint, block, stepScopes[0], columns[0]);

  for (unsigned number = 0; number < plan.linear.size(); ++number) {
    const LinearState &state = plan.linear[number];
    const LinearRows &rows = linearRows[number];
    // Each term's column and number, with the decays since it was added, as the walk over the
    // block's steps goes on; and what a read's sum over S₀ is multiplied by.
    SmallVector<Value> terms, factors;
    Value all;
    struct Read {
      ReadOp op;
      unsigned t;
      Value factor;
      SmallVector<Value> terms;
    };
    SmallVector<Read> reads;
    SmallVector<SideRead> sideReads;
    SmallVector<Value> rowVectors, readVectors; // of terms and reads
    SmallVector<unsigned> rowSteps;
    auto visit = [&](unsigned t, Operation *op) {
      enter(t);
      if (auto decay = dyn_cast<DecayOp>(op)) {
        Layout layout = steps.layoutOf(decay.getAxis());
        if (layout == Layout::row)
          return;
        Value factor = exponential(decay.getGate(), layout == Layout::column ? at : Channels{},
                                   columns[t]);
        factor = b.splat(factor, plan.width);
        all = all ? b.mulF(all, factor) : factor;
        for (Value &term : terms)
          term = b.mulF(term, factor);
      } else if (auto outer = dyn_cast<OuterAddOp>(op)) {
        Value column = evaluateWide(columnVector(outer), at, columns[t]);
        terms.push_back(b.splat(column, plan.width));
        rowVectors.push_back(rowVector(outer));
        rowSteps.push_back(t);
      } else {
        auto read = cast<ReadOp>(op);
        reads.push_back({read, t, all, terms});
      }
    };
    auto visitSide = [&](unsigned t, Operation *op) {
      enter(t);
      auto read = cast<ReadOp>(op);
      Value vector = sideVector(read, at, columns[t]);
      addSideDots(read, vector, terms, block.mask);
      sideReads.push_back({read, t, all ? b.mulF(vector, all) : vector});
    };
    forEachLinearOp(state, visit, visitSide);

    // One pass over the rows; where a state is saved, also what it is before the last terms.
    auto pass = [&](bool saves) {
      SmallVector<Value> zeros(reads.size(), b.number(0, plan.width));
      auto ofRow = [&](Value row, ValueRange partial, SmallVector<Value> &products) {
        Value place = tileRow(tiles[state.number], block, row);
        Type type = CpuBuilder::withCount(b.getF32Type(), plan.width);
        Value start = b.loadLanes(type, place);
        auto load = [&](unsigned index) {
          return b.splat(b.loadLanes(b.getF32Type(), linearVector(rows, timeBlock, index, row)),
                         plan.width);
        };
        auto operand = [&](unsigned t, Value vector) {
          // The loop's values of these are none after it.
          llvm::SaveAndRestore keepPlace(inChunk), keepRow(currentRow);
          enter(t);
          Scope scope;
          return b.splat(rowOperand(vector, row, false, scope), plan.width);
        };
        SmallVector<Value> sums;
        for (auto [i, read] : llvm::enumerate(reads))
          sums.push_back(b.fma(
              rows.decays ? load(i) : operand(read.t, read.op.getVector()), start, partial[i]));
        for (const SideRead &read : sideReads)
          products.push_back(sideProducts(start, read.vector, block.mask));
        Value next = start;
        if (rows.decays)
          next = b.mulF(next, load(rows.numReads + rows.numTerms));
        if (all)
          next = b.mulF(next, all);
        for (auto [i, term] : llvm::enumerate(terms)) {
          if (saves && i == terms.size() - state.addsAfterSave)
            storeSavedRow(placeOfSave(*state.save, currentRow), row, block, next);
          Value factor =
              rows.decays ? load(rows.numReads + i) : operand(rowSteps[i], rowVectors[i]);
          next = b.fma(factor, term, next);
        }
        if (saves && state.addsAfterSave == 0)
          storeSavedRow(placeOfSave(*state.save, currentRow), row, block, next);
        b.storeLanes(next, place);
        return sums;
      };
      unsigned together = sideReads.empty() ? 1 : rowsOfSidePass(sideReads.size());
      auto body = [&](Value row, ValueRange partial) {
        SmallVector<Value> sums(partial);
        SmallVector<SmallVector<Value>> products(together);
        for (unsigned i = 0; i < together; ++i)
          sums = ofRow(b.add(row, i), sums, products[i]);
        if (!sideReads.empty())
          addSideRows(sideReads, row, inFirst, products);
        return sums;
      };
      // One state's pass asks for all that the block's steps take.
      if (number == 0)
        return overRowsPrefetching(block, firstStep, count, together, zeros, body);
      return b.loop(b.i64(0), b.i64(steps.rows), together, zeros, body);
    };
    SmallVector<Value> sums;
    if (!state.save) {
      sums = pass(/*saves=*/false);
    } else {
      SmallVector<Type> types(reads.size(), CpuBuilder::withCount(b.getF32Type(), plan.width));
      enter(count - 1);
      auto branch = b.make<scf::IfOp>(types, leavesChunk(currentRow), /*withElseRegion=*/true);
      for (bool saves : {true, false}) {
        OpBuilder::InsertionGuard guard(b);
        b.setInsertionPointToStart(saves ? branch.thenBlock() : branch.elseBlock());
        SmallVector<Value> results = pass(saves);
        if (saves)
          finishSave(placeOfSave(*state.save, currentRow), block);
        if (!types.empty())
          b.make<scf::YieldOp>(results);
      }
      sums.assign(branch.getResults().begin(), branch.getResults().end());
    }

    unsigned dot = 0;
    for (auto [read, sum] : llvm::zip(reads, sums)) {
      Value result = read.factor ? b.mulF(sum, read.factor) : sum;
      for (Value term : read.terms) {
        Value number = b.loadLanes(
            b.getF32Type(), floatAt(rows.dots, b.add(b.mul(timeBlock, rows.numDots), dot++)));
        result = b.fma(b.splat(number, plan.width), term, result);
      }
      columns[read.t].known[read.op.getResult()] = result;
    }
  }

  // What follows from the reads, step by step.
  SmallVector<Value> carried = loadCarried(block);
  for (unsigned t = 0; t < count; ++t) {
    enter(t);
    carried = finishStep(block, columns[t], carried, isLeader);
    checkpointSums.clear(); // no later step of the block enters a saved state's chunk
  }
  storeCarried(block, carried);
}
