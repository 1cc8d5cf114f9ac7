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

// Here a state takes what is read of saved states, so that no segment of it starts from zero.
// RUN: env EJK_CUDA_DRIVER=%emulated-cuda ejk-run %s --entry=after --vjp --device=cuda --arch=sm_80 --schedule=split --random=B=1,T=40,H=2,Hkv=2,Hkv2=2,Hkv3=2,Hkv4=2,Hkv5=2 --check 2>&1 | FileCheck %s --check-prefix=AFTER
// AFTER: not split over time: a state takes what is read of saved states
// AFTER: check dq: pass
// AFTER: check dk: pass
// AFTER: check dv: pass
// AFTER: check dg: pass

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

func.func @after(%q: tensor<?x?x?x16xbf16>, %k: tensor<?x?x?x16xbf16>, %v: tensor<?x?x?x16xbf16>, %g: tensor<?x?x?xf32>, %a: tensor<?x?x?xf32>, %b: tensor<?x?x?xf32>)
    -> (tensor<?x?x?x16xbf16> {ejk.name = "o"}, tensor<?x?x16x16xf32> {ejk.name = "ht0"}, tensor<?x?x16x16xf32> {ejk.name = "ht1"}, tensor<?x?x16x16xf32> {ejk.name = "ht2"}) {
  %out.o, %out.ht0, %out.ht1, %out.ht2 = ejk.scan
      sequences(%x.0 = %q : tensor<?x?x?x16xbf16>, %x.1 = %k : tensor<?x?x?x16xbf16>, %x.2 = %v : tensor<?x?x?x16xbf16>, %x.3 = %g : tensor<?x?x?xf32>, %x.4 = %a : tensor<?x?x?xf32>, %x.5 = %b : tensor<?x?x?xf32>)
      states(%s.0 = zero : tensor<?x?x16x16xf32>, %s.1 = zero : tensor<?x?x16x16xf32>, %s.2 = zero : tensor<?x?x16x16xf32>)
      -> (tensor<?x?x?x16xbf16>) {
    %x.0f = arith.extf %x.0 : vector<16xbf16> to vector<16xf32>
    %x.1f = arith.extf %x.1 : vector<16xbf16> to vector<16xf32>
    %x.2f = arith.extf %x.2 : vector<16xbf16> to vector<16xf32>
    %v.0 = ejk.decay %s.0 by %x.3 along head : vector<16x16xf32>, f32
    %v.1 = arith.mulf %x.1f, %x.1f : vector<16xf32>
    %v.2 = ejk.sum %v.1 : vector<16xf32>
    %v.3 = arith.constant 9.99999999999999955e-07 : f32
    %v.4 = arith.addf %v.2, %v.3 : f32
    %v.5 = math.rsqrt %v.4 : f32
    %v.6 = vector.broadcast %v.5 : f32 to vector<16xf32>
    %v.7 = arith.mulf %x.1f, %v.6 : vector<16xf32>
    %v.8 = ejk.outer_add %v.0, %x.1f, %x.2f : vector<16x16xf32>, vector<16xf32>, vector<16xf32>
    %v.9 = arith.constant 0.00000000000000000e+00 : f32
    %v.10 = arith.cmpf olt, %x.4, %v.9 : f32
    %v.11 = arith.negf %x.4 : f32
    %v.12 = arith.select %v.10, %x.4, %v.11 : f32
    %v.13 = arith.constant 0.00000000000000000e+00 : f32
    %v.14 = arith.select %v.10, %v.13, %x.4 : f32
    %v.15 = math.exp %v.12 : f32
    %v.16 = math.log1p %v.15 : f32
    %v.17 = arith.addf %v.14, %v.16 : f32
    %v.18 = arith.negf %v.17 : f32
    %v.19 = ejk.decay %s.1 by %v.18 along head : vector<16x16xf32>, f32
    %v.20 = arith.mulf %x.1f, %x.1f : vector<16xf32>
    %v.21 = ejk.sum %v.20 : vector<16xf32>
    %v.22 = arith.constant 9.99999999999999955e-07 : f32
    %v.23 = arith.addf %v.21, %v.22 : f32
    %v.24 = math.rsqrt %v.23 : f32
    %v.25 = vector.broadcast %v.24 : f32 to vector<16xf32>
    %v.26 = arith.mulf %x.1f, %v.25 : vector<16xf32>
    %v.27 = ejk.read %v.8, %v.26 along key : vector<16x16xf32>, vector<16xf32>
    %v.28 = ejk.outer_add %v.19, %v.26, %v.27 : vector<16x16xf32>, vector<16xf32>, vector<16xf32>
    %v.29 = arith.mulf %x.1f, %x.1f : vector<16xf32>
    %v.30 = ejk.sum %v.29 : vector<16xf32>
    %v.31 = arith.constant 9.99999999999999955e-07 : f32
    %v.32 = arith.addf %v.30, %v.31 : f32
    %v.33 = math.rsqrt %v.32 : f32
    %v.34 = vector.broadcast %v.33 : f32 to vector<16xf32>
    %v.35 = arith.mulf %x.1f, %v.34 : vector<16xf32>
    %v.36 = vector.broadcast %x.4 : f32 to vector<16xf32>
    %v.37 = arith.mulf %v.36, %x.2f : vector<16xf32>
    %v.38 = ejk.outer_add %s.2, %v.35, %v.37 : vector<16x16xf32>, vector<16xf32>, vector<16xf32>
    %v.39 = ejk.read %v.8, %x.0f along key : vector<16x16xf32>, vector<16xf32>
    %v.40 = vector.broadcast %x.4 : f32 to vector<16xf32>
    %v.41 = arith.mulf %v.40, %v.39 : vector<16xf32>
    %v.42 = ejk.read %v.28, %x.0f along key : vector<16x16xf32>, vector<16xf32>
    %v.43 = arith.addf %v.41, %v.42 : vector<16xf32>
    %v.44 = ejk.read %v.38, %x.0f along key : vector<16x16xf32>, vector<16xf32>
    %v.45 = ejk.read %v.28, %x.0f along key : vector<16x16xf32>, vector<16xf32>
    %v.46 = ejk.read %v.38, %v.45 along key : vector<16x16xf32>, vector<16xf32>
    %v.47 = arith.addf %v.43, %v.46 : vector<16xf32>
    %o.0 = arith.truncf %v.47 : vector<16xf32> to vector<16xbf16>
    ejk.yield states(%v.8, %v.28, %v.38 : vector<16x16xf32>, vector<16x16xf32>, vector<16x16xf32>) outputs(%o.0 : vector<16xbf16>)
  }
  return %out.o, %out.ht0, %out.ht1, %out.ht2 : tensor<?x?x?x16xbf16>, tensor<?x?x16x16xf32>, tensor<?x?x16x16xf32>, tensor<?x?x16x16xf32>
}
