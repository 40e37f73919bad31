"""The authority over states and engines of replicas in one event loop, without Ray or faults."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Mapping
from itertools import count

from deployments.stateful.authority.authority import StateAuthority
from deployments.stateful.layout import Partition
from deployments.stateful.options import StateOptions
from deployments.stateful.protocol import Key
from deployments.stateful.replica.engine import StatefulEngine
from deployments.stateful.replica.leases import InitialState, StateLeases
from deployments.store import Expected


class DictStore:
    """Implements :class:`deployments.stateful.layout.StateStore` for one table."""

    def __init__(self) -> None:
        self.rows: dict[str, bytes] = {}

    async def get(self, table: str, key: str) -> bytes | None:
        return self.rows.get(key)

    async def change(
        self,
        table: str,
        puts: Mapping[str, bytes],
        deletes: Collection[str] = (),
        *,
        when: Expected,
    ) -> bool:
        if self.rows.get(when.key) != when.value:
            return False
        for key in deletes:
            self.rows.pop(key, None)
        self.rows.update(puts)
        return True

    async def scan(self, table: str) -> AsyncIterator[tuple[str, bytes]]:
        for row in list(self.rows.items()):
            yield row


class HealthyCluster:
    """Implements :class:`deployments.stateful.layout.Cluster`: everything is alive and current."""

    session = "session"
    process = "node/1/1"

    async def is_alive(self, replica: str) -> bool:
        return True

    async def has_ended(self, process: str) -> bool:
        return False

    async def is_current(self) -> bool:
        return True

    async def note(self, name: str, value: str) -> str:
        return value

    async def noted(self, prefix: str) -> list[str]:
        return [f"{prefix}0"]

    async def retire(self, partition: Partition) -> None:
        raise AssertionError("there is no earlier layout")


class LocalStates:
    """States of one application, whose replicas share the event loop with their authority.

    Attributes:
        store: of the authority.
    """

    def __init__(self, options: StateOptions, initial_state: InitialState) -> None:
        partition = Partition()
        self.store = DictStore()
        self.store.rows[partition.row] = b""  # as the first layout has it
        self._clock = asyncio.get_running_loop().time
        self.authority = StateAuthority(
            options,
            self.store,
            "states",
            partition,
            HealthyCluster(),
            initial_state(Key("", "")).nbytes,
            on_end=_fail,
            clock=self._clock,
        )
        self._options = options
        self._initial_state = initial_state
        self._names = (f"replica-{n}" for n in count())

    async def start_engine(self) -> StatefulEngine:
        """Start the engine of one more replica."""
        leases = StateLeases(
            self.authority,
            next(self._names),
            self._initial_state,
            self._options,
            clock=self._clock,
        )
        engine = StatefulEngine([leases], self._options)
        await engine.start()
        return engine

    def stop(self) -> None:
        self.authority.stop()


def _fail(error: BaseException) -> None:
    raise AssertionError("the authority has ended") from error
