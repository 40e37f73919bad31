"""What a home asks Ray and the operating system: which processes live, and which node is its own.

Homes are spread over the nodes, and again when a node has joined.
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import ray

from deployments.ray_private.core import read_actor_places, read_actor_process
from deployments.stateful.errors import UnavailableError
from deployments.stateful.files import boot_id

ANSWER_TIMEOUT_S = 0.5


def name_of_this_process() -> str:
    """Return a name that no other process of any cluster has, or will have."""
    return f"{_machine()}/{os.getpid()}/{_started(os.getpid())}"


async def has_ended(process: str) -> bool:
    """Return whether a process is known to have ended; processes of other machines are unknown."""
    machine, pid, started = process.split("/")
    return machine == _machine() and _started(int(pid)) != started


def _machine() -> str:
    """Name the kernel's start and the namespace in which process numbers count."""
    return f"{boot_id()}.{os.stat('/proc/self/ns/pid').st_ino}"


def _started(pid: int) -> str | None:
    """Return when a living process was started, in clock ticks since boot; see proc(5)."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    state, *fields = stat.rpartition(")")[2].split()
    return None if state in "ZX" else fields[18]


class RayCluster:
    """Implements :class:`~deployments.stateful.home.Cluster` in a state actor."""

    def __init__(self) -> None:
        context = ray.get_runtime_context()
        self._node = context.get_node_id()
        self._actor_id = context.get_actor_id() or ""
        # A look-up hangs without the GCS, so look-ups have separate threads.
        self._threads = ThreadPoolExecutor(4, thread_name_prefix="ray-look-up")
        self.session = context.get_session_name()
        self.process = name_of_this_process()

    has_ended = staticmethod(has_ended)

    async def is_current(self) -> bool:
        loop = asyncio.get_running_loop()
        ask = partial(read_actor_process, self._actor_id)
        try:
            async with asyncio.timeout(ANSWER_TIMEOUT_S):
                found = await loop.run_in_executor(self._threads, ask)
        except Exception as error:  # whatever the GCS client raises
            raise UnavailableError(f"Ray does not answer: {error!r}") from error
        return found == (self._node, os.getpid())


def choose_node(shard: int, nodes: Collection[str], taken: Collection[str]) -> str | None:
    """Return one of the nodes with the fewest state actors, None if there is no node.

    Actors that are created at the same moment, unaware of each other, get different ones.

    Args:
        taken: the node of each existing state actor.
    """
    n_actors = Counter(taken)
    fewest = min((n_actors[node] for node in nodes), default=0)
    free = sorted(node for node in nodes if n_actors[node] == fewest)
    return free[shard % len(free)] if free else None


def is_misplaced(name: str, places: Mapping[str, str], nodes: Collection[str]) -> bool:
    """Return whether this one of several state actors should move.

    It should if its node is not for state actors, or if it is the one to leave a node that has two
    more than another.

    Args:
        places: the node of each actor by name.
        nodes: those that state actors may be on.
    """
    here = places.get(name)
    if here is None or not nodes:
        return False
    n_actors = Counter(places.values())
    crowded = n_actors[here] - min(n_actors[node] for node in nodes) > 1
    leaves = name == max(each for each, node in places.items() if node == here)
    return leaves and (crowded or here not in nodes)


def serving_nodes() -> list[str]:
    """Return the living nodes that have CPUs. The head may have none, so that it serves nothing."""
    return [
        node["NodeID"] for node in ray.nodes() if node["Alive"] and node["Resources"].get("CPU")
    ]


def read_places(prefix: str) -> dict[str, str]:
    """Return the node of each living actor whose name begins with ``prefix``."""
    places = read_actor_places()
    return {name: node for name, node in places.items() if name.startswith(prefix)}
