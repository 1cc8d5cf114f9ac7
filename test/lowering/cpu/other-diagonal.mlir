// RUN: ejk-run %s --device=cpu --schedule=chunk --random B=2,T=80,H=2 --check | FileCheck %s

// What a step adds to its read looks like the diagonal term of the outer product, but has the product of another vector with the
// key. Reading behind the outer product would give it that of the query.

// CHECK: check out0: pass
// CHECK: check out1: pass
func.func @bonus(%q: tensor<?x?x?x32xbf16>, %p: tensor<?x?x?x32xbf16>, %k: tensor<?x?x?x32xbf16>, %v: tensor<?x?x?x32xbf16>)
    -> (tensor<?x?x?x32xf32>, tensor<?x?x?xf32>) {
  %o, %n, %ht = ejk.scan
      sequences(%qb = %q : tensor<?x?x?x32xbf16>, %pb = %p : tensor<?x?x?x32xbf16>,
                %kb = %k : tensor<?x?x?x32xbf16>, %vb = %v : tensor<?x?x?x32xbf16>)
      states(%S = zero : tensor<?x?x32x32xf32>) -> (tensor<?x?x?x32xf32>, tensor<?x?x?xf32>) {
    %qt = arith.extf %qb : vector<32xbf16> to vector<32xf32>
    %pt = arith.extf %pb : vector<32xbf16> to vector<32xf32>
    %kt = arith.extf %kb : vector<32xbf16> to vector<32xf32>
    %vt = arith.extf %vb : vector<32xbf16> to vector<32xf32>
    %r = ejk.read %S, %qt along key : vector<32x32xf32>, vector<32xf32>
    %pair = ejk.cancelling_pair %vt, %r : vector<32xf32>
    %nt = ejk.sum %pair : vector<32xf32>
    %S1 = ejk.outer_add %S, %kt, %vt : vector<32x32xf32>, vector<32xf32>, vector<32xf32>
    %m = arith.mulf %kt, %pt : vector<32xf32>
    %c = ejk.sum %m : vector<32xf32>
    %b = vector.broadcast %c : f32 to vector<32xf32>
    %own = arith.mulf %vt, %b : vector<32xf32>
    %y = arith.addf %r, %own : vector<32xf32>
    ejk.yield states(%S1 : vector<32x32xf32>) outputs(%y, %nt : vector<32xf32>, f32)
  }
  return %o, %n : tensor<?x?x?x32xf32>, tensor<?x?x?xf32>
}
