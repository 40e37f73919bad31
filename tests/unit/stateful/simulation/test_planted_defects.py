"""Each kind of fault finds the defect that it is there for, in a schedule that draws it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

import pytest

from deployments.stateful import admission
from deployments.stateful.authority import leadership
from deployments.stateful.authority.fenced_writer import FencedWriter, LeadershipRecord
from deployments.stateful.layout import Partition, StateStore
from deployments.stateful.protocol import Receipt
from deployments.stateful.replica.batcher import Batcher
from deployments.stateful.replica.receipts import ReceiptCache
from tests.unit.stateful.simulation.explore import Result, run
from tests.unit.stateful.simulation.schedule import Action, Schedule
from tests.unit.stateful.simulation.times import MOST_KEYS, a_tenth_as_long, without_logs


class Planted(NamedTuple):
    """A defect.

    Attributes:
        plant: puts it into the engine.
        schedule: finds it, and violates no invariant without it.
        violation: a part of the text.
    """

    plant: Callable[[pytest.MonkeyPatch], None]
    schedule: Schedule
    violation: str


def leases_end_by_a_clock_that_stops_in_a_suspend(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def snapshots_of_an_earlier_start_stay_in_the_store(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(leadership, "snapshot_row", lambda key: "another row")


def no_cluster_waits_for_the_silence_of_another(patch: pytest.MonkeyPatch) -> None:
    async def at_once(
        store: StateStore, table: str, partition: Partition, *_: object
    ) -> LeadershipRecord:
        return LeadershipRecord.unpack(await store.get(table, partition.row) or b"")

    patch.setattr(admission, "await_silence", at_once)
    patch.setattr(leadership, "await_silence", at_once)


def a_step_that_a_canary_refuses_keeps_its_states(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Batcher, "take_over", Batcher.enqueue)


def a_state_keeps_one_key_less(patch: pytest.MonkeyPatch) -> None:
    find = ReceiptCache.find

    def forget(cache: ReceiptCache, request_id: str, fingerprint: str) -> Receipt | None:
        kept = [each.request_id for each in cache.all()]
        oldest = len(kept) == MOST_KEYS and kept[0] == request_id
        return None if oldest else find(cache, request_id, fingerprint)

    patch.setattr(ReceiptCache, "find", forget)


def a_store_that_lost_writes_is_not_found(patch: pytest.MonkeyPatch) -> None:
    async def never(*_: object) -> bool:
        return False

    patch.setattr(FencedWriter, "_is_rolled_back", never)
    patch.setattr(FencedWriter, "is_behind", lambda self, seen: False)


DEFECTS = [
    Planted(
        leases_end_by_a_clock_that_stops_in_a_suspend,
        Schedule(
            1,
            "memory",
            (
                Action(0.0, "predict", 0, 0, 0.0),
                Action(0.1, "suspend replica", 0, 0, 0.6),
                Action(0.1, "predict", 0, 1, 0.0),
                Action(0.3, "load", 0, 0, 0.0),
            ),
        ),
        "is lost",
    ),
    Planted(
        snapshots_of_an_earlier_start_stay_in_the_store,
        Schedule(
            1,
            "memory",
            (
                Action(0.0, "predict", 0, 0, 0.0),
                Action(1.2, "restart with other options", 0, 0, 0.0),  # that restores nothing
                Action(1.0, "predict", 1, 0, 0.0),
                Action(0.1, "restart with other options", 1, 0, 0.0),  # that restores
                Action(0.5, "predict", 0, 0, 0.0),
            ),
        ),
        "continues from before the restart",
    ),
    Planted(
        no_cluster_waits_for_the_silence_of_another,
        Schedule(
            1,
            "memory",
            (
                Action(0.0, "load", 0, 1, 0.0),
                Action(0.0, "second cluster", 0, 0, 0.0),
                Action(0.1, "load", 0, 4, 0.0),
            ),
        ),
        "first-rival succeeded first after a silence",
    ),
    Planted(
        a_step_that_a_canary_refuses_keeps_its_states,
        Schedule(
            1,
            "memory",
            (
                Action(0.0, "change policy", 0, 0, 0.0),
                Action(0.1, "load", 0, 0, 0.0),
            ),
        ),
        "continues from a state of another policy",
    ),
    Planted(
        a_state_keeps_one_key_less,
        Schedule(1, "memory", (Action(0.0, "batch", 1, 0, 0.1),)),
        "was stepped twice",
    ),
    Planted(
        a_store_that_lost_writes_is_not_found,
        Schedule(
            1,
            "memory",
            (
                Action(0.3, "load", 0, 1, 0.0),
                Action(0.5, "close replica", 1, 0, 0.0),
                Action(0.3, "store rolls back", 0, 0, 0.9),
                Action(0.0, "kill actor", 0, 0, 0.0),
            ),
        ),
        "has no snapshot",
    ),
]


@pytest.mark.parametrize("planted", DEFECTS, ids=lambda planted: planted.plant.__name__)
def test_a_fault_finds_its_defect(planted, monkeypatch):
    assert played(planted.schedule).violation is None
    planted.plant(monkeypatch)
    result = played(planted.schedule)
    assert planted.violation in (result.violation or ""), str(result)


def played(schedule: Schedule) -> Result:
    with a_tenth_as_long(), without_logs():
        return run(schedule)
