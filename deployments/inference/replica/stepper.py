"""Batches whatever waits into GRU steps, one step of one junction at a time, first come first.

The first request of an event-loop turn schedules the batch for the end of that turn; all that
arrive in the same turn join it. There is no waiting for a fuller batch: at these sizes a step costs
less than any wait.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import Counter, deque
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import numpy as np

from deployments.inference.options import InferenceOptions
from deployments.inference.protocol import (
    Key,
    NonFiniteStateError,
    OutOfReachError,
)
from deployments.inference.replica.held_states import HeldState, Unanswered
from deployments.inference.replica.shards import ShardedLeases
from deployments.metrics.sampled import Sampled
from models.junctions import JUNCTIONS
from models.policy.form import HIDDEN_DIM
from models.policy.inputs import encode
from models.policy.step import PolicyStep

MAX_BATCH = 256

_UNAVAILABLE = np.array([[not a for a in j.avail_actions] for j in JUNCTIONS.values()])


class Decision(NamedTuple):
    """One step's outcome. ``step`` counts the junction's steps since zeros."""

    action: int
    confidence: float
    step: int


@dataclass(slots=True)
class _Request:
    key: Key
    obs: list[float]
    answer: asyncio.Future[Decision]
    patience_s: float
    request_id: str | None = None
    stepped: bool = False


@dataclass
class StepCounts:
    """Counted since the start.

    Attributes:
        predictions: steps made, by (junction, action).
        batches: a sample of the batches' (size, seconds).
    """

    predictions: Counter[tuple[str, int]] = field(default_factory=Counter)
    batches: Sampled[tuple[int, float]] = field(default_factory=Sampled)


class PolicySource(Protocol):
    """Where the policy in service is; another may take its place between two steps."""

    @property
    def model(self) -> PolicyStep | None: ...


class Stepper:
    """Runs the policy over owned states.

    Args:
        leases: the states this replica owns.
        source: the policy, which must be there when a step is asked for.
        options: ``strict`` and how long a request may wait for a state.
    """

    def __init__(
        self, leases: ShardedLeases, source: PolicySource, options: InferenceOptions
    ) -> None:
        self.counts = StepCounts()
        self._leases = leases
        self._source = source
        self._options = options
        self._loop = asyncio.get_running_loop()
        self._arrived: list[_Request] = []
        self._parked: dict[Key, deque[_Request]] = {}  # until this replica owns the state
        self._acquiring: set[asyncio.Task[None]] = set()

    def submit(
        self,
        key: Key,
        obs: list[float],
        patience_s: float = math.inf,
        request_id: str | None = None,
    ) -> asyncio.Future[Decision]:
        """Queue one step. Cancelling the future before its step prevents the step.

        Args:
            obs: at most 19 finite values, zero-padded here.
            patience_s: how long it may wait for a state, if less than the options say.
            request_id: an idempotency key, the same for every attempt at one step.

        Returns:
            A future of the decision; fails with a :class:`HiddenStateError`.
        """
        answer: asyncio.Future[Decision] = self._loop.create_future()
        if not self._arrived:
            self._loop.call_soon(self._run_arrived)
        patience_s = min(patience_s, self._options.checkout_timeout_s)
        self._arrived.append(_Request(key, obs, answer, patience_s, request_id))
        return answer

    def _run_arrived(self) -> None:
        arrived, self._arrived = self._arrived, []
        self._run(arrived)

    def _run(self, requests: list[_Request]) -> None:
        while requests:
            batch, states, requests = self._next_batch(requests)
            if batch:
                try:
                    self._step(batch, states)
                except Exception as error:  # a defect; no request may hang on it
                    for request in batch:
                        _fail(request.answer, error)

    def _next_batch(
        self, requests: list[_Request]
    ) -> tuple[list[_Request], list[HeldState], list[_Request]]:
        """Split off the first waiting request of each owned key; park those of keys not owned."""
        batch: dict[Key, _Request] = {}
        states: list[HeldState] = []
        rest: list[_Request] = []
        for request in requests:
            key = request.key
            if request.answer.done():
                continue
            if key in batch or len(batch) == MAX_BATCH:
                rest.append(request)
            elif key not in self._parked and (state := self._leases.owned(key)) is not None:
                batch[key] = request
                states.append(state)
            else:
                self._park(request)
        return list(batch.values()), states, rest

    def _step(self, batch: list[_Request], states: list[HeldState]) -> None:
        policy = self._source.model
        if policy is None:
            raise RuntimeError("a step was asked for without a policy")
        started = time.perf_counter()
        agents = [JUNCTIONS[request.key.junction].agent_index for request in batch]
        inputs = encode(agents, [request.obs for request in batch])
        hidden = np.concatenate([state.hidden for state in states]).reshape(-1, HIDDEN_DIM)
        step = policy(inputs, hidden, _UNAVAILABLE[agents])
        outcomes = zip(
            batch,
            states,
            step.actions.tolist(),
            step.confidences.tolist(),
            step.finite.tolist(),
            step.hidden,
            strict=True,
        )
        for request, state, action, confidence, finite, new_hidden in outcomes:
            if not finite:
                _fail(request.answer, NonFiniteStateError())
                continue
            self._leases.advance(state, new_hidden.copy())
            decision = Decision(action, confidence, state.version.step)
            request.stepped = True
            self.counts.predictions[request.key.junction, action] += 1
            if self._options.strict:
                state.unanswered.append(Unanswered(decision.step, request.answer, decision))
            else:
                request.answer.set_result(decision)
        self.counts.batches.observe((len(batch), time.perf_counter() - started))

    def _park(self, request: _Request) -> None:
        """Hold a request until its state is here, but no longer than its deadline."""
        self._loop.call_later(request.patience_s, _give_up, request)
        parked = self._parked.get(request.key)
        if parked is not None:
            while parked and parked[0].answer.done():  # a long outage must not fill the memory
                parked.popleft()
            parked.append(request)
            return
        self._parked[request.key] = deque([request])
        task = self._loop.create_task(self._acquire(request.key))
        self._acquiring.add(task)
        task.add_done_callback(self._acquiring.discard)

    async def _acquire(self, key: Key) -> None:
        error: Exception | None = None
        try:
            await self._leases.acquire(key)
        except Exception as failure:  # a HiddenStateError, or a defect
            error = failure
        parked = self._parked.pop(key)
        if error is None:
            self._run(list(parked))
            return
        for request in parked:
            _fail(request.answer, error)

    async def close(self) -> None:
        for task in list(self._acquiring):
            task.cancel()


def _give_up(request: _Request) -> None:
    # A step that waits for its commit has been made: it may fail only if that is refused.
    if not request.stepped:
        _fail(request.answer, OutOfReachError())


def _fail(answer: asyncio.Future[Decision], error: Exception) -> None:
    # a disconnected client has cancelled its future
    if not answer.done():
        answer.set_exception(error)
