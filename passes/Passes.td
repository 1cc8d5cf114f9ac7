//===- Passes.td - passes on the recurrence itself --------------*- tablegen -*-===//
#ifndef EJK_PASSES_PASSES_TD
#define EJK_PASSES_PASSES_TD

include "mlir/Pass/PassBase.td"
include "passes/program/ProgramPasses.td"

def DescribeInterface : Pass<"ejk-describe-interface"> {
  let summary = "note what a function's callers must know of it";
  let description = [{
    Writes down, before later passes forget which tensor was the query, each
    argument's and result's name (`ejk.name`: the user's own, or the operand's
    letter) and shape in symbols (`ejk.shape`), the rows that a cu_seqlens must
    end on (`ejk.total`), and what sizes must satisfy (`ejk.constraints`: a size
    that is one, or that a divisor divides). Numbers do not change.

    Before:
    ```mlir
    func.func @f(%q: tensor<?x?x?x64xf32>, …)
    ```
    After:
    ```mlir
    func.func @f(%q: tensor<?x?x?x64xf32> {ejk.name = "q", ejk.shape = ["B", "T", "H", "64"]}, …)
        attributes {ejk.constraints = [{divisor = "Hkv", message = "…", size = "H"} ]}
    ```
  }];
  let statistics = [Statistic<"numFunctions", "functions", "functions described">];
}

def NormalizeGates : Pass<"ejk-normalize-gates"> {
  let summary = "give every gate of a recurrence its canonical operand";
  let description = [{
    Rewrites `ejk.gla` and `ejk.recurrent` so that `g` is one number per head
    and step: a rank-4 `g` means exactly `gk` and moves there, added when there
    is a `gk` already. A `g_gamma` that is a constant zero is dropped. Numbers
    do not change, except that the sum of a rank-4 `g` and `gk` is taken in f32.

    Before:
    ```mlir
    ejk.gla %q, %k, %v g(%g : tensor<?x?x?x64xf32>) : …
    ```
    After:
    ```mlir
    ejk.recurrent %q, %k, %v gk(%g : tensor<?x?x?x64xf32>) : …
    ```
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect"];
  let statistics = [
    Statistic<"numRank4", "rank-4-g", "rank-4 g turned into gk">,
    Statistic<"numZero", "zero-gates", "gates dropped for being zero">];
}

def ToScan : Pass<"ejk-to-scan"> {
  let summary = "turn the recurrences into ejk.scan";
  let description = [{
    Writes each `ejk.recurrent`, `ejk.gla` and `ejk.lightning_attn` as the
    canonical `ejk.scan`: absent gates and states leave no trace, the default
    scale becomes a constant, narrow rows are widened to f32 where they are
    used, lightning's γ is computed from the head's index. Numbers do not change.

    Before:
    ```mlir
    %o, %ht = ejk.gla %q, %k, %v g(%g : tensor<?x?x?xf32>) : …
    ```
    After:
    ```mlir
    %o, %ht = ejk.scan
        sequences(%qt = %q : …, %kt = %k : …, %vt = %v : …, %gt = %g : …)
        states(%S = zero : tensor<?x?x64x64xf32>) -> (…) {
      %S1 = ejk.decay %S by %gt along head : …
      %S2 = ejk.outer_add %S1, %kt, %vt : …
      %qs = arith.mulf %qt, %scale : vector<64xf32>
      %ot = ejk.read %S2, %qs along key : …
      ejk.yield states(%S2 : …) outputs(%ot : …)
    }
    ```
  }];
  let dependentDialects = ["::ejk::EjkDialect", "::mlir::arith::ArithDialect",
                           "::mlir::tensor::TensorDialect", "::mlir::vector::VectorDialect"];
  let statistics = [Statistic<"numScans", "scans", "recurrences turned into scans">];
}

def IncludeDiagonal : Pass<"ejk-include-diagonal"> {
  let summary = "a step's own part, read with the rest";
  let description = [{
    A derivative reads a state before the step's outer products, for the sum of a gate's
    gradient, and adds what each of those alone would give to the same read, for a vector's.
    Where only a head's gates decay the state, and all that is asked for of the read itself is
    its paired products' sums over channels, the vector's gradient is read behind all outer
    products instead: in chunks that is one product, and the sum has one of its own
    (`ejk-chunk`), without the step's part. Numbers change by their rounding.

    Before:
    ```mlir
    %r = ejk.read %D, %o along value : …
    %p = arith.mulf %q, %r {ejk.pairing} : vector<64xf32>
    %n = ejk.sum %p : vector<64xf32>
    %S = ejk.outer_add %D, %k, %v : …
    %m = arith.mulf %v, %o : vector<64xf32>
    %c = ejk.sum %m : vector<64xf32>
    %b = vector.broadcast %c : f32 to vector<64xf32>
    %own = arith.mulf %k, %b : vector<64xf32>
    %dq = arith.addf %r, %own : vector<64xf32>
    ```
    After:
    ```mlir
    %r = ejk.read %D, %o along value : …
    %p = arith.mulf %q, %r {ejk.pairing} : vector<64xf32>
    %n = ejk.sum %p : vector<64xf32>
    %S = ejk.outer_add %D, %k, %v : …
    %dq = ejk.read %S, %o along value : …
    ```
  }];
  let dependentDialects = ["::ejk::EjkDialect"];
  let statistics = [Statistic<"numIncluded", "included", "reads that see the step's own part">];
}

def MergeDecays : Pass<"ejk-merge-decays"> {
  let summary = "merge a step's decays and choose the cheapest true class";
  let description = [{
    Decays that follow each other multiply, so their log gates add. Merges each
    chain of `ejk.decay` into at most one decay per channel axis, with a head
    gate riding on a channel gate where there is one (key first), and narrows
    a channel gate that is one number in every channel to a head gate. What is
    left is the cheapest true class, which the op then carries as
    `ejk.decay_class`: none, constant (head, from parameters only), scalar
    (head), key, value or both. Changes numbers by f32 rounding of the sum.

    Before:
    ```mlir
    %S1 = ejk.decay %S by %g along head : vector<64x32xf32>, f32
    %S2 = ejk.decay %S1 by %gk along key : vector<64x32xf32>, vector<64xf32>
    ```
    After:
    ```mlir
    %b = vector.broadcast %g : f32 to vector<64xf32>
    %s = arith.addf %b, %gk : vector<64xf32>
    %S2 = ejk.decay %S by %s along key : vector<64x32xf32>, vector<64xf32>
    ```
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::vector::VectorDialect"];
  let statistics = [Statistic<"numMerged", "merged", "decays merged away">];
}

def DeriveBackward : Pass<"ejk-derive-backward", "::mlir::ModuleOp"> {
  let summary = "derive the vector-Jacobian product of functions with recurrences";
  let description = [{
    Adds `@f_vjp` for a function `@f` of scans and elementwise `arith` and `math`
    (after `ejk-specialize`). It takes f's arguments, then a cotangent for each
    result, of the result's type and called "d" and the result's name; it gives a
    gradient for each float argument, of the argument's type and called "d" and
    its name. `wrt` names the arguments to differentiate by, where not all;
    `cotangents` the results that have a cotangent, where not all: the others'
    is zero. Where the module declares `@f_vjp`, the definition takes the
    declaration's place.

    A scan's derivative is two scans: one forward, that recomputes the state and
    reads it along the other axis, and one back, that carries the state's adjoint.
    Nothing is saved between f and f_vjp. Gradients are summed in f32 and rounded
    once. Gates' gradients are f32 sums over the rest of the sequence, from values
    that were never rounded to a narrower type; `gate-gradients` says where these
    sums start:

    - `suffix`: at the sequence's end. Each gated scan costs one f32 sequence, the
      reads' unrounded gradient. Rounding errors add up along the sequence: about
      1e-5 at 1,000 steps, and up to 5e-4 in the sum that a gate constant in time gets.
    - `checkpoint`: at the end of every chunk of `checkpoint-every` rows (when 0, 64
      for 16-bit inputs, and for f32 ones 32, or 16 where a gate depends on a
      parameter, whose gradient sums up all errors), from the state that the walk forward
      saved there. That adds 4·K·V/`checkpoint-every` bytes a row and head, written and
      read once; errors stay near 1e-6, 1e-5 in such a sum, whatever the length.

    Before:
    ```mlir
    func.func @f(%q, %k, %v) -> (%o, %ht) {
      %o, %ht = ejk.scan … { S2 = S + k vᵀ; o = read S2, q along key }
    }
    ```
    After, beside @f:
    ```mlir
    func.func @f_vjp(%q, %k, %v, %do, %dht) -> (%dq, %dk, %dv) {
      %dq = ejk.scan … { S2 = S + k vᵀ; dq = read S2, do along value }
      %dk, %dv = ejk.scan reverse … states(%A = %dht) {
        A2 = A + q doᵀ; dk = read A2, v along value; dv = read A2, k along key }
    }
    ```
  }];
  let dependentDialects = [
    "::mlir::arith::ArithDialect", "::mlir::linalg::LinalgDialect", "::mlir::math::MathDialect",
    "::mlir::tensor::TensorDialect", "::mlir::vector::VectorDialect"];
  let options = [
    Option<"function", "function", "std::string", [{""}],
           "the function to differentiate; all public ones with a recurrence when empty">,
    ListOption<"wrt", "wrt", "std::string", "names of the arguments to differentiate by">,
    ListOption<"cotangents", "cotangents", "std::string",
               "names of the results that have a cotangent">,
    Option<"gateGradients", "gate-gradients", "::ejk::GateGradients",
           "::ejk::GateGradients::checkpoint", "where the sums of gates' gradients start",
           [{::llvm::cl::values(
             clEnumValN(::ejk::GateGradients::suffix, "suffix", "at the sequence's end"),
             clEnumValN(::ejk::GateGradients::checkpoint, "checkpoint",
                        "at the end of every chunk"))}]>,
    Option<"checkpointEvery", "checkpoint-every", "int64_t", "0",
           "rows of a chunk; 0 for 64, with f32 inputs 32 or 16">];
  let statistics = [Statistic<"numFunctions", "functions", "functions differentiated">];
}

def SplitSums : Pass<"ejk-split-sums"> {
  let summary = "take sums over channels out of scans";
  let description = [{
    A vector that depends on the state is spread over the threads of several
    blocks, which a step cannot sum over. A scan with `ejk.sum` becomes two: the
    first gives the summands as f32 sequences, `linalg.generic` sums them, and the
    second, which has no K×V state unless the sums reach it, does what follows.
    Numbers do not change.

    Before:
    ```mlir
    %dt = ejk.scan … { … %s = ejk.sum %x; %dt = arith.mulf %s, %a … }
    ```
    After:
    ```mlir
    %xs = ejk.scan … { … }
    %s = linalg.generic … ins(%xs) …
    %dt = ejk.scan sequences(… %st = %s) { %dt = arith.mulf %st, %a … }
    ```
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::linalg::LinalgDialect",
                           "::mlir::tensor::TensorDialect"];
  let statistics = [Statistic<"numSplit", "sums", "sums taken out of scans">];
}

def SplitReads : Pass<"ejk-split-reads"> {
  let summary = "give reads along different axes scans of their own";
  let description = [{
    The step-by-step schedule spreads the state's free axis over threads and
    sums along the other, so one kernel reads along one axis. A scan that reads
    along both becomes two that walk the same states. The first keeps what reads
    along `value`; the second what reads along `key`, or along both: it takes the
    first's reads as f32 sequences. (The other way round, where the reads along
    `value` depend on those along `key`.) A scan whose reads along each axis depend
    on those along the other cannot be split; a remark says so. Numbers do not
    change.

    Before:
    ```mlir
    %o, %p, %S = ejk.scan … { … ejk.read … along key … ejk.read … along value … }
    ```
    After:
    ```mlir
    %p, %S = ejk.scan … { … ejk.read … along value … }
    %o = ejk.scan … { … ejk.read … along key … }
    ```
  }];
  let statistics = [Statistic<"numSplit", "split", "scans split in two">];
}

def HoistReductions : Pass<"ejk-hoist-reductions"> {
  let summary = "sums over channels where their terms are made";
  let description = [{
    A vector of which only the sum over channels is asked for need not be a vector. Where
    that is so of a state that adds up, or of what one scan hands another, the sum is
    taken of each term at once, and a number per step remains: the gradient of a gate
    per head comes so of one number a step instead of a row of f32. For scans that
    become block programs, which can sum over channels in a step; `ejk-split-sums` goes
    the other way. Numbers change by the order of f32 sums.

    Before:
    ```mlir
    ejk.scan … states(… %M = zero : tensor<?x?x64xf32>) … {
      %x = arith.mulf %k, %dk : vector<64xf32>
      %M1 = arith.subf %M, %x : vector<64xf32>
      %M2 = ejk.anchor %M1, %A with %saved along value : …
      %dg = ejk.sum %M2 : vector<64xf32>
    ```
    After:
    ```mlir
    ejk.scan … states(… %M = zero : tensor<?x?xf32>) … {
      %x = arith.mulf %k, %dk : vector<64xf32>
      %xs = ejk.sum %x : vector<64xf32>
      %M1 = arith.subf %M, %xs : f32
      %dg = ejk.anchor %M1, %A with %saved along head : …
    ```
  }];
  let dependentDialects = ["::ejk::EjkDialect", "::mlir::arith::ArithDialect"];
  let statistics = [
    Statistic<"numSummed", "summed", "states and sequences of vectors that became numbers">];
}

def NarrowSaves : Pass<"ejk-narrow-saves"> {
  let summary = "saved states in 16 bits";
  let description = [{
    States that a scan of 16-bit sequences saves in f32 for later scans are rounded to
    bf16, whose range is that of f32, if there is one for 256 rows at least, and more than 32
    channels along one of its axes. For scans that become block programs: those take products of
    such states in bf16 anyway. Numbers change by that rounding.

    Before:
    ```mlir
    %s = ejk.scan save_every 64 … saves(tensor<?x?x64x64xf32>) { … }
    ```
    After:
    ```mlir
    %s = ejk.scan save_every 64 … saves(tensor<?x?x64x64xbf16>) { … }
    ```
  }];
  let statistics = [Statistic<"numNarrowed", "narrowed", "tensors of states made narrower">];
}

def Chunk : Pass<"ejk-chunk"> {
  let summary = "turn scans into block programs that work chunk by chunk";
  let description = [{
    Writes a scan as a `tile.program`: instead of a step at a time it takes
    `chunk` steps, in products of matrices that tensor cores do, and carries the
    states from chunk to chunk. The form is derived from the step, for any number of
    states, outer products and reads along either axis; the formulas stand in
    `passes/chunk/ChunkedState.h`. Sequences are cut from their first row in memory on,
    in both directions; the last chunk may be short.

    A K×V state must go through `ejk.decay` and `ejk.outer_add` to its next
    value, all decays before the outer products or all after them, with gates and
    vectors that do not depend on what is read of it. States that are numbers or
    vectors may only add up. Everything else in a step may be elementwise. Whatever
    is otherwise keeps the scan, and a remark says why.

    Products are taken in 16 bits and summed in f32; the state stays f32. So only
    scans whose keys, values and read vectors come from bf16 or f16 sequences are
    taken, unless `force` is given, which leaves f32 as it is. Of f16 sequences,
    products of two rows as they come, or decayed by a head's gates, are taken in
    f16, and in bf16 what the range of f16 does not hold: states, products of rows,
    rows scaled by gates of channels. Changes numbers by that rounding, and in f32 by
    the order of sums; gates may be of any size from 0 down to -inf. Where gates per
    channel are too strong for products, a chunk is taken step by step inside the
    program; so is one of four rows or fewer, of which factors' roundings may be all
    that is left of a sum.

    What is read has the rounding of these products. Where it is added up over the
    sequence, in a state or by a later scan, as gates' gradients are, the scan is left
    alone but with `drift`: 3e-2 was measured after 130 steps, where gradients of keys
    and values have 3e-3.

    Where states are saved, several chunks may lie between two of them; `chunk` becomes
    shorter where it does not divide their distance.

    With `in-exponents`, a head's decays are powers of two, and a positive constant that
    multiplies what is read, as the scale of q does, is in their exponents: no exponential
    has a multiplication of its own, and no row read. Numbers change by a rounding of these.

    States larger than 128×128 are cut along an axis that no read sums over into
    `slices`, each of which a program works for.

    Before:
    ```mlir
    %o = ejk.scan … {
      %S1 = ejk.decay %S by %gt along head : …
      %S2 = ejk.outer_add %S1, %kt, %vt : …
      %ot = ejk.read %S2, %qt along key : …
      … }
    ```
    After:
    ```mlir
    %o = tile.program chunk 64 slices 1 … {
      scf.for … iter_args(%S = …) {
        %q = tile.load …
        …
        %p = tile.dot %q, %k transposed, …
        %d = math.exp …                       // decays between two steps, lower half
        %o0 = tile.dot %q, %S, …
        %o1 = tile.dot %pd, %v, …
        tile.store …
        %S1 = tile.dot %k transposed, %vd, …
        … } }
    ```
  }];
  let options = [
    Option<"chunk", "chunk", "int64_t", "64", "the steps in a chunk: a multiple of 16, up to 128">,
    Option<"force", "force", "bool", "false", "take f32 too, with products in f32">,
    Option<"drift", "drift", "bool", "false",
           "take scans that add up what they read over a sequence, and so its rounding">,
    Option<"inExponents", "in-exponents", "bool", "false",
           "take a head's decays as powers of two, with what multiplies them in exponents">];
  let dependentDialects = [
    "::ejk::tile::TileDialect", "::mlir::arith::ArithDialect", "::mlir::math::MathDialect",
    "::mlir::scf::SCFDialect", "::mlir::vector::VectorDialect"];
  let statistics = [Statistic<"numChunked", "chunked", "scans turned into block programs">,
                    Statistic<"numDeclined", "declined", "scans left as they are">];
}

def FusePrograms : Pass<"ejk-fuse-programs"> {
  let summary = "two walks of one sequence in one loop";
  let description = [{
    Where a block program saves the state that each chunk is entered with, its chunks
    need not wait for each other: with the saved state loaded they can be taken in any
    order. A second program that takes what the first one computes, walking the other
    way, does so itself, in the iteration of the same rows; what passed between the two
    in memory, a tile per chunk, stays in the block. Of the first program what remains is
    the walk of its state. So the derivative of a recurrence becomes one program
    that walks forward and saves states, and one that walks back and computes all
    gradients: fewer bytes, at the price of a larger program. What stands between the two
    and needs the first comes behind both; where the second needs that in turn, both stay.
    Numbers change by the rounding of the saved states.

    Before:
    ```mlir
    %x, %dq, %s = tile.program chunk 64 save_every 64 … { … }    // S forward
    %dk, %dv, %dg = tile.program … sequences(…, %x) saved(%s) … { … }  // A back
    ```
    After:
    ```mlir
    %s = tile.program chunk 64 save_every 64 … { … }             // S forward
    %dk, %dv, %dg, %dq = tile.program … saved(%s) … { … }        // S of a chunk, and A back
    ```
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::scf::SCFDialect"];
  let statistics = [Statistic<"numFused", "fused", "pairs of programs fused">,
                    Statistic<"numDeclined", "declined", "pairs left as they are">];
}

def MergeIfs : Pass<"ejk-merge-ifs"> {
  let summary = "one branch for what is decided once";
  let description = [{
    Where two walks are in one loop, each asks whether a chunk's gates are too strong for
    products; it is the same question of the same sums. Branches of one condition become one, and
    what both of their sides make is made once: gates' exponentials, scaled rows, products of
    steps. What the second needs goes in front of the first; where it needs what that
    gives, or loads what is stored meanwhile, or one of them stores, both stay. Numbers do not
    change.

    Before:
    ```mlir
    %dq = scf.if %weak -> … { %k1 = … %k … } else { … }
    tile.store %dq, …
    %S, %dk = scf.if %weak -> … { %k2 = … %k … } else { … }
    ```
    After:
    ```mlir
    %dq, %S, %dk = scf.if %weak -> … { %k1 = … %k … } else { … }
    tile.store %dq, …
    ```
  }];
  let dependentDialects = ["::mlir::scf::SCFDialect"];
  let statistics = [Statistic<"numMerged", "merged", "branches that went into others">];
}

def ScaleAfterDot : Pass<"ejk-scale-after-dot"> {
  let summary = "scales what a product gives, not a factor that is there in 16 bits";
  let description = [{
    A state that was saved is there in 16 bits, as products take it. Where a chunk's gates scale
    its rows, or columns, which the product's result has too, that result is scaled instead:
    half as many numbers, no way through registers, and nothing is rounded twice. Of
    products that add to nothing. Numbers change by what the second rounding did.

    Before:
    ```mlir
    %w = arith.extf %s : vector<128x128xbf16> to vector<128x128xf32>
    %f = tile.spread %x along 0 : vector<128xf32> -> vector<128x128xf32>
    %m = arith.mulf %w, %f : vector<128x128xf32>
    %r = arith.truncf %m : vector<128x128xf32> to vector<128x128xbf16>
    %d = tile.dot %o, %r transposed, %zero : …
    ```
    After:
    ```mlir
    %p = tile.dot %o, %s transposed, %zero : …
    %f = tile.spread %x along 1 : vector<128xf32> -> vector<64x128xf32>
    %d = arith.mulf %p, %f : vector<64x128xf32>
    ```
  }];
  let dependentDialects = ["::ejk::tile::TileDialect", "::mlir::arith::ArithDialect"];
  let statistics = [Statistic<"numScaled", "scaled", "products whose result is scaled">];
}

#endif // EJK_PASSES_PASSES_TD
