"""Recurrences over segments that lie with processes of torch.distributed.

    EJK_TEST_BACKEND=nccl python3 -m unittest -v test_parallel_processes    # a GPU for each process
"""

import os
import tempfile
import unittest

import torch
import torch.distributed as distributed
import torch.multiprocessing as multiprocessing

import ejk
import ejk.parallel
import ejk.parallel._torch_job as jobs
import ejk.parallel.torch as parallel
from test_parallel import LIMIT, SHARED, case, error, losses, single, terms_of_skip

PROCESSES = ("gla", "simple_gla", "mamba2_ssd", "gated_delta_rule")
BACKEND = os.environ.get("EJK_TEST_BACKEND", "gloo")


def counted(sent):
    """torch's all-gather, which notes the bytes that this process sends."""
    gather = distributed.all_gather_into_tensor

    def call(output, input, *arguments, **named):
        sent.append(input.numel() * input.element_size())
        return gather(output, input, *arguments, **named)
    return call


def of_process(rank, cuts, file, results, units, kinds):
    torch.set_num_threads(1)
    jobs._units, jobs._FEWEST_ROWS = (lambda device: units), 1
    device = torch.device("cuda", rank) if BACKEND == "nccl" else torch.device("cpu")
    if device.type == "cuda":
        torch.cuda.set_device(device)
    distributed.init_process_group(BACKEND, init_method=f"file://{file}", rank=rank,
                                   world_size=len(cuts) - 1)
    rows, sent = slice(cuts[rank], cuts[rank + 1]), []
    distributed.all_gather_into_tensor = counted(sent)
    for name in PROCESSES:
        for packed in kinds:
            tensors, options = case(name, packed)
            own = {n: (t if n in SHARED else t[:, rows]).clone().to(device).requires_grad_()
                   for n, t in tensors.items()}
            sent.clear()
            o, state = getattr(parallel, name)(**own, **options)
            losses(o.cpu(), state.cpu(), rows).backward()
            results[rank, name, packed] = (o.detach().cpu().numpy(), state.detach().cpu().numpy(),
                                           {n: t.grad.cpu().numpy() for n, t in own.items()},
                                           [*sent])
    distributed.destroy_process_group()


@unittest.skipUnless(distributed.is_available(), "this torch has no distributed")
class Processes(unittest.TestCase):
    def check(self, cuts, units=1, kinds=(False, True)):
        if BACKEND == "nccl" and torch.cuda.device_count() < len(cuts) - 1:
            self.skipTest(f"{len(cuts) - 1} processes over NCCL need as many GPUs")
        context = multiprocessing.get_context("spawn")
        with tempfile.TemporaryDirectory() as folder, context.Manager() as m:
            shared = m.dict()
            multiprocessing.spawn(of_process, nprocs=len(cuts) - 1, args=(
                cuts, os.path.join(folder, "meeting"), shared, units, kinds))
            results = dict(shared)
        for name in PROCESSES:
            for packed in kinds:
                with self.subTest(name, packed=packed):
                    self.compare(name, packed, [results[r, name, packed]
                                                for r in range(len(cuts) - 1)])

    def compare(self, name, packed, found):
        wanted = single(name, packed)
        # A process sends forward its summary, backward that of the adjoint; before, of packed sequences, its
        # number of rows. Processes have 0 to 27 rows, and send as much.
        summary = ejk.parallel.exchanged_bytes(2, 8, 4, batch=1 if packed else 2,
                                               delta=name == "gated_delta_rule")
        for _, _, _, sent in found:
            self.assertEqual(sent, [8] * packed + [summary, summary], name)
        as_torch = torch.from_numpy
        o = torch.cat([as_torch(f[0]) for f in found], 1)
        self.assertLessEqual(error(o, wanted[0]), LIMIT, (name, "o"))
        self.assertLessEqual(error(sum(as_torch(f[1]) for f in found), wanted[1]), LIMIT, name)
        for n, gradient in wanted[2].items():
            parts = [as_torch(f[2][n]) for f in found]
            whole = sum(parts) if n in SHARED else torch.cat(parts, 1)
            if n == "D":  # a sum over rows, whose terms are of both signs
                off = (whole - gradient).norm() / max(gradient.norm(), terms_of_skip(name, packed))
                self.assertLessEqual(float(off), LIMIT, (name, n))
                continue
            self.assertLessEqual(error(whole, gradient), LIMIT, (name, n))

    def test_two_processes(self):
        self.check([0, 13, 40], units=16)  # the second one's rows in three parts

    def test_four_processes(self):
        self.check([0, 7, 13, 17, 40])

    def test_a_process_without_rows(self):
        """The three others compute four parts each."""
        self.check([0, 12, 24, 24, 40], units=16, kinds=(False,))


if __name__ == "__main__":
    unittest.main()
