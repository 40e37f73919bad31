"""Another policy that steps beside the one in service, and answers nobody.

It follows behind the answers, with hidden states in this replica's memory about which nothing is
promised: what is too much is left out, and counted.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from deployments.inference.protocol import Key
from deployments.inference.replica.counts import Batch, StepCounts
from deployments.log import Seldom
from models.policy.form import HIDDEN_DIM
from models.policy.inputs import UNAVAILABLE
from models.policy.step import Floats, PolicyStep

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
        self._waiting: deque[_Row] = deque()
        self._states: OrderedDict[Key, Floats] = OrderedDict()  # longest unused first
        self._scheduled = False

    def follow(self, seen: Seen, answer: asyncio.Future[Any]) -> None:
        """Step the same batch when its last answer is out."""
        answer.add_done_callback(lambda _: self._note(seen))

    def _note(self, seen: Seen) -> None:
        for row, finite in zip(map(_Row, *seen[:5]), seen.finite.tolist(), strict=True):
            if not finite or not self.concerns(row.key.run):
                continue
            if len(self._waiting) < MAX_WAITING:
                self._waiting.append(row)
            else:
                self.outcomes["skipped"] += 1
        self._schedule()

    def _schedule(self) -> None:
        if self._waiting and not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._run)

    def _run(self) -> None:
        """Make one batched step; the loop is everybody's."""
        self._scheduled = False
        rows = self._next_rows()
        try:
            self._step(rows)
        except Exception as error:  # whatever is wrong with it, it must not reach a request
            self.outcomes["failed"] += len(rows)
            self._log.warning(type(error).__name__, "A step of the shadow failed: %r", error)
        self._schedule()

    def _next_rows(self) -> list[_Row]:
        """Take what has waited longest, up to the second step of a state."""
        rows: dict[Key, _Row] = {}
        while self._waiting and len(rows) < MAX_BATCH and self._waiting[0].key not in rows:
            row = self._waiting.popleft()
            rows[row.key] = row
        return list(rows.values())

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
