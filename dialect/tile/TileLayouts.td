//===- TileLayouts.td - which thread has which elements ---------*- tablegen -*-===//
#ifndef EJK_DIALECT_TILE_TILELAYOUTS_TD
#define EJK_DIALECT_TILE_TILELAYOUTS_TD

def Tile_LayoutKind : I32EnumAttr<"LayoutKind", "where a tile's elements are", [
    I32EnumAttrCase<"uniform", 0>, I32EnumAttrCase<"lanes", 1>,
    I32EnumAttrCase<"fragments", 2>, I32EnumAttrCase<"transposed_fragments", 3>,
    I32EnumAttrCase<"shared", 4>, I32EnumAttrCase<"swizzled", 5>,
    I32EnumAttrCase<"transposed_swizzled", 6>, I32EnumAttrCase<"rows", 7>,
    I32EnumAttrCase<"swizzled_words", 8>]> {
  let cppNamespace = "::ejk::tile";
  let genSpecializedAttr = 0;
}

def Tile_LayoutAttr : AttrDef<Tile_Dialect, "Layout"> {
  let mnemonic = "layout";
  let summary = "which thread has which elements of a tile";
  let description = [{
    - `uniform`: all elements are equal, and every thread has that value.
    - `lanes`: element i of a vector is in lane i mod 32 of every warp.
    - `fragments over R by C`: a matrix is divided over warps. Warp w has part
      (w mod R, ⌊w / R⌋ mod C): rows 16·(w mod R) to 16·(w mod R)+15 of every 16·R rows,
      and one of C equal parts of the columns. The part is in 16×8 accumulators of
      `mma.sync`: lane 4g+t has the elements (g, 2t), (g, 2t+1), (g+8, 2t), (g+8, 2t+1) of
      each. If R is a multiple of 4, these are also the accumulators of `wgmma`, for R/4
      warpgroups.
    - `transposed_fragments over R by C`: the transpose of the matrix in that layout.
    - `shared`: in shared memory, row by row.
    - `swizzled`: in shared memory with the 128-byte swizzle of `wgmma` and TMA. The matrix
      is divided into blocks of 64 columns of 16-bit elements. In row r of a block, the
      16-byte segment p is stored at position p xor (r mod 8), which avoids bank conflicts.
    - `transposed_swizzled`: the transpose of the matrix in that layout.
    - `swizzled_words`: f32 rows in shared memory with the 128-byte swizzle of TMA, in blocks of 32
      columns. In row r of a block, the 16-byte segment of columns 4p to 4p+3 is stored at position
      p xor (r mod 8). Threads read `transposed_fragments` from it without bank conflicts.
    - `rows over R by 1`: a slice layout. A thread has the elements of a vector for the
      rows that it has of a matrix in `fragments over R by C`, in the same order.

    `at` is the place of a tile in shared memory, in bytes from the start of the block's memory
    (`ejk-plan-memory`). `at A or B` is a double buffer: the tile lies at A in a loop's even
    iterations and at B in its odd ones, so that one iteration can store while the matmuls of the
    one before still read. After the loop, its number of iterations decides.

    Example: `#tile.layout<fragments over 2 by 4>`, `#tile.layout<swizzled at 8192 or 24576>`
  }];
  let parameters = (ins EnumParameter<Tile_LayoutKind>:$kind,
                    DefaultValuedParameter<"int64_t", "0">:$rowParts,
                    DefaultValuedParameter<"int64_t", "0">:$columnParts,
                    DefaultValuedParameter<"int64_t", "-1">:$place,
                    DefaultValuedParameter<"int64_t", "-1">:$oddPlace);
  let builders = [AttrBuilder<(ins "LayoutKind":$kind, "int64_t":$rowParts,
                                   "int64_t":$columnParts),
                              [{ return $_get($_ctxt, kind, rowParts, columnParts, -1, -1); }]>];
  let assemblyFormat = [{
    `<` $kind (`over` $rowParts^ `by` $columnParts)? (`at` $place^)? (`or` $oddPlace^)? `>`
  }];
  let extraClassDeclaration = [{
    bool hasPlace() const { return getPlace() >= 0; }
    /// Whether the tile has two places.
    bool isDoubleBuffered() const { return getOddPlace() >= 0; }
    LayoutAttr withPlace(int64_t place, int64_t oddPlace = -1) const {
      return get(getContext(), getKind(), getRowParts(), getColumnParts(), place, oddPlace);
    }
    LayoutAttr withoutPlace() const { return withPlace(-1); }
  }];
}

def Tile_ConvertOp : Tile_Op<"convert", [Pure, AllTypesMatch<["tile", "result"]>]> {
  let summary = "change the layout of a tile";
  let description = [{
    `ejk-assign-tile-layouts` inserts this op if an op needs a tile in another layout
    than the one in which it is computed.

    Example:

    ```mlir
    %a = tile.convert %q to <fragments over 2 by 2> : vector<64x64xbf16>
    ```
  }];
  let arguments = (ins Tile_Convertible:$tile, Tile_LayoutAttr:$layout);
  let results = (outs Tile_Convertible:$result);
  let assemblyFormat = "$tile `to` $layout attr-dict `:` type($tile)";
}

#endif // EJK_DIALECT_TILE_TILELAYOUTS_TD
