# SPDX-License-Identifier: Apache-2.0
"""What programs cost, as the kernel accounts it: CPU of a process tree, time in BPF programs, memory."""
import functools
import json
import os
import pathlib
import re
import subprocess
import time

BPF_STATS = pathlib.Path("/proc/sys/kernel/bpf_stats_enabled")
BPF_COST = pathlib.Path(__file__).resolve().parents[1] / "agent/bpf_cost.c"
NAME_BYTES = 15  # the kernel cuts programs' names there
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
SAMPLING_TYPES = ("perf_event",)
FAULTS = "fault"  # in the name of a program that has a perf event, too, but samples page faults


class BpfStatistics:
    """The kernel counts runs and time of BPF programs while the block runs."""

    def __enter__(self):
        self.before = BPF_STATS.read_text()
        BPF_STATS.write_text("1\n")

    def __exit__(self, *_):
        BPF_STATS.write_text(self.before)


def descriptors(pid, *fields):
    """What the kernel tells of the process's descriptors (proc(5), fdinfo) that have the fields."""
    for path in pathlib.Path(f"/proc/{pid}/fdinfo").glob("*"):
        try:
            lines = path.read_text().splitlines()
        except OSError:
            continue
        found = dict(line.split(":", 1) for line in lines if ":" in line)
        if all(field in found for field in fields):
            yield found


@functools.cache
def run_by_agent():
    """Names, cut, of the programs that cairn runs in system calls of its own: their time is in its CPU
    time already."""
    names = re.search(r"run_by_agent\[\] = \{(.*?)\};", BPF_COST.read_text(), re.S).group(1)
    return {name[:NAME_BYTES] for name in re.findall(r'"(\w+)"', names)}


def runs_by_itself(program):
    """@program: as bpftool tells of it."""
    return program.get("name", "")[:NAME_BYTES] not in run_by_agent()


def bpf_programs(pid):
    """BPF programs that the process and its descendants hold, themselves or through links, and that
    run by themselves: id to (type, runs, nanoseconds)."""
    held = {int(found["prog_id"]) for process in tree(pid)
            for found in descriptors(process, "prog_id")}
    if not held:
        return {}
    said = subprocess.run(["bpftool", "-j", "prog", "show"], capture_output=True, text=True,
                          check=True).stdout
    return {program["id"]: (FAULTS if FAULTS in program.get("name", "") else program["type"],
                            program.get("run_cnt", 0), program.get("run_time_ns", 0))
            for program in json.loads(said) if program["id"] in held and runs_by_itself(program)}


def map_bytes(pid):
    """BPF maps that the process holds, each once."""
    return sum({int(found["map_id"]): int(found["memlock"])
                for found in descriptors(pid, "map_id", "memlock")}.values())


def status_bytes(pid, field):
    text = pathlib.Path(f"/proc/{pid}/status").read_text()
    return int(re.search(rf"^{field}:\s+(\d+) kB", text, re.M).group(1)) * 1024


def tree(pid):
    """The process and its descendants that are alive."""
    found = [pid]
    for parent in found:
        for task in pathlib.Path(f"/proc/{parent}/task").glob("*/children"):
            try:
                found += [int(child) for child in task.read_text().split()]
            except OSError:
                pass
    return found


def _process_cpu_ns(pid):
    """Of its threads that live, exact, and of children that it has waited for, in ticks."""
    total = 0
    for path in pathlib.Path(f"/proc/{pid}/task").glob("*/schedstat"):
        try:
            total += int(path.read_text().split()[0])
        except OSError:
            pass
    try:
        fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return total
    return total + (int(fields[13]) + int(fields[14])) * 1_000_000_000 // TICKS_PER_SECOND


def cpu_ns(pid):
    return sum(_process_cpu_ns(process) for process in tree(pid))


class Window:
    """A stretch of time, read at both ends: @count() is the workload's progress, @pid the profiler
    (None: none)."""

    def __init__(self, seconds, count, pid=None):
        self.from_ns = time.time_ns()
        before = self._read(count, pid)
        time.sleep(seconds)
        after = self._read(count, pid)
        self.to_ns = time.time_ns()
        self.seconds = after["now"] - before["now"]
        self.work = (after["work"] - before["work"]) / self.seconds
        self.cpu_ns = after["cpu"] - before["cpu"]
        runs = [(kind, runs - before["bpf"][number][1], ns - before["bpf"][number][2])
                for number, (kind, runs, ns) in after["bpf"].items() if number in before["bpf"]]
        self.bpf_ns = sum(ns for _, _, ns in runs)
        self.samples = sum(count for kind, count, _ in runs if kind in SAMPLING_TYPES)
        self.sample_ns = sum(ns for kind, _, ns in runs if kind in SAMPLING_TYPES)
        self.rss = status_bytes(pid, "VmRSS") if pid else 0

    @staticmethod
    def _read(count, pid):
        return {"bpf": bpf_programs(pid) if pid else {}, "now": time.monotonic(),
                "work": count(), "cpu": cpu_ns(pid) if pid else 0}

    def ns_per_sample(self):
        return self.sample_ns / self.samples if self.samples else float("nan")

    def percent_of_core(self):
        """Everything accounted to the profiler."""
        return 100 * (self.cpu_ns + self.bpf_ns) / self.seconds / 1e9

    def user_percent_of_core(self):
        """Its processes only."""
        return 100 * self.cpu_ns / self.seconds / 1e9
