"""Commits: they send steps and releases to the authority after the responses."""

from __future__ import annotations

import asyncio
import math
from collections import deque

import numpy as np
from numpy.typing import NDArray

from deployments.stateful.protocol import Authority, Key
from deployments.stateful.replica.claims import Claims
from deployments.stateful.replica.held_state import HeldBatch, HeldState
from deployments.stateful.replica.held_states import HeldStates, LeaseCounts, commit_of
from deployments.stateful.replica.session import Session
from deployments.trace_context import MAX_LINKED, Trace, traces_of
from deployments.tracing import process as tracing

STATES_PER_COMMIT = 5000


class Commits:
    """Decides when a commit is due, and sends it; one at a time (invariant 5).

    Args:
        claims: forgets the states that are released or refused.
        delay_s: for so long, further steps join a commit; 0 sends each at once.
        loss_bound_s: age of the oldest uncommitted step from which on commits are overdue.

    Attributes:
        traces: of the steps in the next commit.
    """

    def __init__(
        self,
        authority: Authority,
        session: Session,
        held: HeldStates,
        claims: Claims,
        counts: LeaseCounts,
        delay_s: float,
        loss_bound_s: float,
    ) -> None:
        self._authority = authority
        self._session = session
        self._held = held
        self._claims = claims
        self._counts = counts
        self._delay_s = delay_s
        self._loss_bound_s = loss_bound_s
        self._loop = asyncio.get_running_loop()
        self._due = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None
        self._oldest_unsent = math.inf
        self._oldest_sent = math.inf  # in the commit that is in flight
        self._sending = False
        self.traces: deque[Trace] = deque(maxlen=MAX_LINKED)

    def schedule(self) -> None:
        """Note that there is a step to send."""
        if self._oldest_unsent == math.inf:
            self._oldest_unsent = self._session.clock()
        if not self._delay_s:
            self._due.set()
        elif self._timer is None:
            self._timer = self._loop.call_later(self._delay_s, self._due.set)

    @property
    def overdue(self) -> bool:
        """Whether responses must wait for their commits (invariant 9)."""
        oldest = min(self._oldest_sent, self._oldest_unsent)
        return self._session.clock() - oldest > self._loss_bound_s

    @property
    def age_s(self) -> float:
        """Age of the oldest step that is not acknowledged, or 0."""
        return max(0.0, self._session.clock() - min(self._oldest_sent, self._oldest_unsent))

    def expedite(self) -> None:
        self._due.set()

    async def due(self) -> None:
        """Wait until a commit is due; later steps belong to the next one."""
        await self._due.wait()
        self._due.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    async def send(self) -> None:
        """Send what is due, and apply the response.

        Raises:
            StateError: it is unknown whether it arrived; it is sent again.
        """
        number, sent_at = self._session.number, self._session.clock()
        stepped, releasing = self._held.outgoing(STATES_PER_COMMIT)
        if number is None or not (len(stepped) or releasing):
            if self._held.has_outgoing:  # keys with nothing to send hid those with a step
                self._due.set()
            else:
                self._oldest_unsent = math.inf
            return
        assert not self._sending, "invariant 5: one commit at a time"
        batch, steps = commit_of(stepped), stepped.steps
        self._sending = True
        self._oldest_sent = self._oldest_unsent
        if self._held.has_outgoing:  # more than one commit takes
            self._due.set()
        else:
            self._oldest_unsent = math.inf
        try:
            attributes = {"states": len(stepped)}
            with tracing.covering("commit", self._take_traces(), attributes=attributes):
                refused = await self._authority.commit(
                    number, batch, [each.key for each in releasing], next(self._session.calls)
                )
        except BaseException:
            self._oldest_unsent = min(self._oldest_sent, self._oldest_unsent)
            self._oldest_sent = math.inf
            self._held.put_back(stepped, releasing)
            raise
        finally:
            self._sending = False
        self._session.renew(number, sent_at)
        self._counts.commits += 1
        self._counts.states_committed += len(stepped)
        self._counts.commit_lag_s = max(0.0, self._session.clock() - self._oldest_sent)
        self._oldest_sent = math.inf
        self._settle(stepped, steps, releasing, set(refused))

    def _take_traces(self) -> list[Trace]:
        traces = traces_of(self.traces)
        self.traces.clear()
        return traces

    def _settle(
        self,
        stepped: HeldBatch,
        steps: NDArray[np.int64],
        releasing: list[HeldState],
        refused: set[Key],
    ) -> None:
        if refused:
            self._claims.lose([state for key, state in stepped.by_key.items() if key in refused])
            kept = [row for row, key in enumerate(stepped.by_key) if key not in refused]
            stepped, steps = stepped.part(kept), steps[kept]
        self._held.acknowledge(stepped.rows, steps)
        for state in releasing:
            if state.key not in refused:
                self._claims.release(state)
