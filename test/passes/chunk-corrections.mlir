// Steps that read the state before they write it: which become programs that solve, and why
// others do not. Numbers: chunk-corrections.test, and the oracle's (chunk-oracle.test).
// RUN: ejk-opt %s --split-input-file --ejk-chunk --verify-diagnostics | FileCheck %s

// CHECK-LABEL: func.func @delta_rule
// What the chunk's steps see of the state that it is entered with, and then what each sees of
// those before it: the products of keys, times -beta.
// CHECK: %[[SEEN:.*]] = tile.dot %[[K:.*]], %{{.*}}, %{{.*}} : vector<64x64xbf16>, vector<64x64xbf16>, vector<64x64xf32>
// CHECK: %[[RHS:.*]] = arith.addf
// CHECK: %[[P:.*]] = tile.dot %[[K]], %[[K]] transposed
// CHECK: %[[LOWER:.*]] = tile.mask lower strict %[[P]]
// CHECK: %[[M:.*]] = arith.mulf %[[LOWER]]
// CHECK: %[[U:.*]] = tile.solve %[[M]], %[[RHS]] : vector<64x64xf32>, vector<64x64xf32>
// CHECK: %[[UB:.*]] = arith.truncf %[[U]]
// CHECK: tile.dot %{{.*}}, %[[UB]]
// CHECK: tile.dot %[[K]] transposed, %[[UB]]
func.func @delta_rule(%q: tensor<?x?x?x64xbf16>, %k: tensor<?x?x?x64xbf16>,
                      %v: tensor<?x?x?x64xbf16>, %beta: tensor<?x?x?xf32>)
    -> (tensor<?x?x?x64xf32>, tensor<?x?x64x64xf32>) {
  %o, %ht = ejk.scan
      sequences(%vt = %v : tensor<?x?x?x64xbf16>, %qt = %q : tensor<?x?x?x64xbf16>,
                %kt = %k : tensor<?x?x?x64xbf16>, %bt = %beta : tensor<?x?x?xf32>)
      states(%S = zero : tensor<?x?x64x64xf32>) -> (tensor<?x?x?x64xf32>) {
    %qw = arith.extf %qt : vector<64xbf16> to vector<64xf32>
    %kw = arith.extf %kt : vector<64xbf16> to vector<64xf32>
    %vw = arith.extf %vt : vector<64xbf16> to vector<64xf32>
    %r = ejk.read %S, %kw along key : vector<64x64xf32>, vector<64xf32>
    %e = arith.subf %vw, %r : vector<64xf32>
    %betas = vector.broadcast %bt : f32 to vector<64xf32>
    %u = arith.mulf %betas, %e : vector<64xf32>
    %S1 = ejk.outer_add %S, %kw, %u : vector<64x64xf32>, vector<64xf32>, vector<64xf32>
    %ot = ejk.read %S1, %qw along key : vector<64x64xf32>, vector<64xf32>
    ejk.yield states(%S1 : vector<64x64xf32>) outputs(%ot : vector<64xf32>)
  }
  return %o, %ht : tensor<?x?x?x64xf32>, tensor<?x?x64x64xf32>
}

// -----

// Backwards, the later of two steps still has a row: the transposed system.
// CHECK-LABEL: func.func @backwards
// CHECK: tile.solve transposed
func.func @backwards(%k: tensor<?x?x?x64xbf16>) -> tensor<?x?x64x64xf32> {
  %ht = ejk.scan reverse sequences(%kt = %k : tensor<?x?x?x64xbf16>)
      states(%S = zero : tensor<?x?x64x64xf32>) -> () {
    %kw = arith.extf %kt : vector<64xbf16> to vector<64xf32>
    %r = ejk.read %S, %kw along key : vector<64x64xf32>, vector<64xf32>
    %u = arith.subf %kw, %r : vector<64xf32>
    %S1 = ejk.outer_add %S, %kw, %u : vector<64x64xf32>, vector<64xf32>, vector<64xf32>
    ejk.yield states(%S1 : vector<64x64xf32>)
  }
  return %ht : tensor<?x?x64x64xf32>
}

// -----

// What is added is the solution, where it is used. A read that is used takes the solution, and what
// it sees of it, in two terms each.
// CHECK-LABEL: func.func @used
// CHECK: %[[ENTRY:.*]] = tile.dot
// CHECK: %[[SEEN:.*]] = tile.mask lower strict
// CHECK: %[[U:.*]] = tile.solve
// CHECK: %[[SEEN1:.*]] = arith.truncf %[[SEEN]]
// CHECK: %[[SEEN2:.*]] = arith.truncf
// CHECK: %[[U1:.*]] = arith.truncf %[[U]]
// CHECK: %[[U2:.*]] = arith.truncf
// CHECK: %[[R0:.*]] = tile.dot %[[SEEN1]], %[[U1]], %[[ENTRY]]
// CHECK: %[[R1:.*]] = tile.dot %[[SEEN2]], %[[U1]], %[[R0]]
// CHECK: %[[R:.*]] = tile.dot %[[SEEN1]], %[[U2]], %[[R1]]
// CHECK: tile.store %[[R]]
// CHECK: tile.store %[[U]]
func.func @used(%k: tensor<?x?x?x64xbf16>) -> (tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>, tensor<?x?x64x64xf32>) {
  %r, %u, %ht = ejk.scan sequences(%kt = %k : tensor<?x?x?x64xbf16>)
      states(%S = zero : tensor<?x?x64x64xf32>) -> (tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>) {
    %kw = arith.extf %kt : vector<64xbf16> to vector<64xf32>
    %rt = ejk.read %S, %kw along key : vector<64x64xf32>, vector<64xf32>
    %ut = arith.subf %kw, %rt : vector<64xf32>
    %S1 = ejk.outer_add %S, %kw, %ut : vector<64x64xf32>, vector<64xf32>, vector<64xf32>
    ejk.yield states(%S1 : vector<64x64xf32>) outputs(%rt, %ut : vector<64xf32>, vector<64xf32>)
  }
  return %r, %u, %ht : tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>, tensor<?x?x64x64xf32>
}

// -----

// A key that a gate per channel decays has two terms, in what is solved as in what is read: later scans
// make u of the read. So both come from the same matmuls.
// CHECK-LABEL: func.func @decayed_keys
// CHECK: tile.guarded
// CHECK: %[[LATER:.*]] = arith.truncf
// CHECK: %[[ENTRY:.*]] = tile.dot %[[LATER]],
// CHECK: %[[EARLIER1:.*]] = arith.truncf
// CHECK: %[[EARLIER2:.*]] = arith.truncf
// CHECK: %[[P1:.*]] = tile.dot %[[LATER]], %[[EARLIER1]] transposed
// CHECK: %[[P:.*]] = tile.dot %[[LATER]], %[[EARLIER2]] transposed, %[[P1]]
// CHECK: %[[SEEN:.*]] = tile.mask lower strict %[[P]]
// CHECK: %[[M:.*]] = arith.mulf %[[SEEN]],
// CHECK: tile.solve %[[M]],
// CHECK: %[[SEEN1:.*]] = arith.truncf %[[SEEN]]
// CHECK: tile.dot %[[SEEN1]], %{{.*}}, %[[ENTRY]]
func.func @decayed_keys(%k: tensor<?x?x?x64xbf16>, %v: tensor<?x?x?x64xbf16>, %g: tensor<?x?x?x64xf32>)
    -> (tensor<?x?x?x64xf32>, tensor<?x?x64x64xf32>) {
  %r, %ht = ejk.scan sequences(%kt = %k : tensor<?x?x?x64xbf16>, %vt = %v : tensor<?x?x?x64xbf16>, %gt = %g : tensor<?x?x?x64xf32>)
      states(%S = zero : tensor<?x?x64x64xf32>) -> (tensor<?x?x?x64xf32>) {
    %kw = arith.extf %kt : vector<64xbf16> to vector<64xf32>
    %vw = arith.extf %vt : vector<64xbf16> to vector<64xf32>
    %S1 = ejk.decay %S by %gt along key : vector<64x64xf32>, vector<64xf32>
    %rt = ejk.read %S1, %kw along key : vector<64x64xf32>, vector<64xf32>
    %ut = arith.subf %vw, %rt : vector<64xf32>
    %S2 = ejk.outer_add %S1, %kw, %ut : vector<64x64xf32>, vector<64xf32>, vector<64xf32>
    ejk.yield states(%S2 : vector<64x64xf32>) outputs(%rt : vector<64xf32>)
  }
  return %r, %ht : tensor<?x?x?x64xf32>, tensor<?x?x64x64xf32>
}

// -----

// A cancelling pair of what the other scan adds in two terms: what this one reads with has two, and
// its products, and its partner is not rounded.
// CHECK-LABEL: func.func @pair
// CHECK: tile.guarded
// CHECK: %[[U1:.*]] = arith.truncf
// CHECK: %[[STATE:.*]] = arith.truncf
// CHECK: %[[ENTRY1:.*]] = tile.dot %[[U1]], %[[STATE]] transposed
// CHECK: %[[U2:.*]] = arith.truncf
// CHECK: %[[ENTRY:.*]] = tile.dot %[[U2]], %[[STATE]] transposed, %[[ENTRY1]]
// CHECK: %[[P:.*]] = tile.dot %[[DO:.*]], %[[U1]] transposed
// CHECK: tile.dot %[[DO]], %[[U2]] transposed, %[[P]]
// CHECK: %[[SEEN:.*]] = tile.mask
// CHECK: %[[SEEN1:.*]] = arith.truncf %[[SEEN]]
// CHECK: %[[SEEN2:.*]] = arith.truncf
// CHECK: %[[B1:.*]] = tile.dot %[[SEEN1]] transposed, %[[Q:.*]], %[[ENTRY]]
// CHECK: %[[B:.*]] = tile.dot %[[SEEN2]] transposed, %[[Q]], %[[B1]]
// CHECK: arith.mulf %[[B]],
// CHECK: %[[K:.*]] = arith.mulf
// CHECK-NEXT: arith.mulf %[[K]], %[[B]]
func.func @pair(%q: tensor<?x?x?x64xbf16>, %k: tensor<?x?x?x64xbf16>, %u: tensor<?x?x?x64xbf16>, %do: tensor<?x?x?x64xbf16>, %g: tensor<?x?x?x64xf32>)
    -> tensor<?x?x?x64xf32> {
  %p, %dh0 = ejk.scan reverse sequences(%qt = %q : tensor<?x?x?x64xbf16>, %kt = %k : tensor<?x?x?x64xbf16>, %ut = %u : tensor<?x?x?x64xbf16>, %dot = %do : tensor<?x?x?x64xbf16>, %gt = %g : tensor<?x?x?x64xf32>)
      states(%A = zero : tensor<?x?x64x64xf32>) -> (tensor<?x?x?x64xf32>) {
    %qw = arith.extf %qt : vector<64xbf16> to vector<64xf32>
    %kw = arith.extf %kt : vector<64xbf16> to vector<64xf32>
    %dw = arith.extf %dot : vector<64xbf16> to vector<64xf32>
    %uw = arith.extf %ut : vector<64xbf16> to vector<64xf32>
    %us = arith.mulf %uw, %dw : vector<64xf32>
    %b = ejk.read %A, %us along value : vector<64x64xf32>, vector<64xf32>
    %t = ejk.cancelling_pair %kw, %b corrects : vector<64xf32>
    %A1 = ejk.outer_add %A, %qw, %dw : vector<64x64xf32>, vector<64xf32>, vector<64xf32>
    %A2 = ejk.decay %A1 by %gt along key : vector<64x64xf32>, vector<64xf32>
    ejk.yield states(%A2 : vector<64x64xf32>) outputs(%t : vector<64xf32>)
  }
  return %p : tensor<?x?x?x64xf32>
}

// -----

// CHECK-LABEL: func.func @number_a_channel
// CHECK-NOT: tile.program
func.func @number_a_channel(%k: tensor<?x?x?x64xbf16>) -> tensor<?x?x64x64xf32> {
  %ht = ejk.scan sequences(%kt = %k : tensor<?x?x?x64xbf16>)
      states(%S = zero : tensor<?x?x64x64xf32>) -> () {
    %kw = arith.extf %kt : vector<64xbf16> to vector<64xf32>
    %r = ejk.read %S, %kw along key : vector<64x64xf32>, vector<64xf32>
    %u = arith.mulf %kw, %r : vector<64xf32>
    // expected-remark @below {{not chunked: what multiplies a read that is added is not one number of the head}}
    %S1 = ejk.outer_add %S, %kw, %u : vector<64x64xf32>, vector<64xf32>, vector<64xf32>
    ejk.yield states(%S1 : vector<64x64xf32>)
  }
  return %ht : tensor<?x?x64x64xf32>
}

// -----

// CHECK-LABEL: func.func @not_linear
// CHECK-NOT: tile.program
func.func @not_linear(%k: tensor<?x?x?x64xbf16>) -> tensor<?x?x64x64xf32> {
  %ht = ejk.scan sequences(%kt = %k : tensor<?x?x?x64xbf16>)
      states(%S = zero : tensor<?x?x64x64xf32>) -> () {
    %kw = arith.extf %kt : vector<64xbf16> to vector<64xf32>
    %r = ejk.read %S, %kw along key : vector<64x64xf32>, vector<64xf32>
    %u = math.tanh %r : vector<64xf32>
    // expected-remark @below {{not chunked: what is added is not linear in what is read}}
    %S1 = ejk.outer_add %S, %kw, %u : vector<64x64xf32>, vector<64xf32>, vector<64xf32>
    ejk.yield states(%S1 : vector<64x64xf32>)
  }
  return %ht : tensor<?x?x64x64xf32>
}

// -----

// Two corrections: a system for each. What the first reads of the second is eliminated.
// CHECK-LABEL: func.func @twice
// CHECK: %[[K:.*]] = tile.load
// CHECK: %[[J:.*]] = tile.load
// CHECK: tile.dot %[[K]], %[[K]] transposed
// CHECK-NEXT: tile.mask lower strict
// CHECK-NEXT: %[[M11:.*]] = arith.mulf
// CHECK-NEXT: tile.dot %[[K]], %[[J]] transposed
// CHECK-NEXT: tile.mask lower strict
// CHECK-NEXT: %[[M12:.*]] = arith.mulf
// CHECK: tile.dot %[[J]], %[[K]] transposed
// The second read sees what the first adds in the same step.
// CHECK-NEXT: tile.mask lower %
// CHECK-NEXT: %[[M21:.*]] = arith.mulf
// CHECK-NEXT: tile.dot %[[J]], %[[J]] transposed
// CHECK-NEXT: tile.mask lower strict
// CHECK-NEXT: %[[M22:.*]] = arith.mulf
// CHECK-NEXT: %[[X1:.*]] = tile.solve %[[M11]], %{{.*}} :
// CHECK-NEXT: %[[A:.*]] = tile.solve %[[M11]], %[[M12]] :
// CHECK-NEXT: %[[M21A:.*]] = arith.truncf %[[M21]]
// CHECK: %[[X1A:.*]] = arith.truncf %[[X1]]
// CHECK: tile.dot %[[M21A]], %[[X1A]], %
// CHECK: %[[RHS:.*]] = tile.dot %[[M21A]],
// CHECK-NEXT: %[[AA:.*]] = arith.truncf %[[A]]
// CHECK: tile.dot %[[M21A]], %[[AA]], %[[M22]]
// CHECK: %[[M:.*]] = tile.dot %[[M21A]],
// CHECK-NEXT: %[[U2:.*]] = tile.solve %[[M]], %[[RHS]] :
// CHECK-NEXT: %[[U2A:.*]] = arith.truncf %[[U2]]
// CHECK: tile.dot %[[AA]], %[[U2A]], %[[X1]] :
func.func @twice(%k: tensor<?x?x?x64xbf16>, %j: tensor<?x?x?x64xbf16>) -> tensor<?x?x64x64xf32> {
  %ht = ejk.scan sequences(%kt = %k : tensor<?x?x?x64xbf16>, %jt = %j : tensor<?x?x?x64xbf16>)
      states(%S = zero : tensor<?x?x64x64xf32>) -> () {
    %kw = arith.extf %kt : vector<64xbf16> to vector<64xf32>
    %jw = arith.extf %jt : vector<64xbf16> to vector<64xf32>
    %r = ejk.read %S, %kw along key : vector<64x64xf32>, vector<64xf32>
    %u = arith.subf %kw, %r : vector<64xf32>
    %S1 = ejk.outer_add %S, %kw, %u : vector<64x64xf32>, vector<64xf32>, vector<64xf32>
    %s = ejk.read %S1, %jw along key : vector<64x64xf32>, vector<64xf32>
    %w = arith.subf %kw, %s : vector<64xf32>
    %S2 = ejk.outer_add %S1, %jw, %w : vector<64x64xf32>, vector<64xf32>, vector<64xf32>
    ejk.yield states(%S2 : vector<64x64xf32>)
  }
  return %ht : tensor<?x?x64x64xf32>
}

// -----

// Backwards the systems are transposed. What multiplies them is solved for with the matrix itself, and
// the first vector last.
// CHECK-LABEL: func.func @twice_backwards
// CHECK: %[[K:.*]] = tile.load
// CHECK: %[[J:.*]] = tile.load
// CHECK: tile.dot %[[K]], %[[K]] transposed
// CHECK-NEXT: tile.mask lower strict
// CHECK: %[[M11:.*]] = arith.mulf
// CHECK: tile.dot %[[K]], %[[J]] transposed
// CHECK-NEXT: tile.mask lower %
// CHECK-NEXT: %[[M21:.*]] = arith.mulf
// CHECK: %[[B:.*]] = tile.solve %[[M11]], %[[M21]] :
// CHECK-NEXT: %[[BA:.*]] = arith.truncf %[[B]]
// CHECK: tile.dot %[[BA]] transposed,
// CHECK: %[[U2:.*]] = tile.solve transposed
// CHECK: %[[U2A:.*]] = arith.truncf %[[U2]]
// CHECK: tile.dot %{{.*}} transposed, %[[U2A]],
// CHECK: tile.solve transposed %[[M11]],
func.func @twice_backwards(%k: tensor<?x?x?x64xbf16>, %j: tensor<?x?x?x64xbf16>) -> tensor<?x?x64x64xf32> {
  %ht = ejk.scan reverse sequences(%kt = %k : tensor<?x?x?x64xbf16>, %jt = %j : tensor<?x?x?x64xbf16>)
      states(%S = zero : tensor<?x?x64x64xf32>) -> () {
    %kw = arith.extf %kt : vector<64xbf16> to vector<64xf32>
    %jw = arith.extf %jt : vector<64xbf16> to vector<64xf32>
    %r = ejk.read %S, %kw along key : vector<64x64xf32>, vector<64xf32>
    %u = arith.subf %kw, %r : vector<64xf32>
    %S1 = ejk.outer_add %S, %kw, %u : vector<64x64xf32>, vector<64xf32>, vector<64xf32>
    %s = ejk.read %S1, %jw along key : vector<64x64xf32>, vector<64xf32>
    %w = arith.subf %kw, %s : vector<64xf32>
    %S2 = ejk.outer_add %S1, %jw, %w : vector<64x64xf32>, vector<64xf32>, vector<64xf32>
    ejk.yield states(%S2 : vector<64x64xf32>)
  }
  return %ht : tensor<?x?x64x64xf32>
}

// -----

// One vector along keys and one along values: no one order of elimination has systems of numbers.
// CHECK-LABEL: func.func @along_both
// CHECK-NOT: tile.program
func.func @along_both(%k: tensor<?x?x?x64xbf16>) -> tensor<?x?x64x64xf32> {
  %ht = ejk.scan sequences(%kt = %k : tensor<?x?x?x64xbf16>)
      states(%S = zero : tensor<?x?x64x64xf32>) -> () {
    %kw = arith.extf %kt : vector<64xbf16> to vector<64xf32>
    %r = ejk.read %S, %kw along key : vector<64x64xf32>, vector<64xf32>
    %S1 = ejk.outer_add %S, %kw, %r : vector<64x64xf32>, vector<64xf32>, vector<64xf32>
    %s = ejk.read %S1, %kw along value : vector<64x64xf32>, vector<64xf32>
    // expected-remark @below {{not chunked: vectors along both axes that a step adds depend on what it reads; a chunk solves for those along one}}
    %S2 = ejk.outer_add %S1, %s, %kw : vector<64x64xf32>, vector<64xf32>, vector<64xf32>
    ejk.yield states(%S2 : vector<64x64xf32>)
  }
  return %ht : tensor<?x?x64x64xf32>
}

// -----

// A gate per value channel between what is read and what is added: a number of each channel.
// CHECK-LABEL: func.func @behind_a_gate
// CHECK-NOT: tile.program
func.func @behind_a_gate(%k: tensor<?x?x?x64xbf16>, %g: tensor<?x?x?x64xf32>) -> tensor<?x?x64x64xf32> {
  %ht = ejk.scan sequences(%kt = %k : tensor<?x?x?x64xbf16>, %gt = %g : tensor<?x?x?x64xf32>)
      states(%S = zero : tensor<?x?x64x64xf32>) -> () {
    %kw = arith.extf %kt : vector<64xbf16> to vector<64xf32>
    // expected-remark @below {{not chunked: what is read is added after a gate per channel along it}}
    %r = ejk.read %S, %kw along key : vector<64x64xf32>, vector<64xf32>
    %S1 = ejk.decay %S by %gt along value : vector<64x64xf32>, vector<64xf32>
    %S2 = ejk.outer_add %S1, %kw, %r : vector<64x64xf32>, vector<64xf32>, vector<64xf32>
    ejk.yield states(%S2 : vector<64x64xf32>)
  }
  return %ht : tensor<?x?x64x64xf32>
}
