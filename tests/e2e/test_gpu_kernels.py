# SPDX-License-Identifier: Apache-2.0
"""Time of kernels by the Python stack that launched them: an agent that opens windows of the CUPTI helper, with a double
of libcupti. No device is needed."""
import os
import subprocess
import sys

import pytest

from fleet import ROOT, Agent, build_folder, unique, wait_until

KERNEL = "gpu_kernel:device_time:nanoseconds:gpu:nanoseconds"
KERNELS = "gpu_kernel:kernels:count:kernel:count"
ARRIVE_SECONDS = 90
CLIENT_SECONDS = 300  # it is ended by the test


@pytest.fixture(scope="module", autouse=True)
def doubles():
    names = [f"{build_folder()}/tests/gpu/{name}" for name in ("libcupti.so.12", "libcairn_cupti.so")]
    subprocess.run(["make", f"BUILD={os.environ.get('BUILD', 'build')}", *names], cwd=ROOT, check=True,
                   stdout=subprocess.DEVNULL)


@pytest.fixture(scope="module")
def agent(fleet, tmp_path_factory):
    """One more, which opens windows often."""
    one = Agent(fleet.grpc, tmp_path_factory.mktemp("kernels"), ["--kernel-windows", "1s", "--label", "role=kernels"])
    yield one
    one.stop()


@pytest.fixture
def start_client():
    clients = []

    def start(*words, **environment):
        service = unique("gpu-kernels")
        command = [sys.executable, str(ROOT / "tests/gpu/cupti_client.py"), str(build_folder() / "tests/gpu"),
                   str(CLIENT_SECONDS), *words]
        clients.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True,
                                        env={**os.environ, "OTEL_SERVICE_NAME": service, **environment}))
        assert clients[-1].stdout.readline() == "ready\n"
        return service, clients[-1]
    yield start
    for client in clients:
        client.kill()
        client.wait()


def value_of(tree, function):
    return sum(tree.totals[node] for node in range(1, len(tree.names)) if tree.names[node].split(" (")[0] == function)


def test_kernels_time_stands_below_the_python_line_that_launched_them(fleet, agent, start_client):
    service, _ = start_client()
    selector = f'{{service="{service}",role="kernels"}}'

    def look():
        tree = fleet.api.merge(selector, type_=KERNEL)
        return all(value_of(tree, name) for name in ("multiply", "normalize", "replay")) and tree
    tree = wait_until("time of kernels", ARRIVE_SECONDS, look)
    tree.check()
    numbers = fleet.api.merge(selector, type_=KERNELS)
    # Each kernel took exactly so long; how many there were is what was seen.
    for name, kernel, took_ns in (("multiply", "gemm", 30000), ("normalize", "softmax", 10000), ("replay", "(no name)", 5000)):
        paths = [tree.path(node) for node in range(1, len(tree.names)) if tree.names[node].split("(")[0] == kernel.split("(")[0]
                 and any(step.startswith(f"{name} (") for step in tree.path(node))]
        assert paths, (name, tree.names)
        tools = [step for path in paths for step in path if step.startswith(("cairn_", "on_launch", "cupti_double"))]
        assert not tools, paths
        # More may have come between the two questions.
        assert value_of(numbers, name) >= value_of(tree, name) / took_ns > 0, name
        assert value_of(tree, name) % took_ns == 0, name
    assert value_of(tree, "multiply") == pytest.approx(3 * value_of(tree, "normalize"), rel=0.5)


def test_the_applications_own_profiler_comes_first_and_it_is_said(fleet, agent, start_client):
    service, client = start_client("profiler")
    wait_until("a notice", ARRIVE_SECONDS, lambda: f"process {client.pid} is not measured: it uses CUPTI itself" in agent.log())
    assert fleet.api.total(f'{{service="{service}"}}', type_=KERNEL) == 0


def test_a_process_that_cupti_halts_for_long_gets_no_more_windows(fleet, agent, start_client):
    _, client = start_client(CUPTI_DOUBLE_ENABLE_MS="1100")
    wait_until("a notice", ARRIVE_SECONDS,
               lambda: f"process {client.pid} is not measured: CUPTI took " in agent.log())


def test_a_process_that_ends_in_its_window_takes_nothing_with_it(fleet, agent, start_client):
    service, client = start_client()
    selector = f'{{service="{service}",role="kernels"}}'
    wait_until("a first window", ARRIVE_SECONDS, lambda: fleet.api.total(selector, type_=KERNEL) > 0)
    client.kill()
    other, _ = start_client()
    wait_until("another process's window", ARRIVE_SECONDS, lambda: fleet.api.total(
        f'{{service="{other}",role="kernels"}}', type_=KERNEL) > 0)
    assert agent.is_running()
