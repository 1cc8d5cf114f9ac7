// A program keeps its meaning through print and parse.
// RUN: ejk-opt %s | ejk-opt | FileCheck %s

// CHECK-LABEL: func.func @linear
func.func @linear(%q: tensor<?x?x?x64xbf16>, %k: tensor<?x?x?x64xbf16>,
                  %v: tensor<?x?x?x64xbf16>, %g: tensor<?x?x?xf32>)
    -> (tensor<?x?x?x64xbf16>, tensor<?x?x64x64xf32>) {
  // CHECK: tile.program chunk 64 slices 1 sequences({{.*}}) outputs(tensor<?x?x?x64xbf16>) finals(tensor<?x?x64x64xf32>) {
  %o, %ht = tile.program chunk 64 slices 1
      sequences(%q, %k, %v, %g : tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?xf32>)
      outputs(tensor<?x?x?x64xbf16>) finals(tensor<?x?x64x64xf32>) {
  ^bb0(%qr: !tile.rows<vector<64xbf16>>, %kr: !tile.rows<vector<64xbf16>>,
       %vr: !tile.rows<vector<64xbf16>>, %gr: !tile.rows<f32>, %or: !tile.rows<vector<64xbf16>>, %hr: !tile.slots<vector<64x64xf32>>,
       %length: index, %slice: index, %head: index, %heads: index):
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c64 = arith.constant 64 : index
    %zero = arith.constant dense<0.0> : vector<64x64xf32>
    %n = arith.ceildivui %length, %c64 : index
    %S = scf.for %c = %c0 to %n step %c1 iter_args(%s = %zero) -> vector<64x64xf32> {
      %first = arith.muli %c, %c64 : index
      %qt = tile.load %qr[%first, %c0] : !tile.rows<vector<64xbf16>> -> vector<64x64xbf16>
      %kt = tile.load %kr[%first, %c0] : !tile.rows<vector<64xbf16>> -> vector<64x64xbf16>
      %vt = tile.load %vr[%first, %c0] : !tile.rows<vector<64xbf16>> -> vector<64x64xbf16>
      %gt = tile.load %gr[%first, %c0] : !tile.rows<f32> -> vector<64xf32>
      // CHECK: tile.window %{{.*}} from(%{{.*}}) to(%{{.*}}) else 0.000000e+00 : vector<64xf32>
      %gw = tile.window %gt from (%c0) to (%length) else 0.0 : vector<64xf32>
      // CHECK: tile.cumsum %{{.*}} : vector<64xf32>
      %G = tile.cumsum %gw : vector<64xf32>
      // CHECK: tile.cumsum reverse exclusive %{{.*}} from 32 : vector<64xf32>
      %G32 = tile.cumsum reverse exclusive %gw from 32 : vector<64xf32>
      %Gi = tile.broadcast %G along 0 : vector<64xf32> -> vector<64x64xf32>
      %Gj = tile.broadcast %G along 1 : vector<64xf32> -> vector<64x64xf32>
      %d = arith.subf %Gi, %Gj : vector<64x64xf32>
      // CHECK: tile.mask lower
      %dm = tile.mask lower %d else 0xFF800000 : vector<64x64xf32>
      %e = math.exp %dm : vector<64x64xf32>
      // CHECK: tile.solve %{{.*}}, %{{.*}} : vector<64x64xf32>, vector<64x64xf32>
      // CHECK: tile.solve transposed %{{.*}}, %{{.*}} : vector<64x64xf32>, vector<64x64xf32>
      // CHECK: tile.invert_diagonal %{{.*}} blocks 16 : vector<64x64xf32>
      // CHECK: tile.merge_inverses %{{.*}} blocks 16 : vector<64x64xf32>
      %x = tile.solve %e, %d : vector<64x64xf32>, vector<64x64xf32>
      %y = tile.solve transposed %e, %x : vector<64x64xf32>, vector<64x64xf32>
      %z = tile.invert_diagonal %y blocks 16 : vector<64x64xf32>
      %z2 = tile.merge_inverses %z blocks 16 : vector<64x64xf32>
      // CHECK: tile.dot %{{.*}}, %{{.*}} transposed, %{{.*}} : vector<64x64xbf16>, vector<64x64xbf16>, vector<64x64xf32>
      %p = tile.dot %qt, %kt transposed, %zero : vector<64x64xbf16>, vector<64x64xbf16>, vector<64x64xf32>
      %pe = arith.mulf %p, %e : vector<64x64xf32>
      %pb = arith.truncf %pe : vector<64x64xf32> to vector<64x64xbf16>
      %o1 = tile.dot %pb, %vt, %zero : vector<64x64xbf16>, vector<64x64xbf16>, vector<64x64xf32>
      %ob = arith.truncf %o1 : vector<64x64xf32> to vector<64x64xbf16>
      tile.store %ob, %or[%first, %c0] : vector<64x64xbf16>, !tile.rows<vector<64xbf16>>
      %s1 = tile.dot %kt transposed, %vt, %s : vector<64x64xbf16>, vector<64x64xbf16>, vector<64x64xf32>
      scf.yield %s1 : vector<64x64xf32>
    }
    tile.store_slot %S, %hr[%c0] at (%c0, %c0) : vector<64x64xf32>, !tile.slots<vector<64x64xf32>>
    tile.end
  }
  return %o, %ht : tensor<?x?x?x64xbf16>, tensor<?x?x64x64xf32>
}

// CHECK-LABEL: func.func @f32_matmuls
func.func @f32_matmuls(%q: tensor<?x?x?x16xf32>) -> tensor<?x?x?x16xf32> {
  %o = tile.program chunk 16 slices 1 sequences(%q : tensor<?x?x?x16xf32>) outputs(tensor<?x?x?x16xf32>) {
  ^bb0(%qr: !tile.rows<vector<16xf32>>, %or: !tile.rows<vector<16xf32>>,
       %length: index, %slice: index, %head: index, %heads: index):
    %x = tile.load %qr[%slice, %slice] : !tile.rows<vector<16xf32>> -> vector<16x16xf32>
    // CHECK: tile.dot %{{.*}}, %{{.*}} transposed, %{{.*}} in bf16x6 : vector<16x16xf32>, vector<16x16xf32>, vector<16x16xf32>
    // CHECK: tile.dot %{{.*}} transposed, %{{.*}}, %{{.*}} over [0, 16] in bf16x3 : vector<16x16xf32>
    // CHECK: tile.dot %{{.*}}, %{{.*}}, %{{.*}} : vector<16x16xf32>
    // CHECK: %[[R:.*]] = tile.round_to_tf32 %{{.*}} : vector<16x16xf32>
    // CHECK: tile.dot %[[R]], %[[R]], %{{.*}} in tf32 : vector<16x16xf32>
    // CHECK: tile.solve %{{.*}}, %{{.*}} in bf16x6 : vector<16x16xf32>
    %y = tile.dot %x, %x transposed, %x in bf16x6 : vector<16x16xf32>, vector<16x16xf32>, vector<16x16xf32>
    %z = tile.dot %y transposed, %x, %y over [0, 16] in bf16x3 : vector<16x16xf32>, vector<16x16xf32>, vector<16x16xf32>
    %w = tile.dot %z, %x, %y : vector<16x16xf32>, vector<16x16xf32>, vector<16x16xf32>
    %r = tile.round_to_tf32 %w : vector<16x16xf32>
    %p = tile.dot %r, %r, %w in tf32 : vector<16x16xf32>, vector<16x16xf32>, vector<16x16xf32>
    %s = tile.solve %p, %z in bf16x6 : vector<16x16xf32>, vector<16x16xf32>
    tile.store %s, %or[%slice, %slice] : vector<16x16xf32>, !tile.rows<vector<16xf32>>
    tile.end
  }
  return %o : tensor<?x?x?x16xf32>
}

// CHECK-LABEL: func.func @choose
// CHECK: tile.choose single %{{.*}}, several %{{.*}} of %{{.*}} : tensor<?x?x64x64xf32>, tensor<?x?x?x64xbf16>
func.func @choose(%q: tensor<?x?x?x64xbf16>, %a: tensor<?x?x64x64xf32>, %b: tensor<?x?x64x64xf32>)
    -> tensor<?x?x64x64xf32> {
  %c = tile.choose single %a, several %b of %q : tensor<?x?x64x64xf32>, tensor<?x?x?x64xbf16>
  return %c : tensor<?x?x64x64xf32>
}
