# SPDX-License-Identifier: Apache-2.0
"""A session on the page, from opening it to a link that restores the view.

Runs against the fake collector and a real one with a real agent (or the one at CAIRN_URL). Expected
values come from the API, so nothing here knows the data.
"""

import json
import re
import urllib.parse
import urllib.request

import pytest


def ask(url, path, **params):
    query = urllib.parse.urlencode({k: v for k, v in params.items() if v != ""})
    with urllib.request.urlopen(f"{url}/api/v1/{path}?{query}", timeout=30) as answer:
        return json.load(answer)


def shown_percent(text):
    """The number before the first % sign."""
    return float(re.search(r"([\d.]+)\s*%", text)[1])


@pytest.fixture
def range_ms(collector_url):
    """A range in the past whose data is complete, at most five minutes: two requests get the same answer."""
    status = ask(collector_url, "status")
    newest_ms, oldest_ms = status["newest_ns"] // 1_000_000, status["oldest_ns"] // 1_000_000
    return max(newest_ms - 300_000, oldest_ms), newest_ms - 1_000


def test_finds_and_shares_a_hot_function(collector_url, range_ms, open_page, artefact):
    url, (from_ms, to_ms) = collector_url, range_ms
    between = {"from": from_ms, "to": to_ms}
    services = ask(url, "series", group_by="service", **between)["series"]
    # Of the real ones a workload: the stacks of browsers that have just started may all be truncated. An interpreter's most frequent
    # functions are folded.
    names = [s["group"] for s in services if s["group"]]
    service = "c-browser" if "c-browser" in names else names[0]
    selector = f'{{service="{service}"}}'
    top = ask(url, "top", query=selector, limit=500, lines="none", **between)
    page = open_page(f"{url}/?from={from_ms}&to={to_ms}&nodes=131072")
    page.screenshot(artefact("journey-1-opened"))

    # Pick the service by typing the first half of its name.
    page.click("#service-button")
    page.type(service[:max(3, len(service) // 2)])
    page.wait(f"document.querySelector('.service-row.active')?.title === {json.dumps(service)}", "the service is found")
    page.screenshot(artefact("journey-2-typing"))
    page.press("Enter")
    page.settle()
    assert page.text("#service-name") == service
    assert page.evaluate("cairn.flameGraph.count()") > 1, "the flame graph has frames"
    assert shown_percent(page.text("#service-share")) == pytest.approx(
        100 * next(s["total"] for s in services if s["group"] == service) / sum(s["total"] for s in services), abs=0.2)

    # Zoom by clicking a box.
    boxes = page.evaluate("cairn.flameGraph.boxes()")
    box = next(b for b in boxes if b["depth"] >= 2 and b["kind"] != "truncated" and b["width"] > 20)
    page.click_at(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.settle()
    assert page.evaluate("cairn.flameGraph.zoomed()") == box["name"]
    widened = next(b for b in page.evaluate("cairn.flameGraph.boxes()") if b["node"] == box["node"])
    assert widened["width"] > box["width"] * 0.999
    assert widened["width"] == pytest.approx(page.rect("#flame")["width"], abs=2)
    assert box["name"] in page.text("#breadcrumb").replace("\n", "")

    # Search a function of the table and compare the share shown with the API's exact one.
    row = max(top["rows"], key=lambda r: r["total"] if 0.02 < r["total"] / top["total"] < 0.9 else 0)
    page.press("/")
    page.type(f'"{row["name"]}"')
    page.wait("document.querySelector('#search-share').textContent.includes('matched')", "the search shows its share")
    same_name = [r for r in top["rows"] if r["name"] == row["name"]]
    if len(same_name) == 1:
        assert shown_percent(page.text("#search-share")) == pytest.approx(100 * row["total"] / top["total"], abs=0.3)
    page.screenshot(artefact("journey-3-zoomed-and-searched"))

    # Drag over the middle third of the chart.
    plot = page.evaluate("cairn.seriesChart.plot()")
    page.drag(plot["x"] + plot["width"] / 3, plot["x"] + plot["width"] * 2 / 3, plot["y"] + plot["height"] / 2)
    page.wait("cairn.view().from.includes('T')", "the range is absolute")
    page.settle()
    after = page.evaluate("cairn.seriesChart.plot()")
    third = (to_ms - from_ms) / 3
    assert after["from_ms"] == pytest.approx(from_ms + third, abs=(to_ms - from_ms) / plot["width"] * 3)
    assert after["to_ms"] == pytest.approx(to_ms - third, abs=(to_ms - from_ms) / plot["width"] * 3)
    page.screenshot(artefact("journey-4-range-dragged"))

    # The link restores all of it in a new tab.
    view, zoomed, share = page.evaluate("cairn.view()"), page.evaluate("cairn.flameGraph.zoomed()"), page.text("#search-share")
    other = open_page(page.address())
    other.screenshot(artefact("journey-5-link-opened"))
    assert other.evaluate("cairn.view()") == view
    assert view["query"] == selector and view["search"] == f'"{row["name"]}"' and view["zoom"]
    assert other.evaluate("cairn.flameGraph.zoomed()") == zoomed
    assert other.text("#search-share") == share
    assert other.evaluate("cairn.seriesChart.plot()")["from_ms"] == after["from_ms"]
    assert page.complaints() == [] and other.complaints() == []


def test_live_page_refreshes(collector_url, open_page, artefact):
    page = open_page(collector_url)
    page.screenshot(artefact("journey-live"))
    assert page.text("#live-text") == "Live"
    first = page.evaluate("cairn.seriesChart.plot()")["to_ms"]
    page.wait(f"cairn.settled() && cairn.seriesChart.plot().to_ms >= {first} + 4000", "the page refreshes")
    assert page.complaints() == []
