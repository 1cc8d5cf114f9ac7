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
    them in one call. State n of the result is state `index[n]` of the pool, widened to f32. A
    negative index stands for no sequence: the state is zero, and what a recurrence computes from
    it is undefined, for a kernel skips the sequence and writes nothing of it. An index is less than
    P; a kernel takes others for negative ones.

    A kernel for sequences of one row reads the pool itself, as the recurrence's initial state;
    others read a copy.

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
    - C1: the pool is [P,H,K,V], the index [N], the states are [N,H,K,V], with K and V static.
  }];
  let arguments = (ins Ejk_Tensor:$pool, Ejk_Offsets:$index);
  let results = (outs Ejk_TensorF32:$states);
  let assemblyFormat = [{
    $pool `at` $index attr-dict `:` type($pool) `,` type($index) `->` type($states)
  }];
}

def Ejk_WriteStatesOp : Ejk_PoolOp<"write_states", [AllTypesMatch<["pool", "result"]>]> {
  let summary = "a pool with the states of some sequences replaced";
  let description = [{
    State `index[n]` of the result is state n of `states`, rounded to the pool's type; a negative
    index writes nothing. Other states are those of the pool. No two sequences have one index.

    Compiled, the result is the pool's own memory: the pool is an argument of the function, the
    result is returned, and a call passes one buffer for both.

    Example:

    ```mlir
    %updated = ejk.write_states %ht to %pool at %index
        : tensor<?x?x64x64xf32>, tensor<?x?x64x64xbf16>, tensor<?xi32>
    ```

    Constraints:
    - C1: the pool is [P,H,K,V], the index [N], the states are [N,H,K,V], with K and V static.
  }];
  let arguments = (ins Ejk_TensorF32:$states, Ejk_Tensor:$pool, Ejk_Offsets:$index);
  let results = (outs Ejk_Tensor:$result);
  let assemblyFormat = [{
    $states `to` $pool `at` $index attr-dict `:` type($states) `,` type($pool) `,` type($index)
  }];
}

#endif // EJK_DIALECT_EJK_EJKPOOLS_TD
