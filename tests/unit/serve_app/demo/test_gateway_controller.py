"""The controller through the gateway: logs in, applies answers, and goes on without them."""

import json
import types
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from deployments.gateway.schemas import FALLBACK_STATUS
from greenwave.client import Client
from greenwave.client.call import NoReply, Reply, Send
from lab.sim.observation import Observation
from models.networks.shipped import JUNCTIONS, SHIPPED
from models.signals.safety import Shown
from serve_app.demo.gateway_controller import GatewayController
from tests.unit.greenwave.client.play import REFUSED, answer, granted


@dataclass
class FakeGateway:
    """Action 1 for everyone, by default."""

    away: bool = False
    action: int = 1
    refuses: set[str] = field(default_factory=set)
    requests: list[Send] = field(default_factory=list)

    async def __call__(self, send: Send, /) -> Reply | NoReply:
        self.requests.append(send)
        if self.away:
            return REFUSED
        if send.url.endswith("/api/auth/login"):
            return granted()
        sent = json.loads(send.body or b"")
        status = FALLBACK_STATUS if sent["junctionId"] in self.refuses else "success"
        body = {"junctionId": sent["junctionId"], "predictedAction": self.action}
        return answer(body={**body, "signalState": "RED", "timestamp": 1, "status": status})

    async def close(self) -> None: ...

    def paths(self) -> Counter[str]:
        return Counter(send.url.removeprefix("http://gateway") for send in self.requests)


class Plan:
    """Phase 0 for everyone."""

    def act(self, observations: Mapping[str, Observation]) -> dict[str, int]:
        return dict.fromkeys(observations, 0)


def make_controller(gateway: FakeGateway, safely: bool = False) -> GatewayController:
    client = Client("http://gateway", "ann", "secret", exchange=gateway)
    return GatewayController(client, "run-1", scenario_of(safely), Plan())


def scenario_of(safely: bool = False) -> Any:
    return types.SimpleNamespace(begin_s=0, decision_s=5, guarded=safely, network=SHIPPED.file)


def observe() -> dict[str, Observation]:
    return {j.id: np.zeros(j.obs_size, np.float32) for j in JUNCTIONS.values()}


def test_each_junction_asks_for_itself_in_the_run_with_one_login_for_all():
    gateway = FakeGateway()
    controller = make_controller(gateway)
    assert controller.act(observe()) == dict.fromkeys(JUNCTIONS, 1)
    assert gateway.paths() == {"/api/auth/login": 1, "/api/traffic/action": 5}
    asked = [each for each in gateway.requests if not each.url.endswith("/login")]
    assert {each.headers["x-simulation-run"] for each in asked} == {"run-1"}
    sent = [json.loads(each.body or b"") for each in asked if each.url.endswith("/action")]
    assert {each["junctionId"]: len(each["observations"]) for each in sent} == {
        junction.id: junction.obs_size for junction in JUNCTIONS.values()
    }
    assert controller.outages == []
    assert len(controller.latencies_s) == 5


def test_a_gateway_with_a_safety_layer_is_told_what_each_junction_shows():
    gateway = FakeGateway()
    controller = make_controller(gateway, safely=True)
    environment: Any = types.SimpleNamespace(
        shown={id: Shown(1, 7.0, [9.0] * each.n_phases) for id, each in JUNCTIONS.items()}
    )
    controller.follow(environment).act(observe())
    asked = [each for each in gateway.requests if each.url.endswith("/action")]
    decided = [json.loads(each.body or b"")["shown"] for each in asked]
    assert [(each["phase"], each["greenSeconds"]) for each in decided] == [(1, 7.0)] * 5
    reds = sorted(len(each["redSeconds"]) for each in decided)
    assert reds == sorted(junction.n_phases for junction in JUNCTIONS.values())


def test_a_fallback_leaves_its_junction_to_the_plan():
    gateway = FakeGateway(refuses={"265580972"})
    controller = make_controller(gateway)
    assert controller.act(observe()) == dict.fromkeys(JUNCTIONS, 1) | {"265580972": 0}
    (outage,) = controller.outages
    assert (outage.decisions, outage.reason) == (1, FALLBACK_STATUS)


def test_an_action_that_no_junction_has_leaves_all_to_the_plan():
    controller = make_controller(FakeGateway(action=4))
    assert controller.act(observe()) == dict.fromkeys(JUNCTIONS, 0)
    (outage,) = controller.outages
    assert outage.decisions == 5


def test_a_gateway_that_is_away_costs_decisions_and_comes_back():
    gateway = FakeGateway()
    controller = make_controller(gateway)
    for gateway.away in (False, True, True, False, False, True):
        assert controller.act(observe()) == dict.fromkeys(JUNCTIONS, int(not gateway.away))
    times = [(each.begin_s, each.end_s, each.decisions) for each in controller.outages]
    assert times == [(5, 15, 10), (25, 30, 5)]
    assert controller.outages[0].reason.startswith("UnavailableError")
