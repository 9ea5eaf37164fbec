#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The agent alone, with all profile types: its start, CPU and memory, while nothing of ours runs and beside the
PyTorch service at saturation, where an interpreter has PyTorch (BENCH_PYTHON names one). What it costs beside
other profilers is bench_beside.py's.

CPU is what the kernel accounts to the agent's processes; the BPF programs are not in it. Needs root.
"""
import argparse
import os
import pathlib
import statistics
import sys
import tempfile
import time

import workloads
from accounting import cpu_ns, map_bytes, memory_bytes
from profilers import Cairn

ROOT = pathlib.Path(__file__).resolve().parents[1]
MIB = 1 << 20
BUILD_SECONDS = 6   # an agent that has just started builds tables
SETTLE_SECONDS = 10 # and symbolizes new code at the next exports
STEADY_SECONDS = 10 # two export intervals: includes once-per-interval work twice
BUDGETS = {  # what the design asks for
    "attach": "<= 0.4", "first": "<= 0.6", "idle": "<= 25", "with": "<= 60", "peak": "<= 90", "maps": "<= 40",
    "steady": "<= 0.5",
}


def print_figure(what, values, form="{:.2f}", budget=""):
    shown = " ".join(form.format(value) for value in values)
    print(f"  {what:<42} {form.format(statistics.median(values)):>9}  {budget:<9} n={len(values)}: {shown}", flush=True)


def measure_once(cairn):
    """Figures of one run with nothing on disk: CPU while it builds tables, memory, and CPU when it has settled."""
    cairn.empty_cache()
    cairn.start(0)
    try:
        time.sleep(BUILD_SECONDS)
        pid = cairn.process.pid
        figures = {"attach": cairn.attach_seconds, "first": cpu_ns(pid) / 1e9}
        time.sleep(SETTLE_SECONDS)
        began, before = time.monotonic(), cpu_ns(pid)
        time.sleep(STEADY_SECONDS)
        figures["steady"] = (cpu_ns(pid) - before) / (time.monotonic() - began) / 1e7
        return figures | {"rss": memory_bytes(pid, "VmRSS") / MIB, "peak": memory_bytes(pid, "VmHWM") / MIB,
                          "maps": map_bytes(pid) / MIB}
    finally:
        cairn.stop()


def measure(cairn, what, rounds):
    """@what: "idle", or "with" a service."""
    runs = [measure_once(cairn) for _ in range(rounds)]
    print(f"{what}; load average {os.getloadavg()[0]:.1f}")
    for key, heading, form in (("attach", "start to attached, s", "{:.2f}"),
                               ("first", f"CPU of the first {BUILD_SECONDS} s, s", "{:.2f}"),
                               ("steady", "steady, % of a core", "{:.2f}"), ("rss", "RSS, MiB", "{:.1f}"),
                               ("peak", "RSS peak, MiB", "{:.1f}"), ("maps", "BPF maps, MiB", "{:.1f}")):
        budget = BUDGETS[what.split()[0]] if key == "rss" else BUDGETS[key]
        print_figure(heading, [run[key] for run in runs], form, budget)


def run(options, folder):
    cairn = Cairn(folder, options.frequency, ROOT / options.build)
    try:
        print("the agent alone: median, budget")
        measure(cairn, "idle", options.rounds)
        try:
            workload = workloads.begin("torch", ROOT / options.build, folder)
        except workloads.Missing as error:
            print(f"# SKIP with the PyTorch service: {error}")
            return
        try:
            measure(cairn, "with the PyTorch service", options.rounds)
        finally:
            workload.stop()
    finally:
        cairn.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=os.environ.get("BUILD", "build"))
    parser.add_argument("--rounds", type=int, default=int(os.environ.get("ROUNDS", "5")))
    parser.add_argument("--frequency", type=int, default=99)
    options = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("bench: sampling the machine needs root: run this with sudo")
    with tempfile.TemporaryDirectory(prefix="cairn-bench-") as folder:
        run(options, folder)


if __name__ == "__main__":
    main()
