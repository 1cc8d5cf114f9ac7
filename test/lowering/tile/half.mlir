// f16 instead of bf16, chunks of 32, no initial state.
// RUN: ejk-compile --schedule=step --arch=sm_90 %s --emit=ptx | FileCheck %s

// CHECK-LABEL: .entry half_blocks0(
// CHECK-NOT: .local
// CHECK: mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32
// CHECK: ret;

func.func @half(%q: tensor<?x?x?x64xf16>, %k: tensor<?x?x?x64xf16>, %v: tensor<?x?x?x64xf16>, %g: tensor<?x?x?xf32>)
    -> (tensor<?x?x?x64xf16>, tensor<?x?x64x64xf32>) {
  %o, %ht = tile.program chunk 32 slices 1
      sequences(%q, %k, %v, %g : tensor<?x?x?x64xf16>, tensor<?x?x?x64xf16>, tensor<?x?x?x64xf16>, tensor<?x?x?xf32>)
      outputs(tensor<?x?x?x64xf16>) finals(tensor<?x?x64x64xf32>) {
  ^bb0(%qr: !tile.rows<vector<64xf16>>, %kr: !tile.rows<vector<64xf16>>, %vr: !tile.rows<vector<64xf16>>, %gr: !tile.rows<f32>, %or: !tile.rows<vector<64xf16>>, %hr: !tile.slots<vector<64x64xf32>>, %length: index, %slice: index, %head: index, %heads: index):
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %chunk = arith.constant 32 : index
    %scale = arith.constant dense<0.12500000> : vector<32x64xf32>
    %zero32x32 = arith.constant dense<0.0> : vector<32x32xf32>
    %zero32x64 = arith.constant dense<0.0> : vector<32x64xf32>
    %zero64x64 = arith.constant dense<0.0> : vector<64x64xf32>
    %vc = arith.constant 0 : index
    %n = arith.ceildivui %length, %chunk : index
    %S = scf.for %i = %c0 to %n step %c1 iter_args(%s = %zero64x64) -> vector<64x64xf32> {
      %first = arith.muli %i, %chunk : index
      %qt = tile.load %qr[%first, %c0] : !tile.rows<vector<64xf16>> -> vector<32x64xf16>
      %kt = tile.load %kr[%first, %c0] : !tile.rows<vector<64xf16>> -> vector<32x64xf16>
      %vt = tile.load %vr[%first, %vc] : !tile.rows<vector<64xf16>> -> vector<32x64xf16>
      %gt = tile.load %gr[%first, %c0] : !tile.rows<f32> -> vector<32xf32>
      %G = tile.cumsum %gt : vector<32xf32>
      %Gi = tile.broadcast %G along 0 : vector<32xf32> -> vector<32x32xf32>
      %Gj = tile.broadcast %G along 1 : vector<32xf32> -> vector<32x32xf32>
      %d = arith.subf %Gi, %Gj : vector<32x32xf32>
      %dm = tile.mask lower %d else 0xFF800000 : vector<32x32xf32>
      %e = math.exp %dm : vector<32x32xf32>
      %p = tile.dot %qt, %kt transposed, %zero32x32 : vector<32x64xf16>, vector<32x64xf16>, vector<32x32xf32>
      %pm = arith.mulf %p, %e : vector<32x32xf32>
      %sb = arith.truncf %s : vector<64x64xf32> to vector<64x64xf16>
      %oq = tile.dot %qt, %sb, %zero32x64 : vector<32x64xf16>, vector<64x64xf16>, vector<32x64xf32>
      %eG = math.exp %G : vector<32xf32>
      %eGs = tile.broadcast %eG along 0 : vector<32xf32> -> vector<32x64xf32>
      %oi = arith.mulf %oq, %eGs : vector<32x64xf32>
      %GC = vector.extract %G[31] : f32 from vector<32xf32>
      %GCb = vector.broadcast %GC : f32 to vector<32xf32>
      %r = arith.subf %GCb, %G : vector<32xf32>
      %er = math.exp %r : vector<32xf32>
      %ers = tile.broadcast %er along 0 : vector<32xf32> -> vector<32x64xf32>
      %kf = arith.extf %kt : vector<32x64xf16> to vector<32x64xf32>
      %kd = arith.mulf %kf, %ers : vector<32x64xf32>
      %kdb = arith.truncf %kd : vector<32x64xf32> to vector<32x64xf16>
      %eC = math.exp %GC : f32
      %eCb = vector.broadcast %eC : f32 to vector<64x64xf32>
      %s1 = arith.mulf %s, %eCb : vector<64x64xf32>
      %pb = arith.truncf %pm : vector<32x32xf32> to vector<32x32xf16>
      %oa = tile.dot %pb, %vt, %oi : vector<32x32xf16>, vector<32x64xf16>, vector<32x64xf32>
      %os = arith.mulf %oa, %scale : vector<32x64xf32>
      %ob = arith.truncf %os : vector<32x64xf32> to vector<32x64xf16>
      tile.store %ob, %or[%first, %vc] : vector<32x64xf16>, !tile.rows<vector<64xf16>>
      %s2 = tile.dot %kdb transposed, %vt, %s1 : vector<32x64xf16>, vector<32x64xf16>, vector<64x64xf32>
      scf.yield %s2 : vector<64x64xf32>
    }
    tile.store_slot %S, %hr[%c0] at (%c0, %vc) : vector<64x64xf32>, !tile.slots<vector<64x64xf32>>
    tile.end
  }
  return %o, %ht : tensor<?x?x?x64xf16>, tensor<?x?x64x64xf32>
}
