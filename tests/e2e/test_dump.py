# SPDX-License-Identifier: Apache-2.0
"""cairn dump: stacks against the programs' own, what threads wait for, and processes that make it
hard."""
import contextlib
import ctypes
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time

import pytest

from fleet import ROOT, build_folder, program, wait_until
from terminal import Terminal

sys.path.insert(0, str(ROOT / "tests/truth"))
from interpreters import interpreters, newest  # noqa: E402

CAIRN = program("cairn")
WORKLOADS = ROOT / "tests/workloads"
NATIVE = build_folder() / "workloads/waiting_threads"
PYTHON = WORKLOADS / "waiting_python.py"
PTRACE_SEIZE = 0x4206


def dump(*arguments, timeout=60, **options):
    return subprocess.run([CAIRN, "dump", *map(str, arguments)], capture_output=True, text=True,
                          timeout=timeout, check=False, **options)


def dump_json(*arguments):
    done = dump(*arguments, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def state_of(pid):
    """The letter in /proc/PID/stat."""
    with open(f"/proc/{pid}/stat", encoding="utf-8") as stat:
        return stat.read().rpartition(")")[2].split()[0]


@contextlib.contextmanager
def running(*argv, settle=0.1, **options):
    """Runs a program for the block; its first line reports its true stacks."""
    with subprocess.Popen([*map(str, argv)], stdout=subprocess.PIPE, text=True, **options) as process:
        try:
            truth = json.loads(process.stdout.readline())
            time.sleep(settle)  # until the last of its threads waits
            yield process, truth
        finally:
            process.kill()


def threads_by_tid(dumped):
    return {thread["tid"]: thread for thread in dumped["threads"]}


def thread_named(dumped, name):
    found = [thread for thread in dumped["threads"] if thread["name"] == name]
    assert len(found) == 1, (name, [thread["name"] for thread in dumped["threads"]])
    return found[0]


# ---- native stacks

def expect_own_stack(story, thread):
    """The return addresses from backtrace(), above the blocking function. A frame's address is
    that of the call, a byte before, but for one that a signal interrupted."""
    addresses = [int(frame["address"], 16) for frame in thread["frames"]
                 if frame["kind"] == "native" and "inlined" not in frame]
    expected = story["stack"]
    assert thread["end"] == "complete", (story["name"], thread)
    assert len(addresses) > len(expected), (story["name"], thread["frames"])
    differ = [at for at, (mine, its) in enumerate(zip(addresses[-len(expected):], expected))
              if mine != its - 1]
    if story["name"] == "signal":
        assert addresses[-len(expected) + differ.pop(0)] == expected[1], "where it was interrupted"
    assert not differ, (story["name"], thread["frames"])


def expect_own_stacks(truth, dumped):
    threads = threads_by_tid(dumped)
    for story in truth["threads"]:
        expect_own_stack(story, threads[story["tid"]])


BUILDS = {
    "as-shipped": None,
    "gcc-O0": ["gcc", "-O0"],
    "gcc-O2-no-frame-pointers": ["gcc", "-O2", "-fomit-frame-pointer"],
    "gcc-O2-stripped": ["gcc", "-O2", "-s"],
    "gcc-O3-static": ["gcc", "-O3", "-static"],
    "clang-O0": ["clang", "-O0"],
    "clang-O3": ["clang", "-O3"],
}


def built(name, folder):
    command = BUILDS[name]
    if not command:
        return NATIVE
    path = folder / "waiting_threads"
    subprocess.run([*command, "-D_GNU_SOURCE", "-pthread", WORKLOADS / "waiting_threads.c", "-o",
                    path], check=True)
    return path


@pytest.mark.parametrize("name", BUILDS)
def test_dumps_exact_native_stacks(name, tmp_path):
    with running(built(name, tmp_path)) as (process, truth):
        dumped = dump_json(process.pid)
        expect_own_stacks(truth, dumped)
        assert all(thread["consistent"] for thread in dumped["threads"])
        assert dumped["paused"] and not dumped["pause_expired"]
        deep = thread_named(dumped, "deep")
        assert len(deep["frames"]) > 300
        expect_own_stacks(truth, dump_json(process.pid))  # and again: calls were restarted


@pytest.mark.parametrize("name", ["as-shipped", "gcc-O2-no-frame-pointers"])
def test_reads_blocked_threads_without_pause(name, tmp_path):
    with running(built(name, tmp_path)) as (process, truth):
        dumped = dump_json(process.pid, "--no-pause")
        threads = threads_by_tid(dumped)
        assert not dumped["paused"] and not dumped["pause_ns"]
        for story in truth["threads"]:
            thread = threads[story["tid"]]
            if story["name"] == "runs":
                assert thread["end"] == "no_stack" and not thread["frames"]
                continue
            assert thread["consistent"], "it slept all the time"
            expect_own_stack(story, thread)


def test_reports_what_threads_wait_for():
    with running(NATIVE) as (process, _):
        dumped = dump_json(process.pid)
        waits = {thread["name"]: thread["wait"] for thread in dumped["threads"]}
        holder, sleeper = thread_named(dumped, "holder"), thread_named(dumped, "time")
        assert waits["mutex"]["kind"] == "mutex"
        assert waits["mutex"]["owner"] == holder["tid"]
        assert f'held by thread {holder["tid"]} "holder"' in waits["mutex"]["text"]
        assert waits["rwlock"]["owner"] == holder["tid"]
        assert waits["condition"]["kind"] == "condition"
        assert waits["semaphore"]["kind"] == "semaphore"
        assert waits["join"]["kind"] == "thread" and waits["join"]["owner"] == sleeper["tid"]
        assert waits["pipe"]["kind"] == "file" and "(pipe " in waits["pipe"]["text"]
        assert waits["poll"]["kind"] == "files"
        assert waits["time"] == {"kind": "time", "text": "sleeps for 1000 s",
                                 "call": waits["time"]["call"],
                                 "call_number": waits["time"]["call_number"],
                                 "kernel_function": waits["time"]["kernel_function"]}
        assert waits["holder"]["kind"] == "signal"
        assert waits["runs"] == {"kind": "nothing", "text": "runs"}
        assert thread_named(dumped, "runs")["state"] == "R"


def test_resolves_lines_and_inlined_calls():
    with running(NATIVE) as (process, _):
        frames = thread_named(dump_json(process.pid, "--lines"), "mutex")["frames"]
        mine = next(frame for frame in frames if frame.get("name") == "wait_for_mutex")
        source = (WORKLOADS / "waiting_threads.c").read_text().splitlines()
        assert mine["file"].endswith("waiting_threads.c")
        assert "pthread_mutex_lock(&mutex)" in source[mine["line"] - 1]


# ---- for people

def test_folds_equal_threads():
    with running(NATIVE) as (process, _):
        done = dump(process.pid, "--verbose")
        assert done.returncode == 0 and done.stderr == ""
        text = done.stdout
        assert text.startswith(f'Process {process.pid} "waiting_threads", {NATIVE}, 19 threads\n')
        assert "\033" not in text, "colours only on a terminal"
        mutex = re.search(r'Thread \d+ "mutex" S: waits for mutex 0x[0-9a-f]+, held by .*\n'
                          r'((?:  .*\n)+)', text)
        assert mutex, text
        assert "  wait_for_mutex (waiting_threads)\n" in mutex.group(1)
        assert mutex.group(1).index("wait_for_mutex") < mutex.group(1).index("play")
        assert text.count('"alike" S:') == 1
        assert re.search(r'and so \d+ "alike", \d+ "alike", \d+ "alike": 4 threads with this stack', text)
        assert re.search(r"paused 1 time: \d+\.\d+ ms", text)
        assert dump(process.pid, "--all").stdout.count('"alike" S:') == 4


def test_dumps_one_thread():
    with running(NATIVE) as (process, truth):
        tid = next(story["tid"] for story in truth["threads"] if story["name"] == "poll")
        assert [thread["tid"] for thread in dump_json(process.pid, "--thread", tid)["threads"]] == [tid]
        done = dump(process.pid, "--thread", process.pid + 100000)
        assert done.returncode == 1
        assert "has no thread" in done.stderr
        done = dump(tid)
        assert done.returncode == 1
        assert f"is a thread of process {process.pid}" in done.stderr


def test_colours_only_on_terminal():
    with running(NATIVE) as (process, _):
        terminal = Terminal(CAIRN, "dump", str(process.pid))
        assert terminal.exit_code() == 0
        assert "\033[1mThread" in terminal.output
        terminal = Terminal(CAIRN, "dump", str(process.pid), env={"NO_COLOR": "1"})
        assert terminal.exit_code() == 0
        assert "\033" not in terminal.output


def test_closed_pipe_is_no_error():
    with running(NATIVE) as (process, _):
        done = subprocess.run(f"{CAIRN} dump {process.pid} --all | head -1", shell=True,
                              capture_output=True, text=True, timeout=60, check=False)
        assert done.stdout.startswith("Process") and done.stderr == ""


# ---- Python

def python_frames(thread):
    return [[frame["name"], os.path.basename(frame["file"]), frame["line"]]
            for frame in thread["frames"] if frame["kind"] == "python"]


def innermost_equal(frames, expected):
    """All equal, but for the leaf's line of a thread that runs."""
    return [frame[:2] for frame in frames] == [frame[:2] for frame in expected] and frames[1:] == expected[1:]


@pytest.mark.parametrize("interpreter", interpreters(), ids=lambda one: one.name)
def test_dumps_exact_python_stacks(interpreter):
    with running(interpreter.path, PYTHON) as (process, truth):
        dumped = dump_json(process.pid)
        stacks = [python_frames(thread) for thread in dumped["threads"]]
        for expected in truth["threads"]:
            if expected["body"] == "spin":
                assert any(innermost_equal(stack, expected["stack"]) for stack in stacks), expected
            else:
                assert expected["stack"] in stacks, (expected, stacks)
        assert not any(thread["end"] != "complete" for thread in dumped["threads"]), dumped


def test_interleaves_python_and_c_frames():
    with running(newest()[0].path, PYTHON) as (process, _):
        dumped = dump_json(process.pid)
        frames = next(thread["frames"] for thread in dumped["threads"]
                      if any(frame.get("name", "").endswith("wait_through_c")
                             for frame in thread["frames"]))
        kinds = "".join(frame["kind"][0] for frame in frames if frame["kind"] != "kernel")
        assert re.fullmatch(r"n+pp?n+p+n+", kinds), kinds  # read(), the callback, sort(), its callers
        assert any("sort" in frame.get("name", "") for frame in frames if frame["kind"] == "native")


def test_no_native_keeps_python_frames():
    with running(newest()[0].path, PYTHON) as (process, _):
        dumped = dump_json(process.pid, "--no-native")
        assert {frame["kind"] for thread in dumped["threads"] for frame in thread["frames"]} == \
            {"python"}
        text = dump(process.pid, "--no-native").stdout
        assert "[kernel]" not in text and "libc" not in text
        without = dump_json(process.pid, "--no-python")
        assert "python" not in {frame["kind"] for thread in without["threads"]
                                for frame in thread["frames"]}


@pytest.mark.parametrize("interpreter", interpreters(), ids=lambda one: one.name)
def test_reports_gil_owner_and_waiter(interpreter):
    if interpreter.free_threaded:
        pytest.skip("it has none")
    with running(interpreter.path, PYTHON) as (process, _):
        def waiter_and_holder():
            threads = dump_json(process.pid)["threads"]
            holders = [thread for thread in threads if thread["holds_gil"]]
            waiters = [thread for thread in threads if thread["wait"]["kind"] == "gil"]
            assert len(holders) <= 1
            assert not any(waiter["holds_gil"] for waiter in waiters)
            return waiters and holders and (waiters[0], holders[0])
        waiter, holder = wait_until("one that waits and one that holds it", 20, waiter_and_holder)
        assert f'waits for the GIL, held by thread {holder["tid"]} ' in waiter["wait"]["text"]
        assert waiter["wait"]["owner"] == holder["tid"]
        for thread in (waiter, holder):
            assert any(frame["name"] == "spin" for frame in thread["frames"]
                       if frame["kind"] == "python")


def test_reads_python_without_pause():
    with running(newest()[0].path, PYTHON) as (process, truth):
        stacks = [python_frames(thread)
                  for thread in dump_json(process.pid, "--no-pause")["threads"]]
        for expected in truth["threads"]:
            assert expected["body"] == "spin" or expected["stack"] in stacks, (expected, stacks)


# ---- processes in all states

def test_stopped_process_stays_stopped():
    with running(NATIVE) as (process, truth):
        process.send_signal(signal.SIGSTOP)
        wait_until("stopped", 10, lambda: state_of(process.pid) == "T")
        dumped = dump_json(process.pid)
        expect_own_stacks(truth, dumped)
        assert thread_named(dumped, "pipe")["wait"]["text"].startswith("stopped; in read of fd")
        time.sleep(0.1)
        assert state_of(process.pid) == "T"
        process.send_signal(signal.SIGCONT)
        wait_until("going on", 10, lambda: state_of(process.pid) == "S")


def test_dumps_traced_process_without_pause():
    libc = ctypes.CDLL(None, use_errno=True)
    with running(NATIVE) as (process, truth):
        tracer = os.fork()
        if not tracer:
            for tid in os.listdir(f"/proc/{process.pid}/task"):
                libc.ptrace(PTRACE_SEIZE, int(tid), None, None)
            signal.pause()
        try:
            wait_until("traced", 10, lambda: f"TracerPid:\t{tracer}" in
                       open(f"/proc/{process.pid}/status", encoding="utf-8").read())
            dumped = dump_json(process.pid)
            assert not dumped["paused"]
            assert f"is being traced by process {tracer}" in dumped["pause_error"]
            pipe = thread_named(dumped, "pipe")
            expect_own_stack(next(s for s in truth["threads"] if s["name"] == "pipe"), pipe)
            assert "not paused, running threads have no stack: " in dump(process.pid).stdout
        finally:
            os.kill(tracer, signal.SIGKILL)
            os.waitpid(tracer, 0)


def test_dumps_process_without_main_thread():
    with running(NATIVE, "--exit-main") as (process, truth):
        wait_until("the main thread's end", 10, lambda: state_of(process.pid) == "Z")
        dumped = dump_json(process.pid)
        expect_own_stacks(truth, dumped)
        main = threads_by_tid(dumped)[process.pid]
        assert main["state"] == "Z" and main["wait"]["text"] == "has exited"
        assert "(pipe " in thread_named(dumped, "pipe")["wait"]["text"]


def test_dumps_deleted_and_replaced_program(tmp_path):
    path = tmp_path / "waiting_threads"
    shutil.copy(NATIVE, path)
    with running(path) as (process, truth):
        path.unlink()
        path.write_text("something else\n")
        dumped = dump_json(process.pid)
        expect_own_stacks(truth, dumped)
        assert any(frame["name"] == "wait_for_pipe"
                   for frame in thread_named(dumped, "pipe")["frames"])


def test_dumps_process_with_5000_mappings():
    with running(NATIVE, "--mappings", 5000) as (process, truth):
        dumped = dump_json(process.pid)
        expect_own_stacks(truth, dumped)
        assert dumped["total_ns"] < 5e9, "it takes no time to speak of"


def test_dumps_process_in_other_namespaces():
    if subprocess.run(["unshare", "-pmf", "--mount-proc", "true"], capture_output=True,
                      check=False).returncode:
        pytest.skip("no namespaces to be had here")
    with subprocess.Popen(["unshare", "-pmf", "--mount-proc", NATIVE], stdout=subprocess.PIPE,
                          text=True) as outer:
        try:
            truth = json.loads(outer.stdout.readline())
            with open(f"/proc/{outer.pid}/task/{outer.pid}/children", encoding="utf-8") as children:
                pid = int(children.read().split()[0])
            time.sleep(0.1)
            dumped = dump_json(pid)
            assert truth["pid"] == 1 and dumped["namespace_pid"] == 1
            inside = {thread["namespace_tid"]: thread for thread in dumped["threads"]}
            for story in truth["threads"]:
                expect_own_stack(story, inside[story["tid"]])
            mutex, holder = thread_named(dumped, "mutex"), thread_named(dumped, "holder")
            assert mutex["wait"]["owner"] == holder["tid"], "by our number, not by its own"
            assert f'{pid} (1 inside) "waiting_threads"' in dump(pid).stdout
        finally:
            outer.kill()


def test_survives_process_exit():
    answers = set()
    for delay in range(12):
        with running(NATIVE, settle=0) as (process, _):
            done = subprocess.Popen([CAIRN, "dump", str(process.pid)], stdout=subprocess.PIPE,
                                    stderr=subprocess.PIPE, text=True)
            time.sleep(delay / 250)
            process.kill()
            _, errors = done.communicate(timeout=60)
            assert done.returncode in (0, 1), errors
            assert (done.returncode == 0) == (errors == ""), errors
            answers.add(done.returncode)
    assert answers, "whichever it was"


def test_killed_dump_leaves_process_running():
    with running(NATIVE) as (process, truth):
        for delay in range(30):
            killed = subprocess.Popen([CAIRN, "dump", str(process.pid)], stdout=subprocess.DEVNULL)
            time.sleep(delay / 1000)
            killed.kill()
            killed.wait()
            assert state_of(process.pid) in "SR"
        runs = next(story["tid"] for story in truth["threads"] if story["name"] == "runs")
        wait_until("the thread that runs", 10, lambda: state_of(runs) == "R")
        expect_own_stacks(truth, dump_json(process.pid))


def test_concurrent_dumps_of_one_process():
    """One pauses it, the others report that it is being traced; none hangs."""
    with running(NATIVE) as (process, truth):
        together = [subprocess.Popen([CAIRN, "dump", str(process.pid), "--json"],
                                     stdout=subprocess.PIPE, text=True) for _ in range(6)]
        for one in together:
            output, _ = one.communicate(timeout=60)
            assert one.returncode == 0 and json.loads(output)["threads"]
        expect_own_stacks(truth, dump_json(process.pid))


# ---- refusals

def test_errors_name_the_remedy():
    zombie = subprocess.Popen(["true"])
    wait_until("a zombie", 10, lambda: state_of(zombie.pid) == "Z")
    for arguments, status, words in [
            ([], 2, "PID is missing"),
            (["x12"], 2, "is not the id of a process"),
            (["-5"], 2, "there is no flag -5"),
            (["0"], 2, "is not the id of a process"),
            (["1", "2"], 2, "more than one PID"),
            (["1", "--no-native", "--no-python"], 2, "leave nothing to show"),
            ([1 << 21], 1, "there is no process"),
            ([2], 1, "kernel"),
            ([zombie.pid], 1, "has exited; its parent"),
    ]:
        done = dump(*arguments)
        assert (done.returncode, done.stdout) == (status, ""), (arguments, done)
        assert words in done.stderr, (arguments, done.stderr)
        assert done.stderr.count("\n") == 1
    zombie.wait()


def test_reports_missing_rights():
    if not shutil.which("setpriv"):
        pytest.skip("setpriv is not installed")
    with running(NATIVE) as (process, _):
        done = subprocess.run(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", CAIRN,
                               "dump", str(process.pid)], capture_output=True, text=True, timeout=60,
                              check=False)
        if "No such file" in done.stderr or "Permission denied" in done.stderr:
            pytest.skip("others may not read the build folder")
        assert done.returncode == 1
        assert "run as root, or with CAP_SYS_PTRACE" in done.stderr


def test_help_lists_dump():
    assert "  dump " in subprocess.run([CAIRN, "--help"], capture_output=True, text=True,
                                       check=False).stdout
    shown = dump("--help")
    assert shown.returncode == 0 and "--no-pause" in shown.stdout
