# SPDX-License-Identifier: Apache-2.0
"""What tests/truth/python/chains.py says about its frames, and whether a sampled stack is one of
its chains: names, lines, and where native frames stand between Python's."""
import json
import os
import re

from stacks import Verdict, is_kernel, is_python

# The program's own bookkeeping, on the way to a chain and back: what it calls does not matter.
BOOKKEEPING = {"announce", "clock", "draw", "entered", "entered.<locals>.mark", "mark", "name_thread",
               "print_chains", "chain_lines", "shared_file", "take_chains"}
PROGRAM = ("chains.py", "torch_chains.py", "<made up>", "made_up.py")
GAP_MAX = 60
THREAD_FRAMES_MAX = 14  # of one that runs no Python
INTERPRETER = re.compile(r"^(python[0-9.]*t?|libpython.*)$")
UNNAMED = re.compile(r"\+0x[0-9a-f]+$")


class Split:
    """A stack's Python frames, and the native frames before each of them and after the last."""

    def __init__(self, stack):
        self.python, self.gaps = [], [[]]
        for frame in stack.frames:
            if is_kernel(frame):
                break
            if is_python(frame):
                self.python.append(frame)
                self.gaps.append([])
            else:
                self.gaps[-1].append(frame)

    def without_bookkeeping(self):
        """Up to what the program does for itself, or what libraries do for its last function."""
        count = next((at for at, frame in enumerate(self.python) if frame.name in BOOKKEEPING),
                     len(self.python))
        while count and os.path.basename(self.python[count - 1].file) not in PROGRAM:
            count -= 1
        return self.python[:count]


class PythonChains:
    def __init__(self, lines, interpreter):
        self.interpreter = interpreter
        self.full = {}       # names and lines of callers: [chain]
        self.beginnings = {}  # the same of each part of a chain from its root: how it was entered
        self.chains = []      # (names, lines, chain)
        for line in sorted(set(lines)):
            self._add(json.loads(line))

    def _name(self, frame):
        return frame[0] if self.interpreter.version >= (3, 11) else frame[1]

    def _add(self, chain):
        names = tuple(self._name(frame) for frame in chain)
        numbers = tuple(frame[3] for frame in chain)
        self.full.setdefault((names, numbers[:-1]), []).append(chain)
        self.chains.append((names, numbers, chain))
        for count in range(1, len(chain) + 1):
            self.beginnings.setdefault((names[:count], numbers[:count - 1]), chain)

    def _leaf_line_is_right(self, chain, frame):
        lines = chain[-1][4]
        return not lines or lines[0] <= frame.line <= lines[1]

    def find(self, frames):
        """(fit, chain) as Chains.fit()."""
        names = tuple(frame.name for frame in frames)
        numbers = tuple(frame.line for frame in frames)
        for chain in self.full.get((names, numbers[:-1]), ()):
            if self._leaf_line_is_right(chain, frames[-1]):
                return "full", chain
        chain = self.beginnings.get((names, numbers[:-1]))
        return ("beginning", chain) if chain else (None, None)

    def find_inside(self, frames):
        """(chain, place) where the frames stand in a chain without a gap; (None, 0)."""
        names = tuple(frame.name for frame in frames)
        numbers = tuple(frame.line for frame in frames)
        count = len(names)
        for known, chain_numbers, chain in self.chains:
            for at in range(len(known) - count, -1, -1):
                if known[at:at + count] == names and \
                        chain_numbers[at:at + count - 1] == numbers[:-1]:
                    return chain, at
        return None, 0

    def names_only(self, frames):
        names = tuple(frame.name for frame in frames)
        return any(known[0] == names for known in self.beginnings)

    def files_are_right(self, frames, chain):
        return all(frame.file == said[2] for frame, said in zip(frames, chain))

    # ---- where native frames stand ----------------------------------------------------------

    def gap_is_right(self, gap, how):
        if how == "any":
            return len(gap) <= GAP_MAX
        if how == "python":
            if self.interpreter.calls_inline():
                return not gap
            return len(gap) <= 8 and all(INTERPRETER.match(os.path.basename(frame.module))
                                         for frame in gap)
        names = [frame.name for frame in gap]
        if how.startswith("="):
            return how[1:] in names
        named = [name for name in names if not UNNAMED.search(name)]
        # A stripped interpreter names what it exports only.
        return bool(gap) and (any(re.search(how, name, re.I) for name in named)
                              or len(named) < len(names))

    def interleaving_is_right(self, split, count, chain, first=0):
        return all(self.gap_is_right(split.gaps[i], chain[first + i][5])
                   for i in range(1, count))

    @staticmethod
    def root_is_right(gap, is_main):
        names = [frame.name for frame in gap]
        if is_main:
            return len(names) >= 4 and names[0] == "_start"
        return len(names) >= 3 and ("clone" in names[0] or UNNAMED.search(names[0]))

    def is_outside_of_python(self, frames):
        """A thread on its way into its first Python function, or after it; or a greenlet."""
        first = frames[0].name if frames else ""
        begins = [at for at, frame in enumerate(frames) if "g_initialstub" in frame.name]
        if begins:
            return not any("EvalFrameDefault" in frame.name for frame in frames[begins[-1]:])
        return 2 <= len(frames) <= THREAD_FRAMES_MAX and \
            ("clone" in first or bool(UNNAMED.search(first))) and \
            not any("EvalFrame" in frame.name for frame in frames)

    def judge(self, stack, verdict):
        """Add the stack to the verdict."""
        split = Split(stack)
        frames = split.without_bookkeeping()
        if not frames:
            right = self.is_outside_of_python(split.gaps[0])
            return verdict.add(stack, "beginning" if right else None,
                               None if right else "no Python frames")
        if "deep" in stack.end:
            chain, first = self.find_inside(frames)
            if chain:
                stack.end = "complete"  # as much of it as the unwinder promises
                right = self.interleaving_is_right(split, len(frames), chain, first)
                return verdict.add(stack, "full", None if right else "native frames")
        fit, chain = self.find(frames)
        if not fit:
            return verdict.add(stack, None, "lines" if self.names_only(frames) else "Python frames")
        return verdict.add(stack, fit, self.what_is_wrong(split, frames, chain))

    def what_is_wrong(self, split, frames, chain):
        if not self.files_are_right(frames, chain):
            return "files"
        if not self.interleaving_is_right(split, len(frames), chain):
            return "native frames"
        if chain[0][5] == "greenlet":
            return None
        is_main = chain[0][1] == "<module>"
        return None if self.root_is_right(split.gaps[0], is_main) else "root"


def judge(name, stacks, lines, interpreter):
    chains = PythonChains([line for line in lines if line.startswith("[")], interpreter)
    verdict = Verdict(name)
    for stack in stacks:
        chains.judge(stack, verdict)
    return verdict
