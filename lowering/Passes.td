//===- Passes.td - from a scan down to PTX ----------------------*- tablegen -*-===//
#ifndef EJK_LOWERING_PASSES_TD
#define EJK_LOWERING_PASSES_TD

include "mlir/Pass/PassBase.td"

def LowerToGPU : Pass<"ejk-lower-to-gpu", "::mlir::ModuleOp"> {
  let summary = "scans to kernels, functions to launches";
  let description = [{
    Gives each `ejk.scan` a kernel under the step-by-step schedule, each laid-out
    `tile.program` one of tensor cores, and each `linalg.generic` a plain one, and turns the function around them into a
    program of `gpu.launch_func`s over buffers: inputs and results are memref
    arguments, results behind inputs; what passes between kernels is
    `memref.alloc`. Sizes are `memref.dim`s of the arguments. What
    `ejk-describe-interface` wrote moves along, for a package's manifest. Where
    T is dynamic and sequences are not packed, a scan gets two kernels, one for
    a single step and one for any number; T gives one of them an empty grid.

    Rows that a ring's stages hold all threads copy; or, from sm_90a on, one lane orders boxes
    of them by tensor maps, which are arguments of the kernel and `nvgpu.tma.create.descriptor`s
    of the program, where threads read half of the tiles into registers themselves or more, and
    all rings' tiles are of 16-bit rows in panels. Where a packed sequence ends within a stage's
    rows, threads copy those.

    Sums are split over lanes and rounded in f32 in that order, the same for
    every batch, in another order by the single-step kernel; otherwise numbers do not change.

    Before:
    ```mlir
    func.func @f(%q: tensor<?x?x?x64xbf16>, …) -> tensor<?x?x?x64xbf16> {
      %o, %ht = ejk.scan sequences(%qt = %q : …) …
      return %o : tensor<?x?x?x64xbf16>
    }
    ```
    After:
    ```mlir
    gpu.module @kernels { gpu.func @f_scan0(…) kernel { … } }
    func.func @f(%q: memref<?x?x?x64xbf16> {ejk.name = "q", ejk.shape = ["B", "T", "H", "64"]}, …,
                 %o: memref<?x?x?x64xbf16> {…}) attributes {ejk.num_inputs = 3 : i64} {
      gpu.launch_func @kernels::@f_scan0 blocks in (%grid, %c1, %c1) …
      return
    }
    ```
  }];
  let options = [Option<"arch", "arch", "std::string", "\"sm_90\"",
                        "the architecture, whose shared memory block programs must fit">];
  let dependentDialects = [
    "::mlir::arith::ArithDialect", "::mlir::gpu::GPUDialect", "::mlir::LLVM::LLVMDialect",
    "::mlir::math::MathDialect", "::mlir::memref::MemRefDialect", "::mlir::nvgpu::NVGPUDialect",
    "::mlir::NVVM::NVVMDialect",
    "::mlir::scf::SCFDialect"];
  let statistics = [Statistic<"numScans", "scan-kernels", "kernels made for scans">,
                    Statistic<"numBlocks", "block-kernels", "kernels made for block programs">,
                    Statistic<"numPlain", "plain-kernels", "kernels made for linalg ops">];
}

def ChunkToFit : Pass<"ejk-chunk-to-fit", "::mlir::ModuleOp"> {
  let summary = "scans to block programs, where their kernels fit";
  let description = [{
    Turns scans into block programs as `ejk-chunk` does, after `ejk-sum-early`,
    `ejk-include-own` and `ejk-narrow-saves`, with the longest chunks of 64, 32 or 16 steps
    whose kernel a thread block of `arch` has the shared memory for; the lowering itself
    says what a kernel needs. Where gates of keys and of values leave each other half of a
    product's range (`passes/ChunkedState.h`) they have at most 32 steps, over which that
    suffices for ordinary gates, of two nats a step. Scans that share
    saved states get chunks of one length, each of which saves its own, if they were to be
    saved for 64 rows or fewer, and, with `fuse`, become one loop (`ejk-fuse-programs`,
    `ejk-merge-choices`, `ejk-scale-late`) where that fits with chunks of 64. Where none
    fits, or `ejk-chunk` leaves a scan alone, it stays as it was, and a remark says why.

    With `save-states`, where such a program of f_vjp is left with nothing to do but save a
    state that f goes through as well, it makes f_fwd: f with one result more, `saved0`, that
    state as each chunk is entered with it, which f_vjp takes behind its other arguments. Of
    several recurrences there may be several, and remarks say where there is none.

    `schedule` says which: no scan (`step`), all (`chunk`), or those of 64 rows or more, or
    of a number that only a call knows (`automatic`). Where that may be one row, as in
    decoding, the scan stays beside the program for it (`tile.choose`), unless it
    shares saved states, as the scans of derivatives do.
  }];
  let options = [
    Option<"arch", "arch", "std::string", "\"sm_90\"", "the architecture to fit into">,
    Option<"schedule", "schedule", "::ejk::Schedule", "::ejk::Schedule::chunk",
           "which scans become block programs", [{::llvm::cl::values(
             clEnumValN(::ejk::Schedule::step, "step", "none"),
             clEnumValN(::ejk::Schedule::chunk, "chunk", "all that have a chunkwise form"),
             clEnumValN(::ejk::Schedule::automatic, "auto", "those of many rows"))}]>,
    Option<"fuse", "fuse", "bool", "true",
           "one walk for all gradients where it fits">,
    Option<"saveStates", "save-states", "bool", "false",
           "have f_fwd give the states that f_vjp else walks all steps for">];
  let dependentDialects = [
    "::ejk::tile::TileDialect", "::mlir::arith::ArithDialect", "::mlir::gpu::GPUDialect",
    "::mlir::LLVM::LLVMDialect", "::mlir::math::MathDialect", "::mlir::NVVM::NVVMDialect",
    "::mlir::scf::SCFDialect", "::mlir::vector::VectorDialect"];
  let statistics = [Statistic<"numChunked", "chunked", "scans turned into block programs">,
                    Statistic<"numShorter", "shorter", "of them with chunks of less than 64">,
                    Statistic<"numFused", "fused", "pairs of them fused">,
                    Statistic<"numForwards", "forwards", "functions that save states for another">,
                    Statistic<"numDeclined", "declined", "scans left as they are">];
}

def CellsByRows : Pass<"ejk-cells-by-rows"> {
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

def TakeRowsEarly : Pass<"ejk-take-rows-early"> {
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

def SplitFactors : Pass<"ejk-split-factors"> {
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

def NarrowHeld : Pass<"ejk-narrow-held"> {
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

def AssignTileLayouts : Pass<"ejk-assign-tile-layouts"> {
  let summary = "how each tile of a block program lies over the threads";
  let description = [{
    Chooses the warps that work on a `tile.program`, four or, for tiles of more than
    64×64 numbers, eight, and gives each tile a layout, on the op that makes it:
    loaded rows and operands of products are in shared memory, other matrices in
    fragments of `mma.sync` divided over the warps as their sizes ask for, vectors
    over a warp's lanes, and what is one number in all elements is uniform. Where
    an op needs another layout than its operand has, a `tile.convert` says so;
    statistics count them. Numbers do not change.

    With `arch` sm_90a, products are laid out for groups of four warps (`wgmma`): rows
    of 16 bits lie in panels, and each matrix, or its transpose, over warps below each
    other, whichever way lets the fewest bytes pass through shared memory. So a state
    is kept transposed where its rounded accumulators, still in registers, are the left
    factor of the transposed product that reads it; so are rows whose running sums are taken of
    numbers in registers, for these are the left factor of a product with a triangle then, and
    those that vectors are taken of, which then need not pass from warp to warp. A
    left factor that some other product takes from shared memory comes from there, too. Vectors
    that are sums, or rows, of matrices of which each warp has whole rows as they are stored
    lie as those do (`rows`), sums where they are spread along such rows again: none of that goes
    through shared memory. Other vectors that are made before a branch and used in it wait
    there: `tile.spread` reads them there.

    A matrix that a loop makes row by row, with `vector.insert` alone, has one place in shared
    memory, where the loop starts it. On the other side of a branch, which is taken where the
    first cannot be, a left factor comes from shared memory, too. Both are by choice: that side's
    registers would be missing on the first (see `ejk-stage-to-fit`).

    Before:
    ```mlir
    %q = tile.load %qr[%first, %c0] : !tile.rows<vector<64xbf16>> -> vector<64x64xbf16>
    %f = arith.extf %q : vector<64x64xbf16> to vector<64x64xf32>
    ```
    After:
    ```mlir
    %q = tile.load %qr[%first, %c0] {tile.layouts = [#tile.layout<shared>]} : …
    %a = tile.convert %q to <fragments over 2 by 2> : vector<64x64xbf16>
    %f = arith.extf %a {tile.layouts = [#tile.layout<fragments over 2 by 2>]} : …
    ```
  }];
  let options = [Option<"arch", "arch", "std::string", "\"sm_90\"", "the architecture">];
  let dependentDialects = ["::ejk::tile::TileDialect"];
  let statistics = [
    Statistic<"toShared", "to-shared", "conversions to shared memory">,
    Statistic<"toFragments", "to-fragments", "conversions to fragments">,
    Statistic<"toLanes", "to-lanes", "conversions to vectors over lanes">];
}

def ScheduleProducts : Pass<"ejk-schedule-products"> {
  let summary = "products early, and other work while they are taken";
  let description = [{
    A product by groups of four warps goes on while the warps do other work, until its
    result is first used. In programs laid out for them this orders each block's ops so
    that a product is issued as soon as its factors are there, and that what follows
    waits as little as it can: in program order, but for ops that would wait, for a
    product or at a barrier for what other warps wrote, while others would not. What
    each op costs is an estimate.

    Registers are scarce meanwhile. A product that needs accumulators of its own waits where an
    estimate of those in use leaves it none, the more products there are, each with its
    addresses, the sooner; what else uses accumulators that a product goes on with comes
    before it, if it can. In a branch, what is made of the tiles that a loop starts from, or
    of an earlier loop's results, comes before the loop, stores included. A branch's range
    check comes last in front of it: its barrier then serves what is stored there, too. In
    the end, tiles that are read from shared memory, widened or spread into registers are so
    where they are used, in branches too, and once more behind a product; what was stored
    there as a factor is read again; what only a sum needs is made in front of it; rows of a
    tile are taken where the tile is made; on the other side of a branch, what is made of such
    tiles, and of what is there anyway, is made for each use. In a loop's body, what comes of vectors alone and
    only goes to memory or to the next iteration comes behind the last product. Numbers do
    not change.

    Before:
    ```mlir
    %Sb = arith.truncf %S …
    %o1 = tile.dot %q, %Sb, %zero …
    %o2 = arith.mulf %o1, %e …
    %p = tile.dot %q, %k transposed, %zero …
    %p1 = arith.mulf %p, %decay …
    ```
    After: `%p`, `%Sb`, `%o1`, `%p1`, `%o2`: while the first product is taken, the state is
    rounded, and while the second one is, the first one's result is worked on.
  }];
  let dependentDialects = ["::ejk::tile::TileDialect"];
  let statistics = [Statistic<"numMoved", "moved", "ops that no longer stand in their order">];
}

def StageTileLoads : Pass<"ejk-stage-tile-loads"> {
  let summary = "rows copied ahead of the loop that reads them";
  let description = [{
    Loads of a block program's loop over chunks, whose rows follow from its counter alone,
    become copies through a ring of `stages` stages, started `stages`-1 iterations ahead.
    One item has all that one iteration loads, so that it waits once. With one stage, the
    next iteration's copies start where this one's tiles are used for the last time; so do
    those of cells, which have a ring of one stage for themselves. Where that is in a branch, both
    sides start them: the one that is taken when products are behind its own last use, which of
    a product is where it is awaited, or at once. With one stage for all, rows that only a branch
    uses share that one: an iteration waits for the others first, and for these at the branch; with
    `apart` they have one of `stages` stages for themselves. Iterations that do not come are copied
    and not used. Other loads, and what a branch gives as it was loaded, stay, and a remark says
    why. Numbers do not change.

    Before:
    ```mlir
    scf.for %c = %c0 to %n step %c1 {
      %first = arith.muli %c, %c64 : index
      %q = tile.load %qr[%first, %c0] : !tile.rows<vector<64xbf16>> -> vector<64x64xbf16>
      ...
    }
    ```
    After, with `stages=2`:
    ```mlir
    %ring = tile.make_ring : !tile.ring<2 of vector<64x64xbf16>>
    tile.acquire %ring[%c0] : …
    tile.fill %ring[%c0] from (%qr) at (%c0) channels (%c0) : …
    scf.for %c = %c0 to %n step %c1 {
      %q = tile.take %ring[%c] : !tile.ring<2 of vector<64x64xbf16>> -> vector<64x64xbf16>
      %next = arith.addi %c, %c1 : index
      %first = arith.muli %next, %c64 : index
      tile.acquire %ring[%next] : …
      tile.fill %ring[%next] from (%qr) at (%first) channels (%c0) : …
      ...
      tile.release %ring[%c] : …
    }
    ```
  }];
  let options = [Option<"stages", "stages", "int64_t", "2", "the stages of a ring">,
                 Option<"apart", "apart", "bool", "false",
                        "a ring of its own for what only branches use">];
  let dependentDialects = ["::ejk::tile::TileDialect", "::mlir::arith::ArithDialect"];
  let statistics = [Statistic<"numRings", "rings", "loops that copy ahead">,
                    Statistic<"numStaged", "staged", "loads that became copies ahead">,
                    Statistic<"numDeclined", "declined", "loads of such loops left as they are">];
}

def CarryDecays : Pass<"ejk-carry-decays"> {
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

def RotateProducts : Pass<"ejk-rotate-products"> {
  let summary = "the next iteration's first products behind this one's last";
  let description = [{
    Of a block program's loop over chunks that takes items of a ring of three stages or more:
    products of an item's tiles alone, as Q Kᵀ, are issued in the iteration before, behind its
    last products, and carried by the loop; before it, those of the first item are. The next
    item is taken in front of the iteration's last products; in its own iteration it is held.
    Copies start behind the products. Those of the item behind the last one are of zeros, and
    not used. Numbers do not change.

    Before:
    ```mlir
    %end = scf.for %c = %c0 to %n step %c1 iter_args(%s = %start) -> (vector<64x64xf32>) {
      %q, %k = tile.take %ring[%c] : …
      %two_ahead = arith.addi %c, %c2 : index
      tile.acquire %ring[%two_ahead] : …
      tile.fill %ring[%two_ahead] from (…) at (…) channels (…) : …
      %p = tile.dot %q, %k transposed, %zeros : …
      …
      %next = tile.dot %k transposed, %v, %s : …
      tile.release %ring[%c] : …
      scf.yield %next : vector<64x64xf32>
    }
    ```
    After:
    ```mlir
    %q0, %k0 = tile.take %ring[%c0] : …
    %p0 = tile.dot %q0, %k0 transposed, %zeros : …
    %end:2 = scf.for %c = %c0 to %n step %c1 iter_args(%s = %start, %p = %p0) -> (…) {
      %q, %k = tile.take held %ring[%c] : …
      …
      %one_ahead = arith.addi %c, %c1 : index
      %q1, %k1 = tile.take %ring[%one_ahead] : …
      %next = tile.dot %k transposed, %v, %s : …
      %p1 = tile.dot %q1, %k1 transposed, %zeros : …
      tile.acquire %ring[%two_ahead] : …
      tile.fill %ring[%two_ahead] from (…) at (…) channels (…) : …
      tile.release %ring[%c] : …
      scf.yield %next, %p1 : vector<64x64xf32>, vector<64x64xf32>
    }
    ```
  }];
  let dependentDialects = ["::ejk::tile::TileDialect", "::mlir::arith::ArithDialect"];
  let statistics = [Statistic<"numRotated", "rotated", "products issued an iteration early">];
}

def PrepareAhead : Pass<"ejk-prepare-ahead"> {
  let summary = "what a branch takes of the next item, made in this one's";
  let description = [{
    Of a laid-out block program's loop over chunks that chooses by a `tile.within` of what it
    takes of a ring of two stages, with at least one product on the first side: all that an
    iteration makes of its item in front of the branch, such as factors scaled by their gates,
    the check itself and vectors, is made an iteration early, on both sides of the branch; what
    others use of it the loop carries. On the first side running sums, which are products, go in
    front of the branch's last products, and the rest behind them, so that threads work while
    tensor cores do. That side has no need of the item, and hands its stage on behind its first ones;
    the other one does at its end. What only the branch takes must have a ring of its own
    (`ejk-stage-tile-loads=apart`). What lies in shared memory is carried in one place; where
    memory suffices, the kernel has two by turns for what a block's last product reads. Of the
    item behind the last one, factors are made of zeros, and not used. Numbers do not change.

    The first side begins with the products that all is there for. A thread waits until the tensor
    cores begin its last product, so what becomes of those in shared memory, for others, goes there
    before the next ones are taken: threads then wait for one another while these are. What the loop
    stores of what it carries is stored on both sides, on the first one behind that same barrier.

    Before:
    ```mlir
    %end = scf.for %c = %c0 to %n step %c1 iter_args(%s = %start) -> (vector<64x64xf32>) {
      %k, %g = tile.take %ring[%c] : …
      …
      tile.fill %ring[%one_ahead] from (…) at (…) channels (…) : …
      %sums = tile.cumsum %g from 32 : vector<64x64xf32>
      …
      %factor = tile.convert %scaled to <panels> : vector<64x64xbf16>
      %ordinary = tile.within 64.0 of %sums : vector<64x64xf32>
      %next = scf.if %ordinary -> (vector<64x64xf32>) {
        %p = tile.dot %factor, … : …
        %t = tile.dot %factor transposed, %v, … : …
        scf.yield %t : vector<64x64xf32>
      } else { … }
      tile.release %ring[%c] : …
      scf.yield %next : vector<64x64xf32>
    }
    ```
    After:
    ```mlir
    %sums0 = …
    %factor0 = tile.convert %scaled0 to <panels> : vector<64x64xbf16>
    %ordinary0 = tile.within 64.0 of %sums0 : vector<64x64xf32>
    %end:3 = scf.for %c = %c0 to %n step %c1
        iter_args(%s = %start, %factor = %factor0, %ordinary = %ordinary0) -> (…) {
      %next:3 = scf.if %ordinary -> (vector<64x64xf32>, vector<64x64xbf16>, i1) {
        %p = tile.dot %factor, … : …
        tile.release %ring[%c] : …
        tile.fill %ring[%two_ahead] from (…) at (…) channels (…) : …
        %k1, %g1 = tile.take %ring[%one_ahead] : …
        %sums1 = tile.cumsum %g1 from 32 : vector<64x64xf32>
        %t = tile.dot %factor transposed, %v, … : …
        …
        %factor1 = tile.convert %scaled1 to <panels> : vector<64x64xbf16>
        %ordinary1 = tile.within 64.0 of %sums1 : vector<64x64xf32>
        scf.yield %t, %factor1, %ordinary1 : …
      } else { … }
      scf.yield %next#0, %next#1, %next#2 : …
    }
    ```
  }];
  let dependentDialects = ["::ejk::tile::TileDialect", "::mlir::arith::ArithDialect",
                           "::mlir::scf::SCFDialect"];
  let statistics = [Statistic<"numPrepared", "prepared", "loops that prepare an item ahead">];
}

def StageToFit : Pass<"ejk-stage-to-fit"> {
  let summary = "rows copied as far ahead as a thread block holds them";
  let description = [{
    As `ejk-stage-tile-loads`, of each laid-out block program that has no rings, with
    three stages or, where a thread block of `arch` has not the shared memory for its kernel
    then, with two or one; the lowering itself says what a kernel needs. Where one is too
    much as well, loads stay as they are. Where products are taken by groups of warps, with
    two stages and `ejk-prepare-ahead`, if all rows come in boxes then (lowering/TileBoxes.cpp),
    or four and `ejk-rotate-products`, if that changes something and there is room. Numbers do
    not change.

    Tiles that lie in shared memory by choice (`ejk-assign-tile-layouts`) are in registers where
    there is no room for them beside these stages: one after the other, the one without which
    the kernel needs least.

    Before and after: see `ejk-stage-tile-loads`, `ejk-prepare-ahead`, `ejk-rotate-products`.
  }];
  let options = [
    Option<"arch", "arch", "std::string", "\"sm_90\"", "the architecture to fit into">];
  let dependentDialects = [
    "::ejk::tile::TileDialect", "::mlir::arith::ArithDialect", "::mlir::gpu::GPUDialect",
    "::mlir::LLVM::LLVMDialect", "::mlir::math::MathDialect", "::mlir::NVVM::NVVMDialect",
    "::mlir::scf::SCFDialect", "::mlir::vector::VectorDialect"];
  let statistics = [Statistic<"numAhead", "ahead", "programs that copy ahead">,
                    Statistic<"numSingle", "single", "programs of a single stage">,
                    Statistic<"numDeclined", "declined", "programs whose loads stay">];
}

def ShareExponentials : Pass<"ejk-share-exponentials"> {
  let summary = "a third of e^x and e^-x by multiply-adds";
  let description = [{
    A multiprocessor gives 16 exponentials a cycle, and scaling a chunk's rows by their gates takes
    two for each element: a quarter of a chunk's time for gates of keys. In a laid-out program for
    `wgmma`, where e^x and e^-x of one matrix of f32 are both taken behind a product of their block,
    whose latency leaves the arithmetic units free, one of three of a thread's elements is marked to
    be evaluated there: 2^n · 2^f, with an even and an odd polynomial of f that both signs share.
    Numbers change by 4.1e-6 of themselves at most.

    That holds for |x| ≤ 87. So a `tile.within` of x by that or less must stand behind all uses:
    what is made of either is used on the first side of branches by it alone, or of what loops and
    branches yield it as.

    Before:
    ```mlir
    %p = tile.dot %q, %k transposed, %zero : …
    %e = math.exp %x {tile.layouts = [#tile.layout<fragments over 4 by 1>]} : vector<64x64xf32>
    %n = arith.negf %x {tile.layouts = [#tile.layout<fragments over 4 by 1>]} : vector<64x64xf32>
    %i = math.exp %n {tile.layouts = [#tile.layout<fragments over 4 by 1>]} : vector<64x64xf32>
    %weak = tile.within 64.0 of %x : vector<64x64xf32>
    %s = scf.if %weak -> (vector<64x64xf32>) { … %e … %i … } else { … }
    ```
    After, both `math.exp`: `{tile.layouts = […], tile.polynomial = 3 : i64}`.
  }];
  let statistics = [Statistic<"numShared", "shared", "pairs of e^x and e^-x">];
}

def SeparateTileRoles : Pass<"ejk-separate-tile-roles"> {
  let summary = "warps that copy, and warps that compute";
  let description = [{
    Divides a block program with rings in two roles: a producer that fills the rings, of
    `producer-warps` warps, and a consumer that does everything else. The producer gets the
    loops around the fills, and the numbers that they need. Where it would need what is
    computed of tiles, or a fill stands on one side of a branch and not on the other, the
    program stays as it is, and a remark says why. For an `arch` as sm_90a, where a block
    of so many warps leaves each thread too few registers, the consumer's threads get more
    and the producer's fewer. Numbers do not change.

    Before: what `ejk-stage-tile-loads` makes.

    After:
    ```mlir
    %ring = tile.make_ring : !tile.ring<2 of vector<64x64xbf16>>
    tile.roles {
      tile.role "consumer" warps 4 {
        scf.for %c = %c0 to %n step %c1 {
          %q = tile.take %ring[%c] : !tile.ring<2 of vector<64x64xbf16>> -> vector<64x64xbf16>
          ...
          tile.release %ring[%c] : …
        }
      }
      tile.role "producer" warps 4 {
        tile.acquire %ring[%c0] : …
        tile.fill %ring[%c0] from (%qr) at (%c0) channels (%c0) : …
        scf.for %c = %c0 to %n step %c1 {
          %next = arith.addi %c, %c1 : index
          %first = arith.muli %next, %c64 : index
          tile.acquire %ring[%next] : …
          tile.fill %ring[%next] from (%qr) at (%first) channels (%c0) : …
        }
      }
    }
    ```
  }];
  let options = [Option<"producerWarps", "producer-warps", "int64_t", "4",
                        "the warps that copy">,
                 Option<"arch", "arch", "std::string", "\"sm_90\"", "the architecture">];
  let dependentDialects = ["::ejk::tile::TileDialect", "::mlir::scf::SCFDialect"];
  let statistics = [Statistic<"numSeparated", "separated", "programs divided">,
                    Statistic<"numDeclined", "declined", "programs with rings left as they are">];
}

def LegalizeKernelMath : Pass<"ejk-legalize-kernel-math", "::mlir::gpu::GPUModuleOp"> {
  let summary = "math in kernels without a device library";
  let description = [{
    Expands what `math` has no instruction for into upstream's f32 polynomial
    approximations (a few ulp), and rewrites f16 and bf16 arithmetic to f32
    arithmetic between widening and rounding, so that a kernel needs no
    libdevice. What is one instruction becomes LLVM's intrinsic.

    Before:
    ```mlir
    %e = math.tanh %x : vector<4xf32>
    ```
    After: clamps, multiplies and adds of `arith` and `math.fma` on vector<4xf32>.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::LLVM::LLVMDialect",
                           "::mlir::math::MathDialect", "::mlir::vector::VectorDialect"];
}

#endif // EJK_LOWERING_PASSES_TD
