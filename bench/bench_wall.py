#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Overhead of wall-clock profiling: programs that switch a lot, and a service under a fixed load, with and
without a profiler of their waits.

Each profiler's window lies between two windows without any, and is compared with these; "nothing"
does the same without a profiler, so its range is the noise. The order is random in each round.
Peers, where they are installed: bpftrace and perf, which record a stack at each sched_switch, and
PEER='start command' ("{pid}" becomes the workload's pid). Needs root.
"""
import argparse
import os
import pathlib
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time

import switch_costs
from accounting import BpfStatistics, cpu_ns
from inference_load import Service
from profilers import Bpftrace, Cairn, Peer, Perf
from workloads import Workload

ROOT = pathlib.Path(__file__).resolve().parents[1]
WARM_UP_SECONDS = 4  # an agent that has just started builds tables


class Nothing:
    """No profiler at all."""

    name = "nothing"
    settle_seconds = WARM_UP_SECONDS
    process = None

    def start(self, pid):
        pass

    def is_running(self):
        return True

    def stop(self):
        pass


class BpftraceSwitches(Bpftrace):
    name = "bpftrace"

    def argv(self, pid):
        return ["bpftrace", "-e", "tracepoint:sched:sched_switch { @[kstack, ustack, comm] = count(); } "
                                  "END { clear(@); }"]


class PerfSwitches(Perf):
    def __init__(self, folder):
        super().__init__(folder, 0, "fp")
        self.name = "perf"

    def argv(self, pid):
        return ["perf", "record", "-q", "-a", "-e", "sched:sched_switch", "--call-graph", "fp", "-o",
                str(self.file)]

    def stop(self):
        super().stop()
        self.file.unlink(missing_ok=True)  # gigabytes


def profilers_for(options, folder, cairn):
    found = [cairn, BpftraceSwitches(folder, 0), PerfSwitches(folder)]
    if options.peer:
        found.append(Peer(folder, 0, options.peer))
    usable = [Nothing()]
    for profiler in found:
        reason = profiler.missing()
        if reason:
            print(f"# SKIP {profiler.name}: {reason}")
        else:
            usable.append(profiler)
    return usable


# ---- rounds ---------------------------------------------------------------------------------

class Row:
    """A window compared with its neighbours without a profiler."""

    def __init__(self, measured, before, after):
        self.measured = measured
        self.kept = measured.rate / statistics.mean((before.rate, after.rate))
        self.kept_by_cpu = measured.by_cpu / statistics.mean((before.by_cpu, after.by_cpu))


class Awake:
    """The workload runs in the block; else it rests, and leaves the machine to what starts or stops."""

    def __init__(self, workload):
        self.process = workload.process

    def __enter__(self):
        self.process.send_signal(signal.SIGCONT)
        time.sleep(0.2)

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGSTOP)


class Loaded:
    """The service has its load in the block, and @seconds in all."""

    def __init__(self, service, seconds):
        self.load = threading.Thread(target=service.measure, args=(seconds,))

    def __enter__(self):
        self.load.start()
        time.sleep(0.5)

    def __exit__(self, *_):
        self.load.join()


def at_work(workload, seconds):
    return Loaded(workload, seconds + 1) if isinstance(workload, Service) else Awake(workload)


class Rate:
    """Turns of a workload that counts them: in a second, and in a second of its threads' CPU time,
    which other load on the machine leaves alone."""

    def __init__(self, workload, seconds):
        pid = workload.process.pid
        with Awake(workload):
            begin, before, cpu = time.monotonic(), workload.work(), cpu_ns(pid)
            time.sleep(seconds)
            turns = workload.work() - before
            self.rate = turns / (time.monotonic() - begin)
            self.by_cpu = turns / max(1, cpu_ns(pid) - cpu) * 1e9
        self.cost = None


def measure_with(profiler, measure, workload, options):
    """A window with it, and after it what it costs; None where it does not keep running."""
    try:
        profiler.start(workload.process.pid)
        time.sleep(WARM_UP_SECONDS if profiler.name == "cairn" else profiler.settle_seconds)
        if not profiler.is_running():
            return None
        window = measure(workload, options.seconds)
        if profiler.process:
            seconds = options.seconds if isinstance(window, Rate) else 3 * options.seconds
            cost = switch_costs.Cost(profiler.process.pid)
            with at_work(workload, seconds), BpfStatistics():
                window.cost = cost.measure(seconds)
        return window
    except RuntimeError:
        return None
    finally:
        if profiler.process or profiler.name == "nothing":
            profiler.stop()
        time.sleep(0.5)


def run_rounds(workload, measure, profilers, options):
    """{name: rows}."""
    rows = {profiler.name: [] for profiler in profilers}
    failed = set()
    for _ in range(options.repetitions):
        order = list(profilers)
        random.shuffle(order)
        before = measure(workload, options.seconds)
        for profiler in order:
            if time.monotonic() > options.deadline or profiler.name in failed:
                continue
            window = measure_with(profiler, measure, workload, options)
            after = measure(workload, options.seconds)
            if window:
                rows[profiler.name].append(Row(window, before, after))
            else:
                failed.add(profiler.name)
                log = (profiler.folder / f"{profiler.name}.log").read_text(errors="replace")
                print(f"# SKIP {profiler.name}: it ended by itself: {log.strip()[-300:]}")
            before = after
    return rows


# ---- tables ---------------------------------------------------------------------------------

def spread(values, form="{:.3f}"):
    """Median and range."""
    values = [value for value in values if value is not None]
    if not values:
        return "-"
    return (f"{form.format(statistics.median(values))} "
            f"[{form.format(min(values))}..{form.format(max(values))}]")


def print_load():
    print(f"  load average {' '.join(f'{load:.2f}' for load in os.getloadavg())} "
          f"on {os.cpu_count()} CPUs", flush=True)


def print_costs(row_costs):
    """The columns that all tables share."""
    return (f"{spread([cost.ns_per_switch for cost in row_costs], '{:.0f}'):>20} "
            f"{spread([cost.percent_of_core for cost in row_costs], '{:.2f}'):>22} "
            f"{spread([cost.processes_percent for cost in row_costs], '{:.2f}'):>20}")


HEADINGS = f"{'BPF a switch, ns':>20} {'BPF + CPU, % of core':>22} {'processes only, %':>20}"


def print_switches(rows, budget):
    print(f"  {'':<10} {'turns/s kept':>24} {'turns by CPU kept':>24} "
          f"{'switches/s':>28} {HEADINGS}   n")
    for name, mine in rows.items():
        costs = [row.measured.cost for row in mine if row.measured.cost]
        print(f"  {name:<10} {spread([row.kept for row in mine]):>24} "
              f"{spread([row.kept_by_cpu for row in mine]):>24} "
              f"{spread([2 * row.measured.rate for row in mine], '{:,.0f}'):>28} "
              f"{print_costs(costs)}   {len(mine)}{budget if name == 'cairn' else ''}")
    for line in switch_costs.stack_cache_lines(row.measured.cost for row in rows.get("cairn", ())):
        print(f"  {line}")
    print_load()


def bench_switches(what, cpus, work_ns, budget, profilers, options, folder):
    print(f"\n{what}")
    counter = folder / f"switches-{len(list(folder.iterdir()))}.counter"
    realtime = ["chrt", "--fifo", "1"] if options.realtime else []
    workload = Workload(
        "switches", [*realtime, str(ROOT / options.build / "bench/switches"), "--cpus", ",".join(map(str, cpus)),
                     "--work-ns", str(work_ns), "--counter", str(counter)], counter, 64)
    try:
        workload.wait_until_busy()
        print_switches(run_rounds(workload, Rate, profilers, options), budget)
    finally:
        workload.stop()


def bench_service(profilers, options, folder):
    seconds = 3 * options.seconds
    print(f"\nservice: inference at {options.rate:g} requests/s, two workers, windows of {seconds:g} s")
    service = Service(ROOT, folder, options.rate)

    def measure(workload, window_seconds):
        return workload.measure(3 * window_seconds)
    try:
        rows = run_rounds(service, measure, profilers, options)
        print(f"  {'':<10} {'p50, ms':>24} {'p99, ms':>28} {HEADINGS}   n")
        for name, mine in rows.items():
            costs = [row.measured.cost for row in mine if row.measured.cost]
            print(f"  {name:<10} {spread([row.measured.p50_ms for row in mine], '{:.2f}'):>24} "
                  f"{spread([row.measured.p99_ms for row in mine], '{:.2f}'):>28} "
                  f"{print_costs(costs)}   {len(mine)}"
                  f"{'   budget: CPU <= 1 %, p99 in the range of nothing' if name == 'cairn' else ''}")
        for line in switch_costs.stack_cache_lines(row.measured.cost for row in rows.get("cairn", ())):
            print(f"  {line}")
        print_load()
    finally:
        service.stop()


# What may be named by --only: title, CPUs of the threads, work between, budget.
def switch_benches():
    cpus = sorted(os.sched_getaffinity(0))
    here, there = cpus[0], cpus[-1]
    return {
        "pingpong": ("pingpong: a pair on one CPU, at full speed", [here, here], 0,
                     "   budget: >= 0.80 kept, <= 400 ns"),
        "across": ("across: a pair across two CPUs, at full speed", [here, there], 0,
                   "   budget: >= 0.80 kept"),
        "every": ("every: a pair on each CPU, at full speed", [cpu for cpu in cpus for _ in range(2)], 0,
                  "   budget: >= 0.80 kept, <= 400 ns"),
        "work": ("work: a pair on one CPU, with work between", [here, here], 6000,
                 "   budget: >= 0.97 kept at >= 100,000 switches/s"),
    }


def main():
    benches = switch_benches()
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=os.environ.get("BUILD", "build"))
    parser.add_argument("--only", action="append", choices=[*benches, "service"],
                        help="one of the workloads; may be given again")
    parser.add_argument("--profiler", action="append", help="one of the profilers; may be given again")
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3, help="of one window (%(default)s)")
    parser.add_argument("--rate", type=float, default=30, help="requests/s of the service (%(default)s)")
    parser.add_argument("--limit", type=float, default=240,
                        help="no round of a workload begins after so many seconds (%(default)s)")
    parser.add_argument("--realtime", action="store_true",
                        help="switch at real-time priority, where the machine has other load")
    parser.add_argument("--peer", default=os.environ.get("PEER"))
    options = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("bench: sampling the machine needs root: run this with sudo")
    with tempfile.TemporaryDirectory(prefix="cairn-bench-") as name:
        run(benches, options, pathlib.Path(name))


def run(benches, options, folder):
    cairn = Cairn(folder, 99, ROOT / options.build)
    try:
        profilers = [profiler for profiler in profilers_for(options, folder, cairn)
                     if not options.profiler or profiler.name in options.profiler]
        print(f"the wall clock: {options.repetitions} rounds, windows of {options.seconds:g} s; "
              "median [range]")
        for key, (what, cpus, work_ns, budget) in benches.items():
            options.deadline = time.monotonic() + options.limit
            if not options.only or key in options.only:
                bench_switches(what, cpus, work_ns, budget, profilers, options, folder)
        options.deadline = time.monotonic() + options.limit
        if not options.only or "service" in options.only:
            if shutil.which("gcc"):
                bench_service(profilers, options, folder)
    finally:
        cairn.close()


if __name__ == "__main__":
    try:
        main()
    except subprocess.CalledProcessError as error:
        sys.exit(f"bench: {error}")
