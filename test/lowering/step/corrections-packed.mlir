// Delta rules and a step of two corrections, step by step on the emulator against the interpreter,
// in all that they may have beside: packed sequences in reverse, from h0 to ht, value heads that
// share query and key heads (GVA), query heads that share key and value heads (GQA), gates per key
// channel, per value channel and both, some of -inf, beta up to 2. Within 1e-5 in f32 and 3e-3 of
// bf16 rows; gradients within 2e-5 and 5e-3, and against finite differences.
// DEFINE: %{entry} =
// DEFINE: %{sizes} = T=31,N=4,H=4,Hkv=2
// DEFINE: %{run} = env EJK_CUDA_DRIVER=%emulated-cuda ejk-run --schedule=step %s --entry=%{entry} --device=cuda --random %{sizes} --check
// REDEFINE: %{entry} = twice_packed
// RUN: %{run} | FileCheck %s --implicit-check-not=FAIL
// RUN: %{run} --vjp --finite-differences | FileCheck %s --check-prefixes=VJP,TWICE --implicit-check-not=FAIL
// REDEFINE: %{entry} = twice_packed_bf16
// RUN: %{run} | FileCheck %s --implicit-check-not=FAIL
// RUN: %{run} --vjp --finite-differences | FileCheck %s --check-prefixes=VJP,TWICE --implicit-check-not=FAIL
// REDEFINE: %{sizes} = T=31,N=4,Hk=2,Hv=4
// REDEFINE: %{entry} = rule
// RUN: %{run} | FileCheck %s --implicit-check-not=FAIL
// RUN: %{run} --vjp --finite-differences | FileCheck %s --check-prefixes=VJP,RULE --implicit-check-not=FAIL

// The examples' bf16 rows, step by step too.
// DEFINE: %{example} =
// DEFINE: %{step} = env EJK_CUDA_DRIVER=%emulated-cuda ejk-run --schedule=step %examples/%{example}.mlir --device=cuda --random %{sizes} --check
// REDEFINE: %{sizes} = B=1,T=17,Hk=1,Hv=2
// REDEFINE: %{example} = gated_delta
// RUN: %{step} | FileCheck %s --implicit-check-not=FAIL
// RUN: %{step} --vjp | FileCheck %s --check-prefix=EXAMPLE --implicit-check-not=FAIL
// REDEFINE: %{sizes} = B=1,T=17,H=2
// REDEFINE: %{example} = kda
// RUN: %{step} | FileCheck %s --implicit-check-not=FAIL
// RUN: %{step} --vjp | FileCheck %s --check-prefix=EXAMPLE --implicit-check-not=FAIL
// REDEFINE: %{example} = rwkv7
// RUN: %{step} | FileCheck %s --implicit-check-not=FAIL
// RUN: %{step} --vjp | FileCheck %s --check-prefix=EXAMPLE --implicit-check-not=FAIL

// CHECK-DAG: check o: pass
// CHECK-DAG: check ht: pass
// VJP: differences dq: pass
// VJP-DAG: check dq: pass
// VJP-DAG: check dk: pass
// VJP-DAG: check dv: pass
// VJP-DAG: check dh0: pass
// TWICE-DAG: check dxk: pass
// TWICE-DAG: check dxv: pass
// TWICE-DAG: check db: pass
// RULE-DAG: check dgk: pass
// RULE-DAG: check dbeta: pass
// EXAMPLE-DAG: check dk: pass
// EXAMPLE-DAG: check dv: pass

func.func @rule(%q: tensor<1x?x?x20xf32>, %k: tensor<1x?x?x20xf32>, %v: tensor<1x?x?x12xf32>,
                %beta: tensor<1x?x?xf32>, %gk: tensor<1x?x?x20xf32>, %h0: tensor<?x?x20x12xf32>,
                %cu_seqlens: tensor<?xi32>)
    -> (tensor<1x?x?x12xf32>, tensor<?x?x20x12xf32>) {
  %o, %ht = ejk.delta_rule reverse %q, %k, %v beta(%beta : tensor<1x?x?xf32>)
      gk(%gk : tensor<1x?x?x20xf32>) initial_state(%h0 : tensor<?x?x20x12xf32>)
      cu_seqlens(%cu_seqlens : tensor<?xi32>)
      : tensor<1x?x?x20xf32>, tensor<1x?x?x20xf32>, tensor<1x?x?x12xf32>
      -> tensor<1x?x?x12xf32>, tensor<?x?x20x12xf32>
  return %o, %ht : tensor<1x?x?x12xf32>, tensor<?x?x20x12xf32>
}

func.func @twice_packed(%q: tensor<1x?x?x20xf32> {ejk.name = "q"},
                %k: tensor<1x?x?x20xf32> {ejk.name = "k"},
                %v: tensor<1x?x?x12xf32> {ejk.name = "v"},
                %k2: tensor<1x?x?x20xf32> {ejk.name = "k2"},
                %v2: tensor<1x?x?x12xf32> {ejk.name = "v2"},
                %xk: tensor<1x?x?x20xf32> {ejk.name = "xk"},
                %xv: tensor<1x?x?x12xf32> {ejk.name = "xv"},
                %b: tensor<1x?x?xf32> {ejk.name = "b"},
                %h0: tensor<?x?x20x12xf32> {ejk.name = "h0"},
                %cu: tensor<?xi32> {ejk.name = "cu_seqlens"})
    -> (tensor<1x?x?x12xf32> {ejk.name = "o"}, tensor<?x?x20x12xf32> {ejk.name = "ht"}) {
  %o, %ht = ejk.scan reverse cu_seqlens(%cu : tensor<?xi32>)
      sequences(%qt = %q : tensor<1x?x?x20xf32>,
                %kt = %k : tensor<1x?x?x20xf32>,
                %vt = %v : tensor<1x?x?x12xf32>,
                %k2t = %k2 : tensor<1x?x?x20xf32>,
                %v2t = %v2 : tensor<1x?x?x12xf32>,
                %xkt = %xk : tensor<1x?x?x20xf32>,
                %xvt = %xv : tensor<1x?x?x12xf32>,
                %bt = %b : tensor<1x?x?xf32>)
      states(%S = %h0 : tensor<?x?x20x12xf32>) -> (tensor<1x?x?x12xf32>) {
    %epsilon = arith.constant 1.0e-6 : f32
    %kn_squares = arith.mulf %kt, %kt : vector<20xf32>
    %kn_sum = ejk.sum %kn_squares : vector<20xf32>
    %kn_more = arith.addf %kn_sum, %epsilon : f32
    %kn_over = math.rsqrt %kn_more : f32
    %kn_each = vector.broadcast %kn_over : f32 to vector<20xf32>
    %kn = arith.mulf %kt, %kn_each : vector<20xf32>
    %k2n_squares = arith.mulf %k2t, %k2t : vector<20xf32>
    %k2n_sum = ejk.sum %k2n_squares : vector<20xf32>
    %k2n_more = arith.addf %k2n_sum, %epsilon : f32
    %k2n_over = math.rsqrt %k2n_more : f32
    %k2n_each = vector.broadcast %k2n_over : f32 to vector<20xf32>
    %k2n = arith.mulf %k2t, %k2n_each : vector<20xf32>
    %gkd_size = math.absf %xkt : vector<20xf32>
    %gkd_weak = arith.negf %gkd_size : vector<20xf32>
    %gkd_limit = arith.constant dense<1.5> : vector<20xf32>
    %gkd_all = arith.constant dense<0xFF800000> : vector<20xf32>
    %gkd_forgets = arith.cmpf ogt, %xkt, %gkd_limit : vector<20xf32>
    %gkd = arith.select %gkd_forgets, %gkd_all, %gkd_weak : vector<20xi1>, vector<20xf32>
    %gvd_size = math.absf %xvt : vector<12xf32>
    %gvd_weak = arith.negf %gvd_size : vector<12xf32>
    %gvd_limit = arith.constant dense<1.5> : vector<12xf32>
    %gvd_all = arith.constant dense<0xFF800000> : vector<12xf32>
    %gvd_forgets = arith.cmpf ogt, %xvt, %gvd_limit : vector<12xf32>
    %gvd = arith.select %gvd_forgets, %gvd_all, %gvd_weak : vector<12xi1>, vector<12xf32>
    %one = arith.constant 1.0 : f32
    %two = arith.constant 2.0 : f32
    %minus = arith.negf %bt : f32
    %em = math.exp %minus : f32
    %den = arith.addf %one, %em : f32
    %beta = arith.divf %two, %den : f32
    %betas = vector.broadcast %beta : f32 to vector<12xf32>
    %S0 = ejk.decay %S by %gkd along key : vector<20x12xf32>, vector<20xf32>
    %S1 = ejk.decay %S0 by %gvd along value : vector<20x12xf32>, vector<12xf32>
    %r = ejk.read %S1, %kn along key : vector<20x12xf32>, vector<20xf32>
    %e = arith.subf %vt, %r : vector<12xf32>
    %u = arith.mulf %betas, %e : vector<12xf32>
    %S2 = ejk.outer_add %S1, %kn, %u : vector<20x12xf32>, vector<20xf32>, vector<12xf32>
    %r2 = ejk.read %S2, %k2n along key : vector<20x12xf32>, vector<20xf32>
    %e2 = arith.subf %v2t, %r2 : vector<12xf32>
    %u2 = math.tanh %e2 : vector<12xf32>
    %S3 = ejk.outer_add %S2, %k2n, %u2 : vector<20x12xf32>, vector<20xf32>, vector<12xf32>
    %ot = ejk.read %S3, %qt along key : vector<20x12xf32>, vector<20xf32>
    ejk.yield states(%S3 : vector<20x12xf32>) outputs(%ot : vector<12xf32>)
  }
  return %o, %ht : tensor<1x?x?x12xf32>, tensor<?x?x20x12xf32>
}

func.func @twice_packed_bf16(%q: tensor<1x?x?x20xbf16> {ejk.name = "q"},
                %k: tensor<1x?x?x20xbf16> {ejk.name = "k"},
                %v: tensor<1x?x?x12xbf16> {ejk.name = "v"},
                %k2: tensor<1x?x?x20xbf16> {ejk.name = "k2"},
                %v2: tensor<1x?x?x12xbf16> {ejk.name = "v2"},
                %xk: tensor<1x?x?x20xf32> {ejk.name = "xk"},
                %xv: tensor<1x?x?x12xf32> {ejk.name = "xv"},
                %b: tensor<1x?x?xf32> {ejk.name = "b"},
                %h0: tensor<?x?x20x12xf32> {ejk.name = "h0"},
                %cu: tensor<?xi32> {ejk.name = "cu_seqlens"})
    -> (tensor<1x?x?x12xbf16> {ejk.name = "o"}, tensor<?x?x20x12xf32> {ejk.name = "ht"}) {
  %o, %ht = ejk.scan reverse cu_seqlens(%cu : tensor<?xi32>)
      sequences(%qtn = %q : tensor<1x?x?x20xbf16>,
                %ktn = %k : tensor<1x?x?x20xbf16>,
                %vtn = %v : tensor<1x?x?x12xbf16>,
                %k2tn = %k2 : tensor<1x?x?x20xbf16>,
                %v2tn = %v2 : tensor<1x?x?x12xbf16>,
                %xkt = %xk : tensor<1x?x?x20xf32>,
                %xvt = %xv : tensor<1x?x?x12xf32>,
                %bt = %b : tensor<1x?x?xf32>)
      states(%S = %h0 : tensor<?x?x20x12xf32>) -> (tensor<1x?x?x12xbf16>) {
    %qt = arith.extf %qtn : vector<20xbf16> to vector<20xf32>
    %kt = arith.extf %ktn : vector<20xbf16> to vector<20xf32>
    %vt = arith.extf %vtn : vector<12xbf16> to vector<12xf32>
    %k2t = arith.extf %k2tn : vector<20xbf16> to vector<20xf32>
    %v2t = arith.extf %v2tn : vector<12xbf16> to vector<12xf32>
    %epsilon = arith.constant 1.0e-6 : f32
    %kn_squares = arith.mulf %kt, %kt : vector<20xf32>
    %kn_sum = ejk.sum %kn_squares : vector<20xf32>
    %kn_more = arith.addf %kn_sum, %epsilon : f32
    %kn_over = math.rsqrt %kn_more : f32
    %kn_each = vector.broadcast %kn_over : f32 to vector<20xf32>
    %kn = arith.mulf %kt, %kn_each : vector<20xf32>
    %k2n_squares = arith.mulf %k2t, %k2t : vector<20xf32>
    %k2n_sum = ejk.sum %k2n_squares : vector<20xf32>
    %k2n_more = arith.addf %k2n_sum, %epsilon : f32
    %k2n_over = math.rsqrt %k2n_more : f32
    %k2n_each = vector.broadcast %k2n_over : f32 to vector<20xf32>
    %k2n = arith.mulf %k2t, %k2n_each : vector<20xf32>
    %gkd_size = math.absf %xkt : vector<20xf32>
    %gkd_weak = arith.negf %gkd_size : vector<20xf32>
    %gkd_limit = arith.constant dense<1.5> : vector<20xf32>
    %gkd_all = arith.constant dense<0xFF800000> : vector<20xf32>
    %gkd_forgets = arith.cmpf ogt, %xkt, %gkd_limit : vector<20xf32>
    %gkd = arith.select %gkd_forgets, %gkd_all, %gkd_weak : vector<20xi1>, vector<20xf32>
    %gvd_size = math.absf %xvt : vector<12xf32>
    %gvd_weak = arith.negf %gvd_size : vector<12xf32>
    %gvd_limit = arith.constant dense<1.5> : vector<12xf32>
    %gvd_all = arith.constant dense<0xFF800000> : vector<12xf32>
    %gvd_forgets = arith.cmpf ogt, %xvt, %gvd_limit : vector<12xf32>
    %gvd = arith.select %gvd_forgets, %gvd_all, %gvd_weak : vector<12xi1>, vector<12xf32>
    %one = arith.constant 1.0 : f32
    %two = arith.constant 2.0 : f32
    %minus = arith.negf %bt : f32
    %em = math.exp %minus : f32
    %den = arith.addf %one, %em : f32
    %beta = arith.divf %two, %den : f32
    %betas = vector.broadcast %beta : f32 to vector<12xf32>
    %S0 = ejk.decay %S by %gkd along key : vector<20x12xf32>, vector<20xf32>
    %S1 = ejk.decay %S0 by %gvd along value : vector<20x12xf32>, vector<12xf32>
    %r = ejk.read %S1, %kn along key : vector<20x12xf32>, vector<20xf32>
    %e = arith.subf %vt, %r : vector<12xf32>
    %u = arith.mulf %betas, %e : vector<12xf32>
    %S2 = ejk.outer_add %S1, %kn, %u : vector<20x12xf32>, vector<20xf32>, vector<12xf32>
    %r2 = ejk.read %S2, %k2n along key : vector<20x12xf32>, vector<20xf32>
    %e2 = arith.subf %v2t, %r2 : vector<12xf32>
    %u2 = math.tanh %e2 : vector<12xf32>
    %S3 = ejk.outer_add %S2, %k2n, %u2 : vector<20x12xf32>, vector<20xf32>, vector<12xf32>
    %ot = ejk.read %S3, %qt along key : vector<20x12xf32>, vector<20xf32>
    %on = arith.truncf %ot : vector<12xf32> to vector<12xbf16>
    ejk.yield states(%S3 : vector<20x12xf32>) outputs(%on : vector<12xbf16>)
  }
  return %o, %ht : tensor<1x?x?x12xbf16>, tensor<?x?x20x12xf32>
}
