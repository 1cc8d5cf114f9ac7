//===- Passes.td - from a scan down to PTX -----------------*- tablegen -*-===//
#ifndef EJK_LOWERING_PASSES_TD
#define EJK_LOWERING_PASSES_TD

include "mlir/Pass/PassBase.td"
include "lowering/LaidOutPasses.td"

def ExpandQueries : Pass<"ejk-expand-queries"> {
  let summary = "give each query head a state of its own where a kernel needs that";
  let description = [{
    What: replaces an `ejk.scan` with queries by one without, over query heads. Each starts from a
    copy of the state of its group (`ejk.repeat_heads`), and the first head of a group gives the
    final state (`ejk.first_heads`). Saves and outputs that depend on no query get a scan of their own.

    Why: a kernel by chunks has one thread block for each query head, and so has a CPU's. The
    derivative is derived in this form, too. With `for-steps`, a scan stays whose step-by-step kernel
    on a GPU computes the queries of a group in turn: it moves one state for them all. Others get a
    remark.

    Numbers do not change.

    Before:
    ```mlir
    %o, %ht = ejk.scan sequences(%kt = %k : …, %vt = %v : …) queries(%qt = %q : …)
        states(%S = %h0 : tensor<?x?x64x64xf32>) -> (tensor<?x?x?x64xf32>) { … }
    ```
    After:
    ```mlir
    %each = ejk.repeat_heads %h0 like %q at 2 : …
    %o, %last = ejk.scan sequences(%qt = %q : …, %kt = %k : …, %vt = %v : …)
        states(%S = %each : tensor<?x?x64x64xf32>) -> (tensor<?x?x?x64xf32>) { … }
    %ht = ejk.first_heads %last like %k at 2 : …
    ```
  }];
  let options = [Option<"forSteps", "for-steps", "bool", "false",
                        "leave scans whose step-by-step kernel takes queries">];
  let dependentDialects = ["::ejk::EjkDialect"];
  let statistics = [Statistic<"numExpanded", "expanded", "scans that lost their queries">,
                    Statistic<"numKept", "kept", "scans that kept their queries">];
}

def EnlargeStepTiles : Pass<"ejk-enlarge-step-tiles", "::mlir::ModuleOp"> {
  let summary = "give step-by-step kernels large tiles for launches of many heads";
  let description = [{
    What: copies a function whose scans go step by step. In the copy threads have four times the elements
    of a state (`ejk.large_tiles`): 32 rows of 4 columns, where they have 8 rows otherwise. A launch takes
    the copy if it has many warps (`cost::kWarpsOfLargeStepTiles`) and more than one step.

    Why: a thread's sums are passed from lane to lane less often, and its warp reads and writes whole
    lines of the state. But a step takes the longer, the more elements a thread has, which counts where
    few warps leave a device idle.

    Results have the same bits: a thread sums each lane's rows apart, and these sums in the order in which
    lanes pass them on.

    Scans of a derivative stay as they are; so do scans of several states, those that read saved states, and
    those whose rows are not 64, 128 or 256 or whose columns do not fill warps.

    Before:
    ```mlir
    func.func @f(%k: tensor<?x?x?x128xf32>, …) attributes {…} {
      %o, %ht = ejk.scan …
    }
    ```
    After:
    ```mlir
    func.func @f_large_tiles(%k: tensor<?x?x?x128xf32>, …)
        attributes {ejk.alternative_of = "f", ejk.schedule = "step",
                    ejk.when = ["and", [">=", "T", 2],
                                [">=", ["*", "B", ["*", "H", 16]], ["*", "device.multiprocessors", 15]]], …} {
      %o, %ht = ejk.scan … attributes {ejk.large_tiles}
    }
    func.func @f(%k: tensor<?x?x?x128xf32>, …) attributes {ejk.schedule = "step", …} {
      %o, %ht = ejk.scan …
    }
    ```
  }];
  let dependentDialects = ["::ejk::EjkDialect"];
  let statistics = [Statistic<"numEnlarged", "enlarged", "functions copied with large tiles">];
}

def MakeAlternatives : Pass<"ejk-make-alternatives", "::mlir::ModuleOp"> {
  let summary = "copy functions for the schedules that a package has of them";
  let description = [{
    What: makes of each function with scans the alternatives that its entry in a package has, one
    for each schedule, with the conditions by which a launch chooses (docs/package-format.md).

    Why: which schedule is the fastest depends on sizes that are known at a launch. A chunk schedule
    is bound by memory and slow for few rows. Step by step, each step waits for the one before it,
    which is slow for many rows.

    `ejk.schedule` names an alternative's schedule, `ejk.alternative_of` the function that it is
    another way to compute. `ejk.needs` is the condition without which its results would be wrong,
    `ejk.when` that without which another alternative is better. The function itself becomes the
    one that runs chunk by chunk, from 16 rows a sequence on; it is the only one for packed sequences,
    whose lengths are not known on the host. A copy after it runs step by step, and takes all else;
    in it alone scans keep their queries (`ejk-expand-queries`).

    A copy before it is divided into segments (`ejk-split-over-time`), for few long sequences: from
    1024 rows on, where the rounds of segments that the device's multiprocessors take, three times,
    are fewer than the segments of a sequence. It is left out where no scan can be divided. For
    packed sequences, the mean length stands for a sequence's. Another one before that has shorter
    segments, 16 or more a sequence, for so few heads and sequences that the multiprocessors take
    all of these at once. Both are launched with the same kernels.

    Where heads of keys and values may be shared by query heads (H and Hkv are dynamic), gradients
    are summed over them by `ejk.sum_heads`, in f32. Another copy of each, taken first, needs
    H = Hkv, and has nothing to sum. With `schedule`, functions have that schedule alone, and these
    copies are the only ones. With `heads-only` they are the only ones, too: a CPU takes f32 results so.
    With `chunks`, for a CPU that multiplies bf16, recurrences of bf16 rows that are no derivatives have
    the two schedules; those with gates of channels only with `schedule=chunk`, because chunks round
    rows that such gates scale. The copies of a CPU keep the sums, each of one term by `ejk.needs`, and
    with them the names of sizes, so that the lowering can launch one kernel in both functions.

    With `two-terms=few-heads` (the default), where a derivative by chunks gives gates' gradients
    that are numbers per head, a copy before it has `ejk.two_terms`: its sums are made of operands
    in two terms (`ejk-split-operands`) and of states in f32. It needs few heads, fewer than 8, and
    fewer than 1024 rows, where the rounding of one term may be more than 5e-3 of such a gradient
    and 1e-5 of its terms. A gate of fewer than 8 channels has as many numbers as that times its
    heads. A derivative whose recurrence corrects its state gets such a copy, too, for fewer than 8
    heads with any number of rows, split over time or not. All its operands are in two terms, and
    what one of its scans hands to the next stays f32. Where types say that there are few, the function itself is that. With `two-terms=always`
    all such derivatives are, with `few-channels` none. Results change: that rounding disappears.
    The derivative reads no saved states, has two kernels instead of one, and these spill registers.

    Gates per channel without bounds may be weak in one head and strong in the next. With
    `by-gates=many-rows` (the default) a copy before the function has `ejk.by_gates`: its programs for
    weak gates and for strong ones stand side by side, and the device chooses for each head
    (`ejk-select-schedule`). Its schedule is called `chunk-by-gates`. That takes a kernel that looks at the gates, so the copy needs rows enough to
    pay for it: 2¹⁹ of all heads together, or 2¹⁷ where the recurrence corrects its state. Segments side
    by side choose by gates themselves. The function then has `ejk.for_weak_gates`, with the same programs, so that one
    kernel serves both. Heads that share rows or states, and derivatives over segments that start from saved states, have
    none. Numbers change as between schedules.

    A function and its derivative choose alike: the states that f_fwd saves in chunks are the ones
    with which chunks are entered, and f_vjp reads them in chunks alone. Segments begin where chunks
    do, so that a split derivative reads what a forward without segments saved, and the other way
    round.

    Requires `ejk-describe-interface`. Numbers change as between schedules: in the last bits.

    Before:
    ```mlir
    func.func @gla(…) { %o, %ht = ejk.scan … }
    ```
    After:
    ```mlir
    func.func @gla_split(…) attributes {ejk.alternative_of = "gla", ejk.schedule = "split",
        ejk.when = ["and", [">=", "T", 1024], ["<", ["*", 3, …], …]]} { … }
    func.func @gla(…) attributes {ejk.schedule = "chunk", ejk.when = [">=", "T", 16]} { … }
    func.func @gla_step(…) attributes {ejk.alternative_of = "gla", ejk.schedule = "step"} { … }
    ```
  }];
  let dependentDialects = ["::ejk::EjkDialect", "::mlir::arith::ArithDialect",
                           "::mlir::linalg::LinalgDialect", "::mlir::math::MathDialect",
                           "::mlir::tensor::TensorDialect", "::mlir::vector::VectorDialect"];
  let options = [
    Option<"headsOnly", "heads-only", "bool", "false",
           "only copies for heads that share none, and with `chunks`: a CPU's alternatives">,
    Option<"chunks", "chunks", "bool", "false",
           "with `heads-only`: chunks of bf16 rows, from 64 rows a sequence on">,
    Option<"schedule", "schedule", "::ejk::Schedule", "::ejk::Schedule::automatic",
           "the schedules of a function's copies", [{::llvm::cl::values(
             clEnumValN(::ejk::Schedule::automatic, "auto", "all, of which a launch chooses"),
             clEnumValN(::ejk::Schedule::chunk, "chunk", "that of the function, by chunks"),
             clEnumValN(::ejk::Schedule::split, "split", "that of the function, whose scans are "
                                                         "divided into segments already"))}]>,
    Option<"twoTerms", "two-terms", "::ejk::TwoTerms", "::ejk::kDefaultTwoTerms",
           "which derivatives compute gates' gradients, and those of steps that correct "
           "their state, from operands in two terms",
           [{::llvm::cl::values(
             clEnumValN(::ejk::TwoTerms::fewChannels, "few-channels", "those of few channels"),
             clEnumValN(::ejk::TwoTerms::fewHeads, "few-heads", "those, and of few heads"),
             clEnumValN(::ejk::TwoTerms::always, "always", "all"))}]>,
    Option<"byGates", "by-gates", "::ejk::ByGates", "::ejk::kDefaultByGates",
           "which launches choose programs by the gates of each head", [{::llvm::cl::values(
             clEnumValN(::ejk::ByGates::never, "never", "none"),
             clEnumValN(::ejk::ByGates::manyRows, "many-rows", "those of many rows"),
             clEnumValN(::ejk::ByGates::always, "always", "all"))}]>];
  let statistics = [Statistic<"numFunctions", "functions", "functions that got alternatives">,
                    Statistic<"numInTwoTerms", "two-terms", "functions or copies in two terms">,
                    Statistic<"numSplit", "split", "alternatives over segments">,
                    Statistic<"numByGates", "by-gates", "functions or copies that choose by gates">,
                    Statistic<"numDirect", "direct", "alternatives without sums over heads">];
}

def SelectSchedule : Pass<"ejk-select-schedule", "::mlir::ModuleOp"> {
  let summary = "turn scans into chunkwise programs where their kernels fit";
  let description = [{
    What: runs `ejk-chunk` on scans, after `ejk-narrow-operands`, `ejk-hoist-reductions`,
    `ejk-include-diagonal` and `ejk-narrow-saves`, with the longest chunk of 64, 32 or 16 steps whose kernel fits the shared
    memory of a thread block of `arch`. The lowering itself computes what a kernel needs. Programs of
    a derivative that share saved states take shorter chunks where the tiles of longer ones need far
    more registers than a thread has. A scan
    that does not fit, or that `ejk-chunk` leaves alone, stays as it is, and a remark says why.

    A state of more than 128×128 elements is cut into slices, one for each of several thread blocks,
    which all load the rows that they share. Slices of up to twice as many elements are taken, with
    chunks as short as they need, where they move fewer bytes and a thread's registers suffice.

    Gates per key and per value channel share the exponent range of an operand
    (`passes/chunk/ChunkedState.h`); such scans have chunks of 32 steps at most, which suffices for
    ordinary gates of two nats a step. Scans that share saved states get chunks of one length. Each
    chunk saves its state if states were to be saved every 64 rows or fewer. With `fuse`, these
    scans become one loop (`ejk-fuse-programs`, `ejk-merge-ifs`, `ejk-scale-after-dot`) where that
    fits with chunks of 64.

    Gates per channel without bounds may leave a chunk's range. On a GPU the exact path then has chunks
    of 16 rows, which take four times as strong gates, and go step by step where these leave theirs: in all
    programs of a group or in none, and only where no program has fewer stages of rows for that. A
    group that became one loop keeps the step-by-step path, and so does an f_fwd that is made for it.

    In a function that chooses by gates (`ejk.by_gates`) such scans have two programs each, in chunks of one
    basis and in chunks by blocks for gates of up to 5 nats a row, whose guard looks at each block. A program
    before them reads the gates of each head's first chunk and writes two flags for the head. Each of the two
    skips the heads whose flag is the other's, and they write the same results:

    ```mlir
    %weak, %strong = tile.program … sequences(%gk) finals(…) { … tile.range_guard 48.0 … tile.store_slot … }
    %o = tile.program … skipping(%strong) outputs(…) { … }
    %all = tile.program … skipping(%weak) into(%o) at [0] outputs(…) { … }
    ```

    One launch computes both where their blocks are alike; programs with `ejk.launched_apart`, whose tiles take more registers
    than a thread has, have a launch of their own. In a function with `ejk.for_weak_gates` the flags are constants.

    With `f32-matmuls`, scans whose operands may not be rounded to 16 bits are taken, too, with all
    that share saved states with them: matmuls have f32 operands, in products of bf16 terms
    (`tile.dot`), and saved states are f32. Such programs go without `wgmma` and TMA.

    With `save-states`, a program of f_vjp that would only recompute and save a state that f
    computes as well is replaced: the pass makes f_fwd, which is f with one more result, `saved0`,
    the state at each chunk's start. f_vjp takes it after its other arguments. Several recurrences
    may give several such results. An alternative of f over segments has its own of f_fwd, which
    saves the same states. Remarks say where there is none.

    `schedule` says which scans: none (`step`), all (`chunk`), or those of 16 rows or more or of a
    dynamic number (`automatic`). Where a dynamic number may be one, as in decoding, the scan stays
    beside the program for that case (`tile.choose`), unless it shares saved states, as scans of
    derivatives do. A function that `ejk-make-alternatives` made for steps is left alone, and in
    one that has such a copy nothing stays beside a program; where no scan of it became a
    program, it is the step-by-step one, and its copy goes. With `automatic`, a function, its
    derivative and their alternatives get one remark at most.
  }];
  let options = [
    Option<"arch", "arch", "std::string", "\"sm_90\"", "the architecture to fit into">,
    Option<"schedule", "schedule", "::ejk::Schedule", "::ejk::Schedule::chunk",
           "which scans become chunkwise programs", [{::llvm::cl::values(
             clEnumValN(::ejk::Schedule::step, "step", "none"),
             clEnumValN(::ejk::Schedule::chunk, "chunk", "all that have a chunkwise form"),
             clEnumValN(::ejk::Schedule::automatic, "auto", "those of many rows"))}]>,
    Option<"fuse", "fuse", "bool", "true",
           "one kernel for all gradients where it fits">,
    Option<"roundComputed", "round-computed-operands", "bool", "true",
           "round operands that are computed in f32 from 16-bit rows">,
    Option<"roundExponentials", "round-exponentials", "bool", "true",
           "keep exponentials that are live across a chunk's branch in bf16">,
    Option<"twoTermStates", "two-term-states", "int64_t", "64",
           "the most channels of a carried state that a gate's gradient reads in two terms">,
    Option<"f32Matmuls", "f32-matmuls", "::ejk::F32Matmuls", "::ejk::F32Matmuls::none",
           "how scans of f32 rows are computed",
           [{::llvm::cl::values(
             clEnumValN(::ejk::F32Matmuls::none, "none", "they go step by step"),
             clEnumValN(::ejk::F32Matmuls::bf16x3, "bf16x3",
                        "f32 matmuls of two bf16 terms, three products"),
             clEnumValN(::ejk::F32Matmuls::bf16x6, "bf16x6",
                        "f32 matmuls of three bf16 terms, six products"))}]>,
    Option<"saveStates", "save-states", "bool", "false",
           "make f_fwd, which saves the states that f_vjp would recompute">,
    Option<"cpu", "cpu", "bool", "false",
           "programs that a CPU's kernels have code for (ProgramsOfCpu.h), without remarks">];
  let dependentDialects = [
    "::mlir::arith::ArithDialect", "::mlir::gpu::GPUDialect", "::mlir::linalg::LinalgDialect",
    "::mlir::LLVM::LLVMDialect", "::mlir::math::MathDialect", "::mlir::NVVM::NVVMDialect",
    "::mlir::scf::SCFDialect", "::mlir::tensor::TensorDialect", "::ejk::tile::TileDialect",
    "::mlir::vector::VectorDialect"];
  let statistics = [Statistic<"numChunked", "chunked", "scans turned into chunkwise programs">,
                    Statistic<"numShorter", "shorter", "of them with chunks of less than 64">,
                    Statistic<"numFused", "fused", "pairs of them fused">,
                    Statistic<"numFallingBack", "falling-back", "programs with shorter chunks for strong gates">,
                    Statistic<"numByGates", "by-gates", "groups with programs for strong gates">,
                    Statistic<"numForwards", "forwards", "functions that save states for another">,
                    Statistic<"numDeclined", "declined", "scans left as they are">];
}

def CutFronts : Pass<"ejk-cut-fronts", "::mlir::func::FuncOp"> {
  let summary = "compute once what the slices of a state have in common";
  let description = [{
    What: cuts a block program whose state is in slices into two. The first, its front, computes what a
    chunk has of its rows alone: rows scaled by their gates, and scores. It stores them as rows, and a
    chunk's vectors in a slot for each chunk. The second loads them, and has the state.

    Why: each of eight slices of a 256×512 state loads the same queries, keys and gates, and computes the
    same exponentials and products of them. Without, a chunk has shared memory for 64 rows, where it had it
    for 32.

    The front has a segment of each sequence for itself, so that all multiprocessors work on it. It does not know
    whether a chunk's gates are in range when its rows are scaled, and scales them in any case. The second
    program takes the exact path where they are not.

    What the two hand over are tensors as large as the queries and keys.

    Before:
    ```mlir
    %o = tile.program chunk 64 slices 8 sequences(%q, %k, %v, %g : …) outputs(tensor<?x?x?x512xbf16>) {
      … %x = tile.cumsum %g from 32, %k1 = %k · exp(-%x), %q1 = %q · exp(%x), %p = tile.mask lower %q1 · %k1
      … %y = %p · %v + %q1 · %S
    }
    ```
    After:
    ```mlir
    %rows:3, %vectors:3 = tile.program chunk 64 save_every 64 segments <64 to 256, at_least 64> slices 1
        sequences(%q, %k, %g : …) outputs(…) saves(tensor<?x?x256xf32>, …) { … %k1, %q1, %p … }
    %o = tile.program chunk 64 save_every 64 slices 8
        sequences(%q, %k, %v, %g, %rows#0, %rows#1, %rows#2 : …) saved(%vectors#0, … : …) { … %y … }
    ```
  }];
  let options = [
    Option<"arch", "arch", "std::string", "\"sm_90\"", "the architecture whose shared memory both must fit">,
    Option<"roundExponentials", "round-exponentials", "bool", "true",
           "keep exponentials that are live across a chunk's branch in bf16">,
    Option<"twoTermStates", "two-term-states", "int64_t", "64",
           "the most channels of a carried state that a gate's gradient reads in two terms">];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::math::MathDialect", "::mlir::scf::SCFDialect",
                           "::mlir::vector::VectorDialect", "::ejk::EjkDialect", "::ejk::tile::TileDialect"];
  let statistics = [Statistic<"numFronts", "fronts", "programs whose slices have a kernel in common">];
}

def JamHeads : Pass<"ejk-jam-heads", "::mlir::ModuleOp"> {
  let summary = "compute heads that share rows in one thread block";
  let description = [{
    What: gives a function whose heads add up gradients of rows that they share an alternative, in which a
    block program computes two adjacent heads (unroll and jam). What follows from shared rows alone
    is computed once. A loop carries the states of both. What both add to a sum is added up
    in the block, and two products with one matrix are the product of a sum.

    Why: the second-level cache adds up each head's gradients, which takes it longer than all else that it does.
    With two heads a block it adds half as many, and loads the shared rows half as often.

    The alternative needs an even number of heads that share a row, and is taken where a launch has more heads
    than multiprocessors. It is made for targets with `wgmma`, of programs without branches,
    where one block's registers hold both states.

    Results that are no sums have the same bits. Of the sums, products are rounded together.

    Before:
    ```mlir
    func.func @f_vjp(…) {
      %dv, %x = tile.program chunk 64 … sequences(%v, %q, %k, %g, %do : tensor<?x?x?x64xbf16>, …)
        { … %p = %do · %vᵀ ∘ exp(%g), %dk = %pᵀ · %q … }
      %dk = ejk.sum_heads %x along 2 like %k : tensor<?x?x?x128xf32>, …
    ```
    After:
    ```mlir
    func.func @f_vjp_jammed(…) attributes {ejk.alternative_of = "f_vjp", ejk.needs = …} {
      %v2 = tensor.reshape %v … -> tensor<?x?x?x128xbf16>, %g2 = tensor.reshape %g … -> tensor<?x?x?x2xf32>, …
      %dv2, %x = tile.program chunk 64 … sequences(%v2, %q, %k, %g2, %do2 : tensor<?x?x?x128xbf16>, …)
        { … %p0 = …, %p1 = %do1 · %v1ᵀ ∘ exp(%g1), %dk = (%p0 + %p1)ᵀ · %q … }
      %dv = tensor.reshape %dv2 … -> tensor<?x?x?x64xbf16>
      %dk = ejk.sum_heads %x along 2 like %k : tensor<?x?x?x128xf32>, …
    ```
  }];
  let options = [
    Option<"arch", "arch", "std::string", "\"sm_90a\"", "the architecture whose blocks the programs must fit">,
    Option<"roundExponentials", "round-exponentials", "bool", "true",
           "keep exponentials that are live across a chunk's branch in bf16">,
    Option<"twoTermStates", "two-term-states", "int64_t", "64",
           "the most channels of a carried state that a gate's gradient reads in two terms">];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::math::MathDialect", "::mlir::scf::SCFDialect",
                           "::mlir::tensor::TensorDialect", "::mlir::vector::VectorDialect", "::ejk::EjkDialect",
                           "::ejk::tile::TileDialect"];
  let statistics = [Statistic<"numJammed", "jammed", "programs that compute several heads">];
}

def SumInTurn : Pass<"ejk-sum-in-turn", "::mlir::func::FuncOp"> {
  let summary = "let the blocks of a group's heads add up what they give back";
  let description = [{
    What: gives a block program turns where `ejk.sum_heads` sums rows that it stores for each head. Its
    kernel then stores the sum: the first head of a group its rows, each other head by adding its own to
    them, after the head before (`ejk-take-turns`). A sum of another type than f32 is rounded by an op of
    its own.

    Why: shared keys and queries have gradients that are sums over the heads that read them. With a tensor
    of the terms, one of f32 for each head, a kernel that sums 16 heads moves most of a derivative's bytes.

    Results have the same bits: terms are added in f32, in the order of the heads, with or without turns.
    `red` of PTX may flush subnormal numbers to zero.

    Sums of scans that go step by step keep their kernel, and so do those of states in slices.

    Before:
    ```mlir
    %x = tile.program chunk 64 … outputs(tensor<?x?x?x128xf32>) { … }
    %dk = ejk.sum_heads %x along 2 like %k : tensor<?x?x?x128xf32>, tensor<?x?x?x128xbf16> -> tensor<?x?x?x128xbf16>
    ```
    After:
    ```mlir
    %turns = linalg.fill ins(%zero : i32) outs(%empty : tensor<?x?x?xi32>) -> tensor<?x?x?xi32>
    %x = tile.program chunk 64 … turns(%turns : tensor<?x?x?xi32>) outputs(tensor<?x?x?x128xf32>) { … }
    %sum = ejk.sum_heads %x along 2 like %k : tensor<?x?x?x128xf32>, tensor<?x?x?x128xbf16> -> tensor<?x?x?x128xf32>
    %dk = arith.truncf %sum : tensor<?x?x?x128xf32> to tensor<?x?x?x128xbf16>
    ```
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::linalg::LinalgDialect",
                           "::mlir::tensor::TensorDialect", "::ejk::tile::TileDialect"];
  let statistics = [Statistic<"numSums", "sums", "sums over heads that kernels of their terms compute">];
}

include "lowering/KernelPasses.td"

#endif // EJK_LOWERING_PASSES_TD
