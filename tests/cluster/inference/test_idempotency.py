"""Requests with idempotency keys, a fifth of them sent more than once, while replicas and the state
actor are killed: as many steps as requests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from load_tests.chaos.faults import FAULTS
from load_tests.chaos.history import Asked, History, Outcome
from load_tests.chaos.lineage import Harm
from load_tests.chaos.loads import RepeatedLoad
from load_tests.chaos.stage import MODES, Stage
from load_tests.chaos.trial import run_trial
from load_tests.harness.system import System

SLACK_S = 0.25  # the tests have no machine of their own


@pytest.fixture
def stage(system: System, mode: str) -> Iterator[Stage]:
    yield Stage(system, f"repeated-{mode}", MODES[mode])
    system.remove(f"repeated-{mode}")


@pytest.mark.parametrize("mode", ["memory", "actor"])
async def test_there_are_as_many_steps_as_requests_however_often_each_is_sent(
    stage: Stage, mode: str
) -> None:
    result = await run_trial(stage, FAULTS["one-by-one"], mode, 0.0, RepeatedLoad)
    assert result.broken(SLACK_S) == [], [str(each) for each in result.verdict.findings[:3]]
    states = list(_by_state(result.history))
    steps = sum(max(each.step for each in asked) for asked in states)
    requests = sum(len({each.request or each.sent for each in asked}) for asked in states)
    assert requests - result.verdict.steps(Harm.LOST) <= steps <= requests
    assert requests > 200  # a twentieth of what a quiet machine makes
    assert result.history.count(Outcome.ANSWERED) > 1.15 * requests


def _by_state(history: History) -> Iterator[list[Asked]]:
    for key in {asked.key for asked in history.asked}:
        yield [asked for asked in history.asked if asked.key == key]
