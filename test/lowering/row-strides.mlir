// Kernels read rows that lie apart, where the function's arguments are read by rows alone: results and
// gradients are right, with NaN between the rows.

// DEFINE: %{gpu} = env EJK_CUDA_DRIVER=%emulated-cuda ejk-run --device=cuda --row-gap=48 --check
// DEFINE: %{cpu} = ejk-run --device=cpu --row-gap=48 --check

// RUN: %{gpu} %examples/gla.mlir --random=B=2,T=70,H=4,Hkv=2 --schedule=step | FileCheck %s
// RUN: %{gpu} %examples/gla.mlir --random=B=2,T=70,H=4,Hkv=2 --schedule=chunk --vjp | FileCheck %s
// RUN: %{gpu} %examples/gla.mlir --random=B=1,T=300,H=2,Hkv=2 --schedule=split | FileCheck %s
// RUN: %{gpu} %examples/gated_delta.mlir --random=B=2,T=1,Hv=4,Hk=2 | FileCheck %s
// RUN: %{gpu} %examples/gated_delta.mlir --random=B=2,T=100,Hv=4,Hk=2 --schedule=chunk --vjp | FileCheck %s
// RUN: %{gpu} %examples/packed.mlir --random=T=100,H=2,Hkv=1,N=3 --vjp | FileCheck %s
// RUN: %{gpu} %s --entry=conv --random=B=2,T=70,H=2 | FileCheck %s
// RUN: %{gpu} %s --entry=dense_first --random=B=2,T=20,H=2 | FileCheck %s
// RUN: %{gpu} %s --entry=dense_last --random=B=2,T=20,H=2 | FileCheck %s
// RUN: env EJK_EMULATOR_CAPABILITY=80 %{gpu} %examples/gla.mlir --random=B=2,T=70,H=4,Hkv=2 --vjp | FileCheck %s
// RUN: %{cpu} %examples/gla.mlir --random=B=2,T=70,H=4,Hkv=2 --vjp | FileCheck %s
// RUN: %{cpu} %examples/gated_delta.mlir --random=B=2,T=100,Hv=4,Hk=2 --schedule=chunk | FileCheck %s
// RUN: %{cpu} %s --entry=conv --random=B=2,T=70,H=2 | FileCheck %s
// RUN: %{cpu} %s --entry=dense_first --random=B=2,T=20,H=2 | FileCheck %s
// RUN: %{cpu} %s --entry=dense_last --random=B=2,T=20,H=2 | FileCheck %s
// CHECK-NOT: FAIL
// CHECK:     check {{.*}}: pass
// CHECK-NOT: FAIL

// What else reads an argument needs its rows one behind the other, and so do its other kernels.
// RUN: ejk-compile %s --arch=sm_90a --cubin=never -o %t.ejk
// RUN: ejk-launch %t.ejk --info --entry=conv | FileCheck %s --check-prefix=CONV
// RUN: ejk-launch %t.ejk --info --entry=passed | FileCheck %s --check-prefix=PASSED
// CONV: row_stride.x
// PASSED-NOT: row_stride.k
// PASSED: row_stride.v
// PASSED-NOT: row_stride.k

// RUN: not ejk-run %s --entry=conv --random=B=1,T=4,H=1 --device=interpreter --row-gap=16 2>&1 | FileCheck %s --check-prefix=NONE
// NONE: --row-gap is of kernels: give --device cuda or cpu

// A short convolution, and what a later call needs of it.
func.func @conv(%x: tensor<?x?x?x32xf32>) -> (tensor<?x?x?x32xf32>, tensor<?x1x?x32xf32>) {
  %before = ejk.shift %x by 1 : tensor<?x?x?x32xf32>
  %last = ejk.last_rows %x : tensor<?x?x?x32xf32> -> tensor<?x1x?x32xf32>
  %o = ejk.scan sequences(%xt = %x : tensor<?x?x?x32xf32>, %bt = %before : tensor<?x?x?x32xf32>)
      -> (tensor<?x?x?x32xf32>) {
    %sum = arith.addf %xt, %bt : vector<32xf32>
    ejk.yield outputs(%sum : vector<32xf32>)
  }
  return %o, %last : tensor<?x?x?x32xf32>, tensor<?x1x?x32xf32>
}

// The copy that %k becomes is made of all its elements at once.
func.func @passed(%k: tensor<?x?x?x32xf32>, %v: tensor<?x?x?x32xf32>)
    -> (tensor<?x?x?x32xf32>, tensor<?x?x?x32xf32>) {
  %o, %ht = ejk.recurrent %k, %k, %v : tensor<?x?x?x32xf32>, tensor<?x?x?x32xf32>, tensor<?x?x?x32xf32>
      -> tensor<?x?x?x32xf32>, tensor<?x?x32x32xf32>
  return %o, %k : tensor<?x?x?x32xf32>, tensor<?x?x?x32xf32>
}

// Scans that do the same may share a kernel. One that was made for rows one behind the other, which another kernel
// wrote, must not read an argument, whose rows may lie apart.
func.func @dense_first(%x: tensor<?x?x?x32xf32>) -> (tensor<?x?x?x32xf32>, tensor<?x?x?x32xf32>) {
  %y = ejk.scan sequences(%xt = %x : tensor<?x?x?x32xf32>) -> (tensor<?x?x?x32xf32>) {
    %e = math.tanh %xt : vector<32xf32>
    ejk.yield outputs(%e : vector<32xf32>)
  }
  %a, %at = ejk.scan sequences(%t = %y : tensor<?x?x?x32xf32>) states(%s = zero : tensor<?x?x32xf32>)
      -> (tensor<?x?x?x32xf32>) {
    %n = arith.addf %s, %t : vector<32xf32>
    ejk.yield states(%n : vector<32xf32>) outputs(%n : vector<32xf32>)
  }
  %b, %bt = ejk.scan sequences(%t = %x : tensor<?x?x?x32xf32>) states(%s = zero : tensor<?x?x32xf32>)
      -> (tensor<?x?x?x32xf32>) {
    %n = arith.addf %s, %t : vector<32xf32>
    ejk.yield states(%n : vector<32xf32>) outputs(%n : vector<32xf32>)
  }
  return %a, %b : tensor<?x?x?x32xf32>, tensor<?x?x?x32xf32>
}

// In this order one kernel may serve both, with the row stride that it is given.
func.func @dense_last(%x: tensor<?x?x?x32xf32>) -> (tensor<?x?x?x32xf32>, tensor<?x?x?x32xf32>) {
  %a, %at = ejk.scan sequences(%t = %x : tensor<?x?x?x32xf32>) states(%s = zero : tensor<?x?x32xf32>)
      -> (tensor<?x?x?x32xf32>) {
    %n = arith.addf %s, %t : vector<32xf32>
    ejk.yield states(%n : vector<32xf32>) outputs(%n : vector<32xf32>)
  }
  %b, %bt = ejk.scan sequences(%t = %a : tensor<?x?x?x32xf32>) states(%s = zero : tensor<?x?x32xf32>)
      -> (tensor<?x?x?x32xf32>) {
    %n = arith.addf %s, %t : vector<32xf32>
    ejk.yield states(%n : vector<32xf32>) outputs(%n : vector<32xf32>)
  }
  return %a, %b : tensor<?x?x?x32xf32>, tensor<?x?x?x32xf32>
}
