"""What users see of the client: the same calls twice, with signatures, and little to install."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from typing import Any

import greenwave.client
from greenwave.client import (
    AsyncClient,
    Client,
)
from greenwave.client.aio import groups as awaited_groups
from greenwave.client.blocking import groups as blocking_groups


def public(kind: type) -> dict[str, str]:
    """Return the signatures of a class's methods, without what awaiting changes in them."""
    return {
        name: re.sub(r"Awaitable\[(.*)\]", r"\1", str(inspect.signature(member)))
        for name, member in vars(kind).items()
        if not name.startswith("_") and callable(member)
    }


def test_both_clients_have_the_same_calls() -> None:
    kinds: list[tuple[Any, Any]] = [(Client, AsyncClient)]
    for name, kind in vars(blocking_groups).items():
        if inspect.isclass(kind) and issubclass(kind, blocking_groups.Group):
            kinds.append((kind, getattr(awaited_groups, name)))
    assert len(kinds) > 8
    for blocking, awaiting in kinds:
        assert public(blocking) == public(awaiting)


def test_help_tells_what_a_call_takes_and_returns() -> None:
    blocking, awaiting = Client("http://gateway"), AsyncClient("http://gateway")
    for client, returned in ((blocking, "Decision"), (awaiting, "Awaitable[Decision]")):
        act = client.run().act
        assert str(inspect.signature(act)).startswith("(junction: 'str', observation:")
        assert inspect.signature(act).return_annotation == returned
        assert (act.__doc__ or "").startswith("Ask which phase a junction shall show next")


def test_a_machine_that_only_calls_needs_nothing_of_what_serves() -> None:
    heavy = {"deployments", "fastapi", "httpx", "models", "numpy", "ray", "serve_app", "starlette"}
    listed = "import greenwave.client, sys; print(*sys.modules)"
    result = subprocess.run([sys.executable, "-c", listed], capture_output=True, check=True)
    assert heavy & set(result.stdout.decode().split()) == set()


def test_all_public_names_are_exported() -> None:
    errors = {
        name for name, each in vars(greenwave.client.errors).items() if inspect.isclass(each)
    } - {"Mapping"}
    assert errors <= set(greenwave.client.__all__)
