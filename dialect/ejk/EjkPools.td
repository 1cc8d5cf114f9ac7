//===- EjkPools.td - states that a server keeps in a pool -------*- tablegen -*-===//
#ifndef EJK_DIALECT_EJK_EJKPOOLS_TD
#define EJK_DIALECT_EJK_EJKPOOLS_TD

include "dialect/ejk/EjkRecurrences.td"

class Ejk_PoolOp<string mnemonic, list<Trait> traits = []>
    : Ejk_BaseOp<mnemonic, [Pure] # traits> {
  let opDocGroup = Ejk_Pools;
  let hasVerifier = 1;
}

def Ejk_ReadStatesOp : Ejk_PoolOp<"read_states"> {
  let summary = "the states of sequences, from a pool";
  let description = [{
    A server keeps the states of many sequences in one tensor, the pool, and computes for a few of
    them in one call. State n of the result is the pool's slot `index[n]`, widened to f32. An index
    below `first_slot` stands for no slot, and the state is zero. An index is less than P: the
    interpreter reports another one as an error, and a kernel takes it for no slot.

    With `value_major`, the matrix of a slot lies in the pool as [V,K].

    With `accepted`, the index has T slots for each sequence: those of the states after each of T
    drafted rows. Sequence n starts from slot `index[n, accepted[n] - 1]`. A kernel takes the
    nearest of 1 to T for another number.

    The step-by-step kernel of a recurrence reads the pool itself, as its initial state; other
    kernels read a copy. A kernel skips a sequence that has no slot to start from and none to end
    in: it stores nothing of it, and its output rows mean nothing unless `ejk.zero_skipped` clears
    them.

    Example:

    ```mlir
    %h0 = ejk.read_states %pool at %index
        : tensor<?x?x64x64xbf16>, tensor<?xi32> -> tensor<?x?x64x64xf32>
    %o, %ht = ejk.gla %q, %k, %v g(%g : tensor<?x?x?x64xf32>)
        initial_state(%h0 : tensor<?x?x64x64xf32>)
        : tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>
        -> tensor<?x?x?x64xbf16>, tensor<?x?x64x64xf32>
    %updated = ejk.write_states %ht to %pool at %index
        : tensor<?x?x64x64xf32>, tensor<?x?x64x64xbf16>, tensor<?xi32>
    ```

    Constraints:
    - C1: a matrix's pool is [P,H,K,V], with `value_major` [P,H,V,K], and the states are [N,H,K,V],
      with K and V static; a vector's pool is [P,H,C] and the states are [N,H,C], with C static; a
      number's pool is [P,H], and the states are [N,H].
    - C2: the index is [N]; with `accepted` the index is [N,T], and `accepted` [N].
    - C3: `first_slot` is 0 or more, so that no index before the pool is a slot.
  }];
  let arguments = (ins Ejk_Tensor:$pool, Ejk_Offsets:$index, Optional<Ejk_Offsets>:$accepted,
                       UnitAttr:$value_major, DefaultValuedAttr<ConfinedAttr<I64Attr, [IntNonNegative]>, "0">:$first_slot);
  let results = (outs Ejk_TensorF32:$states);
  let assemblyFormat = [{
    $pool `at` $index (`accepted` `(` $accepted^ `:` type($accepted) `)`)?
    (`value_major` $value_major^)? attr-dict `:` type($pool) `,` type($index) `->` type($states)
  }];
}

def Ejk_WriteStatesOp : Ejk_PoolOp<"write_states", [AllTypesMatch<["pool", "result"]>]> {
  let summary = "a pool with the states of some sequences replaced";
  let description = [{
    Slot `index[n]` of the result is state n of `states`, rounded to the pool's type; an index below
    `first_slot` writes nothing, nor does a kernel for an index of P or more. Other slots are those
    of the pool. No slot has two states.

    With an index [N,T], the states are those that a scan saves with `save_every 1`: the state after
    row t of sequence n goes to slot `index[n, t]`. Rows after the first T, and states after the
    sequence's last row, go nowhere. `cu_seqlens` are then the scan's, where it has any.

    With `value_major`, the matrix of a slot lies in the pool as [V,K].

    Compiled, the result is the pool's own memory: the pool is an argument of the function, the
    result is returned, and a call passes one buffer for both. A slot that one sequence starts from
    must not be a slot that another sequence writes: their order is not defined. A sequence may
    write the slot that it starts from.

    Example:

    ```mlir
    %updated = ejk.write_states %ht to %pool at %index
        : tensor<?x?x64x64xf32>, tensor<?x?x64x64xbf16>, tensor<?xi32>
    ```

    Constraints:
    - C1: pool and states are as in `ejk.read_states`, and the index is [N].
    - C2: with an index [N,T], the pool is a matrix's, and the states are [slots,H,K,V].
    - C3: `cu_seqlens` [N+1] is given with an index [N,T] alone.
    - C4: `first_slot` is 0 or more.
  }];
  let arguments = (ins Ejk_TensorF32:$states, Ejk_Tensor:$pool, Ejk_Offsets:$index,
                       Optional<Ejk_Offsets>:$cu_seqlens, UnitAttr:$value_major,
                       DefaultValuedAttr<ConfinedAttr<I64Attr, [IntNonNegative]>, "0">:$first_slot);
  let results = (outs Ejk_Tensor:$result);
  let assemblyFormat = [{
    $states `to` $pool `at` $index (`cu_seqlens` `(` $cu_seqlens^ `:` type($cu_seqlens) `)`)?
    (`value_major` $value_major^)? attr-dict `:` type($states) `,` type($pool) `,` type($index)
  }];
  let extraClassDeclaration = [{
    /// Whether the states after each row are written, rather than final ones.
    bool isPerRow() {
      return ::llvm::cast<::mlir::RankedTensorType>(getIndex().getType()).getRank() == 2;
    }
  }];
}

def Ejk_ZeroSkippedOp : Ejk_PoolOp<"zero_skipped", [AttrSizedOperandSegments,
                                                    AllTypesMatch<["rows", "result"]>]> {
  let summary = "rows of which those of sequences without a slot are zero";
  let description = [{
    A sequence is skipped where each of its indices is below `first_slot`, or P or more: it has no
    slot to start from and none to end in. A server pads a batch with such sequences. Their rows in
    the result are zero; other rows are those of `rows`. Nothing of the pool matters but P.

    Compiled, the result has the memory of `rows`, which nothing else may use. The kernel of the
    recurrence that makes the rows stores the zeros itself where it reads and writes the pool itself.

    Example:

    ```mlir
    %y = ejk.zero_skipped %o of %pool at %read, %write {first_slot = 1}
        : tensor<?x1x?x64xbf16>, tensor<?x?x64x64xf32>, tensor<?xi32>, tensor<?xi32>
    ```

    Constraints:
    - C1: the rows are [N,T,…]; with `cu_seqlens` [N+1] they are [1,T,…].
    - C2: there are 1 or 2 indices, each [N] or [N,T'].
    - C3: `first_slot` is 0 or more.
  }];
  let arguments = (ins Ejk_Tensor:$rows, Ejk_Tensor:$pool, Variadic<Ejk_Offsets>:$indices,
                       Optional<Ejk_Offsets>:$cu_seqlens,
                       DefaultValuedAttr<ConfinedAttr<I64Attr, [IntNonNegative]>, "0">:$first_slot);
  let results = (outs Ejk_Tensor:$result);
  let assemblyFormat = [{
    $rows `of` $pool `at` $indices (`cu_seqlens` `(` $cu_seqlens^ `:` type($cu_seqlens) `)`)?
    attr-dict `:` type($rows) `,` type($pool) `,` type($indices)
  }];
}

#endif // EJK_DIALECT_EJK_EJKPOOLS_TD
