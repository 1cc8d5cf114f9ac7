// Keys and queries that are rotated in the step, by angles that are rows in f32: chunks take them from a scan of rows
// before, and so does the derivative; a step computes them itself.
// RUN: env EJK_CUDA_DRIVER=%emulated-cuda ejk-run %s --schedule=step --device cuda --random B=2,T=19,H=2,Hkv=2,Hkv2=1 --check | FileCheck %s
// RUN: env EJK_CUDA_DRIVER=%emulated-cuda ejk-run %s --schedule=chunk --arch=sm_90a --device cuda --random B=2,T=133,H=2,Hkv=2,Hkv2=1 --check | FileCheck %s
// RUN: env EJK_CUDA_DRIVER=%emulated-cuda ejk-run %s --schedule=split --arch=sm_90a --device cuda --random B=1,T=300,H=2,Hkv=2,Hkv2=1 --check | FileCheck %s
// RUN: env EJK_CUDA_DRIVER=%emulated-cuda ejk-run %s --schedule=chunk --arch=sm_90a --device cuda --random B=1,T=133,H=2,Hkv=2,Hkv2=1 --vjp --check | FileCheck %s --check-prefix=VJP
// RUN: ejk-run %s --device cpu --random B=1,T=70,H=2,Hkv=2,Hkv2=1 --vjp --check | FileCheck %s --check-prefix=VJP
// CHECK: check o: pass
// VJP-DAG: check dq: pass
// VJP-DAG: check dk: pass
// VJP-DAG: check dangle: pass
// VJP-DAG: check dg: pass

// Each has all schedules.
// RUN: ejk-compile %s --arch=sm_90a --vjp -o %t.ejk
// RUN: ejk-launch %t.ejk --info | FileCheck %s --check-prefix=INFO
// INFO-LABEL: entry rotary
// INFO:         schedule chunk
// INFO:         kernel rotary_{{.*}}blocks
// INFO:         schedule step
// INFO-NEXT:    kernel rotary_step_scan0_one
// INFO-NEXT:    kernel rotary_step_scan0
// INFO-LABEL: entry rotary_vjp
// INFO:         schedule chunk
// INFO:         kernel rotary_vjp_{{.*}}blocks
func.func @rotary(%q: tensor<?x?x?x32xbf16>, %k: tensor<?x?x?x32xbf16>, %v: tensor<?x?x?x16xbf16>,
                  %angle: tensor<?x?x?x32xf32>, %g: tensor<?x?x?xf32> {ejk.log_decay})
    -> (tensor<?x?x?x16xbf16> {ejk.name = "o"}) {
  %o, %St = ejk.scan
      sequences(%qt = %q : tensor<?x?x?x32xbf16>, %kt = %k : tensor<?x?x?x32xbf16>, %vt = %v : tensor<?x?x?x16xbf16>,
                %at = %angle : tensor<?x?x?x32xf32>, %gt = %g : tensor<?x?x?xf32>)
      states(%S = zero : tensor<?x?x32x16xf32>) -> (tensor<?x?x?x16xbf16>) {
    %qw = arith.extf %qt : vector<32xbf16> to vector<32xf32>
    %kw = arith.extf %kt : vector<32xbf16> to vector<32xf32>
    %vw = arith.extf %vt : vector<16xbf16> to vector<16xf32>
    %cos = math.cos %at : vector<32xf32>
    %sin = math.sin %at : vector<32xf32>
    %qh = ejk.rotate_half %qw : vector<32xf32>
    %qc = arith.mulf %qw, %cos : vector<32xf32>
    %qs = arith.mulf %qh, %sin : vector<32xf32>
    %qr = arith.addf %qc, %qs : vector<32xf32>
    %kh = ejk.rotate_half %kw : vector<32xf32>
    %kc = arith.mulf %kw, %cos : vector<32xf32>
    %ks = arith.mulf %kh, %sin : vector<32xf32>
    %kr = arith.addf %kc, %ks : vector<32xf32>
    %S1 = ejk.decay %S by %gt along head : vector<32x16xf32>, f32
    %S2 = ejk.outer_add %S1, %kr, %vw : vector<32x16xf32>, vector<32xf32>, vector<16xf32>
    %r = ejk.read %S2, %qr along key : vector<32x16xf32>, vector<32xf32>
    %on = arith.truncf %r : vector<16xf32> to vector<16xbf16>
    ejk.yield states(%S2 : vector<32x16xf32>) outputs(%on : vector<16xbf16>)
  }
  return %o : tensor<?x?x?x16xbf16>
}
