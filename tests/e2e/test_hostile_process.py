# SPDX-License-Identifier: Apache-2.0
"""A process whose memory is a trap: the agent goes on for all others, costs little, and ends when told; so does
`cairn dump`."""
import contextlib
import os
import pathlib
import subprocess
import time

import pytest

from fleet import ROOT, program, unique, wait_until, workload

pytestmark = pytest.mark.samples_cpu

EXACT = 0.05   # of the CPU time
JIT_SYMBOLS_MAX = 1 << 18  # agent/symbols/jit_symbols.h
CPU_MAX = 0.5  # of a core, for the agent beside a few busy processes; a walk without end takes a whole one
STOP_SECONDS = 8  # the last export and its flush


# A double of process_vm_readv() for LD_PRELOAD: reading the process HANGING_PID never ends, as a walk without a bound, but leaves
# the CPU to others.
HANGING_READ = r"""
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

ssize_t process_vm_readv(pid_t pid, const struct iovec *to, unsigned long to_count,
                         const struct iovec *from, unsigned long from_count, unsigned long flags)
{
    const char *hanging = getenv("HANGING_PID");

    while (hanging && atoi(hanging) == pid)
        usleep(1000);
    return syscall(SYS_process_vm_readv, pid, to, to_count, from, from_count, flags);
}
"""


@contextlib.contextmanager
def hostile_process(python="python3"):
    with subprocess.Popen([python, str(ROOT / "tests/workloads/hostile_python.py")],
                          stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout.readline(), "it is ready"
            yield process
        finally:
            process.kill()


def cpu_seconds(pid):
    with open(f"/proc/{pid}/stat", encoding="utf-8") as stat:
        fields = stat.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def expect_unharmed(collector, agent):
    """A neighbour's CPU time arrives, and the agent uses little itself and stops at once."""
    service = unique("neighbour")
    before, began = cpu_seconds(agent.process.pid), time.monotonic()
    burning = workload("burn_c", "--cpu", "2", "--load", "0.3", env={"OTEL_SERVICE_NAME": service})
    cpu_ns = burning.truth()["process_cpu_ns"]
    share = (cpu_seconds(agent.process.pid) - before) / (time.monotonic() - began)
    print(f"the agent used {share:.3f} of a core")
    assert collector.api.wait_for_total(service, cpu_ns) == pytest.approx(cpu_ns, rel=EXACT)
    assert share < CPU_MAX, f"the agent used {share:.2f} of a core; its log:\n{agent.log()}"
    process, agent.process = agent.process, None
    process.terminate()
    assert process.wait(STOP_SECONDS) == 0, agent.log()


def test_ring_of_thread_states_freezes_nobody(collector, start_agent):
    with hostile_process():
        agent = start_agent(collector, "--frequency", "499")
        collector.wait_for_agent()
        expect_unharmed(collector, agent)


def test_costly_perf_map_freezes_nobody(collector, start_agent):
    """Full but for one function, then one function over and over: each line once cost a merge of all."""
    burning = workload("burn_jit", "--seconds", "60")
    path = pathlib.Path(f"/tmp/perf-{burning.process.pid}.map")
    try:
        wait_until("its own list", 10, path.exists)
        distinct = "".join(f"{32 * i:x} 1 f\n" for i in range(1, JIT_SYMBOLS_MAX))
        path.write_text(distinct + "20 1 g\n" * 1_000_000)
        agent = start_agent(collector, "--frequency", "499")
        collector.wait_for_agent()
        expect_unharmed(collector, agent)
    finally:
        burning.process.kill()
        path.unlink()


def test_dump_of_ring_of_thread_states_ends():
    with hostile_process() as process:
        done = subprocess.run([program("cairn"), "dump", str(process.pid)], capture_output=True,
                              text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr
        assert str(process.pid) in done.stdout


@pytest.fixture
def hanging_read(tmp_path, monkeypatch):
    """From now on, programs that read @pid's memory hang."""
    library = tmp_path / "hanging_read.so"
    subprocess.run(["gcc", "-shared", "-fPIC", "-O1", "-xc", "-", "-o", library], input=HANGING_READ, text=True,
                   check=True)

    def hang(pid):
        monkeypatch.setenv("LD_PRELOAD", str(library))
        monkeypatch.setenv("HANGING_PID", str(pid))

    return hang


def end_of(agent, seconds):
    """Its exit code and its log."""
    process, agent.process = agent.process, None
    try:
        return process.wait(seconds), agent.log()
    finally:
        process.kill()


def test_watchdog_ends_a_hanging_agent(collector, start_agent, hanging_read, tmp_path):
    flags = ["--cache", str(tmp_path / "cache")]
    with hostile_process() as process:
        hanging_read(process.pid)
        code, log = end_of(start_agent(collector, *flags, samples=False), 90)
        assert code == 1, log
        assert f"stuck in reading Python thread states of process {process.pid} (" in log
        # Its supervisor starts it again: now it leaves that process alone.
        agent = start_agent(collector, *flags, "--frequency", "499")
        service = unique("neighbour")
        burning = workload("burn_c", "--cpu", "1", env={"OTEL_SERVICE_NAME": service, "LD_PRELOAD": ""})
        cpu_ns = burning.truth()["process_cpu_ns"]
        # On a busy machine a second's samples differ from its CPU time by some 2 %.
        assert collector.api.wait_for_total(service, cpu_ns) == pytest.approx(cpu_ns, rel=0.1)
        assert f"reads nothing of process {process.pid} (" in agent.log()


def test_signal_ends_a_hanging_agent(collector, start_agent, hanging_read):
    with hostile_process() as process:
        hanging_read(process.pid)
        agent = start_agent(collector, samples=False)
        time.sleep(3)  # by then it reads the process
        agent.process.terminate()
        code, log = end_of(agent, 4 * STOP_SECONDS)  # of a busy machine: its waits for a CPU do not count
        assert code == 1, log
        assert f"still busy with reading Python thread states of process {process.pid} (" in log


def test_dump_that_hangs_can_be_ended(hanging_read):
    with hostile_process() as process:
        hanging_read(process.pid)
        with subprocess.Popen([program("cairn"), "dump", str(process.pid)], stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL) as dump:
            time.sleep(1)
            dump.terminate()
            assert dump.wait(STOP_SECONDS) < 0
