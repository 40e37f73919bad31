"""Where what replicas tell meets who watches. It keeps nothing itself."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Protocol

from deployments.feed.messages import NOBODY, Demand, Report, Said

FORGET_S = 5.0
MAX_FRAME = 4 << 20
MAX_WAITING = 4 << 20
MAX_RUNS = 16


class Connection(Protocol):
    """What is used of :class:`~deployments.channel.Channel`."""

    @property
    def waiting(self) -> int: ...

    def send(self, payload: bytes) -> None: ...

    async def receive(self) -> bytes: ...

    def abort(self) -> None: ...


class Board:
    """Hands each report to all who watch, and tells replicas what those ask for.

    Nobody is waited for: whoever does not take what it is sent is disconnected.
    """

    def __init__(self) -> None:
        self._demand = NOBODY
        self._taken: dict[Connection, int] = {}  # reports, by replica
        self._wanted: dict[Connection, list[str]] = {}  # runs, by who watches

    async def serve_replica(self, replica: Connection) -> None:
        """Take reports until the connection ends, which raises; answer each."""
        self._taken[replica] = 0
        try:
            self._tell(replica)
            while True:
                report = await replica.receive()
                for watcher in self._wanted:
                    _post(watcher, report)
                self._taken[replica] += 1
                self._tell(replica)
        finally:
            del self._taken[replica]

    async def serve_watcher(self, watcher: Connection) -> None:
        """Pass on reports until the connection ends, or is silent for FORGET_S, which raises.

        What comes from there are the runs whose decisions it wants, as JSON.
        """
        try:
            while True:
                async with asyncio.timeout(FORGET_S):
                    wanted = await watcher.receive()
                self._wanted[watcher] = [str(run) for run in json.loads(wanted)]
                self._update()
        finally:
            self._wanted.pop(watcher, None)
            self._update()

    def _update(self) -> None:
        runs = [run for wanted in self._wanted.values() for run in wanted]
        demand = Demand(bool(self._wanted), frozenset(runs[:MAX_RUNS]))
        if demand != self._demand:
            self._demand = demand
            for replica in self._taken:
                self._tell(replica)

    def _tell(self, replica: Connection) -> None:
        _post(replica, Said(self._demand, self._taken[replica]).encode())


def _post(connection: Connection, payload: bytes) -> None:
    if connection.waiting > MAX_WAITING:
        connection.abort()
    else:
        connection.send(payload)


class Watch:
    """Gets every report, while it says at least every FORGET_S which runs' decisions it wants."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def ask(self, runs: Sequence[str]) -> None:
        """Want the decisions of these runs, unless the feed has not yet read what it was told."""
        if not self._connection.waiting:
            self._connection.send(json.dumps(runs).encode())

    async def next(self) -> Report:
        """Wait for the next report.

        Raises:
            OSError: the connection is lost.
        """
        return Report.decode(await self._connection.receive())

    def close(self) -> None:
        self._connection.abort()
