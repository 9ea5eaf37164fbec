# SPDX-License-Identifier: Apache-2.0
"""A double of the Kubernetes API server: lists and watches pods by HTTPS, and fails as one does. Test equipment."""
import http.server
import json
import pathlib
import ssl
import threading
import time
import urllib.parse
import uuid

from certificates import Authority
from fleet import free_port

TICK_S = 0.05
TOKEN_OVERLAP_S = 1  # between reading the token and the request's arrival


def new_id():
    return uuid.uuid4().hex * 2


def pod(name, namespace="shop", containers=(("web", "registry:5000/shop/web:1.2.3", ""),), node="n1", uid=None, labels=None,
        annotations=None, owner=None):
    """As the server describes one; each container is (name, image, id or "")."""
    labels = dict(labels or {})
    owners = []
    if owner:
        kind, owner_name = owner
        owners = [{"apiVersion": "apps/v1", "kind": kind, "name": owner_name, "controller": True}]
        if kind == "ReplicaSet":
            labels["pod-template-hash"] = owner_name.rsplit("-", 1)[1]
    return {
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "uid": uid or str(uuid.uuid4()), "labels": labels,
                     "annotations": annotations or {}, "ownerReferences": owners,
                     "managedFields": [{"manager": "kubelet", "fieldsV1": {"f:status": {"f:x{[\"}": {}}}}]},
        "spec": {"nodeName": node, "containers": [{"name": n, "image": image} for n, image, _ in containers]},
        "status": {"phase": "Running" if all(c[2] for c in containers) else "Pending",
                   "containerStatuses": [{"name": n, "image": image, "containerID": f"containerd://{i}"}
                                         for n, image, i in containers if i]},
    }


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 30

    def log_message(self, *_):
        pass

    def do_GET(self):
        self.server.double.answer(self)


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = True

    def handle_error(self, *_):  # clients that go away, and those that are cut off
        pass


class ApiServerDouble:
    """Pods of one node, and the node. The agent's flags are `flags`."""

    def __init__(self, folder, node_labels=None):
        self.folder = pathlib.Path(folder)
        self.folder.mkdir()
        authority = Authority(self.folder / "ca")
        self.certificate = authority.server()
        credentials = self.folder / "serviceaccount"
        credentials.mkdir()
        (credentials / "ca.crt").write_text(pathlib.Path(authority.crt).read_text())
        self.token_file = credentials / "token"
        self.tokens = set()
        self._write_token()
        self.port = free_port()
        self.flags = ["--kubernetes", f"https://localhost:{self.port}", "--node", "n1",
                      "--kubernetes-credentials", str(credentials)]
        self.lock = threading.Lock()
        self.pods, self.events = {}, []
        self.node_labels = node_labels or {}
        self.version, self.oldest, self.epoch = 100, 0, 0
        self.refused, self.lists, self.watches, self.unauthorized = 0, 0, 0, 0
        self.garbage = b""
        self.server = None

    # ---- life

    def start(self):
        self.server = Server(("127.0.0.1", self.port), Handler)
        self.server.double = self
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.certificate.crt, self.certificate.key)
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True, do_handshake_on_connect=False)
        threading.Thread(target=self.server.serve_forever, args=[TICK_S], daemon=True).start()

    def stop(self):
        """As an API server that goes away: connections end, and none is accepted."""
        if not self.server:
            return
        server, self.server = self.server, None
        self.drop_connections()
        server.shutdown()
        server.server_close()

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.stop()

    # ---- what tests do

    def rotate_token(self):
        """The kubelet replaces it on disk. Returns once the old one is good no longer: a request on its way may have it."""
        old = set(self.tokens)
        self._write_token()
        time.sleep(TOKEN_OVERLAP_S)
        self.tokens -= old

    def _write_token(self):
        token = f"token-{uuid.uuid4().hex}"
        self.tokens.add(token)
        new = self.token_file.with_suffix(".new")
        new.write_text(token)
        new.rename(self.token_file)

    def put(self, new):
        with self.lock:
            known = new["metadata"]["uid"] in self.pods
            self._record("MODIFIED" if known else "ADDED", new)
            self.pods[new["metadata"]["uid"]] = new

    def delete(self, old):
        with self.lock:
            del self.pods[old["metadata"]["uid"]]
            self._record("DELETED", old)

    def forget_events(self):
        """Versions so far are too old for a watch from now on: 410."""
        with self.lock:
            self.version += 1
            self.oldest = self.version
            self.events = []
            self.epoch += 1

    def drop_connections(self):
        with self.lock:
            self.epoch += 1

    def send_garbage(self, garbage):
        """Into the watch that runs."""
        with self.lock:
            self.garbage = garbage

    def _record(self, kind, changed):
        self.version += 1
        changed["metadata"]["resourceVersion"] = str(self.version)
        self.events.append((self.version, {"type": kind, "object": json.loads(json.dumps(changed))}))

    # ---- requests, each in a thread

    def answer(self, handler):
        url = urllib.parse.urlsplit(handler.path)
        query = {name: values[0] for name, values in urllib.parse.parse_qs(url.query).items()}
        handler.close_connection = True
        if handler.headers.get("Authorization", "").removeprefix("Bearer ") not in self.tokens:
            self.unauthorized += 1
            self._send(handler, 401, b"{}")
        elif url.path == "/api/v1/nodes/n1":
            self._send(handler, 200, json.dumps({"kind": "Node", "metadata": {"name": "n1", "labels": self.node_labels}}).encode())
        elif url.path != "/api/v1/pods" or query.get("fieldSelector") != "spec.nodeName=n1":
            self.refused += 1
            self._send(handler, 403, b"{}")
        elif query.get("watch"):
            self._watch(handler, int(query["resourceVersion"]))
        else:
            self._list(handler, int(query.get("continue", "0")))

    @staticmethod
    def _send(handler, status, body):
        handler.send_response(status)
        handler.send_header("Content-Type", "application/json")
        handler.send_header("Content-Length", str(len(body)))
        handler.send_header("Connection", "close")
        handler.end_headers()
        handler.wfile.write(body)

    def _list(self, handler, begin):
        """Two pods a page."""
        with self.lock:
            self.lists += 1
            ordered = list(self.pods.values())
            metadata = {"resourceVersion": str(self.version)}
            if begin + 2 < len(ordered):
                metadata["continue"] = str(begin + 2)
            body = json.dumps({"kind": "PodList", "apiVersion": "v1", "metadata": metadata,
                               "items": ordered[begin:begin + 2]}).encode()
        self._send(handler, 200, body)

    def _watch(self, handler, version):
        with self.lock:
            self.watches += 1
            number, epoch, too_old = self.watches, self.epoch, version < self.oldest
        if too_old:
            self._send(handler, 410, b"{}")
            return
        handler.send_response(200)
        handler.send_header("Content-Type", "application/json")
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        while self.epoch == epoch:
            with self.lock:
                if self.watches != number:  # its one client has begun another: nobody reads this one
                    return
                due = [event for at, event in self.events if at > version]
                version, garbage, self.garbage = self.version, self.garbage, b""
            lines = b"".join(json.dumps(event).encode() + b"\n" for event in due) + garbage
            if lines:
                handler.wfile.write(b"%x\r\n%s\r\n" % (len(lines), lines))
                handler.wfile.flush()
            time.sleep(TICK_S)
        # The connection ends within the answer, as when a server or a proxy dies.
