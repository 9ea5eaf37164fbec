# SPDX-License-Identifier: Apache-2.0
"""A certificate authority of a test: certificates, also expired ones, and its revocation list."""
import datetime
import pathlib
import subprocess

CONFIG = """
[ca]
default_ca = this
[this]
dir = {folder}
database = $dir/index.txt
new_certs_dir = $dir
certificate = $dir/ca.crt
private_key = $dir/ca.key
serial = $dir/serial
crlnumber = $dir/crlnumber
default_md = sha256
policy = anything
unique_subject = no
copy_extensions = copy
default_crl_days = 30
[anything]
commonName = supplied
"""


def run(*argv):
    done = subprocess.run([str(word) for word in argv], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{argv}: {done.stderr}"


class Certificate:
    def __init__(self, crt, key):
        self.crt = str(crt)
        self.key = str(key)

    def replace_by(self, other):
        """Move the other's files over these, the key first, as a renewal does."""
        pathlib.Path(other.key).rename(self.key)
        pathlib.Path(other.crt).rename(self.crt)


class Authority:
    def __init__(self, folder, name="cairn test CA"):
        self.folder = pathlib.Path(folder)
        self.folder.mkdir(parents=True)
        self.crt = str(self.folder / "ca.crt")
        self.crl = str(self.folder / "ca.crl")
        self._count = 0
        (self.folder / "ca.conf").write_text(CONFIG.format(folder=self.folder))
        (self.folder / "index.txt").write_text("")
        (self.folder / "serial").write_text("1000\n")
        (self.folder / "crlnumber").write_text("01\n")
        run("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
            "-nodes", "-days", "30", "-subj", f"/CN={name}", "-keyout", self.folder / "ca.key",
            "-out", self.crt, "-addext", "basicConstraints=critical,CA:TRUE",
            "-addext", "keyUsage=critical,keyCertSign,cRLSign")
        self.write_crl()

    def issue(self, name, san=None, usage="clientAuth", days=(-1, 30)):
        """A certificate whose validity begins and ends so many days from now."""
        self._count += 1
        base = self.folder / f"{self._count}-{name.replace('*', 'any')}"
        crt, key, csr = base.with_suffix(".crt"), base.with_suffix(".key"), base.with_suffix(".csr")
        extensions = ["-addext", f"extendedKeyUsage={usage}"]
        if san:
            extensions += ["-addext", f"subjectAltName={san}"]
        run("openssl", "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
            "-subj", f"/CN={name}", "-keyout", key, "-out", csr, *extensions)
        now = datetime.datetime.utcnow()
        begin, end = [(now + datetime.timedelta(days=d)).strftime("%Y%m%d%H%M%SZ") for d in days]
        run("openssl", "ca", "-batch", "-notext", "-config", self.folder / "ca.conf", "-in", csr,
            "-out", crt, "-startdate", begin, "-enddate", end)
        return Certificate(crt, key)

    def server(self, days=(-1, 30)):
        return self.issue("collector", "DNS:localhost,IP:127.0.0.1", "serverAuth", days)

    def revoke(self, certificate):
        run("openssl", "ca", "-config", self.folder / "ca.conf", "-revoke", certificate.crt)
        self.write_crl()

    def write_crl(self):
        new = f"{self.crl}.new"
        run("openssl", "ca", "-config", self.folder / "ca.conf", "-gencrl", "-out", new)
        pathlib.Path(new).rename(self.crl)
