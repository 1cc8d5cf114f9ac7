"""ejk.compat.ejkernel beside ejkernel's XLA kernels on a CPU: results, states and gradients.

    EJK_TEST_CASES=100 python3 -m unittest test_ejkernel.Parity      # argument sets a function
"""

import inspect
import os
import unittest

import jax
import jax.numpy as jnp
import numpy as np

from ejk.compat import ejkernel as ours

try:
    from ejkernel.kernels._xla.gla import recurrent_gla
    from ejkernel.kernels._xla.lightning_attn import lightning_attn
    from ejkernel.kernels._xla.recurrent import recurrent
    THEIRS = dict(recurrent=recurrent, recurrent_gla=recurrent_gla, lightning_attn=lightning_attn)
    MISSING = None
except ImportError as error:
    MISSING = f"ejkernel is not installed ({error})"

# Both compute steps in float32, in another order. ejkernel scales bfloat16 queries in bfloat16, and
# a gradient is rounded to its operand's type.
LIMITS = {"float32": 2e-5, "bfloat16": 8e-3}


def random_case(rng, name):
    takes = inspect.signature(getattr(ours, name)).parameters
    dtype = jnp.bfloat16 if rng.random() < 0.25 else jnp.float32
    packed = rng.random() < 0.35
    B, T, H = (1 if packed else int(rng.integers(1, 3)), int(rng.choice([1, 5, 12])),
               int(rng.choice([1, 2])))
    K, V = [(8, 8), (4, 4), (8, 4), (4, 8)][int(rng.integers(4))]

    def tensor(*shape, gate=False):
        x = -rng.random(shape) if gate else rng.normal(size=shape)
        return jnp.asarray(x, dtype)
    gates = [gate for gate in ("g", "gk", "gv") if gate in takes and rng.random() < 0.5]
    case = dict(query=tensor(B, T, H, K), key=tensor(B, T, H, K), value=tensor(B, T, H, V))
    for gate in gates:
        case[gate] = tensor(B, T, H, V if gate == "gv" else K, gate=True)
    N = B
    options = {}
    if packed:
        cuts = np.sort(rng.integers(1, T + 1, int(rng.integers(0, 3))))
        cuts = np.unique(cuts[cuts < T])  # ejkernel's sequences are not empty
        options["cu_seqlens"] = jnp.asarray([0, *cuts, T], jnp.int32)
        N = len(cuts) + 1
    if "g_gamma" in takes and rng.random() < 0.5:
        # Not among the tensors, because ejkernel cannot differentiate by it.
        options["g_gamma"] = jnp.asarray(-rng.random(H if rng.random() < 0.5 else (N, H)),
                                         jnp.float32)
    if rng.random() < 0.5:
        case["initial_state"] = jnp.asarray(rng.normal(size=(N, H, K, V)), jnp.float32)
    if rng.random() < 0.3:
        options["reverse"] = True
    if rng.random() < 0.3:
        options["softmax_scale"] = 0.5
    if "layer_idx" in takes:
        options["layer_idx"], options["num_layers"] = 1, 4
    return case, options


def by_steps(query, key, value, g=None, gk=None, gv=None, g_gamma=None, initial_state=None,
             cu_seqlens=None, reverse=False, softmax_scale=None, layer_idx=None, num_layers=None):
    """The recurrence in JAX, one step after the other, for gradients. ejkernel's own derivative has
    the wrong shape for gates of channels, and the wrong numbers in reverse."""
    B, T, H, K = query.shape
    V = value.shape[3]
    if layer_idx is not None:
        g_gamma = -(8 / H * (1 - layer_idx / num_layers)) * jnp.arange(H)
    spans = ([(b, 0, T) for b in range(B)] if cu_seqlens is None else
             [(0, int(a), int(b)) for a, b in zip(cu_seqlens, cu_seqlens[1:])])
    rows, states = {}, []
    for n, (b, first, end) in enumerate(spans):
        S = jnp.zeros((H, K, V)) if initial_state is None else initial_state[n]
        for t in range(end - 1, first - 1, -1) if reverse else range(first, end):
            if g_gamma is not None:
                gamma = g_gamma if g_gamma.ndim == 1 else g_gamma[n % g_gamma.shape[0]]
                S = S * jnp.exp(gamma)[:, None, None]
            for gate, axis in ((g, -1), (gk, -1), (gv, -2)):
                if gate is not None:
                    S = S * jnp.exp(jnp.expand_dims(gate[b, t], axis))
            S = S + key[b, t][:, :, None] * value[b, t][:, None, :]
            rows[b, t] = jnp.einsum("hkv,hk->hv", S, query[b, t])
        states.append(S)
    o = jnp.stack([jnp.stack([rows[b, t] for t in range(T)]) for b in range(B)])
    return o * (K ** -0.5 if softmax_scale is None else softmax_scale), jnp.stack(states)


@unittest.skipIf(MISSING, MISSING)
class Parity(unittest.TestCase):
    def compare(self, name):
        rng = np.random.default_rng(int(os.environ.get("EJK_TEST_SEED", 0)))
        worst, alone, cases = 0.0, 0, int(os.environ.get("EJK_TEST_CASES", 3))
        for number in range(cases):
            case, options = random_case(rng, name)
            main = str(case["query"].dtype)
            ours_o, pull = jax.vjp(lambda t: getattr(ours, name)(**t, **options), case)
            theirs = None
            try:
                theirs = THEIRS[name](**case, **options)
            except (TypeError, ValueError):
                # ejkernel puts zeros of K columns in the place of an absent state or gate.
                self.assertNotEqual(case["query"].shape[3], case["value"].shape[3])
                alone += 1
            wide = {n: x.astype(jnp.float32) for n, x in case.items()}
            exact, pull_exact = jax.vjp(lambda t: by_steps(**t, **options), wide)
            theirs = exact if theirs is None else theirs
            own = np.random.default_rng(number)
            cotangents = tuple(jnp.asarray(own.normal(size=x.shape), x.dtype) for x in ours_o)
            (found,), (wanted,) = pull(cotangents), pull_exact(cotangents)
            for a, b in zip(ours_o, theirs):
                self.assertEqual((a.shape, a.dtype), (b.shape, b.dtype), name)
            for n, x in case.items():
                self.assertEqual((found[n].shape, found[n].dtype), (x.shape, x.dtype), n)
            for what, a, b in [*zip(["o", "state"], ours_o, theirs),
                               *((n, found[n], wanted[n]) for n in case)]:
                a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
                ratio = np.linalg.norm(a - b) / max(np.linalg.norm(b), 1e-2 * b.size ** 0.5)
                worst = max(worst, ratio / LIMITS[main])
                self.assertLessEqual(ratio, LIMITS[main],
                                     f"{name}, case {number}, {what}: {options}, "
                                     f"{ {n: x.shape for n, x in case.items()} }")
        if os.environ.get("EJK_TEST_CASES"):
            print(f"{name}: the largest error is {worst:.3f} of its limit; ejkernel failed on "
                  f"{alone} of {cases}, which are compared with the recurrence step by step",
                  flush=True)

    def test_recurrent(self):
        self.compare("recurrent")

    def test_recurrent_gla(self):
        self.compare("recurrent_gla")

    def test_lightning_attn(self):
        self.compare("lightning_attn")

    def test_signatures_are_those_of_ejkernel(self):
        for name, theirs in THEIRS.items():
            theirs, own = (inspect.signature(inspect.unwrap(f)).parameters
                           for f in (theirs, getattr(ours, name)))
            self.assertEqual([(n, p.default, p.kind) for n, p in theirs.items()],
                             [(n, p.default, p.kind) for n, p in own.items()], name)


class Arguments(unittest.TestCase):
    def test_packed_sequences_without_a_batch(self):
        rng = np.random.default_rng(0)
        q, k, v = (jnp.asarray(rng.normal(size=(9, 2, 4)), jnp.float32) for _ in range(3))
        cu = jnp.asarray([0, 4, 9], jnp.int32)
        o, state = ours.recurrent(q, k, v, cu_seqlens=cu)
        wanted, same = ours.recurrent(q[None], k[None], v[None], cu_seqlens=cu)
        self.assertEqual(o.shape, (9, 2, 4))
        self.assertTrue((o == wanted[0]).all() and (state == same).all())

    def test_what_is_not_supported_is_named(self):
        x = jnp.ones((1, 4, 2, 4))
        for named, wanted in ((dict(block_k=0), "block_k"), (dict(num_stages=None), "num_stages"),
                              (dict(g=jnp.ones((1, 4, 2))), "'g'"), (dict(gv=x[..., :2]), "'gv'"),
                              (dict(key=x[:, :, :1]), "'key'"), (dict(value=x[:, :, :1]),
                                                                 "'value'")):
            with self.subTest(wanted), self.assertRaisesRegex(ValueError, wanted):
                ours.recurrent(**{"query": x, "key": x, "value": x, **named})

    def test_a_gamma_for_each_sequence(self):
        rng = np.random.default_rng(0)
        q, k, v = (jnp.asarray(rng.normal(size=(1, 8, 2, 4)), jnp.float32) for _ in range(3))
        gamma = jnp.asarray([[-0.1, -0.2], [-2.0, -3.0]])
        o, state = ours.recurrent(q, k, v, g_gamma=gamma, cu_seqlens=jnp.asarray([0, 4, 8], jnp.int32))
        for n in range(2):
            own = (x[:, 4 * n:4 * n + 4] for x in (q, k, v))
            wanted, last = ours.recurrent(*own, g_gamma=gamma[n])
            np.testing.assert_allclose(o[:, 4 * n:4 * n + 4], wanted, rtol=1e-5, atol=1e-6)
            np.testing.assert_allclose(state[n], last[0], rtol=1e-5, atol=1e-6)

    def test_packed_gates_without_a_batch(self):
        rng = np.random.default_rng(0)
        q, k, v = (jnp.asarray(rng.normal(size=(9, 2, 4)), jnp.float32) for _ in range(3))
        g, cu = -abs(k), jnp.asarray([0, 4, 9], jnp.int32)
        o, state = ours.recurrent(q, k, v, g, cu_seqlens=cu)
        wanted, same = ours.recurrent(q[None], k[None], v[None], g[None], cu_seqlens=cu)
        self.assertTrue((o == wanted[0]).all() and (state == same).all())


if __name__ == "__main__":
    unittest.main()
