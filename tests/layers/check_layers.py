#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Check which folder includes which, and that modules do not include each other in a cycle.

rooms.txt says what each room may include. A module is a .h file with its .c file; a .c file without a header belongs
to the module whose header it includes first and implements. Each problem is one line: where, what is wrong, what to
change. A cycle has one more line for each of its edges, with the symbols that are used across it. A room's README.md
names each file of the room; what it names exists, there or in a room that it links.
"""
import argparse
import collections
import fnmatch
import os
import re
import subprocess
import sys

TABLE = "tests/layers/rooms.txt"
OVERVIEW = "ARCHITECTURE.md"
SYMBOLS_SHOWN = 6
README_LINES_MAX = 40
UNTESTED_LINES_MIN = 40
# What a room's README.md must name, besides .c and .h files.
OTHER_SOURCES = (".cc", ".js")
NAMED_BY_RULE = ("cli/cmd_*.c",)
# In the choice of the edge to cut. A constant or a type may be misplaced; calls are what an edge is for.
CALL_COST = 4

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^">\n]+)[">]', re.M)
COMMENT_OR_LITERAL = re.compile(r"""/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'""", re.S)
SUBJECT = re.compile(r"^(?:// |/\* | \* )Subject: (\S+?)[.,;:]?(?:\s|$)", re.M)
NAME = re.compile(r"[A-Za-z_]\w*")
# In a README: a file, also name.[ch]; none with a "*" or "…" in its name. A function; a link's target.
README_FILE = re.compile(r"(?<![\w/.*…-])([\w./-]+\.(?:bpf\.[ch]|\[ch\]|[ch]|cc|js))(?!\w)")
README_FUNCTION = re.compile(r"(?<![\w…])([A-Za-z_]\w*)\(\)")
README_LINK = re.compile(r"\]\(([^)#\s]+)")
README_STEM = re.compile(r"`(\w+)`")
KEYWORDS = set(
    "_Static_assert __attribute__ sizeof if for while switch return void int char bool long short unsigned signed "
    "float double const volatile struct union enum static inline extern typedef SEC __uint __type __array".split())


# ---- the table --------------------------------------------------------------------------------


class Room:
    """A folder, or with @whole a folder and all below it. It may include @wide with all below, and @narrow alone."""

    def __init__(self, line, whole, wide, narrow):
        self.line, self.whole, self.wide, self.narrow = line, whole, wide, narrow

    def may_include(self, other):
        return other in self.narrow or any(within(other, name) for name in self.wide)

    def __str__(self):
        return ", ".join(self.wide + self.narrow) or "nothing"


class Table:
    def __init__(self, path, text):
        self.path, self.rooms, self.generated, self.problems = path, {}, [], []
        program, wide, lower = None, [], []
        for line, content in enumerate(text.splitlines(), 1):
            content = content.split("#")[0].rstrip()
            left, colon, right = content.partition(":")
            if not content:
                continue
            if left.startswith("generated "):
                self.generated += left.split()[1:]
                if not right.strip():
                    self.refuse(line, f"{left} has no reason: write it after the colon")
            elif not content[0].isspace():
                if not colon:
                    self.refuse(line, "no colon: write 'folder: what it may include'")
                program, wide, lower = left.strip(), right.split(), []
                self.add(line, program, wide, [])
            elif program is None:
                self.refuse(line, "a room without a folder: write 'folder: what it may include' above it")
            else:
                if not lower:
                    del self.rooms[program]  # it is back where its "." stands
                names = [program if name == "." else f"{program}/{name}" for name in left.split()]
                for name in names:
                    self.add(line, name, wide + right.split(), lower)
                lower = lower + [name.removesuffix("/*") for name in names]
        for name, room in self.rooms.items():
            for other in room.wide:
                if not any(within(known, other) for known in self.rooms):
                    self.refuse(room.line, f"{name} may include {other}, which is not a room: correct the name")

    def add(self, line, name, wide, narrow):
        folder = name.removesuffix("/*")
        if folder in self.rooms:
            self.refuse(line, f"{folder} stands on line {self.rooms[folder].line}, too: delete one")
        self.rooms[folder] = Room(line, name != folder, wide, narrow)

    def refuse(self, line, what):
        self.problems.append(f"{self.path}:{line}: {what}")

    def room_of(self, folder):
        """The room's name, or None."""
        if folder in self.rooms:
            return folder
        return max((name for name, room in self.rooms.items() if room.whole and within(folder, name)), key=len, default=None)


def within(path, folder):
    return path == folder or path.startswith(folder + "/")


def folders_above(path):
    while path := os.path.dirname(path):
        yield path


# ---- files and what they declare --------------------------------------------------------------


Include = collections.namedtuple("Include", "line written system target")


class Source:
    """A .c or .h file. What it declares and uses is read only where a message or a module needs it."""

    def __init__(self, path, text):
        self.path, self.text = path, text
        self.includes = []
        self.module = self.room = None
        self.read = {}

    @property
    def folder(self):
        return os.path.dirname(self.path) or "."

    def once(self, what, make):
        if what not in self.read:
            self.read[what] = make()
        return self.read[what]

    @property
    def code(self):
        """The text without comments, literals and includes."""
        return self.once("code", lambda: INCLUDE.sub("", COMMENT_OR_LITERAL.sub(
            lambda match: " " if match[0][0] == "/" else '""', self.text)))

    @property
    def used(self):
        return self.once("used", lambda: set(NAME.findall(self.code)))

    @property
    def declared(self):
        """(names, names of which are functions, fields of structs)"""
        return self.once("declared", lambda: read_declarations(self.code))


def read_declarations(code):
    functions = set()
    names = set(re.findall(r"^[ \t]*#[ \t]*define[ \t]+(\w+)", code, re.M))
    code = re.sub(r"^[ \t]*#(?:\\\n|[^\n])*", "", code, flags=re.M)
    names.update(re.findall(r"\b(?:struct|union|enum)\s+(\w+)\s*\{", code))
    for body in re.findall(r"\benum(?:\s+\w+)?\s*\{([^}]*)\}", code):
        names.update(part.split()[0] for part in re.sub(r"=[^,]*", "", body).split(",") if part.strip())
    outer, inner = split_at_braces(code)
    for statement in outer.split(";"):
        head, _, value = statement.partition("=")
        head = re.sub(r"\bSEC\s*\(.*|__attribute__.*|\[[^]]*\]", "", head, flags=re.S)
        if "typedef" in head:
            function = re.search(r"\(\s*\*\s*(\w+)\s*\)", head) or re.search(r"\b(\w+)\s*\(", head)
            names.update([function[1]] if function else NAME.findall(head)[-1:])
        elif call := re.search(r"\b(\w+)\s*\(", head):
            functions.add(call[1])
        elif value or re.search(r"\}\s*\w|\bextern\b", head):
            names.update(NAME.findall(head)[-1:])
    fields = set(re.findall(r"(\w+)\s*(?:\[[^]]*\]\s*)*(?::\s*\d+\s*)?[;,]", inner))
    names |= functions
    return names - KEYWORDS, functions - KEYWORDS, fields - names - KEYWORDS


def split_at_braces(code):
    """What stands outside of braces, where {} is left of each pair and a function's body ends with ";", and inside."""
    outer, inner, depth, start = [], [], 0, 0
    for match in re.finditer(r"[{}]", code):
        (inner if depth else outer).append(code[start:match.start()])
        start = match.end()
        if match[0] == "}":
            depth = max(0, depth - 1)
        else:
            if depth == 0:
                outer.append(";" if outer[-1].rstrip().endswith(")") else "{}")
            depth += 1
    return "".join(outer) + code[start:], "".join(inner)


class Tree:
    """The C files of a checkout, those not yet added to git, too."""

    def __init__(self, root, table):
        self.root, self.table = root, table
        listed = subprocess.run(["git", "-C", root, "ls-files", "-z", "-co", "--exclude-standard"], check=True, capture_output=True)
        self.paths = {path for path in os.fsdecode(listed.stdout).split("\0") if os.path.isfile(os.path.join(root, path))}
        self.folders = {folder for path in self.paths for folder in folders_above(path)}
        self.sources, self.others = {}, {}
        self.named = collections.defaultdict(list)
        self.in_folder = collections.defaultdict(list)
        for path in sorted(self.paths):
            if path.endswith((".c", ".h")):
                source = self.sources[path] = self.read(path)
                self.named[os.path.basename(path)].append(path)
            elif path.endswith(OTHER_SOURCES):
                source = self.others[path] = self.read(path)
            else:
                continue
            self.in_folder[source.folder].append(source)
        self.modules = collections.defaultdict(list)
        for source in self.sources.values():
            source.room = table.room_of(source.folder)
            source.includes = list(self.read_includes(source))
        for source in self.sources.values():
            source.module = self.module_of(source)
            self.modules[source.module].append(source)

    def read(self, path):
        with open(os.path.join(self.root, path), encoding="utf-8", errors="replace") as file:
            return Source(path, file.read())

    def read_includes(self, source):
        line, at = 1, 0
        for match in INCLUDE.finditer(source.text):
            line += source.text.count("\n", at, match.start())
            at = match.start()
            system = match[1] == "<"
            yield Include(line, match[2], system, None if system else self.resolve(source, match[2]))

    def resolve(self, source, written):
        for folder in ("", source.folder, source.path.split("/")[0]):
            path = os.path.normpath(os.path.join(folder, written))
            if path in self.sources:
                return self.sources[path]
        return None

    def module_of(self, source):
        stem = source.path[:-2]
        if source.path.endswith(".c") and stem + ".h" not in self.sources:
            first = next((include.target for include in source.includes if include.target), None)
            if first and first.folder == source.folder and first.path.endswith(".h"):
                defined = set(re.findall(r"^[A-Za-z_][\w \t*]*?\b(\w+)\([^;{}]*\)\s*\{", source.code, re.M))
                if defined & first.declared[1]:
                    return first.path[:-2]
        return stem

    def holds(self, folder):
        return any(within(source.folder, folder) for source in self.sources.values())


def symbols_used(module, header):
    """What a module's files use of a header: names that it declares, or else fields of its structs."""
    used = set().union(*(source.used for source in module))
    own = set().union(*(source.declared[0] for source in module))
    names, _, fields = header.declared
    return (used & names) - own or {f".{field}" for field in used & fields}


def listing(symbols):
    names = sorted(symbols)
    more = len(names) - SYMBOLS_SHOWN
    return (", ".join(names[:SYMBOLS_SHOWN]) or "nothing") + (f" and {more} more" if more > 0 else "")


# ---- checks: each yields lines ------------------------------------------------------------------


def check_folders(tree):
    table = tree.table
    for folder in sorted({source.folder for source in tree.sources.values() if source.room is None}):
        yield f"{folder}: is not in {table.path}: add it there, or move its C files to a room"
    for name, room in table.rooms.items():
        folders = {source.folder for source in tree.sources.values()}
        if name not in folders and not (room.whole and tree.holds(name)):
            yield f"{table.path}:{room.line}: {name} has no C files: delete it"


def check_includes(tree):
    for source in tree.sources.values():
        for include in source.includes:
            problem = wrong_spelling(tree, source, include) or wrong_room(tree, source, include)
            if problem:
                yield f"{source.path}:{include.line}: {problem}"


def wrong_spelling(tree, source, include):
    written = include.written
    if include.system:
        return f'<{written}> is a file of this tree: write #include "{written}"' if written in tree.sources else None
    if include.target is not None:
        path = include.target.path
        return f'"{written}" is not written from the root: write #include "{path}"' if path != written else None
    if any(fnmatch.fnmatchcase(written, pattern) for pattern in tree.table.generated):
        return None
    others = tree.named[os.path.basename(written)]
    hint = " or ".join(f'#include "{other}"' for other in others)
    return f'"{written}" does not exist: ' + (
        f"write {hint}" if others else f"correct it, or add 'generated {written}: reason' to {tree.table.path}")


def wrong_room(tree, source, include):
    target = include.target
    if target is None or None in (source.room, target.room) or source.room == target.room:
        return None
    room = tree.table.rooms[source.room]
    if room.may_include(target.room):
        return None
    symbols = listing(symbols_used(tree.modules[source.module], target))
    return (f"{source.room} includes {target.path}: {source.room} may include {room}; "
            f"move what is used ({symbols}) down or add the edge to {tree.table.path}")


def check_first_include(tree):
    for path, source in tree.sources.items():
        header = path[:-2] + ".h"
        if path.endswith(".c") and not path.endswith(".bpf.c") and header in tree.sources:
            first = source.includes[0] if source.includes else Include(1, "", False, None)
            if first.target is not tree.sources[header]:
                yield f'{path}:{first.line}: the first include is not its own header: begin with #include "{header}"'


def same_header_names(tree, folder):
    for paths in tree.named.values():
        headers = [path for path in paths if within(path, folder) and path.endswith(".h")]
        for path in headers[1:]:
            yield f"{path}:1: {headers[0]} has the same name: rename one"


def check_subjects(tree):
    for path, source in tree.sources.items():
        match = re.fullmatch(r"tests/unit/(.+)/test_(\w+)\.c", path)
        if not match:
            continue
        room, name = match.groups()
        words = name.split("_")
        modules = [f"{room}/{'_'.join(words[:count])}" for count in range(1, len(words) + 1)]
        subject = SUBJECT.search(source.text)
        if not tree.holds(room):
            yield f"{path}:1: {room} has no C files: move the test to the folder of its subject"
        elif any(module + ending in tree.sources for module in modules for ending in (".c", ".h")):
            continue
        elif subject is None:
            yield f"{path}:1: {room} has no module {name}: rename or move the test, or add the line '// Subject: path'"
        elif subject[1] not in tree.paths and not tree.holds(subject[1].rstrip("/")):
            line = source.text.count("\n", 0, subject.start()) + 1
            yield f"{path}:{line}: its subject {subject[1]} does not exist: correct the path"


class Readme:
    """A room's README.md, or another document: what it names, and where that may be."""

    def __init__(self, tree, path):
        self.tree, self.path, self.folder = tree, path, os.path.dirname(path)
        with open(os.path.join(tree.root, path), encoding="utf-8") as file:
            self.text = file.read()
        self.lines = len(self.text.splitlines())
        self.broken, self.linked, linked = [], set(), set()
        for match in README_LINK.finditer(self.text):
            if "://" in match[1]:
                continue
            target = os.path.normpath(os.path.join(self.folder, match[1]))
            if target in tree.folders:
                linked.add(target)
            elif target in tree.paths:
                self.linked.add(target)
                linked.add(os.path.dirname(target))
            else:
                self.broken.append(match)
        rooms = {room for room in tree.table.rooms if re.search(rf"(?<![\w/]){re.escape(room)}(?!\w)", self.text)}
        self.folders = [self.folder] + sorted((linked | rooms) - {self.folder})

    def place(self, match):
        return f"{self.path}:{self.text.count(chr(10), 0, match.start()) + 1}"

    def files(self):
        """(match, name): name.[ch] is name.h."""
        without_targets = README_LINK.sub(lambda match: "](" + " " * len(match[1]), self.text)
        for match in README_FILE.finditer(without_targets):
            if "NAME" not in match[1]:
                yield match, match[1].replace("[ch]", "h")

    def find(self, name):
        """The file's path. A name with a folder may begin at the room's, at its program's, or at the root."""
        bases = ["", self.folder, self.folder.split("/")[0]] if "/" in name else self.folders
        paths = [os.path.normpath(os.path.join(base, name)) for base in bases]
        return next((path for path in paths if path in self.tree.paths), None)

    def knows(self, function):
        return any(function in source.text and function in source.used
                   for folder in self.folders for source in self.tree.in_folder[folder])


def check_names(tree, readme):
    for match in readme.broken:
        yield f"{readme.place(match)}: {match[1]} does not exist: correct the link"
    for match, name in readme.files():
        generated = any(fnmatch.fnmatchcase(name, pattern) for pattern in tree.table.generated)
        if not generated and readme.find(name) is None:
            others = [path for path in sorted(tree.others | tree.sources) if os.path.basename(path) == os.path.basename(name)]
            yield f"{readme.place(match)}: {name} is not in this room, nor where the text links: " + (
                f"link the room of {others[0]}" if others else "correct the name")
    for match in README_FUNCTION.finditer(readme.text):
        if not readme.knows(match[1]):
            yield (f"{readme.place(match)}: no code here, nor where the text links, has {match[1]}(): "
                   "correct the name or link its room")


def check_all_named(tree, readme):
    found = readme.linked | {readme.find(name) for _, name in readme.files()} - {None}
    named = {path.rpartition(".")[0] for path in found} | {f"{readme.folder}/{stem}" for stem in README_STEM.findall(readme.text)}
    for source in tree.in_folder[readme.folder]:
        by_rule = any(fnmatch.fnmatchcase(source.path, pattern) for pattern in NAMED_BY_RULE)
        if source.path.rpartition(".")[0] not in named and not by_rule:
            yield f"{readme.path}:1: does not name {os.path.basename(source.path)}: say in a row what it is for"


def check_readmes(tree):
    rooms = {source.room for source in tree.sources.values()} | {source.folder for source in tree.others.values()}
    for room in sorted(rooms - {None}):
        path = f"{room}/README.md"
        if within(room, "tests"):
            continue
        if path not in tree.paths:
            yield f"{path}:1: is missing: say what lives here, what comes in and goes out, the file to open first, its limits"
            continue
        readme = Readme(tree, path)
        if readme.lines > README_LINES_MAX:
            yield f"{path}:{readme.lines}: a room's README.md has at most {README_LINES_MAX} lines: shorten it"
        yield from check_names(tree, readme)
        yield from check_all_named(tree, readme)
    if OVERVIEW in tree.paths:
        yield from check_names(tree, Readme(tree, OVERVIEW))


def list_untested(tree):
    for module, sources in sorted(tree.modules.items()):
        folder, name = os.path.split(module)
        code = [source for source in sources if source.path.endswith(".c") and not source.path.endswith(("/main.c", ".bpf.c"))]
        if not tree.holds(f"tests/unit/{folder}") or sum(source.text.count("\n") for source in code) <= UNTESTED_LINES_MIN:
            continue
        names = {name} | {os.path.basename(source.path)[:-2] for source in code}
        if not any(f"tests/unit/{folder}/test_{name}.c" in tree.sources for name in names):
            yield f"{code[0].path}:1: no test of its name: tests/unit/{folder}/test_{name}.c"


# ---- cycles -------------------------------------------------------------------------------------


class Edge:
    """The includes of one module's headers by another."""

    def __init__(self, user):
        self.user, self.places, self.headers = user, [], {}
        self.known = None

    def symbols(self):
        if self.known is None:
            self.known = set().union(*(symbols_used(self.user, header) for header in self.headers.values()))
        return self.known

    def cost(self):
        functions = set().union(*(header.declared[1] for header in self.headers.values()))
        names = [name for name in self.symbols() if not name.startswith(".")]
        return sum(CALL_COST if name in functions else 1 for name in names) or min(1, len(self.symbols()))


def read_edges(tree):
    """{module: {module: Edge}}"""
    edges = collections.defaultdict(dict)
    for source in tree.sources.values():
        for include in source.includes:
            if include.target and include.target.module != source.module:
                edge = edges[source.module].setdefault(include.target.module, Edge(tree.modules[source.module]))
                edge.places.append(f"{source.path}:{include.line}")
                edge.headers[include.target.path] = include.target
    return edges


def without_ends(targets):
    """@targets, {module: modules}, without those that no cycle can pass."""
    while True:
        reached = set().union(*targets.values())
        kept = {node: {other for other in others if targets.get(other)} for node, others in targets.items()
                if others and node in reached}
        if kept == targets:
            return targets
        targets = kept


def shortest_path(targets, start, goal):
    """The modules from @start to @goal, or None."""
    before, queue = {start: None}, collections.deque([start])
    while queue:
        node = queue.popleft()
        if node == goal:
            path = []
            while node is not None:
                path.append(node)
                node = before[node]
            return path[::-1]
        for other in sorted(targets.get(node, ())):
            if other not in before:
                before[other] = node
                queue.append(other)
    return None


def shortest_cycle(targets):
    found = None
    for node in sorted(targets):
        for other in sorted(targets[node]):
            path = shortest_path(targets, other, node)
            if path and (found is None or len(path) < len(found)):
                found = path
                if len(path) == 2:
                    return found
    return found


def find_cycles(edges):
    """For each edge that should be cut, cheapest in its cycle: that cycle, this edge first. Without these there is none."""
    targets = without_ends({node: set(others) for node, others in edges.items()})
    cut = []
    while cycle := shortest_cycle(targets):
        pairs = zip(cycle, cycle[1:] + cycle[:1])
        source, target = min(pairs, key=lambda pair: (edges[pair[0]][pair[1]].cost(), pair))
        targets[source].discard(target)
        cut.append((source, target))
        targets = without_ends(targets)
    targets = {node: {other for other in others if (node, other) not in cut} for node, others in edges.items()}
    for source, target in cut:
        path = shortest_path(targets, target, source)
        if path:
            yield [source] + path
        else:  # a later cut has opened its cycle
            targets[source].add(target)


def check_cycles(tree):
    edges = read_edges(tree)
    for cycle in find_cycles(edges):
        source, target = cycle[:2]
        edge = edges[source][target]
        change = (f"{source} needs only {listing(edge.symbols())} of {target}: move that to a module below both"
                  if edge.symbols() else f"{source} uses nothing of {target}: delete the include")
        lines = [f"{edge.places[0]}: cycle of {len(cycle) - 1} modules: {change}"]
        for user, used in zip(cycle, cycle[1:]):
            lines.append(f"    {user} -> {used}: {listing(edges[user][used].symbols())} ({', '.join(edges[user][used].places)})")
        yield "\n".join(lines)


# ---- main ---------------------------------------------------------------------------------------


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", default=".", help="the checkout (default: the current folder)")
    parser.add_argument("--rooms", help=f"the table (default: {TABLE} of the checkout)")
    parser.add_argument("--cycles", action="store_true", help="look for cycles only")
    parser.add_argument("--readmes", action="store_true", help="check each room's README.md: at most "
                        f"{README_LINES_MAX} lines, all files are named, and what it names exists")
    parser.add_argument("--untested", action="store_true", help="list modules with logic that have no test of their name")
    options = parser.parse_args(arguments)

    with open(options.rooms or os.path.join(options.root, TABLE), encoding="utf-8") as file:
        table = Table(options.rooms or TABLE, file.read())
    tree = Tree(options.root, table)
    problems = list(table.problems)
    if not options.cycles:
        for check in (check_folders, check_includes, check_first_include, check_subjects):
            problems += check(tree)
        problems += same_header_names(tree, "bpf")
        for folder in ("agent", "collector"):
            for problem in same_header_names(tree, folder):
                print(f"warning: {problem}")
    problems += check_cycles(tree)
    if options.readmes:
        problems += check_readmes(tree)
    if options.untested:
        for line in list_untested(tree):
            print(f"untested: {line}")
    for problem in problems:
        print(problem)
    print(f"layers: {len(tree.sources)} files, {len(tree.modules)} modules, {len(table.rooms)} rooms, {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
