# SPDX-License-Identifier: Apache-2.0
"""The timeline page: threads as rows, the stacks of a bar, zoom, keyboard, gaps."""

import json
import urllib.parse

import pytest

import fake_profiles as profiles
from fake_data import SPIKE_AGE_S

SERVICE = "llm-gateway"
SECONDS = 8
SLOTS_A_SECOND = 50


@pytest.fixture
def call_rows(fake, open_page):
    """call_rows(answer): the groups of rows of an answer of /api/v1/timeline."""
    page = open_page(fake.url + "/?page=timeline&live=off")
    return lambda answer: page.evaluate(f"import('/timeline_rows.js').then((m) => m.timelineOf({json.dumps(answer)}).groups)")


def begin_of(fake):
    """A whole second in which everything is stored, in Unix seconds."""
    return int(fake.server.api.data.started_s - SPIKE_AGE_S)


def open_timeline(open_page, fake, extra="", **look):
    begin = begin_of(fake)
    return open_page(f"{fake.url}/?page=timeline&query={SERVICE}&live=off&from={begin}&to={begin + SECONDS}{extra}", **look)


def plot(page):
    return page.evaluate("cairn.timeline.shown().plot")


def view(page, name):
    return page.evaluate(f"cairn.view().{name}")


def place(page, row, slot):
    """The middle of @slot of row number @row in the window."""
    drawn = plot(page)
    return drawn["x"] + (slot + 0.5) / drawn["grid"]["count"] * drawn["width"], drawn["rows"][row]["y"]


def asked(fake, path):
    requests = [request for request in fake.server.requests if f"/{path}?" in request]
    return dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(requests[-1]).query))


def parts(page):
    return page.evaluate("[...document.querySelectorAll('.timeline-parts button')].map((b) => [b.innerText.split(' ').slice(0, -2).join(' ').trim(), b.ariaPressed])")


@pytest.mark.parametrize("width, dark", [(1280, False), (390, True)])
def test_bar_shows_its_thread_and_time(fake, open_page, artefact, width, dark):
    page = open_timeline(open_page, fake, width=width, height=844, dark=dark)
    drawn = plot(page)
    assert drawn["grid"]["slot_ms"] == (20 if width > 800 else 40) and [row["threads"] for row in drawn["rows"]] == [1] * 4
    a_second = 1000 // drawn["grid"]["slot_ms"]
    largest = drawn["rows"][0]["largest"]
    assert [largest[int(a_second * part)] for part in (0.1, 0.34, 0.5, 0.8)] == ["Running", "Run queue", "Blocked: lock", "Blocked: GIL"]
    assert "Show 2 idle" in page.text("#page-timeline .facts")
    perfetto = page.evaluate("document.querySelector('#page-timeline a[download]').href")
    assert "/merge?type=wall%3Atime" in perfetto and "format=chrome" in perfetto
    page.click_at(*place(page, 0, a_second * 2 + a_second // 2))  # blocked on a lock from 0.4 s to 0.7 s
    page.settle()
    begin_ms = (begin_of(fake) + 2) * 1000
    request = asked(fake, "merge")
    assert request["ranges"] == f"{begin_ms + 400}/{begin_ms + (700 if width > 800 else 720)}" and request["type"] == profiles.BLOCKED
    assert request["query"] == '{wait="lock", service="llm-gateway", node="gpu-a1", process="python3.11", thread="worker-0"}'
    assert page.evaluate("cairn.timeline.shown().boxes.length") > 3 and parts(page) == [["Blocked: lock", "true"]]
    page.screenshot(artefact(f"timeline-{width}{'-dark' if dark else ''}"))
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    link = page.address()
    page.open(link)
    assert asked(fake, "merge")["ranges"] == request["ranges"] and page.shown(".timeline-stacks")
    page.evaluate("document.querySelector('.timeline-scroller').focus()")
    page.press("Escape")
    page.settle()
    assert view(page, "sel") == "" and view(page, "thread") == "" and not page.shown(".timeline-stacks")
    assert page.complaints() == []


def test_a_time_of_a_thread_has_parts(fake, open_page):
    page = open_timeline(open_page, fake)
    (from_x, y), (to_x, _) = place(page, 1, SLOTS_A_SECOND), place(page, 1, 2 * SLOTS_A_SECOND - 1)
    page.drag(from_x, to_x, y)
    page.settle()
    begin_ms = (begin_of(fake) + 1) * 1000
    assert view(page, "sel") == f"{begin_ms}-{begin_ms + 1000}" and view(page, "type") == profiles.CPU
    assert [part for part, _ in parts(page)] == ["Running", "Blocked: lock", "Blocked: GIL", "Run queue"]
    timelines = sum("/timeline?" in request for request in fake.server.requests)
    page.evaluate("document.querySelectorAll('.timeline-parts button')[2].click()")
    page.settle()
    assert 'wait="gil"' in asked(fake, "merge")["query"] and asked(fake, "merge")["type"] == profiles.BLOCKED and parts(page)[2][1] == "true"
    assert sum("/timeline?" in request for request in fake.server.requests) == timelines  # the rows stay
    assert page.evaluate("document.querySelector('.timeline-stacks a').search").startswith("?query=%7Bwait=")
    page.evaluate("document.querySelector('[aria-label=\"Zoom in\"]').click()")
    page.settle()
    assert plot(page)["grid"]["count"] == SECONDS * SLOTS_A_SECOND // 2 and asked(fake, "timeline")["from"] == str(begin_ms + 500 - 2000)


def test_keyboard_reads_slots_and_selects(fake, open_page):
    page = open_timeline(open_page, fake, "&idle=in")
    assert len(plot(page)["rows"]) == 6
    page.evaluate("document.querySelector('.timeline-scroller').focus()")
    page.press("ArrowDown")
    page.press("ArrowDown")
    for _ in range(5):
        page.press("ArrowRight")
    status = "#page-timeline [role=status]"
    assert page.text(status).startswith("worker-1, ") and page.text(status).endswith("Running 95.0\u202f%")
    page.press("Enter")
    page.settle()
    begin_ms = (begin_of(fake) + SECONDS // 2) * 1000
    assert view(page, "sel") == f"{begin_ms - 100}-{begin_ms + 300}" and 'thread="worker-1"' in view(page, "thread")


def test_only_bars_can_be_clicked(fake, open_page):
    page = open_timeline(open_page, fake)
    cursor = "document.querySelector('.timeline-spacer canvas').style.cursor"
    x, y = place(page, 0, 10)
    page.hover(x, y)
    assert page.evaluate(cursor) == "pointer"
    page.hover(plot(page)["x"] - 60, y)
    assert page.evaluate(cursor) == "default" and page.text("#tooltip") == "worker-0"


def test_instances_have_rows_of_their_own(call_rows):
    parts = [{"type": profiles.CPU, "total": 10, "runs": [0, 1, 10]}]
    threads = [{"labels": {"service": "s", "instance": name, "process": "python3", "thread": "python3"}, "active": 10, "parts": parts} for name in ("s-0", "s-1")]
    groups = call_rows({"from_ns": 0, "slot_ns": 10, "slot_count": 1, "threads": threads, "left_out": 0, "left_out_active": 0})
    assert [(group["title"], group["where"]) for group in groups] == [("python3", "s-0"), ("python3", "s-1")]


def test_a_gap_is_not_idle(fake, open_page, artefact):
    begin = begin_of(fake)
    fake.server.api.data.silent = (begin + 3, begin + 51)
    page = open_page(f"{fake.url}/?page=timeline&query={SERVICE}&live=off&from={begin}&to={begin + 60}")
    page.hover(*place(page, 0, plot(page)["grid"]["count"] // 2))
    assert "No data: no agent sent any" in page.text("#tooltip")
    page.screenshot(artefact("timeline-gap"))


def test_an_agent_without_a_budget_leaves_no_gap(fake, open_page):
    fake.server.api.data.has_budget = False
    begin = begin_of(fake)
    page = open_page(f"{fake.url}/?page=timeline&query={SERVICE}&live=off&from={begin}&to={begin + 60}")
    assert plot(page)["gaps"] == []


def test_a_selection_without_threads_says_what_to_do(fake, open_page):
    page = open_page(fake.url + "/?page=timeline&query=nobody&live=off")
    assert "No threads in this range." in page.text("#page-timeline .panel-message")
    page.click("#page-timeline .panel-message .button")
    page.settle()
    assert view(page, "query") == "" and plot(page)["rows"]
    page.open(f"{fake.url}/?query={SERVICE}&over=heat&live=off&from=now-3m&to=now-1m&sel={begin_of(fake)}000-{begin_of(fake) + 2}000")
    page.click("#selection-timeline")
    page.settle()
    begin_ms = begin_of(fake) * 1000
    assert (asked(fake, "timeline")["from"], asked(fake, "timeline")["to"]) == (str(begin_ms - 2000), str(begin_ms + 4000))
    assert page.complaints() == []
