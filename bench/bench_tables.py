#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Unwind tables of large files of this machine: libtorch, libpython, clang, whatever of them is
there. Budgets: a table of a million rows in 0.3 s, 5 bytes a row."""
import os
import pathlib
import subprocess
import sys

from workloads import torch_python

ROOT = pathlib.Path(__file__).resolve().parents[1]
LIST_MAPPED = "import sys; print(open('/proc/self/maps').read())"
LARGE = ("libtorch_cpu", "libpython", "libclang-cpp", "libLLVM", "libstdc++", "libc.so")


def mapped_by(python, before=""):
    """Files that an interpreter maps."""
    said = subprocess.run([python, "-c", before + LIST_MAPPED], capture_output=True, text=True,
                          check=False).stdout
    return {line.split(None, 5)[5] for line in said.splitlines() if line.count("/")}


def needed_by(program):
    said = subprocess.run(["ldd", program], capture_output=True, text=True, check=False).stdout
    return {word for word in said.split() if word.startswith("/")}


def main():
    build = pathlib.Path(os.environ.get("BUILD", "build"))
    files = mapped_by("python3") | needed_by(os.path.realpath("/usr/bin/clang"))
    python = torch_python()
    if python:
        files |= mapped_by(python, "import torch; ")
    else:
        print("# SKIP libtorch: no interpreter has PyTorch; BENCH_PYTHON may name one")
    names = {os.path.basename(path): path for path in sorted(files)}
    wanted = [path for name, path in names.items() if name.startswith(LARGE)]
    sys.exit(subprocess.run([str(ROOT / build / "bench/bench_unwind_table"), *wanted],
                            check=False).returncode)


if __name__ == "__main__":
    main()
