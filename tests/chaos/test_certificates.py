# SPDX-License-Identifier: Apache-2.0
"""An agent's certificate expires: what was measured meanwhile arrives when it is renewed."""
import pytest

from certificates import Authority
from fleet import Agent, unique, wait_until, workload
from secure_collector import SecureCollector

EXACT = 0.1  # of the CPU time: as beside hostile processes
DAY_S = 86400


def test_expired_certificate_delays_only(tmp_path, keep, seconds):
    authority = Authority(tmp_path / "ca")
    server = authority.server()
    collector = SecureCollector(tmp_path, "--tls-cert", server.crt, "--tls-key", server.key, "--tls-client-ca",
                                authority.crt, "--tls-crl", authority.crl, tls=authority.crt)
    keep(collector).start()
    collector.add_line("node-1 ingest shop certificate")
    node = authority.issue("node-1")
    agent = keep(Agent(collector.grpc, tmp_path / "agent", ["--tls-ca", authority.crt, "--frequency", "499", "--tls-cert",
                                                            node.crt, "--tls-key", node.key]))
    service = unique("honest")
    burning = workload("burn_c", "--seconds", str(round(seconds) + 20), env={"OTEL_SERVICE_NAME": service})
    wait_until("the first batch", 40, lambda: collector.api.total(service) > 0)
    node.replace_by(authority.issue("node-1", days=(-1, seconds / DAY_S)))
    wait_until("the refusal", 40, lambda: "expired" in agent.log())
    node.replace_by(authority.issue("node-1"))
    wait_until("the agent is back", 60, lambda: "answers again" in agent.log())
    cpu_ns = burning.truth()["process_cpu_ns"]
    wait_until("all of the CPU time", 40, lambda: collector.api.total(service) > (1 - EXACT) * cpu_ns)
    assert collector.api.total(service) == pytest.approx(cpu_ns, rel=EXACT)
    assert "dropped batch" not in agent.log()
