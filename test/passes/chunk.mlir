// RUN: ejk-opt %s --ejk-chunk | FileCheck %s

// A decay per head: what a read sees of its own chunk is a product of its vectors,
// masked and decayed, with the values.
// CHECK-LABEL: func.func @scalar(
// CHECK:         tile.program chunk 64 slices 1
// CHECK:         ^bb0(%[[Q:.*]]: !tile.rows<vector<64xbf16>>, %[[K:.*]]: !tile.rows<vector<64xbf16>>, %[[V:.*]]: !tile.rows<vector<60xbf16>>, %[[G:.*]]: !tile.rows<f32>, %[[O:.*]]: !tile.rows<vector<60xbf16>>, %[[HT:.*]]: !tile.slots<vector<64x60xf32>>, %[[LENGTH:[a-z0-9]*]]: index
// CHECK:         %[[CHUNKS:.*]] = arith.ceildivui %[[LENGTH]]
// CHECK:         %[[LAST:.*]] = scf.for %[[C:.*]] = %{{.*}} to %[[CHUNKS]] {{.*}} iter_args(%[[S:.*]] = %{{.*}}) -> (vector<64x64xf32>)
// CHECK:           %[[FIRST:.*]] = arith.muli %[[C]]
// CHECK-DAG:       %[[GT:.*]] = tile.load %[[G]][%[[FIRST]], %{{.*}}] : <f32> -> vector<64xf32>
// CHECK-DAG:       %[[QT:.*]] = tile.load %[[Q]]
// CHECK-DAG:       %[[KT:.*]] = tile.load %[[K]]
// CHECK-DAG:       %[[VT:.*]] = tile.load %[[V]]{{.*}} -> vector<64x64xbf16>
// CHECK:           %[[S16:.*]] = arith.truncf %[[S]] : vector<64x64xf32> to vector<64x64xbf16>
// CHECK:           tile.dot %[[QT]], %[[S16]]
// CHECK:           %[[P:.*]] = tile.dot %[[QT]], %[[KT]] transposed
// CHECK:           %[[MASKED:.*]] = tile.mask lower %{{.*}} else 0xFF800000
// CHECK:           %[[DECAY:.*]] = math.exp %[[MASKED]]
// CHECK:           %[[PD:.*]] = arith.mulf %[[P]], %[[DECAY]]
// CHECK:           %[[P16:.*]] = arith.truncf %[[PD]]
// CHECK:           %[[SUM:.*]] = tile.dot %[[P16]], %[[VT]]
// CHECK:           %[[NEXT:.*]] = tile.dot %[[KT]] transposed, %{{.*}}, %{{.*}} : vector<64x64xbf16>, vector<64x64xbf16>, vector<64x64xf32>
// CHECK:           %[[OUT:.*]] = arith.truncf %[[SUM]]
// CHECK:           tile.store %[[OUT]], %[[O]][%[[FIRST]], %{{.*}}] : vector<64x64xbf16>, <vector<60xbf16>>
// CHECK:           scf.yield %[[NEXT]]
// CHECK:         tile.store_slot %[[LAST]], %[[HT]]
func.func @scalar(%q: tensor<?x?x?x64xbf16>, %k: tensor<?x?x?x64xbf16>, %v: tensor<?x?x?x60xbf16>,
                  %g: tensor<?x?x?xf32>) -> (tensor<?x?x?x60xbf16>, tensor<?x?x64x60xf32>) {
  %o, %ht = ejk.scan
      sequences(%qt = %q : tensor<?x?x?x64xbf16>, %kt = %k : tensor<?x?x?x64xbf16>,
                %vt = %v : tensor<?x?x?x60xbf16>, %gt = %g : tensor<?x?x?xf32>)
      states(%S = zero : tensor<?x?x64x60xf32>) -> (tensor<?x?x?x60xbf16>) {
    %qw = arith.extf %qt : vector<64xbf16> to vector<64xf32>
    %kw = arith.extf %kt : vector<64xbf16> to vector<64xf32>
    %vw = arith.extf %vt : vector<60xbf16> to vector<60xf32>
    %S1 = ejk.decay %S by %gt along head : vector<64x60xf32>, f32
    %S2 = ejk.outer_add %S1, %kw, %vw : vector<64x60xf32>, vector<64xf32>, vector<60xf32>
    %r = ejk.read %S2, %qw along key : vector<64x60xf32>, vector<64xf32>
    %ot = arith.truncf %r : vector<60xf32> to vector<60xbf16>
    ejk.yield states(%S2 : vector<64x60xf32>) outputs(%ot : vector<60xbf16>)
  }
  return %o, %ht : tensor<?x?x?x60xbf16>, tensor<?x?x64x60xf32>
}

// Backwards, chunks come from the last to the first and see what lies behind; the
// state is read before the step adds to it, and decays last. A decay per channel is
// taken in the basis of the middle row where that is in range, else step by step.
// An unused final state is not stored.
// CHECK-LABEL: func.func @channels(
// CHECK-SAME:      -> tensor<?x?x?x32xf32>
// CHECK:         tile.program chunk 64 slices 1
// CHECK-NOT:     finals
// CHECK:         %[[COUNT:.*]] = arith.ceildivui
// CHECK:         %[[BACK:.*]] = arith.subi
// CHECK:         scf.for %[[I:[a-z0-9]*]]
// CHECK:           %[[CHUNK:.*]] = arith.subi %[[BACK]], %[[I]]
// CHECK:           arith.muli %[[CHUNK]]
// CHECK:           %[[X:.*]] = tile.cumsum {{.*}}from 32
// CHECK:           vector.extract %[[X]][63] : vector<64xf32> from vector<64x64xf32>
// CHECK:           %[[FITS:.*]] = tile.range_guard 6.400000e+01 of
// CHECK:           tile.guarded %[[FITS]] -> (vector<64x32xf32>, vector<64x32xf32>)
// CHECK:             tile.dot
// CHECK:             tile.mask lower strict
// CHECK:           } exact {
// CHECK-NOT:         tile.dot
// CHECK:             scf.for
// CHECK:               tile.sum
// CHECK:               vector.insert
func.func @channels(%q: tensor<?x?x?x64xbf16>, %v: tensor<?x?x?x32xbf16>,
                    %g: tensor<?x?x?x64xf32>) -> tensor<?x?x?x32xf32> {
  %o, %ht = ejk.scan reverse
      sequences(%qt = %q : tensor<?x?x?x64xbf16>, %vt = %v : tensor<?x?x?x32xbf16>,
                %gt = %g : tensor<?x?x?x64xf32>)
      states(%S = zero : tensor<?x?x64x32xf32>) -> (tensor<?x?x?x32xf32>) {
    %qw = arith.extf %qt : vector<64xbf16> to vector<64xf32>
    %vw = arith.extf %vt : vector<32xbf16> to vector<32xf32>
    %r = ejk.read %S, %qw along key : vector<64x32xf32>, vector<64xf32>
    %S1 = ejk.outer_add %S, %qw, %vw : vector<64x32xf32>, vector<64xf32>, vector<32xf32>
    %S2 = ejk.decay %S1 by %gt along key : vector<64x32xf32>, vector<64xf32>
    ejk.yield states(%S2 : vector<64x32xf32>) outputs(%r : vector<32xf32>)
  }
  return %o : tensor<?x?x?x32xf32>
}

// A large state is cut along the axis that no read sums over.
// CHECK-LABEL: func.func @large(
// CHECK:         tile.program chunk 64 slices 4
// CHECK:         arith.muli %{{.*}}, %{{.*}} : index
// CHECK:         iter_args(%{{.*}} = %{{.*}}) -> (vector<256x64xf32>)
func.func @large(%q: tensor<?x?x?x256xbf16>) -> tensor<?x?x?x256xf32> {
  %o, %ht = ejk.scan sequences(%qt = %q : tensor<?x?x?x256xbf16>)
      states(%S = zero : tensor<?x?x256x256xf32>) -> (tensor<?x?x?x256xf32>) {
    %qw = arith.extf %qt : vector<256xbf16> to vector<256xf32>
    %S1 = ejk.outer_add %S, %qw, %qw : vector<256x256xf32>, vector<256xf32>, vector<256xf32>
    %r = ejk.read %S1, %qw along key : vector<256x256xf32>, vector<256xf32>
    ejk.yield states(%S1 : vector<256x256xf32>) outputs(%r : vector<256xf32>)
  }
  return %o : tensor<?x?x?x256xf32>
}
