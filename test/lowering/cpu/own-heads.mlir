// Where no query heads share one of keys and values, gradients of theirs are a kernel's results: a second
// variant leaves out the sums, with the same kernels.
// RUN: ejk-compile %s --vjp --target=cpu --cpu-arch=x86-64-v4 --emit=gpu | FileCheck %s --implicit-check-not=gpu.launch_func
// A result in 16 bits is rounded behind its sum, so that it keeps the launch.
// RUN: sed "s/?x64xf32>/?x64xbf16>/g" %s | ejk-compile - --vjp --target=cpu --cpu-arch=x86-64-v4 --emit=gpu | FileCheck %s --check-prefix=NARROW
// Which one runs, and that both give the interpreter's numbers.
// RUN: ejk-run %s --vjp --entry=gla --random B=2,T=37,H=4,Hkv=4 --device=cpu --check --explain 2>&1 | FileCheck %s --check-prefix=OWN
// RUN: ejk-run %s --vjp --entry=gla --random B=2,T=37,H=4,Hkv=2 --device=cpu --check --explain 2>&1 | FileCheck %s --check-prefix=SHARED

// CHECK: gpu.launch_func @kernels::@gla_scan0
// CHECK-LABEL: func.func @gla_vjp_direct(
// CHECK-SAME: ejk.needs = ["=", "H", "Hkv"]
// CHECK: gpu.launch_func @kernels::@[[$FIRST:.*scan0]]
// CHECK: gpu.launch_func @kernels::@[[$SECOND:.*scan1]]
// CHECK-LABEL: func.func @gla_vjp(
// CHECK: gpu.launch_func @kernels::@[[$FIRST]]
// CHECK: gpu.launch_func @kernels::@[[$SECOND]]
// CHECK: gpu.launch_func @kernels::@gla_vjp_heads0
// CHECK: gpu.launch_func @kernels::@gla_vjp_heads0

// NARROW-NOT: _direct

// OWN: gla_vjp: schedule step for {{.*}}: H = Hkv
// OWN-COUNT-4: {{^check d[qkvg]: pass}}
// SHARED: not step: H = Hkv does not hold
// SHARED-COUNT-4: {{^check d[qkvg]: pass}}
func.func @gla(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>, %v: tensor<?x?x?x64xf32>,
               %g: tensor<?x?x?x64xf32>) -> tensor<?x?x?x64xf32> {
  %o, %ht = ejk.gla %q, %k, %v g(%g : tensor<?x?x?x64xf32>)
      : tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>
      -> tensor<?x?x?x64xf32>, tensor<?x?x64x64xf32>
  return %o : tensor<?x?x?x64xf32>
}
