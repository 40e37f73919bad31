"""The engine of one replica: its leases under every authority, and the batchers on top."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from itertools import chain
from operator import methodcaller
from typing import Any, Protocol

from deployments.stateful.layout import shard_of
from deployments.stateful.options import StateOptions
from deployments.stateful.protocol import Key, Output, RunSummary, StateError, Version
from deployments.stateful.replica.held_state import HeldBatch, HeldCopy, HeldState
from deployments.stateful.replica.held_states import LeaseCounts, batch_of
from deployments.stateful.replica.leases import StateLeases
from deployments.stateful.replica.pending import Answerable
from deployments.stateful.replica.queues import StepResults
from deployments.stateful.replica.rows import Keys
from deployments.stateful.replica.slab import Array

_responses_wait = methodcaller("responses_wait")


class Model(Protocol):
    """A recurrent model. Its states are arrays of one data type and shape, of at least one axis."""

    def initial_state(self, key: Key) -> Array:
        """Return the state of a key before its first step."""

    def step(self, inputs: Any, states: Array) -> tuple[Sequence[Output | StateError], Array]:
        """Advance B states by one step each.

        Args:
            inputs: B of what the callers of :meth:`.batcher.Batcher.submit` passed, as a list; or
                what a caller of :meth:`.batcher.Batcher.submit_rows` passed, of B rows.
            states: (B, \\*shape), which the model must not write into.

        Returns:
            B outputs, each a tuple of JSON scalars, and the new states (B, \\*shape). An error in
            place of an output fails that request, and leaves its state as it was.
        """


class StatefulEngine:
    """The states that one replica owns, under one authority or several.

    Args:
        shards: the leases under each authority, in the order of the shards. They share their
            pending steps.
    """

    def __init__(self, shards: Sequence[StateLeases], options: StateOptions) -> None:
        self.options = options
        self._shards = shards
        self._pending = shards[0].pending
        self._slab = self._pending.slab

    def leases_of(self, key: Key) -> StateLeases:
        """Return the leases under the authority of a key."""
        return self._shards[shard_of(key, len(self._shards)) if len(self._shards) > 1 else 0]

    def all_owned(self, keys: Sequence[Key]) -> list[HeldState | None]:
        """Return the state of each key that may be stepped now."""
        if len(self._shards) == 1:
            return self._shards[0].all_owned(keys)
        return [self.leases_of(key).owned(key) for key in keys]

    def select(self, keys: Keys) -> HeldBatch | None:
        """Return the states of the keys; None unless they differ and may all be stepped now."""
        if not all(shard.may_step for shard in self._shards):
            return None
        selections = self._slab.selections
        held: HeldBatch | None = selections.get(keys)
        if held is None:
            states = [each for each in self.all_owned(keys) if each is not None]
            if len(states) == len(keys) == len(set(states)):
                held = selections[keys] = self.batch_of(states)
        return held

    def batch_of(self, states: Iterable[HeldState]) -> HeldBatch:
        """Return different states as a batch."""
        return HeldBatch(states, self._slab)

    def advance(self, held: HeldBatch, states: Array) -> None:
        """Record a step of each of B owned states; see StateLeases."""
        if len(self._shards) == 1:
            self._shards[0].advance(held, states)
            return
        rows: dict[StateLeases, list[int]] = {}
        for row, key in enumerate(held.by_key):
            rows.setdefault(self.leases_of(key), []).append(row)
        for leases, some in rows.items():
            leases.advance(held.part(some), states[some])

    def let_wait(self, held: HeldBatch, batch: Answerable, results: StepResults) -> None:
        """Let responses wait until the steps of B states are committed."""
        self._pending.add(held, batch, results)

    def responses_wait(self) -> bool:
        """Whether responses must wait for the commits of their steps (invariant 9)."""
        return any(map(_responses_wait, self._shards))  # a generator takes longer than the calls

    async def reset(self, run: str) -> None:
        """Clear a run in every replica; every step after the return starts from initial states.

        Raises:
            OutcomeUnknownError: it was not confirmed in time.
        """
        await asyncio.gather(*(shard.reset(run) for shard in self._shards))

    async def read(self, run: str) -> list[HeldCopy]:
        """Return every state of a run but initial ones; those of a shard are of one moment.

        Raises:
            OutcomeUnknownError: there was no answer in time.
        """
        return list(chain(*await asyncio.gather(*(shard.read(run) for shard in self._shards))))

    async def write(self, run: str, states: Mapping[Key, tuple[int, Array]]) -> None:
        """Begin a run anew from these states of the run; of each, the number of its steps, too.

        Raises:
            OutcomeUnknownError: it was not confirmed in time.
            TooManyStatesError: the limit on states is reached; some shards may have the run.
        """
        of_shards: list[list[HeldCopy]] = [[] for _ in self._shards]
        for key, (step, state) in states.items():
            copy = HeldCopy(key, Version(0, step), state, ())
            of_shards[shard_of(key, len(self._shards))].append(copy)
        await asyncio.gather(
            *(
                shard.write(run, batch_of(copies))
                for shard, copies in zip(self._shards, of_shards, strict=True)
            )
        )

    async def runs(self, limit: int) -> list[RunSummary]:
        """Return the runs that were used last, the latest first.

        Raises:
            OutcomeUnknownError: there was no answer in time.
        """
        merged: dict[str, RunSummary] = {}
        for summaries in await asyncio.gather(*(shard.runs(limit) for shard in self._shards)):
            for each in summaries:
                other = merged.get(each.run, RunSummary(each.run, {}, math.inf, []))
                merged[each.run] = RunSummary(
                    each.run,
                    {**other.steps, **each.steps},
                    min(other.idle_s, each.idle_s),
                    sorted({*other.owners, *each.owners}),
                )
        return sorted(merged.values(), key=lambda each: each.idle_s)[:limit]

    @property
    def connected(self) -> bool:
        """Whether this replica has a valid lease from every authority."""
        return all(shard.connected for shard in self._shards)

    @property
    def uncommitted_s(self) -> float:
        """Age of the oldest uncommitted step, or 0."""
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
        """Open a session with every authority."""
        await asyncio.gather(*(shard.start() for shard in self._shards))

    def check_health(self) -> None:
        """Raise if a background loop has failed."""
        for shard in self._shards:
            shard.check_health()

    async def close(self) -> None:
        """Commit what is left and give every state back, within a deadline."""
        await asyncio.gather(*(shard.close() for shard in self._shards))
