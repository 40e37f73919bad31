"""Requests with idempotency keys, a fifth of them sent more than once, while replicas and the state
actor are killed: as many steps as requests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from load_tests.chaos.clients import RepeatedLoad
from load_tests.chaos.history import Outcome
from load_tests.chaos.state_experiments import run_experiment
from load_tests.chaos.state_faults import FAULTS, MODES, ApplicationUnderTest
from load_tests.harness.system import System

SLACK_S = 2.0  # the tests have no machine of their own


@pytest.fixture
def app(system: System, mode: str) -> Iterator[ApplicationUnderTest]:
    yield ApplicationUnderTest(system, f"repeated-{mode}", {"durability": mode})
    system.remove(f"repeated-{mode}")


@pytest.mark.parametrize("mode", MODES)
async def test_there_are_as_many_steps_as_requests_however_often_each_is_sent(app, mode):
    result = await run_experiment(app, FAULTS["one-by-one"], mode, 0.0, RepeatedLoad)
    assert result.broken(SLACK_S) == [], [str(each) for each in result.verdict.findings[:3]]
    states = [asked for _, asked in result.history.by_key()]
    steps = sum(max(each.step for each in asked) for asked in states)
    requests = sum(len({each.request or each.sent for each in asked}) for asked in states)
    assert steps == requests
    assert requests > 200  # a twentieth of what a quiet machine makes
    assert result.history.count(Outcome.ANSWERED) > 1.15 * requests
