// Gates of the short forms may have any float type: here f16 beside bf16 rows, bf16 beside f16 and bf16 beside f32,
// forward and derivative, by chunks (of 16-bit rows) and step by step. Devices of sm_80 differ in shared memory: with
// chunks alone, a launch of the derivative finds a variant on each.
// DEFINE: %{sizes} = B=1,T=70,H=2,Hkv=1,B2=1,T2=70,H2=2,Hkv2=1,B3=1,T3=20,H3=2,Hkv3=1
// RUN: env EJK_CUDA_DRIVER=%emulated-cuda ejk-run %s --schedule=chunk --arch=sm_90a --device cuda --random %{sizes} --check | FileCheck %s
// RUN: env EJK_CUDA_DRIVER=%emulated-cuda ejk-run %s --schedule=chunk --arch=sm_80 --device cuda --random %{sizes} --vjp --check | FileCheck %s --check-prefix=VJP
// RUN: env EJK_CUDA_DRIVER=%emulated-cuda ejk-run %s --schedule=step --device cuda --random %{sizes} --vjp --check | FileCheck %s --check-prefix=VJP
// RUN: ejk-compile %s --schedule=chunk --arch=sm_90a --by-gates=never --emit=tile 2>/dev/null | FileCheck %s --check-prefix=TILE

// CHECK: check head: pass
// CHECK: check channels: pass
// CHECK: check delta: pass
// CHECK: check wide: pass

// VJP-DAG: check dg: pass
// VJP-DAG: check dgk: pass
// VJP-DAG: check dgv: pass
// VJP-DAG: check dbeta: pass
// VJP-DAG: check dgd: pass
// VJP-DAG: check dgw: pass

// All but the f32 rows are by chunks.
// TILE-COUNT-3: tile.program chunk
// TILE-NOT: tile.program chunk
func.func @gates(%q: tensor<?x?x?x16xbf16>, %k: tensor<?x?x?x16xbf16>, %v: tensor<?x?x?x16xbf16>,
                 %g: tensor<?x?x?xf16>,
                 %qh: tensor<?x?x?x16xf16>, %kh: tensor<?x?x?x16xf16>, %vh: tensor<?x?x?x16xf16>,
                 %gk: tensor<?x?x?x16xbf16>, %gv: tensor<?x?x?x16xbf16>,
                 %kd: tensor<?x?x?x16xbf16>, %qd: tensor<?x?x?x16xbf16>,
                 %beta: tensor<?x?x?xf16>, %gd: tensor<?x?x?xf16>,
                 %qw: tensor<?x?x?x16xf32>, %kw: tensor<?x?x?x16xf32>, %vw: tensor<?x?x?x16xf32>,
                 %gw: tensor<?x?x?x16xbf16>)
    -> (tensor<?x?x?x16xbf16> {ejk.name = "head"}, tensor<?x?x?x16xf16> {ejk.name = "channels"},
        tensor<?x?x?x16xbf16> {ejk.name = "delta"}, tensor<?x?x?x16xf32> {ejk.name = "wide"}) {
  %a, %at = ejk.gla %q, %k, %v g(%g : tensor<?x?x?xf16>)
      : tensor<?x?x?x16xbf16>, tensor<?x?x?x16xbf16>, tensor<?x?x?x16xbf16>
      -> tensor<?x?x?x16xbf16>, tensor<?x?x16x16xf32>
  %b, %bt = ejk.recurrent %qh, %kh, %vh gk(%gk : tensor<?x?x?x16xbf16>) gv(%gv : tensor<?x?x?x16xbf16>)
      : tensor<?x?x?x16xf16>, tensor<?x?x?x16xf16>, tensor<?x?x?x16xf16>
      -> tensor<?x?x?x16xf16>, tensor<?x?x16x16xf32>
  %c, %ct = ejk.delta_rule %qd, %kd, %q beta(%beta : tensor<?x?x?xf16>) g(%gd : tensor<?x?x?xf16>)
      : tensor<?x?x?x16xbf16>, tensor<?x?x?x16xbf16>, tensor<?x?x?x16xbf16>
      -> tensor<?x?x?x16xbf16>, tensor<?x?x16x16xf32>
  %d, %dt = ejk.gla %qw, %kw, %vw g(%gw : tensor<?x?x?x16xbf16>)
      : tensor<?x?x?x16xf32>, tensor<?x?x?x16xf32>, tensor<?x?x?x16xf32>
      -> tensor<?x?x?x16xf32>, tensor<?x?x16x16xf32>
  return %a, %b, %c, %d : tensor<?x?x?x16xbf16>, tensor<?x?x?x16xf16>, tensor<?x?x?x16xbf16>, tensor<?x?x?x16xf32>
}
