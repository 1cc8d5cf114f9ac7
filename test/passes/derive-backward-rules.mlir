// RUN: ejk-opt %s --ejk-derive-backward=function=rules --ejk-interpret
// RUN: ejk-opt %s --ejk-derive-backward=function=softplus --canonicalize --cse | FileCheck %s
// RUN: ejk-opt %s --ejk-derive-backward=function=softplus_of_select --canonicalize --cse | FileCheck %s
// Every elementwise rule at once, against central differences of step 2⁻¹⁰ in f64:
// the step's square, 1e-6, times third derivatives of a few.

func.func @rules(%x: tensor<4x8xf32> {ejk.name = "x"}) -> tensor<4x8xf32> {
  %one = arith.constant dense<1.0> : tensor<4x8xf32>
  %exp = math.exp %x : tensor<4x8xf32>
  %exp2 = math.exp2 %x : tensor<4x8xf32>
  %expm1 = math.expm1 %x : tensor<4x8xf32>
  %log = math.log %x : tensor<4x8xf32>
  %log2 = math.log2 %x : tensor<4x8xf32>
  %log1p = math.log1p %x : tensor<4x8xf32>
  %sqrt = math.sqrt %x : tensor<4x8xf32>
  %rsqrt = math.rsqrt %x : tensor<4x8xf32>
  %tanh = math.tanh %x : tensor<4x8xf32>
  %erf = math.erf %x : tensor<4x8xf32>
  %atan = math.atan %x : tensor<4x8xf32>
  %sin = math.sin %x : tensor<4x8xf32>
  %cos = math.cos %x : tensor<4x8xf32>
  %absf = math.absf %x : tensor<4x8xf32>
  %neg = arith.negf %x : tensor<4x8xf32>
  %sub = arith.subf %one, %x : tensor<4x8xf32>
  %mul = arith.mulf %x, %exp : tensor<4x8xf32>
  %quo = arith.divf %sin, %x : tensor<4x8xf32>
  %max = arith.maximumf %x, %one : tensor<4x8xf32>
  %min = arith.minimumf %log, %neg : tensor<4x8xf32>
  %maxn = arith.maxnumf %one, %mul : tensor<4x8xf32>
  %minn = arith.minnumf %one, %mul : tensor<4x8xf32>
  %fma = math.fma %x, %log, %sin : tensor<4x8xf32>
  %above = arith.cmpf ogt, %x, %one : tensor<4x8xf32>
  %chosen = arith.select %above, %tanh, %mul : tensor<4x8xi1>, tensor<4x8xf32>
  %narrow = arith.truncf %quo : tensor<4x8xf32> to tensor<4x8xbf16>
  %wide = arith.extf %narrow : tensor<4x8xbf16> to tensor<4x8xf32>
  %whole = math.floor %mul : tensor<4x8xf32>
  %s0 = arith.addf %exp, %exp2 : tensor<4x8xf32>
  %s1 = arith.addf %s0, %expm1 : tensor<4x8xf32>
  %s2 = arith.addf %s1, %log : tensor<4x8xf32>
  %s3 = arith.addf %s2, %log2 : tensor<4x8xf32>
  %s4 = arith.addf %s3, %log1p : tensor<4x8xf32>
  %s5 = arith.addf %s4, %sqrt : tensor<4x8xf32>
  %s6 = arith.addf %s5, %rsqrt : tensor<4x8xf32>
  %s7 = arith.addf %s6, %tanh : tensor<4x8xf32>
  %s8 = arith.addf %s7, %erf : tensor<4x8xf32>
  %s9 = arith.addf %s8, %atan : tensor<4x8xf32>
  %s10 = arith.addf %s9, %sin : tensor<4x8xf32>
  %s11 = arith.addf %s10, %cos : tensor<4x8xf32>
  %s12 = arith.addf %s11, %absf : tensor<4x8xf32>
  %s13 = arith.addf %s12, %neg : tensor<4x8xf32>
  %s14 = arith.addf %s13, %sub : tensor<4x8xf32>
  %s15 = arith.addf %s14, %mul : tensor<4x8xf32>
  %s16 = arith.addf %s15, %quo : tensor<4x8xf32>
  %s17 = arith.addf %s16, %max : tensor<4x8xf32>
  %s18 = arith.addf %s17, %min : tensor<4x8xf32>
  %s19 = arith.addf %s18, %maxn : tensor<4x8xf32>
  %s20 = arith.addf %s19, %minn : tensor<4x8xf32>
  %s21 = arith.addf %s20, %fma : tensor<4x8xf32>
  %s22 = arith.addf %s21, %chosen : tensor<4x8xf32>
  %s23 = arith.addf %s22, %wide : tensor<4x8xf32>
  %s24 = arith.addf %s23, %whole : tensor<4x8xf32>
  return %s24 : tensor<4x8xf32>
}

func.func private @rules_vjp(tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>

func.func @check_rules() {
  %u = check.random uniform seed 1 : tensor<4x8xf32>
  %g = check.random normal seed 2 : tensor<4x8xf32>
  %half = arith.constant dense<0.5> : tensor<4x8xf32>
  %h = arith.constant dense<0.0009765625> : tensor<4x8xf32>
  %twice = arith.constant dense<512.0> : tensor<4x8xf32>
  // From 0.5 to 1.5, to either side of where the choices change.
  %x = arith.addf %u, %half : tensor<4x8xf32>
  %dx = func.call @rules_vjp(%x, %g) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %right = arith.addf %x, %h : tensor<4x8xf32>
  %left = arith.subf %x, %h : tensor<4x8xf32>
  %a = func.call @rules(%right) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %b = func.call @rules(%left) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %rise = arith.subf %a, %b : tensor<4x8xf32>
  %slope = arith.mulf %rise, %twice : tensor<4x8xf32>
  %expected = arith.mulf %slope, %g : tensor<4x8xf32>
  check.expect_close %dx, %expected max_relative 1.0e-5 : tensor<4x8xf32>
  return
}

// A softplus has one slope, where its terms have one for each sign: (1 or e) / (1 + e), e = exp(-|x|).
// CHECK-LABEL: func.func @softplus{{.*}}_vjp(
// CHECK-COUNT-1: math.exp
// CHECK-NOT:   math.log1p
// CHECK:       %[[TOP:.*]] = arith.select
// CHECK-NEXT:  %[[SUM:.*]] = arith.addf
// CHECK-NEXT:  %[[SLOPE:.*]] = arith.divf %[[TOP]], %[[SUM]]
// CHECK-NEXT:  %[[RESULT:.*]] = arith.mulf %{{.*}}, %[[SLOPE]]
// CHECK-NEXT:  return %[[RESULT]]
func.func @softplus(%x: tensor<4x8xf32> {ejk.name = "x"}) -> tensor<4x8xf32> {
  %zero = arith.constant dense<0.0> : tensor<4x8xf32>
  %top = arith.maximumf %x, %zero : tensor<4x8xf32>
  %abs = math.absf %x : tensor<4x8xf32>
  %low = arith.negf %abs : tensor<4x8xf32>
  %e = math.exp %low : tensor<4x8xf32>
  %l = math.log1p %e : tensor<4x8xf32>
  %s = arith.addf %top, %l : tensor<4x8xf32>
  return %s : tensor<4x8xf32>
}

func.func @softplus_of_select(%x: tensor<4x8xf32> {ejk.name = "x"}) -> tensor<4x8xf32> {
  %zero = arith.constant dense<0.0> : tensor<4x8xf32>
  %below = arith.cmpf olt, %x, %zero : tensor<4x8xf32>
  %minus = arith.negf %x : tensor<4x8xf32>
  %top = arith.select %below, %zero, %x : tensor<4x8xi1>, tensor<4x8xf32>
  %low = arith.select %below, %x, %minus : tensor<4x8xi1>, tensor<4x8xf32>
  %e = math.exp %low : tensor<4x8xf32>
  %l = math.log1p %e : tensor<4x8xf32>
  %s = arith.addf %l, %top : tensor<4x8xf32>
  return %s : tensor<4x8xf32>
}
