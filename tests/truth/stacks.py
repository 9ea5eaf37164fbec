# SPDX-License-Identifier: Apache-2.0
"""Recorded stacks as frames from the outside in, and the comparison with what a program could have
been in: patterns of the program's own functions with gaps for everybody else's."""
import collections
import gzip
import os
import re
import subprocess

from pprof_file import fields

CUT = re.compile(r"^\[truncated: (.*)\]$")
# Parts that compilers split off a function go by its name.
PART = re.compile(r"\.(cold|part|isra|constprop|lto_priv|llvm)(\.\d+)*$")

Frame = collections.namedtuple("Frame", "name module file line offset")


class Stack:
    """frames from the outside in; end is "complete" or why the stack was cut."""

    def __init__(self, frames, end, value, labels):
        self.frames = frames
        self.end = end
        self.value = value
        self.labels = labels

    def is_complete(self):
        return self.end == "complete"

    def __str__(self):
        lines = [f"    end: {self.end}, {self.value / 1e6:.1f} ms, {self.labels}"]
        lines += [f"    {describe(frame)}" for frame in self.frames]
        return "\n".join(lines)


def describe(frame):
    where = f" {os.path.basename(frame.module)}" if frame.module else ""
    line = f" {frame.file}:{frame.line}" if frame.file else ""
    return f"{frame.name}{where}{line}"


def is_kernel(frame):
    return frame.module == "[kernel]" or frame.name.endswith("_[k]")


def is_python(frame):
    """Interpreted: a line in a file but no executable."""
    return not frame.module and bool(frame.file)


def _group(data):
    message = collections.defaultdict(list)
    for number, value in fields(data):
        message[number].append(value)
    return message


def _numbers(values):
    numbers = []
    for value in values:
        if isinstance(value, int):
            numbers.append(value)
            continue
        number = shift = 0
        for byte in value:
            number |= (byte & 0x7f) << shift
            shift += 7
            if byte < 0x80:
                numbers.append(number)
                number = shift = 0
    return numbers


def read_pprof(path):
    """All stacks of a pprof file (profile.proto). A frame is a function: a location with inlined
    calls has several."""
    with gzip.open(path) as file:
        root = _group(file.read())
    strings = [text.decode() for text in root[6]]
    functions = {}
    for message in map(_group, root[5]):
        functions[message[1][0]] = (strings[message[2][0]], strings[message.get(4, [0])[0]])
    mappings = {message[1][0]: strings[message.get(5, [0])[0]]
                for message in map(_group, root[3])}
    locations = {}
    for message in map(_group, root[4]):
        module = mappings.get(message.get(2, [0])[0], "")
        offset = message.get(3, [0])[0]
        lines = [_group(line) for line in message[4]]
        locations[message[1][0]] = [
            Frame(*(functions[line[1][0]][0], module, functions[line[1][0]][1],
                    line.get(2, [0])[0], offset)) for line in reversed(lines)]
    return [_stack(_group(sample), locations, strings) for sample in root[2]]


def _stack(sample, locations, strings):
    frames, end = [], "complete"
    for number in reversed(_numbers(sample[1])):
        for frame in locations[number]:
            cut = CUT.match(frame.name)
            if cut:
                end = cut.group(1)
            else:
                frames.append(frame)
    labels = {}
    for label in map(_group, sample[3]):
        if 2 in label:
            labels[strings[label[1][0]]] = strings[label[2][0]]
    return Stack(frames, end, sum(_numbers(sample[2])), labels)


# ---- patterns -------------------------------------------------------------------------------

FOREIGN = None  # stands for a frame that is not the program's own
FOREIGN_MAX = 40  # such frames in one gap


class Pattern:
    """A chain of the program's own functions, outermost first. Words: a name; "name?" (may be
    missing); "name*N" (N times); "~" (others' frames, at least one); "~?" (any number of them);
    "/regex/" (a name)."""

    def __init__(self, words):
        self.items = [self._item(word) for word in words]

    @staticmethod
    def _item(word):
        """(matches, least, most)"""
        if word in ("~", "~?"):
            return (lambda name: name is FOREIGN), int(word == "~"), FOREIGN_MAX
        if word.startswith("/"):
            regex = re.compile(word[1:-1])
            return (lambda name: name is not FOREIGN and regex.search(name)), 1, 1
        count = re.match(r"(.*)\*(\d+)$", word)
        if count:
            wanted, times = count.group(1), int(count.group(2))
            return (lambda name: name == wanted), times, times
        wanted = word.rstrip("?")
        return (lambda name: name == wanted), int(not word.endswith("?")), 1

    def _skips(self, states):
        """The states, and those reached from them without a frame."""
        todo, reached = list(states), set(states)
        while todo:
            item, times = todo.pop()
            if item < len(self.items) and times >= self.items[item][1]:
                following = (item + 1, 0)
                if following not in reached:
                    reached.add(following)
                    todo.append(following)
        return reached

    def _run(self, states, names):
        for name in names:
            states = {(item, times + 1) for item, times in self._skips(states)
                      if item < len(self.items) and times < self.items[item][2]
                      and self.items[item][0](name)}
            if not states:
                return states
        return self._skips(states)

    def fit(self, names):
        """"full"; "beginning": a sample may be taken on the way down or up; or None."""
        states = self._run({(0, 0)}, names)
        if (len(self.items), 0) in states:
            return "full"
        return "beginning" if states else None

    def fits_inside(self, names):
        """Whether the names are anywhere in the chain without a gap: the inner part of a cut stack."""
        anywhere = {(item, times) for item, (_, _, most) in enumerate(self.items)
                    for times in range(most)}
        return bool(self._run(anywhere, names))


class Chains:
    """The chains that a program has walked."""

    def __init__(self, lines, asynchronous=()):
        """@lines: Pattern's words with blanks between. @asynchronous: own functions of a signal's
        handler, which may come on top of any chain after the frame that the kernel makes."""
        self.patterns = [Pattern(line.split()) for line in sorted(set(lines))]
        words = {word for line in lines for word in line.split()} | set(asynchronous)
        self.regexes = [re.compile(word[1:-1]) for word in words if word.startswith("/")]
        self.names = {re.sub(r"\?$|\*\d+$", "", word) for word in words if word[0] not in "/~"}
        self.asynchronous = list(asynchronous)

    def is_own(self, frame):
        name = PART.sub("", frame.name)
        return name in self.names or any(regex.search(name) for regex in self.regexes)

    def render(self, stack):
        """Names of own functions and FOREIGN for others, without the kernel's."""
        return [PART.sub("", frame.name) if self.is_own(frame) else FOREIGN
                for frame in stack.frames if not is_kernel(frame)]

    def split_root(self, stack):
        """The frames before the first own function, and what render() says of the rest."""
        rendered = self.render(stack)
        at = next((i for i, name in enumerate(rendered) if name is not FOREIGN), len(rendered))
        return stack.frames[:at], rendered[at:]

    def _without_handler(self, names):
        """The interrupted chain; None if the handler was not called by a signal."""
        for name in reversed(self.asynchronous):
            if names and names[-1] == name:
                names = names[:-1]
                if name == self.asynchronous[0]:
                    if not names or names[-1] is not FOREIGN:
                        return None
                    names = _without_foreign(names)
        return names

    def fit(self, stack):
        """"full", "beginning" or None. libc and the dynamic linker may work for any function, so
        others' frames may follow the last own one. A stack that was too deep fits if its inner part
        is in a chain."""
        _, names = self.split_root(stack)
        names = self._without_handler(_without_foreign(names))
        if not names:
            return None
        fits = {pattern.fit(names) for pattern in self.patterns}
        if "full" in fits or "beginning" in fits:
            return "full" if "full" in fits else "beginning"
        if "deep" in stack.end and any(pattern.fits_inside(names) for pattern in self.patterns):
            return "inside"
        return None


def _without_foreign(names):
    count = len(names)
    while count and names[count - 1] is FOREIGN:
        count -= 1
    return names[:count]


class Verdict:
    """What became of a program's samples, by CPU time."""

    def __init__(self, name):
        self.name = name
        self.total = self.complete = self.exact = self.full = self.named = 0
        self.samples = 0
        self.wrong = []
        self.reasons = collections.Counter()
        self.ends = collections.Counter()

    def add(self, stack, fit, wrong=None):
        """@fit: as Chains.fit(). @wrong: what is wrong with the stack in a word or two."""
        self.samples += 1
        self.total += stack.value
        self.ends[stack.end] += stack.value
        self.complete += stack.value if stack.is_complete() else 0
        self.full += stack.value if fit == "full" else 0
        if not stack.is_complete():
            wrong = f"cut: {stack.end}"
        elif not wrong and not fit:
            wrong = "chain"
        if wrong:
            self.reasons[wrong] += stack.value
            self.wrong.append((stack, wrong))
        else:
            self.exact += stack.value

    def percent(self, value):
        return 100 * value / self.total if self.total else 0.0

    def line(self):
        why = ", ".join(f"{reason} {self.percent(value):.2f} %" for reason, value in
                        self.reasons.most_common())
        return (f"{self.name:<44} {self.total / 1e9:6.2f} s {self.samples:6d} stacks "
                f"complete {self.percent(self.complete):6.2f} % "
                f"exact {self.percent(self.exact):6.2f} % "
                f"full {self.percent(self.full):6.2f} %"
                + (f"  wrong: {why}" if why else ""))

    def report(self, limit=6):
        """The line, and the wrong stacks that weigh most."""
        wrong = sorted(self.wrong, key=lambda pair: -pair[0].value)
        text = "\n\n".join(f"    wrong: {why}\n{stack}" for stack, why in wrong[:limit])
        more = f"\n... and {len(wrong) - limit} more" if len(wrong) > limit else ""
        return f"{self.line()}\n{text}{more}"


