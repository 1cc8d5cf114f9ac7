// 60 channels in tiles of 64, of sequences of any length packed together: rows are
// copied 8 bytes at a time, which 120 bytes are a multiple of.
// RUN: ejk-compile --schedule=step --arch=sm_90 %s --emit=ptx | FileCheck %s

// CHECK-LABEL: .entry padded_packed_blocks0(
// CHECK-NOT: .local
// CHECK: cp.async.ca.shared.global [{{.*}}], [{{.*}}], 8, %r
// CHECK: mma.sync
// CHECK: ret;

func.func @padded_packed(%q: tensor<?x?x?x60xbf16>, %k: tensor<?x?x?x60xbf16>, %v: tensor<?x?x?x60xbf16>, %g: tensor<?x?x?xf32>, %h0: tensor<?x?x60x60xf32>, %cu_seqlens: tensor<?xi32>)
    -> (tensor<?x?x?x60xbf16>, tensor<?x?x60x60xf32>) {
  %o, %ht = tile.program chunk 64 slices 1
      sequences(%q, %k, %v, %g : tensor<?x?x?x60xbf16>, tensor<?x?x?x60xbf16>, tensor<?x?x?x60xbf16>, tensor<?x?x?xf32>)
      initial(%h0 : tensor<?x?x60x60xf32>)
      cu_seqlens(%cu_seqlens : tensor<?xi32>)
      outputs(tensor<?x?x?x60xbf16>) finals(tensor<?x?x60x60xf32>) {
  ^bb0(%qr: !tile.rows<vector<60xbf16>>, %kr: !tile.rows<vector<60xbf16>>, %vr: !tile.rows<vector<60xbf16>>, %gr: !tile.rows<f32>, %h0r: !tile.slots<vector<60x60xf32>>, %or: !tile.rows<vector<60xbf16>>, %hr: !tile.slots<vector<60x60xf32>>, %length: index, %slice: index, %head: index, %heads: index):
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %chunk = arith.constant 64 : index
    %scale = arith.constant dense<0.12909944> : vector<64x64xf32>
    %zero64x64 = arith.constant dense<0.0> : vector<64x64xf32>
    %vc = arith.constant 0 : index
    %n = arith.ceildivui %length, %chunk : index
    %s0 = tile.load_slot %h0r[%c0] at (%c0, %vc) : !tile.slots<vector<60x60xf32>> -> vector<64x64xf32>
    %S = scf.for %i = %c0 to %n step %c1 iter_args(%s = %s0) -> vector<64x64xf32> {
      %first = arith.muli %i, %chunk : index
      %qt = tile.load %qr[%first, %c0] : !tile.rows<vector<60xbf16>> -> vector<64x64xbf16>
      %kt = tile.load %kr[%first, %c0] : !tile.rows<vector<60xbf16>> -> vector<64x64xbf16>
      %vt = tile.load %vr[%first, %vc] : !tile.rows<vector<60xbf16>> -> vector<64x64xbf16>
      %gt = tile.load %gr[%first, %c0] : !tile.rows<f32> -> vector<64xf32>
      %G = tile.cumsum %gt : vector<64xf32>
      %Gi = tile.broadcast %G along 0 : vector<64xf32> -> vector<64x64xf32>
      %Gj = tile.broadcast %G along 1 : vector<64xf32> -> vector<64x64xf32>
      %d = arith.subf %Gi, %Gj : vector<64x64xf32>
      %dm = tile.mask lower %d else 0xFF800000 : vector<64x64xf32>
      %e = math.exp %dm : vector<64x64xf32>
      %p = tile.dot %qt, %kt transposed, %zero64x64 : vector<64x64xbf16>, vector<64x64xbf16>, vector<64x64xf32>
      %pm = arith.mulf %p, %e : vector<64x64xf32>
      %sb = arith.truncf %s : vector<64x64xf32> to vector<64x64xbf16>
      %oq = tile.dot %qt, %sb, %zero64x64 : vector<64x64xbf16>, vector<64x64xbf16>, vector<64x64xf32>
      %eG = math.exp %G : vector<64xf32>
      %eGs = tile.broadcast %eG along 0 : vector<64xf32> -> vector<64x64xf32>
      %oi = arith.mulf %oq, %eGs : vector<64x64xf32>
      %GC = vector.extract %G[63] : f32 from vector<64xf32>
      %GCb = vector.broadcast %GC : f32 to vector<64xf32>
      %r = arith.subf %GCb, %G : vector<64xf32>
      %er = math.exp %r : vector<64xf32>
      %ers = tile.broadcast %er along 0 : vector<64xf32> -> vector<64x64xf32>
      %kf = arith.extf %kt : vector<64x64xbf16> to vector<64x64xf32>
      %kd = arith.mulf %kf, %ers : vector<64x64xf32>
      %kdb = arith.truncf %kd : vector<64x64xf32> to vector<64x64xbf16>
      %eC = math.exp %GC : f32
      %eCb = vector.broadcast %eC : f32 to vector<64x64xf32>
      %s1 = arith.mulf %s, %eCb : vector<64x64xf32>
      %pb = arith.truncf %pm : vector<64x64xf32> to vector<64x64xbf16>
      %oa = tile.dot %pb, %vt, %oi : vector<64x64xbf16>, vector<64x64xbf16>, vector<64x64xf32>
      %os = arith.mulf %oa, %scale : vector<64x64xf32>
      %ob = arith.truncf %os : vector<64x64xf32> to vector<64x64xbf16>
      tile.store %ob, %or[%first, %vc] : vector<64x64xbf16>, !tile.rows<vector<60xbf16>>
      %s2 = tile.dot %kdb transposed, %vt, %s1 : vector<64x64xbf16>, vector<64x64xbf16>, vector<64x64xf32>
      scf.yield %s2 : vector<64x64xf32>
    }
    tile.store_slot %S, %hr[%c0] at (%c0, %vc) : vector<64x64xf32>, !tile.slots<vector<60x60xf32>>
    tile.end
  }
  return %o, %ht : tensor<?x?x?x60xbf16>, tensor<?x?x60x60xf32>
}
