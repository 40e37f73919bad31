"""A shadow: it repeats the steps of the policy in service, and answers no request."""

import asyncio
from collections import Counter

import pytest

from deployments.inference import shadow
from deployments.inference.service import InferenceService
from deployments.stateful.errors import StateError
from deployments.stateful.row import Key
from tests.unit.inference.policies import BIG, REFERENCE, SMALL, assert_replays, observations
from tests.unit.inference.replicas import HIGH, LOW, RUNS, SECOND, Replicas, make_steps, reconfigure


@pytest.fixture
async def service(replicas: Replicas, monkeypatch: pytest.MonkeyPatch) -> InferenceService:
    """Return a service with second.th as the shadow of first.th."""
    monkeypatch.setattr(shadow, "GATHER_S", 0.005)
    service = replicas.services[0]
    await reconfigure(service, canary=replicas.canary(mode="shadow", share=1))
    return service


def done(service: InferenceService) -> int:
    """Return how many steps of shadows were made or skipped."""
    return sum(outcomes.total() for outcomes in service.policies.shadow_outcomes.values())


async def settled(service: InferenceService, n: int) -> None:
    """Return when the shadow has made or skipped n steps, and no more."""
    async with asyncio.timeout(10):
        while done(service) < n:
            await asyncio.sleep(0.001)
    await asyncio.sleep(2 * shadow.GATHER_S)
    assert done(service) == n


async def test_it_answers_no_request_and_compares(service):
    wanted = observations(50, size=19)
    assert_replays(BIG, [(obs, await service.predict("run", BIG, obs)) for obs in wanted])
    await settled(service, 50)
    actions = [REFERENCE.replay(BIG, wanted), SECOND.replay(BIG, wanted)]
    agreed = sum(one[0] == other[0] for one, other in zip(*actions, strict=True))
    assert 0 < agreed < 50
    outcomes = service.policies.shadow_outcomes["new"]
    assert outcomes == {"agreed": agreed, "differed": 50 - agreed}


async def test_the_same_policy_has_the_same_states_in_batches_and_after_a_reset(replicas, service):
    same = replicas.canary("first.th", mode="shadow", share=1, states="same")
    await reconfigure(service, canary=same)
    for n in (30, 1):
        several = (service.predict("run", BIG, obs) for obs in observations(n))
        await asyncio.gather(*several, *(service.predict(run, SMALL, [0.5]) for run in RUNS))
        await service.reset("run")
    await settled(service, 30 + 1 + 2 * len(RUNS))
    assert service.policies.shadow_outcomes["same"] == {"agreed": done(service)}
    _, _, hidden = REFERENCE.step(BIG, observations(1)[0])
    kept = service.policies.primary.shadow.states
    assert kept.hidden[kept.rows_of([Key("run", BIG)])][0] == pytest.approx(hidden, abs=1e-4)


async def test_it_follows_its_share_of_the_runs_until_it_is_dropped(replicas, service):
    await reconfigure(service, canary=replicas.canary(mode="shadow", share=0.5))
    for run in (LOW, HIGH):
        await make_steps(service, run, 5)
    await settled(service, 5)
    await reconfigure(service)
    await make_steps(service, LOW, 2)
    await settled(service, 5)


async def test_it_steps_after_the_responses(service):
    await make_steps(service, "run", 1)
    await settled(service, 1)
    counted = done(service)
    step = service.predict("run", SMALL, [0.5])
    seen: list[int] = []
    step.add_done_callback(lambda _: seen.append(done(service)))
    await step
    assert [*seen, done(service)] == [counted, counted]
    await settled(service, counted + 1)


async def test_steps_beyond_its_capacity_are_skipped_and_counted(service, monkeypatch):
    monkeypatch.setattr(shadow, "MAX_WAITING", 10)
    await asyncio.gather(*(service.predict(run, SMALL, [0.5]) for run in RUNS))
    await settled(service, len(RUNS))
    before = service.policies.shadow_outcomes["new"]["skipped"]
    await asyncio.gather(*(service.predict(run, SMALL, [0.5]) for run in RUNS))
    await settled(service, 2 * len(RUNS))
    assert service.policies.shadow_outcomes["new"]["skipped"] - before == len(RUNS)


async def test_steps_that_the_policy_in_service_refuses_are_not_made(service):
    with pytest.raises(StateError):
        await service.predict("run", SMALL, [3e38, -3e38] * 9)
    await make_steps(service, "run", 1)
    await settled(service, 1)


@pytest.mark.parametrize("defect", ["overflows", "raises"])
async def test_its_failures_reach_no_request(replicas, service, monkeypatch, defect):
    if defect == "overflows":
        canary = replicas.canary("overflows.th", "shadow", 1, "large")
        await reconfigure(service, canary=canary)
    else:
        monkeypatch.setattr(service.policies.canary.variant.slot, "model", None)
    assert_replays(SMALL, await make_steps(service, "run", 5))
    await settled(service, 5)
    if defect == "overflows":
        kept = service.policies.primary.shadow.states
        assert not kept.hidden[kept.rows_of([Key("run", SMALL)])].any(), "it begins from zeros"
    assert sum(service.policies.shadow_outcomes.values(), Counter()) == {"failed": 5}


def test_the_longest_unused_state_gives_way_to_a_new_one():
    states = shadow.ShadowStates(3)
    keys = [Key(run, SMALL) for run in RUNS[:5]]
    for n in (0, 1, 2, 3, 1, 4):
        (row,) = states.rows_of([keys[n]])
        assert not states.hidden[row].any() or n == 1, "a new state is zeros"
        states.hidden[row] = n + 1
    rows = states.rows_of([keys[n] for n in (1, 3, 4)])
    assert states.hidden[rows, 0].tolist() == [2, 4, 5]
    assert not states.hidden[states.rows_of([keys[0]])].any()
