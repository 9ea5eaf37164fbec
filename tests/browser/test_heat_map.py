# SPDX-License-Identifier: Apache-2.0
"""The heat map: lanes, regions by mouse and keyboard, and links to a moment."""

import re
import time
import urllib.parse

import fake_profiles as profiles
from fake_data import SPIKE_AGE_S

SERVICE = "llm-gateway"
ROWS = 50


def open_range(fake):
    """Three minutes around the spike, which ends within them, as times of a request."""
    begin_ms = int((fake.server.api.data.started_s - SPIKE_AGE_S - 60) * 1000)
    return str(begin_ms), str(begin_ms + 180_000)


def open_map(open_page, fake, **look):
    begin, end = open_range(fake)
    return open_page(f"{fake.url}/?query={SERVICE}&over=heat&live=off&from={begin}&to={end}", **look)


def plot(page):
    return page.evaluate("cairn.heatMap.plot()")


def view(page, name):
    return page.evaluate(f"cairn.view().{name}")


def place(page, lane, cell):
    """The middle of cell number @cell of the lane with key @lane, in the window."""
    drawn = plot(page)
    lane = next(one for one in drawn["lanes"] if one["key"] == lane)
    column, row = divmod(cell, ROWS)
    return (lane["x"] + (column + 0.5) / drawn["grid"]["columns"] * lane["width"],
            lane["y"] + (1 - (row + 0.5) / ROWS) * lane["height"])


def drag(page, lane, first, last, shift=False):
    (x, y), (to_x, to_y) = place(page, lane, first), place(page, lane, last)
    modifiers = 8 if shift else 0
    page.hover(x, y)
    page.mouse("mousePressed", x, y, "left", 1, 1, modifiers)
    page.mouse("mouseMoved", to_x, to_y, "left", 0, 1, modifiers)
    page.mouse("mouseReleased", to_x, to_y, "left", 1, 0, modifiers)
    page.settle()


def times(page, first, last):
    grid = plot(page)["grid"]
    return f"{grid['from_ms'] + 20 * first}-{grid['from_ms'] + 20 * (last + 1)}"


def asked(fake, path, last=True):
    requests = [dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(request).query)) for request in fake.server.requests if f"/{path}?" in request]
    return requests[-1] if last else requests


def ranges_of(selection):
    return selection.replace("-", "/")


def test_regions_select_exactly_their_slots(fake, open_page, artefact):
    page = open_map(open_page, fake)
    cpu = profiles.CPU + "/"
    drawn = plot(page)
    assert drawn["grid"] == {"from_ms": drawn["grid"]["from_ms"], "column_ms": 1000, "cell_ms": 20, "columns": drawn["grid"]["columns"]}
    titles = [lane["title"] for lane in drawn["lanes"]]
    assert titles[:3] == ["CPU time", "Run queue", "Blocked (off-CPU): lock"] and "Blocked (off-CPU): idle" not in titles
    hottest = max(range(len(drawn["lanes"][0]["rates"])), key=drawn["lanes"][0]["rates"].__getitem__)
    assert hottest % ROWS < 10  # the spike's work is done in the first 200 ms of a second
    # From a cell to a later one, over columns, in the order of time; backwards as well.
    first, last = 62 * ROWS + 7, 65 * ROWS + 3
    drag(page, cpu, last, first)
    one = times(page, first, last)
    assert view(page, "sel") == one
    for path in ("merge", "top"):
        request = asked(fake, path)
        assert request["ranges"] == ranges_of(one) and "from" not in request and request["query"] == f'{{service="{SERVICE}"}}'
    assert "2.94 s selected" in page.text("#selection")
    page.screenshot(artefact("heat-selected"))
    buttons = [page.rect(f"#selection-{name}") for name in ("compare", "timeline", "clear")]
    assert all(right["x"] - left["x"] - left["width"] >= 8 for left, right in zip(buttons, buttons[1:])), "one cannot hit the wrong one"
    drag(page, cpu, 80 * ROWS, 80 * ROWS, shift=True)  # one cell more
    both = f"{one},{times(page, 80 * ROWS, 80 * ROWS)}"
    assert view(page, "sel") == both and asked(fake, "merge")["ranges"] == ranges_of(both)
    assert page.text("#selection").startswith("2.96 s selected")
    page.press("Escape")
    page.settle()
    assert view(page, "sel") == "" and not page.shown("#selection") and "ranges" not in asked(fake, "merge")
    page.evaluate("history.back()")
    page.wait(f"cairn.settled() && cairn.view().sel === {both!r}", "Back selects again")
    assert page.complaints() == []


def test_a_region_is_compared_with_the_rest(fake, open_page, artefact):
    page = open_map(open_page, fake)
    drag(page, profiles.BLOCKED + "/lock", 62 * ROWS, 64 * ROWS - 1)
    begin, end = view(page, "sel").split("-")
    page.click("#selection-compare")
    page.settle()
    request = asked(fake, "diff")
    assert (request["from"], request["to"], request["against"]) == (begin, end, "rest") and request["type"] == profiles.BLOCKED
    assert (request["against_from"], request["against_to"]) == open_range(fake) and 'wait="lock"' in request["query"]
    page.screenshot(artefact("heat-compared"))
    shown_times = page.evaluate("[...document.querySelectorAll('.compare-input:not([hidden])')].map((i) => [i.value, i.scrollWidth <= i.clientWidth])")
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d{3})?", value) and fits for value, fits in shown_times), shown_times
    assert "without" in page.text(".side-a") or "parts" not in page.text(".side-a")
    page.evaluate("document.querySelector('#pages [data-name=service]').click()")
    page.settle()
    page.evaluate("document.querySelector('#pages [data-name=compare]').click()")
    page.settle()
    assert view(page, "against") == "before" and view(page, "base_from") == "", "the rest of another range is no baseline"
    page.evaluate("history.go(-2)")
    page.wait("cairn.settled() && cairn.view().against === 'rest'", "back to the comparison")
    page.evaluate("history.back()")
    page.wait(f"cairn.settled() && cairn.view().sel === '{begin}-{end}'", "Back selects the region again")
    assert page.complaints() == []


def test_a_lane_shows_its_own_flame_graph(fake, open_page):
    page = open_map(open_page, fake)
    drag(page, profiles.BLOCKED + "/lock", 62 * ROWS, 62 * ROWS + 9)
    assert view(page, "type") == profiles.BLOCKED and view(page, "query") == f'{{wait="lock", service="{SERVICE}"}}'
    assert f'The selector is {{wait="lock", service="{SERVICE}"}}' in page.text("#toast")
    assert "selected in Blocked (off-CPU): lock" in page.text("#selection") and "show all off-CPU time" in page.text("#selection")
    assert asked(fake, "merge")["type"] == profiles.BLOCKED and asked(fake, "merge")["ranges"] == ranges_of(view(page, "sel"))
    lanes = [lane["key"] for lane in plot(page)["lanes"]]
    assert profiles.CPU + "/" in lanes and profiles.BLOCKED + "/network" in lanes  # they stay
    maps = len(asked(fake, "heatmap", last=False))
    page.evaluate("document.querySelector('#type').value = %r; document.querySelector('#type').dispatchEvent(new Event('change'))" % profiles.WALL)
    page.settle()
    states = [request for request in asked(fake, "top", last=False) if request["type"] == profiles.WALL]
    assert {request["ranges"] for request in states} == {ranges_of(view(page, "sel"))}  # the states' table follows
    assert len(asked(fake, "heatmap", last=False)) == maps


def test_names_the_lanes_below(fake, open_page):
    page = open_map(open_page, fake, height=800)
    titles = [lane["title"] for lane in plot(page)["lanes"]]
    assert page.text("#heat-more").endswith(f"more below: {', '.join(title.split(': ')[-1] for title in titles[4:])}")
    box = page.rect("#heat-scroller")
    for _ in titles:
        page.evaluate("document.querySelector('#heat-more-button').click()")
    page.wait("document.querySelector('#heat-more').textContent === ''", "the last lane is shown")
    assert page.rect("#heat-scroller") == box, "nothing moves"
    last = plot(page)["lanes"][-1]
    assert box["y"] <= last["y"] < box["y"] + box["height"]
    page.resize(1440, 2400)
    page.wait("document.querySelector('#heat-more').hidden", "all lanes fit")


def test_keyboard_selects_and_reads_cells(fake, open_page):
    page = open_map(open_page, fake, dark=True)
    page.evaluate("document.querySelector('#heat').focus()")
    page.press("ArrowUp")  # to the hottest cell
    rates = plot(page)["lanes"][0]["rates"]
    hottest = max(range(len(rates)), key=rates.__getitem__)
    assert page.text("#heat-cell").startswith("CPU time, ") and page.text("#heat-cell").endswith(" cores")
    page.press("Enter")
    page.press("ArrowRight")
    page.press("ArrowUp")
    page.press("Enter")
    page.settle()
    assert view(page, "sel") == times(page, hottest, hottest + ROWS + 1)
    page.press("PageDown")
    assert page.text("#heat-cell").startswith("Run queue, ")
    page.press("Escape")
    page.settle()
    assert view(page, "sel") == ""
    page.press("h")
    assert page.shown("#chart") and not page.shown("#heat")


def test_hours_show_the_largest_slots(fake, open_page, artefact):
    page = open_page(f"{fake.url}/?query={SERVICE}&over=heat&live=off&from=now-2h", width=390, height=844)
    drawn = plot(page)
    assert drawn["grid"]["column_ms"] == 30_000 and asked(fake, "heatmap")["slot"] == "600ms" and asked(fake, "heatmap")["peak"] == "20ms"
    largest = max(drawn["lanes"][0]["rates"])
    page.evaluate("document.querySelector('[data-heat-mode=mean]').click()")
    assert max(plot(page)["lanes"][0]["rates"]) < largest / 1.5
    page.screenshot(artefact("heat-390"))
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert page.complaints() == []


def test_a_link_opens_a_moment(fake, open_page, artefact):
    at = int(fake.server.api.data.started_s - SPIKE_AGE_S + 4)
    page = open_page(f"{fake.url}/?at={time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime(at))}&for=2s&service={SERVICE}&type=run-queue", dark=True)
    assert view(page, "sel") == f"{at * 1000}-{(at + 2) * 1000}" and view(page, "query") == f'{{service="{SERVICE}"}}'
    assert view(page, "type") == profiles.WAITING and asked(fake, "merge")["ranges"] == ranges_of(view(page, "sel"))
    grid = plot(page)["grid"]
    assert grid["from_ms"] == (at - 60) * 1000 and grid["columns"] == 122
    assert "at=" not in page.address() and "sel=" in page.address()
    page.screenshot(artefact("heat-moment-dark"))
    page.open(f"{fake.url}/?at=never&for=2s&service={SERVICE}")
    assert view(page, "sel") == "" and view(page, "over") == "chart" and view(page, "query") == f'{{service="{SERVICE}"}}'
