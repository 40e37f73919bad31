"""The replicas' way to the state actor."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import ray
from ray.actor import ActorHandle
from ray.exceptions import RayError, RayTaskError

from deployments.inference.options import InferenceOptions
from deployments.inference.protocol import (
    AuthorityUnavailableError,
    Claim,
    Grant,
    Key,
    OpenedSession,
    StateBatch,
)
from deployments.inference.wire.actor import HiddenStates, OpenStore
from deployments.inference.wire.commit_channel import CommitChannel, encode_commit

logger = logging.getLogger(__name__)

NAMESPACE = "greenwave"

T = TypeVar("T")


class RayAuthority:
    """The authority behind a Ray actor handle; implements
    :class:`~deployments.inference.protocol.Authority`.

    Args:
        find: returns a handle, creating the actor when there is none.
    """

    def __init__(self, find: Callable[[], ActorHandle]) -> None:
        self._find = find
        self._actor = find()
        self._channel: CommitChannel | None = None

    async def open_session(self, replica: str, claim: Claim) -> OpenedSession:
        self._close_channel()
        try:
            opened: OpenedSession = await self._call(
                self._actor.open_session.remote, replica, claim
            )
            self._channel = await self._open_channel()
        except AuthorityUnavailableError:
            self._actor = await asyncio.to_thread(self._find)
            raise
        return opened

    async def _open_channel(self) -> CommitChannel | None:
        address = await self._call(self._actor.commit_address.remote)
        try:
            return await CommitChannel.open(address) if address else None
        except OSError as error:
            logger.warning("Commits go by actor calls, which is slower: %s", error)
            return None

    def _close_channel(self) -> None:
        if self._channel is not None:
            self._channel.close()
            self._channel = None

    async def listen(self, session: int) -> list[Key]:
        return await self._call(self._actor.listen.remote, session)

    async def checkout(self, session: int, key: Key) -> Grant:
        return await self._call(self._actor.checkout.remote, session, key)

    async def commit(self, session: int, states: StateBatch, released: list[Key]) -> list[Key]:
        payload = encode_commit(session, states, released)
        if self._channel is not None:
            return await self._channel.commit(payload)
        return await self._call(self._actor.commit_message.remote, payload)

    async def reset(self, run: str) -> int:
        return await self._call(self._actor.reset.remote, run)

    async def close_session(self, session: int) -> None:
        await self._call(self._actor.close_session.remote, session)
        self._close_channel()

    async def _call(self, method: Callable[..., Coroutine[Any, Any, T]], *args: Any) -> T:
        try:
            return await method(*args)
        except RayTaskError:  # what the authority itself has raised
            raise
        except RayError as error:
            raise AuthorityUnavailableError(str(error).split("\n")[0]) from error


def find_authority(
    app: str, options: InferenceOptions, open_store: OpenStore | None, shard: tuple[int, int]
) -> ActorHandle:
    """Return the named actor of a shard, created by whichever replica comes first."""
    actor: ActorHandle = (
        ray.remote(HiddenStates)
        .options(
            name=f"hidden_states:{app}:{shard[0]}/{shard[1]}",
            namespace=NAMESPACE,
            lifetime="detached",
            get_if_exists=True,
            max_restarts=-1,
            max_concurrency=10_000,  # long-polls and checkouts wait inside
            num_cpus=0,
        )
        .remote(app, options, open_store, shard)
    )
    actor.configure.remote(options)
    return actor
