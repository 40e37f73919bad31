"""The docs pages as a user sees them: complete without any other host, and usable."""

import json

import pytest
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.expected_conditions import element_to_be_clickable
from selenium.webdriver.support.wait import WebDriverWait

from tests.services.system import USER
from tests.unit.gateway.conftest import PASSWORD

TIMEOUT_S = 60


class Page:
    """Swagger UI, by what it shows."""

    def __init__(self, browser: Chrome) -> None:
        self._browser = browser

    def open(self, url: str) -> None:
        self._browser.get(url)
        self.find(".information-container .title")

    def find(self, selector: str) -> WebElement:
        found = (By.CSS_SELECTOR, selector)
        return WebDriverWait(self._browser, TIMEOUT_S).until(lambda b: b.find_element(*found))

    def click(self, selector: str) -> None:
        target = WebDriverWait(self._browser, TIMEOUT_S).until(
            element_to_be_clickable((By.CSS_SELECTOR, selector))
        )
        self._browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", target)
        target.click()

    def fill(self, selector: str, text: str) -> None:
        field = self.find(selector)
        field.clear()
        field.send_keys(text)

    def try_out(self, method: str, path: str, body: object = None) -> tuple[str, dict[str, object]]:
        """Open an operation, execute it, and read status and body of the answer."""
        operation = f"[id$='{method}'][id*='{path}']"
        self.click(f"{operation} .opblock-summary-control")
        self.click(f"{operation} .try-out__btn")
        if body is not None:
            self.fill(f"{operation} .body-param__text", json.dumps(body))
        self.click(f"{operation} .execute")
        status = self.find(f"{operation} .live-responses-table .response .response-col_status")
        answer = self.find(f"{operation} .live-responses-table .response .highlight-code")
        WebDriverWait(self._browser, TIMEOUT_S).until(lambda _: status.text and answer.text)
        return status.text.split()[0], json.loads(answer.text.removeprefix("Download").strip())

    def complaints(self) -> list[str]:
        lines = self._browser.get_log("browser")
        return [line["message"] for line in lines]


@pytest.fixture
def page(browser):
    return Page(browser)


@pytest.mark.parametrize(
    ("listener", "path", "title"),
    [
        ("gateway", "/api/docs", "Traffic signal gateway"),
        ("loans", "/api/loans/docs", "Loans service"),
        ("density", "/docs", "Density predictor"),
        ("density", "/density/docs", "Density predictor"),
        ("density", "/flow/docs", "Flow predictor"),
    ],
)
def test_a_page_shows_its_service_through_the_edge(page, system, listener, path, title):
    page.open(system.edge.urls()[listener] + path)
    assert page.find(".information-container .title").text.startswith(title)
    page.find(".opblock")
    assert page.complaints() == []


def test_a_user_logs_in_authorizes_and_decides_from_the_page(page, system):
    page.open(system.edge.urls()["gateway"] + "/api/docs")
    status, _ = page.try_out("get", "traffic_action")
    assert status == "401"

    page.open(system.edge.urls()["gateway"] + "/api/docs")
    status, login = page.try_out("post", "auth_login", {"username": USER, "password": PASSWORD})
    assert status == "200"
    page.click(".auth-wrapper .authorize")
    page.fill(".auth-container input", str(login["accessToken"]))
    page.click(".auth-btn-wrapper .authorize")
    page.click(".auth-btn-wrapper .btn-done")
    body = {"junctionId": "300839359", "observations": [1, 0, 1, 0.2]}
    status, answer = page.try_out("post", "traffic_action", body)
    assert status == "200"
    assert (answer["junctionId"], answer["status"]) == ("300839359", "success")


def test_the_density_page_on_its_own_port_reaches_its_service(page, system):
    page.open(system.edge.urls()["density"] + "/docs")
    rows = [[10.0, 20.0, 30.0, 40.0, 50.0]] * 3
    status, answer = page.try_out("post", "predict", {"data": rows})
    assert status == "200"
    assert len(list(answer["prediction"])) == 5
