//===- ProgramPasses.td - what block programs do, and where -*- tablegen -*-===//
#ifndef EJK_PASSES_PROGRAM_PROGRAMPASSES_TD
#define EJK_PASSES_PROGRAM_PROGRAMPASSES_TD

include "mlir/Pass/PassBase.td"

def LoadStatesByRows : Pass<"ejk-load-states-by-rows"> {
  let summary = "matrices in cells loaded and stored by rows";
  let description = [{
    Loads and stores of 16-bit matrices in cells, as saved states are, become loads and
    stores of a cell's rows: these pass through shared memory, whole lines at a time, and
    can be copied ahead. Numbers do not change.

    Before:
    ```mlir
    %S = tile.load_cell %saved[%c] at (%c0, %c0)
        : !tile.cells<vector<128x64xbf16>> -> vector<128x64xbf16>
    ```
    After:
    ```mlir
    %rows = tile.cell_rows %saved[%c]
        : !tile.cells<vector<128x64xbf16>> -> !tile.rows<vector<64xbf16>>
    %S = tile.load %rows[%c0, %c0] : !tile.rows<vector<64xbf16>> -> vector<128x64xbf16>
    ```
  }];
  let dependentDialects = ["::ejk::tile::TileDialect"];
  let statistics = [Statistic<"numLoads", "loads", "loads that go by rows">,
                    Statistic<"numStores", "stores", "stores that do">];
}

def SliceRowsEarly : Pass<"ejk-slice-rows-early"> {
  let summary = "one row's work, where one row of a tile is taken";
  let description = [{
    Where a row is taken of a tile that is made elementwise, of windows or of what is
    repeated, takes the row of what the tile is made of, and makes the row alone. In the
    end it is a row of loaded rows, which is read where it lies; a tile over threads
    would have to be kept, and pass through shared memory. Numbers do not change.

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
  let statistics = [Statistic<"numTaken", "taken", "rows made alone">];
}

def SinkIntoBranches : Pass<"ejk-sink-into-branches"> {
  let summary = "what follows a chunk's branch into both of its sides";
  let description = [{
    A block program asks whether a chunk's gates are too strong for products, and takes
    them or steps. What comes behind the branch, as scaling, rounding and storing what
    was read, is copied to the end of both sides: where products are taken, it can then
    stand before the last of them, which only the next chunk waits for. Numbers do not
    change.

    Before:
    ```mlir
    %r:2 = scf.if %weak -> (vector<64x64xf32>, vector<64x64xf32>) {
      %o = tile.dot …
      %S1 = tile.dot …
      scf.yield %S1, %o
    } else { … }
    tile.store %r#1, %rows[%first, %c0] …
    scf.yield %r#0
    ```
    After: the store stands in both sides, and only the state is a result.
  }];
  let dependentDialects = ["::mlir::scf::SCFDialect"];
  let statistics = [Statistic<"numSunk", "sunk", "ops copied into branches">];
}

def DeferStateScaling : Pass<"ejk-defer-state-scaling"> {
  let summary = "a chunk's last scaling of a state and the next one's first, in one";
  let description = [{
    Of a block program without layouts, in a loop over chunks whose state comes out of a
    branch on a `tile.within`: where the first side multiplies the state first by e^m, spread
    along a dimension, and last, behind a product, by e^v along the same one, and nothing
    else outside the other side uses it, the loop carries v beside the state, which is
    multiplied by e^(v + m) at once, if that is in f32's range: the check has |v + m| as well,
    scaled so that its bound stands for 86. The other side, and what follows the loop,
    multiply by e^v first. Programs that share saved states, and both read states, are left
    alone: what one of them takes by products the other should, too, for its rounding to cancel.

    Before:
    ```mlir
    %end = scf.for … iter_args(%s = %start) -> (vector<64x64xf32>) {
      %ordinary = tile.within 64.0 of %x : vector<64x64xf32>
      %next = scf.if %ordinary -> (vector<64x64xf32>) {
        %em = math.exp %m : vector<64xf32>
        %f = tile.spread %em along 0 : …
        %b = arith.mulf %s, %f : vector<64x64xf32>
        …
        %t = tile.dot %k transposed, %v, %b : …
        %ev = math.exp %rest : vector<64xf32>
        %g = tile.spread %ev along 0 : …
        %scaled = arith.mulf %t, %g : vector<64x64xf32>
        scf.yield %scaled : vector<64x64xf32>
      } else { … }
      scf.yield %next : vector<64x64xf32>
    }
    ```
    After:
    ```mlir
    %end:2 = scf.for … iter_args(%s = %start, %w = %zeros) -> (…) {
      %both = arith.addf %w, %m : vector<64xf32>
      %share = arith.mulf %both, %three_quarters : vector<64xf32>
      %ordinary = tile.within 64.0 of %x, %share : vector<64x64xf32>, vector<64xf32>
      %next:2 = scf.if %ordinary -> (vector<64x64xf32>, vector<64xf32>) {
        …
        %b = arith.mulf %s, %f : vector<64x64xf32>
        …
        %t = tile.dot %k transposed, %v, %b : …
        scf.yield %t, %rest : vector<64x64xf32>, vector<64xf32>
      } else { … }
      scf.yield %next#0, %next#1 : vector<64x64xf32>, vector<64xf32>
    }
    ```
  }];
  let dependentDialects = ["::ejk::tile::TileDialect", "::mlir::arith::ArithDialect",
                           "::mlir::math::MathDialect", "::mlir::scf::SCFDialect"];
  let statistics = [Statistic<"numCarried", "carried", "states scaled once a chunk">];
}

def HoistFromBranches : Pass<"ejk-hoist-from-branches"> {
  let summary = "operands of products before the branch that multiplies them";
  let description = [{
    A block program asks whether a chunk's gates are too strong for products. What the
    branch where they are not makes of the chunk's rows alone for its products, their
    rounded operands in the end, is moved in front: there it leaves the registers as soon
    as it is made, instead of waiting for the answer in more than one form. So are vectors
    that are spread over matrices, with what makes them of other vectors: their way to all
    threads has the barrier of the answer. Where that is no, it was in vain. Numbers do not
    change.

    Before:
    ```mlir
    %o = scf.if %weak -> (vector<64x64xf32>) {
      %e = math.exp %x : vector<64x64xf32>
      %eb = arith.truncf %e : vector<64x64xf32> to vector<64x64xbf16>
      %p = tile.dot %eb, %S, %zero : …
    ```
    After: `%e` and `%eb` stand before the `scf.if`.
  }];
  let statistics = [Statistic<"numHoisted", "hoisted", "ops moved">];
}

def ReuseScaledRows : Pass<"ejk-reuse-scaled-rows"> {
  let summary = "a row's own part from the copy of the row that products take";
  let description = [{
    A gradient has a part from later steps, by products in the basis of a chunk's middle
    row, and one from the step itself, from rows as they were loaded. Where the copy that
    products take of these is scaled by the inverse of what the first part is scaled by in
    the end, both parts are scaled together: the rows as they were loaded have no use in the
    branch any more, and the next chunk's may take their place. The copy is rounded, as it is
    in the products: it must be bf16, and the exponents ones that the range check of the
    branch bounds by 80 at most, for its scale to be in range.

    Before:
    ```mlir
    %kb = arith.truncf %ks : …  // %ks = %k · e^-%x
    scf.if %weak {
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
  let statistics = [Statistic<"numReused", "reused", "sums of rows' own parts">];
}

def TruncateLiveExponentials : Pass<"ejk-truncate-live-exponentials"> {
  let summary = "what a branch keeps of exponentials, in 16 bits";
  let description = [{
    Rows are scaled by e^x and e^-x before a chunk's branch, and in it what was read is scaled
    back. Of both a thread holds as many numbers as of a tile in registers meanwhile, and in a
    branch of more than six products these are short. Where two such exponentials or more are but
    multiplied, and all that comes of them rounded to bf16, they are held as bf16: a gradient has
    one rounding more then, of those that its factors had.

    Before:
    ```mlir
    %e = math.exp %x : vector<64x64xf32>
    scf.if %weak {
      %dk = arith.mulf %read, %e : vector<64x64xf32>
      %dkb = arith.truncf %dk : vector<64x64xf32> to vector<64x64xbf16>
    ```
    After:
    ```mlir
    %e = math.exp %x : vector<64x64xf32>
    %h = arith.truncf %e : vector<64x64xf32> to vector<64x64xbf16>
    scf.if %weak {
      %w = arith.extf %h : vector<64x64xbf16> to vector<64x64xf32>
      %dk = arith.mulf %read, %w : vector<64x64xf32>
      %dkb = arith.truncf %dk : vector<64x64xf32> to vector<64x64xbf16>
    ```
  }];
  let statistics = [Statistic<"numNarrowed", "narrowed", "exponentials that are held as bf16">];
}

def SplitOperands : Pass<"ejk-split-operands"> {
  let summary = "factors of few channels in two terms";
  let description = [{
    Tensor cores multiply what was rounded to 16 bits. Of many channels such errors average out; of
    few they do not, and a gate's gradient, which adds up all of a sequence's terms, may nearly
    cancel. In a block program whose rows and states have 32 channels or fewer, where products take
    next to no time, each factor that `arith.truncf` makes goes into its products twice: rounded, and
    what that has left out, rounded; of what is not finite, zero. Only the product of two such rests
    is missing. What else is computed of it is computed of what was rounded.

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
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::math::MathDialect"];
  let statistics = [Statistic<"numSplit", "split", "products with factors in two terms">];
}

#endif // EJK_PASSES_PROGRAM_PROGRAMPASSES_TD
