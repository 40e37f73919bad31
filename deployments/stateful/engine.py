"""The engine of one replica: the states of an application, of which it owns none."""

from __future__ import annotations

import asyncio
import gc
import heapq
import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, Self

import numpy as np

from deployments.stateful.batcher import LONGEST_OUTAGE_S, PAUSE_S, Batcher, Shard
from deployments.stateful.errors import OutcomeUnknownError, UnavailableError
from deployments.stateful.model import Model
from deployments.stateful.options import StateOptions
from deployments.stateful.page import boot_clock
from deployments.stateful.row import Array, RowForm, key_of, name_of, variant_of
from deployments.stateful.shards import shard_of
from deployments.stateful.table import Listed, Operation, Table, runs_in
from deployments.store import Store

CHANGE_TIMEOUT_S = 4.0


class RunSummary(NamedTuple):
    """A run.

    Attributes:
        steps: of each entity, of every variant of the model: by entity and variant.
        idle_s: since its last step.
    """

    run: str
    steps: dict[tuple[str, int], int]
    idle_s: float

    def steps_of(self, namespace: str) -> dict[str, int]:
        """Return the steps of the entities that a variant has stepped."""
        variant = variant_of(namespace)
        return {entity: n for (entity, own), n in self.steps.items() if own == variant and n}


class Engine:
    """The states of an application. Every change is in the table before its method returns.

    Args:
        shards: all of them, in their order.
        form: of the rows.
        durable: whether a change is in the store before its method returns.
    """

    def __init__(self, shards: Sequence[Shard], form: RowForm, durable: bool = False) -> None:
        self.form = form
        self._durable = durable
        self._shards = shards

    @classmethod
    async def connect(
        cls,
        options: StateOptions,
        state: Array,
        output: np.dtype[Any],
        tag: str,
        open_store: Callable[[], Store],
    ) -> Self:
        """Return the engine of the Serve replica that this is called in.

        Args:
            state: an initial state, for its data type and shape.
            output: :attr:`.model.Model.output` of the models.
            tag: names what the states belong to. While there are states of one tag, a replica with
                another one does not start.
            open_store: opens the store of the copies, here and in the state actors.

        Raises:
            ForeignStatesError: the states belong to another tag.
            UnavailableError: the state actors or the store did not answer within a minute.
        """
        # Serve takes a second to import, and whoever reads options needs none of it.
        from ray import serve

        from deployments.ray_private.serve import writes_json
        from deployments.stateful.link import connect_tables

        # Requests make many objects and little garbage, for which Python looks too often.
        gc.set_threshold(100_000, 50, 100)
        form = RowForm(np.dtype((state.dtype, state.shape)), output)
        app, store = serve.get_replica_context().app_name, open_store()
        try:
            shards = await connect_tables(options, form, tag, open_store, store, app, writes_json())
        finally:
            await store.close()
        return cls(shards, form, durable=options.durability == "durable")

    def batcher(
        self, model: Callable[[], Model | None], namespace: str = "", step_span: str = "step"
    ) -> Batcher:
        """Return a batcher, which steps the states of a model or of one variant of it.

        Args:
            model: returns the model, which must be there when a step is requested.
            namespace: of the variant's states.
        """
        return Batcher(self._shards, self.form, self._durable, model, namespace, step_span)

    def _shard(self, run: str) -> Shard:
        return self._shards[shard_of(run, len(self._shards))]

    async def reset(
        self, run: str, request_id: str | None = None, *, kind: str = "reset", result: Any = None
    ) -> Any:
        """Remove every state of a run: its next steps start from initial states.

        Args:
            request_id: an idempotency key, the same for every attempt; it is done once.
            kind: of the operation; those of other kinds have other keys.
            result: JSON that is remembered with the key.

        Returns:
            The result, or that of the first attempt.

        Raises:
            StateError: nothing was changed, unless it is an OutcomeUnknownError.
        """
        return await self._replace(kind, run, {}, request_id, result)

    async def done(self, kind: str, run: str, request_id: str) -> Any:
        """Return the result of an operation that was made before, or None."""
        operation = Operation(kind, run, request_id)
        return (await self._call(self._shard(run), "operation", operation))[1]

    async def read(self, run: str, namespace: str = "") -> dict[str, tuple[int, Array]]:
        """Return steps and state of each entity of a run that a variant has stepped."""
        rows = await self._rows_of(run)
        variant, states = variant_of(namespace), dict[str, tuple[int, Array]]()
        for name, raw in rows.items():
            (row,) = self.form.rows(raw)
            if row["variant"] == variant and row["step"]:  # one kept aside is older, and later here
                states.setdefault(key_of(name).entity, (int(row["step"]), row["state"]))
        return states

    async def write(
        self,
        run: str,
        states: Mapping[str, tuple[int, Array]],
        namespace: str = "",
        request_id: str | None = None,
    ) -> dict[str, int]:
        """Let a run begin anew from these states, by entity, with the numbers of their steps.

        Returns:
            The steps, or those of the first attempt with this idempotency key.

        Raises:
            TooManyStatesError: the run is as it was.
        """
        rows, now = {}, int(boot_clock())
        for entity, (step, state) in states.items():
            row = np.zeros(1, self.form.dtype)
            row["step"], row["state"], row["used"] = step, state, now
            row["variant"] = variant_of(namespace)
            rows[name_of(run, entity)] = row.tobytes()
        steps = {entity: step for entity, (step, _) in states.items()}
        return dict(await self._replace("import", run, rows, request_id, steps))

    async def fork(
        self, run: str, fork: str, namespace: str = "", request_id: str | None = None
    ) -> dict[str, int]:
        """Let a run begin anew from all states of another one, with those of other variants.

        Returns:
            The steps of the entities that a variant has stepped; none: nothing has changed.
        """
        if request_id is not None:
            known = await self.done("fork", fork, request_id)
            if known is not None:
                return dict(known)
        rows, now, steps = {}, int(boot_clock()), dict[str, int]()
        for name, raw in (await self._rows_of(run)).items():
            copy = bytearray(self.form.without_receipts(raw))
            (row,) = self.form.rows(copy)
            row["used"] = now
            entity = key_of(name).entity
            if row["variant"] == variant_of(namespace) and row["step"]:
                steps.setdefault(entity, int(row["step"]))
            rows[fork.encode() + name[len(run.encode()) :]] = bytes(copy)
        return dict(await self._replace("fork", fork, rows, request_id, steps)) if steps else {}

    async def runs(self, limit: int) -> list[RunSummary]:
        """Return the runs that were used last, the latest first."""
        latest = list[tuple[int, str, RunSummary]]()
        for shard in self._shards:
            async for rows in runs_in(partial(self._list, shard)):
                summary = _summary(rows)
                item = max(row.used for row in rows), summary.run, summary
                (heapq.heappush if len(latest) < limit else heapq.heappushpop)(latest, item)
        return [summary for _, _, summary in sorted(latest, reverse=True)]

    async def _list(self, shard: Shard, after: bytes) -> list[Listed]:
        rows: list[Listed] = (await self._call(shard, "list", after))[1]
        return rows

    async def find(self, run: str) -> RunSummary | None:
        """Return a run, None if it has no states."""
        rows = [
            Listed(name, int(row["step"]), int(row["variant"]), int(row["used"]))
            for name, raw in (await self._rows_of(run)).items()
            for row in self.form.rows(raw)
        ]
        return _summary(rows) if rows else None

    @property
    def connected(self) -> bool:
        """Whether every table can be changed: one that is mapped needs no home for a while."""
        for shard in self._shards:
            table = shard.table
            if isinstance(table, Table):
                if boot_clock() >= table.page.valid_until:
                    return False
            elif not shard.connected:
                return False
        return True

    def take_longest_wait_s(self) -> float:
        """Return how long a change has waited at most for others, since the last call."""
        tables = [shard.table for shard in self._shards if isinstance(shard.table, Table)]
        longest = max((table.longest_lock_s for table in tables), default=0.0)
        for table in tables:
            table.longest_lock_s = 0.0
        return longest

    async def close(self) -> None:
        """Leave the tables."""
        await asyncio.gather(*(shard.close() for shard in self._shards))

    async def _rows_of(self, run: str) -> dict[bytes, bytes]:
        rows: dict[bytes, bytes] = (await self._call(self._shard(run), "rows_of", run))[1]
        return rows

    async def _replace(
        self, kind: str, run: str, rows: dict[bytes, bytes], request_id: str | None, result: Any
    ) -> Any:
        shard, operation = self._shard(run), Operation(kind, run, request_id)
        try:
            async with asyncio.timeout(CHANGE_TIMEOUT_S):
                table, result = await self._call(shard, "replace", operation, rows, result)
                if self._durable:
                    await self._copied(shard, table)
        except TimeoutError as error:
            raise OutcomeUnknownError from error
        return result

    @staticmethod
    async def _call(shard: Shard, method: str, *arguments: Any) -> tuple[Any, Any]:
        """Call a method of a table, here or on another machine; wait a while for one that is away.

        Returns:
            The table, and what the method returned.
        """
        clock = asyncio.get_running_loop().time
        until = clock() + LONGEST_OUTAGE_S
        while True:
            table = shard.table
            call = getattr(table, method)
            try:
                if inspect.iscoroutinefunction(call):
                    return table, await call(*arguments)
                # an import of thousands of states must not stop the event loop
                return table, await asyncio.to_thread(call, *arguments)
            except UnavailableError:
                if clock() > until:
                    raise
            await asyncio.sleep(PAUSE_S)

    @staticmethod
    async def _copied(shard: Shard, table: Any) -> None:
        try:
            latest = table.latest()
            await shard.copied(table, await latest if inspect.isawaitable(latest) else latest)
        except UnavailableError as error:  # which would say that nothing was changed
            raise OutcomeUnknownError from error


def _summary(rows: Sequence[Listed]) -> RunSummary:
    """Return the summary of a run, from all of its rows."""
    steps = {(key_of(row.name).entity, row.variant): row.step for row in reversed(rows)}
    idle_s = boot_clock() - max(row.used for row in rows)
    return RunSummary(key_of(rows[0].name).run, steps, max(0.0, idle_s))
