# SPDX-License-Identifier: Apache-2.0
"""`cairn record` of the whole machine while programs that know their stacks run."""
import itertools
import os
import pathlib
import signal
import subprocess
import time

from stacks import read_pprof

ROOT = pathlib.Path(__file__).resolve().parents[2]
ATTACH_SECONDS = 30
STOP_SECONDS = 60

_numbers = itertools.count(1)


def build_folder():
    return (ROOT / os.environ.get("BUILD", "build")).resolve()


SERVICES = "truth-"  # so begin those of the programs


def unique(name):
    return f"{SERVICES}{name}-{os.getpid()}-{next(_numbers)}"


class Recording:
    """Records while the block runs; then stacks by service and thread."""

    def __init__(self, path, frequency=997):
        self.path = pathlib.Path(path)
        self.argv = [str(build_folder() / "cairn"), "record", "-F", str(frequency),
                     "-o", str(path)]
        self.process = None
        self.stacks = []

    def __enter__(self):
        self.process = subprocess.Popen(self.argv, stdin=subprocess.DEVNULL,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                        text=True)
        self._wait_until_attached()
        return self

    def _links(self):
        """What its descriptors are of. It opens and closes some meanwhile."""
        for path in pathlib.Path(f"/proc/{self.process.pid}/fd").iterdir():
            try:
                yield os.readlink(path)
            except OSError:
                pass

    def _wait_until_attached(self):
        deadline = time.monotonic() + ATTACH_SECONDS
        while time.monotonic() < deadline:
            assert self.process.poll() is None, self.process.stderr.read()
            if sum("perf_event" in link for link in self._links()) >= os.cpu_count():
                time.sleep(0.2)  # what comes after the last event
                return
            time.sleep(0.05)
        raise AssertionError("cairn record has not attached")

    def __exit__(self, kind, *_):
        self.process.send_signal(signal.SIGINT)
        try:
            _, said = self.process.communicate(timeout=STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise
        if kind is None:
            assert self.process.returncode == 0, f"cairn record: {said}"
            self.stacks = read_pprof(self.path, ("service", SERVICES))

    def of(self, service, thread=None):
        return [stack for stack in self.stacks if stack.labels.get("service") == service
                and thread in (None, stack.labels.get("thread"))]


class Program:
    """A program under its own service name; its output is what it says about its stacks."""

    def __init__(self, name, argv, env=None, folder=None):
        self.name = name
        self.service = unique(name)
        self.process = subprocess.Popen(
            argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=folder,
            env={**os.environ, **(env or {}), "OTEL_SERVICE_NAME": self.service})

    def lines(self, timeout=120):
        output, errors = self.process.communicate(timeout=timeout)
        assert self.process.returncode == 0, f"{self.name}: {self.process.returncode}\n{errors}"
        return output.splitlines()
