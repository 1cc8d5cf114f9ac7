// A third of e^x and e^-x is marked for multiply-adds, behind a product and where all that is made
// of them is used by a branch on the check of x that goes with it.
// RUN: ejk-opt %s --ejk-assign-tile-layouts=arch=sm_90a -o %t.mlir
// RUN: ejk-opt %t.mlir --ejk-interpret -o /dev/null
// RUN: ejk-opt %t.mlir --ejk-split-exponentials -o %t.shared.mlir
// RUN: FileCheck %s < %t.shared.mlir
// RUN: ejk-opt %t.shared.mlir --ejk-interpret -o /dev/null

// No product is in front of what the loop starts from.
// CHECK-LABEL: func.func @carried
// CHECK-NOT:     tile.polynomial
// CHECK:         scf.for
// CHECK:           tile.dot
// CHECK:           math.exp %{{.*}} {tile.layouts = [{{.*}}], tile.polynomial = 3 : i64}
// CHECK:           math.exp %{{.*}} {tile.layouts = [{{.*}}], tile.polynomial = 3 : i64}
// CHECK-NOT:     tile.polynomial

// Not where x may be too large, or is not what is checked; without a product, or anything to share.
// DEFINE: %{stays} = ejk-opt --ejk-assign-tile-layouts=arch=sm_90a --ejk-split-exponentials | FileCheck %s --check-prefix=STAYS
// RUN: sed 's/range_guard 64.0/range_guard 87.5/' %s | %{stays}
// RUN: sed 's/64.0 of %%x /64.0 of %%nx /' %s | %{stays}
// RUN: sed '/%%d = tile.dot/{h;d;}; /%%weak = /G; s/mulf %%d, /mulf %%square, /; s/yield %%d /yield %%square /' %s | %{stays}
// RUN: sed 's/tile.dot .*/arith.addf %%square, %%square : vector<64x64xf32>/' %s | %{stays}
// RUN: sed 's/%%i = math.exp %%nx /%%i = math.absf %%nx /' %s | %{stays}
// Nor where they are used on the other side, by another branch, with another check, after the loop,
// or whatever the check says.
// RUN: sed 's/tile.yield %%d /tile.yield %%s /' %s | %{stays}
// RUN: sed 's/tile.guarded %%w /tile.guarded %%other /' %s | %{stays}
// RUN: sed 's/scf.yield %%sum, %%weak/scf.yield %%sum, %%other/' %s | %{stays}
// RUN: sed 's/tile.store %%start, /tile.store %%last#0, /' %s | %{stays}
// RUN: sed 's/tile.store %%o, /tile.store %%e, /' %s | %{stays}
// What the loop starts from stays for want of a product in front alone.
// DEFINE: %{shared} = ejk-opt --ejk-assign-tile-layouts=arch=sm_90a --ejk-split-exponentials | FileCheck %s
// RUN: sed 's/tile.store %%start, /tile.store %%square, /' %s | %{shared}
// A branch may hand on both together, and not one without the other.
// DEFINE: %{both} = sed 's/scf.yield %%sum, %%weak : /%%both:2 = scf.if %%few -> (vector<64x64xf32>, i1) {\nscf.yield %%sum, %%weak : vector<64x64xf32>, i1\n} else {\nscf.yield %%square, %%other : vector<64x64xf32>, i1\n}\nscf.yield %%both#0, %%both#1 : /' %s
// RUN: %{both} | %{shared}
// RUN: %{both} | sed 's/scf.yield %%sum, %%weak/scf.yield %%sum, %%other/' | %{stays}
// Products of other architectures' tensor cores take their warps' own instructions.
// RUN: ejk-opt %s --ejk-assign-tile-layouts=arch=sm_80 --ejk-split-exponentials | FileCheck %s --check-prefix=STAYS
// STAYS: func.func @carried
// STAYS-NOT: tile.polynomial
func.func @carried() {
  %k = check.random normal seed 1 : tensor<2x200x1x64xbf16>
  %g = check.random normal seed 2 : tensor<2x200x1x64xf32>
  %a, %b = tile.program chunk 64 slices 1
      sequences(%k, %g : tensor<2x200x1x64xbf16>, tensor<2x200x1x64xf32>)
      outputs(tensor<2x200x1x64xf32>, tensor<2x200x1x64xf32>) {
  ^bb0(%kr: !tile.rows<vector<64xbf16>>, %xr: !tile.rows<vector<64xf32>>, %ar: !tile.rows<vector<64xf32>>,
       %br: !tile.rows<vector<64xf32>>, %length: index, %slice: index, %head: index, %heads: index):
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c64 = arith.constant 64 : index
    %square = arith.constant dense<0.0> : vector<64x64xf32>
    %n = arith.ceildivui %length, %c64 : index
    %x0 = tile.load %xr[%c0, %c0] : !tile.rows<vector<64xf32>> -> vector<64x64xf32>
    %nx0 = arith.negf %x0 : vector<64x64xf32>
    %e0 = math.exp %x0 : vector<64x64xf32>
    %i0 = math.exp %nx0 : vector<64x64xf32>
    %start = arith.addf %e0, %i0 : vector<64x64xf32>
    %weak0 = tile.range_guard 64.0 of %x0 : vector<64x64xf32>
    %last:2 = scf.for %c = %c0 to %n step %c1 iter_args(%s = %start, %w = %weak0) -> (vector<64x64xf32>, i1) {
      %first = arith.muli %c, %c64 : index
      %few = arith.cmpi slt, %c, %c1 : index
      %other = tile.range_guard 64.0 of %square : vector<64x64xf32>
      %kt = tile.load %kr[%first, %c0] : !tile.rows<vector<64xbf16>> -> vector<64x64xbf16>
      %d = tile.dot %kt, %kt transposed, %square : vector<64x64xbf16>, vector<64x64xbf16>, vector<64x64xf32>
      %o = tile.guarded %w -> (vector<64x64xf32>) fast {
        %none = arith.mulf %d, %square : vector<64x64xf32>
        %then = arith.addf %none, %s : vector<64x64xf32>
        tile.yield %then : vector<64x64xf32>
      } exact {
        tile.yield %d : vector<64x64xf32>
      }
      %next = arith.addi %first, %c64 : index
      %x = tile.load %xr[%next, %c0] : !tile.rows<vector<64xf32>> -> vector<64x64xf32>
      %nx = arith.negf %x : vector<64x64xf32>
      %e = math.exp %x : vector<64x64xf32>
      %i = math.exp %nx : vector<64x64xf32>
      %sum = arith.addf %e, %i : vector<64x64xf32>
      %weak = tile.range_guard 64.0 of %x : vector<64x64xf32>
      tile.store %o, %ar[%first, %c0] : vector<64x64xf32>, !tile.rows<vector<64xf32>>
      scf.yield %sum, %weak : vector<64x64xf32>, i1
    }
    tile.store %start, %br[%c0, %c0] : vector<64x64xf32>, !tile.rows<vector<64xf32>>
    tile.end
  }
  %ng = arith.negf %g : tensor<2x200x1x64xf32>
  %eg = math.exp %g : tensor<2x200x1x64xf32>
  %ig = math.exp %ng : tensor<2x200x1x64xf32>
  %expected = arith.addf %eg, %ig : tensor<2x200x1x64xf32>
  check.expect_close %a, %expected max_relative 1.0e-6 : tensor<2x200x1x64xf32>
  return
}
