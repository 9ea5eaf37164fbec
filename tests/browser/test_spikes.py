# SPDX-License-Identifier: Apache-2.0
"""Marks of spikes above the chart."""
import re

import fake_profiles as profiles
from fake_data import SPIKE_S
from test_profile_types import address, requests_to, view

SERVICE = "llm-gateway"
MARKS = "[...document.querySelectorAll('.spike-mark')]"


def marks(page):
    return page.evaluate(MARKS + ".map((mark) => ({ text: mark.ariaLabel, x: mark.getBoundingClientRect().x,"
                         " width: mark.getBoundingClientRect().width }))")


def test_a_mark_says_why_and_selects_its_interval(fake, open_page, artefact):
    page = open_page(address(fake.url, profiles.BLOCKED, query=f'{{service="{SERVICE}"}}'))
    page.settle()
    shown = marks(page)
    assert len(shown) == 1, "one for an incident"
    assert "3.00 cores instead of 1.10" in shown[0]["text"] and "<b>tokenize</b>" in shown[0]["text"], "names are text"
    plot = page.evaluate("cairn.seriesChart.plot()")
    begin_ms = page.evaluate("document.querySelector('.spike-mark').dataset.from")
    x = plot["x"] + plot["width"] * (float(begin_ms) - plot["from_ms"]) / (plot["to_ms"] - plot["from_ms"])
    assert abs(x - shown[0]["x"]) < 2, "at its time"
    page.hover(shown[0]["x"] + 2, plot["y"] - 4)
    told = page.text("#tooltip")
    assert re.search(r"\d\d:\d\d:\d\d – \d\d:\d\d:\d\d, [\d.]+ s", told), "it begins and ends to the second"
    assert "3.00 cores instead of 1.10" in told and page.evaluate("document.querySelector('#chart-spikes').dataset.label") == "spikes"
    page.screenshot(artefact("spikes"))
    page.click(".spike-mark")
    page.settle()
    assert view(page, "type") == profiles.CPU
    first, last = map(int, view(page, "sel").split("-"))
    assert SPIKE_S * 1000 <= last - first <= SPIKE_S * 1000 + 40
    page.click(".spike-mark")
    page.settle()
    assert view(page, "sel") == "", "a second click clears it"
    assert page.complaints() == []


def test_all_services_are_not_asked_for(fake, open_page):
    fake.server.requests.clear()
    page = open_page(address(fake.url))
    page.settle()
    assert marks(page) == [] and requests_to(fake, "spikes") == []
