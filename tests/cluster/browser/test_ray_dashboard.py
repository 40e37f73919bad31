"""Ray's own dashboard calls things by names that an operator knows.

With ``SCREENSHOTS=docs``, its pictures are kept in docs/.
"""

import io
import os
from pathlib import Path

import pytest
from PIL import Image
from selenium.webdriver import Chrome
from selenium.webdriver.support.wait import WebDriverWait

pytestmark = pytest.mark.timeout(300)  # the first test waits for the system

TIMEOUT_S = 30
COLORS = 64
LARGEST_BYTES = 150_000
AUTHENTICATE = """
const [headers, done] = arguments;
fetch("/api/authenticate", {method: "POST", headers}).then(answer => done(answer.status));
"""


@pytest.fixture
def pictures(tmp_path):
    return Path(os.environ.get("SCREENSHOTS", tmp_path))


@pytest.fixture
def ray(browser, edge):
    """Open Ray's dashboard, with Ray's token where there is one."""
    browser.get(edge.instance.dashboard_url)
    browser.set_script_timeout(TIMEOUT_S)
    if header := edge.instance.dashboard.token_header():
        assert browser.execute_async_script(AUTHENTICATE, header) == 200
    return browser


def keep(browser: Chrome, path: Path) -> None:
    """Keep a picture of what is seen, with so few colors that it is small."""
    seen = Image.open(io.BytesIO(browser.get_screenshot_as_png())).convert("RGB")
    seen.quantize(COLORS).save(path, optimize=True)


@pytest.mark.parametrize(
    ("page", "names"),
    [
        ("serve", ["inference", "gateway", "density", "loans", "/api/loans", "RUNNING"]),
        (
            "actors",
            [
                "StateActor(inference, shard 0)",
                "ServeReplica:inference:Inference",
                "ServeReplica:gateway:Gateway",
                "ServeReplica:loans:CustomerRecords",
                "hidden_states:inference/0",
            ],
        ),
    ],
)
def test_a_page_names_what_runs(ray, edge, pictures, page, names):
    ray.get(f"{edge.instance.dashboard_url}/#/{page}")
    ray.refresh()
    body = ray.find_element("tag name", "body")
    WebDriverWait(ray, TIMEOUT_S).until(lambda _: all(name in body.text for name in names))
    path = pictures / f"ray-{page}.png"
    keep(ray, path)
    assert 5_000 < path.stat().st_size < LARGEST_BYTES
