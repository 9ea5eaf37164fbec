# SPDX-License-Identifier: Apache-2.0
"""Debian's kernels, fetched from where the machine's own packages come from and unpacked below the
build folder; never installed."""
import os
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
# The newest package that each depends on is the kernel.
META_PACKAGES = {"6.1": "linux-image-cloud", "6.12": "linux-image-6.12-cloud"}


def build_folder():
    return (ROOT / os.environ.get("BUILD", "build")).resolve()


def apt_of(architecture, folder):
    """Options of apt for another machine's packages: its own lists, and nothing installed."""
    if architecture == "amd64":
        return []
    state = folder / "apt"
    options = {"APT::Architecture": architecture, "APT::Architectures": architecture, "Dir::State": state / "state",
               "Dir::State::status": "/dev/null", "Dir::Cache": state / "cache", "APT::Sandbox::User": "root"}
    words = [word for name, value in options.items() for word in ("-o", f"{name}={value}")]
    if not state.exists():
        for part in ("state/lists/partial", "cache/archives/partial"):
            (state / part).mkdir(parents=True)
        # Third parties may have nothing for this architecture.
        subprocess.run(["apt-get", *words, "-q", "update"], capture_output=True, check=False)
    return words


def package_of(meta, apt):
    """The package that holds the kernel now."""
    said = subprocess.run(["apt-cache", *apt, "depends", "--important", meta], capture_output=True,
                          text=True, check=False).stdout
    found = [line.split()[-1] for line in said.splitlines() if "linux-image-" in line
             and line.strip().startswith("Depends:")]
    assert found, f"the package lists have no {meta}; apt-get update and Debian's security " \
                  f"archive are needed:\n{said}"
    return found[0]


def fetch(version, architecture="amd64"):
    """The kernel's file, fetched if it is not there."""
    kernels = build_folder() / "kernels"
    folder = kernels / (version if architecture == "amd64" else f"{version}-{architecture}")
    found = sorted(folder.glob("root/boot/vmlinuz-*"))
    if found:
        return found[-1]
    folder.mkdir(parents=True, exist_ok=True)
    apt = apt_of(architecture, kernels)
    package = package_of(f"{META_PACKAGES[version]}-{architecture}", apt)
    subprocess.run(["apt-get", *apt, "download", "-q", package], cwd=folder, check=True,
                   capture_output=True)
    archive = next(folder.glob(f"{package}_*.deb"))
    subprocess.run(["dpkg-deb", "-x", str(archive), str(folder / "root")], check=True)
    archive.unlink()
    return next(folder.glob("root/boot/vmlinuz-*"))
