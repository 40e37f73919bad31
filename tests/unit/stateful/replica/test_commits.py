"""Commits: when they are due, what they carry, and what waits for them."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

from deployments.stateful.protocol import AuthorityUnavailableError, Grant, Key, Version
from deployments.stateful.replica.claims import Claims
from deployments.stateful.replica.commits import STATES_PER_COMMIT, Commits
from deployments.stateful.replica.held_states import HeldStates, LeaseCounts
from deployments.stateful.replica.phases import Phase
from deployments.stateful.replica.session import Session
from tests.unit.stateful.authorities import now
from tests.unit.stateful.replica.scripted import LEASE_S, ScriptedAuthority
from tests.unit.stateful.simulation.history import Outcome
from tests.unit.stateful.simulation.scenario import KEY, scenario, simulated, start, until

LIMIT = 3  # states in a commit of a simulated test
ASLEEP_S = 500.0


class Committing:
    """A replica that owns n states and sends its commits when a test says so."""

    async def begin(self, n: int) -> Committing:
        self.authority, self.held, self.counts = ScriptedAuthority(), HeldStates(), LeaseCounts()
        claims = Claims(self.held, self.counts, lambda: now() + ASLEEP_S)
        self.session = Session(self.authority, "replica", 1, claims, lambda: now() + ASLEEP_S)
        self.commits = Commits(
            self.authority, self.session, self.held, claims, self.counts, 0.004, 0.01
        )
        self.keys = [Key(f"run-{number}", "1") for number in range(n)]
        for key in self.keys:
            self.held.request(key)
            self.held.grant(key, Grant(Version(1, 0), None), np.zeros(2))
        await self.session.replace(None)
        return self

    def step(self, *keys: Key) -> None:
        for key in keys:
            state = self.held.owned(key)
            assert state is not None
            self.held.advance(self.held.batch_of([state]), state.state[None] + 1)
            self.commits.schedule()

    async def send_what_is_due(self) -> None:
        while self.commits._due.is_set():
            await self.commits.due()
            await self.commits.send()

    @property
    def sent(self) -> list[list[Key]]:
        return [states.keys for states, _ in self.authority.commits]


@simulated
async def test_more_states_than_one_commit_takes_follow_without_a_delay():
    assert STATES_PER_COMMIT > LIMIT
    committing = await Committing().begin(7)
    committing.step(*committing.keys)
    await asyncio.sleep(0.005)
    await committing.send_what_is_due()
    keys = committing.keys
    assert committing.sent == [keys[:3], keys[3:6], keys[6:]]
    assert committing.commits.age_s == 0.0


@simulated
async def test_a_step_behind_keys_with_nothing_to_send_is_sent():
    committing = await Committing().begin(LIMIT + 1)
    *quiet, stepped = committing.held.in_phase(Phase.OWNED)
    for state in quiet:
        committing.held.recall(state.key)
    committing.held.keep([*quiet, stepped])  # in the outbox, with nothing to send
    committing.step(stepped.key)
    await asyncio.sleep(0.005)
    await committing.send_what_is_due()
    assert committing.sent == [[stepped.key]]
    assert committing.commits.age_s == 0.0


@simulated
async def test_a_commit_renews_the_lease_from_when_it_was_sent_by_the_lease_clock():
    committing = await Committing().begin(1)
    await asyncio.sleep(LEASE_S / 2)
    committing.step(*committing.keys)
    committing.authority.commits_arrive.clear()
    sending = asyncio.create_task(committing.commits.send())
    await asyncio.sleep(0.1)
    committing.authority.commits_arrive.set()
    await sending
    await asyncio.sleep(LEASE_S - 0.11)
    assert committing.session.valid
    await asyncio.sleep(0.02)
    assert not committing.session.valid


@simulated
async def test_every_state_of_a_failed_commit_is_in_the_next_one():
    committing = await Committing().begin(2)
    committing.step(*committing.keys)
    committing.authority.commit_fails = AuthorityUnavailableError("gone")
    with pytest.raises(AuthorityUnavailableError):
        await committing.commits.send()
    await committing.commits.send()
    assert committing.sent == [committing.keys]


@simulated
async def test_only_the_refused_states_of_a_commit_are_lost():
    committing = await Committing().begin(LIMIT)
    committing.step(*committing.keys)
    committing.authority.refuses = committing.keys[1:2]
    await committing.commits.send()
    phases = [committing.held.phase(key) for key in committing.keys]
    assert phases == [Phase.OWNED, Phase.NOT_OWNED, Phase.OWNED]
    assert committing.counts.states_refused == 1


@simulated
async def test_the_age_of_the_oldest_uncommitted_step_grows_until_it_is_acknowledged():
    committing = await Committing().begin(1)
    committing.step(*committing.keys)
    await asyncio.sleep(0.2)
    assert round(committing.commits.age_s, 6) == 0.2
    assert committing.commits.overdue
    committing.authority.commits_arrive.clear()
    sending = asyncio.create_task(committing.commits.send())
    await asyncio.sleep(0.2)
    assert round(committing.commits.age_s, 6) == 0.4
    committing.step(*committing.keys)
    committing.authority.commits_arrive.set()
    await sending
    assert round(committing.counts.commit_lag_s, 6) == 0.4
    assert (committing.commits.age_s, committing.commits.overdue) == (0.0, False)


# In a simulated cluster


@scenario
async def test_responses_wait_from_the_loss_bound_on_and_fail_when_no_commit_is_confirmed():
    cluster = await start(lease_s=1.0)
    (owner,) = cluster.replicas
    await cluster.step(owner)
    await asyncio.sleep(0.1)
    cluster.faults.cut_replica(owner)
    began, requests = cluster.loop.now, []
    for _ in range(50):
        requests.append(cluster.send(owner, KEY))
        await asyncio.sleep(0.001)
    bound = began + cluster.options.loss_bound_s * 1.2
    at_once = [each for each in requests if each.outcome is Outcome.RESPONDED]
    assert at_once
    assert all(each.ended is not None and each.ended < bound for each in at_once)
    await asyncio.sleep(cluster.options.commit_timeout_s - 0.1)
    waiting = requests[len(at_once) :]
    assert {each.outcome for each in waiting} == {Outcome.PENDING}
    await asyncio.sleep(0.1)
    assert {each.outcome for each in waiting} == {Outcome.UNKNOWN}


@scenario
async def test_where_responses_wait_for_commits_they_take_a_round_trip():
    cluster = await start(durability="actor")
    (owner,) = cluster.replicas
    await cluster.step(owner)
    cluster.faults.slow_network((0.02, 0.02))
    request = cluster.send(owner, KEY)
    await until(lambda: request.outcome is Outcome.RESPONDED)
    assert request.ended is not None
    assert round(request.ended - request.sent, 3) == 0.06  # to the replica, and there and back


@scenario
async def test_responses_that_wait_for_one_commit_are_sent_together():
    cluster = await start(durability="actor")
    (owner,) = cluster.replicas
    await cluster.step(owner)
    requests = [cluster.send(owner, KEY) for _ in range(64)]
    await until(lambda: all(each.outcome is Outcome.RESPONDED for each in requests))
    assert owner.engine.counts.commits <= 4
