//===- Ejk.td - the ejk dialect: gated linear recurrences -------*- tablegen -*-===//
#ifndef EJK_DIALECT_EJK_EJK_TD
#define EJK_DIALECT_EJK_EJK_TD

include "mlir/IR/OpBase.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"
include "dialect/ejk/KnownAttributes.td"

def Ejk_Dialect : Dialect {
  let name = "ejk";
  let cppNamespace = "::ejk";
  let summary = "Gated linear recurrences";
  let description = [{
    A gated linear recurrence keeps, for each sequence and head, a state S of
    K×V numbers that decays by gates and gains an outer product at each step:

    ```
    D_t = exp(g_t + γ) · exp(gk_t)[:,None] · exp(gv_t)[None,:]
    S_t = D_t ⊙ S_{t-1} + k_t v_tᵀ
    o_t = scale · S_tᵀ q_t
    ```

    The dialect has two levels. `ejk.recurrent` and its short forms `ejk.gla`
    and `ejk.lightning_attn` say what a user means. `ejk.scan` is the one
    canonical form they become: a loop over time whose region is one step, made
    of a few step ops (`ejk.decay`, `ejk.outer_add`, `ejk.read`) and of
    elementwise `arith` and `math` on the step's scalars and vectors.

    Letters: B batch, T time steps, N sequences (N = B unless packed), H query
    heads, Hkv key/value heads (Hkv divides H; query head h reads key/value head
    h / (H/Hkv)), K key channels, V value channels. B, T, N, H and Hkv may be
    dynamic; K and V are static. All gates are natural logarithms of decays.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect"];
  let useDefaultAttributePrinterParser = 1;
  let hasOperationAttrVerify = 1;
  let hasRegionArgAttrVerify = 1;
  let hasRegionResultAttrVerify = 1;
}

def Ejk_AxisEnum : I32EnumAttr<"Axis", "what of the state a step op acts along", [
    I32EnumAttrCase<"head", 0>, I32EnumAttrCase<"key", 1>,
    I32EnumAttrCase<"value", 2>]> {
  let cppNamespace = "::ejk";
  let genSpecializedAttr = 0;
}
def Ejk_AxisAttr : EnumAttr<Ejk_Dialect, Ejk_AxisEnum, "axis"> {
  let assemblyFormat = "`<` $value `>`";
}

def Ejk_SegmentsAttr : AttrDef<Ejk_Dialect, "Segments"> {
  let mnemonic = "segments";
  let summary = "how a scan divides each sequence into segments of rows";
  let description = [{
    All segments of a scan but a sequence's last have L rows, and L depends on T, the rows of a
    batch entry, alone:

    ```
    L = min(most, max(least, least · ⌈T / (least · count)⌉))
    ```

    so that a long batch entry has `count` segments or more, and none is longer than `most`. Packed
    sequences have one length whatever their rows come to: their `least` is `most`.

    With `exactly` in the place of `at_least`, L has no other bound, and each batch entry has `count` segments
    whatever its rows are; the last ones may have none. With `only` i, the others than segment i are not
    scanned, and there is a state for each sequence.

    A `whole` sequence is one segment: L is T + 1. So one kernel scans segments and sequences.

    Examples: `#ejk.segments<64 to 4096, at_least 4>`, `#ejk.segments<64, exactly 2>`,
    `#ejk.segments<64, exactly 2, only 0>`, `#ejk.segments<whole>`

    Constraints:
    - C1: `least`, `most` and `count` are from 1 to 2³⁰, and `least` divides `most`; or all are 0, for
      `whole`.
    - C2: `only` is of `exactly` so many, and is from 0 to `count` - 1.
  }];
  let parameters = (ins "int64_t":$least, "int64_t":$most, "int64_t":$count, "bool":$exact,
                        "std::optional<int64_t>":$only);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    static SegmentsAttr whole(::mlir::MLIRContext *context) { return get(context, 0, 0, 0, false, {}); }
    /// Of `rows` rows each.
    static SegmentsAttr ofRows(::mlir::MLIRContext *context, int64_t rows) {
      return get(context, rows, rows, 1, false, {});
    }
    static SegmentsAttr exactly(::mlir::MLIRContext *context, int64_t count, int64_t least);
    bool isWhole() const { return getMost() == 0; }
    /// Segment `number` alone of exactly so many.
    SegmentsAttr onlyOf(int64_t number) const;
    /// Whether there is one state for each sequence.
    bool isOneEach() const { return isWhole() || getOnly(); }
    /// L, where a batch entry has `rows` rows.
    int64_t rowsOf(int64_t rows) const;
    /// The segments of `batch` entries of `rows` rows, or of `sequences` packed ones.
    int64_t countOf(int64_t batch, int64_t rows, int64_t sequences, bool packed) const;
  }];
}

class Ejk_BaseOp<string mnemonic, list<Trait> traits = []>
    : Op<Ejk_Dialect, mnemonic, [Ejk_KnownAttributes] # traits>;

// The sections of docs/dialect.md, in this order; ops stand there in the order of their
// definitions.
def Ejk_Recurrences : OpDocGroup {
  let summary = "Recurrences";
  let description = "What a user writes: whole tensors, optional gates, packed sequences.";
}
def Ejk_Pools : OpDocGroup {
  let summary = "States in a pool";
  let description = "Where a server keeps the states of its sequences between calls.";
}
def Ejk_Scans : OpDocGroup {
  let summary = "A recurrence of your own";
  let description = "The loop over time whose region is one step.";
}
def Ejk_Steps : OpDocGroup {
  let summary = "Inside a step";
  let description = "What a step may hold beside elementwise `arith` and `math`.";
}
def Ejk_Internals : OpDocGroup {
  let summary = "Internal";
  let description = "Ops that passes write and users do not.";
}

include "dialect/ejk/EjkRecurrences.td"
include "dialect/ejk/EjkPools.td"
include "dialect/ejk/EjkScan.td"
include "dialect/ejk/EjkStepOps.td"
include "dialect/ejk/EjkHeads.td"
include "dialect/ejk/EjkSegments.td"

#endif // EJK_DIALECT_EJK_EJK_TD
