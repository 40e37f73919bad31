"""One replica's leases with every authority, when hidden states are spread over several."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import fields

from deployments.stateful.layout import shard_of
from deployments.stateful.protocol import Floats, Key, Receipt
from deployments.stateful.replica.held_state import HeldState
from deployments.stateful.replica.held_states import LeaseCounts
from deployments.stateful.replica.leases import StateLeases
from deployments.trace_context import Trace


class ShardedLeases:
    """Offers the leases of one or more authorities as one."""

    def __init__(self, shards: Sequence[StateLeases]) -> None:
        self._shards = shards

    def _of(self, key: Key) -> StateLeases:
        return self._shards[shard_of(key, len(self._shards)) if len(self._shards) > 1 else 0]

    def owned(self, key: Key) -> HeldState | None:
        return self._of(key).owned(key)

    def advance(self, state: HeldState, hidden: Floats, receipt: Receipt | None = None) -> None:
        self._of(state.key).advance(state, hidden, receipt)

    def trace_commit(self, key: Key, traces: list[Trace]) -> None:
        self._of(key).trace_commit(traces)

    def answers_wait(self, key: Key) -> bool:
        return self._of(key).answers_wait()

    async def acquire(self, key: Key) -> None:
        await self._of(key).acquire(key)

    async def reset(self, run: str) -> None:
        await asyncio.gather(*(shard.reset(run) for shard in self._shards))

    @property
    def connected(self) -> bool:
        return all(shard.connected for shard in self._shards)

    @property
    def uncommitted_s(self) -> float:
        """Age of the oldest step that is not committed, 0 when there is none."""
        return max(shard.uncommitted_s for shard in self._shards)

    @property
    def counts(self) -> LeaseCounts:
        """Sums over the shards; of the commit lag, the longest."""
        total = LeaseCounts()
        for field in fields(LeaseCounts):
            values = [getattr(shard.counts, field.name) for shard in self._shards]
            setattr(total, field.name, max(values) if field.name == "commit_lag_s" else sum(values))
        return total

    async def start(self) -> None:
        await asyncio.gather(*(shard.start() for shard in self._shards))

    def check_health(self) -> None:
        for shard in self._shards:
            shard.check_health()

    async def close(self) -> None:
        await asyncio.gather(*(shard.close() for shard in self._shards))
