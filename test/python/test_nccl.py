"""Context parallelism over NCCL, on two GPUs of one host; skipped where there are fewer.

    python3 -m unittest -v test_nccl

Each GPU has a part of every sequence. Outputs, states and all gradients are compared with those of
one GPU that has the whole: both are as far from a run in float64 as their rounding is. The bytes that
each process sends are counted.
"""

import os
import tempfile
import time
import unittest

import torch
import torch.distributed as distributed
import torch.multiprocessing as multiprocessing

import ejk
import ejk.parallel
import ejk.parallel.torch as parallel
from test_parallel import error
from test_parallel_processes import counted

T, H, K, V = 200, 2, 64, 64
CUTS = (0, 77, T)  # in a chunk, and inside of the third sequence
PACKED = (0, 30, 30, 150, T)
SHARED = ("initial_state",)
CASES = (("gla", False, torch.bfloat16), ("gla", True, torch.bfloat16),
         ("simple_gla", True, torch.float32), ("gated_delta_rule", False, torch.bfloat16),
         ("gated_delta_rule", True, torch.float32))
# How far a run in several parts may be from float64, of what one in one part is: it adds one
# product and one sum for each state that passes a cut.
FACTOR = 2
LIMIT = {torch.bfloat16: 2e-2, torch.float32: 2e-3}


def case(name, packed, dtype):
    """The operands by name, and what else a call takes."""
    generator = torch.Generator().manual_seed(7)
    B = 1 if packed else 2

    def normal(*shape):
        return torch.randn(*shape, generator=generator)

    def gate(*shape):
        return -torch.rand(*shape, generator=generator) * 0.2
    k = torch.nn.functional.normalize(normal(B, T, H, K), dim=-1).to(dtype)
    tensors = dict(q=normal(B, T, H, K).to(dtype), k=k, v=normal(B, T, H, V).to(dtype),
                   g=gate(B, T, H, K) if name == "gla" else gate(B, T, H))
    if name == "gated_delta_rule":
        tensors["beta"] = torch.rand(B, T, H, generator=generator)
    tensors["initial_state"] = normal(len(PACKED) - 1 if packed else B, H, K, V)
    return tensors, ({"cu_seqlens": torch.tensor(PACKED, dtype=torch.int32)} if packed else {})


def run(function, tensors, options, rows=slice(None)):
    """Outputs, states, and the gradients of a sum that all of them have a part in, on the host."""
    o, state = function(**tensors, **options)
    generator = torch.Generator().manual_seed(5)
    do = torch.randn(o.shape[0], T, *o.shape[2:], generator=generator)[:, rows].to(o)
    dht = torch.randn(state.shape, generator=generator).to(state)
    torch.autograd.backward([o, state], [do, dht])
    return [x.detach().double().cpu() for x in (o, state, *(t.grad for t in tensors.values()))]


def leaves(tensors, device, dtype=None, rows=slice(None)):
    return {n: (t if n in SHARED else t[:, rows]).to(device, dtype).clone().requires_grad_()
            for n, t in tensors.items()}


def of_process(rank, file, results):
    torch.cuda.set_device(rank)
    distributed.init_process_group("nccl", init_method=f"file://{file}", rank=rank, world_size=2,
                                   device_id=torch.device("cuda", rank))
    rows, sent = slice(CUTS[rank], CUTS[rank + 1]), []
    distributed.all_gather_into_tensor = counted(sent)
    for name, packed, dtype in CASES:
        tensors, options = case(name, packed, dtype)
        sent.clear()
        found = run(getattr(parallel, name), leaves(tensors, "cuda", rows=rows), options, rows)
        results[rank, name, packed] = [x.numpy() for x in found], [*sent]
    distributed.destroy_process_group()


@unittest.skipUnless(torch.cuda.is_available() and torch.cuda.device_count() >= 2,
                     "there are no two GPUs")
class Nccl(unittest.TestCase):
    def test_two_gpus(self):
        start = time.perf_counter()
        with tempfile.TemporaryDirectory() as folder, \
                multiprocessing.get_context("spawn").Manager() as manager:
            shared = manager.dict()
            multiprocessing.spawn(of_process, nprocs=2, args=(os.path.join(folder, "meeting"),
                                                              shared))
            results = dict(shared)
        print(f"\ntwo processes: {time.perf_counter() - start:.0f} s, with all that they compile")
        for name, packed, dtype in CASES:
            with self.subTest(name, packed=packed, dtype=dtype):
                self.compare(name, packed, dtype, [results[r, name, packed] for r in range(2)])

    def compare(self, name, packed, dtype, found):
        tensors, options = case(name, packed, dtype)
        function = getattr(ejk.ops, name)
        whole = {n: x.to("cuda") for n, x in options.items()}
        one = run(function, leaves(tensors, "cuda"), whole)
        exact = run(function, leaves(tensors, "cpu", torch.float64), options)
        summary = ejk.parallel.exchanged_bytes(H, K, V, batch=1 if packed else 2,
                                               delta=name == "gated_delta_rule")
        for _, sent in found:
            self.assertEqual(sent, [8] * packed + [summary, summary])
        worst = []
        for i, what in enumerate(["o", "state", *tensors]):
            parts = [torch.from_numpy(results[i]) for results, _ in found]
            joined = sum(parts) if what in ("state", *SHARED) else torch.cat(parts, 1)
            off, rounding = error(joined, exact[i]), error(one[i], exact[i])
            worst.append((off, rounding, what))
            self.assertLessEqual(off, FACTOR * rounding + 1e-6, what)
            self.assertLessEqual(off, LIMIT[dtype], what)
        off, rounding, what = max(worst)
        print(f"{name}, {'packed' if packed else 'dense'}, {dtype}: at most {off:.1e} from float64 "
              f"({what}); one GPU {rounding:.1e}; {summary} bytes sent each way")


if __name__ == "__main__":
    unittest.main()
