"""Every excuse is for its own fault, and not for a similar one."""

from __future__ import annotations

from typing import Any

import pytest

from deployments.stateful.layout import Partition
from tests.unit.stateful.simulation.excuses import Violation
from tests.unit.stateful.simulation.handmade import (
    HERE,
    KEY,
    MATE,
    OTHER_PARTITION,
    PARTITION,
    STRANGER,
    THERE,
    Loss,
)
from tests.unit.stateful.simulation.network import RAY, STORE, link, node_of

ACTOR, ELSEWHERE = node_of(PARTITION), node_of(OTHER_PARTITION)
LATER = Partition(3, 0, 1)  # of a layout that followed
ISOLATED = "not committed: the authority was isolated"
NOT_IN_STORE = "everything restarted, not in the store"
DIED = "the authority died, and the replica dead"
SOON, LATE = 2.05, 2.5  # a snapshot follows a commit at 2.0 before the latter

FaultAt = tuple[str, str, float, float]


def test_without_a_fault_there_is_no_excuse():
    assert Loss().excuse() is None
    assert Loss(committed=False).excuse() is None


@pytest.mark.parametrize(
    ("run", "sent", "done", "executed", "excuse"),
    [
        (KEY.run, 2.1, 2.2, 2.2, "reset"),
        (KEY.run, 1.8, 2.2, 2.2, "reset"),
        (KEY.run, 2.1, None, 2.2, "an unconfirmed reset"),
        (KEY.run, -1.5, None, 2.1, "an unconfirmed reset"),  # its message came late
        (KEY.run, 1.5, None, 1.9, None),  # it was made before the step
        (KEY.run, 2.1, None, -1.0, None),  # it was never written
        (KEY.run, 1.5, 1.6, 2.1, None),  # it must not be executed again
        (STRANGER.run, 2.1, 2.2, 2.2, None),
        (KEY.run, 1.5, 1.6, 1.6, None),
        (KEY.run, 3.1, 3.2, 3.2, None),
    ],
)
def test_a_reset(run, sent, done, executed, excuse):
    loss = Loss(anew=True)
    loss.reset(run, sent, done).executed = executed
    if done is None and executed > 0:
        loss.history.cleared[run] = [executed]
    assert loss.excuse() == excuse


def test_a_reset_does_not_explain_that_an_earlier_step_goes_on():
    loss = Loss()
    loss.reset(KEY.run, 2.1, 2.2)
    assert loss.excuse() is None


def test_a_reset_explains_that_a_step_goes_on_from_what_a_client_has_written():
    loss = Loss()
    loss.reset(KEY.run, 2.1, 2.2).written = {KEY: loss.kept.number}
    assert loss.excuse() == "reset"


@pytest.mark.parametrize(("until", "excuse"), [(2.7, "expired"), (2.4, None)])
def test_the_expiry_of_an_idle_run(until, excuse):
    assert Loss(until=until, anew=True, run_ttl_s=0.6).excuse() == excuse
    assert Loss(until=until, run_ttl_s=0.6).excuse() is None  # an earlier step goes on


@pytest.mark.parametrize(
    ("key", "shards", "committed", "excuse"),
    [
        (MATE, (1, 1), True, None),
        (STRANGER, (1, 1), True, "expired"),
        (MATE, (1, 2), True, "expired"),  # one authority does not see it
        (MATE, (1, 1), False, "expired"),
    ],
)
def test_a_commit_of_the_run_to_the_same_authority_prevents_its_expiry(
    key, shards, committed, excuse
):
    loss = Loss(until=2.7, anew=True, run_ttl_s=0.6)
    loss.history.shards_of = dict(zip((HERE, THERE), shards, strict=True))
    loss.step(2.35, key=key, committed=committed)
    assert loss.excuse() == excuse


@pytest.mark.parametrize(("shards", "excuse"), [(1, None), (2, "expired")])
def test_a_commit_of_another_policy_goes_to_the_authority_of_its_states(shards, excuse):
    """Although the policy in service has answered the request in the end."""
    loss = Loss(until=2.7, anew=True, run_ttl_s=0.6)
    loss.history.shards_of = dict.fromkeys((HERE, THERE), shards)
    loss.step(2.35).policy = "canary"
    assert loss.excuse() == excuse


@pytest.mark.parametrize(
    ("moments", "name"), [("accepted", "accepted"), ("forgotten", "no process remembered")]
)
@pytest.mark.parametrize(
    ("at", "committed_at", "excused"),
    [
        (1.9, (2.0, 3.0), False),
        (2.5, (2.0, 3.0), True),
        (3.1, (2.0, 3.0), False),
        (3.1, (2.0, 3.2), True),  # the later step was void until then
        (3.1, (3.2, 3.0), True),  # the earlier one was
    ],
)
def test_a_rollback_of_the_store(moments, name, at, committed_at, excused):
    loss = Loss()
    loss.lost.committed_at, loss.witness.committed_at = committed_at
    getattr(loss.history, moments).append(at)
    assert loss.excuse() == (f"the store was rolled back, and {name}" if excused else None)


@pytest.mark.parametrize("committed", [False, True])
@pytest.mark.parametrize(
    ("at", "excuse"), [(1.9, None), (2.5, "everything restarted"), (3.1, None)]
)
def test_a_restart_of_everything(committed, at, excuse):
    loss = Loss(committed, anew=True)
    loss.history.restarts.append(at)
    assert loss.excuse() == excuse


@pytest.mark.parametrize(
    ("durability", "committed", "in_store", "excuse"),
    [
        ("memory", True, False, NOT_IN_STORE),
        ("memory", True, True, None),
        ("memory", False, False, "everything restarted, not committed"),
        ("actor", False, False, None),
    ],
)
def test_a_restart_that_restores_costs_only_what_was_not_in_the_store(
    durability, committed, in_store, excuse
):
    loss = Loss(committed, durability=durability, restore_after_restart=True)
    loss.history.restarts.append(2.05)
    if in_store:
        loss.write_snapshot(loss.lost, 2.04)
    assert loss.excuse() == excuse


def test_a_write_that_reaches_the_store_after_a_restart_is_not_lost_by_it():
    loss = Loss(durability="store", restore_after_restart=True)
    loss.history.restarts.append(2.05)
    loss.lost.committed_at = 2.06
    loss.write_snapshot(loss.lost, 2.06)
    assert loss.excuse() is None


# Uncommitted steps

NAMED = [
    (("dead", HERE, 2.5, 2.5), "the replica dead"),
    (("closed", HERE, 2.5, 2.5), "the replica closed"),
    (("stalled", HERE, 2.1, 2.4), "the replica stalled"),
    (("stalled", HERE, 1.5, 1.9), "the replica stalled"),  # its lease had expired at the step
    (("cut", link(HERE, ACTOR), 2.1, 2.4), "cut"),
    (("slow", "network", 2.1, 2.4), "a slow network"),
    (("stalled", ACTOR, 2.1, 2.4), "the authority stalled"),
    (("two processes", ACTOR, 2.1, 2.4), "Ray led the replica to another process"),
]
SIMILAR = [
    ("dead", THERE, 2.5, 2.5),
    ("closed", THERE, 2.5, 2.5),
    ("stalled", THERE, 2.1, 2.4),
    ("cut", link(THERE, ACTOR), 2.1, 2.4),
    ("cut", link(HERE, ELSEWHERE), 2.1, 2.4),
    ("cut", link(HERE, STORE), 2.1, 2.4),
    ("two processes", ELSEWHERE, 2.1, 2.4),
    ("two processes", ACTOR, 1.2, 1.7),
    ("stalled", HERE, 1.2, 1.7),
    ("stalled", HERE, 3.1, 3.4),
    ("dead", HERE, 3.1, 3.1),
    ("cut", link(HERE, ACTOR), 1.2, 1.7),
    ("slow", "network", 1.2, 1.7),
    ("message lost", link(HERE, ACTOR), 2.1, 2.1),
    ("repeats", "network", 2.1, 2.4),
    ("slow", STORE, 2.1, 2.4),
    ("dead", ACTOR, 2.5, 2.5),
    ("stalled", ELSEWHERE, 2.1, 2.4),
    ("stalled", ACTOR, 1.2, 1.7),
    ("stalled", ACTOR, 3.1, 3.4),
    ("cut", link(ACTOR, STORE), 2.1, 2.4),
    ("cut", link(ACTOR, RAY), 2.1, 2.4),
]


@pytest.mark.parametrize(("fault", "name"), NAMED)
@pytest.mark.parametrize(
    ("committed", "durability", "excused"),
    [(False, "memory", True), (True, "memory", False), (False, "actor", False)],
)
def test_a_fault_of_the_replica_or_its_authority_costs_what_was_not_committed(
    fault, name, committed, durability, excused
):
    loss = Loss(committed, durability=durability)
    loss.fault(*fault)
    assert loss.excuse() == (f"not committed: {name}" if excused else None)


@pytest.mark.parametrize("fault", SIMILAR)
def test_a_fault_of_another_process_or_at_another_time_costs_nothing(fault):
    loss = Loss(committed=False)
    loss.fault(*fault)
    assert loss.excuse() is None


@pytest.mark.parametrize(
    ("target", "excuse"),
    [(link(HERE, ACTOR), "not committed: messages lost"), (link(THERE, ACTOR), None)],
)
def test_two_lost_messages(target, excuse):
    loss = Loss(committed=False)
    for at in (2.1, 2.2):
        loss.fault("message lost", target, at, at)
    assert loss.excuse() == excuse


@pytest.mark.parametrize(
    ("store", "ray", "excuse"),
    [
        ((link(ACTOR, STORE), 2.1), (ACTOR, 2.1), ISOLATED),
        ((STORE, 2.1), (ACTOR, 2.1), ISOLATED),
        ((link(node_of(LATER), STORE), 2.1), (node_of(LATER), 2.1), ISOLATED),
        ((link(node_of(LATER), STORE), 2.1), (ACTOR, 2.1), None),
        ((link(ELSEWHERE, STORE), 2.1), (ACTOR, 2.1), None),
        ((link(ACTOR, STORE), 2.1), (ELSEWHERE, 2.1), None),
        ((link(ACTOR, STORE), 1.6), (ACTOR, 2.6), None),
        ((link(ACTOR, STORE), 1.0), (ACTOR, 1.8), None),
        ((link(ACTOR, STORE), 2.1), (ACTOR, 3.1), None),
    ],
)
def test_an_authority_is_isolated_without_both_the_store_and_ray(store, ray, excuse):
    loss = Loss(committed=False)
    loss.cluster.partitions[LATER] = None
    loss.fault("cut", store[0], store[1], store[1] + 0.3)
    loss.fault("cut", link(ray[0], RAY), ray[1], ray[1] + 0.3)
    assert loss.excuse() == excuse


# Authority and replica together


def _replica_dies(**options: Any) -> Loss:
    loss = Loss(**options)
    loss.fault("dead", HERE, 2.02, 2.02)
    return loss


@pytest.mark.parametrize(("written_at", "excuse"), [(None, DIED), (2.04, None), (2.06, DIED)])
def test_a_dead_replica_and_a_dead_authority_cost_what_was_not_in_the_store(written_at, excuse):
    loss = _replica_dies()
    loss.take_over(SOON)
    if written_at is not None:
        loss.write_snapshot(loss.lost, written_at)
    assert loss.excuse() == excuse


def test_one_of_them_alone_costs_nothing():
    assert _replica_dies().excuse() is None
    authority_dies = Loss()
    authority_dies.take_over(SOON)
    assert authority_dies.excuse() is None


@pytest.mark.parametrize(
    ("at", "partition"), [(1.9, PARTITION), (3.1, PARTITION), (SOON, OTHER_PARTITION)]
)
def test_a_takeover_at_another_time_or_of_another_partition_costs_nothing(at, partition):
    loss = _replica_dies()
    loss.take_over(at, partition=partition)
    assert loss.excuse() is None


@pytest.mark.parametrize(
    ("fault", "excuse"),
    [
        (("dead", THERE, 3.1, 3.1), None),
        (("cut", link(THERE, ELSEWHERE), 2.04, 2.4), None),
        (("cut", link(THERE, ACTOR), 1.2, 1.7), None),
        (("cut", link(THERE, ACTOR), 2.04, 2.4), DIED),
        (("dead", THERE, 2.2, 2.2), DIED),
    ],
)
def test_what_another_replica_holds_is_lost_only_with_a_fault_of_that_replica_too(fault, excuse):
    loss = _replica_dies()
    loss.take_over(SOON, (THERE, loss.lost))
    loss.fault(*fault)
    assert loss.excuse() == excuse


def test_a_replica_that_holds_an_earlier_state_does_not_help():
    loss = _replica_dies()
    loss.take_over(SOON, (THERE, loss.kept))
    assert loss.excuse() == DIED


@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize(
    ("fault", "late"),
    [
        (("repeats", "network", 2.0, 2.5), True),
        (("down", STORE, 2.0, 2.5), False),
        (("cut", link(ACTOR, STORE), 2.0, 2.5), False),
        (("down", STORE, 2.0, 2.4), False),
        (("down", STORE, 2.0, 2.2), True),
        (("down", STORE, 2.0, 2.05), True),
        (("cut", link(ACTOR, STORE), 2.0, 2.05), False),  # the write that hung is sent again
        (("cut", link(ACTOR, STORE), 1.8, 1.9), True),
        (("slow", STORE, 2.0, 2.15), False),  # the write that was sent last takes its time
        (("slow", STORE, 2.0, 2.02), True),
        (("dead", ACTOR, 2.05, 2.05), False),  # no process was left to write it
        (("down", STORE, 1.2, 1.6), True),
        (("cut", link(ELSEWHERE, STORE), 2.0, 2.5), True),
        (("dead", ELSEWHERE, 2.05, 2.05), True),
        (("dead", ACTOR, 1.9, 1.9), True),
    ],
)
def test_a_late_snapshot_is_a_violation_unless_it_could_not_be_written(restarted, fault, late):
    loss = _replica_dies(restore_after_restart=restarted)
    loss.fault(*fault)
    if restarted:
        loss.history.restarts.append(LATE)
    else:
        loss.take_over(LATE)
    if late:
        with pytest.raises(Violation, match="has no snapshot at"):
            loss.excuse()
    else:
        assert loss.excuse() == (NOT_IN_STORE if restarted else DIED)


def test_an_authority_that_dies_while_it_is_cut_off_from_the_store_writes_nothing():
    loss = _replica_dies()
    loss.fault("cut", link(ACTOR, STORE), 2.0, 2.05)
    loss.fault("dead", ACTOR, 2.03, 2.03)
    loss.take_over(2.9)
    assert loss.excuse() == DIED


@pytest.mark.parametrize("durability", ["store_async", "store"])
@pytest.mark.parametrize("restarted", [False, True])
def test_where_commits_reach_the_store_none_is_without_a_snapshot(durability, restarted):
    loss = _replica_dies(durability=durability, restore_after_restart=restarted)
    loss.take_over(SOON)
    if restarted:
        loss.history.restarts.append(SOON)
    with pytest.raises(Violation, match="without a snapshot"):
        loss.excuse()
