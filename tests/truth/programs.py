# SPDX-License-Identifier: Apache-2.0
"""Builds the native programs as compilers, options and libraries differ."""
import fcntl
import pathlib
import shutil
import subprocess

from recording import build_folder

SOURCE = pathlib.Path(__file__).resolve().parent / "native"
ROOT = SOURCE.parents[2]
PARTS = ("chains.c", "steps.c", "leaves.c")
LINKS = {  # how a program is linked: (compile, link)
    "pie": (["-fPIE"], ["-pie"]),
    "nopie": (["-fno-pie"], ["-no-pie"]),
    "static": (["-fno-pie", "-DSTATIC"], ["-static"]),
    "staticpie": (["-fPIE", "-DSTATIC"], ["-static-pie"]),
    "gold": (["-fPIE"], ["-pie", "-fuse-ld=gold"]),  # of binutils, as ld is
    "lld": (["-fPIE"], ["-pie", "-fuse-ld=lld"]),
    "mold": (["-fPIE"], ["-pie", "-fuse-ld=mold"]),
    "musl": (["-fPIE", "-DNO_CPP"], ["-pie"]),
    "muslstatic": (["-fno-pie", "-DNO_CPP", "-DSTATIC"], ["-static"]),
}
FRAME_POINTERS = {"fp": "-fno-omit-frame-pointer", "nofp": "-fomit-frame-pointer"}
LINKERS = {"lld": "ld.lld", "mold": "mold"}
COMPILERS = {"gcc": ("gcc", "g++"), "clang": ("clang", "clang++"), "musl": ("musl-gcc", None),
             "aarch64": ("aarch64-linux-gnu-gcc", "aarch64-linux-gnu-g++")}


class Build:
    """One way to build; its name is the folder's."""

    def __init__(self, compiler, level, pointers, link, extra=()):
        self.compiler, self.level, self.pointers, self.link = compiler, level, pointers, link
        self.extra = list(extra)
        self.name = "-".join([compiler, level, pointers, link,
                              *[flag.lstrip("-").replace("=", "-") for flag in self.extra]])

    def is_static(self):
        return "static" in self.link

    def is_musl(self):
        return "musl" in self.link

    def missing(self):
        """What has to be installed first; None: nothing."""
        tools = [*COMPILERS[self.compiler], LINKERS.get(self.link)]
        return next((tool for tool in tools if tool and not shutil.which(tool)), None)

    def make(self):
        """Build what is not there or older than the sources; returns the folder. Another process may want it, too."""
        folder = build_folder() / "truth" / self.name
        folder.mkdir(parents=True, exist_ok=True)
        with open(folder / "lock", "w", encoding="ascii") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            self._make_in(folder)
        return folder

    def _make_in(self, folder):
        sources = [path for path in SOURCE.iterdir() if path.suffix in (".c", ".cpp", ".h")]
        newest = max(path.stat().st_mtime for path in sources)
        program = folder / "chains"
        if program.exists() and program.stat().st_mtime >= newest:
            return
        c, cpp = COMPILERS[self.compiler]
        flags = [f"-{self.level}", FRAME_POINTERS[self.pointers], *self.extra, *LINKS[self.link][0]]
        objects = []
        for part in PARTS:
            objects.append(self._compile(c, ["-std=gnu11", *flags], part, folder))
        if cpp:
            objects.append(self._compile(cpp, ["-std=c++17", *flags], "steps_cpp.cpp", folder))
        library = self._compile(c, ["-std=gnu11", f"-{self.level}", FRAME_POINTERS[self.pointers],
                                    "-fPIC"], "library.c", folder)
        run([c, "-shared", "-o", str(folder / "library.so"), library])
        run([cpp or c, *LINKS[self.link][1], "-o", str(program), *objects, "-lm", "-pthread"])

    @staticmethod
    def _compile(compiler, flags, part, folder):
        target = str(folder / (part.replace(".", "_") + ".o"))
        run([compiler, *flags, f"-I{ROOT}", "-w", "-c", str(SOURCE / part), "-o", target])
        return target


def run(argv):
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(argv)}\n{done.stderr}"


def single(name, *flags, sources=None, compiler="gcc"):
    """A program of one file, or of @sources, without frame pointers; returns its path."""
    target = build_folder() / "truth" / name
    target.parent.mkdir(parents=True, exist_ok=True)
    paths = [str(SOURCE / source) for source in sources or [f"{name}.c"]]
    run([compiler, "-std=gnu11", "-O2", "-fomit-frame-pointer", f"-I{ROOT}", "-w", *flags, "-o", str(target),
         *paths, "-pthread", "-ldl"])
    return target


def every_build():
    """The whole matrix."""
    builds = [Build(compiler, level, pointers, link)
              for compiler in ("gcc", "clang") for level in ("O0", "O1", "O2", "O3")
              for pointers in ("nofp", "fp") for link in ("pie", "nopie", "static", "staticpie")]
    builds += [Build("musl", level, "nofp", link)
               for level in ("O0", "O2") for link in ("musl", "muslstatic")]
    builds += [Build("gcc", "O2", "nofp", link) for link in ("gold", "lld", "mold")]
    builds += [Build("gcc", "O3", "nofp", "pie", ["-flto"]), Build("clang", "O2", "nofp", "lld"),
               # All that says how its C code unwinds is .debug_frame.
               Build("gcc", "O2", "nofp", "pie", ["-fno-asynchronous-unwind-tables", "-g"])]
    builds += [Build("gcc", "O2", "nofp", "pie", [flag])
               for flag in ("-fcf-protection=full", "-fcf-protection=none", "-flto",
                            "-fstack-clash-protection", "-fno-plt", "-mno-red-zone")]
    return builds


def few_builds():
    """A row of each kind."""
    return [Build("gcc", "O2", "nofp", "pie"), Build("gcc", "O0", "nofp", "static"),
            Build("clang", "O2", "nofp", "nopie"), Build("clang", "O3", "fp", "staticpie"),
            Build("musl", "O2", "nofp", "musl"), Build("gcc", "O3", "nofp", "nopie")]
