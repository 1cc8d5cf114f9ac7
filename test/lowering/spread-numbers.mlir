// A number spread over channels that no multiple of 16 holds: a tile is wider, and what is spread there must not be
// summed.
// RUN: env EJK_CUDA_DRIVER=%emulated-cuda ejk-run %s --schedule=chunk --arch=sm_90a --device cuda --random B=1,T=133,H=2 --check | FileCheck %s
// RUN: env EJK_CUDA_DRIVER=%emulated-cuda ejk-run %s --schedule=chunk --arch=sm_80 --device cuda --random B=1,T=133,H=2 --vjp --check | FileCheck %s --check-prefix=VJP
// CHECK: check o: pass
// VJP: check dk: pass
// VJP: check dw: pass
func.func @pad(%q: tensor<?x?x?x24xbf16>, %k: tensor<?x?x?x24xbf16>, %w: tensor<?x?x?xf32>, %g: tensor<?x?x?xf32> {ejk.log_decay})
    -> (tensor<?x?x?x24xbf16> {ejk.name = "o"}) {
  %o, %ht = ejk.scan
      sequences(%qt = %q : tensor<?x?x?x24xbf16>, %kt = %k : tensor<?x?x?x24xbf16>, %wt = %w : tensor<?x?x?xf32>, %gt = %g : tensor<?x?x?xf32>)
      states(%S = zero : tensor<?x?x24x24xf32>) -> (tensor<?x?x?x24xbf16>) {
    %kw = arith.extf %kt : vector<24xbf16> to vector<24xf32>
    %qw = arith.extf %qt : vector<24xbf16> to vector<24xf32>
    %ws = vector.broadcast %wt : f32 to vector<24xf32>
    %S1 = ejk.decay %S by %gt along head : vector<24x24xf32>, f32
    %S2 = ejk.outer_add %S1, %kw, %ws : vector<24x24xf32>, vector<24xf32>, vector<24xf32>
    %r = ejk.read %S2, %ws along value : vector<24x24xf32>, vector<24xf32>
    %on = arith.truncf %r : vector<24xf32> to vector<24xbf16>
    ejk.yield states(%S2 : vector<24x24xf32>) outputs(%on : vector<24xbf16>)
  }
  return %o : tensor<?x?x?x24xbf16>
}
