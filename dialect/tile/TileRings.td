//===- TileRings.td - asynchronous copies, warp specialisation --*- tablegen -*-===//
//
// Included by Tile.td.
//
//===----------------------------------------------------------------------===//
#ifndef EJK_DIALECT_TILE_TILERINGS_TD
#define EJK_DIALECT_TILE_TILERINGS_TD

//===----------------------------------------------------------------------===//
// Rings: multi-stage copies to shared memory
//===----------------------------------------------------------------------===//

def Tile_RingType : Tile_Type<"Ring", "ring"> {
  let summary = "stages of shared memory for copied rows or computed tiles";
  let description = [{
    A multi-stage copy pipeline, as in CUTLASS. Items 0, 1, 2, … pass through a ring of N
    stages, item i in stage i mod N. An item has one tile of each of the types `tiles`. It
    goes through four ops. `tile.fill` copies rows, `tile.put` stores computed tiles:

    | op | CUTLASS | waits until | then the item's stage is |
    |---|---|---|---|
    | `tile.acquire` | producer acquire | item i-N is released | to be filled |
    | `tile.fill` | copy, producer commit | | being filled |
    | `tile.put` | producer commit | | filled |
    | `tile.take` | consumer wait | its copies have arrived, unless it is held | in use |
    | `tile.release` | consumer release | | free |

    `!tile.ring<3 of vector<64x128xbf16>, vector<64xf32>>` has three stages of a
    matrix and a vector.

    Constraints:
    - C1: there are 1 to 1024 stages, and each of `tiles` is a tile.
  }];
  let parameters = (ins "int64_t":$stages, ArrayRefParameter<"::mlir::Type">:$tiles);
  let assemblyFormat = "`<` $stages `of` $tiles `>`";
  let genVerifyDecl = 1;
}

def Tile_MakeRingOp : Tile_Op<"make_ring", [HasParent<"ProgramOp">, MemoryEffects<[MemAlloc]>]> {
  let summary = "create a ring with free stages";
  let description = [{
    A ring belongs to its program. It is created before the loops, and is not passed on by
    loops or branches.

    `at` is the place of the stages in shared memory, and `mbarriers` that of two mbarriers for each
    stage, `full` and `empty`; item i uses their phase ⌊i / N⌋ (`ejk-plan-memory`). With mbarriers,
    `tile.acquire`, `tile.fill`, `tile.take` and `tile.release` wait for phases and arrive at them.
    With `tma`, one lane issues TMA loads; where a tile's rows end inside it, all threads copy them
    and meet at a barrier inside `tile.fill`. Without mbarriers, waits and barriers stand beside
    these ops.

    Example:

    ```mlir
    %ring = tile.make_ring : !tile.ring<2 of vector<64x64xbf16>, vector<64xf32>>
    %other = tile.make_ring tma at 1024 mbarriers 0 : !tile.ring<2 of vector<64x64xbf16>>
    ```
  }];
  let arguments = (ins UnitAttr:$tma, OptionalAttr<I64Attr>:$place,
                       OptionalAttr<I64Attr>:$mbarriers);
  let results = (outs Tile_RingType:$ring);
  let assemblyFormat = [{
    (`tma` $tma^)? (`at` $place^)? (`mbarriers` $mbarriers^)? attr-dict `:` type($ring)
  }];
}

/// An op on an item of a ring. Memory effects keep these ops in order.
class Tile_RingOp<string mnemonic, list<Trait> traits = []>
    : Tile_Op<mnemonic, traits # [MemoryEffects<[MemRead, MemWrite]>]> {
  let hasVerifier = 1;
}

def Tile_AcquireOp : Tile_RingOp<"acquire"> {
  let summary = "wait until an item's stage is free";
  let description = [{
    Waits until item `item`-N of a ring of N stages is released. The stages of the first
    N items are free at once. Each item is acquired once, in order within a stage.

    Example:

    ```mlir
    tile.acquire %ring[%next] : !tile.ring<2 of vector<64x64xbf16>>
    ```

    Constraints:
    - C1: the ring is a `tile.make_ring`'s.
  }];
  let arguments = (ins Tile_RingType:$ring, Index:$item);
  let assemblyFormat = "$ring `[` $item `]` attr-dict `:` type($ring)";
}

def Tile_FillOp : Tile_RingOp<"fill", [SameVariadicOperandSize]> {
  let summary = "issue the copies of an item";
  let description = [{
    Issues copies into the stage of item `item`, which must have been acquired. Each tile
    of the ring gets the elements that `tile.load` would load. The op does not wait for
    the copies; `tile.take` does.

    Example:

    ```mlir
    tile.fill %ring[%next] from (%qr, %gr) at (%first, %first) channels (%c0, %c0)
        : !tile.ring<2 of vector<64x64xbf16>, vector<64xf32>>,
          !tile.rows<vector<64xbf16>>, !tile.rows<f32>
    ```

    Constraints:
    - C1: there are rows, a first row and a first channel for each of the ring's tiles.
    - C2: as C1 of `tile.load`, for each.
    - C3: as C1 of `tile.acquire`.
  }];
  let arguments = (ins Tile_RingType:$ring, Index:$item, Variadic<Tile_RowsType>:$rows,
                       Variadic<Index>:$first, Variadic<Index>:$channels);
  let assemblyFormat = [{
    $ring `[` $item `]` `from` `(` $rows `)` `at` `(` $first `)` `channels` `(` $channels `)`
    attr-dict `:` type($ring) `,` type($rows)
  }];
}

def Tile_PutOp : Tile_RingOp<"put"> {
  let summary = "store computed tiles as an item";
  let description = [{
    Stores `tiles` to the stage of item `item`, which must have been acquired. A partition passes
    what it has computed to another one so. Threads store their elements, and the item can be taken
    when all of them have. All puts and fills of a ring are of one kind.

    Example:

    ```mlir
    tile.put %ring[%c] of (%p, %d)
        : !tile.ring<2 of vector<64x64xbf16>, vector<64xf32>>, vector<64x64xbf16>, vector<64xf32>
    ```

    Constraints:
    - C1: `tiles` have the types of the ring's tiles.
    - C2: as C1 of `tile.acquire`.
    - C3: no `tile.fill` fills the ring.
  }];
  let arguments = (ins Tile_RingType:$ring, Index:$item, Variadic<Tile_AnyTile>:$tiles);
  let assemblyFormat = [{
    $ring `[` $item `]` `of` `(` $tiles `)` attr-dict `:` type($ring) `,` type($tiles)
  }];
}

def Tile_TakeOp : Tile_RingOp<"take"> {
  let summary = "wait for an item and get its tiles";
  let description = [{
    Waits until the copies of item `item` have arrived, and returns its tiles. The tiles
    lie in the stage, so all reads of them must come before the item's `tile.release`. With
    `held`, the item was taken before, perhaps in an earlier iteration, and not released;
    the op then does not wait.

    Example:

    ```mlir
    %q, %g = tile.take %ring[%c]
        : !tile.ring<2 of vector<64x64xbf16>, vector<64xf32>> -> vector<64x64xbf16>, vector<64xf32>
    %q2, %g2 = tile.take held %ring[%c]
        : !tile.ring<2 of vector<64x64xbf16>, vector<64xf32>> -> vector<64x64xbf16>, vector<64xf32>
    ```

    Constraints:
    - C1: the results are the ring's tiles.
    - C2: as C1 of `tile.acquire`.
  }];
  let arguments = (ins Tile_RingType:$ring, Index:$item, UnitAttr:$held);
  let results = (outs Variadic<Tile_AnyTile>:$tiles);
  let assemblyFormat = [{
    (`held` $held^)? $ring `[` $item `]` attr-dict `:` type($ring) `->` type($tiles)
  }];
}

def Tile_ReleaseOp : Tile_RingOp<"release"> {
  let summary = "free the stage of an item";
  let description = [{
    Frees the stage of item `item`, which must have been taken, for item `item`+N.

    Example:

    ```mlir
    tile.release %ring[%c] : !tile.ring<2 of vector<64x64xbf16>>
    ```

    Constraints:
    - C1: as C1 of `tile.acquire`.
  }];
  let arguments = (ins Tile_RingType:$ring, Index:$item);
  let assemblyFormat = "$ring `[` $item `]` attr-dict `:` type($ring)";
}

//===----------------------------------------------------------------------===//
// Partitions: warp specialisation
//===----------------------------------------------------------------------===//

def Tile_WarpSpecializeOp : Tile_Op<"warp_specialize", [
    HasParent<"ProgramOp">, RecursiveMemoryEffects, NoTerminator, SingleBlock]> {
  let summary = "warp specialisation: parts of a program that run concurrently";
  let description = [{
    Runs its `tile.partition`s concurrently, each on warps of its own. Warps are numbered from
    0 in the order of the partitions. Partitions can use values from before the op, and communicate
    only through rings.

    Example:

    ```mlir
    tile.warp_specialize {
      tile.partition "consumer" warps 4 {
        scf.for %c = %c0 to %n step %c1 {
          %q = tile.take %ring[%c] : !tile.ring<2 of vector<64x64xbf16>> -> vector<64x64xbf16>
          ...
          tile.release %ring[%c] : !tile.ring<2 of vector<64x64xbf16>>
        }
      }
      tile.partition "producer" warps 1 {
        scf.for %c = %c0 to %n step %c1 {
          %first = arith.muli %c, %c64 : index
          tile.acquire %ring[%c] : !tile.ring<2 of vector<64x64xbf16>>
          tile.fill %ring[%c] from (%qr) at (%first) channels (%c0)
              : !tile.ring<2 of vector<64x64xbf16>>, !tile.rows<vector<64xbf16>>
        }
      }
    }
    ```

    Constraints:
    - C1: it contains at least one `tile.partition`, all of different names, and nothing else.
    - C2: it is the last op of its program, and the only other ops of this dialect beside
      it are `tile.make_ring` and, in a plan, `tile.triangle`, `tile.fence` and `tile.barrier`.
    - C3: a single partition acquires and fills or puts items of a ring. Each partition that takes
      items takes and releases each of them.
  }];
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "attr-dict-with-keyword $body";
  let hasRegionVerifier = 1;
}

def Tile_PartitionOp : Tile_Op<"partition", [
    HasParent<"WarpSpecializeOp">, RecursiveMemoryEffects, NoTerminator, SingleBlock]> {
  let summary = "the code of some warps of a block";
  let description = [{
    See `tile.warp_specialize`. `registers` is the number of registers for each of its threads, on
    architectures where warps of one block can have different numbers (`setmaxnreg`).

    Example: `tile.partition "producer" warps 4 registers 40 { … }`

    Constraints:
    - C1: `warps` is positive.
    - C2: `registers` is a multiple of 8 from 24 to 256, and `warps` then one of 4.
  }];
  let arguments = (ins StrAttr:$name, I64Attr:$warps, OptionalAttr<I64Attr>:$registers);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    $name `warps` $warps (`registers` $registers^)? attr-dict-with-keyword $body
  }];
  let hasVerifier = 1;
}

#endif // EJK_DIALECT_TILE_TILERINGS_TD
