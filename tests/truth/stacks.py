# SPDX-License-Identifier: Apache-2.0
"""Recorded stacks as frames from the outside in, and the comparison with what a program could have
been in: patterns of the program's own functions with gaps for everybody else's."""
import collections
import functools
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


def _by_id(messages):
    """{id: message}: the id stands first."""
    found = {}
    for message in messages:
        number, value = next(fields(message))
        assert number == 1, "the id"
        found[value] = message
    return found


def _varint(number):
    encoded = b""
    while number >= 0x80:
        encoded += bytes([number & 0x7f | 0x80])
        number >>= 7
    return encoded + bytes([number])


def _label_finder(strings, label):
    """A pattern that finds the bytes of the label in a sample's, for one of the values there are."""
    name, prefix = label
    values = [_varint(number) for number, text in enumerate(strings) if text.startswith(prefix)]
    keys = [_varint(number) for number, text in enumerate(strings) if text == name]
    return re.compile(b"".join([b"\x08(", b"|".join(map(re.escape, keys)), b")\x10(", b"|".join(map(re.escape, values)), b")"]), re.DOTALL)


def read_pprof(path, label=None):
    """All stacks of a pprof file (profile.proto), or those with this (label, beginning of its value): of a whole machine's
    that is a twentieth. A frame is a function: a location with inlined calls has several."""
    with gzip.open(path) as file:
        root = _group(file.read())
    strings = [text.decode() for text in root[6]]
    mappings = {message[1][0]: strings[message.get(5, [0])[0]]
                for message in map(_group, root[3])}
    functions, locations = _by_id(root[5]), _by_id(root[4])

    @functools.cache
    def function(number):
        message = _group(functions[number])
        return strings[message[2][0]], strings[message.get(4, [0])[0]]

    @functools.cache
    def frames_at(number):
        message = _group(locations[number])
        module = mappings.get(message.get(2, [0])[0], "")
        offset = message.get(3, [0])[0]
        lines = [_group(line) for line in message[4]]
        return [Frame(name, module, file, line.get(2, [0])[0], offset)
                for line in reversed(lines) for name, file in [function(line[1][0])]]

    samples = root[2]
    if label:
        has_label = _label_finder(strings, label)
        samples = filter(has_label.search, samples)
    return [_stack(_group(sample), frames_at, strings) for sample in samples]


def _stack(sample, frames_at, strings):
    frames, end = [], "complete"
    for number in reversed(_numbers(sample[1])):
        for frame in frames_at(number):
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


class Node:
    """A place in the chains; equal beginnings share theirs."""

    def __init__(self):
        self.names = {}     # name: the node after it
        self.regexes = {}   # pattern: (compiled, the node after it)
        self.skips = {}     # word: a node that is reached without a frame
        self.loops = False  # others' frames lead back here
        self.ends = False   # a chain may end here

    def after(self, name):
        found = [self] if name is FOREIGN and self.loops else []
        if name in self.names:
            found.append(self.names[name])
        if name is not FOREIGN:
            found += [node for regex, node in self.regexes.values() if regex.search(name)]
        return found


class Patterns:
    """Chains of a program's own functions, outermost first, as words: a name; "name?" (may be
    missing); "name*N" (N times); "~" (others' frames, at least one); "~?" (any number of them);
    "/regex/" (a name)."""

    def __init__(self):
        self.root = Node()
        self.nodes = [self.root]

    def _new(self):
        self.nodes.append(Node())
        return self.nodes[-1]

    def _follow(self, table, key, node):
        if key not in table:
            table[key] = node or self._new()
        return table[key]

    def add(self, words):
        node = self.root
        for word in words:
            count = re.match(r"(.*)\*(\d+)$", word)
            if word in ("~", "~?"):
                before = node
                node = self._follow(before.names if word == "~" else before.skips,
                                    FOREIGN if word == "~" else word, None)
                node.loops = True
            elif word.startswith("/"):
                if word not in node.regexes:
                    node.regexes[word] = (re.compile(word[1:-1]), self._new())
                node = node.regexes[word][1]
            elif count:
                for _ in range(int(count.group(2))):
                    node = self._follow(node.names, count.group(1), None)
            elif word.endswith("?"):
                before = node
                node = self._follow(before.skips, word, None)
                self._follow(before.names, word[:-1], self._new()).skips[word] = node
            else:
                node = self._follow(node.names, word, None)
        node.ends = True

    @staticmethod
    def _skips(nodes):
        todo, reached = list(nodes), set(nodes)
        while todo:
            for node in todo.pop().skips.values():
                if node not in reached:
                    reached.add(node)
                    todo.append(node)
        return reached

    def _run(self, nodes, names):
        nodes = self._skips(nodes)
        for name in names:
            nodes = self._skips({after for node in nodes for after in node.after(name)})
            if not nodes:
                break
        return nodes

    def fit(self, names):
        """"full"; "beginning": a sample may hit entry or return; or None."""
        nodes = self._run({self.root}, names)
        if any(node.ends for node in nodes):
            return "full"
        return "beginning" if nodes else None

    def fits_inside(self, names):
        """Whether the names are anywhere in a chain without a gap: the inner part of a cut stack. Of
        a recursion at its outer end one call is enough."""
        first = next((i for i, name in enumerate(names[1:]) if name != names[0]), 0)
        return bool(self._run(set(self.nodes), names[first:]))


class Chains:
    """The chains that a program has walked."""

    def __init__(self, lines, asynchronous=()):
        """@lines: Patterns' words with blanks between. @asynchronous: own functions of a signal's
        handler, which may come on top of any chain after the frame that the kernel makes."""
        self.patterns = Patterns()
        for line in sorted(set(lines)):
            self.patterns.add(line.split())
        words = {word for line in lines for word in line.split()} | set(asynchronous)
        self.regexes = [re.compile(word[1:-1]) for word in words if word.startswith("/")]
        self.names = {re.sub(r"\?$|\*\d+$", "", word) for word in words if word[0] not in "/~"}
        self.asynchronous = list(asynchronous)
        self.own, self.fits = {}, {}  # what was found out before

    def is_own(self, frame):
        if frame.name not in self.own:
            name = PART.sub("", frame.name)
            self.own[frame.name] = name in self.names or any(regex.search(name)
                                                             for regex in self.regexes)
        return self.own[frame.name]

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
                    names = without_foreign(names)
        return names

    def fit(self, stack):
        """"full", "beginning" or None. libc and the dynamic linker may work for any function, so
        others' frames may follow the last own one. A stack that was too deep fits if its inner part
        is in a chain."""
        _, names = self.split_root(stack)
        names = self._without_handler(without_foreign(names))
        if not names:
            return None
        key = (tuple(names), "deep" in stack.end)
        if key not in self.fits:
            self.fits[key] = self.patterns.fit(names)
            if not self.fits[key] and key[1] and self.patterns.fits_inside(names):
                self.fits[key] = "inside"
        return self.fits[key]


def without_foreign(names):
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
        self.fits = collections.Counter()

    def add(self, stack, fit, wrong=None):
        """@fit: as Chains.fit(). @wrong: what is wrong with the stack in a word or two."""
        self.samples += 1
        self.total += stack.value
        self.fits[fit] += stack.value
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


