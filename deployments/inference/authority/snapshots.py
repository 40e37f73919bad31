"""Copies of hidden states in the store, so that they outlive the authority's process.

Snapshots follow the authority at a distance of at most one period. A state without an owner does
not change, so its snapshot is exact; a state with an owner is claimed by that owner after a restart
of the authority. What a snapshot alone must carry is a restart of everything, and that continues
from it only when asked to.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import struct
from collections.abc import AsyncIterator, Collection, Mapping
from typing import NamedTuple, Protocol
from urllib.parse import quote

import numpy as np

from deployments.inference.protocol import Floats, Key, Version
from models.policy.form import HIDDEN_DIM

logger = logging.getLogger(__name__)

TABLE = "hidden_states"
_HEADER = struct.Struct("<16sqq")  # cluster, epoch, step
_BLOB_SIZE = _HEADER.size + HIDDEN_DIM * np.dtype(np.float32).itemsize
_FLUSH_TIMEOUT_S = 2.0


class Snapshot(NamedTuple):
    version: Version
    hidden: Floats


class BlobStore(Protocol):
    """The part of the store that snapshots need."""

    async def put_many(self, table: str, blobs: Mapping[str, bytes]) -> None: ...

    async def delete_many(self, table: str, keys: Collection[str]) -> int: ...

    def scan(self, table: str) -> AsyncIterator[tuple[str, bytes]]: ...


class Snapshots(Protocol):
    """Where the authority puts copies. ``put`` and ``erase`` only note what is to be written."""

    def put(self, key: Key, snapshot: Snapshot) -> None: ...

    def erase(self, key: Key) -> None: ...

    def hurry(self) -> None:
        """Write soon: states have lost their owner."""

    async def flush(self) -> None:
        """Return when everything noted so far is written, or could not be within the deadline."""

    async def load(self) -> list[tuple[Key, Snapshot]]: ...


class NoSnapshots:
    """States live in memory alone."""

    def put(self, key: Key, snapshot: Snapshot) -> None: ...

    def erase(self, key: Key) -> None: ...

    def hurry(self) -> None: ...

    async def flush(self) -> None: ...

    async def load(self) -> list[tuple[Key, Snapshot]]:
        return []


class StoreSnapshots:
    """Snapshots in the project's store.

    Args:
        store: where the blobs go.
        cluster: 16 bytes that name this start of Ray. ``load`` drops snapshots of another,
        restore: unless this is set.
        shard: number of this authority and number of authorities, which share the table,
        app: as do several applications.
    """

    def __init__(
        self,
        store: BlobStore,
        cluster: bytes,
        restore: bool,
        shard: tuple[int, int] = (0, 1),
        app: str = "",
    ) -> None:
        self._store = store
        self._cluster = cluster
        self._restore = restore
        self._prefix = f"{quote(app, safe='')}/{shard[0]}/{shard[1]}/"
        self._pending: dict[Key, Snapshot | None] = {}  # None: to be erased
        self._wake = asyncio.Event()
        self._writing = asyncio.Lock()

    def put(self, key: Key, snapshot: Snapshot) -> None:
        self._pending[key] = snapshot

    def erase(self, key: Key) -> None:
        self._pending[key] = None

    def hurry(self) -> None:
        self._wake.set()

    async def flush(self) -> None:
        try:
            await asyncio.wait_for(self._write(), _FLUSH_TIMEOUT_S)
        except Exception as error:  # the store's troubles must not stop the signals
            logger.warning("Hidden states could not be saved; trying again: %s", error)

    async def run(self, period_s: float) -> None:
        """Write what is pending, once in ``period_s`` seconds or when hurried; for ever."""
        while True:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), period_s)
            self._wake.clear()
            await self.flush()

    async def _write(self) -> None:
        async with self._writing:
            pending, self._pending = self._pending, {}
            try:
                puts = {self._name(key): self._pack(s) for key, s in pending.items() if s}
                erased = [self._name(key) for key, s in pending.items() if s is None]
                if puts:
                    await self._store.put_many(TABLE, puts)
                if erased:
                    await self._store.delete_many(TABLE, erased)
            except BaseException:
                self._pending = pending | self._pending  # what came meanwhile is newer
                raise

    async def load(self) -> list[tuple[Key, Snapshot]]:
        loaded: list[tuple[Key, Snapshot]] = []
        try:
            async with asyncio.timeout(30):
                async for name, blob in self._store.scan(TABLE):
                    if not name.startswith(self._prefix):
                        continue
                    key = Key(*name.removeprefix(self._prefix).split("/", 1))
                    snapshot = self._unpack(blob)
                    if snapshot is None:
                        self.erase(key)
                    else:
                        loaded.append((key, snapshot))
        except Exception as error:
            logger.error("Saved hidden states could not be read; going on without: %s", error)
        return loaded

    def _name(self, key: Key) -> str:
        return f"{self._prefix}{key.run}/{key.junction}"

    def _pack(self, snapshot: Snapshot) -> bytes:
        header = _HEADER.pack(self._cluster, *snapshot.version)
        return header + snapshot.hidden.tobytes()

    def _unpack(self, blob: bytes) -> Snapshot | None:
        if len(blob) != _BLOB_SIZE:
            logger.error("A saved hidden state of %d bytes is not one of this policy's", len(blob))
            return None
        cluster, epoch, step = _HEADER.unpack_from(blob)
        if cluster != self._cluster and not self._restore:
            return None
        return Snapshot(Version(epoch, step), np.frombuffer(blob, np.float32, offset=_HEADER.size))
