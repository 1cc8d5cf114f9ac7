// RUN: ejk-opt %s --ejk-interpret

// The interpreter's less usual functions, against numbers computed elsewhere.
func.func @inverse_hyperbolic() {
  %x = arith.constant dense<[-100.0, -0.5, 0.0, 2.0]> : tensor<4xf64>
  %asinh = math.asinh %x : tensor<4xf64>
  %a = arith.constant dense<[-5.298342365610589, -0.48121182505960347, 0.0, 1.4436354751788103]> : tensor<4xf64>
  check.expect_close %asinh, %a max_relative 1.0e-15 : tensor<4xf64>
  %y = arith.constant dense<[1.0, 1.5, 2.0, 1.0e10]> : tensor<4xf64>
  %acosh = math.acosh %y : tensor<4xf64>
  %b = arith.constant dense<[0.0, 0.9624236501192069, 1.3169578969248166, 23.7189981105004]> : tensor<4xf64>
  check.expect_close %acosh, %b max_relative 1.0e-15 : tensor<4xf64>
  %z = arith.constant dense<[-0.9, -0.5, 0.0, 0.25]> : tensor<4xf64>
  %atanh = math.atanh %z : tensor<4xf64>
  %c = arith.constant dense<[-1.4722194895832204, -0.5493061443340548, 0.0, 0.25541281188299536]> : tensor<4xf64>
  check.expect_close %atanh, %c max_relative 1.0e-15 : tensor<4xf64>
  return
}

func.func @cube_root() {
  %x = arith.constant dense<[-8.0, 0.0, 2.0, 1.0e-300]> : tensor<4xf64>
  %cbrt = math.cbrt %x : tensor<4xf64>
  %a = arith.constant dense<[-2.0, 0.0, 1.2599210498948732, 1.0e-100]> : tensor<4xf64>
  check.expect_close %cbrt, %a max_relative 1.0e-15 : tensor<4xf64>
  return
}

func.func @bits() {
  %x = arith.constant dense<[0, 1, -1, 40]> : tensor<4xi32>
  %leading = math.ctlz %x : tensor<4xi32>
  %trailing = math.cttz %x : tensor<4xi32>
  %set = math.ctpop %x : tensor<4xi32>
  %two = arith.constant dense<2> : tensor<4xi32>
  %square = math.ipowi %x, %two : tensor<4xi32>
  %a = arith.sitofp %leading : tensor<4xi32> to tensor<4xf32>
  %b = arith.sitofp %trailing : tensor<4xi32> to tensor<4xf32>
  %c = arith.sitofp %set : tensor<4xi32> to tensor<4xf32>
  %d = arith.sitofp %square : tensor<4xi32> to tensor<4xf32>
  %ea = arith.constant dense<[32.0, 31.0, 0.0, 26.0]> : tensor<4xf32>
  %eb = arith.constant dense<[32.0, 0.0, 0.0, 3.0]> : tensor<4xf32>
  %ec = arith.constant dense<[0.0, 1.0, 32.0, 2.0]> : tensor<4xf32>
  %ed = arith.constant dense<[0.0, 1.0, 1.0, 1600.0]> : tensor<4xf32>
  check.expect_close %a, %ea max_relative 0.0 : tensor<4xf32>
  check.expect_close %b, %eb max_relative 0.0 : tensor<4xf32>
  check.expect_close %c, %ec max_relative 0.0 : tensor<4xf32>
  check.expect_close %d, %ed max_relative 0.0 : tensor<4xf32>
  return
}

// Bits that stand for a float, and back; what is normal is so in its own type.
func.func @representation() {
  %one = arith.constant dense<1065353216> : tensor<1xi32>
  %float = arith.bitcast %one : tensor<1xi32> to tensor<1xf32>
  %back = arith.bitcast %float : tensor<1xf32> to tensor<1xi32>
  %same = arith.cmpi eq, %back, %one : tensor<1xi32>
  %tiny = arith.constant dense<1.0e-5> : tensor<1xf16>
  %normal = math.isnormal %tiny : tensor<1xf16>
  %a = arith.uitofp %same : tensor<1xi1> to tensor<1xf32>
  %b = arith.uitofp %normal : tensor<1xi1> to tensor<1xf32>
  %yes = arith.constant dense<1.0> : tensor<1xf32>
  %no = arith.constant dense<0.0> : tensor<1xf32>
  check.expect_close %float, %yes max_relative 0.0 : tensor<1xf32>
  check.expect_close %a, %yes max_relative 0.0 : tensor<1xf32>
  check.expect_close %b, %no max_relative 0.0 : tensor<1xf32>
  return
}
