# SPDX-License-Identifier: Apache-2.0
"""Two tenants of one collector: shop is over each of its limits, bank has none, and is unharmed."""
import http.client
import json
import subprocess
import time
import urllib.parse

import pytest

from fleet import Agent, program, unique, wait_until, workload
from secure_collector import SecureApi, SecureCollector

FREQUENCY_HZ = 499


class LimitedCollector(SecureCollector):
    """With a file of limits, an agent's token and a reader's for each tenant."""

    def __init__(self, folder, limits):
        self.limits = folder / "limits.yaml"
        self.limits.write_text(limits)
        super().__init__(folder, "--limits", str(self.limits))
        self.senders = {tenant: self.new_token(f"{tenant}-sender", "ingest", tenant) for tenant in ("shop", "bank")}
        self.readers = {tenant: self.new_token(f"{tenant}-reader", "read", tenant) for tenant in ("shop", "bank")}

    def write_limits(self, text):
        new = self.limits.with_suffix(".new")
        new.write_text(text)
        new.rename(self.limits)

    def set_limits(self, text):
        loaded = self.log().count("limits reloaded")
        self.write_limits(text)
        wait_until("the new limits", 10, lambda: self.log().count("limits reloaded") > loaded)

    def reader(self, tenant):
        return SecureApi(self, self.readers[tenant])

    def push(self, tenant, target, body):
        """Status, headers and body of a push."""
        connection = http.client.HTTPConnection("localhost", self.http_port, timeout=20)
        try:
            connection.request("POST", target, body, {"Authorization": f"Bearer {self.senders[tenant].read_text().strip()}"})
            answer = connection.getresponse()
            return answer.status, dict(answer.getheaders()), answer.read().decode()
        finally:
            connection.close()

    def status(self, tenant):
        """What `cairn status` prints for the tenant's reader."""
        done = subprocess.run([program("cairn"), "status", "--collector-http", f"http://{self.http}", "--token-file",
                               str(self.readers[tenant])], capture_output=True, text=True, timeout=60, check=True)
        return done.stdout


def limits_of(**limits):
    """A file in which only shop has limits."""
    return "tenants:\n  shop:\n" + "".join(f"    {name.replace('_', '-')}: {value}\n" for name, value in limits.items())


def merge(api, selector, **parameters):
    query = urllib.parse.urlencode({"query": selector, **parameters})
    status, body = api.fetch(f"/api/v1/merge?{query}")
    return status, body.decode()


def collapsed(api, selector):
    status, text = merge(api, selector, format="collapsed", **{"from": "now-10m"})
    assert status == 200, text
    return dict((line.rsplit(" ", 1)[0], int(line.rsplit(" ", 1)[1])) for line in text.splitlines())


def test_agents_keep_what_is_over_the_rate(tmp_path):
    with LimitedCollector(tmp_path, limits_of(ingest_rate="1KiB", ingest_burst="1KiB")) as collector:
        agents = {tenant: Agent(collector.grpc, tmp_path / tenant, [
            "--frequency", str(FREQUENCY_HZ), "--token-file", str(collector.senders[tenant])]) for tenant in ("shop", "bank")}
        try:
            service = unique("limited")
            burning = workload("burn_c", "--seconds", "8", "--load", "0.25", env={"OTEL_SERVICE_NAME": service})
            wait_until("the refusal", 30, lambda: "RESOURCE_EXHAUSTED: tenant shop: ingest-rate: 1 KiB (limits.yaml:3)"
                       in agents["shop"].log())
            cpu_ns = burning.truth()["process_cpu_ns"]
            # The other tenant's profiles come at once and whole.
            expected = pytest.approx(cpu_ns, rel=0.1)
            wait_until("bank's CPU time", 20, lambda: collector.api.total(f'{{service="{service}",tenant="bank"}}') == expected)
            assert "RESOURCE_EXHAUSTED" not in agents["bank"].log()
            assert collector.api.total(f'{{service="{service}",tenant="shop"}}') < 0.9 * cpu_ns
            refused = collector.reader("shop").get("status")["limits"]
            assert [(row["tenant"], row["limit"], row["value"], row["set_in"]) for row in refused] == [
                ("shop", "ingest-rate", "1 KiB", "limits.yaml:3")] and refused[0]["refused"] > 0
            assert collector.reader("bank").get("status")["limits"] == []
            # Nothing was lost: once the limit is raised, all of it comes from the spool.
            collector.set_limits(limits_of(ingest_rate="16MiB"))
            wait_until("shop's CPU time", 90, lambda: collector.api.total(f'{{service="{service}",tenant="shop"}}') == expected)
            assert "0 batches dropped since the agent started" in agents["shop"].log()
        finally:
            for agent in agents.values():
                agent.stop()


def test_pushes_over_the_rate_are_told_when(tmp_path):
    with LimitedCollector(tmp_path, limits_of(ingest_rate="1KiB", ingest_burst="2KiB")) as collector:
        body = "".join(f"main;f{i} 1\n" for i in range(1000))  # 11 KB: 9 s above the burst
        assert collector.push("shop", "/ingest?name=a.cpu", body)[0] == 200, "the first has room"
        for target in ("/ingest?name=a.cpu", "/api/v1/push?service=a", "/v1development/profiles", "/api/v1/batches",
                       "/push.v1.PusherService/Push"):
            status, headers, answer = collector.push("shop", target, body)
            assert status == 429 and 5 < int(headers["Retry-After"]) <= 11, (target, status, answer)
            error = json.loads(answer)["error"]
            assert error["code"] == "limit_exceeded" and error["field"] == "ingest-rate"
            assert error["message"].startswith("tenant shop: ingest-rate: 1 KiB (limits.yaml:3) is used up; send it again in ")
            assert collector.push("bank", "/ingest?name=a.cpu", body + f"x{target} 1\n")[0] == 200
        status = collector.status("shop")
        assert "ingest-rate        1 KiB                5 " in status and "limits.yaml:3" in status, status
        assert "ingest-rate" not in collector.status("bank")
        metrics = collector.api.fetch("/metrics")[1].decode()
        assert 'cairn_tenant_refused_total{tenant="shop",limit="ingest-rate"} 5\n' in metrics
        assert 'cairn_tenant_ingest_bytes_total{tenant="bank"} ' in metrics
        time.sleep(int(headers["Retry-After"]))
        assert collector.push("shop", "/ingest?name=later.cpu", "a 1\n")[0] == 200, "it was told the truth"


def test_labels_series_and_stacks_are_cut(tmp_path):
    limits = limits_of(series=3, label_value_bytes=16, labels=4, stack_depth=16)
    with LimitedCollector(tmp_path, limits) as collector:
        notes = {}
        for tenant in ("shop", "bank"):
            deep = ";".join(f"f{i}" for i in range(40))
            status, _, answer = collector.push(tenant, f"/ingest?name=deep{{v={'x' * 40}}}.cpu", f"{deep} 1\n")
            assert status == 200, answer
            notes[tenant] = json.loads(answer)["note"]
            status, _, answer = collector.push(tenant, "/ingest?name=many{a=1,b=2,c=3,d=4}.cpu", "main 1\n")
            assert status == 200, answer
            notes[tenant] += json.loads(answer)["note"]
            for i in range(6):
                status, _, answer = collector.push(tenant, f"/ingest?name=s{i}.cpu", "main 1\n")
                assert status == 200, answer
                notes[tenant] += json.loads(answer)["note"]
        assert notes["bank"] == ""
        for words in ("tenant shop: stack-depth: 16 (limits.yaml:6): stacks cut: 1",
                      "tenant shop: label-value-bytes: 16 (limits.yaml:4): series with values cut: 1",
                      "tenant shop: labels: 4 (limits.yaml:5): series without some labels: 1",
                      "tenant shop: series: 3 (limits.yaml:3): rows of new series stored under the label other: 1"):
            assert words in notes["shop"], notes["shop"]
        shop, bank = collector.reader("shop"), collector.reader("bank")
        # Sums are right, whatever was cut.
        assert shop.total("{}") == bank.total("{}") == 8 * 10_000_000
        assert shop.total('{other="tenant"}') == 5 * 10_000_000 and bank.total('{other!=""}') == 0
        assert shop.values("v") == ["x" * 16] and bank.values("v") == ["x" * 40]
        (cut,) = [stack for stack in collapsed(shop, '{v!=""}')]
        assert cut.endswith(";f38;f39") and "[truncated: too deep]" in cut and "f20" not in cut
        assert "f0;f1" in next(iter(collapsed(bank, '{v!=""}')))


def test_queries_have_limits_of_who_asks(tmp_path):
    with LimitedCollector(tmp_path, limits_of(query_range="1d", query_memory="3MiB")) as collector:
        body = "".join(f"main;middle{i % 200};f{i} 1\n" for i in range(40000))
        for tenant in ("shop", "bank"):
            assert collector.push(tenant, "/ingest?name=wide.cpu", body)[0] == 200
            assert collector.push(tenant, "/ingest?name=small.cpu", "main 1\n")[0] == 200
        shop, bank = collector.reader("shop"), collector.reader("bank")
        for status, words, answer in [
                (422, "tenant shop: query-range: 1d (limits.yaml:3) is less than the range asked for",
                 merge(shop, "small", **{"from": "now-25h"})),
                (422, "tenant shop: query-memory: 3 MiB (limits.yaml:4) is less than the query needs",
                 merge(shop, "wide", **{"from": "now-10m"}))]:
            assert answer[0] == status, answer
            error = json.loads(answer[1])["error"]
            assert error["code"] == "limit_exceeded" and error["message"].startswith(words), error
        assert merge(shop, "small", **{"from": "now-10m"})[0] == 200, "what fits is answered"
        assert merge(bank, "wide", **{"from": "now-25h"})[0] == 200, "another tenant"
        assert merge(collector.api, "wide", **{"from": "now-25h"})[0] == 200, "who reads all tenants"
        counted = {row["limit"]: row["refused"] for row in shop.get("status")["limits"]}
        assert counted == {"query-range": 1, "query-memory": 1}
        collector.set_limits(limits_of(query_range="7d"))
        assert merge(shop, "wide", **{"from": "now-25h"})[0] == 200, "it was raised"


def test_a_damaged_file_leaves_the_old_limits(tmp_path):
    with LimitedCollector(tmp_path, limits_of(query_range="1d")) as collector:
        collector.write_limits("tenants:\n  shop:\n    query-rage: 7d\n")
        wait_until("the line in the log", 10, lambda: "limits not reloaded" in collector.log())
        assert "limits.yaml:3: \"query-rage\" is none of ingest-rate," in collector.log()
        assert merge(collector.reader("shop"), "x", **{"from": "now-25h"})[0] == 422
        done = subprocess.run([program("cairn-collector"), "--data", str(tmp_path / "other"), "--limits", str(collector.limits)],
                              capture_output=True, text=True, timeout=20, check=False)
        assert done.returncode == 1 and "query-rage" in done.stderr, "at the start it is an error"
