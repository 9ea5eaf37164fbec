# SPDX-License-Identifier: Apache-2.0
"""A simulated fleet: services of some real processes each, as pods by OTEL_RESOURCE_ATTRIBUTES, into which faults are injected at
known moments, with parameters from a seed."""
import contextlib
import dataclasses
import math
import os
import pathlib
import random
import signal
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.append(str(HERE.parent / "e2e"))
from fleet import program, unique  # noqa: E402 pylint: disable=wrong-import-position
from gpu_double import DOUBLES  # noqa: E402 pylint: disable=wrong-import-position

PERIOD_US = 100_000


def own_cpu_group():
    """Of this process, in the hierarchy of version 1 with the controller."""
    lines = pathlib.Path("/proc/self/cgroup").read_text().splitlines()
    path = next((line.split(":", 2)[2] for line in lines if "cpu" in line.split(":")[1].split(",")), None)
    assert path, "the throttling scenario needs cgroups of version 1"
    return pathlib.Path("/sys/fs/cgroup/cpu") / path.lstrip("/")


@dataclasses.dataclass
class Fault:
    """What was injected into a service, and when; what the first spike must name."""
    name: str
    service: str
    about: str
    begin_s: float
    end_s: float
    named: list
    types: list
    of_one: bool

    def is_named_by(self, spike):
        """Does @spike lie in the fault, and does it name what was injected?"""
        during = spike["from_ns"] / 1e9 < self.end_s + 2 and spike["to_ns"] / 1e9 > self.begin_s - 2
        judged = not self.types or any(spike["type"].startswith(kind) for kind in self.types)
        return during and judged and any(name in spike["sentence"] + spike["title"] for name in self.named)


class Pod:
    """One process of a service."""

    def __init__(self, service, number, argv, version="v1", enter=None):
        attributes = f"service.version={version},service.instance.id={service}-{number}"
        self.process = subprocess.Popen(argv, stdin=subprocess.PIPE, text=True, preexec_fn=enter,
                                        env={**os.environ, "OTEL_SERVICE_NAME": service, "OTEL_RESOURCE_ATTRIBUTES": attributes,
                                             "LD_LIBRARY_PATH": str(DOUBLES)})

    def tell(self, seconds, size):
        self.process.stdin.write(f"{seconds} {size}\n")
        self.process.stdin.flush()

    def stop(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.process.stdin.close()


class Scenario:
    """A service, the fault that it will have, and what the first spike must name."""

    def __init__(self, name, pods, seconds, named, argv=None, types=None, of_one=True):
        self.name, self.seconds, self.named, self.types, self.of_one = name, seconds, named.split(), types, of_one
        self.argv = argv or [sys.executable, str(HERE / "service.py"), name]
        self.service = unique(name.replace("_", "-"))
        self.begin_s = self.end_s = None
        self.about = ""
        self.pods = [Pod(self.service, number, self.argv) for number in range(pods)]

    def inject(self, draw):
        """The fault, on one pod; returns when it is over."""
        seconds, size = draw.uniform(*self.seconds), draw.random()
        pod = draw.choice(self.pods)
        self.about = f"{seconds:.1f} s of size {size:.2f} on pod {self.pods.index(pod)}"
        self.begin_s = time.time()
        self.fault(pod, seconds, size)
        self.end_s = self.end_s or time.time()

    def fault(self, pod, seconds, size):
        pod.tell(seconds, size)
        time.sleep(seconds)

    def stop(self):
        for pod in self.pods:
            pod.stop()

    def fault_of(self):
        return Fault(f"{type(self).__name__} {self.name}", self.service, self.about, self.begin_s, self.end_s, self.named, self.types,
                     self.of_one)


class Throttled(Scenario):
    """A CPU quota that becomes far too small."""

    def __init__(self, *arguments, **more):
        self.group = own_cpu_group() / unique("scenario")
        self.group.mkdir()
        (self.group / "cpu.cfs_period_us").write_text(str(PERIOD_US))
        super().__init__(*arguments, **more)
        for pod in self.pods:
            (self.group / "cgroup.procs").write_text(str(pod.process.pid))

    def fault(self, pod, seconds, size):
        (self.group / "cpu.cfs_quota_us").write_text(str(int(1000 + 2000 * size)))
        time.sleep(seconds)
        (self.group / "cpu.cfs_quota_us").write_text("-1")

    def stop(self):
        super().stop()
        with contextlib.suppress(OSError):
            self.group.rmdir()


class NoisyNeighbour(Scenario):
    """Another service takes all CPUs."""

    def __init__(self, *arguments, **more):
        super().__init__(*arguments, **more)
        argv = [sys.executable, str(HERE / "service.py"), "neighbour"]
        self.other = unique("batch")
        self.named = [self.other]
        self.others = [Pod(self.other, number, argv) for number in range(2 * os.cpu_count())]

    def fault(self, pod, seconds, size):
        for other in self.others:
            other.tell(seconds, size)
        time.sleep(seconds)

    def stop(self):
        super().stop()
        for other in self.others:
            other.stop()


class SlowDeployment(Scenario):
    """A pod of a new version, beside the others."""

    def fault(self, pod, seconds, size):
        slow = Pod(self.service, len(self.pods), [*self.argv, str(0.4 + 0.4 * size)], version="v2")
        self.pods.append(slow)
        time.sleep(seconds)
        self.end_s = math.inf  # it stays


GPU = [sys.executable, str(HERE / "gpu_service.py")]
# What people are paged for, by name.
SCENARIOS = {
    "lock_convoy": lambda: Scenario("lock_convoy", 3, (4, 8), "cache_get", [program("workloads/lock_convoy")], ["off_cpu"]),
    "reload": lambda: Scenario("reload", 2, (4, 8), "load_model parse_weights", types=["process_cpu", "memory:page_fault"]),
    "gc_pause": lambda: Scenario("gc_pause", 2, (4, 8), "collect_garbage"),
    "throttling": lambda: Throttled("steady", 2, (6, 10), "Throttled", types=["cpu_throttled"], of_one=False),
    "disk": lambda: Scenario("disk", 2, (4, 8), "write_log"),
    "tokenizer": lambda: Scenario("tokenizer", 2, (4, 8), "encode", types=["off_cpu"]),
    "neighbour": lambda: NoisyNeighbour("steady", 2, (5, 8), "", of_one=False),
    "deployment": lambda: SlowDeployment("deployment", 2, (8, 12), "render", types=["process_cpu"]),
    "starved": lambda: Scenario("starved", 1, (35, 45), "load_batch", [*GPU, "starved"], of_one=False),
    "implicit_sync": lambda: Scenario("implicit_sync", 1, (35, 45), "cuMemcpyDtoH", [*GPU, "implicit_sync"], of_one=False),
}
