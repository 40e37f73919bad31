"""A cluster that commands, rollouts and the supervisor call."""

from collections.abc import Iterator

import pytest

from tests.support.fake_ray import FakeRay, fake_ray


@pytest.fixture
def ray_api() -> Iterator[FakeRay]:
    with fake_ray() as fake:
        yield fake
