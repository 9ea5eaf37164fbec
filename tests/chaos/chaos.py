# SPDX-License-Identifier: Apache-2.0
"""Faults, hostile peers, and the agents whose account decides whether anything was lost or counted twice."""
import json
import os
import pathlib
import random
import re
import socket
import struct
import subprocess
import threading

from fleet import ApiError, Collector, Daemon, program, unique, wait_until

MIB = 1 << 20


class Load:
    """Virtual agents that send for some seconds, then until all is acknowledged."""

    def __init__(self, address, seconds, *flags, name="load", prefix=()):
        self.service = unique(name)
        self.accounts = []
        self.process = subprocess.Popen([*prefix, program("tests/chaos/virtual_agents"), "--collector", address, "--service",
                                         self.service, "--seconds", str(round(seconds)), *map(str, flags)],
                                        stdout=subprocess.PIPE, text=True)
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self):
        for line in self.process.stdout:
            self.accounts.append(json.loads(line))

    @property
    def last(self):
        """The newest account; all zero before the first second is over."""
        return self.accounts[-1] if self.accounts else {"pushed": 0, "acknowledged": 0, "dropped": 0, "refused": 0, "away": 0}

    def selector(self):
        return f'{{service="{self.service}"}}'

    def stored(self, collector):
        return collector.api.total(self.selector())

    def finish(self, seconds=120):
        """Wait for its end. Returns the last account."""
        self.process.wait(seconds)
        self.reader.join()
        return self.last

    def end(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()

    def check(self, collector, lost_by_choice=False):
        """What was acknowledged is stored, once. @lost_by_choice: agents may have dropped batches, with a count."""
        account = self.finish()
        stored = self.stored(collector)
        unsure = account["pushed"] - account["acknowledged"]
        assert account["acknowledged"] <= stored, \
            f"acknowledged and lost: {account['acknowledged'] - stored} ns of {account}"
        assert stored <= account["acknowledged"] + unsure, f"counted twice: {stored} ns of {account}"
        assert account["acknowledged"] > 0, f"nothing arrived: {account}"
        if not lost_by_choice:
            assert stored == account["pushed"], f"did not recover: {stored} ns of {account}"


class Faults:
    """What tests/chaos/faults.c does to a program, from now on: errno numbers, and a shift of its wall clock."""

    FORMAT = "6iq"
    NAMES = ("write", "sync", "change", "read", "accept", "reserved", "clock_ns")

    def __init__(self, folder, below):
        self.path = pathlib.Path(folder) / "faults"
        self.env = {"LD_PRELOAD": program("tests/chaos/faults.so"), "FAULTS": str(self.path), "FAULTS_BELOW": str(below)}
        self.values = dict.fromkeys(self.NAMES, 0)
        self._store()

    def _store(self):
        # In place: the program has mapped it.
        with open(self.path, "r+b" if self.path.exists() else "w+b") as file:
            file.write(struct.pack(self.FORMAT, *(self.values[name] for name in self.NAMES)))

    def set(self, **values):
        self.values.update(values)
        self._store()

    def heal(self):
        self.set(**dict.fromkeys(self.NAMES, 0))


class Victim(Collector):
    """A collector that things are done to. @prefix: a command that runs it."""

    def __init__(self, folder, data=None, flags=(), prefix=(), env=None):
        self.folder = pathlib.Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.data = pathlib.Path(data or self.folder / "data")
        super().__init__(self.data, self.folder / "collector.log")
        self.argv = [*prefix, *self.argv, *flags]
        self.env = env

    def start_unready(self):
        """Start it where it cannot ingest: until it answers queries."""
        Daemon.start(self)
        wait_until("queries", 30, lambda: self.api.answers("/api/v1/status"))

    def rss_mib(self):
        text = pathlib.Path(f"/proc/{self.process.pid}/status").read_text(encoding="utf-8")
        return int(re.search(r"VmRSS:\s+(\d+)", text)[1]) / 1024

    def metric(self, name):
        """Its value; the sum over its labels."""
        lines = self.api.fetch("/metrics").decode().splitlines()
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines if re.match(rf"{name}[ {{]", line))

    def readiness(self):
        """The text of /readyz."""
        try:
            return self.api.fetch("/readyz").decode()
        except ApiError as error:
            return str(error)

    def is_ready(self):
        return self.api.answers("/readyz")

    def wait_for_readiness(self, words):
        wait_until(f"“{words}” at /readyz", 30, lambda: words in self.readiness())

    def wait_until_ready(self, seconds=60):
        wait_until(f"the collector to be ready; its log:\n{self.log()[-3000:]}", seconds, self.is_ready)


class Peer:
    """A connection to a port, that does as it likes."""

    def __init__(self, address):
        host, port = address.rsplit(":", 1)
        self.socket = socket.create_connection((host, int(port)), timeout=10)

    def send(self, data):
        try:
            self.socket.sendall(data)
            return True
        except OSError:
            return False

    def is_cut(self):
        """Has the other side ended it?"""
        self.socket.setblocking(False)
        try:
            while self.socket.recv(65536):
                pass
            return True
        except BlockingIOError:
            return False
        except OSError:
            return True

    def close(self):
        self.socket.close()


HTTP2_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(3) + b"\x04" + bytes(5)


def http2_headers(address, path="/cairn.v1.Collector/Export"):
    """HEADERS of a request on stream 1, without end: literal fields without indexing (RFC 7541 6.2.2)."""
    def field(name, value):
        return b"\x00" + bytes([len(name)]) + name.encode() + bytes([len(value)]) + value.encode()
    block = b"\x83\x86" + field(":path", path) + field(":authority", address) + \
        field("content-type", "application/grpc") + field("grpc-encoding", "gzip") + field("te", "trailers")
    return len(block).to_bytes(3, "big") + b"\x01\x04" + (1).to_bytes(4, "big") + block


def random_bytes(count):
    return random.Random().randbytes(count)


def run(*argv):
    subprocess.run(list(map(str, argv)), check=True, stdout=subprocess.DEVNULL)


class Tmpfs:
    """A small disk, for a test; below @path."""

    def __init__(self, path, mib):
        self.path = pathlib.Path(path)
        self.path.mkdir(parents=True)
        run("mount", "-t", "tmpfs", "-o", f"size={mib}m", "tmpfs", self.path)

    def free_mib(self):
        status = os.statvfs(self.path)
        return status.f_bavail * status.f_frsize / MIB

    def fill(self, leave_mib):
        """Somebody else's file takes what is free but @leave_mib."""
        size = int((self.free_mib() - leave_mib) * MIB)
        with open(self.path / "filler", "wb") as file:
            os.posix_fallocate(file.fileno(), 0, max(size, 1))

    def empty(self):
        (self.path / "filler").unlink()

    def remount(self, option):
        """Returns whether the kernel did: read-only it refuses while a file is open for writing."""
        return subprocess.run(["mount", "-o", f"remount,{option}", str(self.path)], check=False,
                              capture_output=True).returncode == 0

    def close(self):
        run("umount", "--lazy", self.path)


class MemoryCgroup:
    """A cgroup with a memory limit, of either version; None of them where the machine has no controller."""

    def __init__(self, mib):
        self.folder = None
        for root, limit in (("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")):
            folder = pathlib.Path(root) / f"cairn-chaos-{os.getpid()}"
            try:
                folder.mkdir()
            except OSError:
                continue
            if (folder / limit).exists():
                (folder / limit).write_text(str(mib * MIB), encoding="utf-8")
                self.folder = folder
                return
            folder.rmdir()

    def prefix(self):
        return ["sh", "-c", f'echo $$ > {self.folder}/cgroup.procs && exec "$0" "$@"']

    def close(self):
        if self.folder:
            self.folder.rmdir()


class Network:
    """A network namespace of its own, for an agent: host 10.x.y.1, inside 10.x.y.2."""

    def __init__(self, number):
        self.name = f"chaos-{os.getpid()}-{number}"
        self.link = f"ch{os.getpid() % 10000}-{number}"
        net = f"10.{os.getpid() % 200 + 20}.{number}"
        self.host, self.inside = f"{net}.1", f"{net}.2"
        run("ip", "netns", "add", self.name)
        run("ip", "link", "add", self.link, "type", "veth", "peer", "name", "eth0", "netns", self.name)
        run("ip", "addr", "add", f"{self.host}/24", "dev", self.link)
        run("ip", "link", "set", self.link, "up")
        run("ip", "-n", self.name, "addr", "add", f"{self.inside}/24", "dev", "eth0")
        run("ip", "-n", self.name, "link", "set", "eth0", "up")
        run("ip", "-n", self.name, "link", "set", "lo", "up")

    def prefix(self):
        return ["ip", "netns", "exec", self.name]

    def lose_packets(self, some):
        """One in five of those that come from inside, or none."""
        run("ip", "link", "set", "dev", self.link, "xdpgeneric", *(("obj", program("tests/chaos/drop.bpf.o"), "sec", "xdp") if some else ("off",)))

    def cut(self, is_cut):
        run("ip", "link", "set", self.link, "down" if is_cut else "up")

    def close(self):
        subprocess.run(["ip", "link", "del", self.link], check=False)
        subprocess.run(["ip", "netns", "del", self.name], check=False)
