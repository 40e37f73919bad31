"""Short trials of what `make chaos ARGS=services` does at length, on a system of `make up`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from load_tests.chaos.services.events import EVENTS
from load_tests.chaos.services.house import House, open_house
from load_tests.chaos.services.trial import run_trial

SECONDS = 6.0
SLACK_S = 2.0  # the tests have no machine of their own


@pytest.fixture(scope="module")
def house() -> Iterator[House]:
    with open_house() as house:
        yield house


@pytest.mark.timeout(300)
@pytest.mark.parametrize("event", ["inference", "gateway", "front", "edge", "weights", "misfit"])
async def test_what_happens_is_hardly_noticed(house: House, event: str) -> None:
    outcome = await run_trial(house, EVENTS[event], SECONDS)
    assert outcome.complaints(SLACK_S) == [], outcome.kinds
    assert outcome.kinds["answered"] > 100
