# SPDX-License-Identifier: Apache-2.0
"""The Debian packages: installed, run, removed and purged in a Debian 12 of their own."""
import re
import subprocess

import pytest
import roots

PACKAGES = ("cairn", "cairn-agent", "cairn-collector")
# Whoever builds without DEBEMAIL is root of this machine.
ACCEPTED = {"bogus-mail-host", "bogus-mail-host-in-debian-changelog", "root-in-contact"}


def deb(name):
    (found,) = [path for path in roots.DIST.glob(f"{name}_*.deb")]
    return found


def field(name, which):
    return subprocess.run(["dpkg-deb", "--field", deb(name), which], check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    made = roots.make_root("bookworm", tmp_path_factory.mktemp("debs") / "root")
    made.run("apt-get", "update", "-qq")
    return made


def listing(root):
    """All that is in the root but what apt and dpkg keep about themselves."""
    found = root.run("find", "/", "-xdev", "(", "-path", "/proc", "-o", "-path", "/sys", "-o", "-path", "/dev", "-o", "-path", "/var/lib/apt",
                     "-o", "-path", "/var/cache", "-o", "-path", "/var/log", "-o", "-path", "/var/lib/dpkg", ")", "-prune", "-o", "-print")
    return set(found.stdout.splitlines())


def test_dependencies_are_those_of_the_programs():
    assert "libbpf1 (>= " in field("cairn-agent", "Depends")
    assert "librocksdb" in field("cairn-collector", "Depends") and "librocksdb" not in field("cairn", "Depends")
    assert "libc6 (>= " in field("cairn", "Depends")
    for program, library in re.findall(r"^(cairn\S*) (lib[a-z]+)", (roots.ROOT / "deploy/release/loaded.txt").read_text(), re.M):
        assert library in field(program, "Depends")


@pytest.mark.parametrize("name", ["cairn-agent", "cairn-collector"])
def test_upgrade_restarts_and_removal_stops(name, tmp_path):
    subprocess.run(["dpkg-deb", "--control", deb(name), tmp_path], check=True)
    after, before = (tmp_path / "postinst").read_text(), (tmp_path / "prerm").read_text()
    assert "deb-systemd-invoke $_dh_action" in after and "_dh_action=restart" in after
    assert re.search(rf"deb-systemd-invoke stop '?{name}", before)
    assert "deb-systemd-helper enable" not in re.sub(r"was-enabled.*?fi", "", after, flags=re.S)


def test_lintian_finds_nothing():
    done = subprocess.run(["lintian", "--allow-root", "--fail-on", "none", *(deb(name) for name in PACKAGES)], capture_output=True,
                          text=True, check=False)
    found = re.findall(r"^[EW]: \S+: (\S+)", done.stdout, re.M)
    assert set(found) <= ACCEPTED, done.stdout


def test_packages_come_run_and_go(root):
    before = listing(root)
    for name in PACKAGES:
        root.copy(deb(name), "tmp")
    root.run("apt-get", "install", "-y", "-qq", "--no-install-recommends", *(f"/tmp/{deb(name).name}" for name in PACKAGES), timeout=600)
    for name in PACKAGES:
        assert root.run(name, "--version").stdout.startswith(f"{name} ")
        assert re.search(r"^/usr/share/man/man", root.run("dpkg", "-L", name).stdout, re.M)
    checked = root.run("cairn-agent", "--check", "--collector", "127.0.0.1:1", check=False).stdout
    assert re.search(r"^ok +sampling +\d+ samples", checked, re.M), checked
    assert "/etc/cairn/agent.yaml" in root.run("dpkg-query", "--show", "--showformat=${Conffiles}", "cairn-agent").stdout
    assert "cairn-collector" in root.run("cat", "/etc/passwd").stdout

    root.run("sh", "-c", "echo 'frequency: 49' > /etc/cairn/agent.yaml; mkdir -p /var/lib/cairn /var/cache/cairn")
    root.run("apt-get", "install", "-y", "-qq", "--reinstall", f"/tmp/{deb('cairn-agent').name}")
    root.run("apt-get", "remove", "-y", "-qq", *PACKAGES)
    assert root.run("cat", "/etc/cairn/agent.yaml").stdout == "frequency: 49\n", "settings stay after remove and upgrade"
    assert root.run("test", "-e", "/usr/bin/cairn-agent", check=False).returncode
    root.run("apt-get", "purge", "-y", "-qq", "--autoremove", *PACKAGES)
    left = {path for path in listing(root) - before if "cairn" in path and not path.startswith("/tmp/")}
    assert left == set()
