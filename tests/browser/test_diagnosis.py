# SPDX-License-Identifier: Apache-2.0
"""The card that says what holds a service up."""
import urllib.parse

import fake_profiles as profiles
from test_profile_types import address, asked, shown, view

SERVICE = "llm-gateway"


def open_card(page):
    page.settle()
    page.click("#diagnosis-button")
    page.wait("document.querySelector('#diagnosis-popover h3') !== null", "a verdict")
    return shown(page.text("#diagnosis-popover"))


def test_the_card_tells_the_verdict_its_shares_and_where(fake, open_page, artefact):
    page = open_page(address(fake.url, query=SERVICE))
    text = open_card(page)
    assert text.startswith("Threads wait for Python's global interpreter lock")
    assert "Confidence: high." in text and "71.2 %" in text and "Threads wait for a CPU" in text
    assert "storage" not in text, "what is nothing has no line"
    assert "<b>tokenize</b> (llm.py:40)" in text, "names are text"
    assert "Processes instead of threads." in text
    page.screenshot(artefact("diagnosis"))
    asked_for = asked(fake, "diagnose")[-1]
    assert asked_for["query"] == f'{{service="{SERVICE}"}}' and "type" not in asked_for


def test_a_gpus_verdict_comes_with_its_figures_and_with_what_is_not_known(fake, open_page, artefact):
    page = open_page(address(fake.url, query="trainer"))
    text = open_card(page)
    assert text.startswith("The GPU waits for input that is being prepared")
    assert "55.0 %" in text and "Copies to the GPU" in text
    assert "60.0 %" in text and "1.83" in text and "1,234/s" in text
    assert "memory's bandwidth" not in text, "what was not judged has no bar"
    assert "the GPU's memory transferred (told by the management library" in text
    assert "7.31 µs" in text and "comes and goes" in text
    assert "wait for rank 3 of communicator c0ffee, on <i>n2</i>." in text, "names are text"
    assert "What the service's other threads did on a CPU" in text and "decode (images.py:12)" in text
    page.screenshot(artefact("diagnosis-gpu"))


def test_its_evidence_is_one_click_away(fake, open_page):
    page = open_page(address(fake.url, query=SERVICE))
    open_card(page)
    page.click("#diagnosis-popover .link")
    page.settle()
    assert view(page, "type") == profiles.BLOCKED
    assert view(page, "query") == f'{{wait="gil", service="{SERVICE}"}}'
    assert page.evaluate("document.querySelector('#diagnosis-popover').hidden")


def test_labels_of_one_type_are_not_asked_for(fake, open_page):
    page = open_page(address(fake.url, profiles.BLOCKED, query=f'{{service="{SERVICE}", wait="disk"}}'))
    open_card(page)
    assert "wait" not in urllib.parse.unquote(asked(fake, "diagnose")[-1]["query"])


def test_a_refusal_is_told_in_the_card(fake, open_page):
    page = open_page(address(fake.url, query='{service='))
    page.wait("document.querySelector('#diagnosis-button') !== null", "the page")
    page.evaluate("document.querySelector('#diagnosis-button').click()")
    page.wait("document.querySelector('#diagnosis-popover .form-error') !== null", "the refusal")
