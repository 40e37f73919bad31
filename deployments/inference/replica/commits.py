"""What was stepped or recalled, on its way to the authority behind the answers."""

from __future__ import annotations

import asyncio

from deployments.inference.options import InferenceOptions
from deployments.inference.protocol import Authority
from deployments.inference.replica.claims import Claims
from deployments.inference.replica.counts import LeaseCounts
from deployments.inference.replica.held_states import HeldState, HeldStates, batch_of
from deployments.inference.replica.phases import Event, Phase
from deployments.inference.replica.recent import RecentPast
from deployments.inference.replica.session import Session


class Commits:
    """Says when a commit is due, and sends it. One at a time (invariant 5).

    Args:
        claims: gives up the states that are refused.
        recent: remembers the states that were given back.
    """

    def __init__(
        self,
        authority: Authority,
        session: Session,
        held: HeldStates,
        claims: Claims,
        recent: RecentPast,
        counts: LeaseCounts,
        settings: InferenceOptions,
    ) -> None:
        self._authority = authority
        self._session = session
        self._held = held
        self._claims = claims
        self._recent = recent
        self._counts = counts
        self._settings = settings
        self._loop = asyncio.get_running_loop()
        self._due = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None
        self._oldest_step = 0.0
        self._sending = False

    def schedule(self) -> None:
        """Let the steps of the next milliseconds join this one; in strict mode none waits."""
        if self._settings.strict:
            self._due.set()
        elif self._timer is None:
            self._oldest_step = self._loop.time()
            self._timer = self._loop.call_later(self._settings.commit_delay_s, self._due.set)

    def hurry(self) -> None:
        self._due.set()

    async def due(self) -> None:
        """Wait for the next one; what is stepped from then on belongs to the one after it."""
        await self._due.wait()
        self._due.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    async def send(self) -> None:
        """Send all that there is, and take over what has become of it.

        Raises:
            HiddenStateError: nobody knows whether it arrived; it goes out again.
        """
        number, sent_at, oldest = self._session.number, self._loop.time(), self._oldest_step
        stepped, leaving = self._held.outgoing()
        if number is None or not (stepped or leaving):
            return
        assert not self._sending, "invariant 5: one commit at a time"
        batch = batch_of((state.key, state.version, state.hidden) for state in stepped)
        self._sending = True
        try:
            refused = await self._authority.commit(number, batch, [each.key for each in leaving])
        except BaseException:
            self._held.unsent(stepped, leaving)
            raise
        finally:
            self._sending = False
        self._session.renew(number, sent_at)
        self._counts.commits += 1
        self._counts.states_committed += len(stepped)
        self._counts.commit_lag_s = self._loop.time() - oldest
        for state, version in zip(stepped, batch.versions, strict=True):
            if state.key in refused:
                self._claims.lose(state)
            else:
                state.acknowledge(version.step)
        for state in leaving:
            if state.key not in refused:
                self._released(state)

    def _released(self, state: HeldState) -> None:
        self._recent.note_given_back(state.key, state.version, state.hidden)
        if self._held.holds(state) and state.phase is Phase.LEAVING:
            self._held.fire(state.key, Event.RELEASED)
