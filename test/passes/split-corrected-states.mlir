// RUN: ejk-opt %s --ejk-split-over-time='least=4 most=8 count=2 packed=4' --verify-diagnostics | FileCheck %s
// RUN: ejk-opt %s --ejk-split-over-time='least=4 most=8 count=2 packed=4 forget=-2 trailing=4' | FileCheck %s --check-prefix=FORGET

// Each segment from zero; its transition, a scan of the same step from the identity, in which nothing
// is added that does not depend on the state; the states that segments start from; the segments from
// there.
// CHECK-LABEL: func.func @delta(
// CHECK-SAME:    %[[K:[a-z0-9]+]]: tensor<?x?x?x4xf32> {ejk.shape = ["B", "T", "Hk", "4"]}, %[[V:[a-z0-9]+]]:
// CHECK:         %[[ZEROS:.*]] = linalg.fill
// CHECK:         %[[TOTALS:.*]] = ejk.scan segments<4 to 8, at_least 2>
// CHECK-SAME:      {{$}}
// CHECK:           states(%{{.*}} = %[[ZEROS]] : tensor<?x?x4x3xf32>)
// CHECK:         %[[IDENTITY:.*]] = linalg.generic
// CHECK:           arith.cmpi eq
// CHECK:         %[[TRANSITIONS:.*]] = ejk.scan segments<4 to 8, at_least 2>
// CHECK-NOT:       = %[[V]] :
// CHECK:           states(%[[M:.*]] = %[[IDENTITY]] : tensor<?x?x4x4xf32>)
// CHECK:           %[[M1:.*]] = ejk.decay %[[M]] by
// CHECK:           %[[SEEN:.*]] = ejk.read %[[M1]]
// CHECK:           %[[U:.*]] = arith.mulf %{{.*}}, %[[SEEN]] : vector<4xf32>
// CHECK:           ejk.outer_add %[[M1]], %{{.*}}, %[[U]] : vector<4x4xf32>
// CHECK:         %[[STARTS:.*]], %[[HT:.*]] = ejk.combine_segments %[[TOTALS]] by %[[TRANSITIONS]] from %[[H0:[a-z0-9]+]] : tensor<?x?x4x3xf32> like %[[V]]
// CHECK:         %[[O:.*]], %{{.*}} = ejk.scan segments<4 to 8, at_least 2>
// CHECK:           states(%{{.*}} = %[[STARTS]] : tensor<?x?x4x3xf32>)
// CHECK:         return %[[O]], %[[HT]]
func.func @delta(%k: tensor<?x?x?x4xf32> {ejk.shape = ["B", "T", "Hk", "4"]},
                 %v: tensor<?x?x?x3xf32> {ejk.shape = ["B", "T", "Hv", "3"]},
                 %g: tensor<?x?x?xf32> {ejk.shape = ["B", "T", "Hv"]}, %h0: tensor<?x?x4x3xf32>)
    -> (tensor<?x?x?x3xf32>, tensor<?x?x4x3xf32>) {
  %o, %ht = ejk.scan
      sequences(%vt = %v : tensor<?x?x?x3xf32>, %kt = %k : tensor<?x?x?x4xf32>,
                %gt = %g : tensor<?x?x?xf32>)
      states(%S = %h0 : tensor<?x?x4x3xf32>) -> (tensor<?x?x?x3xf32>) {
    %S1 = ejk.decay %S by %gt along head : vector<4x3xf32>, f32
    %r = ejk.read %S1, %kt along key : vector<4x3xf32>, vector<4xf32>
    %u = arith.subf %vt, %r : vector<3xf32>
    %S2 = ejk.outer_add %S1, %kt, %u : vector<4x3xf32>, vector<4xf32>, vector<3xf32>
    ejk.yield states(%S2 : vector<4x3xf32>) outputs(%r : vector<3xf32>)
  }
  return %o, %ht : tensor<?x?x?x3xf32>, tensor<?x?x4x3xf32>
}

// A scan that gets as rows what the first one has read goes through the same states: they are not
// computed once more.
// CHECK-LABEL: func.func @again(
// CHECK-COUNT-2: ejk.scan
// CHECK:         %[[STARTS:.*]], %[[HT:.*]] = ejk.combine_segments
// CHECK:         %[[R:.*]], %{{.*}} = ejk.scan segments<4 to 8, at_least 2>
// CHECK:           states(%{{.*}} = %[[STARTS]]
// CHECK:         ejk.scan segments<4 to 8, at_least 2>
// CHECK:           = %[[R]] :
// CHECK:           states(%{{.*}} = %[[STARTS]]
// CHECK-NOT:     ejk.scan
// CHECK:         return %{{.*}}, %[[HT]]
func.func @again(%k: tensor<2x21x3x4xf32>, %v: tensor<2x21x3x4xf32>)
    -> (tensor<2x21x3x4xf32>, tensor<2x3x4x4xf32>) {
  %r, %end = ejk.scan
      sequences(%vt = %v : tensor<2x21x3x4xf32>, %kt = %k : tensor<2x21x3x4xf32>)
      states(%S = zero : tensor<2x3x4x4xf32>) -> (tensor<2x21x3x4xf32>) {
    %seen = ejk.read %S, %kt along key : vector<4x4xf32>, vector<4xf32>
    %u = arith.subf %vt, %seen : vector<4xf32>
    %S2 = ejk.outer_add %S, %kt, %u : vector<4x4xf32>, vector<4xf32>, vector<4xf32>
    ejk.yield states(%S2 : vector<4x4xf32>) outputs(%seen : vector<4xf32>)
  }
  %o, %ht = ejk.scan
      sequences(%vt = %v : tensor<2x21x3x4xf32>, %kt = %k : tensor<2x21x3x4xf32>,
                %seen = %r : tensor<2x21x3x4xf32>)
      states(%S = zero : tensor<2x3x4x4xf32>) -> (tensor<2x21x3x4xf32>) {
    %u = arith.subf %vt, %seen : vector<4xf32>
    %S2 = ejk.outer_add %S, %kt, %u corrects : vector<4x4xf32>, vector<4xf32>, vector<4xf32>
    %out = ejk.read %S2, %vt along value : vector<4x4xf32>, vector<4xf32>
    ejk.yield states(%S2 : vector<4x4xf32>) outputs(%out : vector<4xf32>)
  }
  return %o, %ht : tensor<2x21x3x4xf32>, tensor<2x3x4x4xf32>
}

// Gates that forget: the transitions of each segment's last rows, and their norms in units of 2^-25; then the
// totals of these rows where they are all that counts, and no transition.
// FORGET-LABEL: func.func @forgets(
// FORGET:         %[[NONE:.*]] = linalg.fill
// FORGET:         %[[LAST:.*]] = ejk.scan segments<4 to 8, at_least 2> trailing 4 where(%[[NONE]] : tensor<6x3xf32>)
// FORGET:         %[[ROWS:.*]] = linalg.generic {{.*}} ins(%[[LAST]] : tensor<6x3x4x4xf32>)
// FORGET:           arith.constant 0x4C000000 : f32
// FORGET:         %[[R:.*]] = linalg.generic {{.*}} ins(%[[ROWS]] : tensor<6x3x4xf32>)
// FORGET:         %[[X:.*]] = ejk.scan segments<4 to 8, at_least 2> trailing 4 where(%[[R]] : tensor<6x3xf32>)
// FORGET:         %[[M:.*]] = ejk.scan segments<4 to 8, at_least 2> trailing 4 where(%[[R]] : tensor<6x3xf32>)
// FORGET:         ejk.combine_segments %[[X]] by %[[M]] where(%[[R]] : tensor<6x3xf32>) like
// CHECK-LABEL:  func.func @forgets(
// CHECK-NOT:      trailing
func.func @forgets(%k: tensor<2x21x3x4xf32>, %v: tensor<2x21x3x4xf32>, %g: tensor<2x21x3xf32>)
    -> tensor<2x21x3x4xf32> {
  %o, %ht = ejk.scan
      sequences(%vt = %v : tensor<2x21x3x4xf32>, %kt = %k : tensor<2x21x3x4xf32>, %gt = %g : tensor<2x21x3xf32>)
      states(%S = zero : tensor<2x3x4x4xf32>) -> (tensor<2x21x3x4xf32>) {
    %low = arith.constant -5.0 : f32
    %zero = arith.constant 0.0 : f32
    %gate = math.clampf %gt to [%low, %zero] : f32
    %S1 = ejk.decay %S by %gate along head : vector<4x4xf32>, f32
    %r = ejk.read %S1, %kt along key : vector<4x4xf32>, vector<4xf32>
    %u = arith.subf %vt, %r : vector<4xf32>
    %S2 = ejk.outer_add %S1, %kt, %u : vector<4x4xf32>, vector<4xf32>, vector<4xf32>
    ejk.yield states(%S2 : vector<4x4xf32>) outputs(%r : vector<4xf32>)
  }
  return %o : tensor<2x21x3x4xf32>
}
