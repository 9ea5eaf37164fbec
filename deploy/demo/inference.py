# SPDX-License-Identifier: Apache-2.0
"""The demo's inference service: tokens in Python, a small transformer in C, sampling in Python. Once, RELOAD_AFTER_SECONDS after its
start, each worker loads the weights from a slow registry within a request: the spike that `cairn spikes` finds."""
import argparse
import ctypes
import hashlib
import heapq
import http.client
import http.server
import json
import math
import random
import re
import time

import prefork

PROMPT_BYTES_MAX = 16384
NEW_TOKENS_MAX = 16
TOP_K = 20
RELOAD_AFTER_SECONDS = 180
REGISTRY_TIMEOUT_SECONDS = 30
WORD = re.compile(r"\w+|[^\w\s]")


class Model:
    def __init__(self, path):
        self.library = ctypes.CDLL(path)
        self.library.model_new.restype = ctypes.c_void_p
        self.library.model_forward.argtypes = [ctypes.c_void_p, ctypes.POINTER(ctypes.c_int32),
                                               ctypes.c_int, ctypes.POINTER(ctypes.c_float)]
        self.vocabulary = self.library.model_vocabulary()
        self.tokens_max = self.library.model_tokens_max()
        self.handle = self.library.model_new(7)
        self.logits = (ctypes.c_float * self.vocabulary)()
        self.reload_at = time.monotonic() + RELOAD_AFTER_SECONDS
        self.version = None

    def next_logits(self, tokens):
        window = tokens[-self.tokens_max:]
        array = (ctypes.c_int32 * len(window))(*window)
        if self.library.model_forward(self.handle, array, len(window), self.logits):
            raise ValueError("the model refused the tokens")
        return self.logits[:]

    def reload_if_due(self, registry):
        if time.monotonic() > self.reload_at:
            self.reload_at = math.inf
            self.reload(registry)

    def reload(self, registry):
        """Takes the registry's weights; the worker's requests wait meanwhile."""
        connection = http.client.HTTPConnection("127.0.0.1", registry, timeout=REGISTRY_TIMEOUT_SECONDS)
        try:
            connection.request("GET", "/weights")
            self.version = hashlib.sha256(connection.getresponse().read()).hexdigest()
        finally:
            connection.close()


def tokenize(text, vocabulary):
    """Words to numbers; long words fall apart into pieces, as with byte pairs."""
    tokens = []
    for word in WORD.findall(text.lower()):
        for start in range(0, len(word), 4):
            piece = word[start:start + 4]
            number = 0
            for character in piece:
                number = (number * 131 + ord(character)) % 65521
            tokens.append(number % vocabulary)
    return tokens or [0]


def sample(logits, source):
    best = heapq.nlargest(TOP_K, range(len(logits)), key=logits.__getitem__)
    weights = [math.exp(logits[token] - logits[best[0]]) for token in best]
    return source.choices(best, weights)[0]


def complete(model, prompt, count):
    tokens = tokenize(prompt, model.vocabulary)
    source = random.Random(len(prompt))
    for _ in range(count):
        tokens.append(sample(model.next_logits(tokens), source))
    return tokens[-count:]


class Handler(http.server.BaseHTTPRequestHandler):
    model, registry = None, 0

    def do_GET(self):
        self.answer(200 if self.path == "/healthz" else 404, {})

    def do_POST(self):
        size = int(self.headers.get("Content-Length", 0))
        if not 0 < size <= PROMPT_BYTES_MAX:
            self.answer(413, {"error": "prompt too long"})
            return
        request = json.loads(self.rfile.read(size))
        count = max(1, min(NEW_TOKENS_MAX, int(request.get("tokens", 4))))
        self.model.reload_if_due(self.registry)
        self.answer(200, {"tokens": complete(self.model, str(request["prompt"]), count)})

    def answer(self, status, content):
        body = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--registry", type=int, required=True, help="the registry's port")
    parser.add_argument("--kernels", required=True, help="the native library")
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    Handler.registry = options.registry

    def load_model():
        Handler.model = Model(options.kernels)

    prefork.serve(options.port, options.workers, Handler, load_model)


if __name__ == "__main__":
    main()
