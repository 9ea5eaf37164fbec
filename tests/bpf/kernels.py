# SPDX-License-Identifier: Apache-2.0
"""Debian's kernels, fetched from where the machine's own packages come from and unpacked below the
build folder; never installed."""
import os
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
# The newest package that each depends on is the kernel.
META_PACKAGES = {"6.1": "linux-image-cloud-amd64", "6.12": "linux-image-6.12-cloud-amd64"}


def build_folder():
    return (ROOT / os.environ.get("BUILD", "build")).resolve()


def package_of(version):
    """The package that holds the kernel now."""
    meta = META_PACKAGES[version]
    said = subprocess.run(["apt-cache", "depends", "--important", meta], capture_output=True,
                          text=True, check=False).stdout
    found = [line.split()[-1] for line in said.splitlines() if "linux-image-" in line
             and line.strip().startswith("Depends:")]
    assert found, f"the package lists have no {meta}; apt-get update and Debian's security " \
                  f"archive are needed:\n{said}"
    return found[0]


def fetch(version):
    """The kernel's file, fetched if it is not there."""
    folder = build_folder() / "kernels" / version
    found = sorted(folder.glob("root/boot/vmlinuz-*"))
    if found:
        return found[-1]
    folder.mkdir(parents=True, exist_ok=True)
    package = package_of(version)
    subprocess.run(["apt-get", "download", "-q", package], cwd=folder, check=True,
                   capture_output=True)
    archive = next(folder.glob(f"{package}_*.deb"))
    subprocess.run(["dpkg-deb", "-x", str(archive), str(folder / "root")], check=True)
    archive.unlink()
    return next(folder.glob("root/boot/vmlinuz-*"))
