"""A policy beside the one in service: whom it answers, with which states, and what may change."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import torch
from pydantic import ValidationError

from deployments.inference import shadow
from deployments.inference.api import create_app
from deployments.inference.metrics import InferenceMetrics
from deployments.inference.options import InferenceOptions, InferenceUserConfig
from deployments.inference.policies import Part, place_of
from deployments.inference.service import InferenceService
from deployments.stateful.authority.authority import StateAuthority
from deployments.stateful.protocol import CheckoutTimeoutError, Key, StateError
from deployments.stateful.replica.batcher import Decision
from deployments.stateful.replica.engine import StatefulEngine
from deployments.stateful.replica.leases import StateLeases
from models.policy.form import HIDDEN_DIM
from tests.reference import ReferencePolicy, random_state_dict
from tests.unit.inference.policies import (
    BIG,
    REFERENCE,
    SMALL,
    WEIGHTS,
    assert_replays,
    observations,
)
from tests.unit.metrics.recorded import RecordedMetrics
from tests.unit.stateful.authorities import make_authority

OTHER = ReferencePolicy(random_state_dict(seed=7))
RUNS = [f"run-{n}" for n in range(40)]
LOW, HIGH = min(RUNS, key=place_of), max(RUNS, key=place_of)

DEFAULT = InferenceOptions()
Asked = list[tuple[list[float], Decision]]


@pytest.fixture
def files(tmp_path: Path) -> Path:
    torch.save(WEIGHTS, tmp_path / "first.th")
    torch.save(random_state_dict(seed=7), tmp_path / "second.th")
    torch.save(random_state_dict(scale=1e38), tmp_path / "overflows.th")
    (tmp_path / "broken.th").write_bytes(b"not a policy")
    return tmp_path


class Replicas:
    """Services that share one authority, as replicas do."""

    def __init__(self, authority: StateAuthority, files: Path) -> None:
        self.services: list[InferenceService] = []
        self._authority = authority
        self._files = files

    async def add(self, options: InferenceOptions) -> InferenceService:
        name = f"replica-{len(self.services)}"
        leases = StateLeases(self._authority, name, HIDDEN_DIM, options)
        service = InferenceService(StatefulEngine([leases]), options)
        await leases.start()
        await service.policies.start(str(self._files / "first.th"))
        self.services.append(service)
        return service

    def candidate(
        self, file: str = "second.th", mode: str = "canary", share: float = 0.5, states: str = "new"
    ) -> dict[str, Any]:
        path = str(self._files / file)
        return {"agent_path": path, "states": states, "mode": mode, "share": share}

    def promoted(self, file: str = "second.th") -> dict[str, Any]:
        return {"agent_path": str(self._files / file), "states": "new"}


@contextlib.asynccontextmanager
async def some(files: Path, n: int, options: InferenceOptions = DEFAULT) -> AsyncIterator[Replicas]:
    authority = await make_authority(options)
    replicas = Replicas(authority, files)
    for _ in range(n):
        await replicas.add(options)
    yield replicas
    for service in replicas.services:
        await service.close()
    authority.stop()


@pytest.fixture
async def replicas(files: Path) -> AsyncIterator[Replicas]:
    async with some(files, 2) as replicas:
        yield replicas


@pytest.fixture
def service(replicas: Replicas) -> InferenceService:
    return replicas.services[0]


async def ask(service: InferenceService, run: str, n: int, junction: str = SMALL) -> Asked:
    return [(obs, await service.predict(run, junction, obs)) for obs in observations(n)]


async def reconfigure(service: InferenceService, **user_config: Any) -> None:
    await service.policies.reconfigure(user_config)


def test_a_share_has_about_as_many_of_the_runs_wherever_it_is_asked():
    places = [place_of(f"simulation-{n}") for n in range(10_000)]
    for share in (0.01, 0.1, 0.5):
        assert sum(place < share for place in places) / 10_000 == pytest.approx(share, abs=0.01)
    assert 0 <= min(places) <= max(places) < 1
    assert place_of("default") == pytest.approx(0.994517, abs=1e-6), "the same in every process"


async def test_a_canary_answers_its_share_of_the_runs_from_states_of_its_own(replicas, service):
    await reconfigure(service, candidate=replicas.candidate(share=0.3))
    for run in RUNS:
        expected = OTHER if place_of(run) < 0.3 else REFERENCE
        assert_replays(SMALL, await ask(service, run, 3), reference=expected)


@pytest.mark.parametrize("share", [0, 1])
async def test_a_share_may_be_nothing_or_everything(replicas, service, share):
    await reconfigure(service, candidate=replicas.candidate(share=share))
    for run in (LOW, HIGH):
        assert_replays(SMALL, await ask(service, run, 2), reference=OTHER if share else REFERENCE)


async def test_while_only_one_replica_has_the_new_share_each_policy_steps_its_own_states(replicas):
    """Every policy's answers to a run are one history from zeros, whichever replica gave them."""
    one, two = replicas.services
    by_policy: dict[tuple[str, ReferencePolicy], Asked] = {}
    wanted = observations(80)
    for number, obs in enumerate(wanted):
        if number in (20, 40):
            for_one = number == 20
            await reconfigure(one if for_one else two, candidate=replicas.candidate(share=1))
        asked = [
            (run, service, service.predict(run, SMALL, obs))
            for run in (LOW, HIGH)
            for service in replicas.services
        ]
        for run, service, answer in asked:
            policy = OTHER if service.policies.candidate else REFERENCE
            by_policy.setdefault((run, policy), []).append((obs, await answer))
    for (_, policy), each in by_policy.items():
        assert_replays(SMALL, each, reference=policy)
    assert [len(each) for each in by_policy.values()] == [60, 60, 100, 100]


async def test_a_reset_clears_a_run_of_every_policy(replicas, service):
    await ask(service, LOW, 2)
    await reconfigure(service, candidate=replicas.candidate())
    await ask(service, LOW, 3)
    await service.reset(LOW)
    assert_replays(SMALL, await ask(service, LOW, 2), reference=OTHER)
    await reconfigure(service)
    assert_replays(SMALL, await ask(service, LOW, 2))


async def test_a_promoted_canary_goes_on_with_its_runs_and_begins_the_others(
    replicas, service, files
):
    await reconfigure(service, candidate=replicas.candidate())
    before = {run: await ask(service, run, 3) for run in (LOW, HIGH)}
    (files / "second.th").unlink()  # what was tried is what is promoted, whatever the file is now
    await reconfigure(service, **replicas.promoted())
    goes_on = before[LOW] + await ask(service, LOW, 2)
    assert_replays(SMALL, goes_on, reference=OTHER)
    assert_replays(SMALL, await ask(service, HIGH, 2), reference=OTHER)
    assert service.health().detail is None


async def test_after_a_drop_each_run_goes_on_with_the_policy_in_service(replicas, service):
    before = await ask(service, LOW, 2)
    await reconfigure(service, candidate=replicas.candidate())
    await ask(service, LOW, 2)
    await reconfigure(service)
    assert_replays(SMALL, before + await ask(service, LOW, 2))


async def test_what_is_queued_when_a_canary_is_dropped_or_promoted_is_answered(replicas, service):
    await reconfigure(service, candidate=replicas.candidate(share=1))
    queued = [(obs, service.predict(LOW, SMALL, obs)) for obs in observations(10)]
    await reconfigure(service)
    assert_replays(SMALL, [(obs, await answer) for obs, answer in queued], reference=OTHER)
    await reconfigure(service, candidate=replicas.candidate(share=1))
    more = [(obs, service.predict(LOW, SMALL, obs)) for obs in observations(10)]
    await reconfigure(service, **replicas.promoted())
    assert [(await answer).step for _, answer in more] == list(range(11, 21))


@pytest.mark.parametrize("file", ["broken.th", "missing.th"])
async def test_a_candidate_that_cannot_be_served_changes_nothing(replicas, service, file):
    await reconfigure(service, candidate=replicas.candidate(share=0.5))
    await reconfigure(service, candidate=replicas.candidate(file, share=1, states="newer"))
    assert_replays(SMALL, await ask(service, LOW, 2), reference=OTHER)
    assert_replays(SMALL, await ask(service, HIGH, 2))
    health = service.health()
    assert (health.status, file in str(health.detail)) == ("healthy", True)
    await reconfigure(service, candidate=replicas.candidate(share=0.5))
    assert service.health().detail is None


async def test_a_policy_that_cannot_be_served_leaves_the_candidate_as_well(replicas, service):
    await reconfigure(service, candidate=replicas.candidate())
    await reconfigure(service, agent_path="missing.th")
    assert_replays(SMALL, await ask(service, LOW, 2), reference=OTHER)
    assert_replays(SMALL, await ask(service, HIGH, 2))
    assert "missing.th" in str(service.health().detail)


async def test_a_replica_that_starts_with_a_broken_candidate_serves_its_policy(replicas, service):
    await reconfigure(
        service, **replicas.promoted(), candidate=replicas.candidate("broken.th", states="newer")
    )
    for run in (LOW, HIGH):
        assert_replays(SMALL, await ask(service, run, 2), reference=OTHER)


async def test_states_of_one_candidate_are_never_those_of_another(replicas, service):
    await reconfigure(service, candidate=replicas.candidate())
    await ask(service, LOW, 2)
    await reconfigure(service, candidate=replicas.candidate("first.th"))
    assert "the name of those of another policy" in str(service.health().detail)
    assert [decision.step for _, decision in await ask(service, LOW, 1)] == [3]


async def test_a_step_that_a_canary_cannot_make_is_made_by_the_policy_in_service(replicas, service):
    await reconfigure(service, candidate=replicas.candidate("overflows.th", share=1))
    assert_replays(SMALL, await ask(service, LOW, 3))
    assert service.policies.counts[Part("candidate", "new")].passed_on == 3
    with pytest.raises(StateError, match="so large"):
        await service.predict(LOW, SMALL, [3e38, -3e38] * 9)


async def test_a_promoted_policy_leaves_no_step_to_the_one_before(replicas, service):
    await reconfigure(service, candidate=replicas.candidate("overflows.th", share=1))
    await ask(service, LOW, 1)
    promoted = replicas.promoted("overflows.th")
    await reconfigure(service, **promoted)
    with pytest.raises(StateError, match="so large"):
        await service.predict(LOW, SMALL, [0.5])


async def test_what_a_canary_has_left_to_the_other_policy_waits_no_longer_than_before(files):
    async with some(files, 1, InferenceOptions(shared_patience_s=0.2)) as replicas:
        (service,) = replicas.services
        await reconfigure(service, candidate=replicas.candidate("overflows.th", share=1))
        acquire = service.leases.acquire

        async def never_for_the_other(key: Key) -> None:
            await (acquire(key) if "@" in key.junction else asyncio.Event().wait())

        service.leases.acquire = never_for_the_other  # type: ignore[method-assign]
        async with asyncio.timeout(5):
            with pytest.raises(CheckoutTimeoutError):
                await service.predict(LOW, SMALL, [0.5], shared=True)


async def test_what_a_user_reads_names_no_states(files):
    async with some(files, 1, InferenceOptions(max_states=1)) as replicas:
        (service,) = replicas.services
        await reconfigure(service, candidate=replicas.candidate(share=1, states="internal"))
        transport = httpx.ASGITransport(create_app(service, DEFAULT))
        async with httpx.AsyncClient(transport=transport, base_url="http://x") as client:
            for run in ("known", "one-too-many"):
                body = {"junction_id": SMALL, "obs_data": [], "run_id": run}
                answer = await client.post("/predict_action", json=body)
                assert "internal" not in answer.text + str(answer.headers)
            assert answer.headers["x-error-code"] == "too_many_states"
        assert service.health().status == "unhealthy"


@pytest.mark.parametrize(
    "candidate",
    [
        {"share": 1.5},
        {"share": -0.1},
        {"mode": "mirror"},
        {"states": ""},
        {"states": "a/b"},
        {"states": "old"},
        {"unknown": 1},
    ],
)
def test_a_wrong_configuration_is_refused(candidate):
    valid = {"agent_path": "x.th", "states": "new", "mode": "canary", "share": 0.5}
    InferenceUserConfig.model_validate({"states": "old", "candidate": valid})
    with pytest.raises(ValidationError):
        InferenceUserConfig.model_validate({"states": "old", "candidate": valid | candidate})


class TestShadow:
    @pytest.fixture(autouse=True)
    async def in_the_shadow(
        self, replicas: Replicas, service: InferenceService, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(shadow, "GATHER_S", 0.005)
        await reconfigure(service, candidate=replicas.candidate(mode="shadow", share=1))

    async def test_it_answers_nobody_and_compares(self, service):
        wanted = observations(50, size=19)
        asked = [(obs, await service.predict("run", BIG, obs)) for obs in wanted]
        assert_replays(BIG, asked)
        await settled(service, 50)
        actions = [REFERENCE.replay(BIG, wanted), OTHER.replay(BIG, wanted)]
        agreed = sum(one[0] == other[0] for one, other in zip(*actions, strict=True))
        assert 0 < agreed < 50
        assert service.policies.outcomes["new"] == {"agreed": agreed, "differed": 50 - agreed}

    async def test_the_same_policy_has_the_same_states_in_batches_and_after_a_reset(
        self, replicas, service
    ):
        same = replicas.candidate("first.th", mode="shadow", share=1, states="same")
        await reconfigure(service, candidate=same)
        for n in (30, 1):
            several = (service.predict("run", BIG, obs, shared=True) for obs in observations(n))
            await asyncio.gather(*several, *(service.predict(run, SMALL, [0.5]) for run in RUNS))
            await service.reset("run")
        await settled(service, 30 + 1 + 2 * len(RUNS))
        assert service.policies.outcomes["same"] == {"agreed": done(service)}
        _, _, hidden = REFERENCE.step(BIG, observations(1)[0])
        kept = service.policies.primary.stepper.shadow.states
        assert kept.of(Key("run", BIG)) == pytest.approx(hidden, abs=1e-4)

    async def test_it_follows_its_share_of_the_runs(self, replicas, service):
        await reconfigure(service, candidate=replicas.candidate(mode="shadow", share=0.5))
        for run in (LOW, HIGH):
            await ask(service, run, 5)
        await settled(service, 5)

    async def test_it_steps_behind_the_answers(self, service):
        await ask(service, "run", 1)
        await settled(service, 1)
        counted = done(service)
        answer = service.predict("run", SMALL, [0.5])
        seen: list[int] = []
        answer.add_done_callback(lambda _: seen.append(done(service)))
        await answer
        assert [*seen, done(service)] == [counted, counted]
        await settled(service, counted + 1)

    async def test_what_is_too_much_is_left_out_and_counted(self, service, monkeypatch):
        monkeypatch.setattr(shadow, "MAX_WAITING", 10)
        await asyncio.gather(*(service.predict(run, SMALL, [0.5]) for run in RUNS))
        await settled(service, len(RUNS))
        before = service.policies.outcomes["new"]["skipped"]
        await asyncio.gather(*(service.predict(run, SMALL, [0.5]) for run in RUNS))
        await settled(service, 2 * len(RUNS))
        assert service.policies.outcomes["new"]["skipped"] - before == len(RUNS)

    async def test_what_the_policy_in_service_refuses_is_not_stepped(self, service):
        with pytest.raises(StateError):
            await service.predict("run", SMALL, [3e38, -3e38] * 9)
        await ask(service, "run", 1)
        await settled(service, 1)

    def test_states_that_were_not_used_for_longest_give_way(self):
        states = shadow.ShadowStates(3)
        keys = [Key(run, SMALL) for run in RUNS[:5]]
        for n in (0, 1, 2, 3, 1, 4):
            (row,) = states.rows_of([keys[n]])
            assert not states.hidden[row].any() or n == 1, "a new state is zeros"
            states.hidden[row] = n + 1
        kept = [states.of(key) for key in keys]
        assert [None if each is None else each[0] for each in kept] == [None, 2, None, 4, 5]

    async def test_after_a_step_that_is_not_finite_it_begins_anew(self, replicas, service):
        large = replicas.candidate("overflows.th", "shadow", 1, "large")
        await reconfigure(service, candidate=large)
        await ask(service, "run", 2)
        await settled(service, 2)
        kept = service.policies.primary.stepper.shadow.states
        assert not kept.of(Key("run", SMALL)).any()

    @pytest.mark.parametrize("defect", ["overflows", "raises"])
    async def test_its_failures_reach_nobody(self, replicas, service, monkeypatch, defect):
        if defect == "overflows":
            candidate = replicas.candidate("overflows.th", "shadow", 1, "large")
            await reconfigure(service, candidate=candidate)
        else:
            monkeypatch.setattr(service.policies.candidate.line.slot, "model", None)
        assert_replays(SMALL, await ask(service, "run", 5))
        await settled(service, 5)
        assert sum(service.policies.outcomes.values(), Counter()) == {"failed": 5}

    async def test_a_promoted_one_begins_with_zeros(self, replicas, service):
        await ask(service, "run", 3)
        await reconfigure(service, **replicas.promoted())
        assert_replays(SMALL, await ask(service, "run", 3), reference=OTHER)
        assert service.policies.primary.stepper.shadow is None


def done(service: InferenceService) -> int:
    """Return how many steps of shadows were made or left out."""
    return sum(outcomes.total() for outcomes in service.policies.outcomes.values())


async def settled(service: InferenceService, n: int) -> None:
    """Return when the shadow has done with n steps, and no more are under way."""
    async with asyncio.timeout(10):
        while done(service) < n:
            await asyncio.sleep(0.001)
    await asyncio.sleep(2 * shadow.GATHER_S)
    assert done(service) == n


async def test_the_metrics_tell_the_policies_apart(replicas, service, monkeypatch):
    recorded = RecordedMetrics(monkeypatch)
    published = InferenceMetrics(service)
    await reconfigure(service, candidate=replicas.candidate())
    await ask(service, LOW, 2)
    await ask(service, HIGH, 3)
    await service.predict(HIGH, SMALL, [2.0, 0.5, *[0.0] * 6, 0.1])  # the last is one too many
    published.publish()
    counted = recorded.counted.items()
    made: dict[str, float] = {}
    for policy, n in [(key[1], n) for key, n in counted if key[0] == "inference_predictions"]:
        made[policy] = made.get(policy, 0) + n
    assert made == {"primary": 4, "candidate": 2}
    values = {key[1:]: n for key, n in counted if key[0] == "inference_observed_values"}
    assert values == {
        ("primary", "", "outside"): 2,
        ("primary", "", "inside"): 4 * 8 - 2,
        ("candidate", "new", "outside"): 0,
        ("candidate", "new", "inside"): 2 * 8,
    }
    for metric in ("inference_entropy", "inference_step_ms"):
        told = [key[1] for key, _ in recorded.observed if key[0] == metric]
        assert sorted(told) == ["candidate"] * 2 + ["primary"] * 4


def test_states_of_a_name_belong_to_their_run():
    key = Key("run", SMALL)
    assert key.among("") == key
    assert key.among("new").run == "run"
    assert key.among("new") not in (key, key.among("newer"))
