"""The live console as a user sees it: in a real browser, through the edge."""

import contextlib
import threading
from collections.abc import Iterator

import httpx
import pytest

from tests.cluster.browser.console import Console
from tests.reference import JUNCTIONS


@pytest.fixture
def driving(inference: httpx.Client, run_id: str) -> Iterator[str]:
    """Drive a run, as a simulation would, and return its name."""
    ended = threading.Event()
    inference.headers["X-Simulation-Run"] = run_id

    def drive() -> None:
        while not ended.wait(0.1):
            body = {"junction_id": JUNCTIONS[0], "obs_data": [1, 0, 0, 0, 1, *[0.25] * 14]}
            with contextlib.suppress(httpx.HTTPError):
                inference.post("/predict_action", json=body)

    thread = threading.Thread(target=drive, daemon=True)
    thread.start()
    yield run_id
    ended.set()
    thread.join(60)


def test_a_user_logs_in_and_sees_decisions(browser, sut, known, driving):
    console = Console(browser, sut.edge.urls()["gateway"])
    console.open()
    console.log_in("operator", "wrong")
    console.wait(console.says("#login-problem", "Invalid"))
    console.log_in("operator", known["JWT_AUTH_PASSWORD"])
    console.wait(console.says("#connection", "live"))
    console.wait(console.says("#run-facts", driving))
    console.wait(console.steps)
    (step, *_) = console.steps()
    console.wait(lambda: console.steps()[0] > step)
    console.wait(console.says("#what-if .said", "of this lane filled: phase"))
    refused = [line for line in console.complaints() if "401" not in line]  # before the login
    assert refused == []
    loaded = console.script("return performance.getEntriesByType('resource').map((e) => e.name)")
    assert all(name.startswith((console.url, "data:")) for name in loaded)
