"""A real headless Chromium, and the running system with an edge for it to look at."""

from __future__ import annotations

import shutil

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.service import Service

from load_tests.harness.shipped import shipped_application
from load_tests.harness.system import application
from tests.cluster.conftest import behind_edge
from tests.cluster.gateway.conftest import ENVIRONMENT, gateway

DIAGNOSING = "/diagnosing"
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
def chromium():
    """Return the paths of the browser and its driver."""
    names = ("chromium", "chromium-browser", "google-chrome")
    browser = next(filter(None, map(shutil.which, names)), None)
    driver = shutil.which("chromedriver")
    if browser is None or driver is None:
        pytest.skip("no Chromium and chromedriver on PATH; Debian: apt install chromium-driver")
    return browser, driver


@pytest.fixture(scope="package")
def edge(chromium, system):
    """Serve one service of each kind behind the edge."""
    others = [shipped_application(name) for name in ("density", "flow", "loans")]
    others.append(shipped_application("console", env=ENVIRONMENT))
    diagnosing = application("diagnosing", DIAGNOSING, diagnose_detectors=True)
    with behind_edge(system, diagnosing, gateway("gateway", "/api"), *others) as edge:
        yield edge


@pytest.fixture
def hosts():
    """Let no host but this machine be reached, so that a page that needs a CDN fails."""
    return "MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"


@pytest.fixture
def browser(chromium, hosts, tmp_path):
    binary, driver_binary = chromium
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
