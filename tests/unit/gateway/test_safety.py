"""The safety layer in the gateway: what it asks of clients, answers, and refuses."""

from typing import Any

import pytest

from deployments.gateway.errors import InferenceUnavailableError
from deployments.gateway.options import GatewayOptions
from deployments.gateway.safety import SafetyGuard, make_guard
from deployments.gateway.schemas import FALLBACK_STATUS
from models.networks.shipped import SHIPPED
from models.signals.monitor import ConflictMonitor, make_monitors
from models.signals.safety import Limits, Shown, read_layers
from models.signals.signal import read_signals
from tests.unit.gateway.test_api import assert_error

ACTION = "/traffic/action"
SIDE_STREET = "300839359"
CENTER = "joinedS_265580996_300839357"
PHASES = {junction: signal.phases for junction, signal in read_signals(SHIPPED).items()}
GREEN = {"phase": 0, "greenSeconds": 5}
REFUSALS: list[tuple[Any, str]] = [
    (None, "shown is required while the safety layer is on"),
    (0, "shown must have phase, greenSeconds and redSeconds"),
    ({}, "shown.phase must be a phase of the junction, 0 to 1"),
    ({"phase": 2}, "shown.phase must be a phase of the junction, 0 to 1"),
    ({"phase": True}, "shown.phase must be a phase of the junction, 0 to 1"),
    ({"phase": 0}, "shown.greenSeconds must be a number of seconds"),
    ({"phase": 0, "greenSeconds": "5"}, "shown.greenSeconds must be a number of seconds"),
    ({"phase": 0, "greenSeconds": 1e300}, "shown.greenSeconds must be a number of seconds"),
    ({**GREEN, "redSeconds": [0]}, "shown.redSeconds must have 2 numbers, one for each phase"),
    ({**GREEN, "redSeconds": [0, -1]}, "shown.redSeconds must be numbers of seconds, 0 or more"),
]


@pytest.fixture(scope="module")
def guard():
    return make_guard(GatewayOptions(safety=True))


@pytest.fixture
def act(act):
    def while_shown(phase=0, green_s=20.0, red_s=(0, 20), **fields):
        shown = {"phase": phase, "greenSeconds": green_s, "redSeconds": red_s}
        return act(**{"shown": shown, **fields})

    return while_shown


async def test_a_change_comes_with_its_steps_and_the_time_of_its_green(act, inference):
    inference.action = 1
    body = (await act()).json()
    assert (body["predictedAction"], body["status"]) == (1, "success")
    assert body["safety"] == {
        "asked": 1,
        "rule": "none",
        "showAfterSeconds": 5.0,
        "steps": [
            {"afterSeconds": 0.0, "state": "yyyyyyyyrrr"},
            {"afterSeconds": 3.0, "state": "rrrrrrrrrrr"},
            {"afterSeconds": 5.0, "state": "rrrrrrrrGGG"},
        ],
    }


async def test_what_must_not_be_shown_yet_is_not_answered(act, inference):
    inference.action = 1
    early = (await act(green_s=4)).json()
    assert (early["predictedAction"], early["signalState"]) == (0, "RED")
    assert early["safety"] == {
        "asked": 1,
        "rule": "minimum_green",
        "showAfterSeconds": 0.0,
        "steps": [],
    }
    changing = (await act(phase=0, green_s=-2.5, red_s=(7, 0))).json()
    assert changing["predictedAction"] == 0
    assert changing["safety"]["rule"] == "change_under_way"
    assert changing["safety"]["showAfterSeconds"] == 2.5


async def test_who_has_waited_too_long_is_served_whatever_is_asked_even_in_an_outage(
    act, inference
):
    inference.action = 0
    body = (await act(red_s=(0, 119))).json()
    assert (body["predictedAction"], body["safety"]["rule"]) == (1, "maximum_red")
    inference.error = InferenceUnavailableError("unreachable")
    body = (await act(red_s=(0, 119))).json()
    assert (body["predictedAction"], body["status"]) == (1, FALLBACK_STATUS)
    assert body["safety"]["asked"] == 0


async def test_an_action_that_the_junction_does_not_have_keeps_what_is_shown(act, inference):
    inference.action = 3
    body = (await act(phase=1, red_s=(20, 0))).json()
    assert (body["predictedAction"], body["safety"]["rule"]) == (1, "no_such_phase")
    assert body["safety"]["asked"] == 3


def test_a_phase_that_waits_for_the_next_cycle_is_missing_until_then():
    guard = make_guard(GatewayOptions(safety=True, safety_cyclic=True))
    assert guard
    answered, safety = guard.decide(CENTER, Shown(2, 30.0, [20.0, 40.0, 0.0, 10.0]), 1)
    assert (answered, safety.rule, safety.asked) == (0, "no_such_phase", 1)


@pytest.mark.parametrize(("shown", "message"), REFUSALS)
async def test_what_does_not_say_what_is_shown_is_refused_and_makes_no_step(
    act, inference, shown, message
):
    assert_error(await act(shown=shown), 400, message)
    assert not inference.steps


async def test_the_demonstration_shows_what_a_junction_would_get(client, bearer, inference):
    inference.action = 1
    for _ in range(30):
        body = (await client.get(ACTION, headers=bearer)).json()
        if body["safety"]["steps"]:
            break
    assert body["safety"]["steps"][-1]["state"] == PHASES[body["junctionId"]][1]


class TestDefectiveLayer:
    @pytest.fixture
    def guard(self):
        """Return one whose monitor knows of more conflicts than its layer heeds."""
        layers = read_layers(Limits(), SHIPPED)
        conflicts = {(8, 9)}  # two links that the side street's phase has green together
        monitors = make_monitors(SHIPPED) | {SIDE_STREET: ConflictMonitor(11, conflicts, set())}
        return SafetyGuard(layers, monitors)

    async def test_the_monitor_lets_no_conflict_out(self, act, inference):
        inference.action = 1
        assert_error(await act(), 500, "Internal server error")
        inference.action = 0
        assert (await act()).status_code == 200


class TestOff:
    @pytest.fixture
    def guard(self):
        return None

    @pytest.mark.parametrize("shown", [None, "anything", {"phase": 7}])
    async def test_nothing_is_asked_and_nothing_is_added(self, act, shown):
        body = (await act(shown=shown)).json()
        assert list(body) == ["junctionId", "predictedAction", "signalState", "timestamp", "status"]
