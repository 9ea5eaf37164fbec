# SPDX-License-Identifier: Apache-2.0
"""How the benchmarks compare profilers, account CPU and log a load, on small examples."""
import http.server
import os
import pathlib
import subprocess
import sys
import threading
import time
import types

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "bench"))
import bench_beside  # noqa: E402 pylint: disable=wrong-import-position
import http_load  # noqa: E402 pylint: disable=wrong-import-position
from accounting import Group, cpu_ns, memory_bytes, tree  # noqa: E402 pylint: disable=wrong-import-position


def window(rate, by_cpu=1.0, p50=None, p99=None):
    """One whose comparison with another is by these."""
    made = object.__new__(bench_beside.Window)
    made.rate, made.by_cpu, made.latencies = rate, by_cpu, [value for value in (p50, p99) if value]
    return made


def test_compares_within_a_round():
    rounds = [
        {"nothing": (window(100), {}), "cairn": (window(90), {"cpu": 2.0}), "peer": (window(50), {"cpu": 9.0})},
        {"nothing": (window(10), {}), "peer": (window(10), {"cpu": 9.0})},  # where cairn did not run
        {"nothing": (window(50), {}), "cairn": (window(50), {"cpu": 1.0})},
        {"cairn": (window(7), {"cpu": 3.0})},  # the time was up
    ]
    table = bench_beside.collect(rounds, {"cairn": {"whole": 99.0}}, ["cairn", "peer"])
    assert table["cairn"]["kept"] == [0.9, 1.0], "each with the window without a profiler of its round"
    assert table["peer"]["kept"] == [0.5, 1.0]
    assert table["cairn"]["cpu"] == [2.0, 1.0, 3.0] and table["cairn"]["whole"] == [99.0]


LOSSES = [
    # what, figure, ours, theirs, whether it is a loss
    ("more CPU", "cpu", [2.0, 2.0, 9.0], [1.0, 1.5, 1.0], True),
    ("less CPU", "cpu", [1.0], [2.0], False),
    ("as much, within noise", "cpu", [1.01], [1.0], False),
    ("less throughput", "kept", [0.9], [1.0], True),
    ("fewer whole stacks", "whole", [71.0], [95.0], True),
    ("more whole stacks", "whole", [95.0], [71.0], False),
    ("a figure that nobody wins", "frames", [9.0], [50.0], False),
    ("no figure of ours", "rss", [], [1.0], False),
    ("they have no figure", "rss", [9.0], [], False),
]


@pytest.mark.parametrize("figure, mine, theirs, expected", [row[1:] for row in LOSSES], ids=[row[0] for row in LOSSES])
def test_names_where_cairn_loses(figure, mine, theirs, expected):
    table = {"cairn-cpu": {figure: mine} if mine else {}, "cairn": {figure: [0.001]},
             "peer": {figure: theirs} if theirs else {}}
    assert bool(list(bench_beside.losses(table, "cairn-cpu"))) == expected


def test_idle_runs_are_no_samples():
    """A CPU that was idle half of the time has half of the samples, whoever's program ran there."""
    def reading(seconds, idle, runs):
        return types.SimpleNamespace(unix_ns=0, clock_ns=0, time=seconds, work=0, work_cpu_ns=0, cpu_ns=0, idle=idle,
                                     runs={1: ("perf_event", *runs)})
    workload = types.SimpleNamespace(latencies_ms=lambda begin, end: [])
    cpus = os.cpu_count()
    half = bench_beside.Window(workload, reading(0, 0, (0, 0)), reading(10, 5 * cpus, (1000 * cpus, 5_000_000 * cpus)), 100)
    assert half.samples == 500 * cpus and half.figures()["sample_us"] == 10


BURNED_NS = 200_000_000  # more than an interpreter's start takes


def test_group_counts_ended_processes():
    group = Group("test")
    if not group.path:
        pytest.skip("no cgroup can be made here")
    # What burns is a child that is nobody's any more, and ends.
    burn = ("import subprocess, sys, time\n"
            "subprocess.Popen([sys.executable, '-c', 'sum(range(10**8))'])\n"
            "time.sleep(60)\n")
    with subprocess.Popen([sys.executable, "-c", "import os\nif os.fork(): os._exit(0)\n" + burn],
                          preexec_fn=group.enter) as process:
        process.wait()
    assert process.returncode == 0
    pids = [int(pid) for pid in (group.path / "cgroup.procs").read_text().split()]
    assert pids, "it counts what others have adopted"
    assert tree(pids[0]) and memory_bytes(pids[0], "VmRSS") > 0
    deadline = time.monotonic() + 60
    while len(tree(pids[0])) > 1 or cpu_ns(pids[0]) < BURNED_NS:  # the child may not have begun yet
        assert time.monotonic() < deadline, f"{cpu_ns(pids[0])} ns are counted"
        time.sleep(0.1)
    group.end()
    assert not pathlib.Path(f"/proc/{pids[0]}").exists() or "Z" in pathlib.Path(f"/proc/{pids[0]}/stat").read_text()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):  # pylint: disable=invalid-name
        self.rfile.read(int(self.headers["Content-Length"]))
        status = 500 if self.server.fails else 200
        self.send_response(status)
        self.send_header("Content-Length", "5")
        self.end_headers()
        self.wfile.write(b"hello")

    def log_message(self, *_):  # pylint: disable=arguments-differ
        pass


@pytest.fixture
def server():
    made = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    made.daemon_threads, made.fails = True, False
    threading.Thread(target=made.serve_forever, daemon=True).start()
    yield made
    made.shutdown()
    made.server_close()


def test_load_logs_each_answer(server, tmp_path):
    log = tmp_path / "log"
    figures = http_load.Load(server.server_port, 0.5, 2, log=log).run().figures()
    records = http_load.records(log)
    assert figures["failed"] == 0 and len(records) == figures["requests"] > 1
    assert all(latency > 0 for _, latency in records)


def test_open_loop_keeps_its_rate(server):
    figures = http_load.Load(server.server_port, 1, 4, rate=40).run().figures()
    assert 20 <= figures["requests"] <= 40, "no more than are due, however fast it answers"


def test_load_counts_failures(server):
    server.fails = True
    figures = http_load.Load(server.server_port, 0.3, 1).run().figures()
    assert figures["requests"] == 0 and figures["failed"] > 0 and figures["p99_ms"] is None
