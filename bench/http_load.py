#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Load on an HTTP service, from a process of its own whose CPU is not the service's.

Closed loop: each client asks again when it has its answer, so the service is saturated and its
throughput counts. Open loop (--rate): requests come when they are due, whether or not those before
them have been answered, and a latency counts from then.

    http_load.py --port N [--clients N] [--rate N] --seconds N [--log FILE]

It prints a line of JSON: {"requests", "failed", "rate", "p50_ms", "p99_ms"}. In FILE each answer has a
record: when it came, in ns of the monotonic clock, and its latency in ns.
"""
import argparse
import json
import os
import socket
import struct
import threading
import time

CLIENTS = 8
BODY = b'{"user": "bench", "tokens": 1}'
TIMEOUT_SECONDS = 30
HEAD_BYTES_MAX = 1 << 16
RECORD = struct.Struct("<QQ")


def quantile(values, share):
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


def records(path):
    """[(ns when it ended, latency in ns)] of a log."""
    data = path.read_bytes()
    return list(RECORD.iter_unpack(data[:len(data) // RECORD.size * RECORD.size]))


class Log:
    """What has ended, readable at once."""

    def __init__(self, path):
        self.file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600) if path else -1

    def add(self, seconds):
        if self.file >= 0:
            os.write(self.file, RECORD.pack(time.monotonic_ns(), int(seconds * 1e9)))


class Connection:
    """One client's, kept open. It parses just enough, since it runs on the service's CPUs."""

    def __init__(self, port):
        self.request = f"POST / HTTP/1.1\r\nHost: bench\r\nContent-Length: {len(BODY)}\r\n\r\n".encode() + BODY
        self.port, self.socket = port, None

    def ask(self):
        """Raises OSError where there is no answer, or one of another status than 200."""
        if not self.socket:
            self.socket = socket.create_connection(("127.0.0.1", self.port), TIMEOUT_SECONDS)
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            self.socket.sendall(self.request)
            self._read_answer()
        except OSError:
            self.close()
            raise

    def _read_answer(self):
        data = b""
        while b"\r\n\r\n" not in data:
            data += self._receive()
            if len(data) > HEAD_BYTES_MAX:
                raise OSError("no end of the header")
        head, _, body = data.partition(b"\r\n\r\n")
        if b" 200 " not in head.split(b"\r\n", 1)[0]:
            raise OSError(head[:100])
        left = int(head.lower().split(b"content-length:", 1)[1].split(b"\r\n", 1)[0]) - len(body)
        while left > 0:
            left -= len(self._receive())

    def _receive(self):
        data = self.socket.recv(1 << 16)
        if not data:
            raise OSError("the connection was closed")
        return data

    def close(self):
        if self.socket:
            self.socket.close()
        self.socket = None


class Load:
    """@clients threads for @seconds; @rate requests a second between them, or as many as there can be."""

    def __init__(self, port, seconds, clients=CLIENTS, rate=None, log=None):
        self.log = Log(log)
        self.lock, self.latencies, self.failed = threading.Lock(), [], 0
        self.begin = time.monotonic()
        self.end, self.rate, self.next_number = self.begin + seconds, rate, 0
        self.threads = [threading.Thread(target=self._run, args=(Connection(port),)) for _ in range(clients)]

    def run(self):
        for thread in self.threads:
            thread.start()
        for thread in self.threads:
            thread.join()
        return self

    def _due(self):
        """When the next request is due."""
        if not self.rate:
            return time.monotonic()
        with self.lock:
            number = self.next_number
            self.next_number += 1
        return self.begin + number / self.rate

    def _run(self, connection):
        mine, failed = [], 0
        while (due := self._due()) < self.end:
            time.sleep(max(0, due - time.monotonic()))
            try:
                connection.ask()
                mine.append(time.monotonic() - due)
                self.log.add(mine[-1])
            except OSError:
                failed += 1
                time.sleep(0.1)
        connection.close()
        with self.lock:
            self.latencies += mine
            self.failed += failed

    def figures(self):
        count = len(self.latencies)
        return {"requests": count, "failed": self.failed, "rate": count / (time.monotonic() - self.begin),
                **{f"p{share}_ms": 1000 * quantile(self.latencies, share / 100) if count else None
                   for share in (50, 99)}}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--clients", type=int, default=CLIENTS)
    parser.add_argument("--rate", type=float, help="requests a second (none: closed loop)")
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--log")
    options = parser.parse_args()
    load = Load(options.port, options.seconds, options.clients, options.rate, options.log)
    print(json.dumps(load.run().figures()))


if __name__ == "__main__":
    main()
