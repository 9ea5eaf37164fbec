# SPDX-License-Identifier: Apache-2.0
"""An administrator deletes what a tenant has stored: it is gone at once and for good, and nothing else is."""
import json
import subprocess

import pytest

from fleet import Agent, program, unique, wait_until, workload
from secure_collector import SecureApi, SecureCollector
from terminal import Terminal


@pytest.fixture
def secure(tmp_path):
    with SecureCollector(tmp_path) as collector:
        yield collector


def burn_until_stored(service, collector):
    burning = workload("burn_c", "--seconds", "100", env={"OTEL_SERVICE_NAME": service}).process
    try:
        wait_until("the profile", 60, lambda: collector.api.total(service) > 0)
    finally:
        burning.kill()
        burning.communicate()


def store_profile(collector, tmp_path, tenant):
    """Profile a program as @tenant's agent, which then ends. Returns the program's service."""
    token = collector.new_token(f"{tenant}-agent", "ingest", tenant)
    service = unique(tenant)
    agent = Agent(collector.grpc, tmp_path / tenant, ("--token-file", str(token), "--frequency", "499"))
    try:
        burn_until_stored(service, collector)
    finally:
        agent.stop()
    return service


def command(collector, token, *words):
    return [program("cairn"), "delete", "--collector-http", f"http://{collector.http}", "--token-file", str(token), *words]


def delete(collector, token, *words):
    return subprocess.run(command(collector, token, *words), capture_output=True, text=True, timeout=60, check=False,
                          stdin=subprocess.DEVNULL)


def test_a_deleted_tenant_is_gone_for_good(secure, tmp_path):
    red, blue = store_profile(secure, tmp_path, "red"), store_profile(secure, tmp_path, "blue")
    red_admin = secure.new_token("red-admin", "read,admin", "red")
    red_reader = secure.new_token("red-reader", "read", "red")
    wait_until("the new tokens", 10, lambda: SecureApi(secure, red_reader).fetch("/api/v1/status")[0] == 200)
    before = {service: secure.api.total(service) for service in (red, blue)}
    everything = secure.api.total('{tenant="blue"}')
    assert min(before.values()) > 0

    for token, words, code, text in [
            (red_reader, ["{}", "--yes"], 1, "lacks the role admin"),
            (secure.ops, ["{}", "--yes"], 1, "name one of them"),
            (red_admin, ["{}"], 2, "--yes"),
            (red_admin, ["{}", "--json"], 2, "--json asks nothing"),
            (red_admin, ["--yes"], 2, "SELECTOR is missing"),
            (red_admin, ["{", "--yes"], 1, "column"),
            (red_admin, ["{}", "--from", "yesterday", "--yes"], 2, "--from")]:
        done = delete(secure, token, *words)
        assert done.returncode == code and text in done.stderr, f"{words}: {done}"
    done = delete(secure, red_admin, "{}", "--dry-run")
    assert done.returncode == 0 and "series would be deleted" in done.stdout
    counted = json.loads(delete(secure, red_admin, "{}", "--dry-run", "--json").stdout)
    assert counted["dry_run"] and done.stdout.startswith(f"{counted['series']} series")
    done = delete(secure, red_admin, f'{{service="{blue}"}}', "--yes")
    assert done.returncode == 1 and "no series match" in done.stderr and not done.stdout, "another tenant's"
    assert {service: secure.api.total(service) for service in (red, blue)} == before, "nothing is deleted"

    done = delete(secure, red_admin, "{}", "--yes")
    secure.kill()
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("deleted ") and not done.stdout.startswith("deleted 0 ")

    def check():
        assert SecureApi(secure, red_reader).values("service") == []
        assert secure.api.values("tenant") == ["blue"]
        assert secure.api.total('{tenant="red"}') == 0 and secure.api.total(red) == 0
        assert secure.api.total(blue) == before[blue]
        assert secure.api.total('{tenant="blue"}') == everything

    secure.start()
    check()
    wait_until("the rewrite", 30, lambda: secure.api.get("status")["deletions"] == 0)
    check()
    assert b"cairn_store_deletions 0" in secure.api.fetch("/metrics")[1]
    secure.kill()
    secure.start()
    check()
    again = store_profile(secure, tmp_path, "red")
    assert SecureApi(secure, red_reader).total(again) > 0, "what comes later is stored"

    lines = [json.loads(line) for line in (tmp_path / "data/audit.log").read_text().splitlines()]
    acts = [line for line in lines if line["method"] == "DELETE" and line["status"] == 200]
    assert acts[-1]["who"] == "token:red-admin" and acts[-1]["series"] > 0
    assert acts[-1]["parameters"]["query"] == "{}"


def test_asks_before_it_deletes(collector, start_agent):
    service = unique("asked")
    agent = start_agent(collector)
    burn_until_stored(service, collector)
    agent.stop()

    def answer(key, text):
        terminal = Terminal(program("cairn"), "delete", service, "--collector-http", f"http://{collector.http}")
        shown = terminal.read_for(20, "[y/N]")
        assert f" series of {service}, from the beginning to now, at http://" in shown, shown
        terminal.press(key + "\n")
        assert text in terminal.read_for(20, text)
        return terminal.exit_code()

    assert answer("n", "nothing was deleted") == 1
    assert collector.api.total(service) > 0
    assert answer("y", "deleted ") == 0
    assert collector.api.total(service) == 0
