"""The page of the live console in a browser."""

from collections.abc import Callable
from typing import Any

from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.wait import WebDriverWait

TIMEOUT_S = 60


class Console:
    """The page, by what it shows."""

    def __init__(self, browser: Chrome, url: str) -> None:
        self.browser = browser
        self.url = url

    def open(self, width: int = 1400) -> None:
        metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
        self.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        self.browser.get(f"{self.url}/console")

    def find(self, selector: str) -> WebElement:
        return self.browser.find_element(By.CSS_SELECTOR, selector)

    def wait(self, true: Callable[[], object]) -> None:
        redrawn = [StaleElementReferenceException]  # between its being found and read
        WebDriverWait(self.browser, TIMEOUT_S, 0.05, redrawn).until(lambda _: true())

    def log_in(self, username: str, password: str) -> None:
        self.wait(self.find("#login-form").is_displayed)
        for field, text in (("#username", username), ("#password", password)):
            self.find(field).clear()
            self.find(field).send_keys(text)
        self.find("#login-form button").click()

    def says(self, selector: str, text: str) -> Callable[[], bool]:
        return lambda: text in self.find(selector).text

    def script(self, code: str) -> Any:
        return self.browser.execute_script(code)

    def steps(self) -> list[int]:
        """Return the steps of the chosen junction's last decisions, the newest first."""
        cells = "document.querySelectorAll('#decisions td.number')"
        return [int(text) for text in self.script(f"return [...{cells}].map((e) => e.textContent)")]

    def complaints(self) -> list[str]:
        lines = self.browser.get_log("browser")
        return [line["message"] for line in lines]
