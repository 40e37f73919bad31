"""Every route of every service bounds the body that it takes, and says so in the service's form."""

from __future__ import annotations

from unittest.mock import Mock

import pytest

from deployments.gateway.api import create_app
from deployments.http.fast_routes import Route
from models.networks.shipped import SHIPPED
from tests.unit.http.apps import client_of
from tools.openapi import apps

# The gateway looks at the token before the body: this one's holds.
APPS = dict(apps()) | {"gateway": create_app(Mock(network=SHIPPED))}
TAKING: dict[str, tuple[str, str, str, Route]] = {
    f"{name} {method} {path}": (name, method, path, route)
    for name, app in APPS.items()
    for (method, path), route in app.state.fast_routes._routes.items()
    if route.max_body is not None
}
MESSAGES = {"gateway": "message", "accounts": "detail", "loans": "detail", "cards": "detail"}


def test_every_service_has_routes_that_take_a_body():
    assert {name for name, *_ in TAKING.values()} == set(APPS)


@pytest.mark.parametrize("which", TAKING)
@pytest.mark.parametrize("told", [True, False], ids=["with a length", "in chunks"])
async def test_one_byte_more_is_413(which, told):
    name, method, path, route = TAKING[which]
    assert route.max_body is not None
    body = b"[" * (route.max_body + 1)

    async def chunks():
        for start in range(0, len(body), 65_536):
            yield body[start : start + 65_536]

    headers = {"Content-Type": "application/json"}
    async with client_of(APPS[name]) as client:
        content = body if told else chunks()
        answer = await client.request(method, path, content=content, headers=headers)
    assert answer.status_code == 413
    assert "json" in answer.headers["content-type"]
    member = "error" if path.startswith("/v2/") else MESSAGES.get(name, "detail")
    assert isinstance(answer.json()[member], str)
    assert len(answer.content) < 1000
