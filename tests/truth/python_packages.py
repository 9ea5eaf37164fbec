# SPDX-License-Identifier: Apache-2.0
"""What the Python programs import that is not there yet: a C extension, compiled for the interpreter, and
packages of PyPI. Each comes as a folder for PYTHONPATH, or None with a line that says why."""
import pathlib
import subprocess

from recording import build_folder

SOURCE = pathlib.Path(__file__).resolve().parent / "python"
FLAGS = ["-O2", "-fomit-frame-pointer", "-fPIC", "-shared", "-w"]
PIP_SECONDS = 300


def skip(interpreter, reason):
    print(f"# SKIP {interpreter.name}: {reason}")


def folder_of(interpreter, name):
    folder = build_folder() / "truth" / f"{name}-{interpreter.name}"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def extension(interpreter):
    """calls_back.c"""
    include = pathlib.Path(subprocess.run(
        [interpreter.path, "-c", "import sysconfig; print(sysconfig.get_paths()['include'])"],
        capture_output=True, text=True, check=True).stdout.strip())
    if not (include / "Python.h").exists():
        return skip(interpreter, "it has no headers to compile an extension with")
    folder = folder_of(interpreter, "extension")
    done = subprocess.run(["gcc", *FLAGS, f"-I{include}", str(SOURCE / "calls_back.c"), "-o",
                           str(folder / "calls_back.so")], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder


def package(interpreter, name):
    """A package that has a wheel for this interpreter."""
    folder = folder_of(interpreter, name)
    if (folder / name).exists():
        return folder
    done = subprocess.run([interpreter.path, "-m", "pip", "install", "--quiet", "--only-binary=:all:",
                           "--target", str(folder), name], capture_output=True, text=True,
                          timeout=PIP_SECONDS, check=False)
    return folder if done.returncode == 0 else skip(interpreter, f"{name} cannot be had from PyPI")
