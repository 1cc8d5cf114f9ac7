"""How the compiler's tests run; `cmake --build BUILD --target check-ejk` runs them all."""

import os
import shutil
import subprocess

import lit.formats
from lit.llvm import llvm_config
from lit.llvm.subst import ToolSubst

config.name = "ejk"
config.test_format = lit.formats.ShTest(not llvm_config.use_lit_shell)
config.suffixes = [".mlir", ".test"]
config.excludes = ["Inputs", "CMakeLists.txt"]
config.test_source_root = os.path.dirname(__file__)
config.test_exec_root = config.ejk_test_dir

llvm_config.with_system_environment(["HOME", "TMP", "TEMP", "CUDA_HOME", "CUDA_VISIBLE_DEVICES"])
llvm_config.use_default_substitutions()
llvm_config.with_environment("PATH", config.llvm_tools_dir, append_path=True)
llvm_config.with_environment("PATH", config.ejk_tools_dir, append_path=True)
# A variable that a pattern captured in one function must not match in another.
llvm_config.with_environment("FILECHECK_OPTS", "-enable-var-scope")

tools = ["ejk-opt", "ejk-compile", "ejk-run", "ejk-launch", "ejk-reduce", "ejk-lsp-server"]
llvm_config.add_tool_substitutions(
    [ToolSubst(t, unresolved="ignore") for t in tools], [config.ejk_tools_dir]
)
config.substitutions.append(("%examples", os.path.join(config.ejk_source_dir, "examples")))
config.substitutions.append(
    ("%fake-cuda", os.path.join(config.ejk_library_dir, "libejk-fake-cuda.so"))
)
config.substitutions.append(("%bin", config.ejk_tools_dir))
config.substitutions.append(
    ("%emulated-cuda", os.path.join(config.ejk_library_dir, "libejk-emulated-cuda.so"))
)
config.substitutions.append(("%library", config.ejk_library_dir))
config.substitutions.append(("%docs", os.path.join(config.ejk_source_dir, "docs")))
config.substitutions.append(("%oracle", config.ejk_oracle_data))
config.substitutions.append(("%ejk-package", os.path.join(config.ejk_source_dir, "python")))
config.substitutions.append(("%python", '"%s"' % config.python_executable))

# What a test may ask for with REQUIRES.
if os.path.exists("/dev/nvidia0"):
    config.available_features.add("cuda")
cuda_home = os.environ.get("CUDA_HOME", "/usr/local/cuda")
ptxas = shutil.which("ptxas") or shutil.which(os.path.join(cuda_home, "bin", "ptxas"))
qemu = shutil.which("qemu-aarch64-static") or shutil.which("qemu-aarch64")
if qemu:
    config.available_features.add("qemu-aarch64")
    config.substitutions.append(("%qemu-aarch64", qemu))
# ptxas takes most of a package's time. So tests do without it, but for those whose subject it is
# and the examples, which ask for it where it is.
config.environment["EJK_PTXAS"] = "none"
config.substitutions.append(("%maybe-ptxas", f"EJK_PTXAS={ptxas or 'none'}"))
if ptxas:
    config.available_features.add("ptxas")
    config.substitutions.append(("%ptxas", ptxas))
# Libraries whose tensors the Python package takes, where the tests' Python has them.
for module in ("torch", "jax", "fla", "transformers", "ejkernel", "onnx", "onnxruntime"):
    found = subprocess.run([config.python_executable, "-c", f"import importlib.util as i; "
                            f"raise SystemExit(i.find_spec('{module}') is None)"])
    if found.returncode == 0:
        config.available_features.add(module)
