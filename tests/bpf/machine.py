# SPDX-License-Identifier: Apache-2.0
"""An emulated machine with another kernel: an initramfs of files from here, and jobs it runs."""
import collections
import os
import pathlib
import re
import shutil
import subprocess
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
EMULATOR = "qemu-system-x86_64"
MEMORY_MIB = 2048
DISK_BYTES = 1 << 30  # sparse
MERGED_FOLDERS = ("bin", "lib", "lib64")

Job = collections.namedtuple("Job", "words status output")


def cpio_entry(name, mode, content=b""):
    """One file of an initramfs (the kernel's Documentation/driver-api/early-userspace/buffer-format.rst)."""
    path = name.encode() + b"\0"
    fields = (0, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(path), 0)
    entry = b"070701" + "".join("%08x" % field for field in fields).encode() + path
    entry += b"\0" * (-len(entry) % 4)
    return entry + content + b"\0" * (-len(content) % 4)


def libraries_of(program):
    """The shared libraries that an executable or library needs; none for other files."""
    listed = subprocess.run(["ldd", program], capture_output=True, text=True, check=False).stdout
    return re.findall(r"(/\S+) \(0x", listed)


def is_elf(path):
    with open(path, "rb") as file:
        return file.read(4) == b"\x7fELF"


def merged(name):
    """Where a file of Debian's is, which has links in the places of some folders."""
    first, _, rest = name.lstrip("/").partition("/")
    return f"usr/{first}/{rest}" if first in MERGED_FOLDERS else f"{first}/{rest}"


class Machine:
    """@kernel: a vmlinuz. @files: {path there: path here}; what they are linked with comes along."""

    def __init__(self, kernel, files, cpus=2):
        self.kernel, self.cpus = str(kernel), cpus
        self.files = {merged(name): str(path) for name, path in files.items()}
        self.files.setdefault(merged("/bin/true"), shutil.which("true"))
        for path in list(self.files.values()):
            if is_elf(path):
                self.files.update({merged(library): library for library in libraries_of(path)})
        self.release = ""

    def _make_initramfs(self, init, jobs, path):
        folders = {"proc", "sys", "dev", "tmp", "root"}
        for name in self.files:
            while name := os.path.dirname(name):
                folders.add(name)
        with open(path, "wb") as archive:
            for folder in sorted(folders):
                archive.write(cpio_entry(folder, 0o40755))
            for folder in MERGED_FOLDERS:
                archive.write(cpio_entry(folder, 0o120777, f"usr/{folder}".encode()))
            archive.write(cpio_entry("jobs", 0o100644, "".join(f"{job}\n" for job in jobs).encode()))
            for name, source in sorted({**self.files, "init": init}.items()):
                archive.write(cpio_entry(name, 0o100755, pathlib.Path(source).read_bytes()))
            archive.write(cpio_entry("TRAILER!!!", 0))

    def run(self, jobs, timeout):
        """Boot, run the jobs (lines of words) one after the other, and switch off; returns a Job
        for each that was run."""
        with tempfile.TemporaryDirectory() as folder:
            init, initramfs = os.path.join(folder, "init"), os.path.join(folder, "initramfs")
            subprocess.run(["gcc", "-static", "-O1", "-o", init, str(HERE / "init.c")], check=True)
            self._make_initramfs(init, jobs, initramfs)
            disk = os.path.join(folder, "disk")
            with open(disk, "wb") as file:
                file.truncate(DISK_BYTES)
            subprocess.run(["/sbin/mke2fs", "-q", "-t", "ext4", disk], check=True)
            console = self._boot(initramfs, disk, timeout)
        on = re.search(r"# on (\S+)", console)
        self.release = on.group(1) if on else ""
        done = re.findall(r"^# begin [^\n]*\n(.*?)^# exited (\d+)", console, re.M | re.S)
        assert len(done) == len(jobs), f"ran {len(done)} of {len(jobs)} jobs:\n{console[-6000:]}"
        return [Job(words, int(status), output) for words, (output, status) in zip(jobs, done)]

    def _boot(self, initramfs, disk, timeout):
        # Each CPU in a thread of its own hung every tenth time or so: one waited for the other, which ran
        # into the same breakpoint for ever where a tracepoint's call was just being patched.
        # Time that is counted in instructions (-icount) made it ten times as slow.
        argv = [EMULATOR, "-accel", "tcg,thread=single", "-cpu", "max", "-smp", str(self.cpus),
                "-m", str(MEMORY_MIB), "-nographic", "-no-reboot", "-nic", "none",
                "-drive", f"if=none,id=disk,format=raw,cache=unsafe,file={disk}", "-device", "nvme,drive=disk,serial=tests",
                "-kernel", self.kernel, "-initrd", initramfs,
                "-append", "console=ttyS0 panic=-1 loglevel=3"]
        try:
            boot = subprocess.run(argv, capture_output=True, timeout=timeout, check=False,
                                  stdin=subprocess.DEVNULL)
            console = boot.stdout
        except subprocess.TimeoutExpired as late:
            console = (late.stdout or b"") + b"\n(timed out)"
        return console.decode(errors="replace").replace("\r\n", "\n")
