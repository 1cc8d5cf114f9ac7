//===- LaidOutPasses.td - layouts, order, stages and roles --*- tablegen -*-===//
#ifndef EJK_LOWERING_LAIDOUTPASSES_TD
#define EJK_LOWERING_LAIDOUTPASSES_TD

include "mlir/Pass/PassBase.td"

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
    registers would be missing on the first (see `ejk-select-stages`).

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

def ScheduleMatmuls : Pass<"ejk-schedule-matmuls"> {
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

def MultistageLoads : Pass<"ejk-multistage-loads"> {
  let summary = "rows copied ahead of the loop that reads them";
  let description = [{
    Loads of a block program's loop over chunks, whose rows follow from its counter alone,
    become copies through a ring of `stages` stages, started `stages`-1 iterations ahead.
    One item has all that one iteration loads, so that it waits once. With one stage, the
    next iteration's copies start where this one's tiles are used for the last time; so do
    those of cells, which have a ring of one stage for themselves. Where that is in a branch, both
    sides start them: the one that is taken when products are behind its own last use, which of
    a product is where it is awaited, or at once. What sums are made of in registers is used
    where they are. With one stage for all, rows that only a branch
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

def PipelineMatmuls : Pass<"ejk-pipeline-matmuls"> {
  let summary = "the next iteration's first products behind this one's last";
  let description = [{
    Of a block program's loop over chunks that takes items of a ring of three stages or more:
    products of an item's tiles alone, as Q Kᵀ, are issued in the iteration before, behind its
    last products, and carried by the loop; before it, those of the first item are. The next
    item is taken in front of the iteration's last products; in its own iteration it is held.
    Copies start behind the products. Where rows come in boxes (lowering/emit/TileTma.cpp), the item
    is taken behind the iteration's own last products, and boxes are ordered before the next
    one's. Those of the item behind the last one are of zeros, and not used. Numbers do not
    change.

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

def DeferStores : Pass<"ejk-defer-stores"> {
  let summary = "an iteration's rows stored in the next one";
  let description = [{
    Of a block program's loop over chunks: rows that are stored from shared memory behind the
    iteration's last product are stored by the next iteration, and those of the last one behind
    the loop. Threads then need not meet at the iteration's end, until all have written the tile:
    it leaves behind the first product of what that iteration itself has stored to shared memory,
    where they meet anyway. The loop carries the tile, and its first row; the first iteration has
    rows behind the sequence's last, of which there are none to store. A kernel has the carried
    tile in two places by turns where the device stores it (`cp.async.bulk.tensor`), and factors of
    an iteration's own, too: it has one barrier an iteration. Numbers do not change.

    Before:
    ```mlir
    %end = scf.for %c = %c0 to %n step %c1 iter_args(%s = %start) -> (vector<64x64xf32>) {
      …
      %p = tile.convert %decayed to <panels> : vector<64x64xbf16>
      %o = tile.dot %p, %v, %before : …
      %next = tile.dot %k transposed, %v, %s : …
      %rows = tile.convert %rounded to <panels> : vector<64x64xbf16>
      tile.store %rows, %out[%first, %c0] : vector<64x64xbf16>, !tile.rows<vector<64xbf16>>
      scf.yield %next : vector<64x64xf32>
    }
    ```
    After:
    ```mlir
    %nothing = tile.convert %zeros to <panels> : vector<64x64xbf16>
    %end:3 = scf.for %c = %c0 to %n step %c1
        iter_args(%s = %start, %last = %nothing, %at = %length) -> (…) {
      …
      %p = tile.convert %decayed to <panels> : vector<64x64xbf16>
      %o = tile.dot %p, %v, %before : …
      tile.store %last, %out[%at, %c0] : vector<64x64xbf16>, !tile.rows<vector<64xbf16>>
      %next = tile.dot %k transposed, %v, %s : …
      %rows = tile.convert %rounded to <panels> : vector<64x64xbf16>
      scf.yield %next, %rows, %first : vector<64x64xf32>, vector<64x64xbf16>, index
    }
    tile.store %end#1, %out[%end#2, %c0] : vector<64x64xbf16>, !tile.rows<vector<64xbf16>>
    ```
  }];
  let dependentDialects = ["::ejk::tile::TileDialect", "::mlir::arith::ArithDialect"];
  let statistics = [Statistic<"numDeferred", "deferred", "stores that the next iteration does">];
}

def PipelineBranchOperands : Pass<"ejk-pipeline-branch-operands"> {
  let summary = "what a branch takes of the next item, made in this one's";
  let description = [{
    Of a laid-out block program's loop over chunks that chooses by a `tile.within` of what it
    takes of a ring of two stages, with at least one product on the first side: all that an
    iteration makes of its item in front of the branch, such as factors scaled by their gates,
    the check itself and vectors, is made an iteration early, on both sides of the branch; what
    others use of it the loop carries. On the first side running sums, which are products, go in
    front of the branch's last products, and the rest behind them, so that threads work while
    tensor cores do. That side has no need of the item, and hands its stage on behind its first one;
    the other one does at its end. What only the branch takes must have a ring of its own
    (`ejk-multistage-loads=apart`). What lies in shared memory is carried in one place; where
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

def SelectStages : Pass<"ejk-select-stages"> {
  let summary = "rows copied as far ahead as a thread block holds them";
  let description = [{
    As `ejk-multistage-loads`, of each laid-out block program that has no rings, with
    three stages or, where a thread block of `arch` has not the shared memory for its kernel
    then, with two or one; the lowering itself says what a kernel needs. Where one is too
    much as well, loads stay as they are. Where products are taken by groups of warps, with
    two stages and `ejk-pipeline-branch-operands`, if all rows come in boxes then (lowering/emit/TileTma.cpp);
    or three, `ejk-pipeline-matmuls` and `ejk-defer-stores`, if they do; or four and
    `ejk-pipeline-matmuls`; if that changes something and there is room. Numbers do not change.

    Tiles that lie in shared memory by choice (`ejk-assign-tile-layouts`) are in registers where
    there is no room for them beside these stages: one after the other, the one without which
    the kernel needs least.

    Before and after: see `ejk-multistage-loads`, `ejk-pipeline-branch-operands`, `ejk-pipeline-matmuls`,
    `ejk-defer-stores`.
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

def SplitExponentials : Pass<"ejk-split-exponentials"> {
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

def SpecializeWarps : Pass<"ejk-specialize-warps"> {
  let summary = "warps that copy, and warps that compute";
  let description = [{
    Divides a block program with rings in two roles: a producer that fills the rings, of
    `producer-warps` warps, and a consumer that does everything else. The producer gets the
    loops around the fills, and the numbers that they need. Where it would need what is
    computed of tiles, or a fill stands on one side of a branch and not on the other, the
    program stays as it is, and a remark says why. For an `arch` as sm_90a, where a block
    of so many warps leaves each thread too few registers, the consumer's threads get more
    and the producer's fewer. Numbers do not change.

    Before: what `ejk-multistage-loads` makes.

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

#endif // EJK_LOWERING_LAIDOUTPASSES_TD
