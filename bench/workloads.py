#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Profiled workloads: programs that count their work, run until they are stopped, and end by themselves
where nobody does.

    workloads.py NAME [--seconds N]    runs one of them alone, to look at it
"""
import argparse
import os
import pathlib
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time

import http_load

HERE = pathlib.Path(__file__).resolve().parent
START_SECONDS = 120  # importing PyTorch from a cold disk
LIFE_SECONDS = 3000  # then they end by themselves
DEPTH = 34  # of the peers' figures in the design
CLIENTS = 4  # of a closed loop, on each CPU
OPEN_CLIENTS = 64  # so many requests of an open loop may be late at once
CALIBRATION_SECONDS = 6


class Workload:
    """A process that counts its work in a file: @counters integers, 64 bytes apart."""

    def __init__(self, name, argv, counter, counters=1):
        self.name = name
        self.service = f"bench-{name.lower()}"
        self.counter, self.counters = pathlib.Path(counter), counters
        self.process = subprocess.Popen(
            argv, stdout=subprocess.DEVNULL,
            env={**os.environ, "OTEL_SERVICE_NAME": self.service})

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
                raise RuntimeError(f"{self.name} ended with {self.process.returncode}")
            if self.has_begun():
                return self
            time.sleep(0.1)
        raise RuntimeError(f"{self.name} does not begin")

    def stop(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def accepts(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


class HttpService(Workload):
    """A service under load: in a closed loop that saturates it, or, with @half, at half of that rate in an
    open loop. Its work is what has been answered."""

    def __init__(self, name, argv, folder, port, half=False):
        self.port, self.log, self.load = port, pathlib.Path(f"{folder}/{name}.log"), None
        super().__init__(name, argv, self.log)
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
             "--seconds", str(LIFE_SECONDS), "--log", str(self.log), *(["--rate", f"{rate:.2f}"] if rate else [])],
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

    def work(self):
        return self.log.stat().st_size // http_load.RECORD.size if self.log.exists() else 0

    def latencies_ms(self, from_ns, to_ns):
        return [latency / 1e6 for end, latency in http_load.records(self.log) if from_ns <= end < to_ns]

    def stop(self):
        self._stop_load()
        super().stop()


def native(build, folder):
    """Every CPU at the end of native stacks of a known depth, no frame pointers anywhere."""
    cpus, counter = os.cpu_count(), f"{folder}/native.counter"
    argv = [str(build / "bench/deep_calls"), "--threads", str(cpus), "--depth", str(DEPTH),
            "--counter", counter]
    return Workload("native", argv, counter, cpus).wait_until_busy()


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
    return Workload("PyTorch", argv, counter).wait_until_busy()


def torch_service(python, folder, half=False):
    """PyTorch behind HTTP, two CPUs' worth of threads, deep stacks."""
    port = free_port()
    argv = [python, str(HERE / "torch_service.py"), "--port", str(port), "--seconds", str(LIFE_SECONDS)]
    return HttpService("torch-half" if half else "torch", argv, folder, port, half)


# ---- one alone -------------------------------------------------------------------------------

def begin_alone(name, build, folder):
    if name == "native":
        return native(build, folder)
    python = torch_python()
    if not python:
        sys.exit("bench: no interpreter has PyTorch; BENCH_PYTHON may name one")
    if name == "PyTorch":
        return pytorch(python, folder)
    return torch_service(python, folder, name == "torch-half")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", choices=["native", "PyTorch", "torch", "torch-half"])
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--build", default=os.environ.get("BUILD", "build"))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="cairn-bench-") as folder:
        workload = begin_alone(options.name, HERE.parent / options.build, folder)
        try:
            print(f"pid {workload.process.pid}, service {workload.service}, {options.seconds:g} s", flush=True)
            began, before = time.monotonic_ns(), workload.work()
            time.sleep(options.seconds)
            latencies = workload.latencies_ms(began, time.monotonic_ns())
            print(f"{(workload.work() - before) / options.seconds:.1f} units/s" +
                  (f", p50 {http_load.quantile(latencies, 0.5):.1f} ms, p99 {http_load.quantile(latencies, 0.99):.1f} ms"
                   if latencies else ""))
        finally:
            workload.stop()


if __name__ == "__main__":
    main()
