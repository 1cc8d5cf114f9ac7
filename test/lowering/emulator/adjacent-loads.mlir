// Rows that a branch loads one after the other share one wait for their copies. A barrier that the last of them
// needs, because what it overwrites was read, stands before all of them, and orders none of their writes: what
// takes the first one's place behind the loop that reads it needs a barrier of its own.
// RUN: env EJK_CUDA_DRIVER=%emulated-cuda ejk-run %s --device=cuda --schedule=chunk --vjp --arch=sm_80 --gates=resets \
// RUN:   --random=T=40,B=1,H=2,Hkv=2,Hkv2=2,Hkv3=2,Hkv4=2,Hkv5=1,Hkv6=1,Hkv7=2 --check | FileCheck %s --implicit-check-not=FAIL
// CHECK: check dq: pass
// CHECK: check dk: pass
// CHECK: check dgv: pass
// CHECK: check dh2: pass

func.func @f(%q: tensor<?x?x?x16xf16>, %k: tensor<?x?x?x16xf16>, %v: tensor<?x?x?x48xf16>, %g: tensor<?x?x?xf32>, %gk: tensor<?x?x?x16xf32>, %gv: tensor<?x?x?x48xf32>, %a: tensor<?x?x?xf32>, %b: tensor<?x?x?xf32>, %h0: tensor<?x?x16x48xf32>, %h1: tensor<?x?x16x48xf32>, %h2: tensor<?x?x16x48xf32>)
    -> (tensor<?x?x?x48xf16> {ejk.name = "o"}, tensor<?x?x16x48xf32> {ejk.name = "ht0"}, tensor<?x?x16x48xf32> {ejk.name = "ht1"}, tensor<?x?x16x48xf32> {ejk.name = "ht2"}) {
  %o, %ht0, %ht1, %ht2 = ejk.scan
      sequences(%q_r = %q : tensor<?x?x?x16xf16>, %k_r = %k : tensor<?x?x?x16xf16>, %v_r = %v : tensor<?x?x?x48xf16>, %g_r = %g : tensor<?x?x?xf32>, %gk_r = %gk : tensor<?x?x?x16xf32>, %gv_r = %gv : tensor<?x?x?x48xf32>, %a_r = %a : tensor<?x?x?xf32>, %b_r = %b : tensor<?x?x?xf32>)
      states(%s0 = %h0 : tensor<?x?x16x48xf32>, %s1 = %h1 : tensor<?x?x16x48xf32>, %s2 = %h2 : tensor<?x?x16x48xf32>)
      -> (tensor<?x?x?x48xf16>) {
    %q_f = arith.extf %q_r : vector<16xf16> to vector<16xf32>
    %k_f = arith.extf %k_r : vector<16xf16> to vector<16xf32>
    %v_f = arith.extf %v_r : vector<48xf16> to vector<48xf32>
    %x1 = ejk.decay %s0 by %gv_r along value : vector<16x48xf32>, vector<48xf32>
    %x2 = arith.constant 0.000000e+00 : f32
    %x3 = vector.broadcast %x2 : f32 to vector<48xf32>
    %x4 = arith.cmpf olt, %v_f, %x3 : vector<48xf32>
    %x5 = arith.negf %v_f : vector<48xf32>
    %x6 = arith.select %x4, %v_f, %x5 : vector<48xi1>, vector<48xf32>
    %x7 = math.exp %x6 : vector<48xf32>
    %x8 = arith.constant 1.000000e+00 : f32
    %x9 = vector.broadcast %x8 : f32 to vector<48xf32>
    %x10 = arith.select %x4, %x7, %x9 : vector<48xi1>, vector<48xf32>
    %x11 = arith.addf %x9, %x7 : vector<48xf32>
    %x12 = arith.divf %x10, %x11 : vector<48xf32>
    %x13 = ejk.outer_add %x1, %k_f, %x12 : vector<16x48xf32>, vector<16xf32>, vector<48xf32>
    %x14 = ejk.decay %s1 by %gk_r along key : vector<16x48xf32>, vector<16xf32>
    %x15 = ejk.decay %x14 by %g_r along head : vector<16x48xf32>, f32
    %x16 = arith.mulf %k_f, %k_f : vector<16xf32>
    %x17 = ejk.sum %x16 : vector<16xf32>
    %x18 = arith.constant 1.000000e-06 : f32
    %x19 = arith.addf %x17, %x18 : f32
    %x20 = math.rsqrt %x19 : f32
    %x21 = vector.broadcast %x20 : f32 to vector<16xf32>
    %x22 = arith.mulf %k_f, %x21 : vector<16xf32>
    %x23 = arith.constant 0.000000e+00 : f32
    %x24 = vector.broadcast %x23 : f32 to vector<48xf32>
    %x25 = arith.cmpf olt, %v_f, %x24 : vector<48xf32>
    %x26 = arith.negf %v_f : vector<48xf32>
    %x27 = arith.select %x25, %v_f, %x26 : vector<48xi1>, vector<48xf32>
    %x28 = math.exp %x27 : vector<48xf32>
    %x29 = arith.constant 1.000000e+00 : f32
    %x30 = vector.broadcast %x29 : f32 to vector<48xf32>
    %x31 = arith.select %x25, %x28, %x30 : vector<48xi1>, vector<48xf32>
    %x32 = arith.addf %x30, %x28 : vector<48xf32>
    %x33 = arith.divf %x31, %x32 : vector<48xf32>
    %x34 = ejk.outer_add %x15, %x22, %x33 : vector<16x48xf32>, vector<16xf32>, vector<48xf32>
    %x35 = ejk.decay %s2 by %gk_r along key : vector<16x48xf32>, vector<16xf32>
    %x36 = ejk.decay %x35 by %g_r along head : vector<16x48xf32>, f32
    %x37 = arith.mulf %k_f, %k_f : vector<16xf32>
    %x38 = ejk.sum %x37 : vector<16xf32>
    %x39 = arith.constant 1.000000e-06 : f32
    %x40 = arith.addf %x38, %x39 : f32
    %x41 = math.rsqrt %x40 : f32
    %x42 = vector.broadcast %x41 : f32 to vector<16xf32>
    %x43 = arith.mulf %k_f, %x42 : vector<16xf32>
    %x44 = arith.constant 0.000000e+00 : f32
    %x45 = arith.cmpf olt, %b_r, %x44 : f32
    %x46 = arith.negf %b_r : f32
    %x47 = arith.select %x45, %b_r, %x46 : f32
    %x48 = math.exp %x47 : f32
    %x49 = arith.constant 1.000000e+00 : f32
    %x50 = arith.select %x45, %x48, %x49 : f32
    %x51 = arith.addf %x49, %x48 : f32
    %x52 = arith.divf %x50, %x51 : f32
    %x53 = vector.broadcast %x52 : f32 to vector<48xf32>
    %x54 = arith.mulf %x53, %v_f : vector<48xf32>
    %x55 = arith.mulf %k_f, %k_f : vector<16xf32>
    %x56 = ejk.sum %x55 : vector<16xf32>
    %x57 = arith.constant 1.000000e-06 : f32
    %x58 = arith.addf %x56, %x57 : f32
    %x59 = math.rsqrt %x58 : f32
    %x60 = vector.broadcast %x59 : f32 to vector<16xf32>
    %x61 = arith.mulf %k_f, %x60 : vector<16xf32>
    %x62 = arith.constant 0.000000e+00 : f32
    %x63 = arith.cmpf olt, %b_r, %x62 : f32
    %x64 = arith.negf %b_r : f32
    %x65 = arith.select %x63, %b_r, %x64 : f32
    %x66 = math.exp %x65 : f32
    %x67 = arith.constant 1.000000e+00 : f32
    %x68 = arith.select %x63, %x66, %x67 : f32
    %x69 = arith.addf %x67, %x66 : f32
    %x70 = arith.divf %x68, %x69 : f32
    %x71 = ejk.read %x36, %x61 along key : vector<16x48xf32>, vector<16xf32>
    %x72 = arith.subf %x54, %x71 : vector<48xf32>
    %x73 = vector.broadcast %x70 : f32 to vector<48xf32>
    %x74 = arith.mulf %x73, %x72 : vector<48xf32>
    %x75 = ejk.outer_add %x36, %x61, %x74 : vector<16x48xf32>, vector<16xf32>, vector<48xf32>
    %x76 = ejk.read %x13, %q_f along key : vector<16x48xf32>, vector<16xf32>
    %x77 = vector.broadcast %a_r : f32 to vector<48xf32>
    %x78 = arith.mulf %x76, %x77 : vector<48xf32>
    %x79 = ejk.read %x34, %q_f along key : vector<16x48xf32>, vector<16xf32>
    %x80 = vector.broadcast %a_r : f32 to vector<48xf32>
    %x81 = arith.mulf %x79, %x80 : vector<48xf32>
    %x82 = arith.addf %x78, %x81 : vector<48xf32>
    %x83 = ejk.read %x75, %q_f along key : vector<16x48xf32>, vector<16xf32>
    %x84 = arith.constant 0.000000e+00 : f32
    %x85 = vector.broadcast %x84 : f32 to vector<48xf32>
    %x86 = arith.cmpf olt, %v_f, %x85 : vector<48xf32>
    %x87 = arith.negf %v_f : vector<48xf32>
    %x88 = arith.select %x86, %v_f, %x87 : vector<48xi1>, vector<48xf32>
    %x89 = math.exp %x88 : vector<48xf32>
    %x90 = arith.constant 1.000000e+00 : f32
    %x91 = vector.broadcast %x90 : f32 to vector<48xf32>
    %x92 = arith.select %x86, %x89, %x91 : vector<48xi1>, vector<48xf32>
    %x93 = arith.addf %x91, %x89 : vector<48xf32>
    %x94 = arith.divf %x92, %x93 : vector<48xf32>
    %x95 = arith.mulf %x83, %x94 : vector<48xf32>
    %x96 = arith.addf %x82, %x95 : vector<48xf32>
    %x97 = arith.truncf %x96 : vector<48xf32> to vector<48xf16>
    ejk.yield states(%x13, %x34, %x75 : vector<16x48xf32>, vector<16x48xf32>, vector<16x48xf32>) outputs(%x97 : vector<48xf16>)
  }
  return %o, %ht0, %ht1, %ht2 : tensor<?x?x?x48xf16>, tensor<?x?x16x48xf32>, tensor<?x?x16x48xf32>, tensor<?x?x16x48xf32>
}
