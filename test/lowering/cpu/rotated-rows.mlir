// A vector that is turned lies along the rows of a CPU's tile, or along its columns. Its halves have 4, 12 or 20 channels,
// fewer than a register or no whole number of registers.
// DEFINE: %{check} = ejk-run %t.mlir --device=cpu --check --random=B=2,T=9,H=2 | FileCheck %s --implicit-check-not=FAIL
// RUN: cp %s %t.mlir && %{check}
// RUN: sed -e s/24/8/g %s > %t.mlir && %{check}
// RUN: sed -e s/24/40/g %s > %t.mlir && %{check}
// CHECK: check o: pass
// CHECK: check ht: pass
func.func @f(%q: tensor<?x?x?x24xf32>, %k: tensor<?x?x?x24xf32>, %v: tensor<?x?x?x24xf32>, %g: tensor<?x?x?x24xf32>)
    -> (tensor<?x?x?x24xf32> {ejk.name = "o"}, tensor<?x?x24x24xf32> {ejk.name = "ht"}) {
  %o, %ht = ejk.scan sequences(%qt = %q : tensor<?x?x?x24xf32>, %kt = %k : tensor<?x?x?x24xf32>,
                               %vt = %v : tensor<?x?x?x24xf32>, %gt = %g : tensor<?x?x?x24xf32>)
      states(%S = zero : tensor<?x?x24x24xf32>) -> (tensor<?x?x?x24xf32>) {
    %key = ejk.rotate_half %kt : vector<24xf32>
    %query = ejk.rotate_half %qt : vector<24xf32>
    %value = ejk.rotate_half %vt : vector<24xf32>
    %S0 = ejk.decay %S by %gt along key : vector<24x24xf32>, vector<24xf32>
    %S1 = ejk.outer_add %S0, %key, %value : vector<24x24xf32>, vector<24xf32>, vector<24xf32>
    %r = ejk.read %S1, %query along key : vector<24x24xf32>, vector<24xf32>
    ejk.yield states(%S1 : vector<24x24xf32>) outputs(%r : vector<24xf32>)
  }
  return %o, %ht : tensor<?x?x?x24xf32>, tensor<?x?x24x24xf32>
}
