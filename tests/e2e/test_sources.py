# SPDX-License-Identifier: Apache-2.0
"""Lines of functions with their source text: of uploads and of folders, by the version that ran; and nothing else, whatever paths frames
record and whatever is uploaded."""
import hashlib
import http.client
import json
import os
import subprocess
import time
import urllib.parse

import pytest

from fleet import ROOT, Collector, program, unique, workload
from pprof_file import field, varint
from secure_collector import SecureCollector

SECONDS = 2  # of the workload
FREQUENCY = ("--frequency", "499")
MEGABYTE = 1 << 20


# ---- a function of a real program ----------------------------------------------------------------


def upload(collector, *words, token=None):
    flags = ["--token-file", str(token), "--insecure"] if token else []
    return subprocess.run([program("cairn"), "upload", "--collector-http", f"http://{collector.http}", "--sources", *flags, *map(str, words)],
                          capture_output=True, text=True, check=False)


def lines_of(collector, service, function, **parameters):
    return collector.api.get("lines", query=f'{{service="{service}"}}', function=function, **{"from_": "now-10m", **parameters})


def test_lines_stand_beside_their_text(tmp_path, start_agent):
    folder = ROOT / "tests/workloads"
    text = (folder / "burn_python.py").read_text().splitlines()
    service = unique("source")
    checkout = tmp_path / "checkout"
    checkout.mkdir()
    with Collector(tmp_path / "data", tmp_path / "collector.log") as collector:
        start_agent(collector, *FREQUENCY)
        process = workload("burn_python.py", "--seconds", str(SECONDS),
                           env={"OTEL_SERVICE_NAME": service, "OTEL_RESOURCE_ATTRIBUTES": "service.version=1.4"})
        collector.api.wait_for_total(service, process.truth()["process_cpu_ns"])
        answer = lines_of(collector, service, "spin (burn_python.py)")
        assert [file["missing"] for file in answer["files"]] == ["not_found"]

        done = upload(collector, "--for-version", "1.4", "--at", folder, folder)
        assert done.returncode == 0, done.stderr
        answer = lines_of(collector, service, "spin (burn_python.py)")
        [file] = answer["files"]
        assert file["path"] == str(folder / "burn_python.py") and file["version"] == "1.4" and file["service"] == service
        assert file["source"]["is_version"] and file["source"]["who"] and abs(file["source"]["uploaded"] - time.time()) < 600
        assert file["source"]["names_function"] and not file["source"]["is_short"] and file["source"]["others"] == 0
        assert all(line["text"] == text[line["line"] - 1] for line in file["lines"]), file["lines"]
        totals = {line["text"].strip(): line["total"] for line in file["lines"]}
        assert totals["total += i * i % 7"] + totals["for i in range(2000):"] > 0.9 * answer["function_total"] > 0.4 * answer["total"], totals
        assert sum(line["self"] for line in file["lines"]) == answer["function_self"]

        done = subprocess.run([program("cairn"), "query", service, "--function", "spin (burn_python.py)", "--collector-http", f"http://{collector.http}"],
                              capture_output=True, text=True, check=True)
        assert "            total += i * i % 7\n" in done.stdout and "of version 1.4, uploaded" in done.stdout
        done = subprocess.run([program("cairn"), "query", service, "--function", "nobody", "--collector-http", f"http://{collector.http}"],
                              capture_output=True, text=True, check=False)
        assert done.returncode == 1 and "no function is called" in done.stderr

        # Another text of the same version is refused; the same is not.
        assert upload(collector, "--for-version", "1.4", "--at", folder, folder).returncode == 0
        (checkout / "other.py").write_text("x = 1\n")
        done = upload(collector, "--for-version", "1.4", checkout)
        assert done.returncode == 1 and "the role admin may delete" in done.stderr
        assert len(collector.api.get("sources")["archives"]) == 1


# ---- hostile paths and uploads -------------------------------------------------------------------


def pprof(places):
    """A profile with a sample of each (function, path, line)."""
    strings = ["", "cpu", "nanoseconds", *[text for name, path, _ in places for text in (name, path)]]
    out = field(1, field(1, 1) + field(2, 2))
    for number, (_, _, line) in enumerate(places, 1):
        out += field(2, field(1, varint(number)) + field(2, varint(10_000_000)))
        out += field(4, field(1, number) + field(4, field(1, number) + field(2, line)))
        out += field(5, field(1, number) + field(2, 2 * number + 1) + field(4, 2 * number + 2))
    for string in strings:
        out += field(6, string)
    return out + field(9, int((time.time() - 30) * 1e9)) + field(10, 10**10) + field(11, field(1, 1) + field(2, 2))


class Client:
    """A token's requests."""

    def __init__(self, collector, token):
        self.collector, self.token = collector, token

    def ask(self, method, path, body=None, **parameters):
        """(status, answer)."""
        query = "?" + urllib.parse.urlencode(parameters) if parameters else ""
        connection = http.client.HTTPConnection("localhost", self.collector.http_port, timeout=30)
        try:
            connection.request(method, f"/api/v1/{path}{query}", body,
                               {"Authorization": f"Bearer {self.token.read_text().strip()}", "Cairn-Client": "test"})
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read() or b"{}")
        finally:
            connection.close()

    def push(self, service, places):
        status, answer = self.ask("POST", "push", pprof(places), service=service)
        assert status == 200, answer

    def files(self, function):
        """Of the function of this bare name: what is in a .py file is taken for Python's, whose name has the file."""
        status, answer = self.ask("GET", "top", limit=1000, lines="none", **{"from": "now-10m"})
        assert status == 200, answer
        [name] = [row["name"] for row in answer["rows"] if row["name"].split(" (")[0] == function]
        status, answer = self.ask("GET", "lines", function=name, **{"from": "now-10m"})
        assert status == 200, answer
        return answer["files"]

    def put(self, archive, digest=None):
        return self.ask("PUT", f"sources/{digest or hashlib.sha256(archive).hexdigest()}", archive)


def archive_of(files, service="", version=""):
    head = f"cairn sources 1\nservice {service}\nversion {version}\n" + "".join(f"{len(text)} {path}\n" for path, text in files)
    return head.encode() + b"\n" + b"".join(text for _, text in files)


@pytest.fixture(name="shop")
def collector_with_folders(tmp_path):
    """A collector with two tenants; the shop's checkout has what must not be read beside what may."""
    checkout = tmp_path / "checkout"
    (checkout / "app/.hidden").mkdir(parents=True)
    (tmp_path / "outside").mkdir()
    secret = b"SECRET = 'outside'\n" * 3
    for path in ("outside/secret.py", "checkout/.env.py", "checkout/app/.hidden/a.py", "checkout/key.pem", "secret.py"):
        (tmp_path / path).write_bytes(secret)
    (checkout / "app/model.py").write_text("import x\ndef forward(): pass\n")
    (checkout / "app/link.py").symlink_to(tmp_path / "outside/secret.py")
    (checkout / "linked").symlink_to(tmp_path / "outside")
    (checkout / "binary.c").write_bytes(b"\x7fELF\0\0SECRET\n")
    os.mkfifo(checkout / "fifo.c")
    with (checkout / "large.c").open("wb") as large:
        large.truncate(100 * MEGABYTE)
    collector = SecureCollector(tmp_path, "--source-folders", f"shop={checkout}")
    collector.clients = {name: Client(collector, collector.new_token(name, roles, name.split("-")[0])) for name, roles in {
        "shop": "ingest,read,upload", "bank": "ingest,read,upload", "bank-reader": "read", "bank-admin": "admin", "shop-admin": "admin"}.items()}
    with collector:
        yield collector


def test_hostile_paths_read_nothing_else(shop, tmp_path):
    places = ["/etc/shadow", "/etc/passwd", "../../secret.py", "/srv/../secret.py", "/srv/app/../../secret.py", "../outside/secret.py",
              f"{tmp_path}/secret.py", f"{tmp_path}/outside/secret.py", "app/link.py", "linked/secret.py", ".env.py", "app/.hidden/a.py",
              "key.pem", "fifo.c", "app", "app/", "/", "", "app/model.py\0/../../secret.py", "a/" * (MEGABYTE // 2) + "secret.py",
              "s" * MEGABYTE + ".py", "%2e%2e/secret.py", "..\\secret.py", "/proc/self/environ", "/dev/stdin.c", "/srv/\nsecret.py"]
    client = shop.clients["shop"]
    for number, path in enumerate(places):
        client.push("hostile", [(f"f{number}", path, 1)])
    client.push("good", [("forward", "/srv/shop/app/model.py", 2), ("large", "/srv/large.c", 1), ("binary", "/srv/binary.c", 1)])
    for number, path in enumerate(places):
        [file] = client.files(f"f{number}")
        # A string ends at its first NUL byte.
        if path.startswith("app/model.py\0"):
            assert file["path"] == "app/model.py" and file["lines"][0]["text"] == "import x"
            continue
        assert "source" not in file and file["missing"] in ("not_found", "no_path", "not_text", "gone"), (path[:80], file)
        assert all("text" not in line for line in file["lines"]), path[:80]
    [file] = client.files("forward")
    assert [line["text"] for line in file["lines"]] == ["import x", "def forward(): pass"]
    assert file["source"]["from"] == "folder" and not file["source"]["is_version"] and file["source"]["path"] == "app/model.py"
    for function in ("large", "binary"):
        assert client.files(function)[0]["missing"] == "not_text"
    # The same frame of another tenant shows nothing, and the collector lives.
    shop.clients["bank"].push("good", [("forward", "/srv/shop/app/model.py", 2)])
    assert shop.clients["bank"].files("forward")[0]["missing"] == "not_found"
    audited = [json.loads(line) for line in (tmp_path / "data/audit.log").read_text().splitlines()]
    assert any(line["path"] == "/api/v1/lines" and line["parameters"]["function"] == "forward (model.py)" and line["tenant"] == "bank" for line in audited)


def test_hostile_uploads_are_refused(shop):
    client = shop.clients["bank"]
    good = archive_of([("app/a.py", b"def f(): pass\n")], version="1.4")
    for what, archive in {
            "no archive": b"\x7fELF" + bytes(100), "nothing": b"", "up": archive_of([("../a.py", b"x")]), "absolute": archive_of([("/a.py", b"x")]),
            "hidden": archive_of([(".a.py", b"x")]), "no source": archive_of([("shadow", b"x")]), "unsorted": archive_of([("b.c", b""), ("a.c", b"")]),
            "cut": good[:-1], "longer": good + b"x", "a NUL byte": archive_of([("a\0.py", b"x")]),
            "a path of a megabyte": archive_of([("a" * MEGABYTE + ".py", b"x")]), "no end": b"cairn sources 1\n" + b"a" * MEGABYTE,
            "a name of many bytes": archive_of([], version="1" * 300)}.items():
        status, answer = client.put(archive)
        assert 400 <= status < 500, (what, status, answer)
        assert answer["error"]["message"], what
    status, answer = client.put(archive_of([("a.c", bytes(5 * MEGABYTE))]))
    assert status == 413, answer
    status, answer = client.put(good, digest="00" * 32)
    assert status == 400 and hashlib.sha256(good).hexdigest() in answer["error"]["message"]
    for name in ("..%2f..%2fetc", "abc", "A" * 64, "%00"):
        assert client.ask("PUT", f"sources/{name}", good)[0] in (400, 404, 405), name
    assert client.ask("GET", "sources")[1]["archives"] == []


def test_uploads_are_of_their_tenant(shop):
    bank, other = shop.clients["bank"], shop.clients["shop"]
    archive = archive_of([("app/a.py", b"def f(): <script>\n")], version="1.4")
    reader, admin = shop.clients["bank-reader"], shop.clients["bank-admin"]
    digest = hashlib.sha256(archive).hexdigest()

    assert reader.put(archive)[0] == 403
    status, answer = bank.put(archive)
    assert status == 201, answer
    for client in (bank, other):
        client.push("web", [("f", "/srv/app/a.py", 1)])
    [file] = reader.files("f")
    assert file["lines"][0]["text"] == "def f(): <script>" and file["source"]["who"] == "token:bank", file
    assert other.files("f")[0]["missing"] == "not_found"
    assert other.ask("GET", "sources")[1]["archives"] == []
    assert admin.ask("GET", "lines", function="f")[0] == 403
    assert bank.ask("DELETE", f"sources/{digest}")[0] == 403
    assert shop.clients["shop-admin"].ask("DELETE", f"sources/{digest}")[0] == 404
    assert admin.ask("DELETE", f"sources/{digest}")[0] == 200
    assert bank.files("f")[0]["missing"] == "not_found"


def test_wrong_folders_are_refused(tmp_path):
    for folders, words in [("relative", "absolute path"), ("/nowhere", "No such file"), (f"{tmp_path},", "absolute path")]:
        done = subprocess.run([program("cairn-collector"), "--data", str(tmp_path / "data"), "--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0",
                               "--source-folders", folders], capture_output=True, text=True, timeout=20, check=False)
        assert done.returncode != 0 and "--source-folders" in done.stderr and words in done.stderr, done.stderr
