"""Every excuse is for its own fault, and for no neighbouring one."""

from __future__ import annotations

import pytest

from deployments.stateful.layout import Partition
from tests.unit.stateful.simulation.forgery import (
    HERE,
    KEY,
    MATE,
    OTHER_PARTITION,
    PARTITION,
    STRANGER,
    THERE,
    Loss,
)
from tests.unit.stateful.simulation.network import link
from tests.unit.stateful.simulation.ray import RAY
from tests.unit.stateful.simulation.store import NAME as STORE

ACTOR, ELSEWHERE = PARTITION.row, OTHER_PARTITION.row
LATER = Partition(3, 0, 1)  # of a layout that followed
ISOLATED = "not committed: the authority was isolated"


def test_without_a_fault_there_is_no_excuse() -> None:
    assert Loss().excuse() is None
    assert Loss(committed=False).excuse() is None


@pytest.mark.parametrize(
    ("run", "sent", "done", "executed", "excuse"),
    [
        (KEY.run, 2.1, 2.2, 2.2, "reset"),
        (KEY.run, 1.8, 2.2, 2.2, "reset"),
        (KEY.run, 2.1, None, -1.0, "reset"),  # nobody knows
        (KEY.run, -1.5, None, -1.0, None),
        (KEY.run, -1.5, None, 2.1, "reset"),  # its message came late
        (KEY.run, 1.5, 1.6, 2.1, None),  # nobody may carry it out again
        (STRANGER.run, 2.1, 2.2, 2.2, None),
        (KEY.run, 1.5, 1.6, 1.6, None),
        (KEY.run, 3.1, 3.2, 3.2, None),
    ],
)
def test_a_reset(
    run: str, sent: float, done: float | None, executed: float, excuse: str | None
) -> None:
    loss = Loss()
    loss.reset(run, sent, done).executed = executed
    assert loss.excuse() == excuse


@pytest.mark.parametrize(("until", "excuse"), [(2.7, "expired"), (2.4, None)])
def test_a_run_expires_after_its_time_to_live(until: float, excuse: str | None) -> None:
    assert Loss(until=until, run_ttl_s=0.6).excuse() == excuse


def test_only_what_the_same_authority_keeps_of_a_run_keeps_it_from_expiring() -> None:
    for key, shards, excuse in [
        (MATE, (1, 1), None),
        (STRANGER, (1, 1), "expired"),
        (MATE, (1, 2), "expired"),
    ]:
        loss = Loss(until=2.7, run_ttl_s=0.6)
        loss.history.shards_of = dict(zip((HERE, THERE), shards, strict=True))
        loss.step(2.35, key=key)
        assert loss.excuse() == excuse
    loss = Loss(until=2.7, run_ttl_s=0.6)
    loss.step(2.35, key=MATE, committed=False)
    assert loss.excuse() == "expired"


@pytest.mark.parametrize("committed", [False, True])
@pytest.mark.parametrize(
    ("at", "excuse"), [(1.9, None), (2.5, "everything restarted"), (3.1, None)]
)
def test_a_restart_of_everything(committed: bool, at: float, excuse: str | None) -> None:
    loss = Loss(committed)
    loss.history.restarts.append(at)
    assert loss.excuse() == excuse


def test_a_restart_of_everything_that_restores_costs_what_was_not_copied() -> None:
    restores = {"restore_after_restart": True}
    loss = Loss(**restores)
    loss.history.restarts.append(2.05)
    assert loss.excuse() == "everything restarted, not copied"
    loss.copy(loss.lost, 2.04)
    assert loss.excuse() is None
    for strict, excuse in [(False, "everything restarted, not committed"), (True, None)]:
        loss = Loss(committed=False, durability="actor" if strict else "memory", **restores)
        loss.history.restarts.append(2.05)
        assert loss.excuse() == excuse


OUT_OF_TOUCH = [
    (("dead", HERE, 2.5, 2.5), "the replica dead"),
    (("closed", HERE, 2.5, 2.5), "the replica closed"),
    (("stalled", HERE, 2.1, 2.4), "the replica stalled"),
    (("stalled", HERE, 1.5, 1.9), "the replica stalled"),  # its lease had run out at the step
    (("cut", link(HERE, ACTOR), 2.1, 2.4), "cut"),
    (("slow", "network", 2.1, 2.4), "a slow network"),
    (("stalled", ACTOR, 2.1, 2.4), "the authority stalled"),
    (("two lives", ACTOR, 2.1, 2.4), "Ray led the replica to another life"),
]
NEIGHBOURS = [
    ("dead", THERE, 2.5, 2.5),
    ("closed", THERE, 2.5, 2.5),
    ("stalled", THERE, 2.1, 2.4),
    ("cut", link(THERE, ACTOR), 2.1, 2.4),
    ("cut", link(HERE, ELSEWHERE), 2.1, 2.4),
    ("cut", link(HERE, STORE), 2.1, 2.4),
    ("two lives", ELSEWHERE, 2.1, 2.4),
    ("two lives", ACTOR, 1.2, 1.7),
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


@pytest.mark.parametrize(("fault", "name"), OUT_OF_TOUCH)
def test_a_replica_out_of_touch_costs_what_was_not_committed(
    fault: tuple[str, str, float, float], name: str
) -> None:
    for committed, strict, excuse in [
        (False, False, f"not committed: {name}"),
        (True, False, None),
        (False, True, None),
    ]:
        loss = Loss(committed, durability="actor" if strict else "memory")
        loss.fault(*fault)
        assert loss.excuse() == excuse


@pytest.mark.parametrize("fault", NEIGHBOURS)
def test_a_fault_of_another_or_of_another_time_costs_nothing(
    fault: tuple[str, str, float, float],
) -> None:
    loss = Loss(committed=False)
    loss.fault(*fault)
    assert loss.excuse() is None


@pytest.mark.parametrize(
    ("who", "excuse"),
    [(link(HERE, ACTOR), "not committed: messages lost"), (link(THERE, ACTOR), None)],
)
def test_one_message_after_the_other_is_lost(who: str, excuse: str | None) -> None:
    loss = Loss(committed=False)
    for at in (2.1, 2.2):
        loss.fault("message lost", who, at, at)
    assert loss.excuse() == excuse


@pytest.mark.parametrize(
    ("store", "ray", "excuse"),
    [
        ((link(ACTOR, STORE), 2.1), (ACTOR, 2.1), ISOLATED),
        ((STORE, 2.1), (ACTOR, 2.1), ISOLATED),
        ((link(LATER.row, STORE), 2.1), (LATER.row, 2.1), ISOLATED),
        ((link(LATER.row, STORE), 2.1), (ACTOR, 2.1), None),
        ((link(ELSEWHERE, STORE), 2.1), (ACTOR, 2.1), None),
        ((link(ACTOR, STORE), 2.1), (ELSEWHERE, 2.1), None),
        ((link(ACTOR, STORE), 1.6), (ACTOR, 2.6), None),
        ((link(ACTOR, STORE), 1.0), (ACTOR, 1.8), None),
        ((link(ACTOR, STORE), 2.1), (ACTOR, 3.1), None),
    ],
)
def test_an_authority_is_isolated_without_both_the_store_and_ray(
    store: tuple[str, float], ray: tuple[str, float], excuse: str | None
) -> None:
    loss = Loss(committed=False)
    loss.world.partitions[LATER] = None
    loss.fault("cut", store[0], store[1], store[1] + 0.3)
    loss.fault("cut", link(ray[0], RAY), ray[1], ray[1] + 0.3)
    assert loss.excuse() == excuse
