"""What is lost when an authority and replicas die together, and what must have been copied."""

from __future__ import annotations

from typing import Any

import pytest

from deployments.stateful.layout import Partition
from tests.unit.stateful.simulation.excuses import Breach
from tests.unit.stateful.simulation.forgery import HERE, OTHER_PARTITION, PARTITION, THERE, Loss
from tests.unit.stateful.simulation.network import link
from tests.unit.stateful.simulation.store import NAME as STORE

ACTOR, ELSEWHERE = PARTITION.row, OTHER_PARTITION.row
DIED = "the authority died, and the replica dead"
SOON, LATE = 2.05, 2.5  # a copy follows a commit at 2.0 before the latter


def _replica_dies(**options: Any) -> Loss:
    loss = Loss(**options)
    loss.fault("dead", HERE, 2.02, 2.02)
    return loss


@pytest.mark.parametrize(("copied_at", "excuse"), [(None, DIED), (2.04, None), (2.06, DIED)])
def test_a_dead_replica_and_a_dead_authority_cost_what_was_not_copied(
    copied_at: float | None, excuse: str | None
) -> None:
    loss = _replica_dies()
    loss.succeed(SOON)
    if copied_at is not None:
        loss.copy(loss.lost, copied_at)
    assert loss.excuse() == excuse


def test_one_of_them_alone_costs_nothing() -> None:
    assert _replica_dies().excuse() is None
    authority_dies = Loss()
    authority_dies.succeed(SOON)
    assert authority_dies.excuse() is None


@pytest.mark.parametrize(
    ("at", "partition"), [(1.9, PARTITION), (3.1, PARTITION), (SOON, OTHER_PARTITION)]
)
def test_an_authority_that_died_at_another_time_or_elsewhere_costs_nothing(
    at: float, partition: Partition
) -> None:
    loss = _replica_dies()
    loss.succeed(at, partition=partition)
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
def test_what_another_replica_remembers_is_lost_only_when_it_is_out_of_touch_too(
    fault: tuple[str, str, float, float], excuse: str | None
) -> None:
    loss = _replica_dies()
    loss.succeed(SOON, (THERE, loss.lost))
    loss.fault(*fault)
    assert loss.excuse() == excuse


def test_a_replica_that_remembers_an_earlier_state_is_of_no_help() -> None:
    loss = _replica_dies()
    loss.succeed(SOON, (THERE, loss.kept))
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
        (("dead", ACTOR, 2.05, 2.05), False),  # nobody was left to write it
        (("down", STORE, 1.2, 1.6), True),
        (("cut", link(ELSEWHERE, STORE), 2.0, 2.5), True),
        (("dead", ELSEWHERE, 2.05, 2.05), True),
        (("dead", ACTOR, 1.9, 1.9), True),
    ],
)
def test_a_late_copy_is_a_breach_unless_nobody_could_write_it(
    restarted: bool, fault: tuple[str, str, float, float], late: bool
) -> None:
    loss = _replica_dies(restore_after_restart=restarted)
    loss.fault(*fault)
    if restarted:
        loss.history.restarts.append(LATE)
    else:
        loss.succeed(LATE)
    if late:
        with pytest.raises(Breach, match="has no copy at"):
            loss.excuse()
    else:
        assert loss.excuse() == ("everything restarted, not copied" if restarted else DIED)


def test_nobody_writes_a_copy_whose_authority_dies_while_it_is_cut_off_from_the_store() -> None:
    loss = _replica_dies()
    loss.fault("cut", link(ACTOR, STORE), 2.0, 2.05)
    loss.fault("dead", ACTOR, 2.03, 2.03)
    loss.succeed(2.9)
    assert loss.excuse() == DIED


@pytest.mark.parametrize("restarted", [False, True])
def test_what_is_durable_is_never_without_a_copy(restarted: bool) -> None:
    loss = _replica_dies(durability="store", restore_after_restart=restarted)
    loss.succeed(SOON)
    if restarted:
        loss.history.restarts.append(SOON)
    with pytest.raises(Breach, match="the store has no copy"):
        loss.excuse()
