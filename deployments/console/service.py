"""The console without HTTP and Ray: watches the feed while a browser is open."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol

from starlette.types import Scope

from deployments.access.control import AccessControl
from deployments.aio import PeriodicTask
from deployments.console.replicas import Replica
from deployments.console.stream import Audience, Client
from deployments.console.view import View
from deployments.console.what_if import WhatIf
from deployments.feed.messages import Report
from deployments.feed.publisher import NoFeedError
from deployments.http.errors import RefusedError
from deployments.http.messages import now_ms
from deployments.http.probes import Check
from models.maps.road_map import road_map_of
from models.networks.network import Network
from models.networks.shipped import SHIPPED

PAUSE_S = 0.1  # between two calls of the feed
EVENT_PERIOD_S = 0.3
IDLE_EVENT_PERIOD_S = 1.0  # where there is no news; the edge ends what is silent for 8 s
REPLICAS_S = 5.0  # the answer costs Serve's controller some milliseconds
LINGER_S = 5.0
MAX_CLIENTS = 100  # each takes some 0.03 % of a core
_DEADLINE_S = 5.0


class WatchedFeed(Protocol):
    async def check(self) -> None: ...

    async def collect(self, watcher: str, runs: Sequence[str]) -> list[Report]: ...


class ConsoleService:
    """Watches while a console is open, and for LINGER_S longer: a reloaded page returns.

    Args:
        access: of the gateway's users; None without a login.
        open_feed: returns the feed, and creates it if necessary.
        read_replicas: asks Serve for its replicas.
        network: that is shown.
        max_clients: consoles that may be open at once.
    """

    def __init__(
        self,
        access: AccessControl | None,
        open_feed: Callable[[], Awaitable[WatchedFeed]],
        read_replicas: Callable[[], Awaitable[list[Replica]]],
        network: Network = SHIPPED,
        max_clients: int = MAX_CLIENTS,
    ) -> None:
        if network.file is None:
            raise ValueError(f"the network {network.name} was read without what is drawn of it")
        self.road_map = road_map_of(network.file)
        self.view = View({junction.id for junction in self.road_map.junctions})
        self.audience = Audience(max_clients)
        self._access = access
        self._open_feed = open_feed
        self._read_replicas = read_replicas
        self._what_if = WhatIf(network)
        self._feed: WatchedFeed | None = None
        self._name = uuid.uuid4().hex  # to the feed
        self._news = asyncio.Event()
        self._watching: list[PeriodicTask] = []
        self._last_open = 0.0

    async def hold_feed(self) -> WatchedFeed:
        """Open the feed unless it runs, and hold it: it lives as long as its creator's handle."""
        if self._feed is not None:
            with contextlib.suppress(NoFeedError):
                await self._feed.check()
                return self._feed  # another handle would not keep it alive
        self._feed = await self._open_feed()
        return self._feed

    @staticmethod
    def _now() -> float:
        return asyncio.get_running_loop().time()

    def authenticate(self, request: Scope) -> None:
        """Check the token of a request, unless the console has no login.

        Raises:
            UnauthorizedError: there is no token, or it is not valid now.
            ForbiddenError: it lacks the scope ``read``.
        """
        if self._access is not None:
            self._access.authenticate(request, "read", "console: ")

    async def next_event(self, client: Client) -> bytes:
        """Wait for a client's next event."""
        self._watch()
        if client.fresh:
            self._news.set()
        return await client.events.get()

    async def what_if(self, run: str, junction: str, lane: int, step: int = 0) -> dict[str, Any]:
        """Return the policy's decision at a step (0: its latest) over the length of one queue.

        Raises:
            RefusedError: no decision is known, the junction has no such lane, or the policy that
                has decided is not available any more.
        """
        decision = self.view.runs.latest(run, junction, step)
        if decision is None:
            why = "No decision of the policy is known for this junction and run"
            raise RefusedError(why, 404)
        return await self._what_if.curve(decision, lane)

    @property
    def checks(self) -> dict[str, Check]:
        """What the console needs to be ready, by the names in ``/readyz``."""
        return {"feed": Check(self._check_feed, "The feed of reports does not answer.")}

    async def _check_feed(self) -> None:
        """Check the feed, after opening another if it has died."""
        await (await self.hold_feed()).check()

    def _watch(self) -> None:
        """Start the tasks that watch, unless they run."""
        self._last_open = self._now()
        if not self._watching:
            self._watching = [
                PeriodicTask("The console's feed", self._follow_feed, PAUSE_S),
                PeriodicTask("The list of replicas", self._follow_replicas, EVENT_PERIOD_S),
                # news in the pause is shown together
                PeriodicTask("The console's stream", self._show, EVENT_PERIOD_S),
            ]

    async def _follow_feed(self) -> None:
        feed = self._feed or await self.hold_feed()
        runs = self.audience.runs(self.view, self._now())
        try:
            async with asyncio.timeout(_DEADLINE_S):
                reports = await feed.collect(self._name, runs)
        except NoFeedError:
            await self.hold_feed()
            raise
        for report in reports:
            self.view.add(report, self._now())
        if reports:
            self._news.set()

    async def _follow_replicas(self) -> None:
        async with asyncio.timeout(_DEADLINE_S):
            self.view.replicas.update(await self._read_replicas(), self._now())
        await asyncio.sleep(REPLICAS_S)

    async def _show(self) -> None:
        now = self._now()
        if len(self.audience):
            self._last_open = now
        elif now - self._last_open >= LINGER_S:
            await self.close()
            return
        self.audience.show(self.view, now_ms(), now)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(IDLE_EVENT_PERIOD_S - EVENT_PERIOD_S):
                await self._news.wait()
        self._news.clear()

    async def close(self) -> None:
        """Stop watching."""
        for task in self._watching:
            task.stop()
        self._watching = []
