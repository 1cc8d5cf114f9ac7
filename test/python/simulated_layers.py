"""Layers for `simulated_engine.py`: how their rows are drawn, how they are called, what they compute in f64."""

import numpy as np

import ejk
from ejk import serving


@ejk.recurrence
def delta(S, v, q, k, g, beta):
    S = S.decay(g)
    S = S.add(k, beta * (v - S.read(k)))
    return S, S.read(q)


def steps(S, q, k, v, decay, beta=None, skip=0.0):
    """(outputs [T, H, V], the state after each row) in f64. S is [H, K, V], rows are [T, H, …]."""
    outputs, states = [], []
    for t in range(len(q)):
        S = S * (decay[t][:, None, None] if decay.ndim == 2 else decay[t][:, :, None])
        value = v[t]
        if beta is not None:
            value = beta[t][:, None] * (value - np.einsum("hkv,hk->hv", S, k[t]))
        S = S + k[t][:, :, None] * value[:, None, :]
        outputs.append(np.einsum("hkv,hk->hv", S, q[t]))
        states.append(S)
    return np.array(outputs).reshape(len(q), *v.shape[1:]) + skip, states


def unit(x):
    return x / np.sqrt((x * x).sum(-1, keepdims=True) + 1e-6)


def sigmoid(x):
    return 0.5 + 0.5 * np.tanh(x / 2)


def softplus(x):
    return np.logaddexp(0, x)


class Layer:
    """A layer's recurrence: how its rows are drawn, how it is called, and what it computes."""

    H, HV, K, V = 2, 4, 6, 12  # query and key heads, and heads of values: of states
    value_major = True

    def __init__(self, rng, dtype):
        self.rng, self.dtype = rng, dtype
        self.strength = float(rng.choice([1.0, 1.0, 30.0]))  # of gates
        self.parameters()

    def parameters(self):
        pass

    def normal(self, *shape):
        return self.rng.normal(size=shape).astype(self.dtype)

    def grouped(self, x):
        """Rows of query and key heads as rows of the states' heads."""
        return np.repeat(x, self.HV // x.shape[1], 1)

    def run(self, rows, S):
        """(outputs, the state after each row) in f64 of one sequence's rows from S [HV, K, V]."""
        return self.exact([np.asarray(x, np.float64) for x in rows], S)


class Delta(Layer):
    """A step of one's own, with the state as [K, V] or [V, K]."""

    def parameters(self):
        self.value_major = bool(self.rng.random() < 0.5)

    def rows(self, T):
        k = self.normal(T, self.H, self.K)
        k = (k / np.linalg.norm(k.astype(np.float64), axis=-1, keepdims=True)).astype(self.dtype)
        return [self.normal(T, self.HV, self.V), self.normal(T, self.H, self.K), k,
                -(self.strength * self.rng.random((T, self.HV))).astype(self.dtype),
                self.rng.random((T, self.HV)).astype(self.dtype)]

    def call(self, rows, **options):
        return delta(*rows, value_major=self.value_major, **options)[0]

    def exact(self, rows, S):
        v, q, k, g, beta = rows
        return steps(S, self.grouped(q), self.grouped(k), v, np.exp(g), beta)


class GatedDelta(Layer):
    """Qwen3-Next's layer."""

    def parameters(self):
        self.A_log, self.bias = self.rng.normal(size=(2, self.HV)).astype("f4")

    def rows(self, T):
        return [self.normal(T, self.H, self.K), self.normal(T, self.H, self.K),
                self.normal(T, self.HV, self.V),
                (self.strength * self.normal(T, self.HV)).astype(self.dtype), self.normal(T, self.HV)]

    def call(self, rows, **options):
        return serving.gated_delta_rule(*rows, self.A_log, self.bias, **options)

    def exact(self, rows, S):
        q, k, v, a, b = rows
        decay = np.exp(-np.exp(self.A_log.astype(float)) * softplus(a + self.bias))
        return steps(S, self.grouped(unit(q)) * self.K ** -0.5, self.grouped(unit(k)), v, decay,
                     sigmoid(b))


class Kimi(Layer):
    """Kimi's layer, whose gates of each channel have a bound or none."""

    H = 4

    def parameters(self):
        self.A_log = self.rng.normal(size=self.HV).astype("f4")
        self.bias = self.rng.normal(size=(self.HV, self.K)).astype("f4")
        self.bound = [None, -5.0][int(self.rng.integers(2))]

    def rows(self, T):
        return [self.normal(T, self.H, self.K), self.normal(T, self.H, self.K),
                self.normal(T, self.HV, self.V),
                (self.strength * self.normal(T, self.HV, self.K)).astype(self.dtype),
                self.normal(T, self.HV)]

    def call(self, rows, **options):
        return serving.kimi_delta_attention(*rows, self.A_log, self.bias, lower_bound=self.bound,
                                            **options)

    def exact(self, rows, S):
        q, k, v, g, beta = rows
        rate, raw = np.exp(self.A_log.astype(float))[:, None], g + self.bias
        gate = -rate * softplus(raw) if self.bound is None else self.bound * sigmoid(rate * raw)
        return steps(S, unit(q) * self.K ** -0.5, unit(k), v, np.exp(gate), sigmoid(beta))


class Mamba2(Layer):
    def parameters(self):
        self.A, self.D, self.bias = self.rng.normal(size=(3, self.HV)).astype("f4")
        self.A = -abs(self.A) - np.float32(0.01)

    def rows(self, T):
        return [self.normal(T, self.HV, self.V),
                (self.strength * self.normal(T, self.HV)).astype(self.dtype),
                self.normal(T, self.H, self.K), self.normal(T, self.H, self.K)]

    def call(self, rows, **options):
        x, dt, B, C = rows
        return serving.mamba2(x, dt, self.A, B, C, self.D, self.bias, **options)

    def exact(self, rows, S):
        x, dt, B, C = rows
        step = softplus(dt + self.bias)
        return steps(S, self.grouped(C), self.grouped(B), step[..., None] * x, np.exp(self.A * step),
                     skip=self.D[:, None] * x)


class Lightning(Layer):
    H, value_major = 4, False

    def parameters(self):
        self.slope = self.rng.random(self.HV).astype("f4")

    def rows(self, T):
        return [self.normal(T, self.H, self.K), self.normal(T, self.H, self.K),
                self.normal(T, self.HV, self.V)]

    def call(self, rows, **options):
        return serving.lightning(*rows, self.slope, **options)

    def exact(self, rows, S):
        q, k, v = rows
        decay = np.broadcast_to(np.exp(-self.slope.astype(float)), (len(q), self.HV))
        return steps(S, q, k, v, decay)


LAYERS = (Delta, GatedDelta, Kimi, Mamba2, Lightning)
