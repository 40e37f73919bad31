"""The live console as a user sees it: in a real browser, through the edge."""

import time

import httpx
import pytest
from selenium.webdriver.common.by import By

from load_tests.harness.system import System, start_edge
from tests.cluster.browser.conftest import DIAGNOSING
from tests.cluster.browser.console import Console, driving
from tests.cluster.gateway.conftest import USER

pytestmark = pytest.mark.timeout(300)  # the first test waits for the system


@pytest.fixture
def console(browser, edge):
    return Console(browser, edge.urls()["gateway"])


@pytest.fixture
def driven(edge):
    """Drive a run, and return its name."""
    run = f"drives-{time.time_ns()}"
    url = edge.urls()["inference"] + DIAGNOSING
    with (
        httpx.Client(base_url=url, headers={"X-Simulation-Run": run}, timeout=10) as client,
        driving(client),
    ):
        yield run


@pytest.fixture
def live(console, driven):
    """Open the console of a user who has logged in."""
    console.open()
    console.log_in(**USER)
    console.wait(console.says("#run-facts", driven))
    console.browser.get_log("browser")
    return console


def test_a_junction_is_chosen_with_the_keyboard(live):
    button = live.find("#junctions button[aria-pressed=false]")
    name = button.text.splitlines()[0]
    live.script("document.querySelector('#junctions button[aria-pressed=false]').focus()")
    live.browser.switch_to.active_element.send_keys("\ue007")
    live.wait(live.says("#junction-title", name))
    assert button.get_attribute("aria-pressed") == "true"
    assert live.complaints() == []


def test_decisions_that_the_next_stream_repeats_are_listed_once(live, edge, driven):
    live.wait(live.steps)
    live.script("document.querySelector('#junctions button[aria-pressed=false]').click()")
    body = {"junction_id": live.find("#junction-facts").text, "obs_data": [0.5]}
    headers = {"X-Simulation-Run": driven}
    url = edge.urls()["inference"] + DIAGNOSING
    with httpx.Client(base_url=url, headers=headers, timeout=10) as client:

        def step(number: int) -> None:
            client.post("/predict_action", json=body).raise_for_status()
            live.wait(lambda: live.steps()[:1] == [number])

        for number in (1, 2, 3):
            step(number)
        live.script("document.querySelector('#run').dispatchEvent(new Event('change'))")
        step(4)
    assert live.steps() == [4, 3, 2, 1]


def test_estimates_in_place_of_failed_detectors_are_marked(live):
    estimated = "return document.querySelectorAll('%s').length"
    live.wait(live.says("#observation", "(detector: stuck, estimated)"))
    n_failed = live.script(estimated % "#observation .estimated")
    *_, last = live.browser.find_elements(By.CSS_SELECTOR, "#observation li")
    assert 0 < n_failed < 14
    assert "estimated" not in last.text
    assert live.find("#junctions button[aria-pressed=true]").text.endswith(f"{n_failed} estimated")
    live.wait(lambda: live.script(estimated % "#map .queue.estimated") == n_failed)
    live.wait(lambda: live.script(estimated % "#decisions tr:first-child .estimated") == n_failed)
    assert live.complaints() == []


def test_on_a_phone_nothing_is_wider_than_the_screen(live):
    live.open(width=360)
    live.wait(live.says("#connection", "live"))
    live.wait(live.says("#what-if .said", "of this lane filled: phase"))
    assert live.script("return document.documentElement.scrollWidth") == 360
    assert live.complaints() == []


def test_a_killed_replica_is_seen_to_go_and_its_successor_to_run(live, edge):
    def app():
        item = live.script("return document.querySelector('#replicas li[data-app=density]')")
        return str(item.get_attribute("class")) if item else ""

    live.wait(lambda: app() == "up")
    system = System(edge.instance)
    system.replicas("density")[0].kill()
    live.wait(lambda: app() == "down")
    live.wait(lambda: "runs" in live.find("#replicas li[data-app=density]").text)
    live.wait(lambda: app() == "up")


def test_a_lost_connection_is_said_and_comes_back_by_itself(live, edge):
    edge.stop()
    live.wait(live.says("#connection", "no connection since"))
    assert float(live.find("#map").value_of_css_property("opacity")) < 1, "it is not of now"
    assert not live.find("#idle").is_displayed()
    start_edge(edge)
    live.wait(live.says("#connection", "live"))
    live.wait(lambda: live.find("#map").value_of_css_property("opacity") == "1")


def test_what_to_do_is_said_where_nothing_drives(console, edge):
    console.open()
    console.log_in(**USER)
    console.wait(lambda: console.find("#idle").is_displayed())
    assert "make demo" in console.find("#idle").text
