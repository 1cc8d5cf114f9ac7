//===- TileGuarded.td - a fast path behind a range guard --------*- tablegen -*-===//
#ifndef EJK_DIALECT_TILE_TILEGUARDED_TD
#define EJK_DIALECT_TILE_TILEGUARDED_TD

include "mlir/Interfaces/ControlFlowInterfaces.td"

def Tile_GuardedOp : Tile_Op<"guarded", [
    DeclareOpInterfaceMethods<RegionBranchOpInterface, ["getRegionInvocationBounds"]>,
    SingleBlockImplicitTerminator<"::ejk::tile::YieldOp">, RecursiveMemoryEffects, RecursivelySpeculatable,
    NoRegionArguments]> {
  let summary = "a fast path behind a range guard, and an exact path";
  let description = [{
    Runs `fast` if `guard` is true, and `exact` otherwise. Both compute the same, up to
    rounding, wherever the guard is true. The exact path computes it for all inputs.

    So a pass may rely on the guard's bounds in `fast`, and not in `exact`: it may compute
    exponentials by polynomials, scale rows by e^-x, or round what is live across the
    branch. The exact path runs rarely. A pass may make it slower to make the fast path
    faster: matmuls are not scheduled in it, and tiles are spilled to shared memory there.
    A pass may divide a result over several, as long as both paths follow
    (`ejk-defer-state-scaling`).

    Every thread of a block takes the same path. The op becomes an `scf.if` when the program
    is lowered to threads.

    Example:

    ```mlir
    %weak = tile.range_guard 64.0 of %x : vector<64x64xf32>
    %o = tile.guarded %weak -> (vector<64x64xf32>) fast {
      %e = math.exp %x : vector<64x64xf32>
      %p = arith.mulf %e, %y : vector<64x64xf32>
      tile.yield %p : vector<64x64xf32>
    } exact {
      ...
      tile.yield %q : vector<64x64xf32>
    }
    ```

    Constraints:
    - C1: the guard is the result of a `tile.range_guard`, also where a loop carries it or a
      branch yields it.
    - C2: each path yields values of the results' types.
    - C3: no op of the exact path is an exponential that is computed by a polynomial
      (`tile.polynomial`), or uses one: it is only valid within the guard's bounds.
  }];
  let arguments = (ins I1:$guard);
  let results = (outs Variadic<AnyType>:$results);
  let regions = (region SizedRegion<1>:$fast, SizedRegion<1>:$exact);
  let skipDefaultBuilders = 1;
  let builders = [
    // Both paths are empty blocks, without terminators.
    OpBuilder<(ins "::mlir::TypeRange":$results, "::mlir::Value":$guard)>];
  let assemblyFormat = [{
    $guard (`->` `(` type($results)^ `)`)? `fast` $fast `exact` $exact attr-dict
  }];
  let hasCanonicalizer = 1;
  let hasVerifier = 1;
  let hasRegionVerifier = 1;
  let extraClassDeclaration = [{
    ::mlir::Block *getFastBlock() { return &getFast().front(); }
    ::mlir::Block *getExactBlock() { return &getExact().front(); }
    ::ejk::tile::YieldOp getFastYield();
    ::ejk::tile::YieldOp getExactYield();
    /// Replaces the op by one with results of `more` types, too. The caller adds to what the
    /// paths yield. The layouts of a laid-out program are not carried over.
    GuardedOp addResults(::mlir::OpBuilder &b, ::mlir::TypeRange more);
  }];
}

def Tile_YieldOp : Tile_Op<"yield", [Pure, ReturnLike, Terminator, HasParent<"GuardedOp">]> {
  let summary = "ends a path of `tile.guarded`";
  let description = [{
    Gives the results of the path that ran.
  }];
  let arguments = (ins Variadic<AnyType>:$values);
  let builders = [OpBuilder<(ins), [{ /* nothing to yield */ }]>];
  let assemblyFormat = "attr-dict ($values^ `:` type($values))?";
}

#endif // EJK_DIALECT_TILE_TILEGUARDED_TD
