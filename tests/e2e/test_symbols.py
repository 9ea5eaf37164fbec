# SPDX-License-Identifier: Apache-2.0
"""Names and lines: of stripped programs by debug files of the agent's machine, of servers and of
people who upload them; inlined calls; Go without symbols."""
import http.server
import itertools
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import threading

import pytest

from fleet import in_manifest, program, unique, wait_until

# The loop is inlined into worker(), which main() calls.
SOURCE = """
#include <time.h>
volatile long sink;
static inline __attribute__((always_inline)) void hot_inlined(long n)
{
	for (long i = 0; i < n; i++)
		sink += i;
}
__attribute__((noinline)) void worker(long n)
{
	for (int round = 0; round < 100; round++)
		hot_inlined(n);
}
int main(void)
{
	while (clock() < SECONDS * CLOCKS_PER_SEC)
		worker(1000);
}
"""
SECONDS = 1  # of CPU time
WAIT_SECONDS = 120  # timeout, for a busy machine
UNRESOLVED = re.compile(r"^[^;]+\+0x[0-9a-f]+$")


FREQUENCY = ("--frequency", "499")  # a second is enough


@pytest.fixture
def start_agent(start_agent):  # pylint: disable=redefined-outer-name
    """The fixture's agents, with that frequency."""
    return lambda collector, *flags, **options: start_agent(collector, *FREQUENCY, *flags, **options)


class Split:
    """A program of its own build id, stripped, and its debug file."""

    def __init__(self, folder):
        self.name = unique("split")
        self.folder = folder
        source = folder / "p.c"
        # The name makes each a program of another build id.
        source.write_text(f"char name[] = \"{self.name}\";\n{SOURCE}")
        self.path = folder / self.name
        self.debug = folder / f"{self.name}.debug"
        subprocess.run(["gcc", "-O2", "-g", f"-DSECONDS={SECONDS}", "-Wl,--build-id", source,
                        "-o", self.path], check=True)
        subprocess.run(["objcopy", "--only-keep-debug", self.path, self.debug], check=True)
        subprocess.run(["strip", self.path], check=True)
        notes = subprocess.run(["readelf", "-n", self.path], capture_output=True, text=True,
                               check=True).stdout
        self.build_id = re.search(r"Build ID: (\w+)", notes).group(1)

    def start(self):
        return subprocess.Popen([self.path])

    def run(self, collector, runs=1):
        """Run it to its end, as the last of so many runs; returns its symbols then."""
        assert self.start().wait(timeout=WAIT_SECONDS) == 0
        collector.api.wait_for_total(self.name, runs * SECONDS * 1e9)
        return collector.api.merge(self.name)

    def run_until_whole(self, collector, name):
        """Run it again and again, until a run has the frame in nearly all samples; returns all runs' symbols."""
        runs, before = itertools.count(1), (0, 0)

        def is_whole():
            nonlocal before
            graph = self.run(collector, next(runs))
            now = graph.total_of(name), graph.total
            more, before = [new - old for new, old in zip(now, before)], now
            return more[0] > 0.9 * more[1] and graph
        return wait_until(f"a run whose samples have {name}", WAIT_SECONDS, is_whole)

    def run_until_named(self, collector, name):
        """Run it again and again: on a busy machine its lines are read when the first run is over. Returns how often."""
        runs = itertools.count(1)

        def is_named():
            assert self.start().wait(timeout=WAIT_SECONDS) == 0
            number = next(runs)
            return name in collector.api.top(self.name)[0] and number
        return wait_until(f"a frame {name}", WAIT_SECONDS, is_named)


def expect_named(graph):
    assert graph.total_of("hot_inlined") > 0.9 * graph.total
    deepest = max(range(len(graph.names)), key=lambda node: graph.totals[node] *
                  (graph.names[node] == "hot_inlined"))
    assert graph.path(deepest)[-3:] == ["main", "worker", "hot_inlined"]


def test_same_build_id_keeps_names(tmp_path, collector, start_agent):
    """A forged program runs first; both have the build id of the real one."""
    start_agent(collector, "--cache", str(tmp_path / "cache"))
    services = {}
    for name in ("forged", "real"):
        services[name] = unique(name)
        source = tmp_path / f"{name}.c"
        source.write_text(SOURCE.replace("worker", f"{name}_worker").replace("hot_inlined", f"{name}_hot"))
        path = tmp_path / name
        subprocess.run(["gcc", "-O2", f"-DSECONDS={SECONDS}", "-Wl,--build-id=0x0123456789abcdef0123456789abcdef01234567",
                        source, "-o", path], check=True)
        subprocess.run([path], check=True, env={"OTEL_SERVICE_NAME": services[name]})
    for name, other in (("forged", "real"), ("real", "forged")):
        collector.api.wait_for_total(services[name], SECONDS * 1e9)
        graph = collector.api.merge(services[name])
        assert graph.total_of(f"{name}_worker") > 0.9 * graph.total
        assert graph.total_of(f"{other}_worker") == 0


@pytest.fixture
def split(tmp_path):
    return Split(tmp_path)


def test_upload_names_stripped_code(collector, start_agent, split):
    start_agent(collector)
    graph = split.run(collector)
    unresolved = sum(value for name, value in zip(graph.names, graph.self_values)
                     if UNRESOLVED.match(name) and name.startswith(split.name))
    assert unresolved > 0.9 * graph.total, "only file and offset are known"

    upload = [program("cairn"), "upload", "--collector-http", f"http://{collector.http}"]
    refused = subprocess.run([*upload, split.path], capture_output=True, text=True, check=False)
    assert refused.returncode == 1
    assert "stripped" in refused.stderr
    done = subprocess.run([*upload, split.debug], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert split.build_id in done.stdout
    files = collector.api.get("debug-files")["files"]
    assert [file["build_id"] for file in files] == [split.build_id]

    expect_named(collector.api.merge(split.name))  # of the past, too
    rows, total = collector.api.top(split.name)
    assert rows["hot_inlined"][0] > 0.9 * total
    collapsed = collector.api.fetch("/api/v1/merge", query=split.name, format="collapsed").decode()
    assert "main;worker;hot_inlined" in collapsed


def test_uploads_survive_a_restart(collector, start_agent, split):
    agent = start_agent(collector)
    split.run(collector)
    agent.stop()
    done = subprocess.run([program("cairn"), "upload", "--json", "--collector-http", f"http://{collector.http}",
                           split.debug], check=True, capture_output=True)
    assert json.loads(done.stdout)["build_id"] == split.build_id
    collector.stop()
    collector.start()
    expect_named(collector.api.merge(split.name))


@pytest.mark.parametrize("prefix", [pytest.param([], id="root"),
                                    pytest.param(in_manifest(), id="manifest")])
def test_agent_with_lines_reports_inlined_calls(collector, start_agent, split, prefix):
    # At the path of .gnu_debuglink: beside the program.
    subprocess.run(["objcopy", f"--add-gnu-debuglink={split.debug}", split.path], check=True)
    agent = start_agent(collector, "--lines", prefix=prefix)
    # A file's lines are read a few offsets at a time, with rests in proportion to what that took: on a busy machine for some runs.
    graph = split.run_until_whole(collector, "hot_inlined")
    assert graph.total_of("worker") > 0.9 * graph.total
    assert "source lines: not read" not in agent.log()


def child_of(parent, name):
    children = pathlib.Path(f"/proc/{parent}/task/{parent}/children").read_text()
    return next((int(pid) for pid in children.split()
                 if pathlib.Path(f"/proc/{pid}/comm").read_text() == name + "\n"), None)


def keeper_of(agent):
    return child_of(agent.process.pid, "cairn-keeper")


def launcher_of(agent):
    return child_of(keeper_of(agent), "cairn-launcher")


def test_launcher_of_line_readers_has_no_privileges(collector, start_agent):
    agent = start_agent(collector, "--lines")
    status = dict(line.split(":\t", 1) for line in
                  pathlib.Path(f"/proc/{launcher_of(agent)}/status").read_text().splitlines())
    for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
        assert int(status[name], 16) == 0, name
    assert status["NoNewPrivs"] == "1"
    agent.stop()
    assert not pathlib.Path(f"/proc/{status['Pid']}").exists()


def test_dead_launcher_is_replaced(collector, start_agent, split):
    subprocess.run(["objcopy", f"--add-gnu-debuglink={split.debug}", split.path], check=True)
    agent = start_agent(collector, "--lines")
    os.kill(launcher_of(agent), signal.SIGKILL)
    split.run_until_named(collector, "hot_inlined")
    assert "source lines: not read" not in agent.log()
    wait_until("the restart is counted", WAIT_SECONDS, lambda: collector.api.total(
        '{service="cairn-agent",counter="launcher_restarts"}', type="cairn:events:count:event:count") == 1)


def test_agent_works_without_line_readers(collector, start_agent, split):
    agent = start_agent(collector, "--lines")
    os.kill(keeper_of(agent), signal.SIGKILL)
    process = split.start()
    wait_until("that it has no lines", WAIT_SECONDS,
               lambda: "source lines: not read" in agent.log())
    process.wait()
    wait_until("samples without lines", WAIT_SECONDS,
               lambda: collector.api.total(split.name) > 0)


class Debuginfod(http.server.ThreadingHTTPServer):
    """A server that has one file."""

    def __init__(self, build_id, path):
        self.requests = []
        files = {f"/buildid/{build_id}/debuginfo": path.read_bytes()}
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                outer.requests.append(self.path)
                body = files.get(self.path)
                self.send_response(200 if body else 404)
                self.send_header("Content-Length", str(len(body or b"")))
                self.end_headers()
                self.wfile.write(body or b"")

            def log_message(self, *_):
                pass

        super().__init__(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        threading.Thread(target=self.serve_forever, daemon=True).start()


def test_debuginfod_names_running_program(collector, start_agent, split, tmp_path):
    debug = tmp_path / "elsewhere"
    split.debug.rename(debug)
    server = Debuginfod(split.build_id, debug)
    start_agent(collector, "--debuginfod", server.url, "--cache", tmp_path / "cache")
    process = split.start()
    wait_until("a name from the server", WAIT_SECONDS,
               lambda: "worker" in collector.api.top(split.name)[0])
    process.wait()
    server.shutdown()
    wanted = f"/buildid/{split.build_id}/debuginfo"
    assert server.requests.count(wanted) == 1
    assert len(server.requests) == len(set(server.requests)), "a no is not asked for again"


def test_contacts_no_server_by_default(collector, start_agent, split):
    server = Debuginfod(split.build_id, split.debug)
    start_agent(collector)
    split.run(collector)
    server.shutdown()
    assert not server.requests


@pytest.mark.skipif(not shutil.which("go"), reason="go is not installed")
def test_names_stripped_go(collector, start_agent, tmp_path):
    name = unique("go")
    source = tmp_path / "main.go"
    source.write_text("""package main
import "syscall"
type T struct{ n int }
var sink int
//go:noinline
func (t *T) Burn(k int) { for i := 0; i < k; i++ { sink += i * t.n } }
//go:noinline
func caller(t *T) { t.Burn(100000) }
func main() {
	t := &T{3}
	var usage syscall.Rusage
	for usage.Utime.Sec < 3 { caller(t); syscall.Getrusage(syscall.RUSAGE_SELF, &usage) }
}
""")
    subprocess.run(["go", "build", "-ldflags=-s -w", "-o", tmp_path / name, source], check=True,
                   env={**os.environ, "GO111MODULE": "off"})
    start_agent(collector)
    subprocess.run([tmp_path / name], check=True)
    collector.api.wait_for_total(name, 3e9)
    graph = collector.api.merge(name)
    deepest = max((node for node in range(len(graph.names))
                   if graph.names[node] == "main.(*T).Burn"), key=lambda node: graph.totals[node])
    assert graph.path(deepest) == ["runtime.goexit", "runtime.main", "main.main", "main.caller",
                                   "main.(*T).Burn"]
    assert graph.totals[deepest] > 0.9 * graph.total
