# SPDX-License-Identifier: Apache-2.0
"""The demo's inference service under a fixed load: requests come when they are due, whether or not
those before them have been answered, and a latency counts from then."""
import concurrent.futures
import http.client
import json
import os
import socket
import subprocess
import sys
import time

READY_SECONDS = 20
WORKERS = 2
CLIENTS = 16
BODY = json.dumps({"prompt": "the model answers with words about topic and snippet again",
                   "tokens": 1})


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def quantile(values, share):
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


class Latencies:
    def __init__(self, seconds_each, rate):
        self.p50_ms, self.p99_ms = (1000 * quantile(seconds_each, share) for share in (0.5, 0.99))
        self.rate = self.by_cpu = rate
        self.cost = None


class Service:
    def __init__(self, root, folder, rate):
        self.rate = rate
        library = folder / "libdemo-kernels.so"
        subprocess.run(["gcc", "-O2", "-g", "-shared", "-fPIC", str(root / "deploy/demo/kernels.c"),
                        "-o", str(library), "-lm"], check=True)
        self.port = free_port()
        self.process = subprocess.Popen(
            [sys.executable, "-B", str(root / "deploy/demo/inference.py"), "--port", str(self.port),
             "--kernels", str(library), "--workers", str(WORKERS)],
            stderr=subprocess.DEVNULL, env={**os.environ, "OTEL_SERVICE_NAME": "bench-inference"})
        deadline = time.monotonic() + READY_SECONDS
        while not self._answers():
            if time.monotonic() > deadline:
                raise RuntimeError("the inference service is not ready")
            time.sleep(0.1)
        self.measure(2)

    def _answers(self):
        try:
            self._ask(time.monotonic())
            return True
        except OSError:
            return False

    def _ask(self, due):
        """Seconds from when the request was due until it was answered."""
        time.sleep(max(0, due - time.monotonic()))
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            connection.request("POST", "/", BODY)
            connection.getresponse().read()
        finally:
            connection.close()
        return time.monotonic() - due

    def measure(self, seconds):
        begin = time.monotonic() + 0.1
        dues = [begin + number / self.rate for number in range(int(self.rate * seconds))]
        with concurrent.futures.ThreadPoolExecutor(CLIENTS) as clients:
            latencies = list(clients.map(self._ask, dues))
        return Latencies(latencies, len(dues) / (time.monotonic() - begin))

    def stop(self):
        self.process.terminate()
        self.process.wait()
