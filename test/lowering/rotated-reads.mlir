// A rotation of what is read of a state needs channels that other threads hold. Where the state takes it up again,
// there is no scan before in which it could stand.
// RUN: not ejk-compile %s --arch=sm_90a -o %t.ejk 2>&1 | FileCheck %s
// RUN: not ejk-compile %s --target=cpu -o %t.ejk 2>&1 | FileCheck %s
// CHECK: rotated-reads.mlir:[[#@LINE+7]]:10: error: rotates what depends on a state or a sum, and a later state or sum depends on it, {{.*}}: no kernel does that; rotate rows on their way into the state, or outputs
// RUN: ejk-run %s --device=interpreter --random=B=1,T=5,H=2,Hkv=2 | FileCheck %s --check-prefix=RUNS
// RUNS: o: f32 [1, 5, 2, 4]
func.func @f(%q: tensor<?x?x?x4xf32>, %k: tensor<?x?x?x4xf32>) -> (tensor<?x?x?x4xf32> {ejk.name = "o"}) {
  %o, %h = ejk.scan sequences(%qt = %q : tensor<?x?x?x4xf32>, %kt = %k : tensor<?x?x?x4xf32>)
      states(%S = zero : tensor<?x?x4x4xf32>) -> (tensor<?x?x?x4xf32>) {
    %r = ejk.read %S, %kt along key : vector<4x4xf32>, vector<4xf32>
    %t = ejk.rotate_half %r : vector<4xf32>
    %S1 = ejk.outer_add %S, %kt, %t : vector<4x4xf32>, vector<4xf32>, vector<4xf32>
    %a = ejk.read %S1, %qt along key : vector<4x4xf32>, vector<4xf32>
    ejk.yield states(%S1 : vector<4x4xf32>) outputs(%a : vector<4xf32>)
  }
  return %o : tensor<?x?x?x4xf32>
}
