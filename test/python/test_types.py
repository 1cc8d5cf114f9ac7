"""The stubs: what they name is what there is, and a type checker finds errors of a user's alone."""
import ast
import importlib
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


# Stubs of modules beside the package's own, and what each needs.
STUBS = {"ejk.ops": None, "ejk.serving": "numpy", "ejk.parallel": None, "ejk.parallel.torch": "torch",
         "ejk.parallel.jax": "jax", "ejk.onnx": None, "ejk.compat.fla": "torch",
         "ejk.compat.transformers": "torch", "ejk.compat.ejkernel": "jax", "ejk.compat._patch": None}


def stub_of(module):
    path = PACKAGE.parent / module.replace(".", "/")
    return path / "__init__.pyi" if path.is_dir() else path.with_suffix(".pyi")


def definitions(path, kind):
    return {n.name: n for n in ast.parse(path.read_text()).body if isinstance(n, kind)}


def parameters_of(arguments):
    """A stub's parameters: (plain ones, those by name alone), each with its default as ast has it."""
    plain = [*arguments.posonlyargs, *arguments.args]
    defaults = [None] * (len(plain) - len(arguments.defaults)) + arguments.defaults
    return ([(a.arg, d) for a, d in zip(plain, defaults)],
            [(a.arg, d) for a, d in zip(arguments.kwonlyargs, arguments.kw_defaults)])


def installed(name):
    return name is None or importlib.util.find_spec(name) is not None


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
        public = {n for n in names if not n.startswith("_")}
        self.assertEqual(public, set(ejk.__all__))
        self.assertTrue((PACKAGE / "py.typed").exists())

    def compare(self, arguments, function, by_name=True):
        """A stub's parameters are the function's, and further ones where the function takes any."""
        own = inspect.signature(function).parameters.values()
        kinds, found = {p.kind for p in own}, parameters_of(arguments)
        plain, named = ([p for p in own if p.kind in kind] for kind in (
            (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD),
            (inspect.Parameter.KEYWORD_ONLY,)))
        for wanted, given, more in ((plain, found[0], inspect.Parameter.VAR_POSITIONAL),
                                    (named, found[1], inspect.Parameter.VAR_KEYWORD)):
            if more not in kinds:
                self.assertEqual(len(given), len(wanted))
            for p, (name, default) in zip(wanted, given):
                if by_name:
                    self.assertEqual(name, p.name)
                self.assertEqual(default is not None, p.default is not p.empty, p.name)
                if isinstance(default, ast.Constant) and default.value is not ...:
                    self.assertEqual(default.value, p.default, p.name)
        if arguments.kwarg:
            self.assertIn(inspect.Parameter.VAR_KEYWORD, kinds)

    def test_signatures_are_those_of_the_functions(self):
        for module, needs in STUBS.items():
            if not installed(needs):
                continue
            own = importlib.import_module(module)
            found = definitions(stub_of(module), ast.FunctionDef)
            kinds = definitions(stub_of(module), ast.ClassDef)
            public = {n for n, value in vars(own).items()
                      if getattr(value, "__module__", None) == module and n[0] != "_"}
            self.assertEqual(set(found) | set(kinds), public.union(getattr(own, "__all__", ())), module)
            for name, function in found.items():
                with self.subTest(module=module, name=name):
                    self.compare(function.args, getattr(own, name))

    def test_methods_are_those_of_the_classes(self):
        for module, needs in {"ejk": None, "ejk._values": None, **STUBS}.items():
            if not installed(needs):
                continue
            own = importlib.import_module(module)
            for name, kind in definitions(stub_of(module), ast.ClassDef).items():
                if name[0] == "_":
                    continue
                for method in (n for n in kind.body if isinstance(n, ast.FunctionDef)):
                    with self.subTest(module=module, name=f"{name}.{method.name}"):
                        self.compare(method.args, getattr(getattr(own, name), method.name),
                                     by_name=method.name[:2] != "__")

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
        done = self.mypy(lambda _: [source])
        found = {(m[1], m[2]) for m in re.finditer(r"typed\.py:(\d+): error: .*\[(.*)\]", done.stdout)}
        self.assertEqual(found, wanted, done.stdout + done.stderr)
        self.assertNotIn("ejk/", done.stdout)

    @unittest.skipUnless(importlib.util.find_spec("mypy"), "needs mypy")
    def test_mypy_of_the_stubs(self):
        done = self.mypy(lambda package: [package / p.relative_to(PACKAGE) for p in PACKAGE.rglob("*.pyi")])
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def mypy(self, sources):
        # The package alone in a folder: mypy takes none that has other packages' modules, too.
        with tempfile.TemporaryDirectory() as folder:
            package = pathlib.Path(folder) / "path" / "ejk"
            package.parent.mkdir()
            package.symlink_to(PACKAGE)
            return subprocess.run(
                [sys.executable, "-m", "mypy", "--strict", "--no-site-packages", "--cache-dir",
                 pathlib.Path(folder) / "cache", *sources(package)], capture_output=True, text=True,
                check=False, env={**os.environ, "MYPYPATH": str(package.parent)})

    @unittest.skipUnless(importlib.util.find_spec("pyright") and shutil.which("node"),
                         "needs pyright and node")
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
