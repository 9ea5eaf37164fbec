# SPDX-License-Identifier: Apache-2.0
"""The demo's registry of models: it sends the weights slowly, as one on a crowded network does."""
import argparse
import http.server
import time

PARTS, PART_BYTES, SECONDS = 40, 16384, 5


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        is_known = self.path in ("/healthz", "/weights")
        self.send_response(200 if is_known else 404)
        self.send_header("Content-Length", str(PARTS * PART_BYTES if self.path == "/weights" else 0))
        self.end_headers()
        if self.path == "/weights":
            for part in range(PARTS):
                time.sleep(SECONDS / PARTS)
                self.wfile.write(bytes([part]) * PART_BYTES)

    def log_message(self, *_):
        pass


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    options = parser.parse_args()
    http.server.ThreadingHTTPServer(("127.0.0.1", options.port), Handler).serve_forever()


if __name__ == "__main__":
    main()
