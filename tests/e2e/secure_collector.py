# SPDX-License-Identifier: Apache-2.0
"""A collector with a login, and with TLS if it has certificates."""
import http.client
import json
import pathlib
import ssl
import subprocess
import urllib.parse

from fleet import Collector, program


class SecureCollector(Collector):
    """A collector with an access file; its API client has a token of all tenants."""

    def __init__(self, folder, *flags, tls=None):
        self.folder = pathlib.Path(folder)
        self.access = self.folder / "access"
        self.tls = tls
        super().__init__(self.folder / "data", self.folder / "collector.log")
        self.argv += ["--access", str(self.access), *flags]
        self.secrets = []
        self.ops = self.new_token("ops", "read,admin", "*")
        self.api = SecureApi(self, self.ops)

    def new_token(self, name, roles, tenant="-"):
        """The file with a new token, whose line is in the access file."""
        done = subprocess.run([program("cairn-collector"), "--new-token", name, "--roles", roles, "--tenant", tenant,
                               "--access", str(self.access)], capture_output=True, text=True, check=True)
        assert done.stderr == ""
        self.secrets.append(done.stdout.strip().rsplit(".", 1)[1])
        path = self.folder / f"{name}-{len(self.secrets)}.token"
        path.write_text(done.stdout)
        return path

    def drop_line(self, token_file):
        """Remove the token's line: by its order among those of its name."""
        number = int(token_file.name.rsplit("-", 1)[1].split(".")[0])
        lines = self.access.read_text().splitlines(True)
        lines[number - 1] = "# removed\n"
        self.write_access("".join(lines))

    def add_line(self, line):
        self.write_access(self.access.read_text() + line + "\n")

    def write_access(self, text):
        new = self.access.with_suffix(".new")
        new.write_text(text)
        new.rename(self.access)


class SecureApi:
    """Requests with a token, by TLS if the collector has it."""

    def __init__(self, collector, token_file, certificate=None):
        self.collector = collector
        self.token_file = token_file
        self.certificate = certificate

    def context(self):
        tls = self.collector.tls
        if not tls:
            return None
        context = ssl.create_default_context(cafile=tls)
        if self.certificate:
            context.load_cert_chain(self.certificate.crt, self.certificate.key)
        return context

    def fetch(self, path, method="GET"):
        """Status and body."""
        host, port = "localhost", self.collector.http_port
        context = self.context()
        connection = (http.client.HTTPSConnection(host, port, timeout=20, context=context) if context
                      else http.client.HTTPConnection(host, port, timeout=20))
        headers = {"Authorization": f"Bearer {self.token_file.read_text().strip()}"} if self.token_file else {}
        try:
            connection.request(method, path, headers=headers)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def answers(self, path):
        try:
            return self.fetch(path)[0] == 200
        except OSError:
            return False

    def get(self, path):
        status, body = self.fetch(f"/api/v1/{path}")
        assert status == 200, f"{path}: {status} {body[:300]}"
        return json.loads(body)

    def total(self, selector):
        return self.get(f"top?limit=1&query={urllib.parse.quote(selector)}")["total"]

    def values(self, label):
        return self.get(f"labels/{label}/values")["values"]
