"""Another policy that steps beside the one in service, and answers nobody.

It follows behind the answers, with hidden states in this replica's memory about which nothing is
promised: what is too much is left out, and counted. A batched step costs little more than that of
one row, so it lets rows gather for a while, and keeps all states in one array.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from deployments.inference.counts import Batch, StepCounts
from deployments.log import RateLimitedLogger
from deployments.stateful.protocol import Key
from models.junctions import SHIPPED
from models.networks.network import Network
from models.policy.form import HIDDEN_DIM
from models.policy.step import Floats, PolicyStep

GATHER_S = 0.05
MAX_WAITING = 1000
MAX_STATES = 10_000
MAX_BATCH = 256


class Seen(NamedTuple):
    """A batch that the policy in service has stepped, n of each; ``inputs`` is (n, width)."""

    keys: list[Key]
    steps: list[int]
    agents: list[int]
    inputs: Floats
    actions: NDArray[np.intp]
    finite: NDArray[np.bool_]


class PolicySource(Protocol):
    """Where a policy is; another may take its place between two steps."""

    @property
    def model(self) -> PolicyStep | None: ...


class ShadowStates:
    """Hidden states by key; the longest unused give way to new ones, which are zeros."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._rows: OrderedDict[Key, int] = OrderedDict()  # longest unused first
        self.hidden = np.zeros((most, HIDDEN_DIM), np.float32)  # memory is taken when it is used

    def rows_of(self, keys: list[Key]) -> list[int]:
        """Return the row of each key; of no more keys at once than there are rows."""
        return [self._row_of(key) for key in keys]

    def _row_of(self, key: Key) -> int:
        row = self._rows.pop(key, None)
        if row is None:
            full = len(self._rows) == self._most
            row = self._rows.popitem(last=False)[1] if full else len(self._rows)
            self.hidden[row] = 0
        self._rows[key] = row
        return row

    def of(self, key: Key) -> Floats | None:
        """Return the state (128,) of a key, if it is kept."""
        row = self._rows.get(key)
        return None if row is None else self.hidden[row]


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
        network: Network = SHIPPED,
    ) -> None:
        self.source = source
        self.outcomes = outcomes
        self.concerns: Callable[[str], bool] = lambda run: True
        self.states = ShadowStates(MAX_STATES)
        self._counts = counts
        self._unavailable = network.unavailable
        self._loop = asyncio.get_running_loop()
        self._log = RateLimitedLogger("Steps of the shadow")
        self._seen: list[Seen] = []
        self._due: deque[Seen] = deque()
        self._n_waiting = 0
        self._scheduled = False

    def follow(self, seen: Seen, answer: asyncio.Future[Any]) -> None:
        """Step the same batch when its last answer is out."""
        answer.add_done_callback(lambda _: self._note(seen))

    def _note(self, seen: Seen) -> None:
        if self._n_waiting + len(seen.keys) > MAX_WAITING:
            self.outcomes["skipped"] += len(self._concerned(seen))
            return
        self._seen.append(seen)
        self._n_waiting += len(seen.keys)
        self._schedule()

    def _concerned(self, seen: Seen) -> list[int]:
        finite = seen.finite.tolist()
        return [n for n, key in enumerate(seen.keys) if finite[n] and self.concerns(key.run)]

    def _schedule(self) -> None:
        if self._scheduled:
            return
        if self._due:
            self._loop.call_soon(self._run)
        elif self._seen:
            self._loop.call_later(GATHER_S, self._run)
        self._scheduled = bool(self._due or self._seen)

    def _run(self) -> None:
        """Make one batched step; the loop is everybody's."""
        self._scheduled = False
        if not self._due:
            seen, self._seen = self._seen, []
            self._due.extend(self._rounds(seen))
            self._n_waiting = sum(len(each.keys) for each in self._due)
        if self._due:
            batch = self._due.popleft()
            self._n_waiting -= len(batch.keys)
            try:
                self._step(batch)
            except Exception as error:  # whatever is wrong with it, it must not reach a request
                self.outcomes["failed"] += len(batch.keys)
                self._log.warning(type(error).__name__, "A step of the shadow failed: %r", error)
        self._schedule()

    def _rounds(self, seen: list[Seen]) -> Iterator[Seen]:
        """Put together what may be stepped at once: one step of each state at most."""
        keys = [key for each in seen for key in each.keys]
        steps = [step for each in seen for step in each.steps]
        agents = [agent for each in seen for agent in each.agents]
        inputs, actions, finite = (
            np.concatenate([getattr(each, name) for each in seen])
            for name in ("inputs", "actions", "finite")
        )
        rounds: defaultdict[int, list[int]] = defaultdict(list)
        turns: defaultdict[Key, Iterator[int]] = defaultdict(count)
        for row in self._concerned(Seen(keys, steps, agents, inputs, actions, finite)):
            rounds[next(turns[keys[row]])].append(row)
        for rows in rounds.values():
            for at in range(0, len(rows), MAX_BATCH):
                some = rows[at : at + MAX_BATCH]
                yield Seen(
                    [keys[row] for row in some],
                    [steps[row] for row in some],
                    [agents[row] for row in some],
                    inputs[some],
                    actions[some],
                    finite[some],
                )

    def _step(self, batch: Seen) -> None:
        policy = self.source.model
        assert policy is not None, "a shadow has a policy"
        started = time.perf_counter()
        rows = self.states.rows_of(batch.keys)
        hidden = self.states.hidden[rows]
        if 1 in batch.steps:  # zeros: wherever the run was reset, it is seen here
            hidden[np.equal(batch.steps, 1)] = 0
        step = policy(batch.inputs, hidden, self._unavailable[batch.agents])
        failed = len(rows) - int(np.count_nonzero(step.finite))
        if failed:
            step.hidden[~step.finite] = 0
        self.states.hidden[rows] = step.hidden
        agreed = int(np.count_nonzero((step.actions == batch.actions) & step.finite))
        differed = len(rows) - agreed - failed
        self.outcomes += Counter(agreed=agreed, differed=differed, failed=failed)
        seconds = time.perf_counter() - started
        self._counts.batches.observe(
            Batch(seconds, policy, batch.agents, batch.inputs, step.hidden)
        )
