// RUN: ejk-compile %s --emit=gpu | FileCheck %s
// RUN: ejk-compile %s --cubin=never -o %t.ejk
// RUN: ejk-launch %t.ejk --entry decode --info --random B=64,H=32,Hkv=32,P=64 | FileCheck %s --check-prefix=BYTES

// One kernel, which reads the states in the pool, and writes them there; a block whose sequence has
// none does nothing. No copy of the states is in the workspace.
// CHECK-LABEL: gpu.func @decode_scan0_one(
// CHECK:         %[[INSIDE:.*]] = arith.andi
// CHECK:         scf.if %[[INSIDE]]
// CHECK:           llvm.load {{.*}} -> vector<{{[0-9]+}}xbf16>
// CHECK-NOT:     @decode_pool
// BYTES: replaces pool
// BYTES: 1.0{{[0-3]}} x the floor
// BYTES-SAME: workspace 0.000 MB
func.func @decode(%q: tensor<?x1x?x128xbf16>, %k: tensor<?x1x?x128xbf16>,
                  %v: tensor<?x1x?x128xbf16>, %g: tensor<?x1x?xf32>,
                  %pool: tensor<?x?x128x128xbf16>, %index: tensor<?xi32>)
    -> (tensor<?x1x?x128xbf16>, tensor<?x?x128x128xbf16>) {
  %h0 = ejk.read_states %pool at %index
      : tensor<?x?x128x128xbf16>, tensor<?xi32> -> tensor<?x?x128x128xf32>
  %o, %ht = ejk.gla %q, %k, %v g(%g : tensor<?x1x?xf32>)
      initial_state(%h0 : tensor<?x?x128x128xf32>)
      : tensor<?x1x?x128xbf16>, tensor<?x1x?x128xbf16>, tensor<?x1x?x128xbf16>
      -> tensor<?x1x?x128xbf16>, tensor<?x?x128x128xf32>
  %updated = ejk.write_states %ht to %pool at %index
      : tensor<?x?x128x128xf32>, tensor<?x?x128x128xbf16>, tensor<?xi32>
  return %o, %updated : tensor<?x1x?x128xbf16>, tensor<?x?x128x128xbf16>
}
