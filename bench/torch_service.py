#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A threaded HTTP service that answers with a small transformer on PyTorch: a thread for each connection,
layers of middleware as web frameworks have them, many small modules, and a data-loader process that
prepares the batches. Real services are like this: deep stacks, half Python and half C++, and many switches.

    torch_service.py --port N [--seed N] [--seconds N]

It ends by itself after --seconds, or with its parent.
"""
import argparse
import ctypes
import http.server
import json
import os
import queue
import random
import signal
import socketserver
import sys
import threading
import time

import torch
from torch import nn

WIDTH, HEADS, LAYERS = 64, 4, 6
TOKENS_MIN, TOKENS_MAX = 8, 48
VOCABULARY = 997
BATCHES_AHEAD = 64  # that the data loader has prepared
PR_SET_PDEATHSIG = 1


def end_with_parent():
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


# ---- the model ------------------------------------------------------------------------------

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(2))
        self.query, self.key, self.value, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.widen, self.narrow = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)

    def attend(self, x):
        q, k, v = (part.view(*x.shape[:2], HEADS, WIDTH // HEADS).transpose(1, 2)
                   for part in (self.query(x), self.key(x), self.value(x)))
        scores = torch.softmax(q @ k.transpose(-1, -2) / (WIDTH // HEADS) ** 0.5, -1)
        return self.out((scores @ v).transpose(1, 2).reshape(x.shape))

    def forward(self, x):
        x = x + self.attend(self.norms[0](x))
        return x + self.narrow(nn.functional.gelu(self.widen(self.norms[1](x))))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(VOCABULARY, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCABULARY)

    def forward(self, words):
        x = self.words(words)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


# ---- the data loader, a process of its own -----------------------------------------------------

class Prompts(torch.utils.data.IterableDataset):
    """Random prompts, tokenized: what the data-loader process does all its life."""

    def __init__(self, seed):
        super().__init__()
        self.seed = seed

    def __iter__(self):
        end_with_parent()
        chance = random.Random(self.seed)
        while True:
            text = " ".join(f"word{chance.randrange(5000)}" for _ in range(chance.randrange(TOKENS_MIN, TOKENS_MAX)))
            yield torch.tensor([sum(map(ord, word)) * 31 % VOCABULARY for word in text.split()])


def load_batches(seed, batches):
    # Spawned: a fork of a process with threads may hold locks that nobody will release.
    loader = torch.utils.data.DataLoader(Prompts(seed), batch_size=1, num_workers=1, prefetch_factor=8,
                                         multiprocessing_context="spawn")
    for batch in loader:
        batches.put(batch)


# ---- the service ----------------------------------------------------------------------------

class Pipeline:
    """What a request passes on its way to the model, each a call within the one before."""

    def __init__(self, model, batches):
        self.model, self.batches = model, batches

    def trace(self, request):
        began = time.monotonic()
        answer = self.authorize(request)
        answer["seconds"] = time.monotonic() - began
        return answer

    def authorize(self, request):
        if request.get("user", "").startswith("nobody"):
            return {"error": "who are you?"}
        return self.validate(request)

    def validate(self, request):
        tokens = int(request.get("tokens", 1))
        return self.dispatch({"tokens": max(1, min(tokens, 4))})

    def dispatch(self, request):
        return getattr(self, "infer")(**request)

    def infer(self, tokens):
        words = self.batches.get()
        with torch.inference_mode():
            for _ in range(tokens):
                words = torch.cat([words, self.next_word(words)], 1)
        return {"words": words[0].tolist()}

    def next_word(self, words):
        return self.model(words)[:, -1:].argmax(-1)


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"  # connections stay
    wbufsize = -1  # an answer goes out in one piece
    disable_nagle_algorithm = True
    pipeline = None

    def do_POST(self):  # pylint: disable=invalid-name
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.answer(self.pipeline.trace(request))

    def answer(self, what):
        body = json.dumps(what).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):  # pylint: disable=arguments-differ
        pass


class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def handle_error(self, request, client_address):
        if not isinstance(sys.exc_info()[1], ConnectionError):  # a client that is gone is no fault
            super().handle_error(request, client_address)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--seconds", type=float, default=900, help="it ends by itself then (%(default)s)")
    options = parser.parse_args()
    end_with_parent()
    threading.Timer(options.seconds, os._exit, (0,)).start()
    torch.manual_seed(options.seed)
    torch.set_num_threads(1)  # requests are what runs in parallel
    batches = queue.Queue(BATCHES_AHEAD)
    threading.Thread(target=load_batches, args=(options.seed, batches), daemon=True).start()
    Handler.pipeline = Pipeline(Model().eval(), batches)
    with Server(("127.0.0.1", options.port), Handler) as server:
        server.serve_forever()


if __name__ == "__main__":
    main()
