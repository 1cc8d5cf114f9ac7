"""Calls on DTensors: two processes compute their own heads or batch entries."""

import os
import tempfile
import unittest

import torch
import torch.distributed as distributed
import torch.multiprocessing as multiprocessing

import ejk


@ejk.recurrence
def gated(S, q, k, v, g, rate):
    S = S.decay(g * rate).add(k, v)
    return S, S.read(q)


def call(q, k, v, g, rate, state):
    return gated(q, k, v, g, rate, initial_state=state)


def lightning(q, k, v, g, rate, state):
    return ejk.ops.lightning_attn(q, k, v, 0, 2, initial_state=state)


def loss(results):
    return sum(x.square().sum() for x in results)


def of_process(rank, folder):
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor
    torch.set_num_threads(1)
    distributed.init_process_group("gloo", init_method="file://" + os.path.join(folder, "meeting"),
                                   rank=rank, world_size=2)
    mesh = distributed.device_mesh.init_device_mesh("cpu", (2,))
    torch.manual_seed(0)
    q, k, v = torch.randn(3, 2, 6, 4, 8)
    plain = [q, k[:, :, :2], v[:, :, :2], -torch.rand(2, 6, 4), torch.rand(4),
             torch.randn(2, 4, 8, 8)]
    R = Replicate()
    results = {
        "heads": ([Shard(2)] * 4 + [Shard(0), Shard(1)], (Shard(2), Shard(1))),
        "batch": ([Shard(0)] * 4 + [Replicate(), Shard(0)], (Shard(0), Shard(0))),
        "queries": ([Shard(2)] + [R] * 5, (Shard(2), Shard(1))),
        "time": ([Shard(1)] * 4 + [R, R], (R, R)),
        "mixed": ([Shard(0), Shard(2)] + [R] * 4, (Shard(0), Shard(0)))}
    for function, name in [*((call, n) for n in results), (lightning, "heads")]:
        own = [x.clone().requires_grad_() for x in plain]
        wanted = function(*own)
        loss(wanted).backward()
        placements, expected = results[name]
        if function is lightning:  # a head's number has a meaning
            expected = (R, R)
        parts = [distribute_tensor(x, mesh, [p]).requires_grad_()
                 for x, p in zip(plain, placements)]
        found = function(*parts)
        assert tuple(x.placements[0] for x in found) == expected, (name, found)
        loss(found).backward()
        for a, b in zip(found, wanted):
            torch.testing.assert_close(a.full_tensor(), b)
        for a, b in zip(parts, own):
            if b.grad is not None:
                assert a.grad.placements == a.placements, name
                torch.testing.assert_close(a.grad.full_tensor(), b.grad, rtol=1e-4, atol=1e-4)
    whole = [distribute_tensor(x, mesh, [R]) for x in plain]
    packed = [x[:1] if i < 4 else x for i, x in enumerate(whole)]
    cu = torch.tensor([0, 2, 6])
    torch.testing.assert_close(gated(*packed[:5], cu_seqlens=cu)[0].full_tensor(),
                               gated(*(x.full_tensor() for x in packed[:5]), cu_seqlens=cu)[0])
    other = distribute_tensor(k, distributed.device_mesh.init_device_mesh("cpu", (2, 1)), [R, R])
    for what, others, said in (("plain tensors beside a DTensor", plain[1:], "distribute"),
                               ("DTensors of two meshes", [other, *whole[2:]], "but these are on two")):
        try:
            call(whole[0], *others)
            raise AssertionError(f"{what} were taken")
        except ejk.TensorError as error:
            assert said in str(error), error
    distributed.destroy_process_group()


def of_four(rank, folder):
    """A mesh of two dimensions: what both may divide is divided by their product, or by one of them."""
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor
    torch.set_num_threads(1)
    distributed.init_process_group("gloo", init_method="file://" + os.path.join(folder, "meeting"),
                                   rank=rank, world_size=4)
    mesh = distributed.device_mesh.init_device_mesh("cpu", (2, 2))
    R, S = Replicate(), Shard
    for B, H, placed, expected in ((4, 2, (S(0), S(0)), (S(0), S(0))), (2, 2, (S(0), S(0)), (S(0), R)),
                                   (2, 2, (S(0), S(2)), (S(0), S(2))), (2, 4, (S(2), S(2)), (S(2), S(2))),
                                   (3, 2, (S(2), S(0)), (S(2), R))):
        torch.manual_seed(0)
        plain = [*torch.randn(3, B, 5, H, 8), -torch.rand(B, 5, H), torch.rand(H)]
        own = [x.clone().requires_grad_() for x in plain]
        wanted = gated(*own)
        loss(wanted).backward()
        parts = [distribute_tensor(x, mesh, placed if i < 4 else (R, R)).requires_grad_()
                 for i, x in enumerate(plain)]
        found = gated(*parts)
        assert found[0].placements == expected, (B, H, placed, found[0].placements)
        loss(found).backward()
        for a, b in zip([*found, *(x.grad for x in parts)], [*wanted, *(x.grad for x in own)]):
            torch.testing.assert_close(a.full_tensor(), b, rtol=1e-4, atol=1e-4)
    distributed.destroy_process_group()


@unittest.skipUnless(distributed.is_available(), "this torch has no distributed")
class DTensors(unittest.TestCase):
    def test_two_processes(self):
        with tempfile.TemporaryDirectory() as folder:
            multiprocessing.spawn(of_process, nprocs=2, args=(folder,))

    def test_four_processes(self):
        with tempfile.TemporaryDirectory() as folder:
            multiprocessing.spawn(of_four, nprocs=4, args=(folder,))


if __name__ == "__main__":
    unittest.main()
