"""The page of the live console in a browser."""

import contextlib
import itertools
import threading
from collections.abc import Callable, Iterator
from typing import Any

import httpx
from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.wait import WebDriverWait

TIMEOUT_S = 60
CENTER = "joinedS_265580996_300839357"


@contextlib.contextmanager
def driving(client: httpx.Client) -> Iterator[None]:
    """Drive a run meanwhile, as a simulation would; only the last lane's detector works."""
    ended = threading.Event()

    def drive() -> None:
        lasts = itertools.cycle((0.25, 0.5))
        while not ended.wait(0.1):
            observed = [1, 0, 0, 0, 1, *[0.25] * 13, next(lasts)]
            with contextlib.suppress(httpx.HTTPError):  # a test stops the edge
                client.post("/predict_action", json={"junction_id": CENTER, "obs_data": observed})

    thread = threading.Thread(target=drive, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(TIMEOUT_S)


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
