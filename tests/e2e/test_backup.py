# SPDX-License-Identifier: Apache-2.0
"""Backups of a collector that runs. What it does on bad disks is in tests/chaos."""
import subprocess

import pytest

from fleet import Collector, program, unique, workload

pytestmark = pytest.mark.samples_cpu

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


@pytest.fixture
def disk(tmp_path):
    small = Disk(tmp_path / "disk")
    yield small
    subprocess.run(["umount", "--lazy", str(small.folder)], check=True)


def start_burning(seconds):
    service = unique("backup")
    return service, workload("burn_c", "--seconds", str(seconds), env={"OTEL_SERVICE_NAME": service})


def expect_all_there(collector, service, burning):
    cpu_ns = burning.truth()["process_cpu_ns"]
    total = collector.api.wait_for_total(service, cpu_ns)
    assert total == pytest.approx(cpu_ns, rel=EXACT), f"{total / cpu_ns:.3f} of what was burned is there"


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
    assert collector.api.answers("/readyz")
