# SPDX-License-Identifier: Apache-2.0
"""What it costs the collector to take pprof profiles by Pyroscope's /ingest: samples per CPU second, all of its threads counted.

A profile has 4,000 stacks, 25 frames deep on average, of 3,000 functions, with the two sample types of Go's CPU profiles, gzip, 10 s
long; every push is of another 10 s. A sample is one Sample message, as Pyroscope counts it: two rows in the store, more where a
minute ends.
"""
import gzip
import http.client
import os
import pathlib
import random
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.parse

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "tests/e2e"))
from pprof_file import field, varint  # noqa: E402 pylint: disable=wrong-import-position

BUILD = pathlib.Path(os.environ.get("BUILD", "build"))
ROUNDS = int(os.environ.get("ROUNDS", "5"))
PUSHES = 60  # a round
SECONDS = 10
STACKS, FUNCTIONS = 4000, 3000
GOAL = 1_700_000  # five times what Pyroscope 1.x took here


def make_stacks(chance):
    """Stacks of a tree: each leaves a random earlier one at a random depth."""
    stacks = [[1, 2, 3]]
    seen = {tuple(stacks[0])}
    while len(stacks) < STACKS:
        stem = chance.choice(stacks)
        depth = chance.randint(5, 45)
        stack = stem[:chance.randint(1, len(stem))][:depth]
        while len(stack) < depth:
            stack.append(chance.randint(1, FUNCTIONS))
        if tuple(stack) not in seen:
            seen.add(tuple(stack))
            stacks.append(stack)
    return stacks


def make_profile():
    chance = random.Random(1)
    strings = ["", "samples", "count", "cpu", "nanoseconds", "/usr/bin/server", *(f"package/path.(*Type{n}).Method{n}" for n in range(FUNCTIONS)),
               *(f"/src/package/path/file{n}.go" for n in range(FUNCTIONS // 10))]
    out = field(1, field(1, 1) + field(2, 2)) + field(1, field(1, 3) + field(2, 4))
    frames = 0
    for stack in make_stacks(chance):
        frames += len(stack)
        hits = chance.randint(1, 5)
        out += field(2, field(1, b"".join(map(varint, reversed(stack)))) + field(2, varint(hits) + varint(hits * 10_000_000)))
    out += field(3, field(1, 1) + field(2, 0x400000) + field(3, 0x4000000) + field(5, 5))
    for n in range(1, FUNCTIONS + 1):
        out += field(4, field(1, n) + field(2, 1) + field(3, 0x400000 + n * 64) + field(4, field(1, n) + field(2, n % 500)))
        out += field(5, field(1, n) + field(2, 5 + n) + field(4, 6 + FUNCTIONS + n % (FUNCTIONS // 10)))
    for string in strings:
        out += field(6, string)
    return out + field(10, SECONDS * 10**9) + field(11, field(1, 3) + field(2, 4)) + field(12, 10_000_000), frames


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def cpu_seconds(pid):
    words = pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def push(connection, body, from_s, service):
    query = urllib.parse.urlencode({"name": f"{service}{{region=eu}}", "from": from_s, "until": from_s + SECONDS, "format": "pprof"})
    connection.request("POST", f"/ingest?{query}", body)
    answer = connection.getresponse()
    text = answer.read()
    assert answer.status == 200 and b'"duplicate":false' in text and b'"refused":0' in text, text


def main():
    plain, frames = make_profile()
    body = gzip.compress(plain, 6)
    print(f"a profile: {STACKS} samples, {frames / STACKS:.1f} frames each, {len(plain)} B, {len(body)} B as gzip")
    port = free_port()
    with tempfile.TemporaryDirectory() as data:
        argv = [BUILD / "cairn-collector", "--data", data, "--http", f"127.0.0.1:{port}", "--grpc", f"127.0.0.1:{free_port()}"]
        with subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as collector:
            try:
                measure(collector.pid, port, body)
            finally:
                collector.terminate()


def wait_until_ready(connection):
    for _ in range(200):
        try:
            connection.request("GET", "/readyz")
            answer = connection.getresponse()
            answer.read()
            if answer.status == 200:
                return
        except OSError:
            connection.close()
        time.sleep(0.05)
    raise RuntimeError("the collector is not ready")


def measure(pid, port, body):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    wait_until_ready(connection)
    begin = int(time.time()) - 3600
    rates = []
    for number in range(ROUNDS):
        before, started = cpu_seconds(pid), time.monotonic()
        for at in range(PUSHES):
            push(connection, body, begin + (number * PUSHES + at) * SECONDS % 3000, f"service{number}")
        spent = cpu_seconds(pid) - before
        rates.append(PUSHES * STACKS / spent)
        print(f"round {number + 1}: {PUSHES * STACKS} samples in {spent:.2f} s of CPU, {time.monotonic() - started:.2f} s: "
              f"{rates[-1]:,.0f} samples per CPU second")
    middle = statistics.median(rates)
    print(f"ingest_pprof_samples_per_cpu_second {middle:.0f} (goal {GOAL}: {'met' if middle >= GOAL else 'missed'}; "
          f"{min(rates):.0f} to {max(rates):.0f})")


if __name__ == "__main__":
    main()
