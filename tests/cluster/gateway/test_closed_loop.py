"""SUMO driven through the gateway, while the inference service goes away and comes back."""

import time
from collections.abc import Callable, Iterator, Mapping

import pytest

from deployments.access.keys import Keys
from deployments.access.tokens import Tokens
from greenwave.client import Client
from greenwave.client.login import Login
from lab.net.importing import import_network
from lab.sim.observation import Observation
from lab.sim.scenario import DECISION_S, RouteFiles, Scenario
from lab.sim.shipped import MORNING_RUSH_S, shipped_demand
from load_tests.harness.system import System, application
from models.networks.shipped import NET_FILE
from serve_app.cli import demo
from serve_app.demo.connect import prepare
from serve_app.demo.gateway_controller import GatewayController
from serve_app.demo.report import report
from serve_app.demo.stage import OwnQueues, city, shipped
from tests.cluster.gateway.conftest import ENVIRONMENT, USER
from tests.support.waiting import until

STAGE = shipped(shipped_demand(MORNING_RUSH_S, 120 * DECISION_S))


class Interrupted:
    """A controller around which things happen before given decisions."""

    def __init__(self, inner: GatewayController, events: dict[int, Callable[[], object]]) -> None:
        self._inner = inner
        self._events = events
        self._decision = 0

    def act(self, observations: Mapping[str, Observation]) -> dict[str, int]:
        if event := self._events.get(self._decision):
            event()
        self._decision += 1
        return self._inner.act(observations)


@pytest.fixture
def client(late: System) -> Iterator[Client]:
    with Client(f"{late.url}/late", USER["username"], USER["password"]) as client:
        yield client


@pytest.mark.timeout(300)
def test_the_junctions_go_on_without_the_policy_and_recover_by_themselves(
    late, client, run_id, capsys
):
    policy = GatewayController(client, run_id, STAGE.scenario, OwnQueues(STAGE.scenario.network))
    login = client._engine._login
    assert isinstance(login, Login)

    def kill() -> None:
        (replica,) = late.replicas("late")
        replica.kill()
        until(lambda: not replica.is_running())

    def wait_until_back() -> None:
        until(lambda: status_of(client) == "success")

    def take_away() -> None:
        late.remove("late")
        until(lambda: status_of(client) != "success")  # once the replica has drained

    def bring_back() -> None:
        late.deploy(application("late", "/late"))
        wait_until_back()

    wait_until_back()
    prepare(client, run_id, STAGE.scenario, late.url)
    events: dict[int, Callable[[], object]] = {
        10: lambda: setattr(login, "token", expired_token()),
        20: take_away,
        40: bring_back,
        60: kill,
        80: wait_until_back,
    }
    metrics, interrupted = demo.drive(
        "policy", lambda _: Interrupted(policy, events), STAGE, seed=1
    )
    assert not interrupted
    first, second = policy.outages[0], policy.outages[-1]
    assert [decision_of(first.begin_s), decision_of(second.begin_s)] == [20, 60]
    assert 40 <= decision_of(first.end_s) < 60
    assert 61 <= decision_of(second.end_s) < 100
    assert "fallback_mode" in first.reason
    assert sum(outage.decisions for outage in policy.outages) <= 5 * (40 + 40)
    assert metrics.arrived > 0

    report({"policy": metrics}, policy, interrupted=False)
    said = capsys.readouterr().out
    assert "simulated 07:31:40 to" in said
    assert "simulated 07:35:00 to" in said


def decision_of(simulated_s: int) -> int:
    return (simulated_s - MORNING_RUSH_S) // DECISION_S


def status_of(client: Client) -> str:
    """Return the status of a decision in a run that is not the test's."""
    return client.run().demo().status


def expired_token() -> str:
    secret = ENVIRONMENT["JWT_SECRET"].encode()
    return Tokens(
        Keys.of_secret(secret), lifetime_s=1, clock_skew_s=5, clock=lambda: time.time() - 3600
    ).issue(USER["username"])


@pytest.mark.timeout(300)
def test_a_city_of_a_network_file_is_driven_with_its_users_routes(late, client, run_id, tmp_path):
    routes = tmp_path / "town.rou.xml"
    trips = "".join(
        f'<trip id="{second}" depart="{second}" from="west_to_station" to="park_to_east"/>'
        for second in range(0, 600, 10)
    )
    routes.write_text(f"<routes>{trips}</routes>")
    file, _ = import_network(NET_FILE)
    stage = city(Scenario(file, NET_FILE, RouteFiles((routes,)), 0, 900))
    policy = GatewayController(client, run_id, stage.scenario, OwnQueues(file))
    until(lambda: status_of(client) == "success")
    prepare(client, run_id, stage.scenario, late.url)
    served, _ = demo.drive("policy", lambda _: policy, stage, 1, stage.watch(client))
    alone, _ = demo.drive("own programs", stage.peer, stage, 1)
    assert not policy.outages
    assert len(policy.latencies_s) == stage.scenario.n_decisions * 5
    assert served.demanded == alone.demanded == 60
    assert alone.arrived > 50
