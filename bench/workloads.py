#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Profiled workloads: programs that count their work, run until they are stopped, and end by themselves
where nobody does.

    workloads.py NAME [--seconds N]    runs one of them alone, to look at it
"""
import argparse
import os
import pathlib
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time

import http_load
from accounting import Group, tree

HERE = pathlib.Path(__file__).resolve().parent
START_SECONDS = 120  # importing PyTorch from a cold disk
STOP_SECONDS = 10
LIFE_SECONDS = 3000  # then they end by themselves
DEPTH = 34  # of the peers' figures in the design
CLIENTS = 4  # of a closed loop, on each CPU
OPEN_CLIENTS = 64  # so many requests of an open loop may be late at once
CALIBRATION_SECONDS = 6
JVM_WARM_UP_SECONDS = 40  # until it has compiled what is hot, on a busy machine, too


class Missing(Exception):
    """A workload cannot run here; the message says why."""


class Workload:
    """A process that counts its work in a file: @counters integers, 64 bytes apart. What it has to say goes to
    a file beside that."""

    is_python, unit = False, "units"
    comms = ()  # names of its processes where they are too short to be told by pid

    def __init__(self, name, argv, counter, counters=1, environment=None):
        self.name = name
        self.service = f"bench-{name.lower()}"
        self.counter, self.counters = pathlib.Path(counter), counters
        self.group = Group(name)
        self.messages = self.counter.with_suffix(".messages")
        with open(self.messages, "wb") as messages:
            self.process = subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, stdout=messages, stderr=messages, cwd=self.counter.parent,
                preexec_fn=self.group.enter,
                env={**os.environ, "OTEL_SERVICE_NAME": self.service, **(environment or {})})

    def pids(self):
        return tree(self.process.pid)

    def work(self):
        """Units done since it began."""
        data = self.counter.read_bytes()[:64 * self.counters]
        return sum(struct.unpack_from("<Q", data, 64 * i)[0] for i in range(self.counters))

    def latencies_ms(self, from_ns, to_ns):  # pylint: disable=unused-argument
        """Of what ended between these times of the monotonic clock; nothing where it has no latency."""
        return []

    def has_begun(self):
        return self.counter.exists() and self.counter.stat().st_size >= 64 and self.work()

    def wait_until_busy(self):
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                raise RuntimeError(f"{self.name} ended with {self.process.returncode}: "
                                   f"{self.messages.read_text(errors='replace').strip()[-300:]}")
            if self.has_begun():
                return self
            time.sleep(0.1)
        raise RuntimeError(f"{self.name} does not begin")

    def stop(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.group.end()


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def accepts(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


class LoggedWorkload(Workload):
    """One whose work is the records of a log (http_load.py), with latencies."""

    def work(self):
        return self.counter.stat().st_size // http_load.RECORD.size if self.counter.exists() else 0

    def has_begun(self):
        return self.work()

    def latencies_ms(self, from_ns, to_ns):
        return [latency / 1e6 for end, latency in http_load.records(self.counter) if from_ns <= end < to_ns]


class HttpService(LoggedWorkload):
    """A service under load: in a closed loop that saturates it, or, with @half, at half of that rate in an
    open loop. Its work is what has been answered."""

    unit = "answers"

    def __init__(self, name, argv, folder, port, half=False):
        self.port, self.load = port, None
        super().__init__(name, argv, f"{folder}/{name}.log")
        try:
            self.wait_until_busy()
            self._start_load(CLIENTS * os.cpu_count())
            self._wait_for_answers()
            if half:
                self._start_load(OPEN_CLIENTS, self._rate() / 2)
        except BaseException:
            self.stop()
            raise

    def has_begun(self):
        return accepts(self.port)

    def _start_load(self, clients, rate=None):
        self._stop_load()
        self.load = subprocess.Popen(
            [sys.executable, str(HERE / "http_load.py"), "--port", str(self.port), "--clients", str(clients),
             "--seconds", str(LIFE_SECONDS), "--log", str(self.counter), *(["--rate", f"{rate:.2f}"] if rate else [])],
            stdout=subprocess.DEVNULL)

    def _wait_for_answers(self):
        deadline = time.monotonic() + START_SECONDS
        while not self.work():
            if time.monotonic() > deadline or self.process.poll() is not None or self.load.poll() is not None:
                raise RuntimeError(f"{self.name} does not answer")
            time.sleep(0.1)

    def _rate(self):
        """Answers a second, once it has warmed up."""
        time.sleep(CALIBRATION_SECONDS)
        begin, before = time.monotonic(), self.work()
        time.sleep(CALIBRATION_SECONDS)
        return (self.work() - before) / (time.monotonic() - begin)

    def _stop_load(self):
        if self.load:
            self.load.kill()
            self.load.wait()

    def stop(self):
        self._stop_load()
        super().stop()


def native(build, folder):
    """Every CPU at the end of native stacks of a known depth, no frame pointers anywhere."""
    cpus, counter = os.cpu_count(), f"{folder}/native.counter"
    argv = [str(build / "bench/deep_calls"), "--threads", str(cpus), "--depth", str(DEPTH),
            "--counter", counter]
    return Workload("native", argv, counter, cpus).wait_until_busy()


def random_calls(build, folder, cold=False):
    """Native stacks of random depth through libc and the kernel; cold: of thousands of functions."""
    name, cpus, walked = "native-cold" if cold else "native-random", os.cpu_count(), pathlib.Path(folder) / "walked"
    walked.mkdir(exist_ok=True)
    counter = f"{folder}/{name}.counter"
    argv = [str(build / "bench/random_calls"), "--threads", str(cpus), "--depth-min", "8", "--depth-max", "96",
            *(["--cold"] if cold else []), "--seconds", str(LIFE_SECONDS), "--folder", str(walked), "--counter", counter]
    return Workload(name, argv, counter, cpus).wait_until_busy()


def compiler(_, folder):
    """Processes that live for a fraction of a second."""
    if not shutil.which("gcc"):
        raise Missing("gcc is not installed")
    sources, log = pathlib.Path(folder) / "sources", f"{folder}/compiler.log"
    sources.mkdir()
    workload = LoggedWorkload("compiler", [sys.executable, str(HERE / "compile_load.py"), "--folder", str(sources),
                                           "--log", log, "--seconds", str(LIFE_SECONDS)], log)
    workload.unit, workload.comms = "sources", ("gcc", "cc1", "as", "collect2")
    return workload.wait_until_busy()


# ---- a database ------------------------------------------------------------------------------

class Database(Workload):
    """PostgreSQL on a socket in a temporary folder, as an unprivileged user, with pgbench's own load of a
    client for each of @clients. Its work is transactions, which pgbench logs one a line."""

    unit = "transactions"
    clients, scale = 8, 5
    user = "nobody"

    def __init__(self, folder):
        self.programs = next(iter(sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)), None)
        if not self.programs or not (self.programs / "pgbench").exists():
            raise Missing("postgresql is not installed")
        self.folder, self.load = pathlib.Path(folder) / "database", None
        pathlib.Path(folder).chmod(0o755)
        self.folder.mkdir()
        shutil.chown(self.folder, self.user)
        self._run("initdb", "-D", str(self.folder / "data"), "-U", self.user, "-A", "trust", "--no-sync")
        super().__init__("postgres", self._as_user(
            "postgres", "-D", str(self.folder / "data"), "-k", str(self.folder), "-c", "listen_addresses=",
            "-c", "shared_buffers=128MB"), self.folder / "counter")
        self.service = "postgres"  # its processes' titles are written over their environment
        try:
            self._wait_until_ready()
            self._run("pgbench", "-h", str(self.folder), "-U", self.user, "-i", "-q", "-s", str(self.scale), "postgres")
            self._start_load()
            self.wait_until_busy()
        except BaseException:
            self.stop()
            raise

    def _as_user(self, program, *arguments):
        return ["setpriv", f"--reuid={self.user}", "--regid=nogroup", "--clear-groups", "--pdeathsig", "KILL",
                str(self.programs / program), *arguments]

    def _run(self, program, *arguments):
        subprocess.run(self._as_user(program, *arguments), check=True, cwd=self.folder, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL, timeout=START_SECONDS)

    def _wait_until_ready(self):
        deadline = time.monotonic() + START_SECONDS
        while subprocess.run([str(self.programs / "pg_isready"), "-q", "-h", str(self.folder)], check=False).returncode:
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"postgres does not start: {self.messages.read_text(errors='replace')[-300:]}")
            time.sleep(0.1)

    def _start_load(self):
        self.load = subprocess.Popen(
            self._as_user("pgbench", "-h", str(self.folder), "-U", self.user, "-n", "-c", str(self.clients),
                          "-j", str(os.cpu_count()), "-T", str(LIFE_SECONDS), "-l",
                          "--log-prefix", str(self.folder / "log"), "postgres"),
            cwd=self.folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def _lines(self):
        """Of pgbench's logs, one a thread: client, transaction, us of latency, script, seconds, us."""
        for path in self.folder.glob("log.*"):
            for line in path.read_text().splitlines():
                fields = line.split()
                if len(fields) >= 6:
                    yield fields

    def work(self):
        """By the database's own statistics, which are up to date within a second."""
        said = subprocess.run([str(self.programs / "psql"), "-h", str(self.folder), "-U", self.user, "-A", "-t", "-c",
                               "select xact_commit from pg_stat_database where datname = 'postgres'", "postgres"],
                              capture_output=True, text=True, check=False).stdout
        return int(said or 0)

    def has_begun(self):
        return self.load.poll() is None and any(self._lines())

    def latencies_ms(self, from_ns, to_ns):
        offset = time.time_ns() - time.monotonic_ns()
        return [int(fields[2]) / 1000 for fields in self._lines()
                if from_ns + offset <= int(fields[4]) * 10**9 + int(fields[5]) * 1000 < to_ns + offset]

    def stop(self):
        if self.load:
            self.load.kill()
            self.load.wait()
        self.process.send_signal(signal.SIGQUIT)  # at once, but it frees its shared memory
        try:
            self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            pass
        super().stop()


def postgres(_, folder):
    return Database(folder)


# ---- run-times that compile at run time --------------------------------------------------------

class Jvm(HttpService):
    """With @map the JVM keeps frame pointers and has written a perf map of what it had compiled."""

    def __init__(self, folder, perf_map):
        for program in ("java", "javac", "jcmd"):
            if not shutil.which(program):
                raise Missing(f"{program} is not installed")
        subprocess.run(["javac", "-d", str(folder), str(HERE / "Service.java")], check=True)
        port = free_port()
        super().__init__("jvm-map" if perf_map else "jvm", [
            "java", "-Xmx512m", "-Dsun.net.httpserver.nodelay=true",
            *(["-XX:+PreserveFramePointer"] if perf_map else []), "-cp", str(folder), "Service",
            str(port), str(CLIENTS * os.cpu_count()), str(LIFE_SECONDS)], folder, port)
        time.sleep(JVM_WARM_UP_SECONDS)
        if perf_map:
            subprocess.run(["jcmd", str(self.process.pid), "Compiler.perfmap"], check=True, stdout=subprocess.DEVNULL)

    def stop(self):
        super().stop()
        pathlib.Path(f"/tmp/perf-{self.process.pid}.map").unlink(missing_ok=True)


class Node(HttpService):
    """With @map it writes a perf map as it compiles."""

    def __init__(self, folder, perf_map):
        if not shutil.which("node"):
            raise Missing("node is not installed")
        port = free_port()
        super().__init__("node-map" if perf_map else "node", [
            "node", *(["--perf-basic-prof"] if perf_map else []), str(HERE / "service.js"), str(port),
            str(LIFE_SECONDS)], folder, port)
        time.sleep(CALIBRATION_SECONDS)

    def stop(self):
        super().stop()
        pathlib.Path(f"/tmp/perf-{self.process.pid}.map").unlink(missing_ok=True)


def torch_python():
    """An interpreter that has PyTorch: BENCH_PYTHON, or the one in the path; None."""
    for python in (os.environ.get("BENCH_PYTHON"), "python3", "/usr/bin/python3"):
        if python and subprocess.run([python, "-c", "import torch"], capture_output=True,
                                     check=False).returncode == 0:
            return python
    return None


def pytorch(python, folder):
    counter = f"{folder}/torch.counter"
    argv = [python, str(HERE / "torch_inference.py"), counter]
    return Workload("pytorch", argv, counter).wait_until_busy()


def torch_service(python, folder, half=False):
    """PyTorch behind HTTP, two CPUs' worth of threads, deep stacks."""
    port = free_port()
    argv = [python, str(HERE / "torch_service.py"), "--port", str(port), "--seconds", str(LIFE_SECONDS)]
    service = HttpService("torch-half" if half else "torch", argv, folder, port, half)
    service.is_python = True
    return service


# ---- all of them, by name --------------------------------------------------------------------

def with_torch(begin):
    def begin_with_torch(_, folder):
        python = torch_python()
        if not python:
            raise Missing("no interpreter has PyTorch; BENCH_PYTHON may name one")
        return begin(python, folder)
    return begin_with_torch


NAMES = {
    "native": native,
    "native-random": random_calls,
    "native-cold": lambda build, folder: random_calls(build, folder, True),
    "compiler": compiler,
    "postgres": postgres,
    "jvm": lambda _, folder: Jvm(folder, False),
    "jvm-map": lambda _, folder: Jvm(folder, True),
    "node": lambda _, folder: Node(folder, False),
    "node-map": lambda _, folder: Node(folder, True),
    "pytorch": with_torch(pytorch),
    "torch": with_torch(torch_service),
    "torch-half": with_torch(lambda python, folder: torch_service(python, folder, True)),
}


def begin(name, build, folder):
    """Raises Missing."""
    return NAMES[name](build, folder)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", choices=NAMES)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--build", default=os.environ.get("BUILD", "build"))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="cairn-bench-") as folder:
        try:
            workload = begin(options.name, HERE.parent / options.build, folder)
        except Missing as error:
            sys.exit(f"bench: {error}")
        try:
            print(f"pid {workload.process.pid}, service {workload.service}, {options.seconds:g} s", flush=True)
            began, before = time.monotonic_ns(), workload.work()
            time.sleep(options.seconds)
            latencies = workload.latencies_ms(began, time.monotonic_ns())
            print(f"{(workload.work() - before) / options.seconds:.1f} {workload.unit}/s" +
                  (f", p50 {http_load.quantile(latencies, 0.5):.1f} ms, p99 {http_load.quantile(latencies, 0.99):.1f} ms"
                   if latencies else ""))
        finally:
            workload.stop()


if __name__ == "__main__":
    main()
