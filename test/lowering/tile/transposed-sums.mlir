// Running sums of matrices that are kept transposed: of rows in shared memory, of numbers of 16
// bits and of f32 in registers, all as products with a triangle; and vectors that lie as these
// matrices' rows do: taken out at a fixed and at any row, summed, carried, spread again, along
// matrices that lie otherwise, too.
// RUN: ejk-opt %s --ejk-assign-tile-layouts=arch=sm_90a | FileCheck %s
// RUN: ejk-compile --schedule=step %s --arch=sm_90a --emit=ptx | FileCheck %s --check-prefix=PTX
// DEFINE: %{run} = env EJK_CUDA_DRIVER=%emulated-cuda ejk-run --schedule=step %s --device=cuda --check --random
// RUN: %{run} B=2,T=200,H=2 --arch=sm_90a
// RUN: %{run} B=1,T=64,H=1 --arch=sm_90a --seed=5
// RUN: %{run} B=1,T=70,H=2 --arch=sm_80

// CHECK: tile.cumsum %{{.*}} from 20 {{.*}}transposed_fragments over 4 by 1
// CHECK: vector.extract %{{.*}}[63] {{.*}}rows over 4 by 1
// CHECK: tile.cumsum reverse exclusive %{{.*}} {{.*}}transposed_fragments over 4 by 1
// CHECK: tile.cumsum exclusive %{{.*}} {{.*}}transposed_fragments over 4 by 1
// CHECK: tile.sum %{{.*}} over 0 {{.*}}rows over 4 by 1
// CHECK: tile.convert %{{.*}} to <shared> : vector<64xf32>
// CHECK: tile.broadcast %{{.*}} along 1 {{.*}}<fragments over 4 by 1>

// Numbers in registers are left factors, in four steps: three of an f32, and one of 16 bits.
// PTX-LABEL: .entry sums_blocks0(
// PTX-COUNT-16: wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {{[{].*[}]}}, {{[{].*[}]}}, right, added, 1, 1, 0;
// PTX: ret;
func.func @sums(%q: tensor<?x?x?x64xbf16>, %g: tensor<?x?x?x64xbf16>)
    -> (tensor<?x?x?x64xbf16>, tensor<?x?x?x64xf32>) {
  %o, %c = tile.program chunk 64 slices 1
      sequences(%q, %g : tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>)
      outputs(tensor<?x?x?x64xbf16>, tensor<?x?x?x64xf32>) {
  ^bb0(%qr: !tile.rows<vector<64xbf16>>, %gr: !tile.rows<vector<64xbf16>>,
       %or: !tile.rows<vector<64xbf16>>, %cr: !tile.rows<vector<64xf32>>,
       %length: index, %slice: index, %head: index, %heads: index):
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c3 = arith.constant 3 : index
    %c64 = arith.constant 64 : index
    %square = arith.constant dense<0.0> : vector<64x64xf32>
    %small = arith.constant dense<0.0625> : vector<64x64xf32>
    %none = arith.constant dense<0.0> : vector<64xf32>
    %less = arith.constant dense<0.125> : vector<64xf32>
    %n = arith.ceildivui %length, %c64 : index
    %zf = scf.for %i = %c0 to %n step %c1 iter_args(%z = %none) -> vector<64xf32> {
      %first = arith.muli %i, %c64 : index
      %qt = tile.load %qr[%first, %c0] : !tile.rows<vector<64xbf16>> -> vector<64x64xbf16>
      %gt = tile.load %gr[%first, %c0] : !tile.rows<vector<64xbf16>> -> vector<64x64xbf16>
      %gf = arith.extf %gt : vector<64x64xbf16> to vector<64x64xf32>
      %G = tile.cumsum %gf from 20 : vector<64x64xf32>
      %last = vector.extract %G[63] : vector<64xf32> from vector<64x64xf32>
      %qf = arith.extf %qt : vector<64x64xbf16> to vector<64x64xf32>
      %x = arith.mulf %qf, %G : vector<64x64xf32>
      %scaled = arith.mulf %x, %small : vector<64x64xf32>
      %R = tile.cumsum reverse exclusive %scaled : vector<64x64xf32>
      %xb = arith.truncf %scaled : vector<64x64xf32> to vector<64x64xbf16>
      %xw = arith.extf %xb : vector<64x64xbf16> to vector<64x64xf32>
      %X = tile.cumsum exclusive %xw : vector<64x64xf32>
      %RX = arith.addf %R, %X : vector<64x64xf32>
      %sum = tile.sum %RX over 0 : vector<64x64xf32> -> vector<64xf32>
      %both = arith.addf %sum, %last : vector<64xf32>
      %few = arith.mulf %both, %less : vector<64xf32>
      %zn = arith.addf %z, %few : vector<64xf32>
      %zs = tile.broadcast %zn along 1 : vector<64xf32> -> vector<64x64xf32>
      %Y = arith.addf %RX, %zs : vector<64x64xf32>
      // One row after another.
      %Z = scf.for %j = %c0 to %c3 step %c1 iter_args(%acc = %Y) -> vector<64x64xf32> {
        %row = vector.extract %acc[%j] : vector<64xf32> from vector<64x64xf32>
        %part = arith.mulf %row, %less : vector<64xf32>
        %more = tile.broadcast %part along 1 : vector<64xf32> -> vector<64x64xf32>
        %after = arith.addi %j, %c3 : index
        %here = tile.window %more from (%j, %c0) to (%after, %c64) else 0.0 : vector<64x64xf32>
        %next = arith.addf %acc, %here : vector<64x64xf32>
        scf.yield %next : vector<64x64xf32>
      }
      tile.store %Z, %cr[%first, %c0] : vector<64x64xf32>, !tile.rows<vector<64xf32>>
      %p = tile.dot %xb, %qt transposed, %square : vector<64x64xbf16>, vector<64x64xbf16>, vector<64x64xf32>
      %along = tile.broadcast %few along 1 : vector<64xf32> -> vector<64x64xf32>
      %pz = arith.addf %p, %along : vector<64x64xf32>
      %ob = arith.truncf %pz : vector<64x64xf32> to vector<64x64xbf16>
      tile.store %ob, %or[%first, %c0] : vector<64x64xbf16>, !tile.rows<vector<64xbf16>>
      scf.yield %zn : vector<64xf32>
    }
    tile.end
  }
  return %o, %c : tensor<?x?x?x64xbf16>, tensor<?x?x?x64xf32>
}
