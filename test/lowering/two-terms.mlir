// A gate's gradient that is numbers of few heads is computed from operands in two terms and from states in f32: in
// a copy that needs few heads and rows, or in the function itself where types say that there are few.
// RUN: ejk-opt %s --ejk-backward --ejk-make-alternatives=schedule=chunk --split-input-file | FileCheck %s
// RUN: ejk-opt %s --ejk-backward --ejk-make-alternatives="schedule=chunk two-terms=few-channels" --split-input-file | FileCheck %s --check-prefix=CHANNELS --implicit-check-not=two_terms
// RUN: ejk-opt %s --ejk-backward --ejk-make-alternatives="schedule=chunk two-terms=always" --split-input-file | FileCheck %s --check-prefix=ALWAYS
// Its programs save states in f32 and are not fused; the others save them in bf16, and are.
// RUN: ejk-opt %s --ejk-backward --ejk-make-alternatives=schedule=chunk --ejk-select-schedule=arch=sm_90a --canonicalize --split-input-file 2>/dev/null | FileCheck %s --check-prefix=PROGRAMS
// RUN: ejk-opt %s --ejk-backward --ejk-make-alternatives --split-input-file | FileCheck %s --check-prefix=SPLIT

// CHECK-LABEL: func.func @dynamic_vjp_two_terms(
// CHECK-SAME: ejk.alternative_of = "dynamic_vjp"
// CHECK-SAME: ejk.needs = ["and", ["<", ["*", "B", "H"], 8], ["<", "T", 1024]], ejk.schedule = "chunk", ejk.two_terms}
// CHECK-LABEL: func.func @dynamic_vjp_direct(
// CHECK-NOT: ejk.two_terms
// CHECK-LABEL: func.func @dynamic_vjp(
// CHECK-SAME: ejk.schedule = "chunk"
// CHECK-NOT: ejk.two_terms
// CHANNELS: func.func @dynamic_vjp(
// ALWAYS: func.func @dynamic_vjp_direct({{.*}}ejk.two_terms
// ALWAYS: func.func @dynamic_vjp({{.*}}ejk.two_terms
// PROGRAMS-LABEL: func.func @dynamic_vjp_two_terms(
// PROGRAMS: tile.program {{.*}} saves(tensor<?x?x64x64xf32>)
// PROGRAMS: tile.program
// PROGRAMS-LABEL: func.func @dynamic_vjp_direct(
// PROGRAMS: tile.program {{.*}} saves(tensor<?x?x64x64xbf16>)
func.func @dynamic(%q: tensor<?x?x?x64xbf16>, %k: tensor<?x?x?x64xbf16>, %v: tensor<?x?x?x64xbf16>,
                   %g: tensor<?x?x?xf32>) -> tensor<?x?x?x64xbf16> {
  %o, %ht = ejk.gla %q, %k, %v g(%g : tensor<?x?x?xf32>)
      : tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>
      -> tensor<?x?x?x64xbf16>, tensor<?x?x64x64xf32>
  return %o : tensor<?x?x?x64xbf16>
}

// -----

// A parameter of heads has one number a head, whatever the batch.
// CHECK-LABEL: func.func @parameter_vjp_two_terms(
// CHECK-SAME: ejk.needs = ["and", ["<", "H", 8], ["<", "T", 1024]]
// CHANNELS: func.func @parameter_vjp(
func.func @parameter(%q: tensor<4x?x?x64xf16>, %k: tensor<4x?x?x64xf16>, %v: tensor<4x?x?x64xf16>,
                     %g: tensor<?xf32>) -> tensor<4x?x?x64xf16> {
  %o, %ht = ejk.gla %q, %k, %v g_gamma(%g : tensor<?xf32>)
      : tensor<4x?x?x64xf16>, tensor<4x?x?x64xf16>, tensor<4x?x?x64xf16>
      -> tensor<4x?x?x64xf16>, tensor<4x?x64x64xf32>
  return %o : tensor<4x?x?x64xf16>
}

// -----

// CHECK-NOT: @few_vjp_two_terms
// CHECK: func.func @few_vjp({{.*}}ejk.two_terms
// CHANNELS: func.func @few_vjp(
// PROGRAMS: func.func @few_vjp(
// PROGRAMS: tile.program {{.*}} saves(tensor<{{.*}}x3x64x64xf32>)
func.func @few(%q: tensor<2x100x3x64xbf16>, %k: tensor<2x100x3x64xbf16>, %v: tensor<2x100x3x64xbf16>,
               %g: tensor<2x100x3xbf16>) -> tensor<2x100x3x64xbf16> {
  %o, %ht = ejk.gla %q, %k, %v g(%g : tensor<2x100x3xbf16>)
      : tensor<2x100x3x64xbf16>, tensor<2x100x3x64xbf16>, tensor<2x100x3x64xbf16>
      -> tensor<2x100x3x64xbf16>, tensor<2x3x64x64xf32>
  return %o : tensor<2x100x3x64xbf16>
}

// -----

// CHECK: func.func @many_vjp(
// CHECK-NOT: ejk.two_terms
// CHANNELS: func.func @many_vjp(
func.func @many(%q: tensor<2x100x4x64xbf16>, %k: tensor<2x100x4x64xbf16>, %v: tensor<2x100x4x64xbf16>,
                %g: tensor<2x100x4xbf16>) -> tensor<2x100x4x64xbf16> {
  %o, %ht = ejk.gla %q, %k, %v g(%g : tensor<2x100x4xbf16>)
      : tensor<2x100x4x64xbf16>, tensor<2x100x4x64xbf16>, tensor<2x100x4x64xbf16>
      -> tensor<2x100x4x64xbf16>, tensor<2x4x64x64xf32>
  return %o : tensor<2x100x4x64xbf16>
}

// -----

// Over many rows errors average out.
// CHECK: func.func @long_vjp(
// CHECK-NOT: ejk.two_terms
// CHANNELS: func.func @long_vjp(
func.func @long(%q: tensor<1x1024x1x64xbf16>, %k: tensor<1x1024x1x64xbf16>, %v: tensor<1x1024x1x64xbf16>,
                %g: tensor<1xf32>) -> tensor<1x1024x1x64xbf16> {
  %o, %ht = ejk.gla %q, %k, %v g_gamma(%g : tensor<1xf32>)
      : tensor<1x1024x1x64xbf16>, tensor<1x1024x1x64xbf16>, tensor<1x1024x1x64xbf16>
      -> tensor<1x1024x1x64xbf16>, tensor<1x1x64x64xf32>
  return %o : tensor<1x1024x1x64xbf16>
}

// -----

// A gate of one channel has the gradient of a gate of a head.
// CHECK-LABEL: func.func @one_channel_vjp_two_terms(
// CHECK-SAME: ejk.needs = ["and", ["<", ["*", "B", "H"], 8], ["<", "T", 1024]]
// CHANNELS: func.func @one_channel_vjp(
func.func @one_channel(%q: tensor<?x?x?x1xf16>, %k: tensor<?x?x?x1xf16>, %v: tensor<?x?x?x48xf16>,
                       %gk: tensor<?x?x?x1xf32>) -> tensor<?x?x?x48xf16> {
  %o, %ht = ejk.recurrent %q, %k, %v gk(%gk : tensor<?x?x?x1xf32>)
      : tensor<?x?x?x1xf16>, tensor<?x?x?x1xf16>, tensor<?x?x?x48xf16>
      -> tensor<?x?x?x48xf16>, tensor<?x?x1x48xf32>
  return %o : tensor<?x?x?x48xf16>
}

// -----

// Gates of five channels of one head are few numbers, and of two heads many. The gradient comes from a step's own function.
// CHECK-LABEL: func.func @own_vjp_two_terms(
// CHECK-SAME: ejk.needs = ["and", ["<", ["*", "B", ["*", "{{.*}}", 5]], 8], ["<", "T", 1024]]
// CHANNELS: func.func @own_vjp(
func.func @own(%q: tensor<?x?x?x5xf16>, %k: tensor<?x?x?x5xf16>, %v: tensor<?x?x?x64xf16>,
               %x: tensor<?x?x?x5xf16>) -> tensor<?x?x?x64xf16> {
  %o, %ht = ejk.scan sequences(%q_t = %q : tensor<?x?x?x5xf16>, %k_t = %k : tensor<?x?x?x5xf16>,
                               %v_t = %v : tensor<?x?x?x64xf16>, %x_t = %x : tensor<?x?x?x5xf16>)
      states(%S = zero : tensor<?x?x5x64xf32>) -> (tensor<?x?x?x64xf16>) {
    %q_w = arith.extf %q_t : vector<5xf16> to vector<5xf32>
    %k_w = arith.extf %k_t : vector<5xf16> to vector<5xf32>
    %v_w = arith.extf %v_t : vector<64xf16> to vector<64xf32>
    %x_w = arith.extf %x_t : vector<5xf16> to vector<5xf32>
    %square = arith.mulf %x_w, %x_w : vector<5xf32>
    %gate = arith.negf %square : vector<5xf32>
    %S1 = ejk.decay %S by %gate along key : vector<5x64xf32>, vector<5xf32>
    %S2 = ejk.outer_add %S1, %k_w, %v_w : vector<5x64xf32>, vector<5xf32>, vector<64xf32>
    %o_w = ejk.read %S2, %q_w along key : vector<5x64xf32>, vector<5xf32>
    %o_t = arith.truncf %o_w : vector<64xf32> to vector<64xf16>
    ejk.yield states(%S2 : vector<5x64xf32>) outputs(%o_t : vector<64xf16>)
  }
  return %o : tensor<?x?x?x64xf16>
}

// -----

// A gradient of channels has many numbers, and rows of f32 are not rounded.
// CHECK: func.func @channels_vjp(
// CHECK-NOT: ejk.two_terms
// ALWAYS: func.func @channels_vjp(
// ALWAYS-NOT: ejk.two_terms
// CHANNELS: func.func @channels_vjp(
func.func @channels(%q: tensor<1x?x1x64xbf16>, %k: tensor<1x?x1x64xbf16>, %v: tensor<1x?x1x64xbf16>,
                    %gk: tensor<1x?x1x64xbf16>) -> tensor<1x?x1x64xbf16> {
  %o, %ht = ejk.recurrent %q, %k, %v gk(%gk : tensor<1x?x1x64xbf16>)
      : tensor<1x?x1x64xbf16>, tensor<1x?x1x64xbf16>, tensor<1x?x1x64xbf16>
      -> tensor<1x?x1x64xbf16>, tensor<1x1x64x64xf32>
  return %o : tensor<1x?x1x64xbf16>
}

// -----

// CHECK: func.func @f32_vjp(
// CHECK-NOT: ejk.two_terms
// CHANNELS: func.func @f32_vjp(
func.func @f32(%q: tensor<1x?x1x64xf32>, %k: tensor<1x?x1x64xf32>, %v: tensor<1x?x1x64xf32>,
               %g: tensor<1x?x1xf32>) -> tensor<1x?x1x64xf32> {
  %o, %ht = ejk.gla %q, %k, %v g(%g : tensor<1x?x1xf32>)
      : tensor<1x?x1x64xf32>, tensor<1x?x1x64xf32>, tensor<1x?x1x64xf32>
      -> tensor<1x?x1x64xf32>, tensor<1x1x64x64xf32>
  return %o : tensor<1x?x1x64xf32>
}

// -----

// Every gradient of a recurrence that corrects its state is computed so where heads are few, even without a gate. What
// it computes forward is not.
// CHECK-LABEL: func.func @delta(
// CHECK-NOT: ejk.two_terms
// CHECK-LABEL: func.func @delta_vjp_two_terms(
// However many rows there are: the errors of a head's rows add up.
// CHECK-SAME: ejk.needs = ["<", ["*", "B", "Hv"], 8], ejk.schedule = "chunk", ejk.two_terms}
// CHECK-LABEL: func.func @delta_vjp(
// CHECK-NOT: ejk.two_terms
// Nor would long sequences of few heads fill a device: the copy is split over time, in segments that are short.
// SPLIT-LABEL: func.func @delta_vjp_two_terms_split(
// SPLIT-SAME: ejk.needs = ["<", ["*", "B", "Hv"], 8], ejk.schedule = "split", ejk.two_terms, ejk.when = ["and", [">=", "T", 1024],
// SPLIT: ejk.scan segments<64 to 1024, at_least 16>
// SPLIT-LABEL: func.func @delta_vjp_two_terms(
// SPLIT-SAME: ejk.needs = ["<", ["*", "B", "Hv"], 8], ejk.schedule = "chunk", ejk.two_terms
// SPLIT: ejk.scan segments<whole>
// SPLIT-NOT: segments<{{[0-9]}}
// SPLIT-LABEL: func.func @delta_vjp_fine_split
// CHANNELS: func.func @delta_vjp(
// ALWAYS: func.func @f32_vjp(
// ALWAYS: func.func @delta_vjp({{.*}}ejk.two_terms
// PROGRAMS-LABEL: func.func @delta_vjp_two_terms(
// PROGRAMS: tile.program {{.*}} corrects
// PROGRAMS: tile.program {{.*}} corrects
// PROGRAMS: tile.program {{.*}} corrects
// The last one, too, which reads with the cotangents of what was added.
// PROGRAMS: tile.program {{.*}} corrects
// PROGRAMS-LABEL: func.func @delta_vjp(
func.func @delta(%q: tensor<?x?x?x64xbf16>, %k: tensor<?x?x?x64xbf16>, %v: tensor<?x?x?x64xbf16>,
                 %beta: tensor<?x?x?xbf16>) -> tensor<?x?x?x64xbf16> {
  %o, %ht = ejk.delta_rule %q, %k, %v beta(%beta : tensor<?x?x?xbf16>)
      : tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>
      -> tensor<?x?x?x64xbf16>, tensor<?x?x64x64xf32>
  return %o : tensor<?x?x?x64xbf16>
}
