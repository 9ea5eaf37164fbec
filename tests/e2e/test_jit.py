# SPDX-License-Identifier: Apache-2.0
"""JIT code: named by the process's perf map, in containers too, with its
callers; and programs that live too short to be looked at."""
import collections
import os
import pathlib
import shutil
import subprocess
import time

import pytest

from fleet import unique, workload_argv, Workload

POINTS = 0.02  # share of the service's CPU time

# With its own pid namespace and its own /tmp, which also holds the program.
IN_A_CONTAINER = ["unshare", "--pid", "--fork", "--mount", "--kill-child", "sh", "-ec",
                  'root=$(mktemp -d); mount -t tmpfs none $root; cp "$1" $root/program; shift; '
                  'mount --bind $root /tmp; exec /tmp/program "$@"', "sh"]


def remove_lists(pid, folder):
    """The process's own: other tests have theirs."""
    for path in [pathlib.Path(f"/tmp/perf-{pid}.map"), *folder.glob("jit-*.dump")]:
        path.unlink(missing_ok=True)


def run_listed(argv, service, folder):
    """Runs it to its end, without what it lists; returns its CPU time."""
    before = cpu_ns_of_children()
    with subprocess.Popen(argv, env={**os.environ, "OTEL_SERVICE_NAME": service}, cwd=folder) as process:
        try:
            assert process.wait() == 0
        finally:
            process.kill()
            remove_lists(process.pid, folder)
    return cpu_ns_of_children() - before


def graph_of(fleet, service, cpu_ns):
    fleet.api.wait_for_total(service, cpu_ns)
    return fleet.api.merge(service)


def share_below(graph, name, parent):
    """How much of the function's time was spent when @parent had called it."""
    below = sum(graph.totals[node] for node in range(1, len(graph.names))
                if graph.names[node] == name and graph.names[graph.parents[node]] == parent)
    return below / graph.total_of(name)


def callers_of(graph, name):
    """Time in the function by who called it: its own recursion aside, and code that was not listed then."""
    callers = collections.Counter()
    for node in range(1, len(graph.names)):
        parent = graph.names[graph.parents[node]]
        if graph.names[node] == name != parent and not parent.startswith("[anon]"):
            callers[parent] += graph.totals[node]
    return callers


@pytest.mark.parametrize("what,prefix,flags", [
    ("perf map", [], []),
    ("in a container", IN_A_CONTAINER, []),
    ("jitdump", [], ["--dump", "1"]),
])
@pytest.mark.samples_cpu
def test_jit_code_has_names_and_exact_shares(fleet, tmp_path, monkeypatch, what,
                                                         prefix, flags):
    monkeypatch.chdir(tmp_path)
    service = unique("jit")
    argv = prefix + workload_argv("burn_jit", "--seconds", "5", *flags)
    burning = Workload(argv, {"OTEL_SERVICE_NAME": service})
    try:
        truth = burning.truth()
    finally:
        remove_lists(burning.process.pid, tmp_path)
    graph = graph_of(fleet, service, truth["process_cpu_ns"])
    shares = {name: graph.total_of(name) / graph.total for name in truth["functions"]}
    for name, ns in truth["functions"].items():
        assert shares[name] == pytest.approx(ns / truth["process_cpu_ns"], abs=POINTS), shares
    graph.check()
    # But for a tick within the two instructions before the frame is there.
    assert share_below(graph, "jit_beta_callee", "jit_beta") > 0.98
    assert share_below(graph, "jit_beta", "run_generated") > 0.98
    assert share_below(graph, "jit_alpha", "run_generated") > 0.98
    kinds = {graph.kinds[node] for node in range(len(graph.names))
             if graph.names[node].startswith("jit_")}
    assert kinds == {"jit"}


def cpu_ns_of_children():
    times = os.times()
    return (times.children_user + times.children_system) * 1e9


FIB_JS = """
function fib(n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
function outer() { return fib(25); }
while (process.cpuUsage().user < 3e6) outer();
"""


@pytest.mark.skipif(not shutil.which("node"), reason="no node here")
def test_names_node_by_perf_map(fleet, tmp_path):
    service = unique("node")
    script = tmp_path / "fib.js"
    script.write_text(FIB_JS)
    graph = graph_of(fleet, service, run_listed(["node", "--perf-basic-prof", "--no-turbo-inlining", str(script)],
                                                service, tmp_path))
    fib = {name for name in graph.names if "fib " in name}
    assert fib and not any(mark + "fib" in name for name in fib for mark in "*^~+"), fib
    fib = max(fib, key=graph.total_of)
    assert graph.total_of(fib) > 0.8 * graph.total
    callers = callers_of(graph, fib)
    # While outer() is interpreted its frame is that of V8's trampoline.
    right = sum(value for name, value in callers.items()
                if "outer " in name or name == "Builtins_InterpreterEntryTrampoline")
    assert right > 0.99 * sum(callers.values()) > 0, callers


FIB_JAVA = """
public class Fib {
    static int fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
    static int outer() { return fib(27); }
    public static void main(String[] arguments) throws Exception {
        long end = System.currentTimeMillis() + 8000;
        int sum = 0;
        while (System.currentTimeMillis() < end) sum += outer();
        System.out.println(sum);
    }
}
"""


@pytest.mark.skipif(not (shutil.which("javac") and shutil.which("jcmd")), reason="no JDK here")
def test_names_java_by_perf_map(fleet, tmp_path):
    service = unique("java")
    (tmp_path / "Fib.java").write_text(FIB_JAVA)
    subprocess.run(["javac", "Fib.java"], check=True, cwd=tmp_path)
    java = subprocess.Popen(["java", "-XX:+PreserveFramePointer", "-cp", ".", "Fib"], cwd=tmp_path,
                            stdout=subprocess.DEVNULL,
                            env={**os.environ, "OTEL_SERVICE_NAME": service})
    try:
        for _ in range(4):  # code compiled later is listed later
            time.sleep(1.5)
            listed = subprocess.run(["jcmd", str(java.pid), "Compiler.perfmap"],
                                    capture_output=True)
            if b"Unknown" in listed.stdout:
                pytest.skip("this JVM lists no code")
        _, _, usage = os.wait4(java.pid, 0)
        java.returncode = 0
    finally:
        java.kill()
        java.wait()
        remove_lists(java.pid, tmp_path)
    graph = graph_of(fleet, service, (usage.ru_utime + usage.ru_stime) * 1e9)
    fib, outer, main = "int Fib.fib(int)", "int Fib.outer()", "void Fib.main(java.lang.String[])"
    # Once listed; before, all of it is [anon], the interpreter included.
    assert graph.total_of(fib) > 0.3 * graph.total
    assert graph.total_of(fib) > 0.95 * graph.total_of("Interpreter")
    callers = callers_of(graph, fib)
    assert callers[outer] > 0.5 * sum(callers.values()), callers
    assert callers[outer] + callers["Interpreter"] > 0.99 * sum(callers.values()), callers
    callers = callers_of(graph, outer)
    assert callers["Interpreter"] + callers[main] > 0.99 * sum(callers.values()), callers
    whole = sum(graph.totals[node] for node in range(1, len(graph.names))
                if graph.names[node] == outer and "JavaCalls::call_helper" in " ".join(graph.path(node)))
    assert whole > 0.99 * graph.total_of(outer)


FIB_PYTHON = """
import time
def fib(n): return n if n < 2 else fib(n - 1) + fib(n - 2)
def outer(): return fib(12)
end = time.time() + 4
while time.time() < end: outer()
"""


def python_with_perf_support():
    builds = [*sorted(pathlib.Path.home().glob(".pyenv/versions/3.1[2-9]*/bin/python3")), "python3"]
    for build in builds:
        with subprocess.Popen([build, "-X", "perf", "-c", "import sys; exit(not sys.is_stack_trampoline_active())"],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE) as tried:
            tried.communicate()
        pathlib.Path(f"/tmp/perf-{tried.pid}.map").unlink(missing_ok=True)
        if not tried.returncode:
            return str(build)
    return None


def test_python_stacks_complete_with_perf_trampoline(fleet, tmp_path):
    """Each call goes through JIT code without a frame; Python's own frames stay in their
    places."""
    python = python_with_perf_support()
    if not python:
        pytest.skip("no Python 3.12 or later here")
    service = unique("python-perf")
    script = tmp_path / "fib.py"
    script.write_text(FIB_PYTHON)
    graph = graph_of(fleet, service, run_listed([python, "-X", "perf", str(script)], service, tmp_path))
    trampoline, frame = f"py::outer:{script}", "outer (fib.py:4)"
    assert share_below(graph, frame, trampoline) > 0.98
    assert graph.total_of(trampoline) > 0.7 * graph.total
    whole = sum(graph.totals[node] for node in range(1, len(graph.names))
                if graph.names[node] == frame and "Py_BytesMain" in graph.path(node))
    assert whole > 0.95 * graph.total_of(frame)


def test_names_short_lived_programs(fleet, tmp_path):
    program = tmp_path / "burn_short"
    selector = '{process="burn_short"}'
    shutil.copy(workload_argv("burn_c")[0], program)
    before = cpu_ns_of_children()
    for _ in range(300):
        subprocess.run([str(program), "--seconds", "0.004", "--round-ms", "2"],
                       stdout=subprocess.DEVNULL, check=True)
    program.unlink()
    # Some of it is this process's copy before exec.
    fleet.api.wait_for_total(selector, (cpu_ns_of_children() - before) / 2)
    graph = fleet.api.merge(selector)
    burned = sum(graph.total_of(name) for name in ("burn_alpha", "burn_beta", "burn_gamma"))
    assert burned > 0.5 * graph.total, sorted(zip(graph.totals, graph.names))[-20:]
    assert graph.total_of("[exited]") < 0.02 * graph.total
