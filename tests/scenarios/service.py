# SPDX-License-Identifier: Apache-2.0
"""Test equipment: one pod of a Python service that does a little work all the time, and on the word "SECONDS SIZE" on its standard input
the fault argv[1] for so long. SIZE, from 0 to 1, is how bad it is."""
import gc
import os
import random
import sys
import tempfile
import threading
import time

WORKERS = 4


class TokenizerPool:
    """Its one lock is held for as long as a word takes."""

    def __init__(self):
        self.lock = threading.Lock()
        self.hold_s = 0.0002

    def encode(self):
        with self.lock:
            time.sleep(self.hold_s)


pool = TokenizerPool()


def handle_request():
    end = time.thread_time() + random.uniform(0.0005, 0.0015)
    while time.thread_time() < end:
        sum(range(200))


def serve():
    while True:
        handle_request()
        if sys.argv[1] == "tokenizer":
            pool.encode()
        time.sleep(random.uniform(0.04, 0.12))


def parse_weights(data):
    return sum(data[at] for at in range(0, len(data), 64))


def load_model(seconds, size):
    end = time.monotonic() + seconds
    layers = []
    while time.monotonic() < end:
        if len(layers) < 8 + 24 * size:
            layers.append(bytearray(b"w") * (8 << 20))
        parse_weights(layers[random.randrange(len(layers))][:1 << 20])


def reload(seconds, size):
    load_model(seconds, size)


def collect_garbage(seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        gc.collect()


def gc_pause(seconds, _size):
    collect_garbage(seconds)


def tokenizer(seconds, size):
    pool.hold_s = 0.02 + 0.1 * size
    time.sleep(seconds)
    pool.hold_s = 0.0002


def write_log(file, data):
    os.pwrite(file, data, random.randrange(8) * len(data))
    os.fsync(file)


def disk(seconds, size):
    data = os.urandom(int((1 + 7 * size) * (1 << 20)))
    end = time.monotonic() + seconds
    with tempfile.TemporaryFile(dir=os.environ.get("SCENARIO_FOLDER")) as file:
        while time.monotonic() < end:
            write_log(file.fileno(), data)


def render(seconds):
    """What a slow version does for each request."""
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        sum(i * i for i in range(500))


def deployment():
    """A pod of the new version: it is slow from the start on, for SIZE of the time."""
    share = float(sys.argv[2])
    while True:
        render(0.05 * share)
        time.sleep(0.05 * (1 - share))


def crunch(seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        sum(range(1000))


def neighbour(seconds, _size):
    crunch(seconds)


def steady(_seconds, _size):
    """Faults that come from outside, such as a quota."""


def ballast():
    """What a collection has to look through."""
    kept = []
    for _ in range(300_000):
        node = []
        node.append(node)
        kept.append(node)
    return kept


FAULTS = {"reload": reload, "gc_pause": gc_pause, "tokenizer": tokenizer, "disk": disk, "neighbour": neighbour, "steady": steady}


def main():
    gc.disable()
    kept = ballast() if sys.argv[1] == "gc_pause" else []
    if sys.argv[1] == "deployment" and len(sys.argv) > 2:
        deployment()
    for _ in range(WORKERS):
        threading.Thread(target=serve, daemon=True).start()
    for line in sys.stdin:
        seconds, size = map(float, line.split())
        FAULTS[sys.argv[1]](seconds, size)
    kept.clear()


main()
