"""Arithmetic of f16 and bf16 on the emulator, against exact fractions.

    sixteen_bits.py check          runs each instruction
    sixteen_bits.py ptx FOLDER     writes the kernels
"""
import math
import operator
import sys
from fractions import Fraction

import numpy as np

sys.dont_write_bytecode = True
from driver import main, run  # noqa: E402

# Bits of the fraction, the smallest normal exponent.
FORMATS = {"f16": (10, -14), "bf16": (7, -126)}
NAN = 0x7fff
COUNT = 1024


def infinity(kind):
    bits, smallest = FORMATS[kind]
    return (3 - 2 * smallest) << bits


def value(kind, pattern):
    """A fraction, or a float that is infinite or NaN; a zero loses its sign."""
    bits, smallest = FORMATS[kind]
    size = pattern & 0x7fff
    if size > infinity(kind):
        return math.nan
    sign = -1 if pattern & 0x8000 else 1
    if size == infinity(kind):
        return sign * math.inf
    exponent, fraction = size >> bits, size % (1 << bits)
    whole = fraction + ((1 << bits) if exponent else 0)
    return sign * Fraction(whole) * Fraction(2) ** (max(exponent, 1) - 1 + smallest - bits)


def nearest(kind, x, zero=0):
    """The pattern of the number nearest to x, the even one of two; `zero` where x is 0."""
    if isinstance(x, float):
        return NAN if math.isnan(x) else infinity(kind) | (0x8000 if x < 0 else 0)
    if x == 0:
        return zero
    bits, smallest = FORMATS[kind]
    sign, size = (0x8000, -x) if x < 0 else (0, x)
    exponent = max(smallest, size.numerator.bit_length() - size.denominator.bit_length() - 1)
    while size >= Fraction(2) ** (exponent + 1):
        exponent += 1
    units = round(size / Fraction(2) ** (exponent - bits))  # of halves to the even one
    return sign | min(infinity(kind), ((exponent - smallest) << bits) + units)


def limited(operation):
    """Of fractions `operation` itself, else what floats make of it."""
    def apply(*values):
        if any(isinstance(v, float) for v in values):
            return operation(*(float(v) for v in values))
        return operation(*values)
    return apply


def is_negative(pattern):
    return pattern >> 15 & 1


def add(kind, a, b):
    x = limited(operator.add)(value(kind, a), value(kind, b))
    return nearest(kind, x, a if a == b else 0)


def subtract(kind, a, b):
    return add(kind, a, b ^ 0x8000)


def product(kind, a, b):
    def multiply(x, y):
        return x * y
    x = limited(multiply)(value(kind, a), value(kind, b))
    return x, 0x8000 * (is_negative(a) ^ is_negative(b))


def multiply(kind, a, b):
    x, sign = product(kind, a, b)
    y = nearest(kind, x, sign)
    return y


def fma(kind, a, b, c):
    x, sign = product(kind, a, b)
    z = limited(operator.add)(x, value(kind, c))
    zero = 0
    if not isinstance(z, float) and z == 0 and x == 0:
        zero = sign if sign == (c & 0x8000) else 0
    return nearest(kind, z, zero)


def rectified(kind, a, b, c):
    x = fma(kind, a, b, c)
    return 0 if x != NAN and x & 0x8000 else x


def ordered(pattern):
    """Of numbers in order, -0 before +0."""
    return -(pattern & 0x7fff) - 1 if pattern & 0x8000 else pattern


def extreme(choose, keeps_nan):
    def apply(kind, a, b):
        nans = [p for p in (a, b) if (p & 0x7fff) > infinity(kind)]
        if len(nans) == 2 or (nans and keeps_nan):
            return NAN
        if nans:
            return b if nans[0] == a else a
        return choose(a, b, key=ordered)
    return apply


def comparison(relation, unordered):
    def apply(kind, a, b):
        x, y = value(kind, a), value(kind, b)
        if any(isinstance(v, float) and math.isnan(v) for v in (x, y)):
            return int(unordered)
        return int(relation(x, y))
    return apply


def function(f):
    def apply(kind, a):
        x = value(kind, a)
        if isinstance(x, float) and math.isnan(x):
            return NAN
        return nearest(kind, *f(x, a & 0x8000))
    return apply


def exponential(x, _):
    if isinstance(x, float):
        return (math.inf if x > 0 else Fraction(0), 0)
    if x > 2000 or x < -2000:
        return (math.inf if x > 0 else Fraction(0), 0)
    try:
        return (Fraction(2.0 ** float(x)), 0)
    except OverflowError:
        return (math.inf, 0)


def tangent(x, sign):
    return Fraction(math.tanh(float(x))), sign


def integral(rounding):
    return lambda x, sign: (x if isinstance(x, float) else Fraction(rounding(x)), sign)


ARITHMETIC = {
    "add.rn": (add, 2), "sub.rn": (subtract, 2), "mul.rn": (multiply, 2), "add": (add, 2),
    "sub": (subtract, 2), "mul": (multiply, 2), "fma.rn": (fma, 3), "fma.rn.relu": (rectified, 3),
    "min": (extreme(min, False), 2), "max": (extreme(max, False), 2),
    "min.NaN": (extreme(min, True), 2), "max.NaN": (extreme(max, True), 2),
    "neg": (lambda kind, a: a ^ 0x8000, 1), "abs": (lambda kind, a: a & 0x7fff, 1),
    "tanh.approx": (function(tangent), 1),
}
COMPARISONS = {"eq": operator.eq, "ne": operator.ne, "lt": operator.lt, "le": operator.le,
               "gt": operator.gt, "ge": operator.ge}
INTEGRAL = {"rmi": math.floor, "rpi": math.ceil, "rzi": math.trunc, "rni": round}
INTEGERS = {"u16": "b16", "s16": "b16", "u32": "b32", "s32": "b32", "u64": "b64", "s64": "b64"}

KERNEL = """.version 8.6
.target sm_100
.address_size 64
.visible .entry kernel({parameters})
{{
  .reg .b16 %h<8>;
  .reg .b32 %r<8>;
  .reg .f32 %f<4>;
  .reg .f64 %d<4>;
  .reg .b64 %rd<16>;
  .reg .pred %p<4>;
  mov.u32 %r7, %tid.x;
  {loads}
  {body}
  ld.param.u64 %rd9, [p{result}];
  mul.wide.u32 %rd10, %r7, {out_bytes};
  add.s64 %rd9, %rd9, %rd10;
  st.global.b{out_bits} [%rd9], {out};
  ret;
}}
"""
REGISTER = {"b16": "%h", "b32": "%r", "b64": "%rd"}


def kernel(opcode, operands, widths, result, packed_predicates=False):
    """One instruction on `widths` of operands, each loaded from an array of them."""
    loads, names = [], []
    for i, width in enumerate(widths):
        register = f"{REGISTER[width]}{i}"
        size = int(width[1:]) // 8
        loads.append(f"ld.param.u64 %rd12, [p{i}];\n  mul.wide.u32 %rd13, %r7, {size};\n"
                     f"  add.s64 %rd12, %rd12, %rd13;\n  ld.global.{width} {register}, [%rd12];")
        names.append(register)
    out = f"{REGISTER[result]}6"
    if packed_predicates:
        body = (f"{opcode} %p1|%p2, {', '.join(names)};\n  selp.b32 %r4, 1, 0, %p1;\n"
                f"  selp.b32 %r5, 2, 0, %p2;\n  or.b32 {out}, %r4, %r5;")
    elif opcode.startswith("setp"):
        body = f"{opcode} %p1, {', '.join(names)};\n  selp.{result} {out}, 1, 0, %p1;"
    else:
        body = f"{opcode} {out}, {', '.join(names)};"
    size = int(result[1:]) // 8
    return KERNEL.format(
        parameters=", ".join(f".param .u64 p{i}" for i in range(len(widths) + 1)),
        loads="\n  ".join(loads), body=body, result=len(widths), out=out, out_bytes=size,
        out_bits=8 * size)


def patterns(kind, count, seed):
    """Those at boundaries, and any."""
    inf = infinity(kind)
    one = -FORMATS[kind][1] + 1 << FORMATS[kind][0]
    edges = [0, 1, 2, inf >> 5, one, one + 1, one - 1, inf - 1, inf, NAN, inf + 1]
    edges += [e | 0x8000 for e in edges]
    random = np.random.default_rng(seed)
    return [int(p) for p in np.concatenate([random.permutation(edges), random.integers(
        0, 1 << 16, count - len(edges))])]


def cases(kind):
    """(opcode, operands' widths, result's width, operand arrays, expected, packed setp)."""
    x, y, z = (patterns(kind, COUNT, seed) for seed in range(3))
    # Sums that cancel, and sums whose last bit a distant number decides.
    for i in range(64, 256):
        z[i] = multiply(kind, x[i], y[i]) ^ 0x8000
    columns = (x, y, z)

    def pack(column):
        return np.array(column, np.uint32)[0::2] | np.array(column, np.uint32)[1::2] << 16

    def both(opcode, apply, count):
        expected = [apply(kind, *p) for p in zip(*columns[:count])]
        halves = [np.array(c, np.uint16) for c in columns[:count]]
        yield (f"{opcode}.{kind}", ["b16"] * count, "b16", halves,
               np.array(expected, np.uint16), False)
        yield (f"{opcode}.{kind}x2", ["b32"] * count, "b32", [pack(c) for c in columns[:count]],
               pack(expected), False)

    for opcode, (apply, count) in ARITHMETIC.items():
        yield from both(opcode, apply, count)
    yield from both("ex2.approx" + (".ftz" if kind == "bf16" else ""),
                    flushed_exponential if kind == "bf16" else function(exponential), 1)
    tests = [(name, relation, False) for name, relation in COMPARISONS.items()]
    tests += [(name + "u", relation, True) for name, relation in COMPARISONS.items()]
    tests += [("num", lambda a, b: True, False), ("nan", lambda a, b: False, True)]
    for name, relation, unordered in tests:
        if name == "ne":
            unordered = False
        apply = comparison(relation, unordered)
        expected = [apply(kind, a, b) for a, b in zip(x, y)]
        halves = [np.array(c, np.uint16) for c in (x, y)]
        yield (f"setp.{name}.{kind}", ["b16", "b16"], "b32", halves,
               np.array(expected, np.uint32), False)
        pairs = np.array(expected, np.uint32)[0::2] | np.array(expected, np.uint32)[1::2] << 1
        yield (f"setp.{name}.{kind}x2", ["b32", "b32"], "b32", [pack(c) for c in (x, y)], pairs,
               True)
    for mode, rounding in INTEGRAL.items():
        expected = [function(integral(rounding))(kind, a) for a in x]
        yield (f"cvt.{mode}.{kind}.{kind}", ["b16"], "b16", [np.array(x, np.uint16)],
               np.array(expected, np.uint16), False)
    yield from conversions(kind, x)


def flushed_exponential(kind, a):
    """Denormal operands and results are zero."""
    if 0 < (a & 0x7fff) < 1 << FORMATS[kind][0]:
        a &= 0x8000
    result = function(exponential)(kind, a)
    return 0 if result < 1 << FORMATS[kind][0] else result


def conversions(kind, x):
    halves = np.array(x, np.uint16)
    random = np.random.default_rng(9)
    for integer, width in INTEGERS.items():
        bits, signed = int(integer[1:]), integer[0] == "s"
        low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
        dtype = f"{'i' if signed else 'u'}{bits // 8}"
        any_number = random.integers(low, high, COUNT - 6, dtype=dtype)
        numbers = [int(n) for n in any_number]
        numbers = [n >> int(s) for n, s in zip(numbers, random.integers(0, bits, COUNT))]
        numbers += [low, high, 0, 1, 2049, 257]
        held = np.array([n % (1 << bits) for n in numbers], np.uint64).astype(f"u{bits // 8}")
        yield (f"cvt.rn.{kind}.{integer}", [width], "b16", [held],
               np.array([nearest(kind, Fraction(n)) for n in numbers], np.uint16), False)
        expected = []
        for pattern in x:
            v = value(kind, pattern)
            if isinstance(v, float):
                whole = 0 if math.isnan(v) else high if v > 0 else low
            else:
                whole = min(high, max(low, math.trunc(v)))
            expected.append(whole % (1 << bits))
        yield (f"cvt.rzi.{integer}.{kind}", ["b16"], width, [halves],
               np.array(expected, np.uint64).astype(f"u{bits // 8}"), False)
    # NaN has other bits in f64.
    numbers = np.array([p for p in x if (p & 0x7fff) <= infinity(kind)], np.uint16)
    exact = np.array([math.copysign(float(value(kind, int(p))), -1 if p & 0x8000 else 1)
                      for p in numbers])
    yield (f"cvt.f64.{kind}", ["b16"], "b64", [numbers], exact.view(np.uint64), False)
    # Halfway, and halfway but for f64's last bit, which a rounding by way of f32 would lose.
    halfway = exact[np.isfinite(exact)] * (1 + 2.0 ** -(FORMATS[kind][0] + 1))
    given = np.concatenate([halfway, np.nextafter(halfway, np.inf), np.nextafter(halfway, 0)])
    expected = [nearest(kind, Fraction(float(v)), 0x8000 * int(np.signbit(v))) for v in given]
    yield (f"cvt.rn.{kind}.f64", ["b64"], "b16", [given.view(np.uint64)],
           np.array(expected, np.uint16), False)


def all_cases():
    return [case for kind in FORMATS for case in cases(kind)]


def check(driver):
    wrong = count = 0
    for opcode, widths, result, operands, expected, packed in all_cases():
        text = kernel(opcode, operands, widths, result, packed)
        count += 1
        # A block has 1,024 threads at most, and whole warps.
        whole = len(expected) // 32 * 32
        expected, operands = expected[:whole], [o[:whole] for o in operands]
        got = np.concatenate([
            run(driver, text, "kernel", len(expected[i:i + 1024]),
                [np.ascontiguousarray(o[i:i + 1024]) for o in operands],
                np.zeros_like(expected[i:i + 1024])) for i in range(0, len(expected), 1024)])
        if not np.array_equal(got, expected):
            wrong += 1
            first = int(np.argmax(got != expected))
            print(opcode, [hex(o[first]) for o in operands], "gives", hex(got[first]), "expected",
                  hex(expected[first]))
    print(f"{count} instructions, {wrong} wrong")
    return wrong


if __name__ == "__main__":
    main([(opcode, kernel(opcode, operands, widths, result, packed))
          for opcode, widths, result, operands, _, packed in
          (all_cases() if sys.argv[1] == "ptx" else [])], {"check": check})
