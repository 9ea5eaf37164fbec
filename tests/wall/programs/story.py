# SPDX-License-Identifier: Apache-2.0
"""A thread measures its own waits, like story.h in C."""
import ctypes
import json
import time

PR_SET_NAME = 15

_libc = ctypes.CDLL(None)


def _read(schedstat):
    schedstat.seek(0)
    return (time.monotonic_ns(), time.thread_time_ns(), int(schedstat.read().split()[1]))


def _times(sums):
    elapsed, running, waiting = sums
    return {"elapsed": elapsed, "running": running, "run_queue": waiting,
            "blocked": max(0, elapsed - running - waiting)}


class Story:
    """Measures the thread that creates it."""

    def __init__(self, thread, function, wait):
        _libc.prctl(PR_SET_NAME, thread.encode(), 0, 0, 0)
        self.schedstat = open("/proc/thread-self/schedstat", "rb", buffering=0)
        self.fields = {"thread": thread, "function": function, "wait": wait, "waits": 0}
        self.in_waits = [0, 0, 0]
        self.life = None
        self.began = self.before = _read(self.schedstat)

    def wait_begin(self):
        self.before = _read(self.schedstat)

    def wait_end(self):
        now = _read(self.schedstat)
        self.in_waits = [total + after - before for total, after, before
                         in zip(self.in_waits, now, self.before)]
        self.fields["waits"] += 1

    def tell_waits(self):
        """Nanoseconds blocked in its waits so far."""
        return _times(self.in_waits)["blocked"]

    def end(self):
        self.life = [after - before for after, before in zip(_read(self.schedstat), self.began)]
        self.schedstat.close()

    def report(self):
        return {**self.fields, "in_waits": _times(self.in_waits), "life": _times(self.life)}


def print_stories(stories, **more):
    print(json.dumps({"threads": [story.report() for story in stories], **more}), flush=True)
