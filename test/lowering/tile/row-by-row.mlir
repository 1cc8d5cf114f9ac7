// Matrices that a loop makes row by row: in one place in shared memory where it suffices, in
// registers where it does not, or where the loop does something else with them.
// RUN: ejk-opt %s --ejk-assign-tile-layouts=arch=sm_90a | FileCheck %s
// RUN: ejk-opt %s --ejk-assign-tile-layouts=arch=sm_90a --ejk-select-stages=arch=sm_90a | FileCheck %s --check-prefix=FIT
// RUN: env EJK_CUDA_DRIVER=%emulated-cuda ejk-run --schedule=step %s --entry=rows --device=cuda --arch=sm_90a --random B=1,T=100,H=2 --check
// RUN: env EJK_CUDA_DRIVER=%emulated-cuda ejk-run --schedule=step %s --entry=rows --device=cuda --arch=sm_80 --random B=1,T=100,H=2 --check
// RUN: env EJK_CUDA_DRIVER=%emulated-cuda ejk-run --schedule=step %s --entry=large --device=cuda --arch=sm_90a --random B=1,T=70,H=1 --check

// CHECK-LABEL: func.func @rows(
// CHECK:         %[[START:.*]] = tile.convert %{{.*}} to <shared> : vector<64x64xf32>
// CHECK-NEXT:    scf.for {{.*}} = %[[START]]
// CHECK:           vector.insert {{.*}}tile.layout<shared>
// CHECK:         vector.insert {{.*}}fragments over
// Its old row is taken, too: it is no place to put rows into alone.
// CHECK:           vector.insert {{.*}}fragments over
// FIT-LABEL: func.func @rows(
// FIT:           vector.insert {{.*}}tile.layout<shared>
func.func @rows(%q: tensor<?x?x?x64xbf16>) -> (tensor<?x?x?x64xbf16>, tensor<?x?x?x64xf32>) {
  %o, %p = tile.program chunk 64 slices 1 sequences(%q : tensor<?x?x?x64xbf16>)
      outputs(tensor<?x?x?x64xbf16>, tensor<?x?x?x64xf32>) {
  ^bb0(%qr: !tile.rows<vector<64xbf16>>, %or: !tile.rows<vector<64xbf16>>, %pr: !tile.rows<vector<64xf32>>,
       %length: index, %slice: index, %head: index, %heads: index):
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c7 = arith.constant 7 : index
    %c63 = arith.constant 63 : index
    %c64 = arith.constant 64 : index
    %ones = arith.constant dense<1.0> : vector<64x64xf32>
    %zeros = arith.constant dense<0.0> : vector<64x64xf32>
    %n = arith.ceildivui %length, %c64 : index
    scf.for %i = %c0 to %n step %c1 {
      %first = arith.muli %i, %c64 : index
      %k = tile.load %qr[%first, %c0] : !tile.rows<vector<64xbf16>> -> vector<64x64xbf16>
      %a = tile.dot %k, %k transposed, %zeros : vector<64x64xbf16>, vector<64x64xbf16>, vector<64x64xf32>
      %left = arith.subi %length, %first : index
      %count = arith.minsi %left, %c64 : index
      // The others keep what they start with.
      %made = scf.for %r = %c0 to %count step %c1 iter_args(%m = %ones) -> vector<64x64xf32> {
        %at = arith.subi %c63, %r : index
        %x = vector.extract %k[%r] : vector<64xbf16> from vector<64x64xbf16>
        %w = arith.extf %x : vector<64xbf16> to vector<64xf32>
        %s = tile.broadcast %w along 0 : vector<64xf32> -> vector<64x64xf32>
        %as = arith.mulf %a, %s : vector<64x64xf32>
        %sum = tile.sum %as over 1 : vector<64x64xf32> -> vector<64xf32>
        %next = vector.insert %sum, %m[%at] : vector<64xf32> into vector<64x64xf32>
        scf.yield %next : vector<64x64xf32>
      }
      %row = vector.extract %made[11] : vector<64xf32> from vector<64x64xf32>
      %both = arith.addf %made, %a : vector<64x64xf32>
      %put = vector.insert %row, %both[%c7] : vector<64xf32> into vector<64x64xf32>
      %swapped = scf.for %r = %c0 to %c7 step %c1 iter_args(%m = %put) -> vector<64x64xf32> {
        %old = vector.extract %m[%r] : vector<64xf32> from vector<64x64xf32>
        %new = arith.mulf %old, %row : vector<64xf32>
        %next = vector.insert %new, %m[%r] : vector<64xf32> into vector<64x64xf32>
        scf.yield %next : vector<64x64xf32>
      }
      %round = arith.truncf %swapped : vector<64x64xf32> to vector<64x64xbf16>
      tile.store %round, %or[%first, %c0] : vector<64x64xbf16>, !tile.rows<vector<64xbf16>>
      tile.store %made, %pr[%first, %c0] : vector<64x64xf32>, !tile.rows<vector<64xf32>>
    }
    tile.end
  }
  return %o, %p : tensor<?x?x?x64xbf16>, tensor<?x?x?x64xf32>
}

// Of three, as many as there is memory for.
// CHECK-LABEL: func.func @large(
// CHECK-COUNT-3: vector.insert {{.*}}tile.layout<shared>
// FIT-LABEL: func.func @large(
// FIT-COUNT-2: vector.insert {{.*}}fragments over
// FIT:         vector.insert {{.*}}tile.layout<shared>
func.func @large(%q: tensor<?x?x?x256xbf16>) -> tensor<?x?x?x256xf32> {
  %o = tile.program chunk 64 slices 1 sequences(%q : tensor<?x?x?x256xbf16>) outputs(tensor<?x?x?x256xf32>) {
  ^bb0(%qr: !tile.rows<vector<256xbf16>>, %or: !tile.rows<vector<256xf32>>, %length: index, %slice: index, %head: index, %heads: index):
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c64 = arith.constant 64 : index
    %zeros = arith.constant dense<0.0> : vector<64x256xf32>
    %n = arith.ceildivui %length, %c64 : index
    scf.for %i = %c0 to %n step %c1 {
      %first = arith.muli %i, %c64 : index
      %k = tile.load %qr[%first, %c0] : !tile.rows<vector<256xbf16>> -> vector<64x256xbf16>
      %a:3 = scf.for %r = %c0 to %c64 step %c1 iter_args(%m = %zeros, %o = %zeros, %p = %zeros)
          -> (vector<64x256xf32>, vector<64x256xf32>, vector<64x256xf32>) {
        %x = vector.extract %k[%r] : vector<256xbf16> from vector<64x256xbf16>
        %w = arith.extf %x : vector<256xbf16> to vector<256xf32>
        %w2 = arith.mulf %w, %w : vector<256xf32>
        %w3 = arith.mulf %w2, %w : vector<256xf32>
        %m2 = vector.insert %w, %m[%r] : vector<256xf32> into vector<64x256xf32>
        %o2 = vector.insert %w2, %o[%r] : vector<256xf32> into vector<64x256xf32>
        %p2 = vector.insert %w3, %p[%r] : vector<256xf32> into vector<64x256xf32>
        scf.yield %m2, %o2, %p2 : vector<64x256xf32>, vector<64x256xf32>, vector<64x256xf32>
      }
      %s = arith.addf %a#0, %a#1 : vector<64x256xf32>
      %s2 = arith.subf %s, %a#2 : vector<64x256xf32>
      tile.store %s2, %or[%first, %c0] : vector<64x256xf32>, !tile.rows<vector<256xf32>>
    }
    tile.end
  }
  return %o : tensor<?x?x?x256xf32>
}
