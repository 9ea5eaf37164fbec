# SPDX-License-Identifier: Apache-2.0
"""TLS, client certificates, tokens and tenants, with the real programs."""
import http.client
import json
import os
import pathlib
import shutil
import ssl
import subprocess
import time

import pytest

from certificates import Authority
from fleet import Agent, program, unique, wait_until, workload
from secure_collector import SecureApi, SecureCollector

FREQUENCY_HZ = 499
EXACT = 0.03  # of the CPU time; sampling alone is within 1 %, of a second or more


@pytest.fixture
def authority(tmp_path):
    return Authority(tmp_path / "ca")


@pytest.fixture
def secure(tmp_path, authority):
    """A collector with TLS, client certificates and a CRL."""
    server = authority.server()
    with SecureCollector(tmp_path, "--tls-cert", server.crt, "--tls-key", server.key, "--tls-client-ca",
                         authority.crt, "--tls-crl", authority.crl, tls=authority.crt) as collector:
        collector.server = server
        yield collector


def serial_of(collector):
    context = ssl.create_default_context(cafile=collector.tls)
    connection = http.client.HTTPSConnection("localhost", collector.http_port, timeout=20, context=context)
    connection.connect()
    try:
        return connection.sock.getpeercert()["serialNumber"]
    finally:
        connection.close()


def test_refuses_to_be_public_without_login(tmp_path):
    for flags, words in [
            (["--http", "0.0.0.0:0"], "neither TLS nor a login"),
            (["--grpc", "0.0.0.0:0"], "neither TLS nor a login"),
            (["--http", "[::]:0", "--access", "/dev/null"], "no TLS")]:
        done = subprocess.run([program("cairn-collector"), "--data", str(tmp_path / "data"), *flags],
                              capture_output=True, text=True, timeout=20, check=False)
        assert done.returncode == 2
        assert words in done.stderr and "--insecure" in done.stderr and "--tls-cert" in done.stderr


def test_only_its_own_ca_is_believed(secure, tmp_path):
    assert secure.api.answers("/api/v1/status")
    other = Authority(tmp_path / "other")
    with pytest.raises(ssl.SSLCertVerificationError):
        http.client.HTTPSConnection("localhost", secure.http_port, timeout=20, context=ssl.create_default_context(
            cafile=other.crt)).request("GET", "/healthz")
    plain = http.client.HTTPConnection("localhost", secure.http_port, timeout=20)
    with pytest.raises((http.client.HTTPException, OSError)):
        plain.request("GET", "/healthz")
        plain.getresponse()


def test_a_renewed_certificate_needs_no_restart(secure, authority):
    before = serial_of(secure)
    secure.server.replace_by(authority.server())
    wait_until("the new certificate", 10, lambda: serial_of(secure) != before)
    assert "certificates reloaded" in secure.log()
    # A damaged one leaves it in force.
    after = serial_of(secure)
    pathlib.Path(secure.server.crt).write_text("damaged")
    wait_until("the line in the log", 10, lambda: "certificates not reloaded" in secure.log())
    assert serial_of(secure) == after


def status_of(collector, certificate):
    return SecureApi(collector, None, certificate).fetch("/api/v1/status")[0]


def test_a_client_certificate_logs_in(secure, authority, tmp_path):
    secure.add_line("*.people.example read shop certificate")
    ann = authority.issue("ann", "DNS:ann.people.example")
    bob = authority.issue("bob.people.example")  # only a common name
    wait_until("the new lines", 10, lambda: status_of(secure, ann) == 200)
    assert status_of(secure, bob) == 200
    who = SecureApi(secure, None, ann).get("whoami")
    assert (who["who"], who["tenant"]) == ("certificate:ann.people.example", "shop")
    assert status_of(secure, None) == 401
    assert status_of(secure, authority.issue("eve.example")) == 401, "no line names it"
    assert status_of(secure, authority.issue("old.people.example", days=(-3, -1))) == 401, "it has expired"
    assert status_of(secure, authority.issue("new.people.example", days=(1, 3))) == 401, "not valid yet"
    assert status_of(secure, authority.issue("srv.people.example", usage="serverAuth")) == 401, "purpose"
    forged = Authority(tmp_path / "other", "cairn test CA").issue("ann.people.example")
    assert status_of(secure, forged) == 401, "another CA of the same name"

    authority.revoke(ann)
    wait_until("the CRL", 10, lambda: status_of(secure, ann) == 401)
    assert status_of(secure, bob) == 200, "others are not revoked"


def test_a_revoked_certificate_ends_at_the_next_request(secure, authority):
    secure.add_line("ann read - certificate")
    ann = authority.issue("ann")
    wait_until("the new line", 10, lambda: status_of(secure, ann) == 200)
    context = SecureApi(secure, None, ann).context()
    connection = http.client.HTTPSConnection("localhost", secure.http_port, timeout=20, context=context)

    sockets = set()

    def status():
        connection.request("GET", "/api/v1/status")
        sockets.add(id(connection.sock))
        kept.append(connection.sock)
        answer = connection.getresponse()
        answer.read()
        return answer.status

    kept = []  # so that no two have one id
    assert status() == 200
    authority.revoke(ann)
    wait_until("the CRL", 10, lambda: status() == 401)
    assert len(sockets) == 1, "all on one connection"


def test_the_command_line_logs_in(secure, authority):
    reader = secure.new_token("reader", "read", "shop")
    url = f"https://localhost:{secure.http_port}"
    wait_until("the new line", 10, lambda: SecureApi(secure, reader).fetch("/api/v1/status")[0] == 200)

    def ask(*flags, env=None):
        return subprocess.run([program("cairn"), "status", "--collector-http", url, *flags],
                              capture_output=True, text=True, timeout=60, check=False, env={**os.environ, **(env or {})})

    assert ask("--tls-ca", authority.crt, "--token-file", str(reader)).returncode == 0
    assert ask("--tls-ca", authority.crt, env={"CAIRN_TOKEN_FILE": str(reader)}).returncode == 0
    done = ask("--tls-ca", authority.crt)
    assert done.returncode == 1 and "a login is needed" in done.stderr
    done = subprocess.run([program("cairn"), "upload", "--collector-http", url, "--tls-ca", authority.crt, "--token-file",
                           str(reader), program("cairn")], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1 and "lacks the role upload" in done.stderr, "an upload shows the token, too"
    done = ask("--token-file", str(reader))
    assert done.returncode == 1 and "ertificate" in done.stderr, "the machine's CAs do not know it"
    secure.add_line("cli read - certificate")
    cli = authority.issue("cli")
    wait_until("the new line", 10, lambda: status_of(secure, cli) == 200)
    assert ask("--tls-ca", authority.crt, "--tls-cert", cli.crt, "--tls-key", cli.key).returncode == 0
    done = subprocess.run([program("cairn"), "query", "--collector-http", "http://192.0.2.1:7070", "--token-file",
                           str(reader)], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2 and "could read the token" in done.stderr


def agent_flags(collector, *flags):
    return ["--tls-ca", collector.tls, "--frequency", str(FREQUENCY_HZ), *flags]


def burn(seconds):
    service = unique("secure")
    return service, workload("burn_c", "--seconds", str(seconds), "--load", "0.25", env={"OTEL_SERVICE_NAME": service})


def wait_for_total(collector, service, cpu_ns):
    seen = [None]

    def settled():
        total = collector.api.total(service)
        done = total > 0.9 * cpu_ns and total == seen[0]
        seen[0] = total
        time.sleep(0 if done else 1.5)
        return done

    wait_until("the CPU time", 30, settled)
    few = 2 / (cpu_ns / 1e9 * FREQUENCY_HZ) ** 0.5  # a starved machine gives few samples
    assert seen[0] == pytest.approx(cpu_ns, rel=max(EXACT, few)), f"{seen[0] / cpu_ns:.3f} of what was burned is there"


@pytest.fixture
def start_agent(tmp_path):
    agents = []

    def start(collector, *flags):
        agent = Agent(collector.grpc, tmp_path / f"agent-{len(agents)}", flags)
        agents.append(agent)
        return agent

    yield start
    for agent in agents:
        agent.stop()


def test_a_rotated_token_loses_nothing(secure, start_agent, tmp_path):
    old = secure.new_token("fleet", "ingest", "shop")
    token = tmp_path / "token"
    shutil.copy(old, token)
    agent = start_agent(secure, *agent_flags(secure, "--token-file", str(token)))
    service, burning = burn(12)
    wait_until("the first batch", 20, lambda: secure.api.total(service) > 0)
    # The careless way: the old token is gone before the agent has the new one.
    secure.drop_line(old)
    wait_until("the refusal", 20, lambda: "UNAUTHENTICATED" in agent.log())
    new = secure.new_token("fleet", "ingest", "shop")
    shutil.copy(new, tmp_path / "token.new")
    (tmp_path / "token.new").rename(token)
    wait_until("the agent is back", 45, lambda: "answers again" in agent.log())
    wait_for_total(secure, service, burning.truth()["process_cpu_ns"])
    assert "dropped batch" not in agent.log()


def test_a_credential_names_tenant_and_node(secure, authority, start_agent):
    secure.add_line("*.nodes.example ingest shop certificate")
    node = authority.issue("node-1", "DNS:node-1.nodes.example")
    shop = secure.new_token("shop-reader", "read", "shop")
    bank = secure.new_token("bank-reader", "read", "bank")
    start_agent(secure, *agent_flags(secure, "--tls-cert", node.crt, "--tls-key", node.key,
                                     "--label", "tenant=bank", "--label", "node=other"))
    service, burning = burn(3)
    burning.truth()
    wait_until("the first batch", 30, lambda: secure.api.total(service) > 0)
    assert secure.api.values("tenant") == ["shop"]
    assert secure.api.values("node") == ["node-1.nodes.example"]
    assert SecureApi(secure, shop).total(service) > 0
    assert SecureApi(secure, bank).total(service) == 0
    assert SecureApi(secure, bank).values("service") == []
    assert SecureApi(secure, bank).total('{tenant="shop"}') == 0


def test_a_revoked_agent_ships_nothing_more(secure, authority, start_agent):
    secure.add_line("node-2 ingest shop certificate")
    node = authority.issue("node-2")
    agent = start_agent(secure, *agent_flags(secure, "--tls-cert", node.crt, "--tls-key", node.key))
    wait_until("a batch", 30, lambda: secure.api.values("service"))
    authority.revoke(node)
    wait_until("the refusal", 30, lambda: "it is revoked" in agent.log())
    # A new certificate ends it, without a restart.
    node.replace_by(authority.issue("node-2"))
    wait_until("the agent is back", 45, lambda: "answers again" in agent.log())


def test_an_agent_goes_on_with_a_renewed_certificate(secure, authority, start_agent):
    token = secure.new_token("fleet", "ingest")
    agent = start_agent(secure, *agent_flags(secure, "--token-file", str(token)))
    service, burning = burn(6)
    before = serial_of(secure)
    secure.server.replace_by(authority.server())
    wait_until("the new certificate", 10, lambda: serial_of(secure) != before)
    secure.stop()
    secure.start()
    wait_for_total(secure, service, burning.truth()["process_cpu_ns"])
    assert "dropped batch" not in agent.log()


def test_agents_need_role_ca_and_tls(secure, start_agent, tmp_path):
    reader = secure.new_token("reader", "read")
    other = Authority(tmp_path / "other")
    for flags, words in [
            (agent_flags(secure, "--token-file", str(reader)), "lacks the role ingest"),
            (agent_flags(secure), "a login is needed"),
            (["--tls-ca", other.crt, "--token-file", str(reader)], "UNAVAILABLE"),
            (["--token-file", str(reader)], "UNAVAILABLE")]:
        agent = start_agent(secure, *flags)
        wait_until(words, 30, lambda agent=agent, words=words: words in agent.log())
        agent.stop()
    assert secure.api.values("service") == [], "nothing was stored"
    metrics = secure.api.fetch("/metrics")[1].decode()
    assert "cairn_access_refused_total 0\n" not in metrics
    assert "cairn_ingest_handshake_failed_total 0\n" not in metrics


def test_no_secret_is_shown(secure, authority, start_agent, tmp_path):
    fleet = secure.new_token("fleet", "ingest", "shop")
    agent = start_agent(secure, *agent_flags(secure, "--token-file", str(fleet), "--log-level", "debug"))
    wait_until("a batch", 30, lambda: secure.api.values("service"))
    SecureApi(secure, fleet).fetch("/api/v1/status")
    SecureApi(secure, secure.ops).fetch("/api/v1/login", "POST")
    damaged = tmp_path / "damaged.token"
    damaged.write_text(fleet.read_text().strip()[:-1] + "!\n")
    SecureApi(secure, damaged).fetch("/api/v1/status")
    profile = secure.api.fetch("/api/v1/merge?format=collapsed")[1]
    labels = json.dumps([secure.api.values(name) for name in secure.api.get("labels")["names"]])
    processes = [pathlib.Path(f"/proc/{running.process.pid}/{what}").read_bytes()
                 for running in (agent, secure) for what in ("cmdline", "environ")]
    agent.stop()
    secure.stop()
    texts = {"the agent's log": agent.log().encode(), "the collector's log": secure.log().encode(),
             "a profile": profile, "labels": labels.encode(), "argv and environment": b"".join(processes)}
    for path in (secure.folder / "data").rglob("*"):
        if path.is_file():
            texts[str(path)] = path.read_bytes()
    texts["the access file"] = secure.access.read_bytes()
    assert any("audit.log" in name for name in texts)
    for name, text in texts.items():
        for secret in secure.secrets:
            assert secret[:20].encode() not in text, f"a secret is in {name}"


@pytest.mark.parametrize("proxies, status", [("127.0.0.0/8", 200), ("10.0.0.0/8", 401)])
def test_only_the_proxy_logs_persons_in(tmp_path, proxies, status):
    with SecureCollector(tmp_path, "--proxy-header", "X-Forwarded-Email", "--proxy-from", proxies) as collector:
        collector.add_line("*@example.com read shop person")

        def ask(**headers):
            connection = http.client.HTTPConnection("127.0.0.1", collector.http_port, timeout=20)
            connection.request("GET", "/api/v1/whoami", headers={k.replace("_", "-"): v for k, v in headers.items()})
            answer = connection.getresponse()
            return answer.status, answer.read().decode()

        # Until the line is read, nobody is known.
        wait_until("the answer", 10, lambda: ask(X_Forwarded_Email="ann@example.com")[0] == status)
        if status == 200:
            assert '"person:ann@example.com"' in ask(X_Forwarded_Email="ann@example.com")[1]
        assert ask(X_Forwarded_Email="eve@example.org")[0] == 401
        assert ask(X_Forwarded_User="ann@example.com")[0] == 401
        # What the client sent, beside what a careless proxy adds: whoever comes first.
        assert ask(X_Forwarded_Email="ann@example.com", x_forwarded_email="eve@example.org")[0] == 401
        assert ask(X_Forwarded_Email="eve@example.org,ann@example.com")[0] == 401
        assert ask()[0] == 401
