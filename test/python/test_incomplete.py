"""An installation that is not whole: what a call says is what is missing."""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

import ejk

# A second call meets what the first left behind, and says the same.
CALLS = """
x = {}
for _ in range(2):
    try:
        ejk.ops.simple_gla(x, x, x, -x[..., 0])
    except Exception as error:
        print(type(error).__name__, error)
"""
ROWS = {"torch": "torch.ones(1, 4, 1, 8)", "numpy": "numpy.ones((1, 4, 1, 8), 'f4')"}


def has(library):
    import importlib.util
    return importlib.util.find_spec(library) is not None


class WithoutLibraries(unittest.TestCase):
    def said(self, package, code):
        environment = {**os.environ, "PYTHONPATH": str(package.parent)}
        environment.pop("EJK_LIBRARY_DIR", None)
        return subprocess.run([sys.executable, "-B", "-W", "ignore", "-c", code], capture_output=True,
                              text=True, check=True, env=environment).stdout.splitlines()

    def test_the_missing_library_is_named_whichever_is_imported_first(self):
        with tempfile.TemporaryDirectory() as folder:
            package = pathlib.Path(folder) / "ejk"
            shutil.copytree(pathlib.Path(ejk.__file__).parent, package,
                            ignore=shutil.ignore_patterns("lib", "bin", "*.so*", "__pycache__"))
            for library in filter(has, ROWS):
                for order in (f"import {library}, ejk", f"import ejk, {library}"):
                    with self.subTest(order):
                        lines = self.said(package, order + CALLS.format(ROWS[library]))
                        self.assertEqual(len(lines), 2)
                        for line in lines:
                            self.assertRegex(line, r"^EjkError libejk[\w.-]*\.so is")


if __name__ == "__main__":
    unittest.main()
