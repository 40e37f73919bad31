from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from deployments.feed.board import FORGET_S, MAX_RUNS, MAX_WAITING, Board
from deployments.feed.messages import NOBODY, Demand, Said
from tests.unit.feed.connections import FakeConnection
from tests.unit.stateful.virtual_time import virtual_time


class Connected:
    """Replicas and watchers of a board, whose tasks end with the test."""

    def __init__(self) -> None:
        self.board = Board()
        self.tasks: list[asyncio.Task[None]] = []

    async def replica(self) -> FakeConnection:
        connection = FakeConnection()
        self.tasks.append(asyncio.create_task(self.board.serve_replica(connection)))
        await settle()
        return connection

    async def watcher(self, *runs: str) -> FakeConnection:
        connection = FakeConnection()
        self.tasks.append(asyncio.create_task(self.board.serve_watcher(connection)))
        await ask(connection, *runs)
        return connection


@contextmanager
def connected() -> Iterator[Connected]:
    made = Connected()
    yield made
    for task in made.tasks:
        task.cancel()


async def settle() -> None:
    await asyncio.sleep(0.01)


async def ask(watcher: FakeConnection, *runs: str) -> None:
    watcher.coming.put_nowait(json.dumps(runs).encode())
    await settle()


async def tell(replica: FakeConnection, report: bytes) -> None:
    replica.coming.put_nowait(report)
    await settle()


def said(replica: FakeConnection) -> list[Said]:
    return [Said.decode(each) for each in replica.sent]


@virtual_time
async def test_a_replica_is_told_at_once_that_nobody_watches_and_then_hears_nothing():
    with connected() as made:
        replica = await made.replica()
        await asyncio.sleep(1000)
        assert said(replica) == [Said(NOBODY, 0)]


@virtual_time
async def test_each_report_is_answered_and_all_who_watch_have_it_once():
    with connected() as made:
        replica = await made.replica()
        await tell(replica, b"to nobody")
        watchers = [await made.watcher(), await made.watcher()]
        await tell(replica, b"to both")
        assert [each.sent for each in watchers] == [[b"to both"], [b"to both"]]
        assert said(replica)[-1] == Said(Demand(True), 2)
        assert [each.taken for each in said(replica)] == [0, 1, 1, 2]


@virtual_time
async def test_replicas_are_told_what_is_asked_for_when_it_changes_and_not_again():
    with connected() as made:
        replica = await made.replica()
        first = await made.watcher("x", "y")
        await made.watcher("y", "z")
        await ask(first, "x", "y")
        demands = [each.demand for each in said(replica)]
        assert demands == [NOBODY, Demand(True, frozenset("xy")), Demand(True, frozenset("xyz"))]
        await ask(first, *(f"run-{n}" for n in range(100)))
        assert len(said(replica)[-1].demand.runs) == MAX_RUNS


@virtual_time
@pytest.mark.parametrize("silently", [False, True])
async def test_who_watches_no_more_is_forgotten_and_replicas_are_told_so(silently):
    with connected() as made:
        replica, watcher = await made.replica(), await made.watcher("x")
        if silently:
            await asyncio.sleep(FORGET_S - 0.1)
            assert said(replica)[-1].demand.watched
            await asyncio.sleep(0.2)
        else:
            watcher.coming.put_nowait(None)
            await settle()
        assert said(replica)[-1].demand == NOBODY
        await tell(replica, b"report")
        assert watcher.sent == []


@virtual_time
async def test_who_does_not_take_what_is_sent_is_disconnected_and_nobody_waits_for_it():
    with connected() as made:
        replica, stuck = await made.replica(), await made.replica()
        slow, quick = await made.watcher(), await made.watcher()
        slow.waiting = stuck.waiting = MAX_WAITING + 1
        await tell(replica, b"report")
        assert (slow.closed, slow.sent, quick.sent) == (True, [], [b"report"])
        await ask(quick, "x")
        assert stuck.closed
        assert said(replica)[-1].demand.runs == {"x"}
