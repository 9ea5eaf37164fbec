# SPDX-License-Identifier: Apache-2.0
"""The compare page: what is compared with what, changes in colour and as a table, links to both sides."""

import re
import time
import urllib.parse

import pytest

SERVICE = "llm-gateway"
LINK = f"/?page=compare&query={SERVICE}&from=now-5m&live=off"


def rows(page):
    return page.evaluate("[...document.querySelectorAll('.compare-table tbody tr')].map((row) => "
                         "({ name: row.dataset.name, unsure: row.className === 'unsure', cells: [...row.cells].map((c) => c.innerText.trim()) }))")


def asked(fake):
    """The parameters of the last comparison that the page asked for."""
    path = [request for request in fake.server.requests if "/api/v1/diff" in request][-1]
    return dict(urllib.parse.parse_qsl(path.partition("?")[2].partition(" ")[0]))


def choose(page, label, value):
    """Choose @value of the picker that @label names."""
    page.evaluate("""(() => {
        const select = [...document.querySelectorAll('.compare-controls label')].find((l) => l.textContent.startsWith(%r)).querySelector('select');
        select.value = %r;
        select.dispatchEvent(new Event('change'));
    })()""" % (label, value))
    page.settle()


@pytest.mark.parametrize("width, height, dark", [(1280, 800, False), (1280, 800, True), (390, 844, False)])
def test_changes_are_coloured_and_sorted(fake, open_page, artefact, width, height, dark):
    page = open_page(fake.url + LINK, width=width, height=height, dark=dark)
    page.screenshot(artefact(f"compare-{width}{'-dark' if dark else ''}"))
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    shown = rows(page)
    sure = [row for row in shown if not row["unsure"]]
    assert sure and shown[:len(sure)] == sure  # what may be chance comes last
    assert "not significant" in page.text(".diff-legend") and page.text(".compare-table-head .facts").endswith("significantly: listed first")
    if width > 1000:
        # Of a fake collector's factors a quarter is four times as much in B.
        assert any("+300" in row["cells"][3] for row in sure) and any(row["cells"][3].endswith("new") for row in sure)
        colors = set(page.evaluate("cairn.compare.boxes().map((box) => box.color)"))
        hues = {float(re.findall(r"[\d.]+", color)[2]) // 90 for color in colors if float(re.findall(r"[\d.]+", color)[1]) > 0.03}
        assert hues == {0, 2}, colors  # vermilion and blue; what may be chance has none
    assert page.complaints() == []


def test_a_picked_function_is_marked_in_the_graph(fake, open_page):
    page = open_page(fake.url + LINK, width=1280, height=800)
    name = rows(page)[0]["name"]
    page.click(".compare-table tbody tr")
    page.settle()
    matched = page.evaluate("cairn.compare.boxes().filter((box) => box.matched).map((box) => box.name)")
    assert matched and set(matched) == {name}
    page.click(".compare-table-head .segments [data-value=new]")
    page.settle()
    assert rows(page) and all(row["cells"][3].endswith("new") for row in rows(page)) and "show=new" in page.address()


def test_each_baseline_asks_for_its_own(fake, open_page):
    page = open_page(fake.url + LINK, width=1280, height=800)
    assert "against" not in asked(fake) and "against_from" not in asked(fake)
    choose(page, "Compare with", "1d")
    assert asked(fake)["against"] == "1d" and "against=1d" in page.address()
    choose(page, "Compare with", "rest")
    rest = asked(fake)
    length = int(rest["to"]) - int(rest["from"])
    assert rest["against"] == "rest" and int(rest["against_from"]) == int(rest["from"]) - 10 * length
    assert int(rest["against_to"]) >= int(rest["to"])
    fake.server.requests.clear()
    choose(page, "Compare with", "query")
    assert not any("/diff" in request for request in fake.server.requests)
    assert "Choose a baseline" in page.text("#page-compare .panel-message")
    page.evaluate("(() => { const input = document.querySelector('.compare-input:not([hidden])'); input.value = 'vector-db';"
                  " input.dispatchEvent(new Event('change')); })()")
    page.settle()
    assert asked(fake)["against_query"] == '{service="vector-db"}' and asked(fake)["query"] == '{service="llm-gateway"}'
    page.click(".compare-controls .segments [data-value=share]")
    page.settle()
    assert asked(fake)["norm"] == "share" and "%" in rows(page)[0]["cells"][1]
    page.open(page.address())  # the link restores all of it
    assert asked(fake)["against_query"] == '{service="vector-db"}' and asked(fake)["norm"] == "share"
    assert page.complaints() == []


def test_compares_regions_with_the_rest(fake, open_page):
    now_ms = int(time.time() * 1000)
    page = open_page(fake.url + f"/?page=compare&query={SERVICE}&from={now_ms - 300000}&to={now_ms}&live=off&against=rest"
                     f"&sel={now_ms - 200000}-{now_ms - 190000},{now_ms - 100000}-{now_ms - 99000}", width=1280, height=800)
    assert asked(fake)["ranges"] == f"{now_ms - 200000}/{now_ms - 190000},{now_ms - 100000}/{now_ms - 99000}"
    assert asked(fake)["against_from"] == str(now_ms - 300000) and asked(fake)["against_to"] == str(now_ms) and "from" not in asked(fake)
    page.click(".side-b a")
    page.settle()
    assert page.shown("#main-panel") and "sel=" in page.address() and "over=heat" in page.address()
    assert page.complaints() == []


def test_both_sides_open_as_profiles(fake, open_page):
    page = open_page(fake.url + LINK + "&against=1d", width=1280, height=800)
    began = asked(fake)["from"]
    page.click(".side-a a")
    page.settle()
    assert page.shown("#main-panel") and "page=" not in page.address()
    day_before = page.evaluate("new Date(new URLSearchParams(location.search).get('from')).getTime()")
    assert abs(int(began) - day_before - 86400000) < 1000
    page.evaluate("history.back()")
    page.wait("cairn.settled() && document.querySelector('#page-compare').getClientRects().length", "Back shows the comparison")


def test_says_what_cannot_be_compared(fake, open_page):
    page = open_page(fake.url + LINK + "&type=rss", width=1280, height=800)
    assert "no stacks to compare" in page.text("#page-compare .panel-message")
    assert not any("/diff" in request for request in fake.server.requests)
