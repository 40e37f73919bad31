"""Another policy that steps beside the one in service, and answers nobody.

It follows behind the answers, with hidden states in this replica's memory about which nothing is
promised: what is too much is left out, and counted. A batched step costs little more than that of
one row, so it lets rows gather for a while.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from deployments.inference.protocol import Key
from deployments.inference.replica.counts import Batch, StepCounts
from deployments.log import Seldom
from models.policy.form import HIDDEN_DIM
from models.policy.inputs import UNAVAILABLE
from models.policy.step import Floats, PolicyStep

GATHER_S = 0.05
MAX_WAITING = 1000
MAX_STATES = 10_000
MAX_BATCH = 256

_ZEROS = np.zeros(HIDDEN_DIM, np.float32)


class Seen(NamedTuple):
    """A batch that the policy in service has stepped, n of each; ``inputs`` is (n, 24)."""

    keys: list[Key]
    steps: list[int]
    agents: list[int]
    inputs: Floats
    actions: NDArray[np.intp]
    finite: NDArray[np.bool_]


class _Row(NamedTuple):
    key: Key
    step: int
    agent: int
    inputs: Floats
    action: int


class PolicySource(Protocol):
    """Where the policy is that steps."""

    @property
    def model(self) -> PolicyStep | None: ...


class Shadow:
    """Steps what the policy in service has stepped, and compares.

    Args:
        source: the policy.
        counts: of its batches.
        outcomes: steps that had the action of the policy in service (``agreed``) or another one
            (``differed``), were not finite (``failed``), or were left out (``skipped``).

    Attributes:
        concerns: tells whether a run is among those that it follows.
    """

    def __init__(
        self,
        source: PolicySource,
        counts: StepCounts,
        outcomes: Counter[str],
    ) -> None:
        self.source = source
        self.outcomes = outcomes
        self.concerns: Callable[[str], bool] = lambda run: True
        self._counts = counts
        self._loop = asyncio.get_running_loop()
        self._log = Seldom("Steps of the shadow")
        self._seen: list[Seen] = []
        self._waiting: dict[Key, deque[_Row]] = {}
        self._n_waiting = 0
        self._states: OrderedDict[Key, Floats] = OrderedDict()  # longest unused first
        self._scheduled = False

    def follow(self, seen: Seen, answer: asyncio.Future[Any]) -> None:
        """Step the same batch when its last answer is out."""
        answer.add_done_callback(lambda _: self._note(seen))

    def _note(self, seen: Seen) -> None:
        if self._n_waiting + len(seen.keys) > MAX_WAITING:
            self.outcomes["skipped"] += len(list(self._rows_of(seen)))
            return
        self._seen.append(seen)
        self._n_waiting += len(seen.keys)
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_later(GATHER_S, self._run)

    def _rows_of(self, seen: Seen) -> Iterator[_Row]:
        rows = map(_Row, seen.keys, seen.steps, seen.agents, seen.inputs, seen.actions.tolist())
        for row, finite in zip(rows, seen.finite.tolist(), strict=True):
            if finite and self.concerns(row.key.run):
                yield row

    def _run(self) -> None:
        """Make one batched step; the loop is everybody's."""
        seen, self._seen = self._seen, []
        for batch in seen:
            for row in self._rows_of(batch):
                self._waiting.setdefault(row.key, deque()).append(row)
        rows = self._next_rows()
        try:
            if rows:
                self._step(rows)
        except Exception as error:  # whatever is wrong with it, it must not reach a request
            self.outcomes["failed"] += len(rows)
            self._log.warning(type(error).__name__, "A step of the shadow failed: %r", error)
        self._n_waiting = sum(map(len, self._waiting.values()))
        self._scheduled = bool(self._waiting)
        if self._scheduled:
            self._loop.call_soon(self._run)

    def _next_rows(self) -> list[_Row]:
        """Take the next step of each state."""
        rows = []
        for key in list(islice(self._waiting, MAX_BATCH)):
            rows.append(self._waiting[key].popleft())
            if not self._waiting[key]:
                del self._waiting[key]
        return rows

    def _step(self, rows: list[_Row]) -> None:
        policy = self.source.model
        assert policy is not None, "a shadow has a policy"
        started = time.perf_counter()
        agents = [row.agent for row in rows]
        inputs = np.stack([row.inputs for row in rows])
        hidden = np.stack([self._state(row) for row in rows])
        step = policy(inputs, hidden, UNAVAILABLE[agents])
        outcomes = zip(rows, step.actions.tolist(), step.finite.tolist(), step.hidden, strict=True)
        for row, action, finite, new_hidden in outcomes:
            if finite:
                self._keep(row.key, new_hidden.copy())
                self.outcomes["agreed" if action == row.action else "differed"] += 1
            else:
                self._states.pop(row.key, None)
                self.outcomes["failed"] += 1
        seconds = time.perf_counter() - started
        self._counts.batches.observe(Batch(seconds, policy, agents, inputs, step.hidden))

    def _state(self, row: _Row) -> Floats:
        """Return zeros for a first step: wherever the run was reset, it is seen here."""
        return _ZEROS if row.step == 1 else self._states.get(row.key, _ZEROS)

    def _keep(self, key: Key, hidden: Floats) -> None:
        self._states[key] = hidden
        self._states.move_to_end(key)
        if len(self._states) > MAX_STATES:
            self._states.popitem(last=False)
