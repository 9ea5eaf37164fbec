# SPDX-License-Identifier: Apache-2.0
"""Threads that blocked before the agent started soon have complete stacks."""
import os
import subprocess
import sys

import pytest

from fleet import Agent, Collector, FlameGraph, wait_until
from wall import OFF_CPU, build_programs, program_argv, unique

WORKERS = """
import threading, time, sys
lock = threading.Lock()
lock.acquire()

def wait_for_the_lock():
    lock.acquire()

def worker():
    wait_for_the_lock()

for _ in range(4):
    threading.Thread(target=worker, daemon=True).start()
time.sleep(0.5)
print("blocked", flush=True)
sys.stdin.read()
"""
ENOUGH = 0.75  # a main thread that reads its standard input is in another function
SECONDS = 60


def started(argv, service):
    return subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                            env={**os.environ, "OTEL_SERVICE_NAME": service})


def share_of(collector, service, functions):
    """The part of the last seconds' blocked time with one of the functions on an untruncated stack."""
    graph = FlameGraph(collector.api.get("merge", query=f'{{service="{service}"}}', type=OFF_CPU,
                                         max_nodes=100000, from_="now-4s", to="now-2s"))
    whole = sum(value for node, value in enumerate(graph.self_values) if node and
                any(name.split(" (")[0].split(".")[-1] in functions.split("|")
                    for name in graph.path(node)) and
                not any(name.startswith("[truncated") for name in graph.path(node)))
    print(f"  {service}: {whole / 1e6:.0f} of {graph.total / 1e6:.0f} ms in {functions}")
    return whole / graph.total if graph.total else 0


@pytest.fixture(scope="module")
def programs():
    build_programs()
    services = {unique("native"): (program_argv("sleepers"), "wait_for_ever"),
                # An unknown interpreter is another test's case.
                unique("python"): ([sys.executable, "-B", "-c", WORKERS],
                                   "wait_for_the_lock|PyThread_acquire_lock_timed")}
    processes = {service: started(argv, service) for service, (argv, _) in services.items()}
    try:
        for process in processes.values():
            assert process.stdout.readline().strip() == "blocked"
        yield services
    finally:
        for process in processes.values():
            process.kill()
            process.wait()


def test_captures_threads_blocked_before_start(programs, tmp_path):
    with Collector(tmp_path / "data", tmp_path / "collector.log") as collector:
        agent = Agent(collector.grpc, tmp_path / "agent")
        try:
            for service, (_, function) in programs.items():
                wait_until(f"whole stacks of {service}", SECONDS,
                           lambda s=service, f=function: share_of(collector, s, f) > ENOUGH)
        finally:
            agent.stop()
