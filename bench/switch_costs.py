# SPDX-License-Identifier: Apache-2.0
"""Overhead of off-CPU profilers: CPU of processes, time in BPF programs, and the agent's counters of
stack cache hits and captured stacks."""
import pathlib
import re
import time

from accounting import BpfPrograms, bpftool, cpu_ns, held

COUNTERS = pathlib.Path(__file__).resolve().parents[1] / "bpf/bpf_counters.h"
SWITCH_TYPES = ("tracing", "raw_tracepoint", "tracepoint")


def counter_names():
    """As in its enum, in small letters."""
    return [name.lower() for name in re.findall(r"^\tX\((\w+),", COUNTERS.read_text(), re.M)]


def counters(pid):
    """{name: count} of the agent's counters; empty for other programs."""
    mine = held(pid, "map_id")
    for described in bpftool("map", "show"):
        if described["id"] in mine and described.get("name") == "counters":
            row, = bpftool("map", "dump", "id", str(described["id"]))
            by_cpu = [cpu["value"]["of"] for cpu in row["formatted"]["values"]]
            return dict(zip(counter_names(), map(sum, zip(*by_cpu))))
    return {}


class Cost:
    """Of a profiler that runs."""

    def __init__(self, pid):
        self.pid = pid
        self.counted = counters(pid)
        self.programs = BpfPrograms(pid).settle()

    def measure(self, seconds):
        begin, cpu, runs = time.monotonic(), cpu_ns(self.pid), self.programs.read()
        time.sleep(seconds)
        deltas = self.programs.since(runs)
        cpu = cpu_ns(self.pid) - cpu
        spent = time.monotonic() - begin
        counted = counters(self.pid)
        switches = [(runs, ns) for kind, runs, ns in deltas if kind in SWITCH_TYPES and runs]
        # The one that runs at each switch runs most.
        runs, ns = max(switches, default=(0, 0))
        self.ns_per_switch = ns / runs if runs else None
        bpf_ns = sum(ns for _, _, ns in deltas)
        self.processes_percent = 100 * cpu / 1e9 / spent
        self.percent_of_core = self.processes_percent + 100 * bpf_ns / 1e9 / spent
        self.counted = {name: counted[name] - self.counted.get(name, 0) for name in counted}
        return self


def stack_cache_lines(costs):
    """How often the stack cache hit, and how often a checked hit was stale."""
    sums = {}
    for cost in costs:
        for name, count in (cost.counted if cost else {}).items():
            sums[name] = sums.get(name, 0) + count
    names = [name for name in sums if sums[name] and
             re.search("cache|switch|budget|off_cpu|sweep", name)]
    if names:
        yield "counters: " + ", ".join(f"{name} {sums[name]:,}" for name in names)
    # Hits that are checked are unwound, too.
    hits = sums.get("stack_cache_hits", 0)
    misses = sums.get("off_cpu_unwound", 0) - sums.get("stack_cache_checked", 0)
    if hits:
        yield f"stack cache: {100 * hits / (hits + misses):.3f} % hits"
    if sums.get("stack_cache_checked"):
        stale = sums.get("stack_cache_stale", 0)
        yield (f"stack cache: {stale:,} of {sums['stack_cache_checked']:,} checked were stale, "
               f"{100 * stale / sums['stack_cache_checked']:.4f} %")
