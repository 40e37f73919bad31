"""The replicas' way to the actor: what Ray raises there, and commits over the channel."""

from __future__ import annotations

import asyncio
import pickle
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
import ray.exceptions
from ray.actor import ActorHandle

from deployments.channel import Address
from deployments.stateful.authority.authority import StateAuthority
from deployments.stateful.options import StateOptions
from deployments.stateful.protocol import (
    Authority,
    AuthorityUnavailableError,
    Hello,
    Key,
    OpenedSession,
    StaleSessionError,
    TooManyStatesError,
)
from deployments.stateful.ray.client import RayAuthority
from deployments.stateful.ray.commit_channel import CommitServer
from deployments.stateful.replica.leases import StateLeases
from tests.unit.stateful.authorities import join, make_authority
from tests.unit.stateful.models import initial_state
from tests.unit.stateful.ray.serving import serving

KEY = Key("run", "300839359")


class Failing:
    """Looks like a handle; every call of every method raises the error."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def __getattr__(self, method: str) -> Any:
        if method == "remote":
            return self._raise
        return self

    async def _raise(self, *arguments: object) -> None:
        raise self._error


def authority_raising(error: Exception) -> RayAuthority:
    return RayAuthority(lambda: cast(ActorHandle, Failing(error)))


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
    ],
    ids=lambda error: type(error).__name__,
)
async def test_an_error_of_ray_means_that_the_authority_is_away(error):
    with pytest.raises(AuthorityUnavailableError):
        await authority_raising(error).open_session(Hello("replica"))


async def test_what_the_authority_itself_says_is_passed_on():
    said = ray.exceptions.RayTaskError("open_session", "", StaleSessionError("ended"))
    error = pickle.loads(pickle.dumps(said)).as_instanceof_cause()
    with pytest.raises(StaleSessionError):
        await authority_raising(error).open_session(Hello("replica"))


async def test_what_the_authority_says_is_its_own_sentence_and_not_rays_traceback():
    said = TooManyStatesError(100_000, 77)
    error = ray.exceptions.RayTaskError("checkout", 'File "/secret/path", ip=10.0.0.7', said)
    crossed = pickle.loads(pickle.dumps(error)).as_instanceof_cause()
    assert "/secret/path" in str(crossed), "as Ray words it"
    with pytest.raises(TooManyStatesError) as caught:
        await authority_raising(crossed).open_session(Hello("replica"))
    assert str(caught.value) == str(said)
    assert caught.value.retry_after_s == 77
    assert caught.value.__cause__ is None


@pytest.mark.parametrize(
    "error",
    [
        ray.exceptions.TaskCancelledError(),
        ray.exceptions.RayTaskError(
            "checkout", "", ray.exceptions.TaskCancelledError()
        ).as_instanceof_cause(),
    ],
    ids=["cancelled", "cancelled in the actor"],
)
async def test_a_call_that_ray_cancels_leaves_the_session_in_doubt_and_is_no_defect(error):
    with pytest.raises(AuthorityUnavailableError):
        await authority_raising(error).open_session(Hello("replica"))


async def test_a_defect_of_the_authority_is_not_taken_for_its_absence():
    said = ray.exceptions.RayTaskError("open_session", "", ZeroDivisionError())
    with pytest.raises(ZeroDivisionError):
        await authority_raising(said.as_instanceof_cause()).open_session(Hello("replica"))


class Handle:
    """Looks like the actor's handle; the authority behind it is the real one, its commits slow."""

    def __init__(self, authority: StateAuthority) -> None:
        self._authority = authority
        self.server = CommitServer(cast(Authority, self))
        self.address: Address

    async def commit(self, *arguments: Any) -> list[Key]:
        await asyncio.sleep(0.002)
        return await self._authority.commit(*arguments)

    def __getattr__(self, name: str) -> Any:
        if name == "connect":
            return SimpleNamespace(remote=self._connect)
        return SimpleNamespace(remote=getattr(self._authority, name))

    async def _connect(self, hello: Hello) -> tuple[OpenedSession, Address]:
        return await self._authority.open_session(hello), self.address


@pytest.mark.parametrize("moment_ms", [0, 2, 4, 6, 8, 10, 12])
async def test_closing_while_a_commit_is_under_way_loses_no_step_and_no_session(moment_ms):
    authority = await make_authority(StateOptions())
    handle = Handle(authority)
    async with serving(handle.server) as handle.address:
        leases = StateLeases(
            RayAuthority(lambda: cast(ActorHandle, handle)),
            "replica",
            initial_state,
            StateOptions(),
        )
        await leases.start()
        await leases.acquire(KEY)
        state = leases.owned(KEY)
        assert state is not None
        loop = asyncio.get_running_loop()
        end = loop.time() + 0.02 + moment_ms / 1000
        while loop.time() < end:
            leases.advance(state, np.ones(128, np.float32))
            await asyncio.sleep(0.0005)
        await leases.close()
        other = await join(authority, "other")
        async with asyncio.timeout(0.5):  # else the state still has its owner
            grant = await authority.checkout(other, KEY)
        assert grant.version.step == state.version.step
        authority.stop()
