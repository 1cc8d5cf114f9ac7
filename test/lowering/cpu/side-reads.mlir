// A derivative reads the adjoint of a state along both axes, for dk and dv: one kernel, whose pass over the
// rows also sums the columns of each row. All columns of a head are then one item.
// RUN: ejk-opt %s --ejk-specialize --ejk-derive-backward --ejk-specialize --ejk-to-cpu=target=x86-64-v4 | FileCheck %s
// Where states decay along the rows of both kinds of reads, each kind has a kernel of its own.
// RUN: ejk-opt %S/Inputs/both-gates.mlir --ejk-specialize --ejk-derive-backward --ejk-specialize --ejk-to-cpu=target=x86-64-v4 | FileCheck %s --check-prefix=BOTH

// By numbers: lengths that leave single steps, columns that leave lanes (which hold anything, where
// states are loaded), rows that leave registers.
// RUN: ejk-run %s --vjp --entry=gla --random B=2,T=71,H=4,Hkv=2 --device=cpu --check
// RUN: ejk-run %s --vjp --entry=packed --random B=1,T=83,N=5,H=4,Hkv=2 --device=cpu --check
// RUN: ejk-run %S/Inputs/both-gates.mlir --vjp --random B=2,T=71,H=4,Hkv=2 --device=cpu --check
// RUN: rm -rf %t && mkdir %t
// RUN: ejk-compile %s --vjp --target=cpu --cpu-arch=x86-64-v3,aarch64 -o %t/older.ejk
// RUN: ejk-compile %s --vjp --target=cpu -o %t/all.ejk
// RUN: ejk-launch %t/all.ejk --entry=packed_vjp --random B=1,T=83,N=5,H=4,Hkv=2 --device=cpu --outputs=%t/best.safetensors
// RUN: ejk-launch %t/older.ejk --entry=packed_vjp --random B=1,T=83,N=5,H=4,Hkv=2 --device=cpu --expect=%t/best.safetensors --rtol=1e-5
// RUN: env EJK_NUM_THREADS=3 ejk-launch %t/all.ejk --entry=packed_vjp --random B=1,T=83,N=5,H=4,Hkv=2 --device=cpu --expect=%t/best.safetensors --rtol=0

func.func @gla(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>, %v: tensor<?x?x?x64xf32>,
               %g: tensor<?x?x?x64xf32>) -> tensor<?x?x?x64xf32> {
  %o, %ht = ejk.gla %q, %k, %v g(%g : tensor<?x?x?x64xf32>)
      : tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>
      -> tensor<?x?x?x64xf32>, tensor<?x?x64x64xf32>
  return %o : tensor<?x?x?x64xf32>
}
func.func @packed(%q: tensor<?x?x?x20xf32>, %k: tensor<?x?x?x20xf32>, %v: tensor<?x?x?x74xf32>,
                  %g: tensor<?x?x?xf32>, %gk: tensor<?x?x?x20xf32>, %h0: tensor<?x?x20x74xf32>,
                  %cu: tensor<?xi32>)
    -> (tensor<?x?x?x74xf32>, tensor<?x?x20x74xf32>) {
  %o, %ht = ejk.recurrent %q, %k, %v g(%g : tensor<?x?x?xf32>) gk(%gk : tensor<?x?x?x20xf32>)
      initial_state(%h0 : tensor<?x?x20x74xf32>) cu_seqlens(%cu : tensor<?xi32>)
      : tensor<?x?x?x20xf32>, tensor<?x?x?x20xf32>, tensor<?x?x?x74xf32>
      -> tensor<?x?x?x74xf32>, tensor<?x?x20x74xf32>
  return %o, %ht : tensor<?x?x?x74xf32>, tensor<?x?x20x74xf32>
}

// CHECK-NOT: llvm.func @gla_vjp_{{.*}}scan2
// CHECK: llvm.func @gla_vjp_scan1
// Four rows of four steps' products become a register of sums, and are added to those of other columns.
// CHECK: %[[SUMS:.*]] = vector.shuffle {{.*}} [0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15] : vector<16xf32>
// CHECK: %[[PART:.*]] = vector.shuffle %[[SUMS]], %[[SUMS]] [0, 1, 2, 3]
// CHECK: %[[BEFORE:.*]] = llvm.load %[[PLACE:.*]] {alignment = 4 : i64} : !llvm.ptr -> vector<4xf32>
// CHECK: %[[AFTER:.*]] = arith.addf %[[BEFORE]], %[[PART]]
// CHECK: llvm.store %[[AFTER]], %[[PLACE]]

// BOTH: llvm.func @both_vjp_{{.*}}scan2
