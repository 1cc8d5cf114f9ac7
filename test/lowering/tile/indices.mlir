// Indices of a program are 64 bits, those that are few or counted 32 in a kernel: numbers beyond
// 2^31, loops by steps of 2^32 and up to what is far below 0.
// RUN: env EJK_CUDA_DRIVER=%emulated-cuda ejk-run --schedule=step %s --device=cuda --random B=1,T=200 --check | FileCheck %s
// CHECK: check out0: pass
func.func @f(%g: tensor<?x?x2x64xf32>) -> tensor<?x?x2x64xf32> {
  %o = tile.program chunk 64 slices 1
      sequences(%g : tensor<?x?x2x64xf32>) outputs(tensor<?x?x2x64xf32>) {
  ^bb0(%gr: !tile.rows<vector<64xf32>>, %or: !tile.rows<vector<64xf32>>,
       %length: index, %slice: index, %head: index, %heads: index):
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c3 = arith.constant 3 : index
    %c64 = arith.constant 64 : index
    %c1000 = arith.constant 1000 : index
    %big = arith.constant 2147483647 : index
    %step = arith.constant 4294967296 : index
    %huge = arith.constant 8589934592 : index
    %scale = arith.constant 1.0e-3 : f32
    %n = arith.ceildivui %length, %c64 : index
    scf.for %c = %c0 to %n step %c1 {
      %first = arith.muli %c, %c64 : index
      %gt = tile.load %gr[%first, %c0] : !tile.rows<vector<64xf32>> -> vector<64x64xf32>
      // 1000 in the first chunk and 2000 in others, if sums have 64 bits,
      %sum = arith.addi %c, %big : index
      %back = arith.subi %sum, %big : index
      %isNext = arith.cmpi sgt, %sum, %big : index
      %some = arith.select %isNext, %c1000, %c0 : index
      %one = arith.addi %c1000, %some : index
      // two iterations, and none.
      %twice = scf.for %j = %c0 to %huge step %step iter_args(%a = %c0) -> (index) {
        %next = arith.addi %a, %c1000 : index
        scf.yield %next : index
      }
      %below = arith.subi %c3, %huge : index
      %least = arith.minsi %below, %c64 : index
      %none = scf.for %j = %c0 to %least step %c1 iter_args(%a = %back) -> (index) {
        %next = arith.addi %a, %c1000 : index
        scf.yield %next : index
      }
      %x0 = arith.addi %one, %twice : index
      %x = arith.addi %x0, %none : index
      %i = arith.index_cast %x : index to i64
      %f = arith.sitofp %i : i64 to f32
      %fs = arith.mulf %f, %scale : f32
      %v = vector.broadcast %fs : f32 to vector<64x64xf32>
      %r = arith.addf %gt, %v : vector<64x64xf32>
      tile.store %r, %or[%first, %c0] : vector<64x64xf32>, !tile.rows<vector<64xf32>>
    }
    tile.end
  }
  return %o : tensor<?x?x2x64xf32>
}
