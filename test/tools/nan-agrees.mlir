// Elements that are NaN, or infinities of one sign, in the run and in the reference agree,
// and the others are compared as ever. Logarithms of about half of the inputs are NaN.
// RUN: ejk-run %s --random d0=6,d1=4 --device=interpreter --check | FileCheck %s
// RUN: env EJK_CUDA_DRIVER=%emulated-cuda ejk-run %s --random d0=6,d1=4 --device=cuda --check \
// RUN:   --outputs=%t.o.safetensors | FileCheck %s
// CHECK: check out0: pass, relative L2 error
// CHECK: check out1: pass, relative L2 error 0.000e+00

// ejk-launch --expect has the same rule.
// RUN: ejk-compile %s --cubin=never -o %t.ejk
// RUN: env EJK_CUDA_DRIVER=%emulated-cuda ejk-launch %t.ejk --random d0=6,d1=4 --outputs=%t.l.safetensors
// RUN: env EJK_CUDA_DRIVER=%emulated-cuda ejk-launch %t.ejk --random d0=6,d1=4 \
// RUN:   --expect=%t.l.safetensors | FileCheck %s --check-prefix=LAUNCH
// RUN: not env EJK_CUDA_DRIVER=%emulated-cuda ejk-launch %t.ejk --random d0=6,d1=4 --seed=1 \
// RUN:   --expect=%t.l.safetensors | FileCheck %s --check-prefix=OTHER
// LAUNCH: out0: pass, relative L2 error
// LAUNCH: out1: pass, relative L2 error
// OTHER: out0: FAIL, NaN or infinite on one side alone: {{[0-9]+}} of 24 elements (worst at element
func.func @f(%x: tensor<?x?xf32>) -> (tensor<?x?xf32>, tensor<?x?xf32>) {
  %log = math.log %x : tensor<?x?xf32>
  %zero = arith.subf %x, %x : tensor<?x?xf32>
  %infinite = arith.divf %x, %zero : tensor<?x?xf32>
  return %log, %infinite : tensor<?x?xf32>, tensor<?x?xf32>
}
