// Scans without K×V states: a short convolution, SiLU and an l2 norm of its rows. Kernels have a warp for a
// segment of each head's rows, so that rows need not wait for one another; weights' gradients are sums of
// segments' sums, and the derivative of the convolution is one scan more.
// RUN: env EJK_CUDA_DRIVER=%emulated-cuda ejk-run %s --entry=dense --device cuda --random B=2,T=1,H=2,Hp=2,Hp2=1 --check | FileCheck %s
// RUN: env EJK_CUDA_DRIVER=%emulated-cuda ejk-run %s --entry=dense --device cuda --random B=2,T=300,H=2,Hp=2,Hp2=1 --check | FileCheck %s
// RUN: env EJK_CUDA_DRIVER=%emulated-cuda ejk-run %s --entry=dense --device cuda --random B=1,T=1100,H=2,Hp=2,Hp2=1 --vjp --check | FileCheck %s --check-prefix=VJP
// RUN: env EJK_CUDA_DRIVER=%emulated-cuda ejk-run %s --entry=packed --device cuda --random N=5,T=700,H=2,Hp=2,Hp2=1 --check | FileCheck %s
// RUN: env EJK_CUDA_DRIVER=%emulated-cuda ejk-run %s --entry=packed --device cuda --random N=5,T=700,H=2,Hp=2,Hp2=1 --vjp --check | FileCheck %s --check-prefix=VJP
// RUN: ejk-run %s --entry=dense --device cpu --random B=2,T=300,H=2,Hp=2,Hp2=1 --vjp --check | FileCheck %s --check-prefix=VJP
// CHECK: check o: pass
// VJP: check dx: pass
// VJP: check dw0: pass
// VJP: check dw1: pass

// RUN: ejk-compile %s --arch=sm_90a --vjp -o %t.ejk
// RUN: ejk-launch %t.ejk --info | FileCheck %s --check-prefix=INFO
// INFO-LABEL: entry dense
// INFO:         kernel dense_scan0: grid H * (B * ceildiv(T,
// INFO-NOT:     kernel
// INFO-LABEL: entry dense_vjp
// INFO-NOT:     _rows
// INFO-LABEL: entry packed
func.func @dense(%x: tensor<?x?x?x64xbf16>, %w0: tensor<?x64xbf16>, %w1: tensor<?x64xbf16>)
    -> (tensor<?x?x?x64xbf16> {ejk.name = "o"}) {
  %x1 = ejk.shift %x by 1 : tensor<?x?x?x64xbf16>
  %o = ejk.scan sequences(%xt = %x : tensor<?x?x?x64xbf16>, %xs = %x1 : tensor<?x?x?x64xbf16>)
      parameters(%p0 = %w0 : tensor<?x64xbf16> as vector<64xbf16>, %p1 = %w1 : tensor<?x64xbf16> as vector<64xbf16>)
      -> (tensor<?x?x?x64xbf16>) {
    %a = arith.extf %xt : vector<64xbf16> to vector<64xf32>
    %b = arith.extf %xs : vector<64xbf16> to vector<64xf32>
    %u = arith.extf %p0 : vector<64xbf16> to vector<64xf32>
    %v = arith.extf %p1 : vector<64xbf16> to vector<64xf32>
    %au = arith.mulf %a, %u : vector<64xf32>
    %bv = arith.mulf %b, %v : vector<64xf32>
    %y = arith.addf %au, %bv : vector<64xf32>
    %n = arith.negf %y : vector<64xf32>
    %e = math.exp %n : vector<64xf32>
    %one = arith.constant dense<1.0> : vector<64xf32>
    %d = arith.addf %e, %one : vector<64xf32>
    %s = arith.divf %y, %d : vector<64xf32>
    %ss = arith.mulf %s, %s : vector<64xf32>
    %sum = ejk.sum %ss : vector<64xf32>
    %eps = arith.constant 1.0e-3 : f32
    %safe = arith.addf %sum, %eps : f32
    %r = math.rsqrt %safe : f32
    %rs = vector.broadcast %r : f32 to vector<64xf32>
    %z = arith.mulf %s, %rs : vector<64xf32>
    %o = arith.truncf %z : vector<64xf32> to vector<64xbf16>
    ejk.yield outputs(%o : vector<64xbf16>)
  }
  return %o : tensor<?x?x?x64xbf16>
}

func.func @packed(%x: tensor<1x?x?x64xbf16>, %w0: tensor<?x64xbf16>, %w1: tensor<?x64xbf16>,
                  %offsets: tensor<?xi32>) -> (tensor<1x?x?x64xbf16> {ejk.name = "o"}) {
  %x1 = ejk.shift %x by 1 cu_seqlens(%offsets : tensor<?xi32>) : tensor<1x?x?x64xbf16>
  %o = ejk.scan cu_seqlens(%offsets : tensor<?xi32>)
      sequences(%xt = %x : tensor<1x?x?x64xbf16>, %xs = %x1 : tensor<1x?x?x64xbf16>)
      parameters(%p0 = %w0 : tensor<?x64xbf16> as vector<64xbf16>, %p1 = %w1 : tensor<?x64xbf16> as vector<64xbf16>)
      -> (tensor<1x?x?x64xbf16>) {
    %a = arith.extf %xt : vector<64xbf16> to vector<64xf32>
    %b = arith.extf %xs : vector<64xbf16> to vector<64xf32>
    %u = arith.extf %p0 : vector<64xbf16> to vector<64xf32>
    %v = arith.extf %p1 : vector<64xbf16> to vector<64xf32>
    %au = arith.mulf %a, %u : vector<64xf32>
    %bv = arith.mulf %b, %v : vector<64xf32>
    %y = arith.addf %au, %bv : vector<64xf32>
    %sum = ejk.sum %y : vector<64xf32>
    %t = math.tanh %sum : f32
    %ts = vector.broadcast %t : f32 to vector<64xf32>
    %z = arith.mulf %y, %ts : vector<64xf32>
    %o = arith.truncf %z : vector<64xf32> to vector<64xbf16>
    ejk.yield outputs(%o : vector<64xbf16>)
  }
  return %o : tensor<1x?x?x64xbf16>
}
