//===- SplitPasses.td - recurrences cut into several -------------*- tablegen -*-===//
#ifndef EJK_PASSES_SPLITPASSES_TD
#define EJK_PASSES_SPLITPASSES_TD

include "mlir/Pass/PassBase.td"

def SplitStates : Pass<"ejk-split-states"> {
  let summary = "give K×V states of different sizes scans of their own";
  let description = [{
    A schedule divides the threads of a block over one K and one V. A scan with states
    of several sizes, as mLSTM has with its K×1 normaliser beside a K×V state, becomes one
    scan for each size. A later scan takes what it needs of an earlier one as f32
    sequences: reads, and states that are numbers or vectors. What a step computes without
    its K×V states is computed again in each scan.

    A scan stays as it is where states of two sizes need each other's reads, in one step
    or over time; a remark says so. The interpreter runs such a scan; no schedule does.
    Numbers do not change.

    Before:
    ```mlir
    %o = ejk.scan … states(%S = zero : tensor<?x?x64x64xf32>, %n = zero : tensor<?x?x64x1xf32>) {
      … %d = ejk.read %n1, %q along key … %r = ejk.read %S1, %q along key … }
    ```
    After:
    ```mlir
    %d = ejk.scan … states(%n = zero : tensor<?x?x64x1xf32>) { … ejk.read %n1, %q along key … }
    %o = ejk.scan sequences(… %dt = %d) states(%S = zero : tensor<?x?x64x64xf32>) {
      … %r = ejk.read %S1, %q along key … }
    ```
  }];
  let dependentDialects = ["::mlir::tensor::TensorDialect"];
  let statistics = [Statistic<"numSplit", "split", "scans split in two">];
}

def ColumnStates : Pass<"ejk-column-states"> {
  let summary = "vectors that decay as matrices of one column";
  let description = [{
    What: a state n of C channels that decays by a number, takes vectors, and is only read as Σ n ⊙ q or Σ n, becomes
    a C×1 matrix: `ejk.decay`, `ejk.outer_add` with a column of ones, and `ejk.read` along `key`. Why: a chunk
    has matmuls for a matrix that decays, and nothing for a vector. The normaliser of xLSTM is such a state.
    A factor must be e^g of a number g, spread over the channels. Scans without a K×V state stay as they are.
    Results do not change; the final state is [N,H,C] again.

    Before:
    ```mlir
    %n, %d = ejk.scan … states(%S = …, %n = zero : tensor<?x?x64xf32>) {
      %f = math.exp %g : f32
      %fs = vector.broadcast %f : f32 to vector<64xf32>
      %n0 = arith.mulf %n, %fs : vector<64xf32>
      %n1 = arith.addf %n0, %k : vector<64xf32>
      %p = arith.mulf %n1, %q : vector<64xf32>
      %d = ejk.sum %p : vector<64xf32> … }
    ```
    After:
    ```mlir
    %c, %d = ejk.scan … states(%S = …, %n = zero : tensor<?x?x64x1xf32>) {
      %n0 = ejk.decay %n by %g along head : vector<64x1xf32>, f32
      %n1 = ejk.outer_add %n0, %k, %one : vector<64x1xf32>, vector<64xf32>, vector<1xf32>
      %r = ejk.read %n1, %q along key : vector<64x1xf32>, vector<64xf32>
      %d = ejk.sum %r : vector<1xf32> … }
    %n = tensor.collapse_shape %c …
    ```
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::tensor::TensorDialect"];
  let statistics = [Statistic<"numColumns", "columns", "vectors made columns">];
}

def CutSmallStates : Pass<"ejk-cut-small-states"> {
  let summary = "give numbers and vectors that do more than add up a scan before that of K×V states";
  let description = [{
    What: a scan with K×V states and with states that are numbers or vectors and do not depend on what is read
    of those becomes two. The first has the numbers and vectors, and gives them to the second as f32
    sequences; the second computes again what is elementwise. Why: a chunk has no form for a number that decays, or is
    a running maximum as in xLSTM, and would leave the K×V states step by step with it. Scans whose numbers and
    vectors only add up stay whole, since chunks have these. A remark says where they depend on a read. Results
    do not change.

    Before:
    ```mlir
    %o = ejk.scan sequences(…) states(%S = …, %m = zero : tensor<?x?xf32>) {
      %m1 = arith.maximumf %m, %i : f32 … %S1 = ejk.outer_add … }
    ```
    After:
    ```mlir
    %ms = ejk.scan sequences(…) states(%m = zero : tensor<?x?xf32>) {
      %m1 = arith.maximumf %m, %i : f32
      ejk.yield states(%m1 : f32) outputs(%m : f32) }
    %o = ejk.scan sequences(… %m = %ms) states(%S = …) {
      %m1 = arith.maximumf %m, %i : f32 … %S1 = ejk.outer_add … }
    ```
  }];
  let dependentDialects = ["::mlir::tensor::TensorDialect"];
  let statistics = [Statistic<"numCut", "cut", "scans cut in two">];
}

def CutRows : Pass<"ejk-cut-rows"> {
  let summary = "compute operands that chunks have no form for in a scan before";
  let description = [{
    What: vectors that a step multiplies a K×V state by, or adds to it, are computed in a scan without states before,
    where they are made of 16-bit rows and of a rotation (`ejk.rotate_half`), or of f32 rows, as angles. Why: a tile has no
    rotation, and no matmul takes f32 rows; in a scan of rows both are cheap. `ejk-narrow-operands` rounds such rows where a
    matmul takes them, as it rounds other vectors that are computed of 16-bit rows. Results do not change here.

    With `shared`, so are a delta rule's keys and queries that are divided by their length, where several heads share
    them and gates are numbers of a head; and beside them the numbers of a head that are made by a function, as gates and
    rates. Why: a chunk's system waits for its keys, in each head, and in a scan of rows their length is computed once for
    all heads that share a key. A derivative's one kernel then fits, too. `ejk-derive-backward` cuts such rows before it
    differentiates, and `ejk-separate-states` in other functions. H200, gated DeltaNet with all of that in the step, ms
    forward: 1, 16384, 16 → 64 heads 1.65 → 1.11; 1, 8192, 16 → 32 heads 0.551 → 0.456; with all gradients 11.8 → 6.81 and
    2.74 → 1.71. Where no heads share a key, forward: 4, 4096, 64 heads 0.836 → 0.861.

    Before:
    ```mlir
    %o = ejk.scan sequences(%q : …bf16, %cos : …f32, …) states(%S = …) {
      %h = ejk.rotate_half %q … %r = arith.addf … ejk.read %S1, %r along key … }
    ```
    After:
    ```mlir
    %rs = ejk.scan sequences(%q, %cos, …) { %h = ejk.rotate_half %q … outputs(%r : vector<64xf32>) }
    %o = ejk.scan sequences(%q, %r = %rs …) states(%S = …) { … ejk.read %S1, %r along key … }
    ```
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::tensor::TensorDialect"];
  let options = [Option<"shared", "shared", "bool", "false",
                        "also cut normalised rows that several heads of a delta rule share">];
  let statistics = [Statistic<"numCut", "rows", "vectors that became rows of a scan before">];
}

def ScaleAfterRead : Pass<"ejk-scale-after-read"> {
  let summary = "multiply what is read by a row's number instead of the row";
  let description = [{
    What: where a delta rule reads its state with a 16-bit row that is divided by its length, or adds such a row as a
    key, the division goes to what is read, and to the value that is added. Not where gates differ by channel, as keys are
    multiplied by these anyway. Why: a chunk's matmuls take the row as it was given, exact in one bf16 term, where they
    took two terms of the product: three matmuls fewer a chunk, and no tile of keys is made. A derivative stays as it is: it
    sums over channels what would multiply such a number. `ejk-select-schedule` does the same to scans that become
    programs. H200, gated DeltaNet with norms in its step, 4, 4096, 64 heads, ms: forward 0.82 → 0.68; the forward that
    saves states 1.30 → 1.06. Results change by the rounding of the product.

    Before:
    ```mlir
    %kn = arith.mulf %k, %each : vector<128xf32>
    %r = ejk.read %S, %kn along key …
    %T = ejk.outer_add %S, %kn, %u …
    ```
    After, with `%each` as wide as what it multiplies:
    ```mlir
    %p = ejk.read %S, %k along key …
    %r = arith.mulf %p, %each
    %w = arith.mulf %u, %each
    %T = ejk.outer_add %S, %k, %w …
    ```
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::vector::VectorDialect"];
  let statistics = [Statistic<"numScaled", "scaled", "reads and outer products with rows as given">];
}

def SeparateStates : Pass<"ejk-separate-states", "::mlir::func::FuncOp"> {
  let summary = "let chunks take the K×V states of scans with other states";
  let description = [{
    What: runs `ejk-cut-rows`, `ejk-column-states`, `ejk-cut-small-states` and `ejk-split-states` on a function in
    which a scan of 16-bit rows has numbers or vectors that do more than add up beside K×V states, or operands that
    chunks cannot compute, or rows that heads of a delta rule share. Other functions stay as
    they are, and derivatives, too, whose rows `ejk-derive-backward` has cut: what these hand to a scan of numbers
    would be the rounding of matmuls, added
    up over a sequence. Why: those make more kernels, which pays by chunks alone. Results do not
    change.

    Before:
    ```mlir
    %o = ejk.scan … states(%S = …, %n = … : tensor<?x?x64xf32>, %m = … : tensor<?x?xf32>) { … }
    ```
    After:
    ```mlir
    %ms = ejk.scan … states(%m = …) { … }
    %d = ejk.scan sequences(… %ms) states(%n = … : tensor<?x?x64x1xf32>) { … }
    %o = ejk.scan sequences(… %ms, %d) states(%S = …) { … }
    ```
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::tensor::TensorDialect"];
  let statistics = [Statistic<"numSeparated", "functions", "functions with more scans">];
}

def FoldOwnHeads : Pass<"ejk-fold-own-heads", "::mlir::func::FuncOp"> {
  let summary = "no sums over heads of which each is alone";
  let description = [{
    What: `ejk.sum_heads` of a tensor with as many heads as the one that it is to be like becomes the tensor, rounded
    to the sum's type; in the step of the scan that gives it, where nothing else uses it. Why: the derivation knows
    the heads of arguments only, and sums the gradients of shifted rows as if heads shared these. Here the shapes of
    `ejk-describe-interface` tell. Results do not change.

    Before:
    ```mlir
    %s = ejk.shift %q by 1 : tensor<?x?x?x64xbf16>
    %d = ejk.sum_heads %ds along 2 like %s : tensor<?x?x?x64xf32>, tensor<?x?x?x64xbf16> -> tensor<?x?x?x64xf32>
    ```
    After: %ds in the place of %d.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::tensor::TensorDialect"];
  let statistics = [Statistic<"numFolded", "folded", "sums folded">];
}

def GatherShifts : Pass<"ejk-gather-shifts", "::mlir::func::FuncOp"> {
  let summary = "sums of shifted products as one scan";
  let description = [{
    What: a sum of tensors x ⊙ wᵢ, each an output of one scan that is shifted by other steps, becomes a scan without states that
    multiplies shifted rows of x and adds them; wᵢ is constant in time. Why: the derivative of a convolution is such
    a sum. Its terms would be stored one by one, shifted into copies, and added. The scan stores x alone, and
    shifts are a part of how the next one loads it. Results do not change, but that a 16-bit sum is rounded once.

    Before:
    ```mlir
    %a, %b = ejk.scan … { … outputs(%x ⊙ %w0, %x ⊙ %w1) }
    %bs = ejk.shift %b by -1 : tensor<?x?x?x64xf32>
    %d = arith.addf %a, %bs : tensor<?x?x?x64xf32>
    ```
    After:
    ```mlir
    %xs = ejk.scan … { … outputs(%x) }
    %x1 = ejk.shift %xs by -1 : tensor<?x?x?x64xf32>
    %d = ejk.scan sequences(%xs, %x1) parameters(%w0, %w1) { … outputs(%x ⊙ %w0 + %x1 ⊙ %w1) }
    ```
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::tensor::TensorDialect"];
  let statistics = [Statistic<"numGathered", "gathered", "sums that became scans">];
}

def SplitRotations : Pass<"ejk-split-rotations"> {
  let summary = "move rotations of vectors that depend on a state out of scans";
  let description = [{
    `ejk.rotate_half` of a vector that depends on a state needs channels that other threads
    hold. A scan with such a rotation becomes two: the first gives the vector as an f32
    sequence, the second loads it, rotates it as it loads, and does what follows. The
    derivative of a rotated key is so. A scan whose states depend on such a rotation stays
    as it is; a remark says so. Results do not change.

    Before:
    ```mlir
    %dk = ejk.scan … { … %r = ejk.read %A, %v along value … %x = ejk.rotate_half %r … }
    ```
    After:
    ```mlir
    %rs = ejk.scan … { … %r = ejk.read %A, %v along value … }
    %dk = ejk.scan sequences(… %rt = %rs) { %x = ejk.rotate_half %rt … }
    ```
  }];
  let dependentDialects = ["::mlir::tensor::TensorDialect"];
  let statistics = [Statistic<"numSplit", "rotations", "rotations taken out of scans">];
}

def SplitSums : Pass<"ejk-split-sums"> {
  let summary = "move sums and maxima over channels out of scans";
  let description = [{
    What: a scan with `ejk.sum` becomes two: the first gives the terms as f32 sequences,
    `linalg.generic` sums them, and the second computes what follows; it has no K×V state unless the
    sums reach it. Why: a vector that depends on the state is distributed over the threads of
    several blocks, which a step cannot sum over. The same holds for `ejk.max`. Results do not
    change.

    With `above`, wide states alone: thread blocks that compute a chunk on tensor cores share such a state, and none has all
    channels of what is read. With `matrices-only`, scans without K×V states stay whole if their vectors have one length: a
    thread block of a GPU has all channels of these.

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
  let options = [Option<"above", "above", "int64_t", "-1",
      "only in scans with a state of more elements; others stay as they are">,
    Option<"matricesOnly", "matrices-only", "bool", "false",
      "only in scans with a K×V state; others stay as they are">];
  let statistics = [Statistic<"numSplit", "sums", "sums taken out of scans">];
}

def SplitReads : Pass<"ejk-split-reads"> {
  let summary = "give reads along different axes separate scans";
  let description = [{
    What: a scan that reads along both axes becomes two scans over the same states. The first keeps
    the reads along `value`; the second the reads along `key`, and takes the first's reads as f32
    sequences. (In the other order where reads along `value` depend on those along `key`.) A scan
    whose reads along each axis depend on the other's cannot be split; a remark says so. Why: the
    step-by-step schedule distributes the state's free axis over threads and sums along the other,
    so one kernel reads along one axis. Results do not change.

    A CPU's kernel has all columns of a state, one block of them after the other, so it can read along the
    columns while it passes over the rows. It saves a second pass over the same states. `keep-up-to` leaves such a scan
    whole: its states are linear, the reads along one axis feed outputs alone, and a state has at most so many
    elements (what a thread's stack holds).

    With `above`, only scans with a wide state are split, and no remark says that one cannot be. Why: a thread block that
    computes chunks on tensor cores holds a state in registers, and blocks can share a wider one only where it is read along one axis.

    With `turned`, a scan that reads along one axis becomes two also where what is read is a vector along that axis in its turn,
    as a query of another state: the second scan takes it as a sequence. Why: columns that a kernel computes apart give a
    row that no column has whole.

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
  let dependentDialects = ["::mlir::tensor::TensorDialect"];
  let options = [Option<"keepUpTo", "keep-up-to", "int64_t", "0",
      "the elements of a state up to which a scan stays whole whose reads along one axis feed outputs alone">,
                 Option<"above", "above", "int64_t", "-1",
      "only scans with a state of more elements; others stay as they are">,
                 Option<"turned", "turned", "bool", "false",
      "split where a read is a vector along the axis of another read">];
  let statistics = [Statistic<"numSplit", "split", "scans split in two">,
                    Statistic<"numTurned", "turned", "scans split before a read that is taken along the other axis">];
}

def RestartScans : Pass<"ejk-restart-scans", "::mlir::func::FuncOp"> {
  let summary = "restart scans from states that an earlier scan saves";
  let description = [{
    What: divides a scan whose K×V states are those of an earlier one, step by step, into segments of `rows` rows.
    They start from states that the earlier one then saves, in f32. A derivative has such a scan: the first scan
    of adjoint states gives what corrects them, and a later one goes through the same states with that as its
    rows. Why: in memory these rows are rounded to 16 bits. A state that is the sum of all of them is then off by
    the sum of their errors, which without decay grows with the root of the sequence's length; from a segment's
    start on it is exact again. And segments run side by side.

    Requires: the scan's other states sum up, or start anew at saved states; it saves nothing; and it goes
    against the direction of the function's first scan. Why: what a scan in that direction gives, the forward may
    have saved, and it would be scanned for its states alone. Results change by the errors above.

    Before:
    ```mlir
    %u = ejk.scan reverse sequences(%q, %k, %b, %do) states(zero) {
      s1 = s + q doᵀ; u = read s1, k along key; s2 = s1 - k (b u)ᵀ }
    %dk = ejk.scan reverse sequences(%q, %k, %b, %do, %u) states(zero) {
      s1 = s + q doᵀ; s2 = s1 - k (b u)ᵀ; … }
    ```
    After:
    ```mlir
    %u, %saves = ejk.scan reverse save_every 2048 sequences(%q, %k, %b, %do) states(zero) {
      as before; saves(s2) }
    %starts = ejk.segment_starts reverse %saves every 2048 like %q
    %dk = ejk.scan reverse segments<2048 to 2048, at_least 1> sequences(%q, %k, %b, %do, %u) states(%starts) {
      as before }
    ```
  }];
  let dependentDialects = ["::ejk::EjkDialect", "::mlir::arith::ArithDialect",
                           "::mlir::linalg::LinalgDialect", "::mlir::tensor::TensorDialect"];
  let options = [Option<"rows", "rows", "int64_t", "2048", "rows of a segment">];
  let statistics = [Statistic<"numRestarted", "restarted", "scans divided into segments that restart">];
}

def SplitOverTime : Pass<"ejk-split-over-time"> {
  let summary = "scan segments of each sequence side by side";
  let description = [{
    What: writes a scan as scans over segments of its sequences: one that makes each segment's final
    state from zero and the sum of its log gates; one over the segments, which combines those to
    the state that each segment starts from, and the sequence's final state; and the scan itself,
    segment by segment, from those states. A state that only adds up is summed in each segment and
    then over the segments; one that starts anew at each saved state needs nothing. Where the sum is
    then summed over channels, each segment's is first. Why: a thread
    block scans one sequence and head, so that few of them leave multiprocessors idle. Cost: keys,
    values and gates are read twice.

    With `without-matrices`, only scans without K×V states are, which have no carried state or sum up: step
    by step these, too, have a thread block a head, and steps that need nothing of each other wait.

    The length of segments depends on the rows of a batch entry alone (`#ejk.segments`), and
    states are combined in the order of the segments, so that a sequence gives the same bits in any
    batch. Packed sequences have segments of `packed` rows.

    Where steps correct a state, a number cannot say what a segment makes of its start S: it makes
    M S + X, with a K×K matrix M, the segment's transition. Another scan makes M: the same step from
    the identity, with K value channels, in which nothing is added that does not depend on the state.
    `ejk.combine_segments` combines, in f32. Keys and gates are then read
    three times. A scan that gets what an earlier one has read as rows, as those of a derivative do,
    goes through the same states, and takes the starts of that one.

    With `forget`, where a gate is known to have a bound, but may be as low as that, rows are left out that
    gates forget. A scan makes the transition of each segment's last `trailing` rows alone, and its norm
    is measured on the device. Where that is below 2^-25, what is before these rows adds less than half of an
    f32's last bit to the segment's end: totals are made of these rows, and no transition is. A NaN before them is
    forgotten, too.

    With `halves`, a batch entry has two segments, of as many rows. The half that the scan comes to first is
    scanned for its final state alone, and from that one the other half starts: nothing is combined, and no
    transition is made. Why: with more than a third of a device's multiprocessors at work, transitions cost as
    much as all of them at work gain. Packed sequences are not divided so.

    With `whole`, each sequence is one segment, which starts from its initial state, or zeros. Nothing is
    combined, and no result changes. Why: a kernel of such a scan is the kernel of the segments.

    Requires: the states' next values are linear in them (decays and outer products, or sums), of
    gates and keys that do not depend on a state. Nor do values, but for corrections as `ejk-chunk`
    has them, and beside those no gate per value channel. Other scans get a remark. Results change
    by the rounding of the sums of log gates and of the states' combination; of a corrected state by
    that of its transitions, whose matmuls round like the state's own.

    Before:
    ```mlir
    %o, %ht = ejk.scan sequences(%q, %k, %v, %g) states(%S = %h0) -> (…) {
      S1 = decay S by g; S2 = S1 + k vᵀ; o = read S2, q along key }
    ```
    After:
    ```mlir
    %d, %x = ejk.scan segments<64 to 4096, at_least 4> sequences(%g, %k, %v) states(zero, zero) {
      x1 = decay x by g; x2 = x1 + k vᵀ; d1 = d + g }
    %starts, %ht = ejk.scan sequences(%x, %d) states(%S = %h0) -> (…) {   // over segments
      yield states(exp(d) · S + x) outputs(S) }
    %o = ejk.scan segments<64 to 4096, at_least 4> sequences(%q, %k, %v, %g) states(%starts) … {
      as before }
    ```
    With `halves`:
    ```mlir
    %x = ejk.scan segments<64, exactly 2, only 0> sequences(%g, %k, %v) states(%h0) {
      x1 = decay x by g; x2 = x1 + k vᵀ }
    %starts = linalg.generic … // %h0 and %x of each batch entry
    %o, %ends = ejk.scan segments<64, exactly 2> sequences(%q, %k, %v, %g) states(%starts) … {
      as before }
    %ht = linalg.generic … // every second one of %ends
    ```
    With a correction, S2 = S1 + k (v - r)ᵀ of r = read S1, k along key, the second of these is:
    ```mlir
    %m = ejk.scan segments<64 to 4096, at_least 4> sequences(%g, %k) states(%identities) {
      m1 = decay m by g; m2 = m1 - k (read m1, k along key)ᵀ }
    %starts, %ht = ejk.combine_segments %x by %m from %h0 like %q
    ```
  }];
  let dependentDialects = ["::ejk::EjkDialect", "::mlir::arith::ArithDialect",
                           "::mlir::linalg::LinalgDialect", "::mlir::math::MathDialect",
                           "::mlir::tensor::TensorDialect", "::mlir::vector::VectorDialect"];
  let options = [
    Option<"least", "least", "int64_t", "64", "rows that divide a segment of a batch entry">,
    Option<"most", "most", "int64_t", "4096", "the most rows of such a segment">,
    Option<"count", "count", "int64_t", "4", "segments that a long batch entry has at least">,
    Option<"packed", "packed", "int64_t", "2048", "rows of a segment of packed sequences">,
    Option<"whole", "whole", "bool", "false", "one segment for each sequence">,
    Option<"halves", "halves", "bool", "false",
           "two segments for each batch entry, of which one starts from what a scan of the other ends with">,
    Option<"forget", "forget", "double", "0",
           "leave out rows and transitions of corrected states that gates forget, where a gate has a bound "
           "that is not above this; 0 for none">,
    Option<"trailing", "trailing", "int64_t", "128", "a segment's last rows, for `forget`">,
    Option<"withoutMatrices", "without-matrices", "bool", "false",
           "only scans without K×V states whose other states, if any, add up; others stay as they are">,
    Option<"remarks", "remarks", "bool", "true", "say why a scan is not divided">];
  let statistics = [
    Statistic<"numSplit", "split", "scans divided into segments">,
    Statistic<"numDeclined", "declined", "scans that are not linear in their states">];
}

#endif // EJK_PASSES_SPLITPASSES_TD
