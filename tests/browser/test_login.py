# SPDX-License-Identifier: Apache-2.0
"""The page of a collector that needs a login."""

import pytest

from conftest import missing_for_real
from fleet import wait_until
from secure_collector import SecureApi, SecureCollector


@pytest.fixture
def secure(tmp_path):
    reason = missing_for_real()
    if reason:
        pytest.skip(reason)
    with SecureCollector(tmp_path) as running:
        yield running


def test_a_token_opens_the_page(secure, browser, artefact):
    token_file = secure.new_token("reader", "read", "shop")
    token = token_file.read_text().strip()
    wait_until("the new token", 10, lambda: SecureApi(secure, token_file).answers("/api/v1/status"))
    page = browser.page()
    try:
        page.call("Page.navigate", {"url": f"http://{secure.http}/"})
        page.wait("document.querySelector('#login')?.open", "the login form is shown")
        page.screenshot(artefact("login"))
        assert not page.shown("#banner"), "the collector is not away"
        page.click("#login-token")
        page.type("cairn_reader.wrong")
        page.press("Enter")
        page.wait("!document.querySelector('#login-error').hidden", "the wrong token is refused")
        assert "not known" in page.text("#login-error")

        page.type(token)  # the field's text is selected
        page.press("Enter")
        page.wait("document.querySelector('#logout') && !document.querySelector('#logout').hidden", "logged in")
        page.settle()
        assert not page.shown("#login")
        assert page.evaluate("document.cookie") == "", "scripts cannot read the cookie"
        assert token not in page.evaluate("document.documentElement.outerHTML + JSON.stringify({...localStorage})")

        page.call("Page.reload")
        page.wait("window.cairn?.settled() === true && !document.querySelector('#logout').hidden", "still logged in")
        page.click("#logout")
        page.wait("document.querySelector('#login')?.open", "logged out")
    finally:
        page.close()
        browser.events.clear()
