// Where a final state may take its initial state's place.
// RUN: ejk-opt %s --split-input-file --ejk-specialize --ejk-to-gpu | FileCheck %s
// RUN: ejk-opt %s --split-input-file --ejk-specialize "--ejk-to-gpu=schedule=chunk arch=sm_90a" | FileCheck %s

// Nothing else reads it.
// CHECK-LABEL: func.func @alone(
// CHECK: ejk.may_alias = 3
func.func @alone(%q: tensor<?x?x?x64xbf16>, %k: tensor<?x?x?x64xbf16>, %v: tensor<?x?x?x64xbf16>,
                 %h0: tensor<?x?x64x64xf32>) -> (tensor<?x?x?x64xbf16>, tensor<?x?x64x64xf32>) {
  %o, %ht = ejk.recurrent %q, %k, %v initial_state(%h0 : tensor<?x?x64x64xf32>)
      : tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>
      -> tensor<?x?x?x64xbf16>, tensor<?x?x64x64xf32>
  return %o, %ht : tensor<?x?x?x64xbf16>, tensor<?x?x64x64xf32>
}

// -----

// A second recurrence starts from the same state: the first would overwrite what it has yet to read.
// CHECK-LABEL: func.func @two_recurrences(
// CHECK-NOT: may_alias
// CHECK: gpu.launch_func
func.func @two_recurrences(%q: tensor<?x?x?x64xbf16>, %k: tensor<?x?x?x64xbf16>,
                           %v: tensor<?x?x?x64xbf16>, %h0: tensor<?x?x64x64xf32>)
    -> (tensor<?x?x?x64xbf16>, tensor<?x?x64x64xf32>, tensor<?x?x?x64xbf16>, tensor<?x?x64x64xf32>) {
  %o, %ht = ejk.recurrent %q, %k, %v initial_state(%h0 : tensor<?x?x64x64xf32>)
      : tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>
      -> tensor<?x?x?x64xbf16>, tensor<?x?x64x64xf32>
  %o2, %ht2 = ejk.recurrent reverse %q, %k, %v initial_state(%h0 : tensor<?x?x64x64xf32>)
      : tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>
      -> tensor<?x?x?x64xbf16>, tensor<?x?x64x64xf32>
  return %o, %ht, %o2, %ht2
      : tensor<?x?x?x64xbf16>, tensor<?x?x64x64xf32>, tensor<?x?x?x64xbf16>, tensor<?x?x64x64xf32>
}

// -----

// An elementwise op reads it after the recurrence.
// CHECK-LABEL: func.func @elementwise_reader(
// CHECK-NOT: may_alias
// CHECK: gpu.launch_func
func.func @elementwise_reader(%q: tensor<?x?x?x64xbf16>, %k: tensor<?x?x?x64xbf16>,
                              %v: tensor<?x?x?x64xbf16>, %h0: tensor<?x?x64x64xf32>)
    -> (tensor<?x?x64x64xf32>, tensor<?x?x64x64xf32>) {
  %o, %ht = ejk.recurrent %q, %k, %v initial_state(%h0 : tensor<?x?x64x64xf32>)
      : tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>
      -> tensor<?x?x?x64xbf16>, tensor<?x?x64x64xf32>
  %moved = arith.subf %ht, %h0 : tensor<?x?x64x64xf32>
  return %ht, %moved : tensor<?x?x64x64xf32>, tensor<?x?x64x64xf32>
}

// -----

// It is a result, too, and is copied there after the recurrence.
// CHECK-LABEL: func.func @returned(
// CHECK-NOT: may_alias
// CHECK: gpu.launch_func
func.func @returned(%q: tensor<?x?x?x64xbf16>, %k: tensor<?x?x?x64xbf16>,
                    %v: tensor<?x?x?x64xbf16>, %h0: tensor<?x?x64x64xf32>)
    -> (tensor<?x?x64x64xf32>, tensor<?x?x64x64xf32>) {
  %o, %ht = ejk.recurrent %q, %k, %v initial_state(%h0 : tensor<?x?x64x64xf32>)
      : tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>
      -> tensor<?x?x?x64xbf16>, tensor<?x?x64x64xf32>
  return %ht, %h0 : tensor<?x?x64x64xf32>, tensor<?x?x64x64xf32>
}
