# SPDX-License-Identifier: Apache-2.0
"""A bounded load on the demo's gateway: a few clients, a wave of one minute, and an end. Prints one
line of totals."""
import argparse
import http.client
import json
import math
import random
import threading
import time

CLIENTS = 4
WAVE_SECONDS = 60
TIMEOUT_SECONDS = 30
WORDS = ("the model answers with words about topic and snippet while a request waits for the "
         "gateway that counts hashes compresses and signs every token of the prompt").split()


class Client(threading.Thread):
    def __init__(self, options, end):
        super().__init__(name="client", daemon=True)
        self.options = options
        self.end = end
        self.latencies = []
        self.failures = 0
        self.random = random.Random()

    def run(self):
        while time.monotonic() < self.end:
            wave = 1 + 0.6 * math.sin(2 * math.pi * time.monotonic() / WAVE_SECONDS)
            pause = self.random.expovariate(self.options.rate * wave / CLIENTS)
            time.sleep(min(pause, max(0, self.end - time.monotonic())))
            self.ask()

    def ask(self):
        prompt = " ".join(self.random.choices(WORDS, k=self.random.randrange(10, 60)))
        body = json.dumps({"prompt": prompt, "tokens": self.random.randrange(1, 6)})
        connection = http.client.HTTPConnection("127.0.0.1", self.options.port,
                                                timeout=TIMEOUT_SECONDS)
        began = time.monotonic()
        try:
            connection.request("POST", "/complete", body)
            if connection.getresponse().read() and time.monotonic() - began < TIMEOUT_SECONDS:
                self.latencies.append(time.monotonic() - began)
        except (OSError, http.client.HTTPException):
            self.failures += 1
        finally:
            connection.close()


def quantile(values, share):
    return sorted(values)[min(len(values) - 1, int(len(values) * share))] if values else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--rate", type=float, default=12, help="requests per second on average")
    options = parser.parse_args()
    end = time.monotonic() + options.minutes * 60
    clients = [Client(options, end) for _ in range(CLIENTS)]
    for client in clients:
        client.start()
    for client in clients:
        client.join()
    latencies = [latency for client in clients for latency in client.latencies]
    failures = sum(client.failures for client in clients)
    print(f"{len(latencies)} requests, {failures} failed, "
          f"p50 {1000 * quantile(latencies, 0.5):.0f} ms, "
          f"p99 {1000 * quantile(latencies, 0.99):.0f} ms")


if __name__ == "__main__":
    main()
