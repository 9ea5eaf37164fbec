# SPDX-License-Identifier: Apache-2.0
"""Descriptors, memory and the clock run out or jump."""
import errno
import time

import pytest

from chaos import Load, MemoryCgroup, Victim
from fleet import wait_until

HOUR_NS = 3600 * 10**9
GROWTH_MIB_MAX = 200


def test_no_descriptors_for_a_while(victim, faults, keep, seconds):
    faults.set(accept=errno.EMFILE)
    load = keep(Load(victim.grpc, seconds + 3))
    time.sleep(seconds)
    assert load.last["acknowledged"] == 0
    faults.heal()
    load.check(victim)
    victim.wait_until_ready()


@pytest.mark.alone
def test_two_thousand_agents_at_once(tmp_path, keep, seconds):
    victim = keep(Victim(tmp_path))
    victim.start()
    before = victim.rss_mib()
    load = keep(Load(victim.grpc, seconds + 20, "--agents", "2000", "--interval-ms", "10000", "--samples", "20"))
    load.finish(180)
    assert victim.rss_mib() - before < GROWTH_MIB_MAX + 100
    load.check(victim)


def test_memory_cgroup_is_enough(tmp_path, keep, seconds):
    cgroup = keep(MemoryCgroup(256))
    if not cgroup.folder:
        pytest.skip("no memory controller")
    victim = keep(Victim(tmp_path, prefix=cgroup.prefix()))
    victim.start()
    loads = [keep(Load(victim.grpc, seconds + 5, "--agents", "50", "--interval-ms", "250", "--samples", "1000"))
             for _ in range(2)]
    for load in loads:
        load.finish(180)
    assert victim.is_running(), f"killed for memory? {victim.log()[-2000:]}"
    for load in loads:
        load.check(victim)


@pytest.mark.parametrize("hours", [8 * 24, -2], ids=["8 days ahead", "2 hours behind"])
def test_clock_jump_loses_nothing(victim, faults, keep, seconds, hours):
    load = keep(Load(victim.grpc, seconds + 6))
    wait_until("some batches", 20, lambda: load.last["acknowledged"])
    acknowledged = load.last["acknowledged"]
    faults.set(clock_ns=hours * HOUR_NS)
    victim.wait_for_readiness("the clock is in doubt: it jumped by")
    assert victim.metric("cairn_store_clock_doubted") == 1
    time.sleep(seconds)
    faults.heal()
    wait_until("trust", 20, lambda: victim.readiness() == "ready\n")
    assert load.stored(victim) >= acknowledged, "what was there before the jump"
    load.check(victim)
    assert "retention stopped: the clock is in doubt" in victim.log()
    wait_until("the log", 10, lambda: "the clock is right again" in victim.log())
    assert victim.metric("cairn_store_rows_late_dropped_total") == 0
    assert victim.metric("cairn_store_rows_future_dropped_total") == 0
