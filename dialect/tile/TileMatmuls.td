//===- TileMatmuls.td - products and triangular systems ---------*- tablegen -*-===//
//
// Included by Tile.td.
//
//===----------------------------------------------------------------------===//
#ifndef EJK_DIALECT_TILE_TILEMATMULS_TD
#define EJK_DIALECT_TILE_TILEMATMULS_TD

/// The names are StableHLO's, of its `dot_general` algorithms.
def Tile_DotAlgorithm : I32EnumAttr<"DotAlgorithm", "how tensor cores multiply f32 matrices", [
    I32EnumAttrCase<"tf32", 1>, I32EnumAttrCase<"bf16x3", 2>, I32EnumAttrCase<"bf16x6", 3>]> {
  let cppNamespace = "::ejk::tile";
  let genSpecializedAttr = 0;
}

def Tile_DotAlgorithmAttr : EnumAttr<Tile_Dialect, Tile_DotAlgorithm, "algorithm"> {
  let assemblyFormat = "$value";
}

def Tile_DotOp : Tile_Op<"dot", [Pure, AllTypesMatch<["acc", "result"]>]> {
  let summary = "multiply two matrices and accumulate";
  let description = [{
    `result = acc + lhs · rhs`, a matmul with lhs [M,L] and rhs [L,N]. With `transposed`,
    lhs is [L,M] and rhs is [N,L]. Elements are multiplied exactly and accumulated in f32.

    With `over` [from, to], the sum has only those l with from ≤ l < to. With `rows` [from, to], only
    the rows m of the result with from ≤ m < to get a sum, and the others are acc's. So a matmul of
    block triangular matrices leaves out blocks that are zero.

    Tensor cores multiply 16-bit numbers. So an f32 operand is the sum of bf16 terms, each of which
    is the rounding of what those before it leave: x = x1 + x2 + …, where x_i is about 2^-8 of
    x_{i-1}. `in` says which products of terms are summed, and so how exact the matmul is:

    - `bf16x3`: two terms, x1 y1 + x1 y2 + x2 y1. An operand's error is 2^-17 of each element, and
      as much is left out with x2 y2.
    - `bf16x6`: three terms, and x1 y3 + x2 y2 + x3 y1 too. What is left out is 2^-24 of x y, as f32
      rounds.

    Products of later terms and those of the first are summed apart, and the sum is added to `acc`
    in f32: tensor cores truncate what they accumulate, and every step of L would truncate `acc`.

    In `tf32` there are no terms: tensor cores take f32 operands, of which `tile.round_to_tf32` has left
    the 11 bits that they multiply. An operand's error is 2^-12 of each element, at any size that f32 has.
    Such a matmul takes twice the time of one of 16-bit operands. Operand A comes from registers, and a row
    of B lies along L.

    Example:

    ```mlir
    %p = tile.dot %q, %k transposed, %zero
        : vector<64x128xbf16>, vector<64x128xbf16>, vector<64x64xf32>
    %y = tile.dot %r, %n, %n_f32 over [32, 64]
        : vector<64x64xbf16>, vector<64x64xbf16>, vector<64x64xf32>
    %x = tile.dot %l, %u, %b over [0, 32] rows [32, 64]
        : vector<64x64xbf16>, vector<64x128xbf16>, vector<64x128xf32>
    %s = tile.dot %k transposed, %v, %s0 in bf16x6
        : vector<32x64xf32>, vector<32x128xf32>, vector<64x128xf32>
    ```

    Constraints:
    - C1: lhs and rhs have one element type, and M, L and N agree.
    - C2: `over` has two multiples of 16, with 0 ≤ from < to ≤ L.
    - C3: `in` is for f32 operands. Without it only the interpreter multiplies those.
    - C4: `rows` has two multiples of 16, with 0 ≤ from < to ≤ M.
    - C5: operands that are multiplied in `tf32` are not transposed.
  }];
  let arguments = (ins Tile_Matrix:$lhs, Tile_Matrix:$rhs, Tile_MatrixF32:$acc,
                       UnitAttr:$lhs_transposed, UnitAttr:$rhs_transposed,
                       OptionalAttr<DenseI64ArrayAttr>:$over,
                       OptionalAttr<DenseI64ArrayAttr>:$rows,
                       OptionalAttr<Tile_DotAlgorithmAttr>:$algorithm);
  let results = (outs Tile_MatrixF32:$result);
  let assemblyFormat = [{
    $lhs (`transposed` $lhs_transposed^)? `,` $rhs (`transposed` $rhs_transposed^)? `,` $acc
    (`over` $over^)? (`rows` $rows^)? (`in` $algorithm^)? attr-dict `:` type($lhs) `,` type($rhs)
    `,` type($acc)
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// What `over` and `rows` count in: L and M of one MMA.
    static constexpr int64_t kStep = 16;
    /// The first l of the sum, and the one after its last.
    std::pair<int64_t, int64_t> getRange() {
      if (std::optional<llvm::ArrayRef<int64_t>> over = getOver())
        return {over->front(), over->back()};
      return {0, getLhs().getType().getDimSize(getLhsTransposed() ? 0 : 1)};
    }
    /// The first row of the result that gets a sum, and the one after the last.
    std::pair<int64_t, int64_t> getRowRange() {
      if (std::optional<llvm::ArrayRef<int64_t>> rows = getRows())
        return {rows->front(), rows->back()};
      return {0, getType().getDimSize(0)};
    }
    /// The terms of an operand.
    static unsigned termsOf(DotAlgorithm algorithm) { return unsigned(algorithm); }
    /// Calls `visit` with the terms of lhs and rhs of each product, the smallest products first.
    static void forEachProduct(DotAlgorithm algorithm,
                               llvm::function_ref<void(unsigned, unsigned)> visit) {
      for (unsigned sum = termsOf(algorithm); sum-- > 0;)
        for (unsigned i = 0; i <= sum; ++i)
          visit(sum - i, i);
    }
    /// Whether tensor cores take f32 operands as they are.
    bool isInTf32() { return getAlgorithm() == DotAlgorithm::tf32; }
    /// How many matmuls of 16-bit operands take as long.
    unsigned countProducts() {
      unsigned terms = getAlgorithm() ? termsOf(*getAlgorithm()) : 1;
      return isInTf32() ? 2 : terms * (terms + 1) / 2;
    }
  }];
}

def Tile_RoundToTf32Op : Tile_Op<"round_to_tf32",
    [Pure, SameOperandsAndResultType] # ElementwiseMappable.traits> {
  let summary = "round f32 elements to the 11 bits of tf32";
  let description = [{
    Each element becomes the nearest number with 11 significant bits, the even one of two that are
    as near; infinities and NaNs stay. tf32 has the exponents of f32, so that only elements above
    its largest number become infinite. For `tile.dot` in `tf32`, which reads no more bits.

    Example:

    ```mlir
    %r = tile.round_to_tf32 %x : vector<64x128xf32>
    ```
  }];
  let arguments = (ins Tile_MatrixF32:$tile);
  let results = (outs Tile_MatrixF32:$result);
  let assemblyFormat = "$tile attr-dict `:` type($tile)";
}

def Tile_SolveOp : Tile_Op<"solve", [Pure, AllTypesMatch<["rhs", "result"]>]> {
  let summary = "solve a unit triangular system, for each column";
  let description = [{
    The X with `X − L X = rhs`, or, where `transposed`, `X − Lᵀ X = rhs`, with L the part of
    `matrix` strictly below its diagonal; what else the matrix holds does not count. By
    substitution, in f32:

    ```
    X[i] = rhs[i] + Σ_{j<i} matrix[i,j] X[j]
    transposed: X[i] = rhs[i] + Σ_{j>i} matrix[j,i] X[j]
    ```

    What a delta rule's steps add in a chunk, where each depends on what those before have added.

    Example:

    ```mlir
    %u = tile.solve %m, %b : vector<64x64xf32>, vector<64x128xf32>
    %w = tile.solve transposed %m, %b : vector<64x64xf32>, vector<64x128xf32>
    ```

    `in` is the algorithm of the matmuls that it becomes (`tile.dot`); without it, they take bf16
    operands of two terms.

    Constraints:
    - C1: the matrix is square, with as many rows as `rhs`.
  }];
  let arguments = (ins Tile_MatrixF32:$matrix, Tile_MatrixF32:$rhs, UnitAttr:$transposed,
                       OptionalAttr<Tile_DotAlgorithmAttr>:$algorithm);
  let results = (outs Tile_MatrixF32:$result);
  let assemblyFormat = [{
    (`transposed` $transposed^)? $matrix `,` $rhs (`in` $algorithm^)? attr-dict `:` type($matrix) `,` type($rhs)
  }];
  let hasVerifier = 1;
}

def Tile_InvertDiagonalOp : Tile_Op<"invert_diagonal", [Pure, AllTypesMatch<["matrix", "result"]>]> {
  let summary = "invert the unit triangular blocks on a matrix's diagonal";
  let description = [{
    With L_b the part of the b-th block on the diagonal that lies strictly below that, the
    b-th block of the result is `(I − L_b)⁻¹ − I`, which lies there, too. Other elements are the
    matrix's. By substitution, in f32, one thread for each column: `block` steps that wait for
    each other. What a solve has of blocks, between which matmuls do the rest.

    Example:

    ```mlir
    %t = tile.invert_diagonal %m blocks 16 : vector<64x64xf32>
    ```

    Constraints:
    - C1: the matrix is square, and `block` divides its size.
    - C2: `block` is 8, 16 or 32.
  }];
  let arguments = (ins Tile_MatrixF32:$matrix, I64Attr:$block);
  let results = (outs Tile_MatrixF32:$result);
  let assemblyFormat = "$matrix `blocks` $block attr-dict `:` type($matrix)";
  let hasVerifier = 1;
}

def Tile_MergeInversesOp : Tile_Op<"merge_inverses", [Pure, AllTypesMatch<["matrix", "result"]>]> {
  let summary = "merge pairs of inverted blocks on a matrix's diagonal";
  let description = [{
    The inverse of a block of twice as many rows, from those of its halves. With A and B two
    neighbours on the diagonal that `tile.invert_diagonal` or this op gave, and C the block below A
    and left of B, C becomes `(I + B) C (I + A)`: `[A 0; C B]` is then the inverse of the pair, less
    the identity. Other elements are the matrix's. In f32; a kernel multiplies two tf32 terms of each
    operand, which have 21 of its 24 bits, on tensor cores, one warp for each pair.

    Example:

    ```mlir
    %t = tile.merge_inverses %m blocks 16 : vector<64x64xf32>
    ```

    Constraints:
    - C1: the matrix is square, and twice `block` divides its size.
    - C2: `block` is 8 or 16.
  }];
  let arguments = (ins Tile_MatrixF32:$matrix, I64Attr:$block);
  let results = (outs Tile_MatrixF32:$result);
  let assemblyFormat = "$matrix `blocks` $block attr-dict `:` type($matrix)";
  let hasVerifier = 1;
}

#endif // EJK_DIALECT_TILE_TILEMATMULS_TD
