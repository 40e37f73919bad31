"""All processes of a simulated cluster, and what its clients do."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import random
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from math import inf
from typing import Any

from deployments.stateful.authority.fenced_writer import LeadershipRecord
from deployments.stateful.authority.other_clusters import SILENT_LEASES
from deployments.stateful.layout import Partition
from deployments.stateful.options import StateOptions
from deployments.stateful.protocol import ClaimPart, Key, OutcomeUnknownError, StateError, Version
from deployments.stateful.replica.batcher import Batcher
from deployments.stateful.replica.queues import Request as BatchedRequest
from deployments.stateful.replica.queues import StepResult
from deployments.stateful.replica.rows import Keys, RowOutcomes, Rows
from tests.unit.stateful.models import Numbers
from tests.unit.stateful.simulation.actors import Actor
from tests.unit.stateful.simulation.history import (
    GRU,
    INITIAL,
    Fault,
    History,
    Outcome,
    Request,
    ResetCall,
    StateForm,
    Takeover,
)
from tests.unit.stateful.simulation.loop import Process, SimulatedLoop
from tests.unit.stateful.simulation.network import Network, link
from tests.unit.stateful.simulation.remote_authority import RESET
from tests.unit.stateful.simulation.replica import Replica
from tests.unit.stateful.simulation.store import Store

KEYS = [
    Key("a", "300839359"),
    Key("a", "265580972"),
    Key("b", "300839359"),
    Key("b", "265580972"),
    Key("c", "300839359"),
]


class SimulatedCluster:
    """All processes, the network, the store and Ray. Times are true ones.

    Args:
        drift: largest deviation of the clocks' rates from 1.

    Attributes:
        session: names this start of the cluster.
        machine: that all its processes run on.
        canary_runs: that the canary answers on new replicas.
        rival: another cluster with the same store, network and history.
        actors: of the layouts since this start.
        partitions: of every layout.
        notes: what Ray remembers, by session.
        slowest_message_s: longest latency so far.
        known_dead, known_ended: replicas, and processes of actors, that Ray knows to be dead.
        reached: situations, see :mod:`.coverage`.
    """

    def __init__(
        self,
        loop: SimulatedLoop,
        options: StateOptions,
        seed: int,
        drift: float = 0.0,
        latency_s: tuple[float, float] = (0.0002, 0.001),
        form: StateForm = GRU,
    ) -> None:
        self.loop = loop
        # With the time of each change.
        self._options: list[tuple[float, StateOptions]] = [(0.0, options)]
        self.random = random.Random(seed)
        self.form = form
        self.history = History()
        self._kept_keys: dict[tuple[Key, ...], Keys] = {}  # as a service keeps those of its callers
        self.network = Network(loop, self.random, latency_s)
        self.network.on_loss = self._note_loss
        self.store = Store(loop, self.random)
        self.store.on_snapshot = self._note_snapshot
        self.store.on_record = self._note_record
        self.store.on_reset = self._note_reset
        self.drift = drift
        self.session = "first"
        self.machine = "node"
        self.rival: SimulatedCluster | None = None
        self.canary_runs: frozenset[str] = frozenset()
        self.actors: dict[Partition, Actor] = {}
        self.partitions: dict[Partition, None] = {}
        self.notes: dict[str, dict[str, str]] = {}
        self.slowest_message_s = latency_s[1]
        self.replicas: list[Replica] = []
        self.known_dead: set[str] = set()
        self.known_ended: set[str] = set()
        self.reached: Counter[str] = Counter()
        self._written_at: dict[str, float] = {}  # records of partitions
        self._claimed: dict[tuple[str, int], dict[Key, int]] = {}
        self._numbers: dict[tuple[str, Key, Version], int] = {}

    # Options

    @property
    def options(self) -> StateOptions:
        """The options of new processes."""
        return self._options[-1][1]

    def change_options(self, **changes: Any) -> None:
        changed = self.options.model_copy(update=changes)
        self._options.append((self.loop.now, changed))

    def options_between(self, begin: float, end: float) -> list[StateOptions]:
        """Return what was rolled out at the beginning, and every change until the end."""
        before = [options for at, options in self._options if at <= begin]
        return [*before[-1:], *(options for at, options in self._options if begin < at <= end)]

    def options_of(self, name: str) -> StateOptions:
        """Return the options of a replica."""
        of_replicas: dict[str, StateOptions] = {each.name: each.options for each in self.replicas}
        return of_replicas.get(name, self.options)

    def are_of_one_start(self, one: str, other: str) -> bool:
        """Return whether two replicas belong to the same start of the same cluster."""
        sessions = {each.name: each.session for each in self.replicas}
        return one in sessions and sessions[one] == sessions.get(other)

    def new_process(self, name: str) -> Process:
        rate = 1 + self.random.uniform(-self.drift, self.drift)
        ahead_s, asleep_s = self.random.uniform(0, 1000), self.random.uniform(-1000, 1000)
        return Process(self.loop, name, rate, ahead_s, asleep_s)

    # Parts

    def add_replica(self) -> Replica:
        replica = Replica(self, f"replica-{len(self.replicas)}")
        self.replicas.append(replica)
        return replica

    def add_rival(self) -> SimulatedCluster:
        """Start another cluster on another machine; its replicas are among those of this one."""
        self.history.leader = self.history.leader or self.session
        self.rival = rival = copy.copy(self)
        rival.session, rival.machine, rival.actors = f"{self.session}-rival", "another", {}
        for _ in range(2):
            rival.add_replica()
        return rival

    def has_ended(self, process: str) -> bool:
        """Return whether Ray or the machine knows that a process of an actor has ended."""
        return process.startswith(self.machine) and process in self.known_ended

    def actor_of(self, partition: Partition) -> Actor:
        self.partitions[partition] = None
        if partition not in self.actors:
            self.actors[partition] = Actor(self, partition)
            self.actors[partition].start()
        return self.actors[partition]

    @property
    def present_actors(self) -> list[Actor]:
        return [actor for actor in self.actors.values() if not actor.retired]

    @property
    def serving(self) -> list[Replica]:
        return [replica for replica in self.replicas if replica.serves]

    def partitions_of(self, key: Key) -> list[Partition]:
        """Return the partitions, of every layout so far, that a key belongs to."""
        return [partition for partition in self.partitions if partition.has(key)]

    # What clients do

    def send(
        self,
        replica: Replica,
        key: Key,
        request_id: str | None = None,
        first: Sequence[Request] = (),
        cancel_after_s: float | None = None,
    ) -> Request:
        """Send one request; the history records how it ends.

        Args:
            first: earlier attempts at the same step.
        """
        loop = self.loop
        request = self._new_request(replica, key, request_id)
        if self.network.cuts and replica.name in self._cut_off:
            self.reached["a request was sent to a replica that was cut off"] += 1

        def arrive() -> None:
            if replica.closed:
                request.outcome, request.ended = Outcome.REFUSED, loop.now
                return
            batcher = replica.batcher_of(key.run)
            responds = first[0] if first else request
            response: asyncio.Future[Any]
            if request.number % 2:  # the ways of single requests and of rows meet
                response = self._ask_in_rows(batcher, [request], [responds])
            else:
                response = self._ask(batcher, request, responds)
            if cancel_after_s is not None:
                loop.call_later(cancel_after_s, response.cancel)

        loop.post(replica.process, self.network.delay(), arrive)
        return request

    def send_batch(
        self, replica: Replica, key: Key, request_ids: Sequence[str], first: Sequence[Request] = ()
    ) -> list[Request]:
        """Send one batch of steps of a state.

        Args:
            first: the earlier attempt at the same steps.
        """
        requests = [self._new_request(replica, key, each) for each in request_ids]

        def arrive() -> None:
            batcher = replica.batcher_of(key.run)
            if replica.closed:
                for each in requests:
                    each.outcome, each.ended = Outcome.REFUSED, self.loop.now
            else:
                self._ask_in_rows(batcher, requests, first or requests)

        self.loop.post(replica.process, self.network.delay(), arrive)
        return requests

    def _new_request(self, replica: Replica, key: Key, request_id: str | None) -> Request:
        requests = self.history.requests
        request = Request(len(requests) + 1, key, replica.name, self.loop.now, request_id)
        requests.append(request)
        return request

    def _ask(self, batcher: Batcher, request: Request, first: Request) -> asyncio.Future[Any]:
        """Queue a request; the history records how it ends."""
        key, response = request.key, self.loop.create_future()
        of_policy = key.in_namespace(batcher._namespace)
        asked = BatchedRequest(
            of_policy, key.entity, first.number, response, inf, request.request_id
        )
        request.key = of_policy
        batcher.enqueue(asked)

        def ended(response: asyncio.Future[StepResult]) -> None:
            if response.cancelled():
                request.ended, request.outcome = self.loop.now, Outcome.CANCELLED
            else:
                self._end(request, asked.key, response.exception() or response.result())

        response.add_done_callback(ended, context=self.loop.environment.context.copy())
        return response

    def _ask_in_rows(
        self, batcher: Batcher, requests: Sequence[Request], first: Sequence[Request]
    ) -> asyncio.Task[None]:
        """Submit rows together; the history records how each ends."""
        outcomes = RowOutcomes(len(requests))
        keys, numbers = tuple(each.key for each in requests), [each.number for each in first]
        kept = self._kept_keys.setdefault(keys, Keys(keys))
        ids = [each.request_id for each in requests]
        rows = _WatchedRows(kept, Numbers(numbers), inf, ids, [""] * len(ids))
        for request in requests:
            request.key = request.key.in_namespace(batcher._namespace)
        batcher.submit_rows(rows, range(len(ids)), outcomes)

        async def wait() -> None:
            try:
                results = await outcomes.all()
            except asyncio.CancelledError:
                outcomes.cancel()
                for request in requests:
                    request.ended, request.outcome = self.loop.now, Outcome.CANCELLED
                raise
            for row, (request, result) in enumerate(zip(requests, results, strict=True)):
                queued = rows.queued.get(row)
                self._end(request, queued.key if queued else request.key, result)

        return self.loop.create_task(wait())

    def _end(self, request: Request, key: Key, result: StepResult | BaseException) -> None:
        """Record how a request ended.

        Args:
            key: of the state, with the namespace of the policy that has answered.
        """
        request.ended = self.loop.now
        if request.key != key:
            self.reached["a canary left a step to the policy in service"] += 1
        request.key = key
        if isinstance(result, StepResult):
            (request.state,), request.step = result
            request.outcome = Outcome.RESPONDED
            return
        request.error = repr(result)
        unknown = isinstance(result, OutcomeUnknownError)
        request.outcome = Outcome.UNKNOWN if unknown else Outcome.REFUSED
        if not isinstance(result, StateError):
            self.history.defects.append(f"{request} failed with {result!r}")

    def reset(self, replica: Replica, run: str) -> ResetCall:
        call = ResetCall(run, self.loop.now)
        self.history.resets.append(call)
        self._call(replica, lambda: self._confirm(call, replica.engine.reset(run)))
        return call

    def fork(self, replica: Replica, run: str, fork: str) -> None:
        """Let a run go on from the states of another one."""

        async def work() -> None:
            copies = await replica.engine.read(run)
            states = {Key(fork, each.key.entity): each for each in copies}
            call = ResetCall(fork, self.loop.now)
            call.written = {key: self.form.number(each.state) for key, each in states.items()}
            self.history.resets.append(call)
            written = {key: (each.version.step, each.state) for key, each in states.items()}
            await self._confirm(call, replica.engine.write(fork, written))
            self.reached["a run was forked"] += bool(written) and call.done is not None

        self._call(replica, work)

    def _call(self, replica: Replica, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        async def try_it() -> None:
            with contextlib.suppress(StateError):  # it is not confirmed
                await work()

        def arrive() -> None:
            self.loop.create_task(try_it())

        self.loop.post(replica.process, self.network.delay(), arrive)

    async def _confirm(self, call: ResetCall, work: Coroutine[Any, Any, None]) -> None:
        RESET.set(call)
        await work
        call.done = self.loop.now
        call.executed = max(call.executed, call.done)

    # What the history records

    def note_arrival(self, method: str, args: Any) -> None:
        """Record that an authority has received a call."""
        if method == "commit":
            _, states, *_ = args
            for state in states.states:
                self.history.receive(self.form.number(state), self.loop.now)

    def note_call(
        self, process: str, method: str, args: Any, result: Any, reset: ResetCall | None
    ) -> None:
        """Record what an authority did in a call.

        Args:
            process: of the authority.
            reset: the one that the call belongs to.
        """
        now = self.loop.now
        if method == "commit":
            _, states, *_ = args
            for key, state in zip(states.keys, states.states, strict=True):
                if key not in result:
                    self.history.commit(self.form.number(state), now)
        elif method == "claim":
            session, part = args
            claimed = self._note_claim(process, session, part)
            for key, number in claimed.items() if part.last else ():
                if key in result.lost:
                    self.history.lose_claim(number)
                else:
                    self.history.commit(number, now)
        elif method == "checkout" and result.state is not None:
            self.history.commit(self.form.number(result.state), now)
        elif method in ("reset", "write") and reset is not None:
            reset.executed = max(reset.executed, now)

    def _note_claim(self, process: str, session: int, part: ClaimPart) -> dict[Key, int]:
        """Return the numbers of the states that a session has claimed so far."""
        if not part.last:
            self.reached["a claim in parts"] += 1
        claimed = self._claimed.setdefault((process, session), {})
        for batch in (part.owned, part.released):
            for key, version, state in zip(batch.keys, batch.versions, batch.states, strict=True):
                if len(state):
                    self._numbers[process, key, version] = self.form.number(state)
                if (process, key, version) in self._numbers:
                    claimed[key] = self._numbers[process, key, version]
                elif snapshots := self.history.snapshots.get(key):
                    claimed[key] = snapshots[-1][
                        1
                    ]  # or the authority would have requested the state
        return claimed

    def _note_snapshot(self, key: Key, state: bytes | None) -> None:
        number = INITIAL if state is None else self.form.number(state)
        self.history.snapshots.setdefault(key, []).append((self.loop.now, number))
        if self.options.commits_reach_store:
            self.history.store(number, self.loop.now)

    def _note_reset(self, run: str) -> None:
        self.history.cleared.setdefault(run, []).append(self.loop.now)

    def _note_record(self, row: str, before: bytes, after: bytes) -> None:
        """Check that no cluster succeeds another one that has shown that it is alive."""
        if not row.startswith("seat/"):
            return
        earlier, later = LeadershipRecord.unpack(before), LeadershipRecord.unpack(after)
        silent_s = self.loop.now - self._written_at.get(row, 0.0)
        is_other = earlier.session not in ("", later.session)
        ended = earlier.process in self.known_ended
        if is_other and not ended and silent_s < SILENT_LEASES * self.options.lease_s:
            text = f"{later.session} succeeded {earlier.session} after a silence of {silent_s} s"
            self.history.defects.append(text)
        self._written_at[row] = self.loop.now

    def _note_loss(self, source: str, target: str) -> None:
        fault = Fault("message lost", link(source, target), self.loop.now, self.loop.now)
        self.history.faults.append(fault)

    def note_takeover(self, partition: Partition, session: str) -> None:
        """Record that a term begins with what is in the store now."""
        if self.history.leader not in ("", session):
            self.history.restarts.append(self.loop.now)
            self.reached["a cluster succeeded another one"] += 1
        if self.history.leader:
            self.history.leader = session
        known = {
            key: [(each.name, number) for each in self.replicas for number in each.numbers_of(key)]
            for key in dict.fromkeys(request.key for request in self.history.requests)
            if partition.has(key)
        }
        rolled_back = any(each.kind == "rolled back" for each in self.history.faults)
        if rolled_back and not any(each.knows_lost_writes(partition) for each in self._connected):
            self.history.forgotten.append(self.loop.now)
        takeover = Takeover(partition.shard, partition.shards, self.loop.now, known)
        self.history.takeovers.append(takeover)

    def note_closed(self, replica: Replica) -> None:
        """Record that a replica has shut down."""
        self.known_dead.add(replica.name)
        replica.process.die()
        if not replica.has_left:
            self.reached["a replica closed without a confirmation"] += 1
            fault = Fault("closed", replica.name, self.loop.now, self.loop.now)
            self.history.faults.append(fault)

    @property
    def _connected(self) -> list[Replica]:
        return [
            each
            for each in self.serving
            if not each.process.stalled and each.name not in self._cut_off
        ]

    @property
    def _cut_off(self) -> set[str]:
        return {name for pair, n in self.network.cuts.items() if n > 0 for name in pair}


class _WatchedRows(Rows):
    """Rows that keep the requests which they become, as a fallback changes their keys."""

    queued: dict[int, BatchedRequest]

    def __init__(self, *columns: Any) -> None:
        super().__init__(*columns)
        object.__setattr__(self, "queued", {})

    def request(self, row: int, key: Key, outcomes: RowOutcomes) -> BatchedRequest:
        self.queued[row] = super().request(row, key, outcomes)
        return self.queued[row]
