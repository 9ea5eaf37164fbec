# SPDX-License-Identifier: Apache-2.0
"""Programs that measure themselves, compared with the collector's answers for the same threads."""
import itertools
import json
import os
import pathlib
import subprocess
import sys
import time

from fleet import ROOT, FlameGraph, build_folder, wait_until
from contract import TYPE

sys.path.append(str(ROOT / "bench"))
import switch_costs  # noqa: E402 pylint: disable=wrong-import-position

SOURCE = pathlib.Path(__file__).resolve().parent / "programs"
OFF_CPU = TYPE.OFF_CPU
SCHED_DELAY = TYPE.SCHED_DELAY
WALL = TYPE.WALL
THROTTLED = TYPE.THROTTLED
STATES = ("running", "run_queue", "blocked")
MS = 1_000_000
FILE_BYTES = 64 << 20
SETTLE_SECONDS = 20
# A thread that reads from the disk also pays for completion interrupts and for the hypervisor's I/O: ten times the others' share, and a third of its time on the CPU at most.
STOLEN_UNEVENLY, STOLEN_SHARE_MAX = 10, 0.35
# With more steal time than this the hypervisor also wakes idle CPUs late: one thread that is often woken
# may lose all of it.
STOLEN_QUIET_SHARE = 0.03
TICK_NS = 1_000_000_000 // os.sysconf("SC_CLK_TCK")

_numbers = itertools.count(1)


class Bounds:
    """Tolerances, and how long the programs run. Both sides use the kernel's clocks, so load changes
    little; the short run tolerates its edges."""

    def __init__(self, whole, machine_seconds=None):
        self.whole = whole
        self.machine_seconds = machine_seconds or (60 if whole else 8)
        self.seconds = 25 if whole else 10
        self.share = 0.02 if whole else 0.05     # of a duration
        self.of_elapsed = 0.002 if whole else 0.01  # and of the thread's life
        self.named = 0.99 if whole else 0.90
        self.complete = 0.97 if whole else 0.7
        self.in_function = 0.9 if whole else 0.4  # minimum share of sampled time in the function
        self.classed = 0.98 if whole else 0.90


def build_programs():
    folder = build_folder() / "wall"
    folder.mkdir(parents=True, exist_ok=True)
    newest = max(path.stat().st_mtime for path in SOURCE.iterdir())
    for source in SOURCE.glob("*.c"):
        target = folder / source.stem
        if not target.exists() or target.stat().st_mtime < newest:
            subprocess.run(["gcc", "-std=gnu11", "-D_GNU_SOURCE", "-O2", "-g", "-Wall", "-Wextra",
                            "-Werror", "-pthread", f"-I{ROOT}", str(source), "-o", str(target)], check=True)


def unique(name):
    return f"wall-{name}-{os.getpid()}-{next(_numbers)}"


def program_argv(name, *arguments):
    if name.endswith(".py"):
        return [sys.executable, "-B", str(SOURCE / name), *map(str, arguments)]
    return [str(build_folder() / "wall" / name), *map(str, arguments)]


def cpu_times():
    """CPU time of threads, and of interrupts and steal, on all CPUs since boot."""
    words = pathlib.Path("/proc/stat").read_text().splitlines()[0].split()
    user, nice, system, _idle, _iowait, irq, softirq, steal = map(int, words[1:9])
    return user + nice + system, irq + softirq + steal


class Program:
    """A program under its own service name, with its own measurements after its end."""

    def __init__(self, name, *arguments, cgroup=None):
        self.service = unique(name.split(".")[0])
        self.from_ns = time.time_ns()

        def enter():
            (cgroup / "cgroup.procs").write_text(str(os.getpid()))
        self.process = subprocess.Popen(
            program_argv(name, *arguments), stdout=subprocess.PIPE, text=True,
            env={**os.environ, "OTEL_SERVICE_NAME": self.service},
            preexec_fn=enter if cgroup else None)
        self.truth = {}
        self.to_ns = 0
        self.began = cpu_times()
        self.stolen_share = 0.0
        self.stolen_from_one_ns = 0

    def finish(self):
        output, _ = self.process.communicate(timeout=300)
        self.to_ns = time.time_ns()
        assert self.process.returncode == 0, (self.service, self.process.returncode)
        self.truth = json.loads(output)
        ran, stolen = (now - then for now, then in zip(cpu_times(), self.began))
        self.stolen_share = min(STOLEN_SHARE_MAX, STOLEN_UNEVENLY * stolen / max(1, ran))
        if stolen > STOLEN_QUIET_SHARE * ran:
            self.stolen_from_one_ns = stolen * TICK_NS
            print(f"  {self.service}: the machine took {stolen * TICK_NS / MS:.0f} ms beside "
                  f"{ran * TICK_NS / MS:.0f} ms that threads ran: what they waited is compared within "
                  "that")
        return self

    def stolen_ns(self, truth):
        """Interrupt and steal time while the thread had a CPU. The program counts it as blocked, for its
        clocks do not see it; cairn counts it as run-queue time, which is correct."""
        return max(self.stolen_share * truth["running"], self.stolen_from_one_ns)

    def lived_ns(self):
        """A lower bound: of its threads, or of its children as reported."""
        return sum(thread["life"]["elapsed"] for thread in self.truth["threads"]) + \
            sum(part["least"] for part in self.truth.values() if isinstance(part, dict))

    def threads(self):
        """{name: times}; threads of one name are summed."""
        found = {}
        for thread in self.truth["threads"]:
            sums = found.setdefault(thread["thread"], {**thread, "life": dict.fromkeys(
                thread["life"], 0), "in_waits": dict.fromkeys(thread["in_waits"], 0), "waits": 0})
            sums["waits"] += thread["waits"]
            for part in ("life", "in_waits"):
                for name, ns in thread[part].items():
                    sums[part][name] += ns
        return found


class Fleet:
    def __init__(self, collector, agent, folder):
        self.api = collector.api
        self.agent = agent
        self.folder = folder
        self.started = time.time()  # all programs started later

    def file(self):
        """64 MiB on disk that can be dropped from the page cache; None on a memory file system."""
        path = build_folder() / "wall" / "file"
        if not path.exists() or path.stat().st_size != FILE_BYTES:
            path.write_bytes(os.urandom(FILE_BYTES))
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        try:
            os.close(os.open(path, os.O_RDONLY | os.O_DIRECT))
        except OSError:
            return None
        return path

    def by_label(self, label, selector, profile_type, **parameters):
        """{value of the label: total}."""
        when = {"from_": str(self.started), "to": str(time.time()), **parameters}
        answer = self.api.get("series", query=selector, type=profile_type, group_by=label, **when)
        return {series["group"]: series["total"] for series in answer["series"]}

    def counters(self):
        """The agent's counters of its BPF programs."""
        return switch_costs.counters(self.agent.process.pid)

    def states(self, service, thread=None, **parameters):
        """Nanoseconds running, waiting and blocked."""
        selector = f'{{service="{service}"' + (f',thread="{thread}"}}' if thread else "}")
        found = self.by_label("state", selector, WALL, **parameters)
        return {state: found.get(state, 0) for state in STATES}

    def waits(self, service, thread):
        """Nanoseconds blocked by class."""
        return self.by_label("wait", f'{{service="{service}",thread="{thread}"}}', OFF_CPU)

    def graph(self, service, thread, profile_type=OFF_CPU, more="", **when):
        query = f'{{service="{service}",thread="{thread}"{more}}}'
        return FlameGraph(self.api.get("merge", query=query, type=profile_type, max_nodes=100000,
                                       **when))

    def wait_for(self, programs):
        """Wait until all their data has arrived. On a busy machine the agent may be late."""
        seen = [None]
        deadline = time.monotonic() + SETTLE_SECONDS

        def settled():
            now = [sum(self.states(program.service).values()) for program in programs]
            late = any(ns < 0.9 * program.lived_ns() for ns, program in zip(now, programs))
            done = now == seen[0] and (not late or time.monotonic() > deadline)
            seen[0] = now
            if not done:
                time.sleep(1.5)
            return done
        wait_until("the programs' wall clock", 2 * SETTLE_SECONDS, settled)


class Comparison:
    """Collects all failures, so that one does not hide the others; prints a table."""

    def __init__(self):
        self.wrong = []

    def check(self, what, true, measured, room, less=0, more=0):
        """@less and @more: tolerance on one side only, in addition to @room."""
        error = measured - true
        fits = -room - less <= error <= room + more
        share = f"{100 * error / true:+.2f} %" if true else ""
        print(f"  {what:<44} true {true / MS:10.1f} ms  cairn {measured / MS:10.1f} ms  {share:>9}"
              f"{'' if fits else '   <-- more than ' + format(room / MS, '.1f') + ' ms off'}")
        if not fits:
            self.wrong.append(f"{what}: true {true / MS:.1f} ms, cairn {measured / MS:.1f} ms")

    def check_share(self, what, share, least):
        fits = share >= least
        print(f"  {what:<44} {100 * share:7.2f} %{'' if fits else '   <-- less than ' + str(least)}")
        if not fits:
            self.wrong.append(f"{what}: {100 * share:.2f} %")

    def done(self):
        assert not self.wrong, "\n" + "\n".join(self.wrong)
