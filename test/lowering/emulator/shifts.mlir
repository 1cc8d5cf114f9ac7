// Rows of other steps in kernels: zero or given before a sequence's first, and not of its neighbours. Chunks load
// them as tiles that TMA copies, but for those at a sequence's ends. With a gap, rows lie apart where the given
// ones do not.
// RUN: env EJK_CUDA_DRIVER=%emulated-cuda ejk-run %s --entry=dense --schedule=step --device cuda --random B=2,T=37,H=2 --check --row-gap=48 | FileCheck %s
// RUN: env EJK_CUDA_DRIVER=%emulated-cuda ejk-run %s --entry=dense --schedule=step --device cuda --random B=2,T=1,H=2 --check --row-gap=48 | FileCheck %s
// RUN: env EJK_CUDA_DRIVER=%emulated-cuda ejk-run %s --entry=dense --schedule=chunk --arch=sm_80 --device cuda --random B=2,T=133,H=2 --check | FileCheck %s
// RUN: env EJK_CUDA_DRIVER=%emulated-cuda ejk-run %s --entry=dense --schedule=chunk --arch=sm_90a --device cuda --random B=2,T=133,H=2 --check --row-gap=48 | FileCheck %s
// RUN: env EJK_CUDA_DRIVER=%emulated-cuda ejk-run %s --entry=dense --schedule=split --arch=sm_90a --device cuda --random B=1,T=300,H=1 --check | FileCheck %s
// RUN: env EJK_CUDA_DRIVER=%emulated-cuda ejk-run %s --entry=packed --schedule=step --device cuda --random N=5,T=41,H=2 --check --row-gap=48 | FileCheck %s
// RUN: env EJK_CUDA_DRIVER=%emulated-cuda ejk-run %s --entry=packed --schedule=chunk --arch=sm_90a --device cuda --random N=4,T=300,H=2 --check --row-gap=48 | FileCheck %s
// RUN: env EJK_CUDA_DRIVER=%emulated-cuda ejk-run %s --entry=later --schedule=chunk --arch=sm_80 --device cuda --random B=2,T=70,H=2 --check --row-gap=48 | FileCheck %s
// RUN: env EJK_CUDA_DRIVER=%emulated-cuda ejk-run %s --entry=later --schedule=step --device cuda --random B=2,T=19,H=2 --check | FileCheck %s
// Derivatives, whose shifts go the other way.
// RUN: env EJK_CUDA_DRIVER=%emulated-cuda ejk-run %s --entry=dense --schedule=step --device cuda --random B=2,T=9,H=2 --vjp --check --row-gap=48 | FileCheck %s --check-prefix=VJP
// RUN: env EJK_CUDA_DRIVER=%emulated-cuda ejk-run %s --entry=dense --schedule=chunk --arch=sm_90a --device cuda --random B=1,T=133,H=1 --vjp --check | FileCheck %s --check-prefix=VJP

// CHECK: check o: pass
// VJP: check dk: pass
// VJP: check drows: pass

func.func @dense(%k: tensor<?x?x?x64xbf16>, %v: tensor<?x?x?x64xbf16>, %g: tensor<?x?x?xf32> {ejk.log_decay}, %rows: tensor<?x2x?x64xbf16>)
    -> (tensor<?x?x?x64xbf16> {ejk.name = "o"}, tensor<?x2x?x64xbf16> {ejk.name = "last"}) {
  %k1 = ejk.shift %k by 1 halo(%rows : tensor<?x2x?x64xbf16>) : tensor<?x?x?x64xbf16>
  %k2 = ejk.shift %k by 2 halo(%rows : tensor<?x2x?x64xbf16>) : tensor<?x?x?x64xbf16>
  %v3 = ejk.shift %v by 3 : tensor<?x?x?x64xbf16>
  %g1 = ejk.shift %g by 1 : tensor<?x?x?xf32>
  %last = ejk.last_rows %k halo(%rows : tensor<?x2x?x64xbf16>) : tensor<?x?x?x64xbf16> -> tensor<?x2x?x64xbf16>
  %o, %ht = ejk.scan
      sequences(%kt = %k : tensor<?x?x?x64xbf16>, %vt = %v : tensor<?x?x?x64xbf16>, %gt = %g1 : tensor<?x?x?xf32>,
                %k1t = %k1 : tensor<?x?x?x64xbf16>, %k2t = %k2 : tensor<?x?x?x64xbf16>, %v3t = %v3 : tensor<?x?x?x64xbf16>)
      states(%S = zero : tensor<?x?x64x64xf32>) -> (tensor<?x?x?x64xbf16>) {
    %kf = arith.extf %kt : vector<64xbf16> to vector<64xf32>
    %k1f = arith.extf %k1t : vector<64xbf16> to vector<64xf32>
    %k2f = arith.extf %k2t : vector<64xbf16> to vector<64xf32>
    %vf = arith.extf %vt : vector<64xbf16> to vector<64xf32>
    %v3f = arith.extf %v3t : vector<64xbf16> to vector<64xf32>
    %sum = arith.subf %k1f, %k2f : vector<64xf32>
    %key = arith.addf %kf, %sum : vector<64xf32>
    %value = arith.addf %vf, %v3f : vector<64xf32>
    %S1 = ejk.decay %S by %gt along head : vector<64x64xf32>, f32
    %S2 = ejk.outer_add %S1, %key, %value : vector<64x64xf32>, vector<64xf32>, vector<64xf32>
    %of = ejk.read %S2, %kf along key : vector<64x64xf32>, vector<64xf32>
    %ot = arith.truncf %of : vector<64xf32> to vector<64xbf16>
    ejk.yield states(%S2 : vector<64x64xf32>) outputs(%ot : vector<64xbf16>)
  }
  return %o, %last : tensor<?x?x?x64xbf16>, tensor<?x2x?x64xbf16>
}

func.func @packed(%k: tensor<1x?x?x64xbf16>, %v: tensor<1x?x?x64xbf16>, %rows: tensor<?x2x?x64xbf16>, %cu: tensor<?xi32>)
    -> (tensor<1x?x?x64xbf16> {ejk.name = "o"}, tensor<?x2x?x64xbf16> {ejk.name = "last"}) {
  %k1 = ejk.shift %k by 1 halo(%rows : tensor<?x2x?x64xbf16>) cu_seqlens(%cu : tensor<?xi32>) : tensor<1x?x?x64xbf16>
  %v3 = ejk.shift %v by 3 cu_seqlens(%cu : tensor<?xi32>) : tensor<1x?x?x64xbf16>
  %last = ejk.last_rows %k halo(%rows : tensor<?x2x?x64xbf16>) cu_seqlens(%cu : tensor<?xi32>) : tensor<1x?x?x64xbf16> -> tensor<?x2x?x64xbf16>
  %o, %ht = ejk.scan cu_seqlens(%cu : tensor<?xi32>)
      sequences(%kt = %k : tensor<1x?x?x64xbf16>, %vt = %v : tensor<1x?x?x64xbf16>,
                %k1t = %k1 : tensor<1x?x?x64xbf16>, %v3t = %v3 : tensor<1x?x?x64xbf16>)
      states(%S = zero : tensor<?x?x64x64xf32>) -> (tensor<1x?x?x64xbf16>) {
    %kf = arith.extf %kt : vector<64xbf16> to vector<64xf32>
    %k1f = arith.extf %k1t : vector<64xbf16> to vector<64xf32>
    %vf = arith.extf %vt : vector<64xbf16> to vector<64xf32>
    %v3f = arith.extf %v3t : vector<64xbf16> to vector<64xf32>
    %key = arith.subf %kf, %k1f : vector<64xf32>
    %value = arith.addf %vf, %v3f : vector<64xf32>
    %S2 = ejk.outer_add %S, %key, %value : vector<64x64xf32>, vector<64xf32>, vector<64xf32>
    %of = ejk.read %S2, %kf along key : vector<64x64xf32>, vector<64xf32>
    %ot = arith.truncf %of : vector<64xf32> to vector<64xbf16>
    ejk.yield states(%S2 : vector<64x64xf32>) outputs(%ot : vector<64xbf16>)
  }
  return %o, %last : tensor<1x?x?x64xbf16>, tensor<?x2x?x64xbf16>
}

func.func @later(%k: tensor<?x?x?x32xf16>, %v: tensor<?x?x?x48xf16>, %rows: tensor<?x3x?x48xf16>)
    -> (tensor<?x?x?x48xf16> {ejk.name = "o"}, tensor<?x3x?x48xf16> {ejk.name = "last"}) {
  %k1 = ejk.shift %k by -5 : tensor<?x?x?x32xf16>
  %v2 = ejk.shift %v by -2 halo(%rows : tensor<?x3x?x48xf16>) : tensor<?x?x?x48xf16>
  %last = ejk.last_rows reverse %v halo(%rows : tensor<?x3x?x48xf16>) : tensor<?x?x?x48xf16> -> tensor<?x3x?x48xf16>
  %o, %ht = ejk.scan reverse
      sequences(%kt = %k : tensor<?x?x?x32xf16>, %k1t = %k1 : tensor<?x?x?x32xf16>, %v2t = %v2 : tensor<?x?x?x48xf16>)
      states(%S = zero : tensor<?x?x32x48xf32>) -> (tensor<?x?x?x48xf16>) {
    %kf = arith.extf %kt : vector<32xf16> to vector<32xf32>
    %k1f = arith.extf %k1t : vector<32xf16> to vector<32xf32>
    %v2f = arith.extf %v2t : vector<48xf16> to vector<48xf32>
    %S2 = ejk.outer_add %S, %kf, %v2f : vector<32x48xf32>, vector<32xf32>, vector<48xf32>
    %of = ejk.read %S2, %k1f along key : vector<32x48xf32>, vector<32xf32>
    %ot = arith.truncf %of : vector<48xf32> to vector<48xf16>
    ejk.yield states(%S2 : vector<32x48xf32>) outputs(%ot : vector<48xf16>)
  }
  return %o, %last : tensor<?x?x?x48xf16>, tensor<?x3x?x48xf16>
}
