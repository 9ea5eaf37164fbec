# SPDX-License-Identifier: Apache-2.0
"""Starts the parts of cairn, watches them, and stops them in reverse order.

Each part gets its own process group, so that Ctrl-C reaches only the supervisor, which then lets
the agent export its last interval before the collector stops. A part dies with the supervisor even if
that is killed.
"""
import ctypes
import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request

PR_SET_PDEATHSIG = 1
STOP_SECONDS = 10
LOG_TAIL_LINES = 15
LOAD_A_CPU_HIGH = 4


class StartFailed(Exception):
    """A part could not be started; the text is for the user."""


class Stopped(Exception):
    """The user asked for the end."""


def _die_with_parent():
    os.setpgid(0, 0)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


def _fetch(url, timeout=2):
    with urllib.request.urlopen(url, timeout=timeout) as answer:
        return answer.read()


def _load_text():
    """The likely cause, if known."""
    load, cpus = os.getloadavg()[0], os.cpu_count()
    if load < LOAD_A_CPU_HIGH * cpus:
        return ""
    return f", perhaps because this machine is busy (load {load:.0f} on {cpus} CPUs)"


class Part:
    def __init__(self, name, process, log_path, may_end):
        self.name = name
        self.process = process
        self.log_path = log_path
        self.may_end = may_end

    def has_failed(self):
        """Has it ended although it should not, or badly?"""
        code = self.process.poll()
        return code is not None and not (self.may_end and code == 0)

    def has_ended(self):
        return self.process.poll() is not None

    def log_tail(self):
        with open(self.log_path, encoding="utf-8", errors="replace") as log:
            return "".join(log.readlines()[-LOG_TAIL_LINES:]).rstrip()

    def ended_text(self):
        code = self.process.returncode
        how = f"was killed by signal {-code}" if code < 0 else f"exited with status {code}"
        return f"{self.name} {how}. Its last words ({self.log_path}):\n{self.log_tail()}"


class Supervisor:
    def __init__(self, log_folder):
        self.log_folder = log_folder
        self.parts = []
        os.makedirs(log_folder, exist_ok=True)

    def __enter__(self):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._stop_requested)
        return self

    def __exit__(self, *_):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        self.stop()

    @staticmethod
    def _stop_requested(*_):
        raise Stopped

    def start(self, name, argv, env=None, may_end=False):
        """Start a part; its output goes to a log file. One that may end does so with status 0."""
        log_path = os.path.join(self.log_folder, f"{name}.log")
        with open(log_path, "wb") as log:
            try:
                process = subprocess.Popen(
                    argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                    env={**os.environ, **(env or {})}, preexec_fn=_die_with_parent)
            except OSError as error:
                raise StartFailed(f"{name}: cannot run {argv[0]}: {error.strerror}; "
                                  "build it with `make`") from error
        part = Part(name, process, log_path, may_end)
        self.parts.append(part)
        return part

    def check(self):
        """Raise StartFailed if a part has ended that should still run."""
        for part in self.parts:
            if part.has_failed():
                raise StartFailed(part.ended_text())

    def wait_until(self, what, ready, seconds):
        """Wait until `ready()` is true; a part that ends meanwhile is a failure."""
        deadline = time.monotonic() + seconds
        while not ready():
            self.check()
            if time.monotonic() > deadline:
                tails = "\n".join(f"-- {part.name}:\n{part.log_tail()}" for part in self.parts)
                raise StartFailed(f"{what} did not happen within {seconds} s{_load_text()}. "
                                  f"The logs say:\n{tails}")
            time.sleep(0.05)

    def watch(self, on_second=lambda: None):
        """Until the user stops it or a part dies."""
        while True:
            self.check()
            on_second()
            time.sleep(1)

    def stop(self):
        """Stop all parts, the youngest first."""
        for part in reversed(self.parts):
            self._stop_part(part)
        self.parts.clear()

    @staticmethod
    def _stop_part(part):
        if part.process.poll() is None:
            part.process.terminate()
            try:
                part.process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                print(f"{part.name} did not stop within {STOP_SECONDS} s and is killed",
                      file=sys.stderr)
        # What is left of its group: workers of a part that was killed, or the part itself.
        try:
            os.killpg(part.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        part.process.wait()


def is_answering(url):
    """Does an HTTP server answer there with success?"""
    try:
        _fetch(url)
        return True
    except (OSError, urllib.error.HTTPError, ValueError):
        return False


def agents_seen(http_address):
    """How many agents sent data in the last minute."""
    try:
        return json.loads(_fetch(f"http://{http_address}/api/v1/status"))["agents"]
    except (OSError, urllib.error.HTTPError, ValueError, KeyError):
        return 0
