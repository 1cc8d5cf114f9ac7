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
  let summary = "The program of one thread block for a chunked recurrence";
  // Its ops have attributes of this dialect.
  let dependentDialects = ["::ejk::EjkDialect"];
  let description = [{
    The level between `ejk.scan` and threads. A program says what one thread block
    computes for one sequence and head, chunk by chunk, on *tiles*. A tile is a
    `vector` of rank 1 or 2. Its first dimension is usually the steps of a chunk, in
    memory order. Programs use elementwise `arith` and `math`, `vector.broadcast` of a
    scalar, `vector.extract` and `vector.insert` of a row, `scf.for` and `scf.if`. This
    dialect adds the program itself, loads and stores of tiles, matmuls, reductions,
    cumsums, masks, and a fast path with its exact path (`tile.guarded`).

    A program starts without threads, layouts or shared memory. Later passes give each
    tile a layout (`tile.layout`), copy rows ahead through *rings* (`tile.ring`), and
    specialise warps (`tile.warp_specialize`). The interpreter runs programs at every stage.
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
    Rows 0 to length-1 of one sequence and of the program's head. If heads are shared,
    it is the key/value head that the query head reads. Each row has the type `row`: a
    scalar or a vector of channels. Example: `!tile.rows<vector<64xbf16>>`.
  }];
  let parameters = (ins "::mlir::Type":$row);
  let assemblyFormat = "`<` $row `>`";
}

def Tile_SlotsType : Tile_Type<"Slots", "slots"> {
  let summary = "state slots of one sequence and head in memory";
  let description = [{
    Slots for values that do not belong to one row, each of type `slot`: a scalar, a
    vector or a matrix. Vector parameters, initial and final states have one slot.
    Saved states have one slot per `save_every` rows. Example:
    `!tile.slots<vector<64x32xf32>>`.
  }];
  let parameters = (ins "::mlir::Type":$slot);
  let assemblyFormat = "`<` $slot `>`";
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
def Tile_Turns : TensorRankOf<[I32], [3]>;
def Tile_Segments : Attr<CPred<"::llvm::isa<::ejk::SegmentsAttr>($_self)">,
                         "how sequences are divided into segments"> {
  let storageType = "::ejk::SegmentsAttr";
  let returnType = "::ejk::SegmentsAttr";
  let convertFromStorage = "$_self";
}
def Tile_AnyTile : AnyTypeOf<[VectorOfRankAndType<[1, 2], [F32, F16, BF16]>]>;
// Masks and positions are laid out, too.
def Tile_Convertible : VectorOfRankAndType<[1, 2], [F32, F16, BF16, AnySignlessInteger, Index]>;
def Tile_Dim : ConfinedAttr<I64Attr, [IntNonNegative, IntMaxValue<1>]>;

def Tile_ProgramOp : Tile_Op<"program", [
    Pure, AttrSizedOperandSegments, AttrSizedResultSegments, IsolatedFromAbove,
    SingleBlock]> {
  let summary = "a block program, run for every sequence, head and slice";
  let description = [{
    Runs its region once for each sequence n, query head h and slice s, independently
    and in any order. Operands and results are those of `ejk.scan`. The region's
    arguments are the parts of them that belong to n and h, in this order:

    | for each | argument |
    |---|---|
    | sequence | `!tile.rows` of its step type |
    | parameter | its step value if that is a scalar, otherwise `!tile.slots`, slot 0 |
    | initial state | `!tile.slots`, slot 0 |
    | saved state read | `!tile.slots`, a slot per `save_every` rows |
    | output | `!tile.rows`, to be stored to |
    | final state | `!tile.slots`, slot 0, to be stored to |
    | saved state written | `!tile.slots`, a slot per `save_every` rows, to be stored to |

    The last four arguments are of type `index`: the sequence's length, the slice s, the
    query head h and the number of query heads H. With `segments`, two more follow: the
    position in its sequence of the segment's first row, and the sequence's length. Results
    are undefined where nothing is stored. Two slices may store equal values to the same place.

    `chunk` is the number of steps in a tile's first dimension. `slices` is the number of
    parts into which the program divides one axis of the state. A saved state has one
    slot per `save_every` steps from the sequence's first row on. Its slot c is number
    ⌊first/save_every⌋ + n + c in the tensor, where `first` is the sequence's first row
    among all rows (n·T, or cu_seqlens[n]).

    With `segments` (see `ejk.scan`) the region runs once for each segment instead of each
    sequence. Rows and the length are those of the segment, which has its own initial and
    final states. Slots of saved states start at the segment's first row.

    With `corrects`, a recurrence of the program's function corrects its state as a delta rule does,
    and the program may be that recurrence or a part of its derivative. Then rounding errors of
    matmul operands do not average out where channels are few (`ejk-split-operands`).

    With `turns`, [B,T,H] of zeros, the heads of a group store in turn, one after the other in the order of
    their numbers (`tile.await_turn`, `tile.pass_turn`). Where the only use of an output is an `ejk.sum_heads` of
    f32, a kernel then stores the sum, to which each head adds its rows. The tensor has room for how far each
    block has come, at its first row.

    With `trailing` n, the region's rows are a segment's last n ones, or its first n ones with
    `trailing reverse`; with `where`, so it is for the segments and heads of which `remembered` is below 1.

    With `skipping`, the region does not run for the sequences and heads of which `skipped` is 1 or more. With
    `into … at`, the results of these numbers start as the tensors that are given, whose memory a kernel writes.
    So two programs may compute the same results, each for the heads that the other skips.

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
    - C2: `chunk` and `slices` are positive, and `slices` is at most 512, the channels of the
      largest state.
    - C3: `save_every` is given if and only if states are saved or saved states are read,
      is a multiple of `chunk`, and is 2³⁰ at most.
    - C4: `save_every` divides the least rows of `segments`.
    - C5: no op of the region has a tensor or a memref as a result.
    - C6: `trailing` is from 1 to 2³⁰. Beside it are `segments`, and no saved states or saves. `where` stands
      after it, and is [segments,H].
    - C7: `skipped` is [N,H]. `into` has a tensor of its type for each result in `at`, whose numbers rise.
  }];
  let arguments = (ins
    Variadic<Tile_Tensor>:$sequences, Variadic<Tile_Tensor>:$parameters,
    Variadic<Tile_TensorF32>:$initial_states, Variadic<Tile_Tensor>:$saved_states,
    Optional<Tile_Offsets>:$cu_seqlens, Optional<Tile_Turns>:$turns,
    Optional<Tile_TensorF32>:$remembered, Optional<Tile_TensorF32>:$skipped,
    Variadic<Tile_Tensor>:$into, I64Attr:$chunk,
    OptionalAttr<I64Attr>:$save_every, OptionalAttr<Tile_Segments>:$segments, I64Attr:$slices,
    UnitAttr:$corrects, OptionalAttr<I64Attr>:$trailing, UnitAttr:$trailing_reverse,
    OptionalAttr<DenseI64ArrayAttr>:$into_results);
  let results = (outs Variadic<Tile_Tensor>:$outputs, Variadic<Tile_TensorF32>:$final_states,
                 Variadic<Tile_Tensor>:$saves);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    `chunk` $chunk (`save_every` $save_every^)? (`segments` $segments^)? `slices` $slices
    (`corrects` $corrects^)?
    (`sequences` `(` $sequences^ `:` type($sequences) `)`)?
    (`parameters` `(` $parameters^ `:` type($parameters) `)`)?
    (`initial` `(` $initial_states^ `:` type($initial_states) `)`)?
    (`saved` `(` $saved_states^ `:` type($saved_states) `)`)?
    (`cu_seqlens` `(` $cu_seqlens^ `:` type($cu_seqlens) `)`)?
    (`turns` `(` $turns^ `:` type($turns) `)`)?
    (`trailing` (`reverse` $trailing_reverse^)? $trailing^)?
    (`where` `(` $remembered^ `:` type($remembered) `)`)?
    (`skipping` `(` $skipped^ `:` type($skipped) `)`)?
    (`into` `(` $into^ `:` type($into) `)` `at` $into_results)?
    (`outputs` `(` type($outputs)^ `)`)?
    (`finals` `(` type($final_states)^ `)`)?
    (`saves` `(` type($saves)^ `)`)?
    attr-dict-with-keyword $body
  }];
  let hasRegionVerifier = 1;
  let extraClassDeclaration = [{
    ::mlir::Block &getBlock() { return getBody().front(); }
    /// The results that start as the tensors of `into`, in their order.
    ::llvm::SmallVector<::mlir::Value> getResultsFromInto();
    ::mlir::ValueRange getSequenceArgs() { return args(0, getSequences().size()); }
    ::mlir::ValueRange getParameterArgs() { return args(1, getParameters().size()); }
    ::mlir::ValueRange getInitialArgs() { return args(2, getInitialStates().size()); }
    ::mlir::ValueRange getSavedArgs() { return args(3, getSavedStates().size()); }
    ::mlir::ValueRange getOutputArgs() { return args(4, getOutputs().size()); }
    ::mlir::ValueRange getFinalArgs() { return args(5, getFinalStates().size()); }
    ::mlir::ValueRange getSaveArgs() { return args(6, getSaves().size()); }
    unsigned getNumScalars() { return getSegments() ? 6 : 4; }
    ::mlir::ValueRange getScalars() { return args(7, getNumScalars()); }
    ::mlir::Value getLength() { return getScalars()[0]; }
    ::mlir::Value getSlice() { return getScalars()[1]; }
    ::mlir::Value getHead() { return getScalars()[2]; }
    ::mlir::Value getNumHeads() { return getScalars()[3]; }
    /// The position in its sequence of the first row, and the sequence's length; null without
    /// segments, where they are 0 and the length.
    ::mlir::Value getFirstPosition() { return getSegments() ? getScalars()[4] : ::mlir::Value(); }
    ::mlir::Value getSequenceLength() { return getSegments() ? getScalars()[5] : ::mlir::Value(); }
    /// The arguments of group `group`, of `count`, in the order of the description.
    ::mlir::ValueRange args(unsigned group, unsigned count);
    /// The types that the region's arguments must have. The operands do not determine
    /// those of parameters, so `parameterTypes` gives them.
    ::llvm::SmallVector<::mlir::Type> argumentTypes(::mlir::TypeRange parameterTypes);
  }];
}

def Tile_ChooseOp : Tile_Op<"choose", [
    Pure, AllTypesMatch<["single", "several", "result"]>]> {
  let summary = "select a result by the number of rows";
  let description = [{
    The result is `single` if the sequence `rows` has one row, and `several` otherwise.
    The other operand is not computed. So one function can have a fast kernel for a
    single step, as in decoding, and a block program for longer sequences.

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

include "dialect/tile/TileMemory.td"
include "dialect/tile/TileMatmuls.td"

def Tile_CumsumOp : Tile_Op<"cumsum", [
    Pure, AllTypesMatch<["tile", "result"]>]> {
  let summary = "cumulative sum along time";
  let description = [{
    Along the first dimension: `result[i] = Σ_{j≤i} tile[j]`. With `exclusive`, j<i. With
    `reverse`, the sum starts at the end: j≥i, or j>i. Sums are in f32, in the direction of
    the scan. With `from` m, row m of the result is subtracted from all rows, so that row
    m is zero. For a matrix this is computed without cancellation: no sum contains terms
    from both sides of row m.

    Example:

    ```mlir
    %G = tile.cumsum %g : vector<64x128xf32>
    %H = tile.cumsum reverse exclusive %g : vector<64xf32>
    %x = tile.cumsum %g from 32 : vector<64x128xf32>
    ```

    With `by`, warpgroups multiply by that matrix in shared memory (`tile.triangle`).

    Constraints:
    - C1: `from` is a row's number.
    - C2: the triangle is a `tile.triangle` with the same attributes and as many rows.
  }];
  let arguments = (ins VectorOfRankAndType<[1, 2], [F32]>:$tile, UnitAttr:$reverse,
                       UnitAttr:$exclusive, OptionalAttr<I64Attr>:$from,
                       Optional<VectorOfRankAndType<[2], [F16, BF16]>>:$triangle);
  let results = (outs VectorOfRankAndType<[1, 2], [F32]>:$result);
  let assemblyFormat = [{
    (`reverse` $reverse^)? (`exclusive` $exclusive^)? $tile (`from` $from^)? (`by` $triangle^)?
    attr-dict `:` type($tile) (`,` type($triangle)^)?
  }];
  let hasVerifier = 1;
}

def Tile_MaskOp : Tile_Op<"mask", [Pure, AllTypesMatch<["tile", "result"]>]> {
  let summary = "mask one side of the diagonal";
  let description = [{
    `result[i,j]` is `tile[i,j]` on one side of the diagonal and `otherwise` elsewhere,
    even where `tile` is NaN. `lower` (the causal mask) keeps j≤i, and `upper` keeps j≥i.
    With `strict`, the diagonal is replaced, too.

    Example:

    ```mlir
    %m = tile.mask lower %p else 0.0 : vector<64x64xf32>
    %n = tile.mask upper strict %e else 0xFF800000 : vector<64x64xf32>
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
  let summary = "mask elements outside of bounds";
  let description = [{
    `result[i,j]` is `tile[i,j]` where `from` ≤ (i,j) < `to` in each dimension, and
    `otherwise` elsewhere, even where `tile` is NaN. Bounds may lie outside the tile. A
    window masks values computed for rows and channels past the end, or all rows but one.

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

def Tile_BroadcastOp : Tile_Op<"broadcast", [Pure]> {
  let summary = "broadcast a vector along the other dimension";
  let description = [{
    `along 0`: `result[i,j] = vector[i]`; `along 1`: `result[i,j] = vector[j]`.

    Example:

    ```mlir
    %e = tile.broadcast %g along 0 : vector<64xf32> -> vector<64x128xf32>
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
    `over 0`: `result[j] = Σ_i tile[i,j]`; `over 1`: `result[i] = Σ_j tile[i,j]`.
    Sums are in f32. Their order depends only on the tile's shape and the schedule.

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

def Tile_RangeGuardOp : Tile_Op<"range_guard", [Pure]> {
  let summary = "range guard: whether no element exceeds a bound";
  let description = [{
    True if |x| ≤ `bound` for every element x of every tile; false if one is NaN. Every
    thread of the block gets the same result, so the block can branch on it: to a fast
    path that is accurate within the bound, or to an exact path (`tile.guarded`).

    Example:

    ```mlir
    %ok = tile.range_guard 64.0 of %middle, %range : vector<128xf32>, vector<64x128xf32>
    ```

    Constraints:
    - C1: there is a tile.
  }];
  let arguments = (ins F32Attr:$bound, Variadic<VectorOfRankAndType<[1, 2], [F32]>>:$tiles);
  let results = (outs I1:$result);
  let assemblyFormat = "$bound `of` $tiles attr-dict `:` type($tiles)";
  let hasVerifier = 1;
}

include "dialect/tile/TileLayouts.td"
include "dialect/tile/TileGuarded.td"
include "dialect/tile/TileRings.td"
include "dialect/tile/TilePlan.td"

#endif // EJK_DIALECT_TILE_TILE_TD
