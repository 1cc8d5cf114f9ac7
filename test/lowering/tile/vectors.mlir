// Vectors: sums along either dimension, running sums, rows taken out and put back, windows,
// a branch that all threads take or none, parameters, and saved states.
// RUN: ejk-compile --schedule=step --arch=sm_90 %s --emit=ptx | FileCheck %s
// RUN: env EJK_CUDA_DRIVER=%emulated-cuda ejk-run --schedule=step %s --device=cuda --random B=1,T=100,H=4,Hkv=2,Hp=2 --check

// CHECK-LABEL: .entry vectors_blocks0(
// CHECK-NOT: .local
// CHECK: shfl.sync.bfly.b32
// CHECK: max.NaN.f32
// CHECK: ret;

func.func @vectors(%q: tensor<?x?x?x64xbf16>, %g: tensor<?x?x?xf32>, %p: tensor<?xf32>, %w: tensor<?x64xf32>, %z0: tensor<?x?x64xf32>, %old: tensor<?x?x32x64xf32>)
    -> (tensor<?x?x?x64xbf16>, tensor<?x?x?xf32>, tensor<?x?x?x64xf32>, tensor<?x?x64xf32>, tensor<?x?x32x64xf32>) {
  %o, %r, %c, %z, %sv = tile.program chunk 32 save_every 32 slices 1
      sequences(%q, %g : tensor<?x?x?x64xbf16>, tensor<?x?x?xf32>)
      parameters(%p, %w : tensor<?xf32>, tensor<?x64xf32>)
      initial(%z0 : tensor<?x?x64xf32>)
      saved(%old : tensor<?x?x32x64xf32>)
      outputs(tensor<?x?x?x64xbf16>, tensor<?x?x?xf32>, tensor<?x?x?x64xf32>) finals(tensor<?x?x64xf32>) saves(tensor<?x?x32x64xf32>) {
  ^bb0(%qr: !tile.rows<vector<64xbf16>>, %gr: !tile.rows<f32>, %ps: f32, %wr: !tile.slots<vector<64xf32>>, %z0r: !tile.slots<vector<64xf32>>,
       %oldr: !tile.slots<vector<32x64xf32>>,
       %or: !tile.rows<vector<64xbf16>>, %rr: !tile.rows<f32>, %cr: !tile.rows<vector<64xf32>>, %zr: !tile.slots<vector<64xf32>>, %sr: !tile.slots<vector<32x64xf32>>,
       %length: index, %slice: index, %head: index, %heads: index):
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c32 = arith.constant 32 : index
    %c60 = arith.constant 60 : index
    %true = arith.constant true
    %n = arith.ceildivui %length, %c32 : index
    %ws = tile.load_slot %wr[%c0] at (%c0) : !tile.slots<vector<64xf32>> -> vector<64xf32>
    %zi = tile.load_slot %z0r[%c0] at (%c0) : !tile.slots<vector<64xf32>> -> vector<64xf32>
    %zf = scf.for %i = %c0 to %n step %c1 iter_args(%z = %zi) -> vector<64xf32> {
      %first = arith.muli %i, %c32 : index
      %qt = tile.load %qr[%first, %c0] : !tile.rows<vector<64xbf16>> -> vector<32x64xbf16>
      %ga = tile.load %gr[%first, %c0] : !tile.rows<f32> -> vector<32xf32>
      %left = arith.subi %length, %first : index
      %gt = tile.window %ga from (%c1) to (%left) else 0.25 : vector<32xf32>
      %qf = arith.extf %qt : vector<32x64xbf16> to vector<32x64xf32>
      %zs = tile.broadcast %z along 1 : vector<64xf32> -> vector<32x64xf32>
      %wsp = tile.broadcast %ws along 1 : vector<64xf32> -> vector<32x64xf32>
      %y0 = arith.mulf %qf, %wsp : vector<32x64xf32>
      %y = arith.addf %y0, %zs : vector<32x64xf32>
      %X = tile.cumsum reverse exclusive %gt : vector<32xf32>
      %Y = tile.cumsum exclusive %y : vector<32x64xf32>
      %Y2 = tile.cumsum reverse exclusive %Y from 20 : vector<32x64xf32>
      %X9 = tile.cumsum reverse %gt from 9 : vector<32xf32>
      %Xs = tile.broadcast %X9 along 0 : vector<32xf32> -> vector<32x64xf32>
      %Y3 = arith.addf %Y2, %Xs : vector<32x64xf32>
      %Y4 = tile.mask upper strict %Y3 else -1.0 : vector<32x64xf32>
      tile.store %Y4, %cr[%first, %c0] : vector<32x64xf32>, !tile.rows<vector<64xf32>>
      %prev = tile.load_slot %oldr[%i] at (%c0, %c0) : !tile.slots<vector<32x64xf32>> -> vector<32x64xf32>
      %sv1 = arith.addf %prev, %y : vector<32x64xf32>
      tile.store_slot %sv1, %sr[%i] at (%c0, %c0) : vector<32x64xf32>, !tile.slots<vector<32x64xf32>>
      %s1 = tile.sum %y over 1 : vector<32x64xf32> -> vector<32xf32>
      %pb = vector.broadcast %ps : f32 to vector<32xf32>
      %s1p = arith.mulf %s1, %pb : vector<32xf32>
      tile.store %s1p, %rr[%first, %c0] : vector<32xf32>, !tile.rows<f32>
      %a = math.absf %qf : vector<32x64xf32>
      %fast = tile.range_guard 3.6 of %a, %X : vector<32x64xf32>, vector<32xf32>
      %slow = arith.xori %fast, %true : i1
      %out = scf.if %slow -> vector<32x64xf32> {
        %e = scf.for %j = %c0 to %c32 step %c1 iter_args(%acc = %y) -> vector<32x64xf32> {
          %row = vector.extract %qt[%j] : vector<64xbf16> from vector<32x64xbf16>
          %rowf = arith.extf %row : vector<64xbf16> to vector<64xf32>
          %other = vector.extract %acc[%j] : vector<64xf32> from vector<32x64xf32>
          %t = arith.mulf %rowf, %other : vector<64xf32>
          %gj = vector.extract %gt[%j] : f32 from vector<32xf32>
          %gb = vector.broadcast %gj : f32 to vector<64xf32>
          %t2 = arith.addf %t, %gb : vector<64xf32>
          %more = tile.broadcast %t2 along 1 : vector<64xf32> -> vector<32x64xf32>
          %after = arith.addi %j, %c1 : index
          %here = tile.window %more from (%j, %c0) to (%after, %c60) else 0.0 : vector<32x64xf32>
          %next = arith.addf %acc, %here : vector<32x64xf32>
          scf.yield %next : vector<32x64xf32>
        }
        scf.yield %e : vector<32x64xf32>
      } else {
        %neg = arith.negf %y : vector<32x64xf32>
        scf.yield %neg : vector<32x64xf32>
      }
      %ob = arith.truncf %out : vector<32x64xf32> to vector<32x64xbf16>
      tile.store %ob, %or[%first, %c0] : vector<32x64xbf16>, !tile.rows<vector<64xbf16>>
      %s0 = tile.sum %qf over 0 : vector<32x64xf32> -> vector<64xf32>
      %z1 = arith.addf %z, %s0 : vector<64xf32>
      scf.yield %z1 : vector<64xf32>
    }
    tile.store_slot %zf, %zr[%c0] at (%c0) : vector<64xf32>, !tile.slots<vector<64xf32>>
    tile.end
  }
  return %o, %r, %c, %z, %sv : tensor<?x?x?x64xbf16>, tensor<?x?x?xf32>, tensor<?x?x?x64xf32>, tensor<?x?x64xf32>, tensor<?x?x32x64xf32>
}
