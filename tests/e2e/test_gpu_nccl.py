# SPDX-License-Identifier: Apache-2.0
"""Calls of NCCL by Python stack, communicator and rank, with the double of the library: two ranks, one of which
is late in every step."""
import json
import time

import pytest

from contract import TYPE
from fleet import unique, wait_until
from gpu_double import make_doubles, start_script

ENQUEUE = TYPE.NCCL_ENQUEUE
CALLS = TYPE.NCCL_CALLS
BYTES = TYPE.NCCL_BYTES
SKEW = TYPE.NCCL_SKEW
SECONDS = 60  # the processes must be sampled, their mappings read, a window shipped
LATE_NS = 30_000_000  # tests/gpu/nccl_client.py


class Ranks:
    """tests/gpu/nccl_client.py, twice; the second one is late."""

    def __init__(self, service, folder):
        self.service = service
        self.processes = [start_script("nccl_client.py", service, str(rank), "2", str(folder / "id"), str(rank))
                          for rank in (0, 1)]
        self.steps = None

    def go(self):
        for process in self.processes:
            process.stdin.write(f"{time.time()}\n")
            process.stdin.flush()
        truths = [json.loads(process.stdout.readline()) for process in self.processes]
        assert truths[0] == truths[1]
        self.steps = truths[0]["steps"]

    def close(self):
        for process in self.processes:
            process.stdin.close()
        for process in self.processes:
            process.wait(20)


def total_of(fleet, both, type_, **labels):
    matchers = "".join(f',{name}="{value}"' for name, value in labels.items())
    return fleet.api.total(f'{{service="{both.service}"{matchers}}}', type_=type_)


@pytest.fixture(scope="module")
def ranks(fleet, tmp_path_factory):
    make_doubles("libnccl.so.2")
    both = Ranks(unique("ranks"), tmp_path_factory.mktemp("nccl"))
    try:
        # Refused calls are calls: the library is probed when they arrive.
        wait_until("the first calls", SECONDS, lambda: fleet.api.total(both.service, type_=CALLS) > 0)
        both.go()
        # What comes last in each step.
        wait_until("all calls", SECONDS, lambda: total_of(fleet, both, CALLS, collective="receive") >= 2 * both.steps)
        yield both
    finally:
        both.close()


def test_bytes_and_calls_are_exact_by_rank_and_by_what_they_do(fleet, ranks):
    sizes = {"all_reduce": 1000 * 4, "all_gather": 300 * 2, "send": 50 * 8, "receive": 50 * 8}
    once = {"broadcast": 7 * 4, "reduce": 11 * 4, "reduce_scatter": 13 * 4}
    for rank in (0, 1):
        for collective, size in sizes.items():
            more = 1 if collective == "all_reduce" else 0  # of the part, when its ranks are known
            assert total_of(fleet, ranks, CALLS, rank=rank, ranks=2, collective=collective) == ranks.steps + more
            assert total_of(fleet, ranks, BYTES, rank=rank, collective=collective) == ranks.steps * size + more * 19 * 4
        for collective, size in once.items():
            assert total_of(fleet, ranks, BYTES, rank=rank, collective=collective) == size
        assert total_of(fleet, ranks, CALLS, rank=rank, collective="init") == 1
    # Of the part, before anybody asked; and of the one that was left.
    assert total_of(fleet, ranks, BYTES, rank="unknown", ranks="unknown", collective="all_reduce") == 2 * 17 * 4
    assert total_of(fleet, ranks, BYTES, rank="unknown", ranks=1, collective="all_reduce") == 23 * 4


def test_both_ranks_call_their_communicator_the_same(fleet, ranks):
    names = fleet.api.get("labels/communicator/values", query=ranks.service)["values"]
    assert len(names) == 3 and {len(name) for name in names} == {16}, names  # its part, and what is left of it

    def bytes_of(name, size):
        return total_of(fleet, ranks, BYTES, communicator=name, collective="all_reduce") == size
    assert sum(bytes_of(name, 2 * (17 + 19) * 4) for name in names) == 1
    assert sum(bytes_of(name, 23 * 4) for name in names) == 1


def test_the_late_rank_is_told_with_its_stack(fleet, ranks):
    late, early = (total_of(fleet, ranks, SKEW, rank=rank) for rank in (1, 0))
    # By its own 30 ms in each step, however many calls that makes late; both may be held up by the machine.
    assert 0.7 * ranks.steps * LATE_NS < late < 2 * ranks.steps * LATE_NS, (late, early)
    assert early < 0.3 * late, (late, early)
    tree = fleet.api.merge(f'{{service="{ranks.service}",rank="1"}}', type_=SKEW)
    assert tree.total_of_any_line("reduce_gradients") > 0.8 * tree.total, tree.names
    assert tree.total_of_any_line("main") > 0.9 * tree.total, tree.names


def test_time_in_calls_is_there_for_groups_and_for_making_communicators(fleet, ranks):
    assert total_of(fleet, ranks, CALLS, collective="group") >= 2 * ranks.steps
    assert total_of(fleet, ranks, ENQUEUE, collective="init") > 0
