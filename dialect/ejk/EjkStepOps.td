//===- EjkStepOps.td - what a step computes beside its states ----*- tablegen -*-===//
#ifndef EJK_DIALECT_EJK_EJKSTEPOPS_TD
#define EJK_DIALECT_EJK_EJKSTEPOPS_TD

include "dialect/ejk/EjkScan.td"

def Ejk_SumOp : Ejk_StepOp<"sum"> {
  let summary = "the sum of a vector's channels";
  let description = [{
    `result = Σ_c vector[c]`, in f32. It is the adjoint of `vector.broadcast`.

    Example:

    ```mlir
    %s = ejk.sum %x : vector<64xf32>
    ```
  }];
  let arguments = (ins Ejk_StepVector:$vector);
  let results = (outs F32:$result);
  let assemblyFormat = "$vector attr-dict `:` type($vector)";
}

def Ejk_MaxOp : Ejk_StepOp<"max"> {
  let summary = "the largest of a vector's channels";
  let description = [{
    `result = max_c vector[c]`; NaN where a channel is NaN. Under differentiation the
    channels that have the largest value share the result's cotangent equally.

    Example:

    ```mlir
    %m = ejk.max %x : vector<64xf32>
    ```
  }];
  let arguments = (ins Ejk_StepVector:$vector);
  let results = (outs F32:$result);
  let assemblyFormat = "$vector attr-dict `:` type($vector)";
}

def Ejk_RotateHalfOp : Ejk_StepOp<"rotate_half", [AllTypesMatch<["vector", "result"]>]> {
  let summary = "rotate the two halves of a vector by a right angle";
  let description = [{
    Channel c of the first half and channel c of the second are the two coordinates of a
    point in a plane, as rotary position embeddings take them. For a vector of 2n channels:

    ```
    result[c]     = −vector[c + n]        0 ≤ c < n
    result[c + n] =  vector[c]
    ```

    A rotation by the angles φ is `x ⊙ cos φ + rotate_half(x) ⊙ sin φ`. The adjoint is the
    rotation the other way, `−rotate_half(cotangent)`.

    Example:

    ```mlir
    %y = ejk.rotate_half %x : vector<64xf32>
    ```

    Constraints:
    - C1: the number of channels is even.
  }];
  let arguments = (ins VectorOfRankAndType<[1], [F32, F16, BF16]>:$vector);
  let results = (outs VectorOfRankAndType<[1], [F32, F16, BF16]>:$result);
  let assemblyFormat = "$vector attr-dict `:` type($vector)";
  let hasVerifier = 1;
}

def Ejk_StepIndexOp : Ejk_StepOp<"step_index"> {
  let summary = "the position of this step in its sequence";
  let description = [{
    The number of rows of the sequence that lie before this step's in memory: 0 to
    length−1. It counts from the sequence's own first row, packed or not, and does not
    depend on the direction of the scan: with `reverse` the first step computed has the
    largest index. A position that goes on from an earlier call is a sequence, not this.

    Example:

    ```mlir
    %t = ejk.step_index : index
    ```
  }];
  let results = (outs Index:$result);
  let assemblyFormat = "attr-dict `:` type($result)";
}

def Ejk_GateGradientOp : Ejk_StepOp<"gate_gradient", [AllTypesMatch<["gradient", "result"]>]> {
  let summary = "a gate's gradient, zero where the gate has no effect";
  let description = [{
    The gradient, or exactly zero where the gate cannot have an effect: where it is -inf, and
    in the first or last row of the sequence where the state that it decays is zero there. In
    other places a gradient is a sum of terms that cancel, and rounding leaves something of it.

    ```
    result = gate = -inf ? 0 : gradient
    zero_first, in the sequence's first row: result = 0
    zero_last, in the sequence's last row: result = 0
    ```

    Example:

    ```mlir
    %dgk = ejk.gate_gradient %m of %gk zero_first : vector<64xf32>, vector<64xf32>
    ```

    Constraints:
    - C1: the gate is of the gradient's type, or a number.
  }];
  let arguments = (ins Ejk_StepGate:$gradient, Ejk_StepGate:$gate, UnitAttr:$zero_first,
                       UnitAttr:$zero_last);
  let results = (outs Ejk_StepGate:$result);
  let assemblyFormat = [{
    $gradient `of` $gate (`zero_first` $zero_first^)? (`zero_last` $zero_last^)? attr-dict `:`
    type($gradient) `,` type($gate)
  }];
  let hasVerifier = 1;
}

def Ejk_CancellingPairOp : Ejk_StepOp<"cancelling_pair", [
    Elementwise, Scalarizable, Vectorizable, Tensorizable, SameOperandsAndResultType]> {
  let opDocGroup = Ejk_Internals;
  let summary = "a vector times what a state gives, one side of a cancelling pair";
  let description = [{
    `result = vector ⊙ read`, a term of a sum that is a gate's gradient. The backward scan subtracts
    the same terms, computed from the state's adjoint, so that almost all of both cancels. What is
    left is right only if both scans round alike, so a schedule that rounds the operands of a matmul
    must round `vector` and the operand of `read` as the other scan rounds them.

    Example:

    ```mlir
    %r = ejk.read %S1, %o along value : vector<64x32xf32>, vector<32xf32>
    %p = ejk.cancelling_pair %q, %r : vector<64xf32>
    ```

    With `corrects`, the other scan adds `vector` and the operand of `read` by an `ejk.outer_add` that
    `corrects`, so that it rounds them to two terms.

    Constraints:
    - C1: `read` is what an `ejk.read` of this step gives, or a row of a sequence, where a pass
      moved the read to an earlier scan.
    - C2: the result is a term of a sum: `ejk.sum`, `arith.addf`, `arith.subf` and the outputs of
      `ejk.yield` use it, and nothing else does.
  }];
  let arguments = (ins Ejk_StepVector:$vector, Ejk_StepVector:$read, UnitAttr:$corrects);
  let results = (outs Ejk_StepVector:$result);
  let assemblyFormat = "$vector `,` $read (`corrects` $corrects^)? attr-dict `:` type($result)";
  let extraClassDeclaration = [{
    /// The ejk.read that gives `read`; null where an earlier scan has it.
    ReadOp getReadOp();
  }];
}

def Ejk_HeadIndexOp : Ejk_StepOp<"head_index"> {
  let summary = "the query head this step belongs to, 0 to Hq-1";
  let description = [{
    Without queries, Hq is H.

    Example:

    ```mlir
    %h = ejk.head_index : index
    ```
  }];
  let results = (outs Index:$result);
  let assemblyFormat = "attr-dict `:` type($result)";
}

def Ejk_NumHeadsOp : Ejk_StepOp<"num_heads"> {
  let summary = "the number of query heads, Hq";
  let description = [{
    Without queries, Hq is H.

    Example:

    ```mlir
    %H = ejk.num_heads : index
    ```
  }];
  let results = (outs Index:$result);
  let assemblyFormat = "attr-dict `:` type($result)";
}

#endif // EJK_DIALECT_EJK_EJKSTEPOPS_TD
