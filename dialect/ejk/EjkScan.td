//===- EjkScan.td - the canonical loop over time and its steps --*- tablegen -*-===//
#ifndef EJK_DIALECT_EJK_EJKSCAN_TD
#define EJK_DIALECT_EJK_EJKSCAN_TD

include "dialect/ejk/Ejk.td"
include "mlir/IR/BuiltinAttributes.td"
include "mlir/Interfaces/SideEffectInterfaces.td"
include "mlir/Interfaces/InferTypeOpInterface.td"


// Inside a step the state is a K×V vector, a row of a sequence a K or V vector.
def Ejk_StepMatrix : VectorOfRankAndType<[2], [F32]>;
def Ejk_StepVector : VectorOfRankAndType<[1], [F32]>;
def Ejk_StepGate : AnyTypeOf<[F32, Ejk_StepVector]>;

def Ejk_ScanOp : Ejk_BaseOp<"scan", [
    Pure, AttrSizedOperandSegments, AttrSizedResultSegments, IsolatedFromAbove,
    SingleBlock]> {
  let opDocGroup = Ejk_Scans;
  let summary = "one canonical loop over time";
  let description = [{
    For each sequence n and head h, carries one or more states over the
    sequence's steps. The region is one step: it receives the step's row of each
    sequence operand, the head's part of each parameter, and the carried states;
    it yields the new states and the step's row of each output.

    ```
    for n in sequences, h in heads:          // independent of each other
      states = initial_states[n, h]          // or zero
      for t in n's steps:                    // last to first with `reverse`
        states, outputs[b, t, h] = region(sequences[b, t, h'], parameters[n, h'], states)
        // with queries, the outputs of each q in h·G to h·G+G-1 from queries[b, t, q]
      final_states[n, h] = states
    ```

    With `cu_seqlens`, sequence n's steps are rows cu_seqlens[n] to cu_seqlens[n+1]-1. Rows after
    the last offset belong to no sequence: no step reads or writes them. An output's rows there are
    zero in the interpreter and mean nothing in a kernel's results.

    With `save_every` C, a sequence's rows are cut, from its first row in memory
    on, into chunks of C, the last of them shorter. At the end of each chunk, in the
    direction of the scan, the step's saves are stored: chunk c of sequence n has
    slot ⌊first/C⌋ + n + c, where `first` is the sequence's first row among
    all B·T rows. A scan in the other direction reads them with `ejk.checkpoint`, each
    at the step that enters its chunk.

    With `segments`, a sequence is divided into segments of L rows, from its first row in memory
    on, the last of them shorter. Each is scanned by itself: it has an initial and a final state
    of its own, as if it were a sequence. Positions (`ejk.step_index`), the first and last row of
    `ejk.gate_gradient`, parameters, and the slots of saved states stay those of the sequence.
    States are then [segments,H,…] in the place of [N,H,…]:

    - of a batch, segment c of sequence n is n·⌈T/L⌉ + c, of B·⌈T/L⌉;
    - of packed sequences it is ⌊cu_seqlens[n]/L⌋ + n + c, of ⌊T/L⌋ + N. A segment that no
      sequence has is empty: its final state is its initial state.

    With `trailing` n, a scan of segments for its final states alone leaves rows out: only the last n rows of a
    segment, in the direction of the scan, are scanned. With `where`, so it is for the segments s and heads h of
    which `remembered[s,h]` is below 1, and all rows of the others are scanned.

    - A *sequence* is [B,T,H'] (a scalar per step) or [B,T,H',C] (a vector). Its
      head count H' divides H, that of the first sequence; head h reads h / (H/H').
    - A *query* is [B,T,Hq] or [B,T,Hq,C], with Hq = G·H heads. The G query heads h·G to
      h·G+G-1 share head h and its states. Values of the step that depend on a query
      differ from one of them to the other: they may be read with and go to outputs, not to
      states. Without queries, Hq is H.
    - A *parameter* does not change over time. It is the step value's shape,
      preceded by nothing, by [H'] or by [N,H']; `as` gives the step value's type.
    - A *state* is f32: [N,H], [N,H,C] or [N,H,K,V]; `zero` starts it from zero.
    - A *saved* state, read or written, is [slots,H,K,V] with ⌊B·T/C⌋ + N slots; the
      slots that no chunk has are undefined. Saves are rounded to its element type.
    - An *output* is [B,T,H] or [B,T,H,C]; [B,T,Hq] or [B,T,Hq,C] where it depends on a query.

    The region may hold:

    - the step ops `ejk.decay`, `ejk.outer_add`, `ejk.read`, `ejk.checkpoint`, `ejk.sum`,
      `ejk.max`, `ejk.cancelling_pair`, `ejk.rotate_half`, `ejk.step_index`, `ejk.head_index` and `ejk.num_heads`;
    - elementwise `arith` and `math`, constants and `vector.broadcast`, on numbers and
      vectors;
    - `scf.if` with results, whose branches hold elementwise ops alone. Both branches are
      computed, and the condition selects between their results. The derivative is that of
      the branch taken: the other branch adds nothing to it, not even a NaN.

    Row types are the tensors' own, so widening to f32 and rounding back are visible.

    Example (γ computed by the user from A and dt, as Mamba-2 does):

    ```mlir
    %o, %ht = ejk.scan
        sequences(%qt = %q : tensor<?x?x?x64xf32>, %kt = %k : tensor<?x?x?x64xf32>,
                  %vt = %v : tensor<?x?x?x32xf32>, %dt = %dts : tensor<?x?x?xf32>)
        parameters(%a = %A : tensor<?xf32> as f32)
        states(%S = zero : tensor<?x?x64x32xf32>)
        -> (tensor<?x?x?x32xf32>) {
      %ea = math.exp %a : f32
      %neg = arith.negf %ea : f32
      %g = arith.mulf %neg, %dt : f32
      %S1 = ejk.decay %S by %g along head : vector<64x32xf32>, f32
      %S2 = ejk.outer_add %S1, %kt, %vt : vector<64x32xf32>, vector<64xf32>, vector<32xf32>
      %ot = ejk.read %S2, %qt along key : vector<64x32xf32>, vector<64xf32>
      ejk.yield states(%S2 : vector<64x32xf32>) outputs(%ot : vector<32xf32>)
    }
    ```

    The same state for a group of query heads, which a server then keeps and moves once:

    ```mlir
    %o, %ht = ejk.scan
        sequences(%kt = %k : tensor<?x?x?x64xf32>, %vt = %v : tensor<?x?x?x32xf32>)
        queries(%qt = %q : tensor<?x?x?x64xf32>)
        states(%S = %h0 : tensor<?x?x64x32xf32>)
        -> (tensor<?x?x?x32xf32>) {
      %S1 = ejk.outer_add %S, %kt, %vt : vector<64x32xf32>, vector<64xf32>, vector<32xf32>
      %ot = ejk.read %S1, %qt along key : vector<64x32xf32>, vector<64xf32>
      ejk.yield states(%S1 : vector<64x32xf32>) outputs(%ot : vector<32xf32>)
    }
    ```

    Constraints:
    - C1: there is at least one sequence; sequences are rank 3 or 4, with equal B and T.
    - C2: each sequence's head count divides the first's.
    - C3: the last dimension of a rank-4 sequence or output, and all but [N,H] of a
      state, are static, from 1 to 512.
    - C4: a parameter's rank exceeds its step value's by 0, 1 or 2, their trailing
      sizes and element type agree, and H' divides H.
    - C5: states are f32, rank 2 to 4, and an initial state has its state's type.
    - C6: cu_seqlens is [N+1], i32 or i64, and B is 1.
    - C7: outputs are [B,T,H] or [B,T,H,C], with Hq for H where they depend on a query.
    - C8: the region's arguments and `ejk.yield` have the step types of the above.
    - C9: `save_every` is given, from 1 to 2³⁰, where states are saved or saved ones
      read; these are [slots,H,K,V]. Only `ejk.checkpoint` uses a saved state, after `with`.
    - C10: the region holds the ops above and no others. An op in a branch of `scf.if` has
      no undefined behaviour, so a quotient of integers there has a constant divisor.
    - C11: `save_every` divides the `least` rows of `segments`; of packed sequences `least` is
      `most`. Where `only` one segment is scanned, there are no outputs, queries, saved states or saves.
    - C12: queries are rank 3 or 4, with the sequences' B and T and one head count, which H divides.
      Beside them no saved states are read.
    - C13: beside queries, what depends on a query, on `ejk.head_index` or on `ejk.num_heads` is no
      K×V value and no carried state.
    - C14: `trailing` is from 1 to 2³⁰. Beside it are `segments`, and no outputs, queries, saved states or
      saves. `where` stands after it, and is [segments,H], f32.
  }];
  let arguments = (ins
    Variadic<Ejk_Tensor>:$sequences, Variadic<Ejk_Tensor>:$queries, Variadic<Ejk_Tensor>:$parameters,
    Variadic<Ejk_TensorF32>:$initial_states, Variadic<Ejk_Tensor>:$saved_states,
    Optional<Ejk_Offsets>:$cu_seqlens, Optional<Ejk_TensorF32>:$remembered,
    DenseBoolArrayAttr:$has_initial, UnitAttr:$reverse, OptionalAttr<I64Attr>:$save_every,
    OptionalAttr<Ejk_SegmentsAttr>:$segments, OptionalAttr<I64Attr>:$trailing);
  let results = (outs Variadic<Ejk_Tensor>:$outputs, Variadic<Ejk_TensorF32>:$final_states,
                 Variadic<Ejk_Tensor>:$saves);
  let regions = (region SizedRegion<1>:$body);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
  let hasRegionVerifier = 1;
  let hasCanonicalizer = 1;
  let skipDefaultBuilders = 1;
  let builders = [
    // `initialStates` has one entry per state, null for zero; `saveEvery` is 0 where
    // nothing is saved or read back. The region gets its one block with the right
    // arguments and no terminator.
    OpBuilder<(ins "::mlir::TypeRange":$outputTypes, "::mlir::TypeRange":$stateTypes,
      "::mlir::ValueRange":$sequences, "::mlir::ValueRange":$parameters,
      "::mlir::TypeRange":$parameterStepTypes, "::llvm::ArrayRef<::mlir::Value>":$initialStates,
      "::mlir::Value":$cuSeqlens, "bool":$reverse,
      CArg<"int64_t", "0">:$saveEvery, CArg<"::mlir::ValueRange", "{}">:$savedStates,
      CArg<"::mlir::TypeRange", "{}">:$saveTypes, CArg<"SegmentsAttr", "{}">:$segments,
      CArg<"::mlir::ValueRange", "{}">:$queries, CArg<"TrailingRows", "{}">:$trailing)>
  ];
  let extraClassDeclaration = [{
    /// The type a step sees of a tensor whose first `prefix` dimensions are
    /// the scan's own (batch, time, heads): a scalar, or a vector of the remaining dimensions.
    static ::mlir::Type getStepType(::mlir::RankedTensorType tensor, unsigned prefix);

    /// The first dimension of a state of a scan over `first`, its first sequence: N, or the number
    /// of segments; dynamic where it is not known.
    static int64_t countStates(::mlir::Value first, ::mlir::Value cuSeqlens,
                               SegmentsAttr segments);

    ::mlir::Block &getStep() { return getBody().front(); }
    TrailingRows getTrailingRows() { return {getTrailing().value_or(0), getRemembered()}; }
    unsigned getNumStates() { return getHasInitial().size(); }
    ::mlir::ValueRange getSequenceArgs();
    ::mlir::ValueRange getQueryArgs();
    /// The values of the step that differ between the query heads of a group.
    ::llvm::DenseSet<::mlir::Value> findQueryValues();
    ::mlir::ValueRange getParameterArgs();
    ::mlir::ValueRange getSavedArgs();
    ::mlir::ValueRange getStateArgs();
    /// The number of the first argument that is a state.
    unsigned getFirstStateArg() { return getStep().getNumArguments() - getNumStates(); }
    /// The initial value of state `i`; null when it starts from zero.
    ::mlir::Value getInitialState(unsigned i);
    YieldOp getYield();
  }];
}

def Ejk_YieldOp : Ejk_BaseOp<"yield", [
    Pure, Terminator, AttrSizedOperandSegments, HasParent<"ScanOp">]> {
  let opDocGroup = Ejk_Scans;
  let summary = "ends a step with the new states and the step's outputs";
  let description = [{
    Example:

    ```mlir
    ejk.yield states(%S1 : vector<64x32xf32>) outputs(%ot : vector<32xbf16>)
        saves(%S1 : vector<64x32xf32>)
    ```
  }];
  let arguments = (ins Variadic<AnyType>:$states, Variadic<AnyType>:$outputs,
                       Variadic<AnyType>:$saves);
  let builders = [OpBuilder<(ins "::mlir::ValueRange":$states, "::mlir::ValueRange":$outputs),
    [{ build($_builder, $_state, states, outputs, ::mlir::ValueRange()); }]>];
  let assemblyFormat = [{
    oilist(`states` `(` $states `:` type($states) `)`
         | `outputs` `(` $outputs `:` type($outputs) `)`
         | `saves` `(` $saves `:` type($saves) `)`) attr-dict
  }];
}

class Ejk_StepOp<string mnemonic, list<Trait> traits = []>
    : Ejk_BaseOp<mnemonic, [Pure, HasParent<"ScanOp">] # traits> {
  let opDocGroup = Ejk_Steps;
}

def Ejk_DecayOp : Ejk_StepOp<"decay", [AllTypesMatch<["state", "result"]>]> {
  let summary = "decay the state along an axis";
  let description = [{
    With a log gate of shape () along `head`, [K] along `key`, [V] along `value`:

    ```
    head:  result = exp(gate) · state
    key:   result = exp(gate)[:,None] ⊙ state
    value: result = exp(gate)[None,:] ⊙ state
    ```

    A gate of -inf gives zero whatever the state.

    Example:

    ```mlir
    %S1 = ejk.decay %S by %gk along key : vector<64x32xf32>, vector<64xf32>
    ```

    Constraints:
    - C1: the gate is a scalar along `head`, and a vector of the state's size
      along that axis otherwise.
  }];
  let arguments = (ins Ejk_StepMatrix:$state, Ejk_StepGate:$gate, Ejk_AxisAttr:$axis);
  let results = (outs Ejk_StepMatrix:$result);
  let assemblyFormat = [{
    $state `by` $gate `along` custom<AxisName>($axis) attr-dict `:` type($state) `,` type($gate)
  }];
  let hasVerifier = 1;
  let hasFolder = 1;
  let hasCanonicalizer = 1;
}

def Ejk_OuterAddOp : Ejk_StepOp<"outer_add", [AllTypesMatch<["state", "result"]>]> {
  let summary = "add an outer product to the state";
  let description = [{
    `result = state + key valueᵀ`, with state [K,V], key [K] and value [V].

    Example:

    ```mlir
    %S2 = ejk.outer_add %S1, %k, %v : vector<64x32xf32>, vector<64xf32>, vector<32xf32>
    %S3 = ejk.outer_add %S2, %k, %u corrects : vector<64x32xf32>, vector<64xf32>, vector<32xf32>
    ```

    With `corrects`, what the steps add nearly cancels, as that of a delta rule does where keys are
    nearly parallel: a step takes out of the state what earlier steps have added. Chunks then sum it
    in operands of two terms. Differentiation says so of outer products whose vectors were made of
    reads, in scans that get these vectors as sequences. It does not change what the op means.

    Constraints:
    - C1: key has the state's K, value its V.
  }];
  let arguments = (ins Ejk_StepMatrix:$state, Ejk_StepVector:$key, Ejk_StepVector:$value,
                       UnitAttr:$corrects);
  let results = (outs Ejk_StepMatrix:$result);
  let assemblyFormat = [{
    $state `,` $key `,` $value (`corrects` $corrects^)? attr-dict `:` type($state) `,` type($key) `,` type($value)
  }];
  let hasVerifier = 1;
}

def Ejk_ReadOp : Ejk_StepOp<"read", [InferTypeOpAdaptor]> {
  let summary = "read the state with a vector";
  let description = [{
    Contracts the state with a vector along one axis:

    ```
    key:   result[v] = Σ_k state[k,v] · vector[k]
    value: result[k] = Σ_v state[k,v] · vector[v]
    ```

    Example:

    ```mlir
    %o = ejk.read %S2, %q along key : vector<64x32xf32>, vector<64xf32>
    ```

    Constraints:
    - C1: the axis is `key` or `value`, and the vector has the state's size along it.
  }];
  let arguments = (ins Ejk_StepMatrix:$state, Ejk_StepVector:$vector, Ejk_AxisAttr:$axis);
  let results = (outs Ejk_StepVector:$result);
  let assemblyFormat = [{
    $state `,` $vector `along` custom<AxisName>($axis) attr-dict `:` type($state) `,` type($vector)
  }];
  let hasVerifier = 1;
}

def Ejk_CheckpointOp : Ejk_StepOp<"checkpoint", [AllTypesMatch<["vector", "result"]>]> {
  let opDocGroup = Ejk_Internals;
  let summary = "replace a vector by what a saved state gives for it";
  let description = [{
    At a step that enters a chunk of the scan's saved states, the product of a
    state with the saved one, summed along one axis, or along both to a number of the
    head; at other steps the vector:

    ```
    key:   result[v] = entering ? Σ_k state[k,v] · saved[k,v] : vector[v]
    value: result[k] = entering ? Σ_v state[k,v] · saved[k,v] : vector[k]
    head:  result = entering ? Σ_kv state[k,v] · saved[k,v] : vector
    ```

    What a gate's gradient is summed up from: a sum that is exact at every
    chunk's end loses nothing over a long sequence.

    Example:

    ```mlir
    %x1 = ejk.checkpoint %x, %A with %saved along value
        : vector<64xf32>, vector<64x32xf32>, vector<64x32xf32>
    ```

    Constraints:
    - C1: the vector has the state's size along the other axis, or is a number along
      `head`.
    - C2: `saved` is an argument of the step that is a saved state, of the state's shape.
  }];
  let arguments = (ins Ejk_StepGate:$vector, Ejk_StepMatrix:$state,
                       VectorOfRankAndType<[2], [F32, F16, BF16]>:$saved, Ejk_AxisAttr:$axis);
  let results = (outs Ejk_StepGate:$result);
  let assemblyFormat = [{
    $vector `,` $state `with` $saved `along` custom<AxisName>($axis) attr-dict `:`
    type($vector) `,` type($state) `,` type($saved)
  }];
  let hasVerifier = 1;
}

#endif // EJK_DIALECT_EJK_EJKSCAN_TD
