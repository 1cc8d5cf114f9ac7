// How often the states are saved that gates' gradients start anew from: for every 128 rows,
// but for every chunk where they are wanted more often, where gates of both axes make chunks
// short, for a parameter's gradient, in which their errors add up, and where the final state
// has a cotangent.
// RUN: ejk-opt %s --ejk-backward=function=key --ejk-chunk-to-fit=arch=sm_90a | FileCheck %s --check-prefix=TWO
// RUN: ejk-opt %s --ejk-backward="function=key checkpoint-every=32" --ejk-chunk-to-fit=arch=sm_90a | FileCheck %s --check-prefix=ONE
// RUN: ejk-opt %s --ejk-backward=function=both --ejk-chunk-to-fit=arch=sm_90a | FileCheck %s --check-prefix=SHORT
// RUN: ejk-opt %s --ejk-backward=function=parameter --ejk-chunk-to-fit=arch=sm_90a | FileCheck %s --check-prefix=ONE
// RUN: ejk-opt %s --ejk-backward=function=head --ejk-chunk-to-fit=arch=sm_90a | FileCheck %s --check-prefix=TWO
// RUN: ejk-opt %s --ejk-backward=function=final --ejk-chunk-to-fit=arch=sm_90a | FileCheck %s --check-prefix=ONE

// TWO-COUNT-2: tile.program chunk 64 save_every 128
// ONE-COUNT-2: tile.program chunk 64 save_every 64
// SHORT-COUNT-2: tile.program chunk 32 save_every 32
func.func @key(%q: tensor<?x?x4x64xbf16>, %k: tensor<?x?x4x64xbf16>, %v: tensor<?x?x4x64xbf16>,
               %gk: tensor<?x?x4x64xbf16>) -> tensor<?x?x4x64xbf16> {
  %o, %ht = ejk.recurrent %q, %k, %v gk(%gk : tensor<?x?x4x64xbf16>)
      : tensor<?x?x4x64xbf16>, tensor<?x?x4x64xbf16>, tensor<?x?x4x64xbf16>
      -> tensor<?x?x4x64xbf16>, tensor<?x4x64x64xf32>
  return %o : tensor<?x?x4x64xbf16>
}
func.func @both(%q: tensor<?x?x4x64xbf16>, %k: tensor<?x?x4x64xbf16>, %v: tensor<?x?x4x64xbf16>,
                %gk: tensor<?x?x4x64xbf16>, %gv: tensor<?x?x4x64xbf16>) -> tensor<?x?x4x64xbf16> {
  %o, %ht = ejk.recurrent %q, %k, %v gk(%gk : tensor<?x?x4x64xbf16>) gv(%gv : tensor<?x?x4x64xbf16>)
      : tensor<?x?x4x64xbf16>, tensor<?x?x4x64xbf16>, tensor<?x?x4x64xbf16>
      -> tensor<?x?x4x64xbf16>, tensor<?x4x64x64xf32>
  return %o : tensor<?x?x4x64xbf16>
}
func.func @parameter(%q: tensor<?x?x4x64xbf16>, %k: tensor<?x?x4x64xbf16>,
                     %v: tensor<?x?x4x64xbf16>, %gamma: tensor<4xf32>) -> tensor<?x?x4x64xbf16> {
  %o, %ht = ejk.recurrent %q, %k, %v g_gamma(%gamma : tensor<4xf32>)
      : tensor<?x?x4x64xbf16>, tensor<?x?x4x64xbf16>, tensor<?x?x4x64xbf16>
      -> tensor<?x?x4x64xbf16>, tensor<?x4x64x64xf32>
  return %o : tensor<?x?x4x64xbf16>
}
func.func @head(%q: tensor<?x?x4x64xbf16>, %k: tensor<?x?x4x64xbf16>, %v: tensor<?x?x4x64xbf16>,
                %g: tensor<?x?x4xf32>) -> tensor<?x?x4x64xbf16> {
  %o, %ht = ejk.recurrent %q, %k, %v g(%g : tensor<?x?x4xf32>)
      : tensor<?x?x4x64xbf16>, tensor<?x?x4x64xbf16>, tensor<?x?x4x64xbf16>
      -> tensor<?x?x4x64xbf16>, tensor<?x4x64x64xf32>
  return %o : tensor<?x?x4x64xbf16>
}
func.func @final(%q: tensor<?x?x4x64xbf16>, %k: tensor<?x?x4x64xbf16>, %v: tensor<?x?x4x64xbf16>,
                 %g: tensor<?x?x4xf32>) -> (tensor<?x?x4x64xbf16>, tensor<?x4x64x64xf32>) {
  %o, %ht = ejk.recurrent %q, %k, %v g(%g : tensor<?x?x4xf32>)
      : tensor<?x?x4x64xbf16>, tensor<?x?x4x64xbf16>, tensor<?x?x4x64xbf16>
      -> tensor<?x?x4x64xbf16>, tensor<?x4x64x64xf32>
  return %o, %ht : tensor<?x?x4x64xbf16>, tensor<?x4x64x64xf32>
}
