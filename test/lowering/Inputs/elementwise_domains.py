"""Operands that reach every part of the elementwise ops' domains."""
import numpy as np

# Digits, the smallest normal exponent and the largest.
FORMATS = {"f32": (24, -126, 127), "bf16": (8, -126, 127), "f16": (11, -14, 15)}


def from_bits(kind, bits):
    """Numbers of `kind`, held as f32."""
    if kind == "f32":
        return bits.astype(np.uint32).view(np.float32)
    if kind == "bf16":
        return (bits.astype(np.uint32) << 16).view(np.float32)
    return bits.astype(np.uint16).view(np.float16).astype(np.float32)


def rounded(kind, x):
    """f32 numbers as the nearest of `kind`."""
    if kind == "f32":
        return x.astype(np.float32)
    with np.errstate(over="ignore", invalid="ignore"):
        if kind == "f16":
            return x.astype(np.float16).astype(np.float32)
    bits = x.astype(np.float32).view(np.uint32).astype(np.uint64)
    bits = np.where(np.isnan(x), 0x7fc00000, (bits + 0x7fff + (bits >> 16 & 1)) >> 16 << 16)
    return bits.astype(np.uint32).view(np.float32)


def random(seed):
    return np.random.default_rng(seed)


def special(kind):
    """Zeros, denormals, infinities, NaN, and what stands at a boundary."""
    digits, smallest, largest = FORMATS[kind]
    sizes = [0, 2.0 ** (smallest - digits + 1), 2.0 ** smallest, 2.0 ** smallest * .75, .5, 1,
             1 + 2.0 ** (1 - digits), 1 - 2.0 ** -digits, 1.5, 2, 3, 7, 2.0 ** (digits - 1) - 1,
             2.0 ** digits, (2 - 2.0 ** (1 - digits)) * 2.0 ** largest, np.inf, np.nan]
    sizes = rounded(kind, np.array(sizes, np.float32))
    return np.concatenate([sizes, -sizes])


def around(points, steps=6):
    """f32 numbers near each of `points`."""
    bits = np.array(points, np.float32).view(np.int32)
    near = (bits[:, None] + np.arange(-steps, steps + 1)).ravel().astype(np.int32)
    return near.view(np.float32)


def numbers(kind):
    """Every number of 16 bits; of f32 some from each 2^14, and those near where formulas
    change: multiples of π/2, integers and their halves, ends of ranges."""
    if kind != "f32":
        return from_bits(kind, np.arange(1 << 16))
    r = random(1)
    strata = np.arange(1 << 17, dtype=np.uint64) << 15
    x = from_bits(kind, strata + r.integers(0, 1 << 15, 1 << 17, dtype=np.uint64))
    multiples = np.concatenate([np.arange(1, 1000), r.integers(1, 1 << 17, 1000),
                                np.exp2(r.uniform(17, 60, 200)).astype(np.int64)])
    ends = [88.72284, 89.41599, -87.33655, -103.97208, 128, -126, -149, -150, 9.194, 10.054,
            8, 9, 1 / 3, 2 / 3, 4 / 3, .41421357, 2.4142135, .66, .5625, .8, 3.75, 65536, 105615,
            1e6, 8192, 2.0 ** 23, 2.0 ** 24, 2.0 ** 31, 2.0 ** 63, 1e-3, 4e-4]
    points = np.concatenate([multiples * (np.pi / 2), np.arange(0, 40) / 2, ends])
    near = around(points)
    dense = r.uniform(-12, 12, 1 << 14).astype(np.float32)  # where most curves bend
    unit = r.uniform(-1, 1, 1 << 13).astype(np.float32)
    x = np.concatenate([x, near, -near, dense, unit, special(kind)])
    return np.concatenate([x, special(kind)[:-len(x) % 128]])


def crossed(*arrays):
    return [grid.ravel() for grid in np.meshgrid(*arrays)]


def any_of(kind, count, seed):
    bits = random(seed).integers(0, 1 << (32 if kind == "f32" else 16), count, dtype=np.uint64)
    return from_bits(kind, bits)


def pairs(kind, count=1 << 14):
    """Any two numbers, and two of which one is near the other's size."""
    x, y = any_of(kind, count, 2), any_of(kind, count, 3)
    scales = random(4).uniform(-2, 2, count).astype(np.float32)
    with np.errstate(over="ignore", invalid="ignore"):
        near = rounded(kind, x * scales)
    a, b = crossed(special(kind), special(kind))
    return np.concatenate([x, x, a]), np.concatenate([y, near, b])


def triples(kind, count=1 << 14):
    """Any three, the third also near minus the product of the others."""
    x, y = pairs(kind, count)
    z = any_of(kind, len(x), 5)
    with np.errstate(over="ignore", invalid="ignore"):
        z[:count] = rounded(kind, -x[:count] * y[:count])
    few = special(kind)[::2]
    a, b, c = crossed(few, few, few)
    return np.concatenate([x, a]), np.concatenate([y, b]), np.concatenate([z, c])


def powers(kind, count=1 << 16):
    """Bases and powers whose result is in range, integers as powers of negative bases, bases
    near 1, and any pair."""
    r = random(6)
    digits, smallest, largest = FORMATS[kind]
    base = np.abs(any_of(kind, count, 7))
    base = np.where(np.isfinite(base) & (base > 0), base, 1.5).astype(np.float32)
    near = rounded(kind, (1 + r.choice([-1, 1], count) * np.exp2(r.uniform(-digits, -1, count))))
    base = np.where(r.random(count) < .5, base, near).astype(np.float32)
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        power = r.uniform(smallest - digits - 3, largest + 3, count) / np.log2(
            base.astype(np.float64))
        power = rounded(kind, np.where(np.isfinite(power), power, 2).astype(np.float32))
    whole = rounded(kind, np.rint(r.uniform(-30, 30, count)).astype(np.float32))
    small = rounded(kind, -np.exp2(r.uniform(-4, 4, count)).astype(np.float32))
    x, y = pairs(kind, count // 8)
    return np.concatenate([base, small, x]), np.concatenate([power, whole, y])


def angles(kind, count=1 << 16):
    """Points whose coordinates are of sizes alike, of each sign."""
    r = random(8)
    x = any_of(kind, count, 9)
    with np.errstate(over="ignore", invalid="ignore"):
        y = rounded(kind, x * (r.choice([-1, 1], count) * np.exp2(r.normal(0, 3, count))).astype(
            np.float32))
    return y, x


def integers(width):
    """Those at the boundaries of each number of bits, and any."""
    edges = np.array([s * ((1 << b) + d) for b in range(width - 1) for d in (-1, 0, 1)
                      for s in (-1, 1)] + [-(1 << (width - 1)), (1 << (width - 1)) - 1])
    low, high = -(1 << (width - 1)), (1 << (width - 1)) - 1
    any_number = random(10).integers(low, high, 4000, dtype=np.int64, endpoint=True)
    return np.unique(np.concatenate([edges.astype(np.int64), any_number])).astype(
        f"i{width // 8}")


def integer_pairs(width, group):
    """Pairs that an op of `group` is defined on."""
    few = np.array([0, 1, 2, 3, 7, -1, -2, -3, -8, (1 << (width - 1)) - 1, -(1 << (width - 1)),
                    1 << (width - 2), 100, -100]).astype(f"i{width // 8}")
    x, y = crossed(few, few)
    r = random(11)
    numbers_ = integers(width)
    x = np.concatenate([x, r.choice(numbers_, 2000)])
    y = np.concatenate([y, r.choice(numbers_, 1000), r.choice(few, 1000)])
    if group == "shifts":
        y = (y % width).astype(y.dtype)
    if group == "quotients":
        ok = (y != 0) & ~((y == -1) & (x == -(1 << (width - 1))))
        x, y = x[ok], y[ok]
    return x, y


def integer_powers(kind, count=1 << 14):
    r = random(12)
    digits, smallest, largest = FORMATS[kind]
    x = np.abs(any_of(kind, count, 13))
    x = np.where(np.isfinite(x) & (x > 0), x, 1.5).astype(np.float32)
    near = rounded(kind, 1 + r.choice([-1, 1], count) * np.exp2(r.uniform(-digits, -1, count)))
    x = np.where(r.random(count) < .7, near, x).astype(np.float32)
    with np.errstate(divide="ignore", invalid="ignore"):
        n = r.uniform(smallest - digits - 3, largest + 3, count) / np.log2(x.astype(np.float64))
    n = np.clip(np.where(np.isfinite(n), n, 3), -2.0 ** 31, 2.0 ** 31 - 1).astype(np.int32)
    x = x * r.choice([-1, 1], count).astype(np.float32)
    a, b = crossed(special(kind), np.array(
        [0, 1, -1, 2, -2, 3, -3, 255, 256, 257, (1 << 24) + 1, -(1 << 24) - 1, (1 << 31) - 1,
         -(1 << 31)], np.int64))
    return np.concatenate([x, a]).astype(np.float32), np.concatenate([n, b]).astype(np.int32)
