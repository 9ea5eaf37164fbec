#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Overhead of sampling, next to other profilers.

Workloads: native stacks of 34 frames without frame pointers on every CPU; PyTorch under Python,
where an interpreter has it (BENCH_PYTHON names one). Peers: perf by frame pointers and by DWARF,
bpftrace, py-spy, and PEER='start command' ("{pid}" in it becomes the workload's pid): whichever is
installed. Rounds interleave all of them and a run without any, so that each ratio is of one moment.

PEER is ended as by Ctrl-C. If it writes stacks, as collapsed text or gzipped pprof, PEER_STACKS=file
has them judged by the rule for all (recorded_stacks.py); a relative path begins in the folder that the
command is started in. Where lines begin with a process, or samples have a label pid, those of the
workload count.

CPU is what the kernel accounts to the profiler's processes and to BPF programs that it loaded; what
perf does in its interrupt is in neither, and shows in the throughput only. Needs root.
"""
import argparse
import os
import pathlib
import statistics
import sys
import tempfile
import time

import workloads
from accounting import BpfStatistics, Window, cpu_ns, map_bytes, status_bytes
from profilers import Bpftrace, Cairn, Peer, Perf, PySpy
from recorded_stacks import Unreadable

ROOT = pathlib.Path(__file__).resolve().parents[1]
MIB = 1 << 20
BUILD_SECONDS = 6   # an agent that has just started builds tables
SETTLE_SECONDS = 6  # and symbolizes new code at the next export
STEADY_SECONDS = 10 # two export intervals: includes once-per-interval work twice

# What the design asks for, by workload.
BUDGETS = {
    ("native", "ns"): "<= 5000", ("PyTorch", "ns"): "<= 12000",
    "steady": "<= 0.5", "build": "<= 0.6", "idle": "<= 25", "with": "<= 60", "peak": "<= 90",
    "maps": "<= 40", "attach": "<= 0.4",
}


def print_figure(what, values, form="{:.2f}", budget=""):
    values = [value for value in values if value == value]
    if not values:
        return
    shown = " ".join(form.format(value) for value in values)
    print(f"  {what:<42} {form.format(statistics.median(values)):>9}  {budget:<9} n={len(values)}: "
          f"{shown}", flush=True)


# ---- pairs ----------------------------------------------------------------------------------

def profilers_for(options, folder, workload):
    found = [Perf(folder, options.frequency, "fp"), Perf(folder, options.frequency, "dwarf,16384"),
             Bpftrace(folder, options.frequency)]
    if workload.name == "PyTorch":
        found += [PySpy(folder, options.frequency, False), PySpy(folder, options.frequency, True)]
    if options.peer:
        found.append(Peer(folder, options.frequency, options.peer, options.peer_stacks))
    usable = []
    for profiler in found:
        reason = profiler.missing()
        if reason:
            print(f"# SKIP {profiler.name}: {reason}")
        else:
            usable.append(profiler)
    return usable


def measure(profiler, workload, options):
    """A Window with the profiler running, or None where it does not keep running."""
    profiler.start(workload.process.pid)
    time.sleep(options.warm_up if profiler.name == "cairn" else profiler.settle_seconds)
    try:
        if not profiler.is_running():
            return None
        return Window(options.seconds, workload.work, profiler.process.pid)
    finally:
        profiler.stop()


def run_rounds(workload, cairn, peers, options):
    """{name: windows}, a window of each in every round; "nothing" is without a profiler."""
    windows = {name: [] for name in ["nothing", cairn.name] + [peer.name for peer in peers]}
    for number in range(options.repetitions):
        windows["nothing"].append(Window(options.seconds, workload.work))
        order = [cairn, *peers]
        for profiler in order[number % len(order):] + order[:number % len(order)]:
            if time.monotonic() > options.deadline:
                return windows
            window = measure(profiler, workload, options)
            if window:
                windows[profiler.name].append(window)
            elif number == 0:
                print(f"# SKIP {profiler.name}: it ended by itself; see its messages:")
                log = profiler.folder / f"{profiler.name}.log"
                print("    " + log.read_text(errors="replace").strip()[-300:])
    return windows


def print_pairs(windows, workload_name):
    cairn = windows["cairn"]
    for name, mine in windows.items():
        if name == "nothing" or not mine:
            continue
        print(f" {name}")
        budget = BUDGETS[(workload_name, "ns")] if name == "cairn" else ""
        print_figure("BPF per sample, ns", [w.ns_per_sample() for w in mine], "{:.0f}", budget)
        print_figure("samples a second", [w.samples / w.seconds for w in mine if w.samples], "{:.0f}")
        print_figure("processes, % of a core", [w.user_percent_of_core() for w in mine])
        print_figure("processes and BPF, % of a core", [w.percent_of_core() for w in mine])
        print_figure("RSS of the first process, MiB", [w.rss / MIB for w in mine], "{:.1f}")
        print_figure("throughput, of that without", [w.work / none.work for w, none in
                                                     zip(mine, windows["nothing"])], "{:.3f}")
        if name != "cairn":
            print_figure("its CPU / cairn's, per round",
                         [theirs.percent_of_core() / ours.percent_of_core()
                          for theirs, ours in zip(mine, cairn)])


# ---- quality of the stacks --------------------------------------------------------------

def print_stacks(workload, cairn, windows, peers, options):
    """Of cairn those of the measured windows, of the others those of their last recording."""
    stacks = cairn.stacks_within(workload.service, windows[cairn.name])
    print(f"  stacks of cairn: {stacks.line()}")
    for peer in peers:
        if not windows[peer.name] or time.monotonic() > options.deadline:
            continue
        try:
            print(f"  stacks of {peer.name}: {peer.stacks(workload.process.pid).line()}")
        except Unreadable as error:
            print(f"# SKIP stacks of {peer.name}: {error}")
    return stacks


# ---- the agent alone ------------------------------------------------------------------------

def measure_agent(cairn, what, build_budget=""):
    """CPU while it builds tables, memory then, and CPU when it has settled."""
    cairn.start(0)
    time.sleep(BUILD_SECONDS)
    pid = cairn.process.pid
    building = cpu_ns(pid) / 1e9
    print_figure(f"start to attached, s, {what}", [cairn.attach_seconds], budget=BUDGETS["attach"])
    print_figure(f"CPU of the first {BUILD_SECONDS} s, s, {what}", [building], budget=build_budget)
    print_figure(f"RSS, MiB, {what}", [status_bytes(pid, "VmRSS") / MIB], "{:.1f}",
                 BUDGETS["idle" if what == "idle" else "with"])
    print_figure(f"RSS peak, MiB, {what}", [status_bytes(pid, "VmHWM") / MIB], "{:.1f}",
                 BUDGETS["peak"])
    print_figure(f"BPF maps, MiB, {what}", [map_bytes(pid) / MIB], "{:.1f}", BUDGETS["maps"])
    time.sleep(SETTLE_SECONDS)
    window = Window(STEADY_SECONDS, lambda: 0, pid)
    print_figure(f"steady, % of a core, {what}", [window.user_percent_of_core()],
                 budget=BUDGETS["steady"])
    cairn.stop()


def bench_workload(workload, cairn, options, folder):
    print(f"\n{workload.name}: {os.cpu_count()} CPUs, {options.frequency} Hz, rounds of "
          f"{options.seconds:g} s, median first")
    try:
        if workload.name == "PyTorch":
            measure_agent(cairn, "with PyTorch", BUDGETS["build"])
        peers = profilers_for(options, folder, workload)
        windows = run_rounds(workload, cairn, peers, options)
        print_pairs(windows, workload.name)
        stacks = print_stacks(workload, cairn, windows, peers, options)
        frames = stacks.frames / max(stacks.count, 1)
        print_figure("BPF per user frame of cairn, ns",
                     [w.ns_per_sample() / frames for w in windows["cairn"]], "{:.0f}")
    finally:
        workload.stop()


def run(options, folder):
    cairn = Cairn(folder, options.frequency, ROOT / options.build)
    try:
        print("the agent alone: median, budget")
        measure_agent(cairn, "idle")
        bench_workload(workloads.native(ROOT / options.build, folder), cairn, options, folder)
        python = workloads.torch_python()
        if python:
            options.deadline += options.limit / 2
            bench_workload(workloads.pytorch(python, folder), cairn, options, folder)
        else:
            print("# SKIP PyTorch: no interpreter has it; BENCH_PYTHON may name one")
    finally:
        cairn.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=os.environ.get("BUILD", "build"))
    parser.add_argument("--repetitions", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=4, help="of one window (%(default)s)")
    parser.add_argument("--warm-up", type=float, default=3, help="of the agent (%(default)s)")
    parser.add_argument("--frequency", type=int, default=99)
    parser.add_argument("--limit", type=float, default=400, help="no round begins after so many seconds")
    parser.add_argument("--peer", default=os.environ.get("PEER"))
    parser.add_argument("--peer-stacks", default=os.environ.get("PEER_STACKS"))
    options = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("bench: sampling the machine needs root: run this with sudo")
    options.deadline = time.monotonic() + options.limit / 2
    with tempfile.TemporaryDirectory(prefix="cairn-bench-") as folder, BpfStatistics():
        run(options, folder)


if __name__ == "__main__":
    main()
