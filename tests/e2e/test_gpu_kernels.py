# SPDX-License-Identifier: Apache-2.0
"""GPU kernel time by the Python stack that launched the GPU kernel: an agent runs CUPTI sessions with a double of libcupti. Needs
no GPU."""
import os
import subprocess
import sys

import pytest

from contract import TYPE
from fleet import ROOT, Agent, Collector, program, unique, wait_until
from gpu_double import DOUBLES, make_doubles

KERNEL = TYPE.GPU_KERNEL
KERNELS = TYPE.GPU_KERNELS
ARRIVE_SECONDS = 90
CLIENT_SECONDS = 300  # at most: the test kills it


@pytest.fixture(scope="module", autouse=True)
def doubles():
    make_doubles("libcupti.so.12", "libcairn_cupti.so")


@pytest.fixture(scope="module")
def collector(tmp_path_factory):
    """Its own: a second agent of the shared one would double what others measure."""
    folder = tmp_path_factory.mktemp("kernels-collector")
    with Collector(folder / "data", folder / "collector.log") as started:
        yield started


@pytest.fixture(scope="module")
def agent(collector, tmp_path_factory):
    """With frequent sessions."""
    one = Agent(collector.grpc, tmp_path_factory.mktemp("kernels"), ["--cupti-interval", "1s"])
    yield one
    one.stop()


@pytest.fixture
def start_client():
    clients = []

    def start(*words, **environment):
        service = unique("gpu-kernels")
        command = [sys.executable, str(ROOT / "tests/gpu/cupti_client.py"), str(DOUBLES), str(CLIENT_SECONDS), *words]
        clients.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True,
                                        env={**os.environ, "OTEL_SERVICE_NAME": service, **environment}))
        assert clients[-1].stdout.readline() == "ready\n"
        return service, clients[-1]
    yield start
    for client in clients:
        client.kill()
        client.wait()


def test_command_prints_launching_stacks_without_an_agent(start_client):
    _, client = start_client()
    answer = subprocess.run([program("cairn"), "gpu-kernels", str(client.pid), "--stacks"], capture_output=True, text=True,
                            timeout=ARRIVE_SECONDS)
    assert answer.returncode == 0, answer.stderr
    below = {}  # lines by GPU kernel
    for line in answer.stdout.splitlines():
        words = line.split(maxsplit=6)
        if len(words) == 7 and words[0].endswith("%"):
            below[words[6]] = []
        elif line.startswith("         ") and below:
            below[list(below)[-1]].append(line.strip())
    launched_by = {"gemm": "multiply", "softmax": "normalize", "(no name)": "replay"}
    assert set(below) == set(launched_by), answer.stdout
    for kernel, function in launched_by.items():
        lines = below[kernel]
        assert lines[0] == "100 % of it launched by (innermost call first):", answer.stdout
        assert lines[-1].startswith("<module> (cupti_client.py:"), answer.stdout
        assert lines[-2].startswith(f"{function} (cupti_client.py:"), answer.stdout
        assert len(lines) > 3, answer.stdout  # and native frames, from the helper's probe on
        assert not [line for line in lines if line.startswith(("cairn_", "on_launch", "cupti_double"))], answer.stdout


def test_command_fails_while_process_uses_cupti(start_client):
    _, client = start_client("profiler")
    answer = subprocess.run([program("cairn"), "gpu-kernels", str(client.pid), "--stacks"], capture_output=True, text=True,
                            timeout=ARRIVE_SECONDS)
    assert answer.returncode != 0 and "uses CUPTI itself" in answer.stderr, answer


def test_kernel_time_is_charged_to_the_launching_line(collector, agent, start_client):
    service, _ = start_client()
    selector = f'{{service="{service}"}}'

    def look():
        tree = collector.api.merge(selector, type_=KERNEL)
        return all(tree.total_of_any_line(name) for name in ("multiply", "normalize", "replay")) and tree
    tree = wait_until("GPU kernel time", ARRIVE_SECONDS, look)
    tree.check()
    numbers = collector.api.merge(selector, type_=KERNELS)
    # Each run took exactly so long.
    for name, kernel, took_ns in (("multiply", "gemm", 30000), ("normalize", "softmax", 10000), ("replay", "(no name)", 5000)):
        paths = [tree.path(node) for node in range(1, len(tree.names)) if tree.names[node].split("(")[0] == kernel.split("(")[0]
                 and any(step.startswith(f"{name} (") for step in tree.path(node))]
        assert paths, (name, tree.names)
        tools = [step for path in paths for step in path if step.startswith(("cairn_", "on_launch", "cupti_double"))]
        assert not tools, paths
        # More may have arrived between the two queries.
        assert numbers.total_of_any_line(name) >= tree.total_of_any_line(name) / took_ns > 0, name
        assert tree.total_of_any_line(name) % took_ns == 0, name
    assert tree.total_of_any_line("multiply") == pytest.approx(3 * tree.total_of_any_line("normalize"), rel=0.5)


def test_agent_yields_to_the_applications_own_profiler(collector, agent, start_client):
    service, client = start_client("profiler")
    wait_until("a log line", ARRIVE_SECONDS, lambda: f"GPU kernels not measured in process {client.pid}: it uses CUPTI itself" in agent.log())
    assert collector.api.total(f'{{service="{service}"}}', type_=KERNEL) == 0


def test_stalled_process_gets_no_more_sessions(agent, start_client):
    _, client = start_client(CUPTI_DOUBLE_ENABLE_MS="1100")
    wait_until("a log line", ARRIVE_SECONDS,
               lambda: f"GPU kernels not measured in process {client.pid}: CUPTI stalled launches" in agent.log())


def test_process_killed_in_its_session_leaves_others_working(collector, agent, start_client):
    service, client = start_client()
    selector = f'{{service="{service}"}}'
    wait_until("a first session", ARRIVE_SECONDS, lambda: collector.api.total(selector, type_=KERNEL) > 0)
    client.kill()
    other, _ = start_client()
    wait_until("another process's session", ARRIVE_SECONDS, lambda: collector.api.total(
        f'{{service="{other}"}}', type_=KERNEL) > 0)
    assert agent.is_running()
