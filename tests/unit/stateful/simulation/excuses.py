"""What a fault may cost, by "Cost of each fault" in the protocol: every excuse names its fault."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise, product
from math import inf
from typing import NamedTuple

from deployments.stateful.layout import shard_of
from deployments.stateful.protocol import Key
from tests.unit.stateful.simulation.cluster import SimulatedCluster
from tests.unit.stateful.simulation.history import Fault, ResetCall, Step, Takeover
from tests.unit.stateful.simulation.network import RAY, STORE, link, node_of
from tests.unit.stateful.simulation.store import DEADLINE_S, SLOWEST_S

SNAPSHOT_SLACK_S = 0.06  # the store's own time, and that of the authority's loops
SLOWEST_COMMIT_S = 0.15
HANGING_S = {"cut": DEADLINE_S, "slow": SLOWEST_S}  # for so long, a write that was sent into it
UNCONFIRMED_S = 3.0  # after which no process, even if it was stalled, executes a reset any more
NOTICED_S = 0.25  # for so long an authority may not know that a cut has begun or ended


class Violation(AssertionError):
    """An invariant of what clients see was violated."""


class Lost(NamedTuple):
    """An answered step that a later one of its key, the ``witness``, does not continue from."""

    key: Key
    step: Step
    witness: Step


class Excuse(NamedTuple):
    """Why a step may be lost.

    Attributes:
        name: of the kind of the cause.
        cause: a fault, a reset, or the time of something else.
    """

    name: str
    cause: Fault | ResetCall | float


class Excuses:
    """Finds the faults that excuse the loss of steps.

    Attributes:
        used: how often each excuse was.
        losses: each lost step, and its excuse.
    """

    def __init__(self, cluster: SimulatedCluster) -> None:
        self.used: Counter[str] = Counter()
        self.losses: list[tuple[Lost, Excuse]] = []
        self._cluster = cluster
        self._history = cluster.history
        self._options = cluster.options
        self._uncommitted: list[Lost] = []

    def excuse(self, lost: Lost) -> None:
        """Find the fault, or raise Violation."""
        for excuse in (
            self._was_reset,
            self._has_expired,
            self._was_rolled_back,
            self._all_restarted,
            self._was_not_committed,
            self._both_died,
        ):
            if (found := excuse(lost)) is not None:
                self.used[found.name] += 1
                self.losses.append((lost, found))
                return
        raise Violation(
            f"{lost.step} of {lost.key} is lost: {lost.witness} does not continue from it"
        )

    def _actors_of(self, key: Key) -> list[str]:
        return [node_of(partition) for partition in self._cluster.partitions_of(key)]

    # Resets and expiry

    def _was_reset(self, lost: Lost) -> Excuse | None:
        """Excuse what was made before a reset was written, if the witness was made after it."""
        for at in self._history.cleared.get(lost.key.run, ()):
            if not (lost.step.at <= at <= lost.witness.at and self._begins_anew(lost, at)):
                continue
            for reset in self._history.resets:
                unconfirmed = max(reset.sent + UNCONFIRMED_S, reset.executed)
                latest = unconfirmed if reset.done is None else reset.done
                if reset.run == lost.key.run and reset.sent <= at <= latest:
                    return Excuse("an unconfirmed reset" if reset.done is None else "reset", reset)
        return None

    def _begins_anew(self, lost: Lost, at: float) -> bool:
        """Return whether the witness continues from an initial state, or one that was written."""
        line = list(self._history.line(lost.witness.number))
        if line[-1].at >= at:
            return True
        numbers = {step.number for step in line}
        return any(
            reset.run == lost.key.run and reset.written.get(lost.key) in numbers
            for reset in self._history.resets
        )

    def _has_expired(self, lost: Lost) -> Excuse | None:
        """Excuse what one authority removes, as it saw no step of the run for its time to live."""
        begin, end = lost.step.at, lost.witness.at
        ttl_s = min(each.run_ttl_s for each in self._cluster.options_between(begin, end))
        shards = set(self._history.shards_of.values())
        junctions = {request.number: request.junction for request in self._history.requests}

        def is_mate(step: Step) -> bool:
            key = junctions[step.request].in_namespace(step.policy)
            return key.run == lost.key.run and all(
                shard_of(key, n) == shard_of(lost.key, n) for n in shards
            )

        commits = [
            step.received_at
            for step in self._history.steps
            if step.committed_at is not None and is_mate(step)
        ]
        used = sorted([begin, end, *(at for at in commits if at and begin < at < end)])
        slack_s = 0.06 * ttl_s + SLOWEST_COMMIT_S
        for earlier, later in pairwise(used):
            expired = earlier + ttl_s - slack_s
            if later >= expired and self._begins_anew(lost, expired):
                return Excuse("expired", earlier)
        return None

    # Faults

    def is_void_after_pause(self, key: Key, step: Step) -> bool:
        """Return whether a replica made a step with a lease that had expired without its clocks.

        No code can notice that at once. But its commit is refused, and then the replica knows.
        """
        waits = self._cluster.options_of(step.replica).responses_wait
        if waits or step.committed_at is not None:
            return False
        longest_s = self._options.lease_s * 1.1
        for fault in self._history.faults:
            its_own = fault.kind == "paused" and fault.target == step.replica
            if its_own and fault.end <= step.at <= fault.end + longest_s:
                self.used["void: the replica was paused, and so were its clocks"] += 1
                self._uncommitted.append(Lost(key, step, step))
                return True
        return False

    def _all_restarted(self, lost: Lost) -> Excuse | None:
        for at in self._history.restarts:
            if not lost.step.at <= at <= lost.witness.at:
                continue
            (options,) = self._cluster.options_between(at, at)
            if not options.restores:
                root = self._history.step(lost.witness.root)
                came_back = self._cluster.are_of_one_start(root.replica, lost.witness.replica)
                if came_back or self._begins_anew(lost, at):
                    return Excuse("everything restarted", at)
                continue
            if lost.step.committed_at is None:
                waits = self._cluster.options_of(lost.step.replica).responses_wait
                return None if waits else Excuse("everything restarted, not committed", at)
            was_committed = lost.step.committed_at <= at  # otherwise, its write arrived later
            if was_committed and self._missing_in_store(lost, at):
                return Excuse("everything restarted, not in the store", at)
        return None

    def _was_rolled_back(self, lost: Lost) -> Excuse | None:
        """Excuse what an operator gave up, or what no living process knew any more.

        A step that was void when it was made may count after that: a replica that was paused has
        claimed it, and the authority knows no later one.
        """
        committed_at = [each.committed_at or 0.0 for each in (lost.step, lost.witness)]
        counts_at = max(lost.witness.at, *committed_at)
        for at in self._history.accepted:
            if lost.step.at <= at <= counts_at:
                return Excuse("the store was rolled back, and accepted", at)
        for at in self._history.forgotten:
            if lost.step.at <= at <= counts_at:
                return Excuse("the store was rolled back, and no process remembered", at)
        return None

    def _was_not_committed(self, lost: Lost) -> Excuse | None:
        """Excuse an uncommitted step of a replica that died, or that could not keep its lease."""
        waits = self._cluster.options_of(lost.step.replica).responses_wait
        if waits or lost.step.committed_at is not None:
            return None
        fault = self._fault_of_replica(lost.step.replica, lost, lost.step.at, lost.witness.at)
        fault = fault or self._fault_of_authority(lost)
        if fault is None:
            return None
        self._uncommitted.append(lost)
        return Excuse(f"not committed: {fault.name}", fault.cause)

    def _fault_of_replica(
        self, replica: str, lost: Lost, begin: float, end: float
    ) -> Excuse | None:
        """Name what kept a replica from reporting to an authority what it knows."""
        links = {link(replica, actor) for actor in self._actors_of(lost.key)}
        since = begin - self._options.lease_s * 1.1
        faults = [fault for fault in self._history.faults if fault.overlaps(since, end)]
        for fault in faults:
            ended = fault.kind in ("dead", "closed")
            if fault.target == replica and (ended or fault.is_standstill):
                return Excuse(f"the replica {fault.kind}", fault)
            if fault.target in links and fault.kind == "cut":
                return Excuse(fault.kind, fault)
            if fault.target == "network" and fault.kind == "slow":
                return Excuse("a slow network", fault)
        losses = [each for each in faults if each.kind == "message lost" and each.target in links]
        # A lease outlives the loss of one.
        return Excuse("messages lost", losses[-1]) if len(losses) > 1 else None

    def _fault_of_authority(self, lost: Lost) -> Excuse | None:
        """Name what kept a living authority from receiving calls."""
        begin, end = lost.step.at, lost.witness.at
        actors = self._actors_of(lost.key)
        for fault in self._history.faults:
            if fault.target in actors and fault.overlaps(begin - self._options.lease_s * 1.1, end):
                if fault.is_standstill:
                    return Excuse(f"the authority {fault.kind}", fault)
                if fault.kind == "two processes":
                    return Excuse("Ray led the replica to another process", fault)
        near = [each for each in self._history.faults if each.overlaps(begin - NOTICED_S, end)]
        for actor in actors:
            stores = [each for each in near if each.target == STORE or _is_cut(each, actor, STORE)]
            rays = [each for each in near if _is_cut(each, actor, RAY)]
            for store, ray in product(stores, rays):
                if store.overlaps(ray.begin - NOTICED_S, ray.end + NOTICED_S):
                    return Excuse("the authority was isolated", store)
        return None

    def _both_died(self, lost: Lost) -> Excuse | None:
        """Excuse what was not in the store when the authority and its replicas failed at once."""
        step, witness = lost.step, lost.witness
        if step.committed_at is None:
            return None
        for takeover in self._history.takeovers:
            if not step.committed_at <= takeover.at <= witness.at:
                continue
            if shard_of(lost.key, takeover.shards) != takeover.shard:
                continue
            if not self._missing_in_store(lost, takeover.at):
                continue
            fault = self._unreported(lost, takeover)
            if fault is not None:
                return Excuse(f"the authority died, and {fault.name}", fault.cause)
        return None

    def _unreported(self, lost: Lost, takeover: Takeover) -> Excuse | None:
        """Name the fault by which no replica reported a step to the next term."""
        knew = {
            replica
            for replica, number in takeover.known[lost.key]
            if self._history.descends(number, lost.step.number)
        }
        knew.add(lost.step.replica)
        found = []
        for replica in sorted(knew):
            begin = takeover.at if replica != lost.step.replica else lost.step.at
            fault = self._fault_of_replica(replica, lost, begin, lost.witness.at)
            if fault is None:
                return None
            found.append(fault)
        return found[0]

    def _missing_in_store(self, lost: Lost, at: float) -> bool:
        """Return whether the store has no snapshot, which lasts only while the store has a fault.

        Raises:
            Violation: it lasted longer.
        """
        snapshot = self._history.snapshot_at(lost.key, at)
        if snapshot and self._history.descends(snapshot, lost.step.number):
            return False
        since = lost.step.committed_at
        assert since is not None
        if self._cluster.options_of(lost.step.replica).commits_reach_store:
            raise Violation(f"{lost.step} was committed at {since} without a snapshot")
        period_s = self._cluster.options_of(lost.step.replica).snapshot_period_s
        if self._snapshot_is_late(lost.key, since, at, period_s):
            raise Violation(f"{lost.step} was committed at {since}, and has no snapshot at {at}")
        return True

    def _snapshot_is_late(self, key: Key, since: float, until: float, period_s: float) -> bool:
        actors = set(self._actors_of(key))
        store = {link(actor, STORE) for actor in actors} | {STORE}
        committed = since
        for fault in self._history.faults:
            is_outage = fault.target in store and fault.kind != "rolled back"
            if is_outage and fault.overlaps(committed - 0.3, until):
                since = max(since, fault.end + HANGING_S.get(fault.kind, 0.0))
            if fault.target in actors and fault.end >= committed:  # no process could write it then
                until = min(until, fault.begin)
        slack_s = SNAPSHOT_SLACK_S + 4 * self._cluster.slowest_message_s
        return until - since > period_s * 1.1 + slack_s

    # The bound

    def judge_bound(self) -> None:
        """Raise Violation if a lost step was answered too long after the first one lost with it."""
        bound_s = self._options.loss_bound_s * 1.06 + 1e-6
        for lost in self._uncommitted:
            responded = self._responded_at(lost.step)
            oldest = min(each.step.at for each in self._uncommitted if self._goes_with(each, lost))
            waited_s = responded - oldest - self._paused_s(lost.step.replica, oldest, responded)
            if waited_s > bound_s:
                raise Violation(
                    f"{lost.step} was answered {waited_s:.4f} s after the oldest step "
                    f"that was lost with it; {lost.witness} does not continue from it"
                )

    def _paused_s(self, replica: str, begin: float, end: float) -> float:
        """Return for how long no clock of a replica went on."""
        return sum(
            min(fault.end, end) - max(fault.begin, begin)
            for fault in self._history.faults
            if fault.kind == "paused" and fault.target == replica and fault.overlaps(begin, end)
        )

    def _goes_with(self, other: Lost, lost: Lost) -> bool:
        """Return whether another step waited for its commit when a lost one was answered."""
        step, replica = other.step, lost.step.replica
        if step is lost.step:
            return True
        if step.replica != replica or step.at > lost.step.at:
            return False
        shards = self._history.shards_of[replica]
        if shard_of(other.key, shards) != shard_of(lost.key, shards):
            return False
        void = (step.refused_at or inf, *self._history.sessions.get(replica, ()))
        return not any(step.at < at <= lost.step.at for at in void)

    def _responded_at(self, step: Step) -> float:
        return min(
            each.ended or 0.0 for each in self._history.requests if each.state == step.number
        )


def _is_cut(fault: Fault, actor: str, other: str) -> bool:
    return fault.kind == "cut" and fault.target == link(actor, other)
