# SPDX-License-Identifier: Apache-2.0
"""NCCL calls by Python stack, communicator and rank, with the double of the library: two ranks, of which one is late in every
step."""
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
SECONDS = 60  # to sample the processes, read their mappings and ship an export interval
LATE_NS = 30_000_000  # tests/gpu/nccl_client.py


class Ranks:
    """tests/gpu/nccl_client.py, twice; the second rank is late."""

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
        # Failing calls count, too: once they arrive, the library is probed.
        wait_until("the first calls", SECONDS, lambda: fleet.api.total(both.service, type_=CALLS) > 0)
        both.go()
        # The last call of each step.
        wait_until("all calls", SECONDS, lambda: total_of(fleet, both, CALLS, collective="receive") >= 2 * both.steps)
        yield both
    finally:
        both.close()


def test_calls_and_bytes_are_exact_by_rank(fleet, ranks):
    sizes = {"all_reduce": 1000 * 4, "all_gather": 300 * 2, "send": 50 * 8, "receive": 50 * 8}
    once = {"broadcast": 7 * 4, "reduce": 11 * 4, "reduce_scatter": 13 * 4}
    for rank in (0, 1):
        for collective, size in sizes.items():
            more = 1 if collective == "all_reduce" else 0  # of the split communicator, once its ranks are known
            assert total_of(fleet, ranks, CALLS, rank=rank, ranks=2, collective=collective) == ranks.steps + more
            assert total_of(fleet, ranks, BYTES, rank=rank, collective=collective) == ranks.steps * size + more * 19 * 4
        for collective, size in once.items():
            assert total_of(fleet, ranks, BYTES, rank=rank, collective=collective) == size
        assert total_of(fleet, ranks, CALLS, rank=rank, collective="init") == 1
    # Of the split communicator before its ranks are known, and of the shrunk one.
    assert total_of(fleet, ranks, BYTES, rank="unknown", ranks="unknown", collective="all_reduce") == 2 * 17 * 4
    assert total_of(fleet, ranks, BYTES, rank="unknown", ranks=1, collective="all_reduce") == 23 * 4


def test_both_ranks_have_the_same_communicators(fleet, ranks):
    names = fleet.api.get("labels/communicator/values", query=ranks.service)["values"]
    assert len(names) == 3 and {len(name) for name in names} == {16}, names  # of all ranks, split, shrunk

    def bytes_of(name, size):
        return total_of(fleet, ranks, BYTES, communicator=name, collective="all_reduce") == size
    assert sum(bytes_of(name, 2 * (17 + 19) * 4) for name in names) == 1
    assert sum(bytes_of(name, 23 * 4) for name in names) == 1


def test_skew_is_charged_to_the_late_rank(fleet, ranks):
    late, early = (total_of(fleet, ranks, SKEW, rank=rank) for rank in (1, 0))
    # By its own 30 ms in each step, however many calls are late; a busy machine delays both.
    assert 0.7 * ranks.steps * LATE_NS < late < 2 * ranks.steps * LATE_NS, (late, early)
    assert early < 0.3 * late, (late, early)
    tree = fleet.api.merge(f'{{service="{ranks.service}",rank="1"}}', type_=SKEW)
    assert tree.total_of_any_line("reduce_gradients") > 0.8 * tree.total, tree.names
    assert tree.total_of_any_line("main") > 0.9 * tree.total, tree.names


def test_groups_and_communicators_have_call_times(fleet, ranks):
    assert total_of(fleet, ranks, CALLS, collective="group") >= 2 * ranks.steps
    assert total_of(fleet, ranks, ENQUEUE, collective="init") > 0
