# SPDX-License-Identifier: Apache-2.0
"""The tarball: its programs run on other distributions' root folders, and where there is no distribution at all."""
import platform
import re
import subprocess

import pytest
import roots

RELEASES = ("bullseye", "bookworm", "trixie", None)


def tarball(kind=""):
    (found,) = [path for path in roots.DIST.glob(f"cairn-*-linux-{platform.machine()}{kind}.tar.xz") if kind or "debug" not in path.name]
    return found


def extract(path, place):
    place.mkdir(parents=True, exist_ok=True)
    subprocess.run(["tar", "--extract", "--file", path, "--directory", place], check=True)


@pytest.fixture(scope="module", params=RELEASES, ids=lambda release: release or "nothing")
def root(request, tmp_path_factory):
    """A root folder with the tarball; one has nothing else."""
    folder = tmp_path_factory.mktemp("tarball") / "root"
    made = roots.make_root(request.param, folder) if request.param else roots.Root(folder)
    extract(tarball(), folder / "opt")
    return made


def test_programs_start(root):
    version = re.search(r"cairn-([\d.]+)-linux", tarball().name)[1]
    for name in ("cairn", "cairn-agent", "cairn-collector"):
        assert root.run(f"/opt/cairn/bin/{name}", "--version").stdout == f"{name} {version}\n"


def test_agent_samples(root):
    checked = root.run("/opt/cairn/bin/cairn-agent", "--check", "--collector", "127.0.0.1:1", "--cache", "none", check=False).stdout
    assert re.search(r"^ok +sampling +\d+ samples", checked, re.M), checked
    assert "does not answer: Connection refused" in checked, checked


def test_doctor_finds_the_agent_beside_it(root):
    assert re.search(r"^ok +BTF", root.run("/opt/cairn/bin/cairn", "doctor", "--cache", "none", check=False).stdout, re.M)


def test_collector_is_ready(root):
    port = roots.free_port()
    with root.started("/opt/cairn/bin/cairn-collector", "--data", "/data", "--grpc", f"127.0.0.1:{roots.free_port()}",
                      "--http", f"127.0.0.1:{port}") as collector:
        roots.wait_until_ready(f"http://127.0.0.1:{port}/readyz", collector)
        assert "0 agents sending" in root.run("/opt/cairn/bin/cairn", "status", "--collector-http", f"http://127.0.0.1:{port}").stdout


def test_names_are_resolved(root):
    etc = root.path / "etc"
    etc.mkdir(exist_ok=True)
    with open(etc / "hosts", "a", encoding="utf-8") as hosts:
        hosts.write("127.0.0.1 collector.example\n")
    if not (etc / "nsswitch.conf").exists():
        (etc / "nsswitch.conf").write_text("hosts: files dns\n")
    checked = root.run("/opt/cairn/bin/cairn-agent", "--check", "--collector", "collector.example:1", "--cache", "none", check=False).stdout
    assert "collector.example:1 does not answer: Connection refused" in checked, checked


def test_debug_files_belong_to_the_programs(tmp_path):
    extract(tarball(), tmp_path)
    extract(tarball("-debug"), tmp_path)
    for name in ("cairn", "cairn-agent", "cairn-collector"):
        notes = subprocess.run(["readelf", "--notes", tmp_path / "cairn/bin" / name], check=True, capture_output=True, text=True).stdout
        build_id = re.search(r"Build ID: (\w+)", notes)[1]
        debug = tmp_path / "usr/lib/debug/.build-id" / build_id[:2] / f"{build_id[2:]}.debug"
        units = subprocess.run(["readelf", "--debug-dump=info", "--dwarf-depth=1", debug], check=True, capture_output=True, text=True).stdout
        assert "/usr/src/cairn-" in units
        assert str(roots.ROOT) not in units
