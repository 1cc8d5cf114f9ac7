// e^x and e^-x by multiply-adds: times their inverses, by the unit of exponentials, they make one, of
// any x that the check lets pass, its bound included.
// RUN: ejk-opt %s --ejk-specialize "--ejk-to-gpu=arch=sm_90a" --mlir-print-ir-after=ejk-split-exponentials -o /dev/null 2>&1 | FileCheck %s
// CHECK-COUNT-2: math.exp %{{.*}}, tile.polynomial = 3 : i64}
// DEFINE: %{run} = env EJK_CUDA_DRIVER=%emulated-cuda ejk-run --schedule=step --arch=sm_90a --device=cuda --check --random
// RUN: %{run} B=2,T=192,H=2 %s --tolerance=4e-6
// RUN: %{run} B=2,T=200,H=2 %s --tolerance=4e-6 --warp-specialize
// RUN: sed 's/dense<60.0>/dense<0.5>/' %s >%t.small.mlir
// RUN: %{run} B=2,T=192,H=2 %t.small.mlir --tolerance=2e-6
// What is beyond it is not used: all is taken on the other side.
// RUN: sed 's/dense<87.0>/dense<120.0>/; s/dense<-87.0>/dense<-120.0>/' %s >%t.large.mlir
// RUN: %{run} B=2,T=192,H=2 %t.large.mlir --tolerance=1e-9
func.func @f(%k: tensor<?x?x?x64xbf16>, %x: tensor<?x?x?x64xbf16>)
    -> (tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>) {
  %a, %b, %c = tile.program chunk 64 slices 1
      sequences(%k, %x : tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>)
      outputs(tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>) {
  ^bb0(%kr: !tile.rows<vector<64xbf16>>, %xr: !tile.rows<vector<64xbf16>>, %ar: !tile.rows<vector<64xf32>>,
       %br: !tile.rows<vector<64xf32>>, %cr: !tile.rows<vector<64xf32>>, %length: index, %slice: index,
       %head: index, %heads: index):
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c64 = arith.constant 64 : index
    %square = arith.constant dense<0.0> : vector<64x64xf32>
    %scale = arith.constant dense<60.0> : vector<64x64xf32>
    %most = arith.constant dense<87.0> : vector<64x64xf32>
    %least = arith.constant dense<-87.0> : vector<64x64xf32>
    %log2e = arith.constant dense<1.44269504089> : vector<64x64xf32>
    %n = arith.ceildivui %length, %c64 : index
    scf.for %i = %c0 to %n step %c1 {
      %first = arith.muli %i, %c64 : index
      %kt = tile.load %kr[%first, %c0] : !tile.rows<vector<64xbf16>> -> vector<64x64xbf16>
      %xt = tile.load %xr[%first, %c0] : !tile.rows<vector<64xbf16>> -> vector<64x64xbf16>
      %xw = arith.extf %xt : vector<64x64xbf16> to vector<64x64xf32>
      %xm = arith.mulf %xw, %scale : vector<64x64xf32>
      %xl = arith.maximumf %xm, %least : vector<64x64xf32>
      %xs = arith.minimumf %xl, %most : vector<64x64xf32>
      %weak = tile.range_guard 87.0 of %xs : vector<64x64xf32>
      %both:3 = tile.guarded %weak -> (vector<64x64xf32>, vector<64x64xf32>, vector<64x64xf32>) fast {
        %d = tile.dot %kt, %kt transposed, %square : vector<64x64xbf16>, vector<64x64xbf16>, vector<64x64xf32>
        %nx = arith.negf %xs : vector<64x64xf32>
        %e = math.exp %xs : vector<64x64xf32>
        %ne = math.exp %nx : vector<64x64xf32>
        %y = arith.mulf %xs, %log2e : vector<64x64xf32>
        %p = math.exp2 %y : vector<64x64xf32>
        %ny = arith.negf %y : vector<64x64xf32>
        %np = math.exp2 %ny : vector<64x64xf32>
        %one = arith.mulf %e, %np : vector<64x64xf32>
        %none = arith.mulf %ne, %p : vector<64x64xf32>
        tile.yield %one, %none, %d : vector<64x64xf32>, vector<64x64xf32>, vector<64x64xf32>
      } exact {
        tile.yield %square, %square, %xs : vector<64x64xf32>, vector<64x64xf32>, vector<64x64xf32>
      }
      tile.store %both#0, %ar[%first, %c0] : vector<64x64xf32>, !tile.rows<vector<64xf32>>
      tile.store %both#1, %br[%first, %c0] : vector<64x64xf32>, !tile.rows<vector<64xf32>>
      tile.store %both#2, %cr[%first, %c0] : vector<64x64xf32>, !tile.rows<vector<64xf32>>
    }
    tile.end
  }
  return %a, %b, %c : tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>
}
