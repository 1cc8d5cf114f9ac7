// A derivative as two programs: the state forward, and all gradients back.
// RUN: ejk-opt %s --ejk-backward --ejk-to-tile --ejk-fuse-programs 2>/dev/null | FileCheck %s

// The numbers are those of the recurrences of chunk-saves.mlir: gates of every kind, packed
// sequences, both directions, before and after.
// RUN: ejk-opt %S/chunk-saves.mlir --ejk-backward=checkpoint-every=64 --ejk-to-tile --ejk-fuse-programs 2>/dev/null | FileCheck %s --check-prefix=COUNT
// COUNT-LABEL: func.func @narrow_vjp(
// COUNT-COUNT-4: tile.program
// COUNT-NOT: tile.program
// COUNT: return
// RUN: ejk-opt %S/chunk-saves.mlir --ejk-backward=checkpoint-every=64 --ejk-to-tile --ejk-fuse-programs --ejk-interpret -o /dev/null 2>/dev/null
// RUN: sed 's/max_relative 1.0e-10/max_relative 4.0e-3/' %S/chunk-saves.mlir > %t.native.mlir
// RUN: ejk-opt %t.native.mlir --ejk-backward=checkpoint-every=64 --ejk-to-tile --ejk-fuse-programs --ejk-interpret=precision=native -o /dev/null 2>/dev/null

// What the walk forward keeps is its state, of keys, values and gates.
// CHECK-LABEL: func.func @f_vjp(
// CHECK-SAME:    %[[Q:arg0]]: {{.*}}, %[[K:arg1]]: {{.*}}, %[[V:arg2]]: {{.*}}, %[[G:arg3]]: {{.*}}, %[[DO:arg4]]:
// CHECK:         %[[S:.*]] = tile.program chunk 64 save_every 64 slices 1 sequences(%[[K]], %[[V]], %[[G]] :
// CHECK-SAME:    saves(tensor<?x4x64x64xbf16>)
// CHECK:           tile.store_slot
// CHECK:           tile.dot
// CHECK-NOT:       tile.dot
// CHECK-NOT:       tile.store %
// CHECK:           tile.end

// The walk back reads a chunk's rows once, the state of it, and stores the gradients.
// CHECK:         %[[O:.*]]:4 = tile.program chunk 64 save_every 64 slices 1
// CHECK-SAME:    saved(%[[S]] :
// CHECK:           arith.subi
// CHECK:           scf.for
// CHECK-COUNT-5:     tile.load %
// CHECK:             tile.load_slot
// CHECK-NOT:         tile.load %
// CHECK-COUNT-4:     tile.store %
// CHECK:           tile.end
// CHECK:         return %[[O]]#3, %[[O]]#0, %[[O]]#1, %[[O]]#2
func.func @f(%q: tensor<?x?x4x64xbf16>, %k: tensor<?x?x4x64xbf16>, %v: tensor<?x?x4x64xbf16>,
             %g: tensor<?x?x4xf32>) -> tensor<?x?x4x64xbf16> {
  %o, %ht = ejk.recurrent %q, %k, %v g(%g : tensor<?x?x4xf32>)
      : tensor<?x?x4x64xbf16>, tensor<?x?x4x64xbf16>, tensor<?x?x4x64xbf16>
      -> tensor<?x?x4x64xbf16>, tensor<?x4x64x64xf32>
  return %o : tensor<?x?x4x64xbf16>
}

// Without a gate nothing passes from one walk to the other.
// CHECK-LABEL: func.func @ungated_vjp(
// CHECK-COUNT-2: tile.program chunk 64 slices 1
// CHECK:         return
func.func @ungated(%q: tensor<?x?x4x64xbf16>, %k: tensor<?x?x4x64xbf16>, %v: tensor<?x?x4x64xbf16>)
    -> tensor<?x?x4x64xbf16> {
  %o, %ht = ejk.recurrent %q, %k, %v
      : tensor<?x?x4x64xbf16>, tensor<?x?x4x64xbf16>, tensor<?x?x4x64xbf16>
      -> tensor<?x?x4x64xbf16>, tensor<?x4x64x64xf32>
  return %o : tensor<?x?x4x64xbf16>
}

// What is made of the first walk's results stands between the two, and comes behind both: here
// the sum over the heads that a read vector serves.
// CHECK-LABEL: func.func @shared_reads_vjp(
// CHECK:         tile.program
// CHECK-NOT:     ejk.sum_heads
// CHECK:         %[[ALL:.*]]:{{.*}} = tile.program
// CHECK:         ejk.sum_heads %[[ALL]]#
// CHECK:         return
func.func @shared_reads(%q: tensor<?x?x4x64xbf16>, %k: tensor<?x?x4x64xbf16>, %v: tensor<?x?x4x64xbf16>,
                        %p: tensor<?x?x2x64xbf16>, %g: tensor<?x?x4xf32>) -> tensor<?x?x4x64xbf16> {
  %o, %ht = ejk.scan
      sequences(%qt = %q : tensor<?x?x4x64xbf16>, %kt = %k : tensor<?x?x4x64xbf16>,
                %vt = %v : tensor<?x?x4x64xbf16>, %pt = %p : tensor<?x?x2x64xbf16>,
                %gt = %g : tensor<?x?x4xf32>)
      states(%S = zero : tensor<?x4x64x64xf32>) -> (tensor<?x?x4x64xbf16>) {
    %qw = arith.extf %qt : vector<64xbf16> to vector<64xf32>
    %kw = arith.extf %kt : vector<64xbf16> to vector<64xf32>
    %vw = arith.extf %vt : vector<64xbf16> to vector<64xf32>
    %pw = arith.extf %pt : vector<64xbf16> to vector<64xf32>
    %S1 = ejk.decay %S by %gt along head : vector<64x64xf32>, f32
    %S2 = ejk.outer_add %S1, %kw, %vw : vector<64x64xf32>, vector<64xf32>, vector<64xf32>
    %r = ejk.read %S2, %qw along key : vector<64x64xf32>, vector<64xf32>
    %s = ejk.read %S2, %pw along key : vector<64x64xf32>, vector<64xf32>
    %sum = arith.addf %r, %s : vector<64xf32>
    %ot = arith.truncf %sum : vector<64xf32> to vector<64xbf16>
    ejk.yield states(%S2 : vector<64x64xf32>) outputs(%ot : vector<64xbf16>)
  }
  return %o : tensor<?x?x4x64xbf16>
}
