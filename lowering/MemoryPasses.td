//===- MemoryPasses.td - shared memory, barriers and races -------*- tablegen -*-===//
#ifndef EJK_LOWERING_MEMORYPASSES_TD
#define EJK_LOWERING_MEMORYPASSES_TD

include "mlir/Pass/PassBase.td"

def PlanMemory : Pass<"ejk-plan-memory"> {
  let summary = "give tiles in shared memory their places, and order accesses to them";
  let description = [{
    What: gives each tile in shared memory of a laid-out program a place, and inserts all barriers,
    fences and waits.

    Why: shared memory is short, and every barrier stops all warps of a block. With both in the plan, emission decides
    neither, and the plan says how much memory and how many barriers a kernel takes.

    A place is free again after its tile's last use. A barrier stands before a read of what another thread may have
    written since the last barrier, and before a write to what was read or written since then. A tile takes a place that
    needs no barrier, if memory suffices and a multiprocessor still runs as many blocks as registers allow. A tile that a loop carries for matmuls has two places (`at A or B`) where
    memory suffices. Matmuls of `wgmma` are waited for at the first use of the result or of the operands' place, bulk
    stores before their tile is overwritten. What one op would store and load again is divided:
    a conversion between registers into two, a `tile.sum` over several warps into `tile.partial_sum` and
    `tile.add_parts`, a `tile.cumsum` into `tile.split_term` and `tile.add_cumsum`. `tile.invert_diagonal` and
    `tile.merge_inverses` leave their result in the matrix's place if that is its last use; threads order what they
    read and write inside the op. Results do not change.

    Requires: `ejk-assign-tile-layouts`, and rings if there are to be any (`ejk-select-stages`). A program that needs
    more memory than a block of `arch` has is an error.

    Before:
    ```mlir
    %a = tile.convert %x to <shared> : vector<64x64xbf16>
    %y = tile.dot %q, %a, %zero : …
    ```
    After:
    ```mlir
    %a = tile.convert %x to <shared at 9216> : vector<64x64xbf16>
    tile.barrier
    %y = tile.dot %q, %a, %zero : …
    ```
  }];
  let options = [Option<"arch", "arch", "std::string", "\"sm_90\"", "the architecture">];
  let dependentDialects = ["::ejk::tile::TileDialect", "::mlir::arith::ArithDialect"];
  let statistics = [Statistic<"numPlanned", "planned", "programs planned">,
                    Statistic<"numBarriers", "barriers", "barriers in their plans">];
}

def TakeTurns : Pass<"ejk-take-turns"> {
  let summary = "order the stores of a group's heads";
  let description = [{
    What: lets a planned program that has `turns` await its turn before it stores rows which heads sum, and
    pass the turn on behind a barrier after that. An iteration of the loop over chunks is one turn, and so is
    each op outside of it that stores such rows.

    Why: sums over heads have the same bits in every run only if their terms are added in one order. A head
    waits for the one before it, which is a chunk ahead, and not for its whole sequence.

    In a loop, the barrier is one that is there anyway: the next iteration's first, if that comes before its
    stores. So turns cost no barrier but one after the loop.

    Requires: `ejk-plan-memory` and `ejk-sum-in-turn`. Programs without `turns` stay as they are.

    Before:
    ```mlir
    scf.for %i = %c0 to %chunks step %c1 {
      tile.barrier
      …
      tile.store %dq, %rows[%first, %c0] : vector<64x128xf32>, !tile.rows<vector<128xf32>>
    }
    ```
    After:
    ```mlir
    scf.for %i = %c0 to %chunks step %c1 {
      tile.barrier
      tile.pass_turn %i
      …
      tile.await_turn %i
      tile.store %dq, %rows[%first, %c0] : vector<64x128xf32>, !tile.rows<vector<128xf32>>
    }
    tile.barrier
    tile.pass_turn %chunks
    ```
  }];
  let dependentDialects = ["::ejk::tile::TileDialect", "::mlir::arith::ArithDialect"];
  let statistics = [Statistic<"numPrograms", "programs", "programs whose heads take turns">];
}

def CheckRaces : Pass<"ejk-check-races"> {
  let summary = "prove that no two accesses to shared memory race";
  let description = [{
    What: proves for each planned program that every two conflicting accesses to shared memory are ordered, in every
    iteration of every loop. What it cannot prove is an error that names both ops.

    Why: a missing barrier is wrong only sometimes, so no test of a kernel shows that there is none. The pass does not
    use the analysis that placed the barriers; the two share only the definition of an access. It runs in every compilation.

    Two accesses conflict if they overlap and one of them writes. They are ordered by

    - a `tile.barrier`, once both threads have ended the first access: a copy by `tile.wait_copies`, a
      matmul of `wgmma` by `tile.wait_matmuls`, a bulk store by `tile.wait_stores`;
    - a `tile.fence` before that barrier, too, if threads wrote and `wgmma` or TMA accesses;
    - the mbarriers of a ring: a stage is filled again only after its item's `tile.release`, before which
      all reads of it have ended.

    Requires: `ejk-plan-memory`; other programs are skipped. The pass changes nothing.

    An error, where a barrier is missing:
    ```
    error: races in shared memory: a barrier is missing between 'tile.convert' and an earlier access, at bytes 9216 to 17408
    note: 'tile.convert' writes there
    ```
  }];
  let dependentDialects = ["::ejk::tile::TileDialect"];
  let statistics = [Statistic<"numProved", "proved", "programs proved to be free of races">];
}

#endif // EJK_LOWERING_MEMORYPASSES_TD
