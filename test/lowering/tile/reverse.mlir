// From the last row back, K ≠ V, gates in f32.
// RUN: ejk-compile --schedule=step --arch=sm_90 %s --emit=ptx | FileCheck %s

// CHECK-LABEL: .entry reverse_blocks0(
// CHECK-NOT: .local
// CHECK: mma.sync
// CHECK: ret;

func.func @reverse(%q: tensor<?x?x?x64xbf16>, %k: tensor<?x?x?x64xbf16>, %v: tensor<?x?x?x128xbf16>, %gk: tensor<?x?x?x64xf32>, %h0: tensor<?x?x64x128xf32>)
    -> (tensor<?x?x?x128xbf16>, tensor<?x?x64x128xf32>) {
  %o, %ht = tile.program chunk 64 slices 1
      sequences(%q, %k, %v, %gk : tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?x128xbf16>, tensor<?x?x?x64xf32>)
      initial(%h0 : tensor<?x?x64x128xf32>)
      outputs(tensor<?x?x?x128xbf16>) finals(tensor<?x?x64x128xf32>) {
  ^bb0(%qr: !tile.rows<vector<64xbf16>>, %kr: !tile.rows<vector<64xbf16>>, %vr: !tile.rows<vector<128xbf16>>, %gr: !tile.rows<vector<64xf32>>, %h0r: !tile.slots<vector<64x128xf32>>, %or: !tile.rows<vector<128xbf16>>, %hr: !tile.slots<vector<64x128xf32>>, %length: index, %slice: index, %head: index, %heads: index):
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %chunk = arith.constant 64 : index
    %scale = arith.constant dense<0.12500000> : vector<64x128xf32>
    %zero64x64 = arith.constant dense<0.0> : vector<64x64xf32>
    %zero64x128 = arith.constant dense<0.0> : vector<64x128xf32>
    %vc = arith.constant 0 : index
    %n = arith.ceildivui %length, %chunk : index
    %s0 = tile.load_slot %h0r[%c0] at (%c0, %vc) : !tile.slots<vector<64x128xf32>> -> vector<64x128xf32>
    %S = scf.for %i = %c0 to %n step %c1 iter_args(%s = %s0) -> vector<64x128xf32> {
      %last = arith.subi %n, %c1 : index
      %c = arith.subi %last, %i : index
      %first = arith.muli %c, %chunk : index
      %qt = tile.load %qr[%first, %c0] : !tile.rows<vector<64xbf16>> -> vector<64x64xbf16>
      %kt = tile.load %kr[%first, %c0] : !tile.rows<vector<64xbf16>> -> vector<64x64xbf16>
      %vt = tile.load %vr[%first, %vc] : !tile.rows<vector<128xbf16>> -> vector<64x128xbf16>
      %gt = tile.load %gr[%first, %c0] : !tile.rows<vector<64xf32>> -> vector<64x64xf32>
      %G = tile.cumsum reverse %gt : vector<64x64xf32>
      %qf = arith.extf %qt : vector<64x64xbf16> to vector<64x64xf32>
      %kf = arith.extf %kt : vector<64x64xbf16> to vector<64x64xf32>
      %Gm = vector.extract %G[31] : vector<64xf32> from vector<64x64xf32>
      %Gms = tile.broadcast %Gm along 1 : vector<64xf32> -> vector<64x64xf32>
      %dq = arith.subf %G, %Gms : vector<64x64xf32>
      %eq = math.exp %dq : vector<64x64xf32>
      %qb = arith.mulf %qf, %eq : vector<64x64xf32>
      %qbb = arith.truncf %qb : vector<64x64xf32> to vector<64x64xbf16>
      %dk = arith.subf %Gms, %G : vector<64x64xf32>
      %ek = math.exp %dk : vector<64x64xf32>
      %kb = arith.mulf %kf, %ek : vector<64x64xf32>
      %kbb = arith.truncf %kb : vector<64x64xf32> to vector<64x64xbf16>
      %p = tile.dot %qbb, %kbb transposed, %zero64x64 : vector<64x64xbf16>, vector<64x64xbf16>, vector<64x64xf32>
      %pm = tile.mask upper %p else 0.0 : vector<64x64xf32>
      %eG = math.exp %G : vector<64x64xf32>
      %qG = arith.mulf %qf, %eG : vector<64x64xf32>
      %qGb = arith.truncf %qG : vector<64x64xf32> to vector<64x64xbf16>
      %sb = arith.truncf %s : vector<64x128xf32> to vector<64x128xbf16>
      %oi = tile.dot %qGb, %sb, %zero64x128 : vector<64x64xbf16>, vector<64x128xbf16>, vector<64x128xf32>
      %GC = vector.extract %G[0] : vector<64xf32> from vector<64x64xf32>
      %GCs = tile.broadcast %GC along 1 : vector<64xf32> -> vector<64x64xf32>
      %r = arith.subf %GCs, %G : vector<64x64xf32>
      %er = math.exp %r : vector<64x64xf32>
      %kd = arith.mulf %kf, %er : vector<64x64xf32>
      %kdb = arith.truncf %kd : vector<64x64xf32> to vector<64x64xbf16>
      %eC = math.exp %GC : vector<64xf32>
      %eCs = tile.broadcast %eC along 0 : vector<64xf32> -> vector<64x128xf32>
      %s1 = arith.mulf %s, %eCs : vector<64x128xf32>
      %pb = arith.truncf %pm : vector<64x64xf32> to vector<64x64xbf16>
      %oa = tile.dot %pb, %vt, %oi : vector<64x64xbf16>, vector<64x128xbf16>, vector<64x128xf32>
      %os = arith.mulf %oa, %scale : vector<64x128xf32>
      %ob = arith.truncf %os : vector<64x128xf32> to vector<64x128xbf16>
      tile.store %ob, %or[%first, %vc] : vector<64x128xbf16>, !tile.rows<vector<128xbf16>>
      %s2 = tile.dot %kdb transposed, %vt, %s1 : vector<64x64xbf16>, vector<64x128xbf16>, vector<64x128xf32>
      scf.yield %s2 : vector<64x128xf32>
    }
    tile.store_slot %S, %hr[%c0] at (%c0, %vc) : vector<64x128xf32>, !tile.slots<vector<64x128xf32>>
    tile.end
  }
  return %o, %ht : tensor<?x?x?x128xbf16>, tensor<?x?x64x128xf32>
}
