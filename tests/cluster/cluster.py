# SPDX-License-Identifier: Apache-2.0
"""A Kubernetes cluster of one machine: etcd and the real API server on loopback, and what tests ask of them."""
import base64
import json
import os
import pathlib
import shutil
import subprocess

from certificates import Authority
from fleet import Daemon, free_port, wait_until

PROGRAMS = pathlib.Path(os.environ.get("CLUSTER_PROGRAMS", "none"))
START_SECONDS = 90
ADMIN, KUBELET = "admin-token-of-this-test", "kubelet-token-of-this-test"
NODE = "n1"


def missing_programs(*names):
    """The first that is not there, in words; None: all are."""
    for name in names:
        if name in ("etcd", "kubectl", "containerd", "runc", "ctr"):
            if not shutil.which(name):
                return f"no {name}: `make cluster` installs it"
        elif not (PROGRAMS / name).exists():
            return f"no {name}: `make cluster` builds it"
    return None


class Refusal(Exception):
    """kubectl's words."""


class ApiServer(Daemon):
    """The API server with an etcd; the same port and data after each start."""

    def __init__(self, folder, listen="127.0.0.1"):
        self.folder = pathlib.Path(folder)
        self.folder.mkdir()
        self.authority = Authority(self.folder / "ca")
        self.ca = self.authority.crt
        server = self.authority.issue("kube-apiserver", "DNS:localhost,DNS:kubernetes.default.svc,IP:127.0.0.1,IP:192.0.2.1", "serverAuth")
        self.port, etcd, peers = free_port(), free_port(), free_port()
        self.address = f"https://localhost:{self.port}"
        key = self.folder / "accounts.key"
        subprocess.run(["openssl", "ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", key], check=True)
        tokens = self.folder / "tokens.csv"
        tokens.write_text(f'{ADMIN},admin,admin,"system:masters"\n{KUBELET},system:node:{NODE},node,"system:nodes"\n')
        self.etcd = Daemon(["etcd", "--data-dir", str(self.folder / "etcd"), "--listen-client-urls", f"http://127.0.0.1:{etcd}",
                            "--advertise-client-urls", f"http://127.0.0.1:{etcd}", "--listen-peer-urls", f"http://127.0.0.1:{peers}",
                            "--initial-advertise-peer-urls", f"http://127.0.0.1:{peers}",
                            "--initial-cluster", f"default=http://127.0.0.1:{peers}", "--unsafe-no-fsync"], self.folder / "etcd.log")
        super().__init__([str(PROGRAMS / "kube-apiserver"), "--etcd-servers", f"http://127.0.0.1:{etcd}",
                          f"--bind-address={listen}", "--advertise-address=192.0.2.1", f"--secure-port={self.port}", "--service-cluster-ip-range=10.96.0.0/24",
                          "--endpoint-reconciler-type=none", "--authorization-mode=Node,RBAC", f"--client-ca-file={self.ca}",
                          f"--tls-cert-file={server.crt}", f"--tls-private-key-file={server.key}", f"--token-auth-file={tokens}",
                          "--service-account-issuer=https://kubernetes.default.svc", f"--service-account-key-file={key}",
                          f"--service-account-signing-key-file={key}", f"--cert-dir={self.folder / 'made'}",
                          "--shutdown-delay-duration=0s", "--profiling=false"], self.folder / "kube-apiserver.log")
        self.config = self.write_config("admin", ADMIN)

    def write_config(self, name, token):
        """A kubeconfig."""
        path = self.folder / f"{name}.kubeconfig"
        path.write_text(json.dumps({
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{"name": "c", "cluster": {"server": self.address,
                                                   "certificate-authority-data": base64.b64encode(pathlib.Path(self.ca).read_bytes()).decode()}}],
            "users": [{"name": "u", "user": {"token": token}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        }))
        return path

    def start(self):
        if not self.etcd.is_running():
            self.etcd.start()
        super().start()
        wait_until("the API server", START_SECONDS, self.is_ready)

    def is_ready(self):
        assert self.is_running() and self.etcd.is_running(), self.log()[-4000:]
        return self.run("get", "--raw", "/readyz").returncode == 0

    def stop(self):
        """It takes its time: watches are to end first."""
        if self.is_running():
            self.process.terminate()
            self.process.wait(90)
        self.process = None

    def __enter__(self):
        try:
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        if self.is_running():
            self.kill()
        if self.etcd.is_running():
            self.etcd.kill()

    # ---- kubectl

    def run(self, *arguments, text=None):
        return subprocess.run(["kubectl", "--kubeconfig", self.config, *map(str, arguments)], input=text, capture_output=True, text=True,
                              check=False, timeout=120)

    def kubectl(self, *arguments, objects=None):
        """Its output; Refusal."""
        text = None if objects is None else json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
        done = self.run(*arguments, *(["-f", "-"] if objects is not None else []), text=text)
        if done.returncode:
            raise Refusal(done.stderr)
        return done.stdout

    def get(self, *arguments):
        return json.loads(self.kubectl("get", *arguments, "-o", "json"))

    def make_namespace(self, name, labels=None):
        """With the service account that a controller would make."""
        self.kubectl("apply", objects=[{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels or {}}}])
        self.kubectl("apply", objects=[{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": name}}])

    def credentials_of(self, account, namespace, folder, duration="1h"):
        """A folder as the kubelet mounts it: `token` of a service account, and `ca.crt`."""
        folder = pathlib.Path(folder)
        folder.mkdir(exist_ok=True)
        (folder / "ca.crt").write_text(pathlib.Path(self.ca).read_text())
        new = folder / "token.new"
        new.write_text(self.kubectl("create", "token", account, "-n", namespace, "--duration", duration))
        new.rename(folder / "token")
        return folder
