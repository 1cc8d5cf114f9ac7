// RUN: env EJK_CUDA_DRIVER=%emulated-cuda ejk-run %s --random B=2,T=5,H=1,Hkv=1 --schedule=step --cubin=never --device=cuda --arch=sm_80 --check | FileCheck %s
// RUN: ejk-compile %s --schedule=step --arch=sm_80 --cubin=never --emit=ptx | FileCheck %s --check-prefix=PTX
// RUN: not ejk-compile %s --schedule=step --arch=sm_86 --cubin=never -o %t.ejk 2>&1 | FileCheck %s --check-prefix=ERROR

// What a step computes without the state is in shared memory, in two stages: here 26 rows of 512 numbers
// each. That is more than the 48 KB of a static array, so that the launch sets the size. It is also more
// than a thread block of sm_86 has.

// CHECK: check out0: pass
// PTX: .extern .shared .align 1024 .b8 ejk_shared[];
// ERROR: error: its steps need 106528 bytes of shared memory for what they compute without the state, more than the 101376 that a thread block of sm_86 has; split the scan

func.func @rows(%k: tensor<?x?x?x512xf32>, %v: tensor<?x?x?x4xf32>) -> tensor<?x?x512x4xf32> {
  %s = ejk.scan sequences(%kt = %k : tensor<?x?x?x512xf32>, %vt = %v : tensor<?x?x?x4xf32>)
      states(%S0 = zero : tensor<?x?x512x4xf32>) {
    %k0 = math.tanh %kt : vector<512xf32>
    %k1 = math.tanh %k0 : vector<512xf32>
    %k2 = math.tanh %k1 : vector<512xf32>
    %k3 = math.tanh %k2 : vector<512xf32>
    %k4 = math.tanh %k3 : vector<512xf32>
    %k5 = math.tanh %k4 : vector<512xf32>
    %k6 = math.tanh %k5 : vector<512xf32>
    %k7 = math.tanh %k6 : vector<512xf32>
    %k8 = math.tanh %k7 : vector<512xf32>
    %k9 = math.tanh %k8 : vector<512xf32>
    %k10 = math.tanh %k9 : vector<512xf32>
    %k11 = math.tanh %k10 : vector<512xf32>
    %k12 = math.tanh %k11 : vector<512xf32>
    %k13 = math.tanh %k12 : vector<512xf32>
    %k14 = math.tanh %k13 : vector<512xf32>
    %k15 = math.tanh %k14 : vector<512xf32>
    %k16 = math.tanh %k15 : vector<512xf32>
    %k17 = math.tanh %k16 : vector<512xf32>
    %k18 = math.tanh %k17 : vector<512xf32>
    %k19 = math.tanh %k18 : vector<512xf32>
    %k20 = math.tanh %k19 : vector<512xf32>
    %k21 = math.tanh %k20 : vector<512xf32>
    %k22 = math.tanh %k21 : vector<512xf32>
    %k23 = math.tanh %k22 : vector<512xf32>
    %k24 = math.tanh %k23 : vector<512xf32>
    %k25 = math.tanh %k24 : vector<512xf32>
    %S1 = ejk.outer_add %S0, %k0, %vt : vector<512x4xf32>, vector<512xf32>, vector<4xf32>
    %S2 = ejk.outer_add %S1, %k1, %vt : vector<512x4xf32>, vector<512xf32>, vector<4xf32>
    %S3 = ejk.outer_add %S2, %k2, %vt : vector<512x4xf32>, vector<512xf32>, vector<4xf32>
    %S4 = ejk.outer_add %S3, %k3, %vt : vector<512x4xf32>, vector<512xf32>, vector<4xf32>
    %S5 = ejk.outer_add %S4, %k4, %vt : vector<512x4xf32>, vector<512xf32>, vector<4xf32>
    %S6 = ejk.outer_add %S5, %k5, %vt : vector<512x4xf32>, vector<512xf32>, vector<4xf32>
    %S7 = ejk.outer_add %S6, %k6, %vt : vector<512x4xf32>, vector<512xf32>, vector<4xf32>
    %S8 = ejk.outer_add %S7, %k7, %vt : vector<512x4xf32>, vector<512xf32>, vector<4xf32>
    %S9 = ejk.outer_add %S8, %k8, %vt : vector<512x4xf32>, vector<512xf32>, vector<4xf32>
    %S10 = ejk.outer_add %S9, %k9, %vt : vector<512x4xf32>, vector<512xf32>, vector<4xf32>
    %S11 = ejk.outer_add %S10, %k10, %vt : vector<512x4xf32>, vector<512xf32>, vector<4xf32>
    %S12 = ejk.outer_add %S11, %k11, %vt : vector<512x4xf32>, vector<512xf32>, vector<4xf32>
    %S13 = ejk.outer_add %S12, %k12, %vt : vector<512x4xf32>, vector<512xf32>, vector<4xf32>
    %S14 = ejk.outer_add %S13, %k13, %vt : vector<512x4xf32>, vector<512xf32>, vector<4xf32>
    %S15 = ejk.outer_add %S14, %k14, %vt : vector<512x4xf32>, vector<512xf32>, vector<4xf32>
    %S16 = ejk.outer_add %S15, %k15, %vt : vector<512x4xf32>, vector<512xf32>, vector<4xf32>
    %S17 = ejk.outer_add %S16, %k16, %vt : vector<512x4xf32>, vector<512xf32>, vector<4xf32>
    %S18 = ejk.outer_add %S17, %k17, %vt : vector<512x4xf32>, vector<512xf32>, vector<4xf32>
    %S19 = ejk.outer_add %S18, %k18, %vt : vector<512x4xf32>, vector<512xf32>, vector<4xf32>
    %S20 = ejk.outer_add %S19, %k19, %vt : vector<512x4xf32>, vector<512xf32>, vector<4xf32>
    %S21 = ejk.outer_add %S20, %k20, %vt : vector<512x4xf32>, vector<512xf32>, vector<4xf32>
    %S22 = ejk.outer_add %S21, %k21, %vt : vector<512x4xf32>, vector<512xf32>, vector<4xf32>
    %S23 = ejk.outer_add %S22, %k22, %vt : vector<512x4xf32>, vector<512xf32>, vector<4xf32>
    %S24 = ejk.outer_add %S23, %k23, %vt : vector<512x4xf32>, vector<512xf32>, vector<4xf32>
    %S25 = ejk.outer_add %S24, %k24, %vt : vector<512x4xf32>, vector<512xf32>, vector<4xf32>
    %S26 = ejk.outer_add %S25, %k25, %vt : vector<512x4xf32>, vector<512xf32>, vector<4xf32>
    ejk.yield states(%S26 : vector<512x4xf32>)
  }
  return %s : tensor<?x?x512x4xf32>
}
