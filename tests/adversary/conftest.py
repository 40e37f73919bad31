"""One system for all attacks, which are made once, all at the same time."""

import asyncio

import pytest

from tests.adversary.attack import Outcome, attack_all
from tests.adversary.rows import ATTACKS
from tests.edge.conftest import many_sockets as many_sockets
from tests.services.conftest import system as system
from tests.services.system import USER
from tests.unit.gateway.conftest import make_tokens


@pytest.fixture(scope="session")
def outcomes(system):
    """Return what came of each attack, by place and name."""
    listeners = system.edge.listeners()
    places = {
        "edge": listeners,
        "fallback": system.degraded.listeners(),
        "front": dict.fromkeys(listeners, ("127.0.0.1", system.front)),
    }
    token = make_tokens().issue(USER)

    async def attack() -> dict[tuple[str, str], Outcome]:
        per_place = [
            attack_all([each for each in ATTACKS if place in each.places], ports, token)
            for place, ports in places.items()
        ]
        found = dict(zip(places, await asyncio.gather(*per_place), strict=True))
        return {(place, name): each for place in places for name, each in found[place].items()}

    return asyncio.run(attack())
