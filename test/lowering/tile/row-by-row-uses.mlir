// Where matrices that loops make row by row come from, and who takes them: another loop's, a
// widened one, a branch that makes tiles of its own meanwhile, products, a store of 16 bits.
// DEFINE: %{run} = env EJK_CUDA_DRIVER=%emulated-cuda ejk-run --schedule=step %s --device=cuda --random B=1,T=100,H=2 --check
// RUN: %{run} --entry=branch --arch=sm_90a
// RUN: %{run} --entry=branch --arch=sm_80
// RUN: %{run} --entry=starts --arch=sm_90a
// RUN: %{run} --entry=starts --arch=sm_80
// RUN: %{run} --entry=factors --arch=sm_90a
// RUN: %{run} --entry=factors --arch=sm_80
// RUN: %{run} --entry=factors --arch=sm_90a --warp-specialize
// RUN: %{run} --entry=again --arch=sm_90a

// The matrix is used last in a branch, whose own tiles must not take its place.
func.func @branch(%q: tensor<?x?x?x64xbf16>) -> tensor<?x?x?x64xf32> {
  %o = tile.program chunk 64 slices 1 sequences(%q : tensor<?x?x?x64xbf16>) outputs(tensor<?x?x?x64xf32>) {
  ^bb0(%qr: !tile.rows<vector<64xbf16>>, %or: !tile.rows<vector<64xf32>>, %length: index, %slice: index, %head: index, %heads: index):
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c64 = arith.constant 64 : index
    %ones = arith.constant dense<1.0> : vector<64x64xf32>
    %zeros = arith.constant dense<0.0> : vector<64x64xf32>
    %n = arith.ceildivui %length, %c64 : index
    scf.for %i = %c0 to %n step %c1 {
      %first = arith.muli %i, %c64 : index
      %k = tile.load %qr[%first, %c0] : !tile.rows<vector<64xbf16>> -> vector<64x64xbf16>
      %made = scf.for %r = %c0 to %c64 step %c1 iter_args(%m = %ones) -> vector<64x64xf32> {
        %x = vector.extract %k[%r] : vector<64xbf16> from vector<64x64xbf16>
        %w = arith.extf %x : vector<64xbf16> to vector<64xf32>
        %next = vector.insert %w, %m[%r] : vector<64xf32> into vector<64x64xf32>
        scf.yield %next : vector<64x64xf32>
      }
      %isFirst = arith.cmpi eq, %i, %c0 : index
      %both = scf.if %isFirst -> vector<64x64xf32> {
        %d = tile.dot %k, %k transposed, %zeros : vector<64x64xbf16>, vector<64x64xbf16>, vector<64x64xf32>
        %s = tile.sum %d over 0 : vector<64x64xf32> -> vector<64xf32>
        %a = tile.broadcast %s along 0 : vector<64xf32> -> vector<64x64xf32>
        %e = arith.mulf %d, %a : vector<64x64xf32>
        %t = tile.sum %e over 1 : vector<64x64xf32> -> vector<64xf32>
        %b = tile.broadcast %t along 1 : vector<64xf32> -> vector<64x64xf32>
        %f = arith.mulf %made, %b : vector<64x64xf32>
        scf.yield %f : vector<64x64xf32>
      } else {
        %s = tile.sum %made over 0 : vector<64x64xf32> -> vector<64xf32>
        %a = tile.broadcast %s along 0 : vector<64xf32> -> vector<64x64xf32>
        %f = arith.mulf %made, %a : vector<64x64xf32>
        scf.yield %f : vector<64x64xf32>
      }
      tile.store %both, %or[%first, %c0] : vector<64x64xf32>, !tile.rows<vector<64xf32>>
    }
    tile.end
  }
  return %o : tensor<?x?x?x64xf32>
}

// Every second row of one loop's, which starts from widened rows, is the next one's.
func.func @starts(%q: tensor<?x?x?x64xbf16>) -> tensor<?x?x?x64xf32> {
  %o = tile.program chunk 64 slices 1 sequences(%q : tensor<?x?x?x64xbf16>) outputs(tensor<?x?x?x64xf32>) {
  ^bb0(%qr: !tile.rows<vector<64xbf16>>, %or: !tile.rows<vector<64xf32>>, %length: index, %slice: index, %head: index, %heads: index):
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %c3 = arith.constant 3 : index
    %c64 = arith.constant 64 : index
    %twos = arith.constant dense<2.0> : vector<64xf32>
    %n = arith.ceildivui %length, %c64 : index
    scf.for %i = %c0 to %n step %c1 {
      %first = arith.muli %i, %c64 : index
      %k = tile.load %qr[%first, %c0] : !tile.rows<vector<64xbf16>> -> vector<64x64xbf16>
      %wide = arith.extf %k : vector<64x64xbf16> to vector<64x64xf32>
      %made:2 = scf.for %r = %c0 to %c64 step %c2 iter_args(%m = %wide, %l = %wide) -> (vector<64x64xf32>, vector<64x64xf32>) {
        %next = vector.insert %twos, %m[%r] : vector<64xf32> into vector<64x64xf32>
        %x = vector.extract %k[%r] : vector<64xbf16> from vector<64x64xbf16>
        %w = arith.extf %x : vector<64xbf16> to vector<64xf32>
        %y = arith.addf %w, %twos : vector<64xf32>
        %more = vector.insert %y, %l[%r] : vector<64xf32> into vector<64x64xf32>
        scf.yield %next, %more : vector<64x64xf32>, vector<64x64xf32>
      }
      %again = scf.for %r = %c0 to %c64 step %c3 iter_args(%m = %made#0) -> vector<64x64xf32> {
        %x = vector.extract %k[%r] : vector<64xbf16> from vector<64x64xbf16>
        %w = arith.extf %x : vector<64xbf16> to vector<64xf32>
        %next = vector.insert %w, %m[%r] : vector<64xf32> into vector<64x64xf32>
        scf.yield %next : vector<64x64xf32>
      }
      %s = arith.addf %again, %made#1 : vector<64x64xf32>
      tile.store %s, %or[%first, %c0] : vector<64x64xf32>, !tile.rows<vector<64xf32>>
    }
    tile.end
  }
  return %o : tensor<?x?x?x64xf32>
}

func.func @factors(%q: tensor<?x?x?x64xbf16>) -> (tensor<?x?x?x64xf32>, tensor<?x?x?x64xbf16>) {
  %o, %p = tile.program chunk 64 slices 1 sequences(%q : tensor<?x?x?x64xbf16>)
      outputs(tensor<?x?x?x64xf32>, tensor<?x?x?x64xbf16>) {
  ^bb0(%qr: !tile.rows<vector<64xbf16>>, %or: !tile.rows<vector<64xf32>>, %pr: !tile.rows<vector<64xbf16>>,
       %length: index, %slice: index, %head: index, %heads: index):
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c63 = arith.constant 63 : index
    %c64 = arith.constant 64 : index
    %zeros = arith.constant dense<0.0> : vector<64x64xf32>
    %none = arith.constant dense<0.0> : vector<64x64xbf16>
    %n = arith.ceildivui %length, %c64 : index
    scf.for %i = %c0 to %n step %c1 {
      %first = arith.muli %i, %c64 : index
      %k = tile.load %qr[%first, %c0] : !tile.rows<vector<64xbf16>> -> vector<64x64xbf16>
      %turned = scf.for %r = %c0 to %c64 step %c1 iter_args(%m = %none) -> vector<64x64xbf16> {
        %at = arith.subi %c63, %r : index
        %x = vector.extract %k[%r] : vector<64xbf16> from vector<64x64xbf16>
        %next = vector.insert %x, %m[%at] : vector<64xbf16> into vector<64x64xbf16>
        scf.yield %next : vector<64x64xbf16>
      }
      %a = tile.dot %turned, %k transposed, %zeros : vector<64x64xbf16>, vector<64x64xbf16>, vector<64x64xf32>
      %b = tile.dot %k, %turned, %a : vector<64x64xbf16>, vector<64x64xbf16>, vector<64x64xf32>
      tile.store %b, %or[%first, %c0] : vector<64x64xf32>, !tile.rows<vector<64xf32>>
      tile.store %turned, %pr[%first, %c0] : vector<64x64xbf16>, !tile.rows<vector<64xbf16>>
    }
    tile.end
  }
  return %o, %p : tensor<?x?x?x64xf32>, tensor<?x?x?x64xbf16>
}

// What waits and is used twice on the other side, once in a loop there.
func.func @again(%q: tensor<?x?x?x64xbf16>) -> tensor<?x?x?x64xf32> {
  %o = tile.program chunk 64 slices 1 sequences(%q : tensor<?x?x?x64xbf16>) outputs(tensor<?x?x?x64xf32>) {
  ^bb0(%qr: !tile.rows<vector<64xbf16>>, %or: !tile.rows<vector<64xf32>>, %length: index, %slice: index, %head: index, %heads: index):
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %c64 = arith.constant 64 : index
    %halves = arith.constant dense<0.5> : vector<64x64xf32>
    %zeros = arith.constant dense<0.0> : vector<64x64xf32>
    %n = arith.ceildivui %length, %c64 : index
    %last = scf.for %i = %c0 to %n step %c1 iter_args(%s = %zeros) -> vector<64x64xf32> {
      %first = arith.muli %i, %c64 : index
      %k = tile.load %qr[%first, %c0] : !tile.rows<vector<64xbf16>> -> vector<64x64xbf16>
      %f = arith.extf %k : vector<64x64xbf16> to vector<64x64xf32>
      %small = tile.range_guard 1.0 of %f : vector<64x64xf32>
      %next = tile.guarded %small -> (vector<64x64xf32>) fast {
        %d = tile.dot %k, %k transposed, %s : vector<64x64xbf16>, vector<64x64xbf16>, vector<64x64xf32>
        tile.yield %d : vector<64x64xf32>
      } exact {
        %w = arith.mulf %f, %s : vector<64x64xf32>
        %l = scf.for %r = %c0 to %c2 step %c1 iter_args(%m = %halves) -> vector<64x64xf32> {
          %p = arith.mulf %w, %m : vector<64x64xf32>
          %h = arith.mulf %p, %halves : vector<64x64xf32>
          scf.yield %h : vector<64x64xf32>
        }
        %d = tile.dot %k, %k transposed, %l : vector<64x64xbf16>, vector<64x64xbf16>, vector<64x64xf32>
        %a = arith.addf %d, %w : vector<64x64xf32>
        %b = arith.mulf %w, %halves : vector<64x64xf32>
        %t = arith.subf %a, %b : vector<64x64xf32>
        %u = arith.addf %t, %s : vector<64x64xf32>
        %e = arith.mulf %u, %halves : vector<64x64xf32>
        tile.yield %e : vector<64x64xf32>
      }
      tile.store %next, %or[%first, %c0] : vector<64x64xf32>, !tile.rows<vector<64xf32>>
      scf.yield %next : vector<64x64xf32>
    }
    tile.end
  }
  return %o : tensor<?x?x?x64xf32>
}
