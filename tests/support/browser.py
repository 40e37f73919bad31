"""A real headless Chromium, as fixtures."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.service import Service

QUIET = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--window-size=1400,1000",
]


@pytest.fixture(scope="session")
def chromium() -> tuple[str, str]:
    """Return the paths of the browser and its driver."""
    names = ("chromium", "chromium-browser", "google-chrome")
    browser = next(filter(None, map(shutil.which, names)), None)
    driver = shutil.which("chromedriver")
    if browser is None or driver is None:
        pytest.skip("no Chromium and chromedriver on PATH; Debian: apt install chromium-driver")
    return browser, driver


@pytest.fixture
def browser(
    request: pytest.FixtureRequest, chromium: tuple[str, str], tmp_path: Path
) -> Iterator[webdriver.Chrome]:
    """Open a browser that reaches this machine alone: a page that needs a CDN fails.

    The marker ``hosts`` names a host of another site that resolves to this machine.
    """
    binary, driver_binary = chromium
    marker = request.node.get_closest_marker("hosts")
    hosts = "".join(f"MAP {name} 127.0.0.1, " for name in (marker.args if marker else ()))
    hosts += "MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"
    options = webdriver.ChromeOptions()
    options.binary_location = binary
    own = (f"--user-data-dir={tmp_path / 'profile'}", f"--host-resolver-rules={hosts}")
    for argument in (*QUIET, *own):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options, Service(driver_binary))
    driver.set_page_load_timeout(30)
    yield driver
    driver.quit()
