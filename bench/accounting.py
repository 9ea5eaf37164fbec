# SPDX-License-Identifier: Apache-2.0
"""The kernel's accounting of programs: CPU of a group of processes, time in BPF programs, memory."""
import ctypes
import functools
import itertools
import json
import os
import pathlib
import platform
import re
import subprocess
import time

GROUP_PREFIX = "cairn-bench-"
GROUP_END_SECONDS = 10
BPF_SYSTEM_CALLS = {"x86_64": 321, "aarch64": 280}
BPF_ENABLE_STATS, BPF_STATS_RUN_TIME = 32, 0
BPF_COST = pathlib.Path(__file__).resolve().parents[1] / "agent/overhead/bpf_cost.c"
NAME_BYTES = 15  # the kernel cuts programs' names there
BPFTOOL_TRIES = 5  # it fails if a program disappears while it lists
SETTLE_SECONDS = 1.5  # a profiler has processed an ended program
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
SAMPLING_TYPES = ("perf_event",)
FAULTS = "fault"  # in the name of a program that has a perf event, too, but samples page faults


@functools.cache
def cgroup2():
    """Where cgroups of version 2 are mounted; None: nowhere."""
    for line in pathlib.Path("/proc/mounts").read_text().splitlines():
        _, place, kind, *_ = line.split()
        if kind == "cgroup2":
            return pathlib.Path(place)
    return None


class Group:
    """A cgroup for one profiler or workload: it counts the CPU of all that was ever started in it, of
    processes that have ended or were adopted by others, too. Without cgroups of version 2, or the right to
    make one, it does nothing, and the process tree is counted."""

    numbers = itertools.count(1)

    def __init__(self, name):
        self.path = cgroup2() and cgroup2() / f"{GROUP_PREFIX}{os.getpid()}-{name}-{next(self.numbers)}"
        try:
            if self.path:
                self.path.mkdir()
        except OSError:
            self.path = None

    def enter(self):
        """For a child, before it executes."""
        if self.path:
            (self.path / "cgroup.procs").write_text("0")

    def end(self):
        """End what is left in it. A process that is ending keeps the cgroup busy when it is in no list any more."""
        deadline = time.monotonic() + GROUP_END_SECONDS
        while self.path:
            (self.path / "cgroup.kill").write_text("1")
            try:
                self.path.rmdir()
                self.path = None
            except OSError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.02)


def group_of(pid):
    """The folder of its Group; None: it is in none."""
    try:
        lines = pathlib.Path(f"/proc/{pid}/cgroup").read_text().splitlines()
    except OSError:
        return None
    for line in lines:
        if line.startswith(f"0::/{GROUP_PREFIX}"):
            return cgroup2() / line.removeprefix("0::/")
    return None


def group_pids(path):
    return [int(pid) for pid in (path / "cgroup.procs").read_text().split()]


def group_cpu_ns(path):
    return 1000 * int(re.search(r"^usage_usec (\d+)", (path / "cpu.stat").read_text(), re.M).group(1))


class BpfStatistics:
    """The kernel counts runs and time of BPF programs while the block runs. A descriptor asks for that, since
    others may write the sysctl meanwhile: what a profiler of theirs counts then is not all."""

    def __enter__(self):
        attributes = (ctypes.c_uint32 * 1)(BPF_STATS_RUN_TIME)
        self.file = ctypes.CDLL(None, use_errno=True).syscall(
            BPF_SYSTEM_CALLS[platform.machine()], BPF_ENABLE_STATS, attributes, ctypes.sizeof(attributes))
        if self.file < 0:
            raise OSError(ctypes.get_errno(), "BPF_ENABLE_STATS")

    def __exit__(self, *_):
        os.close(self.file)


def descriptors(pid, *fields):
    """The fdinfo fields (proc(5)) of the process's descriptors that have them."""
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


def bpftool(*arguments):
    for _ in range(BPFTOOL_TRIES):
        said = subprocess.run(["bpftool", "-j", *arguments], capture_output=True, text=True, check=False)
        if said.returncode == 0 and said.stdout:
            return json.loads(said.stdout)
    return []


def held(pid, field):
    """The distinct values of @field in the descriptors of the process and its descendants."""
    return {int(found[field]) for process in tree(pid) for found in descriptors(process, field)}


class BpfPrograms:
    """BPF programs that a process and its descendants hold, themselves or through links, and that run by
    themselves. To ask for their names is to start a program, which a profiler looks at, too: that is done
    once, and settle() waits until it is over."""

    def __init__(self, pid):
        self.pid = pid
        mine = held(pid, "prog_id")
        self.kinds = {program["id"]: self._kind(program)
                      for program in (bpftool("prog", "show") if mine else ())
                      if program["id"] in mine and
                      program.get("name", "")[:NAME_BYTES] not in run_by_agent()}

    def settle(self):
        if self.kinds:
            time.sleep(SETTLE_SECONDS)
        return self

    @staticmethod
    def _kind(program):
        return FAULTS if FAULTS in program.get("name", "") else program["type"]

    def read(self):
        """{id: (kind, runs, nanoseconds)}."""
        found = {int(found["prog_id"]): (int(found["run_cnt"]), int(found["run_time_ns"]))
                for process in tree(self.pid)
                for found in descriptors(process, "prog_id", "run_cnt", "run_time_ns")}
        if not self.kinds.keys() <= found.keys():  # a link's descriptor lacks the counts
            found |= {program["id"]: (program.get("run_cnt", 0), program.get("run_time_ns", 0))
                     for program in bpftool("prog", "show")}
        return {number: (kind, *found[number]) for number, kind in self.kinds.items()
                if number in found}

    def since(self, before):
        """[(kind, runs, nanoseconds)] since @before was read."""
        return [(kind, runs - before[number][1], ns - before[number][2])
                for number, (kind, runs, ns) in self.read().items() if number in before]


def map_bytes(pid):
    """BPF maps that the process holds, each once."""
    return sum({int(found["map_id"]): int(found["memlock"])
                for found in descriptors(pid, "map_id", "memlock")}.values())


def status_bytes(pid, field):
    """Of one process; 0 where it has ended."""
    try:
        text = pathlib.Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    found = re.search(rf"^{field}:\s+(\d+) kB", text, re.M)
    return int(found.group(1)) * 1024 if found else 0


def memory_bytes(pid, field):
    """Of all processes of its group or tree: what they share counts for each of them."""
    return sum(status_bytes(process, field) for process in tree(pid))


def tree(pid):
    """The processes of its group; without one the process and its descendants that are alive."""
    group = group_of(pid)
    if group:
        return group_pids(group)
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
    """Of all processes of its group, or of its tree."""
    group = group_of(pid)
    if group:
        return group_cpu_ns(group)
    return sum(_process_cpu_ns(process) for process in tree(pid))
