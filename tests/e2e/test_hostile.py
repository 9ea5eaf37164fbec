# SPDX-License-Identifier: Apache-2.0
"""Malformed input from the network: an error that names the field; the process survives."""
import os
import random
import socket
import subprocess
import threading

import pytest

from fleet import ApiError, unique, workload
from shared_fleet import own_fleet

HTTP2_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


@pytest.fixture(scope="module", name="fleet")
def fleet_of_ours(tmp_path_factory):
    """Nobody else's: what is sent here must not harm others' tests."""
    with own_fleet(tmp_path_factory.mktemp("hostile")) as running:
        yield running


@pytest.fixture(autouse=True)
def it_lives(fleet):
    pid = fleet.process.pid
    yield
    assert fleet.is_running() and fleet.process.pid == pid, fleet.log()
    assert fleet.api.answers("/readyz")
    assert fleet.api.get("status")["agents"] >= 1, "ingest goes on"


@pytest.mark.parametrize("path,parameters,field", [
    ("merge", {"query": "{service="}, "query"),
    ("merge", {"query": '{service="a"'}, "query"),
    ("merge", {"query": '{service=~"("}'}, "query"),
    ("merge", {"query": '{="a"}'}, "query"),
    ("merge", {"query": "{" + ",".join(f'l{i}="x"' for i in range(1000)) + "}"}, "query"),
    ("merge", {"from": "now", "to": "now-5m"}, "from"),
    ("merge", {"from": "yesterday"}, "from"),
    ("merge", {"to": "2026-13-45T00:00:00Z"}, "to"),
    ("merge", {"type": "cpu"}, "type"),
    ("merge", {"type": "a:b:c:d:" + "e" * 500}, "type"),
    ("merge", {"max_nodes": "-1"}, "max_nodes"),
    ("merge", {"max_nodes": "99999999999999999999"}, "max_nodes"),
    ("merge", {"format": "exe"}, "format"),
    ("merge", {"group_by": "not a label!"}, "group_by"),
    ("top", {"limit": "many"}, "limit"),
    ("top", {"query": "{"}, "query"),
    ("series", {"step": "fast"}, "step"),
    ("series", {"step": "-5s"}, "step"),
    ("heatmap", {"slot": "0s"}, "slot"),
    ("heatmap", {"from": "now-10000d"}, None),
    ("labels", {"query": "}{"}, "query"),
    ("types", {"from": "now", "to": "now"}, "from"),
])
def test_names_wrong_parameter(fleet, path, parameters, field):
    with pytest.raises(ApiError) as caught:
        fleet.api.get(path, **parameters)
    assert caught.value.status == 400, caught.value
    assert caught.value.error.get("message"), "says what is wrong"
    assert caught.value.error.get("code"), "says which kind of error"
    if field:
        assert caught.value.error.get("field") == field, caught.value


def test_reports_column_of_selector_error(fleet):
    with pytest.raises(ApiError) as caught:
        fleet.api.get("merge", query='{service="a" node="b"}')
    assert "column" in caught.value.error["message"], caught.value


@pytest.mark.parametrize("path", ["/nothing", "/api/v1/nothing", "/api/v2/merge", "/../etc/passwd",
                                  "/api/v1/labels/%00/values", "/%2e%2e/%2e%2e/etc/passwd"])
def test_unknown_paths_return_404(fleet, path):
    with pytest.raises(ApiError) as caught:
        fleet.api.fetch(path)
    assert caught.value.status in (400, 404)


def send(port, *chunks):
    """Send bytes, half-close, read what comes; an orderly refusal or a reset are both fine."""
    with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
        connection.settimeout(3)
        answer = b""
        try:
            for chunk in chunks:
                connection.sendall(chunk)
            connection.shutdown(socket.SHUT_WR)
            while len(answer) < 1 << 20:
                piece = connection.recv(65536)
                if not piece:
                    break
                answer += piece
        except OSError:
            pass
        return answer


GARBAGE = {
    "nothing": [],
    "random bytes": [os.urandom(4096)],
    "zeros": [bytes(65536)],
    "a request cut in the header": [b"GET /api/v1/merge HTTP/1.1\r\nHost: x\r\nX-Long: "],
    "a header without end": [b"GET / HTTP/1.1\r\nX: " + b"a" * 300_000 + b"\r\n\r\n"],
    "a path without end": [b"GET /" + b"a" * 300_000 + b" HTTP/1.1\r\n\r\n"],
    "many headers": [b"GET / HTTP/1.1\r\n" + b"".join(b"X-%d: y\r\n" % i for i in range(20000))
                     + b"\r\n"],
    "an absurd length": [b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999\r\n\r\n"],
    "a negative chunk": [b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n-5\r\n"],
    "the HTTP/2 preface and random bytes": [HTTP2_PREFACE, os.urandom(2048)],
    "a frame of absurd length": [HTTP2_PREFACE, b"\xff\xff\xff\x00\x00\x00\x00\x00\x01"],
    "a TLS hello": [bytes.fromhex("16030100f1010000ed0303") + os.urandom(230)],
}


@pytest.mark.parametrize("what", GARBAGE)
@pytest.mark.parametrize("port", ["grpc_port", "http_port"])
def test_survives_garbage(fleet, port, what):
    send(getattr(fleet, port), *GARBAGE[what])


def test_idle_connections_block_nobody(fleet):
    idle = []
    try:
        for _ in range(200):
            idle.append(socket.create_connection(("127.0.0.1", fleet.http_port), timeout=5))
        assert fleet.api.get("status")["agents"] >= 1
    except OSError as error:
        pytest.fail(f"after {len(idle)} connections: {error}")
    finally:
        for connection in idle:
            connection.close()


def test_answers_parallel_queries(fleet):
    failures = []
    service = unique("parallel")
    truth = workload("burn_c", "--cpu", "1", env={"OTEL_SERVICE_NAME": service}).truth()
    fleet.api.wait_for_total(service, truth["process_cpu_ns"])

    def ask():
        try:
            fleet.api.merge(service).check()
        except Exception as error:  # pylint: disable=broad-except
            failures.append(error)

    threads = [threading.Thread(target=ask) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def grpc_call(fleet, message, method="/cairn.v1.Collector/Export", prefix=None):
    """One call by curl; the answer's trailers as text."""
    if prefix is None:
        prefix = b"\x00" + len(message).to_bytes(4, "big")
    done = subprocess.run(
        ["curl", "--silent", "--verbose", "--max-time", "5", "--http2-prior-knowledge",
         "-H", "content-type: application/grpc", "-H", "te: trailers", "--data-binary", "@-",
         f"http://{fleet.grpc}{method}"],
        input=prefix + message, capture_output=True, check=False)
    return done.stderr.decode("utf-8", "replace").lower()


def field(number, wire_type, payload):
    return bytes([number << 3 | wire_type]) + payload


def text(number, content):
    assert len(content) < 128
    return field(number, 2, bytes([len(content)]) + content)


VERSION = field(13, 0, b"\x01")
VALID_IDS = VERSION + text(1, b"a" * 16) + text(2, b"b" * 16) + field(3, 0, b"\x01")


@pytest.mark.parametrize("what,message", [
    ("not protobuf", b"\xff\xff\xff\xff"),
    ("a length beyond the end", b"\x0a\xff\xff\xff\xff\x0f"),
    ("no contract version", VALID_IDS[len(VERSION):]),
    ("an agent id that is too short", VERSION + text(1, b"short") + text(2, b"b" * 16)),
    ("no agent id", VERSION + text(2, b"b" * 16)),
    ("stack ids cut in the middle", VALID_IDS + text(9, b"x" * 17)),
    ("a slot of no length", VALID_IDS + field(4, 0, b"\x00") + text(12, field(3, 0, b"\x05"))),
    ("a string beyond the table", VALID_IDS + field(4, 0, b"\x80\xda\xc4\x09")
     + text(12, field(3, 0, b"\x63"))),
])
def test_refuses_malformed_batch_by_field(fleet, what, message):
    trailers = grpc_call(fleet, message)
    assert "grpc-status: 3" in trailers, f"{what}: {trailers}"  # INVALID_ARGUMENT
    assert "grpc-message:" in trailers, trailers


def test_refuses_newer_contract_version(fleet):
    trailers = grpc_call(fleet, field(13, 0, b"\x03") + VALID_IDS[len(VERSION):])
    assert "grpc-status: 9" in trailers, trailers  # FAILED_PRECONDITION
    assert "contract_version: 3" in trailers, trailers


def test_refuses_unknown_methods_and_framing(fleet):
    assert "grpc-status: 12" in grpc_call(fleet, b"", method="/cairn.v1.Collector/Erase")
    answer = grpc_call(fleet, b"", prefix=b"\x00\xff\xff\xff\xff")
    assert "grpc-status: 0" not in answer


def test_survives_random_batches(fleet):
    source = random.Random(20)
    for _ in range(20):
        noise = bytes(source.randrange(256) for _ in range(source.randrange(400)))
        assert "grpc-status: 0" not in grpc_call(fleet, VALID_IDS + noise) or noise == b""
