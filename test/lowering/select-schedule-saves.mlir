// The states that gates' gradients start anew from: every chunk's own, or those that were
// asked for, in 16 bits too.
// RUN: ejk-opt %s --ejk-backward=function=key --ejk-select-schedule=arch=sm_90a | FileCheck %s --check-prefix=OWN
// RUN: ejk-opt %s --ejk-backward="function=key checkpoint-every=32" --ejk-select-schedule=arch=sm_90a | FileCheck %s --check-prefix=OWN
// RUN: ejk-opt %s --ejk-backward="function=key checkpoint-every=256" --ejk-select-schedule=arch=sm_90a | FileCheck %s --check-prefix=SEVERAL
// RUN: ejk-opt %s --ejk-backward=function=both --ejk-select-schedule=arch=sm_90a | FileCheck %s --check-prefix=SHORT

// OWN: tile.program chunk 64 save_every 64
// OWN-SAME: saves(tensor<?x4x64x64xbf16>)
// OWN: tile.program chunk 64 save_every 64
// SEVERAL: tile.program chunk 64 save_every 256
// SEVERAL-SAME: saves(tensor<?x4x64x64xbf16>)
// SEVERAL: tile.program chunk 64 save_every 256
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
