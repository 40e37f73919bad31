"""A page of another site, in a real browser, makes no step and no record."""

from collections.abc import Iterator

import httpx
import pytest
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By
from selenium.webdriver.support.wait import WebDriverWait

from serve_app.processes.edge import FORBIDDEN
from tests.services.system import Services
from tests.support.local_server import Answer, serving

pytestmark = pytest.mark.hosts("evil.example")  # resolves to this machine, as by DNS rebinding

TIMEOUT_S = 60
STEP = '{"junction_id": "300839359", "obs_data": [0.5]}'
RECORD = "/api/loans?mobileNumber=4354437687"
# Each is sent without a preflight, and its answer is not shown to the page.
FETCH = """
const [url, body, done] = arguments;
fetch(url, {method: "POST", mode: "no-cors", body}).then((answer) => done(answer.type), done);
"""
SUBMIT = """
const form = document.body.appendChild(document.createElement("form"));
Object.assign(form, {method: "POST", action: arguments[0], enctype: "text/plain"}).submit();
"""
READ = "const done = arguments[1]; fetch(arguments[0]).then((answer) => done(answer.status), done);"


@pytest.fixture
def urls(system: Services) -> dict[str, str]:
    return system.edge.urls()


@pytest.fixture(params=["evil.example", "127.0.0.1"], ids=["another site", "another port"])
def page(request, browser) -> Iterator[Chrome]:
    html = Answer(200, b"<!doctype html><title>evil</title><body>", {"content-type": "text/html"})
    with serving(lambda asked: html) as url:
        browser.get(url.replace("127.0.0.1", request.param))
        assert browser.title == "evil"
        yield browser


def submit(page: Chrome, url: str) -> str:
    """Submit a form to the URL and return the text that the browser then shows."""
    page.execute_script(SUBMIT, url)
    WebDriverWait(page, TIMEOUT_S).until(lambda _: page.current_url == url)
    return page.find_element(By.TAG_NAME, "body").text


def test_its_requests_and_forms_change_nothing(page, urls):
    loans = urls["loans"] + RECORD
    httpx.post(urls["inference"] + "/reset_hidden", timeout=30).raise_for_status()
    for url, body in {
        urls["inference"] + "/predict_action": STEP,
        urls["inference"] + "/reset_hidden": "",
        loans: "",
    }.items():
        assert page.execute_async_script(FETCH, url, body) == "opaque"
    assert FORBIDDEN in submit(page, urls["inference"] + "/predict_action")
    page.back()
    assert FORBIDDEN in submit(page, loans)
    assert httpx.get(loans, timeout=30).status_code == 404
    step = httpx.post(urls["inference"] + "/predict_action", content=STEP, timeout=30)
    assert step.headers["x-hidden-state-step"] == "1"
    assert httpx.post(urls["inference"] + "/reset_hidden", timeout=30).status_code == 200


def test_under_its_own_name_it_reads_nothing_of_this_machine(browser, urls):
    rebound = urls["loans"].replace("127.0.0.1", "evil.example")
    browser.get(rebound + "/api/loans/docs")
    assert FORBIDDEN in browser.find_element(By.TAG_NAME, "body").text
    assert browser.execute_async_script(READ, RECORD) == 403


def test_its_links_lead_to_the_pages_and_those_call_their_service(page, urls):
    page.execute_script("location.href = arguments[0]", urls["loans"] + "/api/loans/docs")
    WebDriverWait(page, TIMEOUT_S).until(lambda _: "Loans" in page.title)
    assert page.execute_async_script(READ, RECORD) == 404
    assert page.execute_async_script(FETCH, RECORD, "") == "basic"
    assert httpx.delete(urls["loans"] + RECORD, timeout=30).status_code == 200
