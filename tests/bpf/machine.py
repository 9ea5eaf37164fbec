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
MEMORY_MIB = 2048
DISK_BYTES = 1 << 30  # sparse
MERGED_FOLDERS = ("bin", "lib", "lib64")

Job = collections.namedtuple("Job", "words status output")


class Architecture:
    """What a machine is emulated by, and where its programs and libraries are here: below @root."""

    def __init__(self, name, emulator, arguments, console, tools="", root="/"):
        self.name, self.emulator, self.arguments, self.console = name, emulator, arguments, console
        self.tools = tools  # what the compiler's name begins with
        self.root = pathlib.Path(root)

    def place(self, path):
        """Of a file there, here."""
        return self.root / str(path).lstrip("/")

    def libraries_of(self, program):
        """{path there: path here} of the shared libraries that an executable or library needs, and of the loader."""
        if self.root == pathlib.Path("/"):
            listed = subprocess.run(["ldd", program], capture_output=True, text=True, check=False).stdout
            return {path: path for path in re.findall(r"(/\S+) \(0x", listed)}
        found, left = {}, [program]
        while left:
            listed = subprocess.run(["readelf", "-dlW", left.pop()], capture_output=True, text=True, check=True).stdout
            names = re.findall(r"\(NEEDED\).*\[(.*)\]", listed) + re.findall(r"program interpreter: (\S+)\]", listed)
            for name in names:
                path = next(path for path in self._candidates(name) if self.place(path).exists())
                if path not in found:
                    found[path] = str(self.place(path))
                    left.append(found[path])
        return found

    def _candidates(self, name):
        return [name] if name.startswith("/") else [f"{folder}/{self.name}-linux-gnu/{name}" for folder in ("/lib", "/usr/lib")]


X86_64 = Architecture("x86_64", "qemu-system-x86_64", ["-cpu", "max"], "ttyS0")


def aarch64(root):
    """Its pointer authentication is qemu's own: the processors' takes most of an emulator's time. Its clocks count instructions, 2 ns
    each: budgets of CPU time hold however busy this machine is."""
    return Architecture("aarch64", "qemu-system-aarch64", ["-machine", "virt", "-cpu", "max,pauth-impdef=on", "-icount", "shift=1,sleep=off"],
                        "ttyAMA0", "aarch64-linux-gnu-", root)


def cpio_entry(name, mode, content=b""):
    """One file of an initramfs (the kernel's Documentation/driver-api/early-userspace/buffer-format.rst)."""
    path = name.encode() + b"\0"
    fields = (0, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(path), 0)
    entry = b"070701" + "".join("%08x" % field for field in fields).encode() + path
    entry += b"\0" * (-len(entry) % 4)
    return entry + content + b"\0" * (-len(content) % 4)


def is_elf(path):
    with open(path, "rb") as file:
        return file.read(4) == b"\x7fELF"


def merged(name):
    """Where a file of Debian's is, which has links in the places of some folders."""
    name = name.lstrip("/")
    return f"usr/{name}" if name.partition("/")[0] in MERGED_FOLDERS else name


class Machine:
    """@kernel: a vmlinuz. @files: {path there: path here}; what they are linked with comes along."""

    def __init__(self, kernel, files, cpus=2, architecture=X86_64):
        self.kernel, self.cpus, self.architecture = str(kernel), cpus, architecture
        self.files = {merged(name): str(path) for name, path in files.items()}
        self.files.setdefault(merged("/bin/true"), str(architecture.place("/bin/true")))
        for path in list(self.files.values()):
            if is_elf(path):
                self.files.update({merged(name): here for name, here in architecture.libraries_of(path).items()})
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
            subprocess.run([f"{self.architecture.tools}gcc", "-static", "-O1", "-o", init, str(HERE / "init.c")], check=True)
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
        argv = [self.architecture.emulator, *self.architecture.arguments, "-accel", "tcg,thread=single", "-smp", str(self.cpus),
                "-m", str(MEMORY_MIB), "-nographic", "-no-reboot", "-nic", "none",
                "-drive", f"if=none,id=disk,format=raw,cache=unsafe,file={disk}", "-device", "nvme,drive=disk,serial=tests",
                "-kernel", self.kernel, "-initrd", initramfs,
                "-append", f"console={self.architecture.console} panic=-1 loglevel=3"]
        try:
            boot = subprocess.run(argv, capture_output=True, timeout=timeout, check=False,
                                  stdin=subprocess.DEVNULL)
            console = boot.stdout
        except subprocess.TimeoutExpired as late:
            console = (late.stdout or b"") + b"\n(timed out)"
        return console.decode(errors="replace").replace("\r\n", "\n")
