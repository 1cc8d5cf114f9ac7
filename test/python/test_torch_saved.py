"""What torch does with the tensors that a derivative keeps: checkpoints, hooks, sharded parameters."""

import functools
import gc
import os
import tempfile
import unittest

import torch
from torch.utils.checkpoint import (CheckpointPolicy, checkpoint,
                                    create_selective_checkpoint_contexts)

import ejk
from test_torch import gated, tensors


def gradients(function, wrap=lambda f: f):
    """Those of three calls, of which the first is not quick."""
    t, found = tensors(T=12), []
    for _ in range(3):
        own = [t[n].clone().requires_grad_() for n in ("q", "k", "v", "g")]
        o, state = wrap(function)(*own)
        (o.square().sum() + state.sum()).backward()
        found.append([x.grad for x in own])
    return found


def two_layers(q, k, v, g):
    o, _ = gated(q, k, v, g)
    return ejk.ops.simple_gla(q, k, o, g)


def split(q, k, v, g):
    return ejk.split(ejk.ops.simple_gla, q, k, v, g, parts=3)


def checkpointed(function, **options):
    return lambda *a: checkpoint(function, *a, use_reentrant=False, **options)


class Saved(unittest.TestCase):
    def check(self, wrap, functions=(gated, two_layers, split)):
        for function in functions:
            with self.subTest(function):
                wanted = gradients(function)[0]
                for found in gradients(function, wrap):
                    for a, b in zip(found, wanted):
                        torch.testing.assert_close(a, b)

    def test_checkpoint(self):
        self.check(checkpointed)
        self.check(lambda f: lambda *a: checkpoint(f, *a, use_reentrant=True))

    def test_a_checkpoint_in_a_checkpoint(self):
        self.check(lambda f: checkpointed(checkpointed(f)), (two_layers,))

    def test_selective_checkpoint(self):
        for saves in (CheckpointPolicy.MUST_SAVE, CheckpointPolicy.PREFER_RECOMPUTE):
            def policy(ctx, op, *arguments, **named):
                return saves if op is torch.ops.ejk.call.default else (
                    CheckpointPolicy.PREFER_RECOMPUTE)
            self.check(functools.partial(checkpointed, context_fn=functools.partial(
                create_selective_checkpoint_contexts, policy)))

    def test_a_checkpoint_of_segments_keeps_none(self):
        t = tensors(T=64)
        own = [t[n].requires_grad_() for n in ("q", "k", "v", "g")]
        def over_time():
            gc.collect()
            return [x for x in gc.get_objects() if type(x) is torch.Tensor
                    and x.is_floating_point() and x.numel() >= 256]
        before = len(over_time())
        o = checkpointed(split)(*own)[0]
        self.assertEqual(len(over_time()) - before, 1)
        o.sum().backward()

    def test_save_on_cpu(self):
        def wrap(function):
            def call(*arguments):
                with torch.autograd.graph.save_on_cpu():
                    return function(*arguments)
            return call
        self.check(wrap)


@unittest.skipUnless(torch.distributed.is_available(), "this torch has no distributed")
class Sharded(unittest.TestCase):
    def test_fsdp(self):
        """The parameters that a layer saves are freed after its forward, and gathered again."""
        from torch.distributed.fsdp import fully_shard

        class Layer(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.project = torch.nn.Linear(8, 8)
                self.u = torch.nn.Parameter(torch.randn(2, 4))

            def forward(self, x):
                q = self.project(x).unflatten(-1, (2, 4))
                def part(q):
                    return ejk.ops.rwkv6(q, q, q, -q.square(), self.u)[0]
                return checkpoint(part, q, use_reentrant=False).flatten(2) + x
        torch.manual_seed(0)
        model, x = torch.nn.Sequential(Layer(), Layer()), torch.randn(2, 6, 8)

        def step():
            model(x).square().sum().backward()
            found = [p.grad for p in model.parameters()]
            model.zero_grad()
            return [getattr(g, "full_tensor", lambda: g)() for g in found]
        wanted = step()
        with tempfile.TemporaryDirectory() as folder:
            torch.distributed.init_process_group(
                "gloo", init_method="file://" + os.path.join(folder, "meeting"), rank=0,
                world_size=1)
            try:
                for layer in (*model, model):
                    fully_shard(layer)
                for _ in range(2):
                    torch.testing.assert_close(step(), wanted)
            finally:
                torch.distributed.destroy_process_group()


if __name__ == "__main__":
    unittest.main()
