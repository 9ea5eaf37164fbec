# SPDX-License-Identifier: Apache-2.0
"""The images: started on a read-only root folder as their manifests start them, and what their SBOMs say."""
import json
import re
import subprocess

import pytest
import roots

USERS = {"agent": "", "collector": "10001:10001"}


def archive(program):
    (found,) = list(roots.DIST.glob(f"cairn-{program}-*.oci.tar"))
    return found


class ImageRoot(roots.Root):
    """An image's root folder, read-only but for /tmp and what @writable names, for the user that the image names."""

    def __init__(self, path, user, writable=()):
        super().__init__(path)
        self.user, self.writable = user, writable

    def within(self, *command):
        mounts = ["mount --bind $0 $0", "cd $0", "mount -o remount,bind,ro $0"]
        mounts += [f"mount --rbind /{place} $0/{place}" for place in ("proc", "sys", "dev")]
        owner = self.user.partition(":")[0] or "0"
        mounts += [f"mount -t tmpfs -o uid={owner},mode=0700 none $0{place}" for place in ("/tmp", *self.writable)]
        start = f"exec chroot {f'--userspec={self.user}' if self.user else ''} $0 \"$@\""
        return ["unshare", "--mount", "sh", "-ec", "; ".join([*mounts, start]), self.path, *command]


class Image:
    """An image that was pulled from its archive."""

    def __init__(self, program):
        self.container = self.buildah("from", "--pull-never", f"oci-archive:{archive(program)}")
        described = json.loads(self.buildah("inspect", self.container))
        self.config = described["OCIv1"]["config"]
        self.path = self.buildah("mount", self.container)

    @staticmethod
    def buildah(*arguments):
        return subprocess.run(["buildah", *arguments], check=True, capture_output=True, text=True).stdout.strip()

    def root(self, *writable):
        return ImageRoot(self.path, self.config.get("User", ""), writable)


@pytest.fixture(scope="module", params=USERS)
def program(request):
    return request.param


@pytest.fixture(scope="module")
def image(program):
    pulled = Image(program)
    yield pulled
    pulled.buildah("rm", pulled.container)


def version():
    return re.search(r"cairn-agent-([\d.]+)-", archive("agent").name)[1]


def test_images_have_program_and_cli(image, program):
    assert image.config["Entrypoint"] == [f"/usr/bin/cairn-{program}"]
    assert image.config.get("User", "") == USERS[program]
    assert image.config["Labels"]["org.opencontainers.image.version"] == version()
    for name in ("cairn", f"cairn-{program}"):
        assert image.root().run(f"/usr/bin/{name}", "--version").stdout == f"{name} {version()}\n"


def test_images_have_cas_and_no_compiler(image):
    root = image.root()
    assert "BEGIN CERTIFICATE" in root.run("head", "-n", "1", "/etc/ssl/certs/ca-certificates.crt").stdout
    for name in ("gcc", "python3", "perl5.36", "systemctl", "curl"):
        assert root.run("sh", "-c", f"command -v {name}", check=False).returncode, name


@pytest.mark.parametrize("program", ["agent"], indirect=True)
def test_agent_samples(image, program):
    checked = image.root().run(f"/usr/bin/cairn-{program}", "--check", "--collector", "127.0.0.1:1", "--cache", "none", check=False).stdout
    assert re.search(r"^ok +sampling +\d+ samples", checked, re.M), checked


@pytest.mark.parametrize("program", ["collector"], indirect=True)
def test_collector_is_ready(image, program):
    port = roots.free_port()
    assert image.config["Entrypoint"] == [f"/usr/bin/cairn-{program}"]
    assert image.config["Cmd"][:2] == ["--data", "/data"]
    root = image.root("/data")
    assert "Read-only file system" in root.run("touch", "/usr/bin/other", check=False).stdout
    with root.started(*image.config["Entrypoint"], "--data", "/data", "--grpc", f"127.0.0.1:{roots.free_port()}",
                      "--http", f"127.0.0.1:{port}") as collector:
        roots.wait_until_ready(f"http://127.0.0.1:{port}/readyz", collector)


def test_sbom_lists_all_packages(image, program):
    (path,) = list(roots.DIST.glob(f"cairn-{program}-*.spdx.json"))
    sbom = json.loads(path.read_text())
    listed = {package["name"]: package["versionInfo"] for package in sbom["packages"]}
    installed = image.root().run("dpkg-query", "--show", "--showformat", "${Package} ${Version}\\n").stdout
    assert listed == dict(line.split() for line in installed.splitlines())
    assert listed[f"cairn-{program}"].startswith(version()) and listed["cairn"].startswith(version())
    identifiers = [package["SPDXID"] for package in sbom["packages"]]
    assert sbom["spdxVersion"] == "SPDX-2.3" and len(set(identifiers)) == len(identifiers)
    assert {relation["relatedSpdxElement"] for relation in sbom["relationships"]} == set(identifiers)
    assert all(re.fullmatch(r"SPDXRef-[A-Za-z0-9.-]+", identifier) for identifier in identifiers)
