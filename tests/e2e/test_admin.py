# SPDX-License-Identifier: Apache-2.0
"""The agent's own listener, as Kubernetes and Prometheus ask it."""
import json
import re
import subprocess
import urllib.error
import urllib.request

from fleet import free_port, program, wait_until

LINE = re.compile(r'^(# (HELP|TYPE) [a-z_]+ .+|[a-z_]+(\{[a-z_]+="[^"]*"\})? -?[0-9.e+-]+)$')


def get(port, path):
    """(status, text)"""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def metric(text, name):
    return float(re.search(rf"^{name} (\S+)$", text, re.M).group(1))


def test_agent_reports_its_state(collector, start_agent):
    port = free_port()
    start_agent(collector, "--admin", f"127.0.0.1:{port}")
    wait_until("an acknowledged batch", 30, lambda: get(port, "/readyz") == (200, "ok\n"))
    assert get(port, "/healthz") == (200, "ok\n")
    status, text = get(port, "/metrics")
    assert status == 200
    assert [line for line in text.splitlines() if not LINE.match(line)] == []
    names = re.findall(r"^# TYPE (\S+)", text, re.M)
    assert len(names) == len(set(names)) > 100
    assert metric(text, "cairn_agent_samples_total") > 0
    assert metric(text, "cairn_agent_batches_sent_total") > 0
    assert metric(text, "cairn_agent_collector_reachable") == 1
    assert metric(text, "process_resident_memory_bytes") > 2**20
    collector.kill()
    wait_until("a failed try", 30, lambda: metric(get(port, "/metrics")[1], "cairn_agent_collector_reachable") == 0)
    assert get(port, "/readyz") == (200, "ok\n"), "it samples on"


def status(collector, *flags):
    done = subprocess.run([program("cairn"), "status", "--collector-http", collector.api.base, *flags],
                          capture_output=True, text=True, timeout=60, check=False)
    assert done.stderr == ""
    return done


def test_status_lists_agents(collector, start_agent):
    assert "0 agents sending, 0 silent\nno profiles stored yet; start an agent" in status(collector).stdout
    start_agent(collector, "--label", "node=gpu-17")
    collector.wait_for_agent()
    lines = status(collector).stdout.splitlines()
    assert ": 1 agent sending, 0 silent" in lines[0]
    assert re.match(r"gpu-17  \d+\.\d+\.\d+ +sending +\d+ s ago", lines[-1])
    (agent,) = json.loads(status(collector, "--json").stdout)["agents"]
    assert agent["node"] == "gpu-17" and agent["state"] == "sending" and agent["samples"] > 0
    assert status(collector, "--silent").returncode == 0
    assert "gpu-17" not in status(collector, "--silent").stdout


def test_agent_without_collector_is_not_ready(collector, start_agent):
    port = free_port()
    collector.kill()
    start_agent(collector, "--admin", f"127.0.0.1:{port}")
    status, text = get(port, "/readyz")
    assert status == 503
    assert collector.grpc in text
    assert get(port, "/healthz") == (200, "ok\n"), "Kubernetes does not restart it for that"
