"""A shadow: another policy that steps beside the one in service, and answers no request.

It steps after the responses, with hidden states in this replica's memory that carry no guarantee.
Steps beyond its capacity are skipped and counted. A batched step costs little more than that of
one row, so rows gather for a while, and all states are in one array.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, cast

import numpy as np

from deployments.inference.policy_model import Decisions, PolicyModel
from deployments.inference.telemetry import BatchSample, StepCounts
from deployments.log import logger
from deployments.model_slot import ModelSlot
from deployments.stateful.row import Key
from deployments.stateful.turn import SteppedBatch
from models.policy.form import HIDDEN_DIM
from models.policy.step import Floats

GATHER_S = 0.05
MAX_WAITING = 1000
MAX_STATES = 10_000
MAX_BATCH = 256


class _Row(NamedTuple):
    """A step of the policy in service; ``inputs`` is (width,)."""

    key: Key
    step: int
    agent: int
    inputs: Floats
    action: int


class ShadowStates:
    """Hidden states by key. New ones are zeros, and take the place of the longest unused."""

    def __init__(self, max_states: int) -> None:
        self._max_states = max_states
        self._rows: OrderedDict[Key, int] = OrderedDict()  # longest unused first
        # The operating system provides memory for the rows that are used.
        self.hidden = np.zeros((max_states, HIDDEN_DIM), np.float32)

    def rows_of(self, keys: Sequence[Key]) -> list[int]:
        """Return the row of each key; there must be no more keys than rows."""
        return [self._row_of(key) for key in keys]

    def _row_of(self, key: Key) -> int:
        row = self._rows.pop(key, None)
        if row is None:
            full = len(self._rows) == self._max_states
            row = self._rows.popitem(last=False)[1] if full else len(self._rows)
            self.hidden[row] = 0
        self._rows[key] = row
        return row


class Shadow:
    """Repeats the steps of the policy in service, and compares the actions.

    Args:
        slot: of the policy, which may be replaced between two steps.
        counts: of its batches.
        outcomes: counts steps that had the action of the policy in service (``agreed``) or
            another one (``differed``), were not finite (``failed``), or were left out
            (``skipped``).

    Attributes:
        includes: returns whether a run is among those that it follows.
    """

    def __init__(
        self, slot: ModelSlot[PolicyModel], counts: StepCounts, outcomes: Counter[str]
    ) -> None:
        self.slot = slot
        self.outcomes = outcomes
        self.includes: Callable[[str], bool] = lambda run: True
        self.states = ShadowStates(MAX_STATES)
        self._counts = counts
        self._loop = asyncio.get_running_loop()
        self._gathered: list[_Row] = []
        self._due: deque[list[_Row]] = deque()
        self._n_waiting = 0
        self._scheduled = False

    def follow(self, batch: SteppedBatch) -> None:
        """Step the same rows later: those of the runs that it follows, and not refused."""
        made = cast("Decisions", batch.outputs)
        columns = batch.keys, batch.steps, made.agents, made.inputs, made.actions, made.finite
        rows = [
            _Row(*row)
            for *row, is_finite in zip(*columns, strict=True)
            if is_finite and self.includes(row[0].run)
        ]
        if self._n_waiting + len(rows) > MAX_WAITING:
            self.outcomes["skipped"] += len(rows)
            return
        self._gathered += rows
        self._n_waiting += len(rows)
        self._schedule()

    def _schedule(self) -> None:
        if self._scheduled:
            return
        if self._due:
            self._loop.call_soon(self._run)
        elif self._gathered:
            self._loop.call_later(GATHER_S, self._run)
        self._scheduled = bool(self._due or self._gathered)

    def _run(self) -> None:
        """Make one batched step, and yield the event loop."""
        self._scheduled = False
        if not self._due:
            gathered, self._gathered = self._gathered, []
            self._due.extend(_rounds(gathered))
        if self._due:
            batch = self._due.popleft()
            self._n_waiting -= len(batch)
            try:
                self._step(batch)
            except Exception as error:  # no failure of a shadow may reach a request
                self.outcomes["failed"] += len(batch)
                logger.warning("A step of the shadow failed: %r", error)
        self._schedule()

    def _step(self, batch: list[_Row]) -> None:
        model = self.slot.model
        assert model is not None, "a shadow has a policy"
        started = time.perf_counter()
        keys, steps, agents, columns, actions = map(list, zip(*batch, strict=True))
        rows, inputs = self.states.rows_of(keys), np.stack(columns)
        hidden = self.states.hidden[rows]
        if 1 in steps:  # a first step: the run may have been reset in any replica
            hidden[np.equal(steps, 1)] = 0
        step = model.policy(inputs, hidden, model.unavailable[agents])
        failed = len(rows) - int(np.count_nonzero(step.finite))
        if failed:
            step.hidden[~step.finite] = 0
        self.states.hidden[rows] = step.hidden
        agreed = int(np.count_nonzero((step.actions == actions) & step.finite))
        differed = len(rows) - agreed - failed
        self.outcomes += Counter(agreed=agreed, differed=differed, failed=failed)
        seconds = time.perf_counter() - started
        sample = BatchSample(seconds, model.policy, agents, inputs, step.hidden)
        self._counts.batches.observe(sample)


def _rounds(rows: Sequence[_Row]) -> Iterator[list[_Row]]:
    """Combine rows into batches with at most one step of each state."""
    rounds: defaultdict[int, list[_Row]] = defaultdict(list)
    n_earlier: Counter[Key] = Counter()
    for row in rows:
        rounds[n_earlier[row.key]].append(row)
        n_earlier[row.key] += 1
    for each in rounds.values():
        for at in range(0, len(each), MAX_BATCH):
            yield each[at : at + MAX_BATCH]
