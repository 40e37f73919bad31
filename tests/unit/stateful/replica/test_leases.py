"""A replica's side alone, against an authority whose every answer the test decides."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import numpy as np
import pytest

from deployments.stateful.protocol import (
    PROTOCOL,
    Authority,
    AuthorityUnavailableError,
    Claimed,
    ClaimPart,
    DismissedError,
    Grant,
    Hello,
    Key,
    OpenedSession,
    OutcomeUnknownError,
    StaleSessionError,
    StateBatch,
    StateError,
    Version,
)
from deployments.stateful.replica.held_states import PendingResponse
from deployments.stateful.replica.leases import RESET_TIMEOUT_S, StateLeases
from deployments.stateful.replica.session import CALL_TIMEOUT_S
from tests.unit.stateful.models import initial_state
from tests.unit.stateful.virtual_time import virtual_time
from tests.unit.stateful.world import settings, until

KEY = Key("run", "300839359")
HIDDEN = np.ones(128, np.float32)


@dataclass
class Scripted(Authority):
    """Grants at once, commits at once, and recalls nothing, unless told otherwise."""

    hellos: list[Hello] = field(default_factory=list)
    claims: list[ClaimPart] = field(default_factory=list)
    commits: list[tuple[StateBatch, list[Key]]] = field(default_factory=list)
    recalls: asyncio.Queue[list[Key] | Exception] = field(default_factory=asyncio.Queue)
    grants: asyncio.Event = field(default_factory=asyncio.Event)
    commit_gate: asyncio.Event = field(default_factory=asyncio.Event)
    open_gate: asyncio.Event = field(default_factory=asyncio.Event)
    checkouts: int = 0
    resets: list[str] = field(default_factory=list)
    reset_fails: Exception | None = None
    commit_fails: Exception | None = None
    refuses: bool = False
    dismisses: DismissedError | None = None

    def __post_init__(self) -> None:
        for gate in (self.grants, self.commit_gate, self.open_gate):
            gate.set()

    async def open_session(self, hello: Hello) -> OpenedSession:
        self.hellos.append(hello)
        if self.dismisses is not None:
            raise self.dismisses
        return OpenedSession(len(self.hellos), 1.0)

    async def claim(self, session: int, part: ClaimPart) -> Claimed:
        self.claims.append(part)
        await self.open_gate.wait()
        return Claimed()

    async def listen(self, session: int) -> list[Key]:
        try:
            said = await asyncio.wait_for(self.recalls.get(), 0.1)
        except TimeoutError:
            return []
        if isinstance(said, Exception):
            raise said
        return said

    async def checkout(self, session: int, key: Key, call: int) -> Grant:
        self.checkouts += 1
        await self.grants.wait()
        return Grant(Version(self.checkouts, 0), None)

    async def commit(
        self, session: int, states: StateBatch, released: list[Key], call: int
    ) -> list[Key]:
        await self.commit_gate.wait()
        if self.commit_fails is not None:
            error, self.commit_fails = self.commit_fails, None
            raise error
        self.commits.append((states, released))
        return states.keys if self.refuses else []

    async def reset(self, session: int, run: str, call: int) -> None:
        self.resets.append(run)
        if self.reset_fails is not None:
            raise self.reset_fails

    async def close_session(self, session: int) -> None: ...


async def start(strict: bool = False) -> tuple[Scripted, StateLeases]:
    authority = Scripted()
    lease = settings(lease_s=1.0, durability="actor" if strict else "memory")
    clock = asyncio.get_running_loop().time
    leases = StateLeases(authority, "replica", initial_state, lease, generation=7, clock=clock)
    await leases.start()
    return authority, leases


def step(leases: StateLeases, key: Key = KEY) -> int:
    state = leases.owned(key)
    assert state is not None
    leases.advance(state, HIDDEN)
    return state.version.step


@virtual_time
async def test_what_is_about_to_be_given_back_is_offered_and_not_claimed():
    authority, leases = await start()
    await leases.acquire(KEY)
    step(leases)
    authority.commit_gate.clear()
    authority.recalls.put_nowait([KEY])
    await until(lambda: leases.owned(KEY) is None)
    authority.recalls.put_nowait(AuthorityUnavailableError("gone"))
    await until(lambda: len(authority.claims) == 2)
    claim = authority.claims[1]
    assert claim.owned.keys == []
    assert claim.released.keys == [KEY]
    assert claim.released.versions == [Version(1, 1)]


@virtual_time
async def test_an_owner_whose_session_has_ended_stops_although_its_lease_is_valid():
    authority, leases = await start()
    await leases.acquire(KEY)
    authority.open_gate.clear()
    authority.recalls.put_nowait(StaleSessionError("ended"))
    await until(lambda: len(authority.claims) == 2)
    assert authority.claims[1].owned.keys == [KEY]
    assert leases.owned(KEY) is None
    authority.open_gate.set()
    await until(lambda: leases.owned(KEY) is not None)


@virtual_time
async def test_an_owner_whose_authority_is_silent_goes_on_until_its_lease_is_over():
    authority, leases = await start()
    await leases.acquire(KEY)
    authority.open_gate.clear()
    authority.recalls.put_nowait(AuthorityUnavailableError("gone"))
    await until(lambda: len(authority.claims) == 2)
    assert leases.owned(KEY) is not None
    await asyncio.sleep(1.0)
    assert leases.owned(KEY) is None
    assert not leases.connected


@virtual_time
async def test_a_recall_that_overtakes_its_grant_is_obeyed_after_one_step():
    authority, leases = await start()
    authority.grants.clear()

    async def acquire_and_step() -> int:
        await leases.acquire(KEY)
        return step(leases)

    acquiring = asyncio.create_task(acquire_and_step())
    await until(lambda: authority.checkouts == 1)
    authority.recalls.put_nowait([KEY])
    await asyncio.sleep(0.01)
    authority.grants.set()
    assert await acquiring == 1
    await asyncio.sleep(0.001)
    assert leases.owned(KEY) is None
    (states, released), *_ = authority.commits
    assert released == [KEY]
    assert states.versions == [Version(1, 1)]


@virtual_time
async def test_a_grant_that_crosses_a_claim_is_not_used():
    authority, leases = await start()
    authority.grants.clear()
    acquiring = asyncio.create_task(leases.acquire(KEY))
    await until(lambda: authority.checkouts == 1)
    authority.open_gate.clear()
    authority.recalls.put_nowait(AuthorityUnavailableError("gone"))
    await until(lambda: len(authority.claims) == 2)
    authority.grants.set()
    await asyncio.sleep(0.01)
    assert leases.owned(KEY) is None
    authority.open_gate.set()
    await acquiring
    state = leases.owned(KEY)
    assert state is not None
    assert state.version.epoch == authority.checkouts > 1


@virtual_time
async def test_a_commit_acknowledges_only_the_steps_that_it_carried():
    authority, leases = await start(strict=True)
    await leases.acquire(KEY)
    answers: list[asyncio.Future[int]] = []
    state = leases.owned(KEY)
    assert state is not None

    def ask() -> None:
        number = step(leases)
        answers.append(asyncio.get_running_loop().create_future())
        state.pending.append(PendingResponse(number, answers[-1], number))

    def answered() -> list[int]:
        return [answer.result() for answer in answers if answer.done()]

    authority.commit_gate.clear()
    ask()
    await asyncio.sleep(0.001)
    ask()
    gate, authority.commit_gate = authority.commit_gate, asyncio.Event()
    gate.set()
    await asyncio.sleep(0.001)
    assert answered() == [1]
    authority.commit_gate.set()
    await asyncio.sleep(0.001)
    assert answered() == [1, 2]


@virtual_time
async def test_steps_during_a_commit_are_in_the_next_one():
    authority, leases = await start()
    await leases.acquire(KEY)
    step(leases)
    authority.commit_gate.clear()
    await asyncio.sleep(0.01)
    step(leases)
    authority.commit_gate.set()
    await asyncio.sleep(0.02)
    assert [states.versions for states, _ in authority.commits] == [
        [Version(1, 1)],
        [Version(1, 2)],
    ]


@virtual_time
async def test_steps_are_committed_together_and_soon():
    authority, leases = await start()
    for junction in ("a", "b", "c"):
        await leases.acquire(Key("run", junction))
        step(leases, Key("run", junction))
        step(leases, Key("run", junction))
    await asyncio.sleep(0.005)
    (states, released), *more = authority.commits
    assert more == []
    assert released == []
    assert [version.step for version in states.versions] == [2, 2, 2]


@virtual_time
async def test_a_state_whose_commit_is_refused_is_not_held_any_more():
    authority, leases = await start()
    await leases.acquire(KEY)
    authority.refuses = True
    step(leases)
    await until(lambda: bool(authority.commits))
    await asyncio.sleep(0)
    assert leases.owned(KEY) is None


@virtual_time
async def test_a_listen_that_hangs_does_not_outlive_its_session():
    """Nobody would renew the new lease, and with it the steps end whose commit hangs as well."""

    class Deaf(Scripted):
        async def listen(self, session: int) -> list[Key]:
            listened.append(session)
            await asyncio.Event().wait()
            return []

    listened: list[int] = []
    clock = asyncio.get_running_loop().time
    authority = Deaf()
    leases = StateLeases(authority, "replica", initial_state, settings(lease_s=1.0), clock=clock)
    await leases.start()
    await leases.acquire(KEY)
    authority.commit_fails = StaleSessionError("the session was succeeded")
    step(leases)
    async with asyncio.timeout(0.1):
        await until(lambda: listened == [1, 2])
    await leases._replace_session(1)  # by one who has noticed late
    await asyncio.sleep(0.1)
    assert (listened, len(authority.hellos)) == ([1, 2], 2)


@virtual_time
async def test_a_state_that_was_to_be_given_back_and_is_refused_is_not_offered_again():
    authority, leases = await start()
    await leases.acquire(KEY)
    authority.refuses = True
    step(leases)
    await authority.recalls.put([KEY])
    await until(lambda: bool(authority.commits))
    assert authority.commits[0][1] == [KEY]
    await authority.recalls.put(AuthorityUnavailableError("a reply is lost"))
    await until(lambda: len(authority.claims) == 2)
    assert authority.claims[1].released.keys == []


@virtual_time
async def test_a_replica_that_closes_gives_back_what_it_has_not_stepped_as_well():
    authority, leases = await start()
    other = Key("run", "265580972")
    for key in (KEY, other):
        await leases.acquire(key)
    step(leases)
    await leases.close()
    assert [key for _, released in authority.commits for key in released] == [KEY, other]


@virtual_time
async def test_a_step_whose_commit_fails_in_a_session_that_was_replaced_is_committed_again():
    authority, leases = await start()
    await leases.acquire(KEY)
    authority.open_gate.clear()
    await authority.recalls.put(AuthorityUnavailableError("a reply is lost"))
    await until(lambda: len(authority.claims) == 2)  # on its way, without the step
    step(leases)
    authority.commit_fails = StaleSessionError("the session was succeeded")
    await until(lambda: authority.commit_fails is None)
    authority.open_gate.set()
    await until(lambda: bool(authority.commits))
    (states, _), *_ = authority.commits
    assert [version.step for version in states.versions] == [1]


@pytest.mark.parametrize("error", [AuthorityUnavailableError("down"), StaleSessionError("over")])
@virtual_time
async def test_a_reset_is_asked_for_until_it_is_confirmed(error):
    authority, leases = await start()
    authority.reset_fails = error
    resetting = asyncio.create_task(leases.reset("run"))
    await until(lambda: len(authority.resets) == 3)
    assert not resetting.done()
    authority.reset_fails = None
    await resetting
    assert set(authority.resets) == {"run"}


@virtual_time
async def test_a_reset_that_nobody_confirms_has_an_unknown_outcome():
    authority, leases = await start()
    authority.reset_fails = AuthorityUnavailableError("the store does not serve")
    before = asyncio.get_running_loop().time()
    with pytest.raises(OutcomeUnknownError):
        await leases.reset("run")
    assert asyncio.get_running_loop().time() - before == pytest.approx(RESET_TIMEOUT_S, abs=0.1)


@virtual_time
async def test_a_replica_says_by_which_layout_and_protocol_it_goes():
    authority, _ = await start()
    assert authority.hellos == [Hello("replica", 7, protocol=PROTOCOL)]


@virtual_time
async def test_a_replica_that_is_dismissed_ends_and_is_told_by_the_health_check():
    authority, leases = await start()
    await leases.acquire(KEY)
    authority.dismisses = DismissedError("another layout")
    authority.recalls.put_nowait(StaleSessionError("ended"))
    await asyncio.sleep(0.2)
    assert leases.owned(KEY) is None
    assert not leases.connected
    with pytest.raises(StateError) as told:
        leases.check_health()
    assert isinstance(told.value.__cause__, DismissedError)
    n_hellos = len(authority.hellos)
    await asyncio.sleep(5)
    assert len(authority.hellos) == n_hellos, "it is not wanted any more"


@virtual_time
async def test_what_the_health_check_tells_is_what_the_first_loop_died_of():
    authority, leases = await start()
    await leases.acquire(KEY)
    step(leases)
    authority.commit_gate.clear()
    authority.open_gate.clear()
    authority.recalls.put_nowait(AuthorityUnavailableError("gone"))
    await until(lambda: len(authority.hellos) == 2)
    await asyncio.sleep(CALL_TIMEOUT_S - 1)
    authority.dismisses = DismissedError("another layout")
    await asyncio.sleep(5)
    with pytest.raises(StateError) as told:
        leases.check_health()
    assert isinstance(told.value.__cause__, DismissedError)


@virtual_time
async def test_a_replica_that_is_dismissed_at_once_does_not_start():
    authority = Scripted(dismisses=DismissedError("another protocol"))
    with pytest.raises(DismissedError, match="another protocol"):
        await StateLeases(authority, "replica", initial_state, settings()).start()


@virtual_time
async def test_a_background_loop_that_died_of_a_defect_is_told_by_the_health_check():
    authority, leases = await start()
    leases.check_health()
    authority.recalls.put_nowait(ZeroDivisionError())
    await asyncio.sleep(0.2)
    with pytest.raises(StateError, match="cannot keep hidden states") as told:
        leases.check_health()
    assert isinstance(told.value.__cause__, ZeroDivisionError)


@virtual_time
async def test_a_replica_whose_background_loop_has_died_steps_nothing_more():
    authority, leases = await start()
    await leases.acquire(KEY)
    assert leases.owned(KEY) is not None
    authority.recalls.put_nowait(ZeroDivisionError())
    await asyncio.sleep(0.11)
    assert leases.owned(KEY) is None
    assert not leases.connected
    with pytest.raises(StateError, match="cannot keep hidden states"):
        await leases.acquire(KEY)
    assert len(authority.hellos) == 1, "it opens no session that nobody would renew"


async def test_leases_that_never_started_can_be_closed():
    await StateLeases(Scripted(), "replica", initial_state, settings()).close()
