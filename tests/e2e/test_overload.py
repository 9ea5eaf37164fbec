# SPDX-License-Identifier: Apache-2.0
"""Clients that take more than their part: connections, threads, descriptors, memory. Others go on, and the
collector recovers by itself."""
import os
import pathlib
import resource
import socket
import time

import pytest

from export_client import HEALTH, batch, bomb, call, stall, start_call, status_of
from fleet import Collector, wait_until

OK, RESOURCE_EXHAUSTED = 0, 8
CGROUP_BYTES = 448 << 20


class LimitedCollector(Collector):
    """A collector that starts in a cgroup, or with few descriptors."""

    def __init__(self, folder, prefix):
        super().__init__(folder / "data", folder / "collector.log")
        self.argv = [*prefix, *self.argv]


def readyz(collector):
    """The status and the text of /readyz."""
    with socket.create_connection(("127.0.0.1", collector.http_port), timeout=5) as connection:
        connection.sendall(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        answer = b""
        while piece := connection.recv(4096):
            answer += piece
    head, _, body = answer.partition(b"\r\n\r\n")
    return int(head.split()[1]), body.decode()


def peak_bytes(pid):
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) << 10


def test_recovers_after_descriptors_ran_out(tmp_path):
    # A limit below ours must not let this test fail.
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 600:
        pytest.skip(f"the limit of open files is {hard}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    held = []
    try:
        with LimitedCollector(tmp_path, ["prlimit", "--nofile=256:256"]) as collector:
            assert call(collector.grpc, b"", HEALTH) == OK
            # Of three addresses: one alone never has all connections.
            for i in range(300):
                held.append(socket.create_connection(("127.0.0.1", collector.grpc_port), timeout=5,
                                                     source_address=(f"127.0.0.{2 + i % 3}", 0)))
            wait_until("/readyz to see that nobody can connect", 15, lambda: readyz(collector)[0] == 503)
            assert "not ready" in readyz(collector)[1]
            while held:
                held.pop().close()
            wait_until("/readyz to see that agents can connect", 15, lambda: readyz(collector)[0] == 200)
            assert call(collector.grpc, batch(1)) == OK
    finally:
        for connection in held:
            connection.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_stalled_connections_delay_no_agent(collector, start_agent):
    stalled = [stall(collector.grpc_port) for _ in range(4)]
    try:
        start_agent(collector)
        collector.wait_for_agent()
        assert readyz(collector)[0] == 200
    finally:
        for connection in stalled:
            connection.close()


@pytest.mark.parametrize("size", [63 << 20, 112 << 20])
def test_gzip_bomb_takes_no_memory(collector, size):
    before = peak_bytes(collector.process.pid)
    message = bomb(size)
    calls = [start_call(collector.grpc, message, compressed=True) for _ in range(4)]
    assert OK not in [status_of(each) for each in calls]
    assert peak_bytes(collector.process.pid) - before < 24 << 20
    assert call(collector.grpc, batch(1)) == OK


@pytest.fixture
def memory_cgroup():
    """A cgroup of CGROUP_BYTES, version 1 or 2; its folder."""
    roots = [("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")]
    for root, name in roots:
        folder = pathlib.Path(root) / f"cairn-e2e-{os.getpid()}"
        try:
            folder.mkdir()
        except OSError:
            continue
        try:
            (folder / name).write_text(str(CGROUP_BYTES))
        except OSError:
            folder.rmdir()
            continue
        yield folder
        wait_until("the cgroup's end", 10, lambda: not (folder / "cgroup.procs").read_text())
        folder.rmdir()
        return
    pytest.skip("no memory cgroup can be made here")


def test_large_batches_fit_into_cgroup(tmp_path, memory_cgroup):
    prefix = ["sh", "-c", 'echo $$ > "$0/cgroup.procs" && exec "$@"', str(memory_cgroup)]
    with LimitedCollector(tmp_path, prefix) as collector:
        pid = collector.process.pid
        large, small = batch(20000), batch(4000)
        calls = [start_call(collector.grpc, large) for _ in range(4)]
        calls += [start_call(collector.grpc, small) for _ in range(4)]
        statuses = [status_of(each) for each in calls]
        assert collector.is_running() and collector.process.pid == pid, collector.log()
        # Four at once would take 1.5 GiB.
        assert statuses[:4] == [RESOURCE_EXHAUSTED] * 4, collector.log()
        assert OK in statuses[4:], statuses
        # Those that were refused for want of memory are taken in the end.
        deadline = time.monotonic() + 30
        while call(collector.grpc, small) != OK:
            assert time.monotonic() < deadline, collector.log()
        assert collector.api.answers("/readyz")
