"""A replica's connection to the state actors, and the engine on top of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import ray
from ray import serve
from ray.actor import ActorHandle
from ray.exceptions import RayError, RayTaskError, TaskCancelledError

from deployments.ray_private.serve import writes_json
from deployments.stateful.admission import Claimant, admit
from deployments.stateful.layout import Partition, table_of
from deployments.stateful.options import StateOptions
from deployments.stateful.protocol import (
    NOTHING_SEEN,
    AuthorityUnavailableError,
    Claimed,
    ClaimPart,
    Grant,
    Hello,
    Key,
    OpenedSession,
    RunSummary,
    StateBatch,
    StateError,
)
from deployments.stateful.ray.actor import ActorConfig, OpenStore, collect_garbage_seldom
from deployments.stateful.ray.cluster import has_ended
from deployments.stateful.ray.commit_channel import CommitChannel, encode_commit
from deployments.stateful.replica.engine import StatefulEngine
from deployments.stateful.replica.leases import InitialState, StateLeases
from deployments.stateful.replica.pending import PendingSteps
from deployments.store import Store
from deployments.trace_context import CURRENT
from deployments.tracing.process import TracingOptions


async def connect_engine(
    options: StateOptions,
    initial_state: InitialState,
    tag: str,
    open_store: OpenStore,
    store: Store,
    tracing: TracingOptions | None = None,
) -> StatefulEngine:
    """Return the engine of the replica that this is called in, not started yet.

    Args:
        initial_state: returns the state of a key before its first step.
        tag: names what the states belong to. While there are states of one tag, a replica with
            another one does not start.
        open_store: opens the store in a state actor.
        store: the same store, opened in this replica.

    Raises:
        ClusterClaimedError, ForeignStatesError: the states belong to another cluster or tag.
        TimeoutError: the store did not serve within a minute.
    """
    collect_garbage_seldom()
    context = ray.get_runtime_context()
    app, replica = serve.get_replica_context().app_name, context.get_actor_name() or ""
    claimant = Claimant(context.get_session_name(), tag)
    layout = await admit(store, table_of(app), claimant, options, has_ended)
    pending, state_bytes = PendingSteps(), initial_state(Key("", "")).nbytes
    config = ActorConfig(app, options, open_store, state_bytes, writes_json())

    def leases(partition: Partition) -> StateLeases:
        def find() -> ActorHandle:
            actor = config.find(partition)
            # An actor that exists already has the options of its creator.
            actor.configure.remote(options, tracing)
            return actor

        authority = RayAuthority(find)
        return StateLeases(
            authority, replica, initial_state, options, partition.generation, pending=pending
        )

    return StatefulEngine([leases(partition) for partition in layout.partitions], options)


class RayAuthority:
    """The authority behind a Ray actor handle; implements
    :class:`~deployments.stateful.protocol.Authority`.

    Args:
        find: returns a handle, creating the actor if necessary.
    """

    def __init__(self, find: Callable[[], ActorHandle]) -> None:
        self._find = find
        self._actor: ActorHandle | None = None
        self._channel: CommitChannel | None = None
        self._seen = NOTHING_SEEN

    async def open_session(self, hello: Hello) -> OpenedSession:
        self._close_channel()
        try:
            if self._actor is None:
                self._actor = await asyncio.to_thread(self._find)
            opened, address = await self._call("connect", replace(hello, seen=self._seen))
            self._channel = await CommitChannel.open(address)
        except AuthorityUnavailableError:
            self._actor = None
            raise
        session: OpenedSession = opened
        return session

    def _close_channel(self) -> None:
        if self._channel is not None:
            self._channel.close()
            self._channel = None

    async def claim(self, session: int, part: ClaimPart) -> Claimed:
        claimed: Claimed = await self._call("claim", session, part)
        return claimed

    async def listen(self, session: int) -> list[Key]:
        recalls: list[Key]
        recalls, self._seen = await self._call("poll", session)
        return recalls

    async def checkout(self, session: int, key: Key, call: int) -> Grant:
        grant: Grant = await self._call("checkout", session, key, call)
        return grant

    async def commit(
        self, session: int, states: StateBatch, released: list[Key], call: int
    ) -> list[Key]:
        if self._channel is None:
            raise AuthorityUnavailableError("There is no connection to the state actor")
        frame = encode_commit(session, states, released, call, CURRENT.get())
        return await self._channel.commit(frame)

    async def reset(self, session: int, run: str, call: int) -> None:
        await self._call("reset", session, run, call)

    async def read(self, session: int, run: str) -> StateBatch:
        states: StateBatch = await self._call("read", session, run)
        return states

    async def write(self, session: int, run: str, states: StateBatch, call: int) -> None:
        await self._call("write", session, run, states, call)

    async def runs(self, session: int, limit: int) -> list[RunSummary]:
        summaries: list[RunSummary] = await self._call("runs", session, limit)
        return summaries

    async def close_session(self, session: int) -> None:
        await self._call("close_session", session)
        self._close_channel()

    async def _call(self, method: str, *args: Any) -> Any:
        if self._actor is None:
            raise AuthorityUnavailableError("The state actor has not been found yet")
        try:
            return await getattr(self._actor, method).remote(*args)
        except RayTaskError as error:
            match error.cause:
                case StateError():  # without Ray's text of the traceback
                    raise error.cause from None
                case TaskCancelledError():  # Ray cancels it with the caller of another call
                    raise AuthorityUnavailableError("The call was cancelled") from error
                case _:
                    raise
        except RayError as error:
            raise AuthorityUnavailableError(str(error).split("\n")[0]) from error
