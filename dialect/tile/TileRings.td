//===- TileRings.td - asynchronous copies and concurrent roles --*- tablegen -*-===//
//
// Included by Tile.td.
//
//===----------------------------------------------------------------------===//
#ifndef EJK_DIALECT_TILE_TILERINGS_TD
#define EJK_DIALECT_TILE_TILERINGS_TD

//===----------------------------------------------------------------------===//
// Rings: rows copied ahead of their use
//===----------------------------------------------------------------------===//

def Tile_RingType : Tile_Type<"Ring", "ring"> {
  let summary = "stages of a block's own memory that rows are copied through";
  let description = [{
    Items 0, 1, 2, … pass through a ring of N stages, item i in stage i mod N. Each
    consists of one tile of each of the types `tiles`, and goes through four ops:

    | op | waits until | then the item's stage is |
    |---|---|---|
    | `tile.acquire` | item i-N is released | to be filled |
    | `tile.fill` | | being filled |
    | `tile.take` | its copies have arrived, unless it is held | in use |
    | `tile.release` | | free |

    `!tile.ring<3 of vector<64x128xbf16>, vector<64xf32>>` has three stages of a
    matrix and a vector.

    Constraints:
    - C1: there is at least one stage, and each of `tiles` is a tile.
  }];
  let parameters = (ins "int64_t":$stages, ArrayRefParameter<"::mlir::Type">:$tiles);
  let assemblyFormat = "`<` $stages `of` $tiles `>`";
  let genVerifyDecl = 1;
}

def Tile_MakeRingOp : Tile_Op<"make_ring", [HasParent<"ProgramOp">, MemoryEffects<[MemAlloc]>]> {
  let summary = "a ring whose stages are free";
  let description = [{
    A ring is the program's own, made before its loops, and is not passed on as values are.

    Example:

    ```mlir
    %ring = tile.make_ring : !tile.ring<2 of vector<64x64xbf16>, vector<64xf32>>
    ```
  }];
  let results = (outs Tile_RingType:$ring);
  let assemblyFormat = "attr-dict `:` type($ring)";
}

/// A step in an item's way through a ring. Effects keep these in their order.
class Tile_RingOp<string mnemonic, list<Trait> traits = []>
    : Tile_Op<mnemonic, traits # [MemoryEffects<[MemRead, MemWrite]>]> {
  let hasVerifier = 1;
}

def Tile_AcquireOp : Tile_RingOp<"acquire"> {
  let summary = "wait until an item's stage is free";
  let description = [{
    Waits until item `item`-N is released, of a ring of N stages; its first N items
    find their stages free. A stage takes its items in order, each once.

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
  let summary = "start copying an item's rows";
  let description = [{
    Starts copies of what `tile.load` would load for each of the ring's tiles into the
    stage of item `item`, which must have been acquired for it, and does not wait for
    them. They may arrive as late as `tile.take` lets them.

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

def Tile_TakeOp : Tile_RingOp<"take"> {
  let summary = "wait for an item, and use its tiles";
  let description = [{
    Waits until the copies of item `item` have arrived, and gives its tiles. They lie in
    the stage: what reads them comes before the item's `tile.release`. An item that is
    `held` was taken before, in an earlier iteration perhaps, and not released: there is
    nothing to wait for.

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
  let summary = "an item's tiles are no longer used";
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
// Roles: warps of one block that do different things
//===----------------------------------------------------------------------===//

def Tile_RolesOp : Tile_Op<"roles", [
    HasParent<"ProgramOp">, RecursiveMemoryEffects, NoTerminator, SingleBlock]> {
  let summary = "parts of a program that run at once";
  let description = [{
    Runs the `tile.role`s in it at once, each by warps of its own, numbered in their
    order from 0 on. They see what is computed before, and nothing of each other but
    through rings.

    Example:

    ```mlir
    tile.roles {
      tile.role "consumer" warps 4 {
        scf.for %c = %c0 to %n step %c1 {
          %q = tile.take %ring[%c] : !tile.ring<2 of vector<64x64xbf16>> -> vector<64x64xbf16>
          ...
          tile.release %ring[%c] : !tile.ring<2 of vector<64x64xbf16>>
        }
      }
      tile.role "producer" warps 1 {
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
    - C1: it holds `tile.role`s of different names, at least one, and nothing else.
    - C2: it stands at the end of its program, and beside it no ops of this dialect but
      `tile.make_ring`.
    - C3: of a ring, one role alone acquires and fills items, and one alone takes and
      releases them.
  }];
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "attr-dict-with-keyword $body";
  let hasRegionVerifier = 1;
}

def Tile_RoleOp : Tile_Op<"role", [
    HasParent<"RolesOp">, RecursiveMemoryEffects, NoTerminator, SingleBlock]> {
  let summary = "what some warps of a block do";
  let description = [{
    See `tile.roles`. `registers` are those that each of its threads may have, where the
    architecture lets warps of one block have different numbers (`setmaxnreg`).

    Example: `tile.role "producer" warps 4 registers 40 { … }`

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
