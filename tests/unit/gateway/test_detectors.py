"""Failed detectors in answers, and the plan where a junction has no working one."""

import pytest

from deployments.gateway.fallbacks import Fallback
from deployments.gateway.schemas import FALLBACK_STATUS
from models.networks.network import lane_names
from models.networks.shipped import SHIPPED
from models.signals.clock_plan import SHIPPED_PLAN, read_plan

JUNCTION = "300839359"
LANES = lane_names(SHIPPED)[JUNCTION]
DOCUMENTED = ["junctionId", "predictedAction", "signalState", "timestamp", "status"]
RUSH_S = 27_000
PLAN = read_plan(SHIPPED_PLAN, SHIPPED)


@pytest.fixture
def act(act):
    async def in_rush_hour(**fields):
        answer = await act(simulationTime=RUSH_S, **fields)
        assert answer.status_code == 200
        return answer.json()

    return in_rush_hour


def fail_all(inference):
    inference.failed_detectors = dict.fromkeys(LANES, "frozen")


async def test_without_a_plan_the_policy_decides_by_estimates_for_a_junction_without_detectors(
    act, inference, service
):
    inference.action = 1
    fail_all(inference)
    body = await act()
    assert list(body) == [*DOCUMENTED, "failedDetectors"]
    assert (body["predictedAction"], body["status"]) == (1, "success")
    assert body["failedDetectors"] == dict.fromkeys(LANES, "frozen")
    assert not service.counts.fallbacks.total()


class TestWithAPlan:
    @pytest.fixture
    def fallback(self):
        return Fallback(PLAN)

    async def test_the_plan_answers_for_a_junction_without_working_detectors(
        self, act, inference, service
    ):
        wanted = PLAN.at(JUNCTION, RUSH_S)
        inference.action = 1 - wanted.phase
        fail_all(inference)
        body = await act()
        assert body["predictedAction"] == wanted.phase
        assert (body["status"], body["fallbackPlan"]) == (FALLBACK_STATUS, wanted.plan)
        assert set(body["failedDetectors"].values()) == {"frozen"}
        for _ in range(19):
            await act()
        assert service.counts.fallbacks["detectors_failed"] == 20
        assert len(inference.steps) == 20, "the hidden state goes on"
        assert service.breaker_state == 0

    async def test_one_working_detector_keeps_the_policy(self, act, inference, service):
        fail_all(inference)
        del inference.failed_detectors[LANES[0]]
        inference.action = 1
        body = await act()
        assert (body["predictedAction"], body["status"]) == (1, "success")
        assert not service.counts.fallbacks.total()
