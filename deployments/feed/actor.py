"""The feed as a named Ray actor.

It belongs to the console's replica that created it, and ends with it. Without a console there is no
feed, and replicas report nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Awaitable, Sequence
from pathlib import Path
from typing import TypeVar

import ray
from ray import serve
from ray.actor import ActorHandle
from ray.exceptions import RayActorError

from deployments.aio import PeriodicTask
from deployments.feed.hub import Hub
from deployments.feed.messages import Demand, Report, Source
from deployments.feed.publisher import PERIOD_S, NoFeedError, Publisher, Reporter

NAMESPACE = "greenwave"
NAME = "console_feed"
MAX_REPLICAS = 1000  # each has one call under way
_LOWEST_PRIORITY = 19

T = TypeVar("T")


class ConsoleFeed(Hub):
    """The hub as an actor."""

    def __init__(self) -> None:
        lower_priority()
        super().__init__()


class FeedHandle:
    """The feed behind an actor's handle, with which it lives.

    Every call raises NoFeedError when the actor has died.
    """

    def __init__(self, actor: ActorHandle) -> None:
        self._actor = actor

    async def report(self, report: Report) -> Demand:
        return await _answer(self._actor.report.remote(report))

    async def listen(self, known: Demand) -> Demand:
        return await _answer(self._actor.listen.remote(known))

    async def collect(self, watcher: str, runs: Sequence[str]) -> list[Report]:
        return await _answer(self._actor.collect.remote(watcher, runs))

    async def check(self) -> None:
        """Raise an error when the feed does not run."""
        await _answer(self._actor.__ray_ready__.remote())


async def _answer(call: Awaitable[T]) -> T:
    try:
        return await call
    except RayActorError as error:
        raise NoFeedError("the feed's actor has died") from error


def start_publisher(reporter: Reporter) -> PeriodicTask:
    """Report to the feed from now on, as the replica that this is called in."""
    context = serve.get_replica_context()
    source = Source(context.app_name, context.deployment, context.replica_id.unique_id)
    publisher = Publisher(source, reporter, find_feed)
    return PeriodicTask("The console's feed", publisher.step, PERIOD_S)


async def find_feed() -> FeedHandle:
    """Return the feed, asking Ray for it in a thread.

    Raises:
        NoFeedError: there is no feed.
    """
    try:
        return FeedHandle(await asyncio.to_thread(ray.get_actor, NAME, NAMESPACE))
    except ValueError as error:
        raise NoFeedError("no console is deployed") from error


async def create_feed() -> FeedHandle:
    """Return the feed, after creating one if necessary; it lives as long as this process."""
    return FeedHandle(await asyncio.to_thread(_create))


def _create() -> ActorHandle:
    actor: ActorHandle = (
        ray.remote(ConsoleFeed)
        .options(
            name=NAME,
            namespace=NAMESPACE,
            get_if_exists=True,
            num_cpus=0,
            max_concurrency=MAX_REPLICAS,
            # Ray would keep an event of each call, several a second, and crowd out all others
            enable_task_events=False,
        )
        .remote()
    )
    return actor


def lower_priority() -> None:
    """Give all threads of this process the lowest priority."""
    for thread in Path("/proc/self/task").iterdir():
        with contextlib.suppress(ProcessLookupError):
            os.setpriority(os.PRIO_PROCESS, int(thread.name), _LOWEST_PRIORITY)
