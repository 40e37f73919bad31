"""Short experiments of what `make chaos` does at length; the unit tests cover its checker."""

from collections.abc import Iterator

import pytest

from load_tests.chaos.history import Outcome
from load_tests.chaos.state_experiments import run_experiment
from load_tests.chaos.state_faults import FAULTS, MODES, ApplicationUnderTest
from load_tests.harness.system import System

SECONDS = 5.0
SLACK_S = 2.0  # the tests have no machine of their own


@pytest.fixture(scope="module")
def apps(system: System) -> Iterator[dict[str, ApplicationUnderTest]]:
    apps = {
        mode: ApplicationUnderTest(system, f"chaos-{mode}", {"durability": mode}) for mode in MODES
    }
    yield apps
    system.remove(*(each.name for each in apps.values() if each.name in system.applications))


@pytest.mark.parametrize(
    ("fault", "mode"),
    [
        ("actor", "durable"),
        ("replica", "memory"),
        ("application", "memory"),
        ("replica-pause", "memory"),
    ],
)
async def test_a_fault_costs_no_step_and_no_more_time_than_promised(apps, fault, mode):
    result = await run_experiment(apps[mode], FAULTS[fault], mode, SECONDS)
    assert result.complaints(SLACK_S) == [], result.details
    assert int(result.row[Outcome.ANSWERED.value]) > 100
