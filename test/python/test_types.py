"""The stubs: what they name is what there is, and a type checker finds errors of a user's alone."""
import ast
import importlib.util
import inspect
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import ejk
from ejk import ops

PACKAGE = pathlib.Path(ejk.__file__).parent


def functions(stub):
    tree = ast.parse((PACKAGE / stub).read_text())
    return {n.name: n.args for n in tree.body if isinstance(n, ast.FunctionDef)}


class Stubs(unittest.TestCase):
    def test_every_public_name_is_in_them(self):
        tree = ast.parse((PACKAGE / "__init__.pyi").read_text())
        names = set()
        for node in tree.body:
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                names.add(node.name)
            elif isinstance(node, ast.Assign):
                names.add(node.targets[0].id)
            elif isinstance(node, ast.ImportFrom):
                names.update(a.asname for a in node.names if a.asname == a.name or a.name == "split")
        self.assertEqual(set(ejk.__all__) - names, set())
        self.assertTrue((PACKAGE / "py.typed").exists())

    def test_signatures_are_those_of_the_functions(self):
        found = functions("ops.pyi")
        self.assertEqual(set(found), set(ops.__all__))
        for name, arguments in found.items():
            parameters = inspect.signature(getattr(ops, name)).parameters.values()
            self.assertEqual([a.arg for a in arguments.args],
                             [p.name for p in parameters
                              if p.kind not in (p.KEYWORD_ONLY, p.VAR_KEYWORD)], name)
            self.assertEqual([a.arg for a in arguments.kwonlyargs],
                             [p.name for p in parameters if p.kind is p.KEYWORD_ONLY], name)
            self.assertEqual([arguments.kwarg.arg] if arguments.kwarg else [],
                             [p.name for p in parameters if p.kind is p.VAR_KEYWORD], name)

    def test_a_recurrence_shows_what_a_call_takes(self):
        @ejk.recurrence
        def step(S, q, k, scale=1.0):
            return S.add(k, k), S.read(q * scale)
        self.assertEqual(str(inspect.signature(step)), "(q, k, scale=1.0, *, initial_state=None, "
                         "cu_seqlens=None, save_states=True, pool=None, read_slots=None, "
                         "write_slots=None, accepted=None, parents=None, ring=None, first_slot=0, "
                         "value_major=False)")

    @unittest.skipUnless(importlib.util.find_spec("mypy"), "needs mypy")
    def test_mypy(self):
        source = pathlib.Path(__file__).parent / "Inputs" / "typed.py"
        wanted = {(str(i), m[1]) for i, line in enumerate(source.read_text().splitlines(), 1)
                  if (m := re.search(r"# E: (.*)", line))}
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run(
                [sys.executable, "-m", "mypy", "--strict", "--no-site-packages", "--cache-dir", folder,
                 source], capture_output=True, text=True, check=False,
                env={**os.environ, "MYPYPATH": str(PACKAGE.parent)})
        found = {(m[1], m[2]) for m in re.finditer(r"typed\.py:(\d+): error: .*\[(.*)\]", done.stdout)}
        self.assertEqual(found, wanted, done.stdout + done.stderr)
        self.assertNotIn("ejk/", done.stdout)


    @unittest.skipUnless(importlib.util.find_spec("pyright"), "needs pyright")
    def test_pyright(self):
        source = pathlib.Path(__file__).parent / "Inputs" / "typed.py"
        wanted = {i for i, line in enumerate(source.read_text().splitlines(), 1) if "# E: " in line}
        with tempfile.TemporaryDirectory() as folder:
            config = pathlib.Path(folder) / "pyrightconfig.json"
            config.write_text(json.dumps({"include": [source.name], "extraPaths": [str(PACKAGE.parent)]}))
            shutil.copy(source, folder)
            done = subprocess.run([sys.executable, "-m", "pyright", "-p", config, "--outputjson"],
                                  capture_output=True, text=True, check=False)
        found = {d["range"]["start"]["line"] + 1
                 for d in json.loads(done.stdout)["generalDiagnostics"] if d["severity"] == "error"}
        self.assertEqual(found, wanted, done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main()
