# SPDX-License-Identifier: Apache-2.0
"""The demo's gateway: checks a request, cleans its text, asks the inference service, compresses and
signs the answer. Every REFRESH_SECONDS a worker rebuilds its index of snippets within a request: the
latency spike to find on the page."""
import argparse
import collections
import hashlib
import http.client
import http.server
import json
import re
import time
import zlib

import prefork

BODY_BYTES_MAX = 65536
REFRESH_SECONDS = 20
SNIPPETS = 2500
SPACES = re.compile(r"\s+")


def clean(text):
    return SPACES.sub(" ", text).strip()


def count_words(text):
    return collections.Counter(text.lower().split()).most_common(5)


def sign(body):
    digest = body
    for _ in range(200):
        digest = hashlib.sha256(digest).digest()
    return digest.hex()


class SnippetIndex:
    def __init__(self):
        self.built = 0.0
        self.words = {}

    def refresh_if_old(self):
        if time.monotonic() - self.built > REFRESH_SECONDS:
            self.rebuild()

    def rebuild(self):
        self.words = {}
        for number in range(SNIPPETS):
            snippet = f"snippet {number} about topic {number % 97} and word {number * 7919 % 1013}"
            packed = zlib.compress(snippet.encode() * 8, 6)
            for word in zlib.decompress(packed).decode().split():
                self.words.setdefault(word, set()).add(number)
        self.built = time.monotonic()

    def find(self, text):
        hits = collections.Counter()
        for word in text.lower().split():
            hits.update(list(self.words.get(word, ()))[:50])
        return [number for number, _ in hits.most_common(3)]


class Handler(http.server.BaseHTTPRequestHandler):
    inference_port = 0
    index = SnippetIndex()

    def do_GET(self):
        self.answer(200 if self.path == "/healthz" else 404, b"{}")

    def do_POST(self):
        size = int(self.headers.get("Content-Length", 0))
        if not 0 < size <= BODY_BYTES_MAX:
            self.answer(413, b"{}")
            return
        request = json.loads(self.rfile.read(size))
        prompt = clean(str(request["prompt"]))
        self.index.refresh_if_old()
        result = {
            "words": count_words(prompt),
            "snippets": self.index.find(prompt),
            "completion": self.ask_inference(prompt, request.get("tokens", 4)),
        }
        body = json.dumps(result).encode()
        self.answer(200, zlib.compress(body, 9), sign(body))

    def ask_inference(self, prompt, tokens):
        connection = http.client.HTTPConnection("127.0.0.1", self.inference_port, timeout=30)
        try:
            connection.request("POST", "/complete",
                               json.dumps({"prompt": prompt[:8000], "tokens": tokens}))
            return json.loads(connection.getresponse().read())["tokens"]
        finally:
            connection.close()

    def answer(self, status, body, signature=""):
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        if signature:
            self.send_header("Content-Encoding", "deflate")
            self.send_header("X-Signature", signature)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--inference", type=int, required=True, help="the inference service's port")
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    Handler.inference_port = options.inference
    prefork.serve(options.port, options.workers, Handler)


if __name__ == "__main__":
    main()
