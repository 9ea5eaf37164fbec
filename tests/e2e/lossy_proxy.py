# SPDX-License-Identifier: Apache-2.0
"""A TCP proxy that can drop the server's answers: the request arrives, the acknowledgement does
not, as when a network fails at the worst moment."""
import socket
import threading


class LossyProxy:
    def __init__(self, target):
        host, port = target.rsplit(":", 1)
        self.target = (host, int(port))
        self.losing = threading.Event()
        self.lost_bytes = 0
        self.connections = []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
                server = socket.create_connection(self.target, timeout=5)
            except OSError:
                return
            self.connections += [client, server]
            threading.Thread(target=self._pump, args=(client, server, False), daemon=True).start()
            threading.Thread(target=self._pump, args=(server, client, True), daemon=True).start()

    def _pump(self, source, sink, is_answer):
        try:
            while piece := source.recv(65536):
                if is_answer and self.losing.is_set():
                    self.lost_bytes += len(piece)
                else:
                    sink.sendall(piece)
        except OSError:
            pass
        self._shut(source)
        self._shut(sink)

    @staticmethod
    def _shut(connection):
        try:
            connection.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass

    def break_connections(self):
        """Cut all that is open; new ones are accepted."""
        broken, self.connections = self.connections, []
        for connection in broken:
            self._shut(connection)

    def close(self):
        self._shut(self.listener)
        self.listener.close()
        self.break_connections()
