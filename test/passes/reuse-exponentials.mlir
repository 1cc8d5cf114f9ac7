// RUN: ejk-opt %s --ejk-reuse-exponentials | FileCheck %s
// The numbers are those of e^x, before and after.
// RUN: ejk-opt %s --ejk-interpret
// RUN: ejk-opt %s --ejk-reuse-exponentials --ejk-interpret
// RUN: ejk-opt %s --ejk-reuse-exponentials | sed 's/max_relative 1.0e-6/max_relative 2.0e-6/' \
// RUN:   | ejk-opt --ejk-interpret=precision=native

// The decays of a system, whose products are masked, and of outputs, which have a scale and the diagonal.
// CHECK-LABEL: func.func @masked_later(
// CHECK:     %[[E:.*]] = math.exp2
// CHECK-NOT: math.exp2
// CHECK:     %[[P:.*]] = arith.mulf %{{.*}}, %[[E]]
// CHECK:     %[[M:.*]] = tile.mask lower strict %[[P]] else 0.0
// CHECK:     %[[F:.*]] = arith.mulf %[[E]], %{{.*}}
// CHECK:     tile.store %[[M]]
// CHECK:     tile.store %[[F]]
func.func @masked_later() {
  %g = check.random uniform seed 3 : tensor<1x64x1xf32>
  %r0, %r1, %r2, %r3 = tile.program chunk 64 slices 1 sequences(%g : tensor<1x64x1xf32>)
      outputs(tensor<1x64x1x64xf32>, tensor<1x64x1x64xf32>, tensor<1x64x1x64xf32>, tensor<1x64x1x64xf32>) {
  ^bb0(%gr: !tile.rows<f32>, %o0: !tile.rows<vector<64xf32>>, %o1: !tile.rows<vector<64xf32>>, %o2: !tile.rows<vector<64xf32>>, %o3: !tile.rows<vector<64xf32>>,
       %length: index, %slice: index, %head: index, %heads: index):
    %c0 = arith.constant 0 : index
    %gates = tile.load %gr[%c0, %c0] : !tile.rows<f32> -> vector<64xf32>
    %ln2 = arith.constant dense<0.693147181> : vector<64x64xf32>
    %less = arith.constant dense<-3.5> : vector<64xf32>
    %x = tile.cumsum %gates : vector<64xf32>
    %xs = arith.addf %x, %less : vector<64xf32>
    %from = tile.broadcast %x along 1 : vector<64xf32> -> vector<64x64xf32>
    %upto = tile.broadcast %x along 0 : vector<64xf32> -> vector<64x64xf32>
    %uptos = tile.broadcast %xs along 0 : vector<64xf32> -> vector<64x64xf32>
    %d = arith.subf %upto, %from : vector<64x64xf32>
    %ds = arith.subf %uptos, %from : vector<64x64xf32>
    %strict = tile.mask lower strict %d else 0xFF800000 : vector<64x64xf32>
    %strictS = tile.mask lower strict %ds else 0xFF800000 : vector<64x64xf32>
    %whole = tile.mask lower %d else 0xFF800000 : vector<64x64xf32>
    %wholeS = tile.mask lower %ds else 0xFF800000 : vector<64x64xf32>
    %a = math.exp2 %strict : vector<64x64xf32>
    %p = arith.mulf %a, %upto : vector<64x64xf32>
    %m = tile.mask lower strict %p else 0.0 : vector<64x64xf32>
    %b = math.exp2 %wholeS : vector<64x64xf32>
    %rax = arith.mulf %strict, %ln2 : vector<64x64xf32>
    %ra = math.exp %rax : vector<64x64xf32>
    %q = arith.mulf %ra, %upto : vector<64x64xf32>
    %rbx = arith.mulf %wholeS, %ln2 : vector<64x64xf32>
    %rb = math.exp %rbx : vector<64x64xf32>
    tile.store %m, %o0[%c0, %c0] : vector<64x64xf32>, !tile.rows<vector<64xf32>>
    tile.store %b, %o1[%c0, %c0] : vector<64x64xf32>, !tile.rows<vector<64xf32>>
    tile.store %q, %o2[%c0, %c0] : vector<64x64xf32>, !tile.rows<vector<64xf32>>
    tile.store %rb, %o3[%c0, %c0] : vector<64x64xf32>, !tile.rows<vector<64xf32>>
    tile.end
  }
  check.expect_close %r0, %r2 max_relative 1.0e-6 : tensor<1x64x1x64xf32>
  check.expect_close %r1, %r3 max_relative 1.0e-6 : tensor<1x64x1x64xf32>
  return
}

// What nothing masks later is masked. The one with the scale stands first.
// CHECK-LABEL: func.func @diagonal(
// CHECK:     %[[E:.*]] = math.exp2
// CHECK-NOT: math.exp2
// CHECK:     %[[F:.*]] = arith.mulf %[[E]]
// CHECK:     %[[M:.*]] = tile.mask lower strict %[[E]] else 0.0
// CHECK:     tile.store %[[F]]
// CHECK:     tile.store %[[M]]
func.func @diagonal() {
  %g = check.random uniform seed 3 : tensor<1x64x1xf32>
  %r0, %r1, %r2, %r3 = tile.program chunk 64 slices 1 sequences(%g : tensor<1x64x1xf32>)
      outputs(tensor<1x64x1x64xf32>, tensor<1x64x1x64xf32>, tensor<1x64x1x64xf32>, tensor<1x64x1x64xf32>) {
  ^bb0(%gr: !tile.rows<f32>, %o0: !tile.rows<vector<64xf32>>, %o1: !tile.rows<vector<64xf32>>, %o2: !tile.rows<vector<64xf32>>, %o3: !tile.rows<vector<64xf32>>,
       %length: index, %slice: index, %head: index, %heads: index):
    %c0 = arith.constant 0 : index
    %gates = tile.load %gr[%c0, %c0] : !tile.rows<f32> -> vector<64xf32>
    %ln2 = arith.constant dense<0.693147181> : vector<64x64xf32>
    %less = arith.constant dense<-3.5> : vector<64xf32>
    %x = tile.cumsum %gates : vector<64xf32>
    %xs = arith.addf %x, %less : vector<64xf32>
    %from = tile.broadcast %x along 1 : vector<64xf32> -> vector<64x64xf32>
    %upto = tile.broadcast %x along 0 : vector<64xf32> -> vector<64x64xf32>
    %uptos = tile.broadcast %xs along 0 : vector<64xf32> -> vector<64x64xf32>
    %d = arith.subf %upto, %from : vector<64x64xf32>
    %ds = arith.subf %uptos, %from : vector<64x64xf32>
    %strict = tile.mask lower strict %d else 0xFF800000 : vector<64x64xf32>
    %strictS = tile.mask lower strict %ds else 0xFF800000 : vector<64x64xf32>
    %whole = tile.mask lower %d else 0xFF800000 : vector<64x64xf32>
    %wholeS = tile.mask lower %ds else 0xFF800000 : vector<64x64xf32>
    %b = math.exp2 %wholeS : vector<64x64xf32>
    %a = math.exp2 %strict : vector<64x64xf32>
    %rbx = arith.mulf %wholeS, %ln2 : vector<64x64xf32>
    %rb = math.exp %rbx : vector<64x64xf32>
    %rax = arith.mulf %strict, %ln2 : vector<64x64xf32>
    %ra = math.exp %rax : vector<64x64xf32>
    tile.store %b, %o0[%c0, %c0] : vector<64x64xf32>, !tile.rows<vector<64xf32>>
    tile.store %a, %o1[%c0, %c0] : vector<64x64xf32>, !tile.rows<vector<64xf32>>
    tile.store %rb, %o2[%c0, %c0] : vector<64x64xf32>, !tile.rows<vector<64xf32>>
    tile.store %ra, %o3[%c0, %c0] : vector<64x64xf32>, !tile.rows<vector<64xf32>>
    tile.end
  }
  check.expect_close %r0, %r2 max_relative 1.0e-6 : tensor<1x64x1x64xf32>
  check.expect_close %r1, %r3 max_relative 1.0e-6 : tensor<1x64x1x64xf32>
  return
}

// Two strict masks need no third one.
// CHECK-LABEL: func.func @both_strict(
// CHECK:     %[[E:.*]] = math.exp2
// CHECK-NOT: math.exp2
// CHECK-NOT: tile.mask
// CHECK:     %[[F:.*]] = arith.mulf %[[E]]
// CHECK:     tile.store %[[E]]
// CHECK:     tile.store %[[F]]
func.func @both_strict() {
  %g = check.random uniform seed 3 : tensor<1x64x1xf32>
  %r0, %r1, %r2, %r3 = tile.program chunk 64 slices 1 sequences(%g : tensor<1x64x1xf32>)
      outputs(tensor<1x64x1x64xf32>, tensor<1x64x1x64xf32>, tensor<1x64x1x64xf32>, tensor<1x64x1x64xf32>) {
  ^bb0(%gr: !tile.rows<f32>, %o0: !tile.rows<vector<64xf32>>, %o1: !tile.rows<vector<64xf32>>, %o2: !tile.rows<vector<64xf32>>, %o3: !tile.rows<vector<64xf32>>,
       %length: index, %slice: index, %head: index, %heads: index):
    %c0 = arith.constant 0 : index
    %gates = tile.load %gr[%c0, %c0] : !tile.rows<f32> -> vector<64xf32>
    %ln2 = arith.constant dense<0.693147181> : vector<64x64xf32>
    %less = arith.constant dense<-3.5> : vector<64xf32>
    %x = tile.cumsum %gates : vector<64xf32>
    %xs = arith.addf %x, %less : vector<64xf32>
    %from = tile.broadcast %x along 1 : vector<64xf32> -> vector<64x64xf32>
    %upto = tile.broadcast %x along 0 : vector<64xf32> -> vector<64x64xf32>
    %uptos = tile.broadcast %xs along 0 : vector<64xf32> -> vector<64x64xf32>
    %d = arith.subf %upto, %from : vector<64x64xf32>
    %ds = arith.subf %uptos, %from : vector<64x64xf32>
    %strict = tile.mask lower strict %d else 0xFF800000 : vector<64x64xf32>
    %strictS = tile.mask lower strict %ds else 0xFF800000 : vector<64x64xf32>
    %whole = tile.mask lower %d else 0xFF800000 : vector<64x64xf32>
    %wholeS = tile.mask lower %ds else 0xFF800000 : vector<64x64xf32>
    %a = math.exp2 %strict : vector<64x64xf32>
    %b = math.exp2 %strictS : vector<64x64xf32>
    %rax = arith.mulf %strict, %ln2 : vector<64x64xf32>
    %ra = math.exp %rax : vector<64x64xf32>
    %rbx = arith.mulf %strictS, %ln2 : vector<64x64xf32>
    %rb = math.exp %rbx : vector<64x64xf32>
    tile.store %a, %o0[%c0, %c0] : vector<64x64xf32>, !tile.rows<vector<64xf32>>
    tile.store %b, %o1[%c0, %c0] : vector<64x64xf32>, !tile.rows<vector<64xf32>>
    tile.store %ra, %o2[%c0, %c0] : vector<64x64xf32>, !tile.rows<vector<64xf32>>
    tile.store %rb, %o3[%c0, %c0] : vector<64x64xf32>, !tile.rows<vector<64xf32>>
    tile.end
  }
  check.expect_close %r0, %r2 max_relative 1.0e-6 : tensor<1x64x1x64xf32>
  check.expect_close %r1, %r3 max_relative 1.0e-6 : tensor<1x64x1x64xf32>
  return
}

// Exponents that differ by a row, and exponents of which none is without a scale, stay.
// CHECK-LABEL: func.func @apart(
// CHECK-COUNT-3: math.exp2
func.func @apart() {
  %g = check.random uniform seed 3 : tensor<1x64x1xf32>
  %r0, %r1, %r2, %r3, %r4, %r5 = tile.program chunk 64 slices 1 sequences(%g : tensor<1x64x1xf32>)
      outputs(tensor<1x64x1x64xf32>, tensor<1x64x1x64xf32>, tensor<1x64x1x64xf32>, tensor<1x64x1x64xf32>, tensor<1x64x1x64xf32>, tensor<1x64x1x64xf32>) {
  ^bb0(%gr: !tile.rows<f32>, %o0: !tile.rows<vector<64xf32>>, %o1: !tile.rows<vector<64xf32>>, %o2: !tile.rows<vector<64xf32>>, %o3: !tile.rows<vector<64xf32>>, %o4: !tile.rows<vector<64xf32>>, %o5: !tile.rows<vector<64xf32>>,
       %length: index, %slice: index, %head: index, %heads: index):
    %c0 = arith.constant 0 : index
    %gates = tile.load %gr[%c0, %c0] : !tile.rows<f32> -> vector<64xf32>
    %ln2 = arith.constant dense<0.693147181> : vector<64x64xf32>
    %less = arith.constant dense<-3.5> : vector<64xf32>
    %x = tile.cumsum %gates : vector<64xf32>
    %xs = arith.addf %x, %less : vector<64xf32>
    %from = tile.broadcast %x along 1 : vector<64xf32> -> vector<64x64xf32>
    %upto = tile.broadcast %x along 0 : vector<64xf32> -> vector<64x64xf32>
    %uptos = tile.broadcast %xs along 0 : vector<64xf32> -> vector<64x64xf32>
    %d = arith.subf %upto, %from : vector<64x64xf32>
    %ds = arith.subf %uptos, %from : vector<64x64xf32>
    %strict = tile.mask lower strict %d else 0xFF800000 : vector<64x64xf32>
    %strictS = tile.mask lower strict %ds else 0xFF800000 : vector<64x64xf32>
    %whole = tile.mask lower %d else 0xFF800000 : vector<64x64xf32>
    %wholeS = tile.mask lower %ds else 0xFF800000 : vector<64x64xf32>
    %y = arith.addf %x, %gates : vector<64xf32>
    %uptoy = tile.broadcast %y along 0 : vector<64xf32> -> vector<64x64xf32>
    %dy = arith.subf %uptoy, %from : vector<64x64xf32>
    %wholey = tile.mask lower %dy else 0xFF800000 : vector<64x64xf32>
    %a = math.exp2 %wholey : vector<64x64xf32>
    %b = math.exp2 %wholeS : vector<64x64xf32>
    %c = math.exp2 %strictS : vector<64x64xf32>
    %rax = arith.mulf %wholey, %ln2 : vector<64x64xf32>
    %ra = math.exp %rax : vector<64x64xf32>
    %rbx = arith.mulf %wholeS, %ln2 : vector<64x64xf32>
    %rb = math.exp %rbx : vector<64x64xf32>
    %rcx = arith.mulf %strictS, %ln2 : vector<64x64xf32>
    %rc = math.exp %rcx : vector<64x64xf32>
    tile.store %a, %o0[%c0, %c0] : vector<64x64xf32>, !tile.rows<vector<64xf32>>
    tile.store %b, %o1[%c0, %c0] : vector<64x64xf32>, !tile.rows<vector<64xf32>>
    tile.store %c, %o2[%c0, %c0] : vector<64x64xf32>, !tile.rows<vector<64xf32>>
    tile.store %ra, %o3[%c0, %c0] : vector<64x64xf32>, !tile.rows<vector<64xf32>>
    tile.store %rb, %o4[%c0, %c0] : vector<64x64xf32>, !tile.rows<vector<64xf32>>
    tile.store %rc, %o5[%c0, %c0] : vector<64x64xf32>, !tile.rows<vector<64xf32>>
    tile.end
  }
  check.expect_close %r0, %r3 max_relative 1.0e-6 : tensor<1x64x1x64xf32>
  check.expect_close %r1, %r4 max_relative 1.0e-6 : tensor<1x64x1x64xf32>
  check.expect_close %r2, %r5 max_relative 1.0e-6 : tensor<1x64x1x64xf32>
  return
}

// A factor of 2^200 is no f32.
// CHECK-LABEL: func.func @huge(
// CHECK-COUNT-2: math.exp2
func.func @huge() {
  %g = check.random uniform seed 3 : tensor<1x64x1xf32>
  %r0, %r1, %r2, %r3 = tile.program chunk 64 slices 1 sequences(%g : tensor<1x64x1xf32>)
      outputs(tensor<1x64x1x64xf32>, tensor<1x64x1x64xf32>, tensor<1x64x1x64xf32>, tensor<1x64x1x64xf32>) {
  ^bb0(%gr: !tile.rows<f32>, %o0: !tile.rows<vector<64xf32>>, %o1: !tile.rows<vector<64xf32>>, %o2: !tile.rows<vector<64xf32>>, %o3: !tile.rows<vector<64xf32>>,
       %length: index, %slice: index, %head: index, %heads: index):
    %c0 = arith.constant 0 : index
    %gates = tile.load %gr[%c0, %c0] : !tile.rows<f32> -> vector<64xf32>
    %ln2 = arith.constant dense<0.693147181> : vector<64x64xf32>
    %less = arith.constant dense<200.0> : vector<64xf32>
    %x = tile.cumsum %gates : vector<64xf32>
    %xs = arith.addf %x, %less : vector<64xf32>
    %from = tile.broadcast %x along 1 : vector<64xf32> -> vector<64x64xf32>
    %upto = tile.broadcast %x along 0 : vector<64xf32> -> vector<64x64xf32>
    %uptos = tile.broadcast %xs along 0 : vector<64xf32> -> vector<64x64xf32>
    %d = arith.subf %upto, %from : vector<64x64xf32>
    %ds = arith.subf %uptos, %from : vector<64x64xf32>
    %strict = tile.mask lower strict %d else 0xFF800000 : vector<64x64xf32>
    %strictS = tile.mask lower strict %ds else 0xFF800000 : vector<64x64xf32>
    %whole = tile.mask lower %d else 0xFF800000 : vector<64x64xf32>
    %wholeS = tile.mask lower %ds else 0xFF800000 : vector<64x64xf32>
    %a = math.exp2 %strict : vector<64x64xf32>
    %b = math.exp2 %strictS : vector<64x64xf32>
    %rax = arith.mulf %strict, %ln2 : vector<64x64xf32>
    %ra = math.exp %rax : vector<64x64xf32>
    %rbx = arith.mulf %strictS, %ln2 : vector<64x64xf32>
    %rb = math.exp %rbx : vector<64x64xf32>
    tile.store %a, %o0[%c0, %c0] : vector<64x64xf32>, !tile.rows<vector<64xf32>>
    tile.store %b, %o1[%c0, %c0] : vector<64x64xf32>, !tile.rows<vector<64xf32>>
    tile.store %ra, %o2[%c0, %c0] : vector<64x64xf32>, !tile.rows<vector<64xf32>>
    tile.store %rb, %o3[%c0, %c0] : vector<64x64xf32>, !tile.rows<vector<64xf32>>
    tile.end
  }
  check.expect_close %r0, %r2 max_relative 1.0e-6 : tensor<1x64x1x64xf32>
  return
}
