"""The feed as a named Ray actor, and the ways to it.

It belongs to the console's replica that has created it, and dies with it: where no console is
deployed there is no feed, and replicas have nobody to tell. The actor tells where it listens;
everything else goes over connections.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from pathlib import Path
from typing import NamedTuple

import ray
from ray import serve
from ray.actor import ActorHandle

from deployments.channel import Address, Channel, Listener, connect
from deployments.feed.board import MAX_FRAME, Board, Watch
from deployments.feed.messages import Source
from deployments.feed.publisher import FeedPublisher, NoFeedError, Reporter

_LAST = 19


def give_way() -> None:
    """Let this process go last, with all the threads that it has: Linux ranks each by itself."""
    for thread in Path("/proc/self/task").iterdir():
        with contextlib.suppress(ProcessLookupError):
            os.setpriority(os.PRIO_PROCESS, int(thread.name), _LAST)


NAMESPACE = "greenwave"
NAME = "console_feed"


class Addresses(NamedTuple):
    """Where the feed listens."""

    replicas: Address
    watchers: Address


class ConsoleFeed:
    """The board in a process of its own, so that replicas need not know who watches."""

    def __init__(self) -> None:
        give_way()
        board = Board()
        self._replicas = Listener(board.serve_replica, MAX_FRAME, "reports")
        self._watchers = Listener(board.serve_watcher, MAX_FRAME, "who watches")
        self._starting = asyncio.Lock()
        self._addresses: Addresses | None = None

    async def addresses(self) -> Addresses:
        """Return where it listens, which it begins to do with the first call."""
        async with self._starting:
            if self._addresses is None:
                host = ray.util.get_node_ip_address()
                replicas = await self._replicas.start(host)
                self._addresses = Addresses(replicas, await self._watchers.start(host))
        return self._addresses


class RayFeed:
    """The feed behind an actor's handle, with which it lives."""

    def __init__(self, actor: ActorHandle) -> None:
        self._actor = actor

    async def check(self) -> None:
        """Raise what Ray does when there is no feed any more."""
        await self._actor.addresses.remote()

    async def watch(self) -> Watch:
        """Connect to the feed as who watches."""
        addresses: Addresses = await self._actor.addresses.remote()
        return Watch(await connect(addresses.watchers, MAX_FRAME))


def start_publisher(reporter: Reporter) -> FeedPublisher:
    """Start to tell the feed, as the replica that this is called in."""
    context = serve.get_replica_context()
    source = Source(context.app_name, context.deployment, context.replica_id.unique_id)
    return FeedPublisher(source, reporter, find_feed)


async def find_feed() -> Channel:
    """Connect to the feed as a replica, asking Ray for it in a thread.

    Raises:
        NoFeedError: there is none.
    """
    try:
        actor = await asyncio.to_thread(ray.get_actor, NAME, NAMESPACE)
    except ValueError as error:
        raise NoFeedError from error
    addresses: Addresses = await actor.addresses.remote()
    return await connect(addresses.replicas, MAX_FRAME)


async def create_feed() -> RayFeed:
    """Return the feed; when there is none, create one that lives as long as this process."""
    return RayFeed(await asyncio.to_thread(_create))


def _create() -> ActorHandle:
    actor: ActorHandle = (
        ray.remote(ConsoleFeed)
        .options(
            name=NAME, namespace=NAMESPACE, get_if_exists=True, num_cpus=0, max_concurrency=1000
        )
        .remote()
    )
    return actor
