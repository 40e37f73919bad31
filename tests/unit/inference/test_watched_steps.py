"""What is noted of steps while somebody watches, and that nothing is while nobody does."""

from __future__ import annotations

import numpy as np
import pytest

from deployments.feed.messages import NOBODY, Demand
from deployments.inference.service import InferenceReporter
from deployments.inference.telemetry import MAX_RECENT, MAX_RUNS, Made, WatchedSteps
from deployments.request_times import RequestTimes
from deployments.stateful.protocol import Key
from models.maps.map_of_file import MAX_DRAWN
from models.policy.inputs import UNAVAILABLE, InputLayout, encode
from models.policy.step import PolicyStep
from tests.cities import agent_for, city_of_size
from tests.unit.inference.policies import POLICY, SMALL, observations
from tests.unit.stateful.virtual_time import virtual_time
from tests.unit.stateful.world import World

FILES = {"": "agent.th"}


@virtual_time
async def test_a_watched_decision_is_told_with_what_the_policy_saw_knew_and_chose():
    world = await World(policy=POLICY).start()
    stepper = world.replicas[0].stepper
    stepper.watched_steps.on_demand_changed(Demand(True, frozenset({"run"})))
    asked = observations(3)
    for n, obs in enumerate(asked, 1):
        answer = await stepper.submit(Key("run", SMALL), obs)
        ((decision,), runs) = stepper.watched_steps.take(FILES)
        assert runs == {"run": 1}
        assert (decision.run, decision.junction, decision.policy) == ("run", SMALL, "agent.th")
        assert (decision.observation, decision.action) == (obs, answer.action)
        assert decision.step == answer.step == n
        assert decision.probabilities[decision.action] == pytest.approx(answer.confidence)
        assert decision.hidden is not None
        again = POLICY(encode([1], [obs]), decision.hidden[None], UNAVAILABLE[[1]])
        assert again.confidences[0] == pytest.approx(answer.confidence)


@virtual_time
async def test_of_several_decisions_the_latest_has_the_hidden_state():
    world = await World(policy=POLICY).start()
    stepper = world.replicas[0].stepper
    stepper.watched_steps.on_demand_changed(Demand(True, frozenset({"run"})))
    for obs in observations(3):
        await stepper.submit(Key("run", SMALL), obs)
    decisions, _ = stepper.watched_steps.take(FILES)
    assert [decision.hidden is not None for decision in decisions] == [False, False, True]


@virtual_time
async def test_while_nobody_watches_nothing_is_noted():
    world = await World(policy=POLICY).start()
    stepper = world.replicas[0].stepper
    await stepper.submit(Key("run", SMALL), [1.0])
    assert stepper.watched_steps.take(FILES) == ([], {})
    stepper.watched_steps.on_demand_changed(Demand(True, frozenset({"run"})))
    await stepper.submit(Key("run", SMALL), [1.0])
    stepper.watched_steps.on_demand_changed(NOBODY)
    assert stepper.watched_steps.take(FILES) == ([], {})


@virtual_time
async def test_of_many_runs_and_many_steps_only_some_are_kept():
    world = await World(policy=POLICY).start()
    stepper = world.replicas[0].stepper
    stepper.watched_steps.on_demand_changed(Demand(True, frozenset({"run-0"})))
    for n in range(3 * MAX_RUNS):
        await stepper.submit(Key(f"run-{n}", SMALL), [1.0])
    for obs in observations(2 * MAX_RECENT):
        await stepper.submit(Key("run-0", SMALL), obs)
    decisions, runs = stepper.watched_steps.take(FILES)
    assert [decision.step for decision in decisions] == list(
        range(MAX_RECENT + 2, 2 * MAX_RECENT + 2)
    )
    assert len(runs) == MAX_RUNS
    assert runs["run-0"] == 2 * MAX_RECENT + 1


@virtual_time
async def test_a_step_that_is_not_finite_is_no_decision():
    world = await World(policy=POLICY).start()
    stepper = world.replicas[0].stepper
    stepper.watched_steps.on_demand_changed(Demand(True, frozenset({"run"})))
    with pytest.raises(Exception, match="finite"):
        await stepper.submit(Key("run", SMALL), [float(np.finfo(np.float32).max)] * 8)
    assert stepper.watched_steps.take(FILES)[0] == []


async def test_a_replica_tells_its_steps_and_how_late_its_commits_are(service):
    reporter = InferenceReporter(service, RequestTimes())
    reporter.on_demand_changed(Demand(True, frozenset({"run"})))
    await service.predict("run", SMALL, [1.0])
    contents = reporter.take()
    assert contents.requests == 1
    assert contents.gauges["commit_lag_ms"] >= 0
    assert [decision.junction for decision in contents.decisions] == [SMALL]


def test_junctions_that_no_map_shows_are_not_told():
    network = city_of_size(MAX_DRAWN + 2)
    watched = WatchedSteps(network)
    watched.on_demand_changed(Demand(True, frozenset({"run"})))
    policy = PolicyStep(agent_for(network).state_dict(), network)
    agents = [MAX_DRAWN - 1, MAX_DRAWN, MAX_DRAWN + 1]
    inputs = InputLayout(network).encode(agents, [[1.0]] * 3)
    hidden = np.zeros((3, 128), np.float32)
    step = policy(inputs, hidden, network.unavailable[agents])
    watched.note(Made(["run"] * 3, agents, [1] * 3, inputs, hidden, step, policy, ""))
    decisions, runs = watched.take(FILES)
    assert [decision.junction for decision in decisions] == [network.ids[MAX_DRAWN - 1]]
    assert runs == {"run": 3}
