# SPDX-License-Identifier: Apache-2.0
"""cairn record --gil: of a Python process's threads the ones that hold the GIL only, in each version's way to know it."""
import subprocess
import sys

import pytest

from fleet import ROOT, program

sys.path.insert(0, str(ROOT / "tests/truth"))
from interpreters import interpreters  # noqa: E402

WAYS = {  # by the versions that have it; the newest one here is tried
    "the runtime knows the holder": range(6, 12),
    "active states hold it": range(12, 13),
    "states say so": range(13, 15),
}


def newest_of(minors):
    return max((one for one in interpreters() if one.version[1] in minors and not one.free_threaded), key=lambda one: one.version,
               default=None)


def ms_by_function(path):
    """CPU time of the two threads."""
    sums = {"holds_gil": 0, "releases_gil": 0}
    for line in path.read_text().splitlines():
        for function in sums:
            sums[function] += f";{function} (" in line and int(line.rsplit(" ", 1)[1]) / 1e6
    return sums


def record(path, pid, *flags):
    done = subprocess.run([program("cairn"), "record", *flags, "-F", "499", "-d", "1s", "-p", str(pid), "-o", path], capture_output=True,
                          text=True, timeout=60, check=False)
    assert done.returncode == 0, done
    return ms_by_function(path)


@pytest.mark.parametrize("minors", WAYS.values(), ids=WAYS)
def test_records_who_holds_the_gil(tmp_path, minors):
    interpreter = newest_of(minors)
    if not interpreter:
        pytest.skip("no such version here")
    with subprocess.Popen([interpreter.path, ROOT / "tests/workloads/gil_python.py"], stdout=subprocess.PIPE) as process:
        try:
            process.stdout.readline()
            everyone = record(tmp_path / "all.collapsed", process.pid)
            holders = record(tmp_path / "gil.collapsed", process.pid, "--gil")
        finally:
            process.kill()
    # Both use a CPU; the one in C takes the GIL for a moment before and after each checksum.
    assert everyone["releases_gil"] > 0.3 * everyone["holds_gil"], everyone
    assert holders["releases_gil"] < 0.15 * holders["holds_gil"], holders
    assert holders["holds_gil"] > 0.25 * everyone["holds_gil"], (holders, everyone)


def test_gil_is_for_cpu_samples(tmp_path):
    done = subprocess.run([program("cairn"), "record", "--gil", "--type", "off-cpu", "-o", tmp_path / "x.svg", "-d", "1s"],
                          capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2 and "--gil" in done.stderr and "--type" in done.stderr, done
