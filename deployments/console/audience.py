"""The browsers that look: each gets the latest event there is, never a backlog."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from deployments.console.errors import TooManyConsolesError
from deployments.console.view import Mark, View


class Client:
    """One open console.

    Attributes:
        run: that it wants to see; None for one that drives.
        fresh: it has got nothing yet.
    """

    def __init__(self, run: str | None) -> None:
        self.run = run
        self.fresh = True
        self._event: bytes | None = None
        self._news = asyncio.Event()

    def offer(self, event: bytes) -> None:
        """Have an event for it, in place of one that it has not taken yet."""
        self._event = event
        self._news.set()

    async def next(self) -> bytes:
        """Wait for the next event."""
        await self._news.wait()
        self._news.clear()
        assert self._event is not None
        return self._event


class Audience:
    """All open consoles, and no more than may be.

    Args:
        most: that may look at once.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._clients: set[Client] = set()
        self._told = Mark()

    def __len__(self) -> int:
        return len(self._clients)

    @contextmanager
    def member(self, run: str | None) -> Iterator[Client]:
        """Be one of them.

        Raises:
            TooManyConsolesError: there is no place.
        """
        if len(self._clients) >= self._most:
            raise TooManyConsolesError(self._most)
        client = Client(run)
        self._clients.add(client)
        try:
            yield client
        finally:
            self._clients.discard(client)

    def runs(self, view: View, now: float) -> list[str]:
        """Return the runs that are looked at."""
        chosen = {client.run or view.runs.followed(now) for client in self._clients}
        return sorted(run for run in chosen if run)

    def show(self, view: View, at_ms: int, now: float) -> None:
        """Offer everyone what is new; who comes new, all that is."""
        events: dict[tuple[str | None, bool], bytes] = {}
        for client in self._clients:
            kind = (client.run, client.fresh)
            if kind not in events:
                told = Mark() if client.fresh else self._told
                events[kind] = view.event(client.run, told, at_ms, now)
            client.offer(events[kind])
            client.fresh = False
        self._told = view.mark
