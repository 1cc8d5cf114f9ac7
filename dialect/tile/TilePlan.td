//===- TilePlan.td - what orders accesses to shared memory ------*- tablegen -*-===//
//
// Included by Tile.td. `ejk-plan-memory` inserts these ops.
//
//===----------------------------------------------------------------------===//
#ifndef EJK_DIALECT_TILE_TILEPLAN_TD
#define EJK_DIALECT_TILE_TILEPLAN_TD

//===----------------------------------------------------------------------===//
// Barriers, fences, waits
//===----------------------------------------------------------------------===//

/// An op without operands or results. Memory effects keep these ops in order.
class Tile_OrderingOp<string mnemonic> : Tile_Op<mnemonic, [MemoryEffects<[MemRead, MemWrite]>]>;

def Tile_BarrierOp : Tile_OrderingOp<"barrier"> {
  let summary = "wait for the other threads of the block";
  let description = [{
    Every thread waits here for the other threads of its block, or of its `tile.partition`. Accesses
    of threads to shared memory before the barrier come before those after it. A barrier completes
    no copy and no matmul that is outstanding.

    Example: `tile.barrier`
  }];
  let assemblyFormat = "attr-dict";
}

def Tile_FenceOp : Tile_OrderingOp<"fence"> {
  let summary = "make a thread's stores visible to `wgmma` and TMA";
  let description = [{
    `wgmma` and TMA access shared memory by another way than threads do (the async proxy). What a
    thread stored before its fence, and what it copied and waited for, is visible to them after the
    next `tile.barrier`.

    Example: `tile.fence`
  }];
  let assemblyFormat = "attr-dict";
}

/// Waits until at most `pending` of this thread's outstanding groups are left.
class Tile_WaitOp<string mnemonic> : Tile_OrderingOp<mnemonic> {
  let arguments = (ins ConfinedAttr<I64Attr, [IntNonNegative]>:$pending);
  let assemblyFormat = "$pending attr-dict";
}

def Tile_WaitMatmulsOp : Tile_WaitOp<"wait_matmuls"> {
  let summary = "wait for asynchronous matmuls";
  let description = [{
    Waits until at most the last `pending` groups of `wgmma` are outstanding. A matmul is one group,
    and a `tile.cumsum` of transposed fragments one or three. The results of the others may then be
    used, and their operands in shared memory are no longer read.

    Example: `tile.wait_matmuls 1`
  }];
}

def Tile_WaitCopiesOp : Tile_WaitOp<"wait_copies"> {
  let summary = "wait for asynchronous copies by threads";
  let description = [{
    Waits until at most the last `pending` groups of this thread's copies to shared memory
    (`cp.async`) are outstanding. A `tile.fill` is one group, and so is a `tile.load` to shared
    memory. A barrier then makes what was copied visible to other threads.

    Example: `tile.wait_copies 2`
  }];
}

def Tile_WaitStoresOp : Tile_WaitOp<"wait_stores"> {
  let summary = "wait until bulk stores have read shared memory";
  let description = [{
    The lane that issues bulk stores waits until at most its last `pending` ones may still read
    their tiles in shared memory. A `tile.store bulk` is one. After the next barrier, threads may
    overwrite the tiles of the others.

    Example: `tile.wait_stores 0`
  }];
}

//===----------------------------------------------------------------------===//
// Turns of heads
//===----------------------------------------------------------------------===//

class Tile_TurnOp<string mnemonic> : Tile_OrderingOp<mnemonic> {
  let arguments = (ins Index:$number);
  let assemblyFormat = "$number attr-dict";
  let hasVerifier = 1;
}

def Tile_AwaitTurnOp : Tile_TurnOp<"await_turn"> {
  let summary = "wait until the head before has passed on a turn";
  let description = [{
    Every thread waits until the head before in its group has passed on more than `number` turns. A
    group's first head waits for none. Then the rows of that turn may be stored: sums over a group have
    their terms in the order of its heads.

    A head's block has a greater number than that of the head before, and GPUs start blocks in the order of
    their numbers: CUDA does not promise that, but CUB's scans rely on it, too. So no block waits for one that
    waits for its place.

    Example: `tile.await_turn %i`

    Constraints:
    - C1: the program has `turns`.
  }];
}

def Tile_PassTurnOp : Tile_TurnOp<"pass_turn"> {
  let summary = "let the next head store";
  let description = [{
    The head has stored all rows of its first `number` turns. The last `tile.barrier` comes after the
    stores of these, so that one thread says it for all. Nothing is said of 0 turns.

    Example: `tile.pass_turn %i`

    Constraints:
    - C1: the program has `turns`.
  }];
}

//===----------------------------------------------------------------------===//
// Cumsums and sums that go through shared memory, in parts
//===----------------------------------------------------------------------===//

def Tile_SplitTermOp : Tile_Op<"split_term", [Pure, AllTypesMatch<["tile", "rest"]>]> {
  let summary = "split a 16-bit term off an f32 tile";
  let description = [{
    `term` is the tile rounded to 16 bits, and `rest = tile - term`.

    Example:

    ```mlir
    %t, %r = tile.split_term %x : vector<64x128xf32> -> vector<64x128xbf16>
    ```

    Constraints:
    - C1: the term has the tile's shape.
  }];
  let arguments = (ins Tile_MatrixF32:$tile);
  let results = (outs VectorOfRankAndType<[2], [F16, BF16]>:$term, Tile_MatrixF32:$rest);
  let assemblyFormat = "$tile attr-dict `:` type($tile) `->` type($term)";
  let hasVerifier = 1;
}

def Tile_TriangleOp : Tile_Op<"triangle", [Pure]> {
  let summary = "the matrix that computes a cumsum as a matmul";
  let description = [{
    `tile.cumsum x` is this matrix times x: element (i, j) is 1 if sum i has the term j, otherwise
    0. `reverse` and `exclusive` are those of the cumsum. With `from` m, row m is subtracted from
    all rows. `wgmma` reads the matrix from shared memory.

    Example:

    ```mlir
    %t = tile.triangle : vector<64x64xbf16>
    %u = tile.triangle reverse exclusive from 32 : vector<64x64xbf16>
    ```

    Constraints:
    - C1: the matrix is square.
    - C2: `from` is a row's number.
  }];
  let arguments = (ins UnitAttr:$reverse, UnitAttr:$exclusive, OptionalAttr<I64Attr>:$from);
  let results = (outs VectorOfRankAndType<[2], [F16, BF16]>:$result);
  let assemblyFormat = [{
    (`reverse` $reverse^)? (`exclusive` $exclusive^)? (`from` $from^)? attr-dict `:` type($result)
  }];
  let hasVerifier = 1;
}

def Tile_AddCumsumOp : Tile_Op<"add_cumsum", [Pure, AllTypesMatch<["acc", "result"]>]> {
  let summary = "accumulate the cumsum of a 16-bit tile";
  let description = [{
    `result = acc + tile.cumsum term`, for a term in shared memory, by tensor cores. A `tile.cumsum`
    of an f32 matrix is the sum of three, one for each of the bf16 terms that `tile.split_term`
    splits off the matrix. With `by`, warpgroups read the triangle from shared memory; without, each
    warp makes it in registers.

    Example:

    ```mlir
    %s = tile.add_cumsum %t to %zero by %triangle
        : vector<64x128xbf16>, vector<64x128xf32>, vector<64x64xbf16>
    %u = tile.add_cumsum reverse exclusive %r to %s from 32 : vector<64x128xbf16>, vector<64x128xf32>
    ```

    Constraints:
    - C1: the term has the shape of `acc`.
    - C2: `from` is a row's number.
    - C3: the triangle is a `tile.triangle` with the same attributes, of the term's element type,
      with as many rows as the term.
  }];
  let arguments = (ins VectorOfRankAndType<[2], [F16, BF16]>:$term, Tile_MatrixF32:$acc,
                       Optional<VectorOfRankAndType<[2], [F16, BF16]>>:$triangle,
                       UnitAttr:$reverse, UnitAttr:$exclusive, OptionalAttr<I64Attr>:$from);
  let results = (outs Tile_MatrixF32:$result);
  let assemblyFormat = [{
    (`reverse` $reverse^)? (`exclusive` $exclusive^)? $term `to` $acc (`by` $triangle^)?
    (`from` $from^)? attr-dict `:` type($term) `,` type($acc) (`,` type($triangle)^)?
  }];
  let hasVerifier = 1;
}

def Tile_PartialSumOp : Tile_Op<"partial_sum", [Pure]> {
  let summary = "sum the parts of a tile that warps have";
  let description = [{
    `tile.sum` in two steps. Where several warps have elements of one sum, each stores the sum of
    its own to shared memory. The result has P parts of L elements, L as `tile.sum` has: element
    p·L + i is a part of sum i. Which elements belong to which part is left to the layout.

    Example:

    ```mlir
    %p = tile.partial_sum %x over 1 : vector<64x128xf32> -> vector<256xf32>
    %s = tile.add_parts %p : vector<256xf32> -> vector<64xf32>
    ```

    Constraints:
    - C1: the result is some times as long as the tile's other dimension.
  }];
  let arguments = (ins Tile_MatrixF32:$tile, Tile_Dim:$dim);
  let results = (outs Tile_Vector:$result);
  let assemblyFormat = "$tile `over` $dim attr-dict `:` type($tile) `->` type($result)";
  let hasVerifier = 1;
}

def Tile_AddPartsOp : Tile_Op<"add_parts", [Pure]> {
  let summary = "add the parts of sums";
  let description = [{
    `result[i] = Σ_p parts[p·L + i]`, with L the length of the result, in the order of p.

    Example: see `tile.partial_sum`.

    Constraints:
    - C1: the parts are some times as long as the result.
  }];
  let arguments = (ins Tile_Vector:$parts);
  let results = (outs Tile_Vector:$result);
  let assemblyFormat = "$parts attr-dict `:` type($parts) `->` type($result)";
  let hasVerifier = 1;
}

#endif // EJK_DIALECT_TILE_TILEPLAN_TD
