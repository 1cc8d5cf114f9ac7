//===- Tile.td - the tile dialect: one thread block's work ------*- tablegen -*-===//
#ifndef EJK_DIALECT_TILE_TILE_TD
#define EJK_DIALECT_TILE_TILE_TD

include "dialect/ejk/KnownAttributes.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/BuiltinAttributes.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/OpBase.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def Tile_Dialect : Dialect {
  let name = "tile";
  let cppNamespace = "::ejk::tile";
  let summary = "A chunked recurrence as one thread block sees it";
  let description = [{
    Below `ejk.scan` and above threads: what one thread block does for one
    sequence and head, chunk by chunk, as a plain program on *tiles*. A tile is a
    `vector` of rank 1 or 2 whose first dimension is usually a chunk's steps, in
    the order they lie in memory. Elementwise `arith` and `math`, `vector.broadcast`
    of one number, `vector.extract` and `vector.insert` of a row, `scf.for` and `scf.if` are
    used as they are; this dialect adds what they lack: the program itself, moving tiles from and
    to memory, products, sums along a dimension and along time, and masks.

    A program says nothing of threads, layouts or shared memory. Later, passes copy
    rows ahead through *rings* (`tile.ring`), and divide a program into *roles* that
    run at once (`tile.roles`). The interpreter runs all of it as it stands.
  }];
  let useDefaultTypePrinterParser = 1;
  let useDefaultAttributePrinterParser = 1;
  let hasOperationAttrVerify = 1;
  let hasRegionArgAttrVerify = 1;
  let hasRegionResultAttrVerify = 1;
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

class Tile_Type<string name, string mnemonicText> : TypeDef<Tile_Dialect, name> {
  let mnemonic = mnemonicText;
}

def Tile_RowsType : Tile_Type<"Rows", "rows"> {
  let summary = "the rows of one sequence and head in memory";
  let description = [{
    Rows 0 to length-1 of one sequence, of the head that this program works for
    (of the key/value head that it reads, where heads are shared), each of type
    `row`: a scalar or a vector of channels. `!tile.rows<vector<64xbf16>>`.
  }];
  let parameters = (ins "::mlir::Type":$row);
  let assemblyFormat = "`<` $row `>`";
}

def Tile_CellsType : Tile_Type<"Cells", "cells"> {
  let summary = "values kept once, or every so many rows, for one sequence and head";
  let description = [{
    Cell 0, or one cell for every so many rows of the sequence, each of type `cell`: a
    scalar, a vector or a matrix. Vector parameters, initial and final states have
    one, saved states one per `save_every` rows. `!tile.cells<vector<64x32xf32>>`.
  }];
  let parameters = (ins "::mlir::Type":$cell);
  let assemblyFormat = "`<` $cell `>`";
}

//===----------------------------------------------------------------------===//
// Ops
//===----------------------------------------------------------------------===//

class Tile_Op<string mnemonic, list<Trait> traits = []>
    : Op<Tile_Dialect, mnemonic, [Ejk_KnownAttributes] # traits>;

def Tile_Tensor : RankedTensorOf<[F32, F16, BF16]>;
def Tile_TensorF32 : RankedTensorOf<[F32]>;
def Tile_Offsets : TensorRankOf<[I32, I64], [1]>;
def Tile_Vector : VectorOfRankAndType<[1], [F32]>;
def Tile_Matrix : VectorOfRankAndType<[2], [F32, F16, BF16]>;
def Tile_MatrixF32 : VectorOfRankAndType<[2], [F32]>;
def Tile_AnyTile : AnyTypeOf<[VectorOfRankAndType<[1, 2], [F32, F16, BF16]>]>;
// Masks and positions are laid out, too.
def Tile_Convertible : VectorOfRankAndType<[1, 2], [F32, F16, BF16, AnySignlessInteger, Index]>;
def Tile_Dim : ConfinedAttr<I64Attr, [IntNonNegative, IntMaxValue<1>]>;

def Tile_ProgramOp : Tile_Op<"program", [
    Pure, AttrSizedOperandSegments, AttrSizedResultSegments, IsolatedFromAbove,
    SingleBlock]> {
  let summary = "a block program, run for every sequence, head and slice";
  let description = [{
    Runs its region once for each sequence n, query head h and slice s, in no
    order, and independently of each other. Operands and results are those of
    `ejk.scan`; the region sees of them what belongs to n and h. Its arguments
    are, in this order:

    | for each | argument |
    |---|---|
    | sequence | `!tile.rows` of its step type |
    | parameter | its step value where that is a number, else `!tile.cells`, cell 0 |
    | initial state | `!tile.cells`, cell 0 |
    | saved state read | `!tile.cells`, a cell per `save_every` rows |
    | output | `!tile.rows`, to be stored to |
    | final state | `!tile.cells`, cell 0, to be stored to |
    | saved state written | `!tile.cells`, a cell per `save_every` rows, to be stored to |

    and then, all `index`: the sequence's length, the slice s, the query head h and the
    number of query heads H. What is not stored is undefined; two slices may
    store the same numbers to one place.

    `chunk` is the number of steps in a tile's first dimension. A saved state's
    cells are one per `save_every` steps from the sequence's first row on: cell c is
    slot ⌊first/save_every⌋ + n + c of the tensor, where `first` is the
    sequence's first row among all rows (n·T, or cu_seqlens[n]). `slices` counts
    the parts into which the program divides one axis of the state.

    Example:

    ```mlir
    %o = tile.program chunk 64 slices 1
        sequences(%q, %k, %v : tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>)
        outputs(tensor<?x?x?x64xbf16>) {
    ^bb0(%qr: !tile.rows<vector<64xbf16>>, %kr: !tile.rows<vector<64xbf16>>,
         %vr: !tile.rows<vector<64xbf16>>, %or: !tile.rows<vector<64xbf16>>,
         %length: index, %slice: index, %head: index, %heads: index):
      ...
      tile.end
    }
    ```

    Constraints:
    - C1: there is at least one sequence, and the region's arguments are those above.
    - C2: `chunk` and `slices` are positive.
    - C3: `save_every` is given, a multiple of `chunk`, where states are saved or saved
      ones read, and nowhere else.
  }];
  let arguments = (ins
    Variadic<Tile_Tensor>:$sequences, Variadic<Tile_Tensor>:$parameters,
    Variadic<Tile_TensorF32>:$initial_states, Variadic<Tile_Tensor>:$saved_states,
    Optional<Tile_Offsets>:$cu_seqlens, I64Attr:$chunk, OptionalAttr<I64Attr>:$save_every,
    I64Attr:$slices);
  let results = (outs Variadic<Tile_Tensor>:$outputs, Variadic<Tile_TensorF32>:$final_states,
                 Variadic<Tile_Tensor>:$saves);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    `chunk` $chunk (`save_every` $save_every^)? `slices` $slices
    (`sequences` `(` $sequences^ `:` type($sequences) `)`)?
    (`parameters` `(` $parameters^ `:` type($parameters) `)`)?
    (`initial` `(` $initial_states^ `:` type($initial_states) `)`)?
    (`saved` `(` $saved_states^ `:` type($saved_states) `)`)?
    (`cu_seqlens` `(` $cu_seqlens^ `:` type($cu_seqlens) `)`)?
    (`outputs` `(` type($outputs)^ `)`)?
    (`finals` `(` type($final_states)^ `)`)?
    (`saves` `(` type($saves)^ `)`)?
    attr-dict-with-keyword $body
  }];
  let hasRegionVerifier = 1;
  let extraClassDeclaration = [{
    ::mlir::Block &getBlock() { return getBody().front(); }
    ::mlir::ValueRange getSequenceArgs() { return args(0, getSequences().size()); }
    ::mlir::ValueRange getParameterArgs() { return args(1, getParameters().size()); }
    ::mlir::ValueRange getInitialArgs() { return args(2, getInitialStates().size()); }
    ::mlir::ValueRange getSavedArgs() { return args(3, getSavedStates().size()); }
    ::mlir::ValueRange getOutputArgs() { return args(4, getOutputs().size()); }
    ::mlir::ValueRange getFinalArgs() { return args(5, getFinalStates().size()); }
    ::mlir::ValueRange getSaveArgs() { return args(6, getSaves().size()); }
    ::mlir::Value getLength() { return args(7, 4)[0]; }
    ::mlir::Value getSlice() { return args(7, 4)[1]; }
    ::mlir::Value getHead() { return args(7, 4)[2]; }
    ::mlir::Value getNumHeads() { return args(7, 4)[3]; }
    /// The arguments of group `group`, of `count`, in the order of the description.
    ::mlir::ValueRange args(unsigned group, unsigned count);
    /// The types that the region's arguments must have. A parameter's is not
    /// determined by the operands; `parameterTypes` gives them.
    ::llvm::SmallVector<::mlir::Type> argumentTypes(::mlir::TypeRange parameterTypes);
  }];
}

def Tile_ChooseOp : Tile_Op<"choose", [
    Pure, AllTypesMatch<["single", "several", "result"]>]> {
  let summary = "what was computed for as many rows as there are";
  let description = [{
    `single` where the sequence `rows` has one row, else `several`; of the other
    nothing is asked, and what only it needs is not computed. A scan of one step, as
    decoding takes, and a block program may so share their place.

    Example:

    ```mlir
    %o = tile.choose single %step, several %chunked of %q
        : tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>
    ```

    Constraints:
    - C1: `rows` is a sequence, [B,T,H] or [B,T,H,C].
  }];
  let arguments = (ins Tile_Tensor:$single, Tile_Tensor:$several, Tile_Tensor:$rows);
  let results = (outs Tile_Tensor:$result);
  let assemblyFormat = [{
    `single` $single `,` `several` $several `of` $rows attr-dict `:` type($result) `,` type($rows)
  }];
  let hasVerifier = 1;
}

def Tile_EndOp : Tile_Op<"end", [Terminator, HasParent<"ProgramOp">]> {
  let summary = "ends a block program";
  let assemblyFormat = "attr-dict";
}

def Tile_LoadOp : Tile_Op<"load", [MemoryEffects<[MemRead]>]> {
  let summary = "load a tile of rows";
  let description = [{
    Rows `first` to `first`+R-1, of rows of channels those from `channel` on. Rows
    outside 0 to length-1 and channels beyond the row's end are zero. Rows of
    scalars give a vector of R.

    Example:

    ```mlir
    %q = tile.load %rows[%first, %c0] : !tile.rows<vector<60xbf16>> -> vector<64x64xbf16>
    %g = tile.load %gates[%first, %c0] : !tile.rows<f32> -> vector<64xf32>
    ```

    Constraints:
    - C1: the result has rank 1 for rows of scalars, 2 for rows of vectors, and the
      rows' element type.
  }];
  let arguments = (ins Tile_RowsType:$rows, Index:$first, Index:$channel);
  let results = (outs Tile_AnyTile:$result);
  let assemblyFormat = [{
    $rows `[` $first `,` $channel `]` attr-dict `:` type($rows) `->` type($result)
  }];
  let hasVerifier = 1;
}

def Tile_StoreOp : Tile_Op<"store", [MemoryEffects<[MemWrite]>]> {
  let summary = "store a tile of rows";
  let description = [{
    The inverse of `tile.load`: what lies outside the rows and channels is dropped.

    Example:

    ```mlir
    tile.store %o, %rows[%first, %c0] : vector<64x64xbf16>, !tile.rows<vector<60xbf16>>
    ```

    Constraints:
    - C1: as for `tile.load`.
  }];
  let arguments = (ins Tile_AnyTile:$tile, Tile_RowsType:$rows, Index:$first, Index:$channel);
  let assemblyFormat = [{
    $tile `,` $rows `[` $first `,` $channel `]` attr-dict `:` type($tile) `,` type($rows)
  }];
  let hasVerifier = 1;
}

def Tile_CellRowsOp : Tile_Op<"cell_rows", [Pure]> {
  let summary = "the rows of a cell";
  let description = [{
    Of cell `index`, an R×C matrix, rows 0 to R-1 as rows of C channels, which go through
    `tile.load`, `tile.store` and rings as a sequence's do. A cell that is not there has
    no rows.

    Example:

    ```mlir
    %rows = tile.cell_rows %saved[%c]
        : !tile.cells<vector<128x64xbf16>> -> !tile.rows<vector<64xbf16>>
    ```

    Constraints:
    - C1: a cell is a matrix, and the result has rows of its columns and element type.
  }];
  let arguments = (ins Tile_CellsType:$cells, Index:$index);
  let results = (outs Tile_RowsType:$rows);
  let assemblyFormat = "$cells `[` $index `]` attr-dict `:` type($cells) `->` type($rows)";
  let hasVerifier = 1;
}

def Tile_LoadCellOp : Tile_Op<"load_cell", [MemoryEffects<[MemRead]>]> {
  let summary = "load a part of a cell";
  let description = [{
    Of cell `index`, the part that starts at `offsets`, one for each of the cell's
    dimensions. What lies beyond the cell's end is zero.

    Example:

    ```mlir
    %S = tile.load_cell %h0[%c0] at (%c0, %c0)
        : !tile.cells<vector<60x60xf32>> -> vector<64x64xf32>
    ```

    Constraints:
    - C1: there is an offset for each of the cell's dimensions, and the result has its
      rank and element type.
  }];
  let arguments = (ins Tile_CellsType:$cells, Index:$index, Variadic<Index>:$offsets);
  let results = (outs AnyType:$result);
  let assemblyFormat = [{
    $cells `[` $index `]` `at` `(` $offsets `)` attr-dict `:` type($cells) `->` type($result)
  }];
  let hasVerifier = 1;
}

def Tile_StoreCellOp : Tile_Op<"store_cell", [MemoryEffects<[MemWrite]>]> {
  let summary = "store a part of a cell";
  let description = [{
    The inverse of `tile.load_cell`: what lies beyond the cell's end is dropped.

    Example:

    ```mlir
    tile.store_cell %S, %ht[%c0] at (%c0, %c0)
        : vector<64x64xf32>, !tile.cells<vector<60x60xf32>>
    ```

    Constraints:
    - C1: as for `tile.load_cell`.
  }];
  let arguments = (ins AnyType:$tile, Tile_CellsType:$cells, Index:$index,
                       Variadic<Index>:$offsets);
  let assemblyFormat = [{
    $tile `,` $cells `[` $index `]` `at` `(` $offsets `)` attr-dict `:` type($tile) `,`
    type($cells)
  }];
  let hasVerifier = 1;
}

def Tile_DotOp : Tile_Op<"dot", [Pure, AllTypesMatch<["acc", "result"]>]> {
  let summary = "a product of two tiles, added to a third";
  let description = [{
    `result = acc + lhs · rhs`, with lhs [M,L], rhs [L,N], or either of them
    `transposed`: [L,M], [N,L]. Products are exact and summed in f32.

    Example:

    ```mlir
    %p = tile.dot %q, %k transposed, %zero
        : vector<64x128xbf16>, vector<64x128xbf16>, vector<64x64xf32>
    ```

    Constraints:
    - C1: lhs and rhs have one element type, and M, L and N agree.
  }];
  let arguments = (ins Tile_Matrix:$lhs, Tile_Matrix:$rhs, Tile_MatrixF32:$acc,
                       UnitAttr:$lhs_transposed, UnitAttr:$rhs_transposed);
  let results = (outs Tile_MatrixF32:$result);
  let assemblyFormat = [{
    $lhs (`transposed` $lhs_transposed^)? `,` $rhs (`transposed` $rhs_transposed^)? `,` $acc
    attr-dict `:` type($lhs) `,` type($rhs) `,` type($acc)
  }];
  let hasVerifier = 1;
}

def Tile_CumsumOp : Tile_Op<"cumsum", [
    Pure, AllTypesMatch<["tile", "result"]>]> {
  let summary = "a running sum along time";
  let description = [{
    Along the first dimension: `result[i] = Σ_{j≤i} tile[j]`; with `exclusive`,
    j<i; with `reverse`, from the end: j≥i, or j>i. In f32, in the order of the
    walk. With `from` m, less what it would have in row m: that one is zero, and no
    sum of a matrix has terms from both of its sides.

    Example:

    ```mlir
    %G = tile.cumsum %g : vector<64x128xf32>
    %H = tile.cumsum reverse exclusive %g : vector<64xf32>
    %x = tile.cumsum %g from 32 : vector<64x128xf32>
    ```

    Constraints:
    - C1: `from` is a row's number.
  }];
  let arguments = (ins VectorOfRankAndType<[1, 2], [F32]>:$tile, UnitAttr:$reverse,
                       UnitAttr:$exclusive, OptionalAttr<I64Attr>:$from);
  let results = (outs VectorOfRankAndType<[1, 2], [F32]>:$result);
  let assemblyFormat = [{
    (`reverse` $reverse^)? (`exclusive` $exclusive^)? $tile (`from` $from^)? attr-dict `:`
    type($tile)
  }];
  let hasVerifier = 1;
}

def Tile_KeepOp : Tile_Op<"keep", [Pure, AllTypesMatch<["tile", "result"]>]> {
  let summary = "keep one side of the diagonal";
  let description = [{
    `result[i,j]` is `tile[i,j]` on one side of the diagonal and `otherwise`
    elsewhere, whatever `tile` has there: `lower` keeps j≤i, `upper` j≥i, with
    `strict` not the diagonal itself.

    Example:

    ```mlir
    %m = tile.keep lower %p else 0.0 : vector<64x64xf32>
    %n = tile.keep upper strict %e else 0xFF800000 : vector<64x64xf32>
    ```
  }];
  let arguments = (ins Tile_MatrixF32:$tile, F32Attr:$otherwise, UnitAttr:$upper,
                       UnitAttr:$strict);
  let results = (outs Tile_MatrixF32:$result);
  let assemblyFormat = [{
    (`upper` $upper^) : (`lower`)? (`strict` $strict^)? $tile `else` $otherwise attr-dict `:`
    type($tile)
  }];
}

def Tile_WindowOp : Tile_Op<"window", [
    Pure, SameVariadicOperandSize, AllTypesMatch<["tile", "result"]>]> {
  let summary = "keep the elements inside bounds";
  let description = [{
    `result[i,j]` is `tile[i,j]` where `from` ≤ (i,j) < `to` in each dimension,
    and `otherwise` elsewhere, whatever `tile` has there. Bounds may lie outside the tile.
    Takes out what is computed of rows and channels beyond the end, and puts a row
    in its place.

    Example:

    ```mlir
    %k1 = tile.window %k from (%c0, %c0) to (%rows, %c60) else 0.0 : vector<64x64xf32>
    %y1 = tile.window %y from (%i, %c0) to (%next, %c64) else 0.0 : vector<64x64xf32>
    ```

    Constraints:
    - C1: there is a bound of each kind for each of the tile's dimensions.
  }];
  let arguments = (ins VectorOfRankAndType<[1, 2], [F32]>:$tile, Variadic<Index>:$from,
                       Variadic<Index>:$to, F32Attr:$otherwise);
  let results = (outs VectorOfRankAndType<[1, 2], [F32]>:$result);
  let assemblyFormat = [{
    $tile `from` `(` $from `)` `to` `(` $to `)` `else` $otherwise attr-dict `:` type($tile)
  }];
  let hasVerifier = 1;
}

def Tile_SpreadOp : Tile_Op<"spread", [Pure]> {
  let summary = "repeat a vector along the other dimension";
  let description = [{
    `along 0`: `result[i,j] = vector[i]`; `along 1`: `result[i,j] = vector[j]`.

    Example:

    ```mlir
    %e = tile.spread %g along 0 : vector<64xf32> -> vector<64x128xf32>
    ```

    Constraints:
    - C1: the vector is as long as the result's dimension `dim`.
  }];
  let arguments = (ins Tile_Vector:$vector, Tile_Dim:$dim);
  let results = (outs Tile_MatrixF32:$result);
  let assemblyFormat = [{
    $vector `along` $dim attr-dict `:` type($vector) `->` type($result)
  }];
  let hasVerifier = 1;
}

def Tile_SumOp : Tile_Op<"sum", [Pure]> {
  let summary = "sum a tile over one dimension";
  let description = [{
    `over 0`: `result[j] = Σ_i tile[i,j]`; `over 1`: `result[i] = Σ_j tile[i,j]`,
    in f32, in an order that only the tile's shape and the schedule decide.

    Example:

    ```mlir
    %s = tile.sum %x over 1 : vector<64x128xf32> -> vector<64xf32>
    ```

    Constraints:
    - C1: the result is as long as the tile's other dimension.
  }];
  let arguments = (ins Tile_MatrixF32:$tile, Tile_Dim:$dim);
  let results = (outs Tile_Vector:$result);
  let assemblyFormat = [{
    $tile `over` $dim attr-dict `:` type($tile) `->` type($result)
  }];
  let hasVerifier = 1;
}

def Tile_WithinOp : Tile_Op<"within", [Pure]> {
  let summary = "whether no element is larger than a bound";
  let description = [{
    Whether |x| ≤ `bound` for every element x of every tile; of NaN it is not. Every
    thread of the block gets the answer, so that it may decide a branch of the whole
    block.

    Example:

    ```mlir
    %ok = tile.within 64.0 of %middle, %range : vector<128xf32>, vector<64x128xf32>
    ```

    Constraints:
    - C1: there is a tile.
  }];
  let arguments = (ins F32Attr:$bound, Variadic<VectorOfRankAndType<[1, 2], [F32]>>:$tiles);
  let results = (outs I1:$result);
  let assemblyFormat = "$bound `of` $tiles attr-dict `:` type($tiles)";
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Layouts: how a tile lies over a block's threads
//===----------------------------------------------------------------------===//

def Tile_LayoutKind : I32EnumAttr<"LayoutKind", "where a tile's elements are", [
    I32EnumAttrCase<"uniform", 0>, I32EnumAttrCase<"lanes", 1>,
    I32EnumAttrCase<"fragments", 2>, I32EnumAttrCase<"transposed_fragments", 3>,
    I32EnumAttrCase<"shared", 4>, I32EnumAttrCase<"panels", 5>,
    I32EnumAttrCase<"transposed_panels", 6>, I32EnumAttrCase<"rows", 7>]> {
  let cppNamespace = "::ejk::tile";
  let genSpecializedAttr = 0;
}

def Tile_LayoutAttr : AttrDef<Tile_Dialect, "Layout"> {
  let mnemonic = "layout";
  let summary = "how a tile lies over the threads of a block";
  let description = [{
    - `uniform`: one number, which every thread has, stands for all elements.
    - `lanes`: element i of a vector is in lane i mod 32 of every warp.
    - `fragments over R by C`: a matrix is divided over warps, warp w having part
      (w mod R, ⌊w / R⌋ mod C): of every 16·R rows those from 16·(w mod R) on, 16 of
      them, and of the columns the one of C equal parts. What it has is in 16×8
      accumulators of `mma.sync`: lane 4g+t has of each the elements (g, 2t),
      (g, 2t+1), (g+8, 2t), (g+8, 2t+1). With R a multiple of 4 these are the
      accumulators of `wgmma` too, of R/4 groups of four warps.
    - `transposed_fragments over R by C`: the matrix's transpose lies so.
    - `shared`: in shared memory, row by row.
    - `panels`: in shared memory, in panels of 64 columns of 16 bits, one behind the
      other, whose rows of 128 bytes stand row by row; the 16 bytes at place p of row r
      stand at place p xor (r mod 8) (`wgmma`'s and TMA's 128-byte swizzle), so that
      neither rows nor columns fall on the same banks.
    - `transposed_panels`: the matrix's transpose lies so.
    - `rows over R by 1`: of a vector, each thread has the elements of the rows that it
      has of a matrix in `fragments over R by C`, in the same order.

    Example: `#tile.layout<fragments over 2 by 4>`
  }];
  let parameters = (ins EnumParameter<Tile_LayoutKind>:$kind,
                    DefaultValuedParameter<"int64_t", "0">:$rowParts,
                    DefaultValuedParameter<"int64_t", "0">:$columnParts);
  let assemblyFormat = "`<` $kind (`over` $rowParts^ `by` $columnParts)? `>`";
}

def Tile_ConvertOp : Tile_Op<"convert", [Pure, AllTypesMatch<["tile", "result"]>]> {
  let summary = "the same tile, laid out otherwise";
  let description = [{
    Written by `ejk-assign-tile-layouts`, where an op needs a tile in another layout
    than the one it is made in.

    Example:

    ```mlir
    %a = tile.convert %q to <fragments over 2 by 2> : vector<64x64xbf16>
    ```
  }];
  let arguments = (ins Tile_Convertible:$tile, Tile_LayoutAttr:$layout);
  let results = (outs Tile_Convertible:$result);
  let assemblyFormat = "$tile `to` $layout attr-dict `:` type($tile)";
}

include "dialect/tile/TileRings.td"

#endif // EJK_DIALECT_TILE_TILE_TD
