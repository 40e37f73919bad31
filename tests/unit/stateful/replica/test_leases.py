"""One replica's leases, against an authority whose responses the test decides."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

from deployments.stateful.protocol import (
    PROTOCOL,
    AuthorityUnavailableError,
    DismissedError,
    Grant,
    Hello,
    Key,
    OutcomeUnknownError,
    SessionAbandonedError,
    StaleSessionError,
    TooManyStatesError,
    Version,
)
from deployments.stateful.replica import claims
from deployments.stateful.replica import leases as module
from deployments.stateful.replica.engine import StatefulEngine
from deployments.stateful.replica.held_state import HeldBatch, HeldState
from deployments.stateful.replica.leases import StateLeases
from deployments.stateful.replica.queues import OneResponse, StepResults
from deployments.stateful.replica.rows import Keys
from tests.unit.stateful.authorities import now, options
from tests.unit.stateful.replica.scripted import LEASE_S, ScriptedAuthority, initial_state
from tests.unit.stateful.simulation.scenario import simulated, until

KEY, OTHER = Key("run", "300839359"), Key("run", "265580972")


def new_leases(authority: ScriptedAuthority, durability: str = "memory") -> StateLeases:
    chosen = options(lease_s=LEASE_S, durability=durability)
    return StateLeases(authority, "replica", initial_state, chosen, generation=7, clock=now)


async def start(durability: str = "memory") -> tuple[ScriptedAuthority, StateLeases]:
    """Return leases that own KEY, and their authority."""
    authority = ScriptedAuthority()
    leases = new_leases(authority, durability)
    await leases.start()
    await leases.acquire(KEY)
    return authority, leases


def batch_of(state: HeldState) -> HeldBatch:
    return HeldBatch([state], state.slab)


def step(leases: StateLeases, key: Key = KEY) -> int:
    state = leases.owned(key)
    assert state is not None
    leases.advance(batch_of(state), state.state[None] + 1)
    return state.version.step


async def begin_new_session(authority: ScriptedAuthority, error: Exception) -> None:
    """End the session by an error, and hold the claim of the next one back."""
    authority.claims_arrive.clear()
    authority.polls.put_nowait(error)
    await until(lambda: len(authority.claims) == 2)


# Checkouts and recalls


@simulated
async def test_the_first_message_names_the_replica_its_layout_and_its_protocol():
    authority, _ = await start()
    assert authority.hellos == [Hello("replica", 7, protocol=PROTOCOL)]


@pytest.mark.parametrize("kept", [None, np.arange(6, dtype=np.float32).tobytes()])
@simulated
async def test_a_granted_state_has_the_form_of_the_initial_one(kept):
    authority, leases = await start()

    async def checkout(session: int, key: Key, call: int) -> Grant:
        return Grant(Version(9, 3), kept)

    authority.checkout = checkout  # type: ignore[method-assign]
    await leases.acquire(OTHER)
    held = leases.owned(OTHER)
    assert held is not None
    assert held.state.shape == (2, 3)
    assert held.state.dtype == np.float32
    assert held.state.tobytes() == (kept or bytes(24))


@simulated
async def test_a_recall_that_overtakes_its_grant_is_obeyed_after_one_step():
    authority, leases = await start()
    authority.grants.clear()

    async def acquire_and_step() -> int:
        await leases.acquire(OTHER)
        return step(leases, OTHER)

    acquiring = asyncio.create_task(acquire_and_step())
    await until(lambda: authority.checkouts == 2)
    authority.polls.put_nowait([OTHER])
    await asyncio.sleep(0.01)
    authority.grants.set()
    assert await acquiring == 1
    await asyncio.sleep(0.001)
    assert leases.owned(OTHER) is None
    ((states, released),) = authority.commits
    assert released == [OTHER]
    assert states.versions == [Version(2, 1)]


@simulated
async def test_a_recalled_state_is_checked_out_again_after_its_release_has_arrived():
    authority, leases = await start()
    authority.commits_arrive.clear()
    authority.polls.put_nowait([KEY])
    await until(lambda: leases.owned(KEY) is None)
    acquiring = asyncio.create_task(leases.acquire(KEY))
    await asyncio.sleep(0.05)
    assert authority.checkouts == 1
    authority.commits_arrive.set()
    await acquiring
    assert authority.checkouts == 2
    assert (leases.counts.recalls, leases.counts.commit_lag_s) == (1, 0.0), "it had no step"


@simulated
async def test_a_grant_that_crosses_a_claim_is_not_used():
    """The claim does not name the state, so that the authority takes it back."""
    authority, leases = await start()
    authority.grants.clear()
    acquiring = asyncio.create_task(leases.acquire(OTHER))
    await until(lambda: authority.checkouts == 2)
    await begin_new_session(authority, AuthorityUnavailableError("gone"))
    authority.grants.set()
    await asyncio.sleep(0.01)
    assert leases.owned(OTHER) is None
    authority.claims_arrive.set()
    await acquiring
    state = leases.owned(OTHER)
    assert state is not None
    assert state.version.epoch == authority.checkouts == 3


@simulated
async def test_a_refused_checkout_is_not_repeated_and_a_failed_one_in_the_next_session():
    authority, leases = await start()
    authority.checkout_fails = TooManyStatesError(1, 1)
    with pytest.raises(TooManyStatesError):
        await leases.acquire(OTHER)
    authority.checkout_fails = StaleSessionError("ended")
    await leases.acquire(OTHER)
    assert (authority.checkouts, len(authority.hellos)) == (4, 2)


@simulated
async def test_a_checkout_that_hangs_is_given_up():
    authority, leases = await start()
    authority.grants.clear()
    acquiring = asyncio.create_task(leases.acquire(OTHER))
    await until(lambda: len(authority.hellos) == 2)
    authority.grants.set()
    await acquiring


# The lease


@simulated
async def test_an_owner_stops_at_once_when_its_session_has_ended():
    authority, leases = await start()
    await begin_new_session(authority, StaleSessionError("ended"))
    assert authority.claims[1].owned.keys == [KEY]
    assert leases.owned(KEY) is None
    authority.claims_arrive.set()
    await until(lambda: leases.owned(KEY) is not None)


@simulated
async def test_an_owner_goes_on_without_the_authority_until_its_lease_ends():
    authority, leases = await start()
    await begin_new_session(authority, AuthorityUnavailableError("gone"))
    assert leases.owned(KEY) is not None
    await asyncio.sleep(LEASE_S)
    assert leases.owned(KEY) is None
    assert not leases.connected


@simulated
async def test_a_poll_renews_the_lease_from_when_it_was_sent():
    authority, leases = await start()
    await asyncio.sleep(0.05)  # a poll is on its way

    async def hang(session: int) -> list[Key]:
        await asyncio.Event().wait()
        return []

    authority.listen = hang  # type: ignore[method-assign]
    authority.claims_arrive.clear()
    await asyncio.sleep(LEASE_S - 0.06)
    assert leases.owned(KEY) is not None
    await asyncio.sleep(0.02)
    assert leases.owned(KEY) is None


@simulated
async def test_a_poll_that_hangs_ends_with_its_session():
    """Otherwise no poll renews the new lease, and responses end whose commits hang as well."""

    class Deaf(ScriptedAuthority):
        async def listen(self, session: int) -> list[Key]:
            listened.append(session)
            await asyncio.Event().wait()
            return []

    listened: list[int] = []
    authority = Deaf()
    leases = new_leases(authority)
    await leases.start()
    await leases.acquire(KEY)
    authority.commit_fails = StaleSessionError("ended")
    step(leases)
    async with asyncio.timeout(0.1):
        await until(lambda: listened == [1, 2])
    await leases._replace_session(1)  # by a caller that has noticed late
    await asyncio.sleep(0.1)
    assert (listened, len(authority.hellos)) == ([1, 2], 2)


@simulated
async def test_a_poll_that_is_lost_costs_no_lease():
    class Forgetful(ScriptedAuthority):
        async def listen(self, session: int) -> list[Key]:
            polls.append(session)
            if len(polls) == 2:
                await asyncio.Event().wait()
            return await super().listen(session)

    polls: list[int] = []
    authority = Forgetful()
    leases = new_leases(authority)
    await leases.start()
    await leases.acquire(KEY)
    for _ in range(20):
        await asyncio.sleep(LEASE_S / 10)
        assert leases.owned(KEY) is not None
    assert len(polls) > 2
    assert set(polls) == {1}


# Commits


@simulated
async def test_steps_are_committed_together_and_soon():
    authority, leases = await start()
    for entity in ("a", "b", "c"):
        await leases.acquire(Key("run", entity))
        step(leases, Key("run", entity))
        step(leases, Key("run", entity))
    await asyncio.sleep(0.005)
    ((states, released),) = authority.commits
    assert released == []
    assert [version.step for version in states.versions] == [2, 2, 2]


@simulated
async def test_a_commit_acknowledges_only_its_own_steps_and_later_ones_are_in_the_next():
    authority, leases = await start("actor")
    state, responses = leases.owned(KEY), []
    assert state is not None
    authority.commits_arrive.clear()
    for number in (1, 2):
        assert step(leases) == number
        responses.append(asyncio.get_running_loop().create_future())
        response = OneResponse(responses[-1])
        leases.pending.add(batch_of(state), response, StepResults([()], [number]))
        await asyncio.sleep(0.001)
    first_gate, authority.commits_arrive = authority.commits_arrive, asyncio.Event()
    first_gate.set()
    await asyncio.sleep(0.001)
    assert [each.done() for each in responses] == [True, False]
    authority.commits_arrive.set()
    assert [each.step for each in await asyncio.gather(*responses)] == [1, 2]
    assert not leases.pending
    assert [states.versions for states, _ in authority.commits] == [
        [Version(1, 1)],
        [Version(1, 2)],
    ]


@simulated
async def test_a_state_whose_commit_is_refused_is_dropped_and_not_claimed_as_released():
    authority, leases = await start()
    await leases.acquire(OTHER)
    authority.refuses = [KEY, OTHER]
    step(leases)
    step(leases, OTHER)
    authority.polls.put_nowait([OTHER])
    await until(lambda: bool(authority.commits))
    await asyncio.sleep(0)
    assert leases.owned(KEY) is leases.owned(OTHER) is None
    assert leases.counts.states_refused == 2
    await begin_new_session(authority, AuthorityUnavailableError("gone"))
    assert authority.claims[1].owned.keys == authority.claims[1].released.keys == []


@simulated
async def test_a_state_that_is_being_released_is_claimed_as_released():
    authority, leases = await start()
    step(leases)
    authority.commits_arrive.clear()
    authority.polls.put_nowait([KEY])
    await until(lambda: leases.owned(KEY) is None)
    await begin_new_session(authority, AuthorityUnavailableError("gone"))
    claim = authority.claims[1]
    assert claim.owned.keys == []
    assert (claim.released.keys, claim.released.versions) == ([KEY], [Version(1, 1)])


@simulated
async def test_a_released_state_is_not_claimed_long_after_its_release():
    authority, leases = await start()
    step(leases)
    authority.polls.put_nowait([KEY])
    await until(lambda: any(released for _, released in authority.commits))
    await asyncio.sleep(claims.KEEP_RELEASED_S + LEASE_S)
    await begin_new_session(authority, AuthorityUnavailableError("gone"))
    assert authority.claims[1].released.keys == []


@simulated
async def test_a_step_whose_commit_fails_in_a_replaced_session_is_committed_again():
    authority, leases = await start()
    await begin_new_session(authority, AuthorityUnavailableError("gone"))  # without the step
    step(leases)
    authority.commit_fails = StaleSessionError("ended")
    await until(lambda: authority.commit_fails is None)
    authority.claims_arrive.set()
    await until(lambda: bool(authority.commits))
    ((states, _),) = authority.commits
    assert [version.step for version in states.versions] == [1]


# Resets


@pytest.mark.parametrize("error", [AuthorityUnavailableError("down"), StaleSessionError("over")])
@simulated
async def test_a_reset_is_repeated_until_it_is_confirmed(error):
    authority, leases = await start()
    authority.reset_fails = error
    resetting = asyncio.create_task(leases.reset("run"))
    await until(lambda: len(authority.resets) == 3)
    assert not resetting.done()
    authority.reset_fails = None
    await resetting
    assert set(authority.resets) == {"run"}


@simulated
async def test_a_reset_that_is_not_confirmed_in_time_has_an_unknown_outcome():
    authority, leases = await start()
    authority.reset_fails = AuthorityUnavailableError("down")
    before = now()
    with pytest.raises(OutcomeUnknownError):
        await leases.reset("run")
    assert now() - before == pytest.approx(module.RESET_TIMEOUT_S, abs=0.1)


# The end


@simulated
async def test_a_replica_that_closes_releases_everything_and_owns_nothing_more():
    authority, leases = await start()
    await leases.acquire(OTHER)
    step(leases)
    closing = asyncio.create_task(leases.close())
    await asyncio.sleep(0)
    with pytest.raises(SessionAbandonedError):
        await leases.acquire(Key("run", "new"))
    await closing
    assert [key for _, released in authority.commits for key in released] == [KEY, OTHER]


@simulated
async def test_a_replica_that_closes_opens_no_session_in_place_of_the_closed_one():
    authority, leases = await start()
    ended = authority.close_session

    async def close_session(session: int) -> None:
        await ended(session)
        authority.polls.put_nowait(StaleSessionError("over"))
        await asyncio.sleep(0.01)  # on its way back

    authority.close_session = close_session  # type: ignore[method-assign]
    await leases.close()
    assert len(authority.hellos) == 1


@simulated
async def test_a_replica_that_cannot_commit_closes_within_its_deadline():
    authority, leases = await start()
    step(leases)
    authority.commits_arrive.clear()
    before = now()
    await leases.close()
    assert now() - before < module.CLOSE_TIMEOUT_S + 0.1


@simulated
async def test_a_replica_that_cannot_close_its_session_pauses_before_each_further_attempt():
    authority, leases = await start()
    attempts: list[float] = []

    async def close_session(session: int) -> None:
        attempts.append(now())
        if len(attempts) < 4:
            raise AuthorityUnavailableError("its store is down")  # new sessions are opened anyway

    authority.close_session = close_session  # type: ignore[method-assign]
    await leases.close()
    assert len(attempts) == 4
    assert min(np.diff(attempts)) > 0


async def test_leases_that_never_started_can_be_closed():
    await new_leases(ScriptedAuthority()).close()


@pytest.mark.parametrize("cause", [DismissedError("another layout"), ZeroDivisionError()])
@simulated
async def test_a_replica_whose_loop_has_failed_steps_nothing_more_and_is_unhealthy(cause):
    authority, leases = await start()
    leases.check_health()
    if isinstance(cause, DismissedError):
        authority.dismisses = cause
        authority.polls.put_nowait(StaleSessionError("ended"))
    else:
        authority.polls.put_nowait(cause)
    await asyncio.sleep(0.2)
    assert leases.owned(KEY) is None
    assert not leases.connected
    with pytest.raises(SessionAbandonedError, match="cannot keep hidden states") as error:
        leases.check_health()
    assert error.value.__cause__ is cause
    with pytest.raises(SessionAbandonedError):
        await leases.acquire(KEY)
    n_hellos = len(authority.hellos)
    await asyncio.sleep(5)
    assert len(authority.hellos) == n_hellos, "it opens no session that would not be renewed"


@simulated
async def test_the_health_check_names_the_failure_of_the_first_loop():
    authority, leases = await start()
    step(leases)
    authority.commits_arrive.clear()
    await begin_new_session(authority, AuthorityUnavailableError("gone"))
    authority.dismisses = DismissedError("another layout")
    await asyncio.sleep(5)
    with pytest.raises(SessionAbandonedError) as error:
        leases.check_health()
    assert error.value.__cause__ is authority.dismisses


@simulated
async def test_a_replica_that_is_dismissed_at_once_does_not_start():
    authority = ScriptedAuthority(dismisses=DismissedError("another protocol"))
    with pytest.raises(DismissedError, match="another protocol"):
        await new_leases(authority).start()


@simulated
async def test_an_engine_is_unhealthy_when_one_of_its_shards_is():
    healthy, failing = await start(), await start()
    engine = StatefulEngine([healthy[1], failing[1]], options())
    engine.check_health()
    failing[0].polls.put_nowait(ZeroDivisionError())
    await asyncio.sleep(0.2)
    with pytest.raises(SessionAbandonedError):
        engine.check_health()


@simulated
async def test_the_states_of_kept_keys_are_selected_while_all_are_owned_and_differ():
    authority, leases = await start()
    engine, keys = StatefulEngine([leases], options()), Keys([KEY, OTHER])
    assert engine.select(keys) is None
    await leases.acquire(OTHER)
    selected = engine.select(keys)
    assert selected is not None
    assert selected.keys == [KEY, OTHER]
    assert engine.select(keys) is selected
    assert engine.select(Keys([KEY, KEY])) is None
    authority.polls.put_nowait([KEY])
    await until(lambda: leases.owned(KEY) is None)
    assert engine.select(keys) is None
    await leases.acquire(KEY)
    again = engine.select(keys)
    assert again is not None
    assert again is not selected, "the state is another object"


@simulated
async def test_keys_that_are_kept_keep_no_state_that_was_given_back():
    authority, leases = await start()
    engine, keys = StatefulEngine([leases], options()), Keys([KEY, OTHER])
    await leases.acquire(OTHER)
    selected = engine.select(keys)
    assert selected is not None
    rows = set(selected.row_numbers.tolist())
    del selected
    authority.polls.put_nowait([KEY, OTHER])
    await until(lambda: leases.owned(KEY) is None)
    await until(lambda: len(authority.commits[-1][1]) == 2)
    new = [Key("another", each.entity) for each in (KEY, OTHER)]
    for key in new:
        await leases.acquire(key)
    taken = engine.select(Keys(new))
    assert taken is not None
    assert set(taken.row_numbers.tolist()) == rows, "their rows are free"
    assert len(keys) == 2


@simulated
async def test_an_engine_writes_every_state_of_a_run_to_its_shard():
    authority, leases = await start()
    engine = StatefulEngine([leases], options())
    states = {
        key: (step, np.full_like(initial_state(key), step)) for step, key in enumerate((KEY, OTHER))
    }
    await engine.write("run", states)
    (written,) = authority.written
    assert written.keys == [KEY, OTHER]
    assert [version.step for version in written.versions] == [0, 1]
