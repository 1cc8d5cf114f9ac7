// A gate's type need not be that of keys and values: by chunks it is widened to f32 where it is read, and its
// gradient is rounded to its own type. Here gates of each kind are f16 beside bf16 rows.
// RUN: env EJK_CUDA_DRIVER=%emulated-cuda ejk-run %s --schedule=chunk --arch=sm_90a --device cuda --random B=1,T=70,H=1 --check | FileCheck %s
// RUN: env EJK_CUDA_DRIVER=%emulated-cuda ejk-run %s --schedule=chunk --arch=sm_90a --device cuda --random B=1,T=70,H=1 --vjp --check | FileCheck %s --check-prefix=VJP
// RUN: ejk-compile %s --schedule=chunk --arch=sm_90a --emit=tile | FileCheck %s --check-prefix=TILE

// CHECK: check heads: pass
// CHECK: check keys: pass
// CHECK: check values: pass

// VJP: check dg: pass
// VJP: check dgk: pass
// VJP: check dgv: pass

// All three are by chunks.
// TILE-COUNT-3: tile.program chunk
func.func @gates(%q: tensor<?x?x?x16xbf16>, %k: tensor<?x?x?x16xbf16>, %v: tensor<?x?x?x16xbf16>,
                 %g: tensor<?x?x?xf16> {ejk.log_decay},
                 %gk: tensor<?x?x?x16xf16> {ejk.log_decay},
                 %gv: tensor<?x?x?x16xf16> {ejk.log_decay})
    -> (tensor<?x?x?x16xbf16> {ejk.name = "heads"}, tensor<?x?x?x16xbf16> {ejk.name = "keys"},
        tensor<?x?x?x16xbf16> {ejk.name = "values"}) {
  %a, %at = ejk.scan
      sequences(%qt = %q : tensor<?x?x?x16xbf16>, %kt = %k : tensor<?x?x?x16xbf16>,
                %vt = %v : tensor<?x?x?x16xbf16>, %gt = %g : tensor<?x?x?xf16>)
      states(%S = zero : tensor<?x?x16x16xf32>) -> (tensor<?x?x?x16xbf16>) {
    %gw = arith.extf %gt : f16 to f32
    %qw = arith.extf %qt : vector<16xbf16> to vector<16xf32>
    %kw = arith.extf %kt : vector<16xbf16> to vector<16xf32>
    %vw = arith.extf %vt : vector<16xbf16> to vector<16xf32>
    %S1 = ejk.decay %S by %gw along head : vector<16x16xf32>, f32
    %S2 = ejk.outer_add %S1, %kw, %vw : vector<16x16xf32>, vector<16xf32>, vector<16xf32>
    %ow = ejk.read %S2, %qw along key : vector<16x16xf32>, vector<16xf32>
    %ot = arith.truncf %ow : vector<16xf32> to vector<16xbf16>
    ejk.yield states(%S2 : vector<16x16xf32>) outputs(%ot : vector<16xbf16>)
  }
  %b, %bt = ejk.scan
      sequences(%qt = %q : tensor<?x?x?x16xbf16>, %kt = %k : tensor<?x?x?x16xbf16>,
                %vt = %v : tensor<?x?x?x16xbf16>, %gt = %gk : tensor<?x?x?x16xf16>)
      states(%S = zero : tensor<?x?x16x16xf32>) -> (tensor<?x?x?x16xbf16>) {
    %gw = arith.extf %gt : vector<16xf16> to vector<16xf32>
    %qw = arith.extf %qt : vector<16xbf16> to vector<16xf32>
    %kw = arith.extf %kt : vector<16xbf16> to vector<16xf32>
    %vw = arith.extf %vt : vector<16xbf16> to vector<16xf32>
    %S1 = ejk.decay %S by %gw along key : vector<16x16xf32>, vector<16xf32>
    %S2 = ejk.outer_add %S1, %kw, %vw : vector<16x16xf32>, vector<16xf32>, vector<16xf32>
    %ow = ejk.read %S2, %qw along key : vector<16x16xf32>, vector<16xf32>
    %ot = arith.truncf %ow : vector<16xf32> to vector<16xbf16>
    ejk.yield states(%S2 : vector<16x16xf32>) outputs(%ot : vector<16xbf16>)
  }
  %c, %ct = ejk.scan
      sequences(%qt = %q : tensor<?x?x?x16xbf16>, %kt = %k : tensor<?x?x?x16xbf16>,
                %vt = %v : tensor<?x?x?x16xbf16>, %gt = %gv : tensor<?x?x?x16xf16>)
      states(%S = zero : tensor<?x?x16x16xf32>) -> (tensor<?x?x?x16xbf16>) {
    %gw = arith.extf %gt : vector<16xf16> to vector<16xf32>
    %qw = arith.extf %qt : vector<16xbf16> to vector<16xf32>
    %kw = arith.extf %kt : vector<16xbf16> to vector<16xf32>
    %vw = arith.extf %vt : vector<16xbf16> to vector<16xf32>
    %S1 = ejk.decay %S by %gw along value : vector<16x16xf32>, vector<16xf32>
    %S2 = ejk.outer_add %S1, %kw, %vw : vector<16x16xf32>, vector<16xf32>, vector<16xf32>
    %ow = ejk.read %S2, %qw along key : vector<16x16xf32>, vector<16xf32>
    %ot = arith.truncf %ow : vector<16xf32> to vector<16xbf16>
    ejk.yield states(%S2 : vector<16x16xf32>) outputs(%ot : vector<16xbf16>)
  }
  return %a, %b, %c : tensor<?x?x?x16xbf16>, tensor<?x?x?x16xbf16>, tensor<?x?x?x16xbf16>
}
