//===- EjkSegments.td - states of segments, between scans -------*- tablegen -*-===//
#ifndef EJK_DIALECT_EJK_EJKSEGMENTS_TD
#define EJK_DIALECT_EJK_EJKSEGMENTS_TD

include "dialect/ejk/EjkRecurrences.td"

def Ejk_CombineSegmentsOp : Ejk_BaseOp<"combine_segments", [Pure, AttrSizedOperandSegments]> {
  let opDocGroup = Ejk_Internals;
  let summary = "the states that segments start from";
  let description = [{
    Each segment j of a sequence maps the state S that it starts from to M_j S + X_j: M_j is its
    transition, and X_j what it ends with from zero. In the order of the segments, from the last one
    with `reverse`:

    ```
    S = initial state, or zero
    for j in segments:
      starts[j] = S
      S = transitions[j] · S + totals[j]
    final state = S
    ```

    With `where`, a segment and head of which `remembered` is below 1 keeps nothing of its start: then
    S = totals[j], and the transition is not read.

    All is computed in f32. A batch of N sequences has S/N segments for each; packed sequence n has
    those from `offsets[n]` to `offsets[n+1]`. Nothing of `like`, a sequence, matters but its first
    size, N of a batch.

    Example:

    ```mlir
    %starts, %ht = ejk.combine_segments %x by %m from %h0 : tensor<?x?x64x32xf32> like %v
        : tensor<?x?x64x32xf32>, tensor<?x?x64x64xf32>, tensor<?x?x?x32xbf16>
        -> tensor<?x?x64x32xf32>, tensor<?x?x64x32xf32>
    ```

    Constraints:
    - C1: totals are [S,H,K,V] and transitions [S,H,K,K], with static K and V.
    - C2: starts have the totals' sizes. The final state is [N,H,K,V], and so is the initial one.
    - C3: `remembered` is [S,H].
  }];
  let arguments = (ins Ejk_TensorF32:$totals, Ejk_TensorF32:$transitions,
                       Optional<Ejk_TensorF32>:$remembered, Optional<Ejk_TensorF32>:$initial,
                       Optional<Ejk_Offsets>:$offsets,
                       Ejk_Tensor:$like, UnitAttr:$reverse);
  let results = (outs Ejk_TensorF32:$starts, Ejk_TensorF32:$final_state);
  let assemblyFormat = [{
    (`reverse` $reverse^)? $totals `by` $transitions
    (`where` `(` $remembered^ `:` type($remembered) `)`)? (`from` $initial^ `:` type($initial))?
    (`offsets` $offsets^ `:` type($offsets))? `like` $like attr-dict `:` type($totals) `,`
    type($transitions) `,` type($like) `->` type($starts) `,` type($final_state)
  }];
  let hasVerifier = 1;
}

def Ejk_SegmentStartsOp : Ejk_BaseOp<"segment_starts", [Pure, AttrSizedOperandSegments]> {
  let opDocGroup = Ejk_Internals;
  let summary = "the saved states that segments start from";
  let description = [{
    A scan in the same direction has saved its state every L rows (`save_every` of `ejk.scan`). Segments of L
    rows start where it was then: the one that the scan comes to first from the sequence's initial state, or
    zero, and each other one from the state that was saved before it.

    `like` is a sequence of that scan. Of packed sequences, a segment that no sequence has starts from anything.

    Example:

    ```mlir
    %starts = ejk.segment_starts reverse %saves every 2048 from %h0 : tensor<?x?x64x32xf32> like %v
        : tensor<?x?x64x32xf32>, tensor<?x?x?x32xbf16> -> tensor<?x?x64x32xf32>
    ```

    Constraints:
    - C1: the saved states are [slots,H,K,V], with ⌊B·T/L⌋ + N slots and static K and V.
    - C2: starts are [S,H,K,V], with a state for each segment of `#ejk.segments<L to L, at_least 1>`. The
      initial state is [N,H,K,V].
    - C3: L is from 1 to 2³⁰.
  }];
  let arguments = (ins Ejk_TensorF32:$saves, Optional<Ejk_TensorF32>:$initial, Optional<Ejk_Offsets>:$cu_seqlens,
                       Ejk_Tensor:$like, I64Attr:$every, UnitAttr:$reverse);
  let results = (outs Ejk_TensorF32:$starts);
  let assemblyFormat = [{
    (`reverse` $reverse^)? $saves `every` $every (`from` $initial^ `:` type($initial))?
    (`cu_seqlens` `(` $cu_seqlens^ `:` type($cu_seqlens) `)`)? `like` $like attr-dict `:` type($saves) `,`
    type($like) `->` type($starts)
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// How the sequences are divided.
    SegmentsAttr getSegments() { return SegmentsAttr::ofRows(getContext(), getEvery()); }
  }];
}

#endif // EJK_DIALECT_EJK_EJKSEGMENTS_TD
