// RUN: ejk-opt %s --ejk-backward --ejk-narrow-saves | FileCheck %s
// A final state in a saved state's place is left alone.
// RUN: ejk-opt %s --ejk-backward | sed 's/\(saved([^ ]* = .\)saves/\1final_states/' >%t.mlir
// RUN: ejk-opt %t.mlir --ejk-narrow-saves | FileCheck %s --check-prefix=FINAL
// FINAL: saved(%{{.*}} = %final_states : tensor<?x?x48x48xf32>)

// CHECK-LABEL: func.func @narrow_vjp(
// CHECK:         %[[S:.*]] = ejk.scan save_every 64
// CHECK:           saves(tensor<?x?x48x48xbf16>)
// CHECK:         ejk.scan reverse save_every 64
// CHECK:           saved(%{{.*}} = %{{.*}} : tensor<?x?x48x48xbf16>)
func.func @narrow(%q: tensor<?x?x?x48xf16>, %k: tensor<?x?x?x48xf16>, %v: tensor<?x?x?x48xf16>,
                  %g: tensor<?x?x?xf32>) -> tensor<?x?x?x48xf16> {
  %o, %ht = ejk.recurrent %q, %k, %v g(%g : tensor<?x?x?xf32>)
      : tensor<?x?x?x48xf16>, tensor<?x?x?x48xf16>, tensor<?x?x?x48xf16>
      -> tensor<?x?x?x48xf16>, tensor<?x?x48x48xf32>
  return %o : tensor<?x?x?x48xf16>
}

// Of few channels, where products round next to nothing, they stay f32.
// CHECK-LABEL: func.func @few_vjp(
// CHECK:         %[[S:.*]] = ejk.scan save_every 64
// CHECK:           saves(tensor<?x?x32x32xf32>)
// CHECK:         ejk.scan reverse save_every 64
// CHECK:           saved(%{{.*}} = %{{.*}} : tensor<?x?x32x32xf32>)
func.func @few(%q: tensor<?x?x?x32xf16>, %k: tensor<?x?x?x32xf16>, %v: tensor<?x?x?x32xf16>,
                  %g: tensor<?x?x?xf32>) -> tensor<?x?x?x32xf16> {
  %o, %ht = ejk.recurrent %q, %k, %v g(%g : tensor<?x?x?xf32>)
      : tensor<?x?x?x32xf16>, tensor<?x?x?x32xf16>, tensor<?x?x?x32xf16>
      -> tensor<?x?x?x32xf16>, tensor<?x?x32x32xf32>
  return %o : tensor<?x?x?x32xf16>
}

// So do those of few channels along one axis, where a gate is a number per head.
// CHECK-LABEL: func.func @few_keys_vjp(
// CHECK:           saves(tensor<?x?x32x128xf32>)
// CHECK:           saved(%{{.*}} = %{{.*}} : tensor<?x?x32x128xf32>)
func.func @few_keys(%q: tensor<?x?x?x32xf16>, %k: tensor<?x?x?x32xf16>, %v: tensor<?x?x?x128xf16>,
                    %g: tensor<?x?x?xf32>) -> tensor<?x?x?x128xf16> {
  %o, %ht = ejk.recurrent %q, %k, %v g(%g : tensor<?x?x?xf32>)
      : tensor<?x?x?x32xf16>, tensor<?x?x?x32xf16>, tensor<?x?x?x128xf16>
      -> tensor<?x?x?x128xf16>, tensor<?x?x32x128xf32>
  return %o : tensor<?x?x?x128xf16>
}

// A gate of channels has a gradient of many numbers.
// CHECK-LABEL: func.func @few_keys_gated_vjp(
// CHECK:           saves(tensor<?x?x32x64xbf16>)
func.func @few_keys_gated(%q: tensor<?x?x?x32xf16>, %k: tensor<?x?x?x32xf16>, %v: tensor<?x?x?x64xf16>,
                          %gk: tensor<?x?x?x32xf16>) -> tensor<?x?x?x64xf16> {
  %o, %ht = ejk.recurrent %q, %k, %v gk(%gk : tensor<?x?x?x32xf16>)
      : tensor<?x?x?x32xf16>, tensor<?x?x?x32xf16>, tensor<?x?x?x64xf16>
      -> tensor<?x?x?x64xf16>, tensor<?x?x32x64xf32>
  return %o : tensor<?x?x?x64xf16>
}

// What is f32 stays f32.
// CHECK-LABEL: func.func @wide_vjp(
// CHECK-NOT:     bf16
// CHECK:         return
func.func @wide(%q: tensor<?x?x?x32xf32>, %k: tensor<?x?x?x32xf32>, %v: tensor<?x?x?x32xf32>,
                %g: tensor<?x?x?xf32>) -> tensor<?x?x?x32xf32> {
  %o, %ht = ejk.recurrent %q, %k, %v g(%g : tensor<?x?x?xf32>)
      : tensor<?x?x?x32xf32>, tensor<?x?x?x32xf32>, tensor<?x?x?x32xf32>
      -> tensor<?x?x?x32xf32>, tensor<?x?x32x32xf32>
  return %o : tensor<?x?x?x32xf32>
}

// The caller's own tensor has the type that the caller gave it.
// CHECK-LABEL: func.func private @returned(
// CHECK:         saves(tensor<?x?x32x32xf32>)
func.func private @returned(%k: tensor<?x?x?x32xbf16>) -> tensor<?x?x32x32xf32> {
  %a, %s = ejk.scan save_every 64 sequences(%kt = %k : tensor<?x?x?x32xbf16>)
      states(%A = zero : tensor<?x?x32x32xf32>) saves(tensor<?x?x32x32xf32>) {
    %w = arith.extf %kt : vector<32xbf16> to vector<32xf32>
    %A1 = ejk.outer_add %A, %w, %w : vector<32x32xf32>, vector<32xf32>, vector<32xf32>
    ejk.yield states(%A1 : vector<32x32xf32>) saves(%A : vector<32x32xf32>)
  }
  return %s : tensor<?x?x32x32xf32>
}
