"""The states that a replica owns under one authority, and the loops that keep its lease.

While the lease is valid, ``owned`` returns states from memory. Two background loops renew it:
``_listen`` keeps a long poll open that returns recalls, and ``_commit`` sends steps. Any failure of
either opens a new session with a claim to everything held, so that a new term restores the latest
states from their owners.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from deployments.stateful.options import StateOptions
from deployments.stateful.protocol import (
    Authority,
    AuthorityUnavailableError,
    Grant,
    Key,
    OutcomeUnknownError,
    RunSummary,
    SessionAbandonedError,
    StaleSessionError,
    StateBatch,
    StateError,
    lease_clock,
)
from deployments.stateful.replica.claims import Claims
from deployments.stateful.replica.commits import Commits
from deployments.stateful.replica.held_state import HeldBatch, HeldCopy, HeldState
from deployments.stateful.replica.held_states import HeldStates, LeaseCounts
from deployments.stateful.replica.pending import PendingSteps
from deployments.stateful.replica.session import CALL_TIMEOUT_S, RECONNECT_PAUSE_S, Session
from deployments.stateful.replica.slab import Array
from deployments.trace_context import Trace

logger = logging.getLogger("ray.serve")

RESET_TIMEOUT_S = 10.0
POLL_AGAIN = 1.5
"""After so many times the longest silence of a poll, another one is sent."""
CLOSE_TIMEOUT_S = 10.0

InitialState = Callable[[Key], Array]
Result = TypeVar("Result")


class StateLeases:
    """The states that one replica owns under one authority.

    Args:
        replica: the name by which the cluster knows whether this replica is alive.
        initial_state: returns the state of a key before its first step. Its shape and data type
            are those of all states.
        generation: of the replica's layout.
        clock: of the lease, in seconds.
        pending: of all authorities of the replica; None if there is one.
    """

    def __init__(
        self,
        authority: Authority,
        replica: str,
        initial_state: InitialState,
        options: StateOptions,
        generation: int = 1,
        clock: Callable[[], float] = lease_clock,
        pending: PendingSteps | None = None,
    ) -> None:
        self.counts = LeaseCounts()
        self._authority = authority
        self._initial_state = initial_state
        self._options = options
        self._responses_wait = options.responses_wait
        self._loop = asyncio.get_running_loop()
        self._clock = clock
        self._held = HeldStates(pending)
        self.pending = self._held.pending
        self._claims = Claims(self._held, self.counts, clock, options.run_ttl_s)
        self._session = Session(
            authority,
            replica,
            generation,
            self._claims,
            clock,
            options.open_timeout_s,
            options.run_ttl_s,
        )
        self._commits = Commits(
            authority,
            self._session,
            self._held,
            self._claims,
            self.counts,
            options.commit_delay_s,
            options.loss_bound_s,
        )
        self._released = asyncio.Event()  # set when a RELEASING state may have left
        self._listening: tuple[int, asyncio.Timeout] | None = None  # in which session
        self._tasks: list[asyncio.Task[None]] = []
        self._defect: BaseException | None = None
        self._closing = False

    # Steps

    def owned(self, key: Key) -> HeldState | None:
        """Return the state if it may be stepped now."""
        return self._held.owned(key) if self.may_step else None

    def all_owned(self, keys: Sequence[Key]) -> list[HeldState | None]:
        """Return the state of each key that may be stepped now."""
        return self._held.all_owned(keys) if self.may_step else [None] * len(keys)

    @property
    def may_step(self) -> bool:
        """Whether owned states may be stepped now."""
        return self._session.valid and not self._closing

    def advance(self, held: HeldBatch, states: Array) -> None:
        """Record a step of each of B owned states, and schedule its commit.

        Args:
            states: (B, \\*shape), which are copied.
        """
        self._held.advance(held, states)
        self._commits.schedule()

    def trace_commit(self, traces: list[Trace]) -> None:
        """Add the next commit to the traces of its steps."""
        self._commits.traces.extend(traces)

    def responses_wait(self) -> bool:
        """Return whether a response must wait for the commit of its step (invariant 9)."""
        return self._responses_wait or self._commits.overdue or not self._session.valid

    async def acquire(self, key: Key) -> None:
        """Return when ``key`` is owned with a valid lease. One call for a key at a time.

        Raises:
            TooManyStatesError: the authority's limit is reached.
            SessionAbandonedError: a background loop has failed, or the replica is being closed.
        """
        while self.owned(key) is None:
            if self._closing:  # a later step could follow the last commit
                raise SessionAbandonedError
            while self._held.is_releasing(key):
                self._released.clear()
                await self._released.wait()
            session = self._session.number
            if session is None or self._held.owned(key) is not None:
                await self._replace_session(session)
            else:
                await self._check_out(session, key)

    async def _check_out(self, session: int, key: Key) -> None:
        """Request a state once; it may still not be owned afterwards.

        While the response is in flight, the session may be replaced by a claim that does not name
        this key. The authority then takes the state back. So a grant counts only if the session
        that requested it is still the present one when no other is being opened.
        """
        self._held.request(key)
        grant: Grant | None = None
        try:
            async with asyncio.timeout(self._options.checkout_timeout_s + CALL_TIMEOUT_S):
                response = await self._authority.checkout(session, key, next(self._session.calls))
            if self._session.opening:
                await self._replace_session(session)
            if session == self._session.number:
                grant = response
        except (StaleSessionError, AuthorityUnavailableError, TimeoutError) as error:
            await self._replace_session(session, error)
        finally:
            if grant is None:
                self._held.deny(key)
        if grant is not None:
            self.counts.checkouts += 1
            if self._held.grant(key, grant, self._restore(key, grant.state)):
                # Not before the request that waited for the state has made its step.
                self._loop.call_soon(self._give_back, key)

    def _restore(self, key: Key, state: bytes | None) -> Array:
        initial = self._initial_state(key)
        if state is None:
            return initial
        restored: np.ndarray[Any, Any] = np.frombuffer(state, initial.dtype)
        return restored.reshape(initial.shape)

    async def reset(self, run: str) -> None:
        """Clear a run in every replica; every step after the return starts from initial states.

        Raises:
            OutcomeUnknownError: it was not confirmed in time.
        """
        await self._call(lambda to, session, call: to.reset(session, run, call))

    async def read(self, run: str) -> list[HeldCopy]:
        """Return every state of a run but initial ones, all as of one moment."""
        batch = await self._call(lambda to, session, call: to.read(session, run))
        rows = zip(batch.keys, batch.versions, batch.states, strict=True)
        return [
            HeldCopy(key, version, self._restore(key, state.tobytes()), ())
            for key, version, state in rows
        ]

    async def write(self, run: str, states: StateBatch) -> None:
        """Begin a run anew from these states of this run, as ``reset`` does from initial ones."""
        await self._call(lambda to, session, call: to.write(session, run, states, call))

    async def runs(self, limit: int) -> list[RunSummary]:
        """Return the runs that were used last, the latest first."""
        return await self._call(lambda to, session, call: to.runs(session, limit))

    async def _call(self, call: Callable[[Authority, int, int], Awaitable[Result]]) -> Result:
        """Call the authority until it answers, in a new session after each failure."""
        try:
            async with asyncio.timeout(RESET_TIMEOUT_S):
                while True:
                    session, error = self._session.number, None
                    if session is not None:
                        try:
                            return await call(self._authority, session, next(self._session.calls))
                        except (StaleSessionError, AuthorityUnavailableError) as failure:
                            error = failure
                    await self._replace_session(session, error)
                    await asyncio.sleep(RECONNECT_PAUSE_S)
        except (TimeoutError, SessionAbandonedError):
            raise OutcomeUnknownError from None

    @property
    def connected(self) -> bool:
        return self._session.valid

    @property
    def uncommitted_s(self) -> float:
        """Age of the oldest uncommitted step, or 0."""
        return self._commits.age_s

    # Start and end

    async def start(self) -> None:
        await self._replace_session(None)
        self._tasks = [asyncio.create_task(self._listen()), asyncio.create_task(self._commit())]
        for task in self._tasks:
            task.add_done_callback(self._loop_ended)

    def _loop_ended(self, task: asyncio.Task[None]) -> None:
        """Stop at once when a loop has failed: no later step could be committed."""
        if task.cancelled() or task.exception() is None or self._defect is not None:
            return  # the end of one loop cancels the other
        self._defect = task.exception()
        logger.critical("A background loop of the hidden states failed", exc_info=self._defect)
        self._session.abandon()
        for each in self._tasks:
            each.cancel()

    def check_health(self) -> None:
        """Raise if a background loop has failed."""
        if self._defect is not None:
            raise SessionAbandonedError from self._defect

    async def close(self) -> None:
        """Commit what is left and give everything back, within a deadline."""
        if not self._tasks:  # it has never started
            return
        listening, committing = self._tasks
        self._closing = True
        self._held.recall_all()
        self._commits.expedite()
        try:
            async with asyncio.timeout(CLOSE_TIMEOUT_S):
                await asyncio.wait([committing])  # polls keep the lease, as a commit may be lost
                listening.cancel()  # or it would replace the session that is closed
                while not await self._try_to_close_session():
                    await asyncio.sleep(RECONNECT_PAUSE_S)
        except (StateError, TimeoutError) as error:
            logger.warning("Closing before all hidden states were given back: %s", error)
        finally:
            listening.cancel()
            committing.cancel()
            await asyncio.gather(listening, committing, return_exceptions=True)

    async def _try_to_close_session(self) -> bool:
        session = self._session.number
        try:
            if session is not None:
                await self._authority.close_session(session)
        except (StaleSessionError, AuthorityUnavailableError) as error:
            await self._replace_session(session, error)  # which claims what was given back
            return False
        return True

    # Messages

    async def _listen(self) -> None:
        while True:
            session = self._session.number
            assert session is not None, "listening begins with a session"
            try:
                recalls, sent_at = await self._poll(session)
            except (StateError, TimeoutError) as error:
                await self._replace_session(session, error)
                continue
            self._claims.prune()
            if session == self._session.number:
                self._session.renew(session, sent_at)
                for key in recalls:
                    self._give_back(key)

    async def _poll(self, session: int) -> tuple[list[Key], float]:
        """Poll, and poll again while there is no answer: a lost message must not cost the lease.

        Returns:
            What is recalled, and when the poll was sent that was answered first.
        """
        polls: dict[asyncio.Task[list[Key]], float] = {}
        try:
            async with asyncio.timeout(self._options.listen_s + CALL_TIMEOUT_S) as timeout:
                self._listening = session, timeout
                answered: set[asyncio.Task[list[Key]]] = set()
                while not answered:
                    sent_at = self._clock()
                    polls[self._loop.create_task(self._authority.listen(session))] = sent_at
                    answered, _ = await asyncio.wait(
                        polls,
                        timeout=POLL_AGAIN * self._options.listen_s,
                        return_when=asyncio.FIRST_COMPLETED,
                    )
                poll = answered.pop()
                return poll.result(), polls[poll]
        finally:
            self._listening = None
            for poll in polls:
                poll.cancel()
            await asyncio.gather(*polls, return_exceptions=True)

    def _stop_polling_ended_sessions(self) -> None:
        """End a poll that hangs: while it is awaited, no poll renews the new lease."""
        if self._listening is not None:
            session, timeout = self._listening
            if session != self._session.number and not timeout.expired():
                timeout.reschedule(self._loop.time())

    def _give_back(self, key: Key) -> None:
        if self._held.recall(key):
            self.counts.recalls += 1
            self._commits.expedite()

    async def _commit(self) -> None:
        while not self._closing or self._held.has_outgoing:
            await self._commits.due()
            session = self._session.number
            try:
                async with asyncio.timeout(CALL_TIMEOUT_S):
                    await self._commits.send()
                self._released.set()
            except (StateError, TimeoutError) as error:
                await self._replace_session(session, error)
                self._commits.expedite()

    async def _replace_session(self, broken: int | None, error: Exception | None = None) -> None:
        await self._session.replace(broken, error)
        self._stop_polling_ended_sessions()
        self._released.set()
