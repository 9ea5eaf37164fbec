#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What profilers cost one workload, and what stacks they give, side by side.

In each round each profiler runs once and a run without any stands beside them; the first of a round is the
last of the next. Every profiler begins with nothing on disk and has the same time: the CPU of its first
6 s counts apart, 10 s later comes a window of steady state. cairn runs twice, with all profile types as it is
installed, and with CPU samples only, which is all that the others take.

CPU is what the kernel accounts to the profiler's processes (a cgroup of its own), and to the BPF programs that
they loaded. What perf does in its interrupt is in neither: it shows in the throughput. Work by CPU is what the
workload did in a second of its own CPU time, which other load on the machine hardly changes. A sample is one of
a CPU that was not idle. Stacks are judged by the same rule for all
(recorded_stacks.py): cairn's of all windows, the others' of the first round. Needs root.

PEER is ended as by Ctrl-C. If it writes stacks, as collapsed text or gzipped pprof, PEER_STACKS=file has them
judged, too; a relative path begins in the folder that the command is started in.
"""
import argparse
import os
import pathlib
import statistics
import sys
import tempfile
import time

import http_load
import workloads
from accounting import BpfPrograms, BpfStatistics, SAMPLING_TYPES, cpu_ns, memory_bytes
from profilers import Bpftrace, Cairn, Peer, Perf, PySpy
from recorded_stacks import Unreadable

ROOT = pathlib.Path(__file__).resolve().parents[1]
MIB = 1 << 20
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
OURS = ("cairn", "cairn-cpu")
NOTHING = "nothing"

# name, heading, unit in decimals, whether less is better (None: neither)
FIGURES = (
    ("sample_us", "BPF a sample, us", 1, True),
    ("samples", "samples/s", 0, None),
    ("processes", "processes, % of a core", 2, None),
    ("cpu", "with BPF, % of a core", 2, True),
    ("first", "CPU of the first 6 s, s", 2, True),
    ("rss", "RSS, MiB", 0, True),
    ("peak", "RSS peak, MiB", 0, True),
    ("kept", "throughput kept", 3, False),
    ("kept_by_cpu", "work by CPU kept", 3, False),
    ("p50", "p50, of that without", 2, True),
    ("p99", "p99, of that without", 2, True),
    ("whole", "whole stacks, %", 2, False),
    ("named", "fully named, %", 2, False),
    ("frames", "frames", 1, None),
)
LESS_IS_BETTER = {name: less for name, _, _, less in FIGURES}
NOISE = 0.02  # medians nearer than this are no loss


# ---- one window ------------------------------------------------------------------------------

def idle_seconds():
    """Of all CPUs, since the machine began."""
    fields = pathlib.Path("/proc/stat").read_text().split("\n", 1)[0].split()
    return (int(fields[4]) + int(fields[5])) / TICKS_PER_SECOND


class Reading:
    """Counts that a window takes the difference of."""

    def __init__(self, workload, profiler_pid=None, programs=None):
        self.time, self.unix_ns, self.clock_ns = time.monotonic(), time.time_ns(), time.monotonic_ns()
        self.work, self.work_cpu_ns = workload.work(), cpu_ns(workload.process.pid)
        self.idle = idle_seconds()
        self.cpu_ns = cpu_ns(profiler_pid) if profiler_pid else 0
        self.runs = programs.read() if programs else {}


class Window:
    """The time between two readings."""

    def __init__(self, workload, before, after, frequency):
        self.from_ns, self.to_ns = before.unix_ns, after.unix_ns
        self.seconds = after.time - before.time
        self.rate = (after.work - before.work) / self.seconds
        self.by_cpu = (after.work - before.work) / max(1, after.work_cpu_ns - before.work_cpu_ns)
        self.latencies = workload.latencies_ms(before.clock_ns, after.clock_ns)
        runs = [(kind, count - before.runs[number][1], ns - before.runs[number][2])
                for number, (kind, count, ns) in after.runs.items() if number in before.runs]
        self.bpf_ns = sum(ns for _, _, ns in runs)
        self.cpu_ns = after.cpu_ns - before.cpu_ns
        busy = os.cpu_count() * self.seconds - (after.idle - before.idle)
        ticks = sum(count for kind, count, _ in runs if kind in SAMPLING_TYPES)
        # A run on an idle CPU is no sample, and hardly costs anything.
        self.samples = min(ticks, busy * frequency)
        self.sample_ns = sum(ns for kind, _, ns in runs if kind in SAMPLING_TYPES)

    def quantile(self, share):
        return http_load.quantile(self.latencies, share) if self.latencies else None

    def figures(self):
        """Those that need no comparison."""
        return {"sample_us": self.sample_ns / self.samples / 1000 if self.sample_ns and self.samples else None,
                "samples": self.samples / self.seconds if self.sample_ns else None,
                "processes": self.cpu_ns / self.seconds / 1e7,
                "cpu": (self.cpu_ns + self.bpf_ns) / self.seconds / 1e7}

    def beside(self, none):
        """Those of a round, compared with the window without a profiler."""
        def ratio(mine, theirs):
            return mine / theirs if mine and theirs else None
        return {"kept": ratio(self.rate, none.rate), "kept_by_cpu": ratio(self.by_cpu, none.by_cpu),
                "p50": ratio(self.quantile(0.5), none.quantile(0.5)),
                "p99": ratio(self.quantile(0.99), none.quantile(0.99))}


def measure_without(workload, options):
    before = Reading(workload)
    time.sleep(options.seconds)
    return Window(workload, before, Reading(workload), options.frequency), {}


def measure(profiler, workload, options, is_first):
    """(window, figures) with the profiler running, or None where it does not keep running. In the first round
    the figures have those of its stacks, but for cairn's, which come from the collector at the end."""
    if profiler.name in OURS:
        profiler.empty_cache()
    profiler.watch(workload.pids(), workload.comms)
    began = time.monotonic()
    try:
        profiler.start(workload.process.pid)
        pid = profiler.process.pid
        time.sleep(max(0, began + options.first_seconds - time.monotonic()))
        if not profiler.is_running():
            return None
        first_ns, programs = cpu_ns(pid), BpfPrograms(pid)
        first_ns += sum(ns for _, _, ns in programs.read().values())
        time.sleep(max(0, began + options.first_seconds + options.settle_seconds - time.monotonic()))
        before = Reading(workload, pid, programs)
        time.sleep(options.seconds)
        window = Window(workload, before, Reading(workload, pid, programs), options.frequency)
        figures = {**window.figures(), "first": first_ns / 1e9, "rss": memory_bytes(pid, "VmRSS") / MIB,
                   "peak": memory_bytes(pid, "VmHWM") / MIB}
        if is_first and profiler.name not in OURS:
            profiler.stop()
            figures |= judge(profiler.name, lambda: profiler.stacks(workload.process.pid))
        return window, figures
    except RuntimeError:
        return None
    finally:
        if profiler.process and profiler.is_running():
            profiler.drop()


def judge(name, stacks_of):
    """Figures of the stacks that stacks_of() returns."""
    try:
        stacks = stacks_of()
    except Unreadable as error:
        print(f"# SKIP stacks of {name}: {error}", flush=True)
        return {}
    if not stacks.count:
        print(f"# SKIP stacks of {name}: it has none of this workload", flush=True)
        return {}
    return {"whole": stacks.percent(stacks.complete), "named": stacks.percent(stacks.named),
            "frames": stacks.frames / stacks.count}


# ---- rounds ----------------------------------------------------------------------------------

def profilers_for(options, folder, workload):
    build = ROOT / options.build
    found = [Cairn(folder, options.frequency, build),
             Cairn(folder, options.frequency, build, "cairn-cpu", "cpu"),
             Perf(folder, options.frequency, "fp"), Perf(folder, options.frequency, "dwarf,16384"),
             Bpftrace(folder, options.frequency)]
    if workload.is_python:
        found += [PySpy(folder, options.frequency, False), PySpy(folder, options.frequency, True)]
    if options.peer:
        found.append(Peer(folder, options.frequency, options.peer, options.peer_stacks))
    usable = []
    for profiler in found:
        reason = profiler.missing()
        if reason:
            print(f"# SKIP {profiler.name}: {reason}")
        elif not options.profiler or profiler.name in options.profiler:
            usable.append(profiler)
    return usable


def say_why_it_ended(profiler):
    log = (profiler.folder / f"{profiler.name}.log").read_text(errors="replace")
    print(f"# SKIP {profiler.name}: it ended by itself: {log.strip()[-300:]}", flush=True)


def run_rounds(workload, profilers, options):
    """A list of rounds: {name: (window, figures)}, and the names of those whose load was shed."""
    rounds, failed, shed = [], set(), set()
    for number in range(options.rounds):
        done = {}
        order = [None, *profilers]
        for profiler in order[number % len(order):] + order[:number % len(order)]:
            if time.monotonic() > options.deadline:
                break
            if profiler is None:
                done[NOTHING] = measure_without(workload, options)
            elif profiler.name not in failed:
                found = measure(profiler, workload, options, number == 0)
                if found:
                    done[profiler.name] = found
                else:
                    failed.add(profiler.name)
                    say_why_it_ended(profiler)
                if profiler.name in OURS and profiler.shed_load():
                    shed.add(profiler.name)
        rounds.append(done)
        if time.monotonic() > options.deadline:
            print(f"# the time is up ({options.limit:g} s): round {number + 1} of {options.rounds} is the last")
            break
    return rounds, shed


def judge_ours(profilers, workload, rounds):
    """{name: figures}, of the stacks in the measured windows."""
    return {profiler.name: judge(profiler.name, lambda profiler=profiler: profiler.stacks_within(
                workload.service, [done[profiler.name][0] for done in rounds if profiler.name in done]))
            for profiler in profilers if profiler.name in OURS}


# ---- the table ---------------------------------------------------------------------------------

def collect(rounds, judged, names):
    """{name: {figure: values, one a round that has it}}."""
    table = {name: {} for name in names}
    for done in rounds:
        for name in names:
            if name in done:
                window, figures = done[name]
                if NOTHING in done and name != NOTHING:
                    figures = {**figures, **window.beside(done[NOTHING][0])}
                for key, value in figures.items():
                    if value is not None:
                        table[name].setdefault(key, []).append(value)
    for name, figures in judged.items():
        table[name] |= {key: [value] for key, value in figures.items()}
    return table


def print_table(table, rounds):
    """Medians; below them the range, where there are more."""
    names = [name for name in table if table[name]]
    print(f"  {'median [range]':<24}" + "".join(f"{name:>24}" for name in names))
    for key, heading, decimals, _ in FIGURES:
        if not any(key in table[name] for name in names):
            continue
        cells = []
        for name in names:
            values = table[name].get(key)
            spread = f" [{min(values):.{decimals}f}..{max(values):.{decimals}f}]" if values and len(values) > 1 else ""
            cells.append(f"{statistics.median(values):.{decimals}f}{spread}" if values else "-")
        print(f"  {heading:<24}" + "".join(f"{cell:>24}" for cell in cells))
    print(f"  {'rounds':<24}" + "".join(f"{sum(name in done for done in rounds):>24}" for name in names))


def is_worse(figure, mine, theirs):
    less = LESS_IS_BETTER[figure]
    if less is None or not mine or not theirs:
        return False
    mine, theirs = statistics.median(mine), statistics.median(theirs)
    return mine > theirs * (1 + NOISE) if less else mine < theirs * (1 - NOISE)


def losses(table, ours="cairn-cpu"):
    """Lines: where others have the better median."""
    for key, heading, decimals, _ in FIGURES:
        mine = table.get(ours, {}).get(key)
        better = [f"{name} {statistics.median(figures[key]):.{decimals}f}" for name, figures in table.items()
                  if name not in OURS and is_worse(key, mine, figures.get(key))]
        if better:
            yield f"{heading}: {statistics.median(mine):.{decimals}f}, {', '.join(better)}"


def print_results(workload, rounds, judged, shed, profilers):
    table = collect(rounds, judged, [profiler.name for profiler in profilers])
    print_table(table, rounds)
    without = [done[NOTHING][0] for done in rounds if NOTHING in done]
    latencies = [(window.quantile(0.5), window.quantile(0.99)) for window in without if window.latencies]
    print(f"  without a profiler: {statistics.median(window.rate for window in without):,.1f} {workload.unit}/s" +
          (f", p50 {statistics.median(p50 for p50, _ in latencies):.1f} ms, "
           f"p99 {statistics.median(p99 for _, p99 in latencies):.1f} ms" if latencies else ""))
    for name in sorted(shed):
        print(f"  {name} was over its overhead budget and reduced what it collects")
    for ours in OURS:
        for line in losses(table, ours):
            print(f"  {ours} loses: {line}")


def run(options, folder):
    began = time.monotonic()
    print(f"{options.name}: {os.cpu_count()} CPUs, {options.frequency} Hz, {options.rounds} rounds, windows of "
          f"{options.seconds:g} s after {options.first_seconds + options.settle_seconds:g} s; load average {os.getloadavg()[0]:.1f}", flush=True)
    try:
        workload = workloads.begin(options.name, ROOT / options.build, folder)
    except workloads.Missing as error:
        print(f"# SKIP {options.name}: {error}")
        return
    profilers = []
    try:
        options.deadline = time.monotonic() + options.limit
        profilers = profilers_for(options, folder, workload)
        rounds, shed = run_rounds(workload, profilers, options)
        judged = judge_ours(profilers, workload, rounds)
        print_results(workload, rounds, judged, shed, profilers)
    finally:
        workload.stop()
        for profiler in profilers:
            profiler.close()
    print(f"  took {time.monotonic() - began:.0f} s; load average at the end {os.getloadavg()[0]:.1f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", choices=workloads.NAMES)
    parser.add_argument("--build", default=os.environ.get("BUILD", "build"))
    parser.add_argument("--rounds", type=int, default=int(os.environ.get("ROUNDS", "5")))
    parser.add_argument("--seconds", type=float, default=5, help="of one window (%(default)s)")
    parser.add_argument("--first-seconds", type=float, default=6, help="that count apart (%(default)s)")
    parser.add_argument("--settle-seconds", type=float, default=10, help="between the two (%(default)s)")
    parser.add_argument("--frequency", type=int, default=99)
    parser.add_argument("--profiler", action="append", help="one of the profilers; may be given again")
    parser.add_argument("--limit", type=float, default=900, help="no profiler starts after so many seconds (%(default)s)")
    parser.add_argument("--peer", default=os.environ.get("PEER"))
    parser.add_argument("--peer-stacks", default=os.environ.get("PEER_STACKS"))
    options = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("bench: sampling the machine needs root: run this with sudo")
    with tempfile.TemporaryDirectory(prefix="cairn-bench-") as folder, BpfStatistics():
        run(options, folder)


if __name__ == "__main__":
    main()
