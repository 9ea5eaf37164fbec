# SPDX-License-Identifier: Apache-2.0
"""Hostile processes beside an honest one: the agent goes on for all others, within its memory."""
import contextlib
import os
import pathlib
import subprocess
import sys

import pytest

from fleet import ROOT, Agent, Workload, unique, wait_until, workload

EXACT = 0.1  # of the CPU time: a second of a busy machine is 500 samples
RSS_MIB_MAX = 200
NOBODY = 65534  # a user without rights
BUILDS = 64     # one more than the BPF unwinder knows by number


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


IDLING = """
import time
end = time.monotonic() + 300
while time.monotonic() < end:
    sum(range(20000))
    time.sleep(0.25)
"""


def own_interpreter(path):
    """A copy of an interpreter that works, with a build id of its own."""
    program = pathlib.Path("/usr/bin/python3").resolve().read_bytes()
    at = program.index(b"\x04\0\0\0\x14\0\0\0\x03\0\0\0GNU\0") + 16
    path.write_bytes(program[:at] + os.urandom(20) + program[at + 20:])
    path.chmod(0o755)
    return path


@contextlib.contextmanager
def hostile_pythons(folder):
    """A user runs another interpreter in each of BUILDS processes."""
    folder.mkdir(mode=0o755)
    with contextlib.ExitStack() as stack:
        for number in range(BUILDS):
            path = own_interpreter(folder / f"python{number}")
            process = stack.enter_context(subprocess.Popen([path, "-c", IDLING], user=NOBODY, group=NOBODY, cwd="/",
                                                           extra_groups=[]))
            stack.callback(path.unlink)
            stack.callback(process.kill)
        yield


def test_altered_pythons_leave_room_for_others(victim, tmp_path, keep):
    for parent in tmp_path.parents[:2]:
        parent.chmod(0o755)  # so that another user may run what is in it
    tmp_path.chmod(0o755)
    with hostile_pythons(tmp_path / "pythons"):
        agent = keep(Agent(victim.grpc, tmp_path / "agent", ["--frequency", "499"]))
        victim.wait_for_agent()
        wait_until("all numbers of builds to be taken", 120, lambda: "stacks of other CPython builds stay native" in agent.log())
        service = unique("honest")
        honest = own_interpreter(tmp_path / "honest")  # the system's has a number by now
        cpu_ns = Workload([honest, ROOT / "tests/workloads/burn_python.py", "--seconds", "5"],
                          {"OTEL_SERVICE_NAME": service}).truth()["process_cpu_ns"]
        victim.api.wait_for_total(f'{{service="{service}"}}', cpu_ns)
        graph = victim.api.merge(f'{{service="{service}"}}')
        assert graph.total_of_any_line("spin") > 0.2 * graph.total, agent.log()  # none without a number
