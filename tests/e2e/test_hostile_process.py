# SPDX-License-Identifier: Apache-2.0
"""A process whose memory is a trap: the agent goes on for all others, costs little, and ends when told; so does
`cairn dump`."""
import contextlib
import os
import subprocess
import time

import pytest

from fleet import ROOT, program, unique, workload

EXACT = 0.05   # of the CPU time
CPU_MAX = 0.5  # of a core, for the agent beside a few busy processes; a walk without end takes a whole one
STOP_SECONDS = 8  # the last export and its flush


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


def test_ring_of_thread_states_freezes_nobody(collector, start_agent):
    with hostile_process():
        agent = start_agent(collector, "--frequency", "499")
        collector.wait_for_agent()
        service = unique("neighbour")
        before, began = cpu_seconds(agent.process.pid), time.monotonic()
        burning = workload("burn_c", "--seconds", "6", env={"OTEL_SERVICE_NAME": service})
        cpu_ns = burning.truth()["process_cpu_ns"]
        share = (cpu_seconds(agent.process.pid) - before) / (time.monotonic() - began)
        assert collector.api.wait_for_total(service, cpu_ns) == pytest.approx(cpu_ns, rel=EXACT)
        assert share < CPU_MAX, f"the agent used {share:.2f} of a core; its log:\n{agent.log()}"
        process, agent.process = agent.process, None
        process.terminate()
        assert process.wait(STOP_SECONDS) == 0, agent.log()


def test_dump_of_ring_of_thread_states_ends():
    with hostile_process() as process:
        done = subprocess.run([program("cairn"), "dump", str(process.pid)], capture_output=True,
                              text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr
        assert str(process.pid) in done.stdout
