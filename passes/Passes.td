//===- Passes.td - passes on the recurrence itself --------------*- tablegen -*-===//
#ifndef EJK_PASSES_PASSES_TD
#define EJK_PASSES_PASSES_TD

include "mlir/Pass/PassBase.td"
include "passes/ProgramPasses.td"
include "passes/SplitPasses.td"

def DescribeInterface : Pass<"ejk-describe-interface"> {
  let summary = "record names, shapes and constraints of a function's arguments";
  let description = [{
    What: records on each function, before later passes lose which tensor was the query, each
    argument's and result's name (`ejk.name`: the user's own, or the operand's letter), its shape in
    symbols (`ejk.shape`), the letter of the operand that an argument feeds (`ejk.operand`), which
    arguments are logarithms of decays (`ejk.log_decay`), keys or rates of a delta rule (`ejk.key`,
    `ejk.rate`), the rows that a cu_seqlens must end on
    (`ejk.total`), the states of the pool that indices belong to (`ejk.indexed_states`), and constraints
    between sizes (`ejk.constraints`: a size that is one, or that a divisor divides). Results do not
    change. An op that needs two sizes to be one, where the types say that they are not, is an error.
    So is a function of several blocks. Of a function that says something of itself, because a user
    wrote it or the pass ran before, sizes that the body makes others are an error, too.

    MLIR forgets what a value is called in a file. `ejk-run` and `ejk-compile` set
    `ejk.name` to it when they read the file; `ejk-opt` does not.

    Before:
    ```mlir
    func.func @f(%q: tensor<?x?x?x64xf32>, …)
    ```
    After:
    ```mlir
    func.func @f(%q: tensor<?x?x?x64xf32> {ejk.name = "q", ejk.operand = "q",
                                             ejk.shape = ["B", "T", "H", "64"]}, …)
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
  let summary = "read a vector's gradient after the step's own outer products";
  let description = [{
    What: a derivative reads a state before the step's outer products, because a gate's gradient
    sums that read, and adds each outer product's own contribution (the diagonal term) for a
    vector's gradient. Where only gates per head decay the state, and the read itself is only used
    in cancelling pairs that are summed over channels, the vector's gradient is read after all outer
    products instead. Why: in chunks that is one matmul, and the sum has one of its own
    (`ejk-chunk`), without the diagonal term. Results change by rounding.

    Before:
    ```mlir
    %r = ejk.read %D, %o along value : …
    %p = ejk.cancelling_pair %q, %r : vector<64xf32>
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
    %p = ejk.cancelling_pair %q, %r : vector<64xf32>
    %n = ejk.sum %p : vector<64xf32>
    %S = ejk.outer_add %D, %k, %v : …
    %dq = ejk.read %S, %o along value : …
    ```
  }];
  let dependentDialects = ["::ejk::EjkDialect"];
  let statistics = [Statistic<"numIncluded", "included", "reads that include the diagonal term">];
}

def MergeDecays : Pass<"ejk-merge-decays"> {
  let summary = "merge a step's decays and choose the cheapest exact class";
  let description = [{
    What: consecutive decays multiply, so their log gates add. Merges each chain of `ejk.decay` into
    at most one decay per channel axis. A gate per head is added to a channel gate where there is
    one (key first), and a channel gate that is equal in all channels becomes a gate per head. The
    op carries the cheapest exact class as `ejk.decay_class`: none, constant (head, from parameters
    only), scalar (head), key, value or both. Results change by the f32 rounding of the sum.

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
    What: adds `@f_vjp` for a function `@f` of scans and elementwise `arith` and `math` (after
    `ejk-specialize`). Its arguments are f's arguments, then a cotangent for each result, of the
    result's type, named "d" and the result's name. Its results are a gradient for each float
    argument, of the argument's type, named "d" and its name. Attributes say what each is for, so
    passes and tools need not read names: `ejk.derivative_of` on f_vjp, `ejk.cotangent_of` on cotangents,
    `ejk.gradient_of` on gradients. `wrt` lists the arguments to
    differentiate by (all by default); `cotangents` lists the results that have a cotangent (all by
    default; other cotangents are zero). If the module declares `@f_vjp`, the definition replaces
    the declaration.

    The derivative of a scan is two scans: a forward one, which recomputes the state and reads it
    along the other axis, and a reverse one, which carries the state's adjoint. Where a read feeds
    what the step adds, a gate or another read, two more scans find the reads and their cotangents
    first. Nothing is saved
    between f and f_vjp. Gradients are summed in f32 and rounded once. Gate gradients are f32 sums
    over the rest of the sequence, of values that were never rounded to a narrower type;
    `gate-gradients` says where these sums start:

    - `suffix`: at the sequence's end. Each gated scan costs one f32 sequence, the unrounded
      gradient of its reads. Rounding errors accumulate along the sequence: about 1e-5 at 1,000
      steps, and up to 5e-4 in the sum of a gate that is constant in time.
    - `checkpoint`: at the end of every chunk of `checkpoint-every` rows (when 0: 64 for 16-bit
      inputs; for f32 inputs 32, or 16 where a gate depends on a parameter, whose gradient sums all
      errors), from the state that the forward scan saved there. That adds 4·K·V/`checkpoint-every`
      bytes a row and head, written and read once. Errors stay near 1e-6, and 1e-5 in such a sum, at
      any length.
    - `terms`: makes `@f_terms` instead, which has the arguments of `@f_vjp` and gives, in the
      place of each gradient, the sum of the absolute values of the terms that the gates' part of
      the gradient is the sum of (docs/derivation.md). The error of a gate's gradient is measured
      against their norm.

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
                        "at the end of every chunk"),
             clEnumValN(::ejk::GateGradients::terms, "terms",
                        "make the sizes of their terms instead"))}]>,
    Option<"checkpointEvery", "checkpoint-every", "int64_t", "0",
           "rows of a chunk; 0 for 64, with f32 inputs 32 or 16">];
  let statistics = [Statistic<"numFunctions", "functions", "functions differentiated">];
}

def HoistReductions : Pass<"ejk-hoist-reductions"> {
  let summary = "sum terms over channels where they are made";
  let description = [{
    What: a vector whose only use is its sum over channels need not be a vector. Where that holds
    for a state that accumulates, or for a sequence between two scans, each term is summed at once,
    and one number per step remains: the gradient of a gate per head is one number a step instead of
    a row of f32. Why: bytes. For scans that become chunkwise programs, which can sum over channels
    in a step; `ejk-split-sums` does the opposite for the others. Results change by the order of f32
    sums.

    Before:
    ```mlir
    ejk.scan … states(… %M = zero : tensor<?x?x64xf32>) … {
      %x = arith.mulf %k, %dk : vector<64xf32>
      %M1 = arith.subf %M, %x : vector<64xf32>
      %M2 = ejk.checkpoint %M1, %A with %saved along value : …
      %dg = ejk.sum %M2 : vector<64xf32>
    ```
    After:
    ```mlir
    ejk.scan … states(… %M = zero : tensor<?x?xf32>) … {
      %x = arith.mulf %k, %dk : vector<64xf32>
      %xs = ejk.sum %x : vector<64xf32>
      %M1 = arith.subf %M, %xs : f32
      %dg = ejk.checkpoint %M1, %A with %saved along head : …
    ```
  }];
  let dependentDialects = [
    "::mlir::arith::ArithDialect", "::ejk::EjkDialect", "::mlir::linalg::LinalgDialect",
    "::mlir::tensor::TensorDialect"];
  let statistics = [
    Statistic<"numSummed", "summed", "states and sequences reduced to one number">];
}

def NarrowOperands : Pass<"ejk-narrow-operands"> {
  let summary = "round operands that are computed from 16-bit rows to 16 bits";
  let description = [{
    Matmuls on tensor cores take operands of 16 bits. The operands of a scan are its keys, values
    and read vectors. They may be rounded to 16 bits when all rows, tensors [B,T,H,C], that they
    are computed from

    - have 16-bit elements;
    - or are computed from such rows, in f32 or not: by elementwise ops, sums over heads, other
      recurrences;
    - or are gates of the scan's states, or what these gates are computed from, in f32 or not.

    Tensors of one number per head and step, and parameters, do not matter. Other f32 rows, which
    the caller gives, forbid the rounding: such a scan stays as it is.

    Of a scan whose operands may be rounded, this pass rounds each f32 sequence that is an operand,
    and no gate, to bf16, whose range is that of f32. So a residual, an output gate or a sum of two
    directions, whose derivative computes the cotangent of a recurrence in f32, costs no f32 rows.
    Only matmuls take the rounded rows; where the step uses the sequence for anything else, it gets
    both. A sequence of which a step computes one value for matmuls and for others, as v − r is of
    a delta rule's derivative, stays f32 in all scans: terms that cancel between scans must be
    computed from the same rows. But rows that one scan hands to others which only multiply them, as
    ū is of a delta rule's derivative, become 16-bit for all uses: no difference makes their
    rounding larger, and they go through memory in half the bytes. So do rows that a scan without states
    makes of 16-bit rows, as normalised keys, and that others only multiply: as if the caller had made
    them. In a function with `ejk.two_terms`
    they stay f32, too, and so do rows that gates' gradients multiply what is read by
    (`ejk.cancelling_pair`). Sequences that are only widened, of any scan, are replaced by their 16-bit rows. What is computed in a step, as
    HGRN2's key 1 − exp(g) of an f32 gate g is, is rounded by `ejk-chunk` where a matmul takes it.
    For scans that become chunkwise programs.

    Results change by that rounding: 2^-9 of each element, or 1.1e-3 of the norm of the rows, as if
    the caller had given them in bf16. With `round-computed-operands=false` only widened rows are
    replaced, which changes no numbers, and scans with computed rows stay as they are.

    Before:
    ```mlir
    %do = arith.mulf %dy, %gate : tensor<?x?x?x64xf32>
    %dq = ejk.scan sequences(%kt = %k : tensor<?x?x?x64xbf16>, %dot = %do : tensor<?x?x?x64xf32>) … {
      %r = ejk.read %S, %dot along value : …
    ```
    After:
    ```mlir
    %do = arith.mulf %dy, %gate : tensor<?x?x?x64xf32>
    %n = arith.truncf %do : tensor<?x?x?x64xf32> to tensor<?x?x?x64xbf16>
    %dq = ejk.scan sequences(%kt = %k : tensor<?x?x?x64xbf16>, %dot = %n : tensor<?x?x?x64xbf16>) … {
      %w = arith.extf %dot : vector<64xbf16> to vector<64xf32>
      %r = ejk.read %S, %w along value : …
    ```
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect"];
  let options = [
    Option<"roundComputed", "round-computed-operands", "bool", "true",
           "round operands that are computed in f32 from 16-bit rows">];
  let statistics = [
    Statistic<"numNarrowed", "narrowed", "f32 sequences that became 16-bit ones">];
}

def NarrowSaves : Pass<"ejk-narrow-saves"> {
  let summary = "save states in bf16";
  let description = [{
    What: states that a scan of 16-bit sequences saves in f32 for later scans are saved in bf16,
    which has the range of f32, if a state is saved every 256 rows at least and has many channels:
    more than 32 along one axis. Where a gate is a number per head, that means more than 32 along
    both axes, or more than 128 along one (64 beside gates of channels). In a function with
    `ejk.two_terms` all stay in f32. Why: bytes. For scans that become chunkwise programs: their
    matmuls read such states in bf16 anyway. Results change by that rounding.

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
  let summary = "turn scans into chunkwise programs on matmuls";
  let description = [{
    What: writes a scan as a `tile.program`, which computes `chunk` steps at a time with matmuls for
    tensor cores, and carries the states from chunk to chunk. The form is derived from the step, for
    any number of states, outer products and reads along either axis; `passes/chunk/ChunkedState.h`
    has the formulas. Sequences are cut into chunks from their first row in memory, in both
    directions; the last chunk may be short.

    Requires: a K×V state goes through `ejk.decay` and `ejk.outer_add`, in any order, to its next
    value, with gates and vectors that do not depend on reads of it. Vectors of outer products along one axis may: where such a vector is a
    sum of reads, each times one number of the head, and of what does not depend on them, as in the delta rule, a
    chunk solves for it (`tile.solve`), one vector of a step after the other. States that are numbers or vectors only accumulate.
    Everything else in a step is elementwise. Any other scan is left alone, and a remark says why.

    Rounding: matmuls have 16-bit operands and f32 accumulators; the state stays f32. Only scans
    whose keys, values and read vectors come from bf16 or f16 rows are taken; with
    `round-computed-operands` also those whose operands are computed in f32 from such rows
    (`ejk-narrow-operands` has the rule); with `force` all, whose f32 operands stay as they are, for
    the interpreter; with `f32-matmuls` all, whose operands are f32, for tensor cores that multiply
    their bf16 terms (`tile.dot` has the algorithms and their errors). With f16 sequences, a matmul of two operands that
    are rows as loaded, or rows decayed by a gate per head, has f16 operands. Operands that may
    exceed f16's range are bf16: states, results of matmuls, rows scaled by channel gates. Results
    change by that rounding, and in f32 by the order of sums. Gates may have any size from 0 down to
    -inf. Where channel gates are too strong for matmuls, a chunk is computed step by step inside
    the program; so is a chunk of four rows or fewer, where the rounding of operands may exceed the
    sum itself.

    Reads carry the rounding error of these matmuls. A scan that accumulates its reads over a
    sequence, in a state or through a later scan, as gate gradients do, is left alone unless `drift`
    is given: an error of 3e-2 was measured after 130 steps, where gradients of keys and values have
    3e-3.

    Where states are saved, several chunks may lie between two saved states; `chunk` becomes shorter
    where it does not divide their distance.

    With `in-exponents`, decays per head are powers of two, and a positive constant factor of a
    read, such as the scale of q, is added to their exponents, so that neither an exponential nor a
    row needs a multiplication of its own. Results change by one rounding of these.

    States larger than 128×128 are cut into `slices` along an axis that no read sums over; a program
    computes each slice.

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
    Option<"force", "force", "bool", "false", "take f32 scans, with f32 operands">,
    Option<"f32Matmuls", "f32-matmuls", "::ejk::F32Matmuls", "::ejk::F32Matmuls::none",
           "take all scans, with f32 operands that tensor cores multiply in bf16 terms",
           [{::llvm::cl::values(
             clEnumValN(::ejk::F32Matmuls::none, "none", "only scans of 16-bit operands"),
             clEnumValN(::ejk::F32Matmuls::bf16x3, "bf16x3", "two terms, three products"),
             clEnumValN(::ejk::F32Matmuls::bf16x6, "bf16x6", "three terms, six products"))}]>,
    Option<"drift", "drift", "bool", "false",
           "take scans that accumulate their reads over a sequence, with their rounding errors">,
    Option<"inExponents", "in-exponents", "bool", "false",
           "compute decays per head as powers of two, with constant factors in the exponent">,
    Option<"roundComputed", "round-computed-operands", "bool", "false",
           "take scans whose operands are computed in f32 from 16-bit rows, too">];
  let dependentDialects = [
    "::ejk::tile::TileDialect", "::mlir::arith::ArithDialect", "::mlir::math::MathDialect",
    "::mlir::scf::SCFDialect", "::mlir::vector::VectorDialect"];
  let statistics = [Statistic<"numChunked", "chunked", "scans turned into chunkwise programs">,
                    Statistic<"numDeclined", "declined", "scans left as they are">];
}

def FusePrograms : Pass<"ejk-fuse-programs"> {
  let summary = "fuse a forward and a backward pass over a sequence into one loop";
  let description = [{
    What: with the saved state of each chunk's start loaded, the chunks of the program that saved it
    can run in any order. A second program that reads the first one's results and runs in the
    opposite direction therefore computes them itself, in the iteration of the same rows, and a tile
    a chunk stays in the thread block instead of passing through memory. Of the first program only
    the update of its state remains. So the derivative of a recurrence becomes one program that runs
    forward and saves states, and one that runs backward and computes all gradients. Why: fewer
    bytes, at the price of a larger program. Ops between the two that need the first follow both;
    where the second needs such an op, both programs stay as they are. Results change by the
    rounding of the saved states.

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
  let summary = "merge branches with the same condition";
  let description = [{
    What: each of two fused passes has a `tile.guarded` on the same range guard. Those with one
    guard become one, as do `scf.if`s with one condition. Values that both compute (exponentials of
    gates, scaled rows, matmuls of rows) are computed once. Ops between the two that the second
    needs move before the first. Both stay where such an op needs the first's results, or loads what
    is stored between them, or where one of the branches stores. Results do not change.

    Before:
    ```mlir
    %dq = tile.guarded %weak -> … fast { %k1 = … %k … } exact { … }
    tile.store %dq, …
    %S, %dk = tile.guarded %weak -> … fast { %k2 = … %k … } exact { … }
    ```
    After:
    ```mlir
    %dq, %S, %dk = tile.guarded %weak -> … fast { %k1 = … %k … } exact { … }
    tile.store %dq, …
    ```
  }];
  let dependentDialects = ["::mlir::scf::SCFDialect"];
  let statistics = [Statistic<"numMerged", "merged", "branches merged into another">];
}

#endif // EJK_PASSES_PASSES_TD
