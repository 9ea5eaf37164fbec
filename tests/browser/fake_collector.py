# SPDX-License-Identifier: Apache-2.0
"""A collector's HTTP API with generated data, for testing the page alone.

Serves collector/web and the API of version 1 (fake_api.py) on loopback, with the data of fake_data.py and the profile types of
fake_profiles.py. Run as a program it serves until interrupted and prints its address.
"""

import gzip
import json
import pathlib
import re
import sys
import threading
import time
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1]))
import contract  # noqa: E402
from fake_api import Api, BadRequest  # noqa: E402
from fake_data import Data  # noqa: E402

WEB = pathlib.Path(__file__).resolve().parents[2] / "collector" / "web"
CONTENT_TYPES = {".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8",
                 ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml"}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def do_GET(self):
        url = urllib.parse.urlsplit(self.path)
        params = dict(urllib.parse.parse_qsl(url.query))
        self.server.requests.append(self.path)
        try:
            if url.path.startswith("/api/v1/"):
                self.answer_api(url.path[len("/api/v1/"):], params)
            else:
                self.answer_file(url.path)
        except BadRequest as bad:
            error = {"error": {"code": "invalid_argument", "field": bad.field, "message": str(bad)}}
            self.send(400, json.dumps(error).encode(), "application/json")
        except (BrokenPipeError, ConnectionResetError):
            pass  # the page aborted the request

    def answer_api(self, path, params):
        server = self.server
        if server.away:
            self.send(503, b"away\n", "text/plain")
            return
        if server.delay_s and path in ("merge", "top", "services"):
            time.sleep(server.delay_s)
        api = server.api
        if path == "merge" and params.get("format", "json") != "json":
            self.send(200, api.collapsed(params).encode(), "text/plain", {"Content-Disposition": "attachment; filename=profile.collapsed"})
            return
        values = re.fullmatch(r"labels/([\w.]+)/values", path)
        routes = {"types": api.types, "labels": api.labels, "merge": api.merge, "callers": api.callers, "lines": api.lines, "top": api.top, "series": api.time_series,
                  "status": api.status, "agents": api.agents, "diagnose": api.diagnose, "spikes": api.spikes,
                  "heatmap": api.heatmap, "timeline": api.timeline, "services": api.list_services, "diff": api.diff}
        if values:
            answer = api.label_values(values[1], params)
        elif path in routes:
            answer = routes[path](params)
        else:
            self.send(404, b'{"error":{"code":"not_found","field":"","message":"no such path"}}', "application/json")
            return
        self.send(200, json.dumps(answer).encode(), "application/json")

    def answer_file(self, path):
        if path == "/empty":
            self.send(200, b'<!DOCTYPE html><link rel="icon" href="/icon.svg">', CONTENT_TYPES[".html"])
            return
        name = "index.html" if path == "/" else path.lstrip("/")
        file = next((folder / name for folder in (WEB, contract.WEB) if (folder / name).is_file()), WEB / name)
        if file.parent not in (WEB, contract.WEB) or not file.is_file():
            self.send(404, b"not found\n", "text/plain")
            return
        # For as long as a Chromium of the tests lives: dozens of modules for each page that is opened.
        self.send(200, file.read_bytes(), CONTENT_TYPES.get(file.suffix, "application/octet-stream"),
                  {"Cache-Control": "max-age=600"})

    def send(self, status, body, content_type, headers=None):
        if "gzip" in self.headers.get("Accept-Encoding", "") and len(body) > 1000:
            body = gzip.compress(body, 1)
            headers = {**(headers or {}), "Content-Encoding": "gzip"}
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Content-Security-Policy", "default-src 'self'")
        self.send_header("X-Content-Type-Options", "nosniff")
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)


class FakeCollector:
    """Serves on a loopback port of the kernel's choice. away and delay_s change how it answers."""

    def __init__(self, data=None, port=0):
        self.server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self.server.daemon_threads = True
        self.server.api = Api(data or Data())
        self.server.away, self.server.delay_s, self.server.requests = False, 0, []
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *unused):
        self.server.shutdown()
        self.server.server_close()


if __name__ == "__main__":
    with FakeCollector(Data(int(sys.argv[1]) if len(sys.argv) > 1 else 30000), int(sys.argv[2]) if len(sys.argv) > 2 else 0) as fake:
        print(fake.url, flush=True)
        fake.thread.join()
