# SPDX-License-Identifier: Apache-2.0
"""Profilers side by side: how each is started on this machine, and what stacks it gave."""
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "tests/e2e"))
from fleet import Collector  # noqa: E402 pylint: disable=wrong-import-position

START_SECONDS = 20
STOP_SECONDS = 20
SCRIPT_SECONDS = 60  # for perf to name what it has recorded
# The first function of a process or thread; nothing calls it.
PYTHON_FIRST = ("<module>", "_bootstrap")
FIRST_FUNCTIONS = re.compile(r"^(_start|__?clone3?|start_thread|thread_start|_dl_start.*)$")


def stop(process, number=signal.SIGTERM):
    if process.poll() is None:
        process.send_signal(number)
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


class Stacks:
    """What share of the recorded stacks is complete, and of which every frame has a name."""

    def __init__(self):
        self.count = self.complete = self.named = self.frames = 0

    def add(self, weight, frame_count, is_complete, is_named):
        self.count += weight
        self.complete += weight if is_complete else 0
        self.named += weight if is_named else 0
        self.frames += weight * frame_count

    def percent(self, part):
        return 100 * part / self.count if self.count else float("nan")

    def line(self):
        return (f"complete {self.percent(self.complete):.2f} %, fully named "
                f"{self.percent(self.named):.2f} %, {self.frames / max(self.count, 1):.1f} frames")


def add_flame_graph(stacks, graph):
    """A tree's nodes come after their parents; the first is the root, below it the process."""
    count = len(graph.names)
    frames, cut, named = [0] * count, [False] * count, [True] * count
    for node in range(1, count):
        parent, name = graph.parents[node], graph.names[node]
        is_reason = name.startswith("[truncated")
        is_frame = graph.kinds[node] in ("native", "python", "jit")
        frames[node] = frames[parent] + (1 if is_frame and not is_reason else 0)
        cut[node] = cut[parent] or is_reason
        named[node] = named[parent] and "+0x" not in name
        if graph.self_values[node]:
            stacks.add(graph.self_values[node], frames[node], not cut[node], named[node])


class Profiler:
    """One that runs as a command. @missing says why it cannot."""

    name = ""
    signal = signal.SIGINT
    settle_seconds = 1.5

    def __init__(self, folder, frequency):
        self.folder, self.frequency = pathlib.Path(folder), frequency
        self.process = None

    def missing(self):
        program = self.argv(0)[0]
        return None if shutil.which(program) else f"{program} is not installed"

    def argv(self, pid):
        raise NotImplementedError

    def start(self, pid):
        with open(self.folder / f"{self.name}.log", "wb") as log:
            self.process = subprocess.Popen(self.argv(pid), stdin=subprocess.DEVNULL, stdout=log,
                                            stderr=log, cwd=self.folder, start_new_session=True)

    def is_running(self):
        return self.process.poll() is None

    def stop(self):
        stop(self.process, self.signal)

    def stacks(self, pid):
        """Stacks of what it recorded of the process, or None."""
        del pid


class Cairn(Profiler):
    """The agent with a collector, as on a node."""

    name = "cairn"
    signal = signal.SIGTERM

    def __init__(self, folder, frequency, build):
        super().__init__(folder, frequency)
        self.build = build
        self.attach_seconds = 0.0
        self.collector = Collector(self.folder / "data", self.folder / "collector.log")
        self.collector.argv[0] = str(build / "cairn-collector")
        self.collector.start()

    def missing(self):
        return None

    def argv(self, pid):
        # A cache of its own, empty at first: what tables cost is a part of the figures.
        return [str(self.build / "cairn-agent"), "--collector", self.collector.grpc, "--frequency",
                str(self.frequency), "--cache", str(self.folder / "cache")]

    def start(self, pid):
        began = time.monotonic()
        super().start(pid)
        while "sampling" not in (self.folder / "cairn.log").read_text(errors="replace"):
            if not self.is_running() or time.monotonic() - began > START_SECONDS:
                raise RuntimeError((self.folder / "cairn.log").read_text(errors="replace"))
            time.sleep(0.005)
        self.attach_seconds = time.monotonic() - began

    def stacks_within(self, service, windows):
        """Stacks of the service that the collector has of these windows."""
        stacks = Stacks()
        for window in windows:
            graph = self.collector.api.merge(service, from_=window.from_ns, to=window.to_ns)
            add_flame_graph(stacks, graph)
        return stacks

    def close(self):
        self.collector.stop()


class Perf(Profiler):
    def __init__(self, folder, frequency, mode):
        super().__init__(folder, frequency)
        self.name = f"perf-{mode.split(',')[0]}"
        self.mode = mode
        self.file = self.folder / f"{self.name}.data"

    def argv(self, pid):
        return ["perf", "record", "-q", "-a", "-F", str(self.frequency), "-e", "cpu-clock",
                "--call-graph", self.mode, "-o", str(self.file)]

    def stacks(self, pid):
        try:
            said = subprocess.run(["perf", "script", "-i", str(self.file), "--pid", str(pid),
                                   "--no-inline", "-F", "ip,sym"], capture_output=True, text=True,
                                  errors="replace", timeout=SCRIPT_SECONDS, check=False).stdout
        except subprocess.TimeoutExpired:
            return None
        stacks = Stacks()
        for block in said.split("\n\n"):
            names = [line.split(None, 1)[-1].strip() for line in block.strip().splitlines()]
            if names:
                stacks.add(1, len(names), bool(FIRST_FUNCTIONS.match(names[-1])),
                           not any("[unknown]" in name for name in names))
        return stacks


class Bpftrace(Profiler):
    """At its end it names the stacks of the process; those of others are only counted."""

    name = "bpftrace"
    settle_seconds = 4

    def argv(self, pid):
        return ["bpftrace", "-e", f"profile:hz:{self.frequency} {{ if (pid == {pid}) "
                                  "{ @stacks[ustack(127)] = count(); } "
                                  "else { @[pid, ustack(127)] = count(); } } END { clear(@); }"]

    def stacks(self, pid):
        """Lines of "name+offset" or an address, innermost first, between "@stacks[" and "]: count"."""
        stacks, names = Stacks(), []
        for line in (self.folder / f"{self.name}.log").read_text(errors="replace").splitlines():
            if line.startswith("@stacks["):
                names = []
            elif line.startswith("]: ") and names:
                stacks.add(int(line[3:]), len(names), bool(FIRST_FUNCTIONS.match(names[-1])),
                           not any(name.startswith("0x") for name in names))
            elif line.strip():
                names.append(line.strip().rsplit("+", 1)[0])
        return stacks


class PySpy(Profiler):
    name = "py-spy"

    def __init__(self, folder, frequency, native):
        super().__init__(folder, frequency)
        self.native = native
        self.name = "py-spy-native" if native else "py-spy"
        self.file = self.folder / f"{self.name}.raw"

    def argv(self, pid):
        return ["py-spy", "record", "--pid", str(pid), "--rate", str(self.frequency), "--format",
                "raw", "--output", str(self.file), "--duration", "600",
                *(["--native"] if self.native else [])]

    def stacks(self, pid):
        """Lines "outermost;...;innermost count". Without --native it says nothing of native frames, and
        what a thread runs first is Python's."""
        stacks = Stacks()
        for line in self.file.read_text().splitlines() if self.file.exists() else ():
            chain, count = line.rsplit(" ", 1)
            names = [frame.split(" (")[0] for frame in chain.split(";")]
            is_first = FIRST_FUNCTIONS.match(names[0]) if self.native else names[0] in PYTHON_FIRST
            stacks.add(int(count), len(names), bool(is_first),
                       not any(name.startswith("0x") or not name for name in names))
        return stacks


class Peer(Profiler):
    """Any other, by the command that starts it."""

    name = "peer"
    signal = signal.SIGTERM
    settle_seconds = 6

    def __init__(self, folder, frequency, command):
        super().__init__(folder, frequency)
        self.command = command

    def missing(self):
        return None

    def argv(self, pid):
        return ["sh", "-c", self.command.replace("{pid}", str(pid))]

    def stop(self):
        try:
            os.killpg(self.process.pid, self.signal)
        except ProcessLookupError:
            pass
        super().stop()


def command_name(command):
    return shlex.split(command)[0].rsplit("/", 1)[-1]
