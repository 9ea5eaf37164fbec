# SPDX-License-Identifier: Apache-2.0
"""The arm64 packages and the tarball that `make ARCH=aarch64 debs tarball` has built: what they depend on, and that their programs
start, emulated."""
import pathlib
import re
import subprocess
import sys

import pytest

from recording import ROOT, build_folder

sys.path.append(str(ROOT / "tests/release"))

from roots import free_port, wait_until_ready  # noqa: E402 pylint: disable=wrong-import-position

SYSROOT = ROOT / "build/sysroot/aarch64"
DIST = build_folder() / "dist"
PACKAGES = ("cairn", "cairn-agent", "cairn-collector")

needs_debs = pytest.mark.skipif(not list(DIST.glob("*_arm64.deb")), reason="make ARCH=aarch64 debs has not been run")
needs_tarball = pytest.mark.skipif(not list(DIST.glob("*-linux-aarch64.tar.xz")), reason="make ARCH=aarch64 tarball has not been run")


def deb(name):
    (found,) = DIST.glob(f"{name}_*_arm64.deb")
    return found


def emulated(program, *arguments):
    return ["qemu-aarch64", "-L", str(SYSROOT), str(program), *arguments]


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """A folder with the packages' files."""
    folder = tmp_path_factory.mktemp("packages")
    for name in PACKAGES:
        subprocess.run(["dpkg-deb", "--extract", deb(name), folder], check=True)
    return folder


@needs_debs
@pytest.mark.parametrize("name, library", [("cairn", "libbpf1"), ("cairn-agent", "libmicrohttpd12"), ("cairn-collector", "librocksdb7.8")])
def test_packages_depend_on_libraries(name, library):
    depends = subprocess.run(["dpkg-deb", "--field", deb(name), "Depends"], check=True, capture_output=True, text=True).stdout
    assert re.search(rf"\b{re.escape(library)}\b", depends) and "libc6 (>= " in depends
    assert "-cross" not in depends


@needs_debs
@pytest.mark.parametrize("name", PACKAGES)
def test_programs_start(installed, name):
    said = subprocess.run(emulated(installed / "usr/bin" / name, "--version"), check=True, capture_output=True, text=True).stdout
    assert said.startswith(f"{name} ")
    notes = subprocess.run(["readelf", "-h", installed / "usr/bin" / name], check=True, capture_output=True, text=True).stdout
    assert "AArch64" in notes


@needs_debs
def test_collector_is_ready(installed, tmp_path):
    port = free_port()
    process = subprocess.Popen(emulated(installed / "usr/bin/cairn-collector", "--data", str(tmp_path), "--grpc", f"127.0.0.1:{free_port()}",
                                        "--http", f"127.0.0.1:{port}"), stdin=subprocess.DEVNULL)
    try:
        wait_until_ready(f"http://127.0.0.1:{port}/readyz", process)
    finally:
        process.terminate()
        assert process.wait(60) == 0


@needs_tarball
def test_tarball_brings_all_libraries(tmp_path):
    """In a root that has nothing else."""
    (path,) = [path for path in DIST.glob("*-linux-aarch64.tar.xz") if "debug" not in path.name]
    (tmp_path / "opt").mkdir()
    subprocess.run(["tar", "--extract", "--file", path, "--directory", tmp_path / "opt"], check=True)
    for name in PACKAGES:
        program = tmp_path / "opt/cairn/bin" / name
        said = subprocess.run(["qemu-aarch64", "-L", str(tmp_path), program, "--version"], check=True, capture_output=True, text=True).stdout
        assert said.startswith(f"{name} ")
        loaded = subprocess.run(["qemu-aarch64", "-L", str(tmp_path), "-E", "LD_TRACE_LOADED_OBJECTS=1", program], check=True,
                                capture_output=True, text=True).stdout
        assert "not found" not in loaded
        assert {str(pathlib.Path(place).resolve().parent) for place in re.findall(r"=> (/\S+) \(", loaded)} == {str(tmp_path / "opt/cairn/lib")}
