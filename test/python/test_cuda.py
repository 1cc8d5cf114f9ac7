"""Recurrences on a CUDA GPU, from PyTorch and from JAX; skipped where there is none.

    python3 -m unittest -v test_cuda"""

import os
import subprocess
import sys
import time
import unittest

import numpy as np
import reference

try:
    import torch
    HAS_GPU = torch.cuda.is_available()
except ImportError:
    HAS_GPU = False

import ejk
from reference import error


@ejk.recurrence
def gated(S, q, k, v, gk):
    S = S.decay(gk).add(k, v)
    return S, S.read(q)


def inputs(B=2, T=200, H=4, K=64, V=64, seed=0, dtype="bfloat16"):
    rng = np.random.default_rng(seed)
    made = dict(q=rng.normal(size=(B, T, H, K)), k=rng.normal(size=(B, T, H, K)) / 8,
                v=rng.normal(size=(B, T, H, V)), gk=-rng.random((B, T, H, K)) / 8,
                g=-rng.random((B, T, H)) / 8, h0=rng.normal(size=(B, H, K, V)))
    return {n: torch.from_numpy(x).to("cuda", getattr(torch, dtype) if n in "qkv"
                                      else torch.float32) for n, x in made.items()}


def wide(x):
    return x.detach().double().cpu()


@unittest.skipUnless(HAS_GPU, "there is no GPU")
class Torch(unittest.TestCase):
    def gradients(self, function, tensors, **options):
        """Results, and gradients of a weighted sum of them."""
        own = [t.detach().clone().requires_grad_() for t in tensors]
        results = function(*own, **options)
        generator = torch.Generator().manual_seed(3)
        weights = [torch.randn(r.shape, generator=generator, dtype=torch.float64) for r in results]
        loss = sum((r.to("cpu", torch.float64) * w).sum() for r, w in zip(results, weights))
        return [wide(r) for r in results], [wide(g) for g in torch.autograd.grad(loss, own)]

    def test_values_and_gradients(self):
        t = inputs()
        cases = {"gla": (ejk.ops.gla, ("q", "k", "v", "gk")),
                 "simple_gla": (ejk.ops.simple_gla, ("q", "k", "v", "g")),
                 "linear": (ejk.ops.linear_attn, ("q", "k", "v"))}
        for name, (function, names) in cases.items():
            with self.subTest(name):
                tensors = [t[n] for n in names]
                found = self.gradients(function, tensors)
                # The first call remembers the site; the second takes it.
                again = self.gradients(function, tensors)
                # In f64 the same function runs in the interpreter, on the CPU.
                wanted = self.gradients(function, [wide(x) for x in tensors])
                for a, b, c in zip(sum(found, []), sum(again, []), sum(wanted, [])):
                    self.assertTrue(torch.equal(a, b))
                    self.assertLess(error(a, c), 8e-3)

    def test_states_are_saved(self):
        from ejk import _torch
        t = inputs(seed=1)
        self.gradients(ejk.ops.gla, [t[n] for n in ("q", "k", "v", "gk")])
        kinds = {entry.partition(":")[0] for _, entry, device in _torch._table._known
                 if device[0] == 2}
        self.assertLessEqual({"forward", "backward"}, kinds)
        t = inputs(B=4, T=4096)
        large = [t[n].requires_grad_() for n in ("q", "k", "v", "gk")]

        def kept(**options):
            torch.cuda.synchronize()
            before = torch.cuda.memory_allocated()
            o, state = ejk.ops.gla(*large, **options)
            kept = torch.cuda.memory_allocated() - before
            return kept, torch.autograd.grad(o.float().sum(), large)
        saved, gradients = kept()
        computed, wanted = kept(save_states=False)
        self.assertGreater(saved, 1.5 * computed)
        for a, b in zip(gradients, wanted):
            self.assertLess(error(wide(a), wide(b)), 8e-3)

    def test_initial_states_and_packed_sequences(self):
        t = inputs(B=1, seed=2)
        cu = torch.tensor([0, 70, 70, 200], dtype=torch.int32, device="cuda")
        h0 = torch.randn(3, 4, 64, 64, device="cuda")

        def function(q, k, v, gk, h0, cu=cu):
            return ejk.ops.gla(q, k, v, gk, initial_state=h0, cu_seqlens=cu)
        tensors = [t["q"], t["k"], t["v"], t["gk"], h0]
        found = self.gradients(function, tensors)
        wanted = self.gradients(lambda *a: function(*a, cu=cu.cpu()), [wide(x) for x in tensors])
        for a, c in zip(sum(found, []), sum(wanted, [])):
            self.assertLess(error(a, c), 8e-3)

    def test_second_derivatives(self):
        def of(q, k, v, g):
            o, _ = ejk.ops.gla(q, k, v, g)
            first, = torch.autograd.grad(o.double().square().sum(), q, create_graph=True)
            return wide(torch.autograd.grad(first.double().square().sum(), k)[0])
        t = inputs(T=40, dtype="float32", seed=4)
        own = [t[n].requires_grad_() for n in ("q", "k", "v", "gk")]
        exact = [wide(x).requires_grad_() for x in own]
        self.assertLess(error(of(*own), of(*exact)), 1e-4)

    def test_streams(self):
        t = inputs(T=4000)
        tensors = [t[n] for n in ("q", "k", "v", "gk")]
        expected = ejk.ops.gla(*tensors)[0]
        torch.cuda.synchronize()
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            late = torch.zeros_like(tensors[0])
            torch.cuda._sleep(20_000_000)  # what the call reads is written after this
            late.copy_(tensors[0])
            found = ejk.ops.gla(late, *tensors[1:])[0]
        stream.synchronize()
        self.assertTrue(torch.equal(found, expected))

    def test_a_cuda_graph(self):
        t = inputs()
        tensors = [t[n] for n in ("q", "k", "v", "gk")]
        expected = ejk.ops.gla(*tensors)[0].clone()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            captured = ejk.ops.gla(*tensors)[0]
        captured.zero_()
        graph.replay()
        torch.cuda.synchronize()
        self.assertTrue(torch.equal(captured, expected))

    def test_compile(self):
        def layer(q, k, v, g):
            return ejk.ops.gla(q * 2, k, v, g)
        t = inputs()
        compiled = torch.compile(layer, fullgraph=True, backend="aot_eager", dynamic=True)
        for T in (200, 130):
            tensors = [t[n][:, :T] for n in ("q", "k", "v", "gk")]
            for a, b in zip(sum(self.gradients(compiled, tensors), []),
                            sum(self.gradients(layer, tensors), [])):
                self.assertLess(error(a, b), 1e-6)

    def test_opcheck(self):
        t = inputs(B=1, T=20)
        tensors = [t[n].requires_grad_() for n in ("q", "k", "v", "gk")]
        key = gated.program(*tensors).key
        torch.library.opcheck(torch.ops.ejk.call.default, (key, "0", tensors))

    def test_what_calls_cost(self):
        t = inputs(B=1, T=1, H=1)
        tensors = [t[n] for n in ("q", "k", "v", "gk")]

        def best(call):
            times = []
            for _ in range(20):
                torch.cuda.synchronize()
                start = time.perf_counter()
                for _ in range(200):
                    call()
                times.append((time.perf_counter() - start) / 200)
            return min(times) * 1e6
        print(f"\na call on a GPU: {best(lambda: ejk.ops.gla(*tensors)):.1f} µs, torch.add "
              f"{best(lambda: torch.add(tensors[0], tensors[1])):.1f} µs", end="")
        tensors[0].requires_grad_()
        print(f", with a derivative {best(lambda: ejk.ops.gla(*tensors)):.1f} µs")

    def test_times(self):
        t = inputs(B=4, T=4096, H=64, K=128, V=128)
        own = [t[n].requires_grad_() for n in ("q", "k", "v", "gk")]

        def timed(call):
            call()
            times = []
            for _ in range(10):
                first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
                first.record()
                call()
                last.record()
                torch.cuda.synchronize()
                times.append(first.elapsed_time(last))
            return min(times)
        with torch.no_grad():
            print(f"\ngla 4,4096,64,128: forward {timed(lambda: ejk.ops.gla(*own)):.3f} ms", end="")
        do = torch.randn_like(own[2])
        print(f", forward and backward "
              f"{timed(lambda: torch.autograd.grad(ejk.ops.gla(*own)[0], own, do)):.3f} ms")


_IN_JAX = """
import jax, jax.numpy as jnp, numpy as np, ejk, reference
from reference import error
assert jax.default_backend() == "gpu", jax.default_backend()
rng = np.random.default_rng(0)
a = [rng.normal(size=(2, 100, 4, 64)) for _ in range(3)] + [-rng.random((2, 100, 4, 64)) / 8]
q, k, v, g = (jnp.asarray(x, jnp.bfloat16 if i < 3 else jnp.float32) for i, x in enumerate(a))
call = jax.jit(lambda *a: ejk.ops.gla(*a))
wide = [np.asarray(x, np.float64) for x in (q, k, v, g)]
for x, y in zip(call(q, k, v, g), reference.recurrent(*wide[:3], gk=wide[3])):
    assert list(x.devices())[0].platform == "gpu" and error(x, y) < 8e-3, error(x, y)
def loss(function):
    return jax.jit(jax.grad(lambda *a: jnp.sum(function(*a)[0].astype(jnp.float32) ** 2), argnums=(0, 1, 2, 3)))
def plain(q, k, v, g):
    def step(S, row):
        q, k, v, g = row
        S = jnp.exp(g)[..., None] * S + k[..., :, None] * v[..., None, :]
        return S, jnp.einsum("bhkv,bhk->bhv", S, q) / 8
    rows = [jnp.moveaxis(x, 1, 0).astype(jnp.float32) for x in (q, k, v, g)]
    S, o = jax.lax.scan(step, jnp.zeros((2, 4, 64, 64)), rows)
    return jnp.moveaxis(o, 0, 1), S
with jax.default_matmul_precision("highest"):
    wanted = loss(plain)(q, k, v, g)
for x, y in zip(loss(lambda *a: ejk.ops.gla(*a))(q, k, v, g), wanted):
    assert error(x, y) < 2e-2, error(x, y)
print("JAX on", jax.devices()[0])
"""


@unittest.skipUnless(HAS_GPU, "there is no GPU")
class Jax(unittest.TestCase):
    def test_values_and_gradients(self):
        # In a process of its own: torch has memory of the GPU here.
        done = subprocess.run([sys.executable, "-c", _IN_JAX], capture_output=True, text=True,
                              env={**os.environ, "XLA_PYTHON_CLIENT_PREALLOCATE": "false"})
        if "No module named" in done.stderr or "assert jax.default_backend" in done.stderr:
            self.skipTest("there is no JAX with CUDA")
        self.assertEqual(done.returncode, 0, done.stderr[-3000:])


if __name__ == "__main__":
    unittest.main()
