"""The leases of one replica with one authority: the states it owns, and the loops that keep them.

While the lease is valid, ``owned`` answers from memory. Two background loops renew the lease:
``_listen`` keeps a long-poll open that brings recalls, ``_commit`` sends what was stepped. Any
failure of either opens a new session, with a claim to everything held, so a restarted authority
learns the newest states from their owners.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

import numpy as np

from deployments.inference.options import InferenceOptions
from deployments.stateful.boottime import boottime
from deployments.stateful.protocol import (
    Authority,
    AuthorityUnavailableError,
    Floats,
    HiddenStateError,
    Key,
    OutcomeUnknownError,
    Receipt,
    StaleSessionError,
)
from deployments.stateful.replica.claims import Claims
from deployments.stateful.replica.commits import Commits
from deployments.stateful.replica.held_state import HeldState
from deployments.stateful.replica.held_states import HeldStates, LeaseCounts
from deployments.stateful.replica.session import (
    CALL_TIMEOUT_S,
    RECONNECT_PAUSE_S,
    AbandonedError,
    Session,
)
from deployments.trace_context import Trace

logger = logging.getLogger("ray.serve")

RESET_TIMEOUT_S = 10.0
CLOSE_TIMEOUT_S = 10.0


class StateLeases:
    """The states that one replica owns.

    Args:
        authority: the authority, directly or through Ray.
        replica: a name by which the authority can ask whether this replica lives.
        generation: of the layout that this replica goes by.
        clock: of the lease, in seconds.
    """

    def __init__(
        self,
        authority: Authority,
        replica: str,
        hidden_dim: int,
        options: InferenceOptions,
        generation: int = 1,
        clock: Callable[[], float] = boottime,
    ) -> None:
        self.counts = LeaseCounts()
        self._authority = authority
        self._options = options
        self._zeros = np.zeros(hidden_dim, np.float32)
        self._loop = asyncio.get_running_loop()
        self._now = clock
        self._held = HeldStates()
        self._claims = Claims(self._held, self.counts, self._now)
        self._session = Session(
            authority,
            replica,
            generation,
            self._claims,
            clock,
            options.open_timeout_s,
            options.run_ttl_s,
        )
        delay_s = 0.0 if options.strict else options.commit_delay_s
        self._commits = Commits(
            authority,
            self._session,
            self._held,
            self._claims,
            self.counts,
            delay_s,
            options.loss_bound_s,
        )
        self._given_back = asyncio.Event()
        self._listening: tuple[int, asyncio.Timeout] | None = None  # in which session
        self._tasks: list[asyncio.Task[None]] = []
        self._defect: BaseException | None = None
        self._closing = False

    # What the stepper uses

    def owned(self, key: Key) -> HeldState | None:
        """Return the state if it may be stepped now, without asking anybody."""
        state = self._held.owned(key)
        may_step = self._session.valid and not self._closing
        return state if state is not None and may_step else None

    def advance(self, state: HeldState, hidden: Floats, receipt: Receipt | None = None) -> None:
        """Record a step; its commit goes out behind the answer, or at once in strict mode.

        Args:
            hidden: (128,), the caller's no longer.
            receipt: when the request bore an idempotency key.
        """
        self._held.advance(state, hidden, receipt)
        self._commits.schedule()

    def trace_commit(self, traces: list[Trace]) -> None:
        """Have the next commit belong to the traces of its steps."""
        self._commits.traces.extend(traces)

    def answers_wait(self) -> bool:
        """Tell whether an answer must wait for the commit of its step (invariant 9)."""
        return self._options.strict or self._commits.overdue or not self._session.valid

    async def acquire(self, key: Key) -> None:
        """Return when ``key`` is owned with a valid lease. One call for a key at a time.

        Raises:
            TooManyStatesError: the authority's cap is reached.
            AbandonedError: a background loop has died, or the replica is being closed.
        """
        while self.owned(key) is None:
            if self._closing:  # a step from now on could follow the last commit
                raise AbandonedError
            while self._held.is_leaving(key):
                self._given_back.clear()
                await self._given_back.wait()
            session = self._session.number
            if session is None or self._held.owned(key) is not None:
                await self._replace_session(session)
            else:
                await self._check_out(session, key)

    async def _check_out(self, session: int, key: Key) -> None:
        """Ask for a state once; it may still not be owned afterwards."""
        self._held.ask(key)
        granted = False
        try:
            async with asyncio.timeout(self._options.checkout_timeout_s + CALL_TIMEOUT_S):
                grant = await self._authority.checkout(session, key, next(self._session.calls))
            if self._session.opening:
                # The claim under way does not name this key, so the authority takes it back.
                await self._replace_session(session)
            granted = session == self._session.number
        except (StaleSessionError, AuthorityUnavailableError, TimeoutError) as error:
            await self._replace_session(session, error)
        finally:
            if not granted:
                self._held.deny(key)
        if granted:
            self.counts.checkouts += 1
            if self._held.grant(key, grant, self._zeros):
                # not before whoever waited for the state has made a step
                self._loop.call_soon(self._give_back, key)

    async def reset(self, run: str) -> None:
        """Clear a run everywhere; when this returns, its every later step starts from zeros.

        Raises:
            OutcomeUnknownError: nobody has confirmed it within the time.
        """
        try:
            async with asyncio.timeout(RESET_TIMEOUT_S):
                while not await self._try_reset(run):
                    await asyncio.sleep(RECONNECT_PAUSE_S)
        except (TimeoutError, AbandonedError):
            raise OutcomeUnknownError from None

    async def _try_reset(self, run: str) -> bool:
        session = self._session.number
        if session is None:
            await self._replace_session(session)
            return False
        try:
            await self._authority.reset(session, run, next(self._session.calls))
        except (StaleSessionError, AuthorityUnavailableError) as error:
            await self._replace_session(session, error)
            return False
        return True

    @property
    def connected(self) -> bool:
        return self._session.valid

    @property
    def uncommitted_s(self) -> float:
        """Age of the oldest step that is not committed, 0 when there is none."""
        return self._commits.age_s

    # Life

    async def start(self) -> None:
        await self._replace_session(None)
        self._tasks = [asyncio.create_task(self._listen()), asyncio.create_task(self._commit())]
        for task in self._tasks:
            task.add_done_callback(self._loop_ended)

    def _loop_ended(self, task: asyncio.Task[None]) -> None:
        """Stop at once when a loop has died: nothing stepped from now on could be kept."""
        if task.cancelled() or task.exception() is None or self._defect is not None:
            return  # the second one dies of the first one's end
        self._defect = task.exception()
        logger.critical("A background loop of the hidden states has died", exc_info=self._defect)
        self._session.abandon()
        for each in self._tasks:
            each.cancel()

    def check_health(self) -> None:
        """Raise when a background loop has died, which nothing but a defect can cause."""
        if self._defect is not None:
            raise AbandonedError from self._defect

    async def close(self) -> None:
        """Commit what is left and give everything back, trying as long as the deadline allows."""
        if not self._tasks:  # it has never started
            return
        listening, committing = self._tasks
        listening.cancel()
        self._closing = True
        self._held.recall_all()
        self._commits.hurry()
        try:
            async with asyncio.timeout(CLOSE_TIMEOUT_S):
                await asyncio.wait([committing])
                while not await self._try_to_leave():
                    await asyncio.sleep(RECONNECT_PAUSE_S)
        except (HiddenStateError, TimeoutError) as error:
            logger.warning("Hidden states could not be given back: %s", error)
        finally:
            committing.cancel()
            await asyncio.gather(listening, committing, return_exceptions=True)

    async def _try_to_leave(self) -> bool:
        session = self._session.number
        try:
            if session is not None:
                await self._authority.close_session(session)
        except (StaleSessionError, AuthorityUnavailableError) as error:
            await self._replace_session(session, error)  # with a claim to what was given back
            return False
        return True

    # Talk with the authority

    async def _listen(self) -> None:
        while True:
            session, sent_at = self._session.number, self._now()
            assert session is not None, "listening begins with a session"
            try:
                recalls = await self._hear(session)
            except (HiddenStateError, TimeoutError) as error:
                await self._replace_session(session, error)
                continue
            self._claims.prune()
            if session == self._session.number:
                self._session.renew(session, sent_at)
                for key in recalls:
                    self._give_back(key)

    async def _hear(self, session: int) -> list[Key]:
        try:
            async with asyncio.timeout(self._options.listen_s + CALL_TIMEOUT_S) as patience:
                self._listening = session, patience
                return await self._authority.listen(session)
        finally:
            self._listening = None

    def _stop_listening_to_ended_sessions(self) -> None:
        """End a call that hangs: while it is waited for, nobody would renew the new lease."""
        if self._listening is not None:
            session, patience = self._listening
            if session != self._session.number and not patience.expired():
                patience.reschedule(self._loop.time())

    def _give_back(self, key: Key) -> None:
        if self._held.recall(key):
            self.counts.recalls += 1
            self._commits.hurry()

    async def _commit(self) -> None:
        while not self._closing or self._held.has_outgoing:
            await self._commits.due()
            session = self._session.number
            try:
                async with asyncio.timeout(CALL_TIMEOUT_S):
                    await self._commits.send()
                self._given_back.set()
            except (HiddenStateError, TimeoutError) as error:
                await self._replace_session(session, error)
                self._commits.hurry()

    async def _replace_session(self, broken: int | None, error: Exception | None = None) -> None:
        await self._session.replace(broken, error)
        self._stop_listening_to_ended_sessions()
        self._given_back.set()
