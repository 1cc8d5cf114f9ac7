//===- TileMemory.td - rows and tensors to tiles and back -------*- tablegen -*-===//
//
// Included by Tile.td.
//
//===----------------------------------------------------------------------===//
#ifndef EJK_DIALECT_TILE_TILEMEMORY_TD
#define EJK_DIALECT_TILE_TILEMEMORY_TD

def Tile_LoadOp : Tile_Op<"load", [MemoryEffects<[MemRead]>]> {
  let summary = "load a tile of rows";
  let description = [{
    Loads rows `first` to `first`+R-1, and channels from `channel` on. Rows outside 0 to
    length-1 and channels past the end of a row are zero. A vector of R elements is of rows of scalars,
    or one channel of rows of vectors.

    Example:

    ```mlir
    %q = tile.load %rows[%first, %c0] : !tile.rows<vector<60xbf16>> -> vector<64x64xbf16>
    %g = tile.load %gates[%first, %c0] : !tile.rows<f32> -> vector<64xf32>
    ```

    Constraints:
    - C1: the result has rank 1, or 2 for rows of vectors, and the rows' element type.
  }];
  let arguments = (ins Tile_RowsType:$rows, Index:$first, Index:$channel);
  let results = (outs Tile_AnyTile:$result);
  let assemblyFormat = [{
    $rows `[` $first `,` $channel `]` attr-dict `:` type($rows) `->` type($result)
  }];
  let hasVerifier = 1;
}

def Tile_PrefetchOp : Tile_Op<"prefetch", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "ask the second-level cache for a tile of rows";
  let description = [{
    A kernel asks for the lines of the rows and channels that a `tile.load` of type `tile` would load, as far
    as they exist. A load in a later iteration then waits for that cache and not for memory. Nothing waits for the
    lines here, and no result depends on them.

    Example:

    ```mlir
    tile.prefetch %rows[%next, %c0] for vector<64x64xf32> : !tile.rows<vector<64xf32>>
    ```

    Constraints:
    - C1: the tile is a matrix of the rows' element type.
  }];
  let arguments = (ins Tile_RowsType:$rows, Index:$first, Index:$channel, TypeAttr:$tile);
  let assemblyFormat = [{
    $rows `[` $first `,` $channel `]` `for` $tile attr-dict `:` type($rows)
  }];
  let hasVerifier = 1;
}

def Tile_StoreOp : Tile_Op<"store", [MemoryEffects<[MemWrite]>]> {
  let summary = "store a tile of rows";
  let description = [{
    The inverse of `tile.load`. Elements outside the rows and channels are dropped. With `bulk`, TMA
    stores the tile from shared memory: one lane issues the store, and `tile.wait_stores` waits for it.

    Example:

    ```mlir
    tile.store %o, %rows[%first, %c0] : vector<64x64xbf16>, !tile.rows<vector<60xbf16>>
    ```

    Constraints:
    - C1: as for `tile.load`.
  }];
  let arguments = (ins Tile_AnyTile:$tile, Tile_RowsType:$rows, Index:$first, Index:$channel,
                       UnitAttr:$bulk);
  let assemblyFormat = [{
    (`bulk` $bulk^)? $tile `,` $rows `[` $first `,` $channel `]` attr-dict `:` type($tile) `,` type($rows)
  }];
  let hasVerifier = 1;
}

def Tile_SlotRowsOp : Tile_Op<"slot_rows", [Pure]> {
  let summary = "the rows of a state slot";
  let description = [{
    Rows 0 to R-1 of slot `index`, an R×C matrix, as rows of C channels, or the R elements of a
    vector as rows that are numbers. `tile.load`, `tile.store` and rings use them like rows of a
    sequence. A slot that does not exist has no rows.

    Example:

    ```mlir
    %rows = tile.slot_rows %saved[%c]
        : !tile.slots<vector<128x64xbf16>> -> !tile.rows<vector<64xbf16>>
    ```

    Constraints:
    - C1: a slot is a matrix or a vector, and the result has rows of its columns and element type.
  }];
  let arguments = (ins Tile_SlotsType:$slots, Index:$index);
  let results = (outs Tile_RowsType:$rows);
  let assemblyFormat = "$slots `[` $index `]` attr-dict `:` type($slots) `->` type($rows)";
  let hasVerifier = 1;
}

def Tile_LoadSlotOp : Tile_Op<"load_slot", [MemoryEffects<[MemRead]>]> {
  let summary = "load a part of a state slot";
  let description = [{
    Loads the part of slot `index` that starts at `offsets`, one for each dimension of the
    slot, or the element there. Elements past the slot's end are zero.

    Example:

    ```mlir
    %S = tile.load_slot %h0[%c0] at (%c0, %c0)
        : !tile.slots<vector<60x60xf32>> -> vector<64x64xf32>
    ```

    Constraints:
    - C1: there is an offset for each of the slot's dimensions, and the result has its
      rank and element type, or is an element.
  }];
  let arguments = (ins Tile_SlotsType:$slots, Index:$index, Variadic<Index>:$offsets);
  let results = (outs AnyType:$result);
  let assemblyFormat = [{
    $slots `[` $index `]` `at` `(` $offsets `)` attr-dict `:` type($slots) `->` type($result)
  }];
  let hasVerifier = 1;
}

def Tile_StoreSlotOp : Tile_Op<"store_slot", [MemoryEffects<[MemWrite]>]> {
  let summary = "store a part of a state slot";
  let description = [{
    The inverse of `tile.load_slot`. Elements past the slot's end are dropped.

    Example:

    ```mlir
    tile.store_slot %S, %ht[%c0] at (%c0, %c0)
        : vector<64x64xf32>, !tile.slots<vector<60x60xf32>>
    ```

    Constraints:
    - C1: as for `tile.load_slot`.
  }];
  let arguments = (ins AnyType:$tile, Tile_SlotsType:$slots, Index:$index,
                       Variadic<Index>:$offsets);
  let assemblyFormat = [{
    $tile `,` $slots `[` $index `]` `at` `(` $offsets `)` attr-dict `:` type($tile) `,`
    type($slots)
  }];
  let hasVerifier = 1;
}

#endif // EJK_DIALECT_TILE_TILEMEMORY_TD
