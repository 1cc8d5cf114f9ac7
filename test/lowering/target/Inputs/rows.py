"""The rows of GPUs in `ejk-compile --list-archs`, by the table's column titles."""
import subprocess


def rows(ejk_compile):
    table = subprocess.run([ejk_compile, "--list-archs"], check=True, stdout=subprocess.PIPE,
                           text=True).stdout
    title, _, *lines = [[cell.strip(" `") for cell in line.strip("|\n").split("|")]
                        for line in table.split("\n\n")[0].splitlines()]
    return [dict(zip(title, line)) for line in lines]


def assemble(ptxas, arch, source, output):
    """None where ptxas does not know the architecture; else what it complains of."""
    done = subprocess.run([ptxas, f"-arch={arch}", source, "-o", output], text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if "is not defined for option 'gpu-name'" in done.stdout:
        return None
    return done.stdout if done.returncode else ""
