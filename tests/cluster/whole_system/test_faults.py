"""Every kind of process is killed under load of all services: nothing answered is lost.

``make chaos ARGS=services`` does the same at length, and reports for how long each was away.
"""

import math

import pytest

from load_tests.chaos.service_experiments import run_experiment
from load_tests.chaos.service_faults import FAULTS, ServiceFault
from load_tests.harness.system_under_test import SystemUnderTest

KILLED = ("all-inference", "gateway", "front", "front-manager", "edge", "store", "supervisor")
LONG = ("raylet", "gcs", "controller")


async def check_fault(sut: SystemUnderTest, fault: ServiceFault) -> None:
    result = await run_experiment(sut, fault, seconds=3.0)
    assert result.complaints(slack_s=math.inf) == [], result.row
    assert int(result.row["outcomes"].partition(" answered")[0]) > 20


@pytest.mark.parametrize(
    "fault", [*KILLED, *(pytest.param(x, marks=pytest.mark.long) for x in LONG)]
)
async def test_a_killed_process_returns_and_nothing_answered_is_lost(sut, fault):
    await check_fault(sut, FAULTS[fault])
