"""The policy on several replicas and on several shards of states, on the running system."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from load_tests.harness.system import System, application


@pytest.fixture(scope="package")
def several(system: System) -> Iterator[None]:
    """Serve three replicas below ``/many``, and two with two shards below ``/sync``."""
    system.deploy(
        application("many", "/many", replicas=3),
        application("sync", "/sync", replicas=2, durability="actor", shards=2),
    )
    yield
    system.remove("many", "sync")
