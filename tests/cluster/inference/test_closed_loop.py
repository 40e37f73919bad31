"""The served policy is the evaluated one: the same hour over HTTP takes the same actions."""

from collections.abc import Iterator, Mapping

import pytest

pytest.importorskip("libsumo", reason="SUMO is not installed")

from greenwave.client import Client, Prediction
from lab.sim.controllers import Control, policy_control, run
from lab.sim.environment import Observations
from lab.sim.metrics import Metrics
from lab.sim.observation import Observation
from lab.sim.shipped import MORNING_RUSH_S, shipped_demand, shipped_scenario
from load_tests.harness.system import System, application
from models.policy.form import SHIPPED_POLICY

RUSH = shipped_scenario(shipped_demand(MORNING_RUSH_S, 1200))


@pytest.fixture
def trained_url(system: System) -> Iterator[str]:
    policy = {"agent_path": str(SHIPPED_POLICY)}
    system.deploy(application("trained", "/trained", user_config=policy))
    yield f"{system.url}/trained"
    system.remove("trained")


class OverHttp:
    """Asks the inference service for all junctions of a decision in one call."""

    def __init__(self, client: Client, run_id: str) -> None:
        self._run = client.inference.run(run_id)

    def act(self, observations: Mapping[str, Observation]) -> dict[str, int]:
        asked = [(junction, values.tolist()) for junction, values in observations.items()]
        answered = self._run.predict_many(asked)
        assert all(isinstance(each, Prediction) for each in answered)
        return {each.junction_id: each.action for each in answered if isinstance(each, Prediction)}


def drive(control: Control, seed: int) -> tuple[list[dict[str, int]], Metrics]:
    taken: list[dict[str, int]] = []

    def keep(_: Observations, actions: dict[str, int]) -> None:
        taken.append(actions)

    metrics = run(RUSH, seed, control, keep)
    return taken, metrics


def test_actions_and_figures_over_http_are_those_in_process(trained_url, run_id):
    with Client(trained_url) as client:
        served, served_metrics = drive(lambda _: OverHttp(client, run_id), seed=1)
    expected, metrics = drive(policy_control(RUSH, SHIPPED_POLICY), seed=1)
    assert len(expected) == RUSH.n_decisions
    for step, (over_http, in_process) in enumerate(zip(served, expected, strict=True)):
        assert over_http == in_process, f"decision {step}"
    assert served_metrics == metrics
