"""What the console receives of steps while it is open, and of which steps."""

import numpy as np
import pytest

from deployments.feed.messages import NO_DEMAND, Demand
from deployments.inference.policy_model import PolicyModel
from deployments.inference.service import InferenceReporter, InferenceService
from deployments.inference.telemetry import MAX_RECENT, MAX_RUNS, WatchedSteps
from deployments.request_times import RouteTimes
from deployments.stateful.row import Key
from models.maps.road_map import MAX_DRAWN
from models.networks.shipped import SHIPPED
from models.policy.inputs import InputLayout
from models.policy.step import PolicyStep
from tests.cities import agent_for, city_of_size
from tests.support.local_states import local_engine
from tests.unit.inference.policies import POLICY, SMALL, observations, rows_of
from tests.unit.inference.replicas import form_of, running

FILES = {"": "agent.th"}
DEMAND = Demand(True, frozenset({"run"}))


@pytest.fixture
def watched(service: InferenceService) -> WatchedSteps:
    """Return the watched steps of a service, with a console open for one run."""
    service.policies.watched_steps.on_demand_changed(DEMAND)
    return service.policies.watched_steps


async def test_a_decision_has_what_the_policy_observed_remembered_and_chose(service, watched):
    for n, obs in enumerate(observations(3), 1):
        result = await service.predict("run", SMALL, obs)
        ((decision,), runs) = watched.take(FILES)
        assert runs == {"run": 1}
        assert (decision.run, decision.junction, decision.policy) == ("run", SMALL, "agent.th")
        action, confidence = result.output
        assert (decision.observation, decision.action) == (obs, action)
        assert decision.step == result.step == n
        assert decision.probabilities[decision.action] == pytest.approx(confidence)
        assert decision.hidden is not None
        inputs = InputLayout(SHIPPED).encode([1], [obs])
        again = POLICY(inputs, decision.hidden[None], SHIPPED.unavailable[[1]])
        assert again.confidences[0] == pytest.approx(confidence)
    for obs in observations(3):
        await service.predict("run", SMALL, obs)
    decisions, _ = watched.take(FILES)
    assert [decision.hidden is not None for decision in decisions] == [False, False, True]


async def test_without_a_console_nothing_is_kept(service):
    watched = service.policies.watched_steps
    await service.predict("run", SMALL, [1.0])
    assert watched.take(FILES) == ([], {})
    watched.on_demand_changed(DEMAND)
    await service.predict("run", SMALL, [1.0])
    watched.on_demand_changed(NO_DEMAND)
    assert watched.take(FILES) == ([], {})


async def test_only_some_of_many_runs_and_of_many_steps_are_kept(service, watched):
    for n in range(3 * MAX_RUNS):
        await service.predict("run" if n == 0 else f"run-{n}", SMALL, [1.0])
    for obs in observations(2 * MAX_RECENT):
        await service.predict("run", SMALL, obs)
    decisions, runs = watched.take(FILES)
    assert [decision.step for decision in decisions] == list(
        range(MAX_RECENT + 2, 2 * MAX_RECENT + 2)
    )
    assert len(runs) == MAX_RUNS
    assert runs["run"] == 2 * MAX_RECENT + 1


async def test_a_step_that_is_not_finite_is_neither_a_decision_nor_counted(service, watched):
    with pytest.raises(Exception, match="finite"):
        await service.predict("run", SMALL, [float(np.finfo(np.float32).max)] * 8)
    await service.predict("run", SMALL, [1.0])
    contents = InferenceReporter(service, RouteTimes()).take()
    assert contents.requests == 1
    assert [decision.observation[0] for decision in contents.decisions] == [1.0]


async def test_the_rows_of_a_batch_that_were_written_are_counted_without_the_others(policy_folder):
    (obs,) = observations(1)
    async with running(1, policy_folder, max_states=1) as replicas:
        (service,) = replicas.services
        await service.predict("run", SMALL, obs)
        watched = service.policies.watched_steps
        watched.on_demand_changed(DEMAND)
        made = await service.predict_many(rows_of(["no-room", "run", "none"], obs))
        contents = InferenceReporter(service, RouteTimes()).take()
    assert [*made.errors] == [0, 2]
    assert (contents.requests, contents.runs) == (2, {"run": 1})
    (decision,) = contents.decisions
    assert (decision.observation, decision.step, decision.action) == (obs, 2, made.outputs[1][0])


async def test_junctions_that_no_map_shows_are_not_reported():
    network = city_of_size(MAX_DRAWN + 2)
    watched = WatchedSteps(network)
    watched.on_demand_changed(DEMAND)
    model = PolicyModel(PolicyStep(agent_for(network).state_dict(), network), network)
    with local_engine(form_of(network)) as engine:
        batcher = engine.batcher(lambda: model)
        batcher.on_step = lambda batch: watched.add(batch, "")
        for agent in (MAX_DRAWN - 1, MAX_DRAWN, MAX_DRAWN + 1):
            await batcher.submit(Key("run", network.ids[agent]), (agent, [1.0]))
    decisions, runs = watched.take(FILES)
    assert [decision.junction for decision in decisions] == [network.ids[MAX_DRAWN - 1]]
    assert runs == {"run": 3}
