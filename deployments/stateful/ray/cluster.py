"""What an authority asks of Ray and of the operating system about other processes."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

import ray
from ray.actor import ActorHandle
from ray.exceptions import ActorDiedError, RayError

from deployments.ray_private.core import SERVE_NAMESPACE, note, noted, read_actor_process
from deployments.stateful.layout import Partition
from deployments.stateful.protocol import AuthorityUnavailableError, StateError

ANSWER_TIMEOUT_S = 0.5
RETIRE_TIMEOUT_S = 5.0

T = TypeVar("T")


def name_of_this_process() -> str:
    """Return a name that no other process of any cluster has, or will have."""
    return f"{_machine()}/{os.getpid()}/{_started(os.getpid())}"


async def has_ended(process: str) -> bool:
    """Return whether a process is known to have ended; processes of other machines are unknown."""
    machine, pid, started = process.split("/")
    return machine == _machine() and _started(int(pid)) != started


def _machine() -> str:
    """Name the kernel's start and the namespace in which process numbers count."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return f"{boot}.{os.stat('/proc/self/ns/pid').st_ino}"


def _started(pid: int) -> str | None:
    """Return when a living process was started, in clock ticks since boot; see proc(5)."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    state, *fields = stat.rpartition(")")[2].split()
    return None if state in "ZX" else fields[18]


class RayCluster:
    """Implements :class:`~deployments.stateful.layout.Cluster` in a state actor.

    Args:
        app: name of the application.
        find: returns the state actor of a partition, created if necessary.
    """

    def __init__(self, app: str, find: Callable[[Partition], ActorHandle]) -> None:
        context = ray.get_runtime_context()
        self._find = find
        self._node = context.get_node_id()
        self._actor_id = context.get_actor_id() or ""
        # A look-up hangs without the GCS, so look-ups have separate threads.
        self._threads = ThreadPoolExecutor(4, thread_name_prefix="ray-look-up")
        self.session = context.get_session_name()
        self.process = name_of_this_process()
        # A GCS with a store has notes of earlier starts, too.
        self._notes = f"{self.session}/{app}/"

    async def is_alive(self, replica: str) -> bool:
        """Return False for a dead replica; True for a slow one, whose lease will expire."""
        try:
            actor = await self._look_up(lambda: ray.get_actor(replica, SERVE_NAMESPACE))
            await asyncio.wait_for(actor.__ray_ready__.remote(), ANSWER_TIMEOUT_S)
        except (ValueError, ActorDiedError):
            return False
        except (TimeoutError, RayError):  # other RayErrors mean network trouble, not death
            return True
        return True

    async def has_ended(self, process: str) -> bool:
        return await has_ended(process)

    async def is_current(self) -> bool:
        node, pid = await self._require(lambda: read_actor_process(self._actor_id))
        return (node, pid) == (self._node, os.getpid())

    async def note(self, name: str, value: str) -> str:
        return await self._require(lambda: note(self._notes + name, value))

    async def noted(self, prefix: str) -> list[str]:
        return await self._require(lambda: noted(self._notes + prefix))

    async def retire(self, partition: Partition) -> None:
        try:
            actor = await self._look_up(lambda: self._find(partition))
            await asyncio.wait_for(actor.give_up.remote(), RETIRE_TIMEOUT_S)
        except (TimeoutError, RayError, StateError) as error:
            raise AuthorityUnavailableError(str(error).split("\n")[0]) from error

    async def _require(self, ask: Callable[[], T]) -> T:
        try:
            return await self._look_up(ask)
        except Exception as error:  # whatever the GCS client raises
            raise AuthorityUnavailableError(f"Ray does not answer: {error!r}") from error

    async def _look_up(self, ask: Callable[[], T]) -> T:
        loop = asyncio.get_running_loop()
        return await asyncio.wait_for(loop.run_in_executor(self._threads, ask), ANSWER_TIMEOUT_S)
