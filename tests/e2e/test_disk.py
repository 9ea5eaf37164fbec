# SPDX-License-Identifier: Apache-2.0
"""The collector's disk runs full, fails, comes back: the collector lives, CPU time arrives once. Backups."""
import errno
import pathlib
import subprocess
import time

import pytest

from fleet import ApiError, Collector, program, unique, wait_until, workload

EXACT = 0.03  # of the CPU time; sampling alone is within 1 %
DISK_MIB = 160


class Disk:
    """A small file system of its own."""

    def __init__(self, folder):
        self.folder = folder
        folder.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK_MIB}m", "cairn-e2e", str(folder)], check=True)

    def fill(self):
        """Others take all room that is left."""
        with open(self.folder / "others", "wb") as others:
            try:
                while True:
                    others.write(bytes(1 << 16))
                    others.flush()
            except OSError:
                pass

    def empty(self):
        (self.folder / "others").unlink()


@pytest.fixture
def disk(tmp_path):
    small = Disk(tmp_path / "disk")
    yield small
    subprocess.run(["umount", "--lazy", str(small.folder)], check=True)


@pytest.fixture
def small_collector(disk, tmp_path):
    running = Collector(disk.folder / "data", tmp_path / "collector.log")
    running.argv += ["--memory", "64MiB"]
    with running:
        yield running


def readiness(collector):
    """The text of /readyz if batches are refused, else None."""
    try:
        collector.api.fetch("/readyz")
        return None
    except ApiError as error:
        return str(error)


def wait_for_refusal(collector):
    return wait_until("a refusal", 20, lambda: readiness(collector))


def start_burning(seconds):
    service = unique("disk")
    return service, workload("burn_c", "--seconds", str(seconds), env={"OTEL_SERVICE_NAME": service})


def expect_all_there(collector, service, burning):
    cpu_ns = burning.truth()["process_cpu_ns"]
    total = collector.api.wait_for_total(service, cpu_ns)
    assert total == pytest.approx(cpu_ns, rel=EXACT), f"{total / cpu_ns:.3f} of what was burned is there"


def restart_unready(collector):
    """Restart a collector that refuses batches: it answers queries, but is not ready."""
    collector.kill()
    super(Collector, collector).start()
    wait_until("the collector", 20, lambda: collector.api.answers("/api/v1/types") or
               (not collector.is_running() and pytest.fail(collector.log())))


def test_full_disk_loses_nothing(disk, small_collector, start_agent):
    start_agent(small_collector, "--frequency", "997")
    small_collector.wait_for_agent()
    service, burning = start_burning(16)
    time.sleep(3)
    before = small_collector.api.total(service)
    disk.fill()
    assert "disk is nearly full" in wait_for_refusal(small_collector)
    time.sleep(3)
    assert small_collector.api.total(service) >= before > 0, "queries go on"
    restart_unready(small_collector)
    assert small_collector.api.total(service) >= before, "also after a start on a full disk"
    disk.empty()
    wait_until("readiness", 70, lambda: readiness(small_collector) is None)
    expect_all_there(small_collector, service, burning)


class FailingDisk:
    """A disk whose every write fails while it is told so, as the collector sees it (disk_double.c)."""

    def __init__(self, tmp_path):
        self.folder = tmp_path / "data"
        self.error = tmp_path / "disk-error"
        self.library = tmp_path / "disk_double.so"
        source = pathlib.Path(__file__).parent / "disk_double.c"
        subprocess.run(["gcc", "-shared", "-fPIC", "-D_GNU_SOURCE", "-o", str(self.library), str(source)], check=True)

    def env(self):
        return {"LD_PRELOAD": str(self.library), "DISK_DOUBLE_FOLDER": str(self.folder),
                "DISK_DOUBLE_ERROR": str(self.error)}

    def fail(self, number):
        partial = self.error.with_suffix(".partial")
        partial.write_text(str(number))
        partial.rename(self.error)

    def heal(self):
        self.error.unlink()


@pytest.mark.parametrize("number,word", [(errno.EIO, "check the disk"), (errno.EROFS, "read-write")])
def test_failing_disk_loses_nothing(tmp_path, start_agent, number, word):
    disk = FailingDisk(tmp_path)
    collector = Collector(disk.folder, tmp_path / "collector.log")
    collector.env = disk.env()
    with collector:
        start_agent(collector, "--frequency", "997")
        collector.wait_for_agent()
        service, burning = start_burning(12)
        time.sleep(3)
        before = collector.api.total(service)
        disk.fail(number)
        refusal = wait_for_refusal(collector)
        assert word in refusal, refusal
        time.sleep(3)
        assert collector.api.total(service) >= before > 0, "queries go on"
        restart_unready(collector)
        assert collector.api.total(service) >= before, "also after a start"
        disk.heal()
        wait_until("readiness", 70, lambda: readiness(collector) is None)
        expect_all_there(collector, service, burning)


def run_collector(*arguments):
    return subprocess.run([program("cairn-collector"), *map(str, arguments)], capture_output=True, text=True,
                          timeout=60, check=False)


def test_backup_while_running_restores(collector, start_agent, tmp_path):
    start_agent(collector, "--frequency", "997")
    service, burning = start_burning(2)
    expect_all_there(collector, service, burning)
    backup = tmp_path / "backup"
    for _ in range(2):
        done = run_collector("--data", tmp_path / "data", "--backup", backup)
        assert done.returncode == 0, done
    done = run_collector("--data", tmp_path / "data", "--restore", backup)
    assert done.returncode == 1 and "not empty" in done.stderr, done
    done = run_collector("--data", tmp_path / "restored", "--restore", backup)
    assert done.returncode == 0, done
    done = run_collector("--check", tmp_path / "restored")
    assert done.returncode == 0 and "good" in done.stdout, done
    before = collector.api.total(service)
    with Collector(tmp_path / "restored", tmp_path / "restored.log") as restored:
        assert restored.api.total(service) == before


def test_backup_to_full_disk_harms_nobody(collector, disk, tmp_path):
    disk.fill()
    done = run_collector("--data", tmp_path / "data", "--backup", disk.folder)
    assert done.returncode == 1 and "No space left" in done.stderr, done
    assert readiness(collector) is None
