// Steps that read the state before they write it, on the emulator against the interpreter:
// within 1e-5 of it in f32, and 3e-3 where rows are bf16; gradients within 2e-5 and 5e-3, and
// against finite differences.
// DEFINE: %{entry} =
// DEFINE: %{run} = env EJK_CUDA_DRIVER=%emulated-cuda ejk-run --schedule=step %s --entry=%{entry} --device=cuda --random B=1,T=9,H=2 --check
// REDEFINE: %{entry} = gdn
// RUN: %{run} | FileCheck %s
// RUN: %{run} --vjp --finite-differences | FileCheck %s --check-prefix=VJP --implicit-check-not=fail
// REDEFINE: %{entry} = gdn_bf16
// RUN: %{run} | FileCheck %s
// RUN: %{run} --vjp --finite-differences | FileCheck %s --check-prefix=VJP --implicit-check-not=fail
// REDEFINE: %{entry} = rwkv7
// RUN: %{run} | FileCheck %s
// RUN: %{run} --vjp --finite-differences | FileCheck %s --check-prefix=VJP --implicit-check-not=fail
// REDEFINE: %{entry} = twice
// RUN: %{run} | FileCheck %s
// RUN: %{run} --vjp --finite-differences | FileCheck %s --check-prefix=VJP --implicit-check-not=fail
// REDEFINE: %{entry} = gated_by_read
// RUN: %{run} | FileCheck %s
// RUN: %{run} --vjp --finite-differences | FileCheck %s --check-prefix=VJP --implicit-check-not=fail

// CHECK-DAG: check o: pass
// CHECK-DAG: check ht: pass
// VJP-DAG: differences dk: pass
// VJP-DAG: check dq: pass
// VJP-DAG: check dk: pass
// VJP-DAG: check dv: pass
// VJP-DAG: check dh0: pass

func.func @gdn(%v: tensor<?x?x?x40xf32> {ejk.name = "v"},
                %q: tensor<?x?x?x24xf32> {ejk.name = "q"},
                %k: tensor<?x?x?x24xf32> {ejk.name = "k"},
                %g: tensor<?x?x?xf32> {ejk.name = "g"},
                %b: tensor<?x?x?xf32> {ejk.name = "b"},
                %h0: tensor<?x?x24x40xf32> {ejk.name = "h0"})
    -> (tensor<?x?x?x40xf32> {ejk.name = "o"}, tensor<?x?x24x40xf32> {ejk.name = "ht"}) {
  %o, %ht = ejk.scan
      sequences(%vt = %v : tensor<?x?x?x40xf32>,
                %qt = %q : tensor<?x?x?x24xf32>,
                %kt = %k : tensor<?x?x?x24xf32>,
                %gt = %g : tensor<?x?x?xf32>,
                %bt = %b : tensor<?x?x?xf32>)
      states(%S = %h0 : tensor<?x?x24x40xf32>) -> (tensor<?x?x?x40xf32>) {
    %epsilon = arith.constant 1.0e-6 : f32
    %qn_squares = arith.mulf %qt, %qt : vector<24xf32>
    %qn_sum = ejk.sum %qn_squares : vector<24xf32>
    %qn_more = arith.addf %qn_sum, %epsilon : f32
    %qn_over = math.rsqrt %qn_more : f32
    %qn_each = vector.broadcast %qn_over : f32 to vector<24xf32>
    %qn = arith.mulf %qt, %qn_each : vector<24xf32>
    %kn_squares = arith.mulf %kt, %kt : vector<24xf32>
    %kn_sum = ejk.sum %kn_squares : vector<24xf32>
    %kn_more = arith.addf %kn_sum, %epsilon : f32
    %kn_over = math.rsqrt %kn_more : f32
    %kn_each = vector.broadcast %kn_over : f32 to vector<24xf32>
    %kn = arith.mulf %kt, %kn_each : vector<24xf32>
    %one = arith.constant 1.0 : f32
    %minus = arith.negf %bt : f32
    %em = math.exp %minus : f32
    %den = arith.addf %one, %em : f32
    %beta = arith.divf %one, %den : f32
    %gsize = math.absf %gt : f32
    %decay = arith.negf %gsize : f32
    %S1 = ejk.decay %S by %decay along head : vector<24x40xf32>, f32
    %r = ejk.read %S1, %kn along key : vector<24x40xf32>, vector<24xf32>
    %e = arith.subf %vt, %r : vector<40xf32>
    %betas = vector.broadcast %beta : f32 to vector<40xf32>
    %u = arith.mulf %betas, %e : vector<40xf32>
    %S2 = ejk.outer_add %S1, %kn, %u : vector<24x40xf32>, vector<24xf32>, vector<40xf32>
    %ot = ejk.read %S2, %qn along key : vector<24x40xf32>, vector<24xf32>
    ejk.yield states(%S2 : vector<24x40xf32>) outputs(%ot : vector<40xf32>)
  }
  return %o, %ht : tensor<?x?x?x40xf32>, tensor<?x?x24x40xf32>
}

func.func @gdn_bf16(%v: tensor<?x?x?x16xbf16> {ejk.name = "v"},
                %q: tensor<?x?x?x32xbf16> {ejk.name = "q"},
                %k: tensor<?x?x?x32xbf16> {ejk.name = "k"},
                %g: tensor<?x?x?xf32> {ejk.name = "g"},
                %b: tensor<?x?x?xf32> {ejk.name = "b"},
                %h0: tensor<?x?x32x16xf32> {ejk.name = "h0"})
    -> (tensor<?x?x?x16xbf16> {ejk.name = "o"}, tensor<?x?x32x16xf32> {ejk.name = "ht"}) {
  %o, %ht = ejk.scan
      sequences(%vt = %v : tensor<?x?x?x16xbf16>,
                %qt = %q : tensor<?x?x?x32xbf16>,
                %kt = %k : tensor<?x?x?x32xbf16>,
                %gt = %g : tensor<?x?x?xf32>,
                %bt = %b : tensor<?x?x?xf32>)
      states(%S = %h0 : tensor<?x?x32x16xf32>) -> (tensor<?x?x?x16xbf16>) {
    %qtw = arith.extf %qt : vector<32xbf16> to vector<32xf32>
    %ktw = arith.extf %kt : vector<32xbf16> to vector<32xf32>
    %vtw = arith.extf %vt : vector<16xbf16> to vector<16xf32>
    %epsilon = arith.constant 1.0e-6 : f32
    %qn_squares = arith.mulf %qtw, %qtw : vector<32xf32>
    %qn_sum = ejk.sum %qn_squares : vector<32xf32>
    %qn_more = arith.addf %qn_sum, %epsilon : f32
    %qn_over = math.rsqrt %qn_more : f32
    %qn_each = vector.broadcast %qn_over : f32 to vector<32xf32>
    %qn = arith.mulf %qtw, %qn_each : vector<32xf32>
    %kn_squares = arith.mulf %ktw, %ktw : vector<32xf32>
    %kn_sum = ejk.sum %kn_squares : vector<32xf32>
    %kn_more = arith.addf %kn_sum, %epsilon : f32
    %kn_over = math.rsqrt %kn_more : f32
    %kn_each = vector.broadcast %kn_over : f32 to vector<32xf32>
    %kn = arith.mulf %ktw, %kn_each : vector<32xf32>
    %one = arith.constant 1.0 : f32
    %minus = arith.negf %bt : f32
    %em = math.exp %minus : f32
    %den = arith.addf %one, %em : f32
    %beta = arith.divf %one, %den : f32
    %gsize = math.absf %gt : f32
    %decay = arith.negf %gsize : f32
    %S1 = ejk.decay %S by %decay along head : vector<32x16xf32>, f32
    %r = ejk.read %S1, %kn along key : vector<32x16xf32>, vector<32xf32>
    %e = arith.subf %vtw, %r : vector<16xf32>
    %betas = vector.broadcast %beta : f32 to vector<16xf32>
    %u = arith.mulf %betas, %e : vector<16xf32>
    %S2 = ejk.outer_add %S1, %kn, %u : vector<32x16xf32>, vector<32xf32>, vector<16xf32>
    %ot = ejk.read %S2, %qn along key : vector<32x16xf32>, vector<32xf32>
    %or = arith.truncf %ot : vector<16xf32> to vector<16xbf16>
    ejk.yield states(%S2 : vector<32x16xf32>) outputs(%or : vector<16xbf16>)
  }
  return %o, %ht : tensor<?x?x?x16xbf16>, tensor<?x?x32x16xf32>
}

func.func @rwkv7(%q: tensor<?x?x?x20xf32> {ejk.name = "q"},
                %w: tensor<?x?x?x20xf32> {ejk.name = "w"},
                %k: tensor<?x?x?x20xf32> {ejk.name = "k"},
                %v: tensor<?x?x?x12xf32> {ejk.name = "v"},
                %kappa: tensor<?x?x?x20xf32> {ejk.name = "kappa"},
                %a: tensor<?x?x?x20xf32> {ejk.name = "a"},
                %h0: tensor<?x?x20x12xf32> {ejk.name = "h0"})
    -> (tensor<?x?x?x12xf32> {ejk.name = "o"}, tensor<?x?x20x12xf32> {ejk.name = "ht"}) {
  %o, %ht = ejk.scan
      sequences(%qt = %q : tensor<?x?x?x20xf32>,
                %wt = %w : tensor<?x?x?x20xf32>,
                %kt = %k : tensor<?x?x?x20xf32>,
                %vt = %v : tensor<?x?x?x12xf32>,
                %kappat = %kappa : tensor<?x?x?x20xf32>,
                %at = %a : tensor<?x?x?x20xf32>)
      states(%S = %h0 : tensor<?x?x20x12xf32>) -> (tensor<?x?x?x12xf32>) {
    %epsilon = arith.constant 1.0e-6 : f32
    %unit_squares = arith.mulf %kappat, %kappat : vector<20xf32>
    %unit_sum = ejk.sum %unit_squares : vector<20xf32>
    %unit_more = arith.addf %unit_sum, %epsilon : f32
    %unit_over = math.rsqrt %unit_more : f32
    %unit_each = vector.broadcast %unit_over : f32 to vector<20xf32>
    %unit = arith.mulf %kappat, %unit_each : vector<20xf32>
    %ones = arith.constant dense<1.0> : vector<20xf32>
    %minus = arith.negf %at : vector<20xf32>
    %em = math.exp %minus : vector<20xf32>
    %den = arith.addf %ones, %em : vector<20xf32>
    %rate = arith.divf %ones, %den : vector<20xf32>
    %size = math.absf %wt : vector<20xf32>
    %gk = arith.negf %size : vector<20xf32>
    %removed = ejk.read %S, %unit along key : vector<20x12xf32>, vector<20xf32>
    %S1 = ejk.decay %S by %gk along key : vector<20x12xf32>, vector<20xf32>
    %scaled = arith.mulf %unit, %rate : vector<20xf32>
    %taken = arith.negf %scaled : vector<20xf32>
    %S2 = ejk.outer_add %S1, %taken, %removed : vector<20x12xf32>, vector<20xf32>, vector<12xf32>
    %S3 = ejk.outer_add %S2, %kt, %vt : vector<20x12xf32>, vector<20xf32>, vector<12xf32>
    %ot = ejk.read %S3, %qt along key : vector<20x12xf32>, vector<20xf32>
    ejk.yield states(%S3 : vector<20x12xf32>) outputs(%ot : vector<12xf32>)
  }
  return %o, %ht : tensor<?x?x?x12xf32>, tensor<?x?x20x12xf32>
}

func.func @twice(%q: tensor<?x?x?x16xf32> {ejk.name = "q"},
                %k: tensor<?x?x?x16xf32> {ejk.name = "k"},
                %v: tensor<?x?x?x24xf32> {ejk.name = "v"},
                %k2: tensor<?x?x?x16xf32> {ejk.name = "k2"},
                %gk: tensor<?x?x?x16xf32> {ejk.name = "gk"},
                %gv: tensor<?x?x?x24xf32> {ejk.name = "gv"},
                %h0: tensor<?x?x16x24xf32> {ejk.name = "h0"})
    -> (tensor<?x?x?x24xf32> {ejk.name = "o"}, tensor<?x?x16x24xf32> {ejk.name = "ht"}) {
  %o, %ht = ejk.scan
      sequences(%qt = %q : tensor<?x?x?x16xf32>,
                %kt = %k : tensor<?x?x?x16xf32>,
                %vt = %v : tensor<?x?x?x24xf32>,
                %k2t = %k2 : tensor<?x?x?x16xf32>,
                %gkt = %gk : tensor<?x?x?x16xf32>,
                %gvt = %gv : tensor<?x?x?x24xf32>)
      states(%S = %h0 : tensor<?x?x16x24xf32>) -> (tensor<?x?x?x24xf32>) {
    %epsilon = arith.constant 1.0e-6 : f32
    %kn_squares = arith.mulf %kt, %kt : vector<16xf32>
    %kn_sum = ejk.sum %kn_squares : vector<16xf32>
    %kn_more = arith.addf %kn_sum, %epsilon : f32
    %kn_over = math.rsqrt %kn_more : f32
    %kn_each = vector.broadcast %kn_over : f32 to vector<16xf32>
    %kn = arith.mulf %kt, %kn_each : vector<16xf32>
    %k2n_squares = arith.mulf %k2t, %k2t : vector<16xf32>
    %k2n_sum = ejk.sum %k2n_squares : vector<16xf32>
    %k2n_more = arith.addf %k2n_sum, %epsilon : f32
    %k2n_over = math.rsqrt %k2n_more : f32
    %k2n_each = vector.broadcast %k2n_over : f32 to vector<16xf32>
    %k2n = arith.mulf %k2t, %k2n_each : vector<16xf32>
    %gks = math.absf %gkt : vector<16xf32>
    %gkd = arith.negf %gks : vector<16xf32>
    %gvs = math.absf %gvt : vector<24xf32>
    %gvd = arith.negf %gvs : vector<24xf32>
    %S0 = ejk.decay %S by %gkd along key : vector<16x24xf32>, vector<16xf32>
    %S1 = ejk.decay %S0 by %gvd along value : vector<16x24xf32>, vector<24xf32>
    %r = ejk.read %S1, %kn along key : vector<16x24xf32>, vector<16xf32>
    %u = arith.subf %vt, %r : vector<24xf32>
    %S2 = ejk.outer_add %S1, %kn, %u : vector<16x24xf32>, vector<16xf32>, vector<24xf32>
    %r2 = ejk.read %S2, %k2n along key : vector<16x24xf32>, vector<16xf32>
    %e2 = arith.subf %vt, %r2 : vector<24xf32>
    %u2 = math.tanh %e2 : vector<24xf32>
    %S3 = ejk.outer_add %S2, %k2n, %u2 : vector<16x24xf32>, vector<16xf32>, vector<24xf32>
    %ot = ejk.read %S3, %qt along key : vector<16x24xf32>, vector<16xf32>
    ejk.yield states(%S3 : vector<16x24xf32>) outputs(%ot : vector<24xf32>)
  }
  return %o, %ht : tensor<?x?x?x24xf32>, tensor<?x?x16x24xf32>
}

func.func @gated_by_read(%q: tensor<?x?x?x16xf32> {ejk.name = "q"},
                %k: tensor<?x?x?x16xf32> {ejk.name = "k"},
                %v: tensor<?x?x?x12xf32> {ejk.name = "v"},
                %h0: tensor<?x?x16x12xf32> {ejk.name = "h0"})
    -> (tensor<?x?x?x12xf32> {ejk.name = "o"}, tensor<?x?x16x12xf32> {ejk.name = "ht"}) {
  %o, %ht = ejk.scan
      sequences(%qt = %q : tensor<?x?x?x16xf32>,
                %kt = %k : tensor<?x?x?x16xf32>,
                %vt = %v : tensor<?x?x?x12xf32>)
      states(%S = %h0 : tensor<?x?x16x12xf32>) -> (tensor<?x?x?x12xf32>) {
    %epsilon = arith.constant 1.0e-6 : f32
    %kn_squares = arith.mulf %kt, %kt : vector<16xf32>
    %kn_sum = ejk.sum %kn_squares : vector<16xf32>
    %kn_more = arith.addf %kn_sum, %epsilon : f32
    %kn_over = math.rsqrt %kn_more : f32
    %kn_each = vector.broadcast %kn_over : f32 to vector<16xf32>
    %kn = arith.mulf %kt, %kn_each : vector<16xf32>
    %first = ejk.read %S, %kn along key : vector<16x12xf32>, vector<16xf32>
    %size = math.absf %first : vector<12xf32>
    %gate = arith.negf %size : vector<12xf32>
    %S1 = ejk.decay %S by %gate along value : vector<16x12xf32>, vector<12xf32>
    %u = arith.subf %vt, %first : vector<12xf32>
    %S2 = ejk.outer_add %S1, %kn, %u : vector<16x12xf32>, vector<16xf32>, vector<12xf32>
    %ot = ejk.read %S2, %qt along key : vector<16x12xf32>, vector<16xf32>
    ejk.yield states(%S2 : vector<16x12xf32>) outputs(%ot : vector<12xf32>)
  }
  return %o, %ht : tensor<?x?x?x12xf32>, tensor<?x?x16x12xf32>
}

