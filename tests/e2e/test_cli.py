# SPDX-License-Identifier: Apache-2.0
"""cairn top, record and query, on a terminal and in scripts."""
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree

import pytest

from fleet import TYPE, Workload, program, unique, wait_until, workload, workload_argv
from pprof_file import Pprof
from terminal import Terminal

CAIRN = program("cairn")
LONG = ("--seconds", "60")  # of a program that the test ends
LINE = re.compile(r"^[^;]+(;[^;]+)* \d+$")


def cairn(*arguments, timeout=120, **options):
    return subprocess.run([CAIRN, *map(str, arguments)], capture_output=True, text=True,
                          timeout=timeout, check=False, **options)


def read_collapsed(path):
    """[(frames root first, value)]; every line must have the form."""
    stacks = []
    for line in path.read_text().splitlines():
        assert LINE.match(line), repr(line)
        frames, value = line.rsplit(" ", 1)
        stacks.append((frames.split(";"), int(value)))
    return stacks


def total_of(stacks, function):
    return sum(value for frames, value in stacks if function in frames)


# ---- record

def record_burn(path, *flags, seconds=3):
    """Record burn_c as a command; its truth comes out of its own standard output."""
    done = cairn("record", "-F", "997", "-o", path, *flags, "--",
                 *workload_argv("burn_c", "--cpu", str(seconds)))
    assert done.returncode == 0, done
    assert re.fullmatch(rf"wrote {path}: \d+ samples of \S+burn_c, 0 dropped\n", done.stderr), done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == 1, "only the command's own output"
    assert not path.with_name(path.name + ".partial").exists()
    return json.loads(lines[0])


def expect_shares(measured, total, truth):
    for function, ns in truth["functions"].items():
        share, expected = measured(function) / total, ns / truth["process_cpu_ns"]
        assert abs(share - expected) < 0.02, f"{function}: {share:.3f}, truly {expected:.3f}"


@pytest.mark.samples_cpu
def test_records_command_as_collapsed_stacks(tmp_path):
    path = tmp_path / "out.collapsed"
    truth = record_burn(path)
    stacks = read_collapsed(path)
    total = sum(value for _, value in stacks)
    assert total == pytest.approx(truth["process_cpu_ns"], rel=0.03), "from its first to its last ns"
    expect_shares(lambda name: total_of(stacks, name), total, truth)
    burned = [frames for frames, _ in stacks if "burn_alpha" in frames]
    assert all(frames[0] == "burn_c" for frames in burned), "the process is the root"
    whole = [frames for frames in burned if not any("[truncated" in frame for frame in frames)]
    assert all(frames.index("run_rounds") < frames.index("burn_alpha") for frames in whole)
    # The first samples of a process may precede its unwind tables.
    in_whole = sum(value for frames, value in stacks if frames in whole)
    assert in_whole > 0.97 * total_of(stacks, "burn_alpha")
    keys = [";".join(frames) for frames, _ in stacks]
    assert len(keys) == len(set(keys)), "equal stacks are one line"


@pytest.mark.samples_cpu
def test_short_command_loses_nothing(tmp_path):
    path = tmp_path / "short.collapsed"
    truth = record_burn(path, seconds=0.4)
    total = sum(value for _, value in read_collapsed(path))
    assert total == pytest.approx(truth["process_cpu_ns"], rel=0.06), \
        "the profiler was there first, and stayed to the end"


@pytest.mark.samples_cpu
def test_records_command_as_pprof(tmp_path):
    path = tmp_path / "out.pb.gz"
    truth = record_burn(path)
    profile = Pprof(path)
    at = profile.value_index("cpu")
    assert profile.sample_types == [("samples", "count"), ("cpu", "nanoseconds")]
    counted = sum(values[0] for _, values in profile.samples)
    assert counted == pytest.approx(truth["process_cpu_ns"] * 997 / 1e9, rel=0.1)
    total = sum(values[at] for _, values in profile.samples)
    assert total == pytest.approx(truth["process_cpu_ns"], rel=0.03)
    expect_shares(lambda name: sum(values[at] for names, values in profile.samples
                                   if name in names), total, truth)
    burned = [(names, values[at]) for names, values in profile.samples if "burn_alpha" in names]
    whole = [(names, ns) for names, ns in burned if not any("[truncated" in name for name in names)]
    assert all(names.index("burn_alpha") < names.index("run_rounds") for names, _ in whole), \
        "leaf first"
    # The first samples of a process may precede its unwind tables.
    assert sum(ns for _, ns in whole) > 0.97 * sum(ns for _, ns in burned)
    assert any(mapping.endswith("burn_c") for mapping in profile.mappings)
    assert profile.duration_ns > 2.5e9


def test_records_command_as_svg(tmp_path):
    path = tmp_path / "out.svg"
    record_burn(path, seconds=1)
    text = path.read_text()
    root = xml.etree.ElementTree.fromstring(text)
    assert root.tag.endswith("svg")
    for function in ("burn_alpha", "burn_beta_callee", "burn_gamma"):
        assert function in text
    assert not re.search(r'(src|href)="https?://', text), "self-contained"


READY = re.compile(r"cairn (record|top): ready after (\d+\.\d\d) s: (\d+) process(?:es)?, "
                   r"(\d+) still without tables")


def total_of_process(stacks, name):
    return sum(value for frames, value in stacks if frames[0] == name)


@pytest.mark.samples_cpu
def test_records_all_processes(tmp_path):
    path = tmp_path / "all.collapsed"
    # Under unique names: other processes may burn CPU too.
    names = [f"rec-{os.getpid()}-c", f"rec-{os.getpid()}-cpp"]
    for name, source in zip(names, ("burn_c", "burn_cpp")):
        shutil.copy(program(f"workloads/{source}"), tmp_path / name)
    with Workload([str(tmp_path / names[0]), *LONG], {}) as c, Workload([str(tmp_path / names[1]), *LONG], {}) as cpp:
        before, began = [process.cpu_ns() for process in (c, cpp)], time.monotonic()
        done = cairn("record", "-d", "2", "-o", path)
        used = [process.cpu_ns() - ns for process, ns in zip((c, cpp), before)]
    assert (done.returncode, done.stdout) == (0, "")
    ready, *warnings, written = done.stderr.splitlines()
    assert READY.fullmatch(ready), ready
    # Other processes of the machine may give reason to warn.
    assert all(line.startswith("cairn record: ") for line in warnings), done.stderr
    assert re.fullmatch(rf"wrote {path}: \d+ samples of all processes, \d+ dropped", written), written
    assert 2 <= time.monotonic() - began < 6
    stacks = read_collapsed(path)
    for name, ns in zip(names, used):
        # The profiler's start and the writing of the file are not recorded.
        assert 0.5 * ns < total_of_process(stacks, name) < 1.03 * ns, name


@pytest.mark.samples_cpu
def test_records_only_the_given_process(tmp_path):
    path = tmp_path / "one.collapsed"
    with workload("burn_c", *LONG) as target, workload("burn_c", *LONG):
        before = target.cpu_ns()
        done = cairn("record", "-F", "499", "-d", "2", "-p", target.process.pid, "-o", path)
        used = target.cpu_ns() - before
    ready, written = done.stderr.splitlines()
    assert done.returncode == 0 and READY.fullmatch(ready).group(3) == "1", "only this process"
    assert re.fullmatch(rf"wrote {path}: \d+ samples of pid {target.process.pid}, 0 dropped", written)
    stacks = read_collapsed(path)
    assert {frames[0] for frames, _ in stacks} == {"burn_c"}
    assert 0.5 * used < sum(value for _, value in stacks) < 1.03 * used, "one process, not two"


@pytest.mark.samples_cpu
def test_records_children_that_run_already(tmp_path):
    """As a server's workers: they were forked before, and one more is forked meanwhile."""
    path = tmp_path / "workers.collapsed"
    burn = " ".join(workload_argv("burn_c", "--seconds"))
    with subprocess.Popen(["sh", "-c", f"({burn} 6; true) & sleep 2; {burn} 2 & wait"], stdout=subprocess.PIPE,
                          text=True) as master:
        time.sleep(0.5)
        done = cairn("record", "-p", master.pid, "-o", path)
        truths = [json.loads(line) for line in master.stdout]
    assert done.returncode == 0, done
    assert int(READY.fullmatch(done.stderr.splitlines()[0]).group(3)) >= 3, "the shell, one below it and its worker"
    found, burned = total_of(read_collapsed(path), "run_rounds"), sum(truth["process_cpu_ns"] for truth in truths)
    assert len(truths) == 2 and 0.6 * burned < found < 1.05 * burned


def test_recording_ends_at_process_exit(tmp_path):
    path = tmp_path / "short.collapsed"
    target = workload("burn_c", "--seconds", "2")
    began = time.monotonic()
    done = cairn("record", "-d", "60", "-p", target.process.pid, "-o", path)
    assert done.returncode == 0, done
    assert time.monotonic() - began < 10
    assert total_of(read_collapsed(path), "run_rounds") > 0


@pytest.mark.samples_cpu
def test_records_children_of_command(tmp_path):
    path = tmp_path / "children.collapsed"
    burn = " ".join(workload_argv("burn_c", "--cpu", "1"))
    done = cairn("record", "-o", path, "--", "sh", "-c", f"{burn} & {burn} & wait")
    assert done.returncode == 0, done
    truths = [json.loads(line) for line in done.stdout.splitlines()]
    burned = sum(truth["process_cpu_ns"] for truth in truths)
    assert len(truths) == 2
    assert total_of(read_collapsed(path), "run_rounds") == pytest.approx(burned, rel=0.1)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_recording_is_written(tmp_path, number):
    path = tmp_path / "interrupted.collapsed"
    with workload("burn_c", *LONG) as burning, subprocess.Popen([CAIRN, "record", "-d", "60", "-o", str(path)],
                                                                stderr=subprocess.PIPE, text=True) as recording:
        ready = recording.stderr.readline()
        assert READY.match(ready), ready
        before = burning.cpu_ns()
        wait_until("something to record", 60, lambda: burning.cpu_ns() - before > 1e9)
        recording.send_signal(number)
        _, errors = recording.communicate(timeout=15)
    assert recording.returncode == 0 and f"wrote {path}: " in errors
    assert total_of(read_collapsed(path), "run_rounds") > 5e8


def test_terminates_command_after_duration(tmp_path):
    path = tmp_path / "long.collapsed"
    began = time.monotonic()
    done = cairn("record", "-d", "1", "-o", path, "--",
                 *workload_argv("burn_c", "--seconds", "50"))
    assert done.returncode == 0, done
    assert time.monotonic() - began < 10
    assert total_of(read_collapsed(path), "run_rounds") > 3e8


@pytest.mark.parametrize("arguments,code,words", [
    (["-d", "1"], 2, ["-o"]),
    (["-d", "1", "-o", "out.txt"], 2, [".collapsed", ".svg", ".pb.gz"]),
    (["-d", "1", "-o", "out"], 2, [".collapsed"]),
    (["-d", "1", "-o", "-"], 2, ["standard output is not supported"]),
    (["-d", "soon", "-o", "out.svg"], 2, ["-d", "soon"]),
    (["-d", "-5", "-o", "out.svg"], 2, ["-d"]),
    (["-d", "1", "-o", "out.svg", "--type", "walls"], 2, ["--type", "walls", "off-cpu"]),
    (["-d", "1", "-o", "out.svg", "--type", "rss"], 2, ["--type", "rss", "off-cpu"]),
    (["-d", "1", "-o", "out.svg", "--type", "cpu,off-cpu"], 2, ["svg files hold one profile type", "-o FOLDER/"]),
    (["-d", "1", "-o", "out.svg", "--frequency", "0"], 2, ["frequency", "0"]),
    (["-d", "1", "-o", "out.svg", "--frequency", "100000"], 2, ["frequency"]),
    (["-d", "1", "-o", "out.svg", "--label", "1x=y"], 2, ["1x"]),
    (["-d", "1", "-o", "out.svg", "--colour"], 2, ["colour"]),
    (["-d", "1", "-o", "out.svg", "sleep", "1"], 2, ["--", "sleep"]),
    (["-d", "1", "-o", "out.svg", "-p", "1", "--", "true"], 2, ["-p"]),
    (["-d", "1", "-o", "out.svg", "-p", "4194303"], 1, ["4194303"]),
    (["-d", "1", "-o", "out.svg", "-p", "2"], 1, ["2 (", "is a thread of the kernel"]),
    (["-d", "9", "-o", "absent/out.svg"], 1, ["absent/out.svg"]),
    (["-o", "out.svg", "--", "no-such-command-here"], 1, ["no-such-command-here"]),
])
def test_record_refuses_bad_usage_at_once(tmp_path, arguments, code, words):
    began = time.monotonic()
    done = cairn("record", *arguments, cwd=tmp_path)
    assert done.returncode == code, done
    assert done.stderr.startswith("cairn record: "), done.stderr
    for word in words:
        assert word in done.stderr, done.stderr
    assert time.monotonic() - began < 5
    assert os.listdir(tmp_path) == [], "nothing is left"


def test_shows_progress_on_terminal(tmp_path):
    path = tmp_path / "progress.svg"
    terminal = Terminal(CAIRN, "record", "-d", "3", "-o", str(path), "--", "sh", "-c",
                        "sleep 1; exit 3")
    assert terminal.exit_code() == 3, "the command's own status"
    assert "s left" in terminal.output
    assert "samples" in terminal.output
    assert "exited with status 3" in terminal.output
    assert path.exists()


def test_progress_fits_narrow_terminal(tmp_path):
    path = tmp_path / "progress-with-a-name-that-is-longer.svg"
    terminal = Terminal(CAIRN, "record", "-d", "2", "-o", str(path), columns=30)
    assert terminal.exit_code(20) == 0
    drawn = [line.split("\x1b[K")[0] for line in terminal.output.split("\r") if "\x1b[K" in line]
    assert any(line.startswith("recording ") and "s left" in line for line in drawn), drawn
    assert all(len(line) < 30 for line in drawn), drawn


def test_ctrl_c_ends_command_and_writes_file(tmp_path):
    path = tmp_path / "stopped.collapsed"
    terminal = Terminal(CAIRN, "record", "-o", str(path), "--",
                        *workload_argv("burn_c", "--seconds", "50"))
    assert " s, " in terminal.read_for(10, until=" 2 s, ")
    terminal.press("\x03")
    assert terminal.exit_code() == 128 + signal.SIGINT
    assert "killed by signal 2" in terminal.output
    assert total_of(read_collapsed(path), "run_rounds") > 5e8


def record_waits(folder, *flags):
    """A command that sleeps for 1.5 s and then, as an event loop does, waits for work for 1 s: its off-CPU and CPU time, a file each."""
    done = cairn("record", "--type", "off-cpu,cpu", "-o", f"{folder}/", "--format", "collapsed", "--json", *flags, "--", sys.executable, "-c",
                 "import select, time; time.sleep(1.5); select.epoll().poll(1)")
    assert done.returncode == 0, done
    assert sorted(os.listdir(folder)) == ["cpu.collapsed", "off-cpu.collapsed"]
    assert re.search(r"wrote \S+/cpu\.collapsed: \d+ samples of ", done.stderr), done.stderr
    stacks = read_collapsed(folder / "off-cpu.collapsed")
    cpu, off_cpu = (file["types"][0] for file in json.loads(done.stdout)["files"])
    assert (cpu["type"], off_cpu["type"]) == (TYPE.CPU, TYPE.OFF_CPU) and off_cpu["total"] == sum(value for _, value in stacks)
    return (done.stderr, *(sum(value for frames, value in stacks if any(word in f for f in frames))
                           for word in ("nanosleep_[k]", "epoll_wait_[k]")))


def test_records_off_cpu_time_without_idle(tmp_path):
    notice, slept, idle = record_waits(tmp_path / "waits")
    assert 1.49e9 < slept < 2.5e9 and idle == 0
    excluded_s = float(re.search(r"(\d+\.\d) s of idle off-CPU time excluded", notice).group(1))
    assert 0.9 <= excluded_s < 2
    notice, slept, idle = record_waits(tmp_path / "all", "--idle")
    assert "excluded" not in notice and 1.49e9 < slept < 2.5e9 and 0.99e9 < idle < 2e9


FORKS = "import os, time; [(os.waitpid(os.posix_spawn('/bin/true', ['true'], {}), 0), time.sleep(0.004)) for _ in range(9999)]"


@pytest.mark.parametrize("type_word", ["wall", "off-cpu", "run-queue"])
def test_records_no_process_forked_elsewhere(tmp_path, type_word):
    path = tmp_path / "one.collapsed"
    with subprocess.Popen([sys.executable, "-c", FORKS]) as elsewhere, \
         subprocess.Popen([sys.executable, "-c", SLEEPS]) as target:
        done = cairn("record", "--type", type_word, "-d", "2", "-p", target.pid, "-o", path)
        elsewhere.kill()
        target.kill()
    assert done.returncode == 0, done
    found = read_collapsed(path)
    assert {frames[0] for frames, _ in found} <= {os.path.basename(sys.executable), "python3"}
    if type_word == "wall":
        total = sum(value for _, value in found)
        assert 1.9e9 < total < 4e9, "one thread for two seconds and the end of the recording"


@pytest.mark.parametrize("status,code", [("exit 7", 7), ("kill -9 $$", 128 + 9), ("exit 0", 0)])
def test_keeps_status_of_command(tmp_path, status, code):
    done = cairn("record", "-o", tmp_path / "out.svg", "--", "sh", "-c", status)
    assert done.returncode == code, done


def test_says_why_a_recording_is_empty(tmp_path):
    with subprocess.Popen(["sleep", "60"]) as sleeping:
        new = cairn("record", "-d", "0.2", "-p", sleeping.pid, "-o", tmp_path / "out.svg")
        (tmp_path / "keep.svg").write_text("old")
        again = cairn("record", "-d", "0.2", "-p", sleeping.pid, "-o", tmp_path / "keep.svg")
        sleeping.kill()
    assert new.returncode == 0 and (tmp_path / "out.svg").exists()
    for done in (new, again):
        assert f"0 samples of pid {sleeping.pid}, 0 dropped" in done.stderr
        assert "it used no CPU meanwhile; --type off-cpu" in done.stderr
    assert again.returncode == 1 and (tmp_path / "keep.svg").read_text() == "old"
    assert f"nothing recorded; {tmp_path / 'keep.svg'} left as it was" in again.stderr
    assert sorted(os.listdir(tmp_path)) == ["keep.svg", "out.svg"]


DEEP = """
import time
def leaf():
    return sum(i * i for i in range(2000))
def middle():
    return leaf() + leaf()
print("it runs", flush=True)
end = time.monotonic() + 60
while time.monotonic() < end:
    middle()
"""


def record_until_ready(path, pid):
    """On a busy machine measuring may begin before the tables are ready; it says so."""
    for _ in range(10):
        done = cairn("record", "-F", "499", "-d", "0.3", "-p", pid, "-o", path)
        assert done.returncode == 0, done
        if READY.match(done.stderr).group(4) == "0" and path.read_text():
            return read_collapsed(path)
    raise AssertionError(f"never ready: {done.stderr}")


def test_first_stacks_of_a_running_process_are_whole(tmp_path):
    with subprocess.Popen([sys.executable, "-c", DEEP], stdout=subprocess.PIPE) as busy:
        assert busy.stdout.readline()
        try:
            for attempt in range(3):
                for frames, _ in record_until_ready(tmp_path / f"{attempt}.collapsed", busy.pid):
                    assert not any("[truncated" in frame for frame in frames), frames
                    assert any(frame.startswith("<module>") for frame in frames), frames
        finally:
            busy.kill()


def test_a_stack_without_its_python_frames_is_marked(tmp_path):
    """The first stacks of a new process are snapshots, which hold no Python frames."""
    path = tmp_path / "new.collapsed"
    done = cairn("record", "-F", "499", "-o", path, "--", sys.executable, "-c",
                 DEEP.replace("+ 60", "+ 1"))
    assert done.returncode == 0, done
    for frames, _ in read_collapsed(path):
        if "_PyEval_EvalFrameDefault" in frames and not any(".py:" in f or "<string>" in f
                                                            for f in frames):
            assert any("[truncated" in frame for frame in frames), frames


# ---- top

CLICK_ON_THREADS = "\x1b[<0;35;2M"  # of an xterm: "PAUSED  1 functions  2 calls  3 threads"
SLEEPS = "import time; [time.sleep(0.05) for _ in range(1200)]"


def test_top_shows_blocked_threads():
    with subprocess.Popen([sys.executable, "-c", SLEEPS]) as sleeping:
        done = cairn("top", "--batch", "--type", "off-cpu", "-p", sleeping.pid, "-d", "2")
        sleeping.kill()
    assert done.returncode == 0, done
    assert re.search(r", Blocked \(off-CPU\) [01]\.\d\d threads, idle excluded 0\.00, ", done.stdout)
    assert "nanosleep_[k]" in done.stdout


def test_top_shows_where_a_process_sleeps():
    with subprocess.Popen(["sleep", "60"]) as sleeping:
        done = cairn("top", "--batch", "--type", "wall", "-p", sleeping.pid, "-d", "2")
        sleeping.kill()
    assert done.returncode == 0, done
    assert "Wall clock 1.0" in done.stdout
    shares = {line.split(None, 4)[4]: float(line.split(None, 4)[1])
              for line in done.stdout.splitlines()[2:] if line}
    assert any("nanosleep" in name and share > 99 for name, share in shares.items()), done.stdout
    assert "[unknown stack]" not in shares


def test_top_prints_plain_tables():
    with workload("burn_c", *LONG):
        done = cairn("top", "--batch", "-n", "2", "-d", "1.5", "-F", "499")
    assert done.returncode == 0, done
    assert done.stdout.count("self%") == 2
    assert "\x1b" not in done.stdout
    header, table = done.stdout.split("\n\n")[1].split("\n", 1)
    busy = float(re.search(r"CPU time (\d+\.\d+) of \d+ cores", header).group(1))
    assert 0.3 < busy <= os.cpu_count() + 0.2
    rows = [line.split(None, 4) for line in table.splitlines()[1:]]
    shown = {row[4]: (float(row[0]), float(row[1]), row[2], row[3]) for row in rows}
    assert shown["burn_alpha"][2:] == ("native", "burn_c")
    selfs = [float(row[0]) for row in rows]
    assert selfs == sorted(selfs, reverse=True), "sorted by self"
    assert sum(selfs) <= 100.5


def test_top_selects_process_or_service():
    service = unique("top")
    with workload("burn_c", *LONG, env={"OTEL_SERVICE_NAME": service}) as burning, workload("burn_cpp", *LONG):
        for flags in (["-p", str(burning.process.pid)], ["--service", service]):
            done = cairn("top", "--batch", "-d", "2", "-F", "499", "--rows", "0", *flags)
            assert done.returncode == 0, done
            assert "burn_alpha" in done.stdout
            assert "kitchen::" not in done.stdout
            shares = {line.split(None, 4)[4]: float(line.split(None, 4)[1])
                      for line in done.stdout.splitlines()[2:] if line}
            assert shares["run_rounds"] > 95, done.stdout


def test_top_handles_keys():
    with workload("burn_c", *LONG):
        terminal = Terminal(CAIRN, "top", "-d", "1", "-F", "499")
        assert "burn_alpha" in terminal.read_for(6, until="burn_alpha")
        # Only changed parts of the screen are redrawn.
        for keys, word in (("t", "total"), ("p", "merged"), ("/burn_ga", "filter: burn_ga"),
                           ("\n", ""), (" ", "PAUSED"), ("h", "pause or resume"), ("hs", "self")):
            terminal.output = ""
            terminal.press(keys)
            assert word in terminal.read_for(3 if word else 0.3, until=word), keys
        # Another view and back; a function's callers, and whole stacks again.
        for keys, word in (("2", "whole stacks"), ("3", "thread names"), ("1", "by self"), ("/burn_alpha", "alpha_"),
                           ("\n", ""), ("c", "callers of burn_alpha"), ("\x1b", "whole stacks"), (CLICK_ON_THREADS, "thread names")):
            terminal.output = ""
            terminal.press(keys)
            assert word in terminal.read_for(3 if word else 0.3, until=word), keys
        terminal.press("q")
        assert terminal.exit_code() == 0
    assert "\x1b[?1049l" in terminal.output, "the screen is given back"


def test_top_shows_calls_and_threads():
    with workload("burn_c", *LONG) as burning:
        calls = cairn("top", "--batch", "--show", "calls", "-p", burning.process.pid, "-d", "1", "-F", "499")
        threads = cairn("top", "--json", "--show", "threads", "--type", "wall", "-p", burning.process.pid, "-d", "1", "-n", "2")
    lines = [line.split(None, 2)[2] for line in calls.stdout.splitlines()[2:] if line]
    assert lines[0] == "burn_c" and lines.index("worker_main") < lines.index("run_rounds") < lines.index("burn_alpha"), calls.stdout
    last = json.loads(threads.stdout.splitlines()[-1])
    assert (last["show"], last["type"], last["unit"]) == ("threads", "wall", "nanoseconds")
    assert {row["process"] for row in last["rows"]} == {"burn_c"}
    assert sum(row["total"] for row in last["rows"]) == last["total"] > 0
    assert all(sum(row[part] for part in ("running", "queued", "gil", "gpu", "blocked")) == row["total"] for row in last["rows"])
    assert sum(row["running"] for row in last["rows"]) > 0


@pytest.mark.parametrize("arguments,code,words", [
    (["--service", "nosuch", "-d", "0.3"], 0, ['no samples of service "nosuch"', "services with samples: "]),
    (["extra"], 2, ["extra"]),
    (["-d", "0"], 2, ["-d"]),
    (["-p", "4194303"], 1, ["4194303"]),
    (["-p", "2"], 1, ["is a thread of the kernel"]),
    (["-p", "abc"], 2, ["abc"]),
    (["--show", "stacks"], 2, ["functions, calls or threads"]),
])
def test_top_explains_bad_usage(arguments, code, words):
    done = cairn("top", "--batch", *arguments)
    assert done.returncode == code, done
    for word in words:
        assert word in done.stderr, done.stderr


# ---- query

def query(fleet, *arguments):
    return cairn("query", "--collector-http", fleet.api.base, *arguments)


def test_query_writes_every_format(fleet, runs, tmp_path):
    run = runs["c"]
    selector = f'{{service="{run.service}"}}'
    for suffix in ("collapsed", "svg", "pb.gz"):
        path = tmp_path / f"out.{suffix}"
        done = query(fleet, selector, "--from", "now-1h", "-o", path)
        assert (done.returncode, done.stdout) == (0, "") and done.stderr.startswith(f"wrote {path}\n"), done
        done = query(fleet, "no-such-service", "-o", path)
        assert done.returncode == 1 and f"{path} left as it was" in done.stderr and path.stat().st_size
    stacks = read_collapsed(tmp_path / "out.collapsed")
    total = sum(value for _, value in stacks)
    assert total == fleet.api.total(run.service, **{"from": "now-1h"})
    assert all(frames[0] == "burn_c" for frames, _ in stacks)
    profile = Pprof(tmp_path / "out.pb.gz")
    at = profile.value_index("cpu")
    assert sum(values[at] for _, values in profile.samples) == total
    assert "burn_alpha" in (tmp_path / "out.svg").read_text()
    for function, ns in run.functions.items():
        assert abs(total_of(stacks, function) / total - ns / run.cpu_ns) < 0.02


def test_query_prints_a_table(fleet, runs):
    done = query(fleet, runs["c"].service, "--from", "now-1h")
    assert done.returncode == 0, done
    assert re.match(r"\d+\.\d+ s in total", done.stdout)
    first = done.stdout.splitlines()[2].split()
    # Both burn the same on average.
    assert first[4] in ("burn_alpha", "burn_beta_callee") and float(first[0]) > 30, done.stdout
    answer = json.loads(query(fleet, runs["c"].service, "--from", "now-1h", "--json").stdout)
    assert answer["rows"][0]["name"] == first[4]


def test_query_prints_types_without_stacks_by_label(fleet, runs):
    done = query(fleet, runs["c"].service, "--from", "now-1h", "--type", "wall")
    assert done.returncode == 0, done
    assert done.stdout.splitlines()[1].split() == ["share%", "s", "state"]
    assert re.search(r"^ +\d+\.\d\d +\d+\.\d{3}  running$", done.stdout, re.MULTILINE), done.stdout
    assert "without stacks" in done.stderr and "cpu, run-queue, off-cpu" in done.stderr


@pytest.mark.parametrize("arguments,words", [
    # "from ... to ... UTC" if midnight was less than a range ago.
    (["no-such-service"], [r'no series match {service="no-such-service"} (in|from) \d.* UTC; services there: \w']),
    (['{servce="x"}'], ['there is no label "servce"', r'did you mean "service"\?']),
    (["x", "--from", "now-3d", "--to", "now-2d"], [r"nothing is stored from \d", "cairn status"]),
])
def test_query_explains_why_nothing_matches(fleet, runs, arguments, words):
    done = query(fleet, *arguments)
    assert (done.returncode, done.stdout) == (1, ""), done
    for word in words:
        assert re.search(word, done.stderr), done.stderr


@pytest.mark.parametrize("arguments,code,words", [
    (["{service="], 1, ["query", "column"]),
    (["x", "--from", "now", "--to", "now-1h"], 2, ["--from", "--to"]),
    (["x", "--from", "teatime"], 2, ["--from", "teatime"]),
    (["x", "--type", "cpus"], 2, ["--type", "off-cpu"]),
    (["x", "-o", "out.pdf"], 2, [".svg"]),
    (["x", "y"], 2, ["y"]),
    (["x", "-o", "absent/out.svg"], 1, ["absent/out.svg"]),
])
def test_query_refuses_bad_usage(fleet, tmp_path, arguments, code, words):
    done = cairn("query", "--collector-http", fleet.api.base, *arguments, cwd=tmp_path)
    assert done.returncode == code, done
    assert done.stderr.startswith("cairn query: "), done.stderr
    for word in words:
        assert word in done.stderr, done.stderr
    assert os.listdir(tmp_path) == []


def test_query_names_unreachable_collector():
    done = cairn("query", "x", "--collector-http", "http://127.0.0.1:9")
    assert done.returncode == 1
    assert "http://127.0.0.1:9" in done.stderr and "cairn-collector" in done.stderr


# ---- cairn diff

def diff(fleet, *arguments):
    return cairn("diff", "--collector-http", fleet.api.base, "--from", "now-1h", *arguments)


def test_diff_compares_two_services(fleet, runs):
    """Two programs that ran for seconds of the hour, and have no function in common."""
    a, b = runs["c"].service, runs["cpp"].service
    done = diff(fleet, b, "--against", f'{{service="{a}"}}', "--per", "none", "--all")
    assert done.returncode == 0, done
    lines = done.stdout.splitlines()
    assert lines[0].startswith(f'A  {{service="{a}"}}') and lines[1].startswith(f"B  {b}") and "cores" in lines[1]
    words = {line.split()[6]: line.split()[3] for line in lines if re.match(r" +\d", line)}
    for run, word in ((runs["c"], "gone"), (runs["cpp"], "new")):
        assert word in {words.get(name.partition("(")[0]) or words.get(name) for name in run.functions}, done.stdout
    answer = json.loads(diff(fleet, b, "--against", f'{{service="{a}"}}', "--json").stdout)
    totals = {side: answer[side]["total"] for side in "ab"}
    assert totals == {"a": fleet.api.total(a, **{"from": "now-1h"}), "b": fleet.api.total(b, **{"from": "now-1h"})}
    root = {name: column[0] for name, column in answer["nodes"].items()}
    assert (root["a_total"], root["b_total"]) == (totals["a"], totals["b"])
    assert sum(answer["nodes"]["a_self"]) == totals["a"] and sum(answer["nodes"]["b_self"]) == totals["b"]


def test_diff_of_the_same_finds_nothing(fleet, runs):
    service = runs["c"].service
    done = diff(fleet, service, "--against", f'{{service="{service}"}}', "--norm", "share")
    assert done.returncode == 0 and "No function" in done.stdout and "of its side" not in done.stdout, done
    assert "%" in done.stdout.splitlines()[2]


def test_diff_writes_folded_stacks(fleet, runs, tmp_path):
    path = tmp_path / "out.collapsed"
    service = runs["c"].service
    done = diff(fleet, service, "--against", f'{{service="{runs["cpp"].service}"}}', "-o", path)
    assert (done.returncode, done.stdout) == (0, "") and done.stderr == f"wrote {path}\n", done
    rows = [line.rsplit(" ", 2) for line in path.read_text().splitlines()]
    assert sum(int(b) for _, _, b in rows) == fleet.api.total(service, **{"from": "now-1h"})
    assert any("burn_alpha" in stack and int(b) and not int(a) for stack, a, b in rows) and any(int(a) and not int(b) for _, a, b in rows)


@pytest.mark.parametrize("arguments,code,words", [
    (["no-such-service"], 1, ["nothing to compare: no series match"]),
    (["x", "--norm", "log"], 2, ["--norm", "rate", "share"]),
    (["x", "--sort", "name"], 2, ["--sort", "self", "total"]),
    (["x", "--only", "new,old"], 2, ["--only", '"old"', "gone"]),
    (["x", "--against", "rest"], 2, ["--against-from"]),
    (["x", "--against-from", "now-2h"], 2, ["--against-to"]),
    (["x", "--against", "1d", "--against-from", "now-2h", "--against-to", "now-1h"], 2, ["give one"]),
    (["x", "--against", "{service="], 1, ["against_query", "column"]),
    (["x", "-o", "out.svg"], 2, [".collapsed"]),
    (["x", "--type", "rss"], 1, ["gauge"]),
    (["x", "--type", "wall"], 2, ["--type wall", "no stacks"]),
])
def test_diff_explains_what_is_wrong(fleet, arguments, code, words):
    done = diff(fleet, *arguments)
    assert (done.returncode, done.stdout) == (code, ""), done
    assert done.stderr.startswith("cairn diff: "), done.stderr
    for word in words:
        assert word in done.stderr, done.stderr


def test_diff_says_which_side_is_empty(fleet, runs):
    done = diff(fleet, runs["c"].service, "--against", "1d")
    assert (done.returncode, done.stdout) == (1, "") and "nothing to compare with: " in done.stderr, done


# ---- cairn

def test_suggests_nearest_command():
    done = cairn("recrod")
    assert done.returncode == 2
    assert '"record"' in done.stderr
    assert cairn().returncode == 2
    assert cairn("help", "recrod").returncode == 2
    assert cairn("help", "record").stdout == cairn("record", "--help").stdout


@pytest.mark.parametrize("command", ["top", "record", "query", "diff"])
def test_every_command_has_help(command):
    done = cairn(command, "--help")
    assert done.returncode == 0
    assert f"cairn {command}" in done.stdout
    assert "--type" in done.stdout or command == "top"
