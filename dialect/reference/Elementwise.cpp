//===- Elementwise.cpp - scalar functions of arith and math ---------------===//
#include "dialect/reference/Elementwise.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/bit.h"
#include <cmath>
#include <limits>

using namespace mlir;
using namespace ejk::reference;

//===----------------------------------------------------------------------===//
// Rows from scalar functions
//===----------------------------------------------------------------------===//

namespace {
/// Creates the kernel of an op. Most entries ignore the op.
using Maker = std::function<RowKernel(Operation *)>;

// F is a float, I an integer: ff2 maps two floats to a float.
template <typename Fn> Maker ff1(Fn fn) {
  return [fn](Operation *) -> RowKernel {
    return [fn](const Row *in, Row out, size_t n) {
      for (size_t i = 0; i < n; ++i)
        out.floats[i] = fn(in[0].floats[i]);
    };
  };
}
template <typename Fn> Maker ff2(Fn fn) {
  return [fn](Operation *) -> RowKernel {
    return [fn](const Row *in, Row out, size_t n) {
      for (size_t i = 0; i < n; ++i)
        out.floats[i] = fn(in[0].floats[i], in[1].floats[i]);
    };
  };
}
template <typename Fn> Maker ff3(Fn fn) {
  return [fn](Operation *) -> RowKernel {
    return [fn](const Row *in, Row out, size_t n) {
      for (size_t i = 0; i < n; ++i)
        out.floats[i] = fn(in[0].floats[i], in[1].floats[i], in[2].floats[i]);
    };
  };
}
template <typename Fn> RowKernel intFromFloats1(Fn fn) {
  return [fn](const Row *in, Row out, size_t n) {
    for (size_t i = 0; i < n; ++i)
      out.ints[i] = fn(in[0].floats[i]);
  };
}
template <typename Fn> RowKernel intFromFloats2(Fn fn) {
  return [fn](const Row *in, Row out, size_t n) {
    for (size_t i = 0; i < n; ++i)
      out.ints[i] = fn(in[0].floats[i], in[1].floats[i]);
  };
}
template <typename Fn> RowKernel ints1(Fn fn) {
  return [fn](const Row *in, Row out, size_t n) {
    for (size_t i = 0; i < n; ++i)
      out.ints[i] = fn(in[0].ints[i]);
  };
}
template <typename Fn> RowKernel ints2(Fn fn) {
  return [fn](const Row *in, Row out, size_t n) {
    for (size_t i = 0; i < n; ++i)
      out.ints[i] = fn(in[0].ints[i], in[1].ints[i]);
  };
}
template <typename Fn> Maker ii1(Fn fn) {
  return [fn](Operation *) { return ints1(fn); };
}
template <typename Fn> Maker ii2(Fn fn) {
  return [fn](Operation *) { return ints2(fn); };
}
} // namespace

static unsigned widthOf(Value value) {
  Type type = getElementTypeOrSelf(value.getType());
  return type.isIndex() ? 64 : type.getIntOrFloatBitWidth();
}

/// The bits of an integer as an unsigned number of its width.
static uint64_t unsignedOf(int64_t value, unsigned width) {
  return width >= 64 ? uint64_t(value) : uint64_t(value) & ((uint64_t(1) << width) - 1);
}

/// An op that reads its operands as unsigned.
template <typename Fn> static Maker uu2(Fn fn) {
  return [fn](Operation *op) {
    unsigned width = widthOf(op->getOperand(0));
    return ints2([fn, width](int64_t a, int64_t b) {
      return int64_t(fn(unsignedOf(a, width), unsignedOf(b, width)));
    });
  };
}

/// i1 is stored as 0 or 1. As a signed number, 1 is -1.
static int64_t signedOf(int64_t value, unsigned width) { return width == 1 ? -value : value; }

//===----------------------------------------------------------------------===//
// Ops whose function depends on the op
//===----------------------------------------------------------------------===//

static RowKernel makeCmpF(Operation *op) {
  using P = arith::CmpFPredicate;
  auto ordered = [](auto fn) {
    return intFromFloats2(
        [fn](double a, double b) { return int64_t(!std::isnan(a) && !std::isnan(b) && fn(a, b)); });
  };
  auto unordered = [](auto fn) {
    return intFromFloats2(
        [fn](double a, double b) { return int64_t(std::isnan(a) || std::isnan(b) || fn(a, b)); });
  };
  auto eq = [](double a, double b) { return a == b; };
  auto ne = [](double a, double b) { return a != b; };
  auto gt = [](double a, double b) { return a > b; };
  auto ge = [](double a, double b) { return a >= b; };
  auto lt = [](double a, double b) { return a < b; };
  auto le = [](double a, double b) { return a <= b; };
  auto yes = [](double, double) { return true; };
  auto no = [](double, double) { return false; };
  switch (cast<arith::CmpFOp>(op).getPredicate()) {
  case P::AlwaysFalse:
    return intFromFloats2([](double, double) { return int64_t(0); });
  case P::AlwaysTrue:
    return intFromFloats2([](double, double) { return int64_t(1); });
  case P::OEQ:
    return ordered(eq);
  case P::ONE:
    return ordered(ne);
  case P::OGT:
    return ordered(gt);
  case P::OGE:
    return ordered(ge);
  case P::OLT:
    return ordered(lt);
  case P::OLE:
    return ordered(le);
  case P::ORD:
    return ordered(yes);
  case P::UEQ:
    return unordered(eq);
  case P::UNE:
    return unordered(ne);
  case P::UGT:
    return unordered(gt);
  case P::UGE:
    return unordered(ge);
  case P::ULT:
    return unordered(lt);
  case P::ULE:
    return unordered(le);
  case P::UNO:
    return unordered(no);
  }
  return {};
}

static RowKernel makeCmpI(Operation *op) {
  using P = arith::CmpIPredicate;
  unsigned width = widthOf(op->getOperand(0));
  auto asSigned = [width](auto fn) {
    return ints2(
        [=](int64_t a, int64_t b) { return int64_t(fn(signedOf(a, width), signedOf(b, width))); });
  };
  auto asUnsigned = [width](auto fn) {
    return ints2([=](int64_t a, int64_t b) {
      return int64_t(fn(unsignedOf(a, width), unsignedOf(b, width)));
    });
  };
  switch (cast<arith::CmpIOp>(op).getPredicate()) {
  case P::eq:
    return asSigned([](auto a, auto b) { return a == b; });
  case P::ne:
    return asSigned([](auto a, auto b) { return a != b; });
  case P::slt:
    return asSigned([](auto a, auto b) { return a < b; });
  case P::sle:
    return asSigned([](auto a, auto b) { return a <= b; });
  case P::sgt:
    return asSigned([](auto a, auto b) { return a > b; });
  case P::sge:
    return asSigned([](auto a, auto b) { return a >= b; });
  case P::ult:
    return asUnsigned([](auto a, auto b) { return a < b; });
  case P::ule:
    return asUnsigned([](auto a, auto b) { return a <= b; });
  case P::ugt:
    return asUnsigned([](auto a, auto b) { return a > b; });
  case P::uge:
    return asUnsigned([](auto a, auto b) { return a >= b; });
  }
  return {};
}

static RowKernel makeSelect(Operation *op) {
  if (isa<FloatType>(getElementTypeOrSelf(op->getResult(0).getType())))
    return [](const Row *in, Row out, size_t n) {
      for (size_t i = 0; i < n; ++i)
        out.floats[i] = in[0].ints[i] ? in[1].floats[i] : in[2].floats[i];
    };
  return [](const Row *in, Row out, size_t n) {
    for (size_t i = 0; i < n; ++i)
      out.ints[i] = in[0].ints[i] ? in[1].ints[i] : in[2].ints[i];
  };
}

/// Widening, which reads the operand as unsigned or signed.
static RowKernel makeExtUI(Operation *op) {
  unsigned width = widthOf(op->getOperand(0));
  return ints1([width](int64_t a) { return int64_t(unsignedOf(a, width)); });
}
static RowKernel makeExtSI(Operation *op) {
  unsigned width = widthOf(op->getOperand(0));
  return ints1([width](int64_t a) { return signedOf(a, width); });
}
static RowKernel makeSIToFP(Operation *op) {
  unsigned width = widthOf(op->getOperand(0));
  return [width](const Row *in, Row out, size_t n) {
    for (size_t i = 0; i < n; ++i)
      out.floats[i] = double(signedOf(in[0].ints[i], width));
  };
}
static RowKernel makeUIToFP(Operation *op) {
  unsigned width = widthOf(op->getOperand(0));
  return [width](const Row *in, Row out, size_t n) {
    for (size_t i = 0; i < n; ++i)
      out.floats[i] = double(unsignedOf(in[0].ints[i], width));
  };
}
/// Overflow is undefined in MLIR. Here it saturates, and NaN gives 0.
static RowKernel makeFPToInt(Operation *) {
  return intFromFloats1([](double a) -> int64_t {
    if (std::isnan(a))
      return 0;
    if (a >= 0x1p63)
      return std::numeric_limits<int64_t>::max();
    if (a <= -0x1p63)
      return std::numeric_limits<int64_t>::min();
    return int64_t(a);
  });
}
static RowKernel makeFPToUInt(Operation *op) {
  double end = std::ldexp(1.0, widthOf(op->getResult(0)));
  return intFromFloats1([end](double a) -> int64_t {
    return a >= end ? -1 : a >= 0 ? int64_t(uint64_t(a)) : 0; // NaN gives 0, too
  });
}
static RowKernel makeFPowI(Operation *) {
  return [](const Row *in, Row out, size_t n) {
    for (size_t i = 0; i < n; ++i)
      out.floats[i] = std::pow(in[0].floats[i], double(in[1].ints[i]));
  };
}

/// By repeated squaring; 0 if the result is a fraction or infinite.
static int64_t integerPower(int64_t base, int64_t power) {
  if (power < 0)
    return base == 1 ? 1 : base == -1 ? (power & 1 ? -1 : 1) : 0;
  uint64_t result = 1, square = base;
  for (; power; power >>= 1, square *= square)
    if (power & 1)
      result *= square;
  return int64_t(result);
}

static RowKernel makeCountLeadingZeros(Operation *op) {
  unsigned width = widthOf(op->getOperand(0));
  return ints1([width](int64_t a) {
    return int64_t(llvm::countl_zero(unsignedOf(a, width))) - (64 - int64_t(width));
  });
}
static RowKernel makeCountTrailingZeros(Operation *op) {
  unsigned width = widthOf(op->getOperand(0));
  return ints1([width](int64_t a) {
    return std::min<int64_t>(llvm::countr_zero(unsignedOf(a, width)), width);
  });
}
static RowKernel makeCountBits(Operation *op) {
  unsigned width = widthOf(op->getOperand(0));
  return ints1([width](int64_t a) { return int64_t(llvm::popcount(unsignedOf(a, width))); });
}

/// Whether a number is normal in its own type.
static RowKernel makeIsNormal(Operation *op) {
  auto type = cast<FloatType>(getElementTypeOrSelf(op->getOperand(0).getType()));
  double smallest = APFloat::getSmallestNormalized(type.getFloatSemantics()).convertToDouble();
  return intFromFloats1(
      [smallest](double a) { return int64_t(std::isfinite(a) && std::fabs(a) >= smallest); });
}

/// Bitcast between a float and an integer of its width.
static RowKernel makeBitcast(Operation *op) {
  Type from = getElementTypeOrSelf(op->getOperand(0).getType());
  Type to = getElementTypeOrSelf(op->getResult(0).getType());
  if (auto floating = dyn_cast<FloatType>(from); floating && !isa<FloatType>(to))
    return intFromFloats1([semantics = &floating.getFloatSemantics()](double a) {
      APFloat value(a);
      bool isInexact;
      value.convert(*semantics, APFloat::rmNearestTiesToEven, &isInexact);
      return value.bitcastToAPInt().getSExtValue();
    });
  if (auto floating = dyn_cast<FloatType>(to); floating && !isa<FloatType>(from))
    return [semantics = &floating.getFloatSemantics(),
            width = widthOf(op->getResult(0))](const Row *in, Row out, size_t n) {
      for (size_t i = 0; i < n; ++i) {
        APFloat value(*semantics, APInt(width, uint64_t(in[0].ints[i]), false, true));
        bool isInexact;
        value.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven, &isInexact);
        out.floats[i] = value.convertToDouble();
      }
    };
  return from == to && !isa<FloatType>(from) ? ints1([](int64_t a) { return a; }) : RowKernel();
}

//===----------------------------------------------------------------------===//
// The table
//===----------------------------------------------------------------------===//

/// NaN if either operand is NaN, and -0 < +0.
static double maximum(double a, double b) {
  if (std::isnan(a) || std::isnan(b))
    return std::numeric_limits<double>::quiet_NaN();
  return a > b || (a == b && !std::signbit(a)) ? a : b;
}
static double minimum(double a, double b) { return -maximum(-a, -b); }
/// If one operand is NaN, the other.
static double maximumNumber(double a, double b) {
  return std::isnan(a) ? b : std::isnan(b) ? a : maximum(a, b);
}

// Division by zero and overflow are undefined in MLIR. Here they give 0, so that no program stops
// the interpreter.
static bool dividesBadly(int64_t a, int64_t b) {
  return b == 0 || (b == -1 && a == std::numeric_limits<int64_t>::min());
}
static int64_t floorDiv(int64_t a, int64_t b) {
  if (dividesBadly(a, b))
    return 0;
  int64_t q = a / b;
  return q - (a % b != 0 && (a < 0) != (b < 0));
}

static int64_t ceilDiv(int64_t a, int64_t b) {
  return dividesBadly(a, b) ? 0 : floorDiv(a, b) + (a % b != 0);
}

static const llvm::StringMap<Maker> &table() {
  using D = double;
  using I = int64_t;
  using U = uint64_t;
  static const llvm::StringMap<Maker> *makers = new llvm::StringMap<Maker>{
      {"arith.addf", ff2([](D a, D b) { return a + b; })},
      {"arith.subf", ff2([](D a, D b) { return a - b; })},
      {"arith.mulf", ff2([](D a, D b) { return a * b; })},
      {"ejk.cancelling_pair", ff2([](D a, D b) { return a * b; })},
      {"arith.divf", ff2([](D a, D b) { return a / b; })},
      {"arith.remf", ff2([](D a, D b) { return std::fmod(a, b); })},
      {"arith.negf", ff1([](D a) { return -a; })},
      {"arith.maximumf", ff2(maximum)},
      {"arith.minimumf", ff2(minimum)},
      {"arith.maxnumf", ff2(maximumNumber)},
      {"arith.minnumf", ff2([](D a, D b) { return -maximumNumber(-a, -b); })},
      {"arith.extf", ff1([](D a) { return a; })},
      {"arith.truncf", ff1([](D a) { return a; })},
      {"arith.cmpf", makeCmpF},
      {"arith.cmpi", makeCmpI},
      {"arith.select", makeSelect},
      {"arith.sitofp", makeSIToFP},
      {"arith.uitofp", makeUIToFP},
      {"arith.fptosi", makeFPToInt},
      {"arith.fptoui", makeFPToUInt},
      {"arith.extsi", makeExtSI},
      {"arith.extui", makeExtUI},
      {"arith.trunci", ii1([](I a) { return a; })},
      {"arith.index_cast", makeExtSI},
      {"arith.index_castui", makeExtUI},
      {"arith.addi", ii2([](I a, I b) { return I(U(a) + U(b)); })},
      {"arith.subi", ii2([](I a, I b) { return I(U(a) - U(b)); })},
      {"arith.muli", ii2([](I a, I b) { return I(U(a) * U(b)); })},
      {"arith.divsi", ii2([](I a, I b) { return dividesBadly(a, b) ? 0 : a / b; })},
      {"arith.remsi", ii2([](I a, I b) { return dividesBadly(a, b) ? 0 : a % b; })},
      {"arith.floordivsi", ii2(floorDiv)},
      {"arith.ceildivsi", ii2(ceilDiv)},
      {"arith.divui", uu2([](U a, U b) { return b ? a / b : 0; })},
      {"arith.remui", uu2([](U a, U b) { return b ? a % b : 0; })},
      {"arith.ceildivui", uu2([](U a, U b) { return b ? a / b + (a % b != 0) : 0; })},
      {"arith.maxsi", ii2([](I a, I b) { return a > b ? a : b; })},
      {"arith.minsi", ii2([](I a, I b) { return a < b ? a : b; })},
      {"arith.maxui", uu2([](U a, U b) { return a > b ? a : b; })},
      {"arith.minui", uu2([](U a, U b) { return a < b ? a : b; })},
      {"arith.andi", ii2([](I a, I b) { return a & b; })},
      {"arith.ori", ii2([](I a, I b) { return a | b; })},
      {"arith.xori", ii2([](I a, I b) { return a ^ b; })},
      {"arith.shli", ii2([](I a, I b) { return U(b) < 64 ? I(U(a) << b) : 0; })},
      {"arith.shrsi", ii2([](I a, I b) { return a >> (U(b) < 64 ? b : 63); })},
      {"arith.shrui", uu2([](U a, U b) { return b < 64 ? a >> b : 0; })},
      {"math.exp", ff1([](D a) { return std::exp(a); })},
      {"math.exp2", ff1([](D a) { return std::exp2(a); })},
      {"math.expm1", ff1([](D a) { return std::expm1(a); })},
      {"math.log", ff1([](D a) { return std::log(a); })},
      {"math.log2", ff1([](D a) { return std::log2(a); })},
      {"math.log10", ff1([](D a) { return std::log10(a); })},
      {"math.log1p", ff1([](D a) { return std::log1p(a); })},
      {"math.sqrt", ff1([](D a) { return std::sqrt(a); })},
      {"math.rsqrt", ff1([](D a) { return 1.0 / std::sqrt(a); })},
      {"math.cbrt", ff1([](D a) { return std::cbrt(a); })},
      {"math.sin", ff1([](D a) { return std::sin(a); })},
      {"math.cos", ff1([](D a) { return std::cos(a); })},
      {"math.tan", ff1([](D a) { return std::tan(a); })},
      {"math.asin", ff1([](D a) { return std::asin(a); })},
      {"math.acos", ff1([](D a) { return std::acos(a); })},
      {"math.atan", ff1([](D a) { return std::atan(a); })},
      {"math.sinh", ff1([](D a) { return std::sinh(a); })},
      {"math.cosh", ff1([](D a) { return std::cosh(a); })},
      {"math.tanh", ff1([](D a) { return std::tanh(a); })},
      {"math.asinh", ff1([](D a) { return std::asinh(a); })},
      {"math.acosh", ff1([](D a) { return std::acosh(a); })},
      {"math.atanh", ff1([](D a) { return std::atanh(a); })},
      {"math.erf", ff1([](D a) { return std::erf(a); })},
      {"math.erfc", ff1([](D a) { return std::erfc(a); })},
      {"math.absf", ff1([](D a) { return std::fabs(a); })},
      {"math.ceil", ff1([](D a) { return std::ceil(a); })},
      {"math.floor", ff1([](D a) { return std::floor(a); })},
      {"math.round", ff1([](D a) { return std::round(a); })},
      {"math.roundeven", ff1([](D a) { return std::nearbyint(a); })},
      {"math.trunc", ff1([](D a) { return std::trunc(a); })},
      {"math.atan2", ff2([](D a, D b) { return std::atan2(a, b); })},
      {"math.copysign", ff2([](D a, D b) { return std::copysign(a, b); })},
      {"math.powf", ff2([](D a, D b) { return std::pow(a, b); })},
      {"math.fma", ff3([](D a, D b, D c) { return std::fma(a, b, c); })},
      {"math.clampf", ff3([](D x, D low, D high) { return minimum(maximum(x, low), high); })},
      {"math.absi", ii1([](I a) { return a < 0 ? I(-U(a)) : a; })},
      {"math.fpowi", makeFPowI},
      {"math.ipowi", ii2(integerPower)},
      {"math.ctlz", makeCountLeadingZeros},
      {"math.cttz", makeCountTrailingZeros},
      {"math.ctpop", makeCountBits},
      {"arith.bitcast", makeBitcast},
      {"math.isnan",
       [](Operation *) { return intFromFloats1([](D a) { return I(std::isnan(a)); }); }},
      {"math.isinf",
       [](Operation *) { return intFromFloats1([](D a) { return I(std::isinf(a)); }); }},
      {"math.isnormal", makeIsNormal},
      {"math.isfinite",
       [](Operation *) { return intFromFloats1([](D a) { return I(std::isfinite(a)); }); }},
  };
  return *makers;
}

RowKernel ejk::reference::elementwiseKernel(Operation *op, Precision precision) {
  auto it = table().find(op->getName().getStringRef());
  if (it == table().end() || op->getNumResults() != 1)
    return {};
  for (Value operand : op->getOperands())
    if (!isSupportedElement(getElementTypeOrSelf(operand.getType())))
      return {};
  Type type = getElementTypeOrSelf(op->getResult(0).getType());
  if (!isSupportedElement(type))
    return {};
  RowKernel kernel = it->second(op);
  if (!kernel)
    return {};
  if (!isa<FloatType>(type)) {
    if (type.isIndex() || type.getIntOrFloatBitWidth() == 64)
      return kernel;
    return [kernel, type](const Row *in, Row out, size_t n) {
      kernel(in, out, n);
      for (size_t i = 0; i < n; ++i)
        out.ints[i] = wrapTo(type, out.ints[i]);
    };
  }
  if (precision == Precision::f64 || type.isF64())
    return kernel;
  return [kernel, type](const Row *in, Row out, size_t n) {
    kernel(in, out, n);
    roundRow(type, out.floats, n);
  };
}
