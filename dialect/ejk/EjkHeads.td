//===- EjkHeads.td - heads of a group, between scans ------------*- tablegen -*-===//
#ifndef EJK_DIALECT_EJK_EJKHEADS_TD
#define EJK_DIALECT_EJK_EJKHEADS_TD

include "dialect/ejk/EjkRecurrences.td"

def Ejk_SumHeadsOp : Ejk_BaseOp<"sum_heads", [Pure]> {
  let opDocGroup = Ejk_Internals;
  let summary = "sum over the query heads that share a head";
  let description = [{
    Head h' of the result is the sum of the heads h'·G to h'·G+G-1 of the
    tensor, G = H/H', with H' that of `like`: what heads that read one head give
    back to it. Summed in f32, in the order of the heads, and rounded once to
    the result's type. Nothing of `like` matters but its shape.

    Example:

    ```mlir
    %dk = ejk.sum_heads %x along 2 like %k
        : tensor<?x?x?x64xf32>, tensor<?x?x?x64xbf16> -> tensor<?x?x?x64xbf16>
    ```

    Constraints:
    - C1: tensor and `like` agree in rank and in every size but that of the
      dimension `dim`, which lies inside the rank.
    - C2: `like`'s size along `dim` divides the tensor's.
    - C3: the result has `like`'s shape.
  }];
  let arguments = (ins Ejk_TensorF32:$tensor, I64Attr:$dim, Ejk_Tensor:$like);
  let results = (outs Ejk_Tensor:$result);
  let assemblyFormat = [{
    $tensor `along` $dim `like` $like attr-dict `:` type($tensor) `,` type($like)
    `->` type($result)
  }];
  let hasVerifier = 1;
}

class Ejk_HeadsOp<string mnemonic> : Ejk_BaseOp<mnemonic, [Pure]> {
  let opDocGroup = Ejk_Internals;
  let results = (outs Ejk_TensorF32:$result);
  let hasVerifier = 1;
}

def Ejk_RepeatHeadsOp : Ejk_HeadsOp<"repeat_heads"> {
  let summary = "a copy of a head's state for each query head of its group";
  let description = [{
    Head h of the result is head h / G of the states, G = Hq/H, with the heads Hq that `like` has in
    its dimension `dim`. With `first_only` it is zero where h is no multiple of G. Nothing of `like`
    matters but this size.

    Example:

    ```mlir
    %each = ejk.repeat_heads %h0 like %q at 2
        : tensor<?x?x64x64xf32>, tensor<?x?x?x64xbf16> -> tensor<?x?x64x64xf32>
    ```

    Constraints:
    - C1: the states are [N,H,…], of rank 2 to 4, and `dim` lies inside the rank of `like`.
    - C2: H divides Hq.
    - C3: the result is [N,Hq,…].
  }];
  let arguments = (ins Ejk_TensorF32:$states, Ejk_Tensor:$like, I64Attr:$dim, UnitAttr:$first_only);
  let assemblyFormat = [{
    $states `like` $like `at` $dim (`first_only` $first_only^)? attr-dict `:` type($states) `,` type($like)
    `->` type($result)
  }];
}

def Ejk_FirstHeadsOp : Ejk_HeadsOp<"first_heads"> {
  let summary = "the state of the first query head of each group";
  let description = [{
    Head h of the result is head h·G of the states, G = Hq/H, with the heads H that `like` has in its
    dimension `dim`. Where the query heads of a group have one state, it is that state. Nothing of
    `like` matters but this size.

    Example:

    ```mlir
    %ht = ejk.first_heads %each like %k at 2
        : tensor<?x?x64x64xf32>, tensor<?x?x?x64xbf16> -> tensor<?x?x64x64xf32>
    ```

    Constraints:
    - C1: the states are [N,Hq,…], of rank 2 to 4, and `dim` lies inside the rank of `like`.
    - C2: H divides Hq.
    - C3: the result is [N,H,…].
  }];
  let arguments = (ins Ejk_TensorF32:$states, Ejk_Tensor:$like, I64Attr:$dim);
  let assemblyFormat = [{
    $states `like` $like `at` $dim attr-dict `:` type($states) `,` type($like) `->` type($result)
  }];
}

#endif // EJK_DIALECT_EJK_EJKHEADS_TD
