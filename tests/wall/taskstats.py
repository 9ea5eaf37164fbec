# SPDX-License-Identifier: Apache-2.0
"""Lifetime and run-queue time of ended threads, from taskstats (generic netlink, linux/taskstats.h)."""
import array
import collections
import os
import socket
import struct
import threading
import time

NETLINK_GENERIC, GENL_ID_CTRL = 16, 16
NLM_F_REQUEST, NLMSG_ERROR = 1, 2
CTRL_CMD_GETFAMILY, CTRL_ATTR_FAMILY_ID, CTRL_ATTR_FAMILY_NAME = 3, 1, 2
TASKSTATS_CMD_GET, REGISTER_CPUMASK = 1, 3
TYPE_PID, TYPE_STATS, TYPE_AGGR_PID = 1, 3, 4
# struct taskstats; the last since version 12 (5.16), the others have never moved. CPU time is
# not read: the kernel reports a stale value.
CPU_DELAY_TOTAL, COMM, COMM_BYTES, PID, ETIME, TGID = 24, 80, 32, 128, 144, 368
BUFFER_BYTES = 128 << 20  # unread messages: 500 bytes each, two for a thread

# A thread that has ended: nanoseconds it lived and waited for a CPU, and CLOCK_MONOTONIC of the report.
Ended = collections.namedtuple("Ended", "tid pid thread elapsed waiting told_ns")


def _attribute(kind, payload):
    size = 4 + len(payload)
    return struct.pack("=HH", size, kind) + payload + bytes(-size % 4)


def _attributes(data):
    while len(data) >= 4:
        size, kind = struct.unpack_from("=HH", data)
        if size < 4:
            return
        yield kind & 0x3fff, data[4:size]
        data = data[(size + 3) & ~3:]


def _ended(stats):
    def number(offset):
        return struct.unpack_from("=Q", stats, offset)[0]
    name = stats[COMM:COMM + COMM_BYTES].split(b"\0")[0].decode("utf-8", "replace")
    tid, pid = (struct.unpack_from("=I", stats, offset)[0] for offset in (PID, TGID))
    return Ended(tid, pid, name, 1000 * number(ETIME), number(CPU_DELAY_TOTAL), time.monotonic_ns())


class Exits:
    """Collects the machine's threads that end while the block runs; @lost: the kernel dropped some.
    Stored as numbers: an hour has millions."""

    def __init__(self):
        self.numbers = array.array("Q")
        self.names = []
        self.index_of_name = {}
        self.lost = False
        self.closing = False
        self.socket = None
        self.reader = None

    def _send(self, family, command, attribute):
        body = struct.pack("=BBH", command, 1, 0) + attribute
        self.socket.send(struct.pack("=IHHII", 16 + len(body), family, NLM_F_REQUEST, 1, 0) + body)

    def _family(self):
        self._send(GENL_ID_CTRL, CTRL_CMD_GETFAMILY, _attribute(CTRL_ATTR_FAMILY_NAME, b"TASKSTATS\0"))
        answer = self.socket.recv(65536)
        if struct.unpack_from("=IH", answer)[1] == NLMSG_ERROR:
            raise OSError("this kernel has no taskstats")
        return next(struct.unpack("=H", value)[0] for kind, value in _attributes(answer[20:])
                    if kind == CTRL_ATTR_FAMILY_ID)

    def __enter__(self):
        self.socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_GENERIC)
        self.socket.setsockopt(socket.SOL_SOCKET, 33, BUFFER_BYTES)  # SO_RCVBUFFORCE
        self.socket.bind((0, 0))
        cpus = f"0-{os.cpu_count() - 1}\0".encode()
        self._send(self._family(), TASKSTATS_CMD_GET, _attribute(REGISTER_CPUMASK, cpus))
        self.socket.settimeout(0.3)
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()
        return self

    def _read(self):
        while True:
            try:
                message = self.socket.recv(65536)
            except TimeoutError:
                if self.closing:
                    return
                continue
            except OSError:  # ENOBUFS
                self.lost = True
                continue
            if struct.unpack_from("=IH", message)[1] != NLMSG_ERROR:
                self._take(message[20:])

    def _take(self, body):
        for kind, value in _attributes(body):
            if kind == TYPE_AGGR_PID:
                for part, stats in _attributes(value):
                    if part == TYPE_STATS:
                        self._keep(_ended(stats))

    def _keep(self, ended):
        index = self.index_of_name.setdefault(ended.thread, len(self.names))
        if index == len(self.names):
            self.names.append(ended.thread)
        self.numbers.extend(ended._replace(thread=index))

    @property
    def ended(self):
        """Each of them."""
        size = len(Ended._fields)
        for at in range(0, len(self.numbers), size):
            ended = Ended(*self.numbers[at:at + size])
            yield ended._replace(thread=self.names[ended.thread])

    def __exit__(self, *_):
        self.closing = True
        self.reader.join()
        self.socket.close()
