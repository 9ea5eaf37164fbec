# SPDX-License-Identifier: Apache-2.0
"""Grafana's requests to Pyroscope: written out byte by byte, and by Pyroscope's own client, which PYROSCOPE_CLIENT=1 builds
where there is Go: a minute of both CPUs."""
import json
import os
import pathlib
import re
import shutil
import struct
import subprocess
import time
import urllib.error
import urllib.request

import pytest

from fleet import CPU, build_folder

HERE = pathlib.Path(__file__).parent
DASHBOARDS = HERE.parents[1] / "deploy/grafana"
MODULE = "github.com/grafana/pyroscope/api@v1.6.0"


def varint(number):
    done = bytearray()
    while number >= 0x80:
        done.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes(done) + bytes([number])


def field(number, value):
    """A field of protobuf: a string, an integer or a double."""
    if isinstance(value, float):
        return varint(number << 3 | 1) + struct.pack("<d", value)
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    value = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(value)) + value


def read_fields(data):
    """[(number, value)] of a message."""
    def number(at):
        value = shift = 0
        while True:
            value |= (data[at] & 0x7F) << shift
            shift += 7
            at += 1
            if data[at - 1] < 0x80:
                return value, at
    found, at = [], 0
    while at < len(data):
        key, at = number(at)
        size = 8
        if key & 7 != 1:
            value, at = number(at)
            if key & 7 == 0:
                found.append((key >> 3, value))
                continue
            size = value
        found.append((key >> 3, data[at:at + size]))
        at += size
    return found


def call(api, method, body, media):
    request = urllib.request.Request(f"{api.base}/querier.v1.QuerierService/{method}", body, {
        "Content-Type": media, "Connect-Protocol-Version": "1", "Accept-Encoding": "identity",
        "User-Agent": "connect-go/1.18.1"})
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            assert answer.headers["Content-Type"] == media
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


@pytest.fixture(scope="module", name="asked")
def what_is_asked(fleet, runs):
    """The API, a selector in Grafana's words, its range in milliseconds, and the total by our own API."""
    end = int(time.time() * 1000) + 1000
    service = runs["c"].service
    return fleet.api, f'{{service_name="{service}"}}', end - 3600_000, end, fleet.api.total(service, from_="now-1h")


def test_answers_in_json(asked):
    api, selector, start, end, total = asked

    def ask(method, **fields):
        status, body = call(api, method, json.dumps(fields).encode(), "application/json")
        assert status == 200, body
        return json.loads(body)
    times = {"start": str(start), "end": end}  # strings or numbers
    assert CPU in [kind["ID"] for kind in ask("ProfileTypes", **times)["profileTypes"]]
    graph = ask("SelectMergeStacktraces", profileTypeID=CPU, labelSelector=selector, maxNodes="16384",
                **times)["flamegraph"]
    assert int(graph["total"]) == total
    assert graph["names"][0] == "total" and graph["levels"][0]["values"] == ["0", str(total), "0", "0"]
    assert "burn_alpha" in graph["names"]
    series = ask("SelectSeries", profileTypeID=CPU, labelSelector=selector, groupBy=["process"], step=15, **times)["series"]
    assert sum(point.get("value", 0) for point in series[0]["points"]) == total
    assert series[0]["labels"] == [{"name": "process", "value": "burn_c"}]
    pprof = ask("SelectMergeProfile", profileTypeID=CPU, labelSelector=selector, **times)
    assert sum(int(sample["value"][0]) for sample in pprof["sample"]) == total
    status, body = call(api, "SelectSeries", b'{"profileTypeID": "cpu"}', "application/json")
    assert status == 400 and json.loads(body)["code"] == "invalid_argument"
    assert "five parts" in json.loads(body)["message"]
    assert call(api, "SelectSeries", b"", "text/plain")[0] == 415


def test_answers_in_protobuf(asked):
    api, selector, start, end, total = asked
    status, body = call(api, "SelectMergeStacktraces",
                        field(1, CPU) + field(2, selector) + field(3, start) + field(4, end) + field(5, 16384),
                        "application/proto")
    assert status == 200, body
    [(number, graph)] = read_fields(body)
    graph = read_fields(graph)
    assert number == 1 and (3, total) in graph
    assert next(value for number, value in graph if number == 1) == b"total"
    status, body = call(api, "SelectSeries",
                        field(1, CPU) + field(2, selector) + field(3, start) + field(4, end) + field(6, 15.0),
                        "application/proto")
    assert status == 200, body
    points = [read_fields(value) for number, value in read_fields(read_fields(body)[0][1]) if number == 2]
    assert sum(struct.unpack("<d", value)[0] for point in points for number, value in point if number == 1) == total


def test_answers_the_service_dashboard(asked):
    """Each of its queries, as Grafana's data source asks it."""
    api, selector, start, end, _ = asked
    dashboard = json.loads((DASHBOARDS / "service-profile.json").read_text())
    service, answered = re.search(r'"(.*)"', selector)[1], 0
    for target in [target for panel in dashboard["panels"] for target in panel.get("targets", []) if "profileTypeId" in target]:
        fields = {"profileTypeID": target["profileTypeId"], "labelSelector": target["labelSelector"].replace("$service", service),
                  "start": start, "end": end}
        method = "SelectMergeStacktraces"
        if target["queryType"] == "metrics":
            method, fields = "SelectSeries", {**fields, "groupBy": target["groupBy"], "step": 15}
        status, body = call(api, method, json.dumps(fields).encode(), "application/json")
        assert status == 200, (target, body)
        answered += bool(json.loads(body).get("series") or int(json.loads(body).get("flamegraph", {}).get("total", 0)))
    assert answered >= 3  # CPU time twice, and its flame graph
    [variable] = [variable for variable in dashboard["templating"]["list"] if variable["type"] == "query"]
    status, body = call(api, "LabelValues", json.dumps({"name": variable["query"]["labelName"], "start": start, "end": end}).encode(),
                        "application/json")
    assert status == 200 and service in json.loads(body)["names"]


def test_render_and_its_diff(asked):
    api, selector, start, end, total = asked
    query = f"{CPU}{selector}"
    one = json.loads(api.fetch("/pyroscope/render", query=query, from_=start, until=end, maxNodes=1000))
    assert one["flamebearer"]["numTicks"] == total == sum(one["timeline"]["samples"])
    assert one["metadata"] == {"format": "single", "spyName": "cairn", "sampleRate": 10**9, "units": "samples",
                               "name": "cpu"}
    two = json.loads(api.fetch("/pyroscope/render-diff", leftQuery=query, leftFrom=start, leftUntil=end,
                               rightQuery=query, rightFrom=start, rightUntil=end))
    assert (two["leftTicks"], two["rightTicks"]) == (total, total)
    assert len(two["flamebearer"]["levels"][0]) == 7 and two["metadata"]["format"] == "double"


@pytest.fixture(scope="session", name="client")
def pyroscope_client():
    """A program of Pyroscope's modules, built once."""
    client = build_folder() / "tests" / "pyroscope_client"
    if client.exists():
        return client.resolve()
    if not shutil.which("go") or "PYROSCOPE_CLIENT" not in os.environ:
        pytest.skip("# SKIP without Go, or PYROSCOPE_CLIENT=1")
    folder = build_folder() / "pyroscope_client"
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(HERE / "pyroscope_client" / "main.go", folder)
    (folder / "go.mod").unlink(missing_ok=True)
    for command in [["mod", "init", "pyroscope_client"], ["get", MODULE], ["mod", "tidy"],
                    ["build", "-o", str(client.absolute()), "."]]:
        done = subprocess.run(["go", *command], cwd=folder, capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"go {command[0]}: {done.stderr[-200:]}")
    return client.resolve()


@pytest.mark.parametrize("codec", ["proto", "json"])
def test_pyroscopes_own_client(client, runs, asked, codec):
    api, _, _, _, total = asked
    done = subprocess.run([client, codec, api.base, runs["c"].service], capture_output=True, text=True, timeout=60,
                          check=False)
    assert done.returncode == 0, done.stderr
    got = json.loads(done.stdout)
    assert CPU in got["Types"] and got["Services"] == [runs["c"].service]
    assert {"service_name", "node", "process", "__profile_type__"} <= set(got["Names"]) and "service" not in got["Names"]
    assert got["Series"] == 1 and got["Ingested"]
    for what in ("Total", "Selfs", "Sum", "Pprof", "DiffLeft", "DiffRight"):
        assert got[what] == total, what
    assert got["DiffNumbers"] == 7 and 0 < got["MaxSelf"] < total
    assert got["Rows"] == 20 and got["Heat"] > 0
    assert (got["Unknown"], got["BadSelector"]) == ("unimplemented", "invalid_argument")
