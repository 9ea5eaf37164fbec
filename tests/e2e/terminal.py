# SPDX-License-Identifier: Apache-2.0
"""A program on a terminal of its own: what it draws, and keys for it."""
import fcntl
import os
import pty
import select
import signal
import struct
import termios
import time

ROWS, COLUMNS = 40, 160


class Terminal:
    def __init__(self, *argv, env=None, columns=COLUMNS):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            signal.signal(signal.SIGINT, signal.SIG_DFL)  # who runs the tests in the background ignores it
            os.execve(argv[0], argv, {**os.environ, "TERM": "xterm-256color", **(env or {})})
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, columns, 0, 0))
        self.output = ""

    def read_for(self, seconds, until=None):
        """What it wrote since `output` was last emptied; returns early when `until` is in it."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and not (until and until in self.output):
            if select.select([self.fd], [], [], 0.1)[0]:
                try:
                    piece = os.read(self.fd, 65536)
                except OSError:
                    break
                if not piece:
                    break
                self.output += piece.decode("utf-8", "replace")
        return self.output

    def press(self, keys):
        os.write(self.fd, keys.encode())

    def exit_code(self, seconds=10):
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            self.read_for(0.1)
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.read_for(0.2)
                os.close(self.fd)
                return os.waitstatus_to_exitcode(status)
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        raise AssertionError(f"it did not end; its terminal shows:\n{self.output[-3000:]}")
