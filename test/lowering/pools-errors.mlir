// RUN: ejk-opt %s --split-input-file --ejk-specialize --ejk-to-gpu --verify-diagnostics

// A pool is written in its place, which is the caller's.
func.func @not_returned(%states: tensor<3x1x4x4xf32>, %pool: tensor<9x1x4x4xf32>,
                        %index: tensor<3xi32>) -> tensor<3x1x4x4xf32> {
  // expected-error@+1 {{a pool that is written must be returned, for its caller's memory is written}}
  %0 = ejk.write_states %states to %pool at %index
      : tensor<3x1x4x4xf32>, tensor<9x1x4x4xf32>, tensor<3xi32>
  %1 = ejk.read_states %0 at %index
      : tensor<9x1x4x4xf32>, tensor<3xi32> -> tensor<3x1x4x4xf32>
  return %1 : tensor<3x1x4x4xf32>
}

// -----

func.func @read_late(%states: tensor<3x1x4x4xf32>, %pool: tensor<9x1x4x4xf32>,
                     %index: tensor<3xi32>) -> (tensor<9x1x4x4xf32>, tensor<3x1x4x4xf32>) {
  // expected-note@+1 {{it is written here}}
  %0 = ejk.write_states %states to %pool at %index
      : tensor<3x1x4x4xf32>, tensor<9x1x4x4xf32>, tensor<3xi32>
  // expected-error@+1 {{reads a pool that has been written in its place}}
  %1 = ejk.read_states %pool at %index
      : tensor<9x1x4x4xf32>, tensor<3xi32> -> tensor<3x1x4x4xf32>
  return %0, %1 : tensor<9x1x4x4xf32>, tensor<3x1x4x4xf32>
}
