# SPDX-License-Identifier: Apache-2.0
"""The Python interpreters of this machine: the system's, pyenv's, and those that TRUTH_PYTHONS
names (paths with colons between)."""
import os
import pathlib
import re
import subprocess

ASK = "import sys; print('%d.%d.%d' % sys.version_info[:3]," \
      " 't' if 'free-threading' in sys.version else '-')"
OLDEST = (3, 6)


class Interpreter:
    def __init__(self, path, version, free_threaded):
        self.path, self.version, self.free_threaded = path, version, free_threaded
        place = "system" if path.startswith("/usr/") else "other"
        if ".pyenv" in path:
            place = "pyenv"
        self.name = f"{'.'.join(map(str, version))}{'t' if free_threaded else ''}-{place}"

    def calls_inline(self):
        """Python functions call each other within one native frame."""
        return self.version >= (3, 11)


def ask(path):
    """An Interpreter, or None where the path is none."""
    try:
        done = subprocess.run([path, "-c", ASK], capture_output=True, text=True, timeout=20,
                              check=False)
    except OSError:
        return None
    match = re.match(r"(\d+)\.(\d+)\.(\d+) (\S)", done.stdout)
    if done.returncode or not match or tuple(map(int, match.groups()[:2])) < OLDEST:
        return None
    return Interpreter(path, tuple(map(int, match.groups()[:3])), match.group(4) == "t")


def candidates():
    root = pathlib.Path(os.environ.get("PYENV_ROOT", "~/.pyenv")).expanduser()
    paths = sorted(str(path) for path in root.glob("versions/*/bin/python"))
    paths += ["/usr/bin/python3"]
    return paths + [path for path in os.environ.get("TRUTH_PYTHONS", "").split(":") if path]


def interpreters():
    """All of them, oldest first."""
    found = [ask(path) for path in candidates()]
    return sorted((one for one in found if one), key=lambda one: (one.version, one.path))


def newest():
    found = interpreters()
    return found[-1:] if found else []
