# SPDX-License-Identifier: Apache-2.0
"""A node of the cluster: the real kubelet and containerd, with images from scratch and pods on a bridge of their own."""
import contextlib
import json
import os
import pathlib
import shutil
import subprocess
import tempfile

from cluster import KUBELET, NODE, PROGRAMS
from fleet import Daemon, free_port, program, wait_until
from images import write_image

ADDRESS = "192.0.2.1"  # for documentation: of no real host
START_SECONDS = 90
BUSYBOX, PAUSE, BURN = "localhost/busybox:1", "localhost/pause:1", "localhost/burn:1.2.3"

CONTAINERD = """
version = 2
root = "{folder}/root"
state = "{folder}/state"
disabled_plugins = ["io.containerd.internal.v1.opt", "io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.zfs"]
[grpc]
  address = "{folder}/c.sock"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{pause}"
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "{folder}/cni"
"""

NETWORK = {
    "cniVersion": "0.4.0", "name": "pods",
    "plugins": [{"type": "ptp", "ipam": {"type": "host-local", "ranges": [[{"subnet": "198.51.100.0/24"}]], "routes": [{"dst": "0.0.0.0/0"}],
                                       "dataDir": ""}}],
}


# What a kubelet sets for the whole machine, which is not this cluster's alone.
SYSCTLS = ("vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops", "kernel/keys/root_maxkeys",
           "kernel/keys/root_maxbytes")
HOST_PATHS = ("/var/cache/cairn", "/var/lib/cairn-agent")  # of the agent's pods: here, others than the machine's
CGROUPS = "cairn-cluster"  # below it are the pods' cgroups: a kubelet ends what it does not know there


def reason_to_skip():
    """`make cluster` gives the tests network and mounts of their own."""
    names = {line.split(":")[0].strip() for line in pathlib.Path("/proc/net/dev").read_text().splitlines()[2:]}
    return None if names <= {"lo", "node0", "node1"} else "not in a network namespace of its own: `make cluster` makes one"


def run(*words):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{words}: {done.stderr}"


def make_loopback():
    """A new network namespace has it down."""
    if not reason_to_skip():
        run("ip", "link", "set", "lo", "up")


def make_place(folder):
    """An address that is no loopback, as the kubelet wants one; files of its own in place of SYSCTLS and HOST_PATHS; and cgroups."""
    run("ip", "link", "add", "node0", "type", "veth", "peer", "name", "node1")
    run("ip", "addr", "add", f"{ADDRESS}/24", "dev", "node0")
    run("ip", "link", "set", "node0", "up")
    run("ip", "link", "set", "node1", "up")
    run("ip", "route", "add", "default", "via", ADDRESS)
    for number, name in enumerate(SYSCTLS):
        own = pathlib.Path(folder) / f"sysctl-{number}"
        own.write_text((pathlib.Path("/proc/sys") / name).read_text())
        run("mount", "--bind", own, f"/proc/sys/{name}")
    for name in HOST_PATHS:
        own = pathlib.Path(folder) / name.replace("/", "-")
        own.mkdir()
        pathlib.Path(name).mkdir(exist_ok=True)
        run("mount", "--bind", own, name)
    for hierarchy in hierarchies():
        (hierarchy / CGROUPS).mkdir(exist_ok=True)
    cpuset = pathlib.Path("/sys/fs/cgroup/cpuset")
    for name in ("cpuset.cpus", "cpuset.mems"):
        if (cpuset / name).exists():
            (cpuset / CGROUPS / name).write_text((cpuset / name).read_text())


def hierarchies():
    """Of version 2 the one; of version 1 all."""
    root = pathlib.Path("/sys/fs/cgroup")
    return [root] if (root / "cgroup.controllers").exists() else [folder for folder in root.iterdir() if (folder / "cgroup.procs").exists()]


def remove_cgroups():
    """The empty ones, the deepest first; what is in use stays."""
    for hierarchy in hierarchies():
        for folder, _, _ in os.walk(hierarchy / CGROUPS, topdown=False):
            with contextlib.suppress(OSError):
                os.rmdir(folder)


class Node:
    def __init__(self, server, folder):
        self.server = server
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="cn-", dir="/tmp"))  # a short name: it has sockets
        self.logs = pathlib.Path(folder)
        self.logs.mkdir()
        self.port = free_port()
        make_place(self.folder)
        (self.folder / "cni").mkdir()
        network = json.loads(json.dumps(NETWORK))
        network["plugins"][0]["ipam"]["dataDir"] = str(self.folder / "addresses")
        (self.folder / "cni/10-pods.conflist").write_text(json.dumps(network))
        config = self.folder / "containerd.toml"
        config.write_text(CONTAINERD.format(folder=self.folder, pause=PAUSE))
        self.containerd = Daemon(["containerd", "--config", str(config)], self.logs / "containerd.log")
        self.kubelet = Daemon([str(PROGRAMS / "kubelet"), "--config", str(self._write_kubelet()), "--kubeconfig",
                               str(server.write_config("kubelet", KUBELET)), f"--hostname-override={NODE}",
                               f"--root-dir={self.folder / 'kubelet'}", f"--node-ip={ADDRESS}"], self.logs / "kubelet.log")

    def _write_kubelet(self):
        certificate = self.server.authority.issue("kubelet", f"DNS:localhost,IP:127.0.0.1,IP:{ADDRESS}", "serverAuth")
        path = self.folder / "kubelet.json"
        path.write_text(json.dumps({
            "apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
            "containerRuntimeEndpoint": f"unix://{self.folder}/c.sock", "cgroupDriver": "cgroupfs", "cgroupRoot": f"/{CGROUPS}",
            "failSwapOn": False, "makeIPTablesUtilChains": False,
            "failCgroupV1": False, "enforceNodeAllocatable": [], "port": self.port, "readOnlyPort": 0, "healthzPort": 0,
            "authentication": {"anonymous": {"enabled": False}, "webhook": {"enabled": True}, "x509": {"clientCAFile": self.server.ca}},
            "authorization": {"mode": "Webhook"}, "tlsCertFile": certificate.crt, "tlsPrivateKeyFile": certificate.key,
            "evictionHard": {"memory.available": "1Mi", "nodefs.available": "1%"}, "imageGCHighThresholdPercent": 100,
            "podLogsDir": str(self.folder / "logs"), "resolvConf": "", "maxPods": 200, "registryPullQPS": 0,
            "kubeAPIQPS": 100, "kubeAPIBurst": 200, "localStorageCapacityIsolation": False,
        }))
        return path

    def start(self):
        self.containerd.start()
        wait_until("containerd", 30, lambda: self._ctr("version").returncode == 0)
        busybox = {"/bin/busybox": "/bin/busybox", "/bin/sh": "/bin/busybox"}
        self.add_image(BUSYBOX, busybox, ["/bin/busybox"])
        self.add_image(PAUSE, {"/pause": self._build_pause()}, ["/pause"])
        self.add_image(BURN, {"/burn": program("workloads/burn_c"), "/bin/busybox": "/bin/busybox", "/bin/sh": "/bin/busybox"}, ["/burn"])
        self.kubelet.start()
        wait_until("the node", START_SECONDS, self.is_ready)

    def _build_pause(self):
        """The process of a pod's sandbox, under the name that all runtimes' images give it."""
        path = self.folder / "pause"
        subprocess.run(["gcc", "-static", "-O1", "-xc", "-", "-o", path], input="#include <unistd.h>\nint main(void) { for (;;) pause(); }\n",
                       text=True, check=True)
        return path

    def _ctr(self, *arguments):
        return subprocess.run(["ctr", "-a", f"{self.folder}/c.sock", "-n", "k8s.io", *map(str, arguments)], capture_output=True, text=True,
                              check=False, timeout=120)

    def run_ctr(self, *arguments):
        """Its output."""
        done = self._ctr(*arguments)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def add_image(self, name, files, entrypoint, user="0"):
        path = write_image(self.folder / "image.tar", name, files, entrypoint, user)
        self.run_ctr("images", "import", path)
        path.unlink()

    def is_ready(self):
        assert self.containerd.is_running(), self.containerd.log()[-4000:]
        assert self.kubelet.is_running(), self.kubelet.log()[-6000:]
        done = self.server.run("get", "node", NODE, "-o", "jsonpath={.status.conditions[?(@.type=='Ready')].status}")
        return done.stdout == "True"

    def stop(self):
        """Its containers, too."""
        if self.kubelet.is_running():
            self.kubelet.kill()
        for task in self._ctr("tasks", "ls", "-q").stdout.split():
            self._ctr("tasks", "kill", "-s", "KILL", task)
        wait_until("the containers' end", 30, lambda: "RUNNING" not in self._ctr("tasks", "ls").stdout)
        for container in self._ctr("containers", "ls", "-q").stdout.split():
            self._ctr("tasks", "rm", "-f", container)
            self._ctr("containers", "rm", container)
        if self.containerd.is_running():
            self.containerd.kill()
        self._unmount()
        remove_cgroups()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _unmount(self):
        """What containers left below this folder, the deepest first."""
        mounts = [line.split()[1] for line in pathlib.Path("/proc/self/mounts").read_text().splitlines()]
        for mount in sorted((m for m in mounts if m.startswith(f"{self.folder}/")), reverse=True):
            subprocess.run(["umount", "-l", mount], check=False)

    def __enter__(self):
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_):
        self.stop()
