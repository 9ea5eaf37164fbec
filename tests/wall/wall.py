# SPDX-License-Identifier: Apache-2.0
"""Programs that keep books, and what the collector says of the same threads."""
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
STATES = ("running", "waiting", "blocked")
MS = 1_000_000
FILE_BYTES = 64 << 20
SETTLE_SECONDS = 20
# A thread that reads from the disk has its completions' interrupts, and its CPU taken by the hypervisor
# that serves them: ten times the others' share, and a third of its time on the CPU at most.
TAKEN_UNEVENLY, TAKEN_SHARE_MAX = 10, 0.35
# A hypervisor that takes more than this is late to wake idle CPUs, too: all of it may be taken from one
# thread that is woken there again and again.
TAKEN_QUIET_SHARE = 0.03
TICK_NS = 1_000_000_000 // os.sysconf("SC_CLK_TCK")

_numbers = itertools.count(1)


class Bounds:
    """How exact it must be, and how long the programs run. What is measured is the kernel's own
    time on both sides, so a loaded machine changes little; the short run leaves room for its ends."""

    def __init__(self, whole, machine_seconds=None):
        self.whole = whole
        self.machine_seconds = machine_seconds or (60 if whole else 8)
        self.seconds = 25 if whole else 10
        self.share = 0.02 if whole else 0.05     # of a duration
        self.of_elapsed = 0.002 if whole else 0.01  # and of the thread's life
        self.named = 0.99 if whole else 0.90
        self.complete = 0.97 if whole else 0.7
        self.in_function = 0.9 if whole else 0.4  # of what is sampled, the share of a part
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
    """Of all CPUs since boot: what threads ran, and what interrupts and a hypervisor took."""
    words = pathlib.Path("/proc/stat").read_text().splitlines()[0].split()
    user, nice, system, _idle, _iowait, irq, softirq, steal = map(int, words[1:9])
    return user + nice + system, irq + softirq + steal


class Program:
    """A program under its own service name, and its books when it has ended."""

    def __init__(self, name, *arguments, cgroup=None):
        self.service = unique(name.split(".")[0])
        self.from_ns = time.time_ns()

        def enter():
            (cgroup / "cgroup.procs").write_text(str(os.getpid()))
        self.process = subprocess.Popen(
            program_argv(name, *arguments), stdout=subprocess.PIPE, text=True,
            env={**os.environ, "OTEL_SERVICE_NAME": self.service},
            preexec_fn=enter if cgroup else None)
        self.books = {}
        self.to_ns = 0
        self.began = cpu_times()
        self.taken_share = 0.0
        self.taken_from_one_ns = 0

    def finish(self):
        output, _ = self.process.communicate(timeout=300)
        self.to_ns = time.time_ns()
        assert self.process.returncode == 0, (self.service, self.process.returncode)
        self.books = json.loads(output)
        ran, taken = (now - then for now, then in zip(cpu_times(), self.began))
        self.taken_share = min(TAKEN_SHARE_MAX, TAKEN_UNEVENLY * taken / max(1, ran))
        if taken > TAKEN_QUIET_SHARE * ran:
            self.taken_from_one_ns = taken * TICK_NS
            print(f"  {self.service}: the machine took {taken * TICK_NS / MS:.0f} ms beside "
                  f"{ran * TICK_NS / MS:.0f} ms that threads ran: what they waited is compared within "
                  "that")
        return self

    def taken_ns(self, books):
        """What interrupts and a hypervisor may have taken of the time that a thread had a CPU. Its books
        have that as blocked, for no clock of its own tells; in truth it waited, as cairn says."""
        return max(self.taken_share * books["running"], self.taken_from_one_ns)

    def lived_ns(self):
        """At least: of its threads, or of what it tells of its children."""
        return sum(thread["life"]["elapsed"] for thread in self.books["threads"]) + \
            sum(part["least"] for part in self.books.values() if isinstance(part, dict))

    def threads(self):
        """{name: books}; threads of one name are added up."""
        found = {}
        for thread in self.books["threads"]:
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
        self.started = time.time()  # of programs there is all since then

    def file(self):
        """64 MiB that are on disk and may be dropped from the cache, where a file system has one;
        None where it keeps all in memory."""
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
        """The agent's own, of its programs in the kernel."""
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
        """Until what they did has arrived and no more comes. On a busy machine the agent may be late."""
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
    """Collects what is wrong, so that one failure does not hide the others; prints a table."""

    def __init__(self):
        self.wrong = []

    def check(self, what, true, said, room, less=0, more=0):
        """@less and @more: room on one side only, beside @room."""
        error = said - true
        fits = -room - less <= error <= room + more
        share = f"{100 * error / true:+.2f} %" if true else ""
        print(f"  {what:<44} true {true / MS:10.1f} ms  cairn {said / MS:10.1f} ms  {share:>9}"
              f"{'' if fits else '   <-- more than ' + format(room / MS, '.1f') + ' ms off'}")
        if not fits:
            self.wrong.append(f"{what}: true {true / MS:.1f} ms, cairn {said / MS:.1f} ms")

    def check_share(self, what, share, least):
        fits = share >= least
        print(f"  {what:<44} {100 * share:7.2f} %{'' if fits else '   <-- less than ' + str(least)}")
        if not fits:
            self.wrong.append(f"{what}: {100 * share:.2f} %")

    def done(self):
        assert not self.wrong, "\n" + "\n".join(self.wrong)
