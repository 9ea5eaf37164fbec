# SPDX-License-Identifier: Apache-2.0
"""An HTTP server with worker processes: one listening socket, forked once, as WSGI servers do."""
import ctypes
import http.server
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


class Server(http.server.HTTPServer):
    request_queue_size = 128
    allow_reuse_address = True


def _worker(server, before_serving):
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    before_serving()
    server.serve_forever()


def serve(port, workers, handler, before_serving=lambda: None):
    """Serve on loopback until SIGTERM or SIGINT; a worker that dies ends the server."""
    server = Server(("127.0.0.1", port), handler)
    children = []
    for _ in range(workers):
        pid = os.fork()
        if pid == 0:
            try:
                _worker(server, before_serving)
            finally:
                os._exit(1)
        children.append(pid)

    def stop(*_):
        for pid in children:
            try:
                os.kill(pid, signal.SIGTERM)
            except ProcessLookupError:
                pass
        for pid in children:
            try:
                os.waitpid(pid, 0)
            except ChildProcessError:
                pass
        sys.exit(0)

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    pid, status = os.wait()
    children.remove(pid)
    print(f"worker {pid} ended with status {status}", file=sys.stderr)
    for child in children:
        os.kill(child, signal.SIGTERM)
    sys.exit(1)
