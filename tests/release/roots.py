# SPDX-License-Identifier: Apache-2.0
"""Root folders of Debian releases, made by mmdebstrap from this machine's own sources of packages."""
import contextlib
import os
import pathlib
import shutil
import socket
import subprocess
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = ROOT / os.environ.get("BUILD", "build")
DIST = BUILD / "dist"
ENVIRONMENT = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C", "DEBIAN_FRONTEND": "noninteractive"}
READY_SECONDS = 60


def free_port():
    """Of loopback; nobody has it now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_until_ready(url, process):
    """Until @url is answered with success; the process must not end meanwhile."""
    deadline = time.monotonic() + READY_SECONDS
    while True:
        try:
            with urllib.request.urlopen(url, timeout=5) as answer:
                assert answer.status == 200
                return
        except OSError:
            assert process.poll() is None and time.monotonic() < deadline, f"{url} is not answered"
            time.sleep(0.1)


def apt_sources(release):
    """Lines of sources.list for @release, of the servers that this machine's apt uses for Debian."""
    pattern = "deb $(REPO_URI) $(CODENAME) $(COMPONENT)"
    listed = subprocess.run(["apt-get", "indextargets", "--format", pattern, "Created-By: Packages", "Origin: Debian", "Label: Debian"],
                            check=True, capture_output=True, text=True).stdout
    lines = {" ".join([*line.split()[:2], release, *line.split()[3:]]) for line in listed.splitlines()}
    return "\n".join(sorted(lines)) + "\n"


class Root:
    """A root folder that programs run in, with this machine's /proc, /sys and /dev."""

    def __init__(self, path):
        self.path = path

    def within(self, *command):
        """The command line that runs @command there."""
        mounts = "for place in proc sys dev; do mkdir -p $0/$place; mount --rbind /$place $0/$place; done; exec chroot $0 \"$@\""
        return ["unshare", "--mount", "sh", "-ec", mounts, self.path, *command]

    @contextlib.contextmanager
    def started(self, *command):
        """A program that is running there; it has to end well at SIGTERM."""
        process = subprocess.Popen(self.within(*command), stdin=subprocess.DEVNULL, env=ENVIRONMENT)
        try:
            yield process
        finally:
            process.terminate()
            status = process.wait(30)
        assert status == 0, f"{command}: {status}"

    def run(self, *command, check=True, timeout=300):
        """A completed process; what it printed, standard error too, is its stdout."""
        done = subprocess.run(self.within(*command), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, check=False, timeout=timeout, env=ENVIRONMENT)
        assert not check or done.returncode == 0, f"{command}: {done.returncode}\n{done.stdout}"
        return done

    def copy(self, file, place):
        """A file of this machine into the root's folder @place."""
        (self.path / place).mkdir(parents=True, exist_ok=True)
        shutil.copy(file, self.path / place)


def make_root(release, folder):
    """Of Debian's @release; its packages are kept below build/ for the next time."""
    kept = BUILD / "roots" / f"{release}.tar"
    if not kept.exists():
        kept.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(["mmdebstrap", "--quiet", "--variant=minbase", "--format=tar", release, f"{kept}.part", "-"], input=apt_sources(release),
                       check=True, text=True)
        os.rename(f"{kept}.part", kept)
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run(["tar", "--extract", "--file", kept, "--directory", folder, "--numeric-owner", "--exclude=./dev/*"], check=True)
    shutil.copy("/etc/resolv.conf", folder / "etc/resolv.conf")
    return Root(folder)
