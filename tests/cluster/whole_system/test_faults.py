"""Every kind of process is killed under load of all services: nothing answered is lost.

``make chaos`` does the same at length, and reports for how long each was away.
"""

import math

import pytest

from load_tests.chaos.experiments import run_experiment
from load_tests.chaos.faults import FAULTS, Fault
from load_tests.harness.system_under_test import SystemUnderTest

KILLED = ("all-inference", "gateway", "front", "front-manager", "edge", "store", "supervisor")
LONG = ("raylet", "gcs", "controller")
SLACK_S = 10.0  # the tests have no machine of their own, and a start takes longer beside others


async def check_fault(sut: SystemUnderTest, fault: Fault) -> None:
    result = await run_experiment(sut, fault, seconds=3.0)
    assert result.complaints(slack_s=math.inf) == [], result.row
    assert int(result.row["outcomes"].partition(" answered")[0]) > 20


@pytest.mark.parametrize(
    "fault", [*KILLED, *(pytest.param(x, marks=pytest.mark.long) for x in LONG)]
)
async def test_a_killed_process_returns_and_nothing_answered_is_lost(sut, fault):
    await check_fault(sut, FAULTS[fault])


@pytest.mark.long
@pytest.mark.parametrize(
    ("fault", "mode"),
    [
        ("inference", "memory"),
        ("all-inference", "memory"),
        ("inference-pause", "memory"),
        ("states", "durable"),
    ],
)
async def test_a_fault_costs_no_step_and_a_run_little_time(sut, fault, mode):
    result = await run_experiment(sut, FAULTS[fault], 5.0, mode)
    assert result.complaints(SLACK_S) == [], result.details
    assert int(result.row["answered"]) > 100
