"""One system for all attacks, which are made once, all at the same time."""

import asyncio
from typing import cast

import pytest

from deployments.access.claims import Claims
from deployments.access.keys import Keys, key_of_secret
from deployments.access.revocations import Revocations, UserRule
from deployments.access.tokens import Tokens
from deployments.store import Store
from tests.adversary.attack import Outcome, attack_all
from tests.adversary.rows import ATTACKS, tokens
from tests.edge.conftest import many_sockets as many_sockets
from tests.services.system import USER, running_services
from tests.unit.access.memory_store import MemoryStore
from tests.unit.gateway.conftest import PASSWORD_HASH, SECRET


class Rule(UserRule):
    """Revokes one token, and those of another password, which have another seal."""

    def revokes(self, token: Claims) -> bool:
        return token.token_id == tokens.REVOKED or super().revokes(token)


@pytest.fixture(scope="session")
def system(tmp_path_factory):
    keys = Keys([key_of_secret(SECRET), *tokens.OTHER_KEYS])
    rule = Rule(cast(Store, MemoryStore()), {USER: PASSWORD_HASH})
    verifying = Tokens(keys, 3600, 5.0, revocations=Revocations([rule]))
    with running_services(tmp_path_factory.mktemp("system"), verifying) as running:
        yield running


@pytest.fixture(scope="session")
def outcomes(system):
    """Return what came of each attack, by place and name."""
    listeners = system.edge.listeners()
    places = {
        "edge": listeners,
        "fallback": system.degraded.listeners(),
        "front": dict.fromkeys(listeners, ("127.0.0.1", system.front)),
    }
    token = Tokens(Keys.of_secret(SECRET), 3600, 5.0).issue(USER)

    async def attack() -> dict[tuple[str, str], Outcome]:
        per_place = [
            attack_all([each for each in ATTACKS if place in each.places], ports, token)
            for place, ports in places.items()
        ]
        found = dict(zip(places, await asyncio.gather(*per_place), strict=True))
        return {(place, name): each for place in places for name, each in found[place].items()}

    return asyncio.run(attack())
