# SPDX-License-Identifier: Apache-2.0
"""GPU idle time (no work queued) and its stacks, with the double of the driver. It is measured in the on phases in which
launches are seen, so the tests compare idle time per counted launch."""
import json

import pytest

from contract import TYPE
from fleet import unique, wait_until
from gpu_double import make_doubles, start_script

# Beside a program that burns CPU time the client waits for a CPU between its launches, where no stack is charged.
pytestmark = pytest.mark.alone

LAUNCH = TYPE.GPU_LAUNCH
IDLE_TIME = TYPE.GPU_IDLE_TIME
IDLE = TYPE.GPU_IDLE
SECONDS = 90  # some on phases of a second each, 5 to 10 s apart, after the first short ones


class Client:
    def __init__(self, what):
        self.service = unique(what)
        self.process = start_script("idle_client.py", self.service, what)

    def close(self):
        """Its own account."""
        self.process.stdin.close()
        truth = json.loads(self.process.stdout.readline())
        self.process.wait(20)
        return truth


@pytest.fixture(scope="module")
def clients(fleet):
    """They run at the same time, until each was seen for long enough."""
    make_doubles("libcuda.so.1")
    running = {what: Client(what) for what in ("gaps", "events", "full", "other", "contexts", "reused")}

    def are_seen():
        launches = [fleet.api.total(client.service, type_=LAUNCH) for client in running.values()]
        return min(launches) > 0 and all(fleet.api.merge(running[what].service, type_=IDLE).total > 4_000_000_000
                                         for what in ("gaps", "events"))
    try:
        wait_until("on phases", SECONDS, are_seen)
    finally:
        truths = {what: client.close() for what, client in running.items()}
    yield {what: (client.service, truths[what]) for what, client in running.items()}


@pytest.mark.parametrize("what", ["gaps", "events"])
def test_idle_time_is_bounded_by_the_truth(fleet, clients, what):
    service, truth = clients[what]
    of_launch = truth["idle_ns"] / truth["launches"]
    seen = fleet.api.total(service, type_=IDLE_TIME) / fleet.api.total(service, type_=LAUNCH)
    # In the first on phases launches count, but the streams are not known yet.
    assert 0.3 * of_launch < seen < 1.02 * of_launch, (seen, of_launch)


def test_idle_time_has_the_stacks_behind_it(fleet, clients):
    service, _ = clients["gaps"]
    tree = fleet.api.merge(service, type_=IDLE)
    idle_ns = fleet.api.total(service, type_=IDLE_TIME)
    assert 0.8 * idle_ns < tree.total <= idle_ns  # the thread ran, was runnable or blocked: nearly all is charged
    prepared, waited = tree.total_of_any_line("prepare_on_cpu"), tree.total_of_any_line("wait_for_input")
    assert prepared > 0.3 * tree.total and waited > 0.15 * tree.total, (prepared, waited, tree.total)
    assert prepared + waited > 0.8 * tree.total, tree.names
    assert tree.total_of_any_line("cuStreamSynchronize") == 0


@pytest.mark.parametrize("what", ["full", "other", "contexts", "reused"])
def test_gpu_with_queued_work_is_never_idle(fleet, clients, what):
    service, _ = clients[what]
    assert fleet.api.total(service, type_=LAUNCH) > 0
    assert fleet.api.total(service, type_=IDLE_TIME) == 0
    assert fleet.api.merge(service, type_=IDLE).total == 0
