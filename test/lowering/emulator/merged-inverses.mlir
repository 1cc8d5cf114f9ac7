// Blocks of a system's matrix are inverted by substitution and merged by tensor cores, in two tf32 terms of each
// factor. A chunk's final state in f32 shows 16 bits of the inverse: without the second terms it is off by more
// than the tolerance.
// RUN: env EJK_CUDA_DRIVER=%emulated-cuda ejk-run %s --device=cuda --schedule=chunk --arch=sm_80 --gates=weak \
// RUN:   --random=B=1,T=64,Hk=2,Hv=2 --check --tolerance=8e-6 | FileCheck %s
// RUN: env EJK_CUDA_DRIVER=%emulated-cuda ejk-run %s --device=cuda --schedule=chunk --arch=sm_90a --gates=weak \
// RUN:   --random=B=1,T=64,Hk=2,Hv=2 --check --tolerance=8e-6 | FileCheck %s
// CHECK: check ht: pass

func.func @f(%q: tensor<?x?x?x64xbf16>, %k: tensor<?x?x?x64xbf16>, %v: tensor<?x?x?x64xbf16>, %beta: tensor<?x?x?xf32>,
             %g: tensor<?x?x?xf32>) -> (tensor<?x?x64x64xf32> {ejk.name = "ht"}) {
  %o, %ht = ejk.delta_rule %q, %k, %v beta(%beta : tensor<?x?x?xf32>) g(%g : tensor<?x?x?xf32>)
      : tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>
      -> tensor<?x?x?x64xbf16>, tensor<?x?x64x64xf32>
  return %ht : tensor<?x?x64x64xf32>
}
