// Rings and partitions keep their meaning through print and parse, in either form.
// RUN: ejk-opt %s | ejk-opt | FileCheck %s
// RUN: ejk-opt %s --mlir-print-op-generic | ejk-opt | FileCheck %s

// CHECK-LABEL: func.func @copy
func.func @copy(%q: tensor<?x?x?x64xbf16>, %g: tensor<?x?x?xf32>) -> tensor<?x?x?x64xbf16> {
  %o = tile.program chunk 64 slices 1
      sequences(%q, %g : tensor<?x?x?x64xbf16>, tensor<?x?x?xf32>) outputs(tensor<?x?x?x64xbf16>) {
  ^bb0(%qr: !tile.rows<vector<64xbf16>>, %gr: !tile.rows<f32>, %or: !tile.rows<vector<64xbf16>>,
       %length: index, %slice: index, %head: index, %heads: index):
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c64 = arith.constant 64 : index
    %n = arith.ceildivui %length, %c64 : index
    // CHECK: %[[RING:.*]] = tile.make_ring : <3 of vector<64x64xbf16>, vector<64xf32>>
    %ring = tile.make_ring : !tile.ring<3 of vector<64x64xbf16>, vector<64xf32>>
    // CHECK: tile.warp_specialize {
    tile.warp_specialize {
      // CHECK: tile.partition "consumer" warps 4 {
      tile.partition "consumer" warps 4 {
        scf.for %c = %c0 to %n step %c1 {
          %first = arith.muli %c, %c64 : index
          // CHECK: %[[TILES:.*]]:2 = tile.take %[[RING]][%{{.*}}] : <3 of vector<64x64xbf16>, vector<64xf32>> -> vector<64x64xbf16>, vector<64xf32>
          %qt, %gt = tile.take %ring[%c] : !tile.ring<3 of vector<64x64xbf16>, vector<64xf32>>
              -> vector<64x64xbf16>, vector<64xf32>
          // CHECK: tile.store %[[TILES]]#0
          tile.store %qt, %or[%first, %c0] : vector<64x64xbf16>, !tile.rows<vector<64xbf16>>
          // CHECK: tile.release %[[RING]][%{{.*}}] : <3 of
          tile.release %ring[%c] : !tile.ring<3 of vector<64x64xbf16>, vector<64xf32>>
        }
      }
      // CHECK: tile.partition "producer" warps 4 registers 40 {
      tile.partition "producer" warps 4 registers 40 {
        scf.for %c = %c0 to %n step %c1 {
          %first = arith.muli %c, %c64 : index
          // CHECK: tile.acquire %[[RING]][%{{.*}}] : <3 of
          tile.acquire %ring[%c] : !tile.ring<3 of vector<64x64xbf16>, vector<64xf32>>
          // CHECK: tile.fill %[[RING]][%{{.*}}] from(%{{.*}}, %{{.*}}) at(%{{.*}}, %{{.*}}) channels(%{{.*}}, %{{.*}}) : <3 of vector<64x64xbf16>, vector<64xf32>>, !tile.rows<vector<64xbf16>>, !tile.rows<f32>
          tile.fill %ring[%c] from (%qr, %gr) at (%first, %first) channels (%c0, %c0)
              : !tile.ring<3 of vector<64x64xbf16>, vector<64xf32>>,
                !tile.rows<vector<64xbf16>>, !tile.rows<f32>
        }
      }
    }
    tile.end
  }
  return %o : tensor<?x?x?x64xbf16>
}
