# SPDX-License-Identifier: Apache-2.0
"""Profilers side by side: how each is started on this machine, and what stacks it gave."""
import os
import pathlib
import shlex
import shutil
import signal
import subprocess
import sys
import time

import recorded_stacks
from accounting import Group
from recorded_stacks import Unreadable

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "tests/e2e"))
from fleet import Collector  # noqa: E402 pylint: disable=wrong-import-position

START_SECONDS = 20
STOP_SECONDS = 60  # bpftrace and perf name what they have recorded
SCRIPT_SECONDS = 150  # for perf to name what it has recorded


def stop(process, number=signal.SIGTERM):
    if process.poll() is None:
        process.send_signal(number)
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def heed_interrupts():
    """What a shell starts in the background ignores Ctrl-C, and so would all that it starts."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


class Profiler:
    """One that runs as a command. @missing says why it cannot."""

    name = ""
    signal = signal.SIGINT
    settle_seconds = 1.5
    environment = {}

    def __init__(self, folder, frequency):
        self.folder, self.frequency = pathlib.Path(folder), frequency
        self.process = self.group = None
        self.pids, self.comms = (), ()

    def watch(self, pids, comms=()):
        """Whose stacks will be judged, where that is more than the process that start() names: all of these
        processes or, where processes are short, all of these names."""
        self.pids, self.comms = tuple(pids), tuple(comms)

    def missing(self):
        program = self.argv(0)[0]
        return None if shutil.which(program) else f"{program} is not installed"

    def argv(self, pid):
        raise NotImplementedError

    def start(self, pid):
        self.group = Group(self.name)
        with open(self.folder / f"{self.name}.log", "wb") as log:
            self.process = subprocess.Popen(self.argv(pid), stdin=subprocess.DEVNULL, stdout=log,
                                            stderr=log, cwd=self.folder, start_new_session=True,
                                            env={**os.environ, **self.environment},
                                            preexec_fn=self._before_exec)

    def _before_exec(self):
        heed_interrupts()
        self.group.enter()

    def is_running(self):
        return self.process.poll() is None

    def stop(self):
        stop(self.process, self.signal)
        self.group.end()

    def drop(self):
        """Stop where nobody will ask for its stacks."""
        self.stop()

    def close(self):
        """What it has beside its process ends, too."""

    def stacks(self, pid):
        """Stacks of what it recorded of the process. Unreadable: there are none, and why."""
        raise NotImplementedError


class Cairn(Profiler):
    """The agent with a collector, as on a node."""

    signal = signal.SIGTERM

    def __init__(self, folder, frequency, build, name="cairn", profiles=None):
        super().__init__(folder, frequency)
        self.name, self.profiles = name, profiles
        self.build, self.cache = build, self.folder / f"{name}-cache"
        self.attach_seconds = 0.0
        self.collector = Collector(self.folder / f"{name}-data", self.folder / f"{name}-collector.log")
        self.collector.argv[0] = str(build / "cairn-collector")
        self.collector.start()

    def empty_cache(self):
        """So that the next start builds all tables again, as others do at each start."""
        shutil.rmtree(self.cache, ignore_errors=True)

    def missing(self):
        return None

    def argv(self, pid):
        # A cache of its own, empty at first: what tables cost is a part of the figures.
        return [str(self.build / "cairn-agent"), "--collector", self.collector.grpc, "--frequency",
                str(self.frequency), "--cache", str(self.cache),
                *(["--profiles", self.profiles] if self.profiles else [])]

    def start(self, pid):
        began = time.monotonic()
        super().start(pid)
        while "sampling" not in (self.folder / f"{self.name}.log").read_text(errors="replace"):
            if not self.is_running() or time.monotonic() - began > START_SECONDS:
                raise RuntimeError((self.folder / f"{self.name}.log").read_text(errors="replace"))
            time.sleep(0.005)
        self.attach_seconds = time.monotonic() - began

    def shed_load(self):
        """Did its governor reduce what it collects?"""
        return "shedding load" in (self.folder / f"{self.name}.log").read_text(errors="replace")

    def stacks_within(self, service, windows):
        """Stacks of the service that the collector has of these windows."""
        stacks = recorded_stacks.Stacks()
        for window in windows:
            graph = self.collector.api.merge(service, from_=window.from_ns, to=window.to_ns)
            recorded_stacks.add_flame_graph(stacks, graph)
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
        # Without build ids: perf would read and copy each file at its end, for other machines.
        return ["perf", "record", "-q", "-a", "-B", "-N", "-F", str(self.frequency), "-e", "cpu-clock",
                "--call-graph", self.mode, "-o", str(self.file)]

    def drop(self):
        stop(self.process, signal.SIGKILL)
        self.group.end()

    def stacks(self, pid):
        chosen = (["--comms", ",".join(self.comms)] if self.comms else
                  ["--pid", ",".join(map(str, self.pids or (pid,)))])
        try:
            said = subprocess.run(["perf", "script", "-i", str(self.file), *chosen,
                                   "--no-inline", "-F", "ip,sym"], capture_output=True, text=True,
                                  errors="replace", timeout=SCRIPT_SECONDS, check=False).stdout
        except subprocess.TimeoutExpired as error:
            raise Unreadable(f"perf script takes longer than {SCRIPT_SECONDS} s") from error
        return recorded_stacks.of_perf_script(said)


class Bpftrace(Profiler):
    """At its end it names the stacks of the process; those of others are only counted."""

    name = "bpftrace"
    settle_seconds = 4
    environment = {"BPFTRACE_CACHE_USER_SYMBOLS": "1"}  # else it reads them again for each stack

    def argv(self, pid):
        chosen = " || ".join([f'comm == "{comm}"' for comm in self.comms] if self.comms else
                             [f"pid == {watched}" for watched in self.pids or (pid,)])
        return ["bpftrace", "-e", f"profile:hz:{self.frequency} {{ if ({chosen}) "
                                  "{ @stacks[ustack(127)] = count(); } "
                                  "else { @[pid, ustack(127)] = count(); } } END { clear(@); }"]

    def drop(self):
        stop(self.process, signal.SIGKILL)
        self.group.end()

    def stacks(self, pid):
        log = self.folder / f"{self.name}.log"
        return recorded_stacks.of_bpftrace(log.read_text(errors="replace"))


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
        return recorded_stacks.of_file(self.file, None)


class Peer(Profiler):
    """Any other, by the command that starts it. It is ended as Ctrl-C would, and has written
    @stacks_file by then, if that is given. In both "{pid}" becomes the workload's pid."""

    settle_seconds = 6

    def __init__(self, folder, frequency, command, stacks_file=None):
        super().__init__(folder, frequency)
        self.name = f"peer-{pathlib.Path(shlex.split(command)[0]).name}"
        self.command, self.stacks_file = command, stacks_file
        self.started = 0.0

    def missing(self):
        return None

    def argv(self, pid):
        return ["sh", "-c", self.command.replace("{pid}", str(pid))]

    def start(self, pid):
        self.started = time.time()
        super().start(pid)

    def stop(self):
        """The whole group, once: a second signal would end many before they have written."""
        deadline = time.monotonic() + STOP_SECONDS
        self._signal_group(self.signal)
        while self._signal_group(0) and time.monotonic() < deadline:
            self.process.poll()
            time.sleep(0.05)
        self._signal_group(signal.SIGKILL)
        self.process.wait()
        self.group.end()

    def _signal_group(self, number):
        """Is anybody there?"""
        try:
            os.killpg(self.process.pid, number)
            return True
        except ProcessLookupError:
            return False

    def stacks(self, pid):
        if not self.stacks_file:
            raise Unreadable("PEER_STACKS=file does not say where it writes them")
        path = self.folder / self.stacks_file.replace("{pid}", str(pid))
        if not path.exists() or path.stat().st_mtime < self.started:
            raise Unreadable(f"it has not written {path}")
        return recorded_stacks.of_file(path, recorded_stacks.Process.running(pid))
