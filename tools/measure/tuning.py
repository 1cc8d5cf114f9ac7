"""Triton's autotuner within a time limit: fewer choices a kernel, compiled in many processes beforehand."""
import contextlib
import math
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

WARPS = (4, 8, 2, 1)  # in the order in which they win most often


def few(configs, count):
    """At most `count` of a kernel's choices: those that differ in warps and blocks before those that
    differ in stages alone. 0 stands for all."""
    if not count or len(configs) <= count:
        return list(configs)
    block = lambda config: sorted(config.kwargs.items())
    size = lambda config: sum(value for value in config.kwargs.values() if isinstance(value, int))
    kinds = {}  # by warps and blocks: its choices, which differ in stages
    for config in configs:
        kinds.setdefault((config.num_warps, str(block(config))), []).append(config)
    rank = lambda warps: WARPS.index(warps) if warps in WARPS else len(WARPS)
    by_warps = {}
    for (warps, _), same in sorted(kinds.items(), key=lambda kind: (rank(kind[0][0]), -size(kind[1][0]))):
        by_warps.setdefault(warps, []).append(same)
    order, picked = [], []
    while any(by_warps.values()):  # the largest blocks of each number of warps, then the next
        order += [left.pop(0) for left in by_warps.values() if left]
    while len(picked) < count and any(order):
        for number, same in enumerate(order):
            if same and len(picked) < count:
                stages = (3, 2)[number % 2]
                picked.append(same.pop(min(range(len(same)), key=lambda i: abs(same[i].num_stages - stages))))
    return picked


def limit(count, lane=0, lanes=1, prune=None):
    """Has Triton try `count` choices of a kernel, of which every `lanes`-th is this process's. Gives what it
    replaced, for the next call to replace instead."""
    import functools

    import triton.testing
    from triton.runtime.autotuner import Autotuner
    prune = prune or Autotuner.prune_configs

    def prune_to_few(self, keywords):
        configs = few(prune(self, keywords), count)
        return configs[lane::lanes] or configs[:1]
    Autotuner.prune_configs = prune_to_few
    # A choice takes 0.1 s by default, and there are some thousand.
    triton.testing.do_bench = functools.partial(triton.testing.do_bench, warmup=5, rep=25)
    return prune


def once():
    """Has Triton run a choice once instead of timing it: what remains is its compilation."""
    import triton.testing

    def run_once(call, **_):
        call()
        return [1.0, 1.0, 1.0]
    triton.testing.do_bench = run_once


class Tuners:
    """Processes of `command --share=i/n/folder` that compile a peer's choices, and leave a file NUMBER.LANE in
    the folder for each piece of that which is done. They use another GPU than the one that is timed,
    where there is one, and are stopped while kernels are timed."""

    def __init__(self, command, jobs, lanes):
        import torch
        self.folder, self.lanes = tempfile.TemporaryDirectory(), lanes
        environment = dict(os.environ)
        if torch.cuda.device_count() > 1:
            environment["CUDA_VISIBLE_DEVICES"] = str(torch.cuda.device_count() - 1)
        self.processes = [subprocess.Popen([sys.executable, *command, f"--share={i}/{jobs}/{self.folder.name}"],
                                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                           env=environment) for i in range(jobs)]

    def running(self):
        return [process for process in self.processes if process.poll() is None]

    def wait(self, number, until=math.inf):
        """Until every lane of piece `number` is compiled, which process number · lanes + lane modulo n does,
        or the clock says `until`."""
        def open_lanes():
            for lane in range(self.lanes):
                process = self.processes[(number * self.lanes + lane) % len(self.processes)]
                yield process.poll() is None and not Path(self.folder.name, f"{number}.{lane}").exists()
        while time.monotonic() < until and any(open_lanes()):
            time.sleep(0.05)

    @contextlib.contextmanager
    def stopped(self):
        running = self.running()
        for process in running:
            process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            for process in running:
                process.send_signal(signal.SIGCONT)

    def end(self):
        for process in self.running():
            process.kill()
