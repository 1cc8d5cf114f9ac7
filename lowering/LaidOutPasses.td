//===- LaidOutPasses.td - layouts, order, stages and partitions --*- tablegen -*-===//
#ifndef EJK_LOWERING_LAIDOUTPASSES_TD
#define EJK_LOWERING_LAIDOUTPASSES_TD

include "mlir/Pass/PassBase.td"
include "lowering/MemoryPasses.td"

def MultiplyInTf32 : Pass<"ejk-multiply-in-tf32"> {
  let summary = "multiply operands of two bf16 terms by one matmul in tf32";
  let description = [{
    What: three matmuls of two operands in two 16-bit terms each become one of the f32 operands, rounded
    to tf32. Why: a matmul in tf32 takes the time of two, and its operands the memory of both terms, but
    none of the subtractions that split them. It has f32's exponents, so that no element is too small or
    too large for it. Results change: an operand's error is 2^-12 of each element where it was 2^-17.

    Requires: an architecture with `wgmma`, which takes operand A from registers and operand B from rows
    that lie along the sum. Products of other operands stay as they are, and so do those of programs
    that `ejk-split-operands` splits, whose few channels or heads need the smaller error, and of programs
    whose largest tile has 64×64 elements or fewer. Types and shapes decide alone.

    Before:
    ```mlir
    %x1 = arith.truncf %x : vector<64x64xf32> to vector<64x64xbf16>
    %wx = arith.extf %x1 : vector<64x64xbf16> to vector<64x64xf32>
    %rx = arith.subf %x, %wx : vector<64x64xf32>
    %x2 = arith.truncf %rx : vector<64x64xf32> to vector<64x64xbf16>
    …
    %a = tile.dot %x1, %y1, %acc : vector<64x64xbf16>, vector<64x128xbf16>, vector<64x128xf32>
    %b = tile.dot %x2, %y1, %a : vector<64x64xbf16>, vector<64x128xbf16>, vector<64x128xf32>
    %c = tile.dot %x1, %y2, %b : vector<64x64xbf16>, vector<64x128xbf16>, vector<64x128xf32>
    ```
    After:
    ```mlir
    %xr = tile.round_to_tf32 %x : vector<64x64xf32>
    %yr = tile.round_to_tf32 %y : vector<64x128xf32>
    %c = tile.dot %xr, %yr, %acc in tf32 : vector<64x64xf32>, vector<64x128xf32>, vector<64x128xf32>
    ```
  }];
  let dependentDialects = ["::ejk::tile::TileDialect"];
  let statistics = [Statistic<"numProducts", "products", "matmuls in tf32, for three of terms">];
}

def AssignTileLayouts : Pass<"ejk-assign-tile-layouts"> {
  let summary = "choose how each tile is distributed over threads or shared memory";
  let description = [{
    What: chooses the number of warps that work on a `tile.program` (four, or eight where a tile has
    more than 64×64 elements, or 32×64 in a long program of `mma.sync`) and attaches a layout to every op that makes a tile. Loaded rows and
    MMA operands are in shared memory. Other matrices are `mma.sync` fragments distributed over the
    warps. Vectors are distributed over a warp's lanes. A tile with the same value in all elements
    is uniform. Where an op needs another layout than its operand has, the pass inserts a
    `tile.convert`; statistics count these. Results do not change.

    With `arch` sm_90a, matmuls are laid out for warpgroups (`wgmma`). Rows are stored in
    128-byte-swizzled tiles: 16-bit ones `swizzled`, those of f32 that threads take as fragments or row
    by row `swizzled_words`. Each matrix, or its transpose, is distributed over the warps in the
    orientation that moves the fewest bytes through shared memory:

    - A state is kept transposed where its truncated accumulators can stay in registers as the A
      operand of the transposed matmul that reads it.
    - Rows with running sums are kept transposed where the sums are matmuls with a triangular
      matrix, so that the rows are the A operand in registers.
    - Matrices that vectors are reduced from are oriented so that a warp holds whole rows.
    - An A operand comes from shared memory if another matmul reads the same tile from there.

    A vector that is a sum or a row of a matrix takes the slice layout of that matrix (`rows`), so
    that reductions and broadcasts along the same rows stay in registers. Other vectors that are
    made before a branch and used in it are stored to shared memory; `tile.broadcast` reads them
    there.

    A matrix that a loop builds with `vector.insert` alone, row by row, has one buffer in shared
    memory. On the exact path, A operands come from shared memory. Both placements are optional
    (spilled to shared memory): they only save registers on the fast path, and `ejk-select-stages`
    withdraws them where shared memory is short.

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
  let options = [Option<"arch", "arch", "std::string", "\"sm_90\"", "the architecture">,
                 Option<"warps", "warps", "unsigned", "0",
                        "warps of a program of warpgroups; chosen if 0">,
                 Option<"vectorsFromShared", "vectors-from-shared", "bool", "false",
                        "broadcast vectors from shared memory where they lie there">];
  let dependentDialects = ["::ejk::tile::TileDialect"];
  let statistics = [
    Statistic<"toShared", "to-shared", "conversions to shared memory">,
    Statistic<"toFragments", "to-fragments", "conversions to fragments">,
    Statistic<"toLanes", "to-lanes", "conversions to vectors over lanes">];
}

def SelectWarps : Pass<"ejk-select-warps"> {
  let summary = "lay programs out for as many warps as their live tiles need";
  let description = [{
    What: runs `ejk-assign-tile-layouts` and `ejk-schedule-matmuls` on each `tile.program` without
    layouts. Where four warps were chosen, and the tiles that are then live at one time take more
    registers than a thread has, or than it has beside a tile of more than 64×64, it runs both once more, for eight warps. Why: a thread of
    eight warps holds half of each tile; what does not fit into registers is spilled to local
    memory. They also meet at more barriers, so four are faster where few registers are spilled.
    Results change only by the order in which reductions add. Only programs of warpgroups
    (sm_90a) are laid out twice.

    Before: a program without layouts.

    After, for a program that needs eight warps:
    ```mlir
    tile.program … attributes {tile.warpgroups, tile.warps = 8 : i64} {
      %p = tile.dot %q, %k transposed, %zero
          {tile.layouts = [#tile.layout<fragments over 4 by 2>]} : …
    ```
  }];
  let options = [Option<"arch", "arch", "std::string", "\"sm_90\"", "the architecture">];
  let dependentDialects = ["::ejk::tile::TileDialect"];
  let statistics = [Statistic<"numWidened", "widened", "programs of eight warps for four">];
}

def ScheduleMatmuls : Pass<"ejk-schedule-matmuls"> {
  let summary = "issue matmuls early and overlap them with other work";
  let description = [{
    What: orders the ops of each block in a laid-out program. A `wgmma` runs asynchronously until
    its result is used, so the pass issues each matmul as soon as its operands are available and
    delays ops that would wait: for a matmul, or at a barrier for data of other warps. Otherwise the
    order of the program is kept. Costs of ops are estimates. Results do not change.

    Why: latency of tensor cores, with the register file as the limit:

    - A matmul with accumulators of its own waits while an estimate of live accumulators leaves it
      no registers. The more matmuls there are, each with its addresses, the lower this limit.
    - An op that uses accumulators which a later matmul continues with precedes that matmul where
      possible.
    - In a branch, computation on a loop's initial tiles, or on results of an earlier loop, precedes
      the loop, stores included.
    - The range guard of a branch is placed last before the branch, so that its barrier also covers
      the stores before it.

    After the order is fixed, values are rematerialised or reloaded where that shortens live ranges:
    tiles that are loaded from shared memory, extended, or broadcast are recomputed at each use,
    also inside branches and after matmuls; operands that were stored to shared memory are loaded
    again; terms of a sum are computed directly before it; rows of a tile are extracted where the
    tile is made. On the exact path, everything computed from such tiles is recomputed for each use.
    In a loop body, vector computation that only feeds memory or the next iteration follows the last
    matmul.

    A program whose warps wait for their own matmuls (`mma.sync`) keeps its order, except for ops
    that end live ranges of more registers than they start: stores to memory, sums, and rounding
    move up past matmuls. An op whose result lies in shared memory does not move, since its range
    there would grow. Loads from shared memory and extensions are recomputed there, too. Where the
    tiles that are live at one time take more registers than a thread has, the program is put in
    order of demand: an op runs where a store, a branch or the next iteration needs its result, or
    earlier if it ends live ranges of as many registers as its result takes, and a tile that lies
    in shared memory for a matmul is loaded again for its other uses.

    Before:
    ```mlir
    %Sb = arith.truncf %S …
    %o1 = tile.dot %q, %Sb, %zero …
    %o2 = arith.mulf %o1, %e …
    %p = tile.dot %q, %k transposed, %zero …
    %p1 = arith.mulf %p, %decay …
    ```
    After: `%p`, `%Sb`, `%o1`, `%p1`, `%o2`: the state is rounded while the first matmul runs, and
    the first one's result is used while the second one runs.
  }];
  let dependentDialects = ["::ejk::tile::TileDialect"];
  let statistics = [Statistic<"numMoved", "moved", "ops moved from the program's order">];
}

def MultistageLoads : Pass<"ejk-multistage-loads"> {
  let summary = "copy rows to shared memory ahead of the loop iteration that uses them";
  let description = [{
    What: replaces loads in a program's loop over chunks, whose rows depend on the induction
    variable alone, by asynchronous copies through a ring buffer of `stages` stages (CUTLASS's
    pipeline). A copy starts `stages`-1 iterations ahead. One item of the ring holds all loads of an
    iteration, so that an iteration waits once. Results do not change.

    Why: hides the latency of global memory.

    With one stage, the copies of the next iteration start after the last use of this iteration's
    tiles. Those that are used no more once half of the matmuls are issued have a ring of their own,
    which is refilled then; an iteration waits for the others where it first uses one. State slots
    have a one-stage ring of their own, too. If the last use is in a branch, both sides start the copies: the fast path after its last matmul that
    reads the tiles has completed; the exact path at once. A reduction in registers counts as a use
    at the reduction.

    With one stage for everything, rows that only a branch uses share that stage: the iteration
    waits for the other rows first, and for these at the branch. With `apart`, they have a ring of
    `stages` stages of their own. Copies for iterations after the last one are made and unused.
    Other loads, and tiles that a branch yields as they were loaded, are left alone; a remark says
    why. Those of f32 rows ask the second-level cache for the rows of the next iteration (`ahead`).

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

def PipelineMatmuls : Pass<"ejk-pipeline-matmuls"> {
  let summary = "issue the next iteration's first matmuls in this iteration";
  let description = [{
    What: software-pipelines a program's loop over chunks whose ring has three stages or more.
    Matmuls that depend on the loaded item alone, such as Q Kᵀ, move to the previous iteration,
    after its last matmuls, and their results are carried by the loop. The prologue computes them
    for the first item. The next item is acquired before the last matmuls of the iteration; in its
    own iteration the item stays acquired (`held`). Copies start after the matmuls. Results do not
    change.

    Why: tensor cores stay busy while warps finish an iteration's elementwise work.

    Where rows arrive by TMA (lowering/emit/TileTma.cpp), the item is acquired after the iteration's
    own last matmuls, and TMA loads are issued before the matmuls of the next item. In the last
    iteration, the pipelined matmuls run on zeros and their result is unused.

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
  let statistics = [Statistic<"numRotated", "rotated", "matmuls issued an iteration early">];
}

def DeferStores : Pass<"ejk-defer-stores"> {
  let summary = "store an iteration's rows in the next iteration";
  let description = [{
    What: a store of rows from shared memory that follows the iteration's last matmul moves to the
    next iteration, after the first matmul that reads what that iteration itself has stored to
    shared memory. The stores of the last iteration follow the loop. The loop carries the tile and
    its first row; the first iteration gets a row index past the sequence's end, so that it stores
    nothing. Results do not change.

    Why: removes the barrier at the end of an iteration. The next iteration has a barrier anyway,
    after which the tile may be stored.

    Where the store is a TMA store (`cp.async.bulk.tensor`), the carried tile is double buffered,
    and so are MMA operands that an iteration stores: an iteration then has one barrier.

    Before:
    ```mlir
    %end = scf.for %c = %c0 to %n step %c1 iter_args(%s = %start) -> (vector<64x64xf32>) {
      …
      %p = tile.convert %decayed to <swizzled> : vector<64x64xbf16>
      %o = tile.dot %p, %v, %before : …
      %next = tile.dot %k transposed, %v, %s : …
      %rows = tile.convert %rounded to <swizzled> : vector<64x64xbf16>
      tile.store %rows, %out[%first, %c0] : vector<64x64xbf16>, !tile.rows<vector<64xbf16>>
      scf.yield %next : vector<64x64xf32>
    }
    ```
    After:
    ```mlir
    %nothing = tile.convert %zeros to <swizzled> : vector<64x64xbf16>
    %end:3 = scf.for %c = %c0 to %n step %c1
        iter_args(%s = %start, %last = %nothing, %at = %length) -> (…) {
      …
      %p = tile.convert %decayed to <swizzled> : vector<64x64xbf16>
      %o = tile.dot %p, %v, %before : …
      tile.store %last, %out[%at, %c0] : vector<64x64xbf16>, !tile.rows<vector<64xbf16>>
      %next = tile.dot %k transposed, %v, %s : …
      %rows = tile.convert %rounded to <swizzled> : vector<64x64xbf16>
      scf.yield %next, %rows, %first : vector<64x64xf32>, vector<64x64xbf16>, index
    }
    tile.store %end#1, %out[%end#2, %c0] : vector<64x64xbf16>, !tile.rows<vector<64xbf16>>
    ```
  }];
  let dependentDialects = ["::ejk::tile::TileDialect", "::mlir::arith::ArithDialect"];
  let statistics = [Statistic<"numDeferred", "deferred", "stores made in the next iteration">];
}

def PipelineBranchOperands : Pass<"ejk-pipeline-branch-operands"> {
  let summary = "compute a branch's operands one iteration early";
  let description = [{
    What: software-pipelines a laid-out program's loop over chunks that branches on a range guard
    (`tile.range_guard`) of an item of a two-stage ring, with a matmul on the fast path and no inverse of
    a system, which leaves no registers for the next operands. All
    that an iteration computes from its item before the branch (operands scaled by their gates, the
    guard itself, vectors) is computed one iteration early, in both branches, and carried by the
    loop. Results do not change.

    Why: on the fast path the elementwise work then overlaps with matmuls. Running sums, which are
    matmuls, are placed before the branch's last matmuls, the rest after them.

    The fast path does not need the item itself and releases its stage after its first matmul; the
    exact path releases it at the end. Tiles that only the branch reads must have a ring of their
    own (`ejk-multistage-loads=apart`). Carried tiles in shared memory have one buffer each; where
    shared memory suffices, the kernel double buffers those that a block's last matmul reads. In the
    last iteration, operands are made from zeros and unused.

    The fast path begins with the matmuls whose operands are complete. Results that other warps need
    are stored to shared memory before the next matmuls are issued, so that the barrier overlaps
    with those matmuls. Stores of carried values are made in both branches, on the fast path after
    that same barrier.

    Before:
    ```mlir
    %end = scf.for %c = %c0 to %n step %c1 iter_args(%s = %start) -> (vector<64x64xf32>) {
      %k, %g = tile.take %ring[%c] : …
      …
      tile.fill %ring[%one_ahead] from (…) at (…) channels (…) : …
      %sums = tile.cumsum %g from 32 : vector<64x64xf32>
      …
      %operand = tile.convert %scaled to <swizzled> : vector<64x64xbf16>
      %ordinary = tile.range_guard 64.0 of %sums : vector<64x64xf32>
      %next = tile.guarded %ordinary -> (vector<64x64xf32>) fast {
        %p = tile.dot %operand, … : …
        %t = tile.dot %operand transposed, %v, … : …
        tile.yield %t : vector<64x64xf32>
      } exact { … }
      tile.release %ring[%c] : …
      scf.yield %next : vector<64x64xf32>
    }
    ```
    After:
    ```mlir
    %sums0 = …
    %operand0 = tile.convert %scaled0 to <swizzled> : vector<64x64xbf16>
    %ordinary0 = tile.range_guard 64.0 of %sums0 : vector<64x64xf32>
    %end:3 = scf.for %c = %c0 to %n step %c1
        iter_args(%s = %start, %operand = %operand0, %ordinary = %ordinary0) -> (…) {
      %next:3 = tile.guarded %ordinary -> (vector<64x64xf32>, vector<64x64xbf16>, i1) fast {
        %p = tile.dot %operand, … : …
        tile.release %ring[%c] : …
        tile.fill %ring[%two_ahead] from (…) at (…) channels (…) : …
        %k1, %g1 = tile.take %ring[%one_ahead] : …
        %sums1 = tile.cumsum %g1 from 32 : vector<64x64xf32>
        %t = tile.dot %operand transposed, %v, … : …
        …
        %operand1 = tile.convert %scaled1 to <swizzled> : vector<64x64xbf16>
        %ordinary1 = tile.range_guard 64.0 of %sums1 : vector<64x64xf32>
        tile.yield %t, %operand1, %ordinary1 : …
      } exact { … }
      scf.yield %next#0, %next#1, %next#2 : …
    }
    ```
  }];
  let dependentDialects = ["::ejk::tile::TileDialect", "::mlir::arith::ArithDialect",
                           "::mlir::scf::SCFDialect"];
  let statistics = [Statistic<"numPrepared", "prepared", "loops whose branch operands are pipelined">];
}

def SelectStages : Pass<"ejk-select-stages"> {
  let summary = "choose the number of stages and the software pipelining that fit a thread block";
  let description = [{
    What: runs `ejk-multistage-loads` on each laid-out program without rings, with three stages, or
    with two or one where the kernel's shared memory does not fit a thread block of `arch`. The
    lowering itself computes what a kernel needs. Where one stage is too large, f32 matrices, which
    gates of channels may be, have none: they are loaded where they are used, and once more on the
    exact path. Where that is too large, too, all loads stay as they are. Results do not change.

    Programs with `wgmma` try these combinations first, in this order, and keep the first that
    changes the program and fits:

    1. two stages with `ejk-pipeline-branch-operands`, if all rows then arrive by TMA
       (lowering/emit/TileTma.cpp);
    2. three stages with `ejk-pipeline-matmuls` and `ejk-defer-stores`, if all rows arrive by TMA;
    3. four stages with `ejk-pipeline-matmuls`.

    A multiprocessor runs two blocks of four warps with `wgmma`, if both fit into its shared memory. The first
    of all combinations of two stages or more with which they do is taken before those above. Where another
    comes before it, a copy of the function has that one, as an alternative for launches of no more blocks
    than multiprocessors (`F_few_blocks`).

    In blocks of many `wgmma`, where registers are short, a matmul's result that only becomes an operand
    in shared memory is stored there as soon as it can be computed, or where shared memory has no room
    for it before the next matmul: shared memory holds it while other matmuls run.

    Tiles that are spilled to shared memory (`ejk-assign-tile-layouts`) return to registers where
    these stages leave no room for them: one after the other, in each step the tile that frees the
    most.

    Before and after: see `ejk-multistage-loads`, `ejk-pipeline-branch-operands`,
    `ejk-pipeline-matmuls`, `ejk-defer-stores`.
  }];
  let options = [
    Option<"arch", "arch", "std::string", "\"sm_90\"", "the architecture to fit into">];
  let dependentDialects = [
    "::ejk::tile::TileDialect", "::mlir::arith::ArithDialect", "::mlir::gpu::GPUDialect",
    "::mlir::LLVM::LLVMDialect", "::mlir::math::MathDialect", "::mlir::NVVM::NVVMDialect",
    "::mlir::scf::SCFDialect", "::mlir::vector::VectorDialect"];
  let statistics = [Statistic<"numAhead", "ahead", "programs that copy ahead">,
                    Statistic<"numSingle", "single", "programs of a single stage">,
                    Statistic<"numDeclined", "declined", "programs whose loads are not staged">,
                    Statistic<"numForFewBlocks", "few-blocks", "functions copied for few blocks">];
}

def SplitExponentials : Pass<"ejk-split-exponentials"> {
  let summary = "evaluate a third of e^x and e^-x on the FMA units";
  let description = [{
    What: in a laid-out program for `wgmma`, where e^x and e^-x of one f32 matrix are both computed
    after a matmul of their block, marks every third element of a thread to be evaluated by a
    polynomial on the FMA units instead of the exponential unit: 2^n · 2^f, with an even and an odd
    polynomial of f that both signs share. Results change by a relative error of at most 4.1e-6.

    Why: a multiprocessor computes 16 exponentials a cycle, and scaling a chunk's rows by their
    gates takes two exponentials an element: a quarter of a chunk's time with gates per key channel.
    The FMA units are idle during the latency of that matmul.

    Requires: |x| ≤ 87. A range guard (`tile.range_guard`) of x with that bound or a smaller one must
    dominate all uses: both exponentials are used only on the fast path of branches on that guard,
    directly or through values that loops and branches yield.

    Before:
    ```mlir
    %p = tile.dot %q, %k transposed, %zero : …
    %e = math.exp %x {tile.layouts = [#tile.layout<fragments over 4 by 1>]} : vector<64x64xf32>
    %n = arith.negf %x {tile.layouts = [#tile.layout<fragments over 4 by 1>]} : vector<64x64xf32>
    %i = math.exp %n {tile.layouts = [#tile.layout<fragments over 4 by 1>]} : vector<64x64xf32>
    %weak = tile.range_guard 64.0 of %x : vector<64x64xf32>
    %s = tile.guarded %weak -> (vector<64x64xf32>) fast { … %e … %i … } exact { … }
    ```
    After, both `math.exp`: `{tile.layouts = […], tile.polynomial = 3 : i64}`.
  }];
  let statistics = [Statistic<"numShared", "shared", "pairs of e^x and e^-x">];
}

include "lowering/PartitionPasses.td"

#endif // EJK_LOWERING_LAIDOUTPASSES_TD
