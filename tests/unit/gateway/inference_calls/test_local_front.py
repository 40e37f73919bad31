"""Where the local front is, with a stand-in for Serve's client."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

from deployments.gateway.inference_calls import local_front
from deployments.gateway.inference_calls.local_front import find_base_url


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> Any:
    endpoints: dict[Any, dict[str, Any]] = {}

    async def get_all_endpoints() -> dict[Any, dict[str, Any]]:
        return endpoints

    controller = SimpleNamespace(get_all_endpoints=SimpleNamespace(remote=get_all_endpoints))
    config = SimpleNamespace(host="127.0.0.1", port=8000)
    client = SimpleNamespace(_controller=controller, http_config=config, endpoints=endpoints)
    monkeypatch.setattr(local_front, "_get_global_client", lambda: client)
    return client


class Deployment(NamedTuple):
    app_name: str


def add(client: Any, application: str, route: str | None) -> None:
    client.endpoints[Deployment(app_name=application)] = {"route": route}


@pytest.mark.parametrize(
    ("host", "route", "base"),
    [
        ("127.0.0.1", "/", "http://127.0.0.1:8000"),
        ("0.0.0.0", "/many", "http://127.0.0.1:8000/many"),
        ("::", "/", "http://127.0.0.1:8000"),
        (None, "/", "http://127.0.0.1:8000"),
        ("10.1.2.3", "/", "http://10.1.2.3:8000"),
        ("::1", "/", "http://[::1]:8000"),
    ],
)
async def test_the_base_is_made_of_serves_address_and_the_applications_route(
    client, host, route, base
):
    client.http_config.host = host
    add(client, "gateway", "/api")
    add(client, "inference", route)
    assert await find_base_url("inference") == base


async def test_an_application_that_is_not_there_or_has_no_route_is_an_error(client):
    add(client, "inference", None)
    for name in ("inference", "other"):
        with pytest.raises(LookupError, match=name):
            await find_base_url(name)
