// Derivatives of steps with several matrices of state.
//
// Matmuls of a block are scheduled after what rounds a state for them, but where that depends on one of
// them: by a factor that a gate's gradient is made of, say.
// RUN: env EJK_CUDA_DRIVER=%emulated-cuda ejk-run %s --entry=factors --vjp --schedule=chunk --arch=sm_90a --device=cuda --random=B=1,T=90,H=1 --check | FileCheck %s --check-prefix=FACTORS
// FACTORS: check dq: pass
// FACTORS: check dk: pass
// FACTORS: check dv: pass
// FACTORS: check dg: pass
// FACTORS: check da: pass
// FACTORS: check db: pass
//
// Higher-order linear attention: a state adds up what is read of another one. The derivative has a scan of
// rows that reads states which another scan saved at each step, and has none.
// DEFINE: %{higher} = env EJK_CUDA_DRIVER=%emulated-cuda ejk-run %s --entry=higher --vjp --device=cuda --check
// RUN: %{higher} --schedule=step --random=B=2,T=37,H=2,Hkv=2 | FileCheck %s --check-prefix=HIGHER
// RUN: %{higher} --schedule=step --random=B=1,T=300,H=1,Hkv=1 | FileCheck %s --check-prefix=HIGHER
// RUN: %{higher} --schedule=chunk --arch=sm_90a --random=B=1,T=90,H=2,Hkv=1 | FileCheck %s --check-prefix=HIGHER
// RUN: ejk-run %s --entry=higher --vjp --device=cpu --check --random=B=2,T=37,H=2,Hkv=1 | FileCheck %s --check-prefix=HIGHER
// HIGHER: check dq: pass
// HIGHER: check dk: pass
// HIGHER: check dv: pass
// HIGHER: check dg: pass

func.func @factors(%q: tensor<?x?x?x64xbf16>, %k: tensor<?x?x?x64xbf16>, %v: tensor<?x?x?x64xbf16>, %g: tensor<?x?x?xf32>, %a: tensor<?x?x?xf32>, %b: tensor<?x?x?xf32>)
    -> (tensor<?x?x?x64xbf16> {ejk.name = "o"}, tensor<?x?x64x64xf32> {ejk.name = "ht0"}, tensor<?x?x64x64xf32> {ejk.name = "ht1"}, tensor<?x?x64x64xf32> {ejk.name = "ht2"}) {
  %out.o, %out.ht0, %out.ht1, %out.ht2 = ejk.scan
      sequences(%x.0 = %q : tensor<?x?x?x64xbf16>, %x.1 = %k : tensor<?x?x?x64xbf16>, %x.2 = %v : tensor<?x?x?x64xbf16>, %x.3 = %g : tensor<?x?x?xf32>, %x.4 = %a : tensor<?x?x?xf32>, %x.5 = %b : tensor<?x?x?xf32>)
      states(%s.0 = zero : tensor<?x?x64x64xf32>, %s.1 = zero : tensor<?x?x64x64xf32>, %s.2 = zero : tensor<?x?x64x64xf32>)
      -> (tensor<?x?x?x64xbf16>) {
    %x.0f = arith.extf %x.0 : vector<64xbf16> to vector<64xf32>
    %x.1f = arith.extf %x.1 : vector<64xbf16> to vector<64xf32>
    %x.2f = arith.extf %x.2 : vector<64xbf16> to vector<64xf32>
    %v.0 = ejk.decay %s.0 by %x.4 along head : vector<64x64xf32>, f32
    %v.1 = vector.broadcast %x.4 : f32 to vector<64xf32>
    %v.2 = arith.mulf %v.1, %x.2f : vector<64xf32>
    %v.3 = ejk.outer_add %v.0, %x.1f, %v.2 : vector<64x64xf32>, vector<64xf32>, vector<64xf32>
    %v.4 = ejk.decay %s.1 by %x.5 along head : vector<64x64xf32>, f32
    %v.5 = vector.broadcast %x.5 : f32 to vector<64xf32>
    %v.6 = arith.mulf %v.5, %x.2f : vector<64xf32>
    %v.7 = ejk.outer_add %v.4, %x.1f, %v.6 : vector<64x64xf32>, vector<64xf32>, vector<64xf32>
    %v.8 = ejk.decay %s.2 by %x.3 along head : vector<64x64xf32>, f32
    %v.9 = ejk.outer_add %v.8, %x.1f, %x.2f : vector<64x64xf32>, vector<64xf32>, vector<64xf32>
    %v.10 = ejk.read %v.3, %x.0f along key : vector<64x64xf32>, vector<64xf32>
    %v.11 = vector.broadcast %x.4 : f32 to vector<64xf32>
    %v.12 = arith.mulf %v.11, %v.10 : vector<64xf32>
    %v.13 = ejk.read %v.7, %x.0f along key : vector<64x64xf32>, vector<64xf32>
    %v.14 = vector.broadcast %x.5 : f32 to vector<64xf32>
    %v.15 = arith.mulf %v.14, %v.13 : vector<64xf32>
    %v.16 = arith.addf %v.12, %v.15 : vector<64xf32>
    %v.17 = ejk.read %v.9, %x.0f along key : vector<64x64xf32>, vector<64xf32>
    %v.18 = arith.addf %v.16, %v.17 : vector<64xf32>
    %o.0 = arith.truncf %v.18 : vector<64xf32> to vector<64xbf16>
    ejk.yield states(%v.3, %v.7, %v.9 : vector<64x64xf32>, vector<64x64xf32>, vector<64x64xf32>) outputs(%o.0 : vector<64xbf16>)
  }
  return %out.o, %out.ht0, %out.ht1, %out.ht2 : tensor<?x?x?x64xbf16>, tensor<?x?x64x64xf32>, tensor<?x?x64x64xf32>, tensor<?x?x64x64xf32>
}

func.func @higher(%q: tensor<?x?x?x64xbf16>, %k: tensor<?x?x?x64xbf16>, %v: tensor<?x?x?x64xbf16>, %g: tensor<?x?x?xf32>)
    -> (tensor<?x?x?x64xbf16> {ejk.name = "o"}, tensor<?x?x64x64xf32> {ejk.name = "ht0"}, tensor<?x?x64x64xf32> {ejk.name = "ht1"}, tensor<?x?x64x64xf32> {ejk.name = "ht2"}) {
  %out.o, %out.ht0, %out.ht1, %out.ht2 = ejk.scan
      sequences(%x.0 = %q : tensor<?x?x?x64xbf16>, %x.1 = %k : tensor<?x?x?x64xbf16>, %x.2 = %v : tensor<?x?x?x64xbf16>, %x.3 = %g : tensor<?x?x?xf32>)
      states(%s.0 = zero : tensor<?x?x64x64xf32>, %s.1 = zero : tensor<?x?x64x64xf32>, %s.2 = zero : tensor<?x?x64x64xf32>)
      -> (tensor<?x?x?x64xbf16>) {
    %x.0f = arith.extf %x.0 : vector<64xbf16> to vector<64xf32>
    %x.1f = arith.extf %x.1 : vector<64xbf16> to vector<64xf32>
    %x.2f = arith.extf %x.2 : vector<64xbf16> to vector<64xf32>
    %v.0 = ejk.decay %s.2 by %x.3 along head : vector<64x64xf32>, f32
    %v.1 = ejk.read %s.1, %x.1f along key : vector<64x64xf32>, vector<64xf32>
    %v.2 = ejk.outer_add %v.0, %x.1f, %v.1 : vector<64x64xf32>, vector<64xf32>, vector<64xf32>
    %v.3 = ejk.decay %s.0 by %x.3 along head : vector<64x64xf32>, f32
    %v.4 = ejk.outer_add %v.3, %x.1f, %x.1f : vector<64x64xf32>, vector<64xf32>, vector<64xf32>
    %v.5 = ejk.decay %s.1 by %x.3 along head : vector<64x64xf32>, f32
    %v.6 = ejk.outer_add %v.5, %x.0f, %x.2f : vector<64x64xf32>, vector<64xf32>, vector<64xf32>
    %v.7 = ejk.read %v.4, %x.0f along key : vector<64x64xf32>, vector<64xf32>
    %v.8 = ejk.read %v.6, %v.7 along key : vector<64x64xf32>, vector<64xf32>
    %v.9 = ejk.read %v.2, %x.0f along key : vector<64x64xf32>, vector<64xf32>
    %v.10 = arith.subf %v.8, %v.9 : vector<64xf32>
    %o.0 = arith.truncf %v.10 : vector<64xf32> to vector<64xbf16>
    ejk.yield states(%v.4, %v.6, %v.2 : vector<64x64xf32>, vector<64x64xf32>, vector<64x64xf32>) outputs(%o.0 : vector<64xbf16>)
  }
  return %out.o, %out.ht0, %out.ht1, %out.ht2 : tensor<?x?x?x64xbf16>, tensor<?x?x64x64xf32>, tensor<?x?x64x64xf32>, tensor<?x?x64x64xf32>
}
