#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""compare.py [--count N] [--jobs N] PROGRAM [PATH...]: every executable and library below the paths.

PROGRAM is print_table. Prints each disagreement, then what is not supported and where, and fails if
there was one. Without paths it is all of this machine's.
"""

import argparse
import collections
import multiprocessing
import os
import sys
import time
from pathlib import Path

import tables

MACHINE = ["/usr", "/opt", os.path.expanduser("~")]
SHOWN_MAX = 20


def is_elf(path):
    try:
        with open(path, "rb") as file:
            return file.read(4) == b"\x7fELF"
    except OSError:
        return False


def find_files(paths):
    """Each ELF file once, whatever links lead to it."""
    seen = set()
    for path in paths:
        walk = os.walk(path) if os.path.isdir(path) else [(os.path.dirname(path), [],
                                                           [os.path.basename(path)])]
        for folder, folders, names in walk:
            folders[:] = sorted(name for name in folders if name != ".build-id")  # debug files
            for name in sorted(names):
                place = os.path.realpath(os.path.join(folder, name))
                if place not in seen and os.path.isfile(place) and is_elf(place):
                    seen.add(place)
                    yield place


def compare_one(arguments):
    program, path, count, seed = arguments
    try:
        return path, tables.compare(program, path, count, seed)
    except tables.NotThisKind:
        return path, None


def list_unsupported(unsupported):
    for what, places in sorted(unsupported.items(), key=lambda item: -sum(item[1].values())):
        names = ", ".join(Path(name).name for name, _ in places.most_common(4))
        print(f"{sum(places.values()):7}  {what}  ({names}{', ...' if len(places) > 4 else ''})")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=2000, help="addresses per file")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("program")
    parser.add_argument("paths", nargs="*", default=MACHINE)
    options = parser.parse_args()

    totals = collections.Counter()
    unsupported = collections.defaultdict(collections.Counter)
    synthesised = collections.Counter()
    files = ((options.program, path, options.count, options.seed)
             for path in find_files(options.paths))
    print(f"seed {options.seed}")
    with multiprocessing.Pool(options.jobs) as pool:
        for path, result in pool.imap_unordered(compare_one, files):
            if result is None:
                totals["of other kinds"] += 1
                continue
            totals["files"] += 1
            totals["addresses"] += result.compared
            totals["unread"] += result.unread
            totals["padding"] += result.padding
            totals["disagreements"] += len(result.disagreements)
            synthesised.update(result.synthesised)
            for what, times in result.unsupported.items():
                unsupported[what][path] += times
            for text in result.disagreements[:SHOWN_MAX]:
                print(f"{path}: {text}", flush=True)

    print("not supported, by addresses that hit it:")
    list_unsupported(unsupported)
    print("without an entry, known by shape:", dict(synthesised))
    print(dict(totals))
    return 1 if totals["disagreements"] else 0


if __name__ == "__main__":
    sys.exit(main())
