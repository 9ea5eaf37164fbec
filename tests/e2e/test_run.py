# SPDX-License-Identifier: Apache-2.0
"""deploy/run and deploy/demo/run: one command starts everything, Ctrl-C leaves nothing behind."""
import os
import pathlib
import signal
import subprocess

import pytest

from fleet import ROOT, Api, build_folder, free_port, unique, wait_until
from terminal import Terminal

RUN = str(ROOT / "deploy/run")
DEMO = str(ROOT / "deploy/demo/run")


def processes_with(mark):
    """Ids of the processes that have inherited E2E_MARK=mark, and have not ended."""
    found = []
    for folder in pathlib.Path("/proc").iterdir():
        try:
            if folder.name.isdigit() and f"E2E_MARK={mark}".encode() in \
                    (folder / "environ").read_bytes():
                found.append(int(folder.name))
        except OSError:
            pass
    return found


class Running:
    """One of the scripts on a terminal, with addresses, data and a build folder of its own."""

    def __init__(self, script, tmp_path, *flags):
        # The programs, but a place of its own for what is written below the build folder.
        build = tmp_path / "build"
        build.mkdir()
        for name in ("cairn-agent", "cairn-collector"):
            (build / name).symlink_to(build_folder() / name)
        self.mark = unique("run")
        self.http = f"127.0.0.1:{free_port()}"
        self.api = Api(self.http)
        self.flags = ["--build", str(build), "--http", self.http,
                      "--grpc", f"127.0.0.1:{free_port()}", "--interval", "1s", *flags]
        self.terminal = Terminal(script, *self.flags, env={"E2E_MARK": self.mark})

    def wait_for_page(self):
        shown = self.terminal.read_for(30, until="Ctrl-C stops everything")
        assert f"http://{self.http}/" in shown, shown

    def expect_end(self, code):
        assert self.terminal.exit_code(25) == code, self.terminal.output
        assert processes_with(self.mark) == []


def test_run_serves_page_until_ctrl_c(tmp_path):
    running = Running(RUN, tmp_path)
    running.wait_for_page()
    assert "<html" in running.api.fetch("/").decode().lower()
    wait_until("samples of this machine", 10, lambda: running.api.total("") > 0)
    running.terminal.press("\x03")
    running.expect_end(0)
    assert "stopped" in running.terminal.output
    assert "Traceback" not in running.terminal.output


def test_killed_script_leaves_no_process(tmp_path):
    running = Running(RUN, tmp_path)
    running.wait_for_page()
    assert len(processes_with(running.mark)) == 3, "the script, the collector and the agent"
    os.kill(running.terminal.pid, signal.SIGKILL)
    running.terminal.exit_code()
    wait_until("the end of all processes", 15, lambda: not processes_with(running.mark))


@pytest.mark.parametrize("victim", ["cairn-agent", "cairn-collector"])
def test_names_part_that_ended_the_run(tmp_path, victim):
    running = Running(RUN, tmp_path)
    running.wait_for_page()
    pids = [pid for pid in processes_with(running.mark)
            if pathlib.Path(f"/proc/{pid}/comm").read_text().strip() == victim[:15]]
    os.kill(pids[0], signal.SIGKILL)
    running.expect_end(1)
    assert f"{victim.split('-')[1]} was killed by signal 9" in running.terminal.output


def test_quotes_collector_start_error(tmp_path):
    # An address of the block for documentation (RFC 5737): no machine has it.
    done = subprocess.run([RUN, "--build", str(build_folder()), "--data", str(tmp_path / "data"),
                           "--http", "192.0.2.1:7070"],
                          capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 1
    assert "collector exited with status 2" in done.stderr, done.stderr
    assert "192.0.2.1" in done.stderr, done.stderr
    assert "Traceback" not in done.stderr


def test_second_run_names_the_first(fleet):
    done = subprocess.run([RUN, "--build", str(build_folder()), "--http", fleet.http],
                          capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 1
    assert "already answers" in done.stderr


def test_demo_shows_services_and_stops(tmp_path):
    running = Running(DEMO, tmp_path, "--minutes", "0.12", "--rate", "20")
    running.wait_for_page()
    shown = running.terminal.read_for(25, until=" failed")
    assert " 0 failed" in shown, shown
    assert {"demo-gateway", "demo-inference", "demo-load"} <= \
        set(running.api.get("labels/service/values")["values"])
    native = running.api.top('{service="demo-inference"}')[0]
    assert "matmul" in native, sorted(native, key=native.get)[-20:]
    running.terminal.press("\x03")
    running.expect_end(0)
