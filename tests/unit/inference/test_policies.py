"""The file of the policy in service, and a canary beside it: its runs, and its own states."""

import pytest
from pydantic import ValidationError

from deployments.inference.api import create_app
from deployments.inference.metrics import InferenceMetrics
from deployments.inference.options import InferenceUserConfig
from deployments.inference.policies import bucket_of
from deployments.inference.service import InferenceService
from deployments.stateful.calls import StepResult
from deployments.stateful.table import Read
from tests.reference import ReferencePolicy
from tests.support.local_states import stepped
from tests.unit.inference.policies import (
    REFERENCE,
    SMALL,
    WEIGHTS,
    Prediction,
    assert_replays,
    observations,
    rows_of,
)
from tests.unit.inference.replicas import HIGH, LOW, RUNS, SECOND, Replicas, make_steps, reconfigure
from tests.unit.inference.serving import client_of
from tests.unit.metrics.recorded import RecordedMetrics


@pytest.fixture
def service(replicas: Replicas) -> InferenceService:
    return replicas.services[0]


def test_a_share_has_about_as_many_of_the_runs_in_every_process():
    buckets = [bucket_of(f"simulation-{n}") for n in range(10_000)]
    for share in (0.01, 0.1, 0.5):
        assert sum(bucket < share for bucket in buckets) / 10_000 == pytest.approx(share, abs=0.01)
    assert 0 <= min(buckets) <= max(buckets) < 1
    assert bucket_of("default") == pytest.approx(0.994517, abs=1e-6)


async def test_a_canary_serves_its_share_of_the_runs_from_its_own_states(replicas, service):
    await reconfigure(service, canary=replicas.canary(share=0.3))
    for run in RUNS:
        expected = SECOND if bucket_of(run) < 0.3 else REFERENCE
        assert_replays(SMALL, await make_steps(service, run, 3), reference=expected)


async def test_the_rows_of_one_call_are_stepped_by_the_policies_of_their_runs(replicas, service):
    await reconfigure(service, canary=replicas.canary())
    (obs,) = observations(1)
    made = await service.predict_many(rows_of([LOW, HIGH], obs))
    assert_replays(SMALL, [(obs, made.row(0))], reference=SECOND)
    assert_replays(SMALL, [(obs, made.row(1))])


async def test_while_only_one_replica_has_the_new_share_each_policy_steps_its_own_states(replicas):
    """Check that each policy's steps of a run are one history from zeros over all replicas."""
    one, two = replicas.services
    by_policy: dict[tuple[str, ReferencePolicy], list[Prediction]] = {}
    for number, obs in enumerate(observations(80)):
        if number in (20, 40):
            changed = one if number == 20 else two
            await reconfigure(changed, canary=replicas.canary(share=1))
        predictions = [
            (run, service, service.predict(run, SMALL, obs))
            for run in (LOW, HIGH)
            for service in replicas.services
        ]
        for run, service, step in predictions:
            policy = SECOND if service.policies.canary else REFERENCE
            by_policy.setdefault((run, policy), []).append((obs, await step))
    for (_, policy), each in by_policy.items():
        assert_replays(SMALL, each, reference=policy)
    assert [len(each) for each in by_policy.values()] == [60, 60, 100, 100]


async def test_a_promoted_canary_continues_its_runs_and_begins_the_others(
    replicas, service, monkeypatch
):
    await reconfigure(service, canary=replicas.canary())
    before = {run: await make_steps(service, run, 3) for run in (LOW, HIGH)}
    canary = service.policies.canary.variant
    # The policy that was tried is the one that is promoted, whatever the file is now.
    monkeypatch.setattr(canary.slot, "load", pytest.fail)
    await reconfigure(service, **replicas.promoted())
    assert_replays(SMALL, before[LOW] + await make_steps(service, LOW, 2), reference=SECOND)
    assert_replays(SMALL, await make_steps(service, HIGH, 2), reference=SECOND)
    assert service.health().detail is None


async def test_requests_queued_when_a_canary_is_dropped_or_promoted_are_answered(replicas, service):
    await reconfigure(service, canary=replicas.canary(share=1))
    queued = [(obs, service.predict(LOW, SMALL, obs)) for obs in observations(10)]
    await reconfigure(service)
    assert_replays(SMALL, [(obs, await step) for obs, step in queued], reference=SECOND)
    await reconfigure(service, canary=replicas.canary(share=1))
    more = [service.predict(LOW, SMALL, obs) for obs in observations(10)]
    await reconfigure(service, **replicas.promoted())
    assert [(await step).step for step in more] == list(range(11, 21))


@pytest.mark.parametrize("file", ["broken.th", "missing.th"])
async def test_a_canary_that_cannot_be_served_changes_nothing(replicas, service, file):
    await reconfigure(service, canary=replicas.canary(share=0.5))
    await reconfigure(service, canary=replicas.canary(file, share=1, states="newer"))
    assert_replays(SMALL, await make_steps(service, LOW, 2), reference=SECOND)
    assert_replays(SMALL, await make_steps(service, HIGH, 2))
    health = service.health()
    assert (health.status, file in str(health.detail)) == ("healthy", True)
    await reconfigure(service, canary=replicas.canary(share=0.5))
    assert service.health().detail is None
    await reconfigure(service, agent_path=file)
    assert service.policies.canary
    assert file in str(service.health().detail)


async def test_a_replica_that_starts_with_a_broken_canary_serves_its_policy(replicas, service):
    await reconfigure(
        service, **replicas.promoted(), canary=replicas.canary("broken.th", states="newer")
    )
    for run in (LOW, HIGH):
        assert_replays(SMALL, await make_steps(service, run, 2), reference=SECOND)


async def test_two_canaries_never_share_states(replicas, service):
    await reconfigure(service, canary=replicas.canary())
    await make_steps(service, LOW, 2)
    await reconfigure(service, canary=replicas.canary("first.th"))
    detail = str(service.health().detail)
    assert "the name of its hidden states belongs to another policy" in detail
    assert [result.step for _, result in await make_steps(service, LOW, 1)] == [3]


async def test_a_key_that_is_repeated_across_a_canary_gets_the_first_answer(replicas, service):
    async def keyed(key: str) -> StepResult:
        result: StepResult = await service.predict(LOW, SMALL, [0.5], key)
        return result

    first = [await keyed(key) for key in "abcd"]
    await reconfigure(service, canary=replicas.canary())
    assert await keyed("d") == first[3]
    (own,) = await make_steps(service, LOW, 1)
    assert own[1].step == 1, "the canary has made no step"
    (of_canary, again) = [await keyed("e") for _ in range(2)]
    assert (of_canary, of_canary.step) == (again, 2)
    assert [await keyed(key) for key in "abcd"] == first
    await reconfigure(service)
    assert [await keyed(key) for key in "abcde"] == [*first, of_canary]
    assert (await service.predict(LOW, SMALL, [0.5])).step == 5


@pytest.mark.parametrize(
    "canary",
    [
        {"share": 1.5},
        {"share": -0.1},
        {"mode": "mirror"},
        {"states": ""},
        {"states": "a/b"},
        {"states": "old"},
        {"unknown": 1},
    ],
    ids=str,
)
def test_an_invalid_canary_is_refused(canary):
    valid = {"agent_path": "x.th", "states": "new", "mode": "canary", "share": 0.5}
    InferenceUserConfig.model_validate({"states": "old", "canary": valid})
    with pytest.raises(ValidationError):
        InferenceUserConfig.model_validate({"states": "old", "canary": valid | canary})


async def test_the_metrics_distinguish_the_policies(replicas, service, monkeypatch):
    recorded = RecordedMetrics(monkeypatch)
    published = InferenceMetrics(service)
    await reconfigure(service, canary=replicas.canary())
    await make_steps(service, LOW, 2)
    await make_steps(service, HIGH, 3)
    await service.predict(HIGH, SMALL, [2.0, -0.5, *[0.0] * 6, 0.1])  # the last is one too many
    published.publish()
    counted = recorded.counted.items()
    made: dict[str, float] = {}
    for policy, n in [(key[1], n) for key, n in counted if key[0] == "inference_predictions"]:
        made[policy] = made.get(policy, 0) + n
    assert made == {"primary": 4, "candidate": 2}
    values = {key[1:]: n for key, n in counted if key[0] == "inference_observed_values"}
    assert values == {
        ("primary", "", "outside"): 3,
        ("primary", "", "inside"): 4 * 8 - 2,
        ("candidate", "new", "outside"): 0,
        ("candidate", "new", "inside"): 2 * 8,
    }
    for metric in ("inference_entropy", "inference_step_ms"):
        policies = [key[1] for key, _ in recorded.observed if key[0] == metric]
        assert sorted(policies) == ["candidate"] * 2 + ["primary"] * 4


async def test_races_and_waits_for_other_changes_are_exported(service, monkeypatch):
    recorded = RecordedMetrics(monkeypatch)
    published = InferenceMetrics(service)
    (table,) = (shard.table for shard in service.engine._shards)
    read = table.read

    def and_then_another(names: list[bytes]) -> Read:
        found: Read = read(names)
        monkeypatch.setattr(table, "read", read)
        table.write(names, stepped(read(names)))
        return found

    monkeypatch.setattr(table, "read", and_then_another)
    assert (await service.predict(LOW, SMALL, [0.5])).step == 2
    table.longest_lock_s = 0.25
    published.publish()
    assert recorded.counted["inference_raced_rows",] == 1
    assert recorded.counted["inference_requests_without_place",] == 0
    assert [ms for key, ms in recorded.observed if key == ("inference_lock_wait_ms",)] == [250]
    assert service.engine.take_longest_wait_s() == 0


async def test_a_bad_first_file_leaves_no_model_and_a_good_one_repairs(
    empty_service, policy_file, tmp_path
):
    path = tmp_path / "missing.th"
    policies = empty_service.policies
    await policies.start(str(path))
    async with client_of(create_app(empty_service)) as client:
        health = (await client.get("/health")).json()
        assert (health["status"], health["model_loaded"]) == ("no_model", False)
        assert str(path) in health["detail"]
        await policies.reconfigure({"agent_path": str(policy_file)})
        assert (await client.get("/health")).json()["status"] == "healthy"


async def test_a_swap_changes_the_decisions_and_keeps_the_states(replicas, service, client):
    body = {"junction_id": SMALL, "obs_data": [0.5]}
    await client.post("/predict_action", json=body)
    _, _, hidden = ReferencePolicy(WEIGHTS).step(SMALL, [0.5])
    await service.policies.reconfigure({"agent_path": str(replicas.folder / "second.th")})
    response = await client.post("/predict_action", json=body)
    _, confidence, _ = SECOND.step(SMALL, [0.5], hidden)
    assert response.headers["x-hidden-state-step"] == "2"
    assert response.json()["confidence"] == pytest.approx(confidence, abs=2e-4)
