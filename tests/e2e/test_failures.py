# SPDX-License-Identifier: Apache-2.0
"""The collector restarts, crashes or is unreachable: CPU time arrives once, neither lost nor doubled."""
import os
import pathlib
import random
import re
import shutil
import subprocess
import time

import pytest

from fleet import Agent, free_port, in_manifest, program, unique, wait_until, workload
from lossy_proxy import LossyProxy

FREQUENCY_HZ = 499
FREQUENCY = ("--frequency", str(FREQUENCY_HZ))
EXACT = 0.03  # of the CPU time; sampling alone is within 1 %, of some seconds


def start_burning(seconds):
    service = unique("survivor")
    return service, workload("burn_c", "--seconds", str(seconds), "--load", "0.25", env={"OTEL_SERVICE_NAME": service})


def expect_all_there(collector, service, burning):
    cpu_ns = burning.truth()["process_cpu_ns"]
    total = collector.api.wait_for_total(service, cpu_ns)
    few = 2 / (cpu_ns / 1e9 * FREQUENCY_HZ) ** 0.5  # a starved machine gives few samples
    assert total == pytest.approx(cpu_ns, rel=max(EXACT, few)), \
        f"{total / cpu_ns:.3f} of what was burned is there"


def test_clean_restart_loses_nothing(collector, start_agent):
    start_agent(collector, *FREQUENCY)
    collector.wait_for_agent()
    service, burning = start_burning(7)
    time.sleep(3.3)
    before = collector.api.total(service)
    collector.stop()
    collector.start()
    assert before > 0
    assert collector.api.total(service) >= before, "what was answered before is still there"
    expect_all_there(collector, service, burning)


def test_kill_9_loses_and_duplicates_nothing(collector, start_agent):
    start_agent(collector, *FREQUENCY)
    collector.wait_for_agent()
    service, burning = start_burning(12)
    moments = random.Random()
    for _ in range(4):
        time.sleep(moments.uniform(1.2, 2.4))
        before = collector.api.total(service)
        collector.kill()
        collector.start()
        assert collector.api.total(service) >= before, "what was stored before the crash"
    expect_all_there(collector, service, burning)


def test_lost_acknowledgement_duplicates_nothing(collector, tmp_path):
    proxy = LossyProxy(collector.grpc)
    agent = Agent(proxy.address, tmp_path / "agent", FREQUENCY)
    try:
        collector.wait_for_agent()
        service, burning = start_burning(9)
        for _ in range(3):
            time.sleep(0.7)
            proxy.losing.set()
            lost = proxy.lost_bytes
            # One answer is lost, then the connection breaks.
            wait_until("an answer to lose", 10, lambda: proxy.lost_bytes > lost)
            time.sleep(0.3)
            proxy.break_connections()
            proxy.losing.clear()
        expect_all_there(collector, service, burning)
    finally:
        agent.stop()
        proxy.close()


def test_outage_of_20_seconds_loses_nothing(collector, start_agent):
    agent = start_agent(collector, *FREQUENCY)
    collector.wait_for_agent()
    service, burning = start_burning(21)
    time.sleep(0.5)
    collector.stop()
    time.sleep(20)
    assert agent.is_running(), agent.log()
    collector.start()
    expect_all_there(collector, service, burning)


def test_agent_waits_for_collector(collector, start_agent):
    collector.stop()
    agent = start_agent(collector, *FREQUENCY)
    service, burning = start_burning(4)
    time.sleep(4)
    assert agent.is_running(), agent.log()
    collector.start()
    expect_all_there(collector, service, burning)


def test_ships_last_interval_at_stop(collector, start_agent):
    agent = start_agent(collector, *FREQUENCY, "--interval", "30s")
    service = unique("survivor")
    burning = workload("burn_c", "--cpu", "1", env={"OTEL_SERVICE_NAME": service})
    cpu_ns = burning.truth()["process_cpu_ns"]
    agent.stop()
    assert collector.api.total(service) == pytest.approx(cpu_ns, rel=0.05)


@pytest.mark.parametrize("prefix", [pytest.param([], id="root"),
                                    pytest.param(in_manifest(), id="manifest")])
def test_agent_lives_within_its_restrictions(collector, start_agent, prefix):
    agent = start_agent(collector, "--lines", "--profiles", "cpu,wall,memory,gpu", prefix=prefix)
    collector.wait_for_agent()
    process = pathlib.Path(f"/proc/{agent.process.pid}")
    status = dict(line.split(":\t", 1) for line in (process / "status").read_text().splitlines())
    assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2")
    limits = (process / "limits").read_text()
    assert re.search(r"Max core file size +0 +0 ", limits), limits
    agent.stop()
    assert "seccomp" not in agent.log()
    assert "agent: stopped: all batches sent" in agent.log()


def as_nobody(tmp_path, name):
    """A copy of the program that every user may run."""
    copy = tmp_path / name
    shutil.copy(program(name), copy)
    os.chmod(tmp_path, 0o755)
    os.chmod(copy, 0o755)
    for folder in tmp_path.parents:
        if folder != folder.parent and folder.stat().st_mode & 0o5 != 0o5 and folder.owner() == "root":
            os.chmod(folder, folder.stat().st_mode | 0o5)
    return ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all",
            "--bounding-set=-all", str(copy)]


@pytest.mark.parametrize("name,arguments", [
    ("cairn-agent", ["--collector", "127.0.0.1:1"]),
    ("cairn", ["top", "--batch", "-n", "1"]),
    ("cairn", ["record", "-d", "1", "-o", "/tmp/cairn-e2e-nobody.svg"]),
])
def test_reports_missing_root_with_remedy(tmp_path, name, arguments):
    done = subprocess.run([*as_nobody(tmp_path, name), *arguments], capture_output=True, text=True,
                          timeout=20, check=False)
    assert done.returncode == 1, done
    assert "root" in done.stderr or "CAP_" in done.stderr, done.stderr
    assert len(done.stderr.strip().splitlines()) <= 6, f"a clear error is short:\n{done.stderr}"
    assert done.stdout == ""
    assert not os.path.exists("/tmp/cairn-e2e-nobody.svg")
    assert not os.path.exists("/tmp/cairn-e2e-nobody.svg.partial")


@pytest.mark.parametrize("name", ["cairn-agent", "cairn-collector", "cairn"])
def test_help_and_version_need_no_rights(tmp_path, name):
    command = as_nobody(tmp_path, name)
    for flag, word in (("--help", "Usage"), ("--version", name.split("-", maxsplit=1)[0])):
        done = subprocess.run([*command, flag], capture_output=True, text=True, timeout=20,
                              check=False)
        assert done.returncode == 0, done
        assert word.lower() in done.stdout.lower(), done.stdout


def test_refuses_folder_or_port_in_use(collector, tmp_path):
    same_folder = [program("cairn-collector"), "--data", str(tmp_path / "data"),
                   "--grpc", f"127.0.0.1:{free_port()}", "--http", f"127.0.0.1:{free_port()}"]
    same_port = [program("cairn-collector"), "--data", str(tmp_path / "other"),
                 "--grpc", f"127.0.0.1:{free_port()}", "--http", collector.http]
    for argv, word in ((same_folder, "data"), (same_port, collector.http)):
        done = subprocess.run(argv, capture_output=True, text=True, timeout=20, check=False)
        assert done.returncode == 1, done
        assert word in done.stderr, done.stderr
    assert collector.api.answers("/readyz")
