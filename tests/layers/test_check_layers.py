# SPDX-License-Identifier: Apache-2.0
"""The checker of rooms and cycles: small trees with one fault each, and what is printed of it."""

import subprocess

import pytest

import check_layers

ROOMS = """\
base:
agent: base
    bpf
    elf
    symbols
    dump ship
    .
"""
ELF = {
    "base/error.h": "struct error { int code; };\n",
    "agent/bpf/load.h": "int load(void);\n",
    "agent/elf/elf.h": '#include "base/error.h"\nstruct elf { int fd; };\nint elf_open(struct elf *elf, struct error *err);\n',
    "agent/elf/elf.c": '#include "agent/elf/elf.h"\n',
    "agent/symbols/executable.h": "#define ELF_MAX 64\nstruct executable { int parts; };\n",
    "agent/dump/dump.h": "int dump(void);\n",
    "agent/ship/ship.h": "int ship(void);\n",
    "agent/main.c": '#include "agent/ship/ship.h"\nint main(void) { return ship(); }\n',
}


@pytest.fixture
def check(tmp_path, capsys):
    """Writes files beside those of ELF (None leaves one out) and returns the exit status and the lines printed."""

    def run(files, *flags, rooms=ROOMS):
        for path, text in {**ELF, check_layers.TABLE: rooms, **files}.items():
            if text is not None:
                (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
                (tmp_path / path).write_text(text)
        subprocess.run(["git", "init", "-q", tmp_path], check=True)
        status = check_layers.main(["--root", str(tmp_path), *flags])
        return status, capsys.readouterr().out.splitlines()[:-1]

    return run


def test_accepts_a_tree_in_order(check):
    assert check({}) == (0, [])


def test_sums_up_in_the_last_line(tmp_path, capsys):
    (tmp_path / "rooms.txt").write_text("base:\n")
    (tmp_path / "base").mkdir()
    (tmp_path / "base/error.h").write_text("")
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    assert check_layers.main(["--root", str(tmp_path), "--rooms", str(tmp_path / "rooms.txt")]) == 0
    assert capsys.readouterr().out == "layers: 1 files, 1 modules, 1 rooms, 0 problems\n"


# ---- rooms ------------------------------------------------------------------------------------


def test_names_the_symbols_of_a_forbidden_edge(check):
    status, lines = check({
        "agent/elf/elf.c": '#include "agent/elf/elf.h"\n\n#include "agent/symbols/executable.h"\nint max = ELF_MAX;\n',
    })
    assert status == 1
    assert lines == [
        "agent/elf/elf.c:3: agent/elf includes agent/symbols/executable.h: agent/elf may include base, agent/bpf; "
        "move what is used (ELF_MAX) down or add the edge to tests/layers/rooms.txt"
    ]


def test_symbols_of_comments_and_literals_do_not_count(check):
    _, lines = check({
        "agent/elf/elf.c": '#include "agent/elf/elf.h"\n#include "agent/symbols/executable.h"\n'
                           '// ELF_MAX\n/* ELF_MAX */\nconst char *text = "ELF_MAX";\nstruct executable *e;\n',
    })
    assert "move what is used (executable) down" in lines[0]


def test_fields_identify_unnamed_structs(check):
    _, lines = check({
        "agent/elf/elf.c": '#include "agent/elf/elf.h"\n#include "agent/symbols/executable.h"\nint f(void) { return e->parts; }\n',
    })
    assert "move what is used (.parts) down" in lines[0]


def test_shortens_a_long_list_of_symbols(check):
    _, lines = check({
        "agent/symbols/executable.h": "enum { A, B, C, D = 4, E, F, G, H };\n",
        "agent/elf/elf.c": '#include "agent/elf/elf.h"\n#include "agent/symbols/executable.h"\nint x = A + B + C + D + E + F + G + H;\n',
    })
    assert "move what is used (A, B, C, D, E, F and 2 more) down" in lines[0]


def test_rooms_on_a_line_are_independent(check):
    _, lines = check({"agent/dump/dump.h": '#include "agent/ship/ship.h"\n'})
    assert lines == [
        "agent/dump/dump.h:1: agent/dump includes agent/ship/ship.h: agent/dump may include base, agent/bpf, agent/elf, "
        "agent/symbols; move what is used (nothing) down or add the edge to tests/layers/rooms.txt"
    ]


def test_a_folders_own_files_stand_above_its_rooms(check):
    _, lines = check({"agent/stats.h": "", "agent/elf/elf.c": '#include "agent/elf/elf.h"\n#include "agent/stats.h"\n'})
    assert lines[0].startswith("agent/elf/elf.c:2: agent/elf includes agent/stats.h: agent/elf may include base, agent/bpf; ")


def test_one_room_may_have_edges_of_its_own(check):
    rooms = ROOMS.replace("dump ship", "dump ship: proto") + "proto: base\n"
    files = {"proto/wire.h": "", "agent/ship/ship.h": '#include "proto/wire.h"\n'}
    assert check(files, rooms=rooms) == (0, [])
    _, lines = check({**files, "agent/symbols/executable.h": '#include "proto/wire.h"\n'}, rooms=rooms)
    assert [line.split(": ")[0] for line in lines] == ["agent/symbols/executable.h:1"]


def test_a_program_includes_all_of_another(check):
    assert check({"cli/top.c": '#include "agent/dump/dump.h"\n'}, rooms=ROOMS + "cli: agent\n") == (0, [])


def test_a_star_takes_in_all_folders_below(check):
    files = {"tests/unit/agent/elf/test_elf.c": '#include "tests/unit/agent/bpf/table.h"\n', "tests/unit/agent/bpf/table.h": ""}
    assert check(files, rooms=ROOMS + "tests/unit/agent/*: agent\n") == (0, [])


def test_folders_and_the_table_agree(check):
    status, lines = check({"agent/gpu/nvml.c": "", "agent/bpf/load.h": None})
    assert status == 1
    assert lines == [
        "agent/gpu: is not in tests/layers/rooms.txt: add it there, or move its C files to a room",
        "tests/layers/rooms.txt:3: agent/bpf has no C files: delete it",
    ]


def test_room_folder_needs_a_dot(check):
    _, lines = check({}, rooms=ROOMS.replace("    .\n", ""))
    assert lines == ["agent: is not in tests/layers/rooms.txt: add it there, or move its C files to a room"]


@pytest.mark.parametrize("rooms, problem", [
    ("    elf\nbase:\n" + ROOMS[6:], "1: a room without a folder: write 'folder: what it may include' above it"),
    ("base\n" + ROOMS[6:], "1: no colon: write 'folder: what it may include'"),
    (ROOMS + "base:\n", "8: base stands on line 1, too: delete one"),
    (ROOMS.replace("agent: base", "agent: base prtoo"), "3: agent/bpf may include prtoo, which is not a room: correct the name"),
    (ROOMS + "generated *.skel.h:\n", "8: generated *.skel.h has no reason: write it after the colon"),
])
def test_refuses_a_wrong_table(check, rooms, problem):
    status, lines = check({}, rooms=rooms)
    assert status == 1
    assert f"tests/layers/rooms.txt:{problem}" in lines


# ---- how includes are written -------------------------------------------------------------------


def test_includes_are_written_from_the_root(check):
    _, lines = check({
        "agent/elf/elf.c": '#include "elf.h"\n#include "../bpf/load.h"\n',
    })
    assert lines == [
        'agent/elf/elf.c:1: "elf.h" is not written from the root: write #include "agent/elf/elf.h"',
        'agent/elf/elf.c:2: "../bpf/load.h" is not written from the root: write #include "agent/bpf/load.h"',
    ]


def test_own_headers_are_quoted(check):
    _, lines = check({"agent/elf/elf.c": '#include "agent/elf/elf.h"\n#include <agent/bpf/load.h>\n'})
    assert lines == ['agent/elf/elf.c:2: <agent/bpf/load.h> is a file of this tree: write #include "agent/bpf/load.h"']


def test_finds_where_a_moved_header_went(check):
    _, lines = check({"agent/elf/elf.c": '#include "agent/elf/elf.h"\n#include "agent/load.h"\n'})
    assert lines == ['agent/elf/elf.c:2: "agent/load.h" does not exist: write #include "agent/bpf/load.h"']


def test_generated_headers_are_in_the_table(check):
    files = {"agent/elf/elf.c": '#include "agent/elf/elf.h"\n#include "sampler.skel.h"\n'}
    _, lines = check(files)
    assert lines == ['agent/elf/elf.c:2: "sampler.skel.h" does not exist: correct it, or add '
                     "'generated sampler.skel.h: reason' to tests/layers/rooms.txt"]
    assert check(files, rooms=ROOMS + "generated *.skel.h: bpftool makes them\n") == (0, [])


def test_a_module_includes_its_own_header_first(check):
    _, lines = check({"agent/elf/elf.c": '#include <stdio.h>\n\n#include "agent/elf/elf.h"\n'})
    assert lines == ['agent/elf/elf.c:1: the first include is not its own header: begin with #include "agent/elf/elf.h"']


def test_duplicate_bpf_headers_fail(check):
    status, lines = check({"bpf/unwind/stack.h": "", "bpf/stacks/stack.h": ""}, rooms=ROOMS + "bpf/*:\n")
    assert (status, lines) == (1, ["bpf/unwind/stack.h:1: bpf/stacks/stack.h has the same name: rename one"])


def test_duplicate_agent_headers_warn(check):
    status, lines = check({"agent/bpf/maps.h": "", "agent/elf/maps.h": ""})
    assert (status, lines) == (0, ["warning: agent/elf/maps.h:1: agent/bpf/maps.h has the same name: rename one"])


# ---- cycles -------------------------------------------------------------------------------------


def test_shows_a_cycle_with_its_weakest_edge_first(check):
    status, lines = check({
        "agent/elf/elf.c": '#include "agent/elf/elf.h"\n#include "agent/elf/notes.h"\nint max = NOTES_MAX;\n',
        "agent/elf/notes.h": "enum { NOTES_MAX = 8 };\n",
        "agent/elf/notes.c": '#include "agent/elf/notes.h"\n\n#include "agent/elf/elf.h"\nint f(struct elf *e) { return elf_open(e, 0); }\n',
    })
    assert status == 1
    assert lines == [
        "agent/elf/elf.c:2: cycle of 2 modules: agent/elf/elf needs only NOTES_MAX of agent/elf/notes: "
        "move that to a module below both",
        "    agent/elf/elf -> agent/elf/notes: NOTES_MAX (agent/elf/elf.c:2)",
        "    agent/elf/notes -> agent/elf/elf: elf, elf_open (agent/elf/notes.c:3)",
    ]


def test_types_weigh_less_than_calls(check):
    _, lines = check({
        "agent/elf/elf.c": '#include "agent/elf/elf.h"\n#include "agent/elf/notes.h"\nint f(void) { return notes_read(); }\n',
        "agent/elf/notes.h": '#include "agent/elf/elf.h"\nstruct notes { struct elf elf; struct error *err; };\nint notes_read(void);\n',
    })
    assert lines[0] == ("agent/elf/notes.h:1: cycle of 2 modules: agent/elf/notes needs only elf of agent/elf/elf: "
                        "move that to a module below both")


def test_finds_a_cycle_across_rooms(check):
    _, lines = check({
        "agent/elf/elf.c": '#include "agent/elf/elf.h"\n#include "agent/ship/ship.h"\nint f(void) { return ship(); }\n',
        "agent/symbols/executable.h": '#include "agent/elf/elf.h"\nstruct executable { int parts; };\n',
        "agent/ship/ship.h": '#include "agent/symbols/executable.h"\nint ship(void);\nstruct executable *e;\n',
    }, "--cycles")
    assert lines == [
        "agent/symbols/executable.h:1: cycle of 3 modules: agent/symbols/executable uses nothing of agent/elf/elf: delete the include",
        "    agent/symbols/executable -> agent/elf/elf: nothing (agent/symbols/executable.h:1)",
        "    agent/elf/elf -> agent/ship/ship: ship (agent/elf/elf.c:2)",
        "    agent/ship/ship -> agent/symbols/executable: executable (agent/ship/ship.h:1)",
    ]


def test_one_cut_opens_two_cycles(check):
    _, lines = check({
        "base/a.h": '#include "base/b.h"\nint x = B;\n',
        "base/b.h": '#include "base/c.h"\n#include "base/d.h"\n#define B (c() + d())\n',
        "base/c.h": '#include "base/a.h"\nint c(void);\n',
        "base/d.h": '#include "base/a.h"\nint d(void);\nint f(void) { return x; }\n',
    })
    assert [line for line in lines if "cycle" in line] == [
        "base/a.h:1: cycle of 3 modules: base/a needs only B of base/b: move that to a module below both",
    ]


def test_c_file_belongs_to_its_header(check):
    files = {
        "agent/elf/elf_open.c": '#include "agent/elf/elf.h"\n#include "agent/elf/notes.h"\n\n'
                                "int elf_open(struct elf *elf, struct error *err)\n{\n\treturn NOTES_MAX;\n}\n",
        "agent/elf/notes.h": '#include "agent/elf/elf.h"\nenum { NOTES_MAX = 8 };\nint notes(struct elf *elf, int (*open)(void));\n',
    }
    _, lines = check(files)
    assert lines[1:] == [
        "    agent/elf/elf -> agent/elf/notes: NOTES_MAX (agent/elf/elf_open.c:2)",
        "    agent/elf/notes -> agent/elf/elf: elf (agent/elf/notes.h:1)",
    ]


def test_lone_c_file_is_a_module(check):
    assert check({
        "agent/elf/elf_tool.c": '#include "agent/elf/elf.h"\n#include "agent/elf/notes.h"\n\nint tool(void)\n{\n\treturn 0;\n}\n',
        "agent/elf/notes.h": '#include "agent/elf/elf.h"\n',
    }) == (0, [])


# ---- tests and READMEs ----------------------------------------------------------------------------


UNIT = ROOMS + "tests/unit/agent/*: agent\n"


@pytest.mark.parametrize("name, text", [
    ("test_elf.c", ""),
    ("test_elf_hostile.c", ""),
    ("test_chain.c", "// Tests of two rooms.\n// Subject: agent/symbols/executable.h.\n"),
    ("test_chain.c", "/*\n * Subject: agent/symbols, with files of this machine\n */\n"),
    ("test_table.c", "// Subject: tests/layers/rooms.txt\n"),
])
def test_a_unit_test_has_a_subject(check, name, text):
    assert check({f"tests/unit/agent/elf/{name}": text}, rooms=UNIT) == (0, [])


@pytest.mark.parametrize("path, text, problem", [
    ("elf/test_notes.c", "", "1: agent/elf has no module notes: rename or move the test, or add the line '// Subject: path'"),
    ("gpu/test_nvml.c", "", "1: agent/gpu has no C files: move the test to the folder of its subject"),
    ("elf/test_notes.c", "\n// Subject: agent/notes.h\n", "2: its subject agent/notes.h does not exist: correct the path"),
])
def test_misses_the_subject_of_a_unit_test(check, path, text, problem):
    status, lines = check({f"tests/unit/agent/{path}": text}, rooms=UNIT)
    assert (status, lines) == (1, [f"tests/unit/agent/{path}:{problem}"])


def test_lists_modules_without_a_test(check):
    long = '#include "agent/elf/elf.h"\n' + "int x;\n" * 40
    files = {"agent/elf/elf.c": long, "tests/unit/agent/elf/test_elf_open.c": ""}
    assert check(files, rooms=UNIT) == (0, [])
    assert check(files, "--untested", rooms=UNIT) == (
        0, ["untested: agent/elf/elf.c:1: no test of its name: tests/unit/agent/elf/test_elf.c"])
    assert check({"tests/unit/agent/elf/test_elf.c": ""}, "--untested", rooms=UNIT) == (0, [])


def test_a_room_has_a_short_readme(check):
    rooms = "base:\nagent:\n"
    files = {path: None for path in ELF if path.startswith("agent/")} | {"agent/main.c": ""}
    assert check(files, rooms=rooms) == (0, [])
    status, lines = check({**files, "base/README.md": "`error.h`\n" * 41}, "--readmes", rooms=rooms)
    assert status == 1
    assert lines == [
        "agent/README.md:1: is missing: say what lives here, what comes in and goes out, the file to open first, its limits",
        "base/README.md:41: a room's README.md has at most 40 lines: shorten it",
    ]
    readmes = {"base/README.md": "`error.h`\n" * 40, "agent/README.md": "`main.c`"}
    assert check({**files, **readmes}, "--readmes", rooms=rooms) == (0, [])


README_ROOMS = """\
base:
agent: base
    elf
    .
generated gen/*.js made.js: it is made
"""
README_TREE = {
    **{path: None for path in ELF},
    "base/error.h": "void error_set(void);\n",
    "agent/elf/elf.h": "int elf_open(void);\n// renamed: elf_start()\n",
    "agent/elf/elf.c": '#include "agent/elf/elf.h"\nint elf_open(void) { return close(0); }\n',
    "agent/main.c": "",
    "base/README.md": "`error.h`",
    "agent/README.md": "`main.c`, `elf/elf.h`",
    "agent/elf/README.md": "`elf.h`",
}


@pytest.mark.parametrize("text", [
    "`elf.h`: `elf_open()`, `close()`",
    "`elf.c`",
    "`elf`",
    "[here](elf.h) and [there](https://nowhere.invalid/x.c)",
    "`elf.[ch]`",
    "`elf.h`; `error.h`, `error_set()` of base",
    "`elf.h`; `error.h` of [another](../../base/README.md#errors)",
    "`elf.h`; base/error.h, agent/main.c, `elf/elf.c`, `../elf/elf.h`",
    "`elf.h`; `elf_NAME.c`, `*.bpf.c`, `elf_*.h`, `…_open()`, `made.js`",
])
def test_readme_names_what_exists(check, text):
    assert check({**README_TREE, "agent/elf/README.md": text}, "--readmes", rooms=README_ROOMS) == (0, [])


@pytest.mark.parametrize("text, problem", [
    ("gone.h", "gone.h is not in this room, nor where the text links: correct the name"),
    ("x gone.bpf.h.", "gone.bpf.h is not in this room, nor where the text links: correct the name"),
    ("`error.h`", "error.h is not in this room, nor where the text links: link the room of base/error.h"),
    ("`agent/elf/gone.c`", "agent/elf/gone.c is not in this room, nor where the text links: correct the name"),
    ("`elf.cc`", "elf.cc is not in this room, nor where the text links: correct the name"),
    ("`elf_close()`", "no code here, nor where the text links, has elf_close(): correct the name or link its room"),
    ("`elf_start()`", "no code here, nor where the text links, has elf_start(): correct the name or link its room"),
    ("`error_set()`", "no code here, nor where the text links, has error_set(): correct the name or link its room"),
    ("[it](../gone/README.md)", "../gone/README.md does not exist: correct the link"),
])
def test_readme_names_what_does_not_exist(check, text, problem):
    readme = {"agent/elf/README.md": f"`elf.h`\n{text}\n"}
    assert check({**README_TREE, **readme}, "--readmes", rooms=README_ROOMS) == (1, [f"agent/elf/README.md:2: {problem}"])


def test_overview_names_what_exists(check):
    overview = {"ARCHITECTURE.md": "[elf](agent/elf): `elf.h`\n[gone](gone.h), `gone.c`\n"}
    assert check({**README_TREE, **overview}, "--readmes", rooms=README_ROOMS) == (1, [
        "ARCHITECTURE.md:2: gone.h does not exist: correct the link",
        "ARCHITECTURE.md:2: gone.c is not in this room, nor where the text links: correct the name"])


def test_readme_names_all_files(check):
    files = {
        **README_TREE,
        "agent/elf/build_id.c": "", "agent/elf/elf_go.c": '#include "agent/elf/elf.h"\n',
        "collector/store.c": "", "collector/files.cc": "", "collector/README.md": "`store.c`",
        "collector/web/app.js": "", "collector/web/page.js": "function show() {}", "collector/web/README.md": "`page.js`: `show()`",
        "cli/cmd_top.c": "", "cli/main.c": "", "cli/README.md": "one file `cmd_NAME.c` for each",
    }
    assert check(files, "--readmes", rooms=README_ROOMS + "collector/*:\ncli:\n") == (1, [
        f"{room}/README.md:1: does not name {name}: say in a row what it is for" for room, name in (
            ("agent/elf", "build_id.c"), ("agent/elf", "elf_go.c"), ("cli", "main.c"), ("collector", "files.cc"),
            ("collector/web", "app.js"))])


# ---- what a header declares -------------------------------------------------------------------------


def test_reads_what_a_header_declares():
    names, functions, fields = check_layers.read_declarations("""
#define MACRO(x) \\
    ((x) + hidden)
#define CONSTANT 1
struct forward;
enum color { RED, GREEN = CONSTANT, BLUE };
enum { LAST = sizeof(int) };
struct point { int x, y; struct inner { char name[8]; unsigned bits : 3; } inner; };
typedef struct { int a; } number;
typedef void (*callback)(int);
typedef int plain(void);
extern const char *const titles[4];
const volatile bool before_load = false;
static inline int twice(int n)
{
    int local = n;
    return call(local);
}
int open_file(const char *path, void (*done)(void)) __attribute__((nonnull));
struct { int type; } ring SEC(".maps");
_Static_assert(sizeof(int) == 4, "an int");
""")
    assert functions == {"twice", "open_file"}
    assert names == functions | {"MACRO", "CONSTANT", "color", "RED", "GREEN", "BLUE", "LAST", "point", "inner", "number", "callback",
                                 "plain", "titles", "before_load", "ring"}
    assert {"x", "y", "name", "bits", "a", "type"} <= fields
