# SPDX-License-Identifier: Apache-2.0
"""GPU calls by Python stack, with the double of the CUDA driver: needs no GPU. The agent probes a driver that a running
process has mapped already."""
import json
import subprocess
import time

import pytest

from contract import TYPE
from fleet import program, unique, wait_until
from gpu_double import make_doubles, own_doubles, start_script

WAIT = TYPE.GPU_WAIT
SPIN = TYPE.GPU_SPIN
LAUNCH = TYPE.GPU_LAUNCH
GRAPH = TYPE.GPU_GRAPH
GRAPH_KERNELS = TYPE.GPU_GRAPH_KERNELS
COPY = TYPE.GPU_COPY
COPIES = TYPE.GPU_COPIES
ALLOC = TYPE.GPU_ALLOC
ALLOCATIONS = TYPE.GPU_ALLOCATIONS
MEMORY = TYPE.GPU_MEMORY
ATTACH_SECONDS = 60  # to sample the process, read its mappings and ship an export interval
ARRIVE_SECONDS = 60


@pytest.fixture(scope="session", autouse=True)
def double():
    make_doubles("libcuda.so.1")


class Client:
    """tests/gpu/client.py: serves from go() on until it is closed."""

    def __init__(self, service, **environment):
        self.service = service
        self.environment = environment
        self.process = start_script("client.py", service, **environment)
        self.truth = None

    def go(self):
        """Do all work, and read what it was."""
        self.process.stdin.write("x")
        self.process.stdin.flush()
        self.truth = json.loads(self.process.stdout.readline())

    def close(self):
        self.process.stdin.close()
        self.process.wait(20)


def tree_of(fleet, client, type_, function):
    """The flame graph in which @function has arrived."""
    def look():
        tree = fleet.api.merge(client.service, type_=type_)
        return tree.total_of_any_line(function) and tree
    return wait_until(f"{function} in {type_}", ARRIVE_SECONDS, look)


def paths_with(tree, function):
    return [tree.path(node) for node in range(1, len(tree.names)) if tree.names[node] == function]


@pytest.fixture(scope="module")
def client(fleet, tmp_path_factory):
    """It runs before its driver is probed: for no other test's client, either."""
    one = Client(unique("gpu-client"), **own_doubles(tmp_path_factory.mktemp("driver"), "libcuda.so.1"))
    try:
        wait_until("the first wait", ATTACH_SECONDS,
                   lambda: fleet.api.total(one.service, type_=WAIT) > 0)
        one.go()
        # The last work has arrived, and so has all before it.
        tree_of(fleet, one, WAIT, "decode_tokens")
        yield one
    finally:
        one.close()


def test_waits_are_charged_to_their_python_line(fleet, client):
    tree = tree_of(fleet, client, WAIT, "wait_for_decode")
    # The client may be preempted between reading its clock and the call.
    assert tree.total_of_any_line("wait_for_decode") == pytest.approx(client.truth["wait_ns"], rel=0.3)
    paths = paths_with(tree, "cuStreamSynchronize")
    assert paths and all(any(name.startswith("main (") for name in path) for path in paths), paths


def test_async_copy_that_blocks_is_a_wait(fleet, client):
    tree = tree_of(fleet, client, WAIT, "fetch_pageable")
    assert tree.total_of_any_line("fetch_pageable") == pytest.approx(client.truth["fetch_ns"], rel=0.3)
    assert tree.total_of_any_line("fetch_pinned") == 0, "it returns at once"
    copied = fleet.api.merge(client.service, type_=COPY)
    assert copied.total_of_any_line("fetch_pageable") == client.truth["to_host_pageable"]


def test_samples_inside_a_wait_have_complete_stacks(fleet, client):
    """The wait's return probe has replaced a return address on each of these stacks."""
    def look():
        tree = fleet.api.merge(client.service, type_=SPIN)
        if tree.total_of_any_line("wait_for_decode"):
            return tree
        # On a busy machine half a second of waiting may have no sample that was named in time.
        client.process.stdin.write("w")
        client.process.stdin.flush()
        time.sleep(2)
        return None
    tree = wait_until("samples in wait_for_decode", ARRIVE_SECONDS, look)
    whole = sum(tree.self_values[node] for node in range(1, len(tree.names))
                if any(name.startswith("main (") for name in tree.path(node)))
    assert whole > 0.8 * tree.total, tree.names


def test_copies_are_exact_by_direction_and_memory(fleet, client):
    tree = tree_of(fleet, client, COPY, "fetch_pinned")
    assert tree.total_of_any_line("load_batch") == client.truth["to_device"]
    assert tree.total_of_any_line("fetch_pinned") == client.truth["to_host"]
    numbers = fleet.api.merge(client.service, type_=COPIES)
    assert (numbers.total_of_any_line("load_batch"), numbers.total_of_any_line("fetch_pinned")) == (4, 3)

    def bytes_of(labels):
        return fleet.api.total(f'{{service="{client.service}",{labels}}}', type_=COPY)
    # Memory that the process pinned before it was probed is unknown.
    assert bytes_of('direction="host_to_device",memory="unknown"') == client.truth["to_device"]
    assert bytes_of('direction="device_to_host",memory="pinned"') == client.truth["to_host"]


def test_allocations_are_exact_by_stack(fleet, client):
    tree = tree_of(fleet, client, ALLOC, "churn_scratch")
    assert tree.total_of_any_line("keep_weights") == client.truth["kept"]
    assert tree.total_of_any_line("churn_scratch") == client.truth["churned"]
    assert tree.total_of_any_line("grow_cache") == 2 * client.truth["cached"], "freed memory included"
    numbers = fleet.api.merge(client.service, type_=ALLOCATIONS)
    assert (numbers.total_of_any_line("keep_weights"), numbers.total_of_any_line("churn_scratch")) == (3, 5)


def test_memory_in_use_is_exact_by_stack(fleet, client):
    """A gauge: the flame graph of a time range has the mean of its seconds."""
    expected = {"keep_weights": client.truth["kept"], "grow_cache": client.truth["cached"],
                "map_segments": client.truth["mapped"], "churn_scratch": 0}
    held = sum(expected.values())

    def held_seconds():
        """The last seconds with all of the memory."""
        answer = fleet.api.get("series", query=client.service, type=MEMORY, from_="now-2m", step="1s")
        values = [value for one in answer["series"] for value in one["values"]]
        first = answer["first_step_ns"] // 10**9
        seconds = [first + at for at, value in enumerate(values) if value == held]
        assert not values or max(values) <= held, "freed memory is not in use"
        return seconds[-3:] if len(seconds) >= 5 else None
    seconds = wait_until("memory in use", ARRIVE_SECONDS, held_seconds)
    assert seconds[-1] - seconds[0] == 2, "no second is missing"
    when = {"type_": MEMORY, "from_": seconds[0], "to": seconds[-1] + 1}
    tree = fleet.api.merge(client.service, **when)
    tree.check()
    assert {name: tree.total_of_any_line(name) for name in expected} == expected
    assert tree.total == held
    paths = paths_with(tree, "cuMemCreate")
    assert paths and all(any(name.startswith("main (") for name in path) for path in paths), paths
    rows, total = fleet.api.top(client.service, **when)
    assert total == held and sum(own for own, _ in rows.values()) == held
    answer = subprocess.run([program("cairn"), "query", client.service, "--type", "gpu-memory", "--collector-http",
                             fleet.api.base, "--from", str(seconds[0]), "--to", str(seconds[-1] + 1)],
                            capture_output=True, text=True, timeout=60, check=True)
    assert f"{held} bytes on average" in answer.stdout


def test_graph_launches_belong_to_the_capturing_stack(fleet, client):
    tree = tree_of(fleet, client, GRAPH, "capture_step")
    assert tree.total_of_any_line("capture_step") == client.truth["replays"]
    assert tree.total_of_any_line("capture") == client.truth["layered"] == tree.total - client.truth["replays"]
    assert tree.total_of_any_line("replay") == tree.total_of_any_line("replay_layers") - client.truth["layered"] == 0


def test_graph_kernels_belong_to_the_captured_launches(fleet, client):
    """The process captures once, and nobody else on the node does."""
    tree = tree_of(fleet, client, GRAPH_KERNELS, "run_attention")
    assert tree.total_of_any_line("run_attention") == 3 * client.truth["replays"]
    assert tree.total_of_any_line("run_mlp") == client.truth["replays"]
    assert tree.total_of_any_line("run_head") == client.truth["layered"]
    assert tree.total_of_any_line("run_layer") == 3 * 2 * client.truth["layered"], "the child graph's, at each launch"
    assert tree.total == 4 * client.truth["replays"] + (1 + 3 * 2) * client.truth["layered"]
    paths = paths_with(tree, "decode")
    assert paths and all(path[-2] == "cuLaunchKernel" for path in paths), tree.names
    assert tree.total_of_any_line("replay") == 0
    # A captured launch is no launch.
    launches = fleet.api.merge(client.service, type_=LAUNCH)
    assert launches.total_of_any_line("run_attention") == launches.total_of_any_line("run_mlp") == 0


def test_launches_have_stacks_and_kernel_names(fleet, client):
    """Probes of launches have a duty cycle: some seconds may have no on phase."""
    tree = tree_of(fleet, client, LAUNCH, "decode_tokens")
    named = paths_with(tree, "decode")
    assert named and all(path[-2] == "cuLaunchKernel" for path in named), tree.names
    small, large = (fleet.api.total(f'{{service="{client.service}",grid="{grid}"}}', type_=LAUNCH)
                    for grid in ("1", "128-255"))
    assert small > 0 and large == 0, "decode_tokens launches one block each"


def test_process_killed_in_a_wait_frees_its_memory(fleet, client):
    third = Client(unique("gpu-killed"), **client.environment)

    def levels():
        answer = fleet.api.get("series", query=third.service, type=MEMORY, from_="now-2m", step="1s")["series"]
        return answer[0]["values"] if answer else []
    try:
        third.go()
        held = third.truth["kept"] + third.truth["cached"] + third.truth["mapped"]
        wait_until("its memory", ARRIVE_SECONDS, lambda: max(levels(), default=0) >= held)
        third.process.stdin.write("h")
        third.process.stdin.flush()
        waits = fleet.api.total(client.service, type_=WAIT)
        third.process.kill()
        # The other process is still seen, and data from after the kill has arrived.
        wait_until("the other's waits", ARRIVE_SECONDS, lambda: fleet.api.total(client.service, type_=WAIT) > waits)
        ended = time.time()

        def is_gone():
            newest_ns = fleet.api.get("status")["newest_ns"]
            answer = fleet.api.get("series", query=third.service, type=MEMORY, from_=ended + 2, to=ended + 7, step="1s")
            return newest_ns > (ended + 7) * 1e9 and not any(any(one["values"]) for one in answer["series"])
        wait_until("its end", ARRIVE_SECONDS, is_gone)
    finally:
        third.process.kill()
        third.process.wait(20)


def test_pageable_memory_is_known_from_the_start(fleet, client):
    """The driver is already probed, for the first client."""
    second = Client(unique("gpu-early"), **client.environment)
    try:
        second.go()
        selector = f'{{service="{second.service}",direction="host_to_device",memory="pageable"}}'
        wait_until("copies", ARRIVE_SECONDS, lambda: fleet.api.total(
            selector, type_=COPY) == second.truth["to_device"])
        assert client.process.poll() is None
    finally:
        second.close()
