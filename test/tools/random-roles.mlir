// Inputs are drawn as models have them: keys of a delta rule are about as long as 1 and its rates between 0
// and 1, also where a step says it in its own ops. With others its state grows a thousandfold in ten steps.

// RUN: ejk-opt --ejk-describe-interface %s | FileCheck %s --check-prefix=ROLES
// ROLES-LABEL: @delta
// ROLES-SAME: %arg0: tensor<?x?x?x32xf32> {ejk.name
// ROLES-SAME: %arg1: tensor<?x?x?x32xf32> {ejk.key,
// ROLES-SAME: %arg2: tensor<?x?x?x16xf32> {ejk.name
// ROLES-SAME: %arg3: tensor<?x?x?xbf16> {{{.*}}ejk.rate
// ROLES-SAME: %arg4: tensor<?x?x?xf32> {ejk.log_decay
// ROLES-LABEL: @linear
// ROLES-NOT: ejk.key
// ROLES-NOT: ejk.rate

// RUN: ejk-run %s --entry=delta --random B=1,T=300,H=1 --seed=3 --outputs=%t.npy/ --device=interpreter
// RUN: %python -c "import numpy as np; print('largest', 'small' if abs(np.load('%t.npy/out0.npy')).max() < 20 else 'large')" | FileCheck %s
// CHECK: largest small

// RUN: ejk-compile %s --target=cpu -o %t.ejk
// RUN: grep -a -o '"role":"[a-z_]*"' %t.ejk | sort -u | FileCheck %s --check-prefix=PACKAGE
// PACKAGE: "role":"key"
// PACKAGE: "role":"log_decay"
// PACKAGE: "role":"rate"

func.func @delta(%q: tensor<?x?x?x32xf32>, %k: tensor<?x?x?x32xf32>, %v: tensor<?x?x?x16xf32>,
                 %b: tensor<?x?x?xbf16>, %g: tensor<?x?x?xf32>) -> tensor<?x?x?x16xf32> {
  %o, %ht = ejk.scan
      sequences(%qt = %q : tensor<?x?x?x32xf32>, %kt = %k : tensor<?x?x?x32xf32>, %vt = %v : tensor<?x?x?x16xf32>,
                %bt = %b : tensor<?x?x?xbf16>, %gt = %g : tensor<?x?x?xf32>)
      states(%S = zero : tensor<?x?x32x16xf32>) -> (tensor<?x?x?x16xf32>) {
    %D = ejk.decay %S by %gt along head : vector<32x16xf32>, f32
    %r = ejk.read %D, %kt along key : vector<32x16xf32>, vector<32xf32>
    %e = arith.subf %vt, %r : vector<16xf32>
    %b32 = arith.extf %bt : bf16 to f32
    %bs = vector.broadcast %b32 : f32 to vector<16xf32>
    %u = arith.mulf %bs, %e : vector<16xf32>
    %S1 = ejk.outer_add %D, %kt, %u : vector<32x16xf32>, vector<32xf32>, vector<16xf32>
    %ot = ejk.read %S1, %qt along key : vector<32x16xf32>, vector<32xf32>
    ejk.yield states(%S1 : vector<32x16xf32>) outputs(%ot : vector<16xf32>)
  }
  return %o : tensor<?x?x?x16xf32>
}

// What is read decides over nothing: any keys will do.
func.func @linear(%q: tensor<?x?x?x32xf32>, %k: tensor<?x?x?x32xf32>, %v: tensor<?x?x?x16xf32>,
                  %b: tensor<?x?x?xf32>) -> tensor<?x?x?x16xf32> {
  %o, %ht = ejk.scan
      sequences(%qt = %q : tensor<?x?x?x32xf32>, %kt = %k : tensor<?x?x?x32xf32>, %vt = %v : tensor<?x?x?x16xf32>,
                %bt = %b : tensor<?x?x?xf32>)
      states(%S = zero : tensor<?x?x32x16xf32>) -> (tensor<?x?x?x16xf32>) {
    %bs = vector.broadcast %bt : f32 to vector<16xf32>
    %u = arith.mulf %bs, %vt : vector<16xf32>
    %S1 = ejk.outer_add %S, %kt, %u : vector<32x16xf32>, vector<32xf32>, vector<16xf32>
    %ot = ejk.read %S1, %qt along key : vector<32x16xf32>, vector<32xf32>
    ejk.yield states(%S1 : vector<32x16xf32>) outputs(%ot : vector<16xf32>)
  }
  return %o : tensor<?x?x?x16xf32>
}
