//===- EjkRecurrences.td - what a user writes -------------------*- tablegen -*-===//
#ifndef EJK_DIALECT_EJK_EJKRECURRENCES_TD
#define EJK_DIALECT_EJK_EJKRECURRENCES_TD

include "dialect/ejk/Ejk.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def Ejk_Float : AnyTypeOf<[F32, F16, BF16]>;
def Ejk_Tensor : RankedTensorOf<[F32, F16, BF16]>;
def Ejk_TensorF32 : RankedTensorOf<[F32]>;
def Ejk_Offsets : RankedTensorOf<[I32, I64]>;

// The constraints of recurrences, by number. Verifier and tests carry the numbers.
// Join with !strconcat: after '#', a bare name would be taken for a string.
defvar constraintsOfSequences = [{
    Constraints:
    - C1: query is [B,T,H,K], key [B,T,Hkv,K], value [B,T,Hkv,V], with equal B and T.
    - C2: query, key and value have one element type: f32, f16 or bf16.
    - C3: K and V are static, from 1 to 512.
    - C4: Hkv divides H.
}];
defvar constraintsOfG = [{
    - C5: `g` is [B,T,H], or [B,T,H,K] and then means exactly `gk`; f32, f16 or bf16,
      whatever query is.
    - C6: `g_gamma` is [H] or [N,H], f32.
}];
defvar constraintsOfChannelGates = [{
    - C7: `gk` is [B,T,H,K]; f32, f16 or bf16, whatever query is.
    - C8: `gv` is [B,T,H,V]; f32, f16 or bf16, whatever query is.
}];
defvar constraintsOfStates = [{
    - C9: `initial_state` is [N,H,K,V], f32.
    - C10: `cu_seqlens` is [N+1], i32 or i64, and B is 1.
    - C11: output is [B,T,H,V] in query's type.
    - C12: final_state is [N,H,K,V], f32.
    - C13: `softmax_scale` is finite.
}];
defvar sharedStateNotes = [{

    With `shared_state`, the query heads that share a key/value head share its state, too: gates are
    the key/value head's, and a server keeps and moves one state for the group. In the constraints
    then read Hkv for the H of gates, `initial_state` and final_state. Without it, each query head has
    a state of its own.

}];
defvar recurrenceNotes = [{

    With `cu_seqlens`, the first offset is 0, none is less than the one before it, and the last is
    at most T. Rows after the last offset belong to no sequence: they are not read, nothing is
    computed for them, and no state or gradient depends on them. The output's rows there have no
    meaning in a kernel's results unless the caller asks for zeros (`zero_unused_rows` of
    `ejk_launch_params`); the interpreter and Python's results have zeros there.

    Static sizes are checked by the verifier, dynamic ones before a launch.
    An unused final_state is not computed into memory.
}];

def Ejk_Scale : FloatAttrBase<F64, "f64 number, written as 0.125 or 0.125 : f64">;
def Ejk_LayerNumber : TypedSignlessIntegerAttrBase<I64, "uint64_t",
    "i64 number, written as 3 or 3 : i64">;

// The operands' types, verified before all else, so that errors call operands by name.
def Ejk_NamedOperands : NativeOpTrait<"NamedOperands">, StructuralOpTrait {
  let cppNamespace = "::ejk";
}

class Ejk_RecurrenceOp<string mnemonic, list<string> gates>
    : Ejk_BaseOp<mnemonic, [Pure, AttrSizedOperandSegments, Ejk_NamedOperands]> {
  let results = (outs
    Ejk_Tensor:$output,        // [B,T,H,V], query's type
    Ejk_TensorF32:$final_state // [N,H,K,V]
  );
  let extraClassDeclaration = [{
    /// In ODS order, which is that of the operands' segments.
    static ::llvm::ArrayRef<::llvm::StringRef> getOperandNames() {
      static constexpr ::llvm::StringRef names[] = {"}]
    # !interleave(["query", "key", "value"] # gates # ["initial_state", "cu_seqlens"], "\", \"")
    # [{"};
      return names;
    }
  }];
  let hasVerifier = 1;
  let opDocGroup = Ejk_Recurrences;
}

def Ejk_RecurrentOp : Ejk_RecurrenceOp<"recurrent", ["g", "g_gamma", "gk", "gv"]> {
  let summary = "the gated linear recurrence, with every gate it can have";
  let description = !strconcat([{
    Passes over each sequence step by step (from its last step to its first with
    `reverse`):

    ```
    D_t = exp(g_t + γ) · exp(gk_t)[:,None] · exp(gv_t)[None,:]
    S_t = D_t ⊙ S_{t-1} + k_t v_tᵀ
    o_t = softmax_scale · S_tᵀ q_t
    ```

    S starts from `initial_state` (zero when absent) and leaves as
    `final_state`. With `cu_seqlens`, sequence n is rows cu[n] to cu[n+1]-1 of
    the single batch entry; an empty sequence leaves its initial state. A gate
    of -inf forgets everything before its step. `softmax_scale` is K^-½ when absent.

    Example:

    ```mlir
    %o, %ht = ejk.recurrent %q, %k, %v gk(%gk : tensor<?x?x?x128xf32>)
        initial_state(%h0 : tensor<?x?x128x128xf32>) {softmax_scale = 1.0 : f64}
        : tensor<?x?x?x128xbf16>, tensor<?x?x?x128xbf16>, tensor<?x?x?x128xbf16>
        -> tensor<?x?x?x128xbf16>, tensor<?x?x128x128xf32>
    ```

  }], sharedStateNotes, constraintsOfSequences, constraintsOfG, constraintsOfChannelGates, constraintsOfStates,
  recurrenceNotes);
  let arguments = (ins
    Ejk_Tensor:$query, Ejk_Tensor:$key, Ejk_Tensor:$value,
    Optional<Ejk_Tensor>:$g, Optional<Ejk_TensorF32>:$g_gamma,
    Optional<Ejk_Tensor>:$gk, Optional<Ejk_Tensor>:$gv,
    Optional<Ejk_TensorF32>:$initial_state, Optional<Ejk_Offsets>:$cu_seqlens,
    OptionalAttr<Ejk_Scale>:$softmax_scale, UnitAttr:$reverse, UnitAttr:$shared_state);
  let assemblyFormat = [{
    (`reverse` $reverse^)? (`shared_state` $shared_state^)? $query `,` $key `,` $value
    oilist(`g` `(` $g `:` type($g) `)`
         | `g_gamma` `(` $g_gamma `:` type($g_gamma) `)`
         | `gk` `(` $gk `:` type($gk) `)`
         | `gv` `(` $gv `:` type($gv) `)`
         | `initial_state` `(` $initial_state `:` type($initial_state) `)`
         | `cu_seqlens` `(` $cu_seqlens `:` type($cu_seqlens) `)`)
    custom<EndOfOperands>("getOperandNames()") attr-dict `:`
    custom<OperandTypes>(type($query), type($key), type($value)) `->`
    custom<ResultTypes>(type($output), type($final_state))
  }];
}

def Ejk_GLAOp : Ejk_RecurrenceOp<"gla", ["g", "g_gamma"]> {
  let summary = "gated linear attention: the recurrence gated by g and γ";
  let description = !strconcat([{
    `ejk.recurrent` with `g` (either rank) and `g_gamma` only.

    Example:

    ```mlir
    %o, %ht = ejk.gla %q, %k, %v g(%g : tensor<?x?x?x64xbf16>)
        : tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>
        -> tensor<?x?x?x64xbf16>, tensor<?x?x64x64xf32>
    ```

  }], sharedStateNotes, constraintsOfSequences, constraintsOfG, constraintsOfStates, recurrenceNotes);
  let arguments = (ins
    Ejk_Tensor:$query, Ejk_Tensor:$key, Ejk_Tensor:$value,
    Optional<Ejk_Tensor>:$g, Optional<Ejk_TensorF32>:$g_gamma,
    Optional<Ejk_TensorF32>:$initial_state, Optional<Ejk_Offsets>:$cu_seqlens,
    OptionalAttr<Ejk_Scale>:$softmax_scale, UnitAttr:$reverse, UnitAttr:$shared_state);
  let assemblyFormat = [{
    (`reverse` $reverse^)? (`shared_state` $shared_state^)? $query `,` $key `,` $value
    oilist(`g` `(` $g `:` type($g) `)`
         | `g_gamma` `(` $g_gamma `:` type($g_gamma) `)`
         | `initial_state` `(` $initial_state `:` type($initial_state) `)`
         | `cu_seqlens` `(` $cu_seqlens `:` type($cu_seqlens) `)`)
    custom<EndOfOperands>("getOperandNames()") attr-dict `:`
    custom<OperandTypes>(type($query), type($key), type($value)) `->`
    custom<ResultTypes>(type($output), type($final_state))
  }];
}

def Ejk_LightningAttnOp : Ejk_RecurrenceOp<"lightning_attn", []> {
  let summary = "lightning attention: the recurrence with a fixed decay per head";
  let description = !strconcat([{
    `ejk.recurrent` with γ_h = -(8/H)(1 - layer_idx/num_layers)·h for
    h = 0 … H-1; head 0 never decays. The decay is the query head's, and so is the state.

    Example:

    ```mlir
    %o, %ht = ejk.lightning_attn %q, %k, %v {layer_idx = 3 : i64, num_layers = 24 : i64}
        : tensor<?x?x?x96xbf16>, tensor<?x?x?x96xbf16>, tensor<?x?x?x96xbf16>
        -> tensor<?x?x?x96xbf16>, tensor<?x?x96x96xf32>
    ```

  }], constraintsOfSequences, constraintsOfStates,
  "    - C14: 0 ≤ layer_idx < num_layers.\n", recurrenceNotes);
  let arguments = (ins
    Ejk_Tensor:$query, Ejk_Tensor:$key, Ejk_Tensor:$value,
    Optional<Ejk_TensorF32>:$initial_state, Optional<Ejk_Offsets>:$cu_seqlens,
    Ejk_LayerNumber:$layer_idx, Ejk_LayerNumber:$num_layers,
    OptionalAttr<Ejk_Scale>:$softmax_scale, UnitAttr:$reverse);
  let assemblyFormat = [{
    (`reverse` $reverse^)? $query `,` $key `,` $value
    oilist(`initial_state` `(` $initial_state `:` type($initial_state) `)`
         | `cu_seqlens` `(` $cu_seqlens `:` type($cu_seqlens) `)`)
    custom<EndOfOperands>("getOperandNames()") attr-dict `:`
    custom<OperandTypes>(type($query), type($key), type($value)) `->`
    custom<ResultTypes>(type($output), type($final_state))
  }];
}

def Ejk_DeltaRuleOp : Ejk_RecurrenceOp<"delta_rule", ["beta", "g", "gk"]> {
  let summary = "the delta rule: a recurrence that corrects what it reads";
  let description = !strconcat([{
    DeltaNet, with `g` gated DeltaNet, with `gk` KDA. A step reads the state before it writes it:

    ```
    D_t = exp(g_t) · exp(gk_t)[:,None]
    S'  = D_t ⊙ S_{t-1}
    u_t = beta_t · (v_t − S'ᵀ k_t)
    S_t = S' + k_t u_tᵀ
    o_t = softmax_scale · S_tᵀ q_t
    ```

    Several value heads may share a query and key head: value head h reads query and key head
    h / (Hv/Hk), and the state belongs to the value head. q and k are taken as given: normalise
    them before, or in a step of your own (examples/kda.mlir). The rest is as in `ejk.recurrent`.

    With `shared_state`, several queries share a value head and its state: query is [B,T,H,K] and
    output [B,T,H,V], and query head h reads value head h / (H/Hv). Hk is then the key's head count.

    Example:

    ```mlir
    %o, %ht = ejk.delta_rule %q, %k, %v beta(%beta : tensor<?x?x?xf32>) g(%g : tensor<?x?x?xf32>)
        : tensor<?x?x?x128xbf16>, tensor<?x?x?x128xbf16>, tensor<?x?x?x128xbf16>
        -> tensor<?x?x?x128xbf16>, tensor<?x?x128x128xf32>
    ```

    Constraints:
    - C1: query and key are [B,T,Hk,K], value [B,T,Hv,V], with equal B and T; with `shared_state`
      query is [B,T,H,K].
    - C2: query, key and value have one element type: f32, f16 or bf16.
    - C3: K and V are static, from 1 to 512.
    - C4: Hk divides Hv; with `shared_state` Hv divides H.
    - C5: `g` is [B,T,Hv]; f32, f16 or bf16, whatever query is.
    - C7: `gk` is [B,T,Hv,K]; f32, f16 or bf16, whatever query is.
    - C9: `initial_state` is [N,Hv,K,V], f32.
    - C10: `cu_seqlens` is [N+1], i32 or i64, and B is 1.
    - C11: output is [B,T,Hv,V], with `shared_state` [B,T,H,V], in query's type.
    - C12: final_state is [N,Hv,K,V], f32.
    - C13: `softmax_scale` is finite.
    - C15: `beta` is [B,T,Hv]; f32, f16 or bf16, whatever query is.
  }], recurrenceNotes);
  let arguments = (ins
    Ejk_Tensor:$query, Ejk_Tensor:$key, Ejk_Tensor:$value, Ejk_Tensor:$beta,
    Optional<Ejk_Tensor>:$g, Optional<Ejk_Tensor>:$gk,
    Optional<Ejk_TensorF32>:$initial_state, Optional<Ejk_Offsets>:$cu_seqlens,
    OptionalAttr<Ejk_Scale>:$softmax_scale, UnitAttr:$reverse, UnitAttr:$shared_state);
  let assemblyFormat = [{
    (`reverse` $reverse^)? (`shared_state` $shared_state^)? $query `,` $key `,` $value `beta` `(` $beta `:` type($beta) `)`
    oilist(`g` `(` $g `:` type($g) `)`
         | `gk` `(` $gk `:` type($gk) `)`
         | `initial_state` `(` $initial_state `:` type($initial_state) `)`
         | `cu_seqlens` `(` $cu_seqlens `:` type($cu_seqlens) `)`)
    custom<EndOfOperands>("getOperandNames()") attr-dict `:`
    custom<OperandTypes>(type($query), type($key), type($value)) `->`
    custom<ResultTypes>(type($output), type($final_state))
  }];
}

#endif // EJK_DIALECT_EJK_EJKRECURRENCES_TD
