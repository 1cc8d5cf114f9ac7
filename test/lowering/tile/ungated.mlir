// No gates, an initial state: products alone, one warp group of four.
// RUN: ejk-compile --schedule=step --arch=sm_90 %s --emit=ptx | FileCheck %s

// Rows come by asynchronous copies, a chunk ahead; keys are read as they lie and
// transposed; no product waits for more than its operands.
// CHECK-LABEL: .entry ungated_blocks0(
// CHECK: .maxntid 128, 1, 1
// CHECK-NOT: .local
// CHECK: cp.async.cg.shared.global [{{.*}}], [{{.*}}], 16, %r
// CHECK: cp.async.wait_group
// CHECK: bar.sync
// CHECK: cp.async.cg.shared.global
// CHECK-DAG: ldmatrix.sync.aligned.m8n8.x4.shared.b16
// CHECK-DAG: ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16
// CHECK-DAG: mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32
// CHECK-DAG: cvt.rn.bf16x2.f32
// CHECK-DAG: st.global.b32
// CHECK: ret;

func.func @ungated(%q: tensor<?x?x?x64xbf16>, %k: tensor<?x?x?x64xbf16>, %v: tensor<?x?x?x64xbf16>, %h0: tensor<?x?x64x64xf32>)
    -> (tensor<?x?x?x64xbf16>, tensor<?x?x64x64xf32>) {
  %o, %ht = tile.program chunk 64 slices 1
      sequences(%q, %k, %v : tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>)
      initial(%h0 : tensor<?x?x64x64xf32>)
      outputs(tensor<?x?x?x64xbf16>) finals(tensor<?x?x64x64xf32>) {
  ^bb0(%qr: !tile.rows<vector<64xbf16>>, %kr: !tile.rows<vector<64xbf16>>, %vr: !tile.rows<vector<64xbf16>>, %h0r: !tile.slots<vector<64x64xf32>>, %or: !tile.rows<vector<64xbf16>>, %hr: !tile.slots<vector<64x64xf32>>, %length: index, %slice: index, %head: index, %heads: index):
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %chunk = arith.constant 64 : index
    %scale = arith.constant dense<0.12500000> : vector<64x64xf32>
    %zero64x64 = arith.constant dense<0.0> : vector<64x64xf32>
    %vc = arith.constant 0 : index
    %n = arith.ceildivui %length, %chunk : index
    %s0 = tile.load_slot %h0r[%c0] at (%c0, %vc) : !tile.slots<vector<64x64xf32>> -> vector<64x64xf32>
    %S = scf.for %i = %c0 to %n step %c1 iter_args(%s = %s0) -> vector<64x64xf32> {
      %first = arith.muli %i, %chunk : index
      %qt = tile.load %qr[%first, %c0] : !tile.rows<vector<64xbf16>> -> vector<64x64xbf16>
      %kt = tile.load %kr[%first, %c0] : !tile.rows<vector<64xbf16>> -> vector<64x64xbf16>
      %vt = tile.load %vr[%first, %vc] : !tile.rows<vector<64xbf16>> -> vector<64x64xbf16>
      %p = tile.dot %qt, %kt transposed, %zero64x64 : vector<64x64xbf16>, vector<64x64xbf16>, vector<64x64xf32>
      %pm = tile.mask lower %p else 0.0 : vector<64x64xf32>
      %sb = arith.truncf %s : vector<64x64xf32> to vector<64x64xbf16>
      %oi = tile.dot %qt, %sb, %zero64x64 : vector<64x64xbf16>, vector<64x64xbf16>, vector<64x64xf32>
      %pb = arith.truncf %pm : vector<64x64xf32> to vector<64x64xbf16>
      %oa = tile.dot %pb, %vt, %oi : vector<64x64xbf16>, vector<64x64xbf16>, vector<64x64xf32>
      %os = arith.mulf %oa, %scale : vector<64x64xf32>
      %ob = arith.truncf %os : vector<64x64xf32> to vector<64x64xbf16>
      tile.store %ob, %or[%first, %vc] : vector<64x64xbf16>, !tile.rows<vector<64xbf16>>
      %s2 = tile.dot %kt transposed, %vt, %s : vector<64x64xbf16>, vector<64x64xbf16>, vector<64x64xf32>
      scf.yield %s2 : vector<64x64xf32>
    }
    tile.store_slot %S, %hr[%c0] at (%c0, %vc) : vector<64x64xf32>, !tile.slots<vector<64x64xf32>>
    tile.end
  }
  return %o, %ht : tensor<?x?x?x64xbf16>, tensor<?x?x64x64xf32>
}
