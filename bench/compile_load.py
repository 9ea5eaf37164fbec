#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A compiler build that never comes to an end: generated C sources, a gcc on each CPU, each of which lives for
a fraction of a second. To a profiler every process is new.

    compile_load.py --folder FOLDER --log FILE [--seconds N]

FILE has a record of each source compiled, as http_load.py writes them.
"""
import argparse
import ctypes
import os
import pathlib
import random
import signal
import subprocess
import threading
import time

from http_load import Log

SOURCES = 24
FUNCTIONS = 8
HEADERS = ("errno", "fcntl", "math", "signal", "stdio", "stdlib", "string", "time", "unistd")
PR_SET_PDEATHSIG = 1


def source(chance):
    """Some functions with loops, switches and calls, which the optimizer has to look at."""
    lines = [f"#include <{name}.h>" for name in chance.sample(HEADERS, 6)]
    for number in range(FUNCTIONS):
        cases = "".join(f"case {case}: x ^= y * {chance.randrange(1, 99)}u; break; " for case in range(chance.randrange(3, 12)))
        call = f"x += f{chance.randrange(number)}(y, x & 7); " if number else ""
        lines.append(f"unsigned f{number}(unsigned x, unsigned n) {{ unsigned y = x, a[{chance.randrange(4, 40)}] = {{ n }}; "
                     f"for (unsigned i = 0; i < n; i++) {{ switch (y % 13) {{ {cases}default: y += a[i % 4]; }} "
                     f"y = y * {chance.randrange(3, 999)}u + x; {call}}} return x ^ y; }}")
    return "\n".join(lines) + "\n"


def compile_until(end, paths, log):
    chance = random.Random()
    while (left := end - time.monotonic()) > 0:
        began = time.monotonic()
        subprocess.run(["gcc", "-O1", "-g", "-c", str(chance.choice(paths)), "-o", "/dev/null"], check=True,
                       stdin=subprocess.DEVNULL, timeout=left + 60)
        log.add(time.monotonic() - began)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=pathlib.Path, required=True)
    parser.add_argument("--log", required=True)
    parser.add_argument("--seconds", type=float, default=900)
    options = parser.parse_args()
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    chance, log = random.Random(1), Log(options.log)
    paths = [options.folder / f"source{number}.c" for number in range(SOURCES)]
    for path in paths:
        path.write_text(source(chance))
    end = time.monotonic() + options.seconds
    for _ in range(os.cpu_count()):
        threading.Thread(target=compile_until, args=(end, paths, log)).start()


if __name__ == "__main__":
    main()
