"""Makes a wheel of what the folder build/ holds: the build backend of pyproject.toml.

`pip install .` calls it after ./setup, and python/build-wheel after it linked for other systems. It
compiles what changed since, and needs nothing from PyPI on Python 3.11 and newer.
"""

import base64
import hashlib
import pathlib
import platform
import subprocess
import sys
import tempfile
import zipfile

try:
    import tomllib
except ImportError:  # Python 3.10
    import tomli as tomllib

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = ROOT / "build"
TARGETS = ("ejk-compiler", "ejk_runtime", "ejk_torch", "ejk_jax", "ejk-launch", "ejk-run")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
NAME = f"{PROJECT['name']}-{PROJECT['version']}"


def _metadata():
    lines = ["Metadata-Version: 2.4", f"Name: {PROJECT['name']}", f"Version: {PROJECT['version']}",
             f"Summary: {PROJECT['description']}", f"License-Expression: {PROJECT['license']}",
             f"Requires-Python: {PROJECT['requires-python']}"]
    lines += [f"License-File: {name}" for name in PROJECT["license-files"]]
    lines += [f"Author: {author['name']}" for author in PROJECT["authors"]]
    lines += ["Keywords: " + ",".join(PROJECT["keywords"])]
    lines += [f"Classifier: {text}" for text in PROJECT["classifiers"]]
    for extra, packages in PROJECT["optional-dependencies"].items():
        lines.append(f"Provides-Extra: {extra}")
        lines += [f'Requires-Dist: {package}; extra == "{extra}"' for package in packages]
    text = (ROOT / PROJECT["readme"]).read_text(encoding="utf-8")
    return "\n".join([*lines, "Description-Content-Type: text/markdown", "", text])


class _Wheel:
    """A wheel that is written, with the list of its files."""

    def __init__(self, folder, tag):
        self.name = f"{NAME}-{tag}.whl"
        self._zip = zipfile.ZipFile(pathlib.Path(folder, self.name), "w")
        self._record = []
        information = f"{NAME}.dist-info"
        self.add(f"{information}/METADATA", _metadata())
        self.add(f"{information}/WHEEL", "Wheel-Version: 1.0\nGenerator: ejk\n"
                 f"Root-Is-Purelib: false\nTag: {tag}\n")
        self.add(f"{information}/entry_points.txt", "[console_scripts]\n" + "".join(
            f"{name} = {place}\n" for name, place in PROJECT["scripts"].items()))
        for name in PROJECT["license-files"]:
            self.add(f"{information}/licenses/{name}", (ROOT / name).read_bytes())

    def _write(self, path, data, mode):
        entry = zipfile.ZipInfo(path)  # of 1980, so that the same files make the same wheel
        entry.external_attr = (0o100000 | mode) << 16
        entry.compress_type = zipfile.ZIP_DEFLATED
        self._zip.writestr(entry, data, compresslevel=1)  # auditwheel compresses it more

    def add(self, path, data, mode=0o644):
        data = data.encode() if isinstance(data, str) else data
        self._write(path, data, mode)
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        self._record.append(f"{path},sha256={digest},{len(data)}")

    def add_folder(self, folder, to):
        for file in sorted(folder.rglob("*")):
            if file.is_file() and "__pycache__" not in file.parts:
                self.add(f"{to}/{file.relative_to(folder)}", file.read_bytes(),
                         0o755 if file.stat().st_mode & 0o100 else 0o644)

    def finish(self):
        record = f"{NAME}.dist-info/RECORD"
        self._write(record, "\n".join([*self._record, f"{record},,\n"]), 0o644)
        self._zip.close()
        return self.name


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    if not (BUILD / "CMakeCache.txt").exists():
        sys.exit("ejk is not built yet: run ./setup in its folder first")
    subprocess.run(["cmake", "--build", BUILD, "--target", *TARGETS], check=True)
    wheel = _Wheel(wheel_directory, f"py3-none-linux_{platform.machine()}")
    wheel.add_folder(ROOT / "python" / "ejk", "ejk")
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["cmake", "--install", BUILD, "--component", "wheel", "--strip",
                        "--prefix", folder], check=True, stdout=subprocess.DEVNULL)
        wheel.add_folder(pathlib.Path(folder), "ejk")
    return wheel.finish()


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    """A wheel that leads to this folder, whose libraries are found in build/."""
    wheel = _Wheel(wheel_directory, "py3-none-any")
    wheel.add("ejk.pth", f"{ROOT / 'python'}\n")
    return wheel.finish()


def build_sdist(sdist_directory, config_settings=None):
    sys.exit("ejk has no source distribution: clone the repository")
