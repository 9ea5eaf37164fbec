# SPDX-License-Identifier: Apache-2.0
"""The flame graph and the table: what is folded, hidden, coloured, searched, copied; callers and callees."""

import json
import re
import urllib.parse

import pytest

from test_page import boxes, view, visible_rows

PYTHON, LIBC, TORCH = "/usr/bin/python3.11", "/usr/lib/libc.so.6", "/usr/lib/libtorch.so"
PLAIN = {"fold": False, "recursion": False, "libraries": False, "hide": [], "focus": ""}
KINDS = ["unknown", "native", "kernel", "python", "jit"]


def address(url, **view):
    return f"{url}/?{urllib.parse.urlencode({'query': 'llm-gateway', 'live': 'off', **view})}"


def answer_of(*stacks):
    """The answer of /api/v1/merge for (value, frame, frame, ...), root first; a frame is "kind:name" or "kind:name@module"."""
    names, nodes, index = ["", "total"], {c: [0] for c in ("parent", "name", "module", "kind", "self", "total")}, {}
    nodes["name"] = [1]

    def number(text):
        if text not in names:
            names.append(text)
        return names.index(text)

    for value, *frames in stacks:
        at = 0
        nodes["total"][0] += value
        for frame in frames:
            kind, name = frame.split(":", 1)
            name, _, module = name.partition("@")
            key = (at, frame)
            if key not in index:
                index[key] = len(nodes["parent"])
                for column, cell in zip(nodes, (at, number(name), number(module), KINDS.index(kind), 0, 0)):
                    nodes[column].append(cell)
            at = index[key]
            nodes["total"][at] += value
        nodes["self"][at] += value
    return {"names": names, "kinds": KINDS, "unit": "nanoseconds", "node_count": len(nodes["parent"]), "nodes": nodes}


@pytest.fixture(scope="module")
def pure(browser, shared_fake):
    """pure(expression): its value, on a page of its own."""
    page = browser.page()
    page.open(shared_fake.url + "/?live=off")
    yield page.evaluate
    page.close()


@pytest.fixture(scope="module")
def shape(pure):
    """shape(answer, **how): {"root;frame;frame": (self, total)} of the shaped tree, which adds up; "folded" has what it folded."""

    def run(answer, **how):
        shaped = pure(f"import('/flame_shape.js').then((m) => m.shapeAnswer({json.dumps(answer)}, {json.dumps({**PLAIN, **how})}))")
        nodes, names = shaped["nodes"], shaped["names"]
        paths, below = ["total"], [0] * len(nodes["parent"])
        for node in range(1, len(nodes["parent"])):
            paths.append(f"{paths[nodes['parent'][node]]};{names[nodes['name'][node]]}")
            below[nodes["parent"][node]] += nodes["total"][node]
        for node, total in enumerate(nodes["total"]):
            assert total == nodes["self"][node] + below[node], paths[node]
        assert len(set(paths)) == len(paths), "siblings of one name are one"
        return {"folded": shaped["folded"], **{path: (nodes["self"][n], nodes["total"][n]) for n, path in enumerate(paths)}}

    return run


SERVE = [f"native:_start@{PYTHON}", f"native:__libc_start_main@{LIBC}", f"native:Py_RunMain@{PYTHON}", "python:<module> (a.py)"]
CALL = [f"native:_PyEval_EvalFrameDefault@{PYTHON}", f"native:slot_tp_call@{PYTHON}", f"native:method_vectorcall@{PYTHON}"]


def test_folds_the_interpreter_between_python_functions(shape):
    answer = answer_of((10, *SERVE, *CALL, "python:forward (a.py)"), (5, *SERVE, "python:forward (a.py)"), (3, *SERVE, CALL[0]))
    assert shape(answer, fold=True) == {"folded": 6, "total": (0, 18), "total;<module> (a.py)": (3, 18), "total;<module> (a.py);forward (a.py)": (15, 15)}
    assert shape(answer)["folded"] == 0 and len(shape(answer)) == 11


def test_folds_a_stack_of_cpython_3_11(shape):
    """As `cairn dump` printed it, leaf first: sorted() in a constructor, called by a list comprehension."""
    library = "/opt/lib/libpython3.11.so.1.0"
    stack = [f"native:{name}@{library}" for name in """object_dealloc list_sort_impl list_sort cfunction_vectorcall_FASTCALL_KEYWORDS
        PyObject_Vectorcall builtin_sorted""".split()]
    stack += ["python:A.__init__ (w.py)", *(f"native:{name}@{library}" for name in """_PyEval_Vector _PyObject_FastCallDictTstate
        _PyObject_Call_Prepend slot_tp_init type_call _PyObject_MakeTpCall""".split())]
    stack += [f"python:{name} (w.py)" for name in ("forward.<locals>.<listcomp>", "forward", "main", "<module>")]
    stack += [f"native:{name}@{library}" for name in """PyEval_EvalCode run_mod _PyRun_SimpleFileObject _PyRun_AnyFileObject Py_RunMain
        Py_BytesMain""".split()]
    stack += [f"native:__libc_start_call_main@{LIBC}", f"native:__libc_start_main@{LIBC}", f"native:_start@{PYTHON}"]
    created = [f"native:PyFunction_NewWithQualName@{library}"]
    restored = [f"native:{name}@{library}" for name in ("take_gil", "PyEval_RestoreThread")]
    shaped = shape(answer_of((4, *reversed(stack)), (2, *reversed(created + stack[6:])), (1, *reversed(restored + stack[6:]))), fold=True)
    python = "total;<module> (w.py);main (w.py);forward (w.py);forward.<locals>.<listcomp> (w.py);A.__init__ (w.py)"
    assert {path: value for path, value in shaped.items() if path.startswith(python + ";")} == {
        python + ";builtin_sorted": (0, 4), python + ";builtin_sorted;list_sort": (0, 4), python + ";builtin_sorted;list_sort;list_sort_impl": (0, 4),
        python + ";builtin_sorted;list_sort;list_sort_impl;object_dealloc": (4, 4), python + ";PyFunction_NewWithQualName": (2, 2),
        python + ";PyEval_RestoreThread": (0, 1), python + ";PyEval_RestoreThread;take_gil": (1, 1)}
    assert shaped["folded"] == 17 and len(shaped) == 1 + 6 + 7


def test_keeps_what_the_runtime_does_for_a_function(shape):
    """A dictionary's lookup, the lock of the interpreter, a library, the kernel."""
    answer = answer_of((1, *SERVE, CALL[0], f"native:take_gil@{PYTHON}", f"native:pthread_cond_timedwait@{LIBC}", "kernel:futex_wait_[k]"),
                       (2, *SERVE, CALL[0], f"native:lookdict@{PYTHON}"), (4, *SERVE, CALL[0], f"native:matmul@{TORCH}"))
    paths = {path.removeprefix("total;<module> (a.py);") for path in shape(answer, fold=True)}
    assert {"take_gil", "take_gil;pthread_cond_timedwait", "take_gil;pthread_cond_timedwait;futex_wait_[k]", "lookdict", "matmul"} <= paths


def test_folds_nothing_of_programs_without_python(shape):
    answer = answer_of((1, f"native:_start@{PYTHON}", f"native:gc_collect@{PYTHON}"), (2, f"native:_start@{LIBC}", "native:main@/bin/envoy"))
    assert shape(answer, fold=True)["folded"] == 0


def test_folds_call_machinery_linked_into_a_program(shape):
    own = "/srv/app"
    answer = answer_of((1, f"native:main@{own}", "python:a (a.py)", f"native:_PyEval_EvalFrameDefault@{own}", f"native:handle@{own}", "python:b (a.py)"))
    assert list(shape(answer, fold=True))[1:] == ["total", "total;main", "total;main;a (a.py)", "total;main;a (a.py);handle",
                                                   "total;main;a (a.py);handle;b (a.py)"]


def test_collapses_functions_that_call_themselves(shape):
    answer = answer_of((1, "native:f", "native:f", "native:g"), (2, "native:f", "native:g"), (4, "native:f", "native:f"), (8, "native:f", "kernel:f"))
    assert shape(answer, recursion=True) == {"folded": 0, "total": (0, 15), "total;f": (4, 15), "total;f;g": (3, 3), "total;f;f": (8, 8)}


def test_collapses_calls_within_a_library(shape):
    answer = answer_of((1, "native:main@/bin/x", f"native:a@{TORCH}", f"native:b@{TORCH}", "kernel:read_[k]", "kernel:vfs_read_[k]"),
                       (2, "native:main@/bin/x", f"native:c@{TORCH}", f"native:free@{LIBC}"))
    assert list(shape(answer, libraries=True).items())[1:] == [
        ("total", (0, 3)), ("total;main", (0, 3)), ("total;main;[libtorch.so]", (0, 3)), ("total;main;[libtorch.so];[kernel]", (1, 1)),
        ("total;main;[libtorch.so];[libc.so.6]", (2, 2))]


def test_hides_functions_and_keeps_their_time(shape):
    answer = answer_of((1, "native:f", "native:wrap", "native:g"), (2, "native:f", "native:wrap"), (4, "native:f", "native:g"))
    assert shape(answer, hide=["wrap", "no such"]) == {"folded": 0, "total": (0, 7), "total;f": (2, 7), "total;f;g": (5, 5)}


def test_focus_leaves_out_other_stacks(shape):
    answer = answer_of((1, "native:a", "native:f", "native:f", "native:g"), (2, "native:b", "native:f"), (4, "native:a", "native:x"))
    assert shape(answer, focus="f") == {"folded": 0, "total": (0, 3), "total;a": (0, 1), "total;a;f": (0, 1), "total;a;f;f": (0, 1),
                                        "total;a;f;f;g": (1, 1), "total;b": (0, 2), "total;b;f": (2, 2)}


@pytest.mark.parametrize("name, short", [
    ("short<int>(char)", "short<int>(char)"),
    ("at::native::vectorized<float, std::tuple<a, b>>::run(c10::TensorImpl const*)", "at::native::vectorized<…>::run(…)"),
    ("std::vector<std::pair<int, long>>::operator<(std::vector<int> const&) const", "std::vector<…>::operator<(…) const"),
    ("LlamaAttention.forward_with_a_long_name_that_goes_on (attention.py:88)",) * 2,
    ("a_broken_name_with_a_bracket_that_never_closes<int, long", "a_broken_name_with_a_bracket_that_never_closes<int, long"),
])
def test_shortens_templates_in_the_middle(pure, name, short):
    assert pure(f"import('/short_name.js').then((m) => m.shortName({json.dumps(name)}))") == short
    assert pure(f"import('/short_name.js').then((m) => m.nameElement({json.dumps(name)}).textContent)") == short


# ---- on the page ------------------------------------------------------------------------------


def test_one_click_shows_interpreter_frames(fake, open_page):
    page = open_page(address(fake.url, nodes=131072))
    total = boxes(page)[0]["total"]
    assert "main" not in {b["name"] for b in boxes(page)}
    page.evaluate("[...document.querySelectorAll('#coverage .link')].at(-1).click()")
    page.settle()
    assert view(page, "fold") == "off" and {"_start", "main"} <= {b["name"] for b in boxes(page)}
    assert boxes(page)[0]["total"] == total


def test_merges_lines_until_asked(fake, open_page):
    page = open_page(address(fake.url))
    assert not any(re.search(r":\d+\)$", name) for name in visible_rows(page))
    page.press("v")
    page.evaluate("document.querySelector('#options-popover input[name=lines]').click()")
    page.settle()
    assert view(page, "lines") == "on" and any("lines=all" in request for request in fake.server.requests)


def test_search_scrolls_to_its_largest_match(fake, open_page):
    page = open_page(address(fake.url, nodes=131072, layout="flame"), height=460)
    bottom = page.rect("#flame-scroller")
    scroll = "document.querySelector('#flame-scroller').scrollTop"
    name = page.evaluate("""(() => { const t = cairn.flameGraph.tree(), least = new Map();
        t.name.forEach((name, node) => t.total[node] < t.value / 200 || least.set(name, Math.min(least.get(name) ?? 99, t.depth[node])));
        return t.names[[...least].find(([, depth]) => depth > 12)[0]]; })()""")
    assert page.evaluate(scroll) == 0
    page.press("/")
    page.type(f'"{name}"')
    page.settle()
    box = next(b for b in boxes(page) if b["matched"] and b["current"])
    assert page.evaluate(scroll) > 0 and bottom["y"] <= box["y"] <= bottom["y"] + bottom["height"] - box["height"]
    assert re.match(r"1 of \d+, [\d.]+\s?%", page.text("#search-place")), page.text("#search-place")


def test_keys_step_through_matches(fake, open_page):
    page = open_page(address(fake.url, nodes=131072, search="spin_"))
    assert page.text("#search-place").replace("\u202f", " ") == "1 of 3, 3.0 %"
    page.press("n")
    page.settle()
    assert page.text("#search-place").startswith("2 of 3")
    assert [b["name"] for b in boxes(page) if b["current"]] == ["spin_inner"]
    page.press("n")
    page.press("n")
    assert page.text("#search-place").startswith("1 of 3")
    page.press("N")
    assert page.text("#search-place").startswith("3 of 3")
    page.press("f")
    page.press("N")
    page.settle()
    assert page.text("#flame-focus").startswith("spin_inner, Native")


def test_a_refresh_keeps_the_match(fake, open_page):
    page = open_page(address(fake.url, nodes=131072, search="spin_"))
    page.press("n")
    asked = len(fake.server.requests)
    page.press("l")  # live: refreshes at once
    page.settle()
    assert len([r for r in fake.server.requests[asked:] if "/merge" in r]) == 1 and page.text("#search-place").startswith("2 of 3")


def test_zooms_to_tiny_matches(fake, open_page):
    page = open_page(address(fake.url, nodes=131072, search="/_hash_search$|^hash_search$/"))
    count = int(re.search(r"of ([\d,]+)", page.text("#search-place"))[1].replace(",", ""))
    assert count > 3
    page.press("N")  # the smallest
    page.settle()
    current = next(b for b in boxes(page) if b["current"])
    assert view(page, "zoom") != "" and current["width"] >= 3


def test_menu_hides_focuses_and_resets(fake, open_page):
    page = open_page(address(fake.url))
    page.press("f")
    for _ in range(3):
        page.press("ArrowDown")
    name = page.text("#flame-focus").split(", Python")[0]
    page.press("m")
    assert page.evaluate("document.activeElement.role") == "menuitem" and page.text(".frame-menu-name") == name
    labels = page.evaluate("[...document.querySelectorAll('.frame-menu button')].map((b) => b.firstChild.textContent)")
    for _ in range(labels.index("Hide it")):
        page.press("ArrowDown")
    page.press("Enter")
    page.settle()
    assert view(page, "hide") == name and name in page.text("#flame-chips") and name not in {b["name"] for b in boxes(page)}
    page.click(".chip-remove")
    page.settle()
    assert view(page, "hide") == "" and not page.shown("#flame-chips")
    page.press("f")
    page.press("Escape")
    box = next(b for b in boxes(page) if b["name"] == "spin_inner")
    page.evaluate(f"cairn.flameGraph.openMenu({box['node']})")
    page.evaluate("[...document.querySelectorAll('.frame-menu button')].find((b) => b.textContent.startsWith('Only')).click()")
    page.settle()
    assert view(page, "focus") == "spin_inner" and {b["depth"]: b["name"] for b in boxes(page)}[2] == "spin_hot"
    page.press("Escape")
    assert view(page, "focus") == ""


def test_sandwich_shows_callers_and_callees(fake, open_page, artefact):
    page = open_page(address(fake.url, sandwich="spin_inner"))
    assert page.shown("#callers-scroller") and {b["name"] for b in boxes(page)} == {"spin_inner", "spin_hot"}
    callers = page.evaluate("cairn.callers.boxes()")
    assert {b["name"] for b in callers} == {"spin_inner", "spin_hot", "<module> (serve.py)"}
    assert {b["total"] for b in callers} == {boxes(page)[0]["total"]}
    root = next(b for b in callers if b["name"] == "spin_inner")
    assert all(b["y"] < root["y"] for b in callers if b != root), "callers are above"
    page.screenshot(artefact("flame-sandwich"))
    caller = next(b for b in callers if b["name"] == "spin_hot")
    page.click_at(caller["x"] + 20, caller["y"] + 8)
    page.settle()
    assert view(page, "sandwich") == "spin_hot"
    page.press("Escape")
    page.settle()
    assert not page.shown("#callers-scroller") and boxes(page)[0]["name"] == "total"


def test_table_rows_have_the_menu(fake, open_page):
    page = open_page(address(fake.url, layout="table", filter="spin_inner"))
    page.evaluate("document.querySelector('#table-body tr[data-name]').focus()")
    page.press("m")
    assert page.text(".frame-menu-name") == "spin_inner"
    page.press("Enter")
    page.settle()
    assert view(page, "sandwich") == "spin_inner" and view(page, "layout") == "both" and page.shown("#callers-scroller")


def test_copies_a_stack_leaf_first(fake, open_page):
    page = open_page(address(fake.url, nodes=131072, search="spin_inner"))
    page.evaluate("navigator.clipboard.writeText = (text) => { window.copied = text; return Promise.resolve(); }")
    page.press("f")
    page.press("n")
    page.press("c")
    page.wait("window.copied")
    assert page.evaluate("window.copied") == "spin_inner\nspin_hot\n<module> (serve.py)\n"
    assert "Stack of 3 frames copied." in page.text("#toast")


def test_colours_mean_kind_or_module(fake, open_page):
    page = open_page(address(fake.url))
    colors = "import('/flame_colors.js').then((m) => new Set(m.COLORINGS[%s](cairn.flameGraph.tree(), palette.readPalette()).of).size)"
    kinds, modules = (page.evaluate(f"import('/palette.js').then((palette) => {colors % json.dumps(name)})") for name in ("kind", "module"))
    assert modules > kinds
    page.press("v")
    page.evaluate("document.querySelectorAll('#options-popover input[name=color]')[1].click()")
    assert view(page, "color") == "module" and page.complaints() == []
    listed = page.text("#legend").replace("\u202f", " ")
    assert "kernel" in listed and ".py" in listed and "Native" not in listed, listed


def test_drag_moves_and_click_still_zooms(fake, open_page):
    page = open_page(address(fake.url))
    deep = next(b for b in boxes(page) if b["depth"] == 3 and b["width"] > 80)
    page.click_at(deep["x"] + 20, deep["y"] + 8)
    page.settle()
    zoomed = next(b for b in boxes(page) if b["node"] == deep["node"])
    page.drag(zoomed["x"] + 300, zoomed["x"] + 200, zoomed["y"] + 8)
    page.settle()
    moved = next(b for b in boxes(page) if b["node"] == deep["node"])
    assert page.evaluate("cairn.flameGraph.zoomed()") == deep["name"], "a drag is no click"
    assert moved["width"] == pytest.approx(zoomed["width"] - 100, abs=3) or moved["x"] + moved["width"] == pytest.approx(zoomed["x"] + zoomed["width"] - 100, abs=3)
    page.press("Escape")
    page.settle()
    assert page.evaluate("cairn.flameGraph.zoomed()") == "total"


def test_table_shows_where_time_goes(fake, open_page, artefact):
    page = open_page(address(fake.url, layout="table", filter="<module>"))
    page.click("#columns")
    page.settle()
    parts = page.evaluate("[...document.querySelector('#table-body tr[data-name]').querySelectorAll('.part')].map((c) => parseFloat(c.textContent) || 0)")
    assert len(parts) == 5 and sum(parts) == pytest.approx(100, abs=0.5) and parts[0] > 0 and parts[4] == 0, parts
    page.click("th[data-sort=kernel] button")
    page.settle()
    assert view(page, "sort") == "kernel" and page.complaints() == []
    page.screenshot(artefact("flame-table-parts"))


def test_keys_work_after_escape_in_a_picker(fake, open_page):
    page = open_page(address(fake.url))
    for opens in ("s", "t", "v"):
        page.press(opens)
        page.settle()
        page.press("Escape")
        assert page.evaluate("document.activeElement.matches('input, select') === false"), opens
    page.press("w")
    page.press("Escape")
    assert page.evaluate("document.activeElement.matches('select') === false") and view(page, "search") == ""
    page.press("d")
    page.wait("!document.querySelector('#diagnosis-popover').hidden")
    page.press("Escape")
    assert not page.shown("#diagnosis-popover")
    page.press("/")
    page.press("Escape")
    page.press("3")
    assert view(page, "layout") == "table"
    page.press("1")
    assert view(page, "layout") == "flame"


def source_rows(page):
    return page.evaluate("[...document.querySelectorAll('.source-table tbody tr')].map((row) => [...row.cells].map((cell) => cell.textContent))")


def test_shows_source_lines_of_a_function(fake, open_page, artefact):
    page = open_page(address(fake.url, layout="table", filter="<module> (serve.py)"))
    page.evaluate("document.querySelector('#table-body tr[data-name]').focus()")
    page.press("m")
    page.press("ArrowDown")
    page.press("Enter")
    page.settle()
    assert view(page, "code") == "<module> (serve.py)" and not page.shown("#table-scroller")
    assert page.text("#source-title") == "<module> (serve.py)"
    rows = source_rows(page)
    assert [row[0] for row in rows] == ["1", "2", "3", "4"] and rows[0][2].endswith("%") and rows[1][1:3] == ["", ""]
    assert all(row[3].startswith(f"\tcall_{row[0]}('<img src=x onerror=alert(1)>')") for row in rows), rows
    assert page.evaluate("document.querySelectorAll('.source-table img').length") == 0
    notes = page.text("#source-files")
    assert "of version 1.4, uploaded" in notes and "by token:ci" in notes and "Version 1.3 ran" in notes and "1 more uploads" in notes
    page.screenshot(artefact("source-lines"))
    page.click("#source-close")
    page.settle()
    assert view(page, "code") == "" and page.shown("#table-scroller")


def test_source_lines_say_what_to_do(fake, open_page):
    page = open_page(address(fake.url, code="spin_inner", layout="both"))
    assert "cairn-agent --lines" in page.text("#source-files") and [row[0] for row in source_rows(page)] == ["?"]
    page = open_page(address(fake.url, code="nobody", layout="table"))
    assert "No sample has this function" in page.text("#source-error")
