"""One authority by itself, for tests that speak the protocol with it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import count
from typing import Any

import numpy as np

from deployments.stateful.authority.authority import StateAuthority
from deployments.stateful.layout import Partition, agree_on_layout
from deployments.stateful.options import StateOptions
from deployments.stateful.protocol import (
    AuthorityUnavailableError,
    ClaimPart,
    Grant,
    Hello,
    Key,
    Receipt,
    StateBatch,
    Version,
)
from tests.unit.stateful.memory_store import MemoryStore
from tests.unit.stateful.options import FAST

TABLE = "states:test"

CALLS = count(1)
STATE_BYTES = 512


class FakeCluster:
    """A cluster as one authority sees it.

    Attributes:
        dead: replicas that are known to be dead.
        ended: processes of authorities.
        current: whether this process is the one that the cluster knows; None: it does not tell.
        answers_after_s: it tells after so long.
    """

    def __init__(self, session: str = "first", process: str = "node/1/1") -> None:
        self.session = session
        self.process = process
        self.dead: set[str] = set()
        self.ended: set[str] = set()
        self.current: bool | None = True
        self.answers_after_s = 0.0
        self.asked_to_retire: list[Partition] = []

    async def is_alive(self, replica: str) -> bool:
        await asyncio.sleep(0.001)
        return replica not in self.dead

    async def has_ended(self, process: str) -> bool:
        return process in self.ended

    async def is_current(self) -> bool:
        await asyncio.sleep(self.answers_after_s)
        if self.current is None:
            raise AuthorityUnavailableError("the cluster does not answer")
        return self.current

    async def retire(self, partition: Partition) -> None:
        self.asked_to_retire.append(partition)


def now() -> float:
    return asyncio.get_running_loop().time()


def batch(key: Key, version: Version, fill: float = 1.0, *receipts: Receipt) -> StateBatch:
    states = np.full((1, 128), fill, np.float32).view(np.uint8)
    return StateBatch([key], [version], states, {key: receipts} if receipts else {})


def value_of(state: bytes | None) -> float | None:
    """Return what a state of `batch` was filled with, None for the initial state."""
    return None if state is None else float(np.frombuffer(state, np.float32)[0])


class NumberingAuthority(StateAuthority):
    """Numbers the calls of whoever does not do so."""

    async def checkout(self, session: int, key: Key, call: int | None = None) -> Grant:
        return await super().checkout(session, key, call or next(CALLS))

    async def commit(
        self, session: int, states: StateBatch, released: list[Key], call: int | None = None
    ) -> list[Key]:
        return await super().commit(session, states, released, call or next(CALLS))

    async def reset(self, session: int, run: str, call: int | None = None) -> None:
        await super().reset(session, run, call or next(CALLS))


async def make_authority(
    options: StateOptions = FAST,
    store: MemoryStore | None = None,
    cluster: FakeCluster | None = None,
    partition: Partition | None = None,
    on_end: Callable[[BaseException], None] = lambda error: None,
) -> NumberingAuthority:
    """Make an authority that takes its partition at the first call."""
    store = store or MemoryStore()
    if partition is None:
        partition = (await agree_on_layout(store, TABLE, options, "test")).partitions[0]
    return NumberingAuthority(
        options, store, TABLE, partition, cluster or FakeCluster(), STATE_BYTES, on_end, clock=now
    )


async def restart(
    store: MemoryStore, options: StateOptions = FAST, process: str = "node/2/2"
) -> NumberingAuthority:
    """Make the next life of the authority, whose predecessor is known to have ended."""
    cluster = FakeCluster(process=process)
    cluster.ended = {"node/1/1"}
    return await make_authority(options, store, cluster)


async def join(
    authority: StateAuthority,
    replica: str,
    part: ClaimPart | None = None,
    **hello: Any,
) -> int:
    """Open a session with a claim, and return its number."""
    opened = await authority.open_session(Hello(replica, 1, **hello))
    await authority.claim(opened.session, part or ClaimPart())
    return opened.session
