"""What may be lost, by "What a fault costs" in the protocol: every excuse names its fault."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise, product
from math import inf
from typing import NamedTuple

from deployments.stateful.layout import shard_of
from deployments.stateful.protocol import Key
from tests.unit.stateful.simulation.history import Fault, Made, Succession
from tests.unit.stateful.simulation.network import link
from tests.unit.stateful.simulation.ray import RAY
from tests.unit.stateful.simulation.store import DEADLINE_S, SLOWEST_S
from tests.unit.stateful.simulation.store import NAME as STORE
from tests.unit.stateful.simulation.world import KEYS, World

COPY_SLACK_S = 0.06  # the store's own time, and that of the authority's loops
SLOWEST_COMMIT_S = 0.15
HANGING_S = {"cut": DEADLINE_S, "slow": SLOWEST_S}  # for so long, a write that was sent into it
UNCONFIRMED_S = 3.0  # after which nobody, even if it was stalled, carries out a reset any more
NOTICED_S = 0.25  # for so long an authority may not know that a cut has begun or ended


class Breach(AssertionError):
    """A law was broken."""


class Lost(NamedTuple):
    """An answered step that is not part of a later one of its key, the ``witness``."""

    key: Key
    step: Made
    witness: Made


class Excuses:
    """Attributes:
    used: how often each was.
    """

    def __init__(self, world: World) -> None:
        self.used: Counter[str] = Counter()
        self._world = world
        self._history = world.history
        self._options = world.options
        self._uncommitted: list[Lost] = []

    def excuse(self, lost: Lost) -> None:
        """Find the fault, or raise Breach."""
        for excuse in (
            self._was_reset,
            self._has_expired,
            self._all_restarted,
            self._was_not_committed,
            self._both_died,
        ):
            if (name := excuse(lost)) is not None:
                self.used[name] += 1
                return
        raise Breach(f"{lost.step} of {lost.key} is lost: {lost.witness} does not continue from it")

    # What nobody wants to keep

    def _was_reset(self, lost: Lost) -> str | None:
        for reset in self._history.resets:
            if reset.run != lost.key.run or reset.sent > lost.witness.at:
                continue
            unconfirmed = max(reset.sent + UNCONFIRMED_S, reset.executed)
            latest = unconfirmed if reset.done is None else reset.done
            if latest >= lost.step.at:
                return "reset"
        return None

    def _has_expired(self, lost: Lost) -> str | None:
        """Nothing of the run was stepped for its time to live, as far as one authority can know."""
        ttl = self._options.run_ttl_s
        shards = self._history.shards_used
        mates = {
            key
            for key in KEYS
            if key.run == lost.key.run
            and all(shard_of(key, n) == shard_of(lost.key, n) for n in shards)
        }
        keys = {asked.number: asked.key for asked in self._history.asked}
        begin, end = lost.step.at, lost.witness.at
        commits = [
            state.committed_at
            for state in self._history.states
            if state.committed_at is not None and keys[state.request] in mates
        ]
        used = sorted([begin, end, *(at for at in commits if begin < at < end)])
        slack = 0.06 * ttl + SLOWEST_COMMIT_S
        gaps = [later - earlier for earlier, later in pairwise(used)]
        return "expired" if max(gaps) >= ttl - slack else None

    # Faults

    def _all_restarted(self, lost: Lost) -> str | None:
        for at in self._history.restarts:
            if not lost.step.at <= at <= lost.witness.at:
                continue
            if not self._options.restore_after_restart:
                return "everything restarted"
            if lost.step.committed_at is None:
                return (
                    None if self._options.responses_wait else "everything restarted, not committed"
                )
            if self._missing_in_store(lost, at):
                return "everything restarted, not copied"
        return None

    def _was_not_committed(self, lost: Lost) -> str | None:
        """In default mode: its replica died, or was out of touch until its lease ran out."""
        if self._options.responses_wait or lost.step.committed_at is not None:
            return None
        fault = self._fault_of_replica(lost.step.replica, lost, lost.step.at, lost.witness.at)
        fault = fault or self._fault_of_authority(lost)
        if fault is None:
            return None
        self._uncommitted.append(lost)
        return f"not committed: {fault}"

    def _fault_of_replica(self, replica: str, lost: Lost, begin: float, end: float) -> str | None:
        """Name what kept a replica from telling an authority what it knows."""
        actors = [
            f"seat/{partition.generation}/{partition.shard}"
            for partition in self._world.partitions_of(lost.key)
        ]
        links = {link(replica, actor) for actor in actors}
        since = begin - self._options.lease_s * 1.1
        faults = [fault for fault in self._history.faults if fault.overlaps(since, end)]
        for fault in faults:
            if fault.who == replica and fault.kind in ("dead", "closed"):
                return f"the replica {fault.kind}"
            if fault.who == replica and fault.kind == "stalled":
                return "the replica stalled"
            if fault.who in links and fault.kind == "cut":
                return fault.kind
            if fault.who == "network" and fault.kind == "slow":
                return "a slow network"
        n_lost = sum(f.kind == "message lost" and f.who in links for f in faults)
        return "messages lost" if n_lost > 1 else None  # a lease outlives the loss of one

    def _fault_of_authority(self, lost: Lost) -> str | None:
        """Name what kept a living authority from hearing anybody."""
        begin, end = lost.step.at, lost.witness.at
        actors = [
            f"seat/{partition.generation}/{partition.shard}"
            for partition in self._world.partitions_of(lost.key)
        ]
        for fault in self._history.faults:
            begins = begin - self._options.lease_s * 1.1
            if fault.who in actors and fault.overlaps(begins, end):
                if fault.kind == "stalled":
                    return "the authority stalled"
                if fault.kind == "two lives":
                    return "Ray led the replica to another life"
        near = [f for f in self._history.faults if f.overlaps(begin - NOTICED_S, end)]
        for actor in actors:
            stores = [f for f in near if f.who == STORE or _is_cut(f, actor, STORE)]
            rays = [f for f in near if _is_cut(f, actor, RAY)]
            for store, ray in product(stores, rays):
                if store.overlaps(ray.begin - NOTICED_S, ray.end + NOTICED_S):
                    return "the authority was isolated"
        return None

    def _both_died(self, lost: Lost) -> str | None:
        """Lose what the store did not have: authority and replica were out of order at once."""
        step, witness = lost.step, lost.witness
        if step.committed_at is None:
            return None
        for succession in self._history.successions:
            if not step.committed_at <= succession.at <= witness.at:
                continue
            if shard_of(lost.key, succession.shards) != succession.shard:
                continue
            if not self._missing_in_store(lost, succession.at):
                continue
            fault = self._silenced(lost, succession)
            if fault is not None:
                return f"the authority died, and {fault}"
        return None

    def _silenced(self, lost: Lost, succession: Succession) -> str | None:
        """Name the fault by which nobody told the next authority of a step."""
        knew = {
            replica
            for replica, number in succession.remembered[lost.key]
            if self._history.descends(number, lost.step.number)
        }
        knew.add(lost.step.replica)
        names = []
        for replica in sorted(knew):
            begin = succession.at if replica != lost.step.replica else lost.step.at
            fault = self._fault_of_replica(replica, lost, begin, lost.witness.at)
            if fault is None:
                return None
            names.append(fault)
        return names[0]

    def _missing_in_store(self, lost: Lost, at: float) -> bool:
        """Whether the store has no copy, which must not last unless the store has a fault."""
        copied = self._history.copied(lost.key, at)
        if copied and self._history.descends(copied, lost.step.number):
            return False
        since = lost.step.committed_at
        assert since is not None
        if self._options.commits_reach_store:
            raise Breach(f"{lost.step} was committed at {since}, and the store has no copy")
        if self._copy_is_late(lost.key, since, at):
            raise Breach(f"{lost.step} was committed at {since}, and has no copy at {at}")
        return True

    def _copy_is_late(self, key: Key, since: float, until: float) -> bool:
        actors = {
            f"seat/{partition.generation}/{partition.shard}"
            for partition in self._world.partitions_of(key)
        }
        store = {link(actor, STORE) for actor in actors} | {STORE}
        committed = since
        for fault in self._history.faults:
            if fault.who in store and fault.overlaps(committed - 0.3, until):
                since = max(since, fault.end + HANGING_S.get(fault.kind, 0.0))
            if fault.who in actors and fault.end >= committed:  # nobody could write from then on
                until = min(until, fault.begin)
        slack = COPY_SLACK_S + 4 * self._world.slowest_message_s
        return until - since > self._options.snapshot_period_s * 1.1 + slack

    # The bound

    def judge_bound(self) -> None:
        """Raise Breach when a replica lost steps that were answered too long after the first."""
        bound = self._options.loss_bound_s * 1.06 + 1e-6
        for lost in self._uncommitted:
            answered = self._answered_at(lost.step)
            oldest = min(each.step.at for each in self._uncommitted if self._goes_with(each, lost))
            if answered - oldest > bound:
                raise Breach(
                    f"{lost.step} was answered {answered - oldest:.4f} s after the oldest step "
                    f"that was lost with it; {lost.witness} does not continue from it"
                )

    def _goes_with(self, other: Lost, lost: Lost) -> bool:
        """Whether another step waited for its commit when a lost one was answered."""
        one, replica = other.step, lost.step.replica
        if one.replica != replica:
            return False
        shards = self._history.shards_of[replica]
        if shard_of(other.key, shards) != shard_of(lost.key, shards):
            return False
        void = (one.refused_at or inf, *self._history.sessions.get(replica, ()))
        if one is lost.step:
            return True
        return one.at <= lost.step.at and not any(one.at < at <= lost.step.at for at in void)

    def _answered_at(self, step: Made) -> float:
        return min(a.ended or 0.0 for a in self._history.asked if a.state == step.number)


def _is_cut(fault: Fault, actor: str, other: str) -> bool:
    return fault.kind == "cut" and fault.who == link(actor, other)
