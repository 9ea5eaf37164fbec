# SPDX-License-Identifier: Apache-2.0
"""CUPTI sessions by `cairn gpu-kernels`, with a double of libcupti: needs no GPU."""
import os
import re
import subprocess
import sys

import pytest

from fleet import build_folder

CLIENT_SECONDS = 60  # at most: the test kills it


@pytest.fixture(scope="module", autouse=True)
def doubles():
    names = [f"{build_folder()}/tests/gpu/{name}" for name in ("libcupti.so.12", "libcairn_cupti.so")]
    subprocess.run(["make", f"BUILD={build_folder()}", *names], check=True, stdout=subprocess.DEVNULL)


@pytest.fixture
def start_client():
    clients = []

    def start(*words):
        command = [sys.executable, "tests/gpu/cupti_client.py", str(build_folder() / "tests/gpu"), str(CLIENT_SECONDS),
                   *words]
        clients.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
        assert clients[-1].stdout.readline() == "ready\n"
        return clients[-1].pid
    yield start
    for client in clients:
        client.kill()
        client.wait()


def gpu_kernels(pid, *words):
    return subprocess.run([str(build_folder() / "cairn"), "gpu-kernels", str(pid), *words],
                          capture_output=True, text=True, timeout=60, check=False)


def test_session_reports_run_times_by_kernel(start_client):
    answer = gpu_kernels(start_client(), "--session", "1000")
    assert answer.returncode == 0, answer.stderr
    rows = re.findall(r"^ *([\d.]+)% +([\d.]+) ms +(\d+) +([\d.]+) us  (.*)$", answer.stdout, re.M)
    means = {name: float(mean) for _, _, _, mean, name in rows}
    assert means == {"gemm": 30.0, "softmax": 10.0, "(no name)": 5.0}, answer.stdout
    # 30 of 50 us of each round; the ends of the session cut one.
    assert float(rows[0][0]) == pytest.approx(60, abs=6) and rows[0][4] == "gemm"
    assert ", 0 dropped." in answer.stdout and "Overhead: helper" in answer.stdout


def test_command_yields_to_the_applications_own_profiler(start_client):
    answer = gpu_kernels(start_client("profiler"), "--session", "100")
    assert answer.returncode == 1 and "uses CUPTI itself" in answer.stderr


def test_error_names_how_to_get_the_helper():
    answer = gpu_kernels(1)
    assert answer.returncode == 1 and answer.stderr
    with subprocess.Popen(["sleep", "60"]) as sleeper:
        answer = gpu_kernels(sleeper.pid)
        sleeper.kill()
    assert answer.returncode == 1 and "CUDA_INJECTION64_PATH" in answer.stderr
    assert gpu_kernels("x").returncode == 2


def test_check_list_for_a_real_gpu_runs_dry():
    answer = subprocess.run(["tests/gpu/h200.sh", "--dry"], capture_output=True, text=True, timeout=60, check=True,
                            env={**os.environ, "PYTHON": sys.executable})
    assert [int(number) for number in re.findall(r"^## (\d+)\.", answer.stdout, re.M)] == list(range(1, 13))
    assert answer.stderr == ""


def test_doubles_exports_have_the_real_drivers_shape():
    library = f"{build_folder()}/tests/gpu/libcuda.so.1"
    subprocess.run(["make", f"BUILD={build_folder()}", library], check=True, stdout=subprocess.DEVNULL)
    answer = subprocess.run([sys.executable, "tests/gpu/driver_shape.py", library], capture_output=True, text=True,
                            timeout=60, check=True).stdout
    count, of, kind = re.match(r" *(\d+) of (\d+) exports: (.*)", answer).groups()
    assert count == of and int(of) > 50 and kind == "compare, branch, jump"
    assert f"{count} slots lead to the start of a function" in answer
