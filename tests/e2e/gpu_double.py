# SPDX-License-Identifier: Apache-2.0
"""Clients of the doubles of the GPU's libraries (tests/gpu)."""
import os
import shutil
import subprocess

from fleet import ROOT, build_folder

DOUBLES = build_folder() / "tests/gpu"


def make_doubles(*names):
    """As the sources are now: an old double would be taken for the new one."""
    subprocess.run(["make", f"BUILD={build_folder()}", *(str(DOUBLES / name) for name in names)], cwd=ROOT, check=True,
                   stdout=subprocess.DEVNULL)


def environment(service, **more):
    """Of a client: it maps the doubles, and its series are called so."""
    return {**os.environ, "OTEL_SERVICE_NAME": service, "LD_LIBRARY_PATH": str(DOUBLES), **more}


def own_doubles(folder, *names):
    """Files that no other client maps: probes are set in a file, for all who map it. Returns more of an environment."""
    for name in names:
        shutil.copy(DOUBLES / name, folder)
    return {"LD_LIBRARY_PATH": str(folder)}


def start_script(name, service, *words, **more):
    """A script of tests/gpu, which is talked to by pipes."""
    return subprocess.Popen(["python3", str(ROOT / "tests/gpu" / name), *words], stdin=subprocess.PIPE,
                            stdout=subprocess.PIPE, text=True, env=environment(service, **more))
