// bf16 values are integers on CPUs that do not round to bf16: a value that one block of a function has of
// another is not rounded again, by a library that a package does not have.

// RUN: ejk-opt %s --pass-pipeline='builtin.module(gpu.module(ejk-hold-bf16-as-bits))' | FileCheck %s
// RUN: sed 's/llvm.store %%chosen.*/%%wide = llvm.fpext %%chosen : vector<8xbf16> to vector<8xf32>/' %s >%t.computes.mlir
// RUN: not ejk-opt %t.computes.mlir --pass-pipeline='builtin.module(gpu.module(ejk-hold-bf16-as-bits))' 2>&1 | FileCheck %s --check-prefix=COMPUTES
// COMPUTES: error: computes with bf16, or is not of the llvm dialect; integers hold what is loaded, stored and chosen: run arith-expand
// The gradient of a sum over rows is one row, which a loop stores.
// RUN: ejk-compile %s --vjp --target=cpu --cpu-arch=x86-64-v3,x86-64-v4,x86-64-v4-bf16,aarch64 -o %t.ejk
// RUN: ejk-run %s --entry=sum --vjp --device=cpu --random=B=2,T=70,H=3 --check | FileCheck %s --check-prefix=SUM
// SUM: check dx: pass

func.func @sum(%x: tensor<?x?x?x8xbf16>) -> tensor<?x?x8xf32> {
  %s = ejk.scan sequences(%row = %x : tensor<?x?x?x8xbf16>) states(%S = zero : tensor<?x?x8xf32>) {
    %wide = arith.extf %row : vector<8xbf16> to vector<8xf32>
    %next = arith.addf %S, %wide : vector<8xf32>
    ejk.yield states(%next : vector<8xf32>)
  }
  return %s : tensor<?x?x8xf32>
}

// CHECK-LABEL: llvm.func @chosen
// CHECK-DAG: %[[NAN:.*]] = llvm.mlir.constant(dense<32704> : vector<8xi16>) : vector<8xi16>
// CHECK-DAG: %[[ONE:.*]] = llvm.mlir.constant(16256 : i16) : i16
// CHECK: %[[X:.*]] = llvm.bitcast %{{.*}} : vector<8xi16> to vector<8xi16>
// CHECK: llvm.cond_br %{{.*}}, ^bb1(%[[X]] : vector<8xi16>), ^bb1(%[[NAN]] : vector<8xi16>)
// CHECK: ^bb1(%[[CHOSEN:.*]]: vector<8xi16>)
// CHECK: llvm.getelementptr %{{.*}}[1] : (!llvm.ptr) -> !llvm.ptr, i16
// CHECK: llvm.store %[[CHOSEN]], %{{.*}} : vector<8xi16>, !llvm.ptr
// CHECK: llvm.store %[[ONE]], %{{.*}} : i16, !llvm.ptr
gpu.module @held {
  llvm.func @chosen(%bits: vector<8xi16>, %which: i1, %p: !llvm.ptr) {
    %nan = llvm.mlir.constant(dense<0x7FC0> : vector<8xbf16>) : vector<8xbf16>
    %one = llvm.mlir.constant(1.0 : bf16) : bf16
    %x = llvm.bitcast %bits : vector<8xi16> to vector<8xbf16>
    llvm.cond_br %which, ^next(%x : vector<8xbf16>), ^next(%nan : vector<8xbf16>)
  ^next(%chosen: vector<8xbf16>):
    %q = llvm.getelementptr %p[1] : (!llvm.ptr) -> !llvm.ptr, bf16
    llvm.store %chosen, %q : vector<8xbf16>, !llvm.ptr
    llvm.store %one, %p : bf16, !llvm.ptr
    llvm.return
  }
}
