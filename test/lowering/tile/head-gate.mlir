// A gate per head, on a state of 128×128: eight warps, and exponentials in one instruction.
// RUN: ejk-compile --schedule=step --arch=sm_90 %s --emit=ptx | FileCheck %s

// CHECK-LABEL: .entry head_gate_blocks0(
// CHECK: .maxntid 256, 1, 1
// CHECK-NOT: .local
// CHECK: cp.async.ca.shared.global [{{.*}}], [{{.*}}], 4, %r
// CHECK: shfl.sync.up.b32
// CHECK: ex2.approx.ftz.f32
// CHECK: mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32
// CHECK-NOT: call
// CHECK: ret;

func.func @head_gate(%q: tensor<?x?x?x128xbf16>, %k: tensor<?x?x?x128xbf16>, %v: tensor<?x?x?x128xbf16>, %g: tensor<?x?x?xf32>, %h0: tensor<?x?x128x128xf32>)
    -> (tensor<?x?x?x128xbf16>, tensor<?x?x128x128xf32>) {
  %o, %ht = tile.program chunk 64 slices 1
      sequences(%q, %k, %v, %g : tensor<?x?x?x128xbf16>, tensor<?x?x?x128xbf16>, tensor<?x?x?x128xbf16>, tensor<?x?x?xf32>)
      initial(%h0 : tensor<?x?x128x128xf32>)
      outputs(tensor<?x?x?x128xbf16>) finals(tensor<?x?x128x128xf32>) {
  ^bb0(%qr: !tile.rows<vector<128xbf16>>, %kr: !tile.rows<vector<128xbf16>>, %vr: !tile.rows<vector<128xbf16>>, %gr: !tile.rows<f32>, %h0r: !tile.slots<vector<128x128xf32>>, %or: !tile.rows<vector<128xbf16>>, %hr: !tile.slots<vector<128x128xf32>>, %length: index, %slice: index, %head: index, %heads: index):
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %chunk = arith.constant 64 : index
    %scale = arith.constant dense<0.08838835> : vector<64x128xf32>
    %zero64x64 = arith.constant dense<0.0> : vector<64x64xf32>
    %zero64x128 = arith.constant dense<0.0> : vector<64x128xf32>
    %zero128x128 = arith.constant dense<0.0> : vector<128x128xf32>
    %vc = arith.constant 0 : index
    %n = arith.ceildivui %length, %chunk : index
    %s0 = tile.load_slot %h0r[%c0] at (%c0, %vc) : !tile.slots<vector<128x128xf32>> -> vector<128x128xf32>
    %S = scf.for %i = %c0 to %n step %c1 iter_args(%s = %s0) -> vector<128x128xf32> {
      %first = arith.muli %i, %chunk : index
      %qt = tile.load %qr[%first, %c0] : !tile.rows<vector<128xbf16>> -> vector<64x128xbf16>
      %kt = tile.load %kr[%first, %c0] : !tile.rows<vector<128xbf16>> -> vector<64x128xbf16>
      %vt = tile.load %vr[%first, %vc] : !tile.rows<vector<128xbf16>> -> vector<64x128xbf16>
      %gt = tile.load %gr[%first, %c0] : !tile.rows<f32> -> vector<64xf32>
      %G = tile.cumsum %gt : vector<64xf32>
      %Gi = tile.broadcast %G along 0 : vector<64xf32> -> vector<64x64xf32>
      %Gj = tile.broadcast %G along 1 : vector<64xf32> -> vector<64x64xf32>
      %d = arith.subf %Gi, %Gj : vector<64x64xf32>
      %dm = tile.mask lower %d else 0xFF800000 : vector<64x64xf32>
      %e = math.exp %dm : vector<64x64xf32>
      %p = tile.dot %qt, %kt transposed, %zero64x64 : vector<64x128xbf16>, vector<64x128xbf16>, vector<64x64xf32>
      %pm = arith.mulf %p, %e : vector<64x64xf32>
      %sb = arith.truncf %s : vector<128x128xf32> to vector<128x128xbf16>
      %oq = tile.dot %qt, %sb, %zero64x128 : vector<64x128xbf16>, vector<128x128xbf16>, vector<64x128xf32>
      %eG = math.exp %G : vector<64xf32>
      %eGs = tile.broadcast %eG along 0 : vector<64xf32> -> vector<64x128xf32>
      %oi = arith.mulf %oq, %eGs : vector<64x128xf32>
      %GC = vector.extract %G[63] : f32 from vector<64xf32>
      %GCb = vector.broadcast %GC : f32 to vector<64xf32>
      %r = arith.subf %GCb, %G : vector<64xf32>
      %er = math.exp %r : vector<64xf32>
      %ers = tile.broadcast %er along 0 : vector<64xf32> -> vector<64x128xf32>
      %kf = arith.extf %kt : vector<64x128xbf16> to vector<64x128xf32>
      %kd = arith.mulf %kf, %ers : vector<64x128xf32>
      %kdb = arith.truncf %kd : vector<64x128xf32> to vector<64x128xbf16>
      %eC = math.exp %GC : f32
      %eCb = vector.broadcast %eC : f32 to vector<128x128xf32>
      %s1 = arith.mulf %s, %eCb : vector<128x128xf32>
      %pb = arith.truncf %pm : vector<64x64xf32> to vector<64x64xbf16>
      %oa = tile.dot %pb, %vt, %oi : vector<64x64xbf16>, vector<64x128xbf16>, vector<64x128xf32>
      %os = arith.mulf %oa, %scale : vector<64x128xf32>
      %ob = arith.truncf %os : vector<64x128xf32> to vector<64x128xbf16>
      tile.store %ob, %or[%first, %vc] : vector<64x128xbf16>, !tile.rows<vector<128xbf16>>
      %s2 = tile.dot %kdb transposed, %vt, %s1 : vector<64x128xbf16>, vector<64x128xbf16>, vector<128x128xf32>
      scf.yield %s2 : vector<128x128xf32>
    }
    tile.store_slot %S, %hr[%c0] at (%c0, %vc) : vector<128x128xf32>, !tile.slots<vector<128x128xf32>>
    tile.end
  }
  return %o, %ht : tensor<?x?x?x128xbf16>, tensor<?x?x128x128xf32>
}
