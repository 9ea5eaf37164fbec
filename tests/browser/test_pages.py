# SPDX-License-Identifier: Apache-2.0
"""The pages beside the service page: navigation, the fleet's health."""

import re

import pytest

from fake_collector import FakeCollector
from fake_data import Data, SERVICES

SERVICE = "llm-gateway"


def current(page):
    return page.text("#pages [aria-current=page]")


def visible_page(page):
    return page.evaluate("[...document.querySelectorAll('main')].filter((m) => m.getClientRects().length).map((m) => m.id)")


def rows(page, place):
    """The cells of the rows of the table number @place of the page that is shown."""
    return page.evaluate("[...[...document.querySelectorAll('main:not([hidden]) table')][%d].tBodies[0].rows]"
                         ".map((row) => [...row.cells].map((cell) => cell.innerText.trim()))" % place)


def test_pages_keep_the_view_and_history(fake, open_page):
    page = open_page(fake.url + f"/?query={SERVICE}&live=off&from=now-5m")
    page.evaluate("document.querySelector('#pages [data-name=fleet]').focus()")
    page.press("Enter")
    page.settle()
    assert visible_page(page) == ["page-fleet"] and current(page) == "Fleet"
    assert "page=fleet" in page.address() and f"query={SERVICE}" in page.address() and "from=now-5m" in page.address()
    assert not page.shown("#service-button") and page.shown("#range-button")
    fake.server.requests.clear()
    page.press("d")  # a key of the service page
    page.press("s")
    assert page.evaluate("document.querySelectorAll('.popover:not([hidden])').length") == 0
    page.evaluate("history.back()")
    page.wait("cairn.settled() && document.querySelector('#main-panel').getClientRects().length", "Back shows the profile")
    assert current(page) == "Profiles" and page.text("#service-name") == SERVICE and "page=" not in page.address()
    assert not any("/diagnose" in request or "/agents" in request for request in fake.server.requests)
    assert page.complaints() == []


@pytest.mark.parametrize("width, height, dark", [(1280, 800, False), (1280, 800, True), (390, 844, False)])
def test_fleet_reports_silent_agents_and_drops(fake, open_page, artefact, width, height, dark):
    page = open_page(fake.url + "/?page=fleet&live=off", width=width, height=height, dark=dark)
    page.screenshot(artefact(f"fleet-{width}{'-dark' if dark else ''}"))
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    agents = {row[0]: row for row in rows(page, 0)}
    assert list(agents)[0] == "db-1" and agents["db-1"][1] == "silent" and agents["db-1"][2] == "10 m ago"
    assert agents["gpu-a2"][1] == "sending" and agents["gpu-b7"][6] == "0.0.9"
    per_s, seconds = 4.5, 15 * 60
    assert int(agents["gpu-a1"][4].replace(",", "")) == pytest.approx(per_s * seconds, rel=0.05)
    assert re.match(r"0\.012\d? cores", agents["gpu-a1"][3]) and agents["gpu-b7"][4] == "0"
    drops = rows(page, 1)
    assert [row[3] for row in drops] == ["ring_full", "targets_full", "counts_full"]  # samples are no loss
    assert drops[0][1].startswith("Records dropped: ring buffer full.") and drops[0][2] == "2"
    assert page.complaints() == []


def test_a_slow_page_can_be_cancelled(fake, open_page):
    page = open_page(fake.url + "/?page=fleet&live=off")
    fake.server.delay_s = 30
    page.evaluate("document.querySelector('#pages [data-name=services]').click()")
    page.wait("document.querySelector('#page-services .progress-note button') !== null", "a button to cancel")
    page.evaluate("document.querySelector('#page-services .progress-note button').click()")
    page.settle()
    assert page.text("#page-services .page-message").startswith("Cancelled.")


def test_fleet_shows_a_failure_and_recovers(fake, open_page):
    page = open_page(fake.url + "/?page=fleet&live=off")
    fake.server.away = True
    page.evaluate("document.querySelector('.preset[data-from=\"now-5m\"]').click()")
    page.settle()
    assert page.shown("#banner") and len(rows(page, 0)) == 4  # the last figures stay, marked as stale
    fake.server.away = False
    page.click("#banner-retry")
    page.wait("document.querySelector('#banner').hidden && cairn.settled()", "the collector is back")
    assert len(rows(page, 0)) == 4


SHORT_LIVED = 30


@pytest.fixture(scope="module")
def fleet():
    """A fleet with two days of data, and short-lived services."""
    short = {f"cc1-{number}": (0.003, ["db-1"], ["cc1"], "native", False) for number in range(SHORT_LIVED)}
    with FakeCollector(Data(600, services={**SERVICES, **short}, age_s=200_000)) as collector:
        yield collector


def test_a_young_store_has_no_yesterday(open_page):
    with FakeCollector(Data(300, age_s=600)) as young:
        page = open_page(young.url + "/?page=services&from=now-1h&live=off")
        headings = page.evaluate("[...document.querySelectorAll('.services-table th')].filter((h) => h.getClientRects().length).map((h) => h.innerText)")
        assert "CPU cores" in headings and "Since yesterday" not in headings
        ground, svg = page.rect(".spark-ground"), page.rect(".services-table svg")
        assert ground["x"] == svg["x"] and ground["width"] == svg["width"], "the whole range has a line"


@pytest.mark.parametrize("width, height, dark", [(1280, 800, False), (390, 844, True)])
def test_services_start_the_page(fleet, open_page, artefact, width, height, dark):
    page = open_page(fleet.url + "/", width=width, height=height, dark=dark)
    page.screenshot(artefact(f"services-{width}{'-dark' if dark else ''}"))
    assert current(page) == "Services" and page.evaluate("location.search") == ""
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    services = rows(page, 0)
    assert [row[0] for row in services[:2]] == ["llm-gateway", "embedding-worker"]
    assert float(services[0][1]) == pytest.approx(5.8, rel=0.15)
    assert 40 <= int(re.match(r"\+(\d+)", services[0][3])[1]) <= 60 and services[1][3] == "same"
    assert services[0][5:] == ["2", "3"] and services[1][5:] == ["2", "4"] or width < 480
    assert page.text(".services-table th:last-child") == "Pods, instances" or width < 480
    assert next(row for row in services if row[0] == "kubelet.service")[3].startswith("−5")
    # Small ones share a row, until they are asked for.
    assert len(services) == 9 and services[-1][0].startswith(f"{SHORT_LIVED - 2} small services, each below 0.5")
    page.evaluate("document.querySelector('.folded button').click()")
    assert len(rows(page, 0)) == len(SERVICES) + SHORT_LIVED + 1
    page.evaluate("document.querySelector('.services-table a').focus()")
    page.press("Enter")
    page.settle()
    assert current(page) == "Profiles" and page.text("#service-name") == "llm-gateway" and "page=" not in page.address()
    page.evaluate("history.back()")
    page.wait("cairn.settled() && document.querySelector('#page-services').getClientRects().length", "Back to the services")
    assert page.complaints() == []
