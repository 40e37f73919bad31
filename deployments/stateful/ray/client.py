"""The replicas' way to the state actor."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from ray.actor import ActorHandle
from ray.exceptions import RayError, RayTaskError, TaskCancelledError

from deployments.stateful.protocol import (
    AuthorityUnavailableError,
    Claimed,
    ClaimPart,
    Grant,
    Hello,
    HiddenStateError,
    Key,
    OpenedSession,
    StateBatch,
)
from deployments.stateful.ray.commit_channel import CommitChannel, encode_commit
from deployments.trace_context import CURRENT

logger = logging.getLogger("ray.serve")


class RayAuthority:
    """The authority behind a Ray actor handle; implements
    :class:`~deployments.stateful.protocol.Authority`.

    Args:
        find: returns a handle, creating the actor when there is none.
    """

    def __init__(self, find: Callable[[], ActorHandle]) -> None:
        self._find = find
        self._actor: ActorHandle | None = None
        self._channel: CommitChannel | None = None
        self._opening: asyncio.Task[None] | None = None

    async def open_session(self, hello: Hello) -> OpenedSession:
        self._close_channel()
        try:
            if self._actor is None:
                self._actor = await asyncio.to_thread(self._find)
            opened: OpenedSession = await self._call("open_session", hello)
        except AuthorityUnavailableError:
            self._actor = None
            raise
        # Behind the session: an address that nobody answers must not keep it from beginning.
        self._opening = asyncio.create_task(self._open_channel())
        return opened

    async def _open_channel(self) -> None:
        try:
            address = await self._call("commit_address")
            self._channel = await CommitChannel.open(address) if address else None
        except (OSError, AuthorityUnavailableError) as error:
            logger.warning("Commits go by actor calls, which is slower: %s", error)

    def _close_channel(self) -> None:
        if self._opening is not None:
            self._opening.cancel()
            self._opening = None
        if self._channel is not None:
            self._channel.close()
            self._channel = None

    async def claim(self, session: int, part: ClaimPart) -> Claimed:
        claimed: Claimed = await self._call("claim", session, part)
        return claimed

    async def listen(self, session: int) -> list[Key]:
        recalls: list[Key] = await self._call("listen", session)
        return recalls

    async def checkout(self, session: int, key: Key, call: int) -> Grant:
        grant: Grant = await self._call("checkout", session, key, call)
        return grant

    async def commit(
        self, session: int, states: StateBatch, released: list[Key], call: int
    ) -> list[Key]:
        payload = encode_commit(session, states, released, call, CURRENT.get())
        if self._channel is not None:
            return await self._channel.commit(payload)
        refused: list[Key] = await self._call("commit_message", payload)
        return refused

    async def reset(self, session: int, run: str, call: int) -> None:
        await self._call("reset", session, run, call)

    async def close_session(self, session: int) -> None:
        await self._call("close_session", session)
        self._close_channel()

    async def _call(self, method: str, *args: Any) -> Any:
        if self._actor is None:
            raise AuthorityUnavailableError("the state actor has not been found yet")
        try:
            return await getattr(self._actor, method).remote(*args)
        except RayTaskError as error:
            match error.cause:
                case HiddenStateError():  # without the traceback that is Ray's text of it
                    raise error.cause from None
                case TaskCancelledError():  # by Ray, whose caller of another call has gone
                    raise AuthorityUnavailableError("the call was cancelled") from error
                case _:
                    raise
        except RayError as error:
            raise AuthorityUnavailableError(str(error).split("\n")[0]) from error
