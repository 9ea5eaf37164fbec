# SPDX-License-Identifier: Apache-2.0
"""Hostile processes beside an honest one: the agent goes on for all others, within its memory."""
import contextlib
import pathlib
import subprocess
import sys

import pytest

from fleet import ROOT, Agent, unique, workload

EXACT = 0.1  # of the CPU time: a second of a busy machine is 500 samples
RSS_MIB_MAX = 200


@contextlib.contextmanager
def hostile(command, seconds):
    with subprocess.Popen([sys.executable, *command], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout.readline(), "it is ready"
            yield process
        finally:
            process.kill()
            process.wait(seconds)
            pathlib.Path(f"/tmp/perf-{process.pid}.map").unlink(missing_ok=True)


def rss_mib(pid):
    text = pathlib.Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    return int(text.partition("VmRSS:")[2].split()[0]) / 1024


@pytest.mark.parametrize("kind", ["elf", "perf-map", "jitdump", "labels", "threads", "python"])
def test_hostile_process_harms_no_other(victim, tmp_path, keep, seconds, kind):
    command = [ROOT / "tests/workloads/hostile_python.py"] if kind == "python" else \
        [ROOT / "tests/chaos/hostile_process.py", kind, "--seconds", str(seconds + 60)]
    with hostile(command, 10):
        agent = keep(Agent(victim.grpc, tmp_path / "agent", ["--frequency", "499"]))
        pid = agent.process.pid
        victim.wait_for_agent()
        service = unique("honest")
        burning = workload("burn_c", "--seconds", str(round(seconds) + 3), env={"OTEL_SERVICE_NAME": service})
        cpu_ns = burning.truth()["process_cpu_ns"]
        total = victim.api.wait_for_total(f'{{service="{service}"}}', cpu_ns)
        assert total == pytest.approx(cpu_ns, rel=EXACT)
        assert agent.process.pid == pid and agent.is_running(), agent.log()
        assert rss_mib(pid) < RSS_MIB_MAX, agent.log()
