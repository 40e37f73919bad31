"""A replica's side of the leases: the states it owns, and the talk with the authority.

While the lease is valid, ``owned`` answers from memory. Two background loops renew the lease:
``_listen`` keeps a long-poll open that brings recalls, ``_commit`` sends what was stepped. Any
failure of either opens a new session, with a claim to everything held, so a restarted authority
learns the newest states from their owners.
"""

from __future__ import annotations

import asyncio
import logging

import numpy as np

from deployments.inference.options import InferenceOptions
from deployments.inference.protocol import (
    Authority,
    AuthorityUnavailableError,
    Claim,
    Grant,
    HiddenStateError,
    Key,
    StaleSessionError,
)
from deployments.inference.replica.owned_state import LeaseCounts, OwnedState, batch_of
from deployments.inference.replica.recent import RecentPast

logger = logging.getLogger(__name__)

RECONNECT_PAUSE_S = 0.05
CALL_TIMEOUT_S = 5.0


class StateLeases:
    """The states that one replica owns.

    Args:
        authority: the authority, directly or through Ray.
        replica: a name by which the authority can ask whether this replica lives.
    """

    def __init__(
        self,
        authority: Authority,
        replica: str,
        hidden_dim: int,
        settings: InferenceOptions,
    ) -> None:
        self.counts = LeaseCounts()
        self._authority = authority
        self._replica = replica
        self._zeros = np.zeros(hidden_dim, np.float32)
        self._settings = settings
        self._now = asyncio.get_running_loop().time
        self._owned: dict[Key, OwnedState] = {}
        self._leaving: dict[Key, OwnedState] = {}  # recalled, but not yet given back
        self._session: int | None = None
        self._incarnation: int | None = None
        self._lease_s = settings.lease_s
        self._lease_until = 0.0
        self._ended = False  # the authority says that the session has ended, lease or no lease
        self._connecting = asyncio.Lock()
        self._commit_due = asyncio.Event()
        self._commit_timer: asyncio.TimerHandle | None = None
        self._oldest_dirty = 0.0
        self._given_back = asyncio.Event()
        self._checking_out: set[Key] = set()
        self._recalled_early: set[Key] = set()  # the recall overtook the grant
        self._recent = RecentPast(self._now)
        self._tasks: list[asyncio.Task[None]] = []

    # What the stepper uses

    def owned(self, key: Key) -> OwnedState | None:
        """The state if it may be stepped now, without asking anybody."""
        state = self._owned.get(key)
        return state if state is not None and self.connected else None

    def schedule_commit(self) -> None:
        if self._settings.strict:
            self._commit_due.set()
        elif self._commit_timer is None:
            self._oldest_dirty = self._now()
            self._commit_timer = asyncio.get_running_loop().call_later(
                self._settings.commit_delay_s, self._commit_due.set
            )

    async def acquire(self, key: Key) -> None:
        """Return when ``key`` is owned with a valid lease.

        Raises:
            TooManyStatesError: the authority's cap is reached.
        """
        while self.owned(key) is None:
            while key in self._leaving:
                self._given_back.clear()
                await self._given_back.wait()
            session = self._session
            if session is None or key in self._owned:
                await self._reconnect(session)
                continue
            self._checking_out.add(key)
            try:
                async with asyncio.timeout(self._settings.checkout_timeout_s + CALL_TIMEOUT_S):
                    grant = await self._authority.checkout(session, key)
            except (StaleSessionError, AuthorityUnavailableError, TimeoutError) as error:
                await self._reconnect(session, error)
                continue
            finally:
                self._checking_out.discard(key)
            if self._connecting.locked():
                # The claim under way does not name this key, so the authority takes it back.
                await self._reconnect(session)
            if self._session == session:
                self._own(key, grant)

    def _own(self, key: Key, grant: Grant) -> None:
        self.counts.checkouts += 1
        hidden = self._zeros if grant.hidden is None else grant.hidden
        self._owned[key] = OwnedState(self.schedule_commit, grant.version, hidden)
        if key in self._recalled_early:
            self._recalled_early.discard(key)
            # not before whoever waited for the state has made a step
            asyncio.get_running_loop().call_soon(self._give_back, key)

    async def reset(self, run: str) -> None:
        """Clear a run everywhere; when this returns, its every later step starts from zeros."""
        while True:
            session = self._session
            try:
                epoch = await self._authority.reset(run)
            except AuthorityUnavailableError as error:
                await self._reconnect(session, error)
                continue
            self._recent.note_reset(run, epoch)
            return

    @property
    def connected(self) -> bool:
        return self._now() < self._lease_until and not self._ended

    # Life

    async def start(self) -> None:
        await self._reconnect(None)
        self._tasks = [asyncio.create_task(self._listen()), asyncio.create_task(self._commit())]

    def check_health(self) -> None:
        """Raise when a background loop has died, which nothing but a defect can cause."""
        for task in self._tasks:
            if task.done():
                raise RuntimeError("a background loop of the hidden states has died") from (
                    None if task.cancelled() else task.exception()
                )

    async def close(self) -> None:
        """Commit what is left and give everything back."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for key in list(self._owned):
            self._give_back(key)
        try:
            async with asyncio.timeout(CALL_TIMEOUT_S):
                await self._commit_once()
                if self._session is not None:
                    await self._authority.close_session(self._session)
        except (HiddenStateError, TimeoutError) as error:
            logger.warning("Hidden states could not be given back: %s", error)

    # Talk with the authority

    async def _listen(self) -> None:
        while True:
            session, sent = self._session, self._now()
            try:
                assert session is not None
                async with asyncio.timeout(self._settings.listen_s + CALL_TIMEOUT_S):
                    recalls = await self._authority.listen(session)
            except (HiddenStateError, TimeoutError) as error:
                await self._reconnect(session, error)
                continue
            self._recent.prune()
            if session == self._session:
                self._renew(sent)
                for key in recalls:
                    self._give_back(key)

    def _renew(self, sent: float) -> None:
        self._lease_until = max(self._lease_until, sent + self._lease_s)

    def _give_back(self, key: Key) -> None:
        state = self._owned.pop(key, None)
        if state is None and key in self._checking_out:
            self._recalled_early.add(key)
        elif state is not None:
            self.counts.recalls += 1
            self._leaving[key] = state
            self._commit_due.set()

    async def _commit(self) -> None:
        while True:
            await self._commit_due.wait()
            self._commit_due.clear()
            if self._commit_timer is not None:
                self._commit_timer.cancel()
                self._commit_timer = None
            session = self._session
            try:
                async with asyncio.timeout(CALL_TIMEOUT_S):
                    await self._commit_once()
            except (HiddenStateError, TimeoutError) as error:
                await self._reconnect(session, error)
                self._commit_due.set()

    async def _commit_once(self) -> None:
        leaving = dict(self._leaving)
        sent = {key: s for key, s in (self._owned | leaving).items() if s.dirty}
        if not (sent or leaving) or self._session is None:
            return
        session, sent_at, oldest = self._session, self._now(), self._oldest_dirty
        batch = batch_of({key: (state.version, state.hidden) for key, state in sent.items()})
        for state in sent.values():
            state.dirty = False
        try:
            refused = await self._authority.commit(session, batch, list(leaving))
        except BaseException:
            for state in sent.values():
                state.dirty = True
            raise
        self.counts.commits += 1
        self.counts.states_committed += len(sent)
        self.counts.commit_lag_s = self._now() - oldest
        if session == self._session:
            self._renew(sent_at)
        for key, version in zip(batch.keys, batch.versions, strict=True):
            if key in refused:
                self._lose(key, sent[key])
            else:
                sent[key].acknowledge(version.step)
        for key, state in leaving.items():
            if self._leaving.get(key) is state:
                del self._leaving[key]
            if key not in refused:
                self._recent.note_given_back(key, state.version, state.hidden)
        self._given_back.set()

    def _lose(self, key: Key, state: OwnedState) -> None:
        """Somebody else owns the state now; what was stepped here since the last commit is void."""
        self.counts.states_refused += 1
        state.fail(StaleSessionError("the hidden state has moved to another replica"))
        if self._owned.get(key) is state:
            del self._owned[key]

    async def _reconnect(self, broken: int | None, error: Exception | None = None) -> None:
        """Open a session in place of ``broken``, trying until the authority answers."""
        if isinstance(error, StaleSessionError) and self._session == broken:
            self._ended = True
        async with self._connecting:
            while self._session == broken:
                try:
                    async with asyncio.timeout(CALL_TIMEOUT_S):
                        await self._open_session()
                except (HiddenStateError, TimeoutError) as refusal:
                    logger.info("The authority over hidden states does not answer: %s", refusal)
                    await asyncio.sleep(RECONNECT_PAUSE_S)

    async def _open_session(self) -> None:
        owned, leaving, sent = self._owned, self._leaving, self._now()
        held = {key: (s.version, s.hidden) for key, s in (owned | leaving).items()}
        past = {k: v for k, v in self._recent.given_back().items() if k not in held}
        claim = Claim(
            self._incarnation,
            lease_valid=sent < self._lease_until,
            owned=batch_of({key: held[key] for key in owned}),
            given_back=batch_of(past | {key: held[key] for key in leaving}),
            resets=dict(self._recent.resets),
        )
        held_states = owned | leaving
        opened = await self._authority.open_session(self._replica, claim)
        self._session, self._incarnation = opened.session, opened.incarnation
        self._ended = False
        self.counts.sessions += 1
        kept, accepted = set(opened.kept), set(opened.accepted)
        self._owned = {key: state for key, state in held_states.items() if key in kept}
        self._leaving = {}
        self._recalled_early.clear()
        for key, (version, hidden) in held.items():
            if key not in accepted:
                self._lose(key, held_states[key])
                continue
            held_states[key].acknowledge(version.step)
            if key not in kept:
                self._recent.note_given_back(key, version, hidden)
        self._given_back.set()
        self._lease_s = opened.lease_s
        self._lease_until = sent + self._lease_s
