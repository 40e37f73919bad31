"""The replicas' way to the actor: whatever Ray raises there means that the authority is away."""

from __future__ import annotations

import pickle
from typing import Any, cast

import pytest
import ray.exceptions
from ray.actor import ActorHandle

from deployments.inference.protocol import AuthorityUnavailableError, StaleSessionError
from deployments.inference.wire.client import RayAuthority


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
        await authority_raising(error).listen(1)


async def test_what_the_authority_itself_says_is_passed_on():
    said = ray.exceptions.RayTaskError("listen", "", StaleSessionError("ended"))
    error = pickle.loads(pickle.dumps(said)).as_instanceof_cause()
    with pytest.raises(StaleSessionError):
        await authority_raising(error).listen(1)


async def test_a_defect_of_the_authority_is_not_taken_for_its_absence():
    said = ray.exceptions.RayTaskError("listen", "", ZeroDivisionError())
    with pytest.raises(ZeroDivisionError):
        await authority_raising(said.as_instanceof_cause()).listen(1)
