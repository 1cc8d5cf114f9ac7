// Sums that look like a softplus, max(x, 0) + log1p(exp(-|x|)), but are none: each term has the slope of its own
// operand.
// RUN: ejk-opt %s --ejk-derive-backward=function=sums --ejk-interpret -o /dev/null

// The exponential of another number, and of x itself.
func.func @sums(%x: tensor<4x8xf32> {ejk.name = "x"}, %y: tensor<4x8xf32> {ejk.name = "y"}) -> tensor<4x8xf32> {
  %zero = arith.constant dense<0.0> : tensor<4x8xf32>
  %top = arith.maximumf %x, %zero : tensor<4x8xf32>
  %abs = math.absf %y : tensor<4x8xf32>
  %low = arith.negf %abs : tensor<4x8xf32>
  %e = math.exp %low : tensor<4x8xf32>
  %l = math.log1p %e : tensor<4x8xf32>
  %other = arith.addf %top, %l : tensor<4x8xf32>
  %f = math.exp %x : tensor<4x8xf32>
  %m = math.log1p %f : tensor<4x8xf32>
  %own = arith.addf %m, %top : tensor<4x8xf32>
  %s = arith.mulf %own, %other : tensor<4x8xf32>
  return %s : tensor<4x8xf32>
}

func.func private @sums_vjp(tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>)

// Against central differences of step 2⁻¹⁰ in f64, 2⁻⁶ and more away from zero.
func.func @check_sums() {
  %u = check.random uniform seed 1 : tensor<4x8xf32>
  %v = check.random uniform seed 2 : tensor<4x8xf32>
  %g = check.random normal seed 3 : tensor<4x8xf32>
  %side = check.random normal seed 4 : tensor<4x8xf32>
  %away = arith.constant dense<0.015625> : tensor<4x8xf32>
  %h = arith.constant dense<0.0009765625> : tensor<4x8xf32>
  %twice = arith.constant dense<512.0> : tensor<4x8xf32>
  %ua = arith.addf %u, %away : tensor<4x8xf32>
  %va = arith.addf %v, %away : tensor<4x8xf32>
  %x = math.copysign %ua, %side : tensor<4x8xf32>
  %y = math.copysign %va, %g : tensor<4x8xf32>
  %dx, %dy = func.call @sums_vjp(%x, %y, %g)
      : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>)
  %right = arith.addf %x, %h : tensor<4x8xf32>
  %left = arith.subf %x, %h : tensor<4x8xf32>
  %a = func.call @sums(%right, %y) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %b = func.call @sums(%left, %y) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %rise = arith.subf %a, %b : tensor<4x8xf32>
  %slope = arith.mulf %rise, %twice : tensor<4x8xf32>
  %ex = arith.mulf %slope, %g : tensor<4x8xf32>
  check.expect_close %dx, %ex max_relative 1.0e-5 : tensor<4x8xf32>
  %above = arith.addf %y, %h : tensor<4x8xf32>
  %below = arith.subf %y, %h : tensor<4x8xf32>
  %c = func.call @sums(%x, %above) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %d = func.call @sums(%x, %below) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %rise_y = arith.subf %c, %d : tensor<4x8xf32>
  %slope_y = arith.mulf %rise_y, %twice : tensor<4x8xf32>
  %ey = arith.mulf %slope_y, %g : tensor<4x8xf32>
  check.expect_close %dy, %ey max_relative 1.0e-5 : tensor<4x8xf32>
  return
}
