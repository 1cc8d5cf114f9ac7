// What a branch gives is a tile of its own: no ring can have it back.
// RUN: ejk-opt %s --ejk-multistage-loads=stages=1 -o %t.mlir 2>&1 | FileCheck %s
// RUN: env EJK_CUDA_DRIVER=%emulated-cuda ejk-run --schedule=step %t.mlir --device=cuda --check --random B=1,T=300,H=2
// CHECK: multistage-loads-yields.mlir:[[#@LINE+16]]:13: remark: not copied ahead: a branch or a loop gives it
func.func @f(%q: tensor<?x?x?x64xbf16>)
    -> tensor<?x?x?x64xbf16> {
  %o = tile.program chunk 64 slices 1
      sequences(%q : tensor<?x?x?x64xbf16>)
      outputs(tensor<?x?x?x64xbf16>) {
  ^bb0(%qr: !tile.rows<vector<64xbf16>>, 
       %or: !tile.rows<vector<64xbf16>>,
       %length: index, %slice: index, %head: index, %heads: index):
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c64 = arith.constant 64 : index
    %zero = arith.constant dense<0.0> : vector<64x64xbf16>
    %n = arith.ceildivui %length, %c64 : index
    scf.for %i = %c0 to %n step %c1 {
      %first = arith.muli %i, %c64 : index
      %qt = tile.load %qr[%first, %c0] : !tile.rows<vector<64xbf16>> -> vector<64x64xbf16>
      %odd = arith.remui %i, %c64 : index
      %is = arith.cmpi eq, %odd, %c1 : index
      %r = scf.if %is -> vector<64x64xbf16> {
        scf.yield %qt : vector<64x64xbf16>
      } else {
        scf.yield %zero : vector<64x64xbf16>
      }
      tile.store %r, %or[%first, %c0] : vector<64x64xbf16>, !tile.rows<vector<64xbf16>>
    }
    tile.end
  }
  return %o : tensor<?x?x?x64xbf16>
}
