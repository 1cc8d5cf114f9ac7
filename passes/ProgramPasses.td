//===- ProgramPasses.td - what block programs do, and where -*- tablegen -*-===//
#ifndef EJK_PASSES_PROGRAM_PROGRAMPASSES_TD
#define EJK_PASSES_PROGRAM_PROGRAMPASSES_TD

include "mlir/Pass/PassBase.td"

def ExpandSolves : Pass<"ejk-expand-solves"> {
  let summary = "solve triangular systems by matmuls";
  let description = [{
    What: a `tile.solve` becomes a substitution by blocks of rows, 32 or 16. The blocks on the
    diagonal are inverted in f32: 8 rows by substitution, and 16 and 32 by merging pairs; a matrix of 16
    rows at once, and blocks of solves with an algorithm. For each block, matmuls of bf16 add what
    the solved rows give, and then multiply by the block's inverse; they compute the rows of that
    block alone. Why: a substitution of all rows is a chain of as many steps, and tensor cores take a block
    at a time. Results change by the rounding of matmuls' operands; what the identity multiplies is not
    rounded. Each operand has two bf16 terms, and each matmul becomes three: with nearly parallel
    keys one term made o twice as inexact. In the example a matmul stands for its three.
    Where the solve has an algorithm of its own (`in`), matmuls of f32 operands take that.

    Before:
    ```mlir
    %x = tile.solve %m, %b : vector<64x64xf32>, vector<64x128xf32>
    ```
    After, with roundings left out:
    ```mlir
    %l = tile.mask lower strict %m else 0.0 : vector<64x64xf32>
    %r = tile.invert_diagonal %l blocks 8 : vector<64x64xf32>
    %s = tile.merge_inverses %r blocks 8 : vector<64x64xf32>
    %a = tile.merge_inverses %s blocks 16 : vector<64x64xf32>
    %x1 = tile.dot %a, %b, %b over [0, 32] rows [0, 32] : …
    %x2 = tile.dot %a, %x1, %x1 over [0, 32] rows [32, 64] : …
    %x = tile.dot %a, %x2, %x2 over [32, 64] rows [32, 64] : …
    ```
  }];
  let dependentDialects = ["::ejk::tile::TileDialect", "::mlir::arith::ArithDialect",
                           "::mlir::math::MathDialect", "::mlir::vector::VectorDialect"];
  let statistics = [Statistic<"numExpanded", "expanded", "solves that became matmuls">];
}

def LoadStatesByRows : Pass<"ejk-load-states-by-rows"> {
  let summary = "load and store 16-bit states by rows";
  let description = [{
    What: loads and stores of 16-bit matrices in state slots, such as saved states, become loads and
    stores of the slot's rows. Why: rows pass through shared memory in whole cache lines and can be
    copied ahead. Results do not change.

    Before:
    ```mlir
    %S = tile.load_slot %saved[%c] at (%c0, %c0)
        : !tile.slots<vector<128x64xbf16>> -> vector<128x64xbf16>
    ```
    After:
    ```mlir
    %rows = tile.slot_rows %saved[%c]
        : !tile.slots<vector<128x64xbf16>> -> !tile.rows<vector<64xbf16>>
    %S = tile.load %rows[%c0, %c0] : !tile.rows<vector<64xbf16>> -> vector<128x64xbf16>
    ```
  }];
  let dependentDialects = ["::ejk::tile::TileDialect"];
  let statistics = [Statistic<"numLoads", "loads", "loads by rows">,
                    Statistic<"numStores", "stores", "stores by rows">];
}

def SliceRowsEarly : Pass<"ejk-slice-rows-early"> {
  let summary = "slice operands instead of a computed tile where one row is used";
  let description = [{
    What: where one row is extracted from a tile that is computed elementwise, or by windows or
    broadcasts, extracts the row from the operands and computes that row alone. Why: in the end this
    is a row of loaded rows, read from shared memory in place; a row of a tile in registers would
    have to pass through shared memory. Results do not change.

    Before:
    ```mlir
    %kf = arith.extf %k : vector<64x128xbf16> to vector<64x128xf32>
    %row = vector.extract %kf[%i] : vector<128xf32> from vector<64x128xf32>
    ```
    After:
    ```mlir
    %ki = vector.extract %k[%i] : vector<128xbf16> from vector<64x128xbf16>
    %row = arith.extf %ki : vector<128xbf16> to vector<128xf32>
    ```
  }];
  let dependentDialects = ["::ejk::tile::TileDialect", "::mlir::arith::ArithDialect",
                           "::mlir::vector::VectorDialect"];
  let statistics = [Statistic<"numTaken", "taken", "rows computed alone">];
}

def SinkIntoBranches : Pass<"ejk-sink-into-branches"> {
  let summary = "copy ops that follow a chunk's branch into both branches";
  let description = [{
    What: a program guards a chunk's fast path (matmuls) by the range of its gates and takes the
    exact path (steps) otherwise (`tile.guarded`). Ops that follow it, such as scaling, truncating
    and storing the outputs, are copied to the end of both branches. Why: on the fast path they can then
    precede the last matmul, which only the next chunk waits for. Results do not change.

    Before:
    ```mlir
    %r:2 = tile.guarded %weak -> (vector<64x64xf32>, vector<64x64xf32>) fast {
      %o = tile.dot …
      %S1 = tile.dot …
      tile.yield %S1, %o
    } exact { … }
    tile.store %r#1, %rows[%first, %c0] …
    scf.yield %r#0
    ```
    After: the store stands in both sides, and only the state is a result.
  }];
  let dependentDialects = ["::mlir::scf::SCFDialect"];
  let statistics = [Statistic<"numSunk", "sunk", "ops copied into branches">];
}

def DeferStateScaling : Pass<"ejk-defer-state-scaling"> {
  let summary = "merge a chunk's last scaling of a state with the next chunk's first";
  let description = [{
    What: in a program without layouts, a loop over chunks carries a state that comes out of a
    branch on a range guard (`tile.range_guard`). Where the fast path multiplies the state first by e^m,
    broadcast along a dimension, and last, after a matmul, by e^v along the same dimension, and
    nothing but the exact path uses the values between, the loop carries v beside the state, and the
    next chunk multiplies the state once by e^(v + m). The exact path, and uses after the loop,
    multiply by e^v first. Results change by one rounding less.

    Why: one pass less over the state's accumulators in each chunk.

    Requires: e^(v + m) in f32's range. The guard therefore also checks |v + m|, scaled so that its
    bound stands for 86. Programs that share saved states and both read states are left alone: where
    one of them uses matmuls the other must, too, so that their rounding errors cancel.

    Before:
    ```mlir
    %end = scf.for … iter_args(%s = %start) -> (vector<64x64xf32>) {
      %ordinary = tile.range_guard 64.0 of %x : vector<64x64xf32>
      %next = tile.guarded %ordinary -> (vector<64x64xf32>) fast {
        %em = math.exp %m : vector<64xf32>
        %f = tile.broadcast %em along 0 : …
        %b = arith.mulf %s, %f : vector<64x64xf32>
        …
        %t = tile.dot %k transposed, %v, %b : …
        %ev = math.exp %rest : vector<64xf32>
        %g = tile.broadcast %ev along 0 : …
        %scaled = arith.mulf %t, %g : vector<64x64xf32>
        tile.yield %scaled : vector<64x64xf32>
      } exact { … }
      scf.yield %next : vector<64x64xf32>
    }
    ```
    After:
    ```mlir
    %end:2 = scf.for … iter_args(%s = %start, %w = %zeros) -> (…) {
      %both = arith.addf %w, %m : vector<64xf32>
      %share = arith.mulf %both, %three_quarters : vector<64xf32>
      %ordinary = tile.range_guard 64.0 of %x, %share : vector<64x64xf32>, vector<64xf32>
      %next:2 = tile.guarded %ordinary -> (vector<64x64xf32>, vector<64xf32>) fast {
        …
        %b = arith.mulf %s, %f : vector<64x64xf32>
        …
        %t = tile.dot %k transposed, %v, %b : …
        tile.yield %t, %rest : vector<64x64xf32>, vector<64xf32>
      } exact { … }
      scf.yield %next#0, %next#1 : vector<64x64xf32>, vector<64xf32>
    }
    ```
  }];
  let dependentDialects = ["::ejk::tile::TileDialect", "::mlir::arith::ArithDialect",
                           "::mlir::math::MathDialect", "::mlir::scf::SCFDialect"];
  let statistics = [Statistic<"numCarried", "carried", "states scaled once a chunk">];
}

def HoistFromBranches : Pass<"ejk-hoist-from-branches"> {
  let summary = "compute operands of a branch's matmuls before the branch";
  let description = [{
    What: operands that the fast path makes from the chunk's rows alone, up to their truncation to
    16 bits, are computed before the branch; so are vectors that are broadcast over matrices, with
    what they are computed from. Why: a truncated operand leaves the registers at once instead of
    waiting for the guard in several forms; the vectors share the guard's barrier. If the guard
    fails, this work is unused. Results do not change.

    Before:
    ```mlir
    %o = tile.guarded %weak -> (vector<64x64xf32>) fast {
      %e = math.exp %x : vector<64x64xf32>
      %eb = arith.truncf %e : vector<64x64xf32> to vector<64x64xbf16>
      %p = tile.dot %eb, %S, %zero : …
    ```
    After: `%e` and `%eb` stand before the `tile.guarded`.
  }];
  let statistics = [Statistic<"numHoisted", "hoisted", "ops moved">];
}

def ReuseScaledRows : Pass<"ejk-reuse-scaled-rows"> {
  let summary = "compute a row's diagonal term from the scaled copy of the row";
  let description = [{
    What: a gradient has one term from other steps, by matmuls in the basis of the chunk's middle
    row, and a diagonal term from the step itself, which uses rows as they were loaded. Where the
    rows' copy that matmuls read is scaled by the inverse of the first term's final scale, both
    terms are added first and scaled together. Results change by the rounding of the copy.

    Why: the loaded rows are no longer used in the branch, and their stage can be refilled with the
    next chunk.

    Requires: the copy is bf16, and the branch's range guard bounds the exponents by 80, so that the
    scale is in range.

    Before:
    ```mlir
    %kb = arith.truncf %ks : …  // %ks = %k · e^-%x
    tile.guarded %weak fast {
      %a = arith.mulf %read, %e : vector<64x64xf32>  // %e = e^%x
      %b = arith.mulf %k, %s : vector<64x64xf32>
      %dq = arith.addf %a, %b : vector<64x64xf32>
    ```
    After:
    ```mlir
      %kw = arith.extf %kb : vector<64x64xbf16> to vector<64x64xf32>
      %b = arith.mulf %kw, %s : vector<64x64xf32>
      %c = arith.addf %read, %b : vector<64x64xf32>
      %dq = arith.mulf %c, %e : vector<64x64xf32>
    ```
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect"];
  let statistics = [Statistic<"numReused", "reused", "diagonal terms computed from scaled rows">];
}

def TruncateLiveExponentials : Pass<"ejk-truncate-live-exponentials"> {
  let summary = "keep exponentials that are live across a branch in bf16";
  let description = [{
    What: rows are scaled by e^x and e^-x before a chunk's branch, and results are scaled back
    inside it. Where such an exponential is only multiplied with in the branch, and every result is
    truncated to bf16, the exponential is kept in bf16. Why: in f32 it takes as many registers as its
    tile while it is live. Results change: a gradient has one bf16 rounding more, of the kind that its operands
    had. With gk at K = V = 64, dq's error grows from 2.5e-3 to 3.0e-3 of its norm. Programs that
    save states are left alone, since other programs start from these. Pipelines run the pass for every target,
    so that bits do not depend on it; their option `round-exponentials=false` leaves it out.

    Before:
    ```mlir
    %e = math.exp %x : vector<64x64xf32>
    tile.guarded %weak fast {
      %dk = arith.mulf %read, %e : vector<64x64xf32>
      %dkb = arith.truncf %dk : vector<64x64xf32> to vector<64x64xbf16>
    ```
    After:
    ```mlir
    %e = math.exp %x : vector<64x64xf32>
    %h = arith.truncf %e : vector<64x64xf32> to vector<64x64xbf16>
    tile.guarded %weak fast {
      %w = arith.extf %h : vector<64x64xbf16> to vector<64x64xf32>
      %dk = arith.mulf %read, %w : vector<64x64xf32>
      %dkb = arith.truncf %dk : vector<64x64xf32> to vector<64x64xbf16>
    ```
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect"];
  let statistics = [Statistic<"numNarrowed", "narrowed", "exponentials kept in bf16">];
}

def SplitOperands : Pass<"ejk-split-operands"> {
  let summary = "split operands of few channels into two bf16 terms";
  let description = [{
    What: in a program whose rows and states have 32 channels or fewer, each matmul operand that
    `arith.truncf` makes enters its matmuls as two 16-bit terms: the truncated value and the
    truncated remainder (zero where the value is not finite). The matmul of two remainders is left
    out. An operand that enters in two terms already is not split again. Other uses see the truncated value. Results change: most of the truncation error
    disappears. Where a gate is a number per head, states may have up to 128 channels along one of
    their axes (64 beside gates of channels), and 32 or fewer along the other. Only matmuls that a
    state or a sum is made of are split there, not those of rows that are stored. Where every gate
    is a number per head, states may also have more than 32 channels along both axes, and up to
    `two-term-states`. Only matmuls that read a state which a loop carries in f32, and of which a
    sum is made, are split there. In a function or a program with `ejk.two_terms`, states may have any number of
    channels, and all matmuls that a state or a sum is made of are split. Rows that are stored in
    f32 count as sums there, which another program makes.

    A program that `corrects` has every matmul split in a function with `ejk.two_terms`, and where
    its rows or states have 32 channels or fewer along either axis, whatever the other. What such a
    recurrence adds in one step it takes out in the next, so that small roundings are large beside
    what is left.

    Why: over many channels truncation errors average out; over few they do not, and a gate's
    gradient sums terms of a whole sequence that may nearly cancel. Matmuls with so narrow an axis
    take little time.

    Before:
    ```mlir
    %sb = arith.truncf %s : vector<16x16xf32> to vector<16x16xbf16>
    %o = tile.dot %q, %sb, %acc : vector<64x16xbf16>, vector<16x16xbf16>, vector<64x16xf32>
    ```
    After:
    ```mlir
    %sb = arith.truncf %s : vector<16x16xf32> to vector<16x16xbf16>
    %back = arith.extf %sb : vector<16x16xbf16> to vector<16x16xf32>
    %left = arith.subf %s, %back : vector<16x16xf32>
    %size = math.absf %left : vector<16x16xf32>
    %finite = arith.cmpf olt, %size, %inf : vector<16x16xf32>
    %all = arith.select %finite, %left, %zero : vector<16x16xi1>, vector<16x16xf32>
    %rest = arith.truncf %all : vector<16x16xf32> to vector<16x16xbf16>
    %o0 = tile.dot %q, %rest, %acc : vector<64x16xbf16>, vector<16x16xbf16>, vector<64x16xf32>
    %o = tile.dot %q, %sb, %o0 : vector<64x16xbf16>, vector<16x16xbf16>, vector<64x16xf32>
    ```
  }];
  let dependentDialects = [
    "::mlir::arith::ArithDialect", "::mlir::math::MathDialect", "::mlir::scf::SCFDialect",
    "::ejk::tile::TileDialect", "::mlir::vector::VectorDialect"];
  let options = [
    Option<"twoTermStates", "two-term-states", "int64_t", "64",
           "the most channels of a carried state that a gate's gradient reads in two terms">];
  let statistics = [Statistic<"numSplit", "split", "matmuls with split operands">];
}

def ScaleAfterDot : Pass<"ejk-scale-after-dot"> {
  let summary = "scale a matmul's result instead of a 16-bit operand";
  let description = [{
    What: where a saved 16-bit state is scaled along a dimension that the matmul's result has, too,
    scales the result instead. For matmuls that add to zero. Why: half as many elements to scale,
    the operand is not brought to registers, and nothing is rounded twice. Results change by that
    second rounding.

    Before:
    ```mlir
    %w = arith.extf %s : vector<128x128xbf16> to vector<128x128xf32>
    %f = tile.broadcast %x along 0 : vector<128xf32> -> vector<128x128xf32>
    %m = arith.mulf %w, %f : vector<128x128xf32>
    %r = arith.truncf %m : vector<128x128xf32> to vector<128x128xbf16>
    %d = tile.dot %o, %r transposed, %zero : …
    ```
    After:
    ```mlir
    %p = tile.dot %o, %s transposed, %zero : …
    %f = tile.broadcast %x along 1 : vector<128xf32> -> vector<64x128xf32>
    %d = arith.mulf %p, %f : vector<64x128xf32>
    ```
  }];
  let dependentDialects = ["::ejk::tile::TileDialect", "::mlir::arith::ArithDialect"];
  let statistics = [Statistic<"numScaled", "scaled", "matmuls whose result is scaled">];
}

def ReuseExponentials : Pass<"ejk-reuse-exponentials"> {
  let summary = "compute matrices of decays that differ by a constant factor once";
  let description = [{
    What: where a block computes two masked matrices of exponentials whose exponents differ by a constant,
    computes one, and multiplies it for the other. Where one of them leaves out the diagonal, it is masked,
    unless its products are. Why: a delta rule's chunk has the decays of its system and those of its
    outputs, and special functions take a quarter of the rate of multiplications. Results change by an f32
    rounding of what is multiplied.

    Before:
    ```mlir
    %sum = tile.broadcast %g along 0 : vector<64xf32> -> vector<64x64xf32>
    %x = arith.subf %sum, %from : vector<64x64xf32>
    %m = tile.mask lower strict %x else 0xFF800000 : vector<64x64xf32>
    %system = math.exp2 %m : vector<64x64xf32>
    %gs = arith.addf %g, %scale : vector<64xf32>
    %scaled = tile.broadcast %gs along 0 : vector<64xf32> -> vector<64x64xf32>
    %y = arith.subf %scaled, %from : vector<64x64xf32>
    %n = tile.mask lower %y else 0xFF800000 : vector<64x64xf32>
    %outputs = math.exp2 %n : vector<64x64xf32>
    ```
    After, where %system is masked later, and with 2^scale as %factor:
    ```mlir
    %sum = tile.broadcast %g along 0 : vector<64xf32> -> vector<64x64xf32>
    %x = arith.subf %sum, %from : vector<64x64xf32>
    %m = tile.mask lower %x else 0xFF800000 : vector<64x64xf32>
    %system = math.exp2 %m : vector<64x64xf32>
    %outputs = arith.mulf %system, %factor : vector<64x64xf32>
    ```
  }];
  let dependentDialects = ["::ejk::tile::TileDialect", "::mlir::arith::ArithDialect",
                           "::mlir::math::MathDialect"];
  let statistics = [Statistic<"numReused", "reused", "matrices of exponentials that are not computed">];
}

#endif // EJK_PASSES_PROGRAM_PROGRAMPASSES_TD
