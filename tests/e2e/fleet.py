# SPDX-License-Identifier: Apache-2.0
"""Collectors, agents and workloads as processes, and the collector's HTTP API."""
import errno
import itertools
import json
import os
import pathlib
import random
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request

import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests"))
from contract import TYPE  # noqa: E402 pylint: disable=wrong-import-position

START_SECONDS = 20
STOP_SECONDS = 15
SETTLED_SECONDS = 1.5  # an export interval and a half: nothing more comes
ARRIVED_SHARE = 0.75  # ticks are a sample: beside other load one CPU second is 0.9 or 1.1 by chance
CPU = TYPE.CPU
PORTS = 12000  # that servers of tests choose from

_numbers = itertools.count(1)


def build_folder():
    return ROOT / os.environ.get("BUILD", "build")


def program(name):
    return str(build_folder() / name)


def unique(name):
    """A unique label value."""
    return f"e2e-{name}-{os.getpid()}-{next(_numbers)}"


_claims = []  # sockets, for the life of this process


def is_ours(port):
    """Claim it before all processes of the tests, by a name that they cannot have at the same time."""
    claim = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        claim.bind(f"\0cairn-test-port-{port}")
    except OSError:
        claim.close()
        return False
    _claims.append(claim)
    return True


def free_port():
    """A port that a server can have later, too: below those that the kernel gives to clients, and of this process."""
    first = int(pathlib.Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    while True:
        port = random.randrange(max(first - PORTS, 1024), first)
        if not is_ours(port):
            continue
        with socket.socket() as listener:
            try:
                listener.bind(("127.0.0.1", port))
                return port
            except OSError as error:
                if error.errno != errno.EADDRINUSE:
                    raise


def wait_until(what, seconds, ready):
    """Wait for a true value of ready() and return it."""
    deadline = time.monotonic() + seconds
    while True:
        value = ready()
        if value:
            return value
        assert time.monotonic() < deadline, f"{what}: not within {seconds} s"
        time.sleep(0.1)


class ApiError(Exception):
    def __init__(self, status, body):
        super().__init__(f"HTTP {status}: {body[:500]}")
        self.status = status
        try:
            self.error = json.loads(body)["error"]
        except (ValueError, KeyError, TypeError):
            self.error = {}


class Api:
    def __init__(self, address):
        self.base = f"http://{address}"

    def fetch(self, path, **parameters):
        """The body's bytes; ApiError for other statuses than 200."""
        url = f"{self.base}{path}"
        if parameters:
            url += "?" + urllib.parse.urlencode({k.rstrip("_"): v for k, v in parameters.items()})
        try:
            with urllib.request.urlopen(url, timeout=20) as answer:
                return answer.read()
        except urllib.error.HTTPError as error:
            raise ApiError(error.code, error.read().decode("utf-8", "replace")) from error

    def get(self, path, **parameters):
        return json.loads(self.fetch(f"/api/v1/{path}", **parameters))

    def answers(self, path):
        try:
            self.fetch(path)
            return True
        except (OSError, ApiError):
            return False

    def total(self, selector, **parameters):
        return self.get("top", query=selector, limit=1, **parameters)["total"]

    def top(self, selector, **parameters):
        """Functions by name: (self, total), and the total of all."""
        answer = self.get("top", query=selector, limit=10000, **parameters)
        return {row["name"]: (row["self"], row["total"]) for row in answer["rows"]}, answer["total"]

    def merge(self, selector, **parameters):
        return FlameGraph(self.get("merge", query=selector, **parameters))

    def wait_for_totals(self, expected, seconds=25):
        """Wait until the burned CPU time ({selector: CPU ns}) has arrived and no more comes; returns
        the totals."""
        seen, since = None, 0

        def are_settled():
            nonlocal seen, since
            totals = {selector: self.total(selector) for selector in expected}
            if totals != seen:
                seen, since = totals, time.monotonic()
            arrived = all(totals[selector] > ARRIVED_SHARE * ns for selector, ns in expected.items())
            time.sleep(0.2)  # each look costs the collector something
            return arrived and time.monotonic() - since > SETTLED_SECONDS
        try:
            wait_until(f"CPU time of {expected}", seconds, are_settled)
        except AssertionError as error:
            raise AssertionError(f"{error}; arrived: {seen} of {self.totals_by_service()}") from None
        return seen

    def totals_by_service(self):
        """All services' CPU time, the biggest first; for messages."""
        services = self.get("labels/service/values")["values"]
        totals = {name: self.total(f'{{service="{name}"}}') for name in services}
        return sorted(totals.items(), key=lambda item: -item[1])

    def wait_for_total(self, selector, cpu_ns):
        """As wait_for_totals(), for one."""
        return self.wait_for_totals({selector: cpu_ns})[selector]


class FlameGraph:
    """An answer of /api/v1/merge, with names resolved."""

    def __init__(self, answer):
        nodes = answer["nodes"]
        self.total = answer["total"]
        self.parents = nodes["parent"]
        self.names = [answer["names"][number] for number in nodes["name"]]
        self.kinds = [answer["kinds"][kind] for kind in nodes["kind"]]
        self.self_values = nodes["self"]
        self.totals = nodes["total"]

    def path(self, node):
        """Names from the root to the node."""
        names = []
        while node:
            names.append(self.names[node])
            node = self.parents[node]
        return names[::-1]

    def total_of(self, name):
        """Value in and below the function; recursion counts once."""
        return sum(self.totals[node] for node in range(1, len(self.names))
                   if self.names[node] == name and name not in self.path(node)[:-1])

    def total_of_any_line(self, function):
        """In and below a Python function, whatever its line; none that calls itself."""
        return sum(self.totals[node] for node in range(1, len(self.names)) if self.names[node].split(" (")[0] == function)

    def kind_total_below(self, name, kind):
        """Self value of frames of a kind below the function."""
        return sum(self.self_values[node] for node in range(1, len(self.names))
                   if self.kinds[node] == kind and name in self.path(node)[:-1])

    def check(self):
        """The tree is one: parents first, totals add up."""
        below = [0] * len(self.names)
        for node in range(len(self.names) - 1, 0, -1):
            assert self.parents[node] < node
            assert self.totals[node] == self.self_values[node] + below[node], self.path(node)
            below[self.parents[node]] += self.totals[node]
        assert self.totals[0] == self.total == self.self_values[0] + below[0]


def thread_states(pid):
    """What each thread of a hanging process waits for."""
    if shutil.which("gdb"):
        return subprocess.run(["gdb", "-p", str(pid), "-batch", "-ex", "thread apply all bt"],
                              capture_output=True, text=True, check=False).stdout
    lines = []
    for task in sorted(pathlib.Path(f"/proc/{pid}/task").iterdir()):
        name = (task / "comm").read_text().strip()
        state = (task / "stat").read_text().rsplit(")", 1)[1].split()[0]
        stack = [line.split()[-1].split("+")[0] for line in
                 (task / "stack").read_text().splitlines()]
        lines.append(f"{task.name} {name} {state} syscall {(task / 'syscall').read_text().strip()} "
                     f"kernel stack {' < '.join(stack)}")
    return "\n".join(lines)


class Daemon:
    """A program that runs until it is stopped; its output is kept in a log."""

    def __init__(self, argv, log_path, env=None):
        self.argv = argv
        self.log_path = pathlib.Path(log_path)
        self.env = env
        self.process = None

    def start(self):
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(self.argv, stdin=subprocess.DEVNULL, stdout=log,
                                            stderr=log, env={**os.environ, **(self.env or {})})

    def log(self):
        return self.log_path.read_text(errors="replace")

    def is_running(self):
        return self.process is not None and self.process.poll() is None

    def stop(self):
        """Stop in good order; it must obey and exit with 0."""
        if self.process is None:
            return
        process, self.process = self.process, None
        process.terminate()
        try:
            code = process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            threads = thread_states(process.pid)
            process.kill()
            process.wait()
            raise AssertionError(f"{self.argv[0]} did not stop; its log:\n{self.log()}\n"
                                 f"its threads:\n{threads}") from None
        assert code == 0, f"{self.argv[0]} exited with {code}; its log:\n{self.log()}"

    def kill(self):
        """SIGKILL, like a crash."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.process = None


class Collector(Daemon):
    """A collector on ports of its own; the same ports and data after each start."""

    def __init__(self, data, log_path):
        self.http = f"127.0.0.1:{free_port()}"
        self.grpc = f"127.0.0.1:{free_port()}"
        self.grpc_port = int(self.grpc.rsplit(":", 1)[1])
        self.http_port = int(self.http.rsplit(":", 1)[1])
        self.api = Api(self.http)
        super().__init__([program("cairn-collector"), "--data", str(data), "--grpc", self.grpc,
                          "--http", self.http], log_path)

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.stop()

    def start(self):
        super().start()
        deadline = time.monotonic() + START_SECONDS
        while not self.api.answers("/readyz"):
            assert self.is_running(), f"the collector ended; its log:\n{self.log()}"
            assert time.monotonic() < deadline, f"the collector is not ready:\n{self.log()}"
            time.sleep(0.05)

    def wait_for_agent(self, count=1):
        wait_until(f"{count} agents", START_SECONDS,
                   lambda: self.api.get("status")["agents"] >= count)


def in_manifest():
    """The command that runs a program as the manifest of Kubernetes does: root with its capabilities, and no other."""
    documents = yaml.safe_load_all((ROOT / "deploy/kubernetes/base/agent.yaml").read_text())
    pod = next(d for d in documents if d["kind"] == "DaemonSet")["spec"]["template"]["spec"]
    context = pod["containers"][0]["securityContext"]
    assert context["capabilities"]["drop"] == ["ALL"] and not context["allowPrivilegeEscalation"]
    return with_capabilities(*[f"+{name.lower()}" for name in context["capabilities"]["add"]])


def with_capabilities(*added):
    """The command that runs a program as root with these capabilities, "+bpf", and no other."""
    return ["setpriv", "--no-new-privs", "--inh-caps=-all",
            "--bounding-set=" + ",".join(["-all", *added])]


class Agent(Daemon):
    def __init__(self, grpc, folder, flags=(), prefix=(), samples=True):
        """Waits until it samples, if it @samples at all."""
        folder = pathlib.Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        # No overhead budget: the agent must not shed load during a test.
        super().__init__([*prefix, program("cairn-agent"), "--collector", grpc, "--interval", "1s",
                          "--overhead-budget", "none", *flags], folder / "agent.log")
        self.start()
        if not samples:
            return
        try:
            wait_until("the agent's first sample", START_SECONDS, self.is_sampling)
        except AssertionError:
            self.kill()
            raise

    def stop(self):
        super().stop()
        assert "seccomp: refused" not in self.log(), self.log()

    def is_sampling(self):
        assert self.is_running(), f"the agent ended; its log:\n{self.log()}"
        return "sampling" in self.log()


class Workload:
    """As a context it ends with the block, whatever it has still to do."""

    def __init__(self, argv, env):
        self.process = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True,
                                        env={**os.environ, **env})

    def cpu_ns(self):
        """CPU time of all its threads so far."""
        tasks = pathlib.Path(f"/proc/{self.process.pid}/task").iterdir()
        return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.communicate()

    def truth(self):
        output, _ = self.process.communicate(timeout=120)
        assert self.process.returncode == 0
        return json.loads(output)


def workload_argv(name, *arguments):
    if name.endswith(".py"):
        return ["python3", str(ROOT / "tests/workloads" / name), *arguments]
    return [program(f"workloads/{name}"), *arguments]


def workload(name, *arguments, env=None):
    """Start one of tests/workloads."""
    return Workload(workload_argv(name, *arguments), env or {})
