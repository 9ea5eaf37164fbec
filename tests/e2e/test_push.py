# SPDX-License-Identifier: Apache-2.0
"""What other profilers push is stored exactly, once, and survives a kill: OpenTelemetry's own encoder, Pyroscope's SDK, Go's pprof,
py-spy's files by `cairn push`; and debug files name pushed frames."""
import gzip
import http.client
import json
import pathlib
import re
import shutil
import subprocess
import sys
import time
import urllib.parse

import pytest

from fleet import build_folder, program, wait_until
from pprof_file import Pprof, field, varint
from secure_collector import SecureCollector

HERE = pathlib.Path(__file__).parent
CPU = "process_cpu:cpu:nanoseconds:cpu:nanoseconds"
PYROSCOPE = "pyroscope-io==1.4.0"
PY_SPY = "py-spy==0.4.3"
SPINNING = "def leaf(n):\n    return sum(range(n))\nwhile True:\n    leaf(10000)\n"
GO_PROGRAM = """
package main

import (
	"os"
	"runtime/pprof"
	"time"
)

//go:noinline
func spin(end time.Time) (n int) {
	for time.Now().Before(end) {
		for i := 0; i < 1000000; i++ {
			n += i
		}
	}
	return n
}

func main() {
	pprof.StartCPUProfile(os.Stdout)
	spin(time.Now().Add(time.Second))
	pprof.StopCPUProfile()
}
"""
PYROSCOPE_CLIENT = """
import sys, time
sys.path.insert(0, sys.argv[3])
import pyroscope
pyroscope.configure(application_name="sdk-app", server_address=sys.argv[1], tags={"region": "eu"},
                    basic_auth_username="shop", basic_auth_password=sys.argv[2])
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


def cairn_push(collector, *words):
    return subprocess.run([program("cairn"), "push", "--collector-http", f"http://{collector.http}", *map(str, words)],
                          capture_output=True, text=True, timeout=60, check=False)


def test_files_by_cairn_push(collector, tmp_path):
    speedscope = {"$schema": "https://www.speedscope.app/file-format-schema.json",
                  "profiles": [{"type": "sampled", "name": "main", "unit": "seconds", "startValue": 0, "endValue": 12000,
                                "samples": [[0, 1], [0]] * 3000, "weights": [2, 2] * 3000}],
                  "shared": {"frames": [{"name": "main"}, {"name": "work", "file": "/a/b.py", "line": 3}]}}
    path = tmp_path / "long.speedscope.json"
    path.write_text(json.dumps(speedscope), encoding="utf-8")
    for words in ["pushed 6,000 samples of 1 profile type, 12000.0 s\n",
                  "had 6,000 samples of 1 profile type, 12000.0 s, from an earlier push; nothing was stored twice\n"]:
        done = cairn_push(collector, path)
        assert (done.returncode, done.stdout, done.stderr) == (0, words, ""), done
    # Several hours and many minutes: what they add up to stays.
    answer = collector.api.fetch("/api/v1/merge", query='{service="long"}', format="collapsed", from_="now-6h")
    assert answer.decode() == "long;main 6000000000000\nlong;main;work (b.py:3) 6000000000000\n"
    folded = tmp_path / "x.folded"
    folded.write_text("a;b 5\na 1\n", encoding="utf-8")
    done = cairn_push(collector, "--service", "folded", "--label", "env=prod", "--hz", "100", folded, tmp_path / "none")
    assert done.returncode == 1 and done.stdout == f"{folded}: pushed 2 samples of 1 profile type\n"
    assert done.stderr == f"cairn push: {tmp_path / 'none'}: cannot be read: No such file or directory\n"
    assert stacks(collector, "folded") == {"folded;a;b": 50_000_000, "folded;a": 10_000_000}
    again = json.loads(cairn_push(collector, "--json", "--service", "folded", "--label", "env=prod", "--hz", "100", folded).stdout)
    assert (again["file"], again["format"], again["samples"], again["types"], again["duplicate"]) == (str(folded), "collapsed stacks", 2, 1, True)
    # To standard output, for a pipe.
    to_collector = ["--collector-http", f"http://{collector.http}"]
    done = subprocess.run([program("cairn"), "query", "folded", "--from", "now-10m", "--format", "collapsed", *to_collector],
                          capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (0, "folded;a 10000000\nfolded;a;b 50000000\n"), done
    done = subprocess.run([program("cairn"), "diff", "folded", "--from", "now-10m", "--against", "{service=\"folded\"}", "-o", "-",
                           *to_collector], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (0, "a 10000000 10000000\na;b 50000000 50000000\n"), done
    done = cairn_push(collector, "--at", "2001-01-01T00:00:00Z", folded)
    assert done.returncode == 1 and "accepted range" in done.stderr, done
    assert cairn_push(collector, "--type", "nonsense", folded).returncode == 2


def test_py_spys_own_files(collector, tmp_path):
    target = build_folder() / "py-spy"
    if not (target / "bin" / "py-spy").exists():
        done = subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", target, PY_SPY],
                              capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"{PY_SPY} cannot be had: {done.stderr[-200:]}")
    script = tmp_path / "spinning.py"
    script.write_text(SPINNING, encoding="utf-8")
    with subprocess.Popen([sys.executable, script]) as process:
        for form, name in [("raw", "raw.txt"), ("speedscope", "speedscope.json")]:
            for _ in range(5):  # it may find nothing on a busy machine
                subprocess.run([target / "bin" / "py-spy", "record", "-d", "1", "-f", form, "-o", tmp_path / name, "-p", str(process.pid)],
                               capture_output=True, check=True, timeout=30)
                if (tmp_path / name).stat().st_size:
                    break
        process.kill()
    done = cairn_push(collector, "--service", "raw", "--hz", "100", tmp_path / "raw.txt")
    assert done.returncode == 0, done
    expected = {}
    for line in (tmp_path / "raw.txt").read_text(encoding="utf-8").splitlines():
        # Of a file's path the last part is shown.
        stack, count = re.sub(r"\((?:[^()/;]*/)+", "(", line).rsplit(" ", 1)
        expected[f"raw;{stack}"] = expected.get(f"raw;{stack}", 0) + int(count) * 10_000_000
    assert stacks(collector, "raw") == expected
    done = cairn_push(collector, "--service", "speedscope", tmp_path / "speedscope.json")
    assert done.returncode == 0, done
    profile = json.loads((tmp_path / "speedscope.json").read_text(encoding="utf-8"))["profiles"][0]
    found = stacks(collector, "speedscope")
    assert sum(found.values()) == round(sum(profile["weights"]) * 1e9)
    assert any("leaf (spinning.py:" in stack for stack in found), found


def test_gos_own_profile(collector, tmp_path):
    if not shutil.which("go"):
        pytest.skip("there is no Go")
    source = tmp_path / "main.go"
    source.write_text(GO_PROGRAM, encoding="utf-8")
    subprocess.run(["go", "build", "-o", tmp_path / "spin", source], check=True, cwd=tmp_path)
    path = tmp_path / "cpu.pb.gz"
    with open(path, "wb") as output:
        subprocess.run([tmp_path / "spin"], stdout=output, check=True)
    status, answer = post(collector, "/api/v1/push?service=go", path.read_bytes())
    assert status == 200, answer
    profile = Pprof(path)
    expected, at = {}, profile.value_index("cpu")
    for names, values in profile.samples:
        stack = ";".join(["go", *reversed(names)])
        expected[stack] = expected.get(stack, 0) + values[at]
    assert stacks(collector, "go") == expected and any("main.spin" in stack for stack in expected)


def test_debug_files_name_pushed_frames(collector, tmp_path):
    source, library = tmp_path / "p.c", tmp_path / "libp.so"
    source.write_text("int late_name(int n) { return n * 3; }\n", encoding="utf-8")
    subprocess.run(["gcc", "-g", "-O1", "-shared", "-fPIC", "-Wl,--build-id", "-Wl,-z,noseparate-code", source, "-o", library], check=True)
    notes = subprocess.run(["readelf", "-n", library], capture_output=True, text=True, check=True).stdout
    build_id = notes.split("Build ID: ")[1].split()[0]
    symbols = subprocess.run(["nm", library], capture_output=True, text=True, check=True).stdout
    offset = next(int(line.split()[0], 16) for line in symbols.splitlines() if line.endswith(" late_name"))
    strings = ["", "samples", "count", "cpu", "nanoseconds", "libp.so", "process.executable.build_id.gnu", build_id]
    dictionary = (field(1, b"") + field(1, field(4, 5) + field(5, 1)) + field(2, b"") + field(2, field(1, 1) + field(2, offset)) +
                  b"".join(field(5, string) for string in strings) + field(6, b"") + field(6, field(1, 6) + field(2, field(8, 7))) +
                  field(7, b"") + field(7, field(1, varint(1))))
    profile = (field(1, field(1, 1) + field(2, 2)) + field(2, field(1, 1) + field(5, time.time_ns().to_bytes(8, "little"))) +
               field(5, field(1, 3) + field(2, 4)) + field(6, 50_000_000))
    attribute = field(1, "service.name") + field(2, field(1, "late"))
    status, answer = post(collector, "/v1development/profiles",
                          field(1, field(1, field(1, attribute)) + field(2, field(2, profile))) + field(2, dictionary))
    assert status == 200, answer
    assert stacks(collector, "late") == {f"late;libp.so+0x{offset:x}": 50_000_000}
    missing = collector.api.get("symbols/missing", query="late", **{"from": "now-10m"})
    assert missing["total"] == 50_000_000
    assert missing["files"] == [{"build_id": build_id, "file": "libp.so", "total": 50_000_000, "uploaded": False}]
    # Of a folder only what is missing: neither the other library, nor the stripped one, nor what a link names.
    folder = tmp_path / "build" / "lib"
    folder.mkdir(parents=True)
    shutil.copy(library, folder)
    (folder / "link").symlink_to(program("cairn"))
    subprocess.run(["strip", library, "-o", folder / "stripped.so"], check=True)
    source.write_text("int other(int n) { return n * 5; }\n", encoding="utf-8")
    subprocess.run(["gcc", "-g", "-O1", "-shared", "-fPIC", "-Wl,--build-id", source, "-o", folder / "libother.so"], check=True)
    done = subprocess.run([program("cairn"), "upload", "--missing-only", "--collector-http", f"http://{collector.http}", tmp_path / "build"],
                          capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{folder / 'libp.so'}: {build_id}\n", ""), done
    wait_until("the name of the frame", 30, lambda: stacks(collector, "late") == {"late;late_name": 50_000_000})
