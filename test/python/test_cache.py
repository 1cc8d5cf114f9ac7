"""The cache of compiled packages, other files that the Python package writes, and first calls."""

import hashlib
import importlib.util
import io
import os
import pathlib
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from unittest import mock

import numpy as np

import ejk
from ejk import _cache
from ejk._library import library_path
from ejk._program import _Progress

CALL = """
import sys, numpy as np, ejk
x = np.ones((1, 2, 1, 4), np.float32)
print(ejk.ops.linear_attn(x, x, x, scale=1.0)[0][0, :, 0, 0])
"""
# A graph of torch.export's that calls a recurrence, and another process that runs it.
EXPORT = """
import sys, torch, ejk
f = ejk.recurrence(lambda S, q, k, v: (S.add(k, v), S.read(q)))
class Module(torch.nn.Module):
    def forward(self, x):
        return f(x, x, x)[0]
x = torch.ones(1, 4, 1, 8)
Module()(x)
torch.export.save(torch.export.export(Module(), (x,)), sys.argv[1])
"""
LOAD = """
import sys, torch, ejk
print(torch.export.load(sys.argv[1]).module()(torch.ones(1, 4, 1, 8)).sum().item())
"""
# From eight threads at once, the first calls of a process.
THREADS = """
import importlib, sys, threading, numpy as np, ejk
library = importlib.import_module(sys.argv[1])
x = getattr(library, "from_numpy", np.asarray)(np.ones((1, 2, 1, 4), np.float32))
step, sums = ejk.recurrence(lambda S, q, k, v: (S.add(k, v), S.read(q))), []
together = threading.Barrier(8)
def call():
    together.wait()
    sums.append(float(step(x, x, x)[0].sum()))
threads = [threading.Thread(target=call) for _ in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(sums)
"""
# The processor time, in ticks, of the process's other threads while torch has one thread.
ONE_THREAD = """
import os, torch, ejk
def others():
    ticks = 0
    for task in set(os.listdir("/proc/self/task")) - {str(os.getpid())}:
        fields = open(f"/proc/self/task/{task}/stat").read().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks
torch.set_num_threads(1)
x = torch.ones(1, 2048, 16, 64)
ejk.ops.linear_attn(x, x, x)
before = others()
for _ in range(5):
    ejk.ops.linear_attn(x, x, x)
print(others() - before)
"""
# One call of a program that takes longer than a moment to compile.
LONG = """
import sys, numpy as np, ejk
def step(S, q, k, v):
    for i in range(1500):
        q = np.tanh(q * (1 + i / 999)) + v * k
    return S.add(k, v), S.read(q)
x = np.ones((1, 2, 1, 4), np.float32)
ejk.recurrence(step)(x, x, x)
"""


# Ctrl-C while a program compiles that takes many seconds.
INTERRUPTED = LONG.replace("range(1500)", "range(6000)").rpartition("ejk.")[0] + """
import os, signal, threading, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell ignores it in what it runs in the background
sent = []
def interrupt():
    while time.process_time() - start < 0.1:  # a busy machine's compiler is as far then as an idle one's
        time.sleep(0.001)
    sent.append(time.time())
    os.kill(os.getpid(), signal.SIGINT)
ejk.targets()
traced = ejk.recurrence(step)
traced.mlir(x, x, x)  # so that nothing but the compiler works when the signal comes
start = time.process_time()
threading.Thread(target=interrupt).start()
try:
    traced.package(sys.argv[1], x, x, x, target=ejk.targets()[2], derivatives=1)
except KeyboardInterrupt:
    print(sent[0], time.time())
"""


# The same in a process that goes on: the processor time that it takes afterwards, until 4 s or its other threads' end.
GOES_ON = INTERRUPTED + """
    before = time.process_time()
    while threading.active_count() > 1 and time.process_time() - before < 4:
        time.sleep(0.01)
    time.sleep(0.1)
    print(time.process_time() - before)
"""


def run(code, *arguments, **environment):
    return subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True,
                          timeout=300, env={**os.environ, **environment})


class Cache(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def call(self, **environment):
        return run(CALL, **{"EJK_CACHE_DIR": str(self.folder), **environment})

    def expect(self, done, said=""):
        self.assertEqual((done.returncode, done.stdout.strip()), (0, "[4. 8.]"), done.stderr)
        self.assertIn(said, done.stderr)

    def package(self):
        return next(self.folder.glob("*.ejk"))

    def test_the_next_process_finds_it(self):
        self.expect(self.call())
        packages = sorted(self.folder.glob("*.ejk"))
        self.assertEqual(len(packages), 1)
        made = packages[0].stat().st_mtime_ns
        done = self.call()
        self.expect(done)
        self.assertEqual(done.stderr, "")
        self.assertEqual(packages[0].stat().st_mtime_ns, made)

    def test_a_damaged_file_is_made_again(self):
        self.expect(self.call())
        package = self.package()
        whole = package.read_bytes()
        for bad in (b"", whole[:100], whole[:-1] + bytes([whole[-1] ^ 1])):
            package.write_bytes(bad)
            self.expect(self.call(), "is damaged")
            self.assertEqual(package.read_bytes(), whole)

    def test_another_programs_file_is_not_run(self):
        self.expect(self.call())
        package = self.package()
        whole = package.read_bytes()
        self.assertEqual(run(CALL.replace("scale=1.0", "scale=2.0"),
                             EJK_CACHE_DIR=str(self.folder)).stdout.strip(), "[ 8. 16.]")
        other = next(p for p in self.folder.glob("*.ejk") if p != package)
        package.write_bytes(other.read_bytes())
        self.expect(self.call(), "kept for another program")
        self.assertEqual(package.read_bytes(), whole)

    def test_what_is_no_file_of_the_users_own_is_replaced(self):
        self.expect(self.call())
        package = self.package()
        whole = package.read_bytes()
        outside = self.folder / "outside"
        outside.write_bytes(whole)

        def pipe():
            os.mkfifo(package)

        def link():
            package.symlink_to(outside)

        def endless():
            package.symlink_to("/dev/zero")

        def writable_by_the_group():
            package.write_bytes(whole)
            package.chmod(0o620)

        def writable_by_all():
            package.write_bytes(whole)
            package.chmod(0o602)

        for make, said in ((pipe, "is no regular file"), (link, "is a link"), (endless, "is a link"),
                           (writable_by_the_group, "may be written by other users"),
                           (writable_by_all, "may be written by other users")):
            with self.subTest(make.__name__):
                package.unlink()
                make()
                self.expect(self.call(), said)
                self.assertFalse(package.is_symlink())
                self.assertEqual(package.read_bytes(), whole)
        self.assertEqual(outside.read_bytes(), whole)

    @unittest.skipUnless(os.geteuid() == 0, "only root gives a file to another user")
    def test_another_users_file_is_replaced(self):
        self.expect(self.call())
        os.chown(self.package(), 1, 1)
        self.expect(self.call(), "belongs to the user 1")
        self.assertEqual(self.package().stat().st_uid, 0)

    def test_a_folder_in_the_place_of_a_file(self):
        self.expect(self.call())
        package = self.package()
        package.unlink()
        package.mkdir()
        self.expect(self.call(), "is no regular file")

    def test_a_damaged_program_is_not_found(self):
        self.expect(self.call())
        text = next(self.folder.glob("*.mlir"))
        find = f"import ejk._program as p; print(p.by_key({text.stem!r}).name)"
        self.assertEqual(run(find, EJK_CACHE_DIR=str(self.folder)).returncode, 0)
        for bad in (b"\xff\xfe", b"no line break", text.read_bytes()[:-1]):
            text.write_bytes(bad)
            done = run(find, EJK_CACHE_DIR=str(self.folder))
            self.assertIn("EjkError: the program", done.stderr)

    def test_a_program_is_kept_as_long_as_its_package_is_used(self):
        self.expect(self.call())
        text, = self.folder.glob("*.mlir")
        whole = text.read_bytes()
        for damage in (text.unlink, lambda: text.write_bytes(whole[:-1])):
            damage()
            self.expect(self.call())
            self.assertEqual(text.read_bytes(), whole)
        made = self.package().stat().st_mtime_ns
        os.utime(text, (time.time() - 7200,) * 2)
        self.expect(self.call())
        self.assertLess(time.time() - text.stat().st_mtime, 60)
        self.assertEqual(self.package().stat().st_mtime_ns, made)

    @unittest.skipUnless(importlib.util.find_spec("torch"), "needs torch")
    def test_an_exported_graph_after_its_program_is_gone(self):
        graph, variables = str(self.folder / "graph.pt2"), {"EJK_CACHE_DIR": str(self.folder)}
        self.assertEqual(run(EXPORT, graph, **variables).returncode, 0)
        next(self.folder.glob("*.mlir")).unlink()
        self.assertIn("call the recurrence once", run(LOAD, graph, **variables).stderr)
        # By another process, which finds the package.
        self.assertEqual(run(EXPORT, graph, **variables).returncode, 0)
        self.assertEqual(run(LOAD, graph, **variables).stdout.strip(), "384.0")

    def test_a_folder_that_cannot_be_written(self):
        for folder in ("/dev/null/ejk", "/proc/ejk"):
            self.expect(self.call(EJK_CACHE_DIR=folder))

    def test_what_was_not_used_for_longest_goes(self):
        self.expect(self.call())
        size = sum(p.stat().st_size for p in self.folder.iterdir())
        names = [hashlib.sha1(str(i).encode()).hexdigest() + ".ejk" for i in range(3)]
        for age, name in enumerate(names):
            (self.folder / name).write_bytes(bytes(5000))
            os.utime(self.folder / name, (0, time.time() - 7200 + age))
        (self.folder / "mine.mlir").write_text("none of the cache's")
        mine = {p.name for p in self.folder.iterdir()} - set(names)
        self.package().unlink()
        room = size + 11000
        self.expect(self.call(EJK_CACHE_SIZE=str(room)))
        left = {p.name for p in self.folder.iterdir()}
        self.assertLessEqual(mine, left)
        kept = [name in left for name in names]
        self.assertEqual(kept, sorted(kept))  # the older ones went
        self.assertFalse(kept[0])
        self.assertLessEqual(size + 5000 * sum(kept), room)

    def test_what_is_written_stays_however_large(self):
        with mock.patch.dict(os.environ, EJK_CACHE_DIR=str(self.folder), EJK_CACHE_SIZE="10K"):
            old, new = (hashlib.sha1(n).hexdigest() for n in (b"old", b"new"))
            self.assertIsNone(_cache.write(old, ".ejk", bytes(3000)))
            os.utime(self.folder / (old + ".ejk"), (0, time.time() - 60))
            large = bytes(9 * 1024)  # more than is left free when room is made
            self.assertIsNone(_cache.write(new, ".ejk", large))
            self.assertEqual(_cache.read(new, ".ejk"), large)
            self.assertIsNone(_cache.read(old, ".ejk"))

    def test_no_room(self):
        self.expect(self.call(EJK_CACHE_SIZE="0"))
        self.assertEqual(list(self.folder.iterdir()), [])
        done = self.call(EJK_CACHE_SIZE="1T")
        self.assertIn("EjkError: EJK_CACHE_SIZE must be a number of bytes", done.stderr)

    def test_what_was_used_last_stays(self):
        variables = {"EJK_CACHE_DIR": str(self.folder), "EJK_CACHE_SIZE": "8K"}
        with mock.patch.dict(os.environ, variables):
            keys = [_cache.key_of(str(n)) for n in range(8)]
            for age, key in enumerate(reversed(keys)):
                self.assertIsNone(_cache.write(key, ".ejk", bytes(900)))
                os.utime(self.folder / (key + ".ejk"), (time.time() - 100 + age,) * 2)
            # The first of the keys is the newest file. One more does not fit: the oldest go.
            self.assertIsNone(_cache.write(_cache.key_of("more"), ".ejk", bytes(900)))
            there = [_cache.read(key, ".ejk") is not None for key in keys]
            self.assertEqual(there, [True] * 5 + [False] * 3)
            self.assertIsNotNone(_cache.read(_cache.key_of("more"), ".ejk"))

    def test_info_and_clear(self):
        self.expect(self.call())
        (self.folder / "mine.ejk").write_text("no file of the cache's")
        before = os.environ.get("EJK_CACHE_DIR")
        os.environ["EJK_CACHE_DIR"] = str(self.folder)
        try:
            info = ejk.cache_info()
            self.assertEqual((info.folder, info.files, info.limit), (self.folder, 2, 1 << 30))
            self.assertEqual(info.bytes, sum(p.stat().st_size for p in self.folder.iterdir())
                             - len("no file of the cache's"))
            ejk.clear_cache()
            self.assertEqual([p.name for p in self.folder.iterdir()], ["mine.ejk"])
        finally:
            if before is None:
                del os.environ["EJK_CACHE_DIR"]
            else:
                os.environ["EJK_CACHE_DIR"] = before

    def test_what_another_process_writes_stays_and_what_one_left_goes(self):
        # A file of a process that ended while it wrote is known by its age.
        ages = {"now": 0, "minutes": 600, "nearly an hour": 3500, "an hour": 3700, "a day": 86400}
        for full in (False, True):
            folder = self.folder / str(full)
            folder.mkdir()
            with self.subTest(full=full), mock.patch.dict(os.environ, EJK_CACHE_DIR=str(folder),
                                                          EJK_CACHE_SIZE="10K" if full else "1M"):
                paths = {age: folder / f".writing-{number:016x}" for number, age in enumerate(ages)}
                for age, path in paths.items():
                    path.write_bytes(bytes(1500))
                    os.utime(path, (time.time() - ages[age],) * 2)
                keys = [_cache.key_of(name) for name in ("used for longest", "last", "now")]
                for key, seconds in zip(keys, (7200, 5400, 0)):
                    self.assertIsNone(_cache.write(key, ".ejk", bytes(2500)))
                    os.utime(folder / (key + ".ejk"), (time.time() - seconds,) * 2)
                self.assertEqual([age for age, path in paths.items() if path.exists()],
                                 ["now", "minutes", "nearly an hour"])
                self.assertEqual([_cache.read(key, ".ejk") is not None for key in keys], [not full, not full, True])

    def test_two_processes_at_once(self):
        environment = {**os.environ, "EJK_CACHE_DIR": str(self.folder)}
        both = [subprocess.Popen([sys.executable, "-c", CALL], env=environment,
                                 stdout=subprocess.PIPE, text=True) for _ in range(2)]
        for process in both:
            self.assertEqual(process.communicate()[0].strip(), "[4. 8.]")
        names = [p.name for p in self.folder.iterdir()]
        self.assertEqual(sorted(n.rpartition(".")[2] for n in names), ["ejk", "mlir"])

    def test_the_key_has_the_compilers_content_and_not_its_time(self):
        name = "libejk-compiler.so"
        own = pathlib.Path(library_path(name))
        libraries = self.folder / "lib"
        libraries.mkdir()
        for file in own.parent.glob("libejk*"):
            (libraries / file.name).symlink_to(file)
        self.expect(self.call())
        made = self.package().stat().st_mtime_ns
        (libraries / name).unlink()
        shutil.copyfile(own, libraries / name)
        os.utime(libraries / name, (0, 0))
        self.expect(self.call(EJK_LIBRARY_DIR=str(libraries)))
        self.assertEqual([p.stat().st_mtime_ns for p in self.folder.glob("*.ejk")], [made])

    def test_progress_says_whether_the_result_is_kept(self):
        done = run(LONG, EJK_CACHE_DIR=str(self.folder), EJK_PROGRESS="1")
        self.assertRegex(done.stderr, r"ejk: compiling step for .*, once\n"
                                      rf"ejk: done in .* s; kept in {self.folder}\n")
        done = run(LONG, EJK_CACHE_DIR="/proc/ejk", EJK_PROGRESS="1")
        self.assertRegex(done.stderr, "not kept: /proc/ejk: ")
        done = run(LONG, EJK_CACHE_DIR=str(self.folder), EJK_CACHE_SIZE="0", EJK_PROGRESS="0")
        self.assertEqual(done.stderr, "")


    def test_progress_of_more_than_two_seconds_is_in_the_log(self):
        with self.assertLogs("ejk") as log, mock.patch.dict(os.environ, EJK_PROGRESS=""):
            with mock.patch.object(sys, "stderr", io.StringIO()):  # no terminal
                with _Progress("compiling step") as progress:
                    time.sleep(2.1)
                    progress.not_kept = "no room"
        self.assertEqual(log.records[0].getMessage(), "ejk: compiling step, once")
        self.assertRegex(log.records[1].getMessage(), r"ejk: done in 2\.\d s; not kept: no room")

    def test_what_is_read_counts_as_used(self):
        with mock.patch.dict(os.environ, EJK_CACHE_DIR=str(self.folder)):
            key = _cache.key_of("old")
            _cache.write(key, ".ejk", b"data")
            path = self.folder / (key + ".ejk")
            os.utime(path, (time.time() - 7200,) * 2)
            self.assertEqual(_cache.read(key, ".ejk"), b"data")
            self.assertLess(time.time() - path.stat().st_mtime, 60)


class Packages(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = pathlib.Path(folder.name, "x.ejk")
        self.rows = np.ones((1, 4, 1, 8), np.float32)
        self.target = next(t for t in ejk.targets() if t.startswith("x86"))

    def write(self, function, path=None):
        ejk.recurrence(function).package(path or self.path, *[self.rows] * 3, target=self.target)

    def test_a_missing_folder_is_named(self):
        path = self.path.parent / "none" / "x.ejk"
        with self.assertRaises(FileNotFoundError) as caught:
            self.write(lambda S, q, k, v: (S.add(k, v), S.read(q)), path)
        self.assertEqual(caught.exception.filename, str(path))

    def test_an_old_one_stays_where_a_new_one_cannot_be_written(self):
        self.path.write_text("old")
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))  # as on a full disk
        try:
            with self.assertRaisesRegex(OSError, "x.ejk"):
                self.write(lambda S, q, k, v: (S.add(k, v), S.read(q)))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
            signal.signal(signal.SIGXFSZ, handler)
        self.assertEqual(self.path.read_text(), "old")
        self.assertEqual(os.listdir(self.path.parent), ["x.ejk"])

    def test_a_link_stays_and_modes_do(self):
        target = self.path.parent / "target.ejk"
        target.write_text("old")
        target.chmod(0o640)
        self.path.symlink_to("target.ejk")
        self.write(lambda S, q, k, v: (S.add(k, v), S.read(q)))
        self.assertTrue(self.path.is_symlink())
        self.assertGreater(target.stat().st_size, 1000)
        self.assertEqual(target.stat().st_mode & 0o777, 0o640)
        self.write(lambda S, q, k, v: (S.add(k, v), S.read(q)), "/dev/null")
        self.assertTrue(pathlib.Path("/dev/null").is_char_device())


class FirstCalls(unittest.TestCase):
    def test_of_many_threads(self):
        for library in ("numpy", "torch"):
            if importlib.util.find_spec(library):
                with self.subTest(library), tempfile.TemporaryDirectory() as folder:
                    done = run(THREADS, library, EJK_CACHE_DIR=folder)
                    self.assertEqual(done.stdout.strip(), str([16.0] * 8), done.stderr)

    @unittest.skipUnless(importlib.util.find_spec("torch"), "needs torch")
    def test_as_many_threads_as_torch_has(self):
        self.assertEqual(run(ONE_THREAD, EJK_NUM_THREADS="2").stdout.strip(), "0")

    def test_a_number_of_threads_that_is_none(self):
        for name in ("EJK_NUM_THREADS", "OMP_NUM_THREADS"):
            environment = {"EJK_NUM_THREADS": "", name: "many"}
            self.assertIn(f"RuntimeFailure: {name} must be a number from 1 to 1024, but is 'many'",
                          run(CALL, **environment).stderr)

    def test_an_interrupt_ends_a_compilation(self):
        with tempfile.TemporaryDirectory() as folder:
            done = run(INTERRUPTED, folder + "/x.ejk")
            ended = time.time()
            self.assertEqual(os.listdir(folder), [])
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        sent, caught = map(float, done.stdout.split())
        # On an idle machine 0.01 s, and 0.1 s with the end of the process; uninterrupted, 10 s.
        self.assertLess(caught - sent, 0.2)
        self.assertLess(ended - sent, 2)

    def test_an_interrupted_compiler_works_no_longer(self):
        with tempfile.TemporaryDirectory() as folder:
            done = run(GOES_ON, folder + "/x.ejk")
            self.assertEqual(os.listdir(folder), [])
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        # What is at work ends, and the program is freed: 0.7 s.
        self.assertLess(float(done.stdout.split()[2]), 2)


if __name__ == "__main__":
    unittest.main()
