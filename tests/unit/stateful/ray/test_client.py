"""A replica's calls to the state actor: errors of Ray, and commits over the channel."""

from __future__ import annotations

import asyncio
import pickle
from types import SimpleNamespace
from typing import Any, cast

import pytest
import ray.exceptions
from ray.actor import ActorHandle

from deployments.stateful.authority.authority import StateAuthority
from deployments.stateful.options import StateOptions
from deployments.stateful.protocol import (
    Authority,
    AuthorityUnavailableError,
    ClaimPart,
    Hello,
    Key,
    OpenedSession,
    StaleSessionError,
    StateBatch,
    TooManyStatesError,
)
from deployments.stateful.ray.channel import Address
from deployments.stateful.ray.client import RayAuthority
from deployments.stateful.ray.commit_channel import CommitServer
from deployments.stateful.replica.held_state import HeldBatch
from deployments.stateful.replica.leases import StateLeases
from tests.unit.stateful.authorities import join, make_authority
from tests.unit.stateful.models import MODEL
from tests.unit.stateful.ray.serving import serving

KEY = Key("run", "300839359")


class FailingHandle:
    """Looks like a handle; every call of every method raises the error."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def __getattr__(self, method: str) -> Any:
        return self._raise if method == "remote" else self

    async def _raise(self, *arguments: object) -> None:
        raise self._error


def authority_raising(error: Exception) -> RayAuthority:
    return RayAuthority(lambda: cast(ActorHandle, FailingHandle(error)))


def raised_in_actor(cause: Exception, traceback: str = "") -> Exception:
    """Return an error of the actor as the caller gets it."""
    error = ray.exceptions.RayTaskError("method", traceback, cause)
    return cast(Exception, pickle.loads(pickle.dumps(error)).as_instanceof_cause())


@pytest.mark.parametrize(
    "error",
    [
        ray.exceptions.ActorDiedError(),
        ray.exceptions.ActorUnavailableError("away", bytes(16)),
        ray.exceptions.OutOfMemoryError("killed"),
        ray.exceptions.NodeDiedError("gone"),
        ray.exceptions.OwnerDiedError("00" * 28, None, ""),
        ray.exceptions.RpcError("reset"),
        ray.exceptions.RaySystemError(RuntimeError("x")),
        ray.exceptions.TaskCancelledError(),
        raised_in_actor(ray.exceptions.TaskCancelledError()),
    ],
    ids=lambda error: type(error).__name__,
)
async def test_an_error_of_ray_means_that_the_authority_is_unavailable(error):
    with pytest.raises(AuthorityUnavailableError):
        await authority_raising(error).open_session(Hello("replica"))


@pytest.mark.parametrize("error", [StaleSessionError("ended"), ZeroDivisionError()], ids=repr)
async def test_an_error_of_the_authority_reaches_the_replica(error):
    with pytest.raises(type(error)):
        await authority_raising(raised_in_actor(error)).open_session(Hello("replica"))


async def test_an_error_of_the_authority_has_its_own_text_and_not_that_of_ray():
    cause = TooManyStatesError(100_000, 77)
    error = raised_in_actor(cause, 'File "/secret/path", ip=10.0.0.7')
    assert "/secret/path" in str(error), "as Ray words it"
    with pytest.raises(TooManyStatesError) as caught:
        await authority_raising(error).open_session(Hello("replica"))
    assert str(caught.value) == str(cause)
    assert caught.value.retry_after_s == 77
    assert caught.value.__cause__ is None


class Handle:
    """Looks like a handle to an actor with the real authority, whose commits are slow."""

    def __init__(self, authority: StateAuthority) -> None:
        self.authority = authority
        self.server = CommitServer(cast(Authority, self))
        self.address: Address

    async def commit(self, *arguments: Any) -> list[Key]:
        await asyncio.sleep(0.002)
        return await self.authority.commit(*arguments)

    async def _connect(self, hello: Hello) -> tuple[OpenedSession, Address]:
        return await self.authority.open_session(hello), self.address

    def __getattr__(self, name: str) -> Any:
        method = self._connect if name == "connect" else getattr(self.authority, name)
        return SimpleNamespace(remote=method)


async def test_a_session_fails_without_the_channel_and_the_actor_is_looked_up_again():
    handle, found = Handle(await make_authority(StateOptions())), list[None]()
    await handle.authority.start()

    def find() -> ActorHandle:
        found.append(None)
        return cast(ActorHandle, handle)

    authority = RayAuthority(find)
    async with serving(handle.server) as address:
        handle.address = address._replace(port=1)
        with pytest.raises(AuthorityUnavailableError, match="Cannot connect to the state actor at"):
            await authority.open_session(Hello("replica", 1))
        with pytest.raises(AuthorityUnavailableError, match="no connection"):
            await authority.commit(1, StateBatch(), [], 1)
        handle.address = address
        opened = await authority.open_session(Hello("replica", 1))
        assert len(found) == 2
        await authority.claim(opened.session, ClaimPart())
        assert await authority.commit(opened.session, StateBatch(), [], 1) == []
        await authority.close_session(opened.session)
    handle.authority.stop()


@pytest.mark.parametrize("moment_ms", [0, 2, 4, 6, 8, 10, 12])
async def test_closing_during_a_commit_loses_no_step_and_no_session(moment_ms):
    authority = await make_authority(StateOptions())
    handle = Handle(authority)
    async with serving(handle.server) as handle.address:
        leases = StateLeases(
            RayAuthority(lambda: cast(ActorHandle, handle)),
            "replica",
            MODEL.initial_state,
            StateOptions(),
        )
        await leases.start()
        await leases.acquire(KEY)
        state = leases.owned(KEY)
        assert state is not None
        loop = asyncio.get_running_loop()
        end = loop.time() + 0.02 + moment_ms / 1000
        while loop.time() < end:
            leases.advance(HeldBatch([state], state.slab), state.state[None] + 1)
            await asyncio.sleep(0.0005)
        await leases.close()
        other = await join(authority, "other")
        async with asyncio.timeout(0.5):  # else the state still has its owner
            grant = await authority.checkout(other, KEY)
        assert grant.version.step == state.version.step
        authority.stop()
