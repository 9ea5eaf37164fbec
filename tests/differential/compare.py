#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""compare.py [--count N] [--jobs N] PROGRAM [PATH...]: every executable and library below the paths.

PROGRAM is print_table. Prints each disagreement, then what is not supported and where, and fails if
there was one. Without paths it is all of this machine's. The largest files come first, so that no one
is waited for at the end. Says each minute how far it is; Ctrl-C ends it with what it has found so far.
"""

import argparse
import collections
import multiprocessing
import os
import signal
import sys
import time
from pathlib import Path

import tables

MACHINE = ["/usr", "/opt", os.path.expanduser("~")]
CACHES = (".build-id", ".debug")  # of debug files, and copies that perf keeps
SHOWN_MAX = 20
PROGRESS_SECONDS = 60


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
            folders[:] = sorted(name for name in folders if name not in CACHES)
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


class Report:
    """What came of all files so far."""

    def __init__(self, files):
        self.sizes = {path: os.path.getsize(path) for path in files}
        self.done_bytes = 0
        self.reported = time.monotonic()
        self.totals = collections.Counter()
        self.unsupported = collections.defaultdict(collections.Counter)
        self.synthesised = collections.Counter()

    def add(self, path, result):
        self.done_bytes += self.sizes[path]
        if result is None:
            self.totals["of other kinds"] += 1
            return
        self.totals["files"] += 1
        self.totals["addresses"] += result.compared
        self.totals["unread"] += result.unread
        self.totals["padding"] += result.padding
        self.totals["disagreements"] += len(result.disagreements)
        self.synthesised.update(result.synthesised)
        for what, times in result.unsupported.items():
            self.unsupported[what][path] += times
        for text in result.disagreements[:SHOWN_MAX]:
            print(f"{path}: {text}", flush=True)

    def tell_progress(self):
        if time.monotonic() > self.reported + PROGRESS_SECONDS:
            self.reported = time.monotonic()
            print(f"{sum(self.sizes.values()) >> 20} MiB to read, {self.done_bytes >> 20} done: "
                  f"{dict(self.totals)}", file=sys.stderr, flush=True)

    def print(self):
        print("not supported, by addresses that hit it:")
        for what, places in sorted(self.unsupported.items(), key=lambda item: -sum(item[1].values())):
            names = ", ".join(Path(name).name for name, _ in places.most_common(4))
            print(f"{sum(places.values()):7}  {what}  ({names}{', ...' if len(places) > 4 else ''})")
        print("without an entry, known by shape:", dict(self.synthesised))
        print(dict(self.totals))


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=2000, help="addresses per file")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("program")
    parser.add_argument("paths", nargs="*", default=MACHINE)
    return parser.parse_args()


def main():
    options = parse_options()
    files = sorted(find_files(options.paths), key=os.path.getsize, reverse=True)
    report = Report(files)
    print(f"seed {options.seed}, {len(files)} files", flush=True)
    ignore = (signal.signal, (signal.SIGINT, signal.SIG_IGN))  # Ctrl-C is for us, not for each job
    with multiprocessing.Pool(options.jobs, *ignore) as pool:
        try:
            for path, result in pool.imap_unordered(compare_one, (
                    (options.program, path, options.count, options.seed) for path in files)):
                report.add(path, result)
                report.tell_progress()
        except KeyboardInterrupt:
            report.totals["files not compared"] = \
                len(files) - report.totals["files"] - report.totals["of other kinds"]
    report.print()
    whole = not report.totals["files not compared"]
    return 0 if whole and not report.totals["disagreements"] else 1


if __name__ == "__main__":
    sys.exit(main())
