# SPDX-License-Identifier: Apache-2.0
"""Disks that are full, fail or cannot be written: ingest waits, queries go on, and it ends when the disk is well."""
import errno
import time

import pytest

from chaos import Load, Tmpfs, Victim
from fleet import Agent, unique, wait_until, workload


def test_full_disk_delays_ingest(tmp_path, keep, seconds):
    disk = keep(Tmpfs(tmp_path / "disk", 400))
    victim = keep(Victim(tmp_path, disk.path / "data"))
    victim.start()
    load = keep(Load(victim.grpc, 3 * seconds + 6))
    wait_until("some batches", 20, lambda: load.last["acknowledged"])
    before = load.stored(victim)
    disk.fill(leave_mib=2)
    wait_until("a refusal", 30, lambda: load.last["away"])
    victim.wait_for_readiness("disk is nearly full")
    time.sleep(seconds)
    assert load.stored(victim) >= before > 0, "queries go on, and no row is gone"
    victim.kill()
    victim.start_unready()
    assert load.stored(victim) >= before, "starts on a full disk"
    disk.empty()
    victim.wait_until_ready()
    load.check(victim)


def test_large_batches_wait_for_a_full_disk(tmp_path, keep, seconds):
    # Above gRPC's ordinary 4 MiB: such a batch may be too large, and was dropped after eight refusals.
    disk = keep(Tmpfs(tmp_path / "disk", 400))
    victim = keep(Victim(tmp_path, disk.path / "data"))
    victim.start()
    disk.fill(leave_mib=2)
    victim.wait_for_readiness("disk is nearly full")
    load = keep(Load(victim.grpc, 30, "--agents", "1", "--interval-ms", "5000", "--stacks", "2000", "--name-bytes", "3000", "--samples", "2000"))
    wait_until("a dozen refusals", 60, lambda: load.last.get("retries", 0) >= 12)
    assert load.last["refused"] == load.last["dropped"] == 0
    disk.empty()
    victim.wait_until_ready()
    load.check(victim)


FAULTS = {"write": {"write": errno.EIO}, "fsync": {"sync": errno.EIO},
          "EIO": dict.fromkeys(["write", "sync", "change"], errno.EIO),
          "read-only": dict.fromkeys(["write", "sync", "change"], errno.EROFS)}


@pytest.mark.parametrize("fault,words", [("write", "check the disk"), ("fsync", "check the disk"),
                                         ("EIO", "check the disk"), ("read-only", "read-write")])
def test_failing_disk_delays_ingest(victim, faults, keep, seconds, fault, words):
    load = keep(Load(victim.grpc, 2 * seconds + 4))
    wait_until("some batches", 20, lambda: load.last["acknowledged"])
    before = load.stored(victim)
    faults.set(**FAULTS[fault])
    victim.wait_for_readiness(words)
    time.sleep(seconds)
    assert load.stored(victim) >= before > 0, "queries go on"
    if fault in ("EIO", "read-only"):
        victim.kill()
        victim.start_unready()
        assert load.stored(victim) >= before, "starts on a failing disk"
    faults.heal()
    victim.wait_until_ready()
    load.check(victim)


def test_agents_spool_leaves_a_full_disk_alone(victim, tmp_path, keep, seconds):
    # A tenth of the disk is kept free: 10 MiB of it.
    disk = keep(Tmpfs(tmp_path / "disk", 100))
    disk.fill(leave_mib=8)
    victim.kill()
    agent = keep(Agent(victim.grpc, tmp_path / "agent", ["--frequency", "499", "--spool-dir", str(disk.path / "spool")]))
    service = unique("spooled")
    cpu_ns = workload("burn_c", "--seconds", str(round(seconds)), env={"OTEL_SERVICE_NAME": service}).truth()["process_cpu_ns"]
    wait_until("the reason", 30, lambda: "MiB free, 10 MiB are kept free" in agent.log())
    assert "batches wait in memory (limit 64 MiB)" in agent.log()
    assert agent.log().count("cannot write to") == 1, "said once"
    assert [path.name for path in (disk.path / "spool/cairn-spool").glob("*.batch")] == []
    victim.start()
    assert victim.api.wait_for_total(f'{{service="{service}"}}', cpu_ns) == pytest.approx(cpu_ns, rel=0.1)


def test_kill_9_at_random_moments(victim, keep, seconds):
    load = keep(Load(victim.grpc, 2 * seconds + 4, "--agents", "20", "--interval-ms", "250"))
    end = time.monotonic() + 2 * seconds
    while time.monotonic() < end:
        time.sleep(0.3 + seconds / 10)
        acknowledged = load.last["acknowledged"]
        victim.kill()
        victim.start()
        assert load.stored(victim) >= acknowledged
    load.check(victim)
