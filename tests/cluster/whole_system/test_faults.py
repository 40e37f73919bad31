"""Short experiments of what `make chaos ARGS=services` does at length, on a system of `make up`."""

from __future__ import annotations

import pytest

from load_tests.chaos.service_experiments import run_experiment
from load_tests.chaos.service_faults import FAULTS
from load_tests.harness.system_under_test import SystemUnderTest

pytestmark = [pytest.mark.alone, pytest.mark.timeout(600)]

SECONDS = 6.0
SLACK_S = 2.0  # the tests have no machine of their own


@pytest.mark.parametrize("fault", ["inference", "gateway", "front", "edge", "weights", "misfit"])
async def test_a_fault_costs_no_more_than_it_may(sut: SystemUnderTest, fault: str) -> None:
    result = await run_experiment(sut, FAULTS[fault], SECONDS)
    assert result.complaints(SLACK_S) == [], result.kinds
    assert result.kinds["answered"] > 100
