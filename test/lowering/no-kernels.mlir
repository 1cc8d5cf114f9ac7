// Functions without kernels: one gives back its argument, one has no results.
// RUN: ejk-compile %s --target=cpu -o %t.cpu.ejk
// RUN: ejk-compile %s --target=cpu,cuda --cubin=never -o %t.ejk
// RUN: ejk-launch %t.ejk --info | FileCheck %s --check-prefix=INFO
// INFO: entry same
// INFO: entry nothing
// RUN: ejk-run %s --entry=same --device=cpu --random=d0=2,d1=3 --check | FileCheck %s
// RUN: ejk-run %s --entry=nothing --device=cpu --random=d0=2,d1=3
// CHECK: check out0: pass
func.func @same(%x: tensor<?x?x2x4xf32>) -> tensor<?x?x2x4xf32> {
  return %x : tensor<?x?x2x4xf32>
}
func.func @nothing(%x: tensor<?x?x2x4xf32>) {
  return
}
