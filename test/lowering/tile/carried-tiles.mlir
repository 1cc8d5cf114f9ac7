// RUN: ejk-opt %s --split-input-file --verify-diagnostics --ejk-specialize --ejk-assign-tile-layouts --ejk-plan-memory --ejk-lower-to-gpu
// A tile that a loop carries in shared memory lies in one place, or in two by turns.

#lanes = #tile.layout<lanes>
#shared = #tile.layout<shared>
func.func @good(%g: tensor<?x?x?xf32>) -> tensor<?x?x?xf32> {
  %o = tile.program chunk 64 slices 1 sequences(%g : tensor<?x?x?xf32>) outputs(tensor<?x?x?xf32>)
      attributes {tile.warps = 4} {
  ^bb0(%gr: !tile.rows<f32>, %or: !tile.rows<f32>,
       %length: index, %slice: index, %head: index, %heads: index):
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %one = arith.constant {tile.layouts = [#tile.layout<uniform>]} dense<1.0> : vector<64xf32>
    %first = tile.convert %one to <shared> : vector<64xf32>
    %end = scf.for %c = %c0 to %length step %c1 iter_args(%x = %first) -> (vector<64xf32>) {
      %xl = tile.convert %x to <lanes> : vector<64xf32>
      tile.store %xl, %or[%c, %c0] : vector<64xf32>, !tile.rows<f32>
      %y = arith.addf %xl, %xl {tile.layouts = [#lanes]} : vector<64xf32>
      %ys = tile.convert %y to <shared> : vector<64xf32>
      scf.yield %ys : vector<64xf32>
    } {tile.layouts = [#shared]}
    tile.end
  }
  return %o : tensor<?x?x?xf32>
}

// -----

#lanes = #tile.layout<lanes>
#shared = #tile.layout<shared>
func.func @used_behind(%g: tensor<?x?x?xf32>) -> tensor<?x?x?xf32> {
  %o = tile.program chunk 64 slices 1 sequences(%g : tensor<?x?x?xf32>) outputs(tensor<?x?x?xf32>)
      attributes {tile.warps = 4} {
  ^bb0(%gr: !tile.rows<f32>, %or: !tile.rows<f32>,
       %length: index, %slice: index, %head: index, %heads: index):
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %one = arith.constant {tile.layouts = [#tile.layout<uniform>]} dense<1.0> : vector<64xf32>
    %first = tile.convert %one to <shared> : vector<64xf32>
    %some = tile.convert %one to <lanes> : vector<64xf32>
    %end:2 = scf.for %c = %c0 to %length step %c1 iter_args(%x = %first, %s = %some)
        -> (vector<64xf32>, vector<64xf32>) {
      %ys = tile.convert %s to <shared> : vector<64xf32>
      // expected-error @below {{uses a tile in shared memory behind what takes its place}}
      %xl = tile.convert %x to <lanes> : vector<64xf32>
      tile.store %xl, %or[%c, %c0] : vector<64xf32>, !tile.rows<f32>
      scf.yield %ys, %xl : vector<64xf32>, vector<64xf32>
    } {tile.layouts = [#shared, #lanes]}
    tile.end
  }
  return %o : tensor<?x?x?xf32>
}

// -----

#lanes = #tile.layout<lanes>
#shared = #tile.layout<shared>
func.func @from_elsewhere(%g: tensor<?x?x?xf32>) -> tensor<?x?x?xf32> {
  %o = tile.program chunk 64 slices 1 sequences(%g : tensor<?x?x?xf32>) outputs(tensor<?x?x?xf32>)
      attributes {tile.warps = 4} {
  ^bb0(%gr: !tile.rows<f32>, %or: !tile.rows<f32>,
       %length: index, %slice: index, %head: index, %heads: index):
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %one = arith.constant {tile.layouts = [#tile.layout<uniform>]} dense<1.0> : vector<64xf32>
    %first = tile.convert %one to <shared> : vector<64xf32>
    // expected-error @below {{carries a tile in shared memory that comes from another place, or is used behind the loop}}
    %end = scf.for %c = %c0 to %length step %c1 iter_args(%x = %first) -> (vector<64xf32>) {
      %xl = tile.convert %x to <lanes> : vector<64xf32>
      tile.store %xl, %or[%c, %c0] : vector<64xf32>, !tile.rows<f32>
      %ys = tile.convert %xl to <shared> : vector<64xf32>
      scf.yield %ys : vector<64xf32>
    } {tile.layouts = [#shared]}
    %again = tile.convert %end to <lanes> : vector<64xf32>
    tile.store %again, %or[%c0, %c0] : vector<64xf32>, !tile.rows<f32>
    tile.end
  }
  return %o : tensor<?x?x?xf32>
}

// -----

#shared = #tile.layout<shared>
func.func @not_stored(%g: tensor<?x?x?xf32>) -> tensor<?x?x?xf32> {
  %o = tile.program chunk 64 slices 1 sequences(%g : tensor<?x?x?xf32>) outputs(tensor<?x?x?xf32>)
      attributes {tile.warps = 4} {
  ^bb0(%gr: !tile.rows<f32>, %or: !tile.rows<f32>,
       %length: index, %slice: index, %head: index, %heads: index):
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %one = arith.constant {tile.layouts = [#tile.layout<uniform>]} dense<1.0> : vector<64xf32>
    %first = tile.convert %one to <shared> : vector<64xf32>
    // expected-error @below {{hands on a tile in shared memory that is not stored there for the next iteration alone}}
    %end = scf.for %c = %c0 to %length step %c1 iter_args(%x = %first) -> (vector<64xf32>) {
      %xl = tile.convert %x to <lanes> : vector<64xf32>
      tile.store %xl, %or[%c, %c0] : vector<64xf32>, !tile.rows<f32>
      %loaded = tile.load %gr[%c, %c0] {tile.layouts = [#shared]} : !tile.rows<f32> -> vector<64xf32>
      scf.yield %loaded : vector<64xf32>
    } {tile.layouts = [#shared]}
    tile.end
  }
  return %o : tensor<?x?x?xf32>
}

// -----

#lanes = #tile.layout<lanes>
#shared = #tile.layout<shared>
func.func @row_of_shared(%g: tensor<?x?x?x64xf32>) -> tensor<?x?x?xf32> {
  %o = tile.program chunk 64 slices 1 sequences(%g : tensor<?x?x?x64xf32>) outputs(tensor<?x?x?xf32>)
      attributes {tile.warps = 4} {
  ^bb0(%gr: !tile.rows<vector<64xf32>>, %or: !tile.rows<f32>,
       %length: index, %slice: index, %head: index, %heads: index):
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %one = arith.constant {tile.layouts = [#tile.layout<uniform>]} dense<1.0> : vector<64xf32>
    %first = tile.convert %one to <shared> : vector<64xf32>
    %end = scf.for %c = %c0 to %length step %c1 iter_args(%x = %first) -> (vector<64xf32>) {
      %xl = tile.convert %x to <lanes> : vector<64xf32>
      tile.store %xl, %or[%c, %c0] : vector<64xf32>, !tile.rows<f32>
      %m = tile.load %gr[%c, %c0] {tile.layouts = [#shared]} : !tile.rows<vector<64xf32>> -> vector<64x64xf32>
      // expected-error @below {{a row goes from fragments to shared memory, and from there to lanes or rows}}
      %row = vector.extract %m[5] {tile.layouts = [#shared]} : vector<64xf32> from vector<64x64xf32>
      scf.yield %row : vector<64xf32>
    } {tile.layouts = [#shared]}
    tile.end
  }
  return %o : tensor<?x?x?xf32>
}

// -----

#lanes = #tile.layout<lanes>
#shared = #tile.layout<shared>
func.func @of_a_branch(%g: tensor<?x?x?xf32>) -> tensor<?x?x?xf32> {
  %o = tile.program chunk 64 slices 1 sequences(%g : tensor<?x?x?xf32>) outputs(tensor<?x?x?xf32>)
      attributes {tile.warps = 4} {
  ^bb0(%gr: !tile.rows<f32>, %or: !tile.rows<f32>,
       %length: index, %slice: index, %head: index, %heads: index):
    %c0 = arith.constant 0 : index
    %some = tile.load %gr[%c0, %c0] {tile.layouts = [#lanes]} : !tile.rows<f32> -> vector<64xf32>
    %none = arith.cmpi eq, %length, %c0 : index
    // expected-error @below {{gives a tile in shared memory that no loop carries}}
    %y = scf.if %none -> (vector<64xf32>) {
      %a = tile.convert %some to <shared> : vector<64xf32>
      scf.yield %a : vector<64xf32>
    } else {
      %twice = arith.addf %some, %some {tile.layouts = [#lanes]} : vector<64xf32>
      %b = tile.convert %twice to <shared> : vector<64xf32>
      scf.yield %b : vector<64xf32>
    } {tile.layouts = [#shared]}
    %yl = tile.convert %y to <lanes> : vector<64xf32>
    tile.store %yl, %or[%c0, %c0] : vector<64xf32>, !tile.rows<f32>
    tile.end
  }
  return %o : tensor<?x?x?xf32>
}
