"""What the authority asks of Ray."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import ray
from ray.actor import ActorHandle
from ray.exceptions import ActorDiedError, RayError

from deployments.ray_private.core import SERVE_NAMESPACE, read_actor_process
from deployments.stateful.layout import Partition
from deployments.stateful.protocol import AuthorityUnavailableError, HiddenStateError
from deployments.stateful.ray.process import has_ended, name_of_this_process

ANSWER_TIMEOUT_S = 0.5
GIVE_UP_TIMEOUT_S = 5.0

T = TypeVar("T")


class RayCluster:
    """Implements :class:`~deployments.stateful.authority.cluster.Cluster` in a state actor.

    Args:
        find: returns the state actor of a partition, creating it when there is none.
    """

    def __init__(self, find: Callable[[Partition], ActorHandle]) -> None:
        context = ray.get_runtime_context()
        self._find = find
        self._node = context.get_node_id()
        self._actor_id = context.get_actor_id() or ""
        # Without the GCS a look-up hangs, so they have threads of their own.
        self._threads = ThreadPoolExecutor(4, thread_name_prefix="ray-look-up")
        self.session = context.get_session_name()
        self.process = name_of_this_process(self._node)

    async def is_alive(self, replica: str) -> bool:
        """Tell it, but of a replica that is merely slow: its lease will run out."""
        try:
            actor = await self._look_up(lambda: ray.get_actor(replica, SERVE_NAMESPACE))
            await asyncio.wait_for(actor.__ray_ready__.remote(), ANSWER_TIMEOUT_S)
        except (ValueError, ActorDiedError):
            return False
        except (TimeoutError, RayError):  # RayError: one of a network in trouble tells of no death
            return True
        return True

    async def has_ended(self, process: str) -> bool:
        return has_ended(process, self._node)

    async def is_current(self) -> bool:
        try:
            node, pid = await self._look_up(lambda: read_actor_process(self._actor_id))
        except Exception as error:  # whatever the GCS client raises
            raise AuthorityUnavailableError(f"Ray does not tell: {error!r}") from error
        return f"{node}/{pid}/" == self.process[: self.process.rindex("/") + 1]

    async def give_up(self, partition: Partition) -> None:
        try:
            actor = await self._look_up(lambda: self._find(partition))
            await asyncio.wait_for(actor.give_up.remote(), GIVE_UP_TIMEOUT_S)
        except (TimeoutError, RayError, HiddenStateError) as error:
            raise AuthorityUnavailableError(str(error).split("\n")[0]) from error

    async def _look_up(self, ask: Callable[[], T]) -> T:
        loop = asyncio.get_running_loop()
        return await asyncio.wait_for(loop.run_in_executor(self._threads, ask), ANSWER_TIMEOUT_S)
