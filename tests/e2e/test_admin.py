# SPDX-License-Identifier: Apache-2.0
"""The agent's own listener, as Kubernetes and Prometheus ask it."""
import re
import urllib.error
import urllib.request

from fleet import free_port, wait_until

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


def test_agent_without_collector_is_not_ready(collector, start_agent):
    port = free_port()
    collector.kill()
    start_agent(collector, "--admin", f"127.0.0.1:{port}")
    status, text = get(port, "/readyz")
    assert status == 503
    assert collector.grpc in text
    assert get(port, "/healthz") == (200, "ok\n"), "Kubernetes does not restart it for that"
