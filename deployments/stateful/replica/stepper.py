"""Batches whatever waits into GRU steps, one step of one junction at a time, first come first.

The first request of an event-loop turn schedules the batch for the end of that turn; all that
arrive in the same turn join it. There is no waiting for a fuller batch: at these sizes a step costs
less than any wait.
"""

from __future__ import annotations

import asyncio
import contextvars
import math
import time

import numpy as np

from deployments.inference.counts import Batch, StepCounts
from deployments.inference.options import InferenceOptions
from deployments.inference.shadow import PolicySource, Seen, Shadow
from deployments.inference.watched_steps import Made, WatchedSteps
from deployments.log import RateLimitedLogger
from deployments.metrics.junctions import junction_labels
from deployments.stateful.protocol import (
    CheckoutTimeoutError,
    Key,
    KeyReusedError,
    NonFiniteStateError,
    Receipt,
    TooManyStatesError,
)
from deployments.stateful.replica.held_state import HeldState, Unanswered
from deployments.stateful.replica.queues import Decision as Decision  # part of this face
from deployments.stateful.replica.queues import HeldAnswers, Queues, Request
from deployments.stateful.replica.receipts import fingerprint_of
from deployments.stateful.replica.shards import ShardedLeases
from deployments.stateful.replica.traced import covering_step, traces_of_requests
from deployments.trace_context import CURRENT, Trace
from deployments.tracing import process as tracing
from models.junctions import SHIPPED
from models.networks.network import Network
from models.policy.form import HIDDEN_DIM
from models.policy.inputs import InputLayout
from models.policy.step import Step

MAX_BATCH = 256
LONGEST_TURN_S = 0.004
NO_PLACE_S = 30.0


class Stepper:
    """Runs the policy over owned states.

    Args:
        leases: the states this replica owns.
        source: the policy, which must be there when a step is asked for.
        options: how long a request may wait for a state, and an answer for its commit.
        states: name of the hidden states, where several policies have states of their own.
        network: whose junctions are stepped.

    Attributes:
        shadow: another policy that steps beside this one.
        fallback: makes the steps that this policy cannot make; the others are refused.
        watched_steps: takes note of the steps while somebody watches.
    """

    def __init__(
        self,
        leases: ShardedLeases,
        source: PolicySource,
        options: InferenceOptions,
        states: str = "",
        network: Network = SHIPPED,
    ) -> None:
        self.counts = StepCounts()
        self.shadow: Shadow | None = None
        self.fallback: Stepper | None = None
        self.watched_steps = WatchedSteps(network)
        self._states = states
        self._agents = {
            Key("", junction.id).among(states).junction: junction.agent_index
            for junction in network.junctions.values()
        }
        self._ids = network.ids
        self._labels = junction_labels(network)
        self._unavailable = network.unavailable
        self._encode = InputLayout(network).encode
        self._leases = leases
        self._source = source
        self._options = options
        self._loop = asyncio.get_running_loop()
        self._queues = Queues()
        self._held_answers = HeldAnswers(options.commit_timeout_s)
        self._no_place_until = -math.inf
        self._log = RateLimitedLogger("Hidden states")
        self._scheduled = False
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
            key: of the junction, among states of no name.
            obs: no more finite values than the network has, zero-padded here.
            patience_s: how long it may wait for a state, if less than the options say.
            request_id: an idempotency key, the same for every attempt at one step.

        Returns:
            A future of the decision; fails with a :class:`HiddenStateError`.
        """
        answer: asyncio.Future[Decision] = self._loop.create_future()
        patience_s = min(patience_s, self._options.checkout_timeout_s)
        request = Request(key.among(self._states), obs, answer, patience_s, request_id)
        request.trace = CURRENT.get()
        self._queue(request)
        return answer

    def _queue(self, request: Request) -> None:
        if self._queues.add(request):
            self._schedule()
        else:
            self._be_patient(request)

    def _schedule(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._run)

    def _run(self) -> None:
        """Step what is ready, but leave the loop to others after a while."""
        self._scheduled = False
        until = time.perf_counter() + LONGEST_TURN_S
        while self._queues.has_ready:
            batch, states = self._next_batch()
            if batch:
                try:
                    with covering_step(batch, self._leases):
                        self._step(batch, states)
                except Exception as error:  # a defect; no request may hang on it
                    for request in batch:
                        _fail(request.answer, error)
            if time.perf_counter() > until and self._queues.has_ready:
                self._schedule()
                return

    def _next_batch(self) -> tuple[list[Request], list[HeldState]]:
        """Take the next request of each key that is ready; park those of states not owned."""
        batch: list[Request] = []
        states: list[HeldState] = []
        for key in self._queues.ready(MAX_BATCH):
            state = self._leases.owned(key)
            if state is None:
                self._park(key)
            elif (request := self._next_request(key, state)) is not None:
                batch.append(request)
                states.append(state)
        return batch, states

    def _next_request(self, key: Key, state: HeldState) -> Request | None:
        """Return the next request that needs a step, after answering those that were stepped."""
        while self._queues.is_ready(key):
            request = self._queues.pop(key)
            if request is None or request.request_id is None:
                return request
            try:
                request.fingerprint = fingerprint_of(request.obs)
                receipt = state.receipts.find(request.request_id, request.fingerprint)
            except KeyReusedError as error:
                _fail(request.answer, error)
                continue
            if receipt is None:
                return request
            decision = Decision(receipt.action, receipt.confidence, receipt.step)
            committed = receipt.step <= state.committed
            self._answer(request, state, decision, committed)
        return None

    def _step(self, batch: list[Request], states: list[HeldState]) -> None:
        policy = self._source.model
        if policy is None:
            raise RuntimeError("a step was asked for without a policy")
        started = time.perf_counter()
        agents = [self._agents[request.key.junction] for request in batch]
        inputs = self._encode(agents, [request.obs for request in batch])
        hidden = np.concatenate([state.hidden for state in states]).reshape(-1, HIDDEN_DIM)
        step = policy(inputs, hidden, self._unavailable[agents])
        self._settle(batch, states, agents, step)
        seconds = time.perf_counter() - started
        self.counts.batches.observe(Batch(seconds, policy, agents, inputs, step.hidden))
        if self.shadow is not None:
            keys = [request.key for request in batch]
            steps = [state.version.step for state in states]
            seen = Seen(keys, steps, agents, inputs, step.actions, step.finite)
            self.shadow.follow(seen, batch[-1].answer)
        if self.watched_steps.watched:
            runs = [request.key.run for request in batch]
            steps = [state.version.step for state in states]
            made = Made(runs, agents, steps, inputs, hidden, step, policy, self._states)
            self.watched_steps.note(made)

    def _settle(
        self, batch: list[Request], states: list[HeldState], agents: list[int], step: Step
    ) -> None:
        outcomes = zip(
            batch,
            states,
            agents,
            step.actions.tolist(),
            step.confidences.tolist(),
            step.finite.tolist(),
            step.hidden,
            strict=True,
        )
        for request, state, agent, action, confidence, finite, new_hidden in outcomes:
            if not finite:
                self._refuse_step(request, agent)
                continue
            decision = Decision(action, confidence, state.version.step + 1)
            self._leases.advance(state, new_hidden.copy(), _receipt(request, decision))
            self.counts.predictions[self._labels[agent], action] += 1
            self._answer(request, state, decision)

    def _refuse_step(self, request: Request, agent: int) -> None:
        """Leave a step that is not finite to the policy beside this one, if there is one."""
        if self.fallback is None:
            _fail(request.answer, NonFiniteStateError())
        else:
            self.counts.passed_on += 1
            self.fallback.take_over(request, Key(request.key.run, self._ids[agent]))

    def take_over(self, request: Request, key: Key) -> None:
        """Queue what another stepper has not answered."""
        request.key = key.among(self._states)
        request.timed = False  # the other one looks after states of its own only
        self._queue(request)

    def _answer(
        self, request: Request, state: HeldState, decision: Decision, committed: bool = False
    ) -> None:
        """Answer a step that was made, now or when it is committed (invariant 9)."""
        request.stepped = True
        if committed or not self._leases.answers_wait(request.key):
            request.answer.set_result(decision)
            return
        state.unanswered.append(Unanswered(decision.step, request.answer, decision))
        self._held_answers.add(request.answer)

    def _park(self, key: Key) -> None:
        """Hold a key's requests until its state is here, but none longer than its patience."""
        parked = self._queues.park(key)
        for request in parked:
            self._be_patient(request)
        # In the context of no request: Ray cancels the calls of one whose client goes, and others
        # wait for this state as well.
        acquiring = self._acquire(key, traces_of_requests(parked))
        task = self._loop.create_task(acquiring, context=contextvars.Context())
        self._acquiring.add(task)
        task.add_done_callback(self._acquiring.discard)

    def _be_patient(self, request: Request) -> None:
        if request.impatient:
            self._give_up(request)
        elif not request.timed:
            request.timed = True
            self._loop.call_later(request.patience_s, self._lose_patience, request)

    def _lose_patience(self, request: Request) -> None:
        # A step that was made waits for its commit, with a deadline of its own.
        request.impatient = True
        if not request.stepped and self._queues.is_parked(request.key):
            self._give_up(request)

    def _give_up(self, request: Request) -> None:
        if not request.answer.done():
            error = CheckoutTimeoutError()
            request.answer.set_exception(error)
            self._log.warning("out of reach", "%s", error, **request.key._asdict())

    async def _acquire(self, key: Key, traces: list[Trace]) -> None:
        try:
            with tracing.covering("wait for the hidden state", traces):
                await self._leases.acquire(key)
        except asyncio.CancelledError:  # or the key would stay parked for ever
            self._refuse(key, CheckoutTimeoutError())
            raise
        except Exception as error:  # a HiddenStateError, or a defect
            self._refuse(key, error)
            return
        self._queues.unpark(key)
        self._run()  # at once: a recall may be waiting behind the grant

    def _refuse(self, key: Key, error: Exception) -> None:
        refused = self._queues.drop(key)
        for request in refused:
            _fail(request.answer, error)
        if isinstance(error, TooManyStatesError):
            self.counts.without_place += len(refused)
            self._no_place_until = self._loop.time() + min(error.retry_after_s, NO_PLACE_S)

    @property
    def lacks_places(self) -> bool:
        """Whether new states were refused lately because as many are kept as may be."""
        return self._loop.time() < self._no_place_until

    @property
    def idle(self) -> bool:
        return not self._queues.has_any

    async def close(self) -> None:
        for task in list(self._acquiring):
            task.cancel()


def _receipt(request: Request, decision: Decision) -> Receipt | None:
    if request.request_id is None:
        return None
    action, confidence, step = decision
    return Receipt(request.request_id, request.fingerprint, step, action, confidence)


def _fail(answer: asyncio.Future[Decision], error: Exception) -> None:
    # a disconnected client has cancelled its future
    if not answer.done():
        answer.set_exception(error)
