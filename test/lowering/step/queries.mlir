// The step-by-step kernel of a state that several query heads share: a block for each state, with a
// loop over its queries after the state is stored.
// RUN: ejk-opt %s --ejk-specialize --ejk-to-gpu | FileCheck %s
// RUN: env EJK_CUDA_DRIVER=%emulated-cuda ejk-run %s --device cuda --schedule=step --check --entry=one --random B=2,H=6,Hkv=2
// RUN: env EJK_CUDA_DRIVER=%emulated-cuda ejk-run %s --device cuda --schedule=step --check --entry=several --random B=2,T=7,H=6,Hkv=2
// RUN: env EJK_CUDA_DRIVER=%emulated-cuda ejk-run %s --device cuda --schedule=step --check --entry=several --random B=1,T=1,H=4,Hkv=4
// RUN: env EJK_CUDA_DRIVER=%emulated-cuda ejk-run %s --device cuda --schedule=step --check --entry=delta --random B=1,T=20,H=4,Hv=2,Hk=1
// RUN: env EJK_CUDA_DRIVER=%emulated-cuda ejk-run %s --device cuda --schedule=step --check --entry=own --random B=2,T=5,H=4,Hkv=2

// CHECK-LABEL: gpu.func @one_scan0_one(
// CHECK: llvm.store {{.*}} : vector<4xf32>
// CHECK: scf.for
// CHECK:   gpu.shuffle xor
// CHECK:   llvm.store {{.*}} : vector<4xbf16>
// CHECK-NOT: llvm.store {{.*}} : vector<4xf32>, !llvm.ptr<1>
// CHECK: gpu.return
func.func @one(%q: tensor<?x1x?x128xbf16>, %k: tensor<?x1x?x128xbf16>, %v: tensor<?x1x?x64xbf16>,
               %g: tensor<?x1x?x128xf32>, %h0: tensor<?x?x128x64xf32>)
    -> (tensor<?x1x?x64xbf16>, tensor<?x?x128x64xf32>) {
  %o, %ht = ejk.gla shared_state %q, %k, %v g(%g : tensor<?x1x?x128xf32>)
      initial_state(%h0 : tensor<?x?x128x64xf32>)
      : tensor<?x1x?x128xbf16>, tensor<?x1x?x128xbf16>, tensor<?x1x?x64xbf16>
      -> tensor<?x1x?x64xbf16>, tensor<?x?x128x64xf32>
  return %o, %ht : tensor<?x1x?x64xbf16>, tensor<?x?x128x64xf32>
}

// Odd sizes, and gates of both axes.
func.func @several(%q: tensor<?x?x?x60xf32>, %k: tensor<?x?x?x60xf32>, %v: tensor<?x?x?x21xf32>,
                   %gk: tensor<?x?x?x60xf32>, %gv: tensor<?x?x?x21xf32>)
    -> (tensor<?x?x?x21xf32>, tensor<?x?x60x21xf32>) {
  %o, %ht = ejk.recurrent reverse shared_state %q, %k, %v gk(%gk : tensor<?x?x?x60xf32>)
      gv(%gv : tensor<?x?x?x21xf32>)
      : tensor<?x?x?x60xf32>, tensor<?x?x?x60xf32>, tensor<?x?x?x21xf32>
      -> tensor<?x?x?x21xf32>, tensor<?x?x60x21xf32>
  return %o, %ht : tensor<?x?x?x21xf32>, tensor<?x?x60x21xf32>
}

func.func @delta(%q: tensor<?x?x?x32xf32>, %k: tensor<?x?x?x32xf32>, %v: tensor<?x?x?x16xf32>,
                 %beta: tensor<?x?x?xf32>, %g: tensor<?x?x?xf32>)
    -> (tensor<?x?x?x16xf32>, tensor<?x?x32x16xf32>) {
  %o, %ht = ejk.delta_rule shared_state %q, %k, %v beta(%beta : tensor<?x?x?xf32>)
      g(%g : tensor<?x?x?xf32>)
      : tensor<?x?x?x32xf32>, tensor<?x?x?x32xf32>, tensor<?x?x?x16xf32>
      -> tensor<?x?x?x16xf32>, tensor<?x?x32x16xf32>
  return %o, %ht : tensor<?x?x?x16xf32>, tensor<?x?x32x16xf32>
}

// A step of the user's own: queries that are normalised, a number for each of them, the state before
// the step, its number, and an output that no query is part of.
func.func @own(%q: tensor<?x?x?x24xbf16>, %w: tensor<?x?x?xf32>, %k: tensor<?x?x?x24xbf16>,
               %v: tensor<?x?x?x40xbf16>, %u: tensor<?x24xf32>)
    -> (tensor<?x?x?x40xbf16>, tensor<?x?x?x40xf32>, tensor<?x?x24x40xf32>) {
  %o, %r, %ht = ejk.scan
      sequences(%kt = %k : tensor<?x?x?x24xbf16>, %vt = %v : tensor<?x?x?x40xbf16>)
      queries(%qt = %q : tensor<?x?x?x24xbf16>, %wt = %w : tensor<?x?x?xf32>)
      parameters(%ut = %u : tensor<?x24xf32> as vector<24xf32>)
      states(%S = zero : tensor<?x?x24x40xf32>)
      -> (tensor<?x?x?x40xbf16>, tensor<?x?x?x40xf32>) {
    %kw = arith.extf %kt : vector<24xbf16> to vector<24xf32>
    %vw = arith.extf %vt : vector<40xbf16> to vector<40xf32>
    %qw = arith.extf %qt : vector<24xbf16> to vector<24xf32>
    %square = arith.mulf %qw, %qw : vector<24xf32>
    %norm = ejk.sum %square : vector<24xf32>
    %one = arith.constant 1.0 : f32
    %more = arith.addf %norm, %one : f32
    %scale = math.rsqrt %more : f32
    %scales = vector.broadcast %scale : f32 to vector<24xf32>
    %unit = arith.mulf %qw, %scales : vector<24xf32>
    %bonus = arith.mulf %qw, %ut : vector<24xf32>
    %keyed = arith.mulf %bonus, %kw : vector<24xf32>
    %dot = ejk.sum %keyed : vector<24xf32>
    %h = ejk.head_index : index
    %i = arith.index_cast %h : index to i32
    %f = arith.sitofp %i : i32 to f32
    %weight = arith.addf %wt, %f : f32
    %weighted = arith.mulf %dot, %weight : f32
    %weights = vector.broadcast %weighted : f32 to vector<40xf32>
    %own = arith.mulf %weights, %vw : vector<40xf32>
    %before = ejk.read %S, %unit along key : vector<24x40xf32>, vector<24xf32>
    %sum = arith.addf %before, %own : vector<40xf32>
    %ot = arith.truncf %sum : vector<40xf32> to vector<40xbf16>
    %S1 = ejk.outer_add %S, %kw, %vw : vector<24x40xf32>, vector<24xf32>, vector<40xf32>
    %rt = ejk.read %S1, %kw along key : vector<24x40xf32>, vector<24xf32>
    ejk.yield states(%S1 : vector<24x40xf32>) outputs(%ot, %rt : vector<40xbf16>, vector<40xf32>)
  }
  return %o, %r, %ht : tensor<?x?x?x40xbf16>, tensor<?x?x?x40xf32>, tensor<?x?x24x40xf32>
}
