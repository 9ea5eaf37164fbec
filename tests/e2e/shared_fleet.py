# SPDX-License-Identifier: Apache-2.0
"""A collector and an agent for all tests that only look, one for all processes that share the tests (tests/sharing.py): each
agent uses time of all CPUs. The process that needs it first starts it, and ends it when nobody needs it any more."""
import contextlib
import fcntl
import json

from fleet import Agent, Api, Collector

# The agent samples fast, so that seconds of work are thousands of samples.
FLAGS = ["--frequency", "997"]


class Guest:
    """Another process's fleet."""

    def __init__(self, addresses):
        self.http, self.grpc = addresses["http"], addresses["grpc"]
        self.api = Api(self.http)


@contextlib.contextmanager
def own_fleet(folder, flags=()):
    """Of this process alone."""
    with Collector(folder / "data", folder / "collector.log") as collector:
        agent = Agent(collector.grpc, folder / "agent", flags)
        try:
            collector.wait_for_agent()
            yield collector
        finally:
            agent.stop()


@contextlib.contextmanager
def locked(path):
    with open(path, "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


class SharedFleet:
    """The one whose addresses are in the folder @meeting, or one that is started in @folder. Guests hold a shared lock."""

    def __init__(self, meeting, folder):
        self.addresses, self.start = meeting / "fleet-addresses", meeting / "fleet-start"
        self.own = contextlib.ExitStack()
        self.guests = open(meeting / "fleet-guests", "w", encoding="utf-8")
        with locked(self.start):
            self.is_host = not self.addresses.exists()
            if self.is_host:
                self.running = self.own.enter_context(own_fleet(folder, FLAGS))
                self.addresses.write_text(json.dumps({"http": self.running.http, "grpc": self.running.grpc}))
            else:
                fcntl.flock(self.guests, fcntl.LOCK_SH)
                self.running = Guest(json.loads(self.addresses.read_text()))

    def leave(self, wait):
        """We need it no more. Ours ends, unless it has guests: then when the last is gone, if we are to @wait."""
        if self.guests.closed:
            return
        if self.is_host:
            with locked(self.start):
                self.addresses.unlink(missing_ok=True)
            try:
                fcntl.flock(self.guests, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            except BlockingIOError:
                return
        self.guests.close()
        self.own.close()
