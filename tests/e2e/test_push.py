# SPDX-License-Identifier: Apache-2.0
"""What other profilers push is stored exactly, once, and survives a kill: OpenTelemetry's own encoder, Pyroscope's SDK, pprof."""
import gzip
import http.client
import json
import pathlib
import shutil
import subprocess
import sys
import time
import urllib.parse

import pytest

from fleet import build_folder
from secure_collector import SecureCollector

HERE = pathlib.Path(__file__).parent
CPU = "process_cpu:cpu:nanoseconds:cpu:nanoseconds"
PPROFILE = "go.opentelemetry.io/collector/pdata/pprofile@v0.165.0"
PYROSCOPE = "pyroscope-io==1.4.0"
PYROSCOPE_CLIENT = """
import sys, time
sys.path.insert(0, sys.argv[3])
import pyroscope
pyroscope.configure(application_name="sdk-app", server_address=sys.argv[1], tags={"region": "eu"},
                    http_headers={"Authorization": "Bearer " + sys.argv[2]})
def spin(until):
    while time.process_time() < until:
        sum(range(1000))
spin(3)
pyroscope.shutdown()
"""


def post(collector, path, body=b"", **headers):
    """(status, answer)."""
    connection = http.client.HTTPConnection(collector.http, timeout=30)
    try:
        connection.request("POST", path, body, {k.replace("_", "-"): v for k, v in headers.items()})
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def stacks(collector, service, kind=CPU):
    """{stack: value} of the last minutes."""
    query = urllib.parse.urlencode({"query": f'{{service="{service}"}}', "type": kind, "from": "now-10m", "format": "collapsed"})
    answer = collector.api.fetch(f"/api/v1/merge?{query}")
    lines = (answer[1] if isinstance(answer, tuple) else answer).decode().splitlines()
    return {stack: int(value) for stack, value in (line.rsplit(" ", 1) for line in lines)}


def varint(number):
    number &= (1 << 64) - 1
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7f | 0x80)
        number >>= 7
    return bytes(out + bytes([number]))


def field(number, value):
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    value = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(value)) + value


def pprof(from_ns, seconds, samples):
    """A profile of {stack root first: CPU time}."""
    names = sorted({name for stack in samples for name in stack})
    strings = ["", "cpu", "nanoseconds", *names]
    out = field(1, field(1, 1) + field(2, 2))
    for stack, value in samples.items():
        places = b"".join(varint(names.index(name) + 1) for name in reversed(stack))
        out += field(2, field(1, places) + field(2, varint(value)))
    for number, name in enumerate(names, 1):
        out += field(4, field(1, number) + field(4, field(1, number)))
        out += field(5, field(1, number) + field(2, strings.index(name)))
    for string in strings:
        out += field(6, string)
    return out + field(9, from_ns) + field(10, seconds * 10**9) + field(11, field(1, 1) + field(2, 2))


def test_pushes_are_exact_and_count_once(collector):
    now = time.time_ns()
    # Whatever the minute: the parts add up.
    samples = {("main", f"f{i}", "leaf"): 1_000_003 * i + 1 for i in range(200)}
    body = gzip.compress(pprof(now - 90 * 10**9, 80, samples))
    expected = {f"shop;{';'.join(stack)}": value for stack, value in samples.items()}
    for attempt in range(3):
        status, answer = post(collector, "/api/v1/push?service=shop&env=prod", body)
        assert status == 200 and json.loads(answer)["duplicate"] == (attempt > 0), answer
    assert stacks(collector, "shop") == expected
    collector.kill()
    collector.start()
    assert stacks(collector, "shop") == expected, "what was acknowledged is there after kill -9"
    status, answer = post(collector, "/api/v1/push?service=shop&env=prod", body)
    assert json.loads(answer)["duplicate"], "also to the next process"
    status, answer = post(collector, "/api/v1/push?service=old", gzip.compress(pprof(10**18, 10, samples)))
    assert status == 422 and b"accepted range" in answer, answer


def test_pyroscope_clients_forms(collector):
    until = int(time.time())
    query = urllib.parse.urlencode({"name": "web.cpu{env=prod}", "from": until - 10, "until": until, "sampleRate": 50})
    status, answer = post(collector, f"/ingest?{query}", b"main;work 3\nmain 2\nrun (app.py:7);go 5\n")
    assert status == 200, answer
    assert stacks(collector, "web") == {"web;main;work": 60_000_000, "web;main": 40_000_000,
                                        "web;run (app.py:7);go": 100_000_000}
    profile = gzip.compress(pprof((until - 10) * 10**9, 10, {("a", "b"): 7}))
    labels = b"".join(field(1, field(1, name) + field(2, value)) for name, value in
                      [("__name__", "process_cpu"), ("service_name", "alloy-app"), ("pod", "p-1")])
    status, answer = post(collector, "/push.v1.PusherService/Push", field(1, labels + field(2, field(1, profile))),
                          Content_Type="application/proto")
    assert (status, answer) == (200, b"")
    assert stacks(collector, "alloy-app") == {"alloy-app;a;b": 7}
    status, answer = post(collector, "/ingest?name=web&format=jfr", b"FLR\0")
    assert status == 415 and b"Java Flight Recorder" in answer


@pytest.fixture(scope="session")
def otlp_client():
    """A program of OpenTelemetry's modules, built once."""
    client = build_folder() / "tests" / "otlp_client"
    if client.exists():
        return client.resolve()
    if not shutil.which("go"):
        pytest.skip("there is no Go")
    folder = build_folder() / "otlp_client"
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(HERE / "otlp_client" / "main.go", folder)
    (folder / "go.mod").unlink(missing_ok=True)
    for command in [["mod", "init", "otlp_client"], ["get", PPROFILE], ["mod", "tidy"],
                    ["build", "-o", str(client.absolute()), "."]]:
        done = subprocess.run(["go", *command], cwd=folder, capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"go {command[0]}: {done.stderr[-200:]}")
    return client.resolve()


def test_opentelemetrys_own_client(otlp_client, tmp_path):
    collector = SecureCollector(tmp_path)
    agent, reader = collector.new_token("otel", "ingest", "shop"), collector.new_token("eve", "read", "shop")
    with collector:
        from_ns = time.time_ns() - 60 * 10**9
        targets = [("grpc", collector.grpc), ("http", f"http://{collector.http}"), ("json", f"http://{collector.http}")]

        def push(way, target, token):
            return subprocess.run([otlp_client, way, target, str(from_ns), *token], capture_output=True, text=True,
                                  timeout=60, check=False)
        for way, target in targets:
            assert push(way, target, []).returncode == 1, "no credential"
            assert push(way, target, [reader.read_text().strip()]).returncode == 1, "another role"
            done = push(way, target, [agent.read_text().strip()])
            assert done.returncode == 0, done.stderr
            from_ns += 5 * 10**9
        python = "python3;<module> (app.py:30);Model.predict (model.py:12)"
        both = 3 * 40 * 50_000_000  # three pushes of 40 hits at 20 Hz
        assert stacks(collector, "otlp-app") == {python: both, f"{python};libcompute.so+0x1234": both}
        assert stacks(collector, "otlp-app", "off_cpu:blocked:nanoseconds:wall:nanoseconds") == {python: 3 * 3_000_000}
        names = collector.api.get("labels")["names"]
        assert {"namespace", "node", "pod", "thread", "workload"} <= set(names)
        assert not any("pid" in name or "secret" in name.lower() for name in names)
        assert collector.api.get("labels/tenant/values")["values"] == ["shop"]


def test_pyroscopes_own_sdk(tmp_path):
    target = build_folder() / "pyroscope"
    if not (target / "pyroscope").exists():
        done = subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", target, PYROSCOPE],
                              capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"{PYROSCOPE} cannot be had: {done.stderr[-200:]}")
    collector = SecureCollector(tmp_path)
    token = collector.new_token("sdk", "ingest", "shop").read_text().strip()
    with collector:
        done = subprocess.run([sys.executable, "-c", PYROSCOPE_CLIENT, f"http://{collector.http}", token,
                               str(target.absolute())], capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr
        found = stacks(collector, "sdk-app")
        spinning = sum(value for stack, value in found.items() if stack.endswith("<module>;spin"))
        # The SDK measures wall-clock time of runnable threads, at 100 Hz.
        assert spinning > 0.8 * 3e9 and spinning > 0.9 * sum(found.values()), found
        assert collector.api.get("labels/region/values")["values"] == ["eu"]
