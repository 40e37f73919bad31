"""The fallback by plan: what it answers, by which clock, and where all detectors have failed."""

import datetime
from zoneinfo import ZoneInfo

import pytest

from deployments.gateway.errors import InferenceUnavailableError
from deployments.gateway.fallbacks import Fallback, configured_plan
from deployments.gateway.options import GatewayOptions
from deployments.gateway.schemas import FALLBACK_STATUS, SIGNAL_OF_ACTION
from models.networks.network import lane_names
from models.networks.shipped import JUNCTIONS, SHIPPED
from models.signals.clock_plan import SAFE_PLAN, SHIPPED_PLAN, InvalidPlanError, read_plan
from tests.support.virtual_time import Clock
from tests.unit.gateway.test_api import assert_error

DOWN = InferenceUnavailableError("unreachable")
PLAN = read_plan(SHIPPED_PLAN, SHIPPED)
SIDE_STREET = "300839359"
LANES = lane_names(SHIPPED)[SIDE_STREET]
RUSH_S = 27_000


@pytest.fixture
def clock():
    return Clock(datetime.datetime(2026, 3, 2, 7, 30, tzinfo=datetime.UTC).timestamp())


@pytest.fixture
def fallback(clock):
    return Fallback(PLAN, clock=clock)


async def test_the_plan_answers_while_the_inference_is_down_and_says_which(act, inference, clock):
    inference.error = DOWN
    begun = clock.now
    seen = set()
    for second in range(0, 120, 5):
        clock.now = begun + second
        for junction_id in JUNCTIONS:
            body = (await act(junction_id)).json()
            wanted = PLAN.at(junction_id, 27_000 + second)
            assert body["predictedAction"] == wanted.phase
            assert body["signalState"] == SIGNAL_OF_ACTION[wanted.phase]
            assert body["status"] == FALLBACK_STATUS
            assert body["fallbackPlan"] == wanted.plan
            seen.add(wanted.phase)
    assert seen == {0, 1, 2, 3}


async def test_a_simulation_goes_by_its_own_time(act, inference):
    inference.error = DOWN
    for second in (0, 43_215, 27_000.5, 86_400 * 3 + 60):
        answer = await act(simulationTime=second)
        wanted = PLAN.at(SIDE_STREET, second)
        assert answer.json()["predictedAction"] == wanted.phase
        assert answer.json()["fallbackPlan"] == wanted.plan


@pytest.mark.parametrize("second", [-1, True, "7:30", [], 1e300])
async def test_a_time_that_is_none_is_refused_and_makes_no_step(act, inference, second):
    answer = await act(simulationTime=second)
    assert_error(answer, 400, "simulationTime must be a number of seconds from 0 to 1000000000")
    assert not inference.steps


def test_the_periods_are_those_of_the_time_zone(clock):
    paris = Fallback(PLAN, ZoneInfo("Europe/Paris"), clock)
    hour = 3600
    assert paris.act(SIDE_STREET, None) == PLAN.at(SIDE_STREET, 27_000 + hour)
    clock.now = datetime.datetime(2026, 6, 2, 7, 30, tzinfo=datetime.UTC).timestamp()
    assert paris.act(SIDE_STREET, None) == PLAN.at(SIDE_STREET, 27_000 + 2 * hour)


def test_the_plan_is_that_of_the_file_and_fits_the_safety_layer():
    assert configured_plan(GatewayOptions()) is None
    assert configured_plan(GatewayOptions(fallback="plan")) == PLAN
    assert configured_plan(GatewayOptions(fallback="plan", safety=True)) == read_plan(
        SAFE_PLAN, SHIPPED
    )
    with pytest.raises(InvalidPlanError, match=r"behind the safety layer, phases of junction \S+ "):
        configured_plan(GatewayOptions(fallback="plan", safety=True, plan_file=SHIPPED_PLAN))


def fail_all(inference):
    inference.failed_detectors = dict.fromkeys(LANES, "frozen")


async def test_the_plan_answers_for_a_junction_without_working_detectors(act, inference, service):
    wanted = PLAN.at(SIDE_STREET, RUSH_S)
    inference.action = 1 - wanted.phase
    fail_all(inference)
    for _ in range(20):
        body = (await act(simulationTime=RUSH_S)).json()
    assert body["predictedAction"] == wanted.phase
    assert (body["status"], body["fallbackPlan"]) == (FALLBACK_STATUS, wanted.plan)
    assert set(body["failedDetectors"].values()) == {"frozen"}
    assert service.counts.fallbacks["detectors_failed"] == 20
    assert len(inference.steps) == 20, "the hidden state goes on"
    assert service.breaker_state == 0


async def test_one_working_detector_keeps_the_policy(act, inference, service):
    fail_all(inference)
    del inference.failed_detectors[LANES[0]]
    inference.action = 1
    body = (await act(simulationTime=RUSH_S)).json()
    assert (body["predictedAction"], body["status"]) == (1, "success")
    assert not service.counts.fallbacks.total()


class TestWithoutAPlan:
    @pytest.fixture
    def fallback(self):
        return Fallback()

    async def test_the_policy_decides_by_estimates_for_a_junction_without_detectors(
        self, act, inference, service
    ):
        inference.action = 1
        fail_all(inference)
        body = (await act()).json()
        assert list(body)[-1] == "failedDetectors"
        assert (body["predictedAction"], body["status"]) == (1, "success")
        assert body["failedDetectors"] == dict.fromkeys(LANES, "frozen")
        assert not service.counts.fallbacks.total()
