"""The end of the feed that is watched."""

from __future__ import annotations

import json
from collections.abc import Sequence

from deployments.feed.board import Connection
from deployments.feed.messages import Report


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
