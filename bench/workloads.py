# SPDX-License-Identifier: Apache-2.0
"""Profiled workloads: programs that run forever, in random rounds, and count their work."""
import os
import pathlib
import signal
import struct
import subprocess
import time

HERE = pathlib.Path(__file__).resolve().parent
START_SECONDS = 120  # importing PyTorch from a cold disk
DEPTH = 34  # of the peers' figures in the design


class Workload:
    def __init__(self, name, argv, counter, counters):
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

    def wait_until_busy(self):
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                raise RuntimeError(f"{self.name} ended with {self.process.returncode}")
            if self.counter.exists() and self.counter.stat().st_size >= 64 and self.work():
                return self
            time.sleep(0.1)
        raise RuntimeError(f"{self.name} does not begin")

    def stop(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


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
    return Workload("PyTorch", argv, counter, 1).wait_until_busy()
