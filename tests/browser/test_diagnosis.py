# SPDX-License-Identifier: Apache-2.0
"""The diagnosis card."""
import re
import urllib.parse

import fake_profiles as profiles
from test_profile_types import address, requests_to, shown, view

SERVICE = "llm-gateway"


def open_card(page):
    page.settle()
    page.click("#diagnosis-button")
    page.wait("document.querySelector('#diagnosis-popover h3') !== null", "a verdict")
    return shown(page.text("#diagnosis-popover"))


def test_shows_verdict_shares_and_stacks(fake, open_page, artefact):
    page = open_page(address(fake.url, query=SERVICE))
    text = open_card(page)
    assert text.startswith("Threads wait for Python's global interpreter lock")
    assert "Confidence: high." in text and "71.2 %" in text and "Threads wait for a CPU" in text
    assert re.search(r'"llm-gateway", \d\d:\d\d:\d\d – \d\d:\d\d:\d\d ', text.replace("llm-gateway,", '"llm-gateway",', 1)), "of what it is"
    assert "threshold" in text
    chart, card = page.rect("#chart-panel"), page.rect("#diagnosis-popover")
    assert card["y"] >= chart["y"] + chart["height"] and card["y"] + card["height"] <= 900, "the chart stays visible"
    assert "storage" not in text, "skips shares of zero"
    assert "<b>tokenize</b> (llm.py:40)" in text, "names are text"
    assert "60 % of this time is below <b>tokenize</b> (llm.py:40)." in text
    assert page.text("#diagnosis-popover .finding code") == "<b>tokenize</b> (llm.py:40)"
    assert "Processes instead of threads." in text
    assert "Out of the usual range meanwhile" in text and "94 % of the extra CPU time is <i>load</i>." in text
    assert page.evaluate("[...document.querySelectorAll('#diagnosis-popover .changed a')].map((link) => link.getAttribute('href'))") == \
        ["/?at=1700000000000&for=2s&service=llm-gateway", None], "a path of the page only"
    page.screenshot(artefact("diagnosis"))
    params = requests_to(fake, "diagnose")[-1]
    assert params["query"] == f'{{service="{SERVICE}"}}' and "type" not in params


def test_gpu_verdict_lists_figures_and_missing_data(fake, open_page, artefact):
    page = open_page(address(fake.url, query="trainer"))
    text = open_card(page)
    assert text.startswith("GPU starved: input is prepared too slowly")
    assert "55.0 %" in text and "Copy bound" in text
    assert "60.0 %" in text and "1.83" in text and "1,234/s" in text
    assert "memory bandwidth" not in text, "skips classes without data"
    assert "DRAM active (needs GPU telemetry (GPM" in text
    assert "7.31 µs" in text and "Intermittent" in text
    assert "wait for rank 3 of communicator c0ffee, on <i>n2</i>." in text, "names are text"
    assert "CPU time of the service's other threads" in text and "decode (images.py:12)" in text
    page.screenshot(artefact("diagnosis-gpu"))


def test_evidence_links_to_its_profile_type(fake, open_page):
    page = open_page(address(fake.url, query=SERVICE))
    open_card(page)
    page.click("#diagnosis-popover button.link")
    page.settle()
    assert view(page, "type") == profiles.BLOCKED
    assert view(page, "query") == f'{{wait="gil", service="{SERVICE}"}}'
    assert page.evaluate("document.querySelector('#diagnosis-popover').hidden")


def test_drops_matchers_of_one_profile_type(fake, open_page):
    page = open_page(address(fake.url, profiles.BLOCKED, query=f'{{service="{SERVICE}", wait="disk"}}'))
    open_card(page)
    assert "wait" not in urllib.parse.unquote(requests_to(fake, "diagnose")[-1]["query"])


def test_card_shows_a_failed_query(fake, open_page):
    page = open_page(address(fake.url, query='{service='))
    page.wait("document.querySelector('#diagnosis-button') !== null", "the page")
    page.evaluate("document.querySelector('#diagnosis-button').click()")
    page.wait("document.querySelector('#diagnosis-popover .form-error') !== null", "the refusal")
