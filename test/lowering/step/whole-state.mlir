// Steps that sum along both axes of a state in turn: a thread block has the whole state. Kernels on
// the emulator against the interpreter, forward and derivative; gradients against finite
// differences, too. States of odd sizes, of one warp and of several; one sequence, packed ones.
// DEFINE: %{entry} =
// DEFINE: %{sizes} = B=2,T=9,H=2
// DEFINE: %{run} = env EJK_CUDA_DRIVER=%emulated-cuda ejk-run --schedule=step %s --entry=%{entry} --device=cuda --random %{sizes} --check
// REDEFINE: %{entry} = gate_per_head
// RUN: %{run} | FileCheck %s --implicit-check-not=FAIL
// RUN: %{run} --vjp --finite-differences | FileCheck %s --check-prefix=VJP --implicit-check-not=FAIL
// REDEFINE: %{entry} = both_vectors
// RUN: %{run} | FileCheck %s --implicit-check-not=FAIL
// RUN: %{run} --vjp --finite-differences | FileCheck %s --check-prefix=VJP --implicit-check-not=FAIL
// REDEFINE: %{entry} = hopfield
// RUN: %{run} | FileCheck %s --implicit-check-not=FAIL
// RUN: %{run} --vjp --finite-differences | FileCheck %s --check-prefix=VJP --implicit-check-not=FAIL
// REDEFINE: %{entry} = read_of_read
// RUN: %{run} | FileCheck %s --implicit-check-not=FAIL
// RUN: %{run} --vjp --finite-differences | FileCheck %s --check-prefix=VJP --implicit-check-not=FAIL

// A thread has few elements, and a block many threads.
// RUN: ejk-compile %s --schedule=step --print-cost-model --emit=gpu --arch=sm_90 -o %t.gpu 2>&1 | FileCheck %s --check-prefix=PLAN
// PLAN: Function=both_vectors {{.*}}chosen="8x4 of 320 threads

// A CPU's kernel computes columns apart.
// RUN: not ejk-run %s --entry=both_vectors --device=cpu --random B=1,T=9,H=2 2>&1 | FileCheck %s --check-prefix=CPU
// CPU: error: reads along one axis of a state, and others along the other; a CPU's kernel computes the columns of a state apart

// CHECK: check o: pass
// CHECK: check ht: pass
// VJP: differences dq: pass
// VJP: check dq: pass
// VJP: check dk: pass
// VJP: check dv: pass
// VJP: check dh0: pass

// A gate per head that depends on what is read: its gradient is Σ A ⊙ S, over both axes.
func.func @gate_per_head(%q: tensor<?x?x?x20xf32> {ejk.name = "q"}, %k: tensor<?x?x?x20xf32> {ejk.name = "k"},
                         %v: tensor<?x?x?x12xf32> {ejk.name = "v"}, %h0: tensor<?x?x20x12xf32> {ejk.name = "h0"})
    -> (tensor<?x?x?x12xf32> {ejk.name = "o"}, tensor<?x?x20x12xf32> {ejk.name = "ht"}) {
  %o, %ht = ejk.scan
      sequences(%qt = %q : tensor<?x?x?x20xf32>, %kt = %k : tensor<?x?x?x20xf32>, %vt = %v : tensor<?x?x?x12xf32>)
      states(%S = %h0 : tensor<?x?x20x12xf32>) -> (tensor<?x?x?x12xf32>) {
    %small = arith.constant dense<0.2> : vector<20xf32>
    %ks = arith.mulf %kt, %small : vector<20xf32>
    %r = ejk.read %S, %ks along key : vector<20x12xf32>, vector<20xf32>
    %t = math.tanh %r : vector<12xf32>
    %p = arith.mulf %t, %vt : vector<12xf32>
    %n = ejk.sum %p : vector<12xf32>
    %top = ejk.max %t : vector<12xf32>
    %m = arith.addf %n, %top : f32
    %size = math.absf %m : f32
    %g = arith.negf %size : f32
    %S1 = ejk.decay %S by %g along head : vector<20x12xf32>, f32
    %S2 = ejk.outer_add %S1, %ks, %t : vector<20x12xf32>, vector<20xf32>, vector<12xf32>
    %ot = ejk.read %S2, %qt along key : vector<20x12xf32>, vector<20xf32>
    ejk.yield states(%S2 : vector<20x12xf32>) outputs(%ot : vector<12xf32>)
  }
  return %o, %ht : tensor<?x?x?x12xf32>, tensor<?x?x20x12xf32>
}

// Key, value and gate depend on reads, along either axis.
func.func @both_vectors(%q: tensor<?x?x?x60xf32> {ejk.name = "q"}, %k: tensor<?x?x?x60xf32> {ejk.name = "k"},
                        %v: tensor<?x?x?x150xf32> {ejk.name = "v"}, %h0: tensor<?x?x60x150xf32> {ejk.name = "h0"})
    -> (tensor<?x?x?x150xf32> {ejk.name = "o"}, tensor<?x?x60x150xf32> {ejk.name = "ht"}) {
  %o, %ht = ejk.scan
      sequences(%qt = %q : tensor<?x?x?x60xf32>, %kt = %k : tensor<?x?x?x60xf32>, %vt = %v : tensor<?x?x?x150xf32>)
      states(%S = %h0 : tensor<?x?x60x150xf32>) -> (tensor<?x?x?x150xf32>) {
    %small = arith.constant dense<0.05> : vector<60xf32>
    %small_v = arith.constant dense<0.05> : vector<150xf32>
    %ks = arith.mulf %kt, %small : vector<60xf32>
    %r = ejk.read %S, %ks along key : vector<60x150xf32>, vector<60xf32>
    %t = math.tanh %r : vector<150xf32>
    %u = arith.subf %vt, %t : vector<150xf32>
    %us = arith.mulf %u, %small_v : vector<150xf32>
    %back = ejk.read %S, %us along value : vector<60x150xf32>, vector<150xf32>
    %b = math.tanh %back : vector<60xf32>
    %squares = arith.mulf %b, %b : vector<60xf32>
    %gk = arith.negf %squares : vector<60xf32>
    %S1 = ejk.decay %S by %gk along key : vector<60x150xf32>, vector<60xf32>
    %key = arith.addf %ks, %b : vector<60xf32>
    %S2 = ejk.outer_add %S1, %key, %us : vector<60x150xf32>, vector<60xf32>, vector<150xf32>
    %qs = arith.mulf %qt, %small : vector<60xf32>
    %ot = ejk.read %S2, %qs along key : vector<60x150xf32>, vector<60xf32>
    ejk.yield states(%S2 : vector<60x150xf32>) outputs(%ot : vector<150xf32>)
  }
  return %o, %ht : tensor<?x?x?x150xf32>, tensor<?x?x60x150xf32>
}

// What is read along one axis is added along both.
func.func @hopfield(%q: tensor<?x?x?x40xf32> {ejk.name = "q"}, %k: tensor<?x?x?x40xf32> {ejk.name = "k"},
                    %v: tensor<?x?x?x40xf32> {ejk.name = "v"}, %h0: tensor<?x?x40x40xf32> {ejk.name = "h0"})
    -> (tensor<?x?x?x40xf32> {ejk.name = "o"}, tensor<?x?x40x40xf32> {ejk.name = "ht"}) {
  %o, %ht = ejk.scan
      sequences(%qt = %q : tensor<?x?x?x40xf32>, %kt = %k : tensor<?x?x?x40xf32>, %vt = %v : tensor<?x?x?x40xf32>)
      states(%S = %h0 : tensor<?x?x40x40xf32>) -> (tensor<?x?x?x40xf32>) {
    %small = arith.constant dense<0.05> : vector<40xf32>
    %ks = arith.mulf %kt, %small : vector<40xf32>
    %r = ejk.read %S, %ks along key : vector<40x40xf32>, vector<40xf32>
    %t = math.tanh %r : vector<40xf32>
    %w = arith.subf %vt, %t : vector<40xf32>
    %u = arith.mulf %w, %small : vector<40xf32>
    %g = arith.constant -0.5 : f32
    %S1 = ejk.decay %S by %g along head : vector<40x40xf32>, f32
    %S2 = ejk.outer_add %S1, %t, %u : vector<40x40xf32>, vector<40xf32>, vector<40xf32>
    %ot = ejk.read %S2, %qt along key : vector<40x40xf32>, vector<40xf32>
    ejk.yield states(%S2 : vector<40x40xf32>) outputs(%ot : vector<40xf32>)
  }
  return %o, %ht : tensor<?x?x?x40xf32>, tensor<?x?x40x40xf32>
}

// What a read gives is what another one reads with: the derivative sums outer products of no state
// with states that the forward pass saved.
func.func @read_of_read(%q: tensor<?x?x?x20xf32> {ejk.name = "q"}, %k: tensor<?x?x?x20xf32> {ejk.name = "k"},
                        %v: tensor<?x?x?x12xf32> {ejk.name = "v"}, %h0: tensor<?x?x20x12xf32> {ejk.name = "h0"})
    -> (tensor<?x?x?x12xf32> {ejk.name = "o"}, tensor<?x?x20x12xf32> {ejk.name = "ht"}) {
  %o, %ht = ejk.scan
      sequences(%qt = %q : tensor<?x?x?x20xf32>, %kt = %k : tensor<?x?x?x20xf32>, %vt = %v : tensor<?x?x?x12xf32>)
      states(%S = %h0 : tensor<?x?x20x12xf32>) -> (tensor<?x?x?x12xf32>) {
    %small = arith.constant dense<0.2> : vector<20xf32>
    %key = arith.mulf %kt, %small : vector<20xf32>
    %r = ejk.read %S, %key along key : vector<20x12xf32>, vector<20xf32>
    %bounded = math.tanh %r : vector<12xf32>
    %u = arith.subf %vt, %bounded : vector<12xf32>
    %back = ejk.read %S, %bounded along value : vector<20x12xf32>, vector<12xf32>
    %scaled = arith.mulf %back, %small : vector<20xf32>
    %sum = arith.addf %scaled, %qt : vector<20xf32>
    %S1 = ejk.outer_add %S, %key, %u : vector<20x12xf32>, vector<20xf32>, vector<12xf32>
    %ot = ejk.read %S1, %sum along key : vector<20x12xf32>, vector<20xf32>
    ejk.yield states(%S1 : vector<20x12xf32>) outputs(%ot : vector<12xf32>)
  }
  return %o, %ht : tensor<?x?x?x12xf32>, tensor<?x?x20x12xf32>
}
