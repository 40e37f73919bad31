"""The served policy is the evaluated one: the same hour over HTTP takes the same actions."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

pytest.importorskip("libsumo", reason="SUMO is not installed")

from greenwave.client import Client
from lab.sim.controllers import Control, policy_control, run
from lab.sim.environment import Observations
from lab.sim.metrics import Metrics
from lab.sim.shipped import MORNING_RUSH_S, shipped_demand, shipped_scenario
from load_tests.harness.system import System, application
from models.networks.shipped import SHIPPED
from models.policy.form import SHIPPED_POLICY
from serve_app.demo.inference_controller import InferenceController
from serve_app.demo.outages import OutageLog

RUSH = shipped_scenario(shipped_demand(MORNING_RUSH_S, 1200))


@pytest.fixture
def trained_url(system: System) -> Iterator[str]:
    policy = {"agent_path": str(SHIPPED_POLICY)}
    system.deploy(application("trained", "/trained", user_config=policy))
    yield f"{system.url}/trained"
    system.remove("trained")


def drive(control: Control, seed: int) -> tuple[list[dict[str, int]], Metrics]:
    taken: list[dict[str, int]] = []

    def keep(_: Observations, actions: dict[str, int]) -> None:
        taken.append(actions)

    metrics = run(RUSH, seed, control, keep)
    return taken, metrics


def test_actions_and_figures_over_http_are_those_in_process(trained_url, run_id):
    with Client(trained_url) as client:
        outages = OutageLog(RUSH.begin_s, RUSH.decision_s)
        service = InferenceController(client, run_id, outages, SHIPPED)
        served, served_metrics = drive(lambda environment: service, seed=1)
    expected, metrics = drive(policy_control(RUSH, SHIPPED_POLICY), seed=1)
    assert not outages.outages
    assert len(expected) == RUSH.n_decisions
    for step, (over_http, in_process) in enumerate(zip(served, expected, strict=True)):
        assert over_http == in_process, f"decision {step}"
    assert served_metrics == metrics
