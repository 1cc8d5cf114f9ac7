// RUN: ejk-opt %s --ejk-describe-interface | FileCheck %s
// RUN: ejk-opt %s --ejk-describe-interface --ejk-describe-interface | FileCheck %s
// A function that says something of itself gets what it does not say. What it asks of callers stays.

// CHECK-LABEL: @named(
// CHECK-SAME: %{{.*}}: tensor<?xf32> {ejk.name = "arg0", ejk.shape = ["d0"]}
// CHECK-SAME: -> (tensor<?xf32> {ejk.name = "out0", ejk.shape = ["d0"]})
// CHECK-SAME: ejk.constraints = []
func.func @named(%a: tensor<?xf32>) -> tensor<?xf32> attributes {ejk.constraints = []} {
  %0 = math.exp %a : tensor<?xf32>
  return %0 : tensor<?xf32>
}

// CHECK-LABEL: @heads(
// CHECK-SAME: attributes {ejk.constraints = [
// CHECK-SAME: {divisor = "8", message = "B must be full", size = "B"},
// CHECK-SAME: {divisor = "Hkv", message = "{{.*}}", size = "H"}]}
func.func @heads(%q: tensor<?x?x?x4xf32>, %k: tensor<?x?x?x4xf32>) -> tensor<?x?x?x4xf32>
    attributes {ejk.constraints = [{divisor = "8", message = "B must be full", size = "B"}]} {
  %o, %ht = ejk.recurrent %q, %k, %k
      : tensor<?x?x?x4xf32>, tensor<?x?x?x4xf32>, tensor<?x?x?x4xf32>
      -> tensor<?x?x?x4xf32>, tensor<?x?x4x4xf32>
  return %o : tensor<?x?x?x4xf32>
}

// What is no tensor has no sizes.
// CHECK-LABEL: @vectors(
// CHECK-SAME: %{{.*}}: vector<4xf32> {ejk.name = "arg0", ejk.shape = []}
func.func @vectors(%a: vector<4xf32>) -> vector<4xf32> {
  return %a : vector<4xf32>
}
